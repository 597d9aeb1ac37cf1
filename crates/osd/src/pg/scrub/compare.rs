//! What copies of the same objects tell when they are laid side by side: which are damaged, and which are
//! right. How the copies of one object are compared the backend says ([`Backend::verify`]). Whether the
//! clones are those that their heads know is the same for all.

use crate::object::{ObjectInfo, head_of};
use crate::pg::backend::Backend;
use crate::pg::member::Member;
use crate::pg::scrub::finding::{Finding, Scanned, Shards, SnapFinding};
use maps::SnapId;
use msgs::op::scrub::snapset_error;
use std::collections::{BTreeMap, BTreeSet};
use store::ObjectKey;

/// Content of each copy.
pub type Maps = BTreeMap<Member, Vec<Scanned>>;

/// Compares all copies, as the primary `us`. `lacks` says of which object it is known that a copy has not got
/// it yet.
pub fn compare(
    backend: &dyn Backend,
    maps: &Maps,
    us: Member,
    lacks: &dyn Fn(Member, &ObjectKey) -> bool,
) -> (Vec<Finding>, Vec<SnapFinding>) {
    let mut by_key: BTreeMap<&ObjectKey, BTreeMap<Member, &Scanned>> = BTreeMap::new();
    for (member, map) in maps {
        for object in map {
            by_key.entry(&object.key).or_default().insert(*member, object);
        }
    }
    let mut findings = Vec::new();
    let mut believed: BTreeMap<&ObjectKey, &Scanned> = BTreeMap::new();
    for (key, copies) in &by_key {
        let expected = maps.keys().filter(|member| !lacks(**member, key));
        let shards: Shards<'_> = expected.map(|member| (*member, copies.get(member).copied())).collect();
        let (finding, right) = backend.verify(us, key, &shards);
        findings.extend(finding);
        believed.extend(right.map(|right| (*key, right)));
    }
    let snaps = compare_snapsets(&by_key.keys().copied().collect(), &believed);
    (findings, snaps)
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
    use crate::object::INFO_ATTR;
    use crate::object::at_snap;
    use crate::pg::backend::Replicated;
    use crate::snapset::CloneEntry;
    use maps::{EVersion, Epoch, OsdId, Spg};
    use msgs::op::scrub::{object_error, shard_error};

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
            copies.iter().enumerate().map(|(i, c)| (on(i as i32), c.iter().cloned().collect())).collect();
        let (mut found, snaps) = compare(&Replicated, &maps, on(0), &|_, _| false);
        assert!(found.len() <= 1 && snaps.is_empty());
        found.pop()
    }

    fn on(osd: i32) -> Member {
        Member { osd: OsdId(osd), shard: Spg::NO_SHARD }
    }

    fn ids(ids: &[i32]) -> BTreeSet<Member> {
        ids.iter().map(|id| on(*id)).collect()
    }

    #[test]
    fn equal_copies_are_no_finding() {
        assert!(of(&[Some(copy(1, 5)), Some(copy(1, 5)), Some(copy(1, 5))]).is_none());
    }

    #[test]
    fn most_copies_of_the_newest_version_are_right() {
        let found = of(&[Some(copy(1, 6)), Some(copy(1, 5)), Some(copy(1, 5))]).expect("differs");
        assert_eq!((found.good.clone(), found.errors), (ids(&[1, 2]), object_error::DATA_DIGEST));
        assert_eq!(found.shards[&on(0)].errors, shard_error::DATA_DIGEST);
        assert_eq!(found.count(), (0, 1));
        let found = of(&[Some(copy(1, 5)), Some(copy(1, 5)), Some(copy(2, 9))]).expect("differs");
        assert_eq!(found.good, ids(&[2]), "two have missed an update");
        assert_eq!(found.version, EVersion::new(Epoch(3), 2));
    }

    #[test]
    fn a_damaged_copy_is_never_right_and_without_majority_nobody_is() {
        let broken = || Some(Scanned { errors: shard_error::READ, data_digest: None, ..copy(1, 5) });
        let found = of(&[broken(), broken(), Some(copy(1, 5))]).expect("damaged");
        assert_eq!((found.good.clone(), found.bad()), (ids(&[2]), vec![on(0), on(1)]));
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
        let maps = Maps::from([(on(0), map.clone()), (on(1), map)]);
        let (found, snaps) = compare(&Replicated, &maps, on(0), &|_, _| false);
        assert!(found.is_empty());
        let [set] = &snaps[..] else { panic!("one: {snaps:?}") };
        assert_eq!((&set.extra[..], &set.missing[..]), (&[SnapId(4)][..], &[SnapId(3)][..]));
        let all = snapset_error::EXTRA_CLONES | snapset_error::CLONE_MISSING | snapset_error::SIZE;
        assert_eq!(set.errors, all);
        let maps = Maps::from([(on(0), vec![with(at(4), 7)])]);
        assert_eq!(compare(&Replicated, &maps, on(0), &|_, _| false).1[0].errors, snapset_error::HEADLESS);
    }
}
