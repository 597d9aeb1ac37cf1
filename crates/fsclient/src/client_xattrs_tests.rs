//! Xattrs that tell of layouts, statistics and capabilities.

use super::tests::{DIR, INO, Rig, answers, asked_mds, dir_stat, requests};
use super::*;
use crate::key::InodeKey;
use maps::MdsRank;
use msgs::{CapBody, CapFile, Caps, ClientCaps, ClientReply, InodeStat, MdsOp, cap, cap_op};
use wire::Timespec;

impl Rig {
    fn xattr(&mut self, ino: u64, name: &str) -> Outs {
        self.ask(FsRequest::Getxattr { ino, name: name.as_bytes().to_vec() })
    }

    /// The value of an xattr that is known without asking.
    fn value(&mut self, ino: u64, name: &str) -> Result<String, Errno> {
        match &answers(&self.xattr(ino, name))[..] {
            [Ok(Answer::Data(data))] => Ok(String::from_utf8(data.to_vec()).expect("text")),
            [Err(errno)] => Err(*errno),
            other => panic!("{name}: {other:?}"),
        }
    }
}

#[test]
fn layouts_are_told_by_field_and_only_where_they_are_set() {
    let mut rig = Rig::with_dir(cap::PIN | cap::ANY_SHARED);
    let whole = "stripe_unit=4194304 stripe_count=1 object_size=4194304 pool=0";
    for (field, value) in [
        ("", whole),
        (".stripe_unit", "4194304"),
        (".stripe_count", "1"),
        (".object_size", "4194304"),
        (".pool", "0"),
        (".pool_id", "0"),
        (".pool_namespace", ""),
    ] {
        assert_eq!(rig.value(INO, &format!("ceph.file.layout{field}")), Ok(value.into()), "{field}");
        for other in [format!("ceph.dir.layout{field}"), format!("ceph.file.layout{field}")] {
            assert_eq!(rig.value(DIR, &other), Err(Errno::ENODATA), "a directory without");
        }
    }
    assert_eq!(rig.value(INO, "ceph.dir.layout"), Err(Errno::ENODATA));
    assert_eq!(rig.value(INO, "ceph.file.layout.size"), Err(Errno::ENODATA));
    let mut stat = InodeStat { version: 2, pool_ns: "ns".into(), ..dir_stat(1, cap::PIN | cap::ANY_SHARED) };
    (stat.layout.stripe_unit, stat.layout.stripe_count, stat.layout.object_size) = (65536, 2, 131_072);
    stat.layout.pool = 7;
    rig.client.cache.learn_inode(MdsRank(0), &stat);
    let whole = "stripe_unit=65536 stripe_count=2 object_size=131072 pool=7 pool_namespace=ns";
    assert_eq!(rig.value(DIR, "ceph.dir.layout"), Ok(whole.into()));
    assert_eq!(rig.value(DIR, "ceph.dir.layout.pool_namespace"), Ok("ns".into()));
    assert_eq!(rig.value(DIR, "ceph.file.layout"), Err(Errno::ENODATA));
}

#[test]
fn directories_tell_as_json_which_layout_they_inherit() {
    let known = cap::PIN | cap::ANY_SHARED;
    let mut rig = Rig::with_dir(known);
    let json = |unit: u32, pool: u32, from: &str| {
        format!(
            "{{\"stripe_unit\": {unit}, \"stripe_count\": 1, \"object_size\": 4194304, \"pool_name\": \"\", \
             \"pool_id\": {pool}, \"pool_namespace\": \"\", \"inheritance\": \"{from}\"}}"
        )
    };
    assert_eq!(rig.value(INO, "ceph.file.layout.json"), Ok(json(4 << 20, 0, "@set")));
    assert_eq!(rig.value(INO, "ceph.dir.layout.json"), Err(Errno::ENODATA));
    assert_eq!(rig.value(DIR, "ceph.file.layout.json"), Err(Errno::ENODATA));
    let with_layout = |ino, unit: u32, bits: u32| {
        let mut stat = InodeStat { ino, version: 2, ..dir_stat(1, bits) };
        (stat.layout.stripe_unit, stat.layout.stripe_count, stat.layout.object_size) = (unit, 1, 4 << 20);
        stat.layout.pool = 7;
        stat
    };
    let (root, dir) = (InodeKey::ROOT, InodeKey::head(DIR));
    rig.client.cache.learn_inode(MdsRank(0), &with_layout(1, 1 << 20, known));
    rig.client.cache.open_inode(dir).set_parent(root, b"d");
    assert_eq!(rig.value(DIR, "ceph.dir.layout.json"), Ok(json(1 << 20, 7, "@inherited")));
    rig.client.cache.learn_inode(MdsRank(0), &with_layout(DIR, 65536, known));
    assert_eq!(rig.value(DIR, "ceph.dir.layout.json"), Ok(json(65536, 7, "@set")));
    assert_eq!(rig.value(1, "ceph.dir.layout.json"), Ok(json(1 << 20, 7, "@set")));
    assert_eq!(
        rig.value(DIR, "ceph.dir.layout"),
        Ok("stripe_unit=65536 stripe_count=1 object_size=4194304 pool=7".into())
    );
}

#[test]
fn what_others_may_have_changed_above_a_directory_is_asked_for() {
    let mut rig = Rig::with_dir(cap::PIN | cap::ANY_SHARED);
    rig.client.cache.learn_inode(MdsRank(0), &InodeStat { ino: 1, ..dir_stat(1, cap::PIN) });
    rig.client.cache.open_inode(InodeKey::head(DIR)).set_parent(InodeKey::ROOT, b"d");
    let out = rig.xattr(DIR, "ceph.dir.layout.json");
    let (tid, asked) = requests(&out).pop().expect("the MDS is asked");
    assert_eq!((asked.op, asked.path.ino), (MdsOp::GETATTR, 1));
    // It tells, but without a right for later.
    let mut stat = InodeStat { ino: 1, version: 2, ..dir_stat(1, cap::PIN) };
    (stat.layout.stripe_unit, stat.layout.stripe_count, stat.layout.object_size) = (65536, 1, 65536);
    let mut reply = ClientReply { op: MdsOp::GETATTR, safe: true, ..ClientReply::default() };
    reply.trace.target = Some(Box::new(stat));
    let out = rig.mds_says(tid, reply);
    let [Ok(Answer::Data(data))] = &answers(&out)[..] else { panic!("{out:?}") };
    let text = String::from_utf8(data.to_vec()).expect("text");
    assert!(
        text.contains("\"stripe_unit\": 65536") && text.ends_with("\"inheritance\": \"@inherited\"}"),
        "{text}"
    );
}

#[test]
fn recursive_statistics_are_asked_for_each_time() {
    let mut rig = Rig::with_dir(cap::PIN | cap::ANY_SHARED);
    assert_eq!(rig.value(DIR, "ceph.dir.entries"), Ok("0".into()));
    for (tid, (name, value)) in
        [("rbytes", "9"), ("rfiles", "2"), ("rsubdirs", "3"), ("rentries", "5"), ("rctime", "7.000000008")]
            .into_iter()
            .enumerate()
    {
        let out = rig.xattr(DIR, &format!("ceph.dir.{name}"));
        assert_eq!(asked_mds(&out), [MdsOp::GETATTR], "{name}");
        let mut stat = InodeStat { version: 3, ..dir_stat(1, cap::PIN | cap::ANY_SHARED) };
        (stat.rbytes, stat.rfiles, stat.rsubdirs, stat.rctime) = (9, 2, 3, Timespec { sec: 7, nsec: 8 });
        let mut reply = ClientReply { op: MdsOp::GETATTR, safe: true, ..ClientReply::default() };
        reply.trace.target = Some(Box::new(stat));
        let out = rig.mds_says(tid as u64 + 1, reply);
        let [Ok(Answer::Data(data))] = &answers(&out)[..] else { panic!("{name}: {out:?}") };
        assert_eq!(data.to_vec(), value.as_bytes(), "{name}");
    }
}

#[test]
fn pins_are_told_by_the_server() {
    let mut rig = Rig::with_dir(cap::PIN | cap::ANY_SHARED);
    let out = rig.xattr(DIR, "ceph.dir.pin");
    let (tid, asked) = requests(&out).pop().expect("the MDS is asked");
    let name = &asked.path2.path[..];
    assert_eq!((asked.op, asked.path.ino, name), (MdsOp::GETVXATTR, DIR, &b"ceph.dir.pin"[..]));
    let mut extra = wire::Writer::new();
    extra.versioned(1, 1, |w| w.put(&"2".to_owned()));
    let extra = extra.into_vec();
    let reply = ClientReply { op: MdsOp::GETVXATTR, safe: true, extra, ..ClientReply::default() };
    let out = rig.mds_says(tid, reply);
    let [Ok(Answer::Data(data))] = &answers(&out)[..] else { panic!("{out:?}") };
    assert_eq!(data.to_vec(), b"2");
}

#[test]
fn what_concerns_the_client_is_told_without_asking() {
    let mut rig = Rig::with_dir(cap::PIN | cap::ANY_SHARED);
    assert_eq!(rig.value(DIR, "ceph.caps"), Ok("pAsLsXsFs/0x155".into()));
    assert_eq!(rig.value(DIR, "ceph.auth_mds"), Ok("0".into()));
    assert_eq!(rig.value(DIR, "ceph.client_id"), Ok("client0".into()));
    assert!(rig.value(DIR, "ceph.cluster_fsid").is_ok());
}

#[test]
fn a_grant_tells_the_new_layout_of_an_empty_file() {
    let mut rig = Rig::new();
    let file = InodeKey::head(INO);
    let held = rig.client.cache.open_inode(file).caps().held().0;
    rig.caps(cap_op::REVOKE, 2, held & !(cap::FILE_WR | cap::FILE_BUFFER | cap::FILE_EXCL));
    let mut told = CapFile { max_size: 1 << 30, ..CapFile::default() };
    (told.layout.stripe_unit, told.layout.stripe_count, told.layout.object_size) = (65536, 2, 131_072);
    told.layout.pool = 7;
    let grant = ClientCaps {
        op: cap_op::GRANT,
        ino: INO,
        cap_id: 9,
        seq: 3,
        caps: Caps(held),
        nlink: 1,
        pool_ns: "ns".into(),
        body: CapBody::File(told),
        ..ClientCaps::default()
    };
    rig.mds_says(0, grant);
    let layout = rig.client.cache.open_inode(file).attrs().layout().clone();
    assert_eq!((layout.stripe_unit, layout.pool, layout.pool_ns.as_str()), (65536, 7, "ns"));
}

#[test]
fn layouts_are_set_by_the_mds() {
    let mut rig = Rig::with_dir(cap::PIN | cap::ANY_SHARED);
    let (name, value) = (b"ceph.dir.layout.pool".to_vec(), b"fast".to_vec());
    let set = FsRequest::Setxattr { ino: DIR, name, value, flags: 0, kill_sgid: false };
    let sent = requests(&rig.ask(set));
    assert_eq!((sent[0].1.op, &sent[0].1.path2.path[..]), (MdsOp::SETXATTR, &b"ceph.dir.layout.pool"[..]));
}
