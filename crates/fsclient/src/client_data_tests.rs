//! Buffered data on their way to the OSDs, and reads beside them.

use super::tests::{INO, READERS, Rig, answers, cap_messages};
use super::*;
use crate::api::Invalidate;
use crate::buffer::WRITE_BACK_AFTER;
use crate::mds_request::open_flag;
use msgs::{ClientSession, cap, cap_op, session_op};
use std::time::Duration;

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

/// The times for which the attributes in the answers may be believed.
fn told(out: &Outs) -> Vec<Duration> {
    let valid = |reply: &Reply| match reply {
        Ok(Answer::Attr(_, valid)) => Some(*valid),
        Ok(Answer::Entry(entry)) => Some(entry.attr_valid),
        _ => None,
    };
    answers(out).into_iter().filter_map(valid).collect()
}

/// The withdrawals of attributes, by id.
fn withdrawals(out: &Outs) -> Vec<u64> {
    let id = |o: &Output<Reply>| match o {
        Output::Reply {
            reply: Ok(Answer::Invalidate { id, what: Invalidate::Attributes { ino: INO } }),
            ..
        } => Some(*id),
        _ => None,
    };
    out.iter().filter_map(id).collect()
}

fn withdrawn(id: u64) -> Input<Request> {
    Input::Request { id: RequestId(0), request: Request::Invalidated { id } }
}

#[test]
fn attributes_believed_above_are_withdrawn_before_the_right_is_given_back() {
    let mut rig = Rig::new();
    assert_eq!(told(&rig.ask(FsRequest::Getattr { ino: INO })), [Duration::from_secs(30)]);
    let out = rig.caps(cap_op::REVOKE, 2, cap::PIN);
    assert!(cap_messages(&out).is_empty(), "they are still believed");
    let [id] = withdrawals(&out)[..] else { panic!("one withdrawal: {out:?}") };
    let told_back = cap_messages(&rig.input(withdrawn(id)));
    assert_eq!((told_back.len(), told_back[0].seq, told_back[0].caps.0), (1, 2, cap::PIN));
    assert!(told(&rig.ask(FsRequest::Getattr { ino: INO })).is_empty(), "the MDS is asked");
}

#[test]
fn attributes_that_may_have_changed_meanwhile_are_withdrawn_although_the_right_is_back() {
    let mut rig = Rig::new();
    rig.ask(FsRequest::Getattr { ino: INO });
    let [id] = withdrawals(&rig.caps(cap_op::REVOKE, 2, cap::PIN))[..] else { panic!("one withdrawal") };
    rig.caps(cap_op::GRANT, 3, READERS);
    assert_eq!(told(&rig.ask(FsRequest::Getattr { ino: INO })), [Duration::ZERO], "it may be overtaken");
    rig.input(withdrawn(id));
    assert_eq!(told(&rig.ask(FsRequest::Getattr { ino: INO })), [Duration::from_secs(30)]);
}

#[test]
fn a_recalled_capability_goes_back_after_the_attributes_that_rest_on_it() {
    let mut rig = Rig::new();
    rig.ask(FsRequest::Getattr { ino: INO });
    rig.forget_file();
    let recall = |rig: &mut Rig| {
        let mut recall = ClientSession::of(session_op::RECALL_STATE, 0);
        recall.head.max_caps = 0;
        rig.mds_says(0, recall)
    };
    let [id] = withdrawals(&recall(&mut rig))[..] else { panic!("one withdrawal") };
    assert!(rig.has_cap());
    rig.input(withdrawn(id));
    recall(&mut rig);
    assert!(!rig.has_cap());
}
