//! What is stored of a copy is what is here, whatever happens to it.

use super::{LocalCopy, Update};
use crate::pg::info::{Info, Stats};
use crate::pg::log::{Answer, Entry, Missing, PgLog, entry_kind};
use crate::pg::meta::{Loader, MetaChange};
use crate::pg::state::State;
use maps::{EVersion, Epoch, PgId, ReqId, Spg};
use std::collections::BTreeMap;
use stdx::Rng;
use store::{ObjectKey, TxnOp};

const ID: Spg = Spg { pgid: PgId { pool: 1, seed: 0 }, shard: Spg::NO_SHARD };
/// Log entries kept.
const KEEP: usize = 8;

fn v(version: u64) -> EVersion {
    EVersion::new(Epoch(1), version)
}

fn key(n: u32) -> ObjectKey {
    ObjectKey::head(1, n.wrapping_mul(0x9e37_79b9), b"", b"", format!("o{n}").as_bytes())
}

fn entry(version: EVersion, n: u32, kind: u8) -> Entry {
    let reqid = ReqId { tid: version.version, ..ReqId::default() };
    let answer = Answer { user_version: version.version, ..Answer::default() };
    Entry { version, object: key(n), kind, reqid, answer, ..Entry::default() }
}

/// A copy of a PG, and the records of it on a disk.
struct Copy {
    here: LocalCopy,
    stored: BTreeMap<Vec<u8>, Vec<u8>>,
}

impl Copy {
    fn new(pg_num: u32) -> Self {
        let here = LocalCopy::new(ID, pg_num, Info::default(), PgLog::default(), Missing::new());
        let mut copy = Self { here, stored: BTreeMap::new() };
        copy.does(|here, change| here.save_all(change));
        copy
    }

    /// Does something, stores it, and compares what is stored with what is here.
    fn does<R>(&mut self, step: impl FnOnce(&mut LocalCopy, &mut MetaChange) -> R) -> R {
        let (mut change, mut ops) = (MetaChange::default(), Vec::new());
        let out = step(&mut self.here, &mut change);
        self.here.store(change, &mut ops);
        for op in ops {
            match op {
                TxnOp::OmapSet(_, set) => self.stored.extend(set),
                TxnOp::OmapRemove(_, keys) => keys.iter().for_each(|key| drop(self.stored.remove(key))),
                TxnOp::OmapRemoveRange(_, from, to) => self.stored.retain(|key, _| *key < from || *key >= to),
                other => panic!("no record: {other:?}"),
            }
        }
        self.here.check();
        let mut loader = Loader::default();
        self.stored.iter().for_each(|(key, value)| loader.take(key, value).expect("own encoding"));
        let found = loader.finish();
        assert_eq!((&found.info, &found.missing), (self.here.info(), self.here.missing()));
        let content = |log: &PgLog| {
            (
                log.tail(),
                log.head(),
                log.entries().collect::<Vec<_>>(),
                log.dups().cloned().collect::<Vec<_>>(),
            )
        };
        assert_eq!(content(&found.log), content(self.here.log()));
        out
    }

    /// The next update, of an object that has `bytes` bytes more by it.
    fn update(&self, n: u32, kind: u8, bytes: i64) -> Update {
        let version = self.here.next_version(Epoch(1));
        let before = self.here.info().stats;
        let stats = Stats { objects: before.objects + 1, bytes: before.bytes + bytes, ..before };
        Update { entry: entry(version, n, kind), stats, last_user_version: version.version }
    }

    fn append(&mut self, n: u32) {
        let update = self.update(n, entry_kind::MODIFY, 10);
        self.does(|here, change| here.append(update, v(0), State::ReplicaActive, change));
    }

    fn append_refused(&mut self, n: u32) {
        let update = self.update(n, entry_kind::MODIFY, 10);
        self.does(|here, change| here.append_refused(update, v(0), change));
    }

    fn is_short(&self) -> (EVersion, bool) {
        (self.here.info().short_of, self.here.info().forgettable)
    }
}

#[test]
fn updates_without_room_are_forgotten_if_nothing_behind_them_is_here() {
    let mut copy = Copy::new(1);
    copy.append(1);
    let before = copy.here.info().clone();
    copy.append_refused(2);
    copy.append_refused(2);
    assert_eq!((copy.is_short(), copy.here.info().stats), ((v(2), true), before.stats));
    assert_eq!((copy.here.lacks(&key(2)), copy.here.refused_since(&key(2))), (true, Some(v(2))));
    assert_eq!(copy.does(|here, change| here.forget_refused(change)), Some((v(2), v(3))));
    assert_eq!(*copy.here.info(), Info { last_user_version: 3, ..before });
    assert!(copy.here.missing().is_empty());

    copy.append_refused(2);
    copy.append(1);
    assert_eq!(copy.is_short(), (v(2), false));
    assert_eq!(copy.does(|here, change| here.forget_refused(change)), None);
    assert!(copy.does(|here, change| here.arrived(&key(2), State::ReplicaActive, change)));
    assert!(!copy.does(|here, change| here.arrived(&key(2), State::ReplicaActive, change)));
    assert_eq!(copy.is_short(), (EVersion::default(), false));
}

#[test]
fn objects_that_nobody_has_go_back_to_what_is_here() {
    let mut copy = Copy::new(1);
    copy.append(1);
    copy.append(2);
    let objects = copy.here.info().stats.objects;
    for n in 1..=2 {
        copy.does(|here, change| here.found_damaged(&key(n), v(n.into()), change));
    }
    let entries = [(1, entry_kind::MODIFY), (2, entry_kind::DELETE)].map(|(n, kind)| {
        let version = v(u64::from(n) + 2);
        Entry { prior: v(n.into()), ..entry(version, n, kind) }
    });
    copy.does(|here, change| here.revert(entries.into(), State::Active, change));
    let Info { last_update, missing, stats, .. } = copy.here.info();
    assert_eq!((*last_update, *missing, stats.objects), (v(4), 0, objects - 1));
}

#[test]
fn the_parts_of_a_split_become_one_again() {
    let mut copy = Copy::new(1);
    (0..20).for_each(|n| copy.append(n));
    copy.does(|here, change| (0..6).for_each(|n| here.found_damaged(&key(n), v(n.into()), change)));
    let (whole, range) = (copy.here.info().stats, copy.here.range().clone());
    let missing = copy.here.missing().clone();
    copy.here.begin_resize(1);
    let child = ID.of(PgId { seed: 1, ..ID.pgid });
    let parts = copy.does(|here, change| here.split(2, &[(child, 1)], change));
    let [part] = &parts[..] else { panic!("one child: {parts:?}") };
    part.check();
    assert_eq!((part.info().pgid, copy.here.pg_num_before(), part.pg_num_before()), (child, None, None));
    let ranges = (copy.here.range().clone(), part.range().clone());
    assert_eq!((ranges.0.0, ranges.0.1, ranges.1.1), (range.0.clone(), ranges.1.0, range.1.clone()));
    let of_both = copy.here.missing().iter().chain(part.missing());
    assert_eq!(of_both.map(|(key, need)| (key.clone(), *need)).collect::<Missing>(), missing);

    let keep = KEEP * 4;
    copy.does(|here, change| {
        here.merge(parts, 1, Some(v(100)), None, keep);
        here.save_all(change);
    });
    let info = copy.here.info();
    assert_eq!((info.stats.objects, info.stats.bytes), (whole.objects, whole.bytes));
    assert_eq!((info.last_update, info.incomplete, copy.here.range()), (v(100), false, &range));
    assert_eq!((copy.here.log().len(), copy.here.log().dups().count()), (0, 20));
}

#[test]
fn whatever_happens_to_a_copy_is_stored() {
    let mut rng = Rng::from_seed(11);
    let mut copy = Copy::new(1);
    for step in 0..3000 {
        let n = rng.below(12) as u32;
        match rng.below(12) {
            0..3 => copy.append(n),
            3..5 => copy.append_refused(n),
            5 => {
                let update = copy.update(n, entry_kind::DELETE, -10);
                copy.does(|here, change| here.append(update, v(0), State::ReplicaActive, change));
            }
            6 => drop(copy.does(|here, change| here.arrived(&key(n), State::ReplicaActive, change))),
            7 => drop(copy.does(|here, change| here.forget_refused(change))),
            8 => copy.does(|here, change| here.trim(here.info().last_update, KEEP, change)),
            9 => copy.does(|here, change| here.found_damaged(&key(n), here.info().last_update, change)),
            10 => diverge(&mut copy, n),
            _ if step % 40 == 0 => {
                copy.does(|here, change| here.give_up(change));
                assert!(copy.here.info().incomplete);
                let log = PgLog::new(v(step), vec![entry(v(step + 1), n, entry_kind::MODIFY)], Vec::new());
                let missing = Missing::from([(key(n), v(step + 1))]);
                copy.does(|here, change| {
                    here.replace_log(log, missing, change);
                    here.adopt(&Info::default(), change);
                });
                copy.does(|here, change| here.completed(change));
            }
            _ => copy.does(|here, change| here.activate(Some(Epoch(1)), v(0), change)),
        }
    }
}

/// An authority has other updates than our last ones.
fn diverge(copy: &mut Copy, n: u32) {
    let Info { log_tail, last_update, .. } = *copy.here.info();
    let common = copy.here.log().before(last_update);
    if last_update == log_tail {
        return;
    }
    let version = EVersion::new(Epoch(1), common.version + 1);
    let theirs = vec![entry(version, n, entry_kind::MODIFY)];
    copy.does(|here, change| {
        here.merge_log(common, theirs, version, change, &mut Vec::new());
        here.follow(&Info::default(), v(0), change);
    });
    assert_eq!((copy.here.info().last_update, copy.here.lacks(&key(n))), (version, true));
}
