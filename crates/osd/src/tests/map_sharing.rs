//! Maps that OSDs have from one another.

use super::cluster::Cluster;
use maps::{Epoch, OsdId};
use std::collections::BTreeSet;
use std::time::Duration;

const MS: Duration = Duration::from_millis(1);
/// The monitor of the cluster.
const MON: usize = 100;

fn is_map(msg: &node::Msg) -> bool {
    matches!(msg.body, node::Body::Client(msgs::Body::OsdMap(_)))
}

fn is_ping(msg: &node::Msg) -> bool {
    matches!(msg.body, node::Body::Peer(peer::Body::OsdPing(_)))
}

/// A cluster that has been quiet for a while, whose monitor tells only some OSDs of new maps.
fn cluster_that_tells(osds: usize, told: &[usize]) -> Cluster {
    let mut c = Cluster::new(osds, 3, 2, 16);
    c.incrementals = true;
    c.run(3000 * MS);
    c.told_at_once = Some(told.iter().copied().collect());
    c
}

/// A change that moves no PG.
fn change(c: &mut Cluster) {
    c.change(|map, _| map.full_ratio += 0.001);
}

fn epochs(c: &Cluster, osds: usize) -> BTreeSet<Epoch> {
    (0..osds).map(|osd| c.osd(osd).core.epoch()).collect()
}

#[test]
fn a_change_that_one_osd_is_told_reaches_all_by_heartbeats() {
    let mut c = cluster_that_tells(6, &[4]);
    c.filter = Some(Box::new(|from, to, msg| {
        assert!(from != MON || to == 4 || !is_map(msg), "the monitor tells osd.{to}");
        false
    }));
    change(&mut c);
    let began = c.now();
    c.run_until("all have the map", |c| epochs(c, 6) == [c.map.epoch].into());
    let took = c.now().since(began);
    assert!(took < 1100 * MS, "each pings its peers each second: {took:?}");
    assert_eq!(c.counted("maps_asked_for"), 0);
    c.run(2000 * MS);
    let sent = c.counted("maps_shared");
    assert!((5..=10).contains(&sent), "few are sent it twice: {sent}");
    c.filter = None;
    c.check();
}

#[test]
fn a_message_has_the_map_that_it_needs_ahead_of_it() {
    let mut c = cluster_that_tells(4, &[]);
    let acting = c.acting("x");
    c.told_at_once = Some([acting[0]].into());
    c.filter = Some(Box::new(|_, _, msg| is_ping(msg)));
    c.write("x", "a");
    change(&mut c);
    c.run(10 * MS);
    let began = c.now();
    c.write("x", "b");
    let took = c.now().since(began);
    assert!(took < 20 * MS, "nobody waits for another message: {took:?}");
    assert!(acting.iter().all(|osd| c.osd(*osd).core.epoch() == c.map.epoch));
    assert_eq!((c.counted("maps_asked_for"), c.counted("maps_shared")), (0, 2), "once to each member");
    c.filter = None;
    c.check();
}

#[test]
fn an_answer_has_the_map_that_it_needs_ahead_of_it() {
    let mut c = cluster_that_tells(4, &[]);
    let acting = c.acting("x");
    // Only members know the map that makes another one the primary: it learns of it from what they report.
    let next = acting[1];
    c.told_at_once = Some([acting[0], acting[2]].into());
    c.filter = Some(Box::new(|_, _, msg| is_ping(msg)));
    let order = [next, acting[0], acting[2]];
    let pgid = c.pgid("x");
    c.place(pgid, &order);
    c.run_until("the new primary has the map", |c| c.osd(next).core.epoch() == c.map.epoch);
    assert_eq!(c.counted("maps_asked_for"), 0);
    c.filter = None;
    c.told_at_once = None;
    change(&mut c);
    c.write("x", "b");
    c.check();
}

#[test]
fn a_map_that_does_not_come_along_is_asked_for() {
    for far_behind in [false, true] {
        let mut c = cluster_that_tells(4, &[]);
        let acting = c.acting("x");
        c.told_at_once = Some([acting[0]].into());
        // Either it is lost on its way, or the sender has no incrementals that lead to it.
        c.incrementals = !far_behind;
        c.filter = Some(Box::new(move |from, _, msg| is_ping(msg) || from != MON && is_map(msg)));
        change(&mut c);
        c.run(10 * MS);
        let began = c.now();
        c.write("x", "b");
        let took = c.now().since(began);
        assert!(took > 100 * MS && took < 130 * MS, "after a short patience: {took:?}");
        assert_eq!(c.counted("maps_asked_for"), 2, "each of the others asks once");
        assert_eq!(c.counted("maps_shared") > 0, !far_behind);
        c.filter = None;
        c.check();
    }
}

#[test]
fn a_client_that_is_ahead_waits_for_the_map_and_no_longer() {
    let mut c = cluster_that_tells(4, &[]);
    c.filter = Some(Box::new(|_, _, msg| is_ping(msg)));
    change(&mut c);
    let began = c.now();
    c.write("x", "a");
    let took = c.now().since(began);
    assert!(took < 130 * MS, "{took:?}");
    c.filter = None;
    c.check();
}

#[test]
fn an_osd_that_is_wrongly_marked_down_hears_of_it_from_others() {
    let mut c = cluster_that_tells(4, &[0, 2, 3]);
    let up_from = |c: &Cluster| c.map.osd(OsdId(1)).map(|osd| osd.info.up_from);
    let before = up_from(&c);
    c.mark_down(1, false);
    let began = c.now();
    c.run_until("it is up again", |c| c.map.is_up(OsdId(1)) && up_from(c) != before);
    let took = c.now().since(began);
    assert!(took < 2000 * MS, "its pings show the map that it has: {took:?}");
    c.told_at_once = None;
    change(&mut c);
    c.check();
}
