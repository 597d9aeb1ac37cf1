//! How many PGs are filled at a time, and that all get their turn.

use super::cluster::{Cluster, member};
use crate::pg::recovery::reservation::Reservation;
use maps::OsdId;
use peer::pg_state;
use std::collections::BTreeMap;
use std::time::Duration;

/// PGs that recover now, by their primary and by the members that they fill.
fn at_work(c: &Cluster) -> (BTreeMap<usize, usize>, BTreeMap<OsdId, usize>) {
    let (mut from, mut to) = (BTreeMap::new(), BTreeMap::new());
    for osd in c.alive().0 {
        for pg in c.osd(osd).pgs.values() {
            if let Reservation::Held(members) = pg.reservation() {
                *from.entry(osd).or_default() += 1;
                members.iter().for_each(|member| *to.entry(member.osd).or_default() += 1);
            }
        }
    }
    (from, to)
}

fn fill(backfills: usize, log: usize) -> usize {
    let mut c = Cluster::new(4, 3, 2, 32);
    (c.options.max_backfills, c.options.log_entries) = (backfills, (log, log));
    for osd in 0..4 {
        c.kill(osd);
        c.start(osd);
    }
    c.run(Duration::from_secs(1));
    c.wait_clean();
    c.kill(2);
    c.run_until("it is down", |c| !c.map.is_up(OsdId(2)));
    for round in 0..3 {
        (0..150).for_each(|i| c.write(&format!("o{i}"), &format!("{i} {round}").repeat(2000)));
    }
    c.start(2);
    let (mut most, mut waited) = (0, false);
    c.run_until("all clean again", |c| {
        let (from, to) = at_work(c);
        most = most.max(from.values().chain(to.values()).copied().max().unwrap_or(0));
        let wait = pg_state::BACKFILL_WAIT | pg_state::RECOVERY_WAIT;
        waited |= c.stats.values().any(|s| s.state & wait != 0);
        c.map.is_up(OsdId(2)) && {
            let primaries =
                c.alive().0.into_iter().flat_map(|osd| c.osd(osd).pgs.values().map(move |pg| (osd, pg)));
            let mut own = primaries.filter(|(osd, pg)| pg.primary() == Some(member(*osd)));
            own.all(|(_, pg)| pg.state() == crate::pg::state::State::Clean)
        }
    });
    assert!(waited, "who waits for a turn says so");
    c.check();
    most
}

#[test]
fn one_pg_at_a_time_is_recovered_by_an_osd_and_all_get_their_turn() {
    assert_eq!(fill(1, 4000), 1);
}

#[test]
fn one_pg_at_a_time_is_compared_with_an_osd() {
    assert_eq!(fill(1, 5), 1);
}

#[test]
fn as_many_as_are_allowed_are_filled_at_a_time() {
    assert_eq!(fill(3, 5), 3);
}

/// An OSD is back whose copy of 30 objects, which have a clone each now, is too old for the log: it is about
/// to be compared, so many objects at a time, at an OSD that has no turn for anything in the background for
/// minutes.
fn about_to_compare(at_a_time: usize) -> Cluster {
    let mut c = Cluster::new(3, 3, 2, 1);
    (c.options.log_entries, c.options.log_entries_total, c.options.scan_max) = ((4, 4), 4, at_a_time);
    for osd in 0..3 {
        c.kill(osd);
        c.start(osd);
    }
    c.wait_clean();
    (0..30).for_each(|i| c.write(&format!("o{i}"), "old"));
    c.take_snap();
    let (primary, away) = (c.acting("o0")[0], c.acting("o0")[2]);
    c.kill(away);
    c.run_until("it is down", |c| !c.map.is_up(OsdId(away as i32)));
    (0..30).for_each(|i| c.write(&format!("o{i}"), "new"));
    c.start(away);
    c.run_until("it is up", |c| c.map.is_up(OsdId(away as i32)));
    let now = c.now();
    c.osd_mut(primary).core.owe(u32::MAX, now);
    c
}

/// Writes to all of the objects, none of which waits long.
fn writes_are_quick(c: &mut Cluster) {
    for i in 0..30 {
        let asked = c.now();
        c.write(&format!("o{i}"), "newest");
        let pause = c.now().since(asked);
        assert!(pause < Duration::from_millis(300), "o{i}: {pause:?}");
    }
}

#[test]
fn what_a_client_waits_for_is_compared_without_regard_for_the_pace() {
    let mut c = about_to_compare(64);
    writes_are_quick(&mut c);
    c.run(Duration::from_secs(2));
    assert!(c.counted("copy_resynced") > 0, "the log was too short");
    c.check();
}

#[test]
fn between_the_steps_of_a_comparison_clients_writes_do_not_drive_it() {
    let mut c = about_to_compare(4);
    let began = c.now();
    while c.now().since(began) < Duration::from_secs(5) {
        for i in 0..30 {
            c.write(&format!("o{i}"), "newest");
            c.run(Duration::from_millis(5));
        }
    }
    assert_eq!(c.counted("copy_resynced"), 0, "nobody waits for what is not compared yet");
    c.run(Duration::from_secs(5));
    assert!(c.counted("copy_resynced") > 0, "without clients nothing is waited for");
    c.check();
}

#[test]
fn a_write_to_an_object_whose_clones_alone_were_compared_does_not_wait_for_the_pace() {
    let mut c = about_to_compare(1);
    let primary = c.acting("o0")[0];
    let begun = |c: &mut Cluster| c.osd_mut(primary).core.dump_qos()["steps"]["recovery"].as_u64();
    let mut turns = 0;
    while c.counted("copy_resynced") == 0 {
        turns += 1;
        let (now, before) = (c.now(), begun(&mut c));
        c.osd_mut(primary).core.owe(0, now);
        while begun(&mut c) == before && c.counted("copy_resynced") == 0 {
            c.run(Duration::from_millis(1));
        }
        let now = c.now();
        c.osd_mut(primary).core.owe(u32::MAX, now);
        writes_are_quick(&mut c);
    }
    assert!(turns > 20, "{turns}");
    c.check();
}
