//! Names that local callers believe without asking.

use super::tests::{DIR, DIR_CAPS, Rig, answers, asked_mds, cap_messages, dir_stat, requests};
use super::*;
use crate::api::Invalidate;
use crate::key::InodeKey;
use msgs::{
    ClientReply, ClientSession, InodeStat, MdsOp, RenameArgs, ReplyTrace, cap, rename_flag, session_metadata,
    session_op,
};
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);
/// What is left of the directory's bits when others change it.
const NO_NAMES: u32 = DIR_CAPS & !cap::FILE_SHARED;

/// The times for which the names in the answers may be believed.
fn told(out: &Outs) -> Vec<Duration> {
    let valid = |reply: &Reply| match reply {
        Ok(Answer::Entry(entry)) => Some(entry.entry_valid),
        Ok(Answer::Absent(valid)) => Some(*valid),
        _ => None,
    };
    answers(out).into_iter().filter_map(valid).collect()
}

/// The withdrawal of names of the directory.
fn withdrawal(out: &Outs) -> Option<(u64, Vec<Vec<u8>>)> {
    out.iter().find_map(|o| match o {
        Output::Reply {
            reply: Ok(Answer::Invalidate { id, what: Invalidate::Names { parent: DIR, names } }),
            ..
        } => Some((*id, names.clone())),
        _ => None,
    })
}

impl Rig {
    /// A directory in which callers were told of a name.
    fn with_told_name() -> Self {
        let mut rig = Self::with_dir(DIR_CAPS);
        rig.client.cache.open_inode(InodeKey::head(DIR)).add_lookups(1);
        let asked = requests(&rig.lookup(b"a"));
        assert_eq!(told(&rig.found(asked[0].0, b"a", 2, DIR_CAPS)), [SECOND]);
        rig
    }

    /// Others change the directory. Returns the withdrawal of its names.
    fn withdraw(&mut self) -> u64 {
        let out = self.revoke_dir(3, NO_NAMES);
        assert!(cap_messages(&out).is_empty(), "the name is still believed");
        let (id, names) = withdrawal(&out).expect("a withdrawal");
        assert_eq!(names, [b"a"]);
        id
    }

    fn withdrawn(&mut self, id: u64) -> Outs {
        self.input(Input::Request { id: RequestId(0), request: Request::Invalidated { id } })
    }

    /// Time passes.
    fn later(&mut self, time: Duration) -> Outs {
        self.now.mono = self.now.mono + time;
        self.input(Input::Timer)
    }
}

#[test]
fn names_believed_above_are_withdrawn_before_the_right_is_given_back() {
    let mut rig = Rig::with_told_name();
    let id = rig.withdraw();
    let confirmed = cap_messages(&rig.withdrawn(id));
    assert_eq!((confirmed.len(), confirmed[0].seq, confirmed[0].caps.0), (1, 3, NO_NAMES));
}

#[test]
fn names_in_a_directory_that_others_change_are_told_for_no_time() {
    let mut rig = Rig::with_told_name();
    let id = rig.withdraw();
    rig.withdrawn(id);
    for (after, valid, seq) in [(4, Duration::ZERO, 4), (2, SECOND, 5)] {
        rig.later(after * SECOND);
        let asked = requests(&rig.lookup(b"b"));
        assert_eq!(told(&rig.found(asked[0].0, b"b", seq, DIR_CAPS)), [valid], "{after} s later");
        rig.client.cache.forget_name(InodeKey::head(DIR), b"b");
    }
}

#[test]
fn a_revocation_waits_a_moment_and_then_nobody_gets_past_the_directory() {
    let mut rig = Rig::with_told_name();
    let id = rig.withdraw();
    let confirmed = cap_messages(&rig.later(Duration::from_millis(20)));
    assert_eq!((confirmed.len(), confirmed[0].seq, confirmed[0].caps.0), (1, 3, NO_NAMES));
    let out = rig.ask(FsRequest::Getattr { ino: DIR });
    assert!(answers(&out).is_empty() && asked_mds(&out).is_empty(), "a look at the directory waits");
    assert_eq!(asked_mds(&rig.withdrawn(id)), [msgs::MdsOp::GETATTR]);
}

#[test]
fn a_look_at_a_directory_waits_no_longer_than_its_names_are_believed() {
    let mut rig = Rig::with_told_name();
    rig.withdraw();
    rig.later(Duration::from_millis(20));
    rig.ask(FsRequest::Getattr { ino: DIR });
    assert!(asked_mds(&rig.later(SECOND)).is_empty());
    assert_eq!(asked_mds(&rig.later(SECOND)), [msgs::MdsOp::GETATTR]);
}

#[test]
fn the_directorys_own_attributes_are_told_for_no_time_during_a_withdrawal() {
    let mut rig = Rig::with_told_name();
    let valid = |out: &Outs| match answers(out)[..] {
        [Ok(Answer::Attr(_, valid))] => *valid,
        _ => panic!("attributes"),
    };
    assert_eq!(valid(&rig.ask(FsRequest::Getattr { ino: DIR })), SECOND);
    let out = rig.revoke_dir(3, NO_NAMES);
    let ids: Vec<u64> = out
        .iter()
        .filter_map(|o| match o {
            Output::Reply { reply: Ok(Answer::Invalidate { id, .. }), .. } => Some(*id),
            _ => None,
        })
        .collect();
    let [attributes, names] = ids[..] else { panic!("attributes and names: {out:?}") };
    rig.withdrawn(attributes);
    rig.client.cache.learn_inode(maps::MdsRank(0), &super::tests::dir_stat(4, DIR_CAPS));
    rig.input(Input::Timer);
    assert_eq!(valid(&rig.ask(FsRequest::Getattr { ino: DIR })), Duration::ZERO);
    rig.withdrawn(names);
    assert_eq!(valid(&rig.ask(FsRequest::Getattr { ino: DIR })), SECOND);
}

#[test]
fn a_moved_name_is_withdrawn_at_its_new_place() {
    let mut rig = Rig::with_told_name();
    let (name, new_name) = (b"a".to_vec(), b"b".to_vec());
    let rename = FsRequest::Rename { parent: DIR, name, new_parent: DIR, new_name, flags: 0 };
    let asked = requests(&rig.ask(rename));
    rig.found(asked[0].0, b"b", 3, DIR_CAPS);
    let (_, names) = withdrawal(&rig.revoke_dir(4, NO_NAMES)).expect("a withdrawal");
    assert_eq!(names, [b"a", b"b"]);
}

#[test]
fn a_name_moved_after_the_right_has_gone_is_guarded_until_it_is_forgotten() {
    let mut rig = Rig::with_told_name();
    let (name, new_name) = (b"a".to_vec(), b"b".to_vec());
    let rename = FsRequest::Rename { parent: DIR, name, new_parent: DIR, new_name, flags: 0 };
    let asked = requests(&rig.ask(rename));
    let first = rig.withdraw();
    assert_eq!(cap_messages(&rig.later(Duration::from_millis(20))).len(), 1, "given back");
    rig.found(asked[0].0, b"b", 4, NO_NAMES);
    // The one that renames is let through once: others wait.
    rig.pid = 1;
    assert!(asked_mds(&rig.ask(FsRequest::Getattr { ino: DIR })).is_empty());
    let out = rig.withdrawn(first);
    let (second, names) = withdrawal(&out).expect("the new name");
    assert_eq!(names, [b"b"]);
    assert!(asked_mds(&out).is_empty(), "it is still believed");
    assert_eq!(asked_mds(&rig.withdrawn(second)), [msgs::MdsOp::GETATTR]);
}

#[test]
fn who_may_hold_the_directory_gets_past_the_guard() {
    let mut rig = Rig::with_told_name();
    let asked = requests(&rig.lookup(b"new"));
    rig.withdraw();
    rig.later(Duration::from_millis(20));
    rig.found(asked[0].0, b"new", 4, NO_NAMES);
    let look = |rig: &mut Rig| asked_mds(&rig.ask(FsRequest::Getattr { ino: DIR }));
    assert_eq!(look(&mut rig), [msgs::MdsOp::GETATTR], "as a mkdir asks after its lookup");
    assert_eq!(look(&mut rig), [], "once");
}

#[test]
fn names_that_were_told_are_not_kept_for_ever() {
    let mut rig = Rig::with_told_name();
    assert!(rig.client.deadline().is_some_and(|at| at <= rig.now.mono + 4 * SECOND));
    rig.later(4 * SECOND);
    let dir = rig.client.cache.open_inode(InodeKey::head(DIR));
    assert!(!dir.is_name_told(b"a"));
}

#[test]
fn names_that_are_told_for_no_time_set_no_deadline() {
    let mut rig = Rig::with_told_name();
    let id = rig.withdraw();
    rig.withdrawn(id);
    rig.later(4 * SECOND);
    let asked = requests(&rig.lookup(b"b"));
    assert_eq!(told(&rig.found(asked[0].0, b"b", 4, DIR_CAPS)), [Duration::ZERO]);
    assert_eq!(rig.client.cache.deadline(), None);
}

#[test]
fn a_name_that_cannot_exist_is_told_not_to() {
    let mut rig = Rig::with_dir(DIR_CAPS);
    rig.client.cache.open_inode(InodeKey::head(DIR)).set_names_complete();
    assert_eq!(told(&rig.lookup(b"a")), [SECOND]);
    rig.withdraw();
}

#[test]
fn names_that_have_run_out_delay_nobody() {
    let mut rig = Rig::with_told_name();
    rig.later(4 * SECOND);
    let out = rig.revoke_dir(3, NO_NAMES);
    assert_eq!((withdrawal(&out), cap_messages(&out).len()), (None, 1));
}

/// A directory of which all names are known: 100 files.
pub(super) fn rig_with_all_names() -> Rig {
    let mut rig = Rig::with_dir(DIR_CAPS);
    let rank = maps::MdsRank(0);
    let key = InodeKey::head(DIR);
    let mut dir = super::tests::dir_stat(2, DIR_CAPS);
    dir.dir_layout.hash = 2;
    rig.client.cache.learn_inode(rank, &dir);
    rig.client.cache.open_inode(key).add_lookups(1);
    rig.client.cache.open_inode(key).set_names_complete();
    for n in 0..100 {
        let mut stat = super::tests::stat(0x200_0000_0000 + n, 0o100_644);
        stat.cap = msgs::InodeStatCap { caps: DIR_CAPS, cap_id: 100 + n, seq: 1, ..Default::default() };
        let file = rig.client.cache.learn_inode(rank, &stat);
        rig.client.cache.open_inode(file).add_lookups(1);
        let name = format!("f{n}").into_bytes();
        rig.client.cache.learn_name(rig.now, key, &name, Some(file), &msgs::LeaseStat::default());
    }
    rig
}

impl Rig {
    fn list(&mut self) -> Outs {
        let out = self.ask(FsRequest::Opendir { ino: DIR });
        let Ok(Answer::Opened { fh, .. }) = answers(&out)[0] else { panic!("opened") };
        self.ask(FsRequest::Readdir { fh: *fh, offset: 2, max_bytes: 1 << 20, plus: true })
    }
}

#[test]
fn a_directory_of_which_all_is_known_is_listed_without_an_mds_in_its_order() {
    let mut rig = rig_with_all_names();
    let out = rig.list();
    assert_eq!(asked_mds(&out), []);
    let Ok(Answer::Entries(entries)) = answers(&out)[0] else { panic!("entries") };
    assert_eq!(entries.len(), 100);
    let hash = |entry: &crate::api::DirEntry| maps::ceph_str_hash_rjenkins(&entry.name) & 0xff_ffff;
    assert!(entries.is_sorted_by_key(hash), "as the MDS lists them");
    assert!(entries.iter().all(|e| e.entry.is_some_and(|e| e.entry_valid == SECOND)));
    let offsets: Vec<u64> = entries.iter().map(|e| e.next_offset).collect();
    assert_eq!(offsets, (3..103).collect::<Vec<u64>>());
}

#[test]
fn what_callers_were_told_just_now_is_not_told_again() {
    let mut rig = rig_with_all_names();
    rig.later(2 * SECOND);
    let told = |out: &Outs| {
        let Ok(Answer::Entries(entries)) = answers(out)[0] else { panic!("entries") };
        assert_eq!(entries.len(), 100);
        entries.iter().filter(|e| e.entry.is_some()).map(|e| e.name.clone()).collect::<Vec<_>>()
    };
    assert_eq!(told(&rig.list()).len(), 100);
    assert_eq!(told(&rig.list()).len(), 0, "the names lead there still");
    // Attributes of one change.
    rig.client.cache.open_inode(InodeKey::head(0x200_0000_0000 + 7)).withdraw_belief();
    assert_eq!(told(&rig.list()), [b"f7"]);
    rig.later(SECOND / 2);
    assert_eq!(told(&rig.list()).len(), 100, "they run out soon");
}

#[test]
fn a_listing_that_is_not_certain_is_fetched() {
    let mut rig = rig_with_all_names();
    rig.client.cache.open_inode(InodeKey::head(DIR)).lose_cap();
    assert_eq!(asked_mds(&rig.list()), [msgs::MdsOp::READDIR], "others may change it");
    let mut rig = rig_with_all_names();
    rig.client.cache.forget_name(InodeKey::head(DIR), b"f7");
    assert_eq!(asked_mds(&rig.list()), [msgs::MdsOp::READDIR], "a name is missing");
    let mut rig = rig_with_all_names();
    rig.client.cache.open_inode(InodeKey::head(0x200_0000_0000)).lose_cap();
    assert_eq!(asked_mds(&rig.list()), [msgs::MdsOp::READDIR], "a file's attributes are");
}

#[test]
fn a_directory_that_a_name_has_left_is_asked_for() {
    let mut rig = Rig::with_dir(DIR_CAPS);
    let getattr = || FsRequest::Getattr { ino: DIR };
    assert_eq!(answers(&rig.ask(getattr())).len(), 1, "it is known");
    let (tid, _) = requests(&rig.ask(rename_away(0)))[0].clone();
    let reply = ClientReply { op: MdsOp::RENAME, safe: true, ..ClientReply::default() };
    assert_eq!(answers(&rig.mds_says(tid, reply)), [&Ok(Answer::Done)]);
    let (tid, asked) = requests(&rig.ask(getattr()))[0].clone();
    assert_eq!(asked.op, MdsOp::GETATTR);
    let target = Some(Box::new(InodeStat { version: 5, nsubdirs: 3, ..dir_stat(2, DIR_CAPS) }));
    let trace = ReplyTrace { target, dentry: None };
    rig.mds_says(tid, ClientReply { op: MdsOp::GETATTR, safe: true, trace, ..ClientReply::default() });
    assert!(matches!(answers(&rig.ask(getattr()))[..], [Ok(Answer::Attr(attr, _))] if attr.nlink == 5));
}

#[test]
fn a_rename_with_flags_is_asked_only_of_who_announces_it() {
    let mut rig = Rig::with_dir(DIR_CAPS);
    assert_eq!(answers(&rig.ask(rename_away(rename_flag::EXCHANGE))), [&Err(Errno::EINVAL)]);
    let mut open = ClientSession::of(session_op::OPEN, 0);
    open.metadata.insert(session_metadata::RENAME_FLAGS.to_owned(), String::new());
    rig.mds_says(0, open);
    let (_, asked) = requests(&rig.ask(rename_away(rename_flag::EXCHANGE)))[0].clone();
    assert_eq!((asked.op, asked.args.get::<RenameArgs>().flags), (MdsOp::RENAME_FLAGS, 2));
    assert_eq!(answers(&rig.ask(rename_away(4))), [&Err(Errno::EINVAL)], "nor any other flag");
}

fn rename_away(flags: u32) -> FsRequest {
    let name = || b"a".to_vec();
    FsRequest::Rename { parent: DIR, name: name(), new_parent: DIR + 1, new_name: name(), flags }
}
