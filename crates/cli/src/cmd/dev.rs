//! `nacre dev`: a whole cluster in the foreground.

use crate::cluster::{
    ClientArgs, Cluster, CommandReply, Daemon, Daemons, DirLock, Layout, MountProcess, Processes, Wanted,
    advise, daemon_names, make_file_system, open_or_create, spawn_session,
};
use crate::{logging, signals};
use anyhow::{Context, Result, bail};
use clap::{Args, ValueEnum};
use runtime::{EventLoop, Handle, Notice};
use std::collections::BTreeSet;
use std::io::Write;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::available_parallelism;
use wire::{EntityName, EntityType};

#[derive(Args)]
pub(crate) struct DevArgs {
    /// Where the cluster's data is, or goes; a cluster that is there continues. Without it: nacre-data, mounted at
    /// nacre-data/mnt.
    dir: Option<PathBuf>,
    /// Object storage daemons [default: 3, or as many as there are].
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=64))]
    osds: Option<u32>,
    /// Monitors [default: 1, or as many as there are].
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=9))]
    mons: Option<u32>,
    /// Metadata servers.
    #[arg(long, default_value_t = 1)]
    mds: u32,
    /// The address that all daemons listen on [default: 127.0.0.1].
    #[arg(long)]
    addr: Option<IpAddr>,
    /// The first monitor's port, the next ones follow; other daemons take free ones [default: 3300].
    #[arg(long)]
    port: Option<u16>,
    /// How clients prove who they are [default: cephx].
    #[arg(long, value_enum)]
    auth: Option<AuthMethod>,
    /// Mount the file system there, until the end.
    #[arg(long)]
    mount: Option<PathBuf>,
    /// Size of a new OSD's sparse file.
    #[arg(long, default_value = "16G", value_parser = super::size)]
    osd_size: u64,
    /// Run every daemon as a process of its own.
    #[arg(long)]
    separate: bool,
}

/// How clients prove who they are.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum AuthMethod {
    /// By keys.
    Cephx,
    /// Not at all.
    None,
}

pub(crate) fn run(args: &DevArgs) -> Result<()> {
    if args.mds != 1 {
        bail!("--mds {}: several metadata servers are not supported yet, leave the option out", args.mds);
    }
    let wanted = Wanted {
        mons: args.mons,
        osds: args.osds,
        addr: args.addr,
        port: args.port,
        cephx: args.auth.map(|a| a == AuthMethod::Cephx),
    };
    let layout = Layout::create(args.dir.as_deref().unwrap_or(Path::new("nacre-data")))?;
    let _lock = DirLock::take(&layout)?;
    let cluster = open_or_create(&layout, &wanted)?;
    logging::start(Some(&layout.log("nacre")))?;
    let (tx, notices) = mpsc::channel();
    signals::watch(tx.clone())?;
    if args.separate {
        separate(&cluster, args, &tx, &notices)
    } else {
        together(&cluster, args, &tx, &notices)
    }
}

/// Mounts the file system where that was asked for. Without arguments it is a convenience: that it can't be done is
/// told, and the cluster goes on.
fn mount(cluster: &Cluster, args: &DevArgs) -> Result<Option<(MountProcess, PathBuf)>> {
    let usual = || args.dir.is_none().then(|| cluster.layout.dir().join("mnt"));
    let Some(point) = args.mount.clone().or_else(usual) else { return Ok(None) };
    let created = match std::fs::create_dir_all(&point) {
        // A mount whose process was killed: the new one cleans it up.
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

/// All daemons in this process.
fn together(
    cluster: &Cluster,
    args: &DevArgs,
    tx: &Sender<Notice>,
    notices: &Receiver<Notice>,
) -> Result<()> {
    let cores = available_parallelism().map_or(1, usize::from);
    let mut daemons = Daemons::new(cores, tx.clone())?;
    let mut handles = Vec::new();
    let names = daemon_names(cluster.mons.len(), &cluster.osds);
    for name in &names {
        let daemon = Daemon::new(name.clone(), &cluster.layout.conf(), args.osd_size)?;
        handles.push(daemons.start(&daemon)?);
    }
    let mut waiting: BTreeSet<EntityName> = names.into_iter().collect();
    let result =
        until_ready(cluster, daemons.any_loop(), tx, notices, &mut waiting, true).and_then(|go_on| {
            let mount = if go_on { greet(cluster, args)? } else { return Ok(()) };
            let result = until_end(cluster, notices, true);
            drop(mount);
            result
        });
    for handle in &handles {
        handle.stop();
    }
    drain(notices, handles.len());
    result
}

/// Every daemon a process of its own.
fn separate(
    cluster: &Cluster,
    args: &DevArgs,
    tx: &Sender<Notice>,
    notices: &Receiver<Notice>,
) -> Result<()> {
    let mut processes = Processes::new(&cluster.layout);
    let names = daemon_names(cluster.mons.len(), &cluster.osds);
    for name in &names {
        processes.start(name, args.osd_size, tx.clone())?;
    }
    let own = EventLoop::start("admin").context("cannot start a thread")?;
    let mut waiting: BTreeSet<EntityName> = names.into_iter().collect();
    if until_ready(cluster, &own, tx, notices, &mut waiting, false)? {
        let _mount = greet(cluster, args)?;
        until_end(cluster, notices, false)?;
    }
    Ok(())
}

/// Waits for the daemons; makes the file system once the monitor and the OSDs are there, which the metadata server needs.
/// `false` where a signal came first.
fn until_ready(
    cluster: &Cluster,
    on: &EventLoop,
    tx: &Sender<Notice>,
    notices: &Receiver<Notice>,
    waiting: &mut BTreeSet<EntityName>,
    fatal: bool,
) -> Result<bool> {
    let admin = commander(cluster, on, tx)?;
    let mut made = false;
    while !waiting.is_empty() {
        match notices.recv()? {
            Notice::Ready(name) => drop(waiting.remove(&name)),
            Notice::Signal => return Ok(false),
            Notice::Ended(name, result) => ended(cluster, &name, result, fatal || waiting.contains(&name))?,
        }
        if !made && waiting.iter().all(|name| name.ty == EntityType::MDS) {
            made = true;
            make_file_system(&admin)?;
        }
    }
    admin.stop();
    Ok(true)
}

/// Mounts where asked for, and tells that all is ready.
fn greet(cluster: &Cluster, args: &DevArgs) -> Result<Option<MountProcess>> {
    let mounted = mount(cluster, args)?;
    let mut text = greeting(cluster);
    if let Some((_, point)) = &mounted {
        text.push_str(&format!("  mounted     {}\n", point.display()));
    }
    say(&text)?;
    Ok(mounted.map(|(process, _)| process))
}

/// Waits for the end.
fn until_end(cluster: &Cluster, notices: &Receiver<Notice>, fatal: bool) -> Result<()> {
    loop {
        match notices.recv()? {
            Notice::Signal => return Ok(()),
            Notice::Ended(name, result) => ended(cluster, &name, result, fatal)?,
            Notice::Ready(name) => tracing::info!(%name, "ready"),
        }
    }
}

/// A node has ended: fatal where it shares this process, otherwise something to tell.
fn ended(cluster: &Cluster, name: &EntityName, result: Result<(), String>, fatal: bool) -> Result<()> {
    if name.ty == EntityType::CLIENT {
        return Ok(());
    }
    let why = result.err().unwrap_or_else(|| "it has stopped".to_owned());
    if fatal {
        bail!("{name}: {why}");
    }
    let conf = cluster.layout.conf();
    eprintln!(
        "nacre: {name}: {why}; start it again with `nacre {} --conf {} --id {}`",
        name.ty.name(),
        conf.display(),
        name.id
    );
    Ok(())
}

/// Waits for `count` nodes to end after they were asked to.
fn drain(notices: &Receiver<Notice>, mut count: usize) {
    while count > 0 {
        match notices.recv_timeout(std::time::Duration::from_secs(2)) {
            Ok(Notice::Ended(name, _)) if name.ty != EntityType::CLIENT => count -= 1,
            // A second Ctrl-C: at once.
            Ok(Notice::Signal) | Err(_) => return,
            Ok(_) => {}
        }
    }
}

fn commander(cluster: &Cluster, on: &EventLoop, tx: &Sender<Notice>) -> Result<Handle<String, CommandReply>> {
    let name = EntityName::new(EntityType::CLIENT, "admin");
    let conf = ClientArgs { conf: Some(cluster.layout.conf()), name, keyring: None }.read()?;
    Ok(spawn_session(on, conf, tx.clone()))
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
