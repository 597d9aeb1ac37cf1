//! Single decisions, with the exact outputs.

use super::*;

const T: fn(u64) -> Instant = |ms| Instant(ms * MS);

fn voters(ids: &[u64]) -> Voters {
    ids.iter().map(|n| (VoterId(*n), format!("m{n}"))).collect()
}

fn raft(own: u64, ids: &[u64]) -> Raft {
    let restored = Restored { voters: voters(ids), ..Restored::default() };
    Raft::new(VoterId(own), Timing::default(), Rng::from_seed(own), restored, T(0))
}

fn save(raft: &mut Raft, now: Instant) -> Vec<Effect> {
    let mut out = Vec::new();
    let mark = raft.take_unsaved().mark;
    raft.saved(now, mark, &mut out);
    out
}

#[test]
fn a_voter_alone_leads_at_once_and_commits_with_the_first_write() {
    let mut r = raft(1, &[1]);
    assert_eq!(r.deadline(), Some(T(0)));
    let mut out = Vec::new();
    r.tick(T(0), &mut out);
    assert!(r.is_leader() && !r.is_active() && !r.may_read(T(0)));
    assert_eq!(r.propose(Arc::new(vec![7]), None), Some(1));
    let unsaved = r.take_unsaved();
    assert_eq!((unsaved.hard, unsaved.entries.len()), (Some((1, Some(VoterId(1)))), 1));
    r.saved(T(1), unsaved.mark, &mut out);
    assert_eq!(out, [Effect::Committed]);
    assert!(r.is_active() && r.may_read(T(1_000_000)));
    assert_eq!(r.deadline(), None, "nothing to do");
}

#[test]
fn a_vote_is_told_only_when_it_is_durable_and_given_once_a_term() {
    let mut r = raft(1, &[1, 2, 3]);
    let mut out = Vec::new();
    let last = Position::default();
    r.step(T(900), VoterId(2), Message::Vote { term: 1, last }, &mut out);
    assert_eq!(out, [], "not yet durable");
    let yes = Effect::Send(VoterId(2), Message::VoteReply { term: 1, granted: true });
    assert_eq!(save(&mut r, T(901)), [yes]);
    r.step(T(902), VoterId(3), Message::Vote { term: 1, last }, &mut out);
    assert_eq!(out, [Effect::Send(VoterId(3), Message::VoteReply { term: 1, granted: false })]);
}

#[test]
fn whoever_heard_a_leader_or_has_just_started_votes_for_nobody() {
    let mut r = raft(1, &[1, 2, 3]);
    let mut out = Vec::new();
    let last = Position { term: 9, index: 9 };
    r.step(T(700), VoterId(3), Message::Vote { term: 5, last }, &mut out);
    assert_eq!((out.len(), r.term()), (0, 0), "it may have promised before its restart");
    let beat =
        Message::Append { term: 1, prev: Position::default(), commit: 0, sent: T(1000).0, entries: vec![] };
    r.step(T(1000), VoterId(2), beat, &mut out);
    out.clear();
    r.step(T(1700), VoterId(3), Message::PreVote { term: 5, last }, &mut out);
    assert_eq!(out, [Effect::Send(VoterId(3), Message::PreVoteReply { term: 1, granted: false })]);
    r.step(T(1801), VoterId(3), Message::Vote { term: 5, last }, &mut out);
    assert_eq!(r.term(), 5);
}

#[test]
fn a_monitor_whose_log_is_behind_gets_no_vote() {
    let mut r = raft(1, &[1, 2, 3]);
    let at = Position { term: 1, index: 1 };
    let entries = vec![Entry { at, voters: None, data: Arc::default() }];
    let mut out = Vec::new();
    let prev = Position::default();
    r.step(T(1), VoterId(2), Message::Append { term: 1, prev, commit: 0, sent: 5, entries }, &mut out);
    assert_eq!(
        out,
        [Effect::Send(VoterId(2), Message::AppendReply { term: 1, sent: 5, agrees: true, matched: 0 })],
        "it agrees, but nothing is durable"
    );
    let told = Message::AppendReply { term: 1, sent: 0, agrees: true, matched: 1 };
    assert_eq!(save(&mut r, T(2)), [Effect::Send(VoterId(2), told)]);
    out.clear();
    r.step(T(2000), VoterId(3), Message::PreVote { term: 2, last: prev }, &mut out);
    r.step(T(2000), VoterId(3), Message::PreVote { term: 2, last: at }, &mut out);
    let reply = |term, granted| Effect::Send(VoterId(3), Message::PreVoteReply { term, granted });
    assert_eq!(out, [reply(1, false), reply(2, true)]);
}

#[test]
fn a_leader_that_hears_nobody_loses_its_lease_and_then_steps_down() {
    let mut r = raft(1, &[1, 2, 3]);
    let mut out = Vec::new();
    let at = r.deadline().expect("stands for election");
    r.tick(at, &mut out);
    r.step(at, VoterId(2), Message::PreVoteReply { term: 1, granted: true }, &mut out);
    let votes = save(&mut r, at);
    assert_eq!(votes.len(), 2, "asks both once its own vote is durable");
    r.step(at, VoterId(2), Message::VoteReply { term: 1, granted: true }, &mut out);
    assert!(r.is_leader());
    r.propose(Arc::default(), None);
    save(&mut r, at);
    out.clear();
    let answer = Message::AppendReply { term: 1, sent: at.0, agrees: true, matched: 1 };
    r.step(at + Duration::from_millis(10), VoterId(3), answer, &mut out);
    assert!(out.contains(&Effect::Committed));
    let lease = Timing::default().lease;
    assert!(r.may_read(at + lease - Duration::from_millis(1)));
    assert!(!r.may_read(at + lease), "counted from when the message was sent");
    r.tick(at + Duration::from_millis(801), &mut out);
    assert!(!r.is_leader() && r.leader().is_none());
}

#[test]
fn a_leader_that_resigns_gives_its_lease_up_and_asks_one_voter_to_stand() {
    let mut r = raft(1, &[1, 2, 3]);
    let mut out = Vec::new();
    let at = r.deadline().expect("stands for election");
    r.tick(at, &mut out);
    r.step(at, VoterId(2), Message::PreVoteReply { term: 1, granted: true }, &mut out);
    save(&mut r, at);
    r.step(at, VoterId(2), Message::VoteReply { term: 1, granted: true }, &mut out);
    r.propose(Arc::default(), None);
    save(&mut r, at);
    let answer = Message::AppendReply { term: 1, sent: at.0, agrees: true, matched: 1 };
    r.step(at, VoterId(3), answer, &mut out);
    assert!(r.may_read(at));
    out.clear();
    r.resign(at, &mut out);
    let to = |id, stand| Effect::Send(VoterId(id), Message::Resign { term: 1, stand });
    assert_eq!(out, [to(2, false), to(3, true)], "the one that has most");
    assert!(!r.is_leader() && !r.may_read(at));
    out.clear();
    r.resign(at, &mut out);
    assert_eq!(out, [], "it leads no more");
}

#[test]
fn a_voter_believes_a_resignation_only_of_the_leader_it_follows() {
    let mut r = raft(1, &[1, 2, 3]);
    let mut out = Vec::new();
    let append = Message::Append { term: 4, prev: Position::default(), commit: 0, sent: 5, entries: vec![] };
    r.step(T(1000), VoterId(2), append, &mut out);
    out.clear();
    for (from, term) in [(3, 4), (2, 3), (2, 5)] {
        r.step(T(1001), VoterId(from), Message::Resign { term, stand: true }, &mut out);
    }
    assert_eq!((out.len(), r.term(), r.leader()), (0, 4, Some(VoterId(2))));
    r.step(T(1002), VoterId(2), Message::Resign { term: 4, stand: false }, &mut out);
    assert_eq!((out.len(), r.leader()), (0, None));
    let last = Position::default();
    r.step(T(1003), VoterId(3), Message::PreVote { term: 5, last }, &mut out);
    let granted = Effect::Send(VoterId(3), Message::PreVoteReply { term: 5, granted: true });
    assert_eq!(out, [granted], "it owes the old one nothing");
    let append = Message::Append { term: 5, prev: last, commit: 0, sent: 5, entries: vec![] };
    r.step(T(1004), VoterId(3), append, &mut out);
    out.clear();
    r.step(T(1005), VoterId(3), Message::Resign { term: 5, stand: true }, &mut out);
    let asks = |id| Effect::Send(VoterId(id), Message::PreVote { term: 6, last });
    assert_eq!(out, [asks(2), asks(3)]);
}
