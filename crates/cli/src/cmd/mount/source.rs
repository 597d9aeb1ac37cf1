//! The source of a mount, the first column of `/etc/fstab`: `NAME@[FSID].FS=/PATH`, `MON[,MON]:/PATH`,
//! `:/PATH`, and ceph-fuse's `none` and `id=NAME,conf=FILE`.

use super::options::{Options, client, uuid};
use std::net::ToSocketAddrs;
use wire::EntityAddr;

/// Sources that say nothing.
const EMPTY: [&str; 5] = ["none", "nacre", "ceph", "ceph-fuse", "fuse"];

/// Adds to `options` what a source says.
pub(super) fn take(source: &str, options: &mut Options) -> Result<(), String> {
    if EMPTY.contains(&source) {
        return Ok(());
    }
    if ["id=", "name=", "conf="].iter().any(|start| source.starts_with(start)) {
        return source.split(',').try_for_each(|item| options.take(&format!("ceph.{item}"), false));
    }
    let is_new =
        |&(who, path): &(&str, &str)| who.contains('@') && !who.contains('/') && path.starts_with('/');
    if let Some((who, path)) = source.split_once('=').filter(is_new) {
        let wrong = || format!("the source `{source}` is not of the form NAME@[FSID].FS=/PATH");
        let (name, rest) = who.split_once('@').ok_or_else(wrong)?;
        let (fsid, fs) = rest.split_once('.').filter(|(_, fs)| !fs.is_empty()).ok_or_else(wrong)?;
        options.set_name(client(name)?)?;
        if !fsid.is_empty() {
            options.set_fsid(uuid(fsid)?)?;
        }
        options.set_fs(fs)?;
        return set_root(path, options);
    }
    let Some(at) = source.find(":/") else {
        return Err(format!(
            "the source `{source}` is neither NAME@[FSID].FS=/PATH nor MON[,MON]:/PATH nor `none`"
        ));
    };
    let mons: Vec<String> = items(&source[..at]).map(str::to_owned).collect();
    if !mons.is_empty() {
        if !options.mons.is_empty() {
            return Err("both the source and `mon_addr` name monitors".into());
        }
        options.mons = mons;
    }
    set_root(&source[at + 1..], options)
}

fn set_root(path: &str, options: &mut Options) -> Result<(), String> {
    if path.split('/').any(|name| name == "." || name == "..") {
        return Err(format!("the path `{path}` is to have no `.` and `..`"));
    }
    if options.root.as_deref().is_some_and(|other| other != path) {
        return Err("both the source and `ceph.client_mountpoint` name a directory".into());
    }
    options.root = Some(path.to_owned());
    Ok(())
}

fn items(text: &str) -> impl Iterator<Item = &str> {
    text.split(',').map(str::trim).filter(|item| !item.is_empty())
}

/// The addresses of monitors that are given as addresses or as names of hosts.
pub(super) fn resolve(mons: &[String]) -> Result<Vec<EntityAddr>, String> {
    let mut out = Vec::new();
    for mon in mons {
        if let Some(addr) = decl::parse_host(mon) {
            out.push(addr);
            continue;
        }
        let with_port = if mon.contains(':') { mon.clone() } else { format!("{mon}:{}", decl::MON_PORT) };
        let found = with_port.to_socket_addrs().map_err(|e| format!("the monitor `{mon}`: {e}"))?;
        out.extend(found.map(|addr| EntityAddr::msgr2(addr, 0)));
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Name, fsid, file system, monitors and directory.
    type Said = (Option<String>, bool, Option<String>, Vec<String>, Option<String>);

    fn said(source: &str) -> Result<Said, String> {
        let mut options = Options::default();
        take(source, &mut options)?;
        let name = options.name.map(|name| name.to_string());
        Ok((name, options.fsid.is_some(), options.fs_name, options.mons, options.root))
    }

    fn expected(name: &str, fsid: bool, fs: &str, mons: &[&str], root: &str) -> Result<Said, String> {
        let some = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        Ok((some(name), fsid, some(fs), mons.iter().map(|&m| m.to_owned()).collect(), some(root)))
    }

    #[test]
    fn sources_are_read() {
        let fsid = "07fe3187-00d9-42a3-814b-72a4d5e7d5be";
        for (source, wanted) in [
            (format!("me@{fsid}.cephfs=/a/b"), expected("client.me", true, "cephfs", &[], "/a/b")),
            ("me@.cephfs=/".into(), expected("client.me", false, "cephfs", &[], "/")),
            ("client.me@.a.b=/x=y".into(), expected("client.me", false, "a.b", &[], "/x=y")),
            ("1.2.3.4:/".into(), expected("", false, "", &["1.2.3.4"], "/")),
            ("1.2.3.4:3301,b:/x@y=/z".into(), expected("", false, "", &["1.2.3.4:3301", "b"], "/x@y=/z")),
            ("[::1]:3300,[::2]:/p".into(), expected("", false, "", &["[::1]:3300", "[::2]"], "/p")),
            (":/p".into(), expected("", false, "", &[], "/p")),
            ("none".into(), expected("", false, "", &[], "")),
            ("id=me,conf=/c".into(), expected("client.me", false, "", &[], "")),
        ] {
            assert_eq!(said(&source), wanted, "{source}");
        }
    }

    #[test]
    fn what_is_no_source_is_refused() {
        for source in [
            "",
            "/dev/sda1",
            "host",
            "me@cephfs=/",
            "me@.=/",
            "@.cephfs=/",
            "me@nofsid.cephfs=/",
            "1.2.3.4:/a/../b",
            "me@.cephfs=/./a",
            "1.2.3.4",
        ] {
            assert!(said(source).is_err(), "{source}");
        }
    }

    #[test]
    fn source_and_options_do_not_contradict_each_other() {
        for (options, source, fine) in [
            ("name=me", "me@.fs=/", true),
            ("name=you", "me@.fs=/", false),
            ("fs=fs", "me@.fs=/", true),
            ("fs=other", "me@.fs=/", false),
            ("mon_addr=1.2.3.4", ":/", true),
            ("mon_addr=1.2.3.4", "1.2.3.5:/", false),
        ] {
            let mut parsed = Options::default();
            parsed.take(options, false).expect("known");
            assert_eq!(take(source, &mut parsed).is_ok(), fine, "{options} {source}");
        }
    }

    #[test]
    fn monitors_are_addresses_or_hosts() {
        let mons = ["127.0.0.1:3301", "127.0.0.2", "[::1]:3302", "v2:127.0.0.3:3303", "localhost"];
        let found = resolve(&mons.map(str::to_owned)).expect("resolves");
        let shown: Vec<String> = found.iter().filter_map(|a| a.addr).map(|a| a.to_string()).collect();
        assert_eq!(shown[..4], ["127.0.0.1:3301", "127.0.0.2:3300", "[::1]:3302", "127.0.0.3:3303"]);
        assert!(shown[4..].iter().all(|addr| addr.ends_with(":3300")) && shown.len() > 4, "{shown:?}");
        assert!(resolve(&["127.0.0.1:port".to_owned()]).is_err());
    }
}
