//! Commands that make and change file systems.

use crate::commands::reply::{Outcome, said};
use crate::domain::client_features::CLIENT_FEATURES;
use crate::domain::mds_ranks;
use crate::edit::Edit;
use crate::failure::{Failure, invalid, missing};
use decl::Args;
use maps::{Filesystem, Fscid, MdsMap, MdsRank, Pool, PoolOpt, pool_opt};
use wire::Errno;

/// The pool that an argument names.
fn pool<'a>(edit: &Edit<'a>, args: &Args, arg: &str) -> Result<(i64, &'a Pool), Failure> {
    match edit.osdmap().pool_by_name(args.str(arg)) {
        Some(found) => Ok(found),
        None => missing(format!("pool '{}' does not exist", args.str(arg))),
    }
}

/// The file system that an argument names.
fn fs_of(edit: &Edit<'_>, args: &Args) -> Result<Fscid, Failure> {
    match edit.fsmap_now().by_name(args.str("fs_name")) {
        Some(fs) => Ok(fs.fscid),
        None => missing(format!("Filesystem not found: '{}'", args.str("fs_name"))),
    }
}

/// Checks that a pool may become part of a new file system.
fn check_pool(edit: &Edit<'_>, id: i64, name: &str, pool: &Pool) -> Result<(), Failure> {
    if pool.is_erasure() {
        return invalid(format!("pool '{name}' is erasure-coded; use a replicated one"));
    }
    let uses = |fs: &&Filesystem| fs.mds_map.metadata_pool == id || fs.mds_map.data_pools.contains(&id);
    match edit.fsmap_now().filesystems.values().find(uses) {
        Some(fs) => {
            invalid(format!("pool '{name}' is already in use by the file system '{}'", fs.mds_map.fs_name))
        }
        None => Ok(()),
    }
}

pub fn new(edit: &mut Edit<'_>, args: &Args, _: &[u8]) -> Outcome {
    let name = args.str("fs_name");
    let ((meta, meta_pool), (data, data_pool)) = (pool(edit, args, "metadata")?, pool(edit, args, "data")?);
    if let Some(fs) = edit.fsmap_now().by_name(name) {
        let same = fs.mds_map.metadata_pool == meta && fs.mds_map.data_pools.first() == Some(&data);
        return match same {
            true => said(format!("filesystem '{name}' already exists")),
            false => invalid(format!("filesystem '{name}' already exists with other pools")),
        };
    }
    if name.is_empty() {
        return invalid("a file system needs a name");
    }
    if meta == data {
        return invalid("metadata and data need different pools");
    }
    check_pool(edit, meta, args.str("metadata"), meta_pool)?;
    check_pool(edit, data, args.str("data"), data_pool)?;
    if !args.flag("force") && edit.view.pgs.pool(meta).stats.num_objects > 0 {
        return invalid(format!(
            "pool '{}' already contains some objects. Use an empty pool instead.",
            args.str("metadata")
        ));
    }
    for (id, role) in [(meta, "metadata"), (data, "data")] {
        let apps = edit.pool(id).application_metadata.entry("cephfs".into()).or_default();
        apps.insert(role.into(), name.to_owned());
    }
    prefer_metadata(edit.pool(meta));
    let stamp = edit.stamp();
    let map = edit.fsmap();
    let fscid = match args.int("fscid").and_then(|n| i32::try_from(n).ok()).map(Fscid) {
        Some(id) if map.filesystems.contains_key(&id) => return invalid(format!("fscid {id} is in use")),
        Some(id) => id,
        None => Fscid(map.next_fscid as i32),
    };
    map.next_fscid = map.next_fscid.max(fscid.0 as u64 + 1);
    let mut mds_map = MdsMap {
        epoch: map.epoch,
        created: stamp,
        modified: stamp,
        data_pools: vec![data],
        metadata_pool: meta,
        compat: map.default_compat.clone(),
        enabled: true,
        fs_name: name.to_owned(),
        ..MdsMap::default()
    };
    if args.flag("recover") {
        // The metadata exists already: the first MDS replays it instead of creating a root.
        mds_map.flags |= MdsMap::NOT_JOINABLE;
        mds_map.r#in.insert(MdsRank(0));
        mds_map.failed.insert(MdsRank(0));
    }
    map.filesystems.insert(fscid, Filesystem { fscid, mds_map, ..Filesystem::default() });
    if map.legacy_client_fscid == Fscid::NONE {
        map.legacy_client_fscid = fscid;
    }
    mds_ranks::assign(edit);
    said(format!("new fs with metadata pool {meta} and data pool {data}"))
}

/// Metadata is small and everything waits for it: recover it first, and give it more PGs than its size calls
/// for. Ceph's values.
fn prefer_metadata(pool: &mut Pool) {
    let settings = [
        (pool_opt::RECOVERY_PRIORITY, PoolOpt::Int(5)),
        (pool_opt::PG_NUM_MIN, PoolOpt::Int(i64::from(pool.pg_num.min(16)))),
        (pool_opt::PG_AUTOSCALE_BIAS, PoolOpt::Double(4.0)),
    ];
    for (key, value) in settings {
        pool.opts.entry(key).or_insert(value);
    }
}

/// Takes all metadata servers from a file system. They boot again as standbys.
fn fail_all(edit: &mut Edit<'_>, id: Fscid) {
    let gids: Vec<_> = edit.fsmap_now().filesystems[&id].mds_map.mds_info.keys().copied().collect();
    for gid in gids {
        mds_ranks::fail(edit, gid);
    }
}

pub fn rm(edit: &mut Edit<'_>, args: &Args, _: &[u8]) -> Outcome {
    let name = args.str("fs_name");
    let Some(id) = edit.fsmap_now().by_name(name).map(|fs| fs.fscid) else {
        return said(format!("filesystem '{name}' does not exist"));
    };
    if !edit.fsmap_now().filesystems[&id].mds_map.up.is_empty() {
        return invalid(format!(
            "all MDS daemons must be inactive/failed before removing filesystem: run `ceph fs fail {name}` first"
        ));
    }
    if !args.flag("yes_i_really_mean_it") {
        let text =
            format!("this forgets the file system '{name}'; its pools stay. Add --yes-i-really-mean-it");
        return Err(Failure::new(Errno::EPERM, text));
    }
    fail_all(edit, id);
    let map = edit.fsmap();
    map.filesystems.remove(&id);
    if map.legacy_client_fscid == id {
        map.legacy_client_fscid = Fscid::NONE;
    }
    said("")
}

pub fn fail(edit: &mut Edit<'_>, args: &Args, _: &[u8]) -> Outcome {
    let id = fs_of(edit, args)?;
    edit.filesystem(id).flags |= MdsMap::NOT_JOINABLE;
    fail_all(edit, id);
    said(format!(
        "{} marked not joinable; MDS cannot join the cluster. All MDS ranks marked failed.",
        args.str("fs_name")
    ))
}

/// The ranks that a file system may have.
const MAX_RANKS: u64 = 256;

fn max_mds(most: u64) -> Result<i32, Failure> {
    match most {
        0 => invalid("You must specify at least one MDS"),
        n if n > MAX_RANKS => invalid(format!("may not have more than {MAX_RANKS} MDS ranks")),
        n => Ok(n as i32),
    }
}

pub fn set(edit: &mut Edit<'_>, args: &Args, _: &[u8]) -> Outcome {
    let id = fs_of(edit, args)?;
    let (name, var, val) = (args.str("fs_name"), args.str("var"), args.str("val"));
    let number =
        || val.trim().parse::<u64>().or_else(|_| invalid(format!("{var}: `{val}` is not a whole number")));
    let on = || {
        decl::options::parse_bool(val)
            .map_or_else(|| invalid(format!("{var}: `{val}` is not true or false")), Ok)
    };
    match var {
        "max_mds" if val.trim() == "auto" => set_flag(edit, id, MdsMap::MAX_MDS_AUTO, true),
        "max_mds" => {
            let most = max_mds(number()?)?;
            set_flag(edit, id, MdsMap::MAX_MDS_AUTO, false);
            edit.filesystem(id).max_mds = most;
            mds_ranks::stop_surplus(edit, id);
            mds_ranks::assign(edit);
        }
        "max_file_size" => {
            edit.filesystem(id).max_file_size = decl::options::parse_size(val)
                .map_or_else(|| invalid(format!("`{val}` is not a size")), Ok)?
        }
        "session_timeout" => edit.filesystem(id).session_timeout = bounded(var, number()?, 30)?,
        "session_autoclose" => edit.filesystem(id).session_autoclose = bounded(var, number()?, 30)?,
        "standby_count_wanted" => {
            edit.filesystem(id).standby_count_wanted = bounded(var, number()?, 0)? as i32
        }
        "allow_new_snaps" => set_flag(edit, id, MdsMap::ALLOW_SNAPS, on()?),
        "allow_standby_replay" => match on()? {
            false => {
                set_flag(edit, id, MdsMap::ALLOW_STANDBY_REPLAY, false);
                mds_ranks::release_followers(edit, id);
            }
            true => {
                set_flag(edit, id, MdsMap::ALLOW_STANDBY_REPLAY, true);
                mds_ranks::assign(edit);
            }
        },
        "balance_automate" => set_flag(edit, id, MdsMap::BALANCE_AUTOMATE, on()?),
        "balancer" => edit.filesystem(id).balancer = val.to_owned(),
        "inline_data" | "cluster_down" | "allow_dirfrags" | "min_compat_client" => {
            return invalid(format!("{var}: is outdated in Ceph and has no meaning here"));
        }
        "joinable" => {
            let joinable = on()?;
            set_flag(edit, id, MdsMap::NOT_JOINABLE, !joinable);
            mds_ranks::assign(edit);
        }
        "down" => {
            let down = on()?;
            set_flag(edit, id, MdsMap::NOT_JOINABLE, down);
            match down {
                true => fail_all(edit, id),
                false => mds_ranks::assign(edit),
            }
        }
        other => return invalid(format!("`{other}` can't be set")),
    }
    said(format!("{name}: {var} set to {val}"))
}

fn bounded(var: &str, n: u64, least: u64) -> Result<u32, Failure> {
    match u32::try_from(n) {
        Ok(small) if n >= least => Ok(small),
        _ => invalid(format!("{var}: must be between {least} and {}", u32::MAX)),
    }
}

fn set_flag(edit: &mut Edit<'_>, id: Fscid, bit: u32, on: bool) {
    let fs = edit.filesystem(id);
    fs.flags = if on { fs.flags | bit } else { fs.flags & !bit };
}

/// Removes the last trace of ranks and journals; only for repairs by hand.
pub fn reset(edit: &mut Edit<'_>, args: &Args, _: &[u8]) -> Outcome {
    let id = fs_of(edit, args)?;
    if !edit.fsmap_now().filesystems[&id].mds_map.up.is_empty() {
        let text = format!(
            "all MDS daemons must be inactive before resetting filesystem: run `ceph fs fail {}` first",
            args.str("fs_name")
        );
        return invalid(text);
    }
    if !args.flag("yes_i_really_mean_it") {
        let text = "this is a potentially destructive operation, only for use by experts in disaster recovery. Add --yes-i-really-mean-it if you are sure you wish to continue.";
        return Err(Failure::new(Errno::EPERM, text));
    }
    let fs = edit.filesystem(id);
    fs.failed = [MdsRank(0)].into();
    fs.r#in = [MdsRank(0)].into();
    fs.damaged.clear();
    fs.stopped.clear();
    fs.flags &= !MdsMap::NOT_JOINABLE;
    fs.max_mds = 1;
    mds_ranks::assign(edit);
    said("")
}

pub fn set_default(edit: &mut Edit<'_>, args: &Args, _: &[u8]) -> Outcome {
    let id = fs_of(edit, args)?;
    if edit.fsmap_now().legacy_client_fscid != id {
        edit.fsmap().legacy_client_fscid = id;
    }
    said("")
}

pub fn flag_set(edit: &mut Edit<'_>, args: &Args, _: &[u8]) -> Outcome {
    let text = args.text("val");
    let Some(on) = decl::options::parse_bool(&text) else {
        return invalid(format!("Invalid boolean value: `{text}`"));
    };
    let map = edit.fsmap();
    map.enable_multiple = on;
    map.ever_enabled_multiple |= on;
    said("")
}

pub fn add_data_pool(edit: &mut Edit<'_>, args: &Args, _: &[u8]) -> Outcome {
    let id = fs_of(edit, args)?;
    let (fs_name, name) = (args.str("fs_name"), args.str("pool"));
    let (pool_id, pool) = pool(edit, args, "pool")?;
    if edit.fsmap_now().filesystems[&id].mds_map.data_pools.contains(&pool_id) {
        return said(format!("data pool {pool_id} is already on fs {fs_name}"));
    }
    let apps = &pool.application_metadata;
    if !apps.is_empty() && !apps.contains_key("cephfs") {
        return invalid(format!(" pool '{name}' (id '{pool_id}') has a non-CephFS application enabled."));
    }
    check_pool(edit, pool_id, name, pool)?;
    edit.filesystem(id).data_pools.push(pool_id);
    let apps = edit.pool(pool_id).application_metadata.entry("cephfs".into()).or_default();
    apps.insert("data".into(), fs_name.to_owned());
    said(format!("added data pool {pool_id} to fsmap"))
}

pub fn rm_data_pool(edit: &mut Edit<'_>, args: &Args, _: &[u8]) -> Outcome {
    let id = fs_of(edit, args)?;
    let (pool_id, _) = pool(edit, args, "pool")?;
    let data_pools = &edit.fsmap_now().filesystems[&id].mds_map.data_pools;
    match data_pools.iter().position(|p| *p == pool_id) {
        Some(0) => return invalid("cannot remove default data pool"),
        Some(at) => drop(edit.filesystem(id).data_pools.remove(at)),
        None => return said(format!("data pool {pool_id} is not on fs {}", args.str("fs_name"))),
    }
    said(format!("removed data pool {pool_id} from fsmap"))
}

pub fn required_client_features(edit: &mut Edit<'_>, args: &Args, _: &[u8]) -> Outcome {
    let id = fs_of(edit, args)?;
    let mut bits = 0u64;
    let text = args.text("val");
    for name in text.split([',', ' ']).filter(|n| !n.is_empty()) {
        let by_number = name.parse().ok().filter(|n: &usize| *n < CLIENT_FEATURES.len());
        match CLIENT_FEATURES.iter().position(|f| *f == name && *f != "reserved").or(by_number) {
            Some(bit) => bits |= 1 << bit,
            None => return invalid(format!("Invalid feature name: {name}")),
        }
    }
    let features = &mut edit.filesystem(id).required_client_features;
    match args.str("subop") {
        "add" => {
            features.0 |= bits;
            said(format!("added feature '{text}' to required_client_features"))
        }
        _ => {
            features.0 &= !bits;
            said(format!("removed feature '{text}' from required_client_features"))
        }
    }
}

/// Allows a repaired rank to be taken again.
pub fn repaired(edit: &mut Edit<'_>, args: &Args, _: &[u8]) -> Outcome {
    let role = args.str("role");
    let (fs, rank) = role.split_once(':').unwrap_or(("", role));
    let Ok(rank) = rank.parse().map(MdsRank) else { return invalid(format!("Invalid rank '{role}'")) };
    let mut filesystems = edit.fsmap_now().filesystems.values();
    let found = filesystems.find(|f| fs.is_empty() || f.mds_map.fs_name == fs || f.fscid.to_string() == fs);
    let Some(id) = found.map(|f| f.fscid) else { return invalid(format!("Invalid role '{role}'")) };
    if !edit.fsmap_now().filesystems[&id].mds_map.damaged.contains(&rank) {
        return said("nothing to do: rank is not damaged");
    }
    let fs = edit.filesystem(id);
    fs.damaged.remove(&rank);
    fs.failed.insert(rank);
    mds_ranks::assign(edit);
    said(format!("repaired: restoring rank {id}:{rank}"))
}
