//! `osd df` and `osd utilization`: how full and how evenly used the OSDs are.

use crate::commands::osd::tree::{Node, children, node_json, nodes, strays, type_name};
use crate::commands::reply::{Outcome, answer};
use crate::commands::table::Align::{L, R};
use crate::commands::table::Table;
use crate::crush_edit;
use crate::failure::{Failure, invalid};
use crate::text::{bytes, float, number};
use crate::view::View;
use decl::Args;
use maps::{OsdId, OsdMap, StoreStatfs};
use serde_json::{Value, json};

/// The space of an item: its own, or the sum of the devices below that are in.
fn space(view: &View<'_>, id: i32) -> StoreStatfs {
    let map = view.state.osdmap();
    let mut sum = StoreStatfs::default();
    for d in crush_edit::devices(&map.crush, id) {
        let Some(stat) = view.pgs.osd(OsdId(d)).filter(|_| map.is_in(OsdId(d))) else { continue };
        sum.total += stat.store.total;
        sum.available += stat.store.available;
        sum.allocated += stat.store.allocated;
        sum.omap_allocated += stat.store.omap_allocated;
        sum.internal_metadata += stat.store.internal_metadata;
    }
    sum
}

/// Percentage of the device in use.
fn utilization(s: &StoreStatfs) -> f64 {
    crate::text::percent((s.total - s.available.min(s.total)) as f64, s.total as f64)
}

struct Averages {
    average: f64,
    min: f64,
    max: f64,
    dev: f64,
}

fn averages(view: &View<'_>) -> Averages {
    let map = view.state.osdmap();
    let average = utilization(&view.pgs.space(map));
    let used: Vec<f64> =
        map.existing().filter(|(_, o)| o.is_in()).map(|(id, _)| utilization(&space(view, id.0))).collect();
    let vars: Vec<f64> = used.iter().map(|u| if average > 0.0 { u / average } else { 0.0 }).collect();
    let n = vars.len().max(1) as f64;
    let dev = (used.iter().map(|u| (u - average).powi(2)).sum::<f64>() / n).sqrt();
    let fold = |f: fn(f64, f64) -> f64| vars.iter().copied().reduce(f).unwrap_or(0.0);
    Averages { average, min: fold(f64::min), max: fold(f64::max), dev }
}

/// The devices that pass a filter: those of a class, below a CRUSH bucket, or under a pool's rule.
fn filtered(map: &OsdMap, filter: &str) -> Result<Vec<i32>, Failure> {
    if let Some(class) = map.crush.class_of(filter) {
        return Ok(map.crush.classes.iter().filter(|(_, c)| **c == class).map(|(id, _)| *id).collect());
    }
    if let Some(id) = map.crush.id_of(filter) {
        return Ok(crush_edit::devices(&map.crush, id));
    }
    let root =
        map.pool_by_name(filter).and_then(|(_, p)| crush_edit::rule_root(&map.crush, p.crush_rule.into()));
    match root {
        Some(root) => Ok(crush_edit::devices(&map.crush, root)),
        None => invalid(format!("'{filter}' not a pool, crush node or device class name")),
    }
}

/// The rows: all of the hierarchy or only its devices, filtered by class or name.
fn rows(map: &OsdMap, args: &Args, tree: bool) -> Result<Vec<Node>, Failure> {
    let below = match args.opt_str("filter").filter(|f| !f.is_empty()) {
        Some(filter) => Some(filtered(map, filter)?),
        None => None,
    };
    let fits = |id: i32| below.as_ref().is_none_or(|list| list.contains(&id));
    let keep = |n: &Node| match n.id >= 0 {
        true => fits(n.id),
        false => tree && crush_edit::devices(&map.crush, n.id).iter().any(|d| fits(*d)),
    };
    Ok(nodes(&map.crush).into_iter().filter(keep).collect())
}

pub fn df(view: &View<'_>, args: &Args) -> Outcome {
    let map = view.state.osdmap();
    let tree = args.str("output_method") == "tree";
    let all = rows(map, args, tree)?;
    answer(args, || df_json(view, &all, tree), || df_text(view, &all, tree))
}

fn kb(n: u64) -> u64 {
    n >> 10
}

fn space_fields(view: &View<'_>, n: &Node, average: f64, out: &mut serde_json::Map<String, Value>) {
    let s = space(view, n.id);
    let used = s.total - s.available.min(s.total);
    let share = utilization(&s);
    let mut put = |k: &str, v: Value| drop(out.insert(k.into(), v));
    put("kb", kb(s.total).into());
    put("kb_used", kb(used).into());
    put("kb_used_data", kb(s.allocated.max(0) as u64).into());
    put("kb_used_omap", kb(s.omap_allocated.max(0) as u64).into());
    put("kb_used_meta", kb(s.internal_metadata.max(0) as u64).into());
    put("kb_avail", kb(s.available).into());
    put("utilization", number(share));
    put("var", number(if average > 0.0 { share / average } else { 0.0 }));
    put("pgs", if n.id >= 0 { view.pgs.pgs_on(OsdId(n.id)) } else { 0 }.into());
}

fn df_json(view: &View<'_>, all: &[Node], tree: bool) -> Value {
    let map = view.state.osdmap();
    let avg = averages(view);
    let one = |n: &Node| {
        let mut out = node_json(&map.crush, n);
        let weight = map.osd(OsdId(n.id)).map_or(-1.0, |o| f64::from(o.weight) / 65536.0);
        out.insert("reweight".into(), number(weight));
        space_fields(view, n, avg.average, &mut out);
        match children(&map.crush, n.id) {
            Some(children) if tree => drop(out.insert("children".into(), children)),
            _ => drop(out.insert("status".into(), if map.is_up(OsdId(n.id)) { "up" } else { "down" }.into())),
        }
        Value::Object(out)
    };
    let s = view.pgs.space(map);
    json!({
        "nodes": all.iter().map(one).collect::<Vec<_>>(),
        "stray": strays(map)
            .iter()
            .map(|o| json!({ "id": o.0, "name": format!("osd.{o}") }))
            .collect::<Vec<_>>(),
        "summary": {
            "total_kb": kb(s.total),
            "total_kb_used": kb(s.total - s.available.min(s.total)),
            "total_kb_used_data": kb(s.allocated.max(0) as u64),
            "total_kb_used_omap": kb(s.omap_allocated.max(0) as u64),
            "total_kb_used_meta": kb(s.internal_metadata.max(0) as u64),
            "total_kb_avail": kb(s.available),
            "average_utilization": number(avg.average),
            "min_var": number(avg.min),
            "max_var": number(avg.max),
            "dev": number(avg.dev),
        },
    })
}

fn df_text(view: &View<'_>, all: &[Node], tree: bool) -> String {
    let map = view.state.osdmap();
    let avg = averages(view);
    let mut columns = vec![("ID", L, R), ("CLASS", L, R), ("WEIGHT", L, R), ("REWEIGHT", L, R)];
    let sizes = ["SIZE", "RAW USE", "DATA", "OMAP", "META", "AVAIL", "%USE", "VAR", "PGS", "STATUS"];
    columns.extend(sizes.map(|name| (name, L, R)));
    if tree {
        columns.push(("TYPE NAME", L, L));
    }
    let mut t = Table::new(&columns);
    let cells = |s: &StoreStatfs| {
        let used = s.total - s.available.min(s.total);
        let part = |n: i64| bytes(n.max(0) as u64);
        vec![
            bytes(s.total),
            bytes(used),
            part(s.allocated),
            part(s.omap_allocated),
            part(s.internal_metadata),
            bytes(s.available),
            format!("{:.2}", utilization(s)),
        ]
    };
    for n in all {
        let s = space(view, n.id);
        let osd = OsdId(n.id);
        let is_osd = n.id >= 0;
        let weight =
            map.osd(osd).map_or_else(|| "-".into(), |o| format!("{:.5}", f64::from(o.weight) / 65536.0));
        let class = crush_edit::class(&map.crush, n.id).to_owned();
        let mut row = vec![n.id.to_string(), class, format!("{:.5}", f64::from(n.weight) / 65536.0), weight];
        row.extend(cells(&s));
        row.push(format!("{:.2}", if avg.average > 0.0 { utilization(&s) / avg.average } else { 0.0 }));
        row.push(if is_osd { view.pgs.pgs_on(osd).to_string() } else { "-".into() });
        row.push(match (is_osd, map.is_up(osd)) {
            (false, _) => String::new(),
            (true, true) => "up".into(),
            (true, false) => "down".into(),
        });
        if tree {
            row.push(type_name(&map.crush, n));
        }
        t.row(row);
    }
    let mut total = vec![String::new(), String::new(), String::new(), "TOTAL".into()];
    total.extend(cells(&view.pgs.space(map)));
    total.extend(vec![String::new(); 3 + usize::from(tree)]);
    t.row(total);
    format!("{}MIN/MAX VAR: {:.2}/{:.2}  STDDEV: {}\n", t.render(), avg.min, avg.max, float(avg.dev))
}

/// An OSD and its number of PGs.
type PgCount = Option<(OsdId, usize)>;

fn utilization_numbers(view: &View<'_>) -> (f64, f64, f64, PgCount, PgCount) {
    let map = view.state.osdmap();
    let counts: Vec<(OsdId, usize)> =
        map.existing().filter(|(_, o)| o.is_in()).map(|(id, _)| (id, view.pgs.pgs_on(id))).collect();
    let n = counts.len().max(1) as f64;
    let total: usize = counts.iter().map(|(_, c)| c).sum();
    let avg = total as f64 / n;
    let dev = (counts.iter().map(|(_, c)| (*c as f64 - avg).powi(2)).sum::<f64>() / n).sqrt();
    let expected = (total as f64 * (1.0 / n) * (1.0 - 1.0 / n)).sqrt();
    let min = counts.iter().min_by_key(|(id, c)| (*c, *id)).copied();
    let max = counts.iter().max_by_key(|(id, c)| (*c, std::cmp::Reverse(*id))).copied();
    (avg, dev, expected, min, max)
}

pub fn utilization_cmd(view: &View<'_>, args: &Args) -> Outcome {
    let (avg, dev, expected, min, max) = utilization_numbers(view);
    let json = || {
        let mut out = json!({
            "avg_pgs": number(avg), "std_dev": number(dev), "expected_baseline_std_dev": number(expected),
        });
        for (name, who) in [("min", min), ("max", max)] {
            if let Some((osd, pgs)) = who {
                out[format!("{name}_osd")] = osd.0.into();
                out[format!("{name}_osd_pgs")] = pgs.into();
            }
        }
        out
    };
    let plain = || {
        let mut out =
            format!("avg {}\nstddev {} (expected baseline {})\n", float(avg), float(dev), float(expected));
        for (name, who) in [("min", min), ("max", max)] {
            if let Some((osd, pgs)) = who {
                let share = if avg > 0.0 { pgs as f64 / avg } else { 0.0 };
                out.push_str(&format!("{name} osd.{osd} with {pgs} pgs ({} * mean)\n", float(share)));
            }
        }
        out
    };
    answer(args, json, plain)
}
