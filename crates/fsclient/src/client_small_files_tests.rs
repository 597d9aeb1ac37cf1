//! Small new files whose content goes to the MDS with the flush of an fsync.

use super::fail_over_tests::claims_of_next_session;
use super::tests::{ALONE, INO, READERS, Rig, answers, asked_mds, cap_messages, requests, stat};
use super::*;
use crate::buffer::WRITE_BACK_AFTER;
use crate::key::InodeKey;
use msgs::{
    ClientCaps, ClientReply, ClientSession, InodeStat, MdsOp, cap, cap_op, session_metadata, session_op,
    small_file,
};
use stdx::Bufs;

impl Rig {
    /// A client that has just made its file, at a server that takes small files.
    fn with_new_file() -> Self {
        let mut rig = Self::new();
        rig.client.sessions.pretend_active(maps::MdsRank(0), None);
        rig.announce();
        rig.client.cache.open_inode(InodeKey::head(INO)).made_here();
        rig
    }

    fn announce(&mut self) -> Outs {
        let mut open = ClientSession::of(session_op::OPEN, 0);
        open.metadata.insert(session_metadata::SMALL_FILES.to_owned(), String::new());
        self.mds_says(0, open)
    }

    fn sync_it(&mut self) -> Outs {
        self.ask(FsRequest::Fsync { fh: self.fh, data_only: false })
    }

    /// The MDS acknowledges the flush; `is_taken` if it has taken the content.
    fn flushed(&mut self, is_taken: bool) -> Outs {
        let tid = self.client.cache.last_flush();
        let inline_version = if is_taken { small_file::IN_JOURNAL } else { 0 };
        let (op, dirty) = (cap_op::FLUSH_ACK, msgs::Caps(cap::FILE_WR));
        self.mds_says(
            tid,
            ClientCaps { op, ino: INO, cap_id: 9, dirty, inline_version, ..ClientCaps::default() },
        )
    }

    /// Writes `len` bytes and syncs them, which the MDS takes.
    fn synced(&mut self, len: usize) {
        self.write(0, len);
        assert_eq!(contents(&self.sync_it()), [vec![7; len]]);
        assert_eq!(answers(&self.flushed(true)), [&Ok(Answer::Done)]);
    }

    fn stored(&mut self, out: &Outs) -> Outs {
        let asked = requests(out);
        let [(tid, request)] = &asked[..] else { panic!("{asked:?}") };
        assert_eq!((request.op, request.path.ino), (MdsOp::STORE_DATA, INO));
        self.mds_says(*tid, ClientReply { op: MdsOp::STORE_DATA, safe: true, ..ClientReply::default() })
    }

    fn read_it(&mut self) -> Outs {
        self.ask(FsRequest::Read { fh: self.fh, offset: 0, len: 100 })
    }
}

/// What flushes carry, in order.
fn contents(out: &Outs) -> Vec<Vec<u8>> {
    let flushes = cap_messages(out).into_iter().filter(|m| m.op == cap_op::FLUSH);
    flushes.filter(|m| m.inline_version == small_file::IN_JOURNAL).map(|m| m.inline_data).collect()
}

#[test]
fn the_content_goes_with_the_flush_and_to_no_object() {
    let mut rig = Rig::with_new_file();
    rig.write(0, 60);
    rig.write(60, 40);
    let out = rig.sync_it();
    assert_eq!((contents(&out), cap_messages(&out)[0].file().size), (vec![vec![7; 100]], 100));
    assert!(!rig.client.services.is_waiting() && answers(&out).is_empty());
    assert_eq!(answers(&rig.flushed(true)), [&Ok(Answer::Done)]);
    assert_eq!(rig.buffered(), (0, None));
}

#[test]
fn what_is_not_new_small_whole_and_synced_goes_to_objects() {
    let refused: [fn(&mut Rig) -> Outs; 6] = [
        |rig| {
            rig.write(0, 16 * 1024 + 1);
            rig.sync_it()
        },
        |rig| {
            rig.write(10, 100);
            rig.sync_it()
        },
        |rig| {
            rig.write(0, 100);
            rig.caps(cap_op::REVOKE, 2, READERS & !cap::FILE_CACHE)
        },
        |rig| {
            rig.write(0, 100);
            rig.close_and_wait()
        },
        |rig| {
            rig.caps(cap_op::REVOKE, 2, READERS);
            rig.caps(cap_op::GRANT, 3, ALONE);
            rig.write(0, 100);
            rig.sync_it()
        },
        |rig| {
            rig.write(0, 100);
            rig.ask(FsRequest::Sync)
        },
    ];
    for (n, case) in refused.into_iter().enumerate() {
        let mut rig = Rig::with_new_file();
        assert!(contents(&case(&mut rig)).is_empty(), "case {n}");
        assert_eq!(rig.client.services.flights(), 1, "case {n}");
    }
    let mut rig = Rig::new();
    rig.client.cache.open_inode(InodeKey::head(INO)).made_here();
    rig.write(0, 100);
    assert!(contents(&rig.sync_it()).is_empty(), "this server takes none");
    let mut rig = Rig::new();
    rig.announce();
    rig.write(0, 100);
    assert!(contents(&rig.sync_it()).is_empty(), "the file is not new");
}

#[test]
fn a_refused_content_goes_to_an_object_and_the_sync_waits_for_that() {
    let mut rig = Rig::with_new_file();
    rig.write(0, 100);
    assert_eq!(contents(&rig.sync_it()).len(), 1);
    assert!(answers(&rig.flushed(false)).is_empty());
    assert_eq!(answers(&rig.writes_arrive()), [&Ok(Answer::Done)]);
    rig.write(0, 10);
    assert!(contents(&rig.sync_it()).is_empty(), "it is in an object now");
}

#[test]
fn before_objects_are_looked_into_the_content_is_stored() {
    let mut rig = Rig::with_new_file();
    rig.synced(100);
    let out = rig.read_it();
    assert_eq!((rig.client.services.reads(), asked_mds(&out)), (0, vec![MdsOp::STORE_DATA]));
    rig.stored(&out);
    assert_eq!(rig.client.services.reads(), 1);
    assert_eq!(asked_mds(&rig.read_it()), [], "once is enough");
}

#[test]
fn a_content_that_changes_goes_to_the_journal_again() {
    let mut rig = Rig::with_new_file();
    rig.synced(100);
    for len in [110, 130] {
        assert_eq!(answers(&rig.write(len - 20, 20)), [&Ok(Answer::Written(20))]);
        assert_eq!(contents(&rig.sync_it()), [vec![7; len as usize]]);
        assert_eq!(answers(&rig.flushed(true)), [&Ok(Answer::Done)]);
    }
    rig.write(0, 1);
    assert_eq!(contents(&rig.sync_it()), [vec![7; 130]]);
    assert!(answers(&rig.flushed(false)).is_empty(), "the former one is stored");
    assert_eq!(answers(&rig.writes_arrive()), [&Ok(Answer::Done)]);
}

#[test]
fn a_hole_in_a_content_that_changes_is_zeros() {
    let mut rig = Rig::with_new_file();
    rig.synced(10);
    rig.write(20, 10);
    assert_eq!(contents(&rig.sync_it()), [[vec![7; 10], vec![0; 10], vec![7; 10]].concat()]);
}

#[test]
fn what_has_changed_never_leaves_past_the_journal() {
    for why in 0..3 {
        let mut rig = Rig::with_new_file();
        rig.synced(100);
        rig.write(0, 1);
        let out = match why {
            0 => rig.caps(cap_op::REVOKE, 2, READERS & !cap::FILE_CACHE),
            1 => rig.close_and_wait(),
            _ => rig.ask(FsRequest::Setattr {
                ino: INO,
                set: crate::api::SetAttr { size: Some(10), ..Default::default() },
            }),
        };
        assert_eq!((contents(&out), rig.client.services.flights()), (vec![vec![7; 100]], 0), "case {why}");
        rig.flushed(false);
        rig.now.mono = rig.now.mono + WRITE_BACK_AFTER;
        rig.input(Input::Timer);
        assert_eq!(rig.client.services.flights(), 1, "case {why}");
    }
}

#[test]
fn a_write_waits_for_the_store_unless_the_whole_content_is_known_and_stays_small() {
    let cases: [fn(&mut Rig); 5] = [
        |_| {},
        |rig| drop(rig.write(100, 10)),
        |rig| {
            rig.forget_file();
            rig.open_with(0);
        },
        // Others may have written meanwhile.
        |rig| {
            rig.caps(cap_op::REVOKE, 2, READERS);
            rig.caps(cap_op::GRANT, 3, ALONE);
        },
        |rig| {
            let set = crate::api::SetAttr { size: Some(10), ..Default::default() };
            rig.ask(FsRequest::Setattr { ino: INO, set });
        },
    ];
    for (n, case) in cases.into_iter().enumerate() {
        let mut rig = Rig::with_new_file();
        rig.synced(100);
        case(&mut rig);
        let at = if n < 2 { small_file::MAX_BYTES - 9 } else { 100 };
        let out = rig.write(at, 10);
        assert!(answers(&out).is_empty(), "case {n}");
        let out = rig.stored(&out);
        assert_eq!(answers(&out), [&Ok(Answer::Written(10))], "case {n}");
        assert!(contents(&rig.sync_it()).is_empty());
        assert!(rig.client.services.flights() > 0);
    }
}

#[test]
fn while_the_content_is_on_its_way_it_is_read_here_and_writes_wait() {
    let mut rig = Rig::with_new_file();
    rig.write(0, 100);
    rig.sync_it();
    let out = rig.read_it();
    assert_eq!(answers(&out), [&Ok(Answer::Data(Bufs::from(vec![7; 100])))]);
    assert!(answers(&rig.write(50, 100)).is_empty());
    assert_eq!(answers(&rig.flushed(true)), [&Ok(Answer::Done), &Ok(Answer::Written(100))]);
}

#[test]
fn a_new_server_gets_the_content_again_and_an_object_does_if_it_does_not_take_it() {
    for takes in [true, false] {
        let mut rig = Rig::with_new_file();
        rig.write(0, 100);
        let sent = contents(&rig.sync_it());
        let (flushes, _) = claims_of_next_session(&mut rig);
        let again: Vec<_> = flushes.into_iter().map(|(tid, flush)| (tid, flush.inline_data)).collect();
        assert_eq!(again, [(1, sent[0].clone())]);
        rig.announce();
        assert_eq!(answers(&rig.flushed(takes)), vec![&Ok(Answer::Done); takes.into()]);
        assert_eq!(rig.client.services.flights(), usize::from(!takes));
    }
}

#[test]
fn a_lost_session_loses_what_was_on_its_way_and_says_so() {
    let mut rig = Rig::with_new_file();
    rig.write(0, 100);
    rig.sync_it();
    let out =
        rig.mds_says(0, ClientCaps { op: cap_op::EXPORT, ino: INO, cap_id: 9, ..ClientCaps::default() });
    assert_eq!(answers(&out), [&Err(Errno::EIO)]);
    assert_eq!(rig.buffered().0, 0);
    rig.flushed(true);
    assert_eq!(rig.buffered().0, 0);
}

#[test]
fn who_reads_at_a_server_that_has_not_heard_of_a_release_has_the_data_stored_first() {
    for (takes_small_files, seq, asks) in [(true, 3, true), (true, 1, false), (false, 3, false)] {
        let mut rig = Rig::new();
        rig.client.sessions.pretend_active(maps::MdsRank(0), None);
        if takes_small_files {
            rig.announce();
        }
        let mut again = InodeStat { size: 50, version: 5, ..stat(INO, 0o100_644) };
        again.layout = rig.inode().attrs().layout().into();
        (again.cap.cap_id, again.cap.seq, again.cap.caps) = (9, seq, ALONE);
        rig.client.cache.open_inode(InodeKey::head(INO)).lose_cap();
        rig.client.cache.learn_inode(maps::MdsRank(0), &again);
        let out = rig.read_it();
        let asked = requests(&out).len();
        assert_eq!((asked, rig.client.services.reads()), (usize::from(asks), usize::from(!asks)));
        if asks {
            rig.stored(&out);
            assert_eq!(rig.client.services.reads(), 1);
        }
    }
}
