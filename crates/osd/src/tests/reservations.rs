//! How many PGs are filled at a time, and that all get their turn.

use super::cluster::Cluster;
use crate::pg::reservation::Reservation;
use maps::OsdId;
use peer::pg_state;
use std::collections::BTreeMap;
use std::time::Duration;

/// PGs that recover now, by their primary and by the members that they fill.
fn at_work(c: &Cluster) -> (BTreeMap<usize, usize>, BTreeMap<OsdId, usize>) {
    let (mut from, mut to) = (BTreeMap::new(), BTreeMap::new());
    for osd in c.alive().0 {
        for pg in c.osd(osd).pgs.values() {
            if let Reservation::Held(members) = &pg.reservation {
                *from.entry(osd).or_default() += 1;
                members.iter().for_each(|member| *to.entry(*member).or_default() += 1);
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
            let mut own = primaries.filter(|(osd, pg)| pg.primary() == Some(OsdId(*osd as i32)));
            own.all(|(_, pg)| pg.state == crate::pg::state::State::Clean)
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
