//! What holds of a tree's statistics and limits when all is quiet, looked at by asking clients, one request
//! after another:
//!
//! - `statistics_exact`: once everything was looked at and some seconds have passed for each level,
//!   `ceph.dir.rfiles`, `rsubdirs`, `rentries` and `rbytes` of each directory are what is below it.
//! - `scrub_finds_nothing`: a scrub of everything by the metadata server finds no damage.
//! - `quotas_hold`: a tree takes as many files and bytes as its limits allow and not one more, whoever makes
//!   them, in whatever way and however deep; what moves into or out of it is to be copied; what is outside is
//!   free; and a limit that is removed limits nothing.
//!
//! While others change the tree less is promised: what is used is known late, and clients create
//! asynchronously by what they know (docs/internals/mds.md, "Quotas").

use crate::cluster::Cluster;
use crate::host::HostId;
use fsclient::{Answer, Caller, DirEntry, Entry, Errno, Fh, FsRequest, Reply, Request, SetAttr};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use stdx::Rng;

/// The longest time until an answer.
const LIMIT: Duration = Duration::from_secs(60);
/// The time in which statistics move up one level, with the messages about it.
const LEVEL: Duration = Duration::from_secs(4);
const ROOT: u64 = 1;
const S_IFMT: u32 = 0o170_000;
const S_IFDIR: u32 = 0o040_000;
const S_IFREG: u32 = 0o100_000;
const O_RDWR: u32 = 2;
const O_CREAT_EXCL: u32 = 0o302;

/// A checker's name and what it found.
type Found = (&'static str, String);

const STATISTICS: &str = "statistics_exact";
const QUOTAS: &str = "quotas_hold";
const SCRUB: &str = "scrub_finds_nothing";

/// Checks a file system that is mounted and that nobody uses; with `limits` also that trees keep their
/// limits. Of the files in `linked`, nobody sees where they are counted, if anywhere.
pub fn check(
    cluster: &mut Cluster,
    rng: &mut Rng,
    linked: &BTreeSet<u64>,
    limits: bool,
) -> Result<(), Found> {
    let clients = cluster.clients.clone();
    let mut audit = Audit { cluster, clients, rng, linked };
    audit.statistics()?;
    audit.scrub()?;
    if limits {
        audit.limits()?;
    }
    Ok(())
}

/// An inode as a walk found it.
#[derive(Clone, Debug)]
struct Node {
    is_dir: bool,
    size: u64,
    /// Numbers of the inodes in a directory, one for each name.
    children: Vec<u64>,
    depth: u32,
}

/// The ways to make a new file or directory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Way {
    Mknod,
    Create,
    Mkdir,
    Symlink,
    Link,
}

struct Audit<'a> {
    cluster: &'a mut Cluster,
    clients: Vec<HostId>,
    rng: &'a mut Rng,
    linked: &'a BTreeSet<u64>,
}

impl Audit<'_> {
    fn ask(&mut self, client: usize, request: FsRequest) -> Reply {
        let host = self.clients[client];
        // Without an answer, ETIMEDOUT: no client gives that here.
        let asked = self.cluster.ask(host, Request::Fs(Caller::default(), request), LIMIT);
        asked.unwrap_or(Err(Errno::ETIMEDOUT))
    }

    /// Makes a request that has to succeed.
    fn must(&mut self, client: usize, request: FsRequest, checker: &'static str) -> Result<Answer, Found> {
        let text = format!("client.{client} {request:?}");
        self.ask(client, request).map_err(|errno| (checker, format!("{text}: {errno}")))
    }

    fn any_client(&mut self) -> usize {
        self.rng.below(self.clients.len() as u64) as usize
    }

    /// Lets some time pass in which clients answer what they are told.
    fn rest(&mut self, time: Duration) {
        let until = self.cluster.world.now() + time;
        while self.cluster.world.now() < until {
            self.cluster.world.run_for(Duration::from_millis(500));
            let _ = self.cluster.ask(
                self.clients[0],
                Request::Fs(Caller::default(), FsRequest::Statfs { root: 1 }),
                LIMIT,
            );
        }
    }

    fn list(&mut self, client: usize, dir: u64) -> Result<Vec<DirEntry>, Found> {
        let Answer::Opened { fh, .. } = self.must(client, FsRequest::Opendir { ino: dir }, STATISTICS)?
        else {
            return Err((STATISTICS, format!("{dir:x} does not open")));
        };
        let (mut all, mut offset) = (Vec::new(), 0);
        loop {
            let page = FsRequest::Readdir { fh, offset, max_bytes: 1 << 16, plus: false };
            match self.must(client, page, STATISTICS)? {
                Answer::Entries(page) if !page.is_empty() => {
                    offset = page.last().map_or(0, |last| last.next_offset);
                    all.extend(page);
                }
                _ => break,
            }
        }
        self.must(client, FsRequest::Releasedir { fh }, STATISTICS)?;
        Ok(all)
    }

    /// The whole tree.
    fn walk(&mut self, client: usize) -> Result<BTreeMap<u64, Node>, Found> {
        let root = Node { is_dir: true, size: 0, children: Vec::new(), depth: 0 };
        let (mut all, mut left) = (BTreeMap::from([(ROOT, root)]), vec![(ROOT, 0)]);
        while let Some((dir, depth)) = left.pop() {
            for entry in self.list(client, dir)? {
                if entry.name == b"." || entry.name == b".." {
                    continue;
                }
                let child = self.lookup(client, dir, &entry.name)?;
                let is_dir = child.attr.mode & S_IFMT == S_IFDIR;
                let size = if is_dir { 0 } else { child.attr.size };
                let ino = child.attr.ino;
                let node = Node { is_dir, size, children: Vec::new(), depth: depth + 1 };
                all.entry(ino).or_insert(node);
                all.entry(dir).and_modify(|dir| dir.children.push(ino));
                left.extend(is_dir.then_some((ino, depth + 1)));
            }
        }
        Ok(all)
    }

    fn lookup(&mut self, client: usize, parent: u64, name: &[u8]) -> Result<Entry, Found> {
        let lookup = FsRequest::Lookup { parent, name: name.to_vec() };
        match self.must(client, lookup, STATISTICS)? {
            Answer::Entry(entry) => Ok(entry),
            other => Err((STATISTICS, format!("{} is listed: {other:?}", String::from_utf8_lossy(name)))),
        }
    }

    fn statistics(&mut self) -> Result<(), Found> {
        let client = self.any_client();
        let tree = self.walk(client)?;
        let deepest = tree.values().map(|node| node.depth).max().unwrap_or(0);
        self.rest(LEVEL * (deepest + 2));
        let dirs: Vec<u64> = tree.iter().filter(|(_, node)| node.is_dir).map(|(ino, _)| *ino).collect();
        for dir in dirs {
            let client = self.any_client();
            let mut said = [0; 4];
            for (said, name) in said.iter_mut().zip(["rfiles", "rsubdirs", "rentries", "rbytes"]) {
                let name = format!("ceph.dir.{name}").into_bytes();
                let answer = self.must(client, FsRequest::Getxattr { ino: dir, name }, STATISTICS)?;
                *said = number(&answer).ok_or((STATISTICS, format!("{dir:x}: {answer:?}")))?;
            }
            let [least, most] = below(&tree, self.linked, dir);
            if !(0..4).all(|n| least[n] <= said[n] && said[n] <= most[n]) {
                let what = "files, directories, both, bytes";
                return Err((
                    STATISTICS,
                    format!("directory {dir:x} says {said:?} ({what}), and has {least:?} to {most:?}"),
                ));
            }
        }
        Ok(())
    }

    /// A command for the active metadata server.
    fn tell(&mut self, command: &str) -> Result<serde_json::Value, Found> {
        for host in self.cluster.mdss() {
            let status = self.cluster.world.admin(host, r#"{"prefix":"status"}"#);
            if !status.is_some_and(|(_, text)| text.contains("up:active")) {
                continue;
            }
            return match self.cluster.world.admin(host, command) {
                Some((0, text)) => {
                    serde_json::from_str(&text).map_err(|e| (SCRUB, format!("{command}: {e}")))
                }
                other => Err((SCRUB, format!("{command}: {other:?}"))),
            };
        }
        Err((SCRUB, "no metadata server is active".to_owned()))
    }

    fn scrub(&mut self) -> Result<(), Found> {
        self.tell(r#"{"prefix":"scrub start","path":"/","scrubops":["recursive"],"tag":"audit"}"#)?;
        let until = self.cluster.world.now() + LIMIT;
        let status = loop {
            self.rest(Duration::from_millis(500));
            let status = self.tell(r#"{"prefix":"scrub status"}"#)?;
            if status["last"]["tag"] == "audit" {
                break status;
            }
            if self.cluster.world.now() > until {
                return Err((SCRUB, format!("it never ends: {status}")));
            }
        };
        let progress = &status["last"]["progress"];
        let is_clean = progress["damaged"] == 0 && progress["not_judged"] == 0;
        if is_clean && progress["directories"].as_u64() > Some(0) {
            return Ok(());
        }
        let damage = self.tell(r#"{"prefix":"damage ls"}"#)?;
        Err((SCRUB, format!("{status} {damage}")))
    }

    fn set(&mut self, dir: u64, name: &str, value: Option<u64>) -> Result<(), Found> {
        let client = self.any_client();
        let name = format!("ceph.quota.{name}").into_bytes();
        let request = match value {
            Some(value) => {
                let value = value.to_string().into_bytes();
                FsRequest::Setxattr { ino: dir, name, value, flags: 0, kill_sgid: false }
            }
            None => FsRequest::Removexattr { ino: dir, name },
        };
        self.must(client, request, QUOTAS).map(drop)
    }

    fn make(&mut self, client: usize, way: Way, dir: u64, name: &str, file: u64) -> Reply {
        let bytes = name.as_bytes().to_vec();
        let request = match way {
            Way::Mknod => FsRequest::Mknod { parent: dir, name: bytes, mode: S_IFREG | 0o644, rdev: 0 },
            Way::Create => FsRequest::Create { parent: dir, name: bytes, mode: 0o644, flags: O_CREAT_EXCL },
            Way::Mkdir => FsRequest::Mkdir { parent: dir, name: bytes, mode: 0o755 },
            Way::Symlink => FsRequest::Symlink { parent: dir, name: bytes, target: b"to".to_vec() },
            Way::Link => FsRequest::Link { ino: file, new_parent: dir, new_name: bytes },
        };
        let reply = self.ask(client, request);
        if let Ok(Answer::Created { fh, .. }) = &reply {
            let _ = self.ask(client, FsRequest::Release { fh: *fh, lock_owner: 0 });
        }
        reply
    }

    /// The inode that a call made.
    fn made(&mut self, client: usize, way: Way, dir: u64, name: &str) -> Result<u64, Found> {
        match self.make(client, way, dir, name, 0) {
            Ok(Answer::Entry(entry) | Answer::Created { entry, .. }) => Ok(entry.attr.ino),
            other => Err((QUOTAS, format!("client.{client} {way:?} {name}: {other:?}"))),
        }
    }

    /// Removes all limits, and tries those of a new tree.
    fn limits(&mut self) -> Result<(), Found> {
        let client = self.any_client();
        let tree = self.walk(client)?;
        for (dir, _) in tree.iter().filter(|(_, node)| node.is_dir) {
            for name in ["max_files", "max_bytes"] {
                self.set(*dir, name, None)?;
            }
        }
        // All clients hear of it.
        self.rest(LEVEL);
        let top = self.made(client, Way::Mkdir, ROOT, "limited")?;
        let inner = self.made(client, Way::Mkdir, top, "inner")?;
        let out = self.made(client, Way::Mkdir, ROOT, "free")?;
        let file = self.made(client, Way::Create, inner, "file")?;
        self.must(client, FsRequest::Sync, QUOTAS)?;
        self.know(&[top, inner, out])?;
        // A file with several names is in no tree's limits.
        let linked = self.made(client, Way::Mknod, out, "linked")?;
        self.files(top, inner, out, linked)?;
        self.bytes(top, inner, file)?;
        let more = [linked];
        let linked = self.linked.iter().copied().chain(more).collect();
        Audit { cluster: self.cluster, clients: self.clients.clone(), rng: self.rng, linked: &linked }
            .statistics()
    }

    /// Lets all clients know these directories, and what is in them.
    fn know(&mut self, dirs: &[u64]) -> Result<(), Found> {
        for client in 0..self.clients.len() {
            for name in [&b"limited"[..], b"free"] {
                self.lookup(client, ROOT, name)?;
            }
            self.lookup(client, dirs[0], b"inner")?;
            self.lookup(client, dirs[1], b"file")?;
        }
        self.rest(LEVEL * 3);
        Ok(())
    }

    fn files(&mut self, top: u64, inner: u64, out: u64, linked: u64) -> Result<(), Found> {
        // The directory itself, the one in it and the file.
        self.set(top, "max_files", Some(5))?;
        for (n, (way, dir)) in [(Way::Mkdir, top), (Way::Symlink, inner)].into_iter().enumerate() {
            self.know(&[top, inner])?;
            let client = self.any_client();
            self.made(client, way, dir, &format!("fits{n}"))?;
        }
        self.know(&[top, inner])?;
        for way in [Way::Mknod, Way::Create, Way::Mkdir, Way::Symlink, Way::Link] {
            for dir in [top, inner, out] {
                let client = self.any_client();
                let reply = self.make(client, way, dir, &format!("more{way:?}"), linked);
                let is_right = match &reply {
                    Ok(_) => dir == out,
                    Err(errno) => dir != out && *errno == Errno::EDQUOT,
                };
                if !is_right {
                    let what = "a tree with 5 of 5 files";
                    let place = if dir == out { "outside" } else { "inside" };
                    return Err((QUOTAS, format!("client.{client} {way:?} {place} of {what}: {reply:?}")));
                }
            }
        }
        self.moves(top, inner, out)?;
        let client = self.any_client();
        self.must(client, FsRequest::Unlink { parent: inner, name: b"fits1".to_vec() }, QUOTAS)?;
        self.know(&[top, inner])?;
        let client = self.any_client();
        self.made(client, Way::Mknod, inner, "again")?;
        self.set(top, "max_files", None)?;
        self.know(&[top, inner])?;
        let client = self.any_client();
        self.made(client, Way::Mknod, top, "unlimited").map(drop)
    }

    /// Moves a name within the tree, and tries to move one into it.
    fn moves(&mut self, top: u64, inner: u64, out: u64) -> Result<(), Found> {
        let client = self.any_client();
        let (from, to) = (b"fits0".to_vec(), b"moved".to_vec());
        let rename = FsRequest::Rename { parent: top, name: from, new_parent: inner, new_name: to, flags: 0 };
        self.must(client, rename, QUOTAS)?;
        let from = b"moreMkdir".to_vec();
        let rename =
            FsRequest::Rename { parent: out, name: from.clone(), new_parent: top, new_name: from, flags: 0 };
        match self.ask(client, rename) {
            Err(Errno::EXDEV) => Ok(()),
            other => Err((QUOTAS, format!("client.{client} moves into a tree with a limit: {other:?}"))),
        }
    }

    fn open(&mut self, client: usize, file: u64) -> Result<Fh, Found> {
        match self.must(client, FsRequest::Open { ino: file, flags: O_RDWR, kill_suidgid: false }, QUOTAS)? {
            Answer::Opened { fh, .. } => Ok(fh),
            other => Err((QUOTAS, format!("{file:x} does not open: {other:?}"))),
        }
    }

    fn bytes(&mut self, top: u64, inner: u64, file: u64) -> Result<(), Found> {
        let client = self.any_client();
        let answer =
            self.must(client, FsRequest::Getxattr { ino: top, name: b"ceph.dir.rbytes".to_vec() }, QUOTAS)?;
        let used = number(&answer).ok_or((QUOTAS, format!("{answer:?}")))?;
        self.set(top, "max_bytes", Some(used + 32))?;
        for (offset, fits) in [(0, true), (16, true), (32, false)] {
            self.know(&[top, inner])?;
            let client = self.any_client();
            let fh = self.open(client, file)?;
            let data = vec![7u8; 16].into();
            let written = self.ask(client, FsRequest::Write { fh, offset, data, kill_suidgid: false });
            self.must(client, FsRequest::Fsync { fh, data_only: false }, QUOTAS)?;
            self.must(client, FsRequest::Release { fh, lock_owner: 0 }, QUOTAS)?;
            if written.is_ok() != fits || !fits && written != Err(Errno::EDQUOT) {
                let text =
                    format!("client.{client} writes bytes {offset} to {} of 32: {written:?}", offset + 16);
                return Err((QUOTAS, text));
            }
        }
        let client = self.any_client();
        for (size, fits) in [(33, false), (32, true), (8, true)] {
            let set = SetAttr { size: Some(size), ..SetAttr::default() };
            let reply = self.ask(client, FsRequest::Setattr { ino: file, set });
            if reply.is_ok() != fits || !fits && reply != Err(Errno::EDQUOT) {
                return Err((QUOTAS, format!("client.{client} sets the size to {size} of 32: {reply:?}")));
            }
        }
        self.set(top, "max_bytes", None)
    }
}

fn number(answer: &Answer) -> Option<u64> {
    let Answer::Data(data) = answer else { return None };
    std::str::from_utf8(&data.to_vec()).ok()?.parse().ok()
}

/// The least and the most that statistics of a directory may say: files, directories and both, the directory
/// itself included, and bytes. A file that has, or had, several names counts where its first one is, and
/// nowhere when that is gone.
fn below(tree: &BTreeMap<u64, Node>, linked: &BTreeSet<u64>, top: u64) -> [[u64; 4]; 2] {
    let mut inside: BTreeSet<u64> = BTreeSet::new();
    let (mut dirs, mut left) = (BTreeSet::from([top]), vec![top]);
    while let Some(dir) = left.pop() {
        for child in &tree[&dir].children {
            if tree[child].is_dir {
                dirs.insert(*child);
                left.push(*child);
            } else {
                inside.insert(*child);
            }
        }
    }
    let mut counts = [[0, dirs.len() as u64, dirs.len() as u64, 0]; 2];
    for ino in inside {
        for counts in counts.iter_mut().skip(usize::from(linked.contains(&ino))) {
            counts[0] += 1;
            counts[2] += 1;
            counts[3] += tree[&ino].size;
        }
    }
    counts
}
