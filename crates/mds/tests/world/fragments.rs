//! Directories with fragments: their names, the fragments that a client is told, and what is stored.

use super::TINY;
use super::World;
use super::client::{create, getattr, request, two};
use fsfmt::{DentryKey, DirFrag, Frag, Ino};
use mds::MdsOptions;
use msgs::MdsOp;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

pub const A: u64 = 10;

/// Fragments of a few names, a cache that holds fewer, and a journal that is written back soon.
pub const SMALL: MdsOptions = MdsOptions {
    split_size: 16,
    merge_size: 8,
    journal_bytes: 64 << 10,
    journal_delay: Duration::ZERO,
    ..TINY
};

pub fn world(seed: u64, options: MdsOptions) -> World {
    let mut w = World::new(seed, options);
    w.connect(A);
    w
}

pub fn name(i: usize) -> String {
    format!("file-{i}")
}

/// Makes files, and returns all names.
pub fn fill(w: &mut World, dir: &str, count: usize) -> BTreeSet<String> {
    for i in 0..count {
        assert_eq!(w.call(A, create(&format!("{dir}/{}", name(i)), 2)).result, 0);
        if i % 10 == 0 {
            w.give_everything_back(A);
        }
    }
    (0..count).map(name).collect()
}

/// A change of the names in `d`.
pub enum Change {
    Make,
    Remove(String),
    Rename(String),
}

impl Change {
    /// Makes the change in `names`; file `i` is new, or what one is renamed to. Returns the request.
    pub fn request(self, names: &mut BTreeSet<String>, i: usize) -> msgs::ClientRequest {
        let path = |name: &str| format!("d/{name}");
        match self {
            Self::Make => {
                names.insert(name(i));
                create(&path(&name(i)), 2)
            }
            Self::Remove(gone) => {
                names.remove(&gone);
                request(MdsOp::UNLINK, &path(&gone))
            }
            Self::Rename(from) => {
                names.remove(&from);
                names.insert(name(i));
                two(MdsOp::RENAME, &path(&name(i)), &path(&from))
            }
        }
    }
}

/// Any of the names.
pub fn any(w: &mut World, names: &BTreeSet<String>) -> Option<String> {
    let at = w.rng.below(names.len().max(1) as u64) as usize;
    names.iter().nth(at).cloned()
}

/// Carries out a request and some of what follows; in one case of `crashes` the server dies then.
pub fn call_on(w: &mut World, which: &str, request: msgs::ClientRequest, crashes: u64) {
    assert_eq!(w.call_early(A, request).result, 0, "{which}");
    if w.rng.chance(1, 3) {
        w.give_everything_back(A);
    }
    for _ in 0..w.rng.below(30) {
        w.io_step();
    }
    if w.rng.chance(1, crashes) {
        w.crash(&[A]);
    }
}

pub fn unlink(w: &mut World, dir: &str, range: std::ops::Range<usize>) {
    for i in range {
        let path = format!("{dir}/{}", name(i));
        assert_eq!(w.call(A, request(MdsOp::UNLINK, path.trim_start_matches('/'))).result, 0, "{path}");
        if i % 10 == 0 {
            w.give_everything_back(A);
        }
    }
}

/// Everything that is journaled is written back.
pub fn flush(w: &mut World) {
    w.quiet();
    w.rank.flush_journal();
    for _ in 0..50 {
        w.effects();
        w.quiet();
        w.advance(Duration::from_secs(1));
    }
    assert!(w.rank.is_flushed());
}

/// The fragments of a directory as a client is told, in order.
pub fn leaves(w: &mut World, path: &str) -> (Ino, Vec<Frag>) {
    let stat = w.call(A, getattr(path, 0)).trace.target.expect("a target");
    let splits: BTreeMap<u32, u32> = stat.fragtree.iter().map(|split| (split.frag, split.bits)).collect();
    let (mut out, mut left) = (Vec::new(), vec![Frag::WHOLE]);
    while let Some(frag) = left.pop() {
        match splits.get(&frag.raw()) {
            Some(bits) => left.extend(frag.parts(*bits)),
            None => out.push(frag),
        }
    }
    out.sort_by_key(|frag| frag.value());
    (Ino(stat.ino), out)
}

/// Asserts that a directory's objects are those of its fragments, and that each has the names of its hashes.
pub fn assert_stored(w: &mut World, path: &str, names: &BTreeSet<String>) -> usize {
    flush(w);
    let (ino, leaves) = leaves(w, path);
    let prefix = format!("{:x}.", ino.0);
    let objects: BTreeMap<String, BTreeSet<String>> = w
        .objects
        .iter()
        .filter(|(id, _)| {
            id.pool == w.cfg.metadata_pool && id.name.starts_with(&prefix) && !id.name.ends_with(".inode")
        })
        .map(|(id, object)| {
            let keys = object.omap.keys().filter_map(|key| DentryKey::from_omap(key));
            (id.name.clone(), keys.map(|key| String::from_utf8_lossy(&key.name).into_owned()).collect())
        })
        .collect();
    let mut expected: BTreeMap<String, BTreeSet<String>> = leaves
        .iter()
        .map(|frag| (fsfmt::names::dir_object(DirFrag { ino, frag: *frag }), BTreeSet::new()))
        .collect();
    for name in names {
        let hash = DentryKey::new(name.as_bytes()).hash;
        let frag = leaves.iter().find(|frag| frag.contains(hash)).expect("leaves cover all hashes");
        let object = fsfmt::names::dir_object(DirFrag { ino, frag: *frag });
        expected.entry(object).or_default().insert(name.clone());
    }
    assert_eq!(objects, expected);
    leaves.len()
}

/// Attempts that were given up.
pub fn given_up(w: &World) -> usize {
    w.log
        .iter()
        .filter(|line| line.starts_with("split_given_up") || line.starts_with("join_given_up"))
        .count()
}

/// Seconds pass one by one.
pub fn pass(w: &mut World, seconds: u64) {
    for _ in 0..seconds {
        w.advance(Duration::from_secs(1));
        w.quiet();
    }
}
