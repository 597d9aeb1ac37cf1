//! Comparison of copies of the same objects: finds the damaged ones and the right one.
//!
//! A copy whose own checksums fail is never right. Of the readable ones the newest version wins, and among
//! its copies the content that most have. Without such a majority none is right, and a person has to decide.

use crate::object::{INFO_ATTR, ObjectInfo, head_of};
use crate::pg::scrub::map::Scanned;
use maps::{EVersion, OsdId, SnapId};
use msgs::op::scrub::{object_error, shard_error, snapset_error};
use std::collections::{BTreeMap, BTreeSet};
use store::ObjectKey;

/// Content of each copy.
pub type Maps = BTreeMap<OsdId, Vec<Scanned>>;

/// One copy of an object.
#[derive(Clone, Debug, Default)]
pub struct Shard {
    /// Bits of [`shard_error`].
    pub errors: u64,
    /// Its object; `None` if it has none.
    pub object: Option<Scanned>,
}

/// An object whose copies differ, or are damaged.
#[derive(Clone, Debug)]
pub struct Finding {
    /// The object concerned.
    pub key: ObjectKey,
    /// Bits of [`object_error`].
    pub errors: u64,
    /// Copies by OSD.
    pub shards: BTreeMap<OsdId, Shard>,
    /// Copies that are right; none where nobody knows.
    pub good: BTreeSet<OsdId>,
    /// Version of the good copies.
    pub version: EVersion,
}

/// A set of clones that is not as its head says.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SnapFinding {
    /// Head of the object.
    pub head: ObjectKey,
    /// Bits of [`snapset_error`].
    pub errors: u64,
    /// Clones that the set does not know.
    pub extra: Vec<SnapId>,
    /// Clones that are not there.
    pub missing: Vec<SnapId>,
}

impl Finding {
    /// Copies to be replaced.
    pub fn bad(&self) -> Vec<OsdId> {
        self.shards.keys().filter(|osd| !self.good.contains(osd)).copied().collect()
    }

    /// True if there is a right copy.
    pub fn can_be_mended(&self) -> bool {
        !self.good.is_empty()
    }

    /// Errors as they are counted: those that a light scrub sees, and the others.
    pub fn count(&self) -> (u32, u32) {
        let all_deep = self.errors & object_error::DEEP != 0;
        let damaged = self
            .shards
            .iter()
            .filter(|(osd, s)| s.errors != 0 || !self.good.is_empty() && !self.good.contains(osd));
        let deep = |s: &Shard| s.errors & shard_error::DEEP != 0 || s.errors == 0 && all_deep;
        let (deep, light): (Vec<_>, Vec<_>) = damaged.partition(|(_, s)| deep(s));
        match (light.len(), deep.len()) {
            (0, 0) if all_deep => (0, 1),
            (0, 0) => (1, 0),
            (light, deep) => (light as u32, deep as u32),
        }
    }
}

/// The fields in which equal copies agree.
type Content<'a> = (u64, &'a [(Vec<u8>, Vec<u8>)], Option<u32>, Option<u32>);

fn content(object: &Scanned) -> Content<'_> {
    match stdx::mutants::is_active("osd_scrub_ignores_digests") {
        true => (object.size, &object.attrs, None, None),
        false => (object.size, &object.attrs, object.data_digest, object.omap_digest),
    }
}

/// Compares all copies. `lacks` says of which object it is known that a copy has not got it yet.
pub fn compare(
    maps: &Maps,
    primary: OsdId,
    lacks: &dyn Fn(OsdId, &ObjectKey) -> bool,
) -> (Vec<Finding>, Vec<SnapFinding>) {
    let mut by_key: BTreeMap<&ObjectKey, BTreeMap<OsdId, &Scanned>> = BTreeMap::new();
    for (osd, map) in maps {
        for object in map {
            by_key.entry(&object.key).or_default().insert(*osd, object);
        }
    }
    let mut findings = Vec::new();
    let mut believed: BTreeMap<&ObjectKey, &Scanned> = BTreeMap::new();
    for (key, copies) in &by_key {
        let expected = maps.keys().filter(|osd| !lacks(**osd, key));
        let shards: BTreeMap<OsdId, Option<&Scanned>> =
            expected.map(|osd| (*osd, copies.get(osd).copied())).collect();
        let (finding, right) = compare_one(key, &shards, primary);
        findings.extend(finding);
        believed.extend(right.map(|right| (*key, right)));
    }
    let snaps = compare_snapsets(&by_key.keys().copied().collect(), &believed);
    (findings, snaps)
}

/// Compares the copies of one object; gives one that is believed too.
fn compare_one<'a>(
    key: &ObjectKey,
    shards: &BTreeMap<OsdId, Option<&'a Scanned>>,
    primary: OsdId,
) -> (Option<Finding>, Option<&'a Scanned>) {
    let error_of = |object: &Option<&Scanned>| match object {
        None => shard_error::MISSING,
        Some(o) if o.errors & shard_error::STAT != 0 => o.errors,
        Some(o) if !o.attrs.iter().any(|(name, _)| name == INFO_ATTR) => o.errors | shard_error::INFO_MISSING,
        Some(o) if o.info().is_none() => o.errors | shard_error::INFO_CORRUPTED,
        Some(o) => o.errors,
    };
    let mut errors: BTreeMap<OsdId, u64> = shards.iter().map(|(osd, o)| (*osd, error_of(o))).collect();
    let sound: BTreeMap<OsdId, &Scanned> = shards
        .iter()
        .filter(|(osd, _)| errors[osd] == 0)
        .filter_map(|(osd, o)| Some((*osd, (*o)?)))
        .collect();
    let version = |o: &Scanned| o.info().map(|i| i.version).unwrap_or_default();
    let newest = sound.values().map(|o| version(o)).max().unwrap_or_default();
    let mut groups: Vec<(Content<'_>, BTreeSet<OsdId>)> = Vec::new();
    for (osd, object) in sound.iter().filter(|(_, o)| version(o) == newest) {
        let found = content(object);
        match groups.iter_mut().find(|(content, _)| *content == found) {
            Some((_, who)) => drop(who.insert(*osd)),
            None => groups.push((found, BTreeSet::from([*osd]))),
        }
    }
    groups.sort_by_key(|(_, who)| std::cmp::Reverse(who.len()));
    let majority = match &groups[..] {
        [] => BTreeSet::new(),
        [(_, first), (_, second), ..] if first.len() == second.len() => BTreeSet::new(),
        [(_, first), ..] => first.clone(),
    };
    let blind = stdx::mutants::is_active("osd_repair_takes_primary_blindly") && shards.contains_key(&primary);
    let good = if blind { BTreeSet::from([primary]) } else { majority };
    let believed = good.iter().next().and_then(|osd| shards[osd]);
    let model = believed.or_else(|| sound.values().next().copied());
    let mut differs = 0;
    if let Some(model) = model {
        for (osd, object) in &sound {
            let (all, own) = difference(object, model);
            differs |= all;
            // Without one that is right nobody is to blame.
            if let (Some(errors), Some(_)) = (errors.get_mut(osd), believed) {
                *errors |= own;
            }
        }
    }
    if differs == 0 && errors.values().all(|e| *e == 0) {
        return (None, model);
    }
    let shard = |(osd, object): (&OsdId, &Option<&Scanned>)| {
        (*osd, Shard { errors: errors[osd], object: object.cloned() })
    };
    let version = believed.map(version).unwrap_or_default();
    let shards = shards.iter().map(shard).collect();
    (Some(Finding { key: key.clone(), errors: differs, shards, good, version }), model)
}

/// Differences of a copy from the trusted one, as bits of [`object_error`] and of [`shard_error`].
fn difference(object: &Scanned, model: &Scanned) -> (u64, u64) {
    let info =
        |o: &Scanned| o.attrs.iter().find(|(name, _)| name == INFO_ATTR).map(|(_, value)| value.clone());
    let users = |o: &Scanned| -> BTreeMap<Vec<u8>, Vec<u8>> {
        o.attrs.iter().filter(|(name, _)| name != INFO_ATTR).cloned().collect()
    };
    let (mut all, mut own) = (0, 0);
    let mut note = |differs: bool, object: u64, shard: u64| {
        if differs {
            all |= object;
            own |= shard;
        }
    };
    let (mine, theirs) = (content(object), content(model));
    note(info(object) != info(model), object_error::INFO, 0);
    note(mine.0 != theirs.0, object_error::SIZE, shard_error::SIZE);
    note(mine.2 != theirs.2, object_error::DATA_DIGEST, shard_error::DATA_DIGEST);
    note(mine.3 != theirs.3, object_error::OMAP_DIGEST, shard_error::OMAP_DIGEST);
    let (mine, theirs) = (users(object), users(model));
    note(!mine.keys().eq(theirs.keys()), object_error::ATTR_NAME, 0);
    let common = mine.iter().filter(|(name, _)| theirs.contains_key(*name));
    note(common.into_iter().any(|(name, value)| theirs[name] != *value), object_error::ATTR_VALUE, 0);
    (all, own)
}

fn compare_snapsets(
    keys: &BTreeSet<&ObjectKey>,
    believed: &BTreeMap<&ObjectKey, &Scanned>,
) -> Vec<SnapFinding> {
    let mut heads: BTreeMap<ObjectKey, Vec<&ObjectKey>> = BTreeMap::new();
    for key in keys {
        let clones = heads.entry(head_of(key)).or_default();
        if key.snap != ObjectKey::HEAD {
            clones.push(key);
        }
    }
    let mut out = Vec::new();
    for (head, clones) in heads {
        let mut found = SnapFinding { head: head.clone(), errors: 0, extra: Vec::new(), missing: Vec::new() };
        let info: Option<ObjectInfo> = believed.get(&head).and_then(|o| o.info());
        match info {
            None if keys.contains(&head) => continue,
            None => found.errors |= snapset_error::HEADLESS,
            Some(info) => {
                let known: BTreeSet<u64> = info.snapset.clones.iter().map(|c| c.id.0).collect();
                let there: BTreeSet<u64> = clones.iter().map(|key| key.snap).collect();
                found.extra = there.difference(&known).map(|id| SnapId(*id)).collect();
                found.missing = known.difference(&there).map(|id| SnapId(*id)).collect();
                let sized = |key: &&&ObjectKey| {
                    let entry = info.snapset.clones.iter().find(|c| c.id.0 == key.snap);
                    let size = believed.get(*key).map(|o| o.size);
                    entry.is_some_and(|entry| size.is_some_and(|size| size != entry.size))
                };
                if !found.extra.is_empty() {
                    found.errors |= snapset_error::EXTRA_CLONES;
                }
                if !found.missing.is_empty() {
                    found.errors |= snapset_error::CLONE_MISSING;
                }
                if clones.iter().any(|key| sized(&key)) {
                    found.errors |= snapset_error::SIZE;
                }
            }
        }
        if found.errors != 0 {
            out.push(found);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::object::at_snap;
    use crate::snapset::CloneEntry;
    use maps::Epoch;

    fn head() -> ObjectKey {
        ObjectKey::head(1, 5, b"", b"", b"o")
    }

    fn copy(version: u64, digest: u32) -> Scanned {
        let info = ObjectInfo { version: EVersion::new(Epoch(3), version), ..ObjectInfo::default() };
        Scanned {
            key: head(),
            size: 7,
            attrs: vec![(INFO_ATTR.to_vec(), info.to_bytes()), (b"_a".to_vec(), b"1".to_vec())],
            data_digest: Some(digest),
            omap_digest: Some(0),
            ..Scanned::default()
        }
    }

    fn of(copies: &[Option<Scanned>]) -> Option<Finding> {
        let maps: Maps =
            copies.iter().enumerate().map(|(i, c)| (OsdId(i as i32), c.iter().cloned().collect())).collect();
        let (mut found, snaps) = compare(&maps, OsdId(0), &|_, _| false);
        assert!(found.len() <= 1 && snaps.is_empty());
        found.pop()
    }

    fn ids(ids: &[i32]) -> BTreeSet<OsdId> {
        ids.iter().map(|id| OsdId(*id)).collect()
    }

    #[test]
    fn equal_copies_are_no_finding() {
        assert!(of(&[Some(copy(1, 5)), Some(copy(1, 5)), Some(copy(1, 5))]).is_none());
    }

    #[test]
    fn most_copies_of_the_newest_version_are_right() {
        let found = of(&[Some(copy(1, 6)), Some(copy(1, 5)), Some(copy(1, 5))]).expect("differs");
        assert_eq!((found.good.clone(), found.errors), (ids(&[1, 2]), object_error::DATA_DIGEST));
        assert_eq!(found.shards[&OsdId(0)].errors, shard_error::DATA_DIGEST);
        assert_eq!(found.count(), (0, 1));
        let found = of(&[Some(copy(1, 5)), Some(copy(1, 5)), Some(copy(2, 9))]).expect("differs");
        assert_eq!(found.good, ids(&[2]), "two have missed an update");
        assert_eq!(found.version, EVersion::new(Epoch(3), 2));
    }

    #[test]
    fn a_damaged_copy_is_never_right_and_without_majority_nobody_is() {
        let broken = || Some(Scanned { errors: shard_error::READ, data_digest: None, ..copy(1, 5) });
        let found = of(&[broken(), broken(), Some(copy(1, 5))]).expect("damaged");
        assert_eq!((found.good.clone(), found.bad()), (ids(&[2]), vec![OsdId(0), OsdId(1)]));
        let found = of(&[Some(copy(1, 6)), Some(copy(1, 5))]).expect("differs");
        assert!(!found.can_be_mended() && found.count() == (0, 1));
        assert!(found.shards.values().all(|s| s.errors == 0), "nobody is to blame");
        let found = of(&[Some(copy(1, 6)), Some(copy(1, 5)), None]).expect("differs");
        assert!(!found.can_be_mended());
        assert!(!of(&[broken(), None, broken()]).expect("damaged").can_be_mended());
    }

    #[test]
    fn absent_and_undescribed_copies_are_shown_as_what_they_are() {
        let nothing = Scanned { attrs: Vec::new(), ..copy(1, 5) };
        let garbled = Scanned { attrs: vec![(INFO_ATTR.to_vec(), vec![9])], ..copy(1, 5) };
        let found = of(&[Some(copy(1, 5)), None, Some(nothing), Some(garbled)]).expect("damaged");
        let errors: Vec<u64> = found.shards.values().map(|s| s.errors).collect();
        assert_eq!(errors, [0, shard_error::MISSING, shard_error::INFO_MISSING, shard_error::INFO_CORRUPTED]);
        assert_eq!((found.good.clone(), found.count()), (ids(&[0]), (3, 0)));
    }

    #[test]
    fn clones_are_compared_with_what_their_head_says() {
        let mut info = ObjectInfo::default();
        let entry = |id: u64| CloneEntry { id: SnapId(id), size: 7, ..CloneEntry::default() };
        info.snapset.clones = vec![entry(3), entry(5), entry(6)];
        let with = |key: ObjectKey, size| Scanned {
            key,
            size,
            attrs: vec![(INFO_ATTR.to_vec(), info.to_bytes())],
            ..Scanned::default()
        };
        let at = |snap| at_snap(&head(), snap);
        let map = vec![with(at(4), 7), with(at(5), 7), with(at(6), 8), with(head(), 1)];
        let maps = Maps::from([(OsdId(0), map.clone()), (OsdId(1), map)]);
        let (found, snaps) = compare(&maps, OsdId(0), &|_, _| false);
        assert!(found.is_empty());
        let [set] = &snaps[..] else { panic!("one: {snaps:?}") };
        assert_eq!((&set.extra[..], &set.missing[..]), (&[SnapId(4)][..], &[SnapId(3)][..]));
        let all = snapset_error::EXTRA_CLONES | snapset_error::CLONE_MISSING | snapset_error::SIZE;
        assert_eq!(set.errors, all);
        let maps = Maps::from([(OsdId(0), vec![with(at(4), 7)])]);
        assert_eq!(compare(&maps, OsdId(0), &|_, _| false).1[0].errors, snapset_error::HEADLESS);
    }
}
