//! Time that a client takes for a walk over nested directories (the paper's figure 9 (b)): each is listed,
//! then each file in it is looked at. The server's cache is empty, after a restart, or knows the tree from an
//! earlier walk by another client.

use super::{KEPT, SERVER, ask, entry, forget, give_speed, shared_dir};
use crate::cluster::{Cluster, Spec};
use crate::disk::Crash;
use crate::faults::Faults;
use crate::host::HostId;
use fsclient::{Answer, ClientOptions, DirEntry, FsRequest};
use mds::MdsOptions;
use std::time::Duration;

/// Subdirectories of a directory.
const FANOUT: u32 = 10;
/// Bytes of names in a page of a listing.
const PAGE: usize = 32 << 10;
/// The longest wait for the cluster to be healthy after its restart.
const SETTLES: Duration = Duration::from_secs(120);
/// The journal of the server, the least that can be set: a small part of what is made, so that a restart
/// forgets the rest.
const JOURNAL: u64 = 1 << 20;
/// Room for the largest tree.
const CACHED: usize = 1_000_000;

/// Parameters of a run.
#[derive(Clone, Copy, Debug)]
pub struct WalkSpec {
    /// Number of directories.
    pub dirs: u32,
    /// Files in each.
    pub files_each: u32,
    /// Seed of the run.
    pub seed: u64,
}

/// Sums over a walk.
#[derive(Clone, Copy, Debug, Default)]
pub struct Walk {
    /// Of listings.
    pub readdir: Duration,
    /// Of looking at each file after that.
    pub stat: Duration,
}

/// Results of a run.
#[derive(Clone, Copy, Debug)]
pub struct Walks {
    /// The server has just been started.
    pub fresh: Walk,
    /// It has the whole tree in its cache.
    pub primed: Walk,
    /// Then a client looks at each file by its name, without a listing before.
    pub by_name: Duration,
}

/// A tree of directories.
struct Tree {
    /// The root, then its subdirectories, level by level: the subdirectories of the directory at place n are
    /// at n * 10 + 1 and after.
    dirs: Vec<u64>,
    spec: WalkSpec,
}

impl Tree {
    fn make(spec: WalkSpec, cluster: &mut Cluster, client: HostId) -> Result<Self, String> {
        let mut tree = Self { dirs: vec![entry(cluster, client, shared_dir())?], spec };
        for place in 0..spec.dirs {
            if place > 0 {
                let parent = tree.dirs[((place - 1) / FANOUT) as usize];
                let request = FsRequest::Mkdir { parent, name: dir_name(place), mode: 0o755 };
                tree.dirs.push(entry(cluster, client, request)?);
            }
            let parent = tree.dirs[place as usize];
            for number in 0..spec.files_each {
                let name = file_name(number);
                let file =
                    entry(cluster, client, FsRequest::Mknod { parent, name, mode: 0o100_644, rdev: 0 })?;
                forget(cluster, client, file);
            }
        }
        tree.dirs.iter().for_each(|dir| forget(cluster, client, *dir));
        Ok(tree)
    }

    /// Visits each directory, after the one that it is in, which stays known until the end.
    fn visit(
        &self,
        cluster: &mut Cluster,
        client: HostId,
        mut visit: impl FnMut(&mut Cluster, u64) -> Result<(), String>,
    ) -> Result<(), String> {
        for place in 0..self.spec.dirs {
            let request = match place {
                0 => FsRequest::Lookup { parent: 1, name: b"shared".into() },
                _ => FsRequest::Lookup {
                    parent: self.dirs[((place - 1) / FANOUT) as usize],
                    name: dir_name(place),
                },
            };
            let dir = entry(cluster, client, request)?;
            visit(cluster, dir)?;
        }
        self.dirs.iter().for_each(|dir| forget(cluster, client, *dir));
        Ok(())
    }

    fn walk(&self, cluster: &mut Cluster, client: HostId) -> Result<Walk, String> {
        let mut walk = Walk::default();
        self.visit(cluster, client, |cluster, dir| {
            let began = cluster.world.now();
            let listed = list(cluster, client, dir)?;
            let listed_at = cluster.world.now();
            walk.readdir += listed_at.since(began);
            for file in listed.iter().filter(|entry| entry.name.starts_with(b"f")) {
                match ask(cluster, client, FsRequest::Getattr { ino: file.ino })? {
                    Answer::Attr(..) => {}
                    other => return Err(format!("a look at {:x}: {other:?}", file.ino)),
                }
            }
            walk.stat += cluster.world.now().since(listed_at);
            listed.iter().filter(|e| e.entry.is_some()).for_each(|e| forget(cluster, client, e.ino));
            Ok(())
        })?;
        Ok(walk)
    }

    fn look_up_all(&self, cluster: &mut Cluster, client: HostId) -> Result<Duration, String> {
        let mut took = Duration::ZERO;
        self.visit(cluster, client, |cluster, parent| {
            let began = cluster.world.now();
            for number in 0..self.spec.files_each {
                let file = entry(cluster, client, FsRequest::Lookup { parent, name: file_name(number) })?;
                forget(cluster, client, file);
            }
            took += cluster.world.now().since(began);
            Ok(())
        })?;
        Ok(took)
    }
}

fn dir_name(place: u32) -> Vec<u8> {
    format!("d{place}").into()
}

fn file_name(number: u32) -> Vec<u8> {
    format!("f{number}").into()
}

/// All entries of a directory but `.` and `..`.
fn list(cluster: &mut Cluster, client: HostId, ino: u64) -> Result<Vec<DirEntry>, String> {
    let Answer::Opened { fh, .. } = ask(cluster, client, FsRequest::Opendir { ino })? else {
        return Err(format!("{ino:x} is not opened"));
    };
    let (mut all, mut offset) = (Vec::new(), 0);
    loop {
        let page = FsRequest::Readdir { fh, offset, max_bytes: PAGE, plus: true };
        let Answer::Entries(entries) = ask(cluster, client, page)? else {
            return Err(format!("{ino:x} is not listed"));
        };
        let Some(last) = entries.last() else { break };
        offset = last.next_offset;
        all.extend(entries);
    }
    ask(cluster, client, FsRequest::Releasedir { fh })?;
    all.retain(|entry| entry.name != b"." && entry.name != b"..");
    Ok(all)
}

/// Runs the cluster and measures it.
pub fn run(spec: WalkSpec) -> Result<Walks, String> {
    let mut cluster = cluster(spec);
    cluster.bring_up()?;
    let [maker, first, second, third] = cluster.clients[..] else { unreachable!("four clients") };
    let tree = Tree::make(spec, &mut cluster, maker)?;
    let server = cluster.mdss()[0];
    let restarted: Vec<HostId> = cluster.osds.iter().copied().chain([server]).collect();
    restarted.iter().for_each(|host| cluster.world.crash(*host, Crash::Process));
    restarted.iter().for_each(|host| cluster.world.start(*host));
    cluster.wait_healthy(SETTLES)?;
    give_speed(&mut cluster, SERVER);
    let fresh = tree.walk(&mut cluster, first)?;
    let primed = tree.walk(&mut cluster, second)?;
    let by_name = tree.look_up_all(&mut cluster, third)?;
    Ok(Walks { fresh, primed, by_name })
}

fn cluster(spec: WalkSpec) -> Cluster {
    let cluster = Spec {
        clients: 4,
        // Who has made the tree claims little of it after the restart, which would have it loaded.
        client: ClientOptions { idle_inodes: KEPT, ..ClientOptions::default() },
        fs: true,
        standbys: 0,
        ranks: 1,
        osd_disk: 1 << 30,
        mds: MdsOptions { journal_bytes: JOURNAL, cache_inodes: CACHED, ..MdsOptions::default() },
        ..Spec::default()
    };
    Cluster::new(spec.seed, Faults::none(), &cluster)
}

/// Walks over so many directories, with one and with ten files in each. `tell` gets the lines of a table.
pub fn report(dirs: u32, seed: u64, tell: &mut dyn FnMut(&str)) -> Result<(), String> {
    tell(
        "| files each | s: readdir, fresh | stat after it | readdir, primed | stat after it | stat by name |",
    );
    tell("|---|---|---|---|---|---|");
    for files_each in [1, 10] {
        let Walks { fresh, primed, by_name } = run(WalkSpec { dirs, files_each, seed })?;
        let all = [fresh.readdir, fresh.stat, primed.readdir, primed.stat, by_name];
        let cells = all.map(|time| format!("{:.1}", time.as_secs_f64())).join(" | ");
        tell(&format!("| {files_each} | {cells} |"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scaling::PAPER;

    #[test]
    fn a_primed_cache_saves_reads_and_a_listing_saves_looks() {
        let walks = run(WalkSpec { dirs: 3000, files_each: 3, seed: 6 }).expect("a run without complaints");
        let Walks { fresh, primed, by_name } = walks;
        assert!(fresh.readdir > primed.readdir + PAPER.latency * 2 * 1500, "most are read: {walks:?}");
        assert_eq!((fresh.stat, primed.stat), (Duration::ZERO, Duration::ZERO), "nobody is asked");
        assert!(by_name > PAPER.latency * 2 * 9000, "the server is asked for each: {walks:?}");
    }
}
