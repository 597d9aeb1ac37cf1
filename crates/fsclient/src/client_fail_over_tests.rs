//! What a client tells the next MDS of its rank, and what it believes until then.

use super::tests::{ALONE, INO, READERS, Rig, answers, cap_messages, stat};
use super::*;
use crate::api::{Fh, SetAttr};
use maps::MdsRank;
use msgs::{Body, Caps, ClientCaps, ClientSession, InodeStat, InodeStatCap, cap, cap_op, session_op};
use node::CloseReason;
use std::collections::BTreeMap;
use std::time::Duration;

const FH: Fh = 2;
const RANK: MdsRank = MdsRank(0);

/// What the next MDS gets when the session is lost: flushes by tid, then the bits that are claimed.
pub(super) fn claims_of_next_session(rig: &mut Rig) -> (Vec<(u64, ClientCaps)>, BTreeMap<u64, u32>) {
    rig.client.sessions.pretend_active(RANK, None);
    rig.input(Input::Closed { conn: rig.conn, reason: CloseReason::Refused });
    rig.conn = rig.client.sessions.pretend(State::Reconnecting);
    rig.input(Input::Closed { conn: rig.conn, reason: CloseReason::TimedOut });
    rig.now.mono = rig.now.mono + Duration::from_secs(1);
    let (mut flushes, mut claims) = (Vec::new(), None);
    for output in rig.input(Input::Timer) {
        let Output::Send { conn, msg: Msg { tid, body: node::Body::Client(body), .. } } = output else {
            continue;
        };
        match body {
            Body::ClientCaps(m) => flushes.push((tid, *m)),
            Body::ClientReconnect(m) => {
                rig.conn = conn;
                claims = Some(m.caps.into_iter().map(|(ino, claim)| (ino, claim.issued)).collect());
                continue;
            }
            _ => {}
        }
        assert!(claims.is_none(), "the claims come last");
    }
    (flushes, claims.expect("claims"))
}

/// The MDS may have carried it out and let somebody else change the file since: under another number it would
/// undo that.
#[test]
fn flushes_without_acknowledgement_are_repeated_under_their_numbers_ahead_of_the_claims() {
    let mut rig = Rig::new();
    rig.ask(FsRequest::Setattr { ino: INO, set: SetAttr { mode: Some(0o600), ..SetAttr::default() } });
    let told = cap_messages(&rig.caps(cap_op::REVOKE, 2, READERS));
    assert_eq!((told[0].op, told[0].dirty.0, told[0].caps.0), (cap_op::FLUSH, cap::AUTH_EXCL, READERS));
    let (flushes, claims) = claims_of_next_session(&mut rig);
    let again = ClientCaps { seq: 0, issue_seq: 0, wanted: flushes[0].1.wanted, ..told[0].clone() };
    assert_eq!((flushes, claims), (vec![(1, again)], [(INO, READERS)].into()));
    let after = cap_messages(&rig.mds_says(0, ClientSession::of(session_op::OPEN, 0)));
    assert!(after.iter().all(|m| m.dirty == Caps::NONE), "nothing else is to be told: {after:?}");
}

#[test]
fn each_flush_is_repeated_as_it_was() {
    let mut rig = Rig::new();
    let chmod = |mode| {
        let set = SetAttr { mode: Some(mode), ..SetAttr::default() };
        FsRequest::Setattr { ino: INO, set }
    };
    rig.ask(chmod(0o600));
    rig.ask(FsRequest::Fsync { fh: FH, data_only: false });
    rig.ask(chmod(0o640));
    let (flushes, claims) = claims_of_next_session(&mut rig);
    let modes: Vec<_> = flushes.iter().map(|(tid, m)| (*tid, m.mode, m.oldest_flush_tid)).collect();
    assert_eq!(modes, [(1, 0o100_600, 1), (2, 0o100_640, 1)]);
    assert_eq!(claims[&INO] & cap::AUTH_EXCL, cap::AUTH_EXCL, "it is still held");
}

#[test]
fn the_oldest_flush_is_that_of_any_file() {
    let mut rig = Rig::new();
    let other = INO + 1;
    let cap = InodeStatCap { caps: ALONE, cap_id: 10, seq: 1, ..InodeStatCap::default() };
    let key = rig.client.cache.learn_inode(RANK, &InodeStat { cap, ..stat(other, 0o100_644) });
    rig.client.cache.open_inode(key).add_lookups(1);
    let mut tell = |ino| {
        let set = SetAttr { mode: Some(0o600), ..SetAttr::default() };
        let mut out = rig.ask(FsRequest::Setattr { ino, set });
        let cap_id = if ino == INO { 9 } else { 10 };
        let (op, caps) = (cap_op::REVOKE, Caps(READERS));
        let revoke = ClientCaps { op, ino, cap_id, seq: 2, caps, ..ClientCaps::default() };
        out.extend(rig.mds_says(0, revoke));
        cap_messages(&out).iter().map(|m| m.oldest_flush_tid).max()
    };
    assert_eq!((tell(INO), tell(other)), (Some(1), Some(1)));
    let ack = ClientCaps { op: cap_op::FLUSH_ACK, ino: INO, cap_id: 9, ..ClientCaps::default() };
    rig.mds_says(1, ack);
    let (flushes, _) = claims_of_next_session(&mut rig);
    assert_eq!(flushes.iter().map(|(tid, m)| (*tid, m.oldest_flush_tid)).collect::<Vec<_>>(), [(2, 2)]);
}

/// The client is cut off while the MDS restarts: it waits for our claims for longer than the connection takes
/// to time out.
#[test]
fn claims_that_could_not_be_delivered_are_sent_again_and_nothing_is_lost() {
    let mut rig = Rig::new();
    rig.client.sessions.pretend_active(RANK, None);
    rig.write(0, 10);
    rig.input(Input::Closed { conn: rig.conn, reason: CloseReason::Refused });
    rig.conn = rig.client.sessions.pretend(State::Reconnecting);
    for reason in [CloseReason::TimedOut, CloseReason::Denied, CloseReason::TimedOut] {
        rig.input(Input::Closed { conn: rig.conn, reason });
        assert!(rig.client.deadline().is_some_and(|at| at <= rig.now.mono + Duration::from_secs(1)));
        rig.now.mono = rig.now.mono + Duration::from_secs(1);
        let out = rig.input(Input::Timer);
        let claims = out.iter().find_map(|o| match o {
            Output::Send {
                conn,
                msg: Msg { body: node::Body::Client(Body::ClientReconnect(m)), .. },
                ..
            } => Some((*conn, m.caps.keys().copied().collect::<Vec<_>>())),
            _ => None,
        });
        let (conn, inos) = claims.expect("claims");
        assert_eq!(inos, [INO]);
        rig.conn = conn;
    }
    rig.mds_says(0, ClientSession::of(session_op::OPEN, 0));
    assert_eq!(rig.buffered(), (10, None));
    assert!(rig.has_cap());
}

#[test]
fn shared_state_is_not_believed_until_the_next_mds_has_our_claim() {
    let mut rig = Rig::new();
    rig.caps(cap_op::REVOKE, 2, READERS);
    let getattr = || FsRequest::Getattr { ino: INO };
    assert_eq!(answers(&rig.ask(getattr())).len(), 1);
    rig.input(Input::Closed { conn: rig.conn, reason: CloseReason::Refused });
    assert_eq!(answers(&rig.ask(getattr())).len(), 0, "others may change it now");
    rig.conn = rig.client.sessions.pretend(State::Reconnecting);
    rig.mds_says(0, ClientSession::of(session_op::OPEN, 0));
    assert_eq!(answers(&rig.ask(getattr())).len(), 1);
}

#[test]
fn exclusive_state_is_believed_while_there_is_no_mds() {
    let mut rig = Rig::new();
    rig.write(0, 10);
    rig.input(Input::Closed { conn: rig.conn, reason: CloseReason::Refused });
    assert_eq!(answers(&rig.write(10, 10)), [&Ok(Answer::Written(10))]);
    assert_eq!(answers(&rig.ask(FsRequest::Getattr { ino: INO })).len(), 1);
}
