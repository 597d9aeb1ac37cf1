//! Commands that print file systems' maps.

use crate::commands::reply::{Outcome, Reply, answer};
use crate::domain::mds_ranks::followers;
use crate::failure::missing;
use crate::text::{addrs, addrvec, legacy_addr};
use crate::view::View;
use decl::Args;
use maps::{CompatSet, FeatureBits, Filesystem, FsMap, MdsInfo, MdsMap};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use wire::Utime;

pub fn ls(view: &View<'_>, args: &Args) -> Outcome {
    let (fsmap, map) = (&view.state.fsmap, view.state.osdmap());
    let names =
        |fs: &MdsMap| fs.data_pools.iter().map(|id| map.pool_name(*id).to_owned()).collect::<Vec<_>>();
    let json = || {
        let one = |f: &Filesystem| {
            let fs = &f.mds_map;
            json!({
                "name": fs.fs_name,
                "metadata_pool": map.pool_name(fs.metadata_pool),
                "metadata_pool_id": fs.metadata_pool,
                "data_pool_ids": fs.data_pools,
                "data_pools": names(fs),
            })
        };
        fsmap.filesystems.values().map(one).collect::<Vec<_>>().into()
    };
    let plain = || {
        if fsmap.filesystems.is_empty() {
            return "No filesystems enabled\n".to_owned();
        }
        let one = |f: &Filesystem| {
            let fs = &f.mds_map;
            let data: String = names(fs).iter().map(|n| format!("{n} ")).collect();
            format!(
                "name: {}, metadata pool: {}, data pools: [{data}]\n",
                fs.fs_name,
                map.pool_name(fs.metadata_pool)
            )
        };
        fsmap.filesystems.values().map(one).collect()
    };
    answer(args, json, plain)
}

/// A set of features in JSON.
pub fn compat_json(set: &CompatSet) -> Value {
    let one = |names: &BTreeMap<u64, String>| {
        names
            .iter()
            .map(|(n, name)| (format!("feature_{n}"), name.clone().into()))
            .collect::<Map<String, Value>>()
    };
    json!({ "compat": one(&set.compat), "ro_compat": one(&set.ro_compat), "incompat": one(&set.incompat) })
}

/// A set of features in one line.
pub fn compat_text(set: &CompatSet) -> String {
    let one = |names: &BTreeMap<u64, String>| {
        names.iter().map(|(n, name)| format!("{n}={name}")).collect::<Vec<_>>().join(",")
    };
    format!(
        "compat={{{}}},rocompat={{{}}},incompat={{{}}}",
        one(&set.compat),
        one(&set.ro_compat),
        one(&set.incompat)
    )
}

fn info_json(info: &MdsInfo) -> Value {
    json!({
        "gid": info.gid.0,
        "name": info.name,
        "rank": info.rank.0,
        "incarnation": info.inc,
        "state": info.state.name(),
        "state_seq": info.state_seq,
        "addr": legacy_addr(&info.addrs),
        "addrs": addrvec(&info.addrs),
        "join_fscid": info.join_fscid.0,
        "export_targets": info.export_targets.iter().map(|r| r.0).collect::<Vec<_>>(),
        "features": info.features,
        "flags": info.flags,
        "compat": compat_json(&info.compat),
    })
}

fn required(bits: FeatureBits) -> Value {
    let name = |n: u32| {
        crate::domain::client_features::CLIENT_FEATURES.get(n as usize).copied().unwrap_or("unknown")
    };
    let set = (0..64).filter(|n| bits.has(*n)).map(|n| (format!("feature_{n}"), name(n).into()));
    Value::Object(set.collect())
}

fn ranks(set: &std::collections::BTreeSet<maps::MdsRank>) -> Vec<i32> {
    set.iter().map(|r| r.0).collect()
}

/// One file system's map.
pub fn mdsmap_json(fs: &MdsMap) -> Value {
    let up: Map<String, Value> = fs.up.iter().map(|(r, gid)| (format!("mds_{r}"), gid.0.into())).collect();
    let info: Map<String, Value> =
        fs.mds_info.iter().map(|(gid, i)| (format!("gid_{gid}"), info_json(i))).collect();
    json!({
        "epoch": fs.epoch.0,
        "flags": fs.flags,
        "ever_allowed_features": fs.ever_allowed_features,
        "explicitly_allowed_features": fs.explicitly_allowed_features,
        "created": fs.created.iso8601(),
        "modified": fs.modified.iso8601(),
        "tableserver": fs.tableserver.0,
        "root": fs.root.0,
        "session_timeout": fs.session_timeout,
        "session_autoclose": fs.session_autoclose,
        "required_client_features": required(fs.required_client_features),
        "max_file_size": fs.max_file_size,
        "last_failure": fs.last_failure.0,
        "last_failure_osd_epoch": fs.last_failure_osd_epoch.0,
        "compat": compat_json(&fs.compat),
        "max_mds": fs.max_mds,
        "in": ranks(&fs.r#in),
        "up": up,
        "failed": ranks(&fs.failed),
        "damaged": ranks(&fs.damaged),
        "stopped": ranks(&fs.stopped),
        "info": info,
        "data_pools": fs.data_pools,
        "metadata_pool": fs.metadata_pool,
        "enabled": fs.enabled,
        "fs_name": fs.fs_name,
        "balancer": fs.balancer,
        "standby_count_wanted": fs.standby_count_wanted.max(0),
    })
}

fn fsmap_json(map: &FsMap) -> Value {
    let fs = |f: &Filesystem| json!({ "mdsmap": mdsmap_json(&f.mds_map), "id": f.fscid.0 });
    json!({
        "epoch": map.epoch.0,
        "default_fscid": map.legacy_client_fscid.0,
        "compat": compat_json(&map.default_compat),
        "feature_flags": {
            "enable_multiple": map.enable_multiple,
            "ever_enabled_multiple": map.ever_enabled_multiple,
        },
        "standbys": map.standby_daemons.values().map(info_json).collect::<Vec<_>>(),
        "filesystems": map.filesystems.values().map(fs).collect::<Vec<_>>(),
    })
}

fn is_laggy(info: &MdsInfo) -> bool {
    info.laggy_since != Utime::default()
}

fn info_line(info: &MdsInfo) -> String {
    let laggy =
        if is_laggy(info) { format!(" laggy since {}", info.laggy_since.iso8601()) } else { String::new() };
    let join =
        if info.join_fscid.0 >= 0 { format!(" join_fscid={}", info.join_fscid) } else { String::new() };
    format!(
        "[mds.{}{{{}:{}}} state {} seq {}{laggy}{join} addr {} compat {{c=[{:x}],r=[{:x}],i=[{:x}]}}]\n",
        info.name,
        info.rank,
        info.gid,
        info.state.name(),
        info.state_seq,
        addrs(&info.addrs),
        mask(&info.compat.compat),
        mask(&info.compat.ro_compat),
        mask(&info.compat.incompat)
    )
}

/// Bit 0 is always set in memory, as in the original.
fn mask(names: &BTreeMap<u64, String>) -> u64 {
    names.keys().filter(|n| **n < 64).fold(1, |m, n| m | 1 << n)
}

fn mdsmap_text(f: &Filesystem) -> String {
    let fs = &f.mds_map;
    let list = |set: Vec<i32>| set.iter().map(ToString::to_string).collect::<Vec<_>>().join(",");
    let up: Vec<String> = fs.up.iter().map(|(r, g)| format!("{r}={g}")).collect();
    let pools: Vec<String> = fs.data_pools.iter().map(ToString::to_string).collect();
    let mut out = format!(
        "Filesystem '{0}' ({1})\nfs_name\t{0}\nepoch\t{2}\nflags\t{3:x}\ncreated\t{4}\nmodified\t{5}\n",
        fs.fs_name,
        f.fscid,
        fs.epoch,
        fs.flags,
        fs.created.iso8601(),
        fs.modified.iso8601()
    );
    out.push_str(&format!(
        "tableserver\t{}\nroot\t{}\nsession_timeout\t{}\nsession_autoclose\t{}\nmax_file_size\t{}\n",
        fs.tableserver, fs.root, fs.session_timeout, fs.session_autoclose, fs.max_file_size
    ));
    out.push_str(&format!(
        "required_client_features\t{{}}\nlast_failure\t{}\nlast_failure_osd_epoch\t{}\ncompat\t{}\nmax_mds\t{}\n",
        fs.last_failure, fs.last_failure_osd_epoch, compat_text(&fs.compat), fs.max_mds
    ));
    out.push_str(&format!(
        "in\t{}\nup\t{{{}}}\nfailed\t{}\ndamaged\t{}\nstopped\t{}\ndata_pools\t[{}]\nmetadata_pool\t{}\n",
        list(ranks(&fs.r#in)),
        up.join(","),
        list(ranks(&fs.failed)),
        list(ranks(&fs.damaged)),
        list(ranks(&fs.stopped)),
        pools.join(","),
        fs.metadata_pool
    ));
    out.push_str(&format!(
        "inline_data\tdisabled\nbalancer\t{}\nstandby_count_wanted\t{}\n",
        fs.balancer,
        fs.standby_count_wanted.max(0)
    ));
    fs.mds_info.values().for_each(|i| out.push_str(&info_line(i)));
    out
}

fn fsmap_text(map: &FsMap) -> String {
    let flag = |b: bool| i32::from(b);
    let mut out = format!(
        "e{}\nenable_multiple, ever_enabled_multiple: {},{}\ndefault compat: {}\nlegacy client fscid: {}\n \n",
        map.epoch,
        flag(map.enable_multiple),
        flag(map.ever_enabled_multiple),
        compat_text(&map.default_compat),
        map.legacy_client_fscid
    );
    if map.filesystems.is_empty() {
        out.push_str("No filesystems configured\n");
    }
    map.filesystems.values().for_each(|f| out.push_str(&format!("{} \n", mdsmap_text(f))));
    if !map.standby_daemons.is_empty() {
        out.push_str(" \nStandby daemons:\n \n");
        map.standby_daemons.values().for_each(|i| out.push_str(&info_line(i)));
    }
    out
}

pub fn get(view: &View<'_>, args: &Args) -> Outcome {
    let Some(fs) = view.state.fsmap.by_name(args.str("fs_name")) else {
        return missing(format!("filesystem '{}' not found", args.str("fs_name")));
    };
    answer(args, || json!({ "mdsmap": mdsmap_json(&fs.mds_map), "id": fs.fscid.0 }), || mdsmap_text(fs))
}

pub fn dump(view: &View<'_>, args: &Args) -> Outcome {
    let map = &view.state.fsmap;
    if let Some(epoch) = args.int("epoch").filter(|e| *e != 0 && *e != i64::from(map.epoch.0)) {
        return missing(format!("fsmap epoch {epoch} is not kept; the newest is {}", map.epoch));
    }
    let reply = answer(args, || fsmap_json(map), || fsmap_text(map))?;
    Ok(Reply { status: format!("dumped fsmap epoch {}", map.epoch), ..reply })
}

/// The one-line state of all file systems, as `mds stat` and `status` have it.
fn summary(map: &FsMap) -> String {
    let one = |f: &Filesystem| {
        let fs = &f.mds_map;
        let up: Vec<String> = fs
            .up
            .iter()
            .filter_map(|(r, g)| fs.mds_info.get(g).map(|i| (r, i)))
            .map(|(r, i)| {
                let laggy = if is_laggy(i) { "(laggy or crashed)" } else { "" };
                format!("{r}={}={}{laggy}", i.name, i.state.name())
            })
            .collect();
        let failed =
            if fs.failed.is_empty() { String::new() } else { format!(", {} failed", fs.failed.len()) };
        format!("{}:{} {{{}}}{failed}", fs.fs_name, fs.max_mds.min(fs.up.len() as i32), up.join(","))
    };
    let mut parts: Vec<String> = map.filesystems.values().map(one).collect();
    if !map.standby_daemons.is_empty() {
        parts.push(format!("{} up:standby", map.standby_daemons.len()));
    }
    let following: usize = map.filesystems.values().map(|f| followers(&f.mds_map).count()).sum();
    if following > 0 {
        parts.push(format!("{following} up:standby-replay"));
    }
    parts.join(" ")
}

pub fn mds_stat(view: &View<'_>, args: &Args) -> Outcome {
    let map = &view.state.fsmap;
    let json = || {
        json!({
            "fsmap": fsmap_json(map),
            "mdsmap_first_committed": 1,
            "mdsmap_last_committed": map.epoch.0,
        })
    };
    answer(args, json, || format!("{}\n", summary(map)))
}

pub fn compat_show(view: &View<'_>, args: &Args) -> Outcome {
    let Some(fs) = view.state.fsmap.by_name(args.str("fs_name")) else {
        return missing(format!("Filesystem not found: '{}'", args.str("fs_name")));
    };
    let set = &fs.mds_map.compat;
    answer(args, || compat_json(set), || format!("{}\n", compat_text(set)))
}

pub fn feature_ls(_: &View<'_>, args: &Args) -> Outcome {
    let all = crate::domain::client_features::CLIENT_FEATURES.iter().enumerate();
    let json = || all.clone().map(|(i, name)| json!({ "index": i, "name": name })).collect::<Vec<_>>().into();
    answer(args, json, || all.clone().map(|(i, name)| format!("{i} {name}\n")).collect())
}
