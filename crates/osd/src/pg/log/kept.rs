//! The in-memory form of a log. Each OSD keeps some ten thousand entries and as many dups, so they are
//! compact: rare fields take no memory, queues have little slack, and requests are found by a hash.

use super::entry::{Answer, CloneChange, Entry};
use maps::{EVersion, ReqId};
use std::collections::{BTreeSet, VecDeque};
use std::hash::{Hash, Hasher};
use stdx::FoldHasher;
use store::ObjectKey;
use wire::Utime;

/// An entry in memory.
#[derive(Clone, Debug)]
pub(super) struct Kept {
    pub version: EVersion,
    pub reqid: ReqId,
    pub hash: u32,
    kind: u8,
    /// Undone by a later entry: whoever asked for it is to ask again.
    pub undone: bool,
    result: i32,
    prior: EVersion,
    user_version: u64,
    mtime: Utime,
    pool: i64,
    name: Box<[u8]>,
    /// `None`: the object is a plain head, its request had no output, and no clones came or went.
    rest: Option<Box<Rest>>,
}

#[derive(Clone, PartialEq, Debug)]
struct Rest {
    shard: i8,
    namespace: Vec<u8>,
    locator: Vec<u8>,
    snap: u64,
    generation: u64,
    ops: Vec<(i32, Vec<u8>)>,
    clones: Vec<CloneChange>,
    undoes: EVersion,
}

impl Default for Rest {
    fn default() -> Self {
        let ObjectKey { shard, namespace, locator, snap, generation, .. } =
            ObjectKey::head(0, 0, b"", b"", b"");
        let (ops, clones, undoes) = (Vec::new(), Vec::new(), EVersion::default());
        Self { shard, namespace, locator, snap, generation, ops, clones, undoes }
    }
}

impl From<Entry> for Kept {
    fn from(entry: Entry) -> Self {
        let Entry { version, prior, kind, object, reqid, answer, mtime, clones, undoes } = entry;
        let ObjectKey { pool, shard, hash, namespace, locator, name, snap, generation } = object;
        let Answer { result, ops, user_version } = answer;
        let rest = Rest { shard, namespace, locator, snap, generation, ops, clones, undoes };
        let rest = (rest != Rest::default()).then(|| Box::new(rest));
        let name = name.into_boxed_slice();
        let undone = false;
        Self { version, reqid, hash, kind, undone, result, prior, user_version, mtime, pool, name, rest }
    }
}

impl Kept {
    /// The entry as it is sent and stored.
    pub(super) fn entry(&self) -> Entry {
        let rest = self.rest.as_deref().cloned().unwrap_or_default();
        let Rest { shard, namespace, locator, snap, generation, ops, clones, undoes } = rest;
        let (pool, hash, name) = (self.pool, self.hash, self.name.to_vec());
        Entry {
            version: self.version,
            prior: self.prior,
            kind: self.kind,
            object: ObjectKey { pool, shard, hash, namespace, locator, name, snap, generation },
            reqid: self.reqid,
            answer: Answer { result: self.result, ops, user_version: self.user_version },
            mtime: self.mtime,
            clones,
            undoes,
        }
    }

    /// The answer that the request got.
    pub(super) fn answer(&self) -> Answer {
        let ops = self.rest.as_ref().map(|rest| rest.ops.clone()).unwrap_or_default();
        Answer { result: self.result, ops, user_version: self.user_version }
    }

    /// True if the entry concerns this object. Most others have another hash.
    pub(super) fn is_of(&self, object: &ObjectKey) -> bool {
        self.hash == object.hash && *self.name == *object.name && self.entry().object == *object
    }

    /// True if a client made the request, and must get the same answer if it repeats it.
    pub(super) fn is_asked_for(&self) -> bool {
        self.reqid != ReqId::default() && !self.undone
    }

    /// The first entry that it undoes; 0 for none.
    pub(super) fn undoes(&self) -> EVersion {
        self.rest.as_ref().map(|rest| rest.undoes).unwrap_or_default()
    }
}

/// Appends, with little room to spare: what a queue has room for it has all in use in the course of time, and
/// each PG has two.
pub(super) fn push<T>(queue: &mut VecDeque<T>, item: T) {
    if queue.len() == queue.capacity() {
        queue.reserve_exact(queue.len() / 8 + 8);
    }
    queue.push_back(item);
}

/// Versions of requests, by a hash of theirs. Others may have the same: whoever finds one must look whose it
/// is.
#[derive(Clone, Debug, Default)]
pub(super) struct Requests(BTreeSet<(u64, EVersion)>);

impl Requests {
    pub(super) fn insert(&mut self, reqid: &ReqId, version: EVersion) {
        self.0.insert((hash_of(reqid), version));
    }

    pub(super) fn remove(&mut self, reqid: &ReqId, version: EVersion) {
        self.0.remove(&(hash_of(reqid), version));
    }

    /// Those that may be this request's, the newest first.
    pub(super) fn find(&self, reqid: &ReqId) -> impl Iterator<Item = EVersion> {
        let hash = hash_of(reqid);
        let last = EVersion { version: u64::MAX, epoch: maps::Epoch(u32::MAX) };
        self.0.range((hash, EVersion::default())..=(hash, last)).rev().map(|(_, version)| *version)
    }
}

fn hash_of(reqid: &ReqId) -> u64 {
    let mut hasher = FoldHasher::default();
    (reqid.name, reqid.tid, reqid.inc).hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use maps::SnapId;

    #[test]
    fn what_is_kept_is_what_was_given() {
        let plain = Entry {
            version: EVersion::new(maps::Epoch(3), 7),
            kind: 1,
            object: ObjectKey::head(4, 77, b"", b"", b"an object"),
            reqid: ReqId { tid: 5, ..ReqId::default() },
            answer: Answer { result: -2, user_version: 6, ..Answer::default() },
            ..Entry::default()
        };
        let odd = Entry {
            object: ObjectKey { snap: 3, ..ObjectKey::head(4, 77, b"ns", b"key", b"an object") },
            answer: Answer { ops: vec![(0, b"x".to_vec())], ..plain.answer.clone() },
            clones: vec![CloneChange { id: SnapId(3), prior: plain.version }],
            ..plain.clone()
        };
        for (entry, is_plain) in [(plain.clone(), true), (odd.clone(), false)] {
            let kept = Kept::from(entry.clone());
            assert_eq!(
                (kept.rest.is_none(), kept.entry(), kept.answer()),
                (is_plain, entry.clone(), entry.answer)
            );
            assert_eq!((kept.is_of(&plain.object), kept.is_of(&odd.object)), (is_plain, !is_plain));
        }
        assert!(size_of::<Kept>() <= 128, "{}", size_of::<Kept>());
    }

    #[test]
    fn all_versions_of_a_request_are_found_the_newest_first() {
        let mut requests = Requests::default();
        let (a, b) = (ReqId { tid: 1, ..ReqId::default() }, ReqId { tid: 2, ..ReqId::default() });
        let v = |version| EVersion::new(maps::Epoch(1), version);
        [(&a, 1), (&b, 2), (&a, 3)].iter().for_each(|(reqid, version)| requests.insert(reqid, v(*version)));
        assert_eq!(requests.find(&a).collect::<Vec<_>>(), [v(3), v(1)]);
        requests.remove(&a, v(3));
        assert_eq!(requests.find(&a).collect::<Vec<_>>(), [v(1)]);
    }
}
