//! Standbys that follow the journal: they know what the rank knew, never write, and take over with a few
//! reads.

mod world;

use fsfmt::{Ino, SubtreeRecord, names, subtree_key};
use maps::MdsRank;
use mds::{MdsOptions, ObjectId, Stage};
use msgs::MdsOp;
use std::collections::BTreeMap;
use world::client::{create, getattr, mkdir, request, setattr_mode, two};
use world::model::{Model, Node};
use world::standby::Standby;
use world::{TINY, World};

const A: u64 = 10;

fn name(w: &mut World) -> String {
    let depth = 1 + w.rng.below(3);
    let names: Vec<String> =
        (0..depth).map(|_| char::from(b'a' + w.rng.below(5) as u8).to_string()).collect();
    names.join("/")
}

/// One random change, which must end as in the model.
fn change(w: &mut World, m: &mut Model) {
    let (a, b) = (name(w), name(w));
    let (request, want) = match w.rng.below(8) {
        0 | 1 => {
            let dir = Node { dir: Some(BTreeMap::new()), mode: 0o755, ..Node::default() };
            (mkdir(&a), m.make(&a, dir))
        }
        2..=4 => (create(&a, 2), m.create(&a)),
        5 => (request(MdsOp::UNLINK, &a), m.remove(&a, false)),
        6 => (two(MdsOp::RENAME, &a, &b), m.rename(&a, &b)),
        _ => {
            let mode = 0o600 + w.rng.below(64) as u32;
            let set = m.change(&a, |n| {
                n.mode = mode;
                Ok(())
            });
            (setattr_mode(&a, mode), set)
        }
    };
    let got = w.call(A, request).result;
    assert_eq!(got, want.map_or_else(wire::Errno::to_result_code, |()| 0), "{a} {b}");
}

fn compare(w: &mut World, m: &Model) {
    let paths = m.walk();
    for (path, (_, node)) in &paths {
        let reply = w.call(A, getattr(path.trim_start_matches('/'), msgs::cap::ANY_SHARED));
        let stat = reply.trace.target.unwrap_or_else(|| panic!("{path} is lost"));
        assert_eq!((stat.mode & 0o7777, stat.nlink > 0), (node.mode, true), "{path}");
    }
    for top in ["a", "b", "c", "d", "e"] {
        let is_there = w.call(A, getattr(top, 0)).result == 0;
        assert_eq!(is_there, paths.keys().any(|path| path.trim_start_matches('/') == top), "{top}");
    }
}

/// The client forgets what it holds, so that inodes can leave caches.
fn forget(w: &mut World) {
    let held = std::mem::take(&mut w.clients.get_mut(&A).expect("a").held);
    let item = |(ino, h): (u64, world::client::Held)| msgs::CapReleaseItem {
        ino,
        cap_id: h.cap_id,
        migrate_seq: 0,
        seq: h.issue_seq,
    };
    let caps = held.into_iter().map(item).collect();
    w.send(A, 0, msgs::ClientCapRelease { caps, ..Default::default() });
    w.quiet();
}

#[test]
fn what_was_acknowledged_is_there_after_every_fail_over() {
    let mut fell_behind = 0;
    for seed in 0..40 {
        let mut w = World::new(seed, if seed % 2 == 0 { MdsOptions::default() } else { TINY });
        w.connect(A);
        let mut m = Model::new();
        for _ in 0..4 {
            let cfg = w.cfg.clone();
            let mut standby = Standby::new(&mut w, cfg);
            for _ in 0..w.rng.below(120) {
                // Now and then the rank changes more than a tiny journal has space for.
                let changes = if seed % 2 == 1 && w.rng.chance(1, 60) { 600 } else { 1 };
                (0..changes).for_each(|_| change(&mut w, &mut m));
                match w.rng.below(6) {
                    0 => standby.look(&mut w),
                    1 => standby.catch_up(&mut w),
                    2 => forget(&mut w),
                    _ => drop(standby.step(&mut w)),
                }
            }
            fell_behind += standby.fell_behind;
            w.fail_over(standby, &[A]);
            compare(&mut w, &m);
        }
    }
    assert!(fell_behind > 0, "some standbys were too slow for a tiny journal");
}

#[test]
fn a_standby_that_has_followed_takes_over_with_few_reads() {
    let mut w =
        World::new(1, MdsOptions { cache_inodes: 50_000, journal_bytes: 8 << 20, ..MdsOptions::default() });
    w.connect(A);
    assert_eq!(w.call(A, mkdir("d")).result, 0);
    for i in 0..2000 {
        assert_eq!(w.call(A, create(&format!("d/f{i}"), 1)).result, 0);
    }
    let cfg = w.cfg.clone();
    let mut standby = Standby::new(&mut w, cfg);
    while standby.step(&mut w) {}
    assert!(standby.rank.stats().entries >= 2000, "{:?}", standby.rank.stats());
    // The last events come after its last look.
    assert_eq!(w.call(A, create("d/last", 1)).result, 0);
    w.clients.get_mut(&A).expect("a").held.retain(|ino, _| *ino == 1);
    w.end_in_flight();
    standby.rank.take_over(w.cfg.clone(), w.now);
    w.rank = standby.rank;
    w.connect_all();
    let before = w.io_count;
    while w.rank.stage() == Stage::Replaying {
        assert!(w.io_step(), "it reads on");
    }
    let read = w.io_count - before;
    assert_eq!(
        read,
        5 + 4,
        "header, partition, snapshots, the last object, the missing one after it, four behind that"
    );
    w.until_active(&[A]);
    assert_eq!(w.call(A, getattr("d/last", 0)).result, 0);
    assert_eq!(w.call(A, getattr("d/f1234", 0)).result, 0);
}

/// A subtree moved after the standby had read who has what, of which there are more records than one read
/// returns: what it knows may be of a time when it had another one.
#[test]
fn a_standby_starts_over_if_any_subtree_has_moved() {
    const COUNT: u64 = 1500;
    for changed in [None, Some(0), Some(COUNT - 1)] {
        let mut w = World::new(3, MdsOptions::default());
        w.connect(A);
        let (pool, ns) = (w.cfg.metadata_pool, String::new());
        let partition = ObjectId { pool, ns, name: names::partition() };
        let write = |w: &mut World, i: u64, rank: i32| {
            let record = SubtreeRecord { rank: MdsRank(rank), ..SubtreeRecord::default() };
            let omap = &mut w.objects.entry(partition.clone()).or_default().omap;
            omap.insert(subtree_key(Ino(0x1_0000 + i)), wire::Writer::encode(&record));
        };
        (0..COUNT).for_each(|i| write(&mut w, i, 1));
        let cfg = w.cfg.clone();
        let mut standby = Standby::new(&mut w, cfg);
        while standby.step(&mut w) {}
        let Some(changed) = changed else {
            w.fail_over(standby, &[A]);
            continue;
        };
        write(&mut w, changed, 2);
        standby.take_over(&mut w);
        while standby.fell_behind == 0 {
            assert!(standby.step(&mut w), "record {changed} was not looked at");
        }
    }
}

#[test]
fn a_standby_keeps_to_its_cache_when_the_rank_stores_what_it_has_changed() {
    let mut w =
        World::new(2, MdsOptions { cache_inodes: 50_000, journal_bytes: 1 << 20, ..MdsOptions::default() });
    w.connect(A);
    assert_eq!(w.call(A, mkdir("d")).result, 0);
    let mut cfg = w.cfg.clone();
    cfg.options.cache_inodes = 300;
    let mut standby = Standby::new(&mut w, cfg);
    let mut most = 0;
    for i in 0..12_000 {
        assert_eq!(w.call(A, create(&format!("d/f{i}"), 1)).result, 0);
        if i % 200 == 0 {
            standby.catch_up(&mut w);
            most = most.max(standby.rank.stats().entries);
        }
    }
    assert_eq!(standby.fell_behind, 0);
    assert!(most < 4_000, "{most} entries at once: half a mebibyte of journal is some 1,500 of them");
    w.clients.get_mut(&A).expect("a").held.retain(|ino, _| *ino == 1);
    w.fail_over(standby, &[A]);
    for i in (0..12_000).step_by(501) {
        assert_eq!(w.call(A, getattr(&format!("d/f{i}"), 0)).result, 0, "file {i}");
    }
}
