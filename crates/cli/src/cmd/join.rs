//! `nacre join`: makes this host a member of a cluster.

use crate::cluster::{PATIENCE, advise, ask, daemon_caps, files};
use crate::host::{
    Host, HostArgs, HostPaths, Stage, Token, go_on, list, monitors, query, register_osds, write_conf,
    write_key,
};
use anyhow::{Context, Result, bail};
use auth::Keyring;
use clap::Args;
use decl::MON_PORT;
use serde_json::json;
use std::net::{IpAddr, SocketAddr, TcpListener};
use wire::{EntityAddr, EntityName, EntityType};

/// The monitors that a cluster gets by itself: one may fail. More are for `--mon`.
const ENOUGH_MONS: usize = 3;

#[derive(Args)]
pub(crate) struct JoinArgs {
    /// The token that `nacre init` or `nacre token` printed.
    token: String,
    /// The address of this host [default: that from which it reaches the monitors].
    #[arg(long)]
    addr: Option<IpAddr>,
    /// Run a monitor even if the cluster has three.
    #[arg(long)]
    mon: bool,
    /// Run no monitor.
    #[arg(long, conflicts_with = "mon")]
    no_mon: bool,
    #[command(flatten)]
    host: HostArgs,
}

pub(crate) fn run(args: &JoinArgs) -> Result<()> {
    let paths = HostPaths::new(&args.host.root)?;
    let token = Token::decode(&args.token)?;
    let found = Host::read(&paths)?;
    if let Some(host) = &found {
        check_record(&paths, host, &token)?;
    }
    if token.left(runtime::now().wall.split().0).is_zero() {
        bail!(
            "the token has expired, by the clock of this host: make another with `nacre token` on a host of \
             the cluster"
        );
    }
    let cluster = connect(&token, &args.host.hostname()?)?;
    let mut host = match found {
        Some(host) => {
            args.host.check_against(&host, &paths)?;
            say!("nacre: goes on joining cluster {}", host.fsid);
            host
        }
        None => begin(args, &paths, &cluster, &token)?,
    };
    say!("nacre: {} joins cluster {}", host.hostname, host.fsid);
    join(&paths, &mut host, &cluster)?;
    say!("nacre: {} is a member; `nacre host ls` shows all hosts", host.hostname);
    go_on(&paths, args.host.run)
}

/// Refuses a host that is a member already, or that has begun something else.
fn check_record(paths: &HostPaths, host: &Host, token: &Token) -> Result<()> {
    let record = paths.record();
    match host.stage {
        Stage::Joining if host.fsid == token.fsid => Ok(()),
        Stage::Joining | Stage::Founding => bail!(
            "this host has begun to join cluster {}, the token is of {}: remove {} to begin anew",
            host.fsid,
            token.fsid,
            record.display()
        ),
        Stage::Member | Stage::Leaving => {
            bail!("this host belongs to cluster {} already ({})", host.fsid, record.display())
        }
    }
}

/// Connects by the token's key. Both sides prove that they have it, so the cluster is the one that made it.
fn connect(token: &Token, hostname: &str) -> Result<client::Cluster> {
    let mut options =
        client::Options::of_mons(token.mons.iter().map(|mon| EntityAddr::msgr2(*mon, 0)).collect());
    options.fsid = Some(token.fsid);
    options.name = token.name.clone();
    options.key = Some(token.key.clone());
    options.hostname = hostname.to_owned();
    client::Cluster::connect(&options, PATIENCE).with_context(|| {
        let mons: Vec<String> = token.mons.iter().map(ToString::to_string).collect();
        format!("cannot join by this token at {}", mons.join(", "))
    })
}

/// Decides on everything, and writes it down.
fn begin(args: &JoinArgs, paths: &HostPaths, cluster: &client::Cluster, token: &Token) -> Result<Host> {
    let hostname = args.host.hostname()?;
    paths.check_unused()?;
    let mons = monitors(cluster)?;
    check_name_is_free(cluster, &hostname, &mons)?;
    let addr = match args.addr {
        Some(addr) => addr,
        None => crate::cluster::local_ip_towards(token.mons.first().copied())?,
    };
    let may = may_administer(cluster);
    if args.mon && !may {
        bail!(
            "the token is for hosts that only store: leave --mon out, or make a token without \
             --storage-only"
        );
    }
    let mon = may && (args.mon || mons.len() < ENOUGH_MONS && !args.no_mon);
    let port = if mon { MON_PORT } else { 0 };
    TcpListener::bind((addr, port)).with_context(|| {
        format!(
            "cannot listen on {addr}:{port}: give an address of this host with --addr, and stop what uses it"
        )
    })?;
    let osds = args.host.choose_osds()?;
    paths.create()?;
    let rack = args.host.rack.clone();
    let stage = Stage::Joining;
    let host = Host { fsid: token.fsid, hostname, addr, rack, stage, mon, mds: may, osds };
    host.write(paths)?;
    Ok(host)
}

/// True if the token allows this host more than OSDs.
fn may_administer(cluster: &client::Cluster) -> bool {
    ask(cluster, &json!({ "prefix": "auth get", "entity": "client.admin" })).is_ok()
}

/// Refuses the name of another host.
fn check_name_is_free(
    cluster: &client::Cluster,
    hostname: &str,
    mons: &[(String, SocketAddr)],
) -> Result<()> {
    let (nodes, tree) = (query(cluster, "node ls")?, query(cluster, "osd tree")?);
    let runs = ["mon", "osd", "mds"].into_iter().any(|role| nodes[role].get(hostname).is_some());
    let is_bucket = list(&tree["nodes"]).iter().any(|n| n["name"] == hostname);
    if runs || is_bucket || mons.iter().any(|(name, _)| name == hostname) {
        bail!("the cluster has a host or bucket `{hostname}` already: give another name with --hostname");
    }
    Ok(())
}

/// Takes keys, tells the monitors of the daemons, and writes the files. Each step can be done again.
fn join(paths: &HostPaths, host: &mut Host, cluster: &client::Cluster) -> Result<()> {
    let own = |ty| EntityName::new(ty, host.hostname.as_str());
    let (mon, mds) = (own(EntityType::MON), own(EntityType::MDS));
    if may_administer(cluster) {
        let ring = ask(cluster, &json!({ "prefix": "auth get", "entity": "client.admin" }))?;
        files::write(&paths.admin_keyring(), &String::from_utf8_lossy(&ring), 0o600)?;
    }
    if host.mon {
        let ring = keyring(&ask(cluster, &json!({ "prefix": "auth get", "entity": "mon." }))?)?;
        write_key(paths, &mon, &ring)?;
        // With it, the monitor's empty store waits for the others' state, and never begins another cluster.
        let mark = paths.daemon(&mon).join("joined");
        std::fs::write(&mark, format!("{}\n", host.fsid)).map_err(|e| advise("write", &mark, e))?;
        let addr = SocketAddr::new(host.addr, MON_PORT).to_string();
        ask(cluster, &json!({ "prefix": "mon add", "name": host.hostname, "addr": addr }))?;
        say!("  {mon} at {addr}");
    }
    if host.mds {
        let caps: Vec<&str> = daemon_caps(EntityType::MDS).iter().flat_map(|(s, c)| [*s, *c]).collect();
        let make = json!({ "prefix": "auth get-or-create", "entity": mds.to_string(), "caps": caps });
        write_key(paths, &mds, &keyring(&ask(cluster, &make)?)?)?;
        say!("  {mds}");
    }
    register_osds(cluster, paths, host)?;
    write_conf(paths, host, &monitors(cluster)?)?;
    host.stage = Stage::Member;
    host.write(paths)
}

fn keyring(text: &[u8]) -> Result<Keyring> {
    Keyring::parse(&String::from_utf8_lossy(text)).context("the monitors' answer is no keyring")
}
