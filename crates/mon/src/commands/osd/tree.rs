//! The CRUSH hierarchy as a tree, with or without the state of OSDs.

use crate::commands::osd::select::at_epoch;
use crate::commands::reply::{Outcome, answer};
use crate::commands::table::Align::{L, R};
use crate::commands::table::Table;
use crate::crush_edit;
use crate::failure::{invalid, missing};
use crate::text::number;
use crate::view::View;
use crush::CrushMap;
use decl::Args;
use maps::{OsdId, OsdMap, osd_state};
use serde_json::{Map, Value, json};

/// An item of the tree in the order in which it is printed.
pub struct Node {
    /// Negative for buckets.
    pub id: i32,
    /// 0 for roots.
    pub depth: usize,
    /// CRUSH weight, 16.16.
    pub weight: u32,
}

/// All items from the roots down; buckets first come before those that sort after them by id, devices
/// ascending.
pub fn nodes(map: &CrushMap) -> Vec<Node> {
    let mut out = Vec::new();
    let mut roots = map.roots();
    roots.sort_unstable_by_key(|id| -id);
    for root in roots {
        descend(map, root, 0, map.bucket(root).map_or(0, |b| b.weight), &mut out);
    }
    out
}

fn descend(map: &CrushMap, id: i32, depth: usize, weight: u32, out: &mut Vec<Node>) {
    out.push(Node { id, depth, weight });
    let Some(bucket) = map.bucket(id) else { return };
    let mut items: Vec<(i32, u32)> =
        bucket.items.iter().enumerate().map(|(i, item)| (*item, bucket.item_weight(i))).collect();
    let key = |(item, _): &(i32, u32)| (*item >= 0, map.names.get(item).cloned().unwrap_or_default(), *item);
    // Buckets by name, devices by number.
    items.sort_by(|a, b| match (a.0 >= 0, b.0 >= 0) {
        (true, true) => a.0.cmp(&b.0),
        _ => key(a).cmp(&key(b)),
    });
    for (item, weight) in items {
        descend(map, item, depth + 1, weight, out);
    }
}

/// OSDs that exist and are nowhere in the hierarchy.
pub fn strays(map: &OsdMap) -> Vec<OsdId> {
    map.existing().map(|(id, _)| id).filter(|id| map.crush.parent_of(id.0).is_none()).collect()
}

/// The fields of an item that all trees print.
pub fn node_json(crush: &CrushMap, node: &Node) -> Map<String, Value> {
    let mut out = Map::new();
    out.insert("id".into(), node.id.into());
    let class = crush_edit::class(crush, node.id);
    if !class.is_empty() {
        out.insert("device_class".into(), class.into());
    }
    let ty = crush.bucket(node.id).map_or(0, |b| i32::from(b.ty));
    let text = |map: &std::collections::BTreeMap<i32, String>, id| map.get(&id).cloned().unwrap_or_default();
    out.insert("name".into(), text(&crush.names, node.id).into());
    out.insert("type".into(), text(&crush.types, ty).into());
    out.insert("type_id".into(), ty.into());
    if node.id >= 0 {
        out.insert("crush_weight".into(), number(f64::from(node.weight) / 65536.0));
        out.insert("depth".into(), node.depth.into());
    }
    if node.depth > 0 {
        out.insert("pool_weights".into(), json!({}));
    }
    out
}

/// The children of a bucket, as Ceph lists them: from the last to the first.
pub fn children(crush: &CrushMap, id: i32) -> Option<Value> {
    let bucket = crush.bucket(id)?;
    Some(bucket.items.iter().rev().copied().collect::<Vec<i32>>().into())
}

fn weight_text(weight: u32) -> String {
    format!("{:.5}", f64::from(weight) / 65536.0)
}

/// The indented `type name` of an item.
pub fn type_name(crush: &CrushMap, node: &Node) -> String {
    let name = crush.names.get(&node.id).cloned().unwrap_or_else(|| format!("osd.{}", node.id));
    let ty = crush.bucket(node.id).and_then(|b| crush.types.get(&i32::from(b.ty)));
    let indent = "    ".repeat(node.depth);
    match ty {
        Some(ty) => format!("{indent}{ty} {name}"),
        None => format!("{indent}{name}"),
    }
}

pub fn crush_tree(view: &View<'_>, args: &Args) -> Outcome {
    let map = view.state.osdmap();
    let mut all = Vec::new();
    if args.opt_str("shadow").is_some() {
        let mut roots: Vec<i32> = map.crush.roots();
        let shadows = map.crush.class_buckets.iter().filter(|(id, _)| roots.contains(id));
        let shadows: Vec<i32> = shadows.flat_map(|(_, by_class)| by_class.values()).copied().collect();
        roots.extend(shadows);
        roots.sort_unstable();
        for root in roots {
            descend(&map.crush, root, 0, map.crush.bucket(root).map_or(0, |b| b.weight), &mut all);
        }
    } else {
        all = nodes(&map.crush);
    }
    let json = || {
        let one = |n: &Node| {
            let mut out = node_json(&map.crush, n);
            if let Some(children) = children(&map.crush, n.id) {
                out.insert("children".into(), children);
            }
            Value::Object(out)
        };
        json!({ "nodes": all.iter().map(one).collect::<Vec<_>>(), "stray": [] })
    };
    let plain = || {
        let mut t = Table::new(&[("ID", L, R), ("CLASS", L, R), ("WEIGHT", L, R), ("TYPE NAME", L, L)]);
        for n in &all {
            let class = crush_edit::class(&map.crush, n.id).to_owned();
            t.row(vec![n.id.to_string(), class, weight_text(n.weight), type_name(&map.crush, n)]);
        }
        t.render()
    };
    answer(args, json, plain)
}

/// True if an OSD is in one of the requested states.
fn wanted(map: &OsdMap, osd: OsdId, states: &[String]) -> bool {
    let is = |state: &String| match state.as_str() {
        "up" => map.is_up(osd),
        "down" => map.is_down(osd),
        "in" => map.is_in(osd),
        "out" => !map.is_in(osd),
        "destroyed" => map.osd(osd).is_some_and(|o| o.state & osd_state::DESTROYED != 0),
        _ => true,
    };
    // `up` and `down` exclude each other, as `in` and `out` do: of each pair one must hold, if one is given.
    states.is_empty() || {
        let (up_down, other): (Vec<&String>, Vec<&String>) =
            states.iter().partition(|s| matches!(s.as_str(), "up" | "down" | "destroyed"));
        (up_down.is_empty() || up_down.into_iter().any(is)) && (other.is_empty() || other.into_iter().any(is))
    }
}

pub fn tree(view: &View<'_>, args: &Args) -> Outcome {
    let map = at_epoch(view, args)?;
    let stray: Vec<OsdId> =
        strays(&map).into_iter().filter(|o| wanted(&map, *o, &args.list("states"))).collect();
    let all = filtered(&map, args, nodes(&map.crush));
    answer(args, || tree_json(&map, &all, &stray), || tree_text(&map, &all, &stray))
}

/// The tree below one bucket.
pub fn tree_from(view: &View<'_>, args: &Args) -> Outcome {
    let map = at_epoch(view, args)?;
    let name = args.str("bucket");
    let Some(root) = map.crush.id_of(name) else { return missing(format!("bucket '{name}' does not exist")) };
    if root >= 0 {
        return invalid(format!("'{name}' is not a bucket"));
    }
    let mut below = Vec::new();
    descend(&map.crush, root, 0, map.crush.weight_of(root), &mut below);
    let below = filtered(&map, args, below);
    // Strays are below no bucket.
    let json = || {
        let mut out = tree_json(&map, &below, &[]);
        drop(out.as_object_mut().and_then(|o| o.shift_remove("stray")));
        out
    };
    answer(args, json, || tree_text(&map, &below, &[]))
}

/// The items with an OSD in one of the requested states.
fn filtered(map: &OsdMap, args: &Args, all: Vec<Node>) -> Vec<Node> {
    let states = args.list("states");
    let keep = |id: i32| crush_edit::devices(&map.crush, id).iter().any(|d| wanted(map, OsdId(*d), &states));
    all.into_iter().filter(|n| states.is_empty() || keep(n.id)).collect()
}

fn status(map: &OsdMap, osd: OsdId) -> &'static str {
    match map.osd(osd) {
        Some(o) if o.is_up() => "up",
        Some(o) if o.state & osd_state::DESTROYED != 0 => "destroyed",
        Some(_) => "down",
        None => "DNE",
    }
}

fn reweight(map: &OsdMap, osd: OsdId) -> f64 {
    map.osd(osd).map_or(0.0, |o| f64::from(o.weight) / 65536.0)
}

fn affinity(map: &OsdMap, osd: OsdId) -> f64 {
    f64::from(map.affinity(osd)) / 65536.0
}

fn osd_fields(map: &OsdMap, osd: OsdId, out: &mut Map<String, Value>) {
    out.insert("exists".into(), i32::from(map.exists(osd)).into());
    out.insert("status".into(), status(map, osd).into());
    out.insert("reweight".into(), number(reweight(map, osd)));
    out.insert("primary_affinity".into(), number(affinity(map, osd)));
}

fn tree_json(map: &OsdMap, all: &[Node], stray: &[OsdId]) -> Value {
    let one = |n: &Node| {
        let mut out = node_json(&map.crush, n);
        match children(&map.crush, n.id) {
            Some(children) => drop(out.insert("children".into(), children)),
            None => osd_fields(map, OsdId(n.id), &mut out),
        }
        Value::Object(out)
    };
    let lost = |osd: &OsdId| {
        let mut out = node_json(&map.crush, &Node { id: osd.0, depth: 0, weight: 0 });
        out.insert("name".into(), format!("osd.{osd}").into());
        osd_fields(map, *osd, &mut out);
        Value::Object(out)
    };
    json!({
        "nodes": all.iter().map(one).collect::<Vec<_>>(),
        "stray": stray.iter().map(lost).collect::<Vec<_>>(),
    })
}

fn tree_text(map: &OsdMap, all: &[Node], stray: &[OsdId]) -> String {
    let mut t = Table::new(&[
        ("ID", L, R),
        ("CLASS", L, R),
        ("WEIGHT", L, R),
        ("TYPE NAME", L, L),
        ("STATUS", L, R),
        ("REWEIGHT", L, R),
        ("PRI-AFF", L, R),
    ]);
    let mut row = |n: &Node, name: String| {
        let osd = OsdId(n.id);
        let state = if n.id >= 0 {
            [
                status(map, osd).to_owned(),
                format!("{:.5}", reweight(map, osd)),
                format!("{:.5}", affinity(map, osd)),
            ]
        } else {
            Default::default()
        };
        let class = crush_edit::class(&map.crush, n.id).to_owned();
        let head = [n.id.to_string(), class, weight_text(n.weight), name];
        t.row(head.into_iter().chain(state).collect());
    };
    for n in all {
        row(n, type_name(&map.crush, n));
    }
    for osd in stray {
        row(&Node { id: osd.0, depth: 0, weight: 0 }, format!("osd.{osd}"));
    }
    t.render()
}
