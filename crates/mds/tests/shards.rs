//! One directory that several ranks serve: fragments of it that move, and what is counted of them.

mod world;

use maps::MdsRank;
use mds::MdsOptions;
use msgs::{ClientRequest, MdsOp, cap};
use std::collections::BTreeSet;
use wire::Errno;
use world::client::{at_root, create, getattr, lookup, mkdir, request, setattr_mode, two};
use world::pair::ino;
use world::ranks::{A, Ranks};

/// `O_RDWR`.
const READ_WRITE: u32 = 2;
/// The second half of a directory, as administrators write it.
const HALF: &str = "800000/1";

/// A directory `d` with so many files, in two halves.
fn halves(seed: u64, ranks: u32, files: usize) -> Ranks {
    parts(seed, ranks, files, 1)
}

/// The same, in 2^`bits` parts.
fn parts(seed: u64, ranks: u32, files: usize, bits: u32) -> Ranks {
    // What is split for a test stays so.
    let options = MdsOptions { merge_size: 0, ..MdsOptions::default() };
    let mut r = Ranks::with_options(seed, ranks, &options);
    r.ok(0, mkdir("d"));
    for file in 0..files {
        r.ok(0, create(&format!("d/f{file}"), READ_WRITE));
    }
    r.with(0, |w| w.rank.split_fragment("/d", "0/0", bits)).expect("it can be split");
    r.settle();
    r
}

fn export(r: &mut Ranks, from: usize, frag: &str, to: i32) {
    r.with(from, |w| {
        w.rank.export_dir("/d", Some(frag), MdsRank(to)).expect("it can be handed over");
        w.effects();
    });
    r.settle();
}

/// The shards that a rank knows, with the rank that has each.
fn shards(r: &Ranks, rank: usize) -> Vec<(String, i64)> {
    let list = r.worlds[rank].rank.subtree_list();
    let all = list.as_array().expect("a list").iter();
    let one = |one: &serde_json::Value| {
        let frag = one["dir"]["dirfrag"].as_str()?.split_once('.')?.1.to_owned();
        Some((frag, one["auth_first"].as_i64()?))
    };
    all.filter_map(one).collect()
}

/// Entries that a directory says it has.
fn counted(r: &mut Ranks, path: &str) -> (u64, u64) {
    let found = r.ask_for(0, getattr(path, cap::ANY_SHARED)).trace.target.expect("its attributes");
    (found.nfiles, found.nsubdirs)
}

fn names(range: std::ops::Range<usize>) -> BTreeSet<String> {
    range.map(|file| format!("f{file}")).collect()
}

/// The names of which the hash is in the second half.
fn is_in_half(name: &str) -> bool {
    fsfmt::DentryKey::new(name.as_bytes()).hash & 0x80_0000 != 0
}

#[test]
fn two_ranks_serve_one_directory() {
    let mut r = halves(1, 2, 20);
    let held = r.held(0);
    export(&mut r, 0, HALF, 1);
    for rank in 0..2 {
        assert_eq!(shards(&r, rank), [("1*".to_owned(), 1)], "rank {rank}");
    }
    assert_eq!(r.names("d"), Ok(names(0..20)));
    let (near, far): (Vec<usize>, Vec<usize>) = (0..40).partition(|file| !is_in_half(&format!("f{file}")));
    for (rank, files) in [(0, &near), (1, &far)] {
        for file in files {
            let path = format!("d/f{file}");
            let flags = if *file < 20 { getattr(&path, 0) } else { create(&path, READ_WRITE) };
            let reply = r.ok(rank, flags);
            if let Some(dentry) = reply.trace.dentry {
                let auth = if rank == 1 { 1 } else { -1 };
                assert_eq!(dentry.dir_stat.auth, auth, "clients learn who has the fragment");
                assert_eq!((dentry.dir.cap.cap_id == 0), rank == 1, "one rank gives the directory's");
            }
            assert_eq!(r.forwarded(1 - rank, lookup(&path)).0, rank as i32, "{path}");
        }
    }
    for (ino, caps) in held.iter().filter(|(ino, _)| **ino >= 1 << 40) {
        let here = r.held(0).get(ino).or(r.held(1).get(ino)).copied();
        let is_dir = *ino == 1 << 40;
        assert!(is_dir || here == Some(*caps), "what a client holds goes along: {ino:x}");
    }
    r.idle(10);
    assert_eq!(counted(&mut r, "d"), (40, 0));
    assert_eq!(r.names("d"), Ok(names(0..40)));

    for file in &far[..5] {
        r.ok(1, request(MdsOp::UNLINK, &format!("d/f{file}")));
    }
    r.idle(10);
    assert_eq!(counted(&mut r, "d").0, 35);
    assert_eq!(r.ask(0, request(MdsOp::RMDIR, "d")), Errno::ENOTEMPTY.to_result_code());
}

/// While some of a directory is elsewhere, nobody may rely on what was listed of it.
#[test]
fn no_client_relies_on_a_directory_with_shards() {
    let mut r = halves(2, 2, 8);
    let d = ino(&r.ok(0, getattr("d", cap::ANY_SHARED)));
    assert_ne!(r.held(0)[&d] & cap::FILE_SHARED, 0);
    export(&mut r, 0, HALF, 1);
    let kept = cap::FILE_SHARED | cap::FILE_EXCL | cap::AUTH_EXCL;
    assert_eq!(r.held(0)[&d] & kept, 0, "it was taken back");
    r.ok(0, getattr("d", cap::ANY_SHARED));
    let near = (8..).map(|file| format!("f{file}")).find(|name| !is_in_half(name)).expect("one");
    r.ok(0, create(&format!("d/{near}"), READ_WRITE));
    assert_eq!(r.held(0)[&d] & kept, 0, "and is not given again");
    export(&mut r, 1, HALF, 0);
    assert_eq!(shards(&r, 0), []);
    r.ok(0, getattr("d", cap::ANY_SHARED));
    assert_ne!(r.held(0)[&d] & cap::FILE_SHARED, 0, "until it is whole again");
}

/// A name in a shard may lead to a file that the rank of the directory has.
#[test]
fn a_shard_with_a_hard_link_to_a_file_of_another_rank_is_listed() {
    for frag in [HALF, "0/0"] {
        let mut r = halves(3, 2, 4);
        if frag != HALF {
            r.with(0, |w| w.rank.join_fragments("/d", "0/0")).expect("they can be joined");
            r.settle();
        }
        r.ok(0, create("file", READ_WRITE));
        let name = (4..).map(|file| format!("f{file}")).find(|name| is_in_half(name)).expect("one");
        r.ok(0, two(MdsOp::LINK, &format!("d/{name}"), "file"));
        r.settle();
        export(&mut r, 0, frag, 1);
        let mut expected = names(0..4);
        expected.insert(name);
        assert_eq!(r.names("d"), Ok(expected), "{frag}");
    }
}

/// What is counted of a shard stays so when it joins its directory, and when it becomes one again.
#[test]
fn counts_stay_exact_while_shards_come_and_go() {
    for seed in 0..10 {
        let mut r = halves(100 + seed, 3, 16);
        let mut file = 16;
        for round in 0..6 {
            let at = shards(&r, 0).first().map_or(0, |(_, rank)| *rank as usize);
            let to = r.rng.below(3) as i32;
            if to as usize != at {
                export(&mut r, at, HALF, to);
            }
            for _ in 0..4 {
                assert_eq!(r.ask(0, create(&format!("d/f{file}"), READ_WRITE)), 0);
                let dir = format!("d/s{file}");
                assert_eq!(
                    (r.ask(1, mkdir(&dir)), r.ask(2, create(&format!("{dir}/x"), READ_WRITE))),
                    (0, 0)
                );
                assert_eq!(r.ask(0, request(MdsOp::UNLINK, &format!("{dir}/x"))), 0);
                assert_eq!(r.ask(0, request(MdsOp::RMDIR, &dir)), 0);
                file += 1;
            }
            if r.rng.chance(1, 2) {
                let rank = r.any();
                r.crash(rank);
            }
            r.idle(15);
            assert_eq!(counted(&mut r, "d"), (file as u64, 0), "seed {seed}, round {round}");
            assert_eq!(r.names("d"), Ok(names(0..file)), "seed {seed}, round {round}");
        }
    }
}

/// What concerns the directory itself, or two of its parts, brings them together.
#[test]
fn shards_join_their_directory_for_what_needs_all_of_it() {
    let all = [
        ("setgid", setattr_mode("d", 0o2755)),
        ("rename", ClientRequest { path2: at_root("d"), ..request(MdsOp::RENAME, "e") }),
    ];
    for (what, request) in all {
        let mut r = halves(3, 2, 8);
        export(&mut r, 0, HALF, 1);
        assert_eq!(r.ask(0, request), 0, "{what}");
        r.settle();
        assert_eq!((shards(&r, 0), shards(&r, 1)), (vec![], vec![]), "{what}");
    }
    let mut r = halves(4, 2, 0);
    export(&mut r, 0, HALF, 1);
    let far = (0..).map(|file| format!("d/f{file}")).find(|path| is_in_half(&path[2..])).expect("one");
    r.ok(1, create(&far, READ_WRITE));
    assert_eq!(r.ask(0, request(MdsOp::RMDIR, "d")), Errno::ENOTEMPTY.to_result_code());
    let near = (0..).map(|file| format!("d/g{file}")).find(|path| !is_in_half(&path[2..])).expect("one");
    export(&mut r, 0, HALF, 1);
    assert_eq!(r.ask(1, ClientRequest { path2: at_root(&far), ..request(MdsOp::RENAME, &near) }), 0);
    assert_eq!(r.ask(0, request(MdsOp::UNLINK, &near)), 0);
    export(&mut r, 0, HALF, 1);
    assert_eq!(r.ask(1, request(MdsOp::RMDIR, "d")), 0, "it is empty");
    r.settle();
    assert_eq!(shards(&r, 0), []);
    assert_eq!(r.with(0, |w| w.names(A, "")), Ok(BTreeSet::new()));
}

/// Whoever dies on the way: the shard is one rank's in the end, and everything is there.
#[test]
fn a_shard_arrives_whoever_dies() {
    for seed in 0..60 {
        let mut r = halves(1000 + seed, 2, 12);
        r.with(0, |w| {
            w.rank.export_dir("/d", Some(HALF), MdsRank(1)).expect("it can be handed over");
            w.effects();
        });
        for _ in 0..2 {
            (0..r.rng.below(40)).for_each(|_| r.step());
            let rank = r.any();
            r.crash(rank);
        }
        for file in 12..24 {
            assert_eq!(r.ask(file % 2, create(&format!("d/f{file}"), READ_WRITE)), 0, "seed {seed}");
        }
        r.idle(20);
        assert_eq!(shards(&r, 0), shards(&r, 1), "seed {seed}");
        assert_eq!(counted(&mut r, "d"), (24, 0), "seed {seed}");
        assert_eq!(r.names("d"), Ok(names(0..24)), "seed {seed}");
    }
}

/// Parts of one directory leave together, also to several ranks; whoever dies on the way, each is one rank's
/// in the end.
#[test]
fn shards_of_one_directory_leave_together() {
    let quarters = [("400000/2", 1), ("800000/2", 1), ("c00000/2", 2)];
    for seed in 0..60 {
        let mut r = parts(2000 + seed, 3, 12, 2);
        r.with(0, |w| {
            for (frag, to) in quarters {
                w.rank.export_dir("/d", Some(frag), MdsRank(to)).expect("they leave together");
            }
            w.effects();
        });
        if seed > 0 {
            (0..r.rng.below(60)).for_each(|_| r.step());
            let rank = r.any();
            r.crash(rank);
        } else {
            r.settle();
            let expected = [("01*", 1), ("10*", 1), ("11*", 2)].map(|(frag, rank)| (frag.to_owned(), rank));
            assert_eq!(shards(&r, 0), expected);
        }
        for file in 12..24 {
            assert_eq!(r.ask(file % 3, create(&format!("d/f{file}"), READ_WRITE)), 0, "seed {seed}");
        }
        r.idle(20);
        assert!((1..3).all(|rank| shards(&r, 0) == shards(&r, rank)), "seed {seed}");
        assert_eq!(counted(&mut r, "d"), (24, 0), "seed {seed}");
        assert_eq!(r.names("d"), Ok(names(0..24)), "seed {seed}");
    }
}

/// Only parts of the same directory do: what is below one of them could be in another.
#[test]
fn a_shard_leaves_with_no_other_directory() {
    let mut r = halves(5, 2, 0);
    r.ok(0, mkdir("e"));
    r.with(0, |w| {
        w.rank.export_dir("/d", Some(HALF), MdsRank(1)).expect("it can be handed over");
        w.rank.export_dir("/e", None, MdsRank(1)).expect_err("another one is on its way");
        w.rank.export_dir("/d", Some(HALF), MdsRank(1)).expect_err("it is leaving");
        w.effects();
    });
    r.settle();
    assert_eq!((shards(&r, 0).len(), r.authorities("/e")), (1, vec![0]));
}

/// A rank knows which other one has a shard before it knows the directory.
#[test]
fn a_file_in_a_shard_is_found_by_its_number() {
    let mut r = halves(81, 3, 20);
    let name = names(0..20).into_iter().find(|name| is_in_half(name)).expect("one is in there");
    let file = ino(&r.ok(0, getattr(&format!("d/{name}"), 0)));
    export(&mut r, 0, HALF, 1);
    for rank in 0..2 {
        r.with(rank, world::fragments::flush);
    }
    let path = msgs::FilePath { ino: file, path: Vec::new() };
    assert_eq!(r.forwarded(2, ClientRequest { path, ..getattr("", 0) }).0, 1);
}
