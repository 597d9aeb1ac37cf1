//! Clients want to write more than daemons have memory for.

use e2e::{Flood, flood, flood_reads, has};
use std::time::Duration;

/// Of an OSD, with one largest message.
const BUDGET: u64 = (96 + 4) << 20;

#[test]
fn a_flood_of_writes_leaves_daemons_within_their_budget_and_nobody_is_disconnected() {
    if !has("ceph") {
        return;
    }
    // In all five times what the budgets of three OSDs hold.
    let plan = Flood { connections: 250, bytes: 4 << 20, objects: 12, patience: Duration::from_secs(120) };
    let done = flood(plan).expect("answers");
    assert_eq!((done.errors.len(), done.lost.len(), done.epochs), (0, 0, 0), "{}", done.text());
    assert!(done.most.values().all(|most| *most <= BUDGET), "{}", done.text());
}

#[test]
fn readers_who_take_nothing_keep_no_memory_from_others() {
    if !has("ceph") {
        return;
    }
    // In all ten times what OSDs have for answers.
    let plan = Flood { connections: 60, bytes: 4 << 20, objects: 12, patience: Duration::from_secs(120) };
    let done = flood_reads(plan, env!("CARGO_BIN_EXE_flood").as_ref()).expect("answers");
    assert_eq!((done.errors.len(), done.lost.len(), done.epochs), (0, 0, 0), "{}", done.text());
    assert!(done.most.values().all(|most| *most <= BUDGET), "{}", done.text());
}
