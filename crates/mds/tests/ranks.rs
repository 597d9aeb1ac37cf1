//! Several ranks with the same objects: subtrees that move, whoever dies meanwhile.

mod world;

use maps::MdsRank;
use mds::{MdsOptions, Stage};
use msgs::{ClientCaps, ClientRequest, MdsOp, cap, cap_op};
use std::collections::{BTreeMap, BTreeSet};
use world::World;
use world::client::{asynchronous, create, getattr, lookup, lookup_in, mkdir, request};
use world::fragments::flush;
use world::pair::{B, ino};
use world::ranks::{A, Ranks};

/// `O_RDWR`.
const READ_WRITE: u32 = 2;

#[test]
fn a_subtree_moves_with_what_clients_hold_in_it() {
    let mut r = Ranks::new(1);
    r.ok(0, mkdir("d"));
    r.ok(0, mkdir("d/sub"));
    let file = ino(&r.ok(0, create("d/sub/f", READ_WRITE)));
    let before = r.held(0);
    assert!(before[&file] & cap::FILE_WR != 0);
    r.export(0, "/d", 1);
    r.settle();
    assert_eq!((r.authorities("/d"), r.authorities("/")), (vec![1], vec![0]));
    let (left, here) = (r.held(0), r.held(1));
    assert_eq!(left.keys().copied().collect::<Vec<_>>(), [1], "the root alone is rank 0's");
    assert_eq!(here[&file], before[&file], "nothing is lost on the way");

    let [export, import] = [0, 1].map(|rank: usize| r.worlds[rank].clients[&A].moved[&file].clone());
    assert_eq!((export.op, import.op), (cap_op::EXPORT, cap_op::IMPORT));
    let msgs::CapBody::Peer(next) = export.body else { panic!("an export names the other side") };
    assert_eq!((next.cap_id, next.issue_seq, next.mseq), (import.cap_id, import.seq, import.migrate_seq));
    assert_eq!((next.mds, import.former.mds, import.former.cap_id), (1, 0, export.cap_id));
    assert_eq!(
        import.migrate_seq,
        import.former.mseq + 1,
        "clients take the greater one for the authority's"
    );

    assert_eq!(r.forwarded(0, getattr("d/sub/f", 0)), (1, 1));
    assert_eq!(r.forwarded(1, mkdir("e")), (0, 1));
    assert_eq!(r.forwarded(1, ClientRequest { num_fwd: 3, ..mkdir("e") }), (0, 4));
    let made = ino(&r.ok(1, create("d/g", READ_WRITE)));
    assert_eq!(made >> 40, 2, "each rank has numbers of its own");
    assert_eq!(ino(&r.ok(1, getattr("d/sub/f", 0))), file);
    let shown = r.ok(0, lookup("d"));
    assert_eq!(shown.trace.target.expect("a copy").cap.cap_id, 0, "only its own rank gives a capability");
    assert_eq!(r.with(0, |w| w.names(A, "")), Ok(BTreeSet::from(["d".to_owned()])));
}

#[test]
fn a_subtree_that_comes_back_is_part_of_the_one_around_it() {
    let mut r = Ranks::new(2);
    r.ok(0, mkdir("d"));
    r.export(0, "/d", 1);
    r.settle();
    r.ok(1, create("d/f", READ_WRITE));
    r.export(1, "/d", 0);
    r.settle();
    assert_eq!(r.authorities("/d"), [0]);
    for w in &r.worlds {
        assert_eq!(w.rank.subtree_list().as_array().map(Vec::len), Some(1), "there is no subtree any more");
    }
    assert_eq!(r.with(0, |w| w.names(A, "d")), Ok(BTreeSet::from(["f".to_owned()])));
    let left = |w: &World| w.objects.keys().any(|o| o.name.ends_with(".inode") && o.name.len() > 20);
    assert!(!r.worlds.iter().any(left), "nor is its root stored alone");
}

fn rename(from: &str, to: &str) -> ClientRequest {
    ClientRequest { path2: world::client::at_root(from), ..request(MdsOp::RENAME, to) }
}

/// Files that change, come and go while others go ahead are handed over as they are in the end.
#[test]
fn most_of_a_large_subtree_goes_ahead_of_it() {
    let mut r = Ranks::with_options(4, 2, &MdsOptions { handover_part: 3, ..MdsOptions::default() });
    for path in ["d", "d/sub", "e"] {
        r.ok(0, mkdir(path));
    }
    let files: Vec<u64> = (0..60).map(|n| ino(&r.ok(0, create(&format!("d/{n}"), READ_WRITE)))).collect();
    r.export(0, "/d", 1);
    let mut parts = Vec::new();
    while parts.len() < 4 {
        r.step();
        let goes_ahead = r.worlds[0].to_ranks.iter().filter_map(|(_, body)| match body {
            peer::Body::MdsHandAhead(m) => Some((m.part, m.entries.len())),
            _ => None,
        });
        let news = goes_ahead.filter(|one| !parts.contains(one)).collect::<Vec<_>>();
        parts.extend(news);
    }
    assert_eq!(parts, [(0, 3), (1, 3), (2, 3), (3, 3)]);
    let before = r.held(0);
    for change in [
        request(MdsOp::UNLINK, "d/0"),
        rename("d/1", "e/1"),
        rename("d/2", "d/sub/2"),
        rename("d/3", "d/4"),
        world::client::setattr_mode("d/5", 0o600),
        create("d/new", READ_WRITE),
    ] {
        assert_eq!(r.ask(0, change), 0);
    }
    assert_eq!(r.authorities("/d"), [0], "it has not left yet");
    r.settle();
    assert_eq!(r.authorities("/d"), [1]);
    let (left, here) = (r.held(0), r.held(1));
    assert!(left.contains_key(&files[1]), "it is in another directory");
    let inside: Vec<u64> = [2, 3].into_iter().chain(5..60).map(|n| files[n]).collect();
    for file in inside {
        assert_eq!(here.get(&file), before.get(&file), "{file:x} comes with what its client holds");
        assert!(!left.contains_key(&file));
    }
    assert!(!here.contains_key(&files[1]));
    let new = ino(&r.ok(1, getattr("d/new", 0)));
    assert!(here.contains_key(&new) && !left.contains_key(&new));
    assert_eq!(ino(&r.ok(1, getattr("d/4", 0))), files[3]);
    let mode = r.ok(1, getattr("d/5", 0)).trace.target.expect("the file").mode;
    assert_eq!(mode & 0o777, 0o600);
    let names: BTreeSet<String> =
        (4..60).map(|n| n.to_string()).chain(["new".into(), "sub".into()]).collect();
    assert_eq!((r.names("d"), r.names("d/sub")), (Ok(names), Ok(BTreeSet::from(["2".to_owned()]))));
    assert_eq!(r.with(1, |w| w.call(A, request(MdsOp::LOOKUP, "d/0"))).result, -2);
}

/// Operations in the rest go on meanwhile. Where it comes, all of it is one subtree.
#[test]
fn directories_of_a_large_subtree_leave_first() {
    let mut r = Ranks::with_options(5, 2, &MdsOptions { handover_most: 16, ..MdsOptions::default() });
    for path in ["d", "d/deep", "d/deep/4", "d/deep/5"] {
        r.ok(0, mkdir(path));
    }
    let dirs = ["d/0", "d/1", "d/2", "d/3", "d/deep/4", "d/deep/5"];
    for dir in dirs {
        r.with(0, |w| w.call(A, mkdir(dir)));
        (0..10).for_each(|n| drop(r.ok(0, create(&format!("{dir}/{n}"), READ_WRITE))));
    }
    r.export(0, "/d", 1);
    let (mut came, mut made) = (Vec::new(), None);
    while r.authorities("/d") != [1] {
        r.step();
        let here = |dir: &&str| r.authorities(&format!("/{dir}")) == [1];
        let news: Vec<&str> = dirs.into_iter().filter(here).filter(|dir| !came.contains(dir)).collect();
        if came.is_empty() && !news.is_empty() {
            let stays = dirs.into_iter().find(|dir| r.authorities(&format!("/{dir}")) == [0]);
            r.ok(0, create(&format!("{}/new", stays.expect("the rest follows")), READ_WRITE));
            made = stays;
        }
        came.extend(news);
    }
    r.settle();
    let roots = r.worlds[1].rank.subtree_list();
    let own = roots.as_array().expect("a list").iter().filter(|one| one["is_auth"] == true);
    let own: Vec<&str> = own.filter_map(|one| one["dir"]["path"].as_str()).collect();
    assert_eq!(own, ["/d"], "the parts are parts of it again");
    for dir in dirs {
        let count = 10 + usize::from(made == Some(dir));
        assert_eq!(r.names(dir).map(|names| names.len()), Ok(count), "{dir}");
    }
    assert!(r.held(0).keys().all(|ino| *ino == 1), "what clients hold came too: {:?}", r.held(0));
}

/// A rename between two parts, of which one has left, brings them together.
#[test]
fn a_rename_between_parts_of_a_large_subtree_does_not_keep_it_from_leaving() {
    let mut r = Ranks::with_options(6, 2, &MdsOptions { handover_most: 16, ..MdsOptions::default() });
    r.ok(0, mkdir("d"));
    for dir in ["d/0", "d/1", "d/2"] {
        r.ok(0, mkdir(dir));
        (0..10).for_each(|n| drop(r.ok(0, create(&format!("{dir}/{n}"), READ_WRITE))));
    }
    r.export(0, "/d", 1);
    while r.authorities("/d/0") != [1] {
        r.step();
    }
    let rename = ClientRequest { path2: world::client::at_root("d/0/1"), ..request(MdsOp::RENAME, "d/2/x") };
    assert_eq!(r.ask(0, rename), 0);
    r.idle(20);
    let all: Vec<_> = ["/d", "/d/0", "/d/1", "/d/2"].map(|path| r.authorities(path)).into();
    assert!(all.iter().all(|of| *of == all[0] && of.len() == 1), "{all:?}");
}

#[test]
fn operations_bring_together_what_they_need() {
    let mut r = Ranks::new(3);
    for path in ["d", "e", "d/sub"] {
        r.ok(0, mkdir(path));
    }
    let file = ino(&r.ok(0, create("d/sub/f", READ_WRITE)));
    r.export(0, "/d", 1);
    r.settle();
    // From the other rank, and then the directory above a subtree.
    let rename = |from: &str, to: &str| ClientRequest {
        path2: world::client::at_root(from),
        ..request(MdsOp::RENAME, to)
    };
    for (from, to) in [("d/sub/f", "e/f"), ("d", "e/d")] {
        assert_eq!(r.moves(0, rename(from, to)).result, 0, "{from} -> {to}");
        assert_eq!(r.authorities("/d"), [0]);
        if from != "d" {
            r.export(0, "/d", 1);
            r.settle();
        }
    }
    assert_eq!(ino(&r.ok(0, getattr("e/f", 0))), file);
    assert_eq!(r.with(0, |w| w.names(A, "e")), Ok(["d", "f"].map(str::to_owned).into()));
}

/// Whichever of the ranks dies at whichever moment of a migration: one of them has the subtree in the end,
/// with all that was in it and all that the client holds.
#[test]
fn a_migration_survives_the_death_of_either_rank_at_any_moment() {
    for seed in stdx::test_seeds("NACRE_RANKS", 120) {
        let mut r = Ranks::new(seed);
        r.ok(0, mkdir("d"));
        r.ok(0, mkdir("d/sub"));
        let file = ino(&r.ok(0, create("d/sub/f", READ_WRITE)));
        let writes = r.held(0)[&file] & (cap::FILE_WR | cap::FILE_BUFFER);
        if seed % 3 == 0 {
            // Back and forth.
            r.export(0, "/d", 1);
            r.settle();
        }
        let from = usize::from(seed % 3 == 0);
        r.export(from, "/d", 1 - from as i32);
        for _ in 0..seed / 2 {
            r.step();
        }
        let dies = r.rng.below(3) as usize;
        match dies {
            2 => (0..2).for_each(|rank| r.crash(rank)),
            rank => r.crash(rank),
        }
        r.settle();
        let has_it = r.authorities("/d");
        assert_eq!(has_it.len(), 1, "seed {seed}: {has_it:?}");
        let rank = has_it[0];
        assert_eq!(ino(&r.ok(rank, getattr("d/sub/f", 0))), file, "seed {seed}");
        let held: u32 = (0..2).filter_map(|rank| r.held(rank).get(&file).copied()).fold(0, |a, b| a | b);
        assert_eq!(held & writes, writes, "seed {seed}: the file is open still");
        assert!(!r.held(1 - rank).contains_key(&file), "seed {seed}: and by one rank");
        r.ok(rank, create("d/g", READ_WRITE));
        assert_eq!(r.forwarded(1 - rank, getattr("d/g", 0)).0, rank as i32, "seed {seed}");
    }
}

/// A client flushes at any moment of a migration. Whether that waits, or comes too late: one of the two
/// acknowledges it, also if the directory stays after all.
#[test]
fn a_flush_that_comes_while_a_directory_moves_is_not_lost() {
    let mut held_back = 0;
    for steps in 0..120 {
        let mut r = Ranks::new(700 + steps);
        r.ok(0, mkdir("d"));
        let f = ino(&r.ok(0, create("d/f", READ_WRITE)));
        r.export(0, "/d", 1);
        (0..steps).for_each(|_| r.step());
        if !r.held(0).contains_key(&f) {
            continue;
        }
        let former = r.worlds[0].clients[&A].held[&f].cap_id;
        r.with(0, |w| {
            let a = w.clients.get_mut(&A).expect("a");
            assert!(a.write_to(f, 500));
            let (tid, m) = a.update(f);
            w.send(A, tid, m);
        });
        if steps % 4 == 3 {
            // The other rank is not to get anything any more, unless the record says so already.
            r.stop();
            r.until_stopped();
        }
        r.settle();
        let rank = r.authorities("/d")[0];
        for (tid, m) in r.worlds[0].clients[&A].flushing.clone() {
            let held = &r.worlds[rank].clients[&A].held[&f];
            let (cap_id, seq, issue_seq) = (held.cap_id, held.seq, held.issue_seq);
            assert!(rank == 1 || cap_id != former, "{steps} steps: nothing tells the client to repeat it");
            held_back += 1;
            r.with(rank, |w| w.send(A, tid, ClientCaps { cap_id, seq, issue_seq, ..m }));
            r.settle();
            assert_eq!(r.worlds[rank].clients[&A].flush_acks, [tid], "{steps} steps");
        }
        let seen = r.ok(rank, getattr("d/f", cap::FILE_SHARED)).trace.target.expect("its attributes");
        assert_eq!(seen.size, 500, "{steps} steps");
    }
    assert!(held_back > 0, "some came while it was about to leave");
}

/// A client answers a revocation at any moment at which a subtree becomes part of another one that comes. It
/// hears nothing of that, so it says once what it has changed.
#[test]
fn what_a_client_gives_back_while_a_subtree_joins_another_is_not_lost() {
    for steps in 0..120 {
        let mut r = Ranks::new(900 + steps);
        r.ok(0, mkdir("d"));
        r.ok(0, mkdir("d/e"));
        r.export(0, "/d", 1);
        r.settle();
        r.export(1, "/d/e", 0);
        r.settle();
        let (rank, created) = r.ask_at(0, create("d/e/f", READ_WRITE));
        let f = ino(&created);
        assert_eq!(rank, 0);
        let path = msgs::FilePath { ino: f, path: Vec::new() };
        let asks = r.with(0, |w| {
            w.connect(B);
            let a = w.clients.get_mut(&A).expect("a");
            assert!(a.write_to(f, 500));
            a.keeps = Some(f);
            w.start(B, ClientRequest { path, ..getattr("", cap::FILE_SHARED) })
        });
        r.export(1, "/d", 0);
        (0..steps).for_each(|_| r.step());
        r.with(0, |w| {
            let a = w.clients.get_mut(&A).expect("a");
            assert!(a.unconfirmed.remove(&f), "something is revoked");
            a.keeps = None;
            let (tid, m) = a.update(f);
            w.send(A, tid, m);
        });
        r.settle();
        let answer = r.with(0, |w| w.reply(B, asks));
        assert_eq!(answer.trace.target.map(|target| target.size), Some(500), "{steps} steps");
        assert_eq!(r.authorities("/d/e"), [0], "{steps} steps");
    }
}

/// A rank tells the others what it has got. That may come when the subtree has long moved on, and is where
/// the message comes to.
#[test]
fn what_is_told_late_of_a_subtree_is_not_believed() {
    let mut r = Ranks::of(31, 3);
    r.ok(0, mkdir("d"));
    r.export(0, "/d", 1);
    let is_told =
        |(to, body): &(MdsRank, peer::Body)| *to == MdsRank(0) && matches!(body, peer::Body::MdsAuthority(_));
    let mut late = Vec::new();
    while late.is_empty() {
        r.step();
        late.extend(r.worlds[1].to_ranks.extract_if(.., |message| is_told(message)));
    }
    r.settle();
    for (from, to) in [(1, 2), (2, 0)] {
        r.export(from, "/d", to);
        r.settle();
        assert_eq!(r.authorities("/d"), [to as usize]);
    }
    r.ok(0, create("d/before", READ_WRITE));
    for (_, body) in late {
        let from = mds::RankPeer { rank: MdsRank(1), incarnation: 1 };
        r.with(0, |w| {
            w.rank.peer_message(w.now, from, body);
            w.effects();
        });
    }
    r.ok(0, create("d/after", READ_WRITE));
    r.settle();
    r.ok(0, create("d/later", READ_WRITE));
    assert_eq!(r.authorities("/d"), [0]);
}

/// A rank hands over a directory, and says who it thinks has what below. It may not have heard yet of what
/// has moved further down, into a subtree of the rank that gets it: that one knows better.
#[test]
fn what_is_in_own_subtrees_is_not_learned_from_who_hands_over_what_is_around() {
    let mut r = Ranks::of(35, 3);
    for dir in ["d", "d/own", "d/own/x"] {
        r.ok(0, mkdir(dir));
    }
    for (from, path, to) in [(0, "/d/own/x", 2), (0, "/d", 1), (1, "/d/own", 0)] {
        r.export(from, path, to);
        r.settle();
    }
    let found = ["/d", "/d/own", "/d/own/x"].map(|path| r.authorities(path));
    assert_eq!(found, [[1], [0], [2]]);
    // Rank 1 does not hear that this has become part of what rank 0 has.
    r.export(2, "/d/own/x", 0);
    let to_1 =
        |(to, body): &(MdsRank, peer::Body)| *to == MdsRank(1) && matches!(body, peer::Body::MdsAuthority(_));
    while r.authorities("/d/own/x") != [0] || r.worlds.iter().any(|w| !w.to_ranks.is_empty()) {
        r.step();
        r.worlds[0].to_ranks.retain(|message| !to_1(message));
    }
    r.ok(0, create("d/own/x/before", READ_WRITE));
    r.export(1, "/d", 0);
    r.settle();
    let found = ["/d", "/d/own", "/d/own/x"].map(|path| r.authorities(path));
    assert_eq!(found, [[0], [0], [0]]);
    r.ok(0, create("d/own/x/after", READ_WRITE));
}

/// What a client created asynchronously, and asks for again after a restart, has a number that only this rank
/// knows.
#[test]
fn a_directory_leaves_only_when_what_was_promised_in_it_is_carried_out() {
    for seed in 0..200 {
        let mut r = Ranks::new(5000 + seed);
        let d = r.ok(0, mkdir("d")).trace.target.expect("it was made").ino;
        let asked = r.with(0, |w| {
            assert_eq!(w.call(A, create("d/first", READ_WRITE)).result, 0);
            w.want_alone(A, d);
            assert_eq!(w.call(A, create("d/second", READ_WRITE)).result, 0);
            flush(w);
            let start = |n| {
                let (_, request) = w.clients.get_mut(&A).expect("a").create_async(&format!("d/{n}"));
                w.start(A, request)
            };
            (0..5).map(start).collect::<Vec<u64>>()
        });
        r.with(0, |w| {
            w.begin_replay();
            w.quiet();
            w.come_back(A);
        });
        r.tell_ranks();
        while r.worlds[0].rank.stage() != Stage::Active {
            r.step();
        }
        for _ in 0..100 {
            if r.with(0, |w| w.rank.export_dir("/d", None, MdsRank(1)).is_ok()) {
                break;
            }
            r.step();
        }
        r.settle();
        for tid in asked {
            assert_eq!(r.with(0, |w| w.reply(A, tid)).result, 0, "seed {seed}");
        }
    }
}

/// What comes into a subtree while that is about to leave goes with it.
#[test]
fn a_directory_leaves_only_when_what_comes_into_it_is_there() {
    for seed in 0..400 {
        let mut r = Ranks::new(3000 + seed);
        for dir in ["d", "d/x", "e"] {
            r.ok(0, mkdir(dir));
        }
        for dir in ["/d/x", "/e"] {
            r.export(0, dir, 1);
            r.settle();
        }
        (0..3).for_each(|n| assert_eq!(r.ask(1, create(&format!("d/x/{n}"), READ_WRITE)), 0));
        r.export(1, "/d/x", 0);
        (0..r.rng.below(60)).for_each(|_| r.step());
        let leaves = r.with(0, |w| w.rank.export_dir("/d", None, MdsRank(1)).is_ok());
        (0..r.rng.below(30)).for_each(|_| r.step());
        // Changes in what has come.
        assert_eq!(r.ask(0, create("d/x/more", READ_WRITE)), 0, "seed {seed}");
        r.settle();
        for dir in ["/d", "/d/x"] {
            assert_eq!(r.authorities(dir).len(), 1, "seed {seed}: {dir}, {leaves}");
        }
        // Copies are dropped.
        r.export(1, "/e", 0);
        r.settle();
        let names = ["0", "1", "2", "more"].map(str::to_owned);
        assert_eq!(r.names("d/x"), Ok(BTreeSet::from(names)), "seed {seed}");
    }
}

/// What there is, by path: nothing for a directory, and a number for a file, which its links share.
type Model = BTreeMap<String, Option<u64>>;

impl Ranks {
    /// A path in the model that is a directory, or anything.
    fn pick(&mut self, model: &Model, is_dir: bool) -> String {
        let all: Vec<&String> =
            model.iter().filter(|(_, file)| !is_dir || file.is_none()).map(|(path, _)| path).collect();
        all[self.rng.below(all.len() as u64) as usize].clone()
    }
}

fn below(dir: &str, name: u64) -> String {
    if dir.is_empty() { format!("n{name}") } else { format!("{dir}/n{name}") }
}

fn is_in(path: &str, dir: &str) -> bool {
    path == dir || path.starts_with(&format!("{dir}/"))
}

/// One random operation, which has to do what it would with one rank.
fn operate(r: &mut Ranks, model: &mut Model, name: u64) {
    let rank = r.any();
    let rank = if r.is_stopping && rank == r.last() { 0 } else { rank };
    let (dir, any) = (r.pick(model, true), r.pick(model, false));
    let new = below(&dir, name);
    match r.rng.below(10) {
        0 | 1 => {
            assert_eq!(r.ask(rank, create(&new, READ_WRITE)), 0, "create {new}");
            model.insert(new, Some(name));
        }
        2 => {
            assert_eq!(r.ask(rank, mkdir(&new)), 0, "mkdir {new}");
            model.insert(new, None);
        }
        3 | 4 if !any.is_empty() && !is_in(&dir, &any) => {
            let rename =
                ClientRequest { path2: world::client::at_root(&any), ..request(MdsOp::RENAME, &new) };
            assert_eq!(r.ask(rank, rename), 0, "rename {any} {new}");
            let moved: Vec<String> = model.keys().filter(|path| is_in(path, &any)).cloned().collect();
            for path in moved {
                let file = model.remove(&path).expect("just listed");
                model.insert(format!("{new}{}", &path[any.len()..]), file);
            }
        }
        5 if !any.is_empty() => {
            let has_entries = model.keys().any(|path| path != &any && is_in(path, &any));
            let op = if model[&any].is_none() { MdsOp::RMDIR } else { MdsOp::UNLINK };
            let expected = if has_entries { wire::Errno::ENOTEMPTY.to_result_code() } else { 0 };
            assert_eq!(r.ask(rank, request(op, &any)), expected, "remove {any}");
            if !has_entries {
                model.remove(&any);
            }
        }
        6 if !dir.is_empty() => {
            let to = r.any() as i32;
            // It may have nothing to hand over, or be busy.
            let _ = match r.rng.below(6) {
                4.. => r.with(rank, |w| w.rank.replicate_dir(&format!("/{dir}"))),
                0 => r.with(rank, |w| w.rank.split_fragment(&dir, "0/0", 1)),
                1 => {
                    let frag = ["0/0", "0/1", "800000/1"][r.rng.below(3) as usize];
                    r.with(rank, |w| w.rank.export_dir(&dir, Some(frag), MdsRank(to)))
                }
                _ => r.with(rank, |w| w.rank.export_dir(&dir, None, MdsRank(to))),
            };
        }
        7 if model[&any].is_some() => {
            let link = world::client::two(MdsOp::LINK, &new, &any);
            assert_eq!(r.ask(rank, link), 0, "link {new} {any}");
            model.insert(new, model[&any]);
        }
        // What one tells of its subtrees may be lost: the other forwards later.
        8 => r.worlds[rank].to_ranks.retain(|(_, body)| !matches!(body, peer::Body::MdsAuthority(_))),
        _ => {
            assert_eq!(r.ask(rank, getattr(&any, 0)), 0, "getattr {any}");
            let gone = below(&dir, 0);
            let enoent = wire::Errno::ENOENT.to_result_code();
            assert_eq!(r.ask(rank, lookup(&gone)), enoent, "lookup {gone}");
            // As clients ask: a replica may answer.
            let (above, last) = any.rsplit_once('/').unwrap_or(("", &any));
            let number = ino(&r.ask_for(rank, getattr(above, 0)));
            let other = r.any();
            let found = if last.is_empty() { 0 } else { r.ask(other, lookup_in(number, last)) };
            let absent = r.ask(other, lookup_in(number, "n0"));
            assert_eq!((found, absent), (0, enoent), "lookup {any}, and {gone}");
        }
    }
}

/// Random operations while directories move and servers die: what there is in the end is what was done.
#[test]
fn operations_do_the_same_with_several_ranks_as_with_one() {
    for seed in stdx::test_seeds("NACRE_RANKS", 40) {
        // Some have next to no cache: what leads to a subtree is evicted while that moves.
        let cache_inodes = if seed % 4 == 0 { 8 } else { 100_000 };
        let options = MdsOptions { cache_inodes, ..MdsOptions::default() };
        let mut r = Ranks::with_options(1000 + seed, 2 + (seed % 3) as u32, &options);
        let mut model = Model::from([(String::new(), None)]);
        for name in 1..120 {
            operate(&mut r, &mut model, name);
            for _ in 0..r.rng.below(6) {
                r.step();
            }
            let has_stopped = r.has_stopped();
            if r.rng.chance(1, 25) {
                let rank = r.any();
                if !(has_stopped && rank == r.last()) {
                    r.crash(rank);
                }
            }
            match r.rng.below(40) {
                0 if !r.is_stopping => r.stop(),
                0..5 if has_stopped => r.start(),
                _ if has_stopped => r.tell_ranks(),
                _ => {}
            }
        }
        if r.is_stopping {
            r.until_stopped();
        }
        r.settle();
        // What was evicted is counted above when it is used again.
        for path in model.keys() {
            r.ask(0, getattr(path, 0));
        }
        r.idle(40);
        let mut numbers = BTreeMap::new();
        for (path, file) in &model {
            let is_dir = &file.is_none();
            let found = r.ask_for(0, getattr(path, 0));
            assert_eq!(found.result, 0, "seed {seed}: {path}");
            let number = found.trace.target.expect("its attributes").ino;
            if let Some(file) = file {
                let known = *numbers.entry(file).or_insert(number);
                assert_eq!(number, known, "seed {seed}: links lead to one file");
            }
            assert_eq!(r.authorities(&format!("/{path}")).len(), 1, "seed {seed}: {path}");
            if *is_dir {
                let is_below = |other: &String| path.is_empty() || other.starts_with(&format!("{path}/"));
                let below = model.iter().filter(|(other, file)| is_below(other) && file.is_none()).count();
                let count = below as u64 + u64::from(!path.is_empty());
                let counted = r.ask_for(0, getattr(path, cap::ANY_SHARED)).trace.target.expect("a target");
                assert_eq!(counted.rsubdirs, count, "seed {seed}: directories in {path}");
                let is_inside = |(other, _): &(&String, &Option<u64>)| {
                    !other.is_empty() && other.rsplit_once('/').map_or("", |(dir, _)| dir) == path
                };
                let (dirs, files): (Vec<_>, Vec<_>) =
                    model.iter().filter(is_inside).partition(|(_, file)| file.is_none());
                let own = (files.len() as u64, dirs.len() as u64);
                assert_eq!((counted.nfiles, counted.nsubdirs), own, "seed {seed}: entries of {path}");
                let inside = model.keys().filter(|other| {
                    other.rsplit_once('/').map_or("", |(dir, _)| dir) == path && !other.is_empty()
                });
                let inside: BTreeSet<String> =
                    inside.map(|other| other.rsplit('/').next().expect("a name").to_owned()).collect();
                assert_eq!(r.names(path), Ok(inside), "seed {seed}: {path}");
            }
        }
    }
}

/// A client gives a directory that it has alone up only when what it has done in it asynchronously is
/// answered: what that needs comes to the directory, also from a lower rank.
#[test]
fn a_directory_is_removed_where_its_client_has_promised_that() {
    for seed in 0..10 {
        let mut r = Ranks::of(seed, 2);
        let moves = |r: &mut Ranks, from: usize, path: &str, to: usize| {
            r.export(from, path, to as i32);
            r.settle();
            assert_eq!(r.authorities(path), [to]);
        };
        r.ok(0, mkdir("d"));
        moves(&mut r, 0, "/d", 1);
        r.ok(1, mkdir("d/sub"));
        moves(&mut r, 1, "/d/sub", 0);
        let d = ino(&r.ok(1, getattr("d", 0)));
        let tid = r.with(1, |w| {
            w.want_alone(A, d);
            w.clients.get_mut(&A).expect("a").keeps = Some(d);
            w.start(A, asynchronous(request(msgs::MdsOp::RMDIR, "d/sub")))
        });
        assert_ne!(r.held(1)[&d] & cap::FILE_EXCL, 0, "it has the directory alone");
        r.settle();
        assert_eq!(r.with(1, |w| w.reply(A, tid)).result, 0, "seed {seed}");
        assert_ne!(r.held(1)[&d] & cap::FILE_EXCL, 0, "and it has given nothing up");
    }
}

#[test]
fn directories_leave_together_but_none_with_one_that_it_is_in() {
    let mut r = Ranks::new(11);
    for dir in ["d", "d/x", "e", "f"] {
        r.ok(0, mkdir(dir));
    }
    r.settle();
    let export = |r: &mut Ranks, path: &str| {
        r.with(0, |w| w.rank.export_dir(path, None, MdsRank(1)).map_err(|(_, why)| why))
    };
    assert_eq!(export(&mut r, "/d"), Ok(()));
    assert_eq!(export(&mut r, "/e"), Ok(()));
    assert!(
        export(&mut r, "/d/x").is_err_and(|why| why.contains("another one is on its way")),
        "it leaves with /d"
    );
    r.settle();
    for (path, authority) in [("/d", 1), ("/d/x", 1), ("/e", 1), ("/f", 0)] {
        assert_eq!(r.authorities(path), [authority], "{path}");
    }
}
