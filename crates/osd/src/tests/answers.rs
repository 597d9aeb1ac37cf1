//! The memory that requests come with for their answers.

use super::cluster::{Cluster, append, write_full};
use maps::Epoch;
use msgs::{Extent, Op};
use std::time::Duration;

fn read(len: u64) -> Vec<Op> {
    vec![Op::Read(Extent::new(0, len))]
}

#[test]
fn an_answer_takes_along_what_its_request_came_with() {
    let mut c = Cluster::new(3, 3, 2, 8);
    c.write("x", "text");
    assert_eq!(c.held, [], "a write has a small answer");
    let osd = c.acting("x")[0];
    let tids = [1 << 20, 0].map(|len| c.send_op(osd, None, "x", read(len)));
    assert_eq!(c.answers.used(), (1 << 20) + (128 << 20), "as much as there may be");
    c.run_until("answers", |c| tids.iter().all(|tid| c.replies.contains_key(tid)));
    assert_eq!(c.held, [(tids[0], 1 << 20), (tids[1], 128 << 20)]);
    assert_eq!(c.answers.used(), 0);
    // Where there is nothing to be read too.
    let tid = c.send_op(osd, None, "x", vec![Op::AssertVer { ver: 1 << 40 }, read(4096).remove(0)]);
    c.run_until("an answer", |c| c.replies.contains_key(&tid));
    assert_eq!(c.answers.used(), 0);
    c.check();
}

#[test]
fn a_request_that_is_forgotten_gives_it_back() {
    let mut c = Cluster::new(3, 3, 2, 1);
    c.write("x", "text");
    let acting = c.acting("x");
    // They wait for an update that waits for a member that stands still, and the client leaves.
    c.freeze(acting[1]);
    c.send_op(acting[0], None, "x", vec![append("1")]);
    c.send_op(acting[0], None, "x", read(4096));
    c.send_op(acting[0], None, "x", vec![write_full("2")]);
    c.send_op(acting[0], None, "x", read(8192));
    c.run(Duration::from_millis(100));
    assert_eq!((c.answers.used(), c.held.len()), (4096 + 8192, 0));
    c.break_client(acting[0]);
    c.run(Duration::from_millis(100));
    assert_eq!(c.answers.used(), 0);
    // What another OSD is to be asked is not answered at all.
    c.send_op(acting[2], None, "x", read(4096));
    c.run(Duration::from_millis(100));
    assert_eq!(c.answers.used(), 0);
    c.thaw(acting[1]);
    c.check();
}

#[test]
fn a_request_by_a_map_that_never_comes_is_not_kept_for_ever() {
    let mut c = Cluster::new(3, 3, 2, 8);
    c.write("x", "text");
    let osd = c.acting("x")[0];
    c.asks_by = Some(Epoch(c.map.epoch.0 + 1000));
    let early = c.send_op(osd, None, "x", read(4096));
    c.asks_by = None;
    let behind = c.send_op(osd, None, "x", read(8192));
    c.run(Duration::from_secs(10));
    // Another map gives it no more time.
    c.change(|_, _| {});
    c.run(Duration::from_millis(4900));
    assert_eq!((c.answers.used(), c.counted("client_ahead_of_maps")), (4096 + 8192, 0));
    c.run(Duration::from_millis(200));
    assert_eq!((c.answers.used(), c.counted("client_ahead_of_maps")), (0, 1));
    assert!(!c.replies.contains_key(&early) && !c.replies.contains_key(&behind));
    c.send_op(osd, Some(early), "x", read(4096));
    c.run_until("an answer on the next connection", |c| c.replies.contains_key(&early));
    c.check();
}

#[test]
fn a_request_by_a_map_that_comes_late_is_answered() {
    let mut c = Cluster::new(3, 3, 2, 8);
    c.write("x", "text");
    let osd = c.acting("x")[0];
    c.asks_by = Some(c.map.epoch.next());
    let tids = [4096, 8192].map(|len| c.send_op(osd, None, "x", read(len)));
    c.run(Duration::from_secs(14));
    assert_eq!(c.replies.len(), 1, "the write's");
    c.change(|_, _| {});
    c.run_until("answers", |c| tids.iter().all(|tid| c.replies.contains_key(tid)));
    c.run(Duration::from_secs(5));
    assert_eq!((c.answers.used(), c.counted("client_ahead_of_maps")), (0, 0));
    c.check();
}
