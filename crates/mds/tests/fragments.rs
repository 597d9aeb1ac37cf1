//! Directories that grow large are split into fragments, each in an object of its own, whatever happens
//! meanwhile.

mod world;

use fsfmt::{DirFrag, Frag};
use mds::MdsOptions;
use msgs::MdsOp;
use std::collections::BTreeSet;
use world::client::{create, getattr, mkdir, request};
use world::fragments::{A, Change, SMALL, any, assert_stored, call_on};
use world::fragments::{fill, flush, given_up, leaves, name, pass, unlink, world};

#[test]
fn a_directory_that_grows_is_split_and_its_parts_again() {
    let mut w = world(1, SMALL);
    assert_eq!(w.call(A, mkdir("d")).result, 0);
    let names = fill(&mut w, "d", 600);
    assert_eq!(w.names(A, "d").expect("lists"), names);
    let count = assert_stored(&mut w, "d", &names);
    assert!(count >= 600 / 16 / 8, "{count} fragments");
    for i in 0..600 {
        assert_eq!(w.call(A, getattr(&format!("d/{}", name(i)), 0)).result, 0, "{i}");
    }
    w.crash(&[A]);
    assert_eq!(w.names(A, "d").expect("lists"), names);
    unlink(&mut w, "d", 0..560);
    let few = assert_stored(&mut w, "d", &(560..600).map(name).collect());
    assert!(few < count, "{few} fragments of {count}");
    unlink(&mut w, "d", 560..600);
    assert_eq!(assert_stored(&mut w, "d", &BTreeSet::new()), 1, "no fragment is left of an empty directory");
    assert_eq!(w.call(A, request(MdsOp::RMDIR, "d")).result, 0);
    w.give_everything_back(A);
    flush(&mut w);
    let left: Vec<_> = w.objects.keys().filter(|id| id.name.ends_with("0000000")).collect();
    assert!(left.iter().all(|id| !id.name.starts_with("10000000")), "{left:?}");
}

#[test]
fn the_root_directory_is_split_too() {
    let mut w = world(2, SMALL);
    for i in 0..60 {
        assert_eq!(w.call(A, create(&name(i), 2)).result, 0);
    }
    w.give_everything_back(A);
    let names: BTreeSet<String> = (0..60).map(name).collect();
    assert_eq!(w.names(A, "").expect("lists"), names);
    assert!(assert_stored(&mut w, "", &names) >= 8);
    unlink(&mut w, "", 0..60);
    assert_eq!(assert_stored(&mut w, "", &BTreeSet::new()), 1);
}

/// A listing that began before the split goes on after it, and misses nothing.
#[test]
fn a_listing_over_a_split_is_whole() {
    for seed in 0..20 {
        let mut w = world(seed, SMALL);
        assert_eq!(w.call(A, mkdir("d")).result, 0);
        let mut names = fill(&mut w, "d", 14);
        let (mut seen, mut next) = (BTreeSet::new(), Some((0, Vec::new())));
        let mut pages = 0;
        while let Some((frag, after)) = next {
            let reply = w.call(A, world::client::readdir_of(frag, "d", &after, 3));
            let listing: msgs::ReaddirReply = wire::Reader::new(&reply.extra).get().expect("a listing");
            seen.extend(listing.entries.iter().map(|e| String::from_utf8_lossy(&e.name).into_owned()));
            next = world::client::next_page(&listing);
            pages += 1;
            if pages == 2 {
                let more = (100..120).map(name);
                for name in more {
                    assert_eq!(w.call(A, create(&format!("d/{name}"), 2)).result, 0);
                }
                assert_eq!(leaves(&mut w, "d").1.len(), 8, "it is split");
            }
        }
        let old = (0..14).map(name).collect();
        assert!(seen.is_superset(&old), "{:?} are missing", old.difference(&seen));
        names.extend((100..120).map(name));
        assert!(seen.is_subset(&names));
    }
}

/// Crashes at random moments, while files are made, removed and renamed.
#[test]
fn a_crash_at_any_moment_of_a_split_loses_nothing() {
    let mut split = 0;
    for seed in 0..150 {
        let options = MdsOptions { cache_inodes: if seed % 3 == 0 { 1000 } else { 24 }, ..SMALL };
        let mut w = world(seed, options);
        assert_eq!(w.call(A, mkdir("d")).result, 0);
        let mut names = fill(&mut w, "d", 14);
        for i in 14..40 {
            let change = match w.rng.below(4) {
                0 if names.len() > 3 => Change::Remove(any(&mut w, &names).expect("one")),
                1 => Change::Rename(any(&mut w, &names).expect("one")),
                _ => Change::Make,
            };
            call_on(&mut w, &format!("seed {seed}, {i}"), change.request(&mut names, i), 6);
        }
        w.crash(&[A]);
        w.give_everything_back(A);
        assert_eq!(w.names(A, "d").expect("lists"), names, "seed {seed}");
        split += usize::from(assert_stored(&mut w, "d", &names) > 1);
    }
    assert!(split > 100, "{split} were split");
}

#[test]
fn a_fragment_that_cannot_be_read_stays_as_it_is_until_it_can() {
    let mut w = world(3, MdsOptions { cache_inodes: 1000, ..SMALL });
    assert_eq!(w.call(A, mkdir("d")).result, 0);
    let names = fill(&mut w, "d", 16);
    flush(&mut w);
    let (ino, _) = leaves(&mut w, "d");
    let object = fsfmt::names::dir_object(DirFrag::whole(ino));
    w.unreadable.insert(object.clone());
    for i in 100..110 {
        assert_eq!(w.call(A, create(&format!("d/{}", name(i)), 2)).result, 0);
    }
    assert_eq!(given_up(&w), 1);
    for (seconds, attempts) in [(9, 1), (2, 2), (18, 2), (3, 3), (30, 3), (12, 4)] {
        pass(&mut w, seconds);
        assert_eq!(given_up(&w), attempts, "{seconds} s later");
    }
    assert_eq!(leaves(&mut w, "d").1, [Frag::WHOLE]);
    w.unreadable.remove(&object);
    let names: BTreeSet<String> = names.into_iter().chain((100..110).map(name)).collect();
    assert_eq!(w.names(A, "d").expect("lists"), names);
    assert_eq!(leaves(&mut w, "d").1, [Frag::WHOLE], "not yet");
    pass(&mut w, 81);
    assert_eq!(assert_stored(&mut w, "d", &names), 8);
    assert_eq!(given_up(&w), 4);
}

#[test]
fn a_directory_that_is_removed_while_it_is_split_leaves_no_object() {
    for seed in 0..60 {
        let mut w = world(seed, MdsOptions { cache_inodes: 1000, ..SMALL });
        assert_eq!(w.call(A, mkdir("d")).result, 0);
        for i in 0..17 {
            assert_eq!(w.call_early(A, create(&format!("d/{}", name(i)), 2)).result, 0);
        }
        for i in 0..17 {
            let result = w.call_early(A, request(MdsOp::UNLINK, &format!("d/{}", name(i)))).result;
            assert_eq!(result, 0, "{i}");
        }
        let (ino, _) = leaves(&mut w, "d");
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
