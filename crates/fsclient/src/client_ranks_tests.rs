//! The client of several ranks: forwards, the learnt partition, sessions of their own.

use super::tests::{
    DIR, DIR_CAPS, INO, Rig, answers, asked_mds, cap_messages, dir_stat, released, requests, stat,
};
use super::*;
use crate::api::SetAttr;
use crate::key::InodeKey;
use maps::{Gid, MdsInfo, MdsRank, MdsState};
use msgs::{
    Body, CapBody, CapPeer, Caps, ClientCaps, ClientReply, ClientRequestForward, ClientSession, DirStat,
    InodeStat, InodeStatCap, LeaseStat, MdsOp, ReplyDentry, ReplyTrace, cap, cap_op, session_op,
};
use node::ConnId;
use std::time::Duration;
use wire::Errno;

const OTHER: MdsRank = MdsRank(1);

/// The connections that were opened.
fn connects(out: &Outs) -> Vec<ConnId> {
    let conn = |o: &Output<Reply>| match o {
        Output::Connect { conn, .. } => Some(*conn),
        _ => None,
    };
    out.iter().filter_map(conn).collect()
}

/// The connections to which requests were sent.
fn asked_on(out: &Outs) -> Vec<ConnId> {
    let conn = |o: &Output<Reply>| match o {
        Output::Send { conn, msg: Msg { body: node::Body::Client(Body::ClientRequest(_)), .. } } => {
            Some(*conn)
        }
        _ => None,
    };
    out.iter().filter_map(conn).collect()
}

/// The connections to which messages about capabilities were sent, with their kind.
fn caps_on(out: &Outs) -> Vec<(ConnId, u32)> {
    let message = |o: &Output<Reply>| match o {
        Output::Send { conn, msg: Msg { body: node::Body::Client(Body::ClientCaps(m)), .. } } => {
            Some((*conn, m.op))
        }
        _ => None,
    };
    out.iter().filter_map(message).collect()
}

impl Rig {
    /// Two active ranks; the session is with the first one, and it has given the directory's capability.
    fn with_two_ranks() -> Self {
        let mut rig = Self::with_dir(DIR_CAPS);
        rig.client.sessions.pretend_active(OTHER, Some(Gid(7)));
        rig
    }

    pub(super) fn says(&mut self, conn: ConnId, tid: u64, body: impl Into<Body>) -> Outs {
        self.input(Input::Message { conn, msg: Msg::new(tid, body.into()) })
    }

    /// Rank 0 forwards a lookup to rank 1, whose session opens. Returns its connection and the request's tid.
    fn forwarded_lookup(&mut self, name: &[u8]) -> (ConnId, u64) {
        let asked = requests(&self.lookup(name));
        let out = self.says(self.conn, asked[0].0, forward(1, 1));
        assert!(asked_mds(&out).is_empty(), "there is no session yet");
        let conn = connects(&out)[0];
        let out = self.says(conn, 0, ClientSession::of(session_op::OPEN, 0));
        assert_eq!((asked_on(&out), requests(&out)[0].0), (vec![conn], asked[0].0));
        assert_eq!((requests(&out)[0].1.num_fwd, requests(&out)[0].1.num_retry), (1, 0));
        (conn, asked[0].0)
    }

    /// Rank 1 answers that a name leads to an inode that it has, and that it has the directory's only
    /// fragment.
    fn found_at_other(&mut self, conn: ConnId, tid: u64, name: &[u8]) -> Outs {
        let dir = InodeStat { cap: InodeStatCap::default(), ..dir_stat(1, 0) };
        let dir_stat = DirStat { auth: OTHER.0, ..DirStat::default() };
        let dentry = ReplyDentry { dir, dir_stat, name: name.to_vec(), lease: LeaseStat::default() };
        let cap = InodeStatCap { caps: READ_WRITE_CAPS, cap_id: 70, seq: 1, flags: 1, ..Default::default() };
        let target = InodeStat { cap, ..stat(INO + 1, 0o100_644) };
        let trace = ReplyTrace { dentry: Some(Box::new(dentry)), target: Some(Box::new(target)) };
        let reply = ClientReply { op: MdsOp::LOOKUP, safe: true, trace, ..ClientReply::default() };
        self.says(conn, tid, reply)
    }
}

const READ_WRITE_CAPS: u32 = cap::PIN | cap::ANY_SHARED | cap::AUTH_EXCL | cap::FILE_EXCL;

fn forward(dest_mds: i32, num_fwd: u32) -> ClientRequestForward {
    ClientRequestForward { dest_mds, num_fwd, client_must_resend: true }
}

#[test]
fn a_forward_is_followed_over_a_second_session_and_the_partition_is_learnt() {
    let mut rig = Rig::with_two_ranks();
    let (conn, tid) = rig.forwarded_lookup(b"a");
    assert_ne!(conn, rig.conn);
    let out = rig.found_at_other(conn, tid, b"a");
    assert_eq!(answers(&out).len(), 1);
    // Names of that fragment are asked of rank 1 at once, its directory of rank 0.
    assert_eq!(asked_on(&rig.lookup(b"b")), [conn]);
    let mode = SetAttr { mode: Some(0o700), ..SetAttr::default() };
    assert_eq!(asked_on(&rig.ask(FsRequest::Setattr { ino: DIR, set: mode })), [rig.conn]);
}

#[test]
fn messages_about_a_capability_go_to_the_rank_that_issued_it() {
    let mut rig = Rig::with_two_ranks();
    let (conn, tid) = rig.forwarded_lookup(b"a");
    rig.found_at_other(conn, tid, b"a");
    let mode = SetAttr { mode: Some(0o600), ..SetAttr::default() };
    let out = rig.ask(FsRequest::Setattr { ino: INO + 1, set: mode });
    assert_eq!(answers(&out).len(), 1, "under `Ax`");
    assert_eq!(caps_on(&out), [(conn, cap_op::FLUSH)]);
    let caps = Caps(READ_WRITE_CAPS & !cap::AUTH_EXCL);
    let revoke =
        ClientCaps { op: cap_op::REVOKE, ino: INO + 1, cap_id: 70, seq: 2, caps, ..Default::default() };
    assert!(caps_on(&rig.says(rig.conn, 0, revoke.clone())).is_empty(), "rank 0 has nothing to revoke");
    assert_eq!(caps_on(&rig.says(conn, 0, revoke)), [(conn, cap_op::UPDATE)]);
}

#[test]
fn a_forward_that_is_old_or_not_of_the_requests_rank_changes_nothing() {
    let mut rig = Rig::with_two_ranks();
    let (conn, tid) = rig.forwarded_lookup(b"a");
    let late = rig.says(rig.conn, tid, forward(0, 2));
    assert!(asked_mds(&late).is_empty(), "rank 0 has given it away");
    let old = rig.says(conn, tid, forward(0, 1));
    assert!(asked_mds(&old).is_empty());
    let late = ClientReply {
        op: MdsOp::LOOKUP,
        result: Errno::ENOENT.to_result_code(),
        safe: true,
        ..ClientReply::default()
    };
    assert!(answers(&rig.says(rig.conn, tid, late)).is_empty(), "the answer is rank 1's to give");
    assert_eq!(asked_on(&rig.says(conn, tid, forward(0, 2))), [rig.conn], "and back again");
}

#[test]
fn a_rank_that_ends_its_session_takes_only_its_own_capabilities() {
    let mut rig = Rig::with_two_ranks();
    let (conn, tid) = rig.forwarded_lookup(b"a");
    rig.found_at_other(conn, tid, b"a");
    rig.write(0, 10);
    rig.says(conn, 0, ClientSession::of(session_op::CLOSE, 0));
    assert!(rig.client.cache.inode(InodeKey::head(INO + 1)).is_none_or(|i| i.caps().cap().is_none()));
    assert!(rig.has_cap());
    assert_eq!(rig.buffered(), (10, None), "rank 0's file is as it was");
    assert_eq!(rig.client.sessions.root_state(), State::Open);
}

/// Ceph's servers leave out the other side with zeros, ours with rank -1.
#[test]
fn an_export_to_nowhere_takes_the_capability_away() {
    for mds in [0, -1] {
        let mut rig = Rig::with_two_ranks();
        rig.write(0, 10);
        let body = CapBody::Peer(CapPeer { mds, ..CapPeer::default() });
        let dropped = ClientCaps { op: cap_op::EXPORT, ino: INO, cap_id: 9, body, ..ClientCaps::default() };
        rig.says(rig.conn, 0, dropped);
        assert!(!rig.has_cap(), "mds {mds}");
        assert_eq!(rig.buffered(), (0, Some(Errno::EIO)), "what can't be written is lost, and said to be");
    }
}

/// The rank that a capability came to had recorded the session, and died before it was open here.
#[test]
fn a_capability_that_came_to_a_rank_without_a_session_is_claimed_of_its_successor() {
    for states in [[MdsState::REPLAY, MdsState::RECONNECT], [MdsState::REPLAY, MdsState::ACTIVE]] {
        claims_of_successor(&states, false);
    }
    // The client was away meanwhile. Servers of ours take claims then, too; it knows them by what they say.
    claims_of_successor(&[MdsState::ACTIVE], true);
}

fn claims_of_successor(states: &[MdsState], is_ours: bool) {
    let mut rig = Rig::with_two_ranks();
    if is_ours {
        let metadata = [(msgs::session_metadata::ASYNC_DIRS.to_owned(), String::new())].into();
        let open = ClientSession { metadata, ..ClientSession::of(session_op::OPEN, 0) };
        rig.says(rig.conn, 0, open);
    }
    rig.write(0, 10);
    let body = CapBody::Peer(CapPeer { mds: OTHER.0, cap_id: 70, mseq: 1, ..CapPeer::default() });
    let moved = ClientCaps { op: cap_op::EXPORT, ino: INO, cap_id: 9, body, ..ClientCaps::default() };
    let conn = connects(&rig.says(rig.conn, 0, moved))[0];
    if is_ours {
        rig.input(Input::Closed { conn, reason: CloseReason::Refused });
    }
    let mut out = Vec::new();
    for (gid, state) in states.iter().map(|state| (8, *state)) {
        let mut map = rig.client.sessions.map().clone();
        map.epoch = map.epoch.next();
        let (gid, addrs) = (Gid(gid), wire::EntityAddr::msgr2(([127, 0, 0, 1], 6801).into(), 1).into());
        map.mds_info.insert(gid, MdsInfo { gid, state, rank: OTHER, addrs, ..MdsInfo::default() });
        map.up.insert(OTHER, gid);
        out.clear();
        rig.client.with_sessions(rig.now, &mut out, |sessions, env| sessions.take_map(map, env));
    }
    let claims = out.iter().filter_map(|o| match o {
        Output::Send { msg: Msg { body: node::Body::Client(Body::ClientReconnect(m)), .. }, .. } => Some(m),
        _ => None,
    });
    let claims: Vec<_> = claims.collect();
    assert_eq!(claims[0].caps[&INO].cap_id, 70, "{states:?}: {claims:?}");
    assert_eq!(rig.buffered(), (10, None), "nothing is lost");
}

/// Rank 0 handed a capability over to rank 2 and died before it said so, or does so later, as its successor
/// does; rank 2 handed it over to rank 1.
#[test]
fn a_capability_is_followed_over_a_rank_that_died_before_it_told() {
    for is_gone in [true, false] {
        let mut rig = Rig::with_two_ranks();
        let (conn, _) = rig.forwarded_lookup(b"a");
        rig.write(0, 10);
        if is_gone {
            rig.input(Input::Closed { conn: rig.conn, reason: CloseReason::Lost });
        }
        let former = CapPeer { mds: 2, cap_id: 33, mseq: 1, ..CapPeer::default() };
        let caps = rig.client.cache.inode(InodeKey::head(INO)).expect("an inode").caps().held();
        let import =
            ClientCaps { op: cap_op::IMPORT, ino: INO, cap_id: 70, migrate_seq: 2, ..Default::default() };
        let mut out = rig.says(conn, 0, ClientCaps { former, caps, seq: 5, ..import });
        if !is_gone {
            let next = CapPeer { mds: 2, ..former };
            let export = ClientCaps { op: cap_op::EXPORT, ino: INO, cap_id: 9, ..Default::default() };
            let export = ClientCaps { body: CapBody::Peer(next), ..export };
            out.extend(rig.says(rig.conn, 0, export));
        }
        let cap = rig.client.cache.inode(InodeKey::head(INO)).expect("an inode").caps().cap().expect("held");
        assert_eq!((cap.id(), cap.auth_rank()), (70, OTHER), "gone: {is_gone}: {out:?}");
        assert!(released(&out).is_empty(), "gone: {is_gone}: with it its file locks would be");
        assert_eq!(rig.buffered(), (10, None));
    }
}

/// What a client asks for while a capability moves may come too late for the one rank, which drops it.
#[test]
fn what_the_former_rank_was_asked_for_is_asked_of_the_next() {
    for tells_by in [cap_op::IMPORT, cap_op::GRANT] {
        let mut rig = Rig::with_two_ranks();
        let (conn, _) = rig.forwarded_lookup(b"a");
        rig.write(0, 10);
        let next = CapPeer { mds: OTHER.0, cap_id: 70, mseq: 1, ..CapPeer::default() };
        let export = ClientCaps { op: cap_op::EXPORT, ino: INO, cap_id: 9, ..ClientCaps::default() };
        rig.says(rig.conn, 0, ClientCaps { body: CapBody::Peer(next), ..export });
        let caps = rig.inode().caps().held();
        let former = CapPeer { mds: 0, cap_id: 9, ..CapPeer::default() };
        let told =
            ClientCaps { op: tells_by, ino: INO, cap_id: 70, seq: 5, migrate_seq: 1, ..Default::default() };
        let told = ClientCaps { former, caps, wanted: Caps(cap::FILE_SHARED), ..told };
        let asked = cap_messages(&rig.says(conn, 0, told.clone()));
        assert!(asked.iter().any(|m| m.wanted.has(cap::FILE_WR)), "{asked:?}");
        // It knows.
        let wanted = rig.inode().wanted();
        let told = ClientCaps { wanted, seq: 6, ..told };
        let asked = cap_messages(&rig.says(conn, 0, told));
        assert!(asked.is_empty(), "{asked:?}");
    }
}

#[test]
fn a_request_whose_rank_is_gone_goes_to_another() {
    let mut rig = Rig::with_two_ranks();
    let (conn, _) = rig.forwarded_lookup(b"a");
    rig.says(conn, 0, ClientSession::of(session_op::CLOSE, 0));
    let mut map = rig.client.sessions.map().clone();
    map.epoch = map.epoch.next();
    map.up.remove(&OTHER);
    map.mds_info.remove(&Gid(7));
    let mut out = Vec::new();
    rig.client.with_sessions(rig.now, &mut out, |sessions, env| sessions.take_map(map, env));
    assert_eq!(asked_on(&out), [rig.conn]);
}

#[test]
fn a_session_that_a_map_opens_during_the_pause_after_a_refusal_stays() {
    let mut rig = Rig::with_two_ranks();
    let asked = requests(&rig.lookup(b"a"));
    let conn = connects(&rig.says(rig.conn, asked[0].0, forward(1, 1)))[0];
    let out = rig.input(Input::Closed { conn, reason: CloseReason::Refused });
    assert!(connects(&out).is_empty(), "it waits before it tries again");
    let mut map = rig.client.sessions.map().clone();
    map.epoch = map.epoch.next();
    let mut out = Vec::new();
    rig.client.with_sessions(rig.now, &mut out, |sessions, env| sessions.take_map(map, env));
    let conn = connects(&out)[0];
    assert_eq!(asked_on(&rig.says(conn, 0, ClientSession::of(session_op::OPEN, 0))), [conn]);
    rig.now.mono = rig.now.mono + Duration::from_secs(1);
    let out = rig.input(Input::Timer);
    assert!(connects(&out).is_empty(), "the pause is over, and there is a session");
    assert_eq!(answers(&rig.found_at_other(conn, asked[0].0, b"a")).len(), 1);
}
