//! A short run of the thrasher; `cargo xtask thrash` runs it for longer.

use e2e::{FilesPlan, Mount, Plan, has, thrash, thrash_files};
use std::time::Duration;

#[test]
fn clients_of_a_cluster_that_is_hurt_at_random_lose_nothing_and_see_no_error() {
    if !has("ceph") || !has("rados") || !has("python3") {
        return;
    }
    let done = thrash(Plan { seed: 1, time: Duration::from_secs(45), tells: false, ..Plan::default() });
    let done = done.unwrap_or_else(|why| panic!("{why}"));
    assert!(done.writers["verified"].as_u64() > Some(100), "{}", done.line());
    assert!(done.counts.values().sum::<u32>() >= 5, "{}", done.line());
}

#[test]
fn programs_on_mounts_see_no_error_while_ranks_are_killed_and_their_number_changes() {
    if !Mount::is_possible() || !has("ceph-fuse") || !has("python3") {
        return;
    }
    let (time, pause) = (Duration::from_secs(25), Duration::from_secs(5));
    let done = thrash_files(FilesPlan { time, pause, tells: false, ..FilesPlan::default() });
    let done = done.unwrap_or_else(|why| panic!("{why}"));
    assert!(done.workers["verified"].as_u64() > Some(100), "{}", done.line());
    assert!(done.counts.values().sum::<u32>() >= 3, "{}", done.line());
}
