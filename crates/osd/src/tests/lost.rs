//! What a person gives up: OSDs that never come back, and objects that only they had.

use super::cluster::{Cluster, append};
use maps::Epoch;
use std::time::Duration;
use stdx::Instant;

/// Two copies, one is enough. `x` is written on both, then on the first alone while the other is away.
fn newer_on_one(osds: usize) -> (Cluster, usize, usize) {
    let mut c = Cluster::new(osds, 2, 1, 8);
    c.write("x", "old");
    c.write("y", "old");
    let (alone, away) = (c.acting("x")[0], c.acting("x")[1]);
    c.kill(away);
    c.write("x", "new");
    (c, alone, away)
}

fn lose(c: &mut Cluster, osd: usize) {
    c.change(|map, _| map.osds[osd].info.lost_at = map.epoch);
    c.run(Duration::from_secs(1));
}

fn query(c: &mut Cluster, osd: usize) -> serde_json::Value {
    let pgid = c.pgid("x");
    let (code, text) = c.admin(osd, &format!(r#"{{"prefix":"query","pgid":"{pgid}"}}"#));
    assert_eq!(code, 0, "{text}");
    serde_json::from_str(&text).expect("JSON")
}

fn give_up(c: &mut Cluster, osd: usize, how: &str) -> (i32, String) {
    let pgid = c.pgid("x");
    c.admin(osd, &format!(r#"{{"prefix":"pg","pgid":"{pgid}","cmd":"mark_unfound_lost","mulcmd":"{how}"}}"#))
}

#[test]
fn an_osd_that_is_lost_blocks_nobody_any_more() {
    let (mut c, alone, away) = newer_on_one(2);
    c.kill(alone);
    c.mark_down(alone, true);
    c.start(away);
    c.run(Duration::from_secs(5));
    let found = query(&mut c, away);
    assert_eq!(found["state"], "down+degraded+peering+undersized", "{found}");
    assert_eq!(found["blocked_by"], serde_json::json!([alone]));
    // Lost before it had anything of the last interval: that is no answer.
    c.change(|map, _| map.osds[alone].info.lost_at = Epoch(1));
    c.run(Duration::from_secs(1));
    assert_eq!(query(&mut c, away)["machine_state"], "Down");
    lose(&mut c, alone);
    assert_eq!(c.read("x"), Ok("old".into()), "what was acknowledged later is given up");
    c.write("x", "newer");
}

/// The one that was away learns of the newer version and does not get it before the other dies.
fn unfound(osds: usize) -> (Cluster, usize, usize) {
    let (mut c, alone, away) = newer_on_one(osds);
    let is_part =
        |msg: &node::Msg| matches!(msg.body, node::Body::Peer(peer::Body::Push(_) | peer::Body::Pull(_)));
    c.filter = Some(Box::new(move |_, _, msg| is_part(msg)));
    c.start(away);
    c.run(Duration::from_secs(3));
    c.kill(alone);
    c.mark_down(alone, true);
    c.filter = None;
    c.run(Duration::from_secs(2));
    (c, alone, away)
}

#[test]
fn objects_that_only_a_lost_osd_had_go_back_to_what_there_is() {
    for how in ["revert", "delete"] {
        let (mut c, gone, left) = unfound(2);
        let pgid = c.pgid("x");
        let found = query(&mut c, left);
        assert_eq!(found["unfound"], 1, "{found}");
        assert!(found["state"].as_str().expect("a name").contains("recovery_unfound"), "{found}");
        let (_, list) = c.admin(left, &format!(r#"{{"prefix":"list_unfound","pgid":"{pgid}"}}"#));
        let list: serde_json::Value = serde_json::from_str(&list).expect("JSON");
        assert_eq!(list["objects"][0]["oid"]["oid"], "x");
        assert_eq!(list["might_have_unfound"][0]["status"], "osd is down");
        let waiting = c.send_op(left, None, "x", vec![msgs::Op::Read(msgs::Extent::new(0, 0))]);
        c.run(Duration::from_secs(1));
        assert!(!c.replies.contains_key(&waiting), "its requests wait");
        let (code, text) = give_up(&mut c, left, how);
        assert!(code == -22 && text.contains("haven't probed all sources"), "{text}");
        lose(&mut c, gone);
        let (code, text) = give_up(&mut c, left, how);
        assert!(code == 0 && text.contains("pg has 1 objects unfound and apparently lost marking"), "{text}");
        let wanted = if how == "revert" { Ok("old".into()) } else { Err(-2) };
        assert_eq!(c.read("x"), wanted);
        assert_eq!(query(&mut c, left)["unfound"], 0);
        assert!(give_up(&mut c, left, how).1.contains("pg has no unfound objects"));
        // The other one comes back after all, with what was given up.
        c.start(gone);
        c.wait_clean();
        assert_eq!(c.read("x"), wanted);
        c.complaints.retain(|text| !text.contains("object_unfound") && !text.contains("object_given_up"));
        c.check();
    }
}

#[test]
fn what_nobody_had_is_taken_from_whoever_comes_back_with_it_and_is_no_member_any_more() {
    let (mut c, gone, left) = unfound(3);
    let pgid = c.pgid("x");
    c.place(pgid, &[left, 3 - gone - left]);
    c.run(Duration::from_secs(3));
    assert_eq!(query(&mut c, left)["unfound"], 1, "the third one has nothing");
    // What it says comes when the others have agreed already, without asking it.
    let notice = |msg: &node::Msg| matches!(msg.body, node::Body::Peer(peer::Body::PgNotify(_)));
    c.filter = Some(Box::new(move |from, _, msg| from == gone && msg.tid == 0 && notice(msg)));
    c.start(gone);
    c.run(Duration::from_secs(1));
    c.filter = None;
    c.run(Duration::from_secs(5));
    assert!(!c.acting("x").contains(&gone));
    assert_eq!(c.read("x"), Ok("new".into()));
    c.wait_clean();
    c.complaints.retain(|text| !text.contains("object_unfound"));
    c.check();
}

/// A primary that lacks `x` gets it. When it is there and not durable yet, and, where a write is sent to it
/// at a given time, whether that was ordered by then.
fn pulls(write_at: Option<Instant>) -> (Instant, bool) {
    let mut c = Cluster::new(3, 3, 2, 1);
    c.write("x", "old");
    let primary = c.acting("x")[0];
    c.kill(primary);
    c.mark_down(primary, true);
    c.write("x", "new");
    c.start(primary);
    let ordered = |c: &Cluster| c.osd(primary).pgs.values().map(|pg| pg.info().last_update.version).max();
    c.run_until("a primary that lacks it", |c| {
        c.acting("x")[0] == primary && c.osd(primary).pgs.values().any(|pg| !pg.missing().is_empty())
    });
    let (before, mut tid) = (ordered(&c), None);
    let arrived = |pg: &crate::pg::Pg| pg.missing().is_empty() && pg.recovery().pull_count() > 0;
    let (mut since, mut early) = (None, false);
    while since.is_none() || c.osd(primary).pgs.values().any(arrived) {
        if write_at.is_some_and(|at| at <= c.now()) && tid.is_none() {
            tid = Some(c.send_op(primary, None, "x", vec![append(" and newer")]));
        }
        c.run(Duration::from_micros(20));
        if c.osd(primary).pgs.values().any(arrived) {
            since.get_or_insert(c.now());
            early |= ordered(&c) != before;
        }
    }
    if let Some(tid) = tid {
        c.run_until("an answer", |c| c.replies.contains_key(&tid));
        assert_eq!(c.read("x"), Ok("new and newer".into()));
    }
    c.check();
    (since.expect("it has arrived"), early)
}

/// Until what the primary lacked is durable there, nothing may be ordered for it: a member could keep the
/// update where the power fails, and the state before would be nowhere.
#[test]
fn what_was_sent_to_the_primary_is_not_changed_before_it_is_durable_there() {
    let (arrives, _) = pulls(None);
    // Requests are 1 ms on their way, and the disk takes 250 us.
    for us in [960, 920, 880, 840] {
        let (again, early) = pulls(Some(Instant(arrives.0 - us * 1000)));
        assert_eq!(again, arrives, "the same run until then");
        assert!(!early, "ordered before it was durable");
    }
}

/// An update of `x` is ordered by its primary, whose disk, like those of the OSDs of `slow`, takes longer
/// than all that follows; it comes to the OSDs of `to` alone. Gives who serves `x` too, and the request.
fn ordered_only(c: &mut Cluster, slow: &[usize], to: &[usize]) -> u64 {
    let primary = c.acting("x")[0];
    for osd in slow.iter().chain([&primary]) {
        c.disk_time.insert(*osd, Duration::from_secs(50));
    }
    let lost = c.acting("x").into_iter().filter(|osd| !to.contains(osd)).collect::<Vec<_>>();
    c.filter = Some(Box::new(move |_, to, msg| {
        lost.contains(&to) && matches!(msg.body, node::Body::Peer(peer::Body::RepOp(_)))
    }));
    let tid = c.send_op(primary, None, "x", vec![append(" and new")]);
    c.run(Duration::from_millis(20));
    tid
}

/// OSDs lose power, and come back with what was durable there.
fn lose_power(c: &mut Cluster, osds: &[usize]) {
    c.filter = None;
    for osd in osds {
        c.kill(*osd);
        c.disk_time.remove(osd);
        c.mark_down(*osd, true);
    }
    c.run(Duration::from_secs(2));
    osds.iter().for_each(|osd| c.start(*osd));
    c.wait_clean();
}

fn was_done_once(c: &mut Cluster, tid: u64) {
    assert_eq!(c.finish(tid, "x", vec![append(" and new")]).result, 0);
    assert_eq!(c.read("x"), Ok("old and new".into()));
    c.check();
}

#[test]
fn members_take_from_a_primary_only_what_is_durable_there() {
    let mut c = Cluster::new(3, 3, 1, 1);
    c.write("x", "old");
    let acting = c.acting("x");
    let tid = ordered_only(&mut c, &[], &[]);
    acting[1..].iter().for_each(|osd| c.break_links(acting[0], *osd));
    c.run(Duration::from_secs(2));
    let activating =
        c.osd(acting[0]).pgs.values().any(|pg| pg.state() == crate::pg::state::State::Activating);
    assert!(activating, "it has what the others never saw, and wants to tell them");
    lose_power(&mut c, &acting[..1]);
    was_done_once(&mut c, tid);
}

#[test]
fn a_primary_takes_from_members_only_what_is_durable_there() {
    let mut c = Cluster::new(3, 3, 1, 1);
    c.write("x", "old");
    let acting = c.acting("x");
    let tid = ordered_only(&mut c, &acting[2..], &acting[2..]);
    // The second is primary next, and asks the third, who knows more.
    c.kill(acting[0]);
    c.mark_down(acting[0], true);
    c.run(Duration::from_secs(2));
    lose_power(&mut c, &[acting[0], acting[2]]);
    was_done_once(&mut c, tid);
}
