//! `nacre dev`: a whole cluster in the foreground.

use crate::cluster::{
    Cluster, Daemon, Daemons, DirLock, Layout, MountProcess, PATIENCE, Processes, Wanted, advise,
    daemon_names, export, hostname, import_keys, is_served, make_file_system, open_or_create,
};
use crate::{logging, signals};
use anyhow::{Context, Result, bail};
use clap::{Args, ValueEnum};
use node::Never;
use runtime::{Handle, Notice};
use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::time::Duration;
use wire::{EntityName, EntityType};

/// Between two looks at whether the file system is served. Only the start asks, for a fraction of a second.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

#[derive(Args)]
pub(crate) struct DevArgs {
    /// The directory of the cluster's data; an existing cluster continues. Without it: nacre-data, mounted at
    /// nacre-data/mnt.
    dir: Option<PathBuf>,
    /// Number of object storage daemons [default: 3, or as many as there are].
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=64))]
    osds: Option<u32>,
    /// Number of monitors [default: 1, or as many as there are].
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=9))]
    mons: Option<u32>,
    /// Number of metadata servers; as many serve as the load asks for, the rest stands by [default: one more
    /// than there are cores, at most 9; or as many as there are].
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=9))]
    mds: Option<u32>,
    /// The address that all daemons listen on [default: 127.0.0.1].
    #[arg(long)]
    addr: Option<IpAddr>,
    /// The first monitor's port, the next ones follow; other daemons take free ones [default: 3300].
    #[arg(long)]
    port: Option<u16>,
    /// Authentication of clients [default: cephx].
    #[arg(long, value_enum)]
    auth: Option<AuthMethod>,
    /// Mount the file system there, until the cluster ends.
    #[arg(long)]
    mount: Option<PathBuf>,
    /// The size of a new OSD's sparse file.
    #[arg(long, default_value = "16G", value_parser = super::terminal::size)]
    osd_size: u64,
    /// Run every daemon in a process of its own.
    #[arg(long)]
    separate: bool,
}

/// The authentication of clients.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum AuthMethod {
    /// Keys.
    Cephx,
    /// None.
    None,
}

pub(crate) fn run(args: &DevArgs) -> Result<()> {
    let wanted = Wanted {
        mons: args.mons,
        osds: args.osds,
        mds: args.mds,
        addr: args.addr,
        port: args.port,
        cephx: args.auth.map(|a| a == AuthMethod::Cephx),
    };
    let layout = Layout::create(args.dir.as_deref().unwrap_or(Path::new("nacre-data")))?;
    let _lock = DirLock::take(&layout.run_dir(), layout.dir(), "nacre dev")?;
    let cluster = open_or_create(&layout, &wanted)?;
    logging::start(Some(&layout.log("nacre")))?;
    let (tx, notices) = mpsc::channel();
    signals::watch(tx.clone())?;
    let running = if args.separate {
        Running::Separate(Processes::new(cluster.layout.place()))
    } else {
        Running::Together(Daemons::new(tx.clone()), BTreeMap::new())
    };
    let waiting = daemon_names(cluster.mons.len(), &cluster.osds, cluster.mds).into_iter().collect();
    let mut foreground = Foreground { cluster: &cluster, args, tx, notices, running, waiting };
    let result = foreground.run();
    foreground.running.stop(&foreground.notices);
    result
}

/// Mounts the file system, if it should be. Without arguments the mount is a convenience: if it fails, that
/// is printed and the cluster goes on.
fn mount(cluster: &Cluster, args: &DevArgs) -> Result<Option<(MountProcess, PathBuf)>> {
    let usual = || args.dir.is_none().then(|| cluster.layout.dir().join("mnt"));
    let Some(point) = args.mount.clone().or_else(usual) else { return Ok(None) };
    let created = match std::fs::create_dir_all(&point) {
        // The process of an earlier mount was killed: the new one cleans up.
        Err(e) if e.raw_os_error() != Some(libc::ENOTCONN) => Err(advise("create", &point, e)),
        _ => Ok(()),
    };
    match created.and_then(|()| MountProcess::start(&cluster.layout, &point)) {
        Err(error) if args.mount.is_none() => {
            eprintln!("nacre: {error:#}");
            Ok(None)
        }
        process => Ok(Some((process?, point))),
    }
}

/// The daemons of a running cluster.
enum Running {
    /// All in this process.
    Together(Daemons, BTreeMap<EntityName, Handle<Never, Never>>),
    /// Every daemon in a process of its own.
    Separate(Processes),
}

impl Running {
    /// Ends the daemons.
    fn stop(self, notices: &Receiver<Notice>) {
        if let Self::Together(_daemons, handles) = self {
            handles.values().for_each(Handle::stop);
            drain(notices, handles.len());
        }
    }
}

/// A cluster that runs in the foreground.
struct Foreground<'a> {
    cluster: &'a Cluster,
    args: &'a DevArgs,
    tx: Sender<Notice>,
    notices: Receiver<Notice>,
    running: Running,
    /// The daemons that have not been ready yet.
    waiting: BTreeSet<EntityName>,
}

impl Foreground<'_> {
    fn run(&mut self) -> Result<()> {
        for name in self.waiting.clone() {
            self.start(&name)?;
        }
        if !self.until_ready()? {
            return Ok(());
        }
        export(self.cluster.layout.run_dir(), hostname());
        let _mount = greet(self.cluster, self.args)?;
        self.until_end()
    }

    fn start(&mut self, name: &EntityName) -> Result<()> {
        let osd_size = self.args.osd_size;
        match &mut self.running {
            Running::Together(daemons, handles) => {
                let daemon = Daemon::new(name.clone(), &self.cluster.layout.conf(), osd_size)?;
                let daemon = daemon.among(self.cluster.osds.len());
                handles.insert(name.clone(), daemons.start(&daemon)?);
                Ok(())
            }
            Running::Separate(processes) => processes.start(name, osd_size, self.tx.clone()),
        }
    }

    /// Waits for the daemons. Makes the file system once the monitor and the OSDs are ready, and waits until
    /// one of the metadata servers serves it. Returns `false` if a signal came first.
    fn until_ready(&mut self) -> Result<bool> {
        let mut made = None;
        loop {
            if made.is_none() && self.waiting.iter().all(|name| name.ty == EntityType::MDS) {
                let options = client::Options::new(self.cluster.layout.conf());
                let admin = client::Cluster::connect(&options, PATIENCE)?;
                import_keys(&admin, self.cluster)?;
                make_file_system(&admin)?;
                made = Some(admin);
            }
            let notice = match &made {
                Some(admin) if self.waiting.is_empty() => {
                    if is_served(admin)? {
                        return Ok(true);
                    }
                    match self.notices.recv_timeout(LOOK_AGAIN) {
                        Err(RecvTimeoutError::Timeout) => continue,
                        other => other?,
                    }
                }
                _ => self.notices.recv()?,
            };
            if !self.take(notice)? {
                return Ok(false);
            }
        }
    }

    /// Waits for the end.
    fn until_end(&mut self) -> Result<()> {
        loop {
            let notice = self.notices.recv()?;
            if !self.take(notice)? {
                return Ok(());
            }
        }
    }

    /// Takes a notice about the daemons. Returns `false` if a signal asks for the end.
    fn take(&mut self, notice: Notice) -> Result<bool> {
        match notice {
            Notice::Signal => return Ok(false),
            Notice::Ready(name) => {
                tracing::info!(%name, "ready");
                let (conf, osd_size) = (self.cluster.layout.conf(), self.args.osd_size);
                Daemon::new(name.clone(), &conf, osd_size)?.note_ready()?;
                self.waiting.remove(&name);
            }
            Notice::Restart(name, why) => {
                tracing::warn!(%name, "begins anew: {why}");
                self.start(&name)?;
            }
            Notice::Ended(name, result) => self.ended(&name, result)?,
        }
        Ok(true)
    }

    /// A daemon has ended: fatal if it shares this process or was never ready, otherwise printed.
    fn ended(&self, name: &EntityName, result: Result<(), String>) -> Result<()> {
        let why = result.err().unwrap_or_else(|| "it has stopped".to_owned());
        if matches!(self.running, Running::Together(..)) || self.waiting.contains(name) {
            bail!("{name}: {why}");
        }
        let conf = self.cluster.layout.conf();
        eprintln!(
            "nacre: {name}: {why}; start it again with `nacre {} --conf {} --id {}`",
            name.ty.name(),
            conf.display(),
            name.id
        );
        Ok(())
    }
}

/// Mounts if asked to, and prints that all is ready.
fn greet(cluster: &Cluster, args: &DevArgs) -> Result<Option<MountProcess>> {
    let mounted = mount(cluster, args)?;
    let mut text = greeting(cluster);
    if let Some((_, point)) = &mounted {
        text.push_str(&format!("  mounted     {}\n", point.display()));
    }
    say(&text)?;
    if let Some(warning) = cluster.layout.warn_of_growth() {
        eprintln!("nacre: {warning}");
    }
    Ok(mounted.map(|(process, _)| process))
}

/// Waits for `count` nodes to end after they were asked to.
fn drain(notices: &Receiver<Notice>, mut count: usize) {
    while count > 0 {
        match notices.recv_timeout(Duration::from_secs(4)) {
            Ok(Notice::Ended(..)) => count -= 1,
            // A second Ctrl-C ends at once.
            Ok(Notice::Signal) | Err(_) => return,
            Ok(_) => {}
        }
    }
}

fn greeting(cluster: &Cluster) -> String {
    let conf = cluster.layout.conf();
    let conf = conf.display();
    let mons: Vec<String> = cluster.mons.iter().map(ToString::to_string).collect();
    let secret = if cluster.cephx { ",secret=KEY" } else { "" };
    format!(
        "nacre: ready\n\
         \x20 status      nacre status -c {conf}\n\
         \x20 administer  ceph -c {conf} -s\n\
         \x20 pools       ceph -c {conf} osd pool ls\n\
         \x20 objects     rados -c {conf} -p cephfs_data ls\n\
         \x20 mount       nacre mount -c {conf} MNT, or ceph-fuse -c {conf} MNT, or\n\
         \x20             mount -t ceph admin@{}.cephfs=/ MNT -o mon_addr={}{secret},ms_mode=crc\n\
         \x20 stop        Ctrl-C\n",
        cluster.fsid,
        mons.join("/")
    )
}

fn say(text: &str) -> Result<()> {
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).context("standard output")
}
