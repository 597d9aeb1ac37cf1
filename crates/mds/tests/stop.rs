//! A rank that stops: what it has goes to the other one, also what has no name any more, and comes back when
//! it starts again.

mod world;

use fsfmt::Ino;
use mds::Stage;
use msgs::{MdsOp, cap};
use std::collections::BTreeSet;
use world::client::{create, getattr, mkdir, request, two};
use world::pair::ino;
use world::ranks::{A, Ranks};

/// `O_RDWR`.
const READ_WRITE: u32 = 2;

/// What is in rank 1 before it stops.
struct Left {
    open: u64,
    removed: u64,
    linked: u64,
}

/// A directory of rank 1 with an open file, one that is open and has no name any more, and one of which only
/// the second name is left, in rank 0.
fn filled(seed: u64) -> (Ranks, Left) {
    let mut r = Ranks::new(seed);
    r.ok(0, mkdir("d"));
    r.ok(0, mkdir("e"));
    let linked = ino(&r.ok(0, create("d/linked", READ_WRITE)));
    r.ok(0, two(MdsOp::LINK, "e/link", "d/linked"));
    r.export(0, "/d", 1);
    r.settle();
    let open = ino(&r.ok(1, create("d/open", READ_WRITE)));
    let removed = ino(&r.ok(1, create("d/removed", READ_WRITE)));
    r.ok(1, request(MdsOp::UNLINK, "d/removed"));
    r.ok(1, request(MdsOp::UNLINK, "d/linked"));
    (r, Left { open, removed, linked })
}

/// The numbers in the stored directory of rank 1's strays.
fn stored_strays(r: &mut Ranks) -> BTreeSet<String> {
    (0..2).for_each(|rank| {
        r.with(rank, |w| {
            w.rank.flush_journal();
            w.quiet();
        });
    });
    let name = fsfmt::names::dir_object(fsfmt::DirFrag::whole(Ino::stray(1)));
    let of_strays = r.objects().iter().filter(|(object, _)| object.name == name);
    let keys = of_strays.flat_map(|(_, object)| object.omap.keys());
    keys.filter_map(|key| fsfmt::DentryKey::from_omap(key))
        .map(|key| String::from_utf8_lossy(&key.name).into_owned())
        .collect()
}

fn check_left(r: &mut Ranks, left: &Left, seed: u64) {
    assert_eq!((r.authorities("/d"), r.authorities("/")), (vec![0], vec![0]), "seed {seed}");
    assert_eq!(ino(&r.ok(0, getattr("d/open", 0))), left.open, "seed {seed}");
    assert_eq!(ino(&r.ok(0, getattr("e/link", 0))), left.linked, "seed {seed}");
    let held = r.held(0);
    for (file, name) in [(left.open, "the open file"), (left.removed, "the one without a name")] {
        assert!(held.get(&file).is_some_and(|held| held & cap::FILE_WR != 0), "seed {seed}: {name}");
    }
    assert_eq!(r.with(0, |w| w.names(A, "d")), Ok(["open".to_owned()].into()), "seed {seed}");
    let strays = stored_strays(r);
    let expected = [left.removed, left.linked].map(|ino| format!("{ino:x}"));
    assert_eq!(strays, expected.into(), "seed {seed}: both are still needed");
}

#[test]
fn a_rank_that_stops_hands_over_what_it_has_and_what_has_no_name() {
    let (mut r, left) = filled(1);
    r.stop();
    r.until_stopped();
    assert!(!r.worlds[1].clients[&A].open, "its session is closed");
    check_left(&mut r, &left, 1);

    // The other rank purges what nobody needs any more.
    r.with(0, |w| w.release(A, left.removed));
    r.settle();
    assert_eq!(stored_strays(&mut r), [format!("{:x}", left.linked)].into());
    r.ok(0, request(MdsOp::UNLINK, "e/link"));
    r.with(0, |w| w.give_everything_back(A));
    r.settle();
    assert_eq!(stored_strays(&mut r), BTreeSet::new());
}

#[test]
fn a_rank_that_starts_again_gets_its_strays_back_when_it_needs_them() {
    let (mut r, left) = filled(2);
    r.stop();
    r.until_stopped();
    r.start();
    r.export(0, "/d", 1);
    r.settle();
    assert_eq!(r.authorities("/d"), [1]);
    assert_eq!(r.ask(1, request(MdsOp::UNLINK, "d/open")), 0);
    r.settle();
    assert!(r.held(1).contains_key(&left.removed), "with what is open in it");
    assert_eq!(r.ask(0, getattr("e/link", 0)), 0, "and what has another name");
    assert!(r.held(0).contains_key(&left.linked));
    r.ok(1, create("d/more", READ_WRITE));
    assert_eq!(r.ask(1, request(MdsOp::UNLINK, "d/more")), 0, "they are needed again");
    r.settle();
    assert!(r.held(1).contains_key(&left.linked));
    let subtrees = r.worlds[0].rank.subtree_list();
    assert_eq!(subtrees.as_array().map(Vec::len), Some(2), "the root and d: {subtrees}");

    r.stop();
    r.until_stopped();
    assert!(r.held(0).contains_key(&left.removed) && r.held(0).contains_key(&left.open));
}

/// Whichever of the ranks dies at whichever moment: in the end one has stopped, and the other has everything.
#[test]
fn a_rank_stops_whoever_dies_meanwhile() {
    for seed in stdx::test_seeds("NACRE_RANKS", 60) {
        let (mut r, left) = filled(seed);
        r.stop();
        for _ in 0..seed * 3 % 250 {
            r.step();
        }
        let dies = r.rng.below(3) as usize;
        for rank in (0..2).filter(|rank| dies == 2 || dies == *rank) {
            if r.worlds[rank].rank.stage() != Stage::Stopped {
                r.crash(rank);
            }
        }
        r.until_stopped();
        check_left(&mut r, &left, seed);
    }
}
