//! `ceph.conf` of a host: what clients need, and where its daemons find their files.

use super::{Host, HostPaths};
use crate::cluster::{CLIENT_SECTION, advise, files};
use anyhow::Result;
use std::net::SocketAddr;

/// A monitor's name and address.
type Mon = (String, SocketAddr);

/// Writes the configuration file of a host in a cluster with these monitors.
pub(crate) fn write_conf(paths: &HostPaths, host: &Host, mons: &[Mon]) -> Result<()> {
    files::write(&paths.conf(), &conf_text(paths, host, mons), 0o644)
}

/// Puts these monitors into the configuration file, whose other lines stay as they are.
pub(crate) fn refresh_monitors(paths: &HostPaths, mons: &[Mon]) -> Result<()> {
    let path = paths.conf();
    let old = std::fs::read_to_string(&path).map_err(|e| advise("read", &path, e))?;
    let new = with_monitors(&old, mons);
    if new == old { Ok(()) } else { files::write(&path, &new, 0o644) }
}

fn with_monitors(text: &str, mons: &[Mon]) -> String {
    let mut out = String::new();
    for line in text.lines() {
        let (key, rest) = line.split_once('=').unwrap_or((line, ""));
        let value = match key.trim().replace('_', " ").as_str() {
            "mon initial members" => format!(" {}", names(mons)),
            "mon host" => format!(" {}", addresses(mons)),
            _ => rest.to_owned(),
        };
        let sign = if line.contains('=') { "=" } else { "" };
        out.push_str(&format!("{key}{sign}{value}\n"));
    }
    out
}

fn names(mons: &[Mon]) -> String {
    mons.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>().join(", ")
}

fn addresses(mons: &[Mon]) -> String {
    mons.iter().map(|(_, addr)| format!("[v2:{addr}]")).collect::<Vec<_>>().join(",")
}

fn conf_text(paths: &HostPaths, host: &Host, mons: &[Mon]) -> String {
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
        names(mons),
        addresses(mons),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_monitors_of_a_file_are_refreshed() {
        let mon = |name: &str, last| (name.to_owned(), SocketAddr::from(([10, 0, 0, last], 3300)));
        let own = "# mine\n[global]\n\tmon_host = x\n\tmon initial members = h1\n\
                   [client]\n\tmy option = a=b\nodd\n";
        let new = with_monitors(own, &[mon("h1", 1), mon("h2", 2)]);
        let wanted = "# mine\n[global]\n\tmon_host = [v2:10.0.0.1:3300],[v2:10.0.0.2:3300]\n\
                      \tmon initial members = h1, h2\n[client]\n\tmy option = a=b\nodd\n";
        assert_eq!(new, wanted);
        assert_eq!(with_monitors(&new, &[mon("h1", 1), mon("h2", 2)]), new);
    }
}
