//! A client that was evicted comes back by itself, as a new one: what goes on, and what is lost.

use super::tests::{INO, READERS, Rig, answers, asked_mds, requests, stat};
use super::*;
use crate::api::{Fh, Invalidate, SetAttr};
use crate::buffer::WRITE_BACK_AFTER;
use crate::key::InodeKey;
use crate::mds_request::open_flag;
use maps::{Epoch, MdsRank, OsdEntry, OsdId, OsdMap, PgId, Pool, osd_state};
use msgs::{
    Body, ClientReply, ClientSession, InodeStat, InodeStatCap, MdsOp, OsdOp, OsdOpReply, ReplyTrace,
    session_op,
};
use node::{ConnId, Peer};
use std::time::Duration;
use stdx::Bufs;
use wire::{EntityAddr, EntityId, EntityName, Utime, Writer};

const RANK: MdsRank = MdsRank(0);

fn mon(n: u64) -> ConnId {
    ConnId(u64::from(SPACE_MONC) << 56 | n)
}

fn osd(n: u64) -> ConnId {
    ConnId(u64::from(SPACE_RADOS) << 56 | n)
}

/// The address under which instance `nonce` of the client is known.
fn ours(nonce: u32) -> EntityAddr {
    EntityAddr::parse(&format!("any:10.0.0.9:0/{nonce}")).expect("an address")
}

fn peer(global_id: u64, nonce: u32) -> Box<Peer> {
    let mut tickets = auth::Tickets::default();
    tickets.global_id = global_id;
    Box::new(Peer {
        name: EntityName::new(EntityType::MON, ""),
        id: EntityId::new(EntityType::MON, 0),
        global_id,
        addrs: Default::default(),
        socket_addr: EntityAddr::default(),
        ours: ours(nonce),
        features: 0,
        caps: String::new(),
        tickets: Some(Box::new(tickets)),
    })
}

/// One OSD, which has everything; the instances `refused` are on the blocklist.
fn osdmap(epoch: u32, refused: &[u32]) -> Body {
    let mut map = OsdMap { epoch: Epoch(epoch), ..OsdMap::default() };
    let addr = EntityAddr::msgr2(([127, 0, 0, 1], 6800).into(), 0);
    let state = osd_state::EXISTS | osd_state::UP;
    map.osds.push(OsdEntry { state, client_addrs: addr.into(), ..Default::default() });
    map.pools.insert(0, Pool::replicated(1, 1, 0, 1, Utime::default()));
    map.pg_temp.insert(PgId { pool: 0, seed: 0 }, vec![OsdId(0)]);
    map.blocklist.extend(refused.iter().map(|nonce| (ours(*nonce), Utime::default())));
    let fulls = [(map.epoch, Writer::encode(&map).into())].into();
    msgs::OsdMap { fulls, newest: map.epoch, ..Default::default() }.into()
}

fn monmap() -> Body {
    let mons = [("a".to_owned(), ([127, 0, 0, 1], 6799).into())];
    let map = maps::MonMap::new(wire::Uuid([7; 16]), Utime::default(), &mons);
    msgs::MonMap { map: Writer::encode(&map) }.into()
}

/// The object operations that were sent, with their connections and tids.
fn osd_ops(out: &Outs) -> Vec<(ConnId, u64, OsdOp)> {
    let op = |o: &Output<Reply>| match o {
        Output::Send { conn, msg: Msg { tid, body: node::Body::Client(Body::OsdOp(m)), .. } } => {
            Some((*conn, *tid, (**m).clone()))
        }
        _ => None,
    };
    out.iter().filter_map(op).collect()
}

/// Warnings and errors in the log.
fn complaints(out: &Outs) -> Vec<String> {
    let line = |o: &Output<Reply>| match o {
        Output::Event(e) if e.level <= Level::Warn => Some(format!("{}: {}", e.name, e.detail)),
        _ => None,
    };
    out.iter().filter_map(line).collect()
}

fn rebinds(out: &Outs) -> bool {
    out.iter().any(|o| matches!(o, Output::Rebind))
}

/// The order in which connections are closed and opened, and the address changes.
fn connections(out: &Outs) -> Vec<String> {
    let line = |o: &Output<Reply>| match o {
        Output::Close { conn } => Some(format!("close {}.{}", conn.0 >> 56, conn.0 & 0xff)),
        Output::Connect { conn, .. } => Some(format!("connect {}.{}", conn.0 >> 56, conn.0 & 0xff)),
        Output::Rebind => Some("rebind".to_owned()),
        _ => None,
    };
    out.iter().filter_map(line).collect()
}

impl Rig {
    /// With the one file open, a session to a monitor, OSD map 5 and an active MDS.
    fn connected() -> Self {
        let mut rig = Self::with_mons(vec![EntityAddr::msgr2(([127, 0, 0, 1], 6799).into(), 0)]);
        rig.client.sessions.pretend_active(RANK, None);
        rig.input(Input::Start);
        rig.input(Input::Connected { conn: mon(1), peer: peer(4100, 1) });
        rig.says(mon(1), 0, monmap());
        rig.says(mon(1), 0, osdmap(5, &[]));
        rig
    }

    /// A map says that the first instance is refused.
    fn evicted(&mut self) -> Outs {
        self.says(mon(1), 0, osdmap(6, &[1]))
    }

    /// The monitors accept the second instance; the newest map is 6.
    fn returns(&mut self, asked: &Outs) -> Outs {
        let mut out = self.input(Input::Connected { conn: mon(2), peer: peer(4200, 2) });
        let handle = |o: &Output<Reply>| match o {
            Output::Send {
                msg: Msg { tid, body: node::Body::Client(Body::MonGetVersion(m)), .. }, ..
            } => Some((*tid, m.handle)),
            _ => None,
        };
        let (tid, handle) = out.iter().chain(asked).find_map(handle).expect("the newest map is asked for");
        out.extend(self.says(
            mon(2),
            tid,
            msgs::MonGetVersionReply { handle, version: 6, oldest_version: 1 },
        ));
        out
    }

    /// The MDS opens the session that was asked for.
    fn session_opens(&mut self, out: &Outs) -> Outs {
        let asked = |o: &Output<Reply>| match o {
            Output::Send { conn, msg: Msg { body: node::Body::Client(Body::ClientSession(m)), .. } } => {
                (m.head.op == session_op::REQUEST_OPEN).then_some(*conn)
            }
            _ => None,
        };
        self.conn = out.iter().find_map(asked).expect("a session is asked for");
        self.mds_says(0, ClientSession::of(session_op::OPEN, 0))
    }

    /// Evicted, and back with a session.
    fn comes_back(&mut self) -> Outs {
        let mut out = self.evicted();
        out.extend(self.returns(&Vec::new()));
        let opened = self.session_opens(&out);
        out.extend(opened);
        out
    }

    /// The MDS answers the OPEN by which a handle gets a capability again; the file has 10 bytes.
    fn opens_again(&mut self, out: &Outs) -> Outs {
        let asked = requests(out);
        assert_eq!(asked.iter().map(|(_, m)| (m.op, m.path.ino)).collect::<Vec<_>>(), [(MdsOp::OPEN, INO)]);
        let cap = InodeStatCap { caps: READERS, cap_id: 10, seq: 1, ..InodeStatCap::default() };
        let mut stat = InodeStat { cap, size: 10, version: 9, ..stat(INO, 0o100_644) };
        (stat.layout.stripe_unit, stat.layout.stripe_count, stat.layout.object_size) = (4 << 20, 1, 4 << 20);
        let trace = ReplyTrace { target: Some(Box::new(stat)), ..ReplyTrace::default() };
        let reply = ClientReply { op: MdsOp::OPEN, safe: true, trace, ..ClientReply::default() };
        self.mds_says(asked[0].0, reply)
    }

    fn read(&mut self, fh: Fh) -> Outs {
        self.ask(FsRequest::Read { fh, offset: 0, len: 10 })
    }

    /// The OSD answers a read.
    fn read_answered(&mut self, (conn, tid, op): &(ConnId, u64, OsdOp), result: i32) -> Outs {
        let mut reply = OsdOpReply::to(op, result, Epoch(6));
        if let Some(first) = reply.ops.first_mut() {
            first.data = vec![5; 10].into();
        }
        self.says(*conn, *tid, reply)
    }

    fn fsync(&mut self, fh: Fh) -> Vec<Reply> {
        answers(&self.ask(FsRequest::Fsync { fh, data_only: false })).into_iter().cloned().collect()
    }

    /// The descriptor is closed; the handle may have others.
    fn flush(&mut self, fh: Fh) -> Vec<Reply> {
        answers(&self.ask(FsRequest::Flush { fh, lock_owner: 1 })).into_iter().cloned().collect()
    }
}

#[test]
fn who_holds_nothing_unsaved_comes_back_and_its_handles_go_on() {
    let mut rig = Rig::connected();
    let fh = rig.fh;
    let session = rig.conn.0 & 0xff;
    let out = rig.evicted();
    let expected = [format!("close 3.{session}"), "close 1.1".into(), "rebind".into(), "connect 1.2".into()];
    assert_eq!(connections(&out), expected, "nothing of the former instance is left when the next begins");
    let lines = complaints(&out);
    assert_eq!(lines.len(), 1);
    assert!(lines[0].starts_with("evicted: this client is on the blocklist of OSD map 6; "), "{lines:?}");
    assert!(lines[0].contains("files with lost writes: 0; changes of names that may be lost: 0; "));
    assert_eq!(rig.client.services.cluster().monc().global_id(), 0, "it is no client yet");
    let out = rig.returns(&out);
    assert_eq!(rig.client.services.cluster().monc().global_id(), 4200);
    rig.session_opens(&out);
    let out = rig.read(fh);
    let out = rig.opens_again(&out);
    let sent = osd_ops(&out);
    assert_eq!((sent.len(), sent[0].0), (1, osd(1)));
    let out = rig.read_answered(&sent[0], 10);
    assert_eq!(answers(&out), [&Ok(Answer::Data(Bufs::from(vec![5; 10])))]);
    assert_eq!((rig.fsync(fh), rig.flush(fh)), (vec![Ok(Answer::Done)], vec![Ok(Answer::Done)]));
}

#[test]
fn nothing_is_asked_of_an_mds_before_the_map_is_here_that_refuses_the_former_instance() {
    let mut rig = Rig::connected();
    // An OSD knew it first.
    rig.write(0, 10);
    rig.now.mono = rig.now.mono + WRITE_BACK_AFTER;
    let sent = osd_ops(&rig.input(Input::Timer));
    let refusal = OsdOpReply::to(&sent[0].2, Errno::EBLOCKLISTED.to_result_code(), Epoch(6));
    let out = rig.says(sent[0].0, sent[0].1, refusal);
    assert!(rebinds(&out) && complaints(&out)[0].contains("an OSD refuses this client"));
    let out = rig.returns(&out);
    assert!(connections(&out).is_empty(), "map 6 is the newest, and only map 5 is here: {out:?}");
    rig.now.mono = rig.now.mono + Duration::from_secs(10);
    let later = rig.input(Input::Timer);
    assert!(connections(&later).iter().all(|c| !c.contains(" 3.")), "{later:?}");
    let fh = rig.fh;
    assert!(rig.read(fh).is_empty(), "it waits");
    let out = rig.says(mon(2), 0, osdmap(6, &[1]));
    let out = rig.session_opens(&out);
    assert_eq!(asked_mds(&out), [MdsOp::OPEN]);
}

#[test]
fn a_time_that_was_set_and_is_lost_gives_way_to_that_of_the_mds() {
    let mut rig = Rig::connected();
    let fh = rig.fh;
    let mtime = Some(stdx::Wall(99_000_000_000));
    let set = SetAttr { mtime, ..SetAttr::default() };
    assert_eq!(answers(&rig.ask(FsRequest::Setattr { ino: INO, set })).len(), 1, "it is set here");
    rig.comes_back();
    let out = rig.read(fh);
    rig.opens_again(&out);
    let inode = rig.client.cache.inode(InodeKey::head(INO)).expect("the file");
    assert_eq!(inode.attr().mtime, stdx::Wall(0));
}

#[test]
fn every_handle_of_a_file_with_unsaved_data_is_told_once() {
    let mut rig = Rig::connected();
    let first = rig.fh;
    rig.open_with(0);
    let (second, clean) = (rig.fh, rig.open_other_file());
    rig.write(0, 10);
    let out = rig.comes_back();
    assert!(complaints(&out)[0].contains("files with lost writes: 1;"), "{:?}", complaints(&out));
    let done = || vec![Ok(Answer::Done)];
    let lost = || vec![Err(Errno::EIO)];
    assert_eq!((rig.fsync(first), rig.fsync(first), rig.flush(first)), (lost(), done(), done()));
    rig.open_with(0);
    assert_eq!(rig.fsync(rig.fh), done(), "it has lost nothing, and others were told");
    // A close may be that of a child that has inherited the descriptor: nobody asks for its result.
    assert_eq!((rig.flush(second), rig.flush(second)), (lost(), lost()));
    assert_eq!((rig.fsync(second), rig.flush(second)), (lost(), done()));
    assert_eq!((rig.fsync(clean), rig.flush(clean)), (done(), done()));
    assert_eq!(rig.buffered(), (0, None));
}

#[test]
fn who_opens_a_file_before_anybody_was_told_is_told_too() {
    let mut rig = Rig::connected();
    rig.write(0, 10);
    rig.comes_back();
    rig.open_with(0);
    assert_eq!(rig.fsync(rig.fh), [Err(Errno::EIO)]);
}

#[test]
fn a_write_in_flight_is_lost_and_not_sent_again() {
    let mut rig = Rig::connected();
    rig.open_with(open_flag::DIRECT);
    let out = rig.write(0, 10);
    let sent = osd_ops(&out);
    assert_eq!((sent.len(), sent[0].2.flags & msgs::osd_flag::WRITE, answers(&out).len()), (1, 0x20, 0));
    rig.write(10, 10);
    let mut out = rig.comes_back();
    assert_eq!(answers(&out)[..2], [&Err(Errno::EIO), &Ok(Answer::Written(10))], "one error a handle");
    for _ in 0..10 {
        rig.now.mono = rig.now.mono + WRITE_BACK_AFTER;
        out.extend(rig.input(Input::Timer));
    }
    assert!(osd_ops(&out).is_empty());
    assert_eq!((rig.client.services.flights(), rig.buffered()), (0, (0, None)));
    // An answer that comes now is to nobody's question.
    assert!(rig.read_answered(&sent[0], 0).is_empty());
}

#[test]
fn reads_and_searches_in_flight_start_over() {
    let mut rig = Rig::connected();
    let fh = rig.fh;
    rig.write(0, 10);
    rig.now.mono = rig.now.mono + WRITE_BACK_AFTER;
    let flight = osd_ops(&rig.input(Input::Timer));
    rig.read_answered(&flight[0], 0);
    let sent = osd_ops(&rig.read(fh));
    assert_eq!(sent.len(), 1);
    let looked = osd_ops(&rig.ask(FsRequest::Lseek { fh, offset: 0, whence: 3 }));
    assert_eq!(looked.len(), 1);
    let refused = Errno::EBLOCKLISTED.to_result_code();
    let out = rig.read_answered(&sent[0], refused);
    assert!(answers(&out).is_empty() && rebinds(&out));
    rig.returns(&out);
    let out = rig.says(mon(2), 0, osdmap(6, &[1]));
    let asked = rig.session_opens(&out);
    assert_eq!(asked_mds(&asked), [MdsOp::OPEN; 2], "they need a capability of the new instance");
    let again = rig.opens_again(&asked.into_iter().filter(is_first_open()).collect());
    let again = osd_ops(&again);
    assert_eq!(again.len(), 1);
    assert_eq!(answers(&rig.read_answered(&again[0], 10)), [&Ok(Answer::Data(Bufs::from(vec![5; 10])))]);
}

#[test]
fn what_callers_believe_is_withdrawn_before_they_are_told_anything_anew() {
    let mut rig = Rig::connected();
    let ask = || FsRequest::Getattr { ino: INO };
    let told = |out: &Outs| match answers(out)[..] {
        [Ok(Answer::Attr(_, valid))] => *valid,
        ref other => panic!("{other:?}"),
    };
    rig.write(0, 10);
    assert!(told(&rig.ask(ask())) > Duration::ZERO);
    let out = rig.evicted();
    let withdrawn = |o: &Output<Reply>| match o {
        Output::Reply {
            reply: Ok(Answer::Invalidate { id, what: Invalidate::Attributes { .. } }), ..
        } => Some(*id),
        _ => None,
    };
    let id = out.iter().find_map(withdrawn).expect("attributes are withdrawn");
    let out = rig.returns(&out);
    rig.session_opens(&out);
    let fh = rig.fh;
    let out = rig.read(fh);
    rig.opens_again(&out);
    assert_eq!(told(&rig.ask(ask())), Duration::ZERO, "older ones may still be believed");
    assert!(!rig.client.cache.open_inode(InodeKey::head(INO)).has_valid_pages());
    rig.input(Input::Request { id: RequestId(0), request: Request::Invalidated { id } });
    assert!(told(&rig.ask(ask())) > Duration::ZERO);
}

#[test]
fn changes_without_an_answer_fail_and_questions_are_asked_again() {
    let mut rig = Rig::connected();
    let cap = InodeStatCap { caps: msgs::cap::PIN | msgs::cap::ANY_SHARED, cap_id: 1, ..Default::default() };
    rig.client.cache.learn_inode(RANK, &InodeStat { cap, ..stat(1, 0o40_755) });
    let set = SetAttr { size: Some(3), ..SetAttr::default() };
    let mkdir = FsRequest::Mkdir { parent: 1, name: b"d".to_vec(), mode: 0o755 };
    assert_eq!(asked_mds(&rig.ask(mkdir)), [MdsOp::MKDIR]);
    assert_eq!(asked_mds(&rig.ask(FsRequest::Lookup { parent: 1, name: b"x".to_vec() })), [MdsOp::LOOKUP]);
    assert_eq!(asked_mds(&rig.ask(FsRequest::Setattr { ino: INO, set })), [MdsOp::SETATTR]);
    let out = rig.evicted();
    assert_eq!(answers(&out), [&Err(Errno::EIO); 2], "they may have been carried out");
    assert!(complaints(&out)[0].ends_with("calls that failed: 2"), "{:?}", complaints(&out));
    let out = rig.returns(&out);
    assert_eq!(asked_mds(&rig.session_opens(&out)), [MdsOp::LOOKUP]);
}

#[test]
fn an_mds_that_says_blocklisted_has_evicted_us_and_one_that_only_closes_has_not() {
    for (op, text, is_evicted) in [
        (session_op::REJECT, "blocklisted (blacklisted)", true),
        (session_op::REJECT, "its key allows nothing", false),
        (session_op::CLOSE, "", false),
    ] {
        let mut rig = Rig::connected();
        let mut message = ClientSession::of(op, 0);
        message.metadata.insert("error_string".to_owned(), text.to_owned());
        let out = rig.mds_says(0, message);
        assert_eq!(rebinds(&out), is_evicted, "{text}");
        let name = if is_evicted { "evicted: the MDS refuses this client" } else { "mds_session_lost: " };
        assert!(complaints(&out)[0].starts_with(name), "{:?}", complaints(&out));
    }
}

#[test]
fn who_is_evicted_again_soon_waits_before_it_comes_back() {
    let mut rig = Rig::connected();
    rig.comes_back();
    let out = rig.says(mon(2), 0, osdmap(7, &[1, 2]));
    assert!(!rebinds(&out) && complaints(&out)[0].contains("it waits for 1 s"), "{:?}", complaints(&out));
    assert!(!rebinds(&rig.says(mon(2), 0, osdmap(8, &[1, 2]))), "that is known");
    assert!(rig.client.deadline().is_some_and(|at| at <= rig.now.mono + Duration::from_secs(1)));
    rig.now.mono = rig.now.mono + Duration::from_millis(999);
    assert!(!rebinds(&rig.input(Input::Timer)));
    rig.now.mono = rig.now.mono + Duration::from_millis(1);
    assert!(rebinds(&rig.input(Input::Timer)));
}

#[test]
fn who_has_no_mount_is_told_and_stays_out() {
    let mut rig = Rig::connected();
    rig.client.config.mount = false;
    let out = rig.evicted();
    assert!(!rebinds(&out) && connections(&out).is_empty() && complaints(&out).is_empty());
}

#[test]
fn who_is_evicted_can_still_unmount() {
    let mut rig = Rig::connected();
    rig.write(0, 10);
    rig.evicted();
    let out = rig.input(Input::Request { id: RequestId(9), request: Request::Unmount });
    assert!(out.iter().any(|o| matches!(o, Output::Stop(Ok(())))), "{out:?}");
}

impl Rig {
    /// Opens a second file. Returns its handle.
    fn open_other_file(&mut self) -> Fh {
        let cap = InodeStatCap { caps: READERS, cap_id: 11, seq: 1, ..InodeStatCap::default() };
        let key = self.client.cache.learn_inode(RANK, &InodeStat { cap, ..stat(INO + 1, 0o100_644) });
        let access = crate::inode::Access { reads: true, writes: false, lazy: false };
        let inode = self.client.cache.open_inode(key);
        inode.opened(access);
        let fh = self.client.handles.open_file(inode, access, 0);
        self.client.settle(self.now, &mut Vec::new());
        fh
    }
}

/// Keeps the first request of several.
fn is_first_open() -> impl FnMut(&Output<Reply>) -> bool {
    let mut seen = 0;
    move |o| {
        let is_request = matches!(
            o,
            Output::Send { msg: Msg { body: node::Body::Client(Body::ClientRequest(_)), .. }, .. }
        );
        seen += usize::from(is_request);
        !is_request || seen == 1
    }
}
