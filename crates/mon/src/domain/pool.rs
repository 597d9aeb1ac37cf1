//! Rules of pools, for commands and `MPoolOp` alike.

use crate::edit::Edit;
use crate::failure::{Failure, invalid};
use maps::{Pool, PoolSnap, SnapId, pool_flags};
use wire::Errno;

/// Longest name of a pool.
const MAX_NAME: usize = 128;

/// Most PGs in one pool.
const MAX_PG_NUM: u64 = 65_536;

/// Creates a replicated pool and returns its id.
pub fn create(
    edit: &mut Edit<'_>,
    name: &str,
    pg_num: Option<u64>,
    rule: Option<u8>,
    size: Option<u64>,
) -> Result<i64, Failure> {
    if name.is_empty() || name.len() > MAX_NAME || name.starts_with('.') && name.len() == 1 {
        return invalid(format!("a pool's name has 1 to {MAX_NAME} bytes"));
    }
    let pg_num = pg_num.filter(|n| *n > 0).unwrap_or_else(|| edit.option("osd_pool_default_pg_num"));
    let size = size.filter(|n| *n > 0).unwrap_or_else(|| edit.option("osd_pool_default_size"));
    if !(1..=10).contains(&size) {
        return invalid(format!("pool size must be between 1 and 10, not {size}"));
    }
    check_pg_num(edit, pg_num, size, None)?;
    let rule = match rule {
        Some(rule) => rule,
        None => default_rule(edit)?,
    };
    if edit.osdmap().crush.rule(u32::from(rule)).is_none() {
        return Err(Failure::new(Errno::ENOENT, format!("there is no CRUSH rule {rule}")));
    }
    let min_size: u64 = edit.option("osd_pool_default_min_size");
    let min_size = if min_size == 0 || min_size > size { size - size / 2 } else { min_size };
    let stamp = edit.stamp();
    let id = i64::from(edit.osdmap().pool_max) + 1;
    let mut pool = Pool::replicated(size as u8, min_size as u8, rule, pg_num as u32, stamp);
    pool.last_change = edit.osdmap().epoch.next();
    let mode: String = edit.option("osd_pool_default_pg_autoscale_mode");
    let Some(mode) = crate::domain::pool::mode_of(&mode) else {
        return invalid(format!("osd_pool_default_pg_autoscale_mode is `{mode}`: on, warn or off are known"));
    };
    pool.pg_autoscale_mode = mode;
    let inc = edit.osd();
    inc.new_pool_max = id;
    inc.new_pools.insert(id, pool);
    inc.new_pool_names.insert(id, name.to_owned());
    Ok(id)
}

/// The rule of new pools: the one that the option names, or the first for replicated pools.
fn default_rule(edit: &Edit<'_>) -> Result<u8, Failure> {
    let wanted: String = edit.option("osd_pool_default_crush_rule");
    if let Some(rule) = wanted.parse::<i64>().ok().filter(|r| *r >= 0) {
        return u8::try_from(rule)
            .or_else(|_| invalid(format!("osd_pool_default_crush_rule {rule} is no rule")));
    }
    let rules = edit.osdmap().crush.rules.iter().enumerate();
    let first = rules
        .filter_map(|(i, r)| Some((i, r.as_ref()?)))
        .find(|(_, r)| r.mask.ty == maps::pool_type::REPLICATED);
    match first {
        Some((i, _)) => Ok(i as u8),
        None => Err(Failure::new(Errno::ENOENT, "there is no CRUSH rule for replicated pools")),
    }
}

/// Checks that a pool may have `pg_num` PGs; `replaces` is the pool that is changed.
pub fn check_pg_num(edit: &Edit<'_>, pg_num: u64, size: u64, replaces: Option<i64>) -> Result<(), Failure> {
    if !(1..=MAX_PG_NUM).contains(&pg_num) {
        return Err(Failure::new(
            Errno::ERANGE,
            format!("pg_num must be between 1 and {MAX_PG_NUM}, not {pg_num}"),
        ));
    }
    let map = edit.osdmap();
    let osds = map.existing().filter(|(_, o)| o.is_in()).count().max(1) as u64;
    let others = map.pools.iter().filter(|(id, _)| Some(**id) != replaces);
    // The number of PGs that other pools have or are going to have.
    let pgs = |pool: &Pool| u64::from(pool.pg_num.max(pool.pg_num_target));
    let copies: u64 = others.map(|(_, p)| pgs(p) * u64::from(p.size)).sum();
    let max: u64 = edit.option("mon_max_pg_per_osd");
    let wanted = copies + pg_num * size;
    if max > 0 && wanted > max * osds {
        let text = format!(
            "pg_num {pg_num} size {size} would mean {} PG copies on each of {osds} OSDs; mon_max_pg_per_osd is {max}",
            wanted / osds
        );
        return Err(Failure::new(Errno::ERANGE, text));
    }
    Ok(())
}

/// Removes a pool and what refers to it.
pub fn remove(edit: &mut Edit<'_>, id: i64) -> Result<(), Failure> {
    let map = edit.osdmap();
    let name = map.pool_name(id);
    if map.pools[&id].has_flag(pool_flags::NODELETE) {
        return Err(Failure::new(
            Errno::EPERM,
            format!("pool '{name}' has the flag nodelete: unset it first"),
        ));
    }
    let used = edit
        .fsmap_now()
        .filesystems
        .values()
        .find(|fs| fs.mds_map.metadata_pool == id || fs.mds_map.data_pools.contains(&id));
    if let Some(fs) = used {
        let text = format!("pool '{name}' is in use by the file system '{}'", fs.mds_map.fs_name);
        return Err(Failure::new(Errno::EBUSY, text));
    }
    let allowed: bool = edit.option("mon_allow_pool_delete");
    if !allowed {
        let text = "pools can't be removed while mon_allow_pool_delete is false: run `ceph config set mon mon_allow_pool_delete true` first";
        return Err(Failure::new(Errno::EPERM, text));
    }
    let temp: Vec<_> = map.pg_temp.keys().filter(|pg| pg.pool == id).copied().collect();
    let upmaps: Vec<_> = map.pg_upmap_items.keys().filter(|pg| pg.pool == id).copied().collect();
    let snaps = map.removed_snaps_queue.get(&id).cloned();
    let inc = edit.osd();
    // With the pool all its snapshots are gone: nothing of them is left to be removed.
    inc.new_purged_snaps.extend(snaps.map(|snaps| (id, snaps)));
    inc.old_pools.insert(id);
    inc.new_pg_temp.extend(temp.into_iter().map(|pg| (pg, Vec::new())));
    inc.old_pg_upmap_items.extend(upmaps);
    edit.nacre().purged_snaps.remove(&id);
    Ok(())
}

/// A snapshot of the whole pool.
pub fn make_snap(edit: &mut Edit<'_>, id: i64, name: &str) -> Result<(), Failure> {
    let (stamp, epoch) = (edit.stamp(), edit.osdmap().epoch.next());
    if edit.osdmap().pools[&id].has_flag(pool_flags::SELFMANAGED_SNAPS) {
        let text = "the pool's snapshots are managed by its clients (rbd, CephFS): the pool as a whole can't have any";
        return Err(Failure::new(Errno::EINVAL, text));
    }
    let pool = edit.pool(id);
    pool.flags |= pool_flags::POOL_SNAPS;
    pool.snap_seq = SnapId(pool.snap_seq.0 + 1);
    pool.snap_epoch = epoch;
    let snapid = pool.snap_seq;
    pool.snaps.insert(snapid, PoolSnap { snapid, stamp, name: name.to_owned() });
    Ok(())
}

/// Removes a snapshot of the whole pool.
pub fn remove_snap(edit: &mut Edit<'_>, id: i64, name: &str) -> Result<(), Failure> {
    let found = edit.osdmap().pools[&id].snaps.values().find(|s| s.name == name).map(|s| s.snapid);
    let Some(snapid) = found else {
        return Err(Failure::new(Errno::ENOENT, format!("there is no snapshot '{name}'")));
    };
    edit.pool(id).snaps.remove(&snapid);
    crate::domain::snaps::remove(edit, id, snapid);
    Ok(())
}

/// Values of [`Pool::pg_autoscale_mode`], by their names.
pub(crate) const MODES: [&str; 3] = ["off", "warn", "on"];

pub(crate) const WARN: u8 = 1;

pub(crate) const ON: u8 = 2;

/// The value of a mode's name.
pub(crate) fn mode_of(name: &str) -> Option<u8> {
    MODES.iter().position(|mode| *mode == name).map(|i| i as u8)
}
