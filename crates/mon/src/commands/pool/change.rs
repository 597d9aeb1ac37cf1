//! Commands that change pools.

use crate::commands::reply::{Outcome, said};
use crate::domain::{features, pool};
use crate::edit::Edit;
use crate::failure::{Failure, invalid, missing};
use decl::Args;
use maps::{pool_flags, pool_opt};
use wire::Errno;

pub fn create(edit: &mut Edit<'_>, args: &Args, _: &[u8]) -> Outcome {
    let name = args.str("pool");
    if args.opt_str("pool_type") == Some("erasure") {
        return Err(Failure::new(
            Errno::EOPNOTSUPP,
            "erasure-coded pools can't be made yet; use a replicated one",
        ));
    }
    if edit.osdmap().pool_by_name(name).is_some() {
        return said(format!("pool '{name}' already exists"));
    }
    // `osd pool create NAME 32 RULE` puts the rule where an erasure code profile would stand.
    let rule =
        args.opt_str("rule").or_else(|| args.opt_str("erasure_code_profile")).filter(|r| !r.is_empty());
    let rule = match rule {
        Some(text) => match edit.osdmap().crush.rule_of(text).and_then(|r| u8::try_from(r).ok()) {
            Some(rule) => Some(rule),
            None => return missing(format!("there is no CRUSH rule `{text}`")),
        },
        None => None,
    };
    let number = |name: &str| args.int(name).and_then(|n| u64::try_from(n).ok());
    let (pg_num, pgp_num) = (number("pg_num"), number("pgp_num"));
    if pg_num.zip(pgp_num).is_some_and(|(pg, pgp)| pgp > 0 && pgp != pg) {
        return invalid("pgp_num must be the same as pg_num");
    }
    let id = pool::create(edit, name, pg_num, rule, number("size"))?;
    let pool = edit.osd().new_pools.get_mut(&id).expect("was made");
    if args.flag("bulk") {
        pool.flags |= pool_flags::BULK;
    }
    if let Some(mode) = args.opt_str("autoscale_mode").and_then(pool::mode_of) {
        pool.pg_autoscale_mode = mode;
    }
    for name in ["pg_num_min", "pg_num_max", "target_size_bytes", "target_size_ratio"] {
        if !args.text(name).is_empty() {
            let (key, value) = crate::commands::pool::opts::parse(name, &args.text(name))?;
            check_option(pool, name, value.as_ref())?;
            pool.opts.extend(value.map(|value| (key, value)));
        }
    }
    said(format!("pool '{name}' created"))
}

/// The id of the pool that an argument names.
pub(crate) fn id_of(edit: &Edit<'_>, args: &Args, arg: &str) -> Result<i64, Failure> {
    match edit.osdmap().pool_by_name(args.str(arg)) {
        Some((id, _)) => Ok(id),
        None => missing(format!("unrecognized pool '{}'", args.str(arg))),
    }
}

pub fn rm(edit: &mut Edit<'_>, args: &Args, _: &[u8]) -> Outcome {
    let name = args.str("pool");
    let Some((id, _)) = edit.osdmap().pool_by_name(name) else {
        return said(format!("pool '{name}' does not exist"));
    };
    let sure =
        args.flag("yes_i_really_really_mean_it") || args.flag("yes_i_really_really_mean_it_not_faking");
    if args.opt_str("pool2") != Some(name) || !sure {
        let text = format!(
            "this destroys everything in pool {name} for ever: give the name twice, and --yes-i-really-really-mean-it"
        );
        return Err(Failure::new(Errno::EPERM, text));
    }
    pool::remove(edit, id)?;
    said(format!("pool '{name}' removed"))
}

pub fn rename(edit: &mut Edit<'_>, args: &Args, _: &[u8]) -> Outcome {
    let (from, to) = (args.str("srcpool"), args.str("destpool"));
    let map = edit.osdmap();
    match (map.pool_by_name(from), map.pool_by_name(to)) {
        (Some(_), Some(_)) => Err(Failure::new(Errno::EEXIST, format!("pool '{to}' already exists"))),
        // Sent again after the answer was lost.
        (None, Some(_)) => {
            said(format!("pool '{from}' does not exist; pool '{to}' does -- assuming successful rename"))
        }
        (None, None) => missing(format!("unrecognized pool '{from}'")),
        (Some(_), None) if to.is_empty() => invalid("a pool needs a name"),
        (Some((id, _)), None) => {
            edit.pool(id);
            edit.osd().new_pool_names.insert(id, to.to_owned());
            said(format!("pool '{from}' renamed to '{to}'"))
        }
    }
}

fn whole(args: &Args) -> Result<u64, Failure> {
    let (text, var) = (args.str("val"), args.str("var"));
    text.trim().parse().or_else(|_| invalid(format!("{var}: `{text}` is not a whole number")))
}

fn on_off(args: &Args) -> Result<bool, Failure> {
    let text = args.str("val");
    decl::options::parse_bool(text)
        .map_or_else(|| invalid(format!("expecting value 'true', 'false', '0' or '1', not `{text}`")), Ok)
}

pub fn set(edit: &mut Edit<'_>, args: &Args, _: &[u8]) -> Outcome {
    let id = id_of(edit, args, "pool")?;
    let old = edit.osdmap().pools[&id].clone();
    let var = args.str("var");
    let shown = args.text("val");
    match var {
        "size" => set_size(edit, args, id, &old)?,
        "min_size" => {
            let n = whole(args)?;
            if n < 1 || n > u64::from(old.size) {
                return invalid(format!(
                    "pool min_size must be between 1 and size, which is set to {}",
                    old.size
                ));
            }
            edit.pool(id).min_size = n as u8;
        }
        "pg_num" => set_pg_num(edit, args, id, &old)?,
        "pgp_num" => set_pgp_num(edit, args, id, &old)?,
        "crush_rule" => {
            let Some(rule) = edit.osdmap().crush.rule_of(args.str("val")) else {
                return missing(format!("there is no CRUSH rule `{}`", args.str("val")));
            };
            edit.pool(id).crush_rule = rule as u8;
        }
        "pg_autoscale_mode" => match pool::mode_of(args.str("val")) {
            Some(mode) => edit.pool(id).pg_autoscale_mode = mode,
            None => return invalid(format!("specified invalid mode {shown}")),
        },
        "hashpspool" if !args.flag("yes_i_really_mean_it") => {
            let text = "this moves all data of the pool, and clients may read nothing meanwhile: add --yes-i-really-mean-it";
            return Err(Failure::new(Errno::EPERM, text));
        }
        "use_gmt_hitset" => edit.pool(id).use_gmt_hitset = on_off(args)?,
        "fast_read" => match on_off(args)? {
            true => {
                return Err(Failure::new(
                    Errno::EINVAL,
                    "fast read is only supported in erasure coding pool",
                ));
            }
            false => edit.pool(id).fast_read = false,
        },
        option if crate::commands::pool::opts::exists(option) => {
            let (key, value) = crate::commands::pool::opts::parse(option, &shown)?;
            check_option(&old, option, value.as_ref())?;
            let opts = &mut edit.pool(id).opts;
            match value {
                Some(value) => drop(opts.insert(key, value)),
                None => drop(opts.remove(&key)),
            }
        }
        flag => {
            let (bit, _) = pool_flags::NAMES.iter().find(|(_, n)| *n == flag).expect("was checked");
            let on = on_off(args)?;
            let pool = edit.pool(id);
            pool.flags = if on { pool.flags | bit } else { pool.flags & !bit };
        }
    }
    said(format!("set pool {id} {var} to {shown}"))
}

/// Bounds of `pg_num` must hold now.
fn check_option(pool: &maps::Pool, name: &str, value: Option<&maps::PoolOpt>) -> Result<(), Failure> {
    let Some(maps::PoolOpt::Int(n)) = value else { return Ok(()) };
    let pgs = i64::from(pool.pg_num);
    match name {
        "pg_num_min" if *n > pgs => invalid(format!("specified pg_num_min {n} > pg_num {pgs}")),
        "pg_num_max" if *n < pgs => invalid(format!("specified pg_num_max {n} < pg_num {pgs}")),
        "recovery_priority" if !(-10..=10).contains(n) => {
            invalid(format!("pool recovery_priority must be between -10 and 10, not {n}"))
        }
        _ => Ok(()),
    }
}

fn set_size(edit: &mut Edit<'_>, args: &Args, id: i64, old: &maps::Pool) -> Result<(), Failure> {
    let n = whole(args)?;
    if old.has_flag(pool_flags::NOSIZECHANGE) {
        return Err(Failure::new(Errno::EPERM, "the pool has the flag nosizechange: unset it first"));
    }
    if !(1..=10).contains(&n) {
        return invalid(format!("pool size must be between 1 and 10, not {n}"));
    }
    if n == 1 && !args.flag("yes_i_really_mean_it") {
        let text =
            "with size 1 the loss of one device loses data: add --yes-i-really-mean-it if you want that";
        return Err(Failure::new(Errno::EPERM, text));
    }
    pool::check_pg_num(edit, u64::from(old.pg_num), n, Some(id))?;
    let pool = edit.pool(id);
    // As for a new pool: more than half of the copies.
    (pool.size, pool.min_size) = (n as u8, (n - n / 2) as u8);
    Ok(())
}

/// Says how many PGs a pool is to have; the leader takes it there ([`crate::domain::pg_num`]).
fn set_pg_num(edit: &mut Edit<'_>, args: &Args, id: i64, old: &maps::Pool) -> Result<(), Failure> {
    let n = whole(args)?;
    if n == u64::from(old.pg_num_target) {
        return Ok(());
    }
    may_change_pgs(old)?;
    pool::check_pg_num(edit, n, u64::from(old.size), Some(id))?;
    for (name, key, wrong) in [
        ("pg_num_min", pool_opt::PG_NUM_MIN, std::cmp::Ordering::Less),
        ("pg_num_max", pool_opt::PG_NUM_MAX, std::cmp::Ordering::Greater),
    ] {
        if let Some(maps::PoolOpt::Int(bound)) = old.opts.get(&key)
            && *bound > 0
            && n.cmp(&(*bound as u64)) == wrong
        {
            let sign = if wrong.is_lt() { '<' } else { '>' };
            return invalid(format!("specified pg_num {n} {sign} {name} {bound}"));
        }
    }
    let n = n as u32;
    if n < old.pg_num {
        features::require(edit, peer::level::MERGES)?;
    }
    let pool = edit.pool(id);
    // `pgp_num` follows unless somebody has set the two apart.
    if old.pgp_num_target == old.pg_num_target || old.pgp_num_target > n {
        pool.pgp_num_target = n;
    }
    pool.pg_num_target = n;
    Ok(())
}

/// Sets a pool's target number of placements.
fn set_pgp_num(edit: &mut Edit<'_>, args: &Args, id: i64, old: &maps::Pool) -> Result<(), Failure> {
    let n = whole(args)?;
    may_change_pgs(old)?;
    if n == 0 || n > u64::from(old.pg_num_target) {
        return invalid(format!("specified pgp_num {n} is not within 1 and pg_num {}", old.pg_num_target));
    }
    edit.pool(id).pgp_num_target = n as u32;
    Ok(())
}

fn may_change_pgs(pool: &maps::Pool) -> Result<(), Failure> {
    match pool.has_flag(pool_flags::NOPGCHANGE) {
        true => Err(Failure::new(Errno::EPERM, "the pool has the flag nopgchange: unset it first")),
        false => Ok(()),
    }
}

pub fn set_quota(edit: &mut Edit<'_>, args: &Args, _: &[u8]) -> Outcome {
    let id = id_of(edit, args, "pool")?;
    let (field, text) = (args.str("field"), args.str("val"));
    let Some(value) = decl::options::parse_size(text) else {
        return invalid(format!("{field}: `{text}` is not a number"));
    };
    let pool = edit.pool(id);
    match field {
        "max_bytes" => pool.quota_max_bytes = value,
        _ => pool.quota_max_objects = value,
    }
    said(format!("set-quota {field} = {value} for pool {}", args.str("pool")))
}

pub fn mksnap(edit: &mut Edit<'_>, args: &Args, _: &[u8]) -> Outcome {
    let id = id_of(edit, args, "pool")?;
    let (name, snap) = (args.str("pool"), args.str("snap"));
    if edit.osdmap().pools[&id].snaps.values().any(|s| s.name == snap) {
        return said(format!("pool {name} snap {snap} already exists"));
    }
    pool::make_snap(edit, id, snap)?;
    said(format!("created pool {name} snap {snap}"))
}

pub fn rmsnap(edit: &mut Edit<'_>, args: &Args, _: &[u8]) -> Outcome {
    let id = id_of(edit, args, "pool")?;
    let (name, snap) = (args.str("pool"), args.str("snap"));
    if !edit.osdmap().pools[&id].snaps.values().any(|s| s.name == snap) {
        return said(format!("pool {name} snap {snap} does not exist"));
    }
    pool::remove_snap(edit, id, snap)?;
    said(format!("removed pool {name} snap {snap}"))
}
