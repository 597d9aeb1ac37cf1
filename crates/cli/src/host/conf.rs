//! `ceph.conf` of a host: what clients need, and where its daemons find their files.

use super::{Host, HostPaths};
use crate::cluster::{CLIENT_SECTION, files};
use anyhow::Result;
use std::net::SocketAddr;

/// Writes the configuration file of a host in a cluster with these monitors, unless it says so already.
/// Returns whether it has changed.
pub(crate) fn write_conf(paths: &HostPaths, host: &Host, mons: &[(String, SocketAddr)]) -> Result<bool> {
    let text = conf_text(paths, host, mons);
    if std::fs::read_to_string(paths.conf()).is_ok_and(|old| old == text) {
        return Ok(false);
    }
    files::write(&paths.conf(), &text, 0o644)?;
    Ok(true)
}

fn conf_text(paths: &HostPaths, host: &Host, mons: &[(String, SocketAddr)]) -> String {
    let names: Vec<&str> = mons.iter().map(|(name, _)| name.as_str()).collect();
    let addrs: Vec<String> = mons.iter().map(|(_, addr)| format!("[v2:{addr}]")).collect();
    let (etc, lib, run) = (paths.etc(), paths.lib(), paths.run_dir());
    let (etc, lib, run) = (etc.display(), lib.display(), run.display());
    let Host { hostname, addr, .. } = host;
    let rack = host.rack.as_ref().map(|rack| format!(" rack={rack}")).unwrap_or_default();
    let mut out = format!(
        "# Written by `nacre init` and `nacre join`; `nacre run` keeps the monitors up to date.\n\
         # Options belong into the cluster: `ceph config set`.\n\
         [global]\n\tfsid = {}\n\tmon initial members = {}\n\tmon host = {}\n\
         \tkeyring = {etc}/$cluster.$name.keyring\n\
         \tauth cluster required = cephx\n\tauth service required = cephx\n\tauth client required = cephx\n\
         \n{CLIENT_SECTION}",
        host.fsid,
        names.join(", "),
        addrs.join(","),
    );
    for role in ["mon", "osd", "mds"] {
        out.push_str(&format!(
            "\n[{role}]\n\thost = {hostname}\n\tpublic addr = {addr}\n\
             \t{role} data = {lib}/{role}/$cluster-$id\n\tkeyring = {lib}/{role}/$cluster-$id/keyring\n\
             \tadmin socket = {run}/$cluster-$name.asok\n\tpid file = {run}/$name.pid\n"
        ));
        if role == "osd" {
            out.push_str(&format!("\tcrush location = root=default{rack} host={hostname}\n"));
        }
    }
    out
}
