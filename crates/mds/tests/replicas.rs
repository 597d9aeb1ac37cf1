//! Replicas of directories: several ranks answer what only reads, until something changes.

mod world;

use msgs::{ClientReply, ClientRequest, FilePath, MdsOp, cap};
use std::collections::BTreeSet;
use std::time::Duration;
use world::client::{getattr, lookup, lookup_in as name_in, mkdir, request, setattr_mode, two};
use world::ranks::{A, Ranks};

/// A directory `/d` of rank 0 with files, a directory and an absent name, and its number.
fn directory(seed: u64, ranks: u32) -> (Ranks, u64) {
    let mut r = Ranks::of(seed, ranks);
    let dir = r.ok(0, mkdir("d")).trace.target.expect("it was made").ino;
    for file in ["d/f", "d/g", "d/h"] {
        r.ok(0, request(MdsOp::MKNOD, file));
    }
    r.ok(0, mkdir("d/s"));
    r.ok(0, lookup("d/f"));
    r.settle();
    (r, dir)
}

/// The same, and the other ranks have replicas of it.
fn replicated(seed: u64, ranks: u32) -> (Ranks, u64) {
    let (mut r, dir) = directory(seed, ranks);
    replicate(&mut r);
    (r, dir)
}

fn replicate(r: &mut Ranks) {
    r.with(0, |w| {
        w.rank.replicate_dir("/d").expect("it may have replicas");
        w.effects();
    });
    r.settle();
}

fn by_ino(ino: u64, op: MdsOp) -> ClientRequest {
    let path = FilePath { ino, path: Vec::new() };
    match op {
        MdsOp::OPEN => ClientRequest { path, ..world::client::open("", 0) },
        _ => ClientRequest { path, ..getattr("", 0) },
    }
}

fn dist(reply: &ClientReply) -> BTreeSet<i32> {
    reply.trace.dentry.as_ref().expect("a name was asked for").dir_stat.dist.clone()
}

#[test]
fn all_ranks_answer_what_only_reads() {
    for ranks in [2, 3] {
        let (mut r, dir) = replicated(1, ranks);
        let all: BTreeSet<i32> = (0..ranks as i32).collect();
        assert_eq!(dist(&r.ok(0, name_in(dir, "f"))), all, "clients hear of it");
        for rank in 1..ranks as usize {
            let reply = r.ok(rank, name_in(dir, "f"));
            assert_eq!(dist(&reply), all);
            let file = reply.trace.target.expect("a file");
            assert_eq!(file.cap.flags & 1, 0, "who wants to change it asks another rank");
            assert_eq!(file.cap.caps & cap::ANY_SHARED, cap::ANY_SHARED & !cap::FILE_EXCL);
            let opened = r.ok(rank, by_ino(file.ino, MdsOp::OPEN)).trace.target.expect("a file");
            assert_ne!(opened.cap.caps & cap::FILE_CACHE, 0, "and kept in the client's cache");
            assert_eq!(opened.cap.caps & (cap::FILE_WR | cap::FILE_BUFFER | cap::FILE_EXCL), 0);
            r.ok(rank, by_ino(file.ino, MdsOp::GETATTR));
            // Nothing would tell the client that it is there by now.
            assert_eq!(r.forwarded(rank, name_in(dir, "absent")).0, 0);
            // What is below has its own changes.
            assert_eq!(r.forwarded(rank, name_in(dir, "s")).0, 0);
            assert_eq!(r.forwarded(rank, mkdir("d/new")).0, 0);
        }
    }
}

/// A change waits until nobody relies on a replica any more.
#[test]
fn a_change_has_the_replicas_given_back_first() {
    let changes: [(&str, ClientRequest); 7] = [
        ("mode of a file", setattr_mode("d/f", 0o600)),
        ("mode of the directory", setattr_mode("d", 0o700)),
        ("a new name", request(MdsOp::MKNOD, "d/new")),
        ("a name less", request(MdsOp::UNLINK, "d/g")),
        ("another name of the directory", two(MdsOp::RENAME, "e", "d")),
        ("a file that is opened to write", world::client::open("d/f", 2)),
        ("a link", two(MdsOp::LINK, "link", "d/f")),
    ];
    for (what, change) in changes {
        let (mut r, dir) = replicated(7, 3);
        for rank in [1, 2] {
            let file = r.ok(rank, name_in(dir, "f")).trace.target.expect("a file").ino;
            r.ok(rank, by_ino(file, MdsOp::OPEN));
            assert_ne!(r.held(rank).get(&file).copied().unwrap_or_default() & cap::FILE_CACHE, 0);
        }
        let reply = r.moves(0, change);
        assert_eq!(reply.result, 0, "{what}");
        for rank in [1, 2] {
            assert!(r.held(rank).is_empty(), "{what}: {:x?} is held of rank {rank}", r.held(rank));
            let reply = r.ask_for(rank, name_in(dir, "h"));
            assert!(reply.result == 0 && dist(&reply).is_empty(), "{what}: rank 0 alone answers");
        }
        let has_record = |key: &Vec<u8>| key.starts_with(b"replica.");
        let partition = r.objects().iter().filter(|(id, _)| format!("{id:?}").contains("mds_partition"));
        assert!(partition.flat_map(|(_, object)| object.omap.keys()).all(|key| !has_record(key)), "{what}");
    }
}

/// What goes on below is no change of the directory.
#[test]
fn work_in_a_directory_below_leaves_the_replicas_alone() {
    let (mut r, dir) = replicated(3, 2);
    r.ok(0, request(MdsOp::MKNOD, "d/s/file"));
    r.ok(0, mkdir("d/s/dir"));
    r.ok(0, request(MdsOp::UNLINK, "d/s/file"));
    r.idle(10);
    r.ok(1, name_in(dir, "f"));
    assert_eq!(dist(&r.ok(0, name_in(dir, "f"))).len(), 2);
}

#[test]
fn a_directory_with_replicas_moves_and_stops_with_its_rank() {
    let (mut r, dir) = replicated(11, 3);
    r.ok(1, name_in(dir, "f"));
    for _ in 0..10 {
        if r.with(0, |w| w.rank.export_dir("/d", None, maps::MdsRank(1)).is_ok()) {
            break;
        }
        r.settle();
    }
    r.settle();
    assert_eq!(r.authorities("/d"), [1]);
    assert!(dist(&r.ask_for(2, name_in(dir, "f"))).is_empty());
    r.with(1, |w| {
        w.rank.replicate_dir("/d").expect("it may have replicas");
        w.effects();
    });
    r.settle();
    r.ok(2, name_in(dir, "f"));
    r.stop();
    r.until_stopped();
    assert!(r.held(2).is_empty());
    r.ok(1, name_in(dir, "f"));
    assert_eq!(dist(&r.ok(1, name_in(dir, "f"))), [0, 1].into());
}

/// Who asks again and again for what has replicas keeps no processor busy until they are given back.
#[test]
fn a_directory_that_cannot_leave_yet_is_not_looked_at_all_the_time() {
    let (mut r, _) = replicated(13, 3);
    r.with(0, |w| {
        for attempt in 0..3 {
            w.rank.export_dir("/d", None, maps::MdsRank(1)).expect_err("others have replicas");
            assert!(attempt == 0 || w.rank.deadline() > w.now.mono, "attempt {attempt}");
            // What is asked of the others is not delivered.
            w.advance(Duration::from_micros(1));
        }
    });
}

/// Whoever of them dies: nothing changes as long as a client may rely on a replica.
#[test]
fn replicas_are_given_back_after_a_crash() {
    for (seed, dies) in [(21, &[0][..]), (22, &[1]), (23, &[2]), (24, &[0, 1]), (25, &[1, 0, 2])] {
        let (mut r, dir) = replicated(seed, 3);
        let file = r.ok(1, name_in(dir, "f")).trace.target.expect("a file").ino;
        r.ok(2, name_in(dir, "f"));
        for rank in dies {
            r.crash(*rank);
        }
        r.settle();
        let reply = r.ask_for(0, setattr_mode("d/f", 0o640));
        assert_eq!(reply.result, 0, "{dies:?}");
        r.settle();
        for rank in [1, 2] {
            let held = r.held(rank).get(&file).copied().unwrap_or_default();
            assert_eq!(held, 0, "{dies:?}: {held:x} is held of rank {rank}");
        }
        assert_eq!(r.ok(0, name_in(dir, "f")).trace.target.expect("a file").mode & 0o777, 0o640);
        replicate(&mut r);
        assert_eq!(r.ok(1, name_in(dir, "f")).trace.target.expect("a file").mode & 0o777, 0o640, "{dies:?}");
    }
}

/// A client that writes keeps what it has: the directory gets no replicas.
#[test]
fn who_writes_a_file_goes_on() {
    let (mut r, dir) = directory(31, 2);
    r.ok(0, world::client::create("d/log", 2));
    r.with(0, |w| {
        w.rank.replicate_dir("/d").expect("it is tried");
        w.effects();
    });
    r.idle(6);
    assert!(dist(&r.ask_for(1, name_in(dir, "f"))).is_empty());
}

/// Several directories with replicas, one in the other, and one that is the root of a subtree: each is given
/// back alone, with what clients have open.
#[test]
fn replicas_of_nested_directories_are_given_back_one_by_one() {
    for (seed, moves) in [(41, false), (42, true)] {
        let (mut r, dir) = directory(seed, 3);
        r.ok(0, request(MdsOp::MKNOD, "d/s/f"));
        r.ok(0, mkdir("d/s/t"));
        r.ok(0, request(MdsOp::MKNOD, "d/s/t/f"));
        let owner = usize::from(moves);
        if moves {
            r.export(0, "/d", 1);
            r.settle();
        }
        let number = |r: &mut Ranks, path: &str| {
            r.ask_for(owner, getattr(path, 0)).trace.target.expect("it is there").ino
        };
        let dirs = [("/d", dir), ("/d/s", number(&mut r, "d/s")), ("/d/s/t", number(&mut r, "d/s/t"))];
        for (path, _) in dirs {
            r.with(owner, |w| {
                w.rank.replicate_dir(path).expect("it may have replicas");
                w.effects();
            });
            r.settle();
        }
        let mut files = Vec::new();
        for (_, dir) in dirs {
            let file = r.ok(2, name_in(dir, "f")).trace.target.expect("a file").ino;
            r.ok(2, by_ino(file, MdsOp::OPEN));
            files.push(file);
        }
        // The innermost first, then the outermost.
        for n in [2, 0, 1] {
            let path = format!("{}/f", dirs[n].0.trim_start_matches('/'));
            let reply = r.ask_for(owner, setattr_mode(&path, 0o600));
            assert_eq!(reply.result, 0, "{path}");
            r.settle();
            assert_eq!(r.held(2).get(&files[n]).copied().unwrap_or_default(), 0, "{path} is the authority's");
            assert_ne!(r.held(owner).get(&files[n]).copied(), None, "{path}: who has it open keeps it");
        }
        assert_eq!(dirs.len(), files.len());
    }
}

/// A file that a rank knows by another name, and one that it is looking for, when a replica comes.
#[test]
fn a_replica_shows_what_was_moved_into_the_directory() {
    let (mut r, dir) = directory(51, 2);
    r.ok(0, mkdir("e"));
    let file = r.ok(0, request(MdsOp::MKNOD, "e/x")).trace.target.expect("a file").ino;
    r.with(0, world::fragments::flush);
    // Rank 1 looks the inode up by its number.
    r.ask_for(1, by_ino(file, MdsOp::GETATTR));
    r.ok(0, two(MdsOp::RENAME, "d/x", "e/x"));
    replicate(&mut r);
    assert_eq!(r.ok(1, name_in(dir, "x")).trace.target.expect("a file").ino, file);
}

/// An unlinked file stays for who has it open through a replica.
#[test]
fn an_open_file_outlives_its_name() {
    let (mut r, dir) = replicated(61, 3);
    let file = r.ok(1, name_in(dir, "f")).trace.target.expect("a file").ino;
    r.ok(1, by_ino(file, MdsOp::OPEN));
    assert_eq!(r.ask(0, request(MdsOp::UNLINK, "d/f")), 0);
    r.idle(30);
    assert_eq!(r.ask(0, by_ino(file, MdsOp::GETATTR)), 0, "it is not purged");
}

/// A subtree in the directory goes back to the rank of the directory.
#[test]
fn a_replica_keeps_the_name_of_a_subtree_that_leaves() {
    let (mut r, dir) = directory(71, 2);
    let sub = r.ok(0, name_in(dir, "s")).trace.target.expect("a directory").ino;
    r.with(0, |w| w.rank.export_dir("/d/s", None, maps::MdsRank(1)).expect("it may leave"));
    r.settle();
    assert_eq!(r.authorities("/d/s"), [1]);
    replicate(&mut r);
    r.ok(1, name_in(dir, "f"));
    r.with(1, |w| w.rank.export_dir("/d/s", None, maps::MdsRank(0)).expect("it may go back"));
    r.settle();
    assert_eq!(r.authorities("/d/s"), [0]);
    assert_eq!(r.forwarded(1, by_ino(sub, MdsOp::GETATTR)).0, 0, "who has it now is known");
    assert_eq!(r.forwarded(1, name_in(dir, "s")).0, 0);
    r.ok(1, name_in(dir, "f"));
}

/// Clients look at far more of another rank's than the cache holds: through replicas as long as these fit
/// their part of it, then at the other rank.
#[test]
fn a_rank_with_replicas_of_many_inodes_keeps_its_limit() {
    const DIRS: usize = 30;
    const FILES: usize = 200;
    const LIMIT: usize = 2000;
    let mut r = Ranks::of(11, 2);
    r.with(1, |w| w.cfg.options.cache_inodes = LIMIT);
    r.crash(1);
    r.settle();
    let (mut largest, mut answered) = (0, 0);
    for d in 0..DIRS {
        let dir = r.ok(0, mkdir(&format!("d{d}"))).trace.target.expect("it was made").ino;
        (0..FILES).for_each(|n| drop(r.ok(0, request(MdsOp::MKNOD, &format!("d{d}/f{n}")))));
        r.with(0, |w| {
            w.give_everything_back(A);
            w.rank.replicate_dir(&format!("/d{d}")).expect("it may have replicas");
            w.effects();
        });
        r.settle();
        for n in 0..FILES {
            let (rank, reply) = r.ask_at(1, name_in(dir, &format!("f{n}")));
            assert_eq!(reply.result, 0);
            answered += rank;
            largest = largest.max(r.worlds[1].rank.stats().entries);
        }
        (0..2).for_each(|rank| r.with(rank, |w| w.give_everything_back(A)));
    }
    assert!(largest <= LIMIT, "{largest} entries");
    assert!((FILES..=LIMIT / 4).contains(&answered), "rank 1 answered {answered} by its replicas");
}
