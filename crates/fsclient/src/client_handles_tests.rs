//! Inodes that are found by their numbers, against scripted answers of an MDS.

use super::tests::{DIR, DIR_CAPS, INO, READERS, Rig, answers, asked_mds, dir_stat, requests, stat};
use super::*;
use crate::api::{Entry, Ino};
use crate::key::InodeKey;
use crate::numbers::number_in_snapshot;
use maps::{MdsRank, SnapId};
use msgs::{ClientReply, ClientRequest, InodeStat, InodeStatCap, MdsOp, QuotaInfo, SnapRealmInfo, cap};
use std::time::Duration;

/// An inode that is not here.
const FAR: Ino = INO + 7;
/// A directory around it that is not here either.
const TREE: Ino = DIR + 9;

fn find(ino: Ino) -> FsRequest {
    FsRequest::LookupIno { ino }
}

fn parent(ino: Ino) -> FsRequest {
    FsRequest::LookupParent { ino }
}

fn entry(out: &Outs) -> Entry {
    match answers(out)[..] {
        [Ok(Answer::Entry(entry))] => *entry,
        ref other => panic!("{other:?}"),
    }
}

fn assert_stale(out: &Outs) {
    assert_eq!(answers(out), [&Err(Errno::ESTALE)]);
    assert_eq!(asked_mds(out), [], "nothing is asked after that");
}

fn with_cap(inode: InodeStat, caps: u32) -> InodeStat {
    let cap = InodeStatCap { caps, cap_id: 30, seq: 1, realm: 1, flags: 1, ..InodeStatCap::default() };
    InodeStat { cap, ..inode }
}

impl Rig {
    /// Asks the MDS. Returns the only request with its tid.
    fn asks_for(&mut self, request: FsRequest) -> (u64, ClientRequest) {
        let out = self.ask(request);
        assert!(answers(&out).is_empty(), "it is not known");
        requests(&out).pop().expect("the MDS is asked")
    }

    fn mds_told(&mut self, tid: u64, op: MdsOp, target: Result<InodeStat, Errno>) -> Outs {
        let result = target.as_ref().map_or_else(|errno| errno.to_result_code(), |_| 0);
        let trace = msgs::ReplyTrace { dentry: None, target: target.ok().map(Box::new) };
        self.mds_says(tid, ClientReply { op, result, safe: true, trace, ..ClientReply::default() })
    }

    fn references(&self, ino: Ino) -> Option<u64> {
        self.client.cache.inode(InodeKey::head(ino)).map(|inode| inode.usage().lookups())
    }
}

#[test]
fn an_inode_is_found_by_its_number_alone() {
    let mut rig = Rig::with_dir(DIR_CAPS);
    let (tid, asked) = rig.asks_for(find(FAR));
    assert_eq!((asked.op, asked.path.ino, &asked.path.path[..]), (MdsOp::LOOKUPINO, FAR, &b""[..]));
    let out = rig.mds_told(tid, MdsOp::LOOKUPINO, Ok(with_cap(stat(FAR, 0o100_644), READERS)));
    let found = entry(&out);
    assert_eq!((found.attr.ino, found.attr.mode), (FAR, 0o100_644));
    assert_eq!(found.entry_valid, Duration::ZERO, "no name was told");
    assert_eq!(rig.references(FAR), Some(1));
    // The next one needs no MDS, and is a reference of its own.
    assert_eq!(entry(&rig.ask(find(FAR))).attr, found.attr);
    assert_eq!(rig.references(FAR), Some(2));
    rig.ask(FsRequest::Forget { ino: FAR, count: 2 });
    assert_eq!(rig.references(FAR), Some(0));
    // It is opened and read without a name.
    let out = rig.ask(FsRequest::Open { ino: FAR, flags: 0, kill_suidgid: false });
    assert!(matches!(answers(&out)[..], [Ok(Answer::Opened { .. })]), "{:?}", answers(&out));
}

#[test]
fn what_is_known_without_a_right_is_asked_for_again() {
    let mut rig = Rig::with_dir(DIR_CAPS);
    rig.client.cache.learn_inode(MdsRank(0), &with_cap(stat(FAR, 0o100_644), cap::PIN));
    let (tid, asked) = rig.asks_for(find(FAR));
    assert_eq!(asked.op, MdsOp::LOOKUPINO);
    assert_stale(&rig.mds_told(tid, MdsOp::LOOKUPINO, Err(Errno::ESTALE)));
}

#[test]
fn what_has_gone_is_stale() {
    let mut rig = Rig::with_dir(DIR_CAPS);
    for target in [
        Err(Errno::ESTALE),
        Err(Errno::ENOENT),
        // Somebody else has it open.
        Ok(InodeStat { nlink: 0, ..with_cap(stat(FAR, 0o100_644), READERS) }),
        // Of a broken peer.
        Ok(with_cap(stat(FAR + 1, 0o100_644), READERS)),
        Ok(InodeStat { snapid: SnapId(4), ..with_cap(stat(FAR, 0o100_644), READERS) }),
    ] {
        let (tid, asked) = rig.asks_for(find(FAR));
        assert_eq!(asked.op, MdsOp::LOOKUPINO);
        assert_stale(&rig.mds_told(tid, MdsOp::LOOKUPINO, target));
        assert_eq!(rig.references(FAR).unwrap_or(0), 0);
    }
    let (tid, _) = rig.asks_for(find(FAR));
    let refused = rig.mds_told(tid, MdsOp::LOOKUPINO, Err(Errno::EACCES));
    assert_eq!(answers(&refused), [&Err(Errno::EACCES)], "the key does not reach there");
}

#[test]
fn numbers_that_no_mds_can_tell_of_are_stale() {
    let mut rig = Rig::with_dir(DIR_CAPS);
    let state = number_in_snapshot(FAR, SnapId(4));
    for ino in [0x100, 0x601, 0xfff, state] {
        assert_stale(&rig.ask(find(ino)));
        assert_stale(&rig.ask(parent(ino)));
    }
}

#[test]
fn a_file_that_was_removed_here_is_stale_at_once() {
    let mut rig = Rig::with_dir(DIR_CAPS);
    let key = InodeKey::head(INO);
    assert_eq!(entry(&rig.ask(find(INO))).attr.ino, INO);
    rig.client.cache.open_inode(key).promise_removal(rig.now.wall);
    assert_stale(&rig.ask(find(INO)));
}

#[test]
fn the_parent_of_a_directory_is_what_is_known_for_sure_or_what_an_mds_says() {
    let mut rig = Rig::with_dir(DIR_CAPS);
    let (tid, _) = rig.asks_for(FsRequest::Lookup { parent: DIR, name: b"sub".to_vec() });
    let dentry = msgs::ReplyDentry {
        dir: dir_stat(1, DIR_CAPS),
        dir_stat: msgs::DirStat::default(),
        name: b"sub".to_vec(),
        lease: msgs::LeaseStat::default(),
    };
    let sub = with_cap(stat(FAR, 0o040_755), DIR_CAPS);
    let trace = msgs::ReplyTrace { dentry: Some(Box::new(dentry)), target: Some(Box::new(sub)) };
    rig.mds_says(tid, ClientReply { op: MdsOp::LOOKUP, safe: true, trace, ..ClientReply::default() });
    let references = rig.references(DIR).expect("is here");
    assert_eq!(entry(&rig.ask(parent(FAR))).attr.ino, DIR);
    assert_eq!(rig.references(DIR), Some(references + 1));
    // Without `Fs` on the parent another client may have moved it.
    rig.revoke_dir(2, DIR_CAPS & !cap::FILE_SHARED);
    let (tid, asked) = rig.asks_for(parent(FAR));
    assert_eq!((asked.op, asked.path.ino, &asked.path.path[..]), (MdsOp::LOOKUPPARENT, FAR, &b""[..]));
    let out = rig.mds_told(tid, MdsOp::LOOKUPPARENT, Ok(with_cap(stat(TREE, 0o040_755), DIR_CAPS)));
    assert_eq!(entry(&out).attr.ino, TREE);
    assert_eq!((rig.references(TREE), rig.references(DIR)), (Some(1), Some(references + 1)));
    for errno in [Errno::ENOENT, Errno::EINVAL, Errno::ESTALE] {
        let (tid, _) = rig.asks_for(parent(FAR));
        assert_stale(&rig.mds_told(tid, MdsOp::LOOKUPPARENT, Err(errno)));
    }
}

#[test]
fn the_root_is_in_itself() {
    let mut rig = Rig::with_dir(DIR_CAPS);
    let root = InodeKey::ROOT.ino();
    let (tid, asked) = rig.asks_for(parent(root));
    assert_eq!((asked.op, asked.path.ino), (MdsOp::LOOKUPINO, root));
    let inode = InodeStat { nlink: 0, ..with_cap(stat(root, 0o040_755), DIR_CAPS) };
    assert_eq!(entry(&rig.mds_told(tid, MdsOp::LOOKUPINO, Ok(inode))).attr.ino, root);
    assert_eq!(entry(&rig.ask(find(root))).attr.ino, root);
}

/// A write to what was found by its number keeps the quotas of directories that nobody has looked up.
#[test]
fn the_quotas_around_an_inode_are_known_when_it_is_found() {
    for allowed in [true, false] {
        let mut rig = Rig::with_dir(DIR_CAPS);
        let (tid, _) = rig.asks_for(find(FAR));
        let mut file = with_cap(stat(FAR, 0o100_644), READERS);
        (file.layout.stripe_unit, file.layout.stripe_count, file.layout.object_size) = (1 << 22, 1, 1 << 22);
        file.cap.realm = TREE;
        let realm = |ino, parent| SnapRealmInfo {
            ino,
            created: SnapId(1),
            parent,
            parent_since: SnapId(0),
            seq: SnapId(1),
            snaps: Vec::new(),
            prior_parent_snaps: Vec::new(),
        };
        let snap_trace = vec![realm(TREE, TREE + 1), realm(TREE + 1, 1), realm(1, 0)];
        let trace = msgs::ReplyTrace { dentry: None, target: Some(Box::new(file)) };
        let op = MdsOp::LOOKUPINO;
        let reply = ClientReply { op, safe: true, trace, snap_trace, ..ClientReply::default() };
        let (tid, asked) = requests(&rig.mds_says(tid, reply)).pop().expect("a directory is missing");
        assert_eq!((asked.op, asked.path.ino), (MdsOp::GETATTR, TREE));
        let mut out = if allowed {
            let quota = QuotaInfo { max_bytes: 1000, max_files: 0 };
            let tree = InodeStat { quota, ..with_cap(stat(TREE, 0o040_755), DIR_CAPS) };
            let out = rig.mds_told(tid, MdsOp::GETATTR, Ok(tree));
            let (tid, asked) = requests(&out).pop().expect("and the next one");
            assert_eq!((asked.op, asked.path.ino), (MdsOp::GETATTR, TREE + 1));
            rig.mds_told(tid, MdsOp::GETATTR, Ok(with_cap(stat(TREE + 1, 0o040_755), DIR_CAPS)))
        } else {
            // The key does not reach there, so this client knows no quota of it by names either.
            rig.mds_told(tid, MdsOp::GETATTR, Err(Errno::EACCES))
        };
        assert_eq!((entry(&out).attr.ino, rig.references(FAR)), (FAR, Some(1)));
        let set = crate::api::SetAttr { size: Some(2000), ..Default::default() };
        out = rig.ask(FsRequest::Setattr { ino: FAR, set });
        assert_eq!(answers(&out) == [&Err(Errno::EDQUOT)], allowed, "{:?}", answers(&out));
    }
}
