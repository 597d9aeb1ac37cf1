//! Snapshots of directories: what they contain never changes, whatever happens to the live tree, and nothing
//! is left of those that are removed.

mod world;

use maps::SnapId;
use mds::MdsOptions;
use msgs::{ClientReply, ClientRequest, MdsOp, ReaddirReply};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use wire::Errno;
use world::client::{create, getattr, mkdir, open, readdir, request, setattr_mode, setattr_size, two};
use world::model::{Model, Node};
use world::pair::{A, B, fails, ino, ok, stat, two_clients};
use world::{ROOMY, TINY, World};

/// The path of a name below a directory's `.snap`.
fn snap(dir: &str, name: &str) -> String {
    if dir.is_empty() { format!("/{name}") } else { format!("{dir}//{name}") }
}

fn mksnap(dir: &str, name: &str) -> ClientRequest {
    request(MdsOp::MKSNAP, &snap(dir, name))
}

fn rmsnap(dir: &str, name: &str) -> ClientRequest {
    request(MdsOp::RMSNAP, &snap(dir, name))
}

fn names(reply: &ClientReply) -> Vec<String> {
    assert_eq!(reply.result, 0, "{:?}", reply.op);
    let listing: ReaddirReply = wire::Reader::new(&reply.extra).get().expect("a listing");
    let mut names: Vec<String> =
        listing.entries.iter().map(|e| String::from_utf8(e.name.clone()).expect("ascii")).collect();
    names.sort();
    names
}

fn list(w: &mut World, path: &str) -> Vec<String> {
    names(&w.call(A, readdir(path, b"", 0)))
}

fn snaps_of(w: &mut World, path: &str) -> Vec<String> {
    names(&w.call(A, request(MdsOp::LSSNAP, path)))
}

/// A client gives back all that it holds, so that what has no name may be purged.
fn release_all(w: &mut World) {
    let held: Vec<_> = std::mem::take(&mut w.clients.get_mut(&A).expect("a").held).into_iter().collect();
    let caps = held.iter().map(|(ino, h)| msgs::CapReleaseItem {
        ino: *ino,
        cap_id: h.cap_id,
        migrate_seq: 0,
        seq: h.issue_seq,
    });
    w.send(A, 0, msgs::ClientCapRelease { caps: caps.collect(), ..Default::default() });
    w.quiet();
}

/// Copies that snapshots keep, in the stored directories.
fn stored_copies(w: &World) -> usize {
    w.objects.values().flat_map(|object| object.omap.keys()).filter(|key| key.contains(&0)).count()
}

#[test]
fn a_snapshot_keeps_names_sizes_and_modes() {
    let mut w = two_clients(1);
    for r in [mkdir("d"), mkdir("d/sub"), create("d/sub/c", 1), create("d/b", 1)] {
        ok(&mut w, r);
    }
    let a = ino(&w.call(B, create("d/a", 2)));
    assert!(w.clients.get_mut(&B).expect("b").write_to(a, 1000), "it may write");
    ok(&mut w, mksnap("d", "one"));
    let dir = stat(&mut w, A, "d").ino;
    assert_eq!(stat(&mut w, A, "d//one/a").size, 1000, "what B had written and not told is in the snapshot");
    assert_eq!(w.clients[&B].realm_of.get(&a).copied(), Some(dir), "B knows the realm");

    ok(&mut w, setattr_size("d/a", 5));
    ok(&mut w, setattr_mode("d/sub/c", 0o600));
    ok(&mut w, request(MdsOp::UNLINK, "d/b"));
    ok(&mut w, two(MdsOp::RENAME, "d/other", "d/sub"));
    ok(&mut w, create("d/new", 1));
    for round in 0..2 {
        assert_eq!(list(&mut w, "d"), ["a", "new", "other"], "round {round}");
        assert_eq!(list(&mut w, "d//one"), ["a", "b", "sub"], "round {round}");
        assert_eq!(list(&mut w, "d//one/sub"), ["c"]);
        assert_eq!(stat(&mut w, A, "d//one/a").size, 1000);
        assert_eq!(stat(&mut w, A, "d/a").size, 5);
        assert_eq!(stat(&mut w, A, "d//one/sub/c").mode & 0o7777, 0o644);
        assert_eq!(stat(&mut w, A, "d/other/c").mode & 0o7777, 0o600);
        assert_eq!(snaps_of(&mut w, "d"), ["one"]);
        assert!(snaps_of(&mut w, "").is_empty());
        let other = stat(&mut w, A, "d/other").ino;
        assert_eq!(snaps_of(&mut w, "d/other"), [format!("_one_{dir}")]);
        assert_eq!(list(&mut w, &format!("d/other//_one_{dir}")), ["c"]);
        assert_eq!(stat(&mut w, A, "d//one/sub").ino, other);
        let seen = stat(&mut w, A, "d//one/a");
        assert_eq!((seen.snapid.0, seen.cap.cap_id), (2, 0), "states of snapshots are nobody's to change");
        w.crash(&[A, B]);
    }
}

/// NFS servers name what a client has open in a snapshot by numbers alone.
#[test]
fn states_of_a_snapshot_are_found_by_number() {
    let mut w = two_clients(2);
    ok(&mut w, mkdir("d"));
    let (a, b) = (ino(&w.call(A, create("d/a", 2))), ino(&w.call(A, create("d/b", 2))));
    ok(&mut w, setattr_size("d/a", 1000));
    ok(&mut w, mksnap("d", "one"));
    ok(&mut w, setattr_size("d/a", 5));
    ok(&mut w, request(MdsOp::UNLINK, "d/b"));
    let new = ino(&w.call(A, create("d/new", 2)));
    release_all(&mut w);
    let dir = stat(&mut w, A, "d").ino;
    let by_ino = |w: &mut World, ino: u64, snapid: u64| {
        let args = msgs::LookupInoArgs { snapid, ..Default::default() };
        let path = msgs::FilePath { ino, path: Vec::new() };
        let reply = w.call(A, ClientRequest { path, args: args.into(), ..request(MdsOp::LOOKUPINO, "") });
        reply.trace.target.map(|stat| (stat.ino, stat.snapid, stat.size)).ok_or(reply.result)
    };
    let stale = Err(wire::Errno::ESTALE.to_result_code());
    for round in 0..2 {
        assert_eq!(by_ino(&mut w, a, 2), Ok((a, SnapId(2), 1000)), "round {round}");
        assert_eq!(by_ino(&mut w, dir, 2).map(|seen| (seen.0, seen.1)), Ok((dir, SnapId(2))));
        assert_eq!(by_ino(&mut w, a, SnapId::HEAD.0), Ok((a, SnapId::HEAD, 5)));
        assert_eq!(by_ino(&mut w, a, 0), Ok((a, SnapId::HEAD, 5)));
        assert_eq!(by_ino(&mut w, b, 2), stale, "its name is gone");
        assert_eq!(by_ino(&mut w, new, 2), stale, "it came later");
        assert_eq!(by_ino(&mut w, a, 77), stale, "no such snapshot");
        w.crash(&[A, B]);
    }
}

#[test]
fn what_its_maker_says_of_a_snapshot_is_kept() {
    let mut w = two_clients(3);
    ok(&mut w, mkdir("d"));
    let metadata: BTreeMap<String, String> = [("by".to_owned(), "mirror".to_owned())].into();
    let payload = wire::Writer::encode(&msgs::SnapPayload { metadata: metadata.clone() });
    ok(&mut w, ClientRequest { data: payload.into(), ..mksnap("d", "one") });
    for name in ["one", "two"] {
        let seen = w.call(A, request(MdsOp::LOOKUPSNAP, &snap("d", name))).trace.target.expect("a snapshot");
        assert_eq!(seen.snap_metadata, metadata, "{name}");
        w.crash(&[A, B]);
        if name == "one" {
            ok(&mut w, two(MdsOp::RENAMESNAP, &snap("d", "two"), &snap("d", "one")));
        }
    }
    let junk = ClientRequest { data: b"junk".to_vec().into(), ..mksnap("d", "bad") };
    assert_eq!(w.call(A, junk).result, wire::Errno::EINVAL.to_result_code());
    let large = ClientRequest { data: vec![0; 1 << 20].into(), ..mksnap("d", "large") };
    assert_eq!(w.call(A, large).result, wire::Errno::E2BIG.to_result_code());
    assert_eq!(snaps_of(&mut w, "d"), ["two"]);
}

#[test]
fn what_was_removed_before_a_snapshot_is_not_in_it() {
    let mut w = two_clients(12);
    ok(&mut w, mkdir("d"));
    let dir = stat(&mut w, A, "d").ino;
    ok(&mut w, request(MdsOp::RMDIR, "d"));
    ok(&mut w, mksnap("", "s"));
    let path = msgs::FilePath { ino: dir, path: Vec::new() };
    let listed = w.call(A, ClientRequest { path, ..request(MdsOp::LSSNAP, "") });
    assert!(names(&listed).is_empty());
    assert_eq!(snaps_of(&mut w, ""), ["s"]);
}

#[test]
fn what_is_in_a_snapshot_cannot_be_changed() {
    let mut w = two_clients(2);
    for r in [mkdir("d"), create("d/f", 1), mksnap("d", "s")] {
        ok(&mut w, r);
    }
    fails(&mut w, create("d//s/new", 1), Errno::EROFS);
    fails(&mut w, request(MdsOp::UNLINK, "d//s/f"), Errno::EROFS);
    fails(&mut w, two(MdsOp::RENAME, "d/g", "d//s/f"), Errno::EROFS);
    fails(&mut w, setattr_mode("d//s/f", 0), Errno::EROFS);
    fails(&mut w, open("d//s/f", 1), Errno::EROFS);
    let opened = w.call(A, open("d//s/f", 0));
    assert_eq!(opened.trace.dentry.expect("by name, as it was asked").name, b"f");
    fails(&mut w, mksnap("d", "s"), Errno::EEXIST);
    fails(&mut w, mksnap("d", "_s"), Errno::EINVAL);
    fails(&mut w, rmsnap("d", "t"), Errno::ENOENT);
    fails(&mut w, rmsnap("d", "_s_1"), Errno::EINVAL);
    fails(&mut w, request(MdsOp::LOOKUPSNAP, "d//t"), Errno::ENOENT);
    ok(&mut w, request(MdsOp::UNLINK, "d/f"));
    fails(&mut w, request(MdsOp::RMDIR, "d"), Errno::ENOTEMPTY);
    ok(&mut w, two(MdsOp::RENAMESNAP, "d//t", "d//s"));
    ok(&mut w, request(MdsOp::LOOKUPSNAP, "d//t"));
    assert_eq!(list(&mut w, "d//t"), ["f"]);
    ok(&mut w, rmsnap("d", "t"));
    ok(&mut w, request(MdsOp::RMDIR, "d"));
}

#[test]
fn of_a_removed_snapshot_nothing_is_left() {
    let mut w = two_clients(3);
    for r in [mkdir("d"), mkdir("d/e"), create("d/e/f", 1), create("d/g", 1), mksnap("d", "s")] {
        ok(&mut w, r);
    }
    for r in [request(MdsOp::UNLINK, "d/e/f"), request(MdsOp::RMDIR, "d/e"), setattr_mode("d/g", 0o400)] {
        ok(&mut w, r);
    }
    assert_eq!(list(&mut w, "d//s/e"), ["f"]);
    let removed = stat(&mut w, A, "d//s/e").ino;
    // A successor with a small cache writes everything back as it replays.
    w.cfg.options.cache_inodes = 1;
    w.crash(&[A, B]);
    assert!(stored_copies(&w) > 0);
    ok(&mut w, rmsnap("d", "s"));
    fails(&mut w, getattr("d//s/e", 0), Errno::ENOENT);
    w.advance(Duration::from_secs(2));
    w.quiet();
    assert_eq!(w.given_back, BTreeSet::from([2]), "the data pool may trim its clones");
    w.crash(&[A, B]);
    assert_eq!(list(&mut w, "d"), ["g"]);
    assert_eq!(stored_copies(&w), 0);
    release_all(&mut w);
    let left = w.objects.keys().any(|object| object.name.starts_with(&format!("{removed:x}.")));
    assert!(!left, "the removed directory's object went with the last snapshot of it");
}

#[test]
fn objects_of_removed_files_are_removed_for_all_but_their_snapshots() {
    let mut w = two_clients(4);
    for r in [mkdir("d"), create("d/old", 1), setattr_size("d/old", 9000), mksnap("d", "s")] {
        ok(&mut w, r);
    }
    for r in [create("d/new", 1), setattr_size("d/new", 9000)] {
        ok(&mut w, r);
    }
    let of = |w: &mut World, path: &str| stat(w, A, path).ino;
    let (old, new) = (of(&mut w, "d/old"), of(&mut w, "d/new"));
    for path in ["d/old", "d/new"] {
        ok(&mut w, request(MdsOp::UNLINK, path));
    }
    release_all(&mut w);
    assert_eq!(w.data_snaps.get(&format!("{old:x}.00000000")), Some(&vec![2]));
    assert_eq!(w.data_snaps.get(&format!("{new:x}.00000000")), Some(&Vec::new()));
}

/// A file of `size` bytes in `d` that was cut to 5, and whose objects have not been yet; with its number.
/// No client holds anything for which a snapshot would have to wait.
fn cut_file(seed: u64, size: u64) -> (World, u64) {
    let mut w = two_clients(seed);
    for r in [mkdir("d"), create("d/f", 1), setattr_size("d/f", size), setattr_size("d/f", 5)] {
        ok(&mut w, r);
    }
    let ino = stat(&mut w, A, "d/f").ino;
    release_all(&mut w);
    assert!(w.data_snaps.is_empty(), "nobody waits for the cut");
    (w, ino)
}

/// Ends what is in flight to data objects, and nothing else.
fn end_data_operations(w: &mut World) -> usize {
    let mut ended = 0;
    while let Some(at) = w.in_flight.iter().position(|io| io.object.pool == w.cfg.data_pool) {
        let io = w.in_flight.remove(at);
        let result = w.carry_out(&io);
        w.rank.io_done(w.now, io.id, result);
        w.effects();
        ended += 1;
    }
    ended
}

/// Seconds pass, in which what nobody waits for begins.
fn let_cuts_begin(w: &mut World) {
    for _ in 0..3 {
        w.advance(Duration::from_secs(1));
    }
}

#[test]
fn objects_are_not_preserved_for_a_snapshot_that_a_crash_may_undo() {
    let (mut w, ino) = cut_file(6, 9000);
    let tid = w.start(A, mksnap("d", "s"));
    let_cuts_begin(&mut w);
    end_data_operations(&mut w);
    assert_eq!(w.data_snaps, BTreeMap::new(), "the snapshot is not in the journal yet");
    w.quiet();
    assert_eq!(w.reply(A, tid).result, 0);
    let_cuts_begin(&mut w);
    w.quiet();
    assert_eq!(w.data_snaps[&format!("{ino:x}.00000000")], [2]);
}

#[test]
fn a_cut_under_way_preserves_nothing_for_a_later_snapshot() {
    let (mut w, ino) = cut_file(7, 12 << 22);
    let_cuts_begin(&mut w);
    let tid = w.start(A, mksnap("d", "s"));
    assert_eq!(end_data_operations(&mut w), 12, "more than are cut at once");
    let snaps: BTreeSet<_> =
        w.data_snaps.iter().filter(|(name, _)| name.starts_with(&format!("{ino:x}."))).collect();
    assert!(snaps.len() == 12 && snaps.iter().all(|(_, snaps)| snaps.is_empty()), "{snaps:?}");
    w.quiet();
    assert_eq!(w.reply(A, tid).result, 0);
    assert_eq!(stat(&mut w, A, "d//s/f").size, 5);
}

#[test]
fn a_snapshot_waits_for_absent_clients() {
    let mut w = two_clients(5);
    ok(&mut w, mkdir("d"));
    let file = ino(&w.call(B, create("d/f", 2)));
    assert!(w.clients.get_mut(&B).expect("b").write_to(file, 77));
    w.restart(&[A]);
    let tid = w.start(A, mksnap("d", "s"));
    w.quiet();
    assert!(!w.clients[&A].replies.contains_key(&tid), "B may have written");
    w.come_back(B);
    w.quiet();
    assert_eq!(w.reply(A, tid).result, 0);
    assert_eq!(stat(&mut w, A, "d//s/f").size, 77);
}

/// A snapshot as the model has it: the directory, its name, and what was below it.
struct Kept {
    dir: u64,
    name: String,
    tree: BTreeMap<String, Node>,
}

struct Run {
    w: World,
    m: Model,
    kept: Vec<Kept>,
    crash_share: u64,
    made: u32,
}

fn path(w: &mut World) -> String {
    let depth = 1 + w.rng.below(3);
    let names: Vec<String> =
        (0..depth).map(|_| format!("{}", char::from(b'a' + w.rng.below(4) as u8))).collect();
    names.join("/")
}

impl Run {
    fn call(&mut self, r: ClientRequest) -> i32 {
        let tid = self.w.start(A, r);
        if self.crash_share > 0 && self.w.rng.chance(1, self.crash_share) {
            for _ in 0..self.w.rng.below(6) {
                self.w.io_step();
            }
            self.w.crash(&[A]);
        }
        self.w.quiet();
        self.w.reply(A, tid).result
    }

    fn check(&mut self, what: &str, r: ClientRequest, want: Result<(), Errno>) {
        let got = self.call(r);
        assert_eq!(got, want.map_or_else(Errno::to_result_code, |()| 0), "{what}");
    }

    /// Two names change places, unless they are in different realms.
    fn exchange(&mut self, new: &str, old: &str) {
        let mut after = self.m.clone();
        let want = after.exchange(new, old);
        let args = msgs::RenameArgs { flags: msgs::rename_flag::EXCHANGE }.into();
        let got = self.call(ClientRequest { args, ..two(MdsOp::RENAME_FLAGS, new, old) });
        if got != Errno::EXDEV.to_result_code() {
            assert_eq!(got, want.map_or_else(Errno::to_result_code, |()| 0), "exchange {old} and {new}");
            self.m = after;
        }
    }

    fn step(&mut self) {
        let (a, b) = (path(&mut self.w), path(&mut self.w));
        match self.w.rng.below(13) {
            0 | 1 => {
                let node = Node { dir: Some(BTreeMap::new()), mode: 0o755, ..Node::default() };
                let want = self.m.make(&a, node);
                self.check(&format!("mkdir {a}"), mkdir(&a), want);
            }
            2..=4 => {
                let want = self.m.create(&a);
                self.check(&format!("create {a}"), create(&a, 2), want);
            }
            5 => {
                let want = self.m.remove(&a, false);
                self.check(&format!("unlink {a}"), request(MdsOp::UNLINK, &a), want);
            }
            6 => {
                let want = self.m.remove(&a, true);
                self.check(&format!("rmdir {a}"), request(MdsOp::RMDIR, &a), want);
            }
            7 => self.exchange(&a, &b),
            8 => {
                let want = self.m.rename(&a, &b);
                self.check(&format!("rename {b} to {a}"), two(MdsOp::RENAME, &a, &b), want);
            }
            9 => {
                let want = self.m.link(&a, &b);
                self.check(&format!("link {b} as {a}"), two(MdsOp::LINK, &a, &b), want);
            }
            10 => {
                let mode = 0o600 + self.w.rng.below(64) as u32;
                let want = self.m.change(&a, |n| {
                    n.mode = mode;
                    Ok(())
                });
                self.check(&format!("chmod {a}"), setattr_mode(&a, mode), want);
            }
            11 => self.make_snapshot(),
            _ => self.remove_snapshot(),
        }
    }

    fn make_snapshot(&mut self) {
        let walk = self.m.walk();
        let dirs: Vec<(&String, &(u64, Node))> = walk.iter().filter(|(_, (_, n))| n.dir.is_some()).collect();
        let (path, (id, _)) = dirs[self.w.rng.below(dirs.len() as u64) as usize];
        let below = walk.iter().filter_map(|(p, (_, node))| {
            let rest = p.strip_prefix(path.as_str())?;
            (rest.is_empty() || rest.starts_with('/')).then(|| (rest.to_owned(), node.clone()))
        });
        self.made += 1;
        let name = format!("s{}", self.made);
        let kept = Kept { dir: *id, name: name.clone(), tree: below.collect() };
        let live = path.trim_start_matches('/').to_owned();
        self.m.snapped.push(*id);
        self.kept.push(kept);
        self.check(&format!("mksnap {live} {name}"), mksnap(&live, &name), Ok(()));
    }

    fn path_of(&self, id: u64) -> String {
        let walk = self.m.walk();
        let found = walk.iter().find(|(_, (at, _))| *at == id);
        found.expect("a directory with snapshots is never removed").0.trim_start_matches('/').to_owned()
    }

    fn remove_snapshot(&mut self) {
        if self.kept.is_empty() {
            return;
        }
        let Kept { dir, name, .. } = self.kept.swap_remove(self.w.rng.below(self.kept.len() as u64) as usize);
        let at = self.m.snapped.iter().position(|id| *id == dir).expect("it has one");
        self.m.snapped.swap_remove(at);
        let live = self.path_of(dir);
        self.check(&format!("rmsnap {live} {name}"), rmsnap(&live, &name), Ok(()));
    }

    /// Compares the content of all snapshots with what it was when they were made.
    fn compare(&mut self) {
        for at in 0..self.kept.len() {
            let Kept { dir, name, tree } = &self.kept[at];
            let (top, tree) = (snap(&self.path_of(*dir), name), tree.clone());
            for (rest, node) in tree {
                let path = format!("{top}{rest}");
                let seen = stat(&mut self.w, A, &path);
                assert_eq!(seen.mode & 0o7777, node.mode, "mode of {path}");
                if let Some(dir) = &node.dir {
                    let names: Vec<String> = dir.keys().cloned().collect();
                    assert_eq!(list(&mut self.w, &path), names, "names in {path}");
                    assert_eq!(seen.nfiles + seen.nsubdirs, names.len() as u64, "entries of {path}");
                } else {
                    assert_eq!((seen.size, seen.nlink), (node.size, node.nlink), "{path}");
                }
            }
        }
    }

    fn remove_all(&mut self) {
        while !self.kept.is_empty() {
            self.remove_snapshot();
        }
        for _ in 0..4 {
            self.w.advance(Duration::from_secs(1));
            self.w.quiet();
        }
    }
}

fn run(seed: u64, options: MdsOptions, crash_share: u64) {
    let mut w = World::new(seed, options);
    w.connect(A);
    let mut r = Run { w, m: Model::new(), kept: Vec::new(), crash_share, made: 0 };
    for i in 0..200 {
        r.step();
        if i % 25 == 24 {
            r.compare();
        }
        if r.w.rng.chance(1, 20) {
            r.w.advance(Duration::from_secs(4));
            r.w.send(A, 0, msgs::ClientSession::of(msgs::session_op::REQUEST_RENEWCAPS, 1));
        }
    }
    r.w.crash(&[A]);
    r.compare();
    r.remove_all();
}

#[test]
fn snapshots_never_change() {
    for seed in 0..20 {
        run(seed, ROOMY, 0);
    }
}

#[test]
fn snapshots_never_change_in_a_tiny_cache_and_journal() {
    for seed in 100..120 {
        run(seed, TINY, 0);
    }
}

#[test]
fn snapshots_survive_crashes_at_any_point() {
    for seed in 200..230 {
        run(seed, if seed % 2 == 0 { ROOMY } else { TINY }, 6);
    }
}
