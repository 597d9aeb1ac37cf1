//! Fragments that have few names left are joined, whatever happens meanwhile; and administrators split and
//! join fragments as they like.

mod world;

use fsfmt::{DirFrag, Frag};
use mds::MdsOptions;
use msgs::MdsOp;
use std::collections::BTreeSet;
use world::World;
use world::client::{mkdir, request};
use world::fragments::{A, Change, SMALL, any, assert_stored, call_on};
use world::fragments::{fill, flush, given_up, leaves, name, pass, unlink, world};

/// A listing that began before the fragments were joined goes on after it: it misses nothing, and tells of
/// nothing twice.
#[test]
fn a_listing_over_a_join_is_whole() {
    let mut joined = 0;
    for seed in 0..40 {
        let mut w = world(seed, MdsOptions { cache_inodes: if seed % 2 == 0 { 1000 } else { 24 }, ..SMALL });
        assert_eq!(w.call(A, mkdir("d")).result, 0);
        fill(&mut w, "d", 40);
        assert!(leaves(&mut w, "d").1.len() >= 8);
        let keep = w.rng.below(33) as usize;
        let kept: BTreeSet<String> = (keep..keep + 7).map(name).collect();
        let (mut seen, mut next) = (Vec::new(), Some((0, Vec::new())));
        let join_at = w.rng.below(14);
        let mut pages = 0;
        while let Some((frag, after)) = next {
            if pages == join_at {
                unlink(&mut w, "d", 0..keep);
                unlink(&mut w, "d", keep + 7..40);
                assert_eq!(leaves(&mut w, "d").1, [Frag::WHOLE], "seed {seed}");
                joined += 1;
            }
            let reply = w.call(A, world::client::readdir_of(frag, "d", &after, 3));
            let listing: msgs::ReaddirReply = wire::Reader::new(&reply.extra).get().expect("a listing");
            seen.extend(listing.entries.iter().map(|e| String::from_utf8_lossy(&e.name).into_owned()));
            next = world::client::next_page(&listing);
            pages += 1;
        }
        let names: BTreeSet<String> = seen.iter().cloned().collect();
        assert_eq!(names.len(), seen.len(), "seed {seed}: {seen:?}");
        assert!(names.is_superset(&kept), "seed {seed}: {:?} are missing", kept.difference(&names));
    }
    assert!(joined > 30, "{joined} were joined");
}

/// A step of a client that makes, removes and renames files, with crashes. Names are made with a share of
/// `more` of ten.
fn step(w: &mut World, names: &mut BTreeSet<String>, i: usize, more: u64) {
    let change = match any(w, names) {
        Some(from) if w.rng.chance(1, 5) => Change::Rename(from),
        Some(gone) if !w.rng.chance(more, 10) => Change::Remove(gone),
        _ => Change::Make,
    };
    call_on(w, &i.to_string(), change.request(names, i), 8);
}

#[test]
fn a_crash_at_any_moment_of_a_join_loses_nothing() {
    let mut joined = 0;
    for seed in 0..150 {
        let options = MdsOptions { cache_inodes: if seed % 3 == 0 { 1000 } else { 24 }, ..SMALL };
        let mut w = world(seed, options);
        assert_eq!(w.call(A, mkdir("d")).result, 0);
        let mut names = fill(&mut w, "d", 24);
        assert_eq!(leaves(&mut w, "d").1.len(), 8, "seed {seed}");
        for i in 24..60 {
            step(&mut w, &mut names, i, 2);
        }
        w.crash(&[A]);
        w.give_everything_back(A);
        assert_eq!(w.names(A, "d").expect("lists"), names, "seed {seed}");
        joined += usize::from(assert_stored(&mut w, "d", &names) == 1);
    }
    assert!(joined > 80, "{joined} were joined");
}

/// Splits and joins by all numbers of bits follow each other, as an administrator asks for them and as the
/// number of names grows and shrinks; fragments of a tree come back as those of another.
#[test]
fn splits_and_joins_follow_each_other_through_crashes() {
    let (mut most, mut given) = (0, 0);
    for seed in 0..100 {
        let options = MdsOptions { cache_inodes: if seed % 3 == 0 { 1000 } else { 24 }, ..SMALL };
        let mut w = world(seed, options);
        assert_eq!(w.call(A, mkdir("d")).result, 0);
        let mut names = BTreeSet::new();
        for i in 0..150 {
            // It grows, shrinks, and grows again.
            step(&mut w, &mut names, i, if i / 40 % 2 == 0 { 8 } else { 2 });
            if w.rng.chance(1, 4) {
                let fragments = leaves(&mut w, "d").1;
                most = most.max(fragments.len());
                let frag = *w.rng.pick(&fragments);
                let asked = match w.rng.chance(1, 2) {
                    true => w.rank.split_fragment("d", &frag.text(), 1 + w.rng.below(4) as u32),
                    false => w.rank.join_fragments("d", "0/0"),
                };
                given += usize::from(asked.is_ok());
                w.effects();
            }
            if i % 10 == 0 {
                assert_eq!(w.names(A, "d").expect("lists"), names, "seed {seed}, {i}");
            }
        }
        w.crash(&[A]);
        w.give_everything_back(A);
        assert_eq!(w.names(A, "d").expect("lists"), names, "seed {seed}");
        assert_stored(&mut w, "d", &names);
    }
    assert!(most > 20 && given > 1000, "{most} fragments at most, {given} commands");
}

#[test]
fn a_standby_that_follows_splits_and_joins_takes_over() {
    for seed in 0..60 {
        let mut w = world(seed, MdsOptions { cache_inodes: if seed % 3 == 0 { 1000 } else { 24 }, ..SMALL });
        assert_eq!(w.call(A, mkdir("d")).result, 0);
        let cfg = w.cfg.clone();
        let mut standby = world::standby::Standby::new(&mut w, cfg);
        let mut names = BTreeSet::new();
        for i in 0..100 {
            let more = if i < 40 { 9 } else { 1 };
            let gone = names.iter().next().cloned().filter(|_| !w.rng.chance(more, 10));
            let request = gone.map_or(Change::Make, Change::Remove).request(&mut names, i);
            assert_eq!(w.call_early(A, request).result, 0, "seed {seed}, {i}");
            if w.rng.chance(1, 4) {
                w.give_everything_back(A);
            }
            for _ in 0..w.rng.below(20) {
                w.io_step();
                standby.step(&mut w);
            }
            if w.rng.chance(1, 5) {
                standby.look(&mut w);
            }
            if w.rng.chance(1, 30) {
                w.fail_over(standby, &[A]);
                let cfg = w.cfg.clone();
                standby = world::standby::Standby::new(&mut w, cfg);
            }
        }
        w.fail_over(standby, &[A]);
        w.give_everything_back(A);
        assert_eq!(w.names(A, "d").expect("lists"), names, "seed {seed}");
        assert_stored(&mut w, "d", &names);
    }
}

#[test]
fn parts_of_which_one_cannot_be_read_are_joined_later() {
    let mut w = world(5, MdsOptions { cache_inodes: 1000, ..SMALL });
    assert_eq!(w.call(A, mkdir("d")).result, 0);
    fill(&mut w, "d", 24);
    flush(&mut w);
    let (ino, fragments) = leaves(&mut w, "d");
    assert_eq!(fragments.len(), 8);
    let object = fsfmt::names::dir_object(DirFrag { ino, frag: fragments[3] });
    w.unreadable.insert(object.clone());
    unlink(&mut w, "d", 0..20);
    assert_eq!((leaves(&mut w, "d").1.len(), given_up(&w)), (8, 1));
    w.unreadable.remove(&object);
    pass(&mut w, 9);
    assert_eq!(leaves(&mut w, "d").1.len(), 8, "not yet");
    pass(&mut w, 2);
    assert_eq!(leaves(&mut w, "d").1, [Frag::WHOLE]);
    assert_stored(&mut w, "d", &(20..24).map(name).collect());
}

/// What snapshots keep of names is not counted by the directory; so much of it stays in several objects.
#[test]
fn what_snapshots_keep_is_not_joined_into_a_large_object() {
    let options = MdsOptions { split_size: 200, merge_size: 50, cache_inodes: 10_000, ..SMALL };
    let mut w = world(6, options);
    assert_eq!(w.call(A, mkdir("d")).result, 0);
    fill(&mut w, "d", 1100);
    assert_eq!(w.call(A, request(MdsOp::MKSNAP, "d//s")).result, 0);
    unlink(&mut w, "d", 0..1100);
    assert!(given_up(&w) > 0, "{:?}", w.log);
    assert!(leaves(&mut w, "d").1.len() > 1);
    assert_eq!(w.names(A, "d").expect("lists"), BTreeSet::new());
    assert_eq!(w.names(A, "d//s").expect("lists").len(), 1100);
    assert_eq!(w.call(A, request(MdsOp::RMSNAP, "d//s")).result, 0);
    w.give_everything_back(A);
    // The last attempt may have been an hour ago.
    pass(&mut w, 3700);
    assert_eq!(assert_stored(&mut w, "d", &BTreeSet::new()), 1);
}

#[test]
fn administrators_see_split_and_join_fragments() {
    let mut w = world(7, MdsOptions { cache_inodes: 1000, ..SMALL });
    assert_eq!(w.call(A, mkdir("d")).result, 0);
    let names = fill(&mut w, "d", 5);
    let shown = |w: &World| w.rank.list_fragments("/d").expect("cached").to_string();
    assert_eq!(shown(&w), r#"[{"value":0,"bits":0,"str":"0/0"}]"#);
    w.rank.split_fragment("/d", "0/0", 1).expect("it has that fragment");
    w.quiet();
    w.rank.split_fragment("/d/", "800000/1", 1).expect("it has that fragment");
    w.quiet();
    assert_eq!(
        shown(&w),
        concat!(
            r#"[{"value":0,"bits":1,"str":"0/1"},{"value":8388608,"bits":2,"str":"800000/2"},"#,
            r#"{"value":12582912,"bits":2,"str":"c00000/2"}]"#
        )
    );
    // It stays so although there are few names.
    unlink(&mut w, "d", 0..1);
    pass(&mut w, 60);
    let names: BTreeSet<String> = names.into_iter().filter(|n| *n != name(0)).collect();
    assert_eq!(assert_stored(&mut w, "d", &names), 3);

    for (path, frag, bits) in [
        ("/d", "0/0", 1),
        ("/d", "0/1", 0),
        ("/d", "0/1", 9),
        ("/d", "1", 1),
        ("/d", "10/1", 1),
        ("/x", "0/0", 1),
        ("/d/file-3", "0/0", 1),
    ] {
        assert!(w.rank.split_fragment(path, frag, bits).is_err(), "{path} {frag} {bits}");
    }
    for (path, frag) in [("/d", "0/1"), ("/d", "0/2"), ("/d", "x"), ("/x", "0/0"), ("/d/file-3", "0/0")] {
        assert!(w.rank.join_fragments(path, frag).is_err(), "{path} {frag}");
    }
    assert!(w.rank.list_fragments("/d/file-3").is_err());
    w.quiet();
    assert_eq!(assert_stored(&mut w, "d", &names), 3, "nothing came of it");
    w.rank.join_fragments("/d", "0/0").expect("it has parts");
    w.quiet();
    assert_eq!(assert_stored(&mut w, "d", &names), 1);
}

#[test]
fn a_directory_that_is_removed_while_it_is_joined_leaves_no_object() {
    for seed in 0..60 {
        let mut w = world(seed, MdsOptions { cache_inodes: 1000, ..SMALL });
        assert_eq!(w.call(A, mkdir("d")).result, 0);
        fill(&mut w, "d", 24);
        let (ino, fragments) = leaves(&mut w, "d");
        assert_eq!(fragments.len(), 8);
        for i in 0..24 {
            let result = w.call_early(A, request(MdsOp::UNLINK, &format!("d/{}", name(i)))).result;
            assert_eq!(result, 0, "{i}");
        }
        for _ in 0..seed {
            w.io_step();
        }
        assert_eq!(w.call_early(A, request(MdsOp::RMDIR, "d")).result, 0);
        w.give_everything_back(A);
        if seed % 2 == 0 {
            w.crash(&[A]);
        }
        flush(&mut w);
        let prefix = format!("{:x}.", ino.0);
        let left: Vec<_> = w.objects.keys().filter(|id| id.name.starts_with(&prefix)).collect();
        assert!(left.is_empty(), "seed {seed}: {left:?}");
    }
}
