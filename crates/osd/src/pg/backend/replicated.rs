//! Replicated pools: all members have the same objects, byte for byte.
//!
//! Which copy is right: never one whose own checksums fail. Of those that can be read, the newest version is,
//! and among copies of that version the content that most of them have. If there is no such majority nobody
//! is right, and a person has to decide.

use super::{Backend, Share, Transfer};
use crate::object::INFO_ATTR;
use crate::pg::member::Member;
use crate::pg::scrub::finding::{Believed, Finding, Scanned, Shard, Shards};
use msgs::op::scrub::{object_error, shard_error};
use std::collections::{BTreeMap, BTreeSet};
use store::{ObjectKey, Read, Transaction};

/// Whole copies of each object.
#[derive(Clone, Copy, Debug)]
pub struct Replicated;

impl Backend for Replicated {
    /// All apply the same.
    fn plan(&self, update: Transaction, members: Vec<Member>) -> Vec<Share> {
        vec![Share { members, txn: update }]
    }

    /// Our own copy has everything.
    fn read(&self, us: Member, read: Read) -> Vec<(Member, Read)> {
        vec![(us, read)]
    }

    /// The primary fetches from any copy what it lacks itself, and gives the others what it has.
    fn rebuild(&self, us: Member, lacking: Member, holders: &[Member]) -> Option<Transfer> {
        match lacking == us {
            true => holders.iter().find(|holder| **holder != us).map(|holder| Transfer::Pull(*holder)),
            false => holders.contains(&us).then_some(Transfer::Push(lacking)),
        }
    }

    fn verify<'a>(&self, us: Member, key: &ObjectKey, shards: &Shards<'a>) -> Believed<'a> {
        compare_copies(us, key, shards)
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

/// Compares the copies of one object; gives one that is believed too.
fn compare_copies<'a>(us: Member, key: &ObjectKey, shards: &Shards<'a>) -> Believed<'a> {
    let error_of = |object: &Option<&Scanned>| match object {
        None => shard_error::MISSING,
        Some(o) if o.errors & shard_error::STAT != 0 => o.errors,
        Some(o) if !o.attrs.iter().any(|(name, _)| name == INFO_ATTR) => o.errors | shard_error::INFO_MISSING,
        Some(o) if o.info().is_none() => o.errors | shard_error::INFO_CORRUPTED,
        Some(o) => o.errors,
    };
    let mut errors: BTreeMap<Member, u64> = shards.iter().map(|(member, o)| (*member, error_of(o))).collect();
    let sound: BTreeMap<Member, &Scanned> = shards
        .iter()
        .filter(|(member, _)| errors[member] == 0)
        .filter_map(|(member, o)| Some((*member, (*o)?)))
        .collect();
    let version = |o: &Scanned| o.info().map(|i| i.version).unwrap_or_default();
    let newest = sound.values().map(|o| version(o)).max().unwrap_or_default();
    let mut groups: Vec<(Content<'_>, BTreeSet<Member>)> = Vec::new();
    for (member, object) in sound.iter().filter(|(_, o)| version(o) == newest) {
        let found = content(object);
        match groups.iter_mut().find(|(content, _)| *content == found) {
            Some((_, who)) => drop(who.insert(*member)),
            None => groups.push((found, BTreeSet::from([*member]))),
        }
    }
    groups.sort_by_key(|(_, who)| std::cmp::Reverse(who.len()));
    let majority = match &groups[..] {
        [] => BTreeSet::new(),
        [(_, first), (_, second), ..] if first.len() == second.len() => BTreeSet::new(),
        [(_, first), ..] => first.clone(),
    };
    let blind = stdx::mutants::is_active("osd_repair_takes_primary_blindly") && shards.contains_key(&us);
    let good = if blind { BTreeSet::from([us]) } else { majority };
    let believed = good.iter().next().and_then(|member| shards[member]);
    let model = believed.or_else(|| sound.values().next().copied());
    let mut differs = 0;
    if let Some(model) = model {
        for (member, object) in &sound {
            let (all, own) = difference(object, model);
            differs |= all;
            // Without one that is right nobody is to blame.
            if let (Some(errors), Some(_)) = (errors.get_mut(member), believed) {
                *errors |= own;
            }
        }
    }
    if differs == 0 && errors.values().all(|e| *e == 0) {
        return (None, model);
    }
    let shard = |(member, object): (&Member, &Option<&Scanned>)| {
        (*member, Shard { errors: errors[member], object: object.cloned() })
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

#[cfg(test)]
mod tests {
    use super::*;
    use maps::{OsdId, Spg};
    use store::TxnOp;

    fn member(osd: i32) -> Member {
        Member { osd: OsdId(osd), shard: Spg::NO_SHARD }
    }

    fn key() -> ObjectKey {
        ObjectKey::head(1, 5, b"", b"", b"o")
    }

    #[test]
    fn all_members_apply_the_same_and_the_one_that_is_asked_reads_alone() {
        let update = Transaction { ops: vec![TxnOp::Remove(key())] };
        let members = vec![member(2), member(0)];
        let [share] = &Replicated.plan(update.clone(), members.clone())[..] else { panic!("one share") };
        assert_eq!((&share.members, &share.txn), (&members, &update));
        let read = Read::attrs_of(&key());
        assert_eq!(Replicated.read(member(2), read.clone()), [(member(2), read)]);
    }

    #[test]
    fn the_primary_pulls_what_it_lacks_and_pushes_what_it_has() {
        let rebuild = |lacking: i32, holders: &[i32]| {
            let holders: Vec<Member> = holders.iter().map(|osd| member(*osd)).collect();
            Replicated.rebuild(member(0), member(lacking), &holders)
        };
        assert_eq!(rebuild(0, &[3, 1]), Some(Transfer::Pull(member(3))));
        assert_eq!(rebuild(0, &[]), None);
        assert_eq!(rebuild(1, &[3, 0]), Some(Transfer::Push(member(1))));
        assert_eq!(rebuild(1, &[3]), None, "it comes by way of the primary");
    }
}
