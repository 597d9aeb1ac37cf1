//! Buffered data on their way to the OSDs, and reads beside them.

use super::tests::{ALONE, INO, READERS, Rig, SHARED, answers, cap_messages, stat};
use super::*;
use crate::api::Invalidate;
use crate::buffer::WRITE_BACK_AFTER;
use crate::key::InodeKey;
use crate::mds_request::open_flag;
use maps::MdsRank;
use msgs::{ClientCaps, ClientSession, InodeStat, cap, cap_flag, cap_op, session_op};
use std::time::Duration;
use stdx::Bufs;

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
fn data_of_a_closed_file_stay_a_moment_and_need_no_commit() {
    let mut rig = Rig::new();
    rig.write(0, PAGE);
    let fh = rig.fh;
    rig.ask(FsRequest::Release { fh, lock_owner: 0 });
    assert_eq!((rig.client.services.flights(), rig.buffered()), (0, (PAGE as u64, None)));
    let due = rig.client.cache.buffer().deadline().expect("it is to leave");
    assert_eq!(due.0 % 25_000_000, 0, "together with others");
    rig.now.mono = due;
    rig.input(Input::Timer);
    assert_eq!(rig.client.services.flights(), 1);
    let told = cap_messages(&rig.writes_arrive());
    assert_eq!((told[0].op, told[0].flags & cap_flag::SYNC), (cap_op::FLUSH, 0), "nobody waits for it");
}

/// The kernel gives back all that refers to the file's inode.
fn forget_references(rig: &mut Rig) {
    let count = rig.inode().usage().lookups();
    rig.ask(FsRequest::Forget { ino: INO, count });
}

#[test]
fn data_of_a_removed_file_never_leave() {
    for (bits, flights) in [(ALONE, 0), (ALONE & !cap::FILE_BUFFER, 1)] {
        let mut rig = Rig::new();
        rig.write(0, PAGE);
        let mut removed = InodeStat { nlink: 0, version: 5, ..stat(INO, 0o100_644) };
        removed.layout = rig.inode().attrs().layout().into();
        rig.client.cache.learn_inode(MdsRank(0), &removed);
        assert_eq!(rig.buffered().0, PAGE as u64, "it is open");
        if bits != ALONE {
            rig.caps(cap_op::REVOKE, 2, bits);
        }
        forget_references(&mut rig);
        rig.close_and_wait();
        assert_eq!(rig.client.services.flights(), flights, "others may have it open without the bit");
        assert_eq!(rig.buffered().0, flights as u64 * PAGE as u64);
    }
}

#[test]
fn data_of_a_removed_file_stay_as_long_as_somebody_may_open_it_again() {
    let removed = || {
        let mut rig = Rig::new();
        rig.client.cache.open_inode(InodeKey::head(INO)).add_lookups(1);
        rig.write(0, PAGE);
        let mut removed = InodeStat { nlink: 0, version: 5, ..stat(INO, 0o100_644) };
        removed.layout = rig.inode().attrs().layout().into();
        rig.client.cache.learn_inode(MdsRank(0), &removed);
        let fh = rig.fh;
        rig.ask(FsRequest::Release { fh, lock_owner: 0 });
        assert_eq!((rig.client.services.flights(), rig.buffered().0), (0, PAGE as u64), "it is referenced");
        rig
    };
    let mut rig = removed();
    forget_references(&mut rig);
    let buffered = rig.client.cache.buffer().bytes();
    assert_eq!((rig.client.services.flights(), buffered), (0, 0), "nobody can open it any more");
    let mut rig = removed();
    rig.now.mono = rig.client.cache.buffer().deadline().expect("they are to leave");
    rig.input(Input::Timer);
    assert_eq!(rig.client.services.flights(), 1, "a descriptor may be opened again");
}

#[test]
fn a_sync_goes_ahead_of_what_nobody_waits_for() {
    let mut rig = rig_with_due_pages(1000);
    let fh = rig.fh;
    rig.ask(FsRequest::Fsync { fh, data_only: true });
    assert_eq!(rig.client.services.flights(), 64);
}

#[test]
fn a_sync_tells_size_and_times_beside_the_data() {
    let mut rig = Rig::new();
    rig.write(0, PAGE);
    let fh = rig.fh;
    let out = rig.ask(FsRequest::Fsync { fh, data_only: false });
    let told = cap_messages(&out);
    assert_eq!((rig.client.services.flights(), told.len()), (1, 1));
    assert_eq!((told[0].op, told[0].file().size), (cap_op::FLUSH, PAGE as u64));
    let ack = msgs::ClientCaps { op: cap_op::FLUSH_ACK, ..told[0].clone() };
    assert!(answers(&rig.mds_says(told[0].oldest_flush_tid, ack)).is_empty(), "the data have not arrived");
    let out = rig.writes_arrive();
    assert_eq!((answers(&out), cap_messages(&out).len()), (vec![&Ok(Answer::Done)], 0));
}

#[test]
fn a_sync_of_everything_tells_once_what_closed_files_have_lost() {
    let mut rig = rig_with_due_pages(1);
    rig.forget_file();
    assert_eq!(rig.client.services.end_flights(Err(Errno::ENOSPC)), 1);
    let out = rig.ask(FsRequest::Sync);
    let told = cap_messages(&out);
    assert!(answers(&out).is_empty(), "the time of the write is not told yet");
    let ack = msgs::ClientCaps { op: cap_op::FLUSH_ACK, ..told[0].clone() };
    assert_eq!(answers(&rig.mds_says(told[0].oldest_flush_tid, ack)), [&Err(Errno::ENOSPC)]);
    assert_eq!(answers(&rig.ask(FsRequest::Sync)), [&Ok(Answer::Done)], "once");
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

#[test]
fn a_lazy_write_is_buffered_while_others_have_the_file_open() {
    let mut rig = Rig::new();
    rig.caps(cap_op::REVOKE, 2, SHARED | cap::FILE_LAZYIO);
    assert!(answers(&rig.write(0, PAGE)).is_empty(), "a write through any other descriptor waits");
    rig.writes_arrive();
    let fh = rig.fh;
    let out = rig.ask(FsRequest::SetLazy { fh });
    assert_eq!(answers(&out), [&Ok(Answer::Done)]);
    let told = cap_messages(&out);
    assert_eq!(told.len(), 1);
    assert!(told[0].wanted.has(cap::FILE_LAZYIO), "the MDS knows what is wanted");
    assert!(cap_messages(&rig.ask(FsRequest::SetLazy { fh })).is_empty(), "once is enough");
    assert_eq!(answers(&rig.write(0, PAGE)), [&Ok(Answer::Written(PAGE as u32))]);
    assert_eq!((rig.client.services.flights(), rig.buffered().0), (0, PAGE as u64));
    let out = rig.ask(FsRequest::Fsync { fh, data_only: true });
    assert_eq!((answers(&out).len(), rig.client.services.flights()), (0, 1), "a sync has others see it");
    rig.writes_arrive();
    rig.write(0, PAGE);
    rig.caps(cap_op::REVOKE, 3, SHARED);
    assert_eq!(rig.client.services.flights(), 1, "without the right the data leave at once");
    assert!(answers(&rig.write(8 * PAGE as u64, PAGE)).is_empty());
}

#[test]
fn what_was_written_lazily_leaves_with_the_last_lazy_descriptor() {
    let mut rig = Rig::new();
    rig.open_with(0);
    rig.caps(cap_op::REVOKE, 2, SHARED | cap::FILE_LAZYIO);
    let fh = rig.fh;
    rig.ask(FsRequest::SetLazy { fh });
    rig.write(0, PAGE);
    assert_eq!(rig.client.services.flights(), 0);
    rig.ask(FsRequest::Release { fh, lock_owner: 0 });
    assert_eq!(rig.client.services.flights(), 1, "the other one is not lazy");
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

impl Rig {
    fn seek(&mut self, offset: u64, whence: u32) -> Outs {
        self.ask(FsRequest::Lseek { fh: self.fh, offset, whence })
    }

    /// All objects that were asked for are absent.
    fn nothing_is_there(&mut self) -> Outs {
        self.client.services.end_reads(&Err(Errno::ENOENT));
        let mut out = Vec::new();
        self.client.settle(self.now, &mut out);
        out
    }
}

const DATA: u32 = 3;
const HOLE: u32 = 4;

#[test]
fn buffered_bytes_are_data_and_absent_objects_holes() {
    let mut rig = Rig::new();
    rig.write(8 << 20, 10);
    rig.write(20 << 20, 5);
    for (offset, whence, asked, found) in [
        (5, DATA, 6, 8 << 20),
        (5, HOLE, 6, 5),
        (8 << 20, HOLE, 4, (8 << 20) + 4096),
        ((8 << 20) + 11, DATA, 4, (8 << 20) + 11),
        (9 << 20, DATA, 4, 20 << 20),
    ] {
        assert!(answers(&rig.seek(offset, whence)).is_empty(), "OSDs are asked");
        assert_eq!(rig.client.services.reads(), asked, "all at once");
        assert_eq!(answers(&rig.nothing_is_there()), [&Ok(Answer::Offset(found))], "{whence} from {offset}");
    }
    rig.seek((20 << 20) + 1, HOLE);
    assert_eq!(answers(&rig.nothing_is_there()), [&Ok(Answer::Offset((20 << 20) + 5))], "the end is a hole");
    assert_eq!(answers(&rig.seek((20 << 20) + 5, DATA)), [&Err(Errno::ENXIO)], "beyond the end");
    // What is buffered when the search begins may be at the OSDs when it ends, and was not when they looked.
    rig.seek(0, DATA);
    let fh = rig.fh;
    rig.ask(FsRequest::Fsync { fh, data_only: true });
    rig.writes_arrive();
    assert_eq!(answers(&rig.nothing_is_there()), [&Ok(Answer::Offset(8 << 20))]);
    rig.seek(0, DATA);
    assert_eq!(answers(&rig.nothing_is_there()), [&Err(Errno::ENXIO)], "no data up to the end");
}

#[test]
fn a_search_ends_after_many_objects() {
    let (mut rig, size) = (Rig::new(), 1 << 39);
    let mut stat = msgs::InodeStat { size, version: 9, ..super::tests::stat(INO, 0o100_644) };
    (stat.layout.stripe_unit, stat.layout.stripe_count, stat.layout.object_size) = (4 << 20, 1, 4 << 20);
    rig.client.cache.learn_inode(maps::MdsRank(0), &stat);
    for (whence, found) in [(DATA, 64 << 30), (HOLE, size)] {
        let (mut out, mut rounds) = (rig.seek(0, whence), 0);
        while answers(&out).is_empty() {
            assert_eq!(rig.client.services.reads(), 64);
            // For a hole, the objects are full.
            let full = std::collections::BTreeMap::from([(0_u64, 4_u64 << 20)]);
            let there = msgs::op::input::write(&full);
            rig.client.services.end_reads(&if whence == DATA { Err(Errno::ENOENT) } else { Ok(there) });
            rig.client.settle(rig.now, &mut out);
            rounds += 1;
        }
        assert_eq!((rounds, answers(&out)), (256, vec![&Ok(Answer::Offset(found))]));
    }
}

impl Rig {
    /// Copies from the first open file to one that is opened with these flags.
    fn copy(&mut self, offset_in: u64, offset_out: u64, len: u64, flags: u32) -> Outs {
        let fh_in = self.fh;
        self.open_with(flags);
        let fh_out = self.fh;
        self.fh = fh_in;
        self.ask(FsRequest::CopyRange { fh_in, offset_in, fh_out, offset_out, len })
    }

    fn read_buffered(&mut self, offset: u64, len: u32) -> Vec<u8> {
        match &answers(&self.ask(FsRequest::Read { fh: self.fh, offset, len }))[..] {
            [Ok(Answer::Data(data))] => data.to_vec(),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn a_copy_ends_where_the_file_does() {
    let mut rig = Rig::new();
    rig.write(1 << 20, 5000);
    let out = rig.copy((1 << 20) + 1000, 0, 10_000, 0);
    assert_eq!(answers(&out), [&Ok(Answer::Written(4000))]);
    assert_eq!(rig.read_buffered(0, 4000), vec![7; 4000]);
    let end = (1 << 20) + 5000;
    assert_eq!(answers(&rig.copy(end, 0, 10, 0)), [&Ok(Answer::Written(0))], "nothing is there");
    assert_eq!(answers(&rig.copy(0, 0, 0, 0)), [&Ok(Answer::Written(0))]);
    assert_eq!(answers(&rig.copy(0, 0, 10, open_flag::APPEND)), [&Err(Errno::EBADF)]);
    let bad = FsRequest::CopyRange { fh_in: 99, offset_in: 0, fh_out: rig.fh, offset_out: 0, len: 1 };
    assert_eq!(answers(&rig.ask(bad)), [&Err(Errno::EBADF)]);
    assert_eq!(answers(&rig.copy(1 << 20, 1 << 40, 10, 0)), [&Err(Errno::EFBIG)]);
}

#[test]
fn a_copy_goes_on_by_pieces_and_tells_what_it_has_copied_before_an_error() {
    let mut rig = Rig::new();
    rig.write((20 << 20) - 1, 1);
    let mut out = rig.copy(0, 32 << 20, 20 << 20, 0);
    for reads in [2, 2] {
        assert_eq!((rig.client.services.reads(), answers(&out).len()), (reads, 0));
        rig.client.services.end_reads(&Ok(Bufs::from(vec![9; 4 << 20])));
        rig.client.settle(rig.now, &mut out);
    }
    assert_eq!(rig.client.services.reads(), 1);
    rig.client.services.end_reads(&Err(Errno::EIO));
    rig.client.settle(rig.now, &mut out);
    assert_eq!(answers(&out), [&Ok(Answer::Written(16 << 20))]);
    let copied = rig.read_buffered((48 << 20) - 2, 100);
    assert_eq!(copied, [9, 9], "and the file ends there");
    let mut out = rig.copy(0, 64 << 20, 10, 0);
    rig.client.services.end_reads(&Err(Errno::EIO));
    rig.client.settle(rig.now, &mut out);
    assert_eq!(answers(&out), [&Err(Errno::EIO)]);
}

#[test]
fn object_operations_wait_for_the_map_that_the_mds_names() {
    let mut rig = Rig::new();
    let barrier =
        |epoch| ClientCaps { op: cap_op::GRANT, ino: 77, osd_epoch_barrier: epoch, ..ClientCaps::default() };
    let is_held = |rig: &Rig| rig.client.services.cluster().engine().is_held();
    rig.mds_says(0, barrier(maps::Epoch(0)));
    assert!(!is_held(&rig));
    rig.mds_says(0, barrier(maps::Epoch(1000)));
    assert!(is_held(&rig), "whatever it has of the inode");
}
