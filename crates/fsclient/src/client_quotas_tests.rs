//! Quotas of a tree, against scripted answers of an MDS.

use super::tests::{DIR, DIR_CAPS, INO, Rig, answers, asked_mds, cap_messages, dir_stat, requests, stat};
use super::*;
use crate::api::{FsRequest, SetAttr, Statfs};
use crate::key::InodeKey;
use crate::mds_request::open_flag;
use maps::{MdsRank, SnapId};
use msgs::{
    ClientCaps, ClientQuota, ClientSnap, InodeStat, MdsOp, QuotaInfo, SnapRealmInfo, cap_op, snap_op,
};

const RANK: MdsRank = MdsRank(0);
/// A directory without a quota, outside of the one that has one.
const OTHER: u64 = DIR + 1;

/// A directory with a quota, in which the rig's file is; and one outside of it.
fn rig(max_bytes: i64, max_files: i64) -> Rig {
    let mut rig = Rig::with_dir(DIR_CAPS);
    let realm = SnapRealmInfo {
        ino: DIR,
        created: SnapId(1),
        parent: 1,
        parent_since: SnapId(0),
        seq: SnapId(1),
        snaps: Vec::new(),
        prior_parent_snaps: Vec::new(),
    };
    let split_inos = vec![DIR, INO];
    let message = ClientSnap {
        op: snap_op::SPLIT,
        split: DIR,
        split_inos,
        trace: vec![realm],
        ..ClientSnap::default()
    };
    rig.mds_says(0, message);
    let mut other = InodeStat { ino: OTHER, ..dir_stat(1, DIR_CAPS) };
    (other.cap.cap_id, other.cap.realm) = (6, 1);
    rig.client.cache.learn_inode(RANK, &other);
    used(&mut rig, 0, 2, QuotaInfo { max_bytes, max_files });
    rig
}

fn used(rig: &mut Rig, rbytes: u64, rfiles: u64, quota: QuotaInfo) {
    let told = ClientQuota { ino: DIR, rbytes, rfiles, rsubdirs: 1, quota, ..ClientQuota::default() };
    rig.mds_says(0, told);
}

fn create(parent: u64) -> FsRequest {
    FsRequest::Create { parent, name: b"new".to_vec(), mode: 0o644, flags: open_flag::EXCL }
}

#[test]
fn a_file_grows_only_as_far_as_the_quota_allows() {
    let mut rig = rig(10_000, 0);
    assert_eq!(answers(&rig.write(0, 6000)), [&Ok(Answer::Written(6000))]);
    assert_eq!(answers(&rig.write(6000, 6000)), [&Err(Errno::EDQUOT)], "what is not told yet counts");
    assert_eq!(answers(&rig.write(0, 6000)), [&Ok(Answer::Written(6000))], "it does not grow");
    let sized =
        |size| FsRequest::Setattr { ino: INO, set: SetAttr { size: Some(size), ..SetAttr::default() } };
    let out = rig.ask(sized(20_000));
    assert_eq!((answers(&out), asked_mds(&out)), (vec![&Err(Errno::EDQUOT)], vec![]));
    let fh = rig.fh;
    let fallocate = FsRequest::Fallocate { fh, offset: 0, len: 20_000, mode: 0x10 };
    assert_eq!(answers(&rig.ask(fallocate)), [&Err(Errno::EDQUOT)]);
    // The MDS is told of the size, and then counts it.
    let out = rig.ask(FsRequest::Fsync { fh, data_only: false });
    let flush = cap_messages(&out)[0].clone();
    assert_eq!(flush.file().size, 6000);
    rig.mds_says(flush.oldest_flush_tid, ClientCaps { op: cap_op::FLUSH_ACK, ..flush });
    rig.writes_arrive();
    used(&mut rig, 6000, 2, QuotaInfo { max_bytes: 10_000, max_files: 0 });
    assert_eq!(answers(&rig.write(6000, 4000)), [&Ok(Answer::Written(4000))], "nothing counts twice");
    assert_eq!(answers(&rig.write(10_000, 1)), [&Err(Errno::EDQUOT)]);
    used(&mut rig, 6000, 2, QuotaInfo::default());
    assert_eq!(answers(&rig.write(10_000, 1)), [&Ok(Answer::Written(1))], "there is no quota any more");
}

#[test]
fn no_more_names_are_made_than_the_quota_allows() {
    let mut rig = rig(0, 4);
    assert_eq!(asked_mds(&rig.ask(create(DIR))), [MdsOp::CREATE]);
    used(&mut rig, 0, 3, QuotaInfo { max_bytes: 0, max_files: 4 });
    let (parent, name) = (DIR, b"new".to_vec());
    for request in [
        create(DIR),
        FsRequest::Mkdir { parent, name: name.clone(), mode: 0o755 },
        FsRequest::Mknod { parent, name: name.clone(), mode: 0o100_644, rdev: 0 },
        FsRequest::Symlink { parent, name: name.clone(), target: b"x".to_vec() },
        FsRequest::Link { ino: INO, new_parent: DIR, new_name: name },
    ] {
        let out = rig.ask(request);
        assert_eq!((answers(&out), asked_mds(&out)), (vec![&Err(Errno::EDQUOT)], vec![]));
    }
    assert_eq!(asked_mds(&rig.ask(create(OTHER))), [MdsOp::CREATE], "elsewhere");
}

#[test]
fn a_file_that_exists_is_opened_whatever_the_quota() {
    let open = |name: &[u8]| FsRequest::Create { parent: DIR, name: name.to_vec(), mode: 0o644, flags: 0 };
    let mut rig = rig(0, 4);
    used(&mut rig, 0, 3, QuotaInfo { max_bytes: 0, max_files: 4 });
    let out = rig.ask(open(b"f"));
    assert_eq!(asked_mds(&out), [MdsOp::LOOKUP], "it is not known");
    let (tid, _) = requests(&out).pop().expect("a lookup");
    let quota = QuotaInfo { max_bytes: 0, max_files: 4 };
    let mut dir = InodeStat { quota, rfiles: 3, rsubdirs: 1, ..dir_stat(2, DIR_CAPS) };
    dir.cap.realm = DIR;
    let dentry = msgs::ReplyDentry {
        dir,
        dir_stat: msgs::DirStat::default(),
        name: b"f".to_vec(),
        lease: msgs::LeaseStat::default(),
    };
    let target = Some(Box::new(stat(INO, 0o100_644)));
    let trace = msgs::ReplyTrace { dentry: Some(Box::new(dentry)), target };
    let found = msgs::ClientReply { op: MdsOp::LOOKUP, safe: true, trace, ..Default::default() };
    let out = rig.mds_says(tid, found);
    assert_eq!(answers(&rig.ask(create(DIR))), [&Err(Errno::EDQUOT)], "the quota is known as before");
    assert_eq!((answers(&out), asked_mds(&out)), (vec![], vec![MdsOp::CREATE]));
    // Another client has removed it since, and it is asked only once.
    let (tid, _) = requests(&out).pop().expect("a create");
    let full = msgs::ClientReply {
        op: MdsOp::CREATE,
        result: Errno::EDQUOT.to_result_code(),
        safe: true,
        ..Default::default()
    };
    assert_eq!(answers(&rig.mds_says(tid, full)), [&Err(Errno::EDQUOT)]);
    assert_eq!(asked_mds(&rig.ask(open(b"f"))), [MdsOp::CREATE], "it is known");
    let out = rig.ask(open(b"g"));
    let (tid, asked) = requests(&out).pop().expect("a lookup");
    assert_eq!((asked.op, &asked.path.path[..]), (MdsOp::LOOKUP, &b"g"[..]));
    let absent = msgs::ClientReply {
        op: MdsOp::LOOKUP,
        result: Errno::ENOENT.to_result_code(),
        safe: true,
        ..Default::default()
    };
    let out = rig.mds_says(tid, absent);
    assert_eq!((answers(&out), asked_mds(&out)), (vec![&Err(Errno::EDQUOT)], vec![]));
}

#[test]
fn what_moves_to_another_tree_has_to_be_copied() {
    let mut rig = rig(1000, 0);
    let to = |new_parent| FsRequest::Rename {
        parent: DIR,
        name: b"a".to_vec(),
        new_parent,
        new_name: b"b".to_vec(),
        flags: 0,
    };
    assert_eq!(answers(&rig.ask(to(OTHER))), [&Err(Errno::EXDEV)]);
    assert_eq!(asked_mds(&rig.ask(to(DIR))), [MdsOp::RENAME]);
}

#[test]
fn quotas_are_xattrs() {
    let mut rig = rig(1000, 20);
    let get = |ino, name: &str| FsRequest::Getxattr { ino, name: name.as_bytes().to_vec() };
    for (name, value) in [
        ("ceph.quota", "max_bytes=1000 max_files=20"),
        ("ceph.quota.max_bytes", "1000"),
        ("ceph.quota.max_files", "20"),
    ] {
        let expected = Ok(Answer::Data(value.as_bytes().to_vec().into()));
        assert_eq!(answers(&rig.ask(get(DIR, name))), [&expected], "{name}");
    }
    assert_eq!(answers(&rig.ask(get(OTHER, "ceph.quota"))), [&Err(Errno::ENODATA)]);
}

#[test]
fn a_mount_whose_root_has_a_quota_is_as_large_as_that() {
    let statfs = |free, files, free_files| Statfs { block: 4 << 20, blocks: 25, free, files, free_files };
    for (max_files, rbytes, expected) in [
        (0, 101 << 20, statfs(0, 10, 0)),
        (0, 96 << 20, statfs(1, 10 + 1024, 1024)),
        (25, 101 << 20, statfs(0, 25, 15)),
        (9, 101 << 20, statfs(0, 10, 0)),
    ] {
        let mut rig = rig(0, 0);
        let quota = QuotaInfo { max_bytes: 100 << 20, max_files };
        let root = |rbytes| {
            let mut root = InodeStat { quota, rbytes, rfiles: 6, rsubdirs: 4, ..stat(1, 0o040_755) };
            (root.cap.caps, root.cap.cap_id, root.cap.seq) = (DIR_CAPS, 3, 1);
            root
        };
        rig.client.cache.learn_inode(RANK, &root(0));
        let out = rig.ask(FsRequest::Statfs { root: 1 });
        let (tid, asked) = requests(&out).pop().expect("the MDS is asked what is used");
        assert_eq!((asked.op, asked.path.ino), (MdsOp::GETATTR, 1));
        let target = Some(Box::new(root(rbytes)));
        let trace = msgs::ReplyTrace { dentry: None, target };
        let told = msgs::ClientReply { op: MdsOp::GETATTR, safe: true, trace, ..Default::default() };
        assert_eq!(answers(&rig.mds_says(tid, told)), [&Ok(Answer::Statfs(expected))]);
        assert!(rig.client.cache.inode(InodeKey::ROOT).is_some());
    }
}

/// The answer that describes a directory, which is in this realm.
fn described(ino: u64, realm: u64) -> msgs::ClientReply {
    let quota = if ino == DIR { QuotaInfo { max_bytes: 0, max_files: 4 } } else { QuotaInfo::default() };
    let mut dir = InodeStat { ino, quota, rfiles: 3, rsubdirs: 1, ..dir_stat(2, DIR_CAPS) };
    (dir.cap.cap_id, dir.cap.realm) = (ino, realm);
    let trace = msgs::ReplyTrace { dentry: None, target: Some(Box::new(dir)) };
    msgs::ClientReply { op: MdsOp::LOOKUPINO, safe: true, trace, ..Default::default() }
}

#[test]
fn what_is_not_here_is_looked_at_before_a_quota_is_ignored() {
    let inner = DIR + 2;
    let (name, new_name) = (b"new".to_vec(), b"b".to_vec());
    let rename = |parent, new_parent| FsRequest::Rename {
        parent,
        name: b"a".to_vec(),
        new_parent,
        new_name: b"b".to_vec(),
        flags: 0,
    };
    for (request, realm, expected) in [
        (create(inner), DIR, Err(Errno::EDQUOT)),
        (FsRequest::Mkdir { parent: inner, name, mode: 0o755 }, DIR, Err(Errno::EDQUOT)),
        (FsRequest::Link { ino: INO, new_parent: inner, new_name }, DIR, Err(Errno::EDQUOT)),
        (rename(inner, OTHER), DIR, Err(Errno::EXDEV)),
        (rename(DIR, inner), 1, Err(Errno::EXDEV)),
        (rename(DIR, inner), DIR, Ok(MdsOp::RENAME)),
        (create(inner), 1, Ok(MdsOp::CREATE)),
    ] {
        let mut rig = rig(0, 4);
        used(&mut rig, 0, 3, QuotaInfo { max_bytes: 0, max_files: 4 });
        let out = rig.ask(request);
        let (tid, asked) = requests(&out).pop().expect("a question");
        assert_eq!((asked.op, asked.path.ino), (MdsOp::LOOKUPINO, inner));
        let out = rig.mds_says(tid, described(inner, realm));
        match expected {
            Err(errno) => assert_eq!((answers(&out), asked_mds(&out)), (vec![&Err(errno)], vec![])),
            Ok(op) => assert_eq!((answers(&out), asked_mds(&out)), (vec![], vec![op])),
        }
    }
}

#[test]
fn both_directories_of_a_rename_are_looked_at() {
    let (from, to) = (DIR + 2, DIR + 3);
    let rename = FsRequest::Rename {
        parent: from,
        name: b"a".to_vec(),
        new_parent: to,
        new_name: b"b".to_vec(),
        flags: 0,
    };
    let mut rig = rig(0, 4);
    let mut out = rig.ask(rename);
    for (ino, realm) in [(from, DIR), (to, 1)] {
        let (tid, asked) = requests(&out).pop().expect("a question");
        assert_eq!((asked.op, asked.path.ino), (MdsOp::LOOKUPINO, ino));
        out = rig.mds_says(tid, described(ino, realm));
    }
    assert_eq!((answers(&out), asked_mds(&out)), (vec![&Err(Errno::EXDEV)], vec![]));
}

#[test]
fn a_file_that_is_not_here_is_looked_at_before_it_is_made_longer() {
    let mut rig = rig(10_000, 0);
    let file = DIR + 2;
    let set = SetAttr { size: Some(20_000), ..SetAttr::default() };
    let out = rig.ask(FsRequest::Setattr { ino: file, set });
    let (tid, asked) = requests(&out).pop().expect("a question");
    assert_eq!((asked.op, asked.path.ino), (MdsOp::LOOKUPINO, file));
    let mut target = stat(file, 0o100_644);
    (target.cap.cap_id, target.cap.caps, target.cap.realm) = (9, DIR_CAPS, DIR);
    let trace = msgs::ReplyTrace { dentry: None, target: Some(Box::new(target)) };
    let told = msgs::ClientReply { op: MdsOp::LOOKUPINO, safe: true, trace, ..Default::default() };
    let out = rig.mds_says(tid, told);
    assert_eq!((answers(&out), asked_mds(&out)), (vec![&Err(Errno::EDQUOT)], vec![]));
}
