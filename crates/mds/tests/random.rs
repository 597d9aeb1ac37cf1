//! Random operations of one client against a naive model: with a roomy and a tiny cache and journal, and with
//! crashes at any point, after which the client sends again what was not answered. Each operation must take
//! effect once.

mod world;

use mds::MdsOptions;
use msgs::{MdsOp, ReaddirReply};
use std::collections::BTreeMap;
use std::time::Duration;
use world::client::{
    create, getattr, mkdir, next_page, open, readdir_of, request, setattr_mode, setattr_size, two,
};
use world::model::{Model, Node};
use world::{ROOMY, TINY, World};

struct Run {
    w: World,
    m: Model,
    crash_share: u64,
    /// The client goes on with early answers.
    is_hasty: bool,
}

fn path(w: &mut World) -> String {
    let depth = 1 + w.rng.below(3);
    let names: Vec<String> =
        (0..depth).map(|_| format!("{}", char::from(b'a' + w.rng.below(6) as u8))).collect();
    names.join("/")
}

impl Run {
    fn new(seed: u64, options: MdsOptions, crash_share: u64) -> Self {
        let mut w = World::new(seed, options);
        w.connect(10);
        Self { w, m: Model::new(), crash_share, is_hasty: false }
    }

    fn call(&mut self, r: msgs::ClientRequest) -> msgs::ClientReply {
        let tid = self.w.start(10, r);
        if self.crash_share > 0 && self.w.rng.chance(1, self.crash_share) {
            for _ in 0..self.w.rng.below(6) {
                self.w.io_step();
            }
            self.w.crash(&[10]);
        }
        if self.is_hasty {
            while !self.w.clients[&10].replies.contains_key(&tid) {
                assert!(self.w.io_step(), "request {tid} is answered");
            }
        } else {
            self.w.quiet();
        }
        assert!(self.w.clients[&10].lost.is_empty(), "what was answered early is repeated");
        self.w.reply(10, tid)
    }

    fn check(&mut self, what: &str, r: msgs::ClientRequest, want: Result<(), wire::Errno>) {
        let got = self.call(r).result;
        assert_eq!(got, want.map_or_else(wire::Errno::to_result_code, |()| 0), "{what}");
    }

    fn rename_with_flags(&mut self, new: &str, old: &str) {
        let (flags, want) = match self.w.rng.chance(1, 2) {
            true => (msgs::rename_flag::NOREPLACE, self.m.rename_to_new(new, old)),
            false => (msgs::rename_flag::EXCHANGE, self.m.exchange(new, old)),
        };
        let args = msgs::RenameArgs { flags }.into();
        let request = msgs::ClientRequest { args, ..two(MdsOp::RENAME_FLAGS, new, old) };
        self.check(&format!("rename {old} to {new} with {flags}"), request, want);
    }

    fn step(&mut self) {
        let (a, b) = (path(&mut self.w), path(&mut self.w));
        match self.w.rng.below(13) {
            0 | 1 => {
                let want =
                    self.m.make(&a, Node { dir: Some(BTreeMap::new()), mode: 0o755, ..Node::default() });
                self.check(&format!("mkdir {a}"), mkdir(&a), want);
            }
            2..=4 => {
                let want = self.m.create(&a);
                self.check(&format!("create {a}"), create(&a, 2), want);
            }
            5 => {
                let want = self.m.make(
                    &a,
                    Node { symlink: b.clone(), mode: 0o777, size: b.len() as u64, ..Node::default() },
                );
                self.check(&format!("symlink {a}"), two(MdsOp::SYMLINK, &a, &b), want);
            }
            6 => {
                let want = self.m.remove(&a, false);
                self.check(&format!("unlink {a}"), request(MdsOp::UNLINK, &a), want);
            }
            7 => {
                let want = self.m.remove(&a, true);
                self.check(&format!("rmdir {a}"), request(MdsOp::RMDIR, &a), want);
            }
            8 => self.rename_with_flags(&a, &b),
            9 => {
                let want = self.m.rename(&a, &b);
                self.check(&format!("rename {b} to {a}"), two(MdsOp::RENAME, &a, &b), want);
            }
            10 => {
                let want = self.m.link(&a, &b);
                self.check(&format!("link {b} as {a}"), two(MdsOp::LINK, &a, &b), want);
            }
            11 => {
                let mode = 0o600 + self.w.rng.below(64) as u32;
                let want = self.m.change(&a, |n| {
                    n.mode = mode;
                    Ok(())
                });
                self.check(&format!("chmod {a}"), setattr_mode(&a, mode), want);
            }
            _ => {
                let size = self.w.rng.below(20 << 20);
                let want = self.m.change(&a, |n| {
                    if n.dir.is_some() {
                        return Err(wire::Errno::EISDIR);
                    }
                    if !n.symlink.is_empty() {
                        return Err(wire::Errno::EINVAL);
                    }
                    n.size = size;
                    Ok(())
                });
                self.check(&format!("truncate {a}"), setattr_size(&a, size), want);
            }
        }
    }

    /// Walks the whole tree and compares it with the model.
    fn compare(&mut self) {
        let model = self.m.walk();
        let mut same_ino: BTreeMap<u64, u64> = BTreeMap::new();
        for (path, (id, node)) in &model {
            let trimmed = path.trim_start_matches('/');
            let stat =
                self.w.call(10, getattr(trimmed, msgs::cap::ANY_SHARED)).trace.target.expect("a target");
            assert_eq!(stat.mode & 0o7777, node.mode, "mode of {path}");
            assert_eq!(*same_ino.entry(*id).or_insert(stat.ino), stat.ino, "{path} is the same inode");
            if let Some(dir) = &node.dir {
                let dirs = dir.values().filter(|i| self.m.nodes[i].dir.is_some()).count() as u64;
                assert_eq!(
                    (stat.nfiles, stat.nsubdirs),
                    (dir.len() as u64 - dirs, dirs),
                    "entries of {path}"
                );
                let names: Vec<String> = dir.keys().cloned().collect();
                assert_eq!(self.list(trimmed, 1 + (names.len() as u32) / 2), names, "names in {path}");
            } else {
                assert_eq!((stat.size, stat.nlink), (node.size, node.nlink), "{path}");
                assert_eq!(stat.symlink, node.symlink.as_bytes(), "{path}");
            }
        }
    }

    fn list(&mut self, path: &str, page: u32) -> Vec<String> {
        let (mut names, mut next) = (Vec::new(), Some((0, Vec::new())));
        while let Some((frag, after)) = next {
            let reply = self.w.call(10, readdir_of(frag, path, &after, page));
            assert_eq!(reply.result, 0, "readdir {path}");
            let listing: ReaddirReply = wire::Reader::new(&reply.extra).get().expect("a listing");
            assert!(listing.entries.len() <= page as usize);
            names.extend(listing.entries.iter().map(|e| String::from_utf8(e.name.clone()).expect("ascii")));
            next = next_page(&listing);
        }
        names.sort();
        names
    }
}

fn run(seed: u64, options: MdsOptions, crash_share: u64, steps: usize) {
    // Either the journal gathers events that nobody waits for, or writes each at once.
    let journal_delay = if seed % 8 < 4 { options.journal_delay } else { Duration::ZERO };
    let mut r = Run::new(seed, MdsOptions { journal_delay, ..options }, crash_share);
    r.is_hasty = seed % 4 >= 2;
    for i in 0..steps {
        r.step();
        if i % 50 == 49 {
            r.compare();
        }
        if r.w.rng.chance(1, 20) {
            r.w.advance(Duration::from_secs(4));
            r.w.send(10, 0, msgs::ClientSession::of(msgs::session_op::REQUEST_RENEWCAPS, 1));
        }
        if r.w.rng.chance(1, 10) {
            // The client forgets caps now and then, so that inodes can leave the cache.
            let held: Vec<(u64, u64, u32)> =
                r.w.clients[&10].held.iter().map(|(i, h)| (*i, h.cap_id, h.issue_seq)).collect();
            let caps = held
                .iter()
                .map(|(ino, cap_id, seq)| msgs::CapReleaseItem {
                    ino: *ino,
                    cap_id: *cap_id,
                    migrate_seq: 0,
                    seq: *seq,
                })
                .collect();
            r.w.clients.get_mut(&10).expect("it").held.clear();
            r.w.send(10, 0, msgs::ClientCapRelease { caps, ..Default::default() });
            r.w.quiet();
        }
    }
    r.compare();
    r.w.crash(&[10]);
    r.compare();
}

#[test]
fn random_operations_equal_the_model() {
    for seed in 0..20 {
        run(seed, ROOMY, 0, 300);
    }
}

#[test]
fn random_operations_equal_the_model_in_a_tiny_cache_and_journal() {
    for seed in 100..120 {
        run(seed, TINY, 0, 300);
    }
}

#[test]
fn crashes_at_any_point_lose_nothing_and_repeat_nothing() {
    for seed in 200..230 {
        run(seed, if seed % 2 == 0 { ROOMY } else { TINY }, 6, 150);
    }
}

#[test]
fn a_huge_directory_is_served_from_a_small_cache() {
    let options = MdsOptions { cache_inodes: 200, journal_bytes: 512 << 10, ..MdsOptions::default() };
    let mut r = Run::new(7, options, 0);
    r.m.make("d", Node { dir: Some(BTreeMap::new()), mode: 0o755, ..Node::default() }).expect("made");
    r.check("mkdir d", mkdir("d"), Ok(()));
    let mut names = Vec::new();
    for i in 0..5_000 {
        let name = format!("file-{i}");
        r.check(&name, create(&format!("d/{name}"), 1), Ok(()));
        names.push(name);
        if i % 50 == 0 {
            let caps = std::mem::take(&mut r.w.clients.get_mut(&10).expect("it").held)
                .into_iter()
                .map(|(ino, h)| msgs::CapReleaseItem {
                    ino,
                    cap_id: h.cap_id,
                    migrate_seq: 0,
                    seq: h.issue_seq,
                })
                .collect();
            r.w.send(10, 0, msgs::ClientCapRelease { caps, ..Default::default() });
        }
    }
    names.sort();
    assert_eq!(r.list("d", 700), names);
    assert_eq!(r.call(open("d/file-4321", 0)).result, 0);
    assert_eq!(r.call(open("d/file-x", 0)).result, wire::Errno::ENOENT.to_result_code());
    assert!(r.w.max_entries < 2_500, "{} entries were cached at once", r.w.max_entries);
}
