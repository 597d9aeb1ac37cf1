//! `df`: space by device class and by pool.

use crate::commands::reply::{Outcome, answer};
use crate::commands::table::Align::{L, R};
use crate::commands::table::Table;
use crate::crush_edit;
use crate::domain::usage::{PoolUsage, pool_usage};
use crate::pg_stats::PgTable;
use crate::text::{bytes, count, percent};
use crate::view::View;
use decl::Args;
use maps::{OsdMap, StoreStatfs};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

struct ClassSpace {
    name: String,
    total: u64,
    avail: u64,
}

fn classes(map: &OsdMap, pgs: &PgTable) -> Vec<ClassSpace> {
    let mut by_class: BTreeMap<String, StoreStatfs> = BTreeMap::new();
    for (osd, stat) in pgs.osds() {
        if map.is_in(*osd) {
            let class = crush_edit::class(&map.crush, osd.0);
            let sum = by_class.entry(class.to_owned()).or_default();
            sum.total += stat.store.total;
            sum.available += stat.store.available;
        }
    }
    by_class.into_iter().map(|(name, s)| ClassSpace { name, total: s.total, avail: s.available }).collect()
}

pub fn df(view: &View<'_>, args: &Args) -> Outcome {
    let detail = args.str("detail") == "detail";
    answer(args, || df_json(view, detail), || df_text(view, detail))
}

fn space_json(total: u64, avail: u64) -> Value {
    let used = total - avail.min(total);
    json!({
        "total_bytes": total,
        "total_avail_bytes": avail,
        "total_used_bytes": used,
        "total_used_raw_bytes": used,
        "total_used_raw_ratio": if total > 0 { used as f64 / total as f64 } else { 0.0 },
    })
}

fn df_json(view: &View<'_>, detail: bool) -> Value {
    let (map, pgs) = (view.state.osdmap(), &view.pgs);
    let space = pgs.space(map);
    let mut stats = space_json(space.total, space.available);
    for name in ["num_osds", "num_per_pool_osds", "num_per_pool_omap_osds"] {
        stats[name] = pgs.osds().len().into();
    }
    let mut by_class = Map::new();
    for c in classes(map, pgs) {
        by_class.insert(c.name, space_json(c.total, c.avail));
    }
    let pools: Vec<Value> = map.pools.keys().map(|id| pool_json(map, pgs, *id, detail)).collect();
    json!({ "stats": stats, "stats_by_class": by_class, "pools": pools })
}

fn used_ratio(u: &PoolUsage) -> f64 {
    let whole = u.used + u.raw_avail;
    if whole > 0 { u.used as f64 / whole as f64 } else { 0.0 }
}

fn pool_json(map: &OsdMap, pgs: &PgTable, id: i64, detail: bool) -> Value {
    let (u, sum, pool) = (pool_usage(map, pgs, id), pgs.pool(id), &map.pools[&id]);
    let mut s = Map::new();
    let mut put = |name: &str, value: Value| drop(s.insert(name.into(), value));
    put("stored", u.stored.into());
    if detail {
        put("stored_data", u.stored.saturating_sub(u.omap).into());
        put("stored_omap", u.omap.into());
    }
    put("objects", u.objects.into());
    put("kb_used", u.used.div_ceil(1024).into());
    put("bytes_used", u.used.into());
    if detail {
        put("data_bytes_used", u.used.saturating_sub(u.omap).into());
        put("omap_bytes_used", sum.store.omap_allocated.into());
    }
    put("percent_used", crate::text::number(used_ratio(&u)));
    put("max_avail", u.max_avail.into());
    if detail {
        put("quota_objects", pool.quota_max_objects.into());
        put("quota_bytes", pool.quota_max_bytes.into());
        put("dirty", 0.into());
        put("rd", sum.stats.num_rd.into());
        put("rd_bytes", (sum.stats.num_rd_kb * 1024).into());
        put("wr", sum.stats.num_wr.into());
        put("wr_bytes", (sum.stats.num_wr_kb * 1024).into());
        put("compress_bytes_used", 0.into());
        put("compress_under_bytes", 0.into());
        put("stored_raw", (u.stored * u64::from(pool.size)).into());
        put("avail_raw", u.raw_avail.into());
    }
    json!({ "name": map.pool_name(id), "id": id, "stats": s })
}

fn df_text(view: &View<'_>, detail: bool) -> String {
    let (map, pgs) = (view.state.osdmap(), &view.pgs);
    let mut raw = Table::new(&[
        ("CLASS", L, L),
        ("SIZE", R, R),
        ("AVAIL", R, R),
        ("USED", R, R),
        ("RAW USED", R, R),
        ("%RAW USED", R, R),
    ]);
    let mut row = |name: String, total: u64, avail: u64| {
        let used = total - avail.min(total);
        let share = format!("{:.2}", percent(used as f64, total as f64));
        let share = if used == 0 { "0".to_owned() } else { share };
        raw.row(vec![name, bytes(total), bytes(avail), bytes(used), bytes(used), share]);
    };
    for c in classes(map, pgs) {
        row(c.name, c.total, c.avail);
    }
    let space = pgs.space(map);
    row("TOTAL".into(), space.total, space.available);
    format!("--- RAW STORAGE ---\n{} \n--- POOLS ---\n{}", raw.render(), pools_text(map, pgs, detail))
}

fn pools_text(map: &OsdMap, pgs: &PgTable, detail: bool) -> String {
    let mut columns = vec![("POOL", L, L), ("ID", R, R), ("PGS", R, R), ("STORED", R, R)];
    if detail {
        columns.extend([("(DATA)", R, R), ("(OMAP)", R, R)]);
    }
    columns.extend([("OBJECTS", R, R), ("USED", R, R)]);
    if detail {
        columns.extend([("(DATA)", R, R), ("(OMAP)", R, R)]);
    }
    columns.extend([("%USED", R, R), ("MAX AVAIL", R, R)]);
    if detail {
        let more = ["QUOTA OBJECTS", "QUOTA BYTES", "DIRTY", "USED COMPR", "UNDER COMPR"];
        columns.extend(more.map(|name| (name, R, R)));
    }
    let mut table = Table::new(&columns);
    for (id, pool) in &map.pools {
        let u = pool_usage(map, pgs, *id);
        let mut cells =
            vec![map.pool_name(*id).to_owned(), id.to_string(), pool.pg_num.to_string(), bytes(u.stored)];
        if detail {
            cells.extend([bytes(u.stored.saturating_sub(u.omap)), bytes(u.omap)]);
        }
        cells.extend([count(u.objects), bytes(u.used)]);
        if detail {
            cells.extend([bytes(u.used.saturating_sub(u.omap)), bytes(u.omap)]);
        }
        let share = 100.0 * used_ratio(&u);
        cells.push(if share < 0.005 { "0".into() } else { format!("{share:.2}") });
        cells.push(bytes(u.max_avail));
        if detail {
            let limit = |n: u64, text: String| if n == 0 { "N/A".to_owned() } else { text };
            cells.push(limit(pool.quota_max_objects, count(pool.quota_max_objects)));
            cells.push(limit(pool.quota_max_bytes, bytes(pool.quota_max_bytes)));
            cells.extend(["N/A".to_owned(), bytes(0), bytes(0)]);
        }
        table.row(cells);
    }
    table.render()
}
