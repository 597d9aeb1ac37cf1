//! The memory that requests come with for their answers.

use super::cluster::{Cluster, append, write_full};
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
