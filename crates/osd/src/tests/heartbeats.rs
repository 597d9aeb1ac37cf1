//! Who counts as silent, and how long clients wait for one that is.

use super::cluster::Cluster;
use maps::OsdId;
use std::collections::BTreeMap;
use std::time::Duration;

const MS: Duration = Duration::from_millis(1);

fn is_ping(msg: &node::Msg) -> bool {
    matches!(msg.body, node::Body::Peer(peer::Body::OsdPing(_)))
}

fn reports_of(c: &Cluster, osd: usize) -> u64 {
    c.osd(osd).core.counters().get("peer_reported").copied().unwrap_or(0)
}

#[test]
fn a_stopped_osd_costs_clients_less_than_five_seconds() {
    for phase in 0..5 {
        let mut c = Cluster::new(3, 3, 2, 8);
        c.write("x", "a");
        c.run(1000 * MS + phase * 230 * MS);
        let osd = c.acting("x")[phase as usize % 3];
        c.freeze(osd);
        let stopped = c.now();
        c.write("x", "b");
        let pause = c.now().since(stopped);
        assert!(pause < 4300 * MS, "{pause:?}");
        assert!(pause > 2900 * MS, "no earlier than a busy one may answer: {pause:?}");
        assert_eq!(c.read("x"), Ok("b".into()));
        c.run(6000 * MS);
        c.thaw(osd);
        c.run(1000 * MS);
        assert!(c.map.is_up(OsdId(osd as i32)), "it is back");
        c.check();
    }
}

#[test]
fn a_running_osd_takes_over_another_grace() {
    let mut c = Cluster::new(3, 3, 2, 8);
    c.run(1000 * MS);
    for (grace, least) in [("9.5", 8500), ("2", 1000), ("", 2900)] {
        let set = [("osd_heartbeat_grace".to_owned(), grace.to_owned())].into_iter();
        let options: BTreeMap<_, _> = set.filter(|(_, value)| !value.is_empty()).collect();
        (0..3).for_each(|osd| c.osd_mut(osd).take_central_settings(options.clone()));
        c.run(2000 * MS);
        c.freeze(1);
        let stopped = c.now();
        c.run_until("osd.1 is marked down", |c| !c.map.is_up(OsdId(1)));
        let pause = c.now().since(stopped);
        assert!(pause >= least * MS && pause < (least + 1500) * MS, "{pause:?} with a grace of {grace:?}");
        c.thaw(1);
        c.run(3000 * MS);
    }
    c.check();
}

#[test]
fn an_osd_without_pgs_is_missed_too() {
    let mut c = Cluster::new(6, 2, 1, 1);
    c.run(3000 * MS);
    let idle = (0..6).find(|osd| !c.acting("x").contains(osd)).expect("one PG has two OSDs");
    c.freeze(idle);
    c.run(6000 * MS);
    assert!(!c.map.is_up(OsdId(idle as i32)), "osd.{idle} is silent");
    c.thaw(idle);
    c.run(2000 * MS);
    assert!(c.map.is_up(OsdId(idle as i32)), "it is back");
    c.check();
}

#[test]
fn who_stood_still_accuses_nobody() {
    let mut c = Cluster::new(3, 3, 2, 8);
    c.believe_silence = false;
    c.run(1700 * MS);
    c.freeze(1);
    c.run(10_000 * MS);
    assert!(reports_of(&c, 0) > 0 && reports_of(&c, 2) > 0, "the others see it");
    c.thaw_with_a_timer(1);
    c.run(5000 * MS);
    assert_eq!(reports_of(&c, 1), 0);
    let (before, silent) = (reports_of(&c, 0), reports_of(&c, 2));
    c.run(5000 * MS);
    assert_eq!((reports_of(&c, 0), reports_of(&c, 2)), (before, silent), "and are content with it now");
    c.check();
}

#[test]
fn whoever_says_something_else_is_alive_too() {
    let mut c = Cluster::new(3, 3, 2, 8);
    c.write("x", "a");
    let (a, b) = (c.acting("x")[0], c.acting("x")[1]);
    c.filter = Some(Box::new(move |from, to, msg| is_ping(msg) && [(a, b), (b, a)].contains(&(from, to))));
    for i in 0..20 {
        c.write("x", &i.to_string());
        c.run(500 * MS);
    }
    assert_eq!((reports_of(&c, a), reports_of(&c, b)), (0, 0));
    c.believe_silence = false;
    c.run(6000 * MS);
    assert!(reports_of(&c, a) > 0 && reports_of(&c, b) > 0, "without traffic pings alone tell");
    c.filter = None;
    c.check();
}

#[test]
fn a_promise_waits_for_the_map_and_not_for_the_next_ping() {
    let mut c = Cluster::new(3, 3, 2, 8);
    let name = (0..).map(|i| i.to_string()).find(|name| c.acting(name)[0] == 2).expect("one of 8 PGs");
    c.write(&name, "a");
    c.kill(2);
    c.write(&name, "b");
    // The map that has osd.2 up comes late to osd.0.
    c.latency.insert((100, 0), 300_000_000);
    c.start(2);
    c.run_until("osd.2 is up", |c| c.map.is_up(OsdId(2)));
    let up = c.now();
    assert_eq!(c.read(&name), Ok("b".into()));
    let pause = c.now().since(up);
    assert!(pause < 800 * MS, "two maps are late by 300 ms each: {pause:?}");
    c.latency.clear();
    c.check();
}

#[test]
fn clients_of_those_who_shared_pgs_with_a_lost_osd_are_told() {
    let mut c = Cluster::new(3, 3, 2, 8);
    let led_by = |c: &Cluster, osd| {
        (0..).map(|i: u32| i.to_string()).find(|name| c.acting(name)[0] == osd).expect("one of 8 PGs")
    };
    let (theirs, ours) = (led_by(&c, 0), led_by(&c, 1));
    c.write(&theirs, "a");
    c.write(&ours, "a");
    c.freeze(1);
    // All that this client waits for is at the silent one.
    c.send_op(1, None, &ours, vec![super::cluster::write_full("b")]);
    let before = c.map.epoch;
    c.run_until("osd.1 is marked down", |c| !c.map.is_up(OsdId(1)));
    assert!(c.map.epoch > before);
    c.run(50 * MS);
    assert!(c.told > before, "it learns from another one where its object is now");
}
