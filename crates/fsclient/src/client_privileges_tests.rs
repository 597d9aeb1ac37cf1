//! Bits and capabilities that a file gives to whoever runs it, and their end when it changes.

use super::tests::{INO, Rig, answers, asked_mds, cap_messages, requests, stat};
use super::*;
use crate::api::{Invalidate, SetAttr};
use crate::key::InodeKey;
use crate::mds_request::open_flag;
use maps::MdsRank;
use msgs::{InodeStat, InodeStatCap, MdsOp, SetattrArgs, cap, cap_op};
use std::collections::BTreeMap;
use stdx::Bufs;
use wire::Writer;

const ALL_SHARED: u32 = cap::PIN | cap::ANY_SHARED | cap::FILE_RD | cap::FILE_CACHE;
const MAY_WRITE: u32 = ALL_SHARED | cap::FILE_WR | cap::FILE_BUFFER;

/// A description of the rig's file.
fn described(mode: u32, bits: u32, has_capability: bool) -> InodeStat {
    let mut xattrs = BTreeMap::new();
    if has_capability {
        xattrs.insert(b"security.capability".to_vec(), b"all".to_vec());
    }
    let cap =
        InodeStatCap { caps: bits, cap_id: 9, seq: if bits == 0 { 3 } else { 6 }, ..InodeStatCap::default() };
    let mut stat = InodeStat { cap, max_size: 1 << 30, version: 9, ..stat(INO, 0o100_000 | mode) };
    (stat.layout.stripe_unit, stat.layout.stripe_count, stat.layout.object_size) = (4 << 20, 1, 4 << 20);
    (stat.xattrs, stat.xattr_version) = (Writer::encode(&xattrs), 5);
    stat
}

impl Rig {
    /// The rig's file has this mode, perhaps capabilities, and besides the bits that it is opened with these.
    fn with_file(mode: u32, taken: u32, has_capability: bool) -> Self {
        let mut rig = Self::new();
        rig.client.sessions.pretend_active(MdsRank(0), None);
        let held = rig.client.cache.open_inode(InodeKey::head(INO)).caps().held().0;
        // Under `Ax` the mode here is newer than any that is told.
        rig.caps(cap_op::REVOKE, 3, held & !cap::AUTH_EXCL);
        rig.client.cache.learn_inode(MdsRank(0), &described(mode, 0, has_capability));
        rig.caps_with(cap_op::GRANT, 4, held, 0o100_000 | mode);
        if taken != 0 {
            rig.caps(cap_op::REVOKE, 5, held & !taken);
        }
        rig
    }

    fn write_as(&mut self, kill_suidgid: bool) -> Outs {
        let data = Bufs::from(vec![7; 10]);
        self.ask(FsRequest::Write { fh: self.fh, offset: 0, data, kill_suidgid })
    }

    fn writes_arrive_if_any(&mut self) {
        if self.client.services.flights() > 0 {
            self.writes_arrive();
        }
    }

    fn mode(&self) -> u32 {
        self.client.cache.inode(InodeKey::head(INO)).expect("the file").attrs().mode() & 0o7777
    }

    fn reply(&mut self, request: (u64, MdsOp), result: i32, target: InodeStat) -> Outs {
        let mut reply = msgs::ClientReply { op: request.1, result, ..msgs::ClientReply::default() };
        reply.trace.target = (result >= 0).then_some(Box::new(target));
        self.mds_says(request.0, reply)
    }
}

fn asked(out: &Outs) -> (u64, MdsOp) {
    let [(tid, request)] = &requests(out)[..] else { panic!("one request: {out:?}") };
    (*tid, request.op)
}

fn withdrawal(out: &Outs) -> Option<u64> {
    out.iter().find_map(|o| match o {
        Output::Reply {
            reply: Ok(Answer::Invalidate { id, what: Invalidate::Attributes { .. } }), ..
        } => Some(*id),
        _ => None,
    })
}

#[test]
fn a_write_takes_the_bits_away_that_the_kernel_says() {
    for (before, after) in [(0o4755, 0o755), (0o6755, 0o755), (0o2745, 0o2745), (0o6745, 0o2745)] {
        let mut rig = Rig::with_file(before, 0, false);
        let out = rig.write_as(false);
        assert_eq!((answers(&out), rig.mode()), (vec![&Ok(Answer::Written(10))], before), "{before:o}");
        let out = rig.write_as(true);
        assert_eq!((answers(&out), rig.mode()), (vec![&Ok(Answer::Written(10))], after), "{before:o}");
        assert!(asked_mds(&out).is_empty(), "it changes under Ax");
    }
}

#[test]
fn the_new_mode_is_told_and_nobody_believes_the_old_one_when_the_write_is_answered() {
    let mut rig = Rig::with_file(0o4755, 0, false);
    rig.ask(FsRequest::Getattr { ino: INO });
    let out = rig.write_as(true);
    assert!(answers(&out).is_empty());
    let id = withdrawal(&out).expect("the old mode is withdrawn");
    let out = rig.input(Input::Request { id: RequestId(0), request: Request::Invalidated { id } });
    assert_eq!(answers(&out), [&Ok(Answer::Written(10))]);
    let fh = rig.fh;
    let told = cap_messages(&rig.ask(FsRequest::Fsync { fh, data_only: false }));
    assert_eq!((told[0].dirty.0 & cap::AUTH_EXCL, told[0].mode & 0o7777), (cap::AUTH_EXCL, 0o755));
}

#[test]
fn without_the_right_to_change_the_mode_the_mds_does_before_the_write() {
    let mut rig = Rig::with_file(0o4755, cap::AUTH_EXCL, false);
    let out = rig.write_as(true);
    let sent = requests(&out);
    let args: SetattrArgs = sent[0].1.args.get();
    assert_eq!((sent[0].1.op, args.mode & 0o7777), (MdsOp::SETATTR, 0o755));
    assert!(answers(&out).is_empty() && rig.buffered().0 == 0, "nothing is written yet");
    let out = rig.reply(asked(&out), 0, described(0o755, MAY_WRITE, false));
    assert_eq!((answers(&out), rig.mode()), (vec![&Ok(Answer::Written(10))], 0o755));
}

#[test]
fn capabilities_go_before_each_change_of_content_or_owner() {
    type Change = fn(u64) -> FsRequest;
    let set = |set| FsRequest::Setattr { ino: INO, set };
    let truncate = move |_| set(SetAttr { size: Some(3), ..SetAttr::default() });
    let chown = move |_| set(SetAttr { uid: Some(5), ..SetAttr::default() });
    let write: Change =
        |fh| FsRequest::Write { fh, offset: 0, data: Bufs::from(vec![1; 9]), kill_suidgid: false };
    let punch: Change = |fh| FsRequest::Fallocate { fh, offset: 0, len: 10, mode: 3 };
    let open: Change =
        |_| FsRequest::Open { ino: INO, flags: open_flag::TRUNC | open_flag::RDWR, kill_suidgid: false };
    for (n, change) in
        [&truncate as &dyn Fn(u64) -> FsRequest, &chown, &write, &punch, &open].iter().enumerate()
    {
        for result in [0, -61] {
            let mut rig = Rig::with_file(0o755, 0, true);
            let fh = rig.fh;
            let out = rig.ask(change(fh));
            let removes = requests(&out);
            assert_eq!(removes[0].1.op, MdsOp::RMXATTR, "change {n}");
            assert_eq!(removes[0].1.path2.path, b"security.capability");
            assert!(answers(&out).is_empty());
            // The answer need not describe the xattrs that are left.
            let bare =
                InodeStat { xattrs: Vec::new(), xattr_version: 0, ..described(0o755, MAY_WRITE, false) };
            let out = rig.reply(asked(&out), result, bare);
            assert!(answers(&out).len() + asked_mds(&out).len() == 1, "change {n} goes on");
            assert!(!asked_mds(&out).contains(&MdsOp::RMXATTR), "change {n} asks once");
        }
        let mut rig = Rig::with_file(0o755, 0, true);
        let out = rig.ask(change(FH));
        let out = rig.reply(asked(&out), -13, described(0o755, MAY_WRITE, true));
        assert_eq!(answers(&out), [&Err(Errno::EACCES)], "change {n} fails");
    }
}

/// The file that a rig has open at first.
const FH: u64 = 2;

#[test]
fn xattrs_that_are_not_known_are_asked_for_once() {
    let mut rig = Rig::with_file(0o755, cap::XATTR_SHARED | cap::XATTR_EXCL, false);
    let out = rig.write_as(true);
    assert_eq!(asked(&out).1, MdsOp::GETATTR);
    let out = rig.reply(asked(&out), 0, described(0o755, MAY_WRITE & !cap::XATTR_SHARED, false));
    assert_eq!(answers(&out), [&Ok(Answer::Written(10))], "the answer counts although no bit came with it");
    let mut rig = Rig::with_file(0o755, cap::XATTR_SHARED | cap::XATTR_EXCL, false);
    let out = rig.write_as(true);
    let newer = InodeStat { xattr_version: 6, ..described(0o755, MAY_WRITE, true) };
    let out = rig.reply(asked(&out), 0, newer);
    assert_eq!(asked(&out).1, MdsOp::RMXATTR);
}

#[test]
fn a_truncation_or_a_new_owner_takes_the_bits_away_in_one_request() {
    let mut rig = Rig::with_file(0o6755, cap::AUTH_EXCL, false);
    let set = SetAttr { gid: Some(7), kill_suidgid: true, ..SetAttr::default() };
    let out = rig.ask(FsRequest::Setattr { ino: INO, set: set.clone() });
    let args: SetattrArgs = requests(&out)[0].1.args.get();
    assert_eq!((args.mode & 0o7777, args.gid), (0o755, 7));
    let mut rig = Rig::with_file(0o6755, 0, false);
    let out = rig.ask(FsRequest::Setattr { ino: INO, set });
    assert_eq!((asked_mds(&out).len(), answers(&out).len(), rig.mode()), (0, 1, 0o755));
    let mut rig = Rig::with_file(0o4755, 0, false);
    let set = SetAttr { size: Some(0), kill_suidgid: true, ..SetAttr::default() };
    let args: SetattrArgs = requests(&rig.ask(FsRequest::Setattr { ino: INO, set }))[0].1.args.get();
    assert_eq!((args.mode & 0o7777, args.size), (0o755, 0));
}

#[test]
fn opening_truncates_after_the_bits_are_gone() {
    let open = |kill_suidgid| FsRequest::Open { ino: INO, flags: open_flag::TRUNC | 1, kill_suidgid };
    let mut rig = Rig::with_file(0o4755, cap::AUTH_EXCL, false);
    let out = rig.ask(open(true));
    assert_eq!(asked(&out).1, MdsOp::SETATTR);
    let out = rig.reply(asked(&out), 0, described(0o755, MAY_WRITE, false));
    assert_eq!(asked(&out).1, MdsOp::OPEN);
    let mut rig = Rig::with_file(0o4755, cap::AUTH_EXCL, false);
    assert_eq!(asked(&rig.ask(open(false))).1, MdsOp::OPEN);
}

#[test]
fn a_write_that_a_revocation_waits_for_waits_for_no_answer() {
    // Pages of the file are being dropped, which waits for the write; the revocation waits for the pages.
    let invalidating = |mode, has_capability| {
        let mut rig = Rig::with_file(mode, 0, has_capability);
        rig.write_as(false);
        rig.writes_arrive_if_any();
        let out = rig.caps(cap_op::REVOKE, 9, cap::PIN);
        let is_page = |o: &Output<Reply>| {
            matches!(
                o,
                Output::Reply { reply: Ok(Answer::Invalidate { what: Invalidate::Inode { .. }, .. }), .. }
            )
        };
        assert!(out.iter().any(is_page), "pages go first: {out:?}");
        rig
    };
    let mut rig = invalidating(0o4755, false);
    let out = rig.write_as(true);
    assert!(asked_mds(&out).is_empty(), "neither mode nor xattrs are asked for");
    assert_eq!(rig.mode(), 0o755, "the right to change the mode is not given back yet");
}

/// The owner has just changed the mode, of which the MDS has not acknowledged the flush.
#[test]
fn a_truncation_takes_the_bits_away_after_a_change_that_is_not_acknowledged() {
    let mut rig = Rig::with_file(0o755, 0, false);
    let held = rig.client.cache.open_inode(InodeKey::head(INO)).caps().held().0;
    let set = SetAttr { mode: Some(0o6777), ..SetAttr::default() };
    rig.ask(FsRequest::Setattr { ino: INO, set });
    let flushed = cap_messages(&rig.caps(cap_op::REVOKE, 5, held & !cap::AUTH_EXCL));
    assert_eq!((flushed[0].mode & 0o7777, flushed[0].dirty.0 & cap::AUTH_EXCL), (0o6777, cap::AUTH_EXCL));
    let set = SetAttr { size: Some(2), kill_suidgid: true, ..SetAttr::default() };
    let out = rig.ask(FsRequest::Setattr { ino: INO, set });
    let asked = asked(&out);
    let sent: SetattrArgs = requests(&out)[0].1.args.get();
    assert_eq!((asked.1, sent.mode & 0o7777), (MdsOp::SETATTR, 0o777));
    let out = rig.reply(asked, 0, described(0o777, ALL_SHARED, false));
    let [Ok(Answer::Attr(attr, _))] = answers(&out)[..] else { panic!("attributes: {out:?}") };
    assert_eq!((attr.mode & 0o7777, rig.mode()), (0o777, 0o777));
}
