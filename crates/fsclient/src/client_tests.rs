//! The client against scripted answers of an MDS and of OSDs.

use super::*;
use crate::api::SetAttr;
use crate::config::ClientOptions;
use crate::inode::Cap;
use auth::Credentials;
use msgs::{CapBody, CapFile, Caps, ClientCaps, ClientSession, MdsOp, cap, cap_op, session_op};
use node::{AdminId, CloseReason, ConnId};
use stdx::{Bufs, Wall};
use wire::EntityName;

const INO: Ino = 0x100_0000_0000;
const FH: Fh = 77;
const ALONE: u32 = cap::PIN
    | cap::ANY_SHARED
    | cap::AUTH_EXCL
    | cap::FILE_EXCL
    | cap::FILE_CACHE
    | cap::FILE_RD
    | cap::FILE_WR
    | cap::FILE_BUFFER;
const READERS: u32 = cap::PIN | cap::ANY_SHARED | cap::FILE_RD | cap::FILE_CACHE;

/// A client with an open session and one open file, which it alone has.
struct Rig {
    client: Client,
    conn: ConnId,
    now: Now,
    next_request: u64,
}

impl Rig {
    fn new() -> Self {
        let config = ClientConfig {
            credentials: Credentials { name: EntityName::new(EntityType::CLIENT, "admin"), key: None },
            mons: Vec::new(),
            mount: true,
            hostname: "h".into(),
            mount_point: "/m".into(),
            options: ClientOptions::default(),
        };
        let mut client = Client::new(config, Rng::from_seed(1));
        let conn = client.mds.pretend_open();
        client.mds.map.max_file_size = 1 << 40;
        let mut inode = Inode::new(INO);
        (inode.mode, inode.nlink, inode.max_size) = (0o100_644, 1, 1 << 30);
        (inode.layout.stripe_unit, inode.layout.stripe_count, inode.layout.object_size) =
            (4 << 20, 1, 4 << 20);
        (inode.readers, inode.writers, inode.lookups) = (1, 1, 1);
        let wanted = inode.wanted();
        let (issued, implemented) = (Caps(ALONE), Caps(ALONE));
        inode.cap = Some(Cap { id: 9, seq: 1, issue_seq: 1, issued, implemented, wanted, ..Cap::default() });
        client.inodes.insert(INO, inode);
        client.files.insert(FH, FileHandle { ino: INO, reads: true, writes: true, append: false });
        let now = Now { mono: Instant(1_000_000_000), wall: Wall(1_000_000_000_000) };
        Self { client, conn, now, next_request: 1 }
    }

    fn input(&mut self, input: Input<Request>) -> Outs {
        let mut out = Vec::new();
        self.client.handle(self.now, input, &mut out);
        out
    }

    fn ask(&mut self, request: FsRequest) -> Outs {
        self.next_request += 1;
        let request = Request::Fs(Caller::default(), request);
        self.input(Input::Request { id: RequestId(self.next_request), request })
    }

    fn mds_says(&mut self, tid: u64, body: impl Into<Body>) -> Outs {
        let msg = Msg::new(tid, body.into());
        self.input(Input::Message { conn: self.conn, msg })
    }

    fn caps(&mut self, op: u32, seq: u32, bits: u32) -> Outs {
        let body = CapBody::File(CapFile { max_size: 1 << 30, ..CapFile::default() });
        let caps = Caps(bits);
        let message =
            ClientCaps { op, ino: INO, cap_id: 9, seq, caps, nlink: 1, body, ..ClientCaps::default() };
        self.mds_says(0, message)
    }

    /// All writes to OSDs under way arrive.
    fn writes_arrive(&mut self) -> Outs {
        let flights: Vec<u64> = self
            .client
            .tokens
            .iter()
            .filter(|(_, t)| matches!(t, Token::Flight { .. }))
            .map(|(n, _)| *n)
            .collect();
        assert!(!flights.is_empty(), "something is on its way");
        for token in flights {
            let done = Completion { result: 0, ops: Vec::new(), version: 1 };
            self.client.arrived.push_back(Arrived::Object(token, Box::new(done)));
        }
        let mut out = Vec::new();
        self.client.settle(self.now, &mut out);
        out
    }

    fn write(&mut self, offset: u64, len: usize) -> Outs {
        self.ask(FsRequest::Write { fh: FH, offset, data: Bufs::from(vec![7; len]) })
    }

    fn inode(&self) -> &Inode {
        &self.client.inodes[&INO]
    }
}

/// Messages about capabilities, in order.
fn cap_messages(out: &Outs) -> Vec<ClientCaps> {
    let body = |o: &Output<Reply>| match o {
        Output::Send { msg: Msg { body: node::Body::Client(Body::ClientCaps(m)), .. }, .. } => {
            Some((**m).clone())
        }
        _ => None,
    };
    out.iter().filter_map(body).collect()
}

fn asked_mds(out: &Outs) -> Vec<MdsOp> {
    let op = |o: &Output<Reply>| match o {
        Output::Send { msg: Msg { body: node::Body::Client(Body::ClientRequest(m)), .. }, .. } => Some(m.op),
        _ => None,
    };
    out.iter().filter_map(op).collect()
}

fn answers(out: &Outs) -> Vec<&Reply> {
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
    assert!(rig.client.tokens.is_empty(), "nothing leaves yet");
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
    assert_eq!(rig.inode().size, 5000, "the size that the revocation tells is the older one");
    let told = cap_messages(&rig.writes_arrive());
    assert_eq!((told.len(), told[0].op, told[0].file().size), (1, cap_op::FLUSH, 5000));
    assert_eq!(told[0].caps.0, ALONE, "pages are still there");
    let out =
        rig.input(Input::Request { id: RequestId(0), request: Request::Invalidated { id: invalidation } });
    let told = cap_messages(&out);
    assert_eq!((told.len(), told[0].seq, told[0].caps.0), (1, 2, READERS & !cap::FILE_CACHE));
}

#[test]
fn new_pages_during_an_invalidation_are_dropped_too() {
    let mut rig = Rig::new();
    rig.write(0, 10);
    let first = invalidation(&rig.caps(cap_op::REVOKE, 2, READERS & !cap::FILE_CACHE)).expect("pages");
    rig.writes_arrive();
    rig.ask(FsRequest::Read { fh: FH, offset: 0, len: 10 });
    let out = rig.input(Input::Request { id: RequestId(0), request: Request::Invalidated { id: first } });
    assert!(invalidation(&out).is_some_and(|second| second != first));
    assert!(cap_messages(&out).iter().all(|m| m.caps.has(cap::FILE_CACHE)), "not confirmed yet");
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
    let out = rig.ask(FsRequest::Release { fh: FH, lock_owner: 0 });
    assert!(cap_messages(&out).iter().all(|m| m.dirty.0 == 0));
    let told = cap_messages(&rig.writes_arrive());
    assert_eq!(told[0].dirty.0, cap::FILE_WR | cap::FILE_EXCL | cap::AUTH_EXCL);
    assert_eq!((told[0].mode, told[0].file().mtime.nsec, told[0].file().time_warp_seq), (0o100_600, 5, 1));
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
fn reads_at_the_end_of_a_shared_file_ask_how_large_it_is() {
    let mut rig = Rig::new();
    rig.caps(cap_op::REVOKE, 2, cap::PIN | cap::AUTH_SHARED | cap::FILE_RD | cap::FILE_WR);
    rig.client.mds.pretend_active();
    let out = rig.ask(FsRequest::Read { fh: FH, offset: 0, len: 100 });
    assert_eq!((asked_mds(&out), answers(&out).len()), (vec![MdsOp::GETATTR], 0));
    let out = rig.mds_says(1, ClientReply { op: MdsOp::GETATTR, safe: true, ..ClientReply::default() });
    assert_eq!(answers(&out), [&Ok(Answer::Data(Bufs::new()))], "it is empty, and nobody is asked again");
}

#[test]
fn buffered_bytes_are_counted_right_through_overwrites_and_truncation() {
    let mut rig = Rig::new();
    (0..50).for_each(|_| drop(rig.write(0, 10_000)));
    assert_eq!(rig.client.dirty_bytes, 10_000);
    rig.ask(FsRequest::Setattr { ino: INO, set: SetAttr { size: Some(100), ..SetAttr::default() } });
    assert_eq!(rig.client.dirty_bytes, 100);
    rig.writes_arrive();
    assert_eq!(rig.client.dirty_bytes, 0);
}

#[test]
fn writers_wait_while_too_much_is_buffered() {
    let mut rig = Rig::new();
    rig.client.config.options.dirty_bytes = 100_000;
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
    assert_eq!((rig.inode().dirty.bytes(), rig.inode().error), (10, None));
    assert!(rig.inode().cap.is_some());
}

#[test]
fn flushes_without_acknowledgement_are_sent_again_in_the_next_session() {
    let mut rig = Rig::new();
    rig.ask(FsRequest::Setattr { ino: INO, set: SetAttr { mode: Some(0o600), ..SetAttr::default() } });
    let told = cap_messages(&rig.ask(FsRequest::Release { fh: FH, lock_owner: 0 }));
    assert_eq!(told[0].op, cap_op::FLUSH);
    rig.input(Input::Closed { conn: rig.conn, reason: CloseReason::Refused });
    rig.conn = rig.client.mds.pretend_reconnecting();
    let again = cap_messages(&rig.mds_says(0, ClientSession::of(session_op::OPEN, 0)));
    assert_eq!((again[0].op, again[0].mode, again[0].dirty.0), (cap_op::FLUSH, 0o100_600, cap::AUTH_EXCL));
}

#[test]
fn recalled_capabilities_go_back_unless_in_use() {
    let mut rig = Rig::new();
    for n in 1..=10 {
        let mut inode = Inode::new(INO + n);
        inode.mode = 0o100_644;
        inode.cap =
            Some(Cap { id: 100 + n, issued: Caps(READERS), implemented: Caps(READERS), ..Cap::default() });
        rig.client.inodes.insert(INO + n, inode);
    }
    let mut recall = ClientSession::of(session_op::RECALL_STATE, 0);
    recall.head.max_caps = 4;
    let out = rig.mds_says(0, recall);
    let released: usize = out
        .iter()
        .map(|o| match o {
            Output::Send { msg: Msg { body: node::Body::Client(Body::ClientCapRelease(m)), .. }, .. } => {
                m.caps.len()
            }
            _ => 0,
        })
        .sum();
    assert_eq!((released, rig.client.inodes.len()), (7, 4));
    assert!(rig.inode().cap.is_some(), "an open file keeps its capability");
    assert!(matches!(rig.client.admin(AdminId(1), "status"), Output::AdminReply { code: 0, .. }));
}
