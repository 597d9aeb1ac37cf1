//! Recursive statistics and quotas across the borders of subtrees that several ranks have.

mod world;

use msgs::{ClientRequest, MdsOp, cap};
use world::client::{create, getattr, mkdir, request, setattr_size, setxattr};
use world::ranks::{A, Ranks};

/// What a directory amounts to: bytes, files, directories.
fn stat(r: &mut Ranks, path: &str) -> (u64, u64, u64) {
    let reply = r.ask_for(0, getattr(path, cap::ANY_SHARED));
    assert_eq!(reply.result, 0, "getattr {path}");
    let stat = reply.trace.target.expect("a target");
    (stat.rbytes, stat.rfiles, stat.rsubdirs)
}

fn ask(r: &mut Ranks, request: ClientRequest) {
    let what = format!("{} {}", request.op, String::from_utf8_lossy(&request.path.path));
    assert_eq!(r.ask(0, request), 0, "{what}");
}

fn moves(r: &mut Ranks, path: &str, from: usize, to: usize) {
    r.export(from, path, to as i32);
    r.settle();
    assert_eq!(r.authorities(path), [to]);
}

/// `a/b` is rank 1's, and `a/b/c` rank 2's; `a` is rank 0's.
fn nested(seed: u64) -> Ranks {
    let mut r = Ranks::of(seed, 3);
    for dir in ["a", "a/b", "a/b/c"] {
        ask(&mut r, mkdir(dir));
    }
    moves(&mut r, "/a/b", 0, 1);
    moves(&mut r, "/a/b/c", 1, 2);
    r.idle(10);
    r
}

#[test]
fn what_changes_in_a_subtree_is_counted_above_it() {
    let mut r = nested(1);
    assert_eq!(
        [stat(&mut r, "a"), stat(&mut r, "a/b"), stat(&mut r, "a/b/c")],
        [(0, 0, 3), (0, 0, 2), (0, 0, 1)]
    );
    for r1 in [create("a/b/c/f", 2), setattr_size("a/b/c/f", 1000), mkdir("a/b/c/d"), create("a/b/g", 2)] {
        ask(&mut r, r1);
    }
    r.idle(20);
    assert_eq!(stat(&mut r, "a/b"), (1000, 2, 3));
    assert_eq!(stat(&mut r, "a"), (1000, 2, 4));
    assert_eq!(stat(&mut r, ""), (1000, 2, 5));
    // What is as it was when it left counts as it did then.
    for r1 in [request(MdsOp::UNLINK, "a/b/c/f"), request(MdsOp::RMDIR, "a/b/c/d")] {
        ask(&mut r, r1);
    }
    r.idle(20);
    assert_eq!(stat(&mut r, "a"), (0, 1, 3));
}

/// What is counted is known to whoever has the directory above, and when the subtree comes back.
#[test]
fn what_is_counted_moves_with_the_directory_that_counts_it() {
    for seed in 0..20 {
        let mut r = nested(seed);
        for n in 0..4 {
            ask(&mut r, create(&format!("a/b/c/{n}"), 2));
        }
        // Some of it is counted, some is not.
        for _ in 0..r.rng.below(400) {
            r.step();
        }
        match seed % 5 {
            // It comes to the directory above; that one comes to it; that one moves away, and then it comes.
            0 => moves(&mut r, "/a/b/c", 2, 1),
            1 => moves(&mut r, "/a/b", 1, 2),
            2 => {
                moves(&mut r, "/a/b", 1, 0);
                moves(&mut r, "/a/b/c", 2, 0);
            }
            // It moves on.
            3 => moves(&mut r, "/a/b/c", 2, 0),
            _ => (0..3).for_each(|rank| r.crash(rank)),
        }
        for n in 4..6 {
            ask(&mut r, create(&format!("a/b/c/{n}"), 2));
        }
        ask(&mut r, request(MdsOp::UNLINK, "a/b/c/0"));
        if seed % 2 == 0 {
            let rank = r.any();
            r.crash(rank);
        }
        r.idle(30);
        assert_eq!(stat(&mut r, "a/b/c"), (0, 5, 1), "seed {seed}");
        assert_eq!(stat(&mut r, "a/b"), (0, 5, 2), "seed {seed}");
        assert_eq!(stat(&mut r, "a"), (0, 5, 3), "seed {seed}");
        // Nothing is counted twice when all of it is one subtree again.
        let at = r.authorities("/a/b/c")[0];
        for (path, at) in [("/a/b/c", at), ("/a/b", r.authorities("/a/b")[0])] {
            if at != 0 && r.authorities(path) != [0] {
                moves(&mut r, path, at, 0);
            }
        }
        r.idle(30);
        assert_eq!(stat(&mut r, "a"), (0, 5, 3), "seed {seed}");
        assert_eq!(stat(&mut r, ""), (0, 5, 4), "seed {seed}");
    }
}

/// A quota limits what is below it in all ranks.
#[test]
fn a_quota_counts_what_is_in_subtrees_of_other_ranks() {
    let mut r = nested(1);
    ask(&mut r, setxattr("a", "ceph.quota", b"max_files=8 max_bytes=1000"));
    r.settle();
    let a = world::pair::ino(&r.ask_for(0, getattr("a", 0)));
    // Setting it has brought everything together.
    moves(&mut r, "/a/b", 0, 1);
    for n in 0..4 {
        ask(&mut r, create(&format!("a/b/{n}"), 2));
    }
    ask(&mut r, setattr_size("a/b/0", 999));
    r.idle(20);
    let told = r.worlds[0].clients[&A].quotas[&a].clone();
    assert_eq!((told.rbytes, told.rfiles, told.rsubdirs), (999, 4, 3), "clients hear of it");
    let full = wire::Errno::EDQUOT.to_result_code();
    ask(&mut r, create("a/last", 2));
    r.idle(20);
    assert_eq!(r.ask(0, create("a/more", 2)), full);
    assert_eq!(r.ask(0, create("a/b/more", 2)), full, "also where the rank does not have the quota");
    ask(&mut r, request(MdsOp::UNLINK, "a/last"));
    r.idle(20);
    ask(&mut r, create("a/b/more", 2));
}
