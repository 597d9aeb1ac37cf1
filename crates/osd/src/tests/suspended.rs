//! Recovery and backfill that an administrator has suspended.

use super::cluster::Cluster;
use maps::{OsdId, PgId, osd_flags};
use peer::pg_state;
use std::time::Duration;

/// Longer than any of the PGs here takes to be clean, if nothing holds it.
const LONG: Duration = Duration::from_secs(20);
const PG: PgId = PgId { pool: super::cluster::POOL, seed: 0 };

fn set(c: &mut Cluster, flag: u32) {
    c.change(|map, _| map.flags |= flag);
}

fn clear(c: &mut Cluster, flag: u32) {
    c.change(|map, _| map.flags &= !flag);
    c.wait_clean();
    c.check();
}

/// Four OSDs whose logs have so many entries, with 30 objects of three copies. One object at a time is
/// recovered.
fn cluster(log: usize) -> Cluster {
    let mut c = Cluster::new(4, 3, 2, 1);
    (c.options.log_entries, c.options.log_entries_total) = ((log, log), log);
    c.options.recovery_max_active = 1;
    for osd in 0..4 {
        c.kill(osd);
        c.start(osd);
    }
    c.run(Duration::from_secs(1));
    c.wait_clean();
    (0..30).for_each(|i| c.write(&format!("o{i}"), "old"));
    c
}

/// One of the PG's OSDs comes back, and has missed a change of each object.
fn one_comes_back(c: &mut Cluster) {
    let away = c.acting("o0")[2];
    c.kill(away);
    c.run_until("it is down", |c| !c.map.is_up(OsdId(away as i32)));
    (0..30).for_each(|i| c.write(&format!("o{i}"), "new"));
    c.start(away);
    c.run_until("it is up", |c| c.map.is_up(OsdId(away as i32)));
}

/// The PG's state, after a time in which it could have become clean.
fn state(c: &mut Cluster) -> u64 {
    c.run(LONG);
    c.stats[&PG].state
}

#[test]
fn norecover_leaves_objects_that_a_log_lists_where_they_lack() {
    let mut c = cluster(1000);
    set(&mut c, osd_flags::NORECOVER);
    one_comes_back(&mut c);
    assert_eq!(state(&mut c) & (pg_state::CLEAN | pg_state::RECOVERY_WAIT), pg_state::RECOVERY_WAIT);
    let before = c.counted("objects_recovered");
    c.write("o7", "newest");
    c.run(LONG);
    assert_eq!(c.counted("objects_recovered") - before, 1, "only what a client waited for");
    clear(&mut c, osd_flags::NORECOVER);
}

#[test]
fn a_flag_that_is_set_in_the_middle_stops_recovery_there() {
    let mut c = cluster(1000);
    one_comes_back(&mut c);
    c.run_until("it has begun", |c| c.counted("objects_recovered") > 2);
    set(&mut c, osd_flags::NORECOVER);
    assert_eq!(state(&mut c) & pg_state::CLEAN, 0);
    assert!(c.counted("objects_recovered") < 30);
    clear(&mut c, osd_flags::NORECOVER);
}

#[test]
fn nobackfill_leaves_copies_as_they_are_that_are_too_old_for_the_log() {
    for flag in [osd_flags::NOBACKFILL, osd_flags::NORECOVER] {
        let mut c = cluster(4);
        set(&mut c, flag);
        one_comes_back(&mut c);
        assert_eq!(state(&mut c) & (pg_state::CLEAN | pg_state::BACKFILL_WAIT), pg_state::BACKFILL_WAIT);
        (0..30).for_each(|i| c.write(&format!("o{i}"), "newest"));
        assert_eq!(c.counted("copy_resynced"), 0);
        clear(&mut c, flag);
        assert!(c.counted("copy_resynced") > 0, "the log was too long");
    }
}

#[test]
fn nobackfill_does_not_suspend_recovery_by_the_log() {
    let mut c = cluster(1000);
    set(&mut c, osd_flags::NOBACKFILL);
    one_comes_back(&mut c);
    assert_eq!(state(&mut c) & pg_state::CLEAN, pg_state::CLEAN);
}

#[test]
fn norebalance_leaves_copies_where_they_are_while_there_are_enough() {
    let mut c = cluster(4);
    let mut elsewhere = c.acting("o0");
    elsewhere[2] = (0..4).find(|osd| !elsewhere.contains(osd)).expect("a fourth OSD");
    set(&mut c, osd_flags::NOREBALANCE);
    c.place(PG, &elsewhere);
    let misplaced = pg_state::REMAPPED | pg_state::BACKFILL_WAIT;
    assert_eq!(state(&mut c) & (misplaced | pg_state::CLEAN), misplaced);
    clear(&mut c, osd_flags::NOREBALANCE);
    assert_eq!(c.acting("o0"), elsewhere);
}

#[test]
fn norebalance_lets_pgs_have_the_copies_that_they_lack() {
    let mut c = cluster(4);
    set(&mut c, osd_flags::NOREBALANCE);
    one_comes_back(&mut c);
    assert_eq!(state(&mut c) & pg_state::CLEAN, pg_state::CLEAN);
    assert!(c.counted("copy_resynced") > 0, "the log was too long");
}
