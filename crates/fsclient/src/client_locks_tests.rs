//! File locks: what a caller gets, what the next MDS is told, and what happens to those who wait.

use super::tests::{INO, Rig, answers, asked_mds, requests};
use super::*;
use crate::api::{Fh, FileLock};
use crate::buffer::WRITE_BACK_AFTER;
use maps::{Gid, MdsInfo, MdsRank, MdsState};
use msgs::{
    Body, ClientReconnect, ClientReply, ClientRequest, ClientSession, FileLockArgs, MdsOp, session_op,
};
use node::CloseReason;
use wire::Writer;

const READ: u32 = 0;
const WRITE: u32 = 1;
const UNLOCK: u32 = 2;
const OWNER: u64 = 5;

fn fcntl(fh: Fh, kind: u32, (start, end): (u64, u64)) -> FsRequest {
    let lock = FileLock { start, end, kind, pid: 42 };
    FsRequest::Setlk { fh, owner: OWNER, lock, wait: true, flock: false, token: 77 }
}

fn flock(fh: Fh, kind: u32) -> FsRequest {
    let lock = FileLock { start: 0, end: i64::MAX as u64, kind, pid: 42 };
    FsRequest::Setlk { fh, owner: OWNER, lock, wait: true, flock: true, token: 78 }
}

/// The lock requests that were sent, with their tids: rule, kind, first byte and length.
fn locks(out: &Outs) -> Vec<(u64, [u64; 4])> {
    let args = |(tid, m): (u64, ClientRequest)| {
        assert_eq!((m.op, m.path.ino), (MdsOp::SETFILELOCK, INO));
        let args: FileLockArgs = m.args.get();
        assert_eq!(args.owner, OWNER | 1 << 63);
        (tid, [args.rule.into(), args.kind.into(), args.start, args.length])
    };
    requests(out).into_iter().map(args).collect()
}

fn reply(result: i32) -> ClientReply {
    ClientReply { op: MdsOp::SETFILELOCK, safe: true, result, ..ClientReply::default() }
}

fn claims(out: &Outs) -> Option<ClientReconnect> {
    out.iter().find_map(|o| match o {
        Output::Send { msg: Msg { body: node::Body::Client(Body::ClientReconnect(m)), .. }, .. } => {
            Some((**m).clone())
        }
        _ => None,
    })
}

impl Rig {
    /// A file that is open, and an active MDS.
    fn active() -> Self {
        let mut rig = Self::new();
        rig.client.sessions.pretend_active(MdsRank(0), None);
        rig
    }

    /// A caller locks, and the MDS grants it.
    fn locked(&mut self, request: FsRequest) {
        let out = self.ask(request);
        let out = self.mds_says(locks(&out)[0].0, reply(0));
        assert_eq!(answers(&out), [&Ok(Answer::Done)]);
    }

    fn interrupt(&mut self, token: u64) -> Outs {
        self.ask(FsRequest::Interrupt { token })
    }

    /// The MDS dies, and another takes its rank over. Returns the claims.
    fn fails_over(&mut self) -> (ClientReconnect, Outs) {
        let mut out = self.input(Input::Closed { conn: self.conn, reason: CloseReason::Refused });
        out.extend(self.map_says(MdsState::RECONNECT));
        let conn = |o: &Output<Reply>| if let Output::Connect { conn, .. } = o { Some(*conn) } else { None };
        self.conn = out.iter().find_map(conn).expect("it is connected to");
        (claims(&out).expect("claims"), out)
    }

    /// The next MDS has taken our claims, and serves.
    fn becomes_active(&mut self) -> Outs {
        self.mds_says(0, ClientSession::of(session_op::OPEN, 0));
        self.map_says(MdsState::ACTIVE)
    }

    /// A map names another MDS, in this state.
    fn map_says(&mut self, state: MdsState) -> Outs {
        let mut map = self.client.sessions.map().clone();
        map.epoch.0 += 1;
        let addrs = wire::EntityAddr::msgr2(([127, 0, 0, 1], 6801).into(), 1).into();
        let info = MdsInfo { gid: Gid(99), state, rank: MdsRank(0), addrs, ..MdsInfo::default() };
        map.mds_info.insert(info.gid, info);
        map.up.insert(MdsRank(0), Gid(99));
        let mut out = Vec::new();
        self.client.with_sessions(self.now, &mut out, |sessions, env| sessions.take_map(map, env));
        self.client.settle(self.now, &mut out);
        out
    }
}

#[test]
fn the_next_mds_is_told_of_granted_locks_only() {
    let mut rig = Rig::active();
    rig.locked(fcntl(rig.fh, WRITE, (0, 99)));
    rig.locked(fcntl(rig.fh, UNLOCK, (10, 19)));
    rig.locked(flock(rig.fh, READ));
    let waiting = locks(&rig.ask(fcntl(rig.fh, READ, (200, u64::MAX))));
    assert_eq!(waiting[0].1, [1, 1, 200, 0]);
    let (claims, _) = rig.fails_over();
    let mut expected = Writer::encode(&vec![held(0, 10, 2), held(20, 80, 2)]);
    expected.extend(Writer::encode(&vec![held(0, 0, 1)]));
    assert_eq!(claims.caps[&INO].flock, expected);
    let out = rig.becomes_active();
    assert_eq!(locks(&out), waiting, "what waited is asked for again");
    let out = rig.mds_says(waiting[0].0, reply(0));
    assert_eq!(answers(&out), [&Ok(Answer::Done)]);
}

#[test]
fn locks_go_with_the_first_close_and_the_last() {
    let mut rig = Rig::active();
    rig.locked(fcntl(rig.fh, READ, (0, 0)));
    rig.locked(flock(rig.fh, WRITE));
    let out = rig.ask(FsRequest::Flush { fh: rig.fh, lock_owner: OWNER });
    let freed = locks(&out);
    assert_eq!(freed[0].1, [1, 4, 0, 0]);
    let out = rig.mds_says(freed[0].0, reply(0));
    assert_eq!(answers(&out), [&Ok(Answer::Done)]);
    let out = rig.ask(FsRequest::Flush { fh: rig.fh, lock_owner: OWNER });
    assert!(asked_mds(&out).is_empty(), "there is nothing left of fcntl's");
    let out = rig.ask(FsRequest::Release { fh: rig.fh, lock_owner: OWNER });
    assert_eq!(locks(&out)[0].1, [2, 4, 0, 0]);
}

#[test]
fn a_flock_is_freed_before_it_changes_its_kind() {
    let mut rig = Rig::active();
    rig.locked(flock(rig.fh, READ));
    let out = rig.ask(flock(rig.fh, WRITE));
    let first = locks(&out);
    assert_eq!(first[0].1, [2, 4, 0, 0]);
    let second = locks(&rig.mds_says(first[0].0, reply(0)));
    assert_eq!(second[0].1, [2, 2, 0, 0]);
    let again = Errno::EAGAIN.to_result_code();
    let out = rig.mds_says(second[0].0, reply(again));
    assert_eq!(answers(&out), [&Err(Errno::EAGAIN)]);
    let (claims, _) = rig.fails_over();
    assert!(claims.caps[&INO].flock.is_empty(), "the old one is gone, as on Linux");
}

#[test]
fn a_caller_that_is_interrupted_gets_what_the_mds_decides() {
    for result in [0, Errno::EINTR.to_result_code()] {
        let mut rig = Rig::active();
        let asked = locks(&rig.ask(fcntl(rig.fh, WRITE, (0, 9))));
        assert!(rig.interrupt(5).iter().all(|o| !matches!(o, Output::Send { .. })), "of another");
        let told = locks(&rig.interrupt(77));
        assert_eq!(told[0].1, [3, 4, 0, 10]);
        assert!(locks(&rig.interrupt(77)).is_empty(), "it is told once");
        let out = rig.mds_says(asked[0].0, reply(result));
        let expected = if result == 0 { Ok(Answer::Done) } else { Err(Errno::EINTR) };
        assert_eq!(answers(&out), [&expected]);
        assert!(answers(&rig.mds_says(told[0].0, reply(0))).is_empty());
        let (claims, _) = rig.fails_over();
        assert_eq!(claims.caps[&INO].flock.is_empty(), result != 0);
    }
}

#[test]
fn nobody_who_was_interrupted_waits_for_a_dead_mds() {
    let mut rig = Rig::active();
    rig.ask(fcntl(rig.fh, WRITE, (0, 9)));
    rig.interrupt(77);
    let (_, out) = rig.fails_over();
    assert_eq!(answers(&out), [&Err(Errno::EINTR)], "the next one does not know of it");
    rig.ask(fcntl(rig.fh, WRITE, (0, 9)));
    assert_eq!(answers(&rig.interrupt(77))[1..], [&Err(Errno::EINTR)], "nobody was asked yet");
    assert!(locks(&rig.becomes_active()).is_empty());
}

#[test]
fn who_has_lost_its_locks_is_told_so_until_it_closes() {
    let mut rig = Rig::active();
    let other = rig.fh;
    rig.open_with(0);
    rig.locked(fcntl(rig.fh, WRITE, (0, 9)));
    let mut out = rig.mds_says(0, ClientSession::of(session_op::CLOSE, 0));
    let told = |out: &Outs| {
        out.iter().filter(|o| matches!(o, Output::Event(e) if e.name == "file_locks_lost")).count()
    };
    assert_eq!(told(&out), 1);
    let fh = rig.fh;
    out = rig.ask(FsRequest::Read { fh, offset: 0, len: 1 });
    assert_eq!(answers(&out), [&Err(Errno::EIO)]);
    assert_eq!(answers(&rig.write(0, 1)), [&Err(Errno::EIO)]);
    assert_eq!(answers(&rig.ask(fcntl(fh, UNLOCK, (0, 9)))), [&Err(Errno::EIO)]);
    assert_eq!(answers(&rig.ask(FsRequest::Fsync { fh, data_only: true })), [&Err(Errno::EIO)]);
    assert_eq!(answers(&rig.ask(FsRequest::Flush { fh, lock_owner: OWNER })), [&Err(Errno::EIO)]);
    assert_eq!(answers(&rig.ask(FsRequest::Release { fh, lock_owner: 0 })), [&Ok(Answer::Done)]);
    // Who holds none may go on, once there is a session.
    assert!(answers(&rig.ask(FsRequest::Read { fh: other, offset: 0, len: 1 })).is_empty());
}

#[test]
fn who_is_refused_by_the_osds_has_lost_its_locks() {
    let mut rig = Rig::active();
    rig.locked(fcntl(rig.fh, WRITE, (0, 9)));
    rig.write(0, 10);
    rig.now.mono = rig.now.mono + WRITE_BACK_AFTER;
    rig.input(Input::Timer);
    rig.writes_arrive();
    assert!(answers(&rig.ask(FsRequest::Read { fh: rig.fh, offset: 0, len: 10 })).is_empty());
    // Another handle, by which nobody has locked.
    let first = rig.fh;
    rig.open_with(0);
    rig.client.services.end_reads(&Err(Errno::EBLOCKLISTED));
    let mut out = Vec::new();
    rig.client.settle(rig.now, &mut out);
    assert_eq!(answers(&out), [&Err(Errno::EIO)]);
    let told =
        |o: &&Output<Reply>| matches!(o, Output::Event(e) if e.detail.contains("files with lost locks: 1; "));
    assert_eq!(out.iter().filter(told).count(), 1);
    assert!(answers(&rig.ask(FsRequest::Read { fh: rig.fh, offset: 0, len: 10 })).is_empty(), "it waits");
    assert_eq!(answers(&rig.ask(fcntl(first, READ, (0, 9)))), [&Err(Errno::EIO)], "until it is closed");
}

#[test]
fn locks_of_an_open_file_end_with_its_handle() {
    let mut rig = Rig::active();
    // The kernel names the open file as the owner (`F_OFD_SETLK`), and the process when this closes it.
    rig.locked(fcntl(rig.fh, WRITE, (0, 9)));
    let out = rig.ask(FsRequest::Flush { fh: rig.fh, lock_owner: OWNER + 1 });
    assert!(locks(&out).is_empty());
    let out = rig.ask(FsRequest::Release { fh: rig.fh, lock_owner: 0 });
    let asked = locks(&out);
    assert_eq!((asked.len(), asked[0].1), (1, [1, 4, 0, 0]));
    assert_eq!(answers(&rig.mds_says(asked[0].0, reply(0))), [&Ok(Answer::Done)]);
    assert!(rig.client.handles.file(rig.fh).is_err(), "the handle is closed");
    rig.client.handles.locks().check();
}

#[test]
fn a_lock_that_is_being_freed_is_not_claimed() {
    let mut rig = Rig::active();
    rig.locked(fcntl(rig.fh, WRITE, (0, 9)));
    rig.ask(fcntl(rig.fh, UNLOCK, (0, 9)));
    // Another may have it by now: the answer was on its way when the MDS died.
    let (claims, _) = rig.fails_over();
    let no_locks = [Writer::encode(&0_u32), Writer::encode(&0_u32)].concat();
    let of_file = claims.caps.get(&INO).expect("a claim");
    assert!(of_file.flock.is_empty() || of_file.flock == no_locks);
}

/// A lock as claims have it: first byte, length and kind.
fn held(start: u64, length: u64, kind: u8) -> msgs::FileLock {
    msgs::FileLock { start, length, client: 0, owner: OWNER | 1 << 63, pid: 42, kind }
}

/// The claims on the file: locks of fcntl and of flock.
fn claimed(claims: &ClientReconnect) -> (Vec<msgs::FileLock>, Vec<msgs::FileLock>) {
    let bytes = &claims.caps[&INO].flock;
    if bytes.is_empty() {
        return Default::default();
    }
    let mut r = wire::Reader::new(bytes);
    (r.get().expect("locks of fcntl"), r.get().expect("locks of flock"))
}

#[test]
fn a_lock_that_is_being_weakened_is_claimed_as_the_weaker_one() {
    for result in [0, Errno::EAGAIN.to_result_code()] {
        let mut rig = Rig::active();
        rig.locked(fcntl(rig.fh, WRITE, (0, 99)));
        let asked = locks(&rig.ask(fcntl(rig.fh, READ, (10, 19))));
        // Another may read there by now: the answer was on its way when the MDS died.
        let (claims, _) = rig.fails_over();
        assert_eq!(claimed(&claims).0, [held(0, 10, 2), held(10, 10, 1), held(20, 80, 2)]);
        assert_eq!(locks(&rig.becomes_active()), asked, "it is asked for again");
        let out = rig.mds_says(asked[0].0, reply(result));
        let lost = out.iter().any(|o| matches!(o, Output::Event(e) if e.name == "file_locks_lost"));
        let after = rig.ask(fcntl(rig.fh, READ, (0, 0)));
        if result == 0 {
            assert_eq!((answers(&out), lost), (vec![&Ok(Answer::Done)], false));
            assert_eq!(locks(&after).len(), 1);
        } else {
            assert_eq!((answers(&out), lost), (vec![&Err(Errno::EAGAIN)], true));
            assert_eq!(answers(&after), [&Err(Errno::EIO)], "its caller believes in the stronger one");
        }
    }
}

#[test]
fn a_lock_that_could_not_be_weakened_stays() {
    let mut rig = Rig::active();
    rig.locked(fcntl(rig.fh, WRITE, (0, 9)));
    let asked = locks(&rig.ask(fcntl(rig.fh, READ, (0, 99))));
    let out = rig.mds_says(asked[0].0, reply(Errno::EAGAIN.to_result_code()));
    assert_eq!(answers(&out), [&Err(Errno::EAGAIN)]);
    let (claims, _) = rig.fails_over();
    assert_eq!(claimed(&claims).0, [held(0, 10, 2)]);
}

#[test]
fn a_flock_that_is_being_converted_is_not_claimed() {
    let mut rig = Rig::active();
    rig.locked(flock(rig.fh, WRITE));
    let freed = locks(&rig.ask(flock(rig.fh, READ)));
    assert_eq!(freed[0].1, [2, 4, 0, 0]);
    let (claims, _) = rig.fails_over();
    assert_eq!(claimed(&claims), Default::default(), "another may have it by now");
    assert_eq!(answers(&rig.interrupt(78)), [&Ok(Answer::Done)], "the MDS is told to free it in any case");
    assert_eq!(locks(&rig.becomes_active()), freed);
    let out = rig.mds_says(freed[0].0, reply(0));
    assert_eq!(answers(&out), [&Err(Errno::EINTR)]);
}

#[test]
fn who_waits_for_a_lock_when_the_session_ends_fails() {
    let mut rig = Rig::active();
    let waiting = locks(&rig.ask(fcntl(rig.fh, WRITE, (0, 9))));
    assert_eq!(waiting.len(), 1);
    let out = rig.mds_says(0, ClientSession::of(session_op::CLOSE, 0));
    assert_eq!(answers(&out), [&Err(Errno::EIO)], "the capability of the file is gone");
    rig.now.mono = rig.now.mono + std::time::Duration::from_secs(2);
    rig.input(Input::Timer);
    rig.conn = rig.client.sessions.pretend(State::Opening);
    let out = rig.mds_says(0, ClientSession::of(session_op::OPEN, 0));
    assert!(locks(&out).is_empty(), "it is not asked for without one");
    // It held none, so it may try again.
    let out = rig.ask(fcntl(rig.fh, WRITE, (0, 9)));
    assert_eq!(asked_mds(&out), [MdsOp::OPEN]);
}

#[test]
fn a_claim_that_is_refused_is_told_to_its_owner_only() {
    let mut rig = Rig::active();
    let first = rig.fh;
    rig.locked(fcntl(rig.fh, WRITE, (0, 9)));
    rig.open_with(0);
    rig.locked(flock(rig.fh, WRITE));
    let second = rig.fh;
    rig.fails_over();
    let mut open = ClientSession::of(session_op::OPEN, 0);
    let refused = msgs::RefusedLock { ino: INO, rule: 1, owner: OWNER | 1 << 63 };
    let gone = msgs::RefusedLock { rule: 2, owner: 6, ..refused };
    let value = format!("{},1/x/2", msgs::RefusedLock::to_text(&[refused, gone].into()));
    open.metadata.insert(msgs::session_metadata::REFUSED_LOCKS.to_owned(), value);
    let out = rig.mds_says(0, open);
    rig.map_says(MdsState::ACTIVE);
    let told = out.iter().filter(|o| matches!(o, Output::Event(e) if e.name == "file_locks_lost"));
    assert_eq!(told.count(), 1);
    assert_eq!(answers(&rig.ask(fcntl(first, READ, (0, 0)))), [&Err(Errno::EIO)]);
    assert!(answers(&rig.ask(flock(second, READ))).is_empty(), "the MDS is asked");
    // Of the same owner's locks the MDS may have taken others: they are freed, and not claimed again.
    let (claims, _) = rig.fails_over();
    assert_eq!(claimed(&claims).0, []);
    rig.becomes_active();
    let freed = locks(&rig.ask(FsRequest::Flush { fh: first, lock_owner: OWNER }));
    assert_eq!(freed[0].1, [1, 4, 0, 0]);
}
