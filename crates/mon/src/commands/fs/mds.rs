//! Commands on metadata servers.

use crate::commands::reply::{Outcome, answer, output, said, structured};
use crate::commands::table::Align::{L, R};
use crate::commands::table::Table;
use crate::domain::mds_ranks;
use crate::edit::Edit;
use crate::failure::{Failure, invalid, missing};
use crate::text::{addrs, bytes};
use crate::view::View;
use decl::Args;
use maps::{FsMap, Gid, MdsInfo};
use serde_json::{Map, Value, json};
use wire::{EntityName, EntityType, Errno};

fn all(map: &FsMap) -> impl Iterator<Item = &MdsInfo> {
    map.filesystems.values().flat_map(|f| f.mds_map.mds_info.values()).chain(map.standby_daemons.values())
}

/// The MDS that is meant by a name, a gid, a rank, or `fs:rank`.
fn find(map: &FsMap, text: &str) -> Option<Gid> {
    if let Some(info) = all(map).find(|i| i.name == text || i.gid.to_string() == text) {
        return Some(info.gid);
    }
    let (fs, rank) = text.split_once(':').unwrap_or(("", text));
    let rank = maps::MdsRank(rank.parse().ok()?);
    let mut filesystems = map.filesystems.values();
    let fs = filesystems.find(|f| fs.is_empty() || f.mds_map.fs_name == fs || f.fscid.to_string() == fs)?;
    fs.mds_map.up.get(&rank).copied()
}

pub fn fail(edit: &mut Edit<'_>, args: &Args, _: &[u8]) -> Outcome {
    let who = args.str("role_or_gid");
    let Some(gid) = find(edit.fsmap_now(), who) else {
        // As in the original: what is not there needs no failing.
        return said(format!(
            "MDS named '{who}' does not exist, or is not up: give a name, a gid, a rank or FS:RANK"
        ));
    };
    let name = mds_ranks::fail(edit, gid).unwrap_or_default();
    mds_ranks::assign(edit);
    said(format!("failed mds gid {gid} (mds.{name})"))
}

pub fn metadata(view: &View<'_>, args: &Args) -> Outcome {
    let map = &view.state.fsmap;
    let one = |info: &MdsInfo| {
        let mut out = Map::new();
        out.insert("name".into(), info.name.clone().into());
        out.insert("addr".into(), addrs(&info.addrs).into());
        let meta = view.state.metadata.get(&EntityName::new(EntityType::MDS, info.name.clone()));
        out.extend(meta.into_iter().flatten().map(|(k, v)| (k.clone(), v.clone().into())));
        Value::Object(out)
    };
    let Some(who) = args.opt_str("who") else {
        return structured(args, &all(map).map(one).collect::<Vec<_>>().into());
    };
    match find(map, who).and_then(|gid| all(map).find(|i| i.gid == gid)) {
        Some(info) => structured(args, &one(info)),
        None => invalid(format!("MDS named '{who}' does not exist, or is not up")),
    }
}

pub fn count_metadata(view: &View<'_>, args: &Args) -> Outcome {
    let property = args.str("property");
    let value = |info: &MdsInfo| {
        let name = EntityName::new(EntityType::MDS, info.name.clone());
        view.state.metadata.get(&name)?.get(property).cloned()
    };
    crate::commands::reply::count_values(args, all(&view.state.fsmap).map(value))
}

pub fn compat_show(view: &View<'_>, args: &Args) -> Outcome {
    let set = &view.state.fsmap.default_compat;
    answer(
        args,
        || crate::commands::fs::dump::compat_json(set),
        || format!("{}\n", crate::commands::fs::dump::compat_text(set)),
    )
}

pub fn ok_to_stop(view: &View<'_>, args: &Args) -> Outcome {
    let map = &view.state.fsmap;
    let mut stop = Vec::new();
    for who in args.list("ids") {
        // One that is not there can be stopped.
        stop.extend(find(map, &who));
    }
    let stays = |i: &&MdsInfo| !stop.contains(&i.gid);
    let active = all(map).filter(|i| !mds_ranks::is_standby(map, i.gid) && !stays(i)).count();
    let spare = all(map).filter(|i| mds_ranks::is_standby(map, i.gid) && stays(i)).count();
    if active > spare {
        let text =
            format!("unsafe to stop: {active} active metadata servers, {spare} standbys to replace them");
        return Err(Failure::new(Errno::EBUSY, text));
    }
    output("should be safe to stop\n")
}

pub fn fs_status(view: &View<'_>, args: &Args) -> Outcome {
    let fsmap = &view.state.fsmap;
    let wanted = args.opt_str("fs");
    if let Some(name) = wanted.filter(|n| fsmap.by_name(n).is_none()) {
        return missing(format!("filesystem '{name}' does not exist"));
    }
    let filesystems: Vec<_> =
        fsmap.filesystems.values().filter(|f| wanted.is_none_or(|n| n == f.mds_map.fs_name)).collect();
    let (map, pgs) = (view.state.osdmap(), &view.pgs);
    let pool = |id: i64, role: &str| {
        let u = crate::domain::usage::pool_usage(map, pgs, id);
        (map.pool_name(id).to_owned(), id, role.to_owned(), u.used, u.max_avail)
    };
    let pools = |f: &maps::Filesystem| {
        let data = f.mds_map.data_pools.iter().map(|id| pool(*id, "data"));
        [pool(f.mds_map.metadata_pool, "metadata")].into_iter().chain(data).collect::<Vec<_>>()
    };
    let state = |i: &MdsInfo| i.state.name().trim_start_matches("up:").to_owned();
    // Only the metadata server knows its own internals: `ceph daemon mds.NAME …`.
    let json = || {
        let mut ranks: Vec<Value> = Vec::new();
        for f in &filesystems {
            let held = f.mds_map.up.iter().filter_map(|(r, g)| Some((r, f.mds_map.mds_info.get(g)?)));
            ranks.extend(held.map(|(r, i)| json!({ "rank": r.0, "name": i.name, "state": state(i) })));
            let follows =
                |i: &MdsInfo| json!({ "rank": format!("{}-s", i.rank), "name": i.name, "state": state(i) });
            ranks.extend(mds_ranks::followers(&f.mds_map).map(follows));
        }
        ranks.extend(fsmap.standby_daemons.values().map(|i| json!({ "name": i.name, "state": "standby" })));
        let all_pools = filesystems.iter().flat_map(|f| pools(f));
        let all_pools = all_pools.map(|(name, id, role, used, avail)| {
            json!({ "avail": avail, "id": id, "name": name, "type": role, "used": used })
        });
        let version = crate::text::version();
        json!({ "mds_version": version, "mdsmap": ranks, "pools": all_pools.collect::<Vec<_>>() })
    };
    let plain = || {
        let mut out = String::new();
        for f in &filesystems {
            out.push_str(&format!("{}\n{}\n", f.mds_map.fs_name, "=".repeat(f.mds_map.fs_name.len())));
            let mut t = Table::new(&[("RANK", L, R), ("STATE", L, L), ("MDS", L, L)]);
            for (r, g) in &f.mds_map.up {
                let Some(i) = f.mds_map.mds_info.get(g) else { continue };
                t.row(vec![r.to_string(), state(i), i.name.clone()]);
            }
            for i in mds_ranks::followers(&f.mds_map) {
                t.row(vec![format!("{}-s", i.rank), state(i), i.name.clone()]);
            }
            f.mds_map.failed.iter().for_each(|r| t.row(vec![r.to_string(), "failed".into(), String::new()]));
            out.push_str(&t.render());
            let mut t = Table::new(&[("POOL", L, L), ("TYPE", L, L), ("USED", R, R), ("AVAIL", R, R)]);
            for (name, _, role, used, avail) in pools(f) {
                t.row(vec![name, role, bytes(used), bytes(avail)]);
            }
            out.push_str(&t.render());
        }
        fsmap.standby_daemons.values().for_each(|i| out.push_str(&format!("standby: mds.{}\n", i.name)));
        out
    };
    answer(args, json, plain)
}
