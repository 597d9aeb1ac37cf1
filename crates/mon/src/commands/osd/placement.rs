//! Commands that place single PGs: upmaps and temporary mappings.

use crate::commands::reply::{Outcome, said};
use crate::edit::Edit;
use crate::failure::{Failure, invalid, missing};
use decl::Args;
use maps::{OsdId, PgId, release};
use std::collections::BTreeSet;
use wire::Errno;

/// The PG that an argument names, which must exist.
pub fn pg_of(edit: &Edit<'_>, args: &Args) -> Result<PgId, Failure> {
    let text = args.str("pgid");
    let Some(pg) = PgId::parse(text) else {
        return invalid(format!("invalid pgid '{text}': write POOL.SEED, as 1.2f"));
    };
    match edit.osdmap().pools.get(&pg.pool).is_some_and(|p| pg.seed < p.pg_num) {
        true => Ok(pg),
        false => missing(format!("pg '{pg}' does not exist")),
    }
}

/// The OSDs of `id`, all of which must exist.
fn osds(edit: &Edit<'_>, args: &Args) -> Result<Vec<OsdId>, Failure> {
    let mut out = Vec::new();
    for text in args.list("id") {
        match decl::args::parse_osd(&text).map(OsdId) {
            Some(osd) if edit.osdmap().exists(osd) => out.push(osd),
            Some(osd) => return missing(format!("osd.{osd} does not exist")),
            None => return invalid(format!("invalid osd id '{text}'")),
        }
    }
    Ok(out)
}

fn shown(osds: &[OsdId]) -> String {
    crate::text::osds(osds)
}

/// Upmaps need clients that understand them.
fn check_upmap_clients(edit: &Edit<'_>) -> Result<(), Failure> {
    match edit.osdmap().require_min_compat_client < release::LUMINOUS {
        true => {
            let text = "min_compat_client must be luminous or newer for upmaps: run `ceph osd set-require-min-compat-client luminous`";
            Err(Failure::new(Errno::EPERM, text))
        }
        false => Ok(()),
    }
}

pub fn pg_upmap(edit: &mut Edit<'_>, args: &Args, _: &[u8]) -> Outcome {
    check_upmap_clients(edit)?;
    let (pg, osds) = (pg_of(edit, args)?, osds(edit, args)?);
    let size = usize::from(edit.osdmap().pools[&pg.pool].size);
    let unique: BTreeSet<OsdId> = osds.iter().copied().collect();
    if unique.len() != osds.len() {
        return invalid("an OSD is named twice");
    }
    if osds.is_empty() || osds.len() > size {
        return invalid(format!("number of osds must be from 1 to the pool's size, {size}"));
    }
    let text = format!("set {pg} pg_upmap mapping to {}", shown(&osds));
    edit.osd().new_pg_upmap.insert(pg, osds);
    said(text)
}

pub fn rm_pg_upmap(edit: &mut Edit<'_>, args: &Args, _: &[u8]) -> Outcome {
    let pg = pg_of(edit, args)?;
    if edit.osdmap().pg_upmap.contains_key(&pg) {
        edit.osd().old_pg_upmap.insert(pg);
    }
    said(format!("clear {pg} pg_upmap mapping"))
}

pub fn upmap_items(edit: &mut Edit<'_>, args: &Args, _: &[u8]) -> Outcome {
    check_upmap_clients(edit)?;
    let (pg, ids) = (pg_of(edit, args)?, osds(edit, args)?);
    if !ids.len().is_multiple_of(2) || ids.is_empty() {
        return invalid("give pairs of OSDs: from to [from to …]");
    }
    let pairs: Vec<(OsdId, OsdId)> = ids.chunks(2).map(|p| (p[0], p[1])).collect();
    if let Some((from, _)) = pairs.iter().find(|(a, b)| a == b) {
        return invalid(format!("osd.{from} is both source and destination"));
    }
    let shown: Vec<String> = pairs.iter().map(|(a, b)| format!("{a}->{b}")).collect();
    edit.osd().new_pg_upmap_items.insert(pg, pairs);
    said(format!("set {pg} pg_upmap_items mapping to [{}]", shown.join(",")))
}

pub fn rm_upmap_items(edit: &mut Edit<'_>, args: &Args, _: &[u8]) -> Outcome {
    let pg = pg_of(edit, args)?;
    if edit.osdmap().pg_upmap_items.contains_key(&pg) {
        edit.osd().old_pg_upmap_items.insert(pg);
    }
    said(format!("clear {pg} pg_upmap_items mapping"))
}

pub fn pg_temp(edit: &mut Edit<'_>, args: &Args, _: &[u8]) -> Outcome {
    let (pg, osds) = (pg_of(edit, args)?, osds(edit, args)?);
    let text = format!("set {pg} pg_temp mapping to {}", shown(&osds));
    edit.osd().new_pg_temp.insert(pg, osds);
    said(text)
}

pub fn primary_temp(edit: &mut Edit<'_>, args: &Args, _: &[u8]) -> Outcome {
    let (pg, text) = (pg_of(edit, args)?, args.text("id"));
    let osd = match (text.as_str(), decl::args::parse_osd(&text).map(OsdId)) {
        ("-1", _) => OsdId(-1),
        (_, Some(osd)) if edit.osdmap().exists(osd) => osd,
        (_, Some(osd)) => return missing(format!("osd.{osd} does not exist")),
        _ => return invalid(format!("invalid osd id '{text}'")),
    };
    edit.osd().new_primary_temp.insert(pg, osd);
    said(format!("set {pg} primary_temp mapping to {osd}"))
}
