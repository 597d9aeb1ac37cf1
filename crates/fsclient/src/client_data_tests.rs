//! Buffered data on their way to the OSDs, and reads beside them.

use super::tests::{Rig, answers};
use super::*;
use crate::buffer::WRITE_BACK_AFTER;
use crate::mds_request::open_flag;

const PAGE: usize = 4096;

/// Buffers pages with gaps between them, which are due after a while.
fn rig_with_due_pages(count: u64) -> Rig {
    let mut rig = Rig::new();
    for page in 0..count {
        rig.write(2 * page * PAGE as u64, PAGE);
    }
    rig.now.mono = rig.now.mono + WRITE_BACK_AFTER;
    rig.input(Input::Timer);
    rig
}

#[test]
fn a_read_waits_for_few_of_many_buffered_writes() {
    let mut rig = rig_with_due_pages(1000);
    assert_eq!(rig.client.services.flights(), 32, "few are ahead of the read");
    let fh = rig.fh;
    let out = rig.ask(FsRequest::Read { fh, offset: PAGE as u64, len: PAGE as u32 });
    assert!(answers(&out).is_empty());
    assert_eq!(rig.client.services.reads(), 1, "the OSDs were asked at once");
    let mut rounds = 0;
    while rig.buffered().0 > 0 {
        rig.writes_arrive();
        rounds += 1;
    }
    assert_eq!(rounds, 1000_usize.div_ceil(32), "what arrives makes space for as many");
}

#[test]
fn a_sync_goes_ahead_of_what_nobody_waits_for() {
    let mut rig = rig_with_due_pages(1000);
    let fh = rig.fh;
    rig.ask(FsRequest::Fsync { fh, data_only: true });
    assert_eq!(rig.client.services.flights(), 64);
}

#[test]
fn neighbours_leave_in_one_write_and_not_across_an_object() {
    let mut rig = Rig::new();
    for page in [3, 1, 2, 0, 1023, 1024] {
        rig.write(page * PAGE as u64, PAGE);
    }
    let fh = rig.fh;
    rig.ask(FsRequest::Fsync { fh, data_only: true });
    assert_eq!(rig.client.services.flights(), 3);
}

#[test]
fn a_direct_write_is_answered_when_it_has_arrived() {
    let mut rig = Rig::new();
    rig.open_with(open_flag::DIRECT);
    let out = rig.write(0, PAGE);
    assert!(answers(&out).is_empty());
    assert_eq!(rig.client.services.flights(), 1, "it leaves at once");
    let second = rig.write(8 * PAGE as u64, PAGE);
    assert!(answers(&second).is_empty());
    assert_eq!(rig.client.services.flights(), 2, "beside the first");
    let out = rig.writes_arrive();
    assert_eq!(answers(&out), [&Ok(Answer::Written(PAGE as u32)), &Ok(Answer::Written(PAGE as u32))]);
}
