//! Inodes that callers refer to, and which are dropped all the same: there are too many, or nobody has a name
//! for them.

use super::names_tests::rig_with_all_names;
use super::tests::{DIR, DIR_CAPS, Rig, answers, asked_mds, released, requests};
use super::*;
use crate::key::InodeKey;
use maps::MdsRank;
use msgs::{Caps, ClientCaps, ClientReply, ClientSession, InodeStat, MdsOp, cap_op, session_op};
use std::time::Duration;

/// What callers are asked to forget.
fn to_forget(out: &Outs) -> Vec<u64> {
    let id = |o: &Output<Reply>| match o {
        Output::Reply { reply: Ok(Answer::Invalidate { id, .. }), .. } => Some(*id),
        _ => None,
    };
    out.iter().filter_map(id).collect()
}

impl Rig {
    /// Callers forget what they are asked to.
    fn forget(&mut self, out: &Outs) -> Outs {
        let mut more = Outs::new();
        for id in to_forget(out) {
            let request = Request::Invalidated { id };
            more.extend(self.input(Input::Request { id: RequestId(0), request }));
        }
        more
    }
}

#[test]
fn inodes_that_the_kernel_refers_to_are_dropped_when_there_are_too_many() {
    let mut rig = rig_with_all_names();
    rig.client.cache.limit_unused_inodes(40);
    let file = |n: u64| 0x200_0000_0000 + n;
    // Callers believe the attributes of the last ones.
    for n in (90..100).chain(0..100) {
        let out = rig.ask(FsRequest::Getattr { ino: file(n) });
        rig.forget(&out);
    }
    assert!(rig.client.cache.len() <= 60, "{} inodes", rig.client.cache.len());
    let key = InodeKey::head(file(1));
    assert!(rig.client.cache.inode(key).is_none(), "it was used least recently");
    assert_eq!(asked_mds(&rig.lookup(b"unknown")), [], "all names are known still");
    let asked = requests(&rig.ask(FsRequest::Getattr { ino: file(1) }));
    assert_eq!((asked[0].1.op, asked[0].1.path.ino), (MdsOp::GETATTR, file(1)));
    // Callers have the one reference that they had before, and give it back.
    rig.client.cache.learn_inode(MdsRank(0), &super::tests::stat(file(1), 0o100_644));
    assert!(rig.client.cache.inode(key).is_some_and(|inode| !inode.is_idle()));
    rig.ask(FsRequest::Forget { ino: file(1), count: 1 });
    assert!(rig.client.cache.inode(key).is_none_or(crate::inode::Inode::is_idle));
}

/// Names that nobody refers to are forgotten with their inodes. Others are known not to exist all the same.
#[test]
fn what_was_never_in_a_directory_is_known_after_most_of_its_names_were_forgotten() {
    let mut rig = rig_with_all_names();
    rig.client.cache.limit_unused_inodes(10);
    for n in 0..100 {
        rig.ask(FsRequest::Forget { ino: 0x200_0000_0000 + n, count: 1 });
    }
    assert!(rig.client.cache.len() < 20, "{} inodes", rig.client.cache.len());
    assert_eq!(asked_mds(&rig.lookup(b"unknown")), []);
    assert_eq!(asked_mds(&rig.lookup(b"f1")), [MdsOp::LOOKUP], "it may be there");
    assert_eq!(asked_mds(&rig.ask(FsRequest::Rmdir { parent: 1, name: b"d".to_vec() })), [MdsOp::RMDIR]);
}

#[test]
fn when_too_many_names_were_forgotten_each_is_asked_for() {
    let mut rig = rig_with_all_names();
    rig.client.cache.forget_at_most(3);
    for n in 0..3 {
        rig.client.cache.forget_name(InodeKey::head(DIR), format!("f{n}").as_bytes());
    }
    assert_eq!(asked_mds(&rig.lookup(b"unknown")), []);
    rig.client.cache.forget_name(InodeKey::head(DIR), b"f3");
    assert_eq!(asked_mds(&rig.lookup(b"unknown")), [MdsOp::LOOKUP]);
    assert_eq!(asked_mds(&rig.lookup(b"f0")), [MdsOp::LOOKUP]);
}

#[test]
fn of_inodes_that_nobody_uses_a_new_mds_is_asked_for_some() {
    let mut rig = rig_with_all_names();
    let before = rig.client.cache.claims(MdsRank(0)).len();
    rig.client.cache.give_up_idle(MdsRank(0), 40);
    let claims = rig.client.cache.claims(MdsRank(0));
    assert!(before > 100 && claims.len() <= 42, "{} of {before}", claims.len());
    assert!(rig.client.cache.take_releases().is_empty(), "the next one does not know them");
}

#[test]
fn a_file_without_a_name_goes_although_the_kernel_refers_to_it() {
    let mut rig = rig_with_all_names();
    let ino = 0x200_0000_0000;
    rig.ask(FsRequest::Getattr { ino });
    let links = ClientCaps { op: cap_op::GRANT, ino, cap_id: 100, seq: 2, ..ClientCaps::default() };
    let out = rig.mds_says(0, ClientCaps { caps: Caps(DIR_CAPS), mode: 0o100_644, nlink: 0, ..links });
    assert!(released(&out).is_empty(), "callers believe that it is there");
    let out = rig.forget(&out);
    assert_eq!(released(&out)[0].ino, ino, "its MDS may purge it");
    // What a descriptor of `O_PATH` tells of it may have been changed by others since.
    let (tid, asked) = requests(&rig.ask(FsRequest::Getattr { ino })).remove(0);
    let result = Errno::ESTALE.to_result_code();
    let mut out =
        rig.mds_says(tid, ClientReply { op: asked.op, safe: true, result, ..ClientReply::default() });
    if let Some((tid, asked)) = requests(&out).pop() {
        out = rig.mds_says(tid, ClientReply { op: asked.op, safe: true, result, ..ClientReply::default() });
    }
    assert_eq!(answers(&out)[..], [&Err(Errno::ESTALE)]);
}

impl Rig {
    /// A client that asks for the removal of `f0`, a file that the kernel has looked up; with the tid.
    fn removing_f0() -> (Self, u64) {
        let mut rig = rig_with_all_names();
        let request = FsRequest::Unlink { parent: super::tests::DIR, name: b"f0".to_vec() };
        let (tid, _) = requests(&rig.ask(request)).remove(0);
        (rig, tid)
    }

    fn unlinked(&mut self, tid: u64, result: i32) -> Outs {
        let reply = ClientReply { op: MdsOp::UNLINK, safe: true, result, ..ClientReply::default() };
        self.mds_says(tid, reply)
    }

    /// The MDS tells that `f0` has no name. Returns what is sent until callers have forgotten what they may
    /// not believe any more.
    fn f0_has_no_links(&mut self) -> Outs {
        let caps = Caps(DIR_CAPS & !msgs::cap::LINK_SHARED);
        let grant = ClientCaps { op: cap_op::GRANT, ino: F0, cap_id: 100, seq: 2, ..ClientCaps::default() };
        let mut out = self.mds_says(0, ClientCaps { caps, mode: 0o100_644, nlink: 0, ..grant });
        out.extend(self.forget(&out));
        out
    }
}

/// The inode of the name `f0`.
const F0: u64 = 0x200_0000_0000;

#[test]
fn a_file_that_was_removed_here_stays_as_long_as_a_descriptor_refers_to_it() {
    let (mut rig, tid) = Rig::removing_f0();
    rig.unlinked(tid, 0);
    assert!(released(&rig.f0_has_no_links()).is_empty(), "the MDS may not purge it");
    let out = rig.ask(FsRequest::Getattr { ino: F0 });
    let [Ok(Answer::Attr(attr, _))] = answers(&out)[..] else { panic!("no attributes") };
    assert_eq!((attr.ino, attr.nlink, attr.mode), (F0, 0, 0o100_644));
    let out = rig.ask(FsRequest::Forget { ino: F0, count: 1 });
    assert_eq!(released(&out)[0].ino, F0, "the descriptor was closed");
}

#[test]
fn a_file_that_could_not_be_removed_here_goes_when_others_remove_it() {
    let (mut rig, tid) = Rig::removing_f0();
    rig.unlinked(tid, Errno::EACCES.to_result_code());
    assert_eq!(released(&rig.f0_has_no_links())[0].ino, F0);
}

#[test]
fn a_directory_that_was_dropped_still_knows_the_one_above() {
    let mut rig = rig_with_all_names();
    let (dir, parent) = (InodeKey::head(0x200_0000_0000), super::tests::DIR);
    let stat = InodeStat { version: 9, ..super::tests::stat(dir.ino(), 0o040_755) };
    rig.client.cache.learn_inode(MdsRank(0), &stat);
    rig.client.settle(rig.now, &mut Vec::new());
    let out = rig.ask(FsRequest::Opendir { ino: dir.ino() });
    let [Ok(Answer::Opened { fh, .. })] = answers(&out)[..] else { panic!("it opens") };
    let above = |rig: &mut Rig| {
        let out = rig.ask(FsRequest::Readdir { fh: *fh, offset: 1, max_bytes: 1, plus: false });
        let [Ok(Answer::Entries(entries))] = answers(&out)[..] else { panic!("entries") };
        (entries[0].name.clone(), entries[0].ino)
    };
    rig.client.cache.drop_inode(dir);
    rig.client.cache.take_releases();
    assert_eq!(above(&mut rig), (b"..".to_vec(), parent));
    rig.client.cache.learn_inode(MdsRank(0), &stat);
    rig.client.settle(rig.now, &mut Vec::new());
    assert_eq!(above(&mut rig), (b"..".to_vec(), parent), "it was described by its number");
}

#[test]
fn a_directory_that_was_removed_has_no_links() {
    let mut rig = rig_with_all_names();
    let links = |rig: &mut Rig, nlink| {
        let stat = super::tests::stat(0x200_0000_0000, 0o040_755);
        let stat = InodeStat { nlink, version: 9, ..stat };
        let key = rig.client.cache.learn_inode(MdsRank(0), &stat);
        rig.client.cache.inode(key).expect("it is known").attr().nlink
    };
    assert_eq!((links(&mut rig, 1), links(&mut rig, 0)), (2, 0));
}

/// Drops some of the files, and returns what is sent meanwhile.
fn drop_files(rig: &mut Rig, numbers: std::ops::Range<u64>) -> Outs {
    let mut out = Outs::new();
    for n in numbers {
        rig.client.cache.drop_inode(InodeKey::head(0x200_0000_0000 + n));
    }
    rig.client.sessions.send_releases(rig.now, &mut rig.client.cache, &mut out);
    out
}

#[test]
fn capabilities_of_dropped_inodes_go_back_together_after_seconds() {
    let mut rig = rig_with_all_names();
    assert!(released(&drop_files(&mut rig, 0..3)).is_empty(), "nobody waits for them");
    rig.now.mono = rig.now.mono + Duration::from_secs(4);
    assert!(released(&rig.input(Input::Timer)).is_empty());
    rig.now.mono = rig.now.mono + Duration::from_secs(1);
    assert_eq!(released(&rig.input(Input::Timer)).len(), 3);
    assert!(released(&drop_files(&mut rig, 3..60)).is_empty());
    assert_eq!(released(&drop_files(&mut rig, 60..70)).len(), 67, "there are many");
}

#[test]
fn capabilities_of_dropped_inodes_go_back_when_the_mds_recalls_some_or_revokes_one() {
    let mut rig = rig_with_all_names();
    drop_files(&mut rig, 0..3);
    let mut recall = ClientSession::of(session_op::RECALL_STATE, 0);
    recall.head.max_caps = u32::MAX;
    assert_eq!(released(&rig.mds_says(0, recall)).len(), 3, "it counts them still");
    drop_files(&mut rig, 3..5);
    let revoked = ClientCaps {
        op: cap_op::REVOKE,
        ino: 0x200_0000_0003,
        cap_id: 103,
        seq: 2,
        nlink: 1,
        ..ClientCaps::default()
    };
    let told = released(&rig.mds_says(0, revoked));
    let inos: Vec<u64> = told.iter().map(|item| item.ino - 0x200_0000_0000).collect();
    assert_eq!(inos, [3, 4, 3]);
    assert_eq!(told[2].seq, 2, "nothing is held as of the revocation");
}
