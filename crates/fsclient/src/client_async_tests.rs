//! Creates and unlinks that do not wait for an MDS.

use super::tests::{DIR, DIR_CAPS, INO, Rig, answers, asked_mds, cap_messages, dir_stat, requests, stat};
use super::*;
use crate::api::{Caller, SetAttr};
use crate::key::InodeKey;
use maps::{FileLayout, IntervalSet, MdsRank};
use msgs::{
    Body, Caps, ClientCaps, ClientReply, ClientRequest, ClientSession, CreatedInode, InodeStat, InodeStatCap,
    LeaseStat, MdsOp, ReplyDentry, ReplyTrace, cap, cap_op, request_flag, session_op,
};
use std::time::Duration;
use stdx::Bufs;

/// The first number that is delegated to the client.
const FIRST: u64 = 0x200_0000_0000;
/// The bits of a directory that the client has for itself.
const ALONE: u32 = DIR_CAPS | cap::FILE_EXCL | cap::DIR_CREATE | cap::DIR_UNLINK;
const ALL: u32 = cap::PIN | cap::ANY_RD | cap::ANY_EXCL | cap::FILE_WR | cap::FILE_BUFFER;
const S_IFREG: u32 = 0o100_000;

impl Rig {
    /// A client that has an empty directory for itself, knows the layout of its files, and has two numbers.
    fn alone() -> Self {
        Self::alone_with(true, 2)
    }

    fn alone_with(has_layout: bool, numbers: u64) -> Self {
        let mut rig = Self::with_dir(ALONE);
        let dir = rig.client.cache.open_inode(InodeKey::head(DIR));
        dir.set_names_complete();
        if has_layout {
            dir.note_file_layout(&FileLayout::new(3));
        }
        rig.client.sessions.pretend_delegated(FIRST, numbers);
        rig
    }

    fn create(&mut self, name: &[u8]) -> Outs {
        self.ask(FsRequest::Create { parent: DIR, name: name.to_vec(), mode: 0o640, flags: 2 })
    }

    fn unlink(&mut self, name: &[u8]) -> Outs {
        self.ask(FsRequest::Unlink { parent: DIR, name: name.to_vec() })
    }

    /// The MDS answers an asynchronous create: the file has `number`.
    fn created(&mut self, tid: u64, name: &[u8], number: u64, safe: bool) -> Outs {
        let cap = InodeStatCap { caps: ALL, cap_id: 77, seq: 1, flags: 1, ..InodeStatCap::default() };
        let target = InodeStat { cap, version: 1, max_size: 1 << 30, ..stat(number, S_IFREG | 0o640) };
        self.answer(tid, MdsOp::CREATE, (name, Some(target)), safe)
    }

    fn answer(
        &mut self,
        tid: u64,
        op: MdsOp,
        (name, target): (&[u8], Option<InodeStat>),
        safe: bool,
    ) -> Outs {
        let lease = LeaseStat { mask: LeaseStat::PRIMARY_LINK, ..LeaseStat::default() };
        let dir = InodeStat { nfiles: 7, ..dir_stat(1, ALONE) };
        let dentry = ReplyDentry { dir, dir_stat: Default::default(), name: name.to_vec(), lease };
        let trace = ReplyTrace { dentry: Some(Box::new(dentry)), target: target.map(Box::new) };
        self.mds_says(tid, ClientReply { op, safe, trace, ..ClientReply::default() })
    }

    fn contradicted(&mut self, tid: u64, op: MdsOp) -> Outs {
        let result = Errno::EEXIST.to_result_code();
        self.mds_says(tid, ClientReply { op, result, safe: true, ..ClientReply::default() })
    }

    /// Local callers forget what they are to forget.
    fn forget_what_was_told(&mut self, out: &Outs) {
        for output in out {
            if let Output::Reply { reply: Ok(Answer::Invalidate { id, .. }), .. } = output {
                let request = Request::Invalidated { id: *id };
                assert!(cap_messages(&self.input(Input::Request { id: RequestId(0), request })).is_empty());
            }
        }
    }

    fn files_in_dir(&self) -> u64 {
        self.client.cache.inode(InodeKey::head(DIR)).expect("the directory").attrs().entries().0
    }
}

/// The file and the handle of a create's answer.
fn file_of(out: &Outs) -> (u64, u64) {
    match answers(out)[..] {
        [Ok(Answer::Created { entry, fh })] => (entry.attr.ino, *fh),
        ref other => panic!("{other:?}"),
    }
}

/// True if the capability on an inode is given back.
fn released(out: &Outs, ino: u64) -> bool {
    let gives = |o: &Output<Reply>| match o {
        Output::Send { msg: Msg { body: node::Body::Client(Body::ClientCapRelease(m)), .. }, .. } => {
            m.caps.iter().any(|item| item.ino == ino)
        }
        _ => false,
    };
    out.iter().any(gives)
}

/// The only request of some outputs.
fn request(out: &Outs) -> (u64, ClientRequest) {
    let mut all = requests(out);
    assert_eq!(all.len(), 1, "{all:?}");
    all.remove(0)
}

#[test]
fn a_mount_that_is_to_wait_waits() {
    let mut rig = Rig::alone();
    rig.client.config.options.asynchronous = false;
    let out = rig.create(b"a");
    assert!(answers(&out).is_empty() && cap_messages(&out).is_empty());
    let (_, sent) = request(&out);
    assert!(sent.op == MdsOp::CREATE && sent.flags & request_flag::ASYNC == 0);
}

#[test]
fn a_create_in_a_directory_of_its_own_is_answered_at_once() {
    let mut rig = Rig::alone();
    let out = rig.create(b"a");
    assert_eq!(file_of(&out).0, FIRST);
    let (_, sent) = request(&out);
    assert_eq!((sent.op, sent.ino, sent.path.path), (MdsOp::CREATE, FIRST, b"a".to_vec()));
    assert!(sent.flags & request_flag::ASYNC != 0);
    assert_eq!(asked_mds(&rig.lookup(b"a")), [], "the name is known");
    assert_eq!(rig.files_in_dir(), 1);
    let out = rig.ask(FsRequest::Getattr { ino: FIRST });
    assert!(matches!(answers(&out)[..], [Ok(Answer::Attr(attr, _))] if attr.mode == S_IFREG | 0o640));
}

#[test]
fn without_the_directory_a_number_or_a_layout_a_create_waits() {
    for lacking in 0..5 {
        let mut rig = Rig::alone_with(lacking != 0, if lacking == 1 { 0 } else { 2 });
        match lacking {
            2 => drop(rig.revoke_dir(2, ALONE & !cap::DIR_CREATE)),
            3 => rig.client.cache.open_inode(InodeKey::head(DIR)).forget_name(),
            4 => drop(rig.client.sessions.pretend(State::Reconnecting)),
            _ => {}
        }
        let out = rig.create(b"a");
        assert!(answers(&out).is_empty(), "case {lacking}");
        let is_async = |(_, r): &(u64, ClientRequest)| r.flags & request_flag::ASYNC != 0;
        assert!(!requests(&out).iter().any(is_async), "case {lacking}");
    }
}

#[test]
fn a_file_is_written_before_its_create_is_answered_and_flushed_after() {
    let mut rig = Rig::alone();
    let out = rig.create(b"a");
    let ((_, fh), (tid, _)) = (file_of(&out), request(&out));
    let out =
        rig.ask(FsRequest::Write { fh, offset: 0, data: Bufs::from(vec![1; 100]), kill_suidgid: false });
    assert_eq!(answers(&out), [&Ok(Answer::Written(100))]);
    let out = rig.ask(FsRequest::Fsync { fh, data_only: false });
    assert!(answers(&out).is_empty() && cap_messages(&out).is_empty());
    assert!(cap_messages(&rig.writes_arrive()).is_empty(), "no MDS knows the file");
    let told = cap_messages(&rig.created(tid, b"a", FIRST, false));
    let flush = told.iter().find(|m| m.op == cap_op::FLUSH).expect("a flush");
    assert_eq!((flush.ino, flush.cap_id, flush.file().size), (FIRST, 77, 100), "by the number that it has");
}

#[test]
fn requests_about_what_is_promised_are_sent_after_the_answer() {
    let mut rig = Rig::alone();
    let (tid, _) = request(&rig.create(b"a"));
    let set = crate::api::SetAttr { size: Some(5), ..Default::default() };
    assert_eq!(asked_mds(&rig.ask(FsRequest::Setattr { ino: FIRST, set })), []);
    let link = FsRequest::Link { ino: FIRST, new_parent: 1, new_name: b"b".to_vec() };
    assert_eq!(asked_mds(&rig.ask(link)), []);
    assert_eq!(asked_mds(&rig.lookup(b"other")), [], "known to be free");
    let other = FsRequest::Getattr { ino: INO + 7 };
    assert_eq!(asked_mds(&rig.ask(other)), [MdsOp::GETATTR]);
    assert_eq!(asked_mds(&rig.created(tid, b"a", FIRST, false)), [MdsOp::SETATTR, MdsOp::LINK]);
}

#[test]
fn a_directory_is_given_up_when_all_promises_are_answered() {
    let mut rig = Rig::alone();
    let (first, _) = request(&rig.create(b"a"));
    let (second, _) = request(&rig.create(b"b"));
    assert_eq!(asked_mds(&rig.create(b"c")), [MdsOp::CREATE], "no third number");
    let out = rig.revoke_dir(2, cap::PIN);
    let told = cap_messages(&out);
    let (kept, wanted) = (told[0].caps.has(ALONE), told[0].wanted);
    assert_eq!((told.len(), kept, wanted), (1, true, Caps::NONE), "others may want it");
    rig.forget_what_was_told(&out);
    assert!(cap_messages(&rig.created(first, b"a", FIRST, false)).iter().all(|m| m.ino != DIR));
    let told = cap_messages(&rig.created(second, b"b", FIRST + 1, false));
    let of_dir: Vec<&ClientCaps> = told.iter().filter(|m| m.ino == DIR).collect();
    assert_eq!((of_dir.len(), of_dir[0].caps), (1, Caps(cap::PIN)));
}

#[test]
fn an_unlink_in_a_directory_of_its_own_is_answered_at_once() {
    let mut rig = Rig::alone();
    let (tid, _) = request(&rig.create(b"a"));
    let out = rig.unlink(b"a");
    assert!(answers(&out).is_empty() && requests(&out).is_empty(), "not before the create");
    let out = rig.created(tid, b"a", FIRST, true);
    assert_eq!(answers(&out), [&Ok(Answer::Done)]);
    let (tid, sent) = request(&out);
    assert!(sent.op == MdsOp::UNLINK && sent.flags & request_flag::ASYNC != 0);
    let release = &sent.releases[0];
    assert_eq!((release.ino, release.cap_id, release.caps), (FIRST, 77, ALL & !cap::LINK_SHARED));
    assert_eq!(answers(&rig.lookup(b"a"))[..], [&Ok(Answer::Absent(Duration::from_secs(1)))]);
    let out = rig.ask(FsRequest::Getattr { ino: FIRST });
    assert!(matches!(answers(&out)[..], [Ok(Answer::Attr(attr, _))] if attr.nlink == 0), "still open");
    assert!(answers(&rig.create(b"a")).is_empty(), "the name is given again after the answer");
    let out = rig.answer(tid, MdsOp::UNLINK, (b"a", None), true);
    assert_eq!(file_of(&out).0, FIRST + 1);
}

#[test]
fn an_inode_with_other_names_is_not_unlinked_without_waiting() {
    let mut rig = Rig::alone();
    let (tid, _) = request(&rig.create(b"a"));
    rig.created(tid, b"a", FIRST, true);
    let linked = InodeStat { nlink: 2, version: 2, ..stat(FIRST, S_IFREG | 0o640) };
    rig.client.cache.learn_inode(MdsRank(0), &linked);
    rig.client.cache.end_settling(rig.now, InodeKey::head(FIRST));
    let out = rig.unlink(b"a");
    assert!(answers(&out).is_empty());
    assert_eq!(request(&out).1.flags & request_flag::ASYNC, 0);
}

#[test]
fn answers_on_the_way_do_not_bring_back_what_was_removed() {
    let mut rig = Rig::alone();
    let (tid, _) = request(&rig.create(b"a"));
    rig.created(tid, b"a", FIRST, true);
    let (tid, _) = request(&rig.unlink(b"a"));
    let name = (InodeKey::head(DIR), InodeKey::head(FIRST));
    rig.client.cache.learn_name(rig.now, name.0, b"a", Some(name.1), &LeaseStat::default());
    assert_eq!(asked_mds(&rig.lookup(b"a")), []);
    assert!(matches!(answers(&rig.lookup(b"a"))[..], [Ok(Answer::Absent(_))]));
    rig.answer(tid, MdsOp::UNLINK, (b"a", None), true);
    assert_eq!(rig.files_in_dir(), 7, "nothing is promised: the MDS knows best");
}

#[test]
fn a_sync_waits_for_promises_and_asks_for_the_journal() {
    let mut rig = Rig::alone();
    let out = rig.create(b"a");
    let ((_, fh), (tid, _)) = (file_of(&out), request(&out));
    let out = rig.ask(FsRequest::Fsync { fh, data_only: false });
    assert!(answers(&out).is_empty());
    let flushes = |o: &Output<Reply>| match o {
        Output::Send { msg: Msg { body: node::Body::Client(Body::ClientSession(s)), .. }, .. } => {
            s.head.op == session_op::REQUEST_FLUSH_MDLOG
        }
        _ => false,
    };
    assert!(out.iter().any(flushes));
    assert!(answers(&rig.created(tid, b"a", FIRST, false)).is_empty(), "it is not safe");
    assert_eq!(answers(&rig.created(tid, b"a", FIRST, true)), [&Ok(Answer::Done)]);
}

#[test]
fn requests_that_nobody_waits_for_are_sent_together() {
    let pause = Duration::from_millis(1);
    let gathering = || {
        let mut rig = Rig::alone_with(true, 64);
        rig.client.sessions.pretend_gathering(pause);
        // The first message says that it wants to work here.
        for n in 0..7 {
            let out = rig.create(format!("at once {n}").as_bytes());
            assert_eq!(requests(&out).len(), 1, "its caller may sync next");
        }
        assert!(requests(&rig.create(b"a")).is_empty() && requests(&rig.create(b"b")).is_empty());
        rig
    };
    let names = |out: &Outs| requests(out).into_iter().map(|(_, r)| r.path.path).collect::<Vec<_>>();
    let both = [b"a".to_vec(), b"b".to_vec()];

    let mut rig = gathering();
    assert_eq!(rig.client.sessions.deadline(), Some(rig.now.mono + pause));
    rig.now.mono = rig.now.mono + pause;
    assert_eq!(names(&rig.input(Input::Timer)), both);
    assert!(names(&rig.create(b"c")).is_empty());
    rig.now.mono = rig.now.mono + pause;
    assert_eq!(names(&rig.input(Input::Timer)), [b"c"]);

    let mut rig = gathering();
    let sent = (0..30).map(|n| names(&rig.create(format!("n{n}").as_bytes())).len());
    assert_eq!(sent.collect::<Vec<_>>()[28..], [0, 32], "they are many");

    let mut rig = gathering();
    assert_eq!(names(&rig.ask(FsRequest::Sync)), both, "a caller waits");
    assert_eq!(names(&rig.create(b"c")), [b"c"], "and may do so again");
    assert_eq!(names(&gathering().revoke_dir(2, cap::PIN)), both, "others wait");

    let mut rig = gathering();
    let out = rig.ask(FsRequest::Setattr { ino: INO + 1, set: SetAttr::default() });
    assert_eq!(asked_mds(&out), [MdsOp::CREATE, MdsOp::CREATE, MdsOp::SETATTR], "in their order");
}

#[test]
fn what_had_gathered_for_a_lost_session_is_sent_to_the_next() {
    let mut rig = Rig::alone_with(true, 10);
    rig.client.sessions.pretend_gathering(Duration::from_millis(1));
    let sent: usize = (0..10).map(|n| requests(&rig.create(format!("{n}").as_bytes())).len()).sum();
    assert!(requests(&rig.input(Input::Closed { conn: rig.conn, reason: CloseReason::Reset })).is_empty());
    let repeated = rig.client.sessions.repeats(MdsRank(0));
    let numbers = repeated.iter().map(|(_, r)| r.ino);
    assert_eq!((sent, numbers.collect::<Vec<_>>()), (7, (FIRST..FIRST + 10).collect()));
}

#[test]
fn a_broken_promise_is_reported_once_by_a_sync() {
    let mut rig = Rig::alone();
    let out = rig.create(b"a");
    let ((_, fh), (tid, _)) = (file_of(&out), request(&out));
    let out = rig.contradicted(tid, MdsOp::CREATE);
    let is_error = |o: &Output<Reply>| matches!(o, Output::Event(e) if e.level == Level::Error);
    assert!(out.iter().any(is_error));
    assert_eq!(asked_mds(&rig.lookup(b"a")), [MdsOp::LOOKUP], "the name is not believed any more");
    let out = rig.ask(FsRequest::Fsync { fh, data_only: false });
    assert_eq!(answers(&out), [&Err(Errno::EIO)]);
}

#[test]
fn a_lost_session_repeats_promises_in_their_order() {
    let mut rig = Rig::alone();
    let (first, _) = request(&rig.create(b"a"));
    let (second, _) = request(&rig.create(b"b"));
    rig.created(first, b"a", FIRST, false);
    rig.input(Input::Closed { conn: rig.conn, reason: CloseReason::Reset });
    assert!(answers(&rig.create(b"c")).is_empty(), "nobody has numbers to give");
    let repeated = rig.client.sessions.repeats(MdsRank(0));
    let flags = |r: &ClientRequest| r.flags & (request_flag::REPLAY | request_flag::ASYNC);
    let repeated: Vec<_> = repeated.iter().map(|(tid, r)| (*tid, r.ino, flags(r))).collect();
    let both = request_flag::REPLAY | request_flag::ASYNC;
    assert_eq!(repeated, [(first, FIRST, both), (second, FIRST + 1, request_flag::ASYNC)]);
}

#[test]
fn a_session_that_ends_breaks_its_promises() {
    let mut rig = Rig::alone();
    let out = rig.create(b"a");
    let (_, fh) = file_of(&out);
    rig.mds_says(0, ClientSession::of(session_op::CLOSE, 0));
    assert!(answers(&rig.lookup(b"a")).is_empty(), "the name is not believed any more");
    assert_eq!(answers(&rig.ask(FsRequest::Flush { fh, lock_owner: 0 })), [&Err(Errno::EIO)]);
    let out = rig.ask(FsRequest::Sync);
    assert_eq!(answers(&out), [&Err(Errno::EIO)]);
    assert_eq!(answers(&rig.ask(FsRequest::Sync)), [&Ok(Answer::Done)], "once");
}

#[test]
fn who_changes_a_directory_wants_to_do_so_without_waiting_for_a_while() {
    let mut rig = Rig::with_dir(DIR_CAPS);
    let out = rig.create(b"a");
    let told = cap_messages(&out);
    let all = cap::FILE_EXCL | cap::DIR_CREATE | cap::DIR_UNLINK;
    assert_eq!((told[0].ino, told[0].wanted), (DIR, Caps(all | cap::PIN)));
    assert!(matches!(out[0], Output::Send { msg: Msg { tid: 0, .. }, .. }), "before the request");
    rig.now.mono = rig.now.mono + Duration::from_secs(40);
    assert!(cap_messages(&rig.create(b"b")).is_empty(), "it was told");
    rig.now.mono = rig.now.mono + Duration::from_secs(40);
    assert!(cap_messages(&rig.input(Input::Timer)).is_empty());
    rig.now.mono = rig.now.mono + Duration::from_secs(20);
    assert_eq!(cap_messages(&rig.input(Input::Timer))[0].wanted, Caps::NONE);
}

#[test]
fn layout_and_numbers_come_with_an_answer_to_a_create() {
    let mut rig = Rig::alone_with(false, 0);
    let (tid, _) = request(&rig.create(b"a"));
    let mut delegated = IntervalSet::new();
    delegated.insert(FIRST + 1, 100);
    let extra = wire::Writer::encode(&CreatedInode { ino: FIRST, delegated });
    let layout = (&FileLayout::new(3)).into();
    let target = InodeStat { layout, ..stat(FIRST, S_IFREG | 0o640) };
    let dir = ReplyDentry { dir: dir_stat(1, ALONE), name: b"a".to_vec(), ..ReplyDentry::default() };
    let trace = ReplyTrace { dentry: Some(Box::new(dir)), target: Some(Box::new(target)) };
    let reply = ClientReply { op: MdsOp::CREATE, safe: true, trace, extra, ..ClientReply::default() };
    rig.mds_says(tid, reply);
    assert_eq!(file_of(&rig.create(b"b")).0, FIRST + 1);
}

#[test]
fn a_file_that_others_have_removed_since_is_not_held() {
    let mut rig = Rig::alone();
    let (tid, _) = request(&rig.create(b"a"));
    rig.mds_says(tid, ClientReply { op: MdsOp::CREATE, safe: true, ..ClientReply::default() });
    assert_eq!(asked_mds(&rig.ask(FsRequest::Getattr { ino: FIRST })), [MdsOp::GETATTR]);
}

#[test]
fn a_new_file_has_the_mode_that_the_umask_leaves() {
    let mut rig = Rig::alone();
    let create = FsRequest::Create { parent: DIR, name: b"a".to_vec(), mode: 0o666, flags: 2 };
    rig.input(Input::Request {
        id: RequestId(1),
        request: Request::Fs(Caller { umask: 0o027, ..Caller::default() }, create),
    });
    let out = rig.ask(FsRequest::Getattr { ino: FIRST });
    assert!(matches!(answers(&out)[..], [Ok(Answer::Attr(attr, _))] if attr.mode == S_IFREG | 0o640));
}

#[test]
fn a_file_that_inherits_acls_is_not_made_before_its_mds_knows() {
    let mut rig = Rig::alone();
    // The default list of the directory: owner, group and others, and a mask that takes nothing away.
    let mut list = 2_u32.to_le_bytes().to_vec();
    for (tag, bits) in [(1_u16, 7_u16), (4, 5), (0x10, 7), (0x20, 0)] {
        list.extend([tag.to_le_bytes(), bits.to_le_bytes()].concat());
        list.extend(u32::MAX.to_le_bytes());
    }
    let xattrs = std::collections::BTreeMap::from([(b"system.posix_acl_default".to_vec(), list)]);
    let with_list =
        InodeStat { xattrs: wire::Writer::encode(&xattrs), xattr_version: 2, ..dir_stat(2, ALONE) };
    rig.client.cache.learn_inode(MdsRank(0), &with_list);
    let out = rig.create(b"a");
    assert!(answers(&out).is_empty());
    assert_eq!(asked_mds(&out), [MdsOp::CREATE]);
}

#[test]
fn a_small_file_is_written_while_a_large_one_waits_for_space() {
    let mut rig = Rig::alone();
    rig.client.cache.set_buffer_limit(100_000);
    let write =
        |fh, len| FsRequest::Write { fh, offset: 0, data: Bufs::from(vec![1; len]), kill_suidgid: false };
    let (_, large) = file_of(&rig.create(b"a"));
    let (_, small) = file_of(&rig.create(b"b"));
    assert!(answers(&rig.ask(write(large, 80_000))).is_empty(), "it is more than three quarters");
    assert_eq!(answers(&rig.ask(write(small, 100))), [&Ok(Answer::Written(100))]);
}

impl Rig {
    /// The same, at a server that takes asynchronous requests about directories.
    fn alone_with_dirs() -> Self {
        let mut rig = Self::alone();
        rig.client.sessions.pretend_announced(msgs::session_metadata::ASYNC_DIRS);
        rig
    }

    fn mkdir(&mut self, name: &[u8]) -> Outs {
        self.ask(FsRequest::Mkdir { parent: DIR, name: name.to_vec(), mode: 0o750 })
    }

    fn rmdir(&mut self, name: &[u8]) -> Outs {
        self.ask(FsRequest::Rmdir { parent: DIR, name: name.to_vec() })
    }

    /// The MDS answers a mkdir: the directory has `number`, and the client has it for itself.
    fn made(&mut self, tid: u64, name: &[u8], number: u64, realm: u64) -> Outs {
        let cap =
            InodeStatCap { caps: ALONE, cap_id: 78, seq: 1, flags: 1, realm, ..InodeStatCap::default() };
        let target = InodeStat { cap, version: 1, ..stat(number, S_IFDIR | 0o750) };
        self.answer(tid, MdsOp::MKDIR, (name, Some(target)), false)
    }

    fn dirs_in_dir(&self) -> u64 {
        self.client.cache.inode(InodeKey::head(DIR)).expect("the directory").attrs().entries().1
    }
}

const S_IFDIR: u32 = 0o040_000;

#[test]
fn a_directory_is_made_and_removed_at_once() {
    let mut rig = Rig::alone_with_dirs();
    let out = rig.mkdir(b"a");
    assert!(matches!(answers(&out)[..], [Ok(Answer::Entry(entry))]
        if (entry.attr.ino, entry.attr.mode) == (FIRST, S_IFDIR | 0o750)));
    let (tid, sent) = request(&out);
    assert_eq!((sent.op, sent.ino, sent.path.path), (MdsOp::MKDIR, FIRST, b"a".to_vec()));
    assert!(sent.flags & request_flag::ASYNC != 0);
    assert_eq!((rig.files_in_dir(), rig.dirs_in_dir()), (0, 1));
    assert_eq!(asked_mds(&rig.lookup(b"a")), [], "the name is known");
    let lookup = FsRequest::Lookup { parent: FIRST, name: b"f".to_vec() };
    assert!(matches!(answers(&rig.ask(lookup))[..], [Ok(Answer::Absent(_))]), "it is new");
    // What is made in it, and its removal, wait for the answer.
    let out = rig.ask(FsRequest::Create { parent: FIRST, name: b"f".to_vec(), mode: 0o640, flags: 2 });
    assert!(answers(&out).is_empty() && requests(&out).is_empty());
    let out = rig.made(tid, b"a", FIRST, 1);
    let (tid, _) = request(&out);
    let cap = InodeStatCap { caps: ALL, cap_id: 79, seq: 1, flags: 1, ..InodeStatCap::default() };
    let file = InodeStat { cap, version: 1, max_size: 1 << 30, ..stat(FIRST + 7, S_IFREG | 0o640) };
    let trace = ReplyTrace { target: Some(Box::new(file)), ..ReplyTrace::default() };
    rig.mds_says(tid, ClientReply { op: MdsOp::CREATE, trace, ..ClientReply::default() });
    let second = FsRequest::Create { parent: FIRST, name: b"g".to_vec(), mode: 0o640, flags: 2 };
    assert_eq!(file_of(&rig.ask(second)).0, FIRST + 1, "the second one does not wait");
}

#[test]
fn a_directory_of_its_own_that_is_empty_is_removed_at_once() {
    let mut rig = Rig::alone_with_dirs();
    let (tid, _) = request(&rig.mkdir(b"a"));
    rig.made(tid, b"a", FIRST, 1);
    let out = rig.rmdir(b"a");
    assert_eq!(answers(&out), [&Ok(Answer::Done)]);
    let (_, sent) = request(&out);
    assert_eq!((sent.op, sent.flags & request_flag::ASYNC), (MdsOp::RMDIR, request_flag::ASYNC));
    let given_up = sent.releases.iter().find(|r| r.ino == FIRST).expect("what it held is given up");
    assert_eq!(given_up.caps & (cap::DIR_ASYNC | cap::LINK_SHARED), 0);
    assert_eq!(rig.dirs_in_dir(), 0);
}

#[test]
fn a_directory_is_removed_before_the_removals_in_it_are_answered() {
    let mut rig = Rig::alone_with_dirs();
    let (tid, _) = request(&rig.mkdir(b"a"));
    rig.made(tid, b"a", FIRST, 1);
    rig.client.cache.open_inode(InodeKey::head(FIRST)).note_file_layout(&FileLayout::new(3));
    let create = FsRequest::Create { parent: FIRST, name: b"f".to_vec(), mode: 0o640, flags: 2 };
    let out = rig.ask(create);
    let ((file, fh), (created, _)) = (file_of(&out), request(&out));
    rig.ask(FsRequest::Release { fh, lock_owner: 0 });
    let cap = InodeStatCap { caps: ALL, cap_id: 79, seq: 1, flags: 1, ..InodeStatCap::default() };
    let of_file = InodeStat { cap, version: 1, max_size: 1 << 30, ..stat(file, S_IFREG | 0o640) };
    let dentry = |of: InodeStat| {
        let dir = InodeStat { cap: InodeStatCap::default(), ..stat(FIRST, S_IFDIR | 0o750) };
        let lease = LeaseStat { mask: LeaseStat::PRIMARY_LINK, ..LeaseStat::default() };
        let dentry = ReplyDentry { dir, dir_stat: Default::default(), name: b"f".to_vec(), lease };
        ReplyTrace { dentry: Some(Box::new(dentry)), target: Some(Box::new(of)) }
    };
    let trace = dentry(of_file);
    rig.mds_says(created, ClientReply { op: MdsOp::CREATE, safe: true, trace, ..ClientReply::default() });

    let (unlinked, _) = request(&rig.ask(FsRequest::Unlink { parent: FIRST, name: b"f".to_vec() }));
    let out = rig.rmdir(b"a");
    assert_eq!(answers(&out), [&Ok(Answer::Done)]);
    let (removed, sent) = request(&out);
    assert_eq!((sent.op, sent.flags & request_flag::ASYNC), (MdsOp::RMDIR, request_flag::ASYNC));
    let kept = sent.releases.iter().find(|r| r.ino == FIRST).expect("the number of links is known");
    assert_eq!(kept.caps & (cap::DIR_ASYNC | cap::LINK_SHARED), cap::DIR_ASYNC, "the unlink rests on it");

    let keeps =
        |out: &Outs| cap_messages(out).iter().filter(|m| m.ino == FIRST).all(|m| m.caps.has(cap::DIR_ASYNC));
    let revoke = ClientCaps { op: cap_op::REVOKE, ino: FIRST, cap_id: 78, seq: 2, ..Default::default() };
    let revoke = ClientCaps { caps: Caps(DIR_CAPS), mode: S_IFDIR | 0o750, ..revoke };
    assert!(keeps(&rig.mds_says(0, revoke.clone())), "others may not make names there");
    // For the removal its MDS needs `Ls`, and may have given it back with what crossed the request.
    let caps = Caps(DIR_CAPS & !cap::LINK_SHARED);
    let out = rig.mds_says(0, ClientCaps { caps, seq: 3, ..revoke });
    let told = cap_messages(&out).into_iter().find(|m| m.ino == FIRST).expect("it is given up at once");
    assert_eq!((told.seq, told.caps.0 & cap::LINK_SHARED), (3, 0));
    assert!(told.caps.has(cap::DIR_ASYNC));
    let done = |op| ClientReply { op, safe: true, ..ClientReply::default() };
    let out = rig.mds_says(unlinked, done(MdsOp::UNLINK));
    assert!(keeps(&out), "nor before the directory is gone");
    let out = rig.mds_says(removed, done(MdsOp::RMDIR));
    let told = cap_messages(&out);
    let gives_back = told.iter().any(|m| m.ino == FIRST && !m.caps.has_any(cap::DIR_ASYNC));
    assert!(gives_back || released(&out, FIRST), "it goes with the answer: {told:?}");
}

#[test]
fn a_directory_that_others_may_use_or_with_names_or_snapshots_is_removed_by_the_mds() {
    for case in 0..4 {
        let mut rig = Rig::alone_with_dirs();
        let (tid, _) = request(&rig.mkdir(b"a"));
        rig.made(tid, b"a", FIRST, if case == 0 { FIRST } else { 1 });
        let key = InodeKey::head(FIRST);
        match case {
            1 => {
                let caps = Caps(DIR_CAPS);
                let revoke = ClientCaps {
                    op: cap_op::REVOKE,
                    ino: FIRST,
                    cap_id: 78,
                    seq: 2,
                    caps,
                    ..Default::default()
                };
                rig.mds_says(0, revoke);
            }
            2 => {
                let layout = FileLayout::new(3);
                rig.client.cache.open_inode(key).note_file_layout(&layout);
                let create = FsRequest::Create { parent: FIRST, name: b"f".to_vec(), mode: 0o640, flags: 2 };
                file_of(&rig.ask(create));
            }
            3 => rig.client.sessions.pretend_announced(""),
            _ => {}
        }
        let out = rig.rmdir(b"a");
        assert!(answers(&out).is_empty(), "case {case}");
        assert!(requests(&out).iter().all(|(_, r)| r.flags & request_flag::ASYNC == 0), "case {case}");
    }
}

#[test]
fn a_directory_is_made_at_once_although_nobody_knows_the_layout_of_files_there() {
    let mut rig = Rig::alone_with(false, 2);
    rig.client.sessions.pretend_announced(msgs::session_metadata::ASYNC_DIRS);
    assert_eq!(answers(&rig.mkdir(b"a")).len(), 1);
}

#[test]
fn directories_are_made_by_the_mds_if_it_does_not_announce_otherwise() {
    let mut rig = Rig::alone();
    let out = rig.mkdir(b"a");
    let (_, sent) = request(&out);
    assert_eq!((answers(&out).len(), sent.op, sent.flags & request_flag::ASYNC), (0, MdsOp::MKDIR, 0));
}

#[test]
fn a_directory_that_is_refused_after_all_is_gone_and_the_next_sync_says_so() {
    let mut rig = Rig::alone_with_dirs();
    let (tid, _) = request(&rig.mkdir(b"a"));
    rig.contradicted(tid, MdsOp::MKDIR);
    assert_eq!(asked_mds(&rig.lookup(b"a")), [MdsOp::LOOKUP]);
    assert_eq!(answers(&rig.ask(FsRequest::Fsyncdir { fh: 0 })), [&Err(Errno::EIO)]);
}
