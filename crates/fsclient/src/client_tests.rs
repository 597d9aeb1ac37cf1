//! The client against scripted answers of an MDS and of OSDs.

use super::*;
use crate::api::{Caller, Fh, Ino, SetAttr};
use crate::buffer::{CLOSED_TOGETHER, WRITE_BACK_AFTER, WRITE_BACK_CLOSED_AFTER};
use crate::config::ClientOptions;
use crate::inode::{Access, Inode};
use crate::key::InodeKey;
use auth::Credentials;
use maps::{MdsRank, SnapId};
use msgs::{
    Body, CapBody, CapFile, Caps, ClientCaps, ClientReply, ClientSession, InodeStat, InodeStatCap, MdsOp,
    cap, cap_op, session_op,
};
use node::{AdminId, CloseReason, ConnId};
use std::time::Duration;
use stdx::{Bufs, Wall};
use wire::EntityName;

pub(super) const INO: Ino = 0x100_0000_0000;
/// The file that a rig has open at first.
const FH: Fh = 2;
const RANK: MdsRank = MdsRank(0);
const READ_WRITE: Access = Access { reads: true, writes: true, lazy: false };
pub(super) const ALONE: u32 = cap::PIN
    | cap::ANY_SHARED
    | cap::AUTH_EXCL
    | cap::FILE_EXCL
    | cap::FILE_CACHE
    | cap::FILE_RD
    | cap::FILE_WR
    | cap::FILE_BUFFER;
/// Bits of a file that several read and write.
pub(super) const SHARED: u32 = cap::PIN | cap::AUTH_SHARED | cap::XATTR_SHARED | cap::FILE_RD | cap::FILE_WR;
pub(super) const READERS: u32 = cap::PIN | cap::ANY_SHARED | cap::FILE_RD | cap::FILE_CACHE;

/// A client with an open session and one open file, which nobody else uses.
pub(super) struct Rig {
    pub(super) client: Client,
    pub(super) conn: ConnId,
    pub(super) fh: Fh,
    pub(super) now: Now,
    /// The thread that asks.
    pub(super) pid: u32,
    next_request: u64,
}

impl Rig {
    pub(super) fn new() -> Self {
        Self::with_mons(Vec::new())
    }

    /// The same, with monitors.
    pub(super) fn with_mons(mons: Vec<wire::EntityAddr>) -> Self {
        let config = ClientConfig {
            credentials: Credentials { name: EntityName::new(EntityType::CLIENT, "admin"), key: None },
            mons,
            fsid: None,
            mount: true,
            tells: true,
            hostname: "h".into(),
            mount_point: "/m".into(),
            options: ClientOptions { gather: Duration::ZERO, ..ClientOptions::default() },
        };
        let mut client = Client::new(config, Rng::from_seed(1));
        let conn = client.sessions.pretend(State::Open);
        client.sessions.set_max_file_size(1 << 40);
        let wanted = cap::PIN
            | cap::FILE_SHARED
            | cap::FILE_EXCL
            | cap::FILE_CACHE
            | cap::FILE_RD
            | cap::FILE_WR
            | cap::FILE_BUFFER;
        let cap = InodeStatCap { caps: ALONE, wanted, cap_id: 9, seq: 1, ..InodeStatCap::default() };
        let mut stat = InodeStat { cap, max_size: 1 << 30, ..stat(INO, 0o100_644) };
        (stat.layout.stripe_unit, stat.layout.stripe_count, stat.layout.object_size) = (4 << 20, 1, 4 << 20);
        let key = client.cache.learn_inode(RANK, &stat);
        client.cache.open_inode(key).add_lookups(1);
        client.cache.open_inode(key).opened(READ_WRITE);
        let fh = client.handles.open_file(client.cache.open_inode(key), READ_WRITE, 0);
        assert_eq!(fh, FH);
        let now = Now { mono: Instant(1_000_000_000), wall: Wall(1_000_000_000_000) };
        Self { client, conn, fh, now, pid: 0, next_request: 1 }
    }

    pub(super) fn input(&mut self, input: Input<Request>) -> Outs {
        let mut out = Vec::new();
        self.client.handle(self.now, input, &mut out);
        out
    }

    pub(super) fn ask(&mut self, request: FsRequest) -> Outs {
        self.next_request += 1;
        let request = Request::Fs(Caller { pid: self.pid, ..Caller::default() }, request);
        self.input(Input::Request { id: RequestId(self.next_request), request })
    }

    pub(super) fn mds_says(&mut self, tid: u64, body: impl Into<Body>) -> Outs {
        let msg = Msg::new(tid, body.into());
        self.input(Input::Message { conn: self.conn, msg })
    }

    pub(super) fn caps(&mut self, op: u32, seq: u32, bits: u32) -> Outs {
        self.caps_with(op, seq, bits, 0)
    }

    /// The same, with a mode.
    pub(super) fn caps_with(&mut self, op: u32, seq: u32, bits: u32, mode: u32) -> Outs {
        let body = CapBody::File(CapFile { max_size: 1 << 30, ..CapFile::default() });
        let caps = Caps(bits);
        let message =
            ClientCaps { op, ino: INO, cap_id: 9, seq, caps, mode, nlink: 1, body, ..ClientCaps::default() };
        self.mds_says(0, message)
    }

    /// All writes to OSDs in flight arrive.
    pub(super) fn writes_arrive(&mut self) -> Outs {
        assert!(self.client.services.land_all() > 0, "something is in flight");
        let mut out = Vec::new();
        self.client.settle(self.now, &mut out);
        out
    }

    /// Closes the file, whose data leave after a while.
    pub(super) fn close_and_wait(&mut self) -> Outs {
        let mut out = self.ask(FsRequest::Release { fh: self.fh, lock_owner: 0 });
        self.now.mono = self.now.mono + WRITE_BACK_CLOSED_AFTER + CLOSED_TOGETHER;
        out.extend(self.input(Input::Timer));
        out
    }

    pub(super) fn write(&mut self, offset: u64, len: usize) -> Outs {
        self.ask(FsRequest::Write {
            fh: self.fh,
            offset,
            data: Bufs::from(vec![7; len]),
            kill_suidgid: false,
        })
    }

    pub(super) fn inode(&self) -> &Inode {
        self.client.cache.inode(InodeKey::head(INO)).expect("the rig's file")
    }

    /// Closes the file without telling anybody.
    pub(super) fn forget_file(&mut self) {
        self.client.handles.close_file(self.fh).expect("an open file");
        self.client.cache.open_inode(InodeKey::head(INO)).closed(READ_WRITE);
    }

    /// Opens the file again.
    fn open_again(&mut self) {
        self.open_with(0);
    }

    /// Opens the file again, with bits of open(2).
    pub(super) fn open_with(&mut self, flags: u32) {
        let inode = self.client.cache.open_inode(InodeKey::head(INO));
        inode.opened(READ_WRITE);
        self.fh = self.client.handles.open_file(inode, READ_WRITE, flags);
    }

    pub(super) fn has_cap(&self) -> bool {
        self.inode().caps().cap().is_some()
    }

    /// Buffered bytes of the file, and the error that nobody has been told of.
    pub(super) fn buffered(&self) -> (u64, Option<Errno>) {
        (self.inode().data().dirty().bytes(), self.inode().data().error())
    }
}

/// An inode with one name.
pub(super) fn stat(ino: Ino, mode: u32) -> InodeStat {
    InodeStat { ino, snapid: SnapId::HEAD, mode, nlink: 1, ..InodeStat::default() }
}

/// Messages about capabilities, in order.
pub(super) fn cap_messages(out: &Outs) -> Vec<ClientCaps> {
    let body = |o: &Output<Reply>| match o {
        Output::Send { msg: Msg { body: node::Body::Client(Body::ClientCaps(m)), .. }, .. } => {
            Some((**m).clone())
        }
        _ => None,
    };
    out.iter().filter_map(body).collect()
}

pub(super) fn asked_mds(out: &Outs) -> Vec<MdsOp> {
    let op = |o: &Output<Reply>| match o {
        Output::Send { msg: Msg { body: node::Body::Client(Body::ClientRequest(m)), .. }, .. } => Some(m.op),
        _ => None,
    };
    out.iter().filter_map(op).collect()
}

pub(super) fn answers(out: &Outs) -> Vec<&Reply> {
    let reply = |o| match o {
        &Output::Reply { id: RequestId(1..), ref reply } => Some(reply),
        _ => None,
    };
    out.iter().filter_map(reply).collect()
}

fn invalidation(out: &Outs) -> Option<u64> {
    out.iter().find_map(|o| match o {
        Output::Reply { reply: Ok(Answer::Invalidate { id, .. }), .. } => Some(*id),
        _ => None,
    })
}

#[test]
fn a_write_is_answered_from_the_buffer_and_leaves_after_a_while() {
    let mut rig = Rig::new();
    let out = rig.write(0, 5000);
    assert_eq!(answers(&out), [&Ok(Answer::Written(5000))]);
    assert!(!rig.client.services.is_waiting(), "nothing leaves yet");
    rig.now.mono = rig.now.mono + WRITE_BACK_AFTER;
    assert!(cap_messages(&rig.input(Input::Timer)).is_empty(), "data go first");
    let told = cap_messages(&rig.writes_arrive());
    assert_eq!((told[0].op, told[0].dirty.0, told[0].file().size), (cap_op::FLUSH, cap::FILE_WR, 5000));
}

#[test]
fn a_revocation_is_confirmed_after_data_attributes_and_pages() {
    let mut rig = Rig::new();
    rig.write(0, 5000);
    let out = rig.caps(cap_op::REVOKE, 2, READERS & !cap::FILE_CACHE);
    assert!(cap_messages(&out).is_empty(), "data are not there yet");
    let invalidation = invalidation(&out).expect("pages are dropped");
    assert_eq!(rig.inode().attrs().size(), 5000, "the size that the revocation tells is the older one");
    let told = cap_messages(&rig.writes_arrive());
    assert_eq!((told.len(), told[0].op, told[0].file().size), (1, cap_op::FLUSH, 5000));
    assert_eq!(told[0].caps.0, ALONE, "pages are still there");
    let out =
        rig.input(Input::Request { id: RequestId(0), request: Request::Invalidated { id: invalidation } });
    let told = cap_messages(&out);
    assert_eq!((told.len(), told[0].seq, told[0].caps.0), (1, 2, READERS & !cap::FILE_CACHE));
}

#[test]
fn readers_do_not_delay_a_revocation() {
    let mut rig = Rig::new();
    rig.write(0, 10);
    let first = invalidation(&rig.caps(cap_op::REVOKE, 2, READERS & !cap::FILE_CACHE)).expect("pages");
    rig.writes_arrive();
    rig.ask(FsRequest::Read { fh: FH, offset: 0, len: 10 });
    let out = rig.input(Input::Request { id: RequestId(0), request: Request::Invalidated { id: first } });
    assert!(invalidation(&out).is_none());
    assert!(cap_messages(&out).iter().any(|m| !m.caps.has(cap::FILE_CACHE)), "confirmed");
}

#[test]
fn a_file_opened_during_an_invalidation_does_not_keep_its_pages() {
    let mut rig = Rig::new();
    let open = |rig: &mut Rig| {
        let out = rig.ask(FsRequest::Open { ino: INO, flags: 0, kill_suidgid: false });
        match answers(&out)[..] {
            [Ok(Answer::Opened { keep_cache, .. })] => *keep_cache,
            ref other => panic!("{other:?}"),
        }
    };
    rig.write(0, 10);
    assert!(open(&mut rig));
    // A restarted MDS revokes them from a client that comes late, and grants them again before they are
    // dropped.
    let dropped = invalidation(&rig.caps(cap_op::REVOKE, 2, cap::PIN)).expect("pages are dropped");
    rig.writes_arrive();
    rig.caps(cap_op::GRANT, 3, READERS);
    assert!(!open(&mut rig));
    rig.input(Input::Request { id: RequestId(0), request: Request::Invalidated { id: dropped } });
    assert!(!open(&mut rig), "there are none");
}

#[test]
fn pages_from_before_a_regained_right_to_keep_them_do_not_count() {
    // They are read under a revoked right while older ones are dropped; then the right comes back.
    let mut rig = Rig::new();
    rig.write(0, 10);
    let first = invalidation(&rig.caps(cap_op::REVOKE, 2, READERS & !cap::FILE_CACHE)).expect("pages");
    rig.writes_arrive();
    rig.ask(FsRequest::Read { fh: FH, offset: 0, len: 10 });
    rig.caps(cap_op::GRANT, 3, READERS);
    let dropped = |id| Input::Request { id: RequestId(0), request: Request::Invalidated { id } };
    assert!(invalidation(&rig.input(dropped(first))).is_none(), "callers check them by the time");
    assert!(!rig.inode().has_valid_pages(), "a file that is opened now does not keep them");
    rig.ask(FsRequest::Read { fh: FH, offset: 0, len: 10 });
    assert!(rig.inode().has_valid_pages());
    // Another capability: in between there was none, and nobody had to say so.
    let cap = InodeStatCap { caps: READERS, cap_id: 10, seq: 1, ..InodeStatCap::default() };
    rig.client.cache.learn_inode(RANK, &InodeStat { cap, ..stat(INO, 0o100_644) });
    assert!(rig.inode().may_keep_pages());
    assert!(!rig.inode().has_valid_pages());
}

#[test]
fn each_write_to_a_shared_file_has_a_later_time() {
    let mut rig = Rig::new();
    rig.write(0, 10);
    rig.write(10, 10);
    let alone = rig.inode().attrs().mtime();
    assert_eq!(Wall::from(alone), rig.now.wall, "the same clock reading, the same time");
    rig.caps(cap_op::REVOKE, 2, SHARED);
    let out = rig.write(0, 10);
    assert!(rig.inode().attrs().mtime() > alone);
    assert!(invalidation(&out).is_none(), "callers check their pages by it");
}

#[test]
fn who_changes_attributes_of_a_shared_file_drops_its_pages() {
    // The answer tells the time of others' writes as well, as if the caller's pages had them.
    let mut rig = Rig::new();
    let dropped = invalidation(&rig.caps(cap_op::REVOKE, 2, SHARED));
    assert_eq!(dropped, None, "there are none that are believed");
    rig.client.sessions.pretend_active(RANK, None);
    rig.ask(FsRequest::Setattr { ino: INO, set: SetAttr { mode: Some(0o600), ..SetAttr::default() } });
    let mut reply = ClientReply { op: MdsOp::SETATTR, safe: true, ..ClientReply::default() };
    let xattrs = wire::Writer::encode(&BTreeMap::<Vec<u8>, Vec<u8>>::new());
    reply.trace.target = Some(Box::new(InodeStat { xattrs, ..stat(INO, 0o100_600) }));
    assert!(invalidation(&rig.mds_says(1, reply)).is_some());
}

#[test]
fn mode_and_times_change_here_and_travel_in_one_flush() {
    let mut rig = Rig::new();
    rig.write(0, 10);
    let mut out = rig.ask(FsRequest::Setattr {
        ino: INO,
        set: SetAttr { mtime: Some(Wall(5)), atime: Some(Wall(6)), ..SetAttr::default() },
    });
    out.extend(
        rig.ask(FsRequest::Setattr { ino: INO, set: SetAttr { mode: Some(0o600), ..SetAttr::default() } }),
    );
    assert_eq!((answers(&out).len(), asked_mds(&out).len(), cap_messages(&out).len()), (2, 0, 0));
    let out = rig.close_and_wait();
    assert!(cap_messages(&out).iter().all(|m| m.dirty.0 == 0));
    let told = cap_messages(&rig.writes_arrive());
    assert_eq!(told[0].dirty.0, cap::FILE_WR | cap::FILE_EXCL | cap::AUTH_EXCL);
    assert_eq!((told[0].mode, told[0].file().mtime.nsec, told[0].file().time_warp_seq), (0o100_600, 5, 1));
}

#[test]
fn a_write_replaces_a_modification_time_ahead_of_the_clock() {
    let mut rig = Rig::new();
    let ahead = Wall(2 * 1_000_000_000_000);
    rig.ask(FsRequest::Setattr { ino: INO, set: SetAttr { mtime: Some(ahead), ..SetAttr::default() } });
    assert_eq!(rig.inode().attr().mtime, ahead);
    rig.write(0, 10);
    assert!(rig.inode().attr().mtime < ahead);
    rig.close_and_wait();
    let told = cap_messages(&rig.writes_arrive());
    assert_eq!(told[0].dirty.0, cap::FILE_WR | cap::FILE_EXCL);
    assert!(Wall::from(told[0].file().mtime) < ahead);
    assert_eq!(told[0].file().time_warp_seq, 2, "the MDS and other clients must not take the later one");
}

#[test]
fn an_older_mode_in_a_revocation_does_not_undo_ours() {
    let mut rig = Rig::new();
    rig.ask(FsRequest::Setattr { ino: INO, set: SetAttr { mode: Some(0o600), ..SetAttr::default() } });
    let told = cap_messages(&rig.caps(cap_op::REVOKE, 2, ALONE & !cap::AUTH_EXCL));
    assert_eq!((told[0].op, told[0].mode, told[0].dirty.0), (cap_op::FLUSH, 0o100_600, cap::AUTH_EXCL));
    assert_eq!(told[0].caps.0, ALONE & !cap::AUTH_EXCL, "and with it goes the confirmation");
}

#[test]
fn a_grant_that_makes_a_client_the_owner_tells_what_others_have_set() {
    let mut rig = Rig::new();
    rig.caps(cap_op::REVOKE, 2, cap::PIN);
    rig.caps_with(cap_op::GRANT, 3, ALONE, 0o100_755);
    assert_eq!(rig.inode().attr().mode, 0o100_755);
}

#[test]
fn reads_at_the_end_of_a_shared_file_ask_how_large_it_is() {
    let mut rig = Rig::new();
    rig.caps(cap_op::REVOKE, 2, SHARED);
    rig.client.sessions.pretend_active(RANK, None);
    let out = rig.ask(FsRequest::Read { fh: FH, offset: 0, len: 100 });
    assert_eq!((asked_mds(&out), answers(&out).len()), (vec![MdsOp::GETATTR], 0));
    let out = rig.mds_says(1, ClientReply { op: MdsOp::GETATTR, safe: true, ..ClientReply::default() });
    assert_eq!(answers(&out), [&Ok(Answer::Data(Bufs::new()))], "it is empty, and nobody is asked again");
}

#[test]
fn nobody_is_told_that_space_is_kept_for_later_writes() {
    let mut rig = Rig::new();
    for mode in [0, 1] {
        let out = rig.ask(FsRequest::Fallocate { fh: FH, offset: 0, len: 100, mode });
        assert_eq!((answers(&out), asked_mds(&out)), (vec![&Err(Errno::EOPNOTSUPP)], vec![]));
    }
}

#[test]
fn holes_in_a_shared_file_reach_to_its_end_as_others_made_it() {
    let mut rig = Rig::new();
    rig.caps(cap_op::REVOKE, 2, SHARED);
    rig.client.sessions.pretend_active(RANK, None);
    let out = rig.ask(FsRequest::Fallocate { fh: FH, offset: 0, len: 100, mode: 3 });
    assert_eq!((asked_mds(&out), answers(&out).len()), (vec![MdsOp::GETATTR], 0));
    let mut reply = ClientReply { op: MdsOp::GETATTR, safe: true, ..ClientReply::default() };
    let layout = rig.inode().attrs().layout().clone();
    let cap = InodeStatCap { caps: SHARED, cap_id: 9, seq: 3, ..InodeStatCap::default() };
    let longer = InodeStat { size: 50, version: 9, layout: (&layout).into(), cap, ..stat(INO, 0o100_644) };
    reply.trace.target = Some(Box::new(longer));
    rig.mds_says(1, reply);
    assert!(rig.client.services.is_waiting(), "objects are zeroed");
}

#[test]
fn buffered_bytes_are_counted_right_through_overwrites_and_truncation() {
    let mut rig = Rig::new();
    (0..50).for_each(|_| drop(rig.write(0, 10_000)));
    assert_eq!(rig.client.cache.buffer().bytes(), 10_000);
    rig.ask(FsRequest::Setattr { ino: INO, set: SetAttr { size: Some(100), ..SetAttr::default() } });
    assert_eq!(rig.client.cache.buffer().bytes(), 100);
    rig.writes_arrive();
    assert_eq!(rig.client.cache.buffer().bytes(), 0);
}

#[test]
fn writers_wait_while_too_much_is_buffered() {
    let mut rig = Rig::new();
    rig.client.cache.set_buffer_limit(100_000);
    assert_eq!(answers(&rig.write(0, 60_000)).len(), 1);
    assert_eq!(answers(&rig.write(60_000, 60_000)).len(), 0);
    assert_eq!(answers(&rig.writes_arrive()), [&Ok(Answer::Written(60_000))]);
}

#[test]
fn a_dead_mds_loses_nothing_however_long_its_successor_takes() {
    let mut rig = Rig::new();
    rig.write(0, 10);
    rig.input(Input::Closed { conn: rig.conn, reason: CloseReason::Refused });
    for _ in 0..100 {
        rig.now.mono = rig.now.mono + Duration::from_secs(1);
        rig.input(Input::Timer);
    }
    assert_eq!(rig.buffered(), (10, None));
    assert!(rig.has_cap());
}

#[test]
fn fdatasync_waits_for_the_size_but_not_for_times() {
    let mut rig = Rig::new();
    let fdatasync = || FsRequest::Fsync { fh: FH, data_only: true };
    rig.write(0, 5000);
    let out = rig.ask(fdatasync());
    assert_eq!((answers(&out).len(), cap_messages(&out)[0].file().size), (0, 5000));
    assert_eq!(answers(&rig.writes_arrive()).len(), 0);
    let ack = ClientCaps { op: cap_op::FLUSH_ACK, ino: INO, cap_id: 9, ..ClientCaps::default() };
    assert_eq!(answers(&rig.mds_says(1, ack)), [&Ok(Answer::Done)]);
    rig.write(1000, 3000);
    assert_eq!(answers(&rig.ask(fdatasync())).len(), 0);
    let out = rig.writes_arrive();
    assert_eq!((answers(&out).len(), cap_messages(&out).len()), (1, 0), "the MDS is not asked");
    assert_eq!(
        answers(&rig.ask(FsRequest::Fsync { fh: FH, data_only: false })).len(),
        0,
        "but fsync asks it"
    );
}

#[test]
fn recalled_capabilities_go_back_unless_in_use() {
    let mut rig = Rig::new();
    for n in 1..=10 {
        let cap = InodeStatCap { caps: READERS, cap_id: 100 + n, seq: 1, ..InodeStatCap::default() };
        rig.client.cache.learn_inode(RANK, &InodeStat { cap, ..stat(INO + n, 0o100_644) });
    }
    let mut recall = ClientSession::of(session_op::RECALL_STATE, 0);
    recall.head.max_caps = 4;
    let out = rig.mds_says(0, recall);
    assert_eq!((released(&out).len(), rig.client.cache.len()), (7, 4));
    assert!(rig.has_cap(), "an open file keeps its capability");
    assert!(matches!(rig.client.admin(AdminId(1)), Output::AdminReply { code: 0, .. }));
}

pub(super) const DIR: Ino = 0x100_0000_0100;
pub(super) const DIR_CAPS: u32 = cap::PIN | cap::ANY_SHARED;

impl Rig {
    /// An active MDS, and a directory on which it gives `bits`.
    pub(super) fn with_dir(bits: u32) -> Self {
        let mut rig = Self::new();
        rig.client.sessions.pretend_active(RANK, None);
        rig.client.cache.learn_inode(RANK, &dir_stat(1, bits));
        rig
    }

    pub(super) fn lookup(&mut self, name: &[u8]) -> Outs {
        self.ask(FsRequest::Lookup { parent: DIR, name: name.to_vec() })
    }

    /// The MDS answers that a name leads to `INO`; the directory comes with the capability `seq`, `bits`.
    pub(super) fn found(&mut self, tid: u64, name: &[u8], seq: u32, bits: u32) -> Outs {
        let dentry = msgs::ReplyDentry {
            dir: dir_stat(seq, bits),
            dir_stat: msgs::DirStat::default(),
            name: name.to_vec(),
            lease: msgs::LeaseStat::default(),
        };
        let target = stat(INO, 0o100_644);
        let trace = msgs::ReplyTrace { dentry: Some(Box::new(dentry)), target: Some(Box::new(target)) };
        self.mds_says(tid, ClientReply { op: MdsOp::LOOKUP, safe: true, trace, ..ClientReply::default() })
    }

    pub(super) fn revoke_dir(&mut self, seq: u32, bits: u32) -> Outs {
        let message = ClientCaps {
            op: cap_op::REVOKE,
            ino: DIR,
            cap_id: 5,
            seq,
            caps: Caps(bits),
            nlink: 1,
            ..ClientCaps::default()
        };
        self.mds_says(0, message)
    }
}

pub(super) fn dir_stat(seq: u32, caps: u32) -> InodeStat {
    let cap = InodeStatCap { caps, cap_id: 5, seq, ..InodeStatCap::default() };
    InodeStat { cap, ..stat(DIR, 0o040_755) }
}

/// Capabilities that are given back.
pub(super) fn released(out: &Outs) -> Vec<msgs::CapReleaseItem> {
    let items = |o: &Output<Reply>| match o {
        Output::Send { msg: Msg { body: node::Body::Client(Body::ClientCapRelease(m)), .. }, .. } => {
            m.caps.clone()
        }
        _ => Vec::new(),
    };
    out.iter().flat_map(items).collect()
}

/// Requests to the MDS, with their tids.
pub(super) fn requests(out: &Outs) -> Vec<(u64, msgs::ClientRequest)> {
    let request = |o: &Output<Reply>| match o {
        Output::Send { msg: Msg { tid, body: node::Body::Client(Body::ClientRequest(m)), .. }, .. } => {
            Some((*tid, (**m).clone()))
        }
        _ => None,
    };
    out.iter().filter_map(request).collect()
}

#[test]
fn a_name_is_believed_as_long_as_the_directory_is_not_given_up() {
    let mut rig = Rig::with_dir(DIR_CAPS);
    let asked = requests(&rig.lookup(b"a"));
    rig.found(asked[0].0, b"a", 2, DIR_CAPS);
    assert_eq!(asked_mds(&rig.lookup(b"a")), []);
    rig.revoke_dir(3, DIR_CAPS & !cap::FILE_SHARED);
    assert_eq!(asked_mds(&rig.lookup(b"a")), [MdsOp::LOOKUP]);
}

#[test]
fn the_link_count_of_what_loses_a_name_is_left_to_the_mds() {
    let (parent, name) = (DIR, b"a".to_vec());
    let unlink = FsRequest::Unlink { parent, name: name.clone() };
    for request in [unlink, FsRequest::Rmdir { parent, name }] {
        let mut rig = Rig::with_dir(DIR_CAPS);
        let asked = requests(&rig.lookup(b"a"));
        rig.found(asked[0].0, b"a", 2, DIR_CAPS);
        assert!(rig.inode().may(cap::LINK_SHARED));
        let out = rig.ask(request);
        assert!(!rig.inode().may(cap::LINK_SHARED), "it changes");
        let release = &requests(&out)[0].1.releases[0];
        assert_eq!((release.ino, release.caps & cap::LINK_SHARED), (INO, 0), "the request says so");
        assert!(cap_messages(&out).iter().all(|m| m.ino != INO));
        // The MDS has asked for it before the request arrived.
        let answer = cap_messages(&rig.caps(cap_op::REVOKE, 3, DIR_CAPS & !cap::LINK_SHARED));
        assert_eq!((answer.len(), answer[0].seq), (1, 3), "{answer:?}");
    }
}

#[test]
fn a_name_learnt_without_the_right_to_keep_it_is_not_believed_when_that_is_gained() {
    let mut rig = Rig::with_dir(DIR_CAPS);
    rig.revoke_dir(2, DIR_CAPS & !cap::FILE_SHARED);
    // Somebody changes the directory; this answer is older.
    let asked = requests(&rig.lookup(b"a"));
    rig.found(asked[0].0, b"a", 3, DIR_CAPS & !cap::FILE_SHARED);
    // And this one is newer.
    let asked = requests(&rig.lookup(b"b"));
    rig.found(asked[0].0, b"b", 4, DIR_CAPS);
    assert_eq!(asked_mds(&rig.lookup(b"b")), []);
    assert_eq!(asked_mds(&rig.lookup(b"a")), [MdsOp::LOOKUP], "it may have gone in between");
}

#[test]
fn a_listing_does_not_make_up_for_names_forgotten_meanwhile() {
    let mut rig = Rig::with_dir(DIR_CAPS);
    let out = rig.ask(FsRequest::Opendir { ino: DIR });
    let Ok(Answer::Opened { fh, .. }) = answers(&out)[0] else { panic!("opened") };
    let page = |flags: u16, name: &[u8]| {
        let inode = InodeStat { nlink: 0, ..stat(INO + 1, 0o100_644) };
        let entry = msgs::ReaddirEntry { name: name.to_vec(), lease: msgs::LeaseStat::default(), inode };
        let listing = msgs::ReaddirReply { dir: msgs::DirStat::default(), flags, entries: vec![entry] };
        let trace = msgs::ReplyTrace { target: Some(Box::new(dir_stat(2, DIR_CAPS))), dentry: None };
        let extra = wire::Writer::encode(&listing);
        ClientReply { op: MdsOp::READDIR, safe: true, trace, extra, ..ClientReply::default() }
    };
    let read = |offset| FsRequest::Readdir { fh: *fh, offset, max_bytes: 4096, plus: false };
    let asked = requests(&rig.ask(read(2)));
    rig.mds_says(asked[0].0, page(0, b"a"));
    rig.client.cache.forget_name(InodeKey::head(DIR), b"a");
    let asked = requests(&rig.ask(read(3)));
    rig.mds_says(asked[0].0, page(msgs::readdir_flag::FRAG_END, b"b"));
    assert_eq!(asked_mds(&rig.lookup(b"a")), [MdsOp::LOOKUP], "the listing had it");
    let out = rig.ask(FsRequest::Opendir { ino: DIR });
    assert_eq!(answers(&out).len(), 1);
}

#[test]
fn a_message_about_a_capability_that_was_given_up_does_not_bring_it_back() {
    let mut rig = Rig::new();
    rig.forget_file();
    let mut recall = ClientSession::of(session_op::RECALL_STATE, 0);
    recall.head.max_caps = 0;
    rig.mds_says(0, recall);
    assert!(!rig.has_cap(), "referenced from above, and not open");
    let out = rig.caps(cap_op::REVOKE, 7, READERS);
    assert!(!rig.has_cap());
    assert_eq!(released(&out)[0].seq, 7, "it is told that nothing is held as of its message");
}

#[test]
fn an_open_file_whose_capability_is_gone_is_opened_again() {
    let mut rig = Rig::new();
    rig.client.sessions.pretend_active(RANK, None);
    rig.caps(cap_op::EXPORT, 0, 0);
    assert!(!rig.has_cap());
    let asked = requests(&rig.ask(FsRequest::Read { fh: FH, offset: 0, len: 10 }));
    assert_eq!((asked.len(), asked[0].1.op, asked[0].1.path.ino), (1, MdsOp::OPEN, INO));
    let stale =
        |op| ClientReply { op, result: Errno::ESTALE.to_result_code(), safe: true, ..ClientReply::default() };
    let asked = requests(&rig.mds_says(asked[0].0, stale(MdsOp::OPEN)));
    assert_eq!(
        (asked[0].1.op, asked[0].1.path.ino),
        (MdsOp::LOOKUPINO, INO),
        "it may only have left a cache"
    );
    let out = rig.mds_says(asked[0].0, stale(MdsOp::LOOKUPINO));
    assert_eq!(answers(&out), [&Err(Errno::ESTALE)]);
}

#[test]
fn a_request_goes_on_when_its_inode_was_found_by_number() {
    let mut rig = Rig::with_dir(DIR_CAPS);
    rig.client.cache.open_inode(InodeKey::head(DIR)).lose_cap();
    let asked = requests(&rig.lookup(b"a"));
    assert_eq!((asked[0].1.path.ino, asked[0].1.path.path.as_slice()), (DIR, b"a".as_slice()));
    let stale = ClientReply {
        op: MdsOp::LOOKUP,
        result: Errno::ESTALE.to_result_code(),
        safe: true,
        ..ClientReply::default()
    };
    let asked = requests(&rig.mds_says(asked[0].0, stale));
    let trace = msgs::ReplyTrace { target: Some(Box::new(dir_stat(1, DIR_CAPS))), dentry: None };
    let found = ClientReply { op: MdsOp::LOOKUPINO, safe: true, trace, ..ClientReply::default() };
    let asked = requests(&rig.mds_says(asked[0].0, found));
    assert_eq!(asked[0].1.op, MdsOp::LOOKUP);
    assert_eq!(answers(&rig.found(asked[0].0, b"a", 2, DIR_CAPS)).len(), 1);
}

#[test]
fn a_writer_that_needs_a_larger_max_size_asks_the_next_mds_again() {
    let mut rig = Rig::new();
    let asked = cap_messages(&rig.write(2 << 30, 10));
    assert!(asked[0].file().max_size > 2 << 30);
    rig.input(Input::Closed { conn: rig.conn, reason: CloseReason::Refused });
    rig.conn = rig.client.sessions.pretend(State::Reconnecting);
    let again = cap_messages(&rig.mds_says(0, ClientSession::of(session_op::OPEN, 0)));
    assert_eq!(again.iter().map(|m| m.file().max_size).collect::<Vec<_>>(), [asked[0].file().max_size]);
}

#[test]
fn creating_a_name_that_is_no_file_does_not_open_it() {
    for (mode, errno) in [(0o120_777, Errno::ELOOP), (0o040_755, Errno::EISDIR), (0o010_644, Errno::EEXIST)] {
        let mut rig = Rig::with_dir(DIR_CAPS);
        let create = FsRequest::Create { parent: DIR, name: b"a".to_vec(), mode: 0o644, flags: 2 };
        let asked = requests(&rig.ask(create));
        assert_eq!(asked[0].1.op, MdsOp::CREATE);
        let (caps, wanted) = (READERS, cap::PIN | cap::FILE_RD | cap::FILE_WR);
        let cap = InodeStatCap { caps, wanted, cap_id: 8, seq: 1, ..InodeStatCap::default() };
        let target = InodeStat { cap, ..stat(INO + 1, mode) };
        let trace = msgs::ReplyTrace { dentry: None, target: Some(Box::new(target)) };
        let reply = ClientReply { op: MdsOp::CREATE, safe: true, trace, ..ClientReply::default() };
        let out = rig.mds_says(asked[0].0, reply);
        assert_eq!(answers(&out), [&Err(errno)]);
        assert_eq!(rig.client.handles.file_count(), 1, "only the one that was open before");
        let told: Vec<Caps> = cap_messages(&out).iter().map(|m| m.wanted).collect();
        assert_eq!(told, [Caps::NONE], "nothing is wanted of what is not open");
    }
}

#[test]
fn the_answer_to_a_repeated_request_may_be_old() {
    for repeats in [false, true] {
        let mut rig = Rig::with_dir(DIR_CAPS);
        let (name, new_name) = (b"a".to_vec(), b"b".to_vec());
        let rename = FsRequest::Rename { parent: DIR, name, new_parent: DIR, new_name, flags: 0 };
        let asked = requests(&rig.ask(rename));
        assert_eq!(asked[0].1.num_retry, 0);
        if repeats {
            rig.input(Input::Closed { conn: rig.conn, reason: CloseReason::Refused });
            rig.conn = rig.client.sessions.pretend(State::Reconnecting);
            let again = requests(&rig.mds_says(0, ClientSession::of(session_op::OPEN, 0)));
            assert_eq!(
                (again[0].0, again[0].1.num_retry),
                (asked[0].0, 1),
                "the MDS looks whether it knows it"
            );
        }
        rig.found(asked[0].0, b"b", 2, DIR_CAPS);
        let old_name = asked_mds(&rig.lookup(b"a"));
        assert_eq!(old_name.is_empty(), !repeats, "somebody else may have made it again");
    }
}

#[test]
fn only_a_writer_asks_for_a_larger_max_size() {
    let mut rig = Rig::new();
    rig.forget_file();
    // A former writer had wanted more than the MDS gives now.
    rig.client.cache.open_inode(InodeKey::head(INO)).want_max_size(3 << 30);
    let told = cap_messages(&rig.caps(cap_op::GRANT, 2, ALONE));
    assert!(told.iter().all(|m| m.file().max_size == 0 && m.wanted == Caps::NONE), "{told:?}");
    rig.open_again();
    let asked = cap_messages(&rig.write(2 << 30, 10));
    assert!(asked[0].file().max_size > 2 << 30 && asked[0].wanted.has(cap::FILE_WR));
}

/// The connection to the MDS outlives the ticket that it began with: dialled again, it needs the newest one.
#[test]
fn new_tickets_renew_the_connection_to_the_mds() {
    let mut rig = Rig::new();
    let mut out = Vec::new();
    rig.client.mon_told(rig.now, Told::Tickets(Box::default()), &mut out);
    assert!(out.iter().any(|o| matches!(o, Output::Renew { conn, .. } if *conn == rig.conn)), "{out:?}");
    rig.input(Input::Closed { conn: rig.conn, reason: CloseReason::Lost });
    let mut out = Vec::new();
    rig.client.mon_told(rig.now, Told::Tickets(Box::default()), &mut out);
    assert!(!out.iter().any(|o| matches!(o, Output::Renew { .. })), "{out:?}");
}

#[test]
fn an_mds_is_told_of_closed_files_late_and_only_of_those_that_stay_closed() {
    let close = |rig: &mut Rig| cap_messages(&rig.ask(FsRequest::Release { fh: FH, lock_owner: 0 }));
    let later = |rig: &mut Rig, secs| {
        rig.now.mono = rig.now.mono + Duration::from_secs(secs);
        cap_messages(&rig.input(Input::Timer))
    };
    let mut rig = Rig::new();
    assert!(close(&mut rig).is_empty(), "it may be opened again soon");
    assert!(later(&mut rig, 4).is_empty());
    let told = later(&mut rig, 2);
    assert_eq!((told.len(), told[0].wanted, told[0].caps), (1, Caps::NONE, Caps(ALONE)));
    assert!(later(&mut rig, 20).is_empty(), "once");

    let mut rig = Rig::new();
    close(&mut rig);
    assert!(later(&mut rig, 4).is_empty());
    rig.open_again();
    assert!(later(&mut rig, 20).is_empty(), "it is open again");

    let mut rig = Rig::new();
    close(&mut rig);
    let told = cap_messages(&rig.caps(cap_op::REVOKE, 2, READERS));
    assert_eq!((told.len(), told[0].wanted, told[0].caps), (1, Caps::NONE, Caps(READERS)));
    assert!(later(&mut rig, 20).is_empty(), "it is told already");
}
