//! `nacre init`: a new cluster, of this host alone.

use crate::cluster::{
    ADMIN_CAPS, FS_NAME, PATIENCE, Place, Processes, advise, ask, daemon_caps, files, make_file_system,
    take_key,
};
use crate::host::{
    FEW_HOSTS, Host, HostArgs, HostPaths, Stage, Token, go_on, make_token, monitors, register_osds,
    write_conf,
};
use anyhow::{Context, Result, bail};
use auth::Keyring;
use clap::Args;
use decl::MON_PORT;
use runtime::Notice;
use serde_json::json;
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::sync::mpsc;
use std::time::Duration;
use wire::{EntityName, EntityType, Uuid};

/// The time in which other hosts can join by the token that is printed.
const TOKEN_LIFE: Duration = Duration::from_secs(3600);

#[derive(Args)]
pub(crate) struct InitArgs {
    /// The address of this host at which clients and other hosts reach it.
    #[arg(long)]
    addr: IpAddr,
    #[command(flatten)]
    host: HostArgs,
}

pub(crate) fn run(args: &InitArgs) -> Result<()> {
    let paths = HostPaths::new(&args.host.root)?;
    let mut host = match Host::read(&paths)? {
        Some(host) if host.stage == Stage::Founding => {
            args.host.check_against(&host, &paths)?;
            say!("nacre: goes on with the cluster {} that was begun here", host.fsid);
            host
        }
        Some(host) => bail!(
            "this host belongs to cluster {} already ({}): `nacre host ls` shows it",
            host.fsid,
            paths.record().display()
        ),
        None => begin(args, &paths)?,
    };
    let token = found(&paths, &mut host)?;
    say!("nacre: cluster {} is made, with the file system {FS_NAME}", host.fsid);
    say!("On each further host, within the next hour:\n  nacre join {}", token.encode());
    say!("From three hosts on everything is stored on three of them, and any one may fail. To mount:");
    say!("  nacre mount --fork{} /mnt", conf_option(&paths));
    go_on(&paths, args.host.run)
}

/// ` --conf FILE` where that is not the usual one.
fn conf_option(paths: &HostPaths) -> String {
    if paths.is_machine() { String::new() } else { format!(" --conf {}", paths.conf().display()) }
}

/// Decides on everything, and writes it down.
fn begin(args: &InitArgs, paths: &HostPaths) -> Result<Host> {
    let hostname = args.host.hostname()?;
    paths.check_unused()?;
    let mon = SocketAddr::new(args.addr, MON_PORT);
    TcpListener::bind(mon).map_err(|error| match error.kind() {
        std::io::ErrorKind::AddrNotAvailable => {
            anyhow::anyhow!("{} is no address of this host: give one with --addr", args.addr)
        }
        std::io::ErrorKind::AddrInUse => {
            anyhow::anyhow!("{mon} is in use, perhaps by another monitor: stop that one first")
        }
        _ => anyhow::anyhow!("cannot listen on {mon}: {error}"),
    })?;
    let osds = args.host.choose_osds()?;
    paths.create()?;
    let mut bytes = [0; 16];
    runtime::rng().fill(&mut bytes);
    let host = Host {
        fsid: Uuid::from_random(bytes),
        hostname,
        addr: args.addr,
        rack: args.host.rack.clone(),
        stage: Stage::Founding,
        mon: true,
        mds: true,
        osds,
    };
    host.write(paths)?;
    Ok(host)
}

/// Makes the files, and the cluster's state in a monitor that runs until that is done. Each step can be done
/// again.
fn found(paths: &HostPaths, host: &mut Host) -> Result<Token> {
    keyrings(paths, host)?;
    let own = (host.hostname.clone(), SocketAddr::new(host.addr, MON_PORT));
    write_conf(paths, host, std::slice::from_ref(&own))?;
    let place = Place { log_dir: Some(paths.log_dir()), ..paths.place() };
    let mut processes = Processes::new(place);
    let (tx, notices) = mpsc::channel();
    let mon = EntityName::new(EntityType::MON, host.hostname.as_str());
    processes.start(&mon, 0, tx)?;
    match notices.recv_timeout(PATIENCE) {
        Ok(Notice::Ready(_)) => {}
        _ => bail!("{mon} does not start: see {}", paths.log_dir().join(format!("{mon}.log")).display()),
    }
    let admin = client::Cluster::connect(&client::Options::new(paths.conf()), PATIENCE)?;
    register_osds(&admin, paths, host)?;
    // With one host there is one copy: it must do until there are more hosts, see `host/care.rs`.
    ask(&admin, &json!({ "prefix": "config set", "who": "global", "name": FEW_HOSTS, "value": "1" }))?;
    make_file_system(&admin)?;
    let mons: Vec<SocketAddr> = monitors(&admin)?.into_iter().map(|(_, addr)| addr).collect();
    let token = make_token(&admin, host.fsid, &mons, TOKEN_LIFE, true)?;
    host.stage = Stage::Member;
    host.write(paths)?;
    Ok(token)
}

/// Makes the keys of the first monitor, which has all of them in its keyring for its first start, of the
/// metadata server and of the administrator.
fn keyrings(paths: &HostPaths, host: &Host) -> Result<()> {
    let mut all = Keyring::default();
    let admin = EntityName::new(EntityType::CLIENT, "admin");
    take_key(&paths.admin_keyring(), admin, &ADMIN_CAPS, &mut all)?;
    let [mon, mds] = [EntityType::MON, EntityType::MDS].map(|ty| EntityName::new(ty, host.hostname.as_str()));
    for dir in [paths.daemon(&mon), paths.daemon(&mds)] {
        std::fs::create_dir_all(&dir).map_err(|e| advise("create", &dir, e))?;
    }
    take_key(&paths.daemon(&mds).join("keyring"), mds, daemon_caps(EntityType::MDS), &mut all)?;
    let path = paths.daemon(&mon).join("keyring");
    let shared = EntityName::new(EntityType::MON, "");
    take_key(&path, shared, daemon_caps(EntityType::MON), &mut all)?;
    files::write(&path, &all.to_string(), 0o600).context("the first monitor's keyring")
}
