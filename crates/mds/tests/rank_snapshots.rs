//! Snapshots of directories that several ranks serve.

mod world;

use maps::MdsRank;
use msgs::{ClientRequest, MdsOp, ReaddirReply, cap};
use std::collections::BTreeSet;
use wire::Errno;
use world::client::{create, getattr, mkdir, open, readdir, request, setattr_mode, two};
use world::pair::ino;
use world::ranks::{A, Ranks};
use world::standby::Standby;

/// The names that a listing in a snapshot shows, and subtrees move for it.
fn list(r: &mut Ranks, rank: usize, path: &str) -> BTreeSet<String> {
    let reply = r.moves(rank, readdir(path, b"", 0));
    assert_eq!(reply.result, 0, "{path} at rank {rank}");
    let listing: ReaddirReply = wire::Reader::new(&reply.extra).get().expect("a listing");
    listing.entries.iter().map(|e| String::from_utf8(e.name.clone()).expect("ascii")).collect()
}

fn mode(r: &mut Ranks, rank: usize, path: &str) -> u32 {
    let reply = r.moves(rank, getattr(path, 0));
    assert_eq!(reply.result, 0, "{path} at rank {rank}");
    reply.trace.target.expect("it has a target").mode & 0o7777
}

/// Removes a name, for which a rank needs its directory of strays.
fn unlink(r: &mut Ranks, rank: usize, path: &str) {
    assert_eq!(r.moves(rank, request(MdsOp::UNLINK, path)).result, 0, "{path} at rank {rank}");
}

fn hand_over(r: &mut Ranks, from: usize, path: &str, to: usize) {
    r.export(from, path, to as i32);
    r.settle();
    assert_eq!(r.authorities(path), [to]);
}

/// `top/d/sub/f` and `top/d/g`, of which rank 1 has `top/d`, and then a snapshot of `top`.
fn snapped(seed: u64, count: u32) -> Ranks {
    let mut r = Ranks::of(seed, count);
    for made in [mkdir("top"), mkdir("top/d"), mkdir("top/d/sub"), create("top/d/sub/f", 2)] {
        r.ok(0, made);
    }
    r.ok(0, create("top/d/g", 1));
    hand_over(&mut r, 0, "/top/d", 1);
    assert_eq!(r.moves(0, request(MdsOp::MKSNAP, "top//one")).result, 0);
    assert_eq!(r.authorities("/top/d"), [0], "rank 0 makes snapshots, and gets everything for that");
    r
}

#[test]
fn a_snapshot_keeps_what_other_ranks_change_after_it() {
    for count in 2..4 {
        let mut r = snapped(u64::from(count), count);
        hand_over(&mut r, 0, "/top/d", 1);
        for changed in [setattr_mode("top/d", 0o700), setattr_mode("top/d/sub/f", 0o600)] {
            r.ok(1, changed);
        }
        unlink(&mut r, 1, "top/d/g");
        r.ok(1, create("top/d/new", 1));
        r.ok(1, two(MdsOp::RENAME, "top/d/sub/moved", "top/d/sub/f"));
        if count > 2 {
            hand_over(&mut r, 1, "/top/d", 2);
            r.ok(2, setattr_mode("top/d", 0o711));
            unlink(&mut r, 2, "top/d/new");
        }
        let (last, now) = (count as usize - 1, if count > 2 { 0o711 } else { 0o700 });
        r.crash(last);
        r.settle();
        assert_eq!(mode(&mut r, last, "top/d"), now);
        // What is in the snapshot is shown by the rank that has the directory with the snapshot.
        assert_eq!(mode(&mut r, 0, "top//one/d"), 0o755);
        assert_eq!(list(&mut r, 0, "top//one/d"), ["g", "sub"].map(str::to_owned).into());
        assert_eq!(list(&mut r, 0, "top//one/d/sub"), ["f"].map(str::to_owned).into());
        assert_eq!(mode(&mut r, 0, "top//one/d/sub/f"), 0o644);
        assert_eq!(r.authorities("/top/d"), [0], "it has come back for that");
        assert_eq!(mode(&mut r, 0, "top/d"), now);
        assert_eq!(mode(&mut r, 0, "top/d/sub/moved"), 0o600);
    }
}

#[test]
fn a_directory_shows_snapshots_of_those_above_it_at_another_rank() {
    let mut r = snapped(5, 2);
    hand_over(&mut r, 0, "/top/d", 1);
    let top = ino(&r.ok(0, getattr("top", 0)));
    unlink(&mut r, 1, "top/d/g");
    assert_eq!(list(&mut r, 1, &format!("top/d/sub//_one_{top}")), ["f"].map(str::to_owned).into());
    assert_eq!(r.authorities("/top/d"), [1], "rank 1 has all that this needs");
    let made = request(MdsOp::MKSNAP, "top/d//two");
    let tid = r.with(1, |w| w.start(A, made.clone()));
    r.settle();
    let forward = r.with(1, |w| w.clients.get_mut(&A).expect("a").forwards.remove(&tid));
    assert_eq!((forward, r.authorities("/top/d")), (Some((0, 1)), vec![0]), "rank 0 makes it");
    assert_eq!(r.moves(0, made).result, 0);
    hand_over(&mut r, 0, "/top/d", 1);
    r.ok(1, create("top/d/later", 1));
    assert_eq!(list(&mut r, 1, "top/d//two"), ["sub"].map(str::to_owned).into());
}

/// A standby began to follow before there was the snapshot.
#[test]
fn a_standby_keeps_what_is_in_snapshots_that_are_newer_than_itself() {
    let mut r = Ranks::of(12, 2);
    for made in [mkdir("top"), mkdir("top/d"), create("top/d/f", 2)] {
        r.ok(0, made);
    }
    hand_over(&mut r, 0, "/top/d", 1);
    let mut standby = r.with(1, |w| {
        let cfg = w.cfg.clone();
        let mut standby = Standby::new(w, cfg);
        while standby.step(w) {}
        standby
    });
    r.with(1, |w| w.start(A, request(MdsOp::MKSNAP, "top/d//one")));
    r.settle();
    assert_eq!(r.moves(0, request(MdsOp::MKSNAP, "top/d//one")).result, 0);
    // As the partition says, nothing has changed since.
    hand_over(&mut r, 0, "/top/d", 1);
    r.with(1, |w| {
        w.end_in_flight();
        standby.rank.take_over(w.cfg.clone(), w.now);
        w.rank = standby.rank;
        w.connect_all();
        w.until_active(&[A]);
    });
    r.tell_ranks();
    r.ok(1, setattr_mode("top/d/f", 0o600));
    assert_eq!((mode(&mut r, 1, "top/d//one/f"), mode(&mut r, 1, "top/d/f")), (0o644, 0o600));
}

/// A snapshot of one directory moves nothing that is elsewhere.
#[test]
fn directories_beside_the_one_of_a_snapshot_stay_where_they_are() {
    let mut r = Ranks::of(11, 3);
    for made in [mkdir("top"), mkdir("top/d"), mkdir("top/d/far"), mkdir("beside")] {
        r.ok(0, made);
    }
    hand_over(&mut r, 0, "/beside", 1);
    hand_over(&mut r, 0, "/top/d", 1);
    hand_over(&mut r, 1, "/top/d/far", 2);
    for (op, path, left) in
        [(MdsOp::MKSNAP, "top/d//one", 1), (MdsOp::RMSNAP, "top/d//one", 0), (MdsOp::MKSNAP, "top//two", 1)]
    {
        // Who has it hands it to rank 0, which asks for the rest.
        let tid = r.with(1, |w| w.start(A, request(op, path)));
        r.settle();
        let forward = r.with(1, |w| w.clients.get_mut(&A).expect("a").forwards.remove(&tid));
        assert_eq!(forward, Some((0, 1)), "{path}");
        assert_eq!(r.moves(0, request(op, path)).result, 0, "{path}");
        assert_eq!((r.authorities("/top/d/far"), r.authorities("/beside")), (vec![0], vec![1]), "{path}");
        let own = r.moves(0, request(MdsOp::LSSNAP, "top/d//"));
        let listing: ReaddirReply = wire::Reader::new(&own.extra).get().expect("a listing");
        assert_eq!(listing.entries.len(), left, "{path}");
    }
}

/// What changes the table of snapshots while a subtree is on its way does not concern it, and may not be
/// stored yet.
#[test]
fn a_subtree_arrives_while_the_table_of_snapshots_changes() {
    for seed in 0..20 {
        let mut r = Ranks::of(seed, 2);
        for made in [mkdir("top"), mkdir("beside"), create("beside/f", 2)] {
            r.ok(0, made);
        }
        assert_eq!(r.moves(0, request(MdsOp::MKSNAP, "top//one")).result, 0);
        r.export(0, "/beside", 1);
        for _ in 0..seed {
            r.step();
        }
        assert_eq!(r.moves(0, two(MdsOp::RENAMESNAP, "top//two", "top//one")).result, 0);
        r.settle();
        assert_eq!(r.authorities("/beside"), [1], "seed {seed}");
        assert_eq!(r.moves(0, request(MdsOp::MKSNAP, "top//three")).result, 0, "seed {seed}");
    }
}

/// Of a file with several names all snapshots count, also where another rank has it.
#[test]
fn a_snapshot_keeps_a_file_of_another_rank_that_has_a_name_in_it() {
    for seed in 0..20 {
        let mut r = Ranks::of(seed, 2);
        for made in [mkdir("top"), mkdir("beside"), create("beside/f", 2)] {
            r.ok(0, made);
        }
        r.ok(0, two(MdsOp::LINK, "top/name", "beside/f"));
        hand_over(&mut r, 0, "/beside", 1);
        // The client may write it.
        let opened = r.moves(1, open("beside/f", 2));
        let file = ino(&opened);
        assert_ne!(r.held(1)[&file] & cap::FILE_WR, 0, "seed {seed}");
        assert_eq!(r.moves(0, request(MdsOp::MKSNAP, "top//one")).result, 0);
        assert_eq!(r.authorities("/beside"), [1]);
        let realm = r.with(1, |w| w.clients[&A].realms.get(&fsfmt::Realm::GLOBAL.0).cloned());
        assert_eq!(realm.expect("it was told").1.len(), 1, "seed {seed}");
        assert_ne!(r.held(1)[&file] & cap::FILE_WR, 0, "it may write again: seed {seed}");
        assert_eq!(r.moves(1, setattr_mode("beside/f", 0o600)).result, 0);
        assert_eq!((mode(&mut r, 0, "top//one/name"), mode(&mut r, 0, "top/name")), (0o644, 0o600));
    }
}

/// What moves out of a directory with snapshots keeps them in a realm of its own. Rank 0 gives it a number.
#[test]
fn what_leaves_a_directory_with_snapshots_has_rank_0_note_it() {
    let mut r = snapped(6, 2);
    r.ok(0, mkdir("top/d/a"));
    assert_eq!(r.moves(0, request(MdsOp::MKSNAP, "top/d/a//three")).result, 0);
    hand_over(&mut r, 0, "/top/d", 1);
    r.ok(1, create("top/d/a/x", 1));
    let moved: ClientRequest = two(MdsOp::RENAME, "top/d/x", "top/d/a/x");
    let tid = r.with(1, |w| w.start(A, moved.clone()));
    r.settle();
    let forward = r.with(1, |w| w.clients.get_mut(&A).expect("a").forwards.remove(&tid));
    assert_eq!(forward, Some((0, 1)));
    r.ok(0, moved);
    assert_eq!(r.authorities("/top/d"), [0]);
    assert_eq!(list(&mut r, 0, "top/d"), ["a", "g", "sub", "x"].map(str::to_owned).into());
}

/// Rank 0 removes what a removed snapshot alone contained. Until then it keeps everything.
#[test]
fn nothing_leaves_rank_0_while_a_snapshot_is_trimmed() {
    let mut r = snapped(7, 2);
    hand_over(&mut r, 0, "/top/d", 1);
    unlink(&mut r, 1, "top/d/g");
    unlink(&mut r, 1, "top/d/sub/f");
    assert_eq!(r.moves(0, getattr("top//one/d/g", 0)).result, 0);
    let tid = r.with(0, |w| w.start(A, request(MdsOp::RMSNAP, "top//one")));
    while r.with(0, |w| !w.clients[&A].replies.contains_key(&tid)) {
        r.step();
    }
    let refused = r.with(0, |w| w.rank.export_dir("/top/d", None, MdsRank(1)));
    let (errno, why) = refused.expect_err("copies are being removed");
    assert_eq!((errno, why.contains("trimmed")), (Errno::EINVAL, true), "{why}");
    r.settle();
    // Everything is stored before.
    hand_over(&mut r, 0, "/top/d", 1);
    let is_copy = |key: &&Vec<u8>| key.contains(&0);
    let copies = r.objects().values().flat_map(|object| object.omap.keys()).filter(is_copy).count();
    assert_eq!(copies, 0);
}
