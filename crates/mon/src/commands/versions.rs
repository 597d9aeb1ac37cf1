//! Versions and features of daemons and clients.

use crate::commands::reply::{Outcome, answer, structured};
use crate::domain::managers::Managers;
use crate::text::version;
use crate::view::View;
use decl::Args;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use wire::EntityType;

pub fn version_cmd(_: &View<'_>, args: &Args) -> Outcome {
    answer(args, || json!({ "version": version() }), || format!("{}\n", version()))
}

/// Versions of a kind of daemon, with how many have each.
fn count_versions(view: &View<'_>, kind: &str) -> BTreeMap<String, u64> {
    let mut out = BTreeMap::new();
    if kind == "mon" {
        out.insert(version(), view.state.monmap.mons.len() as u64);
        return out;
    }
    let up: Vec<String> = match kind {
        "osd" => view
            .state
            .osdmap()
            .existing()
            .filter(|(_, o)| o.is_up())
            .map(|(id, _)| format!("osd.{id}"))
            .collect(),
        "mgr" => Managers::of(&view.state.kv).all().map(|m| format!("mgr.{}", m.name)).collect(),
        _ => mds_names(view).into_iter().map(|n| format!("mds.{n}")).collect(),
    };
    for name in up {
        let found = wire::EntityName::parse(&name).and_then(|n| view.state.metadata.get(&n));
        let version = found.and_then(|m| m.get("ceph_version")).cloned().unwrap_or_else(|| "unknown".into());
        *out.entry(version).or_default() += 1;
    }
    out
}

fn mds_names(view: &View<'_>) -> Vec<String> {
    let fsmap = &view.state.fsmap;
    let ranks = fsmap.filesystems.values().flat_map(|f| f.mds_map.mds_info.values());
    ranks.chain(fsmap.standby_daemons.values()).map(|i| i.name.clone()).collect()
}

pub fn versions_of(view: &View<'_>, args: &Args, kind: &str) -> Outcome {
    structured(args, &json!(count_versions(view, kind)))
}

pub fn versions(view: &View<'_>, args: &Args) -> Outcome {
    let mut out = Map::new();
    let mut overall = BTreeMap::<String, u64>::new();
    for kind in ["mon", "mgr", "osd", "mds"] {
        let counts = count_versions(view, kind);
        counts.iter().for_each(|(v, n)| *overall.entry(v.clone()).or_default() += n);
        out.insert(kind.into(), json!(counts));
    }
    out.insert("overall".into(), json!(overall));
    structured(args, &Value::Object(out))
}

pub fn features(view: &View<'_>, args: &Args) -> Outcome {
    structured(args, &features_json(view))
}

/// Feature bits of daemons and clients that are connected, counted.
pub fn features_json(view: &View<'_>) -> Value {
    let mut counts: BTreeMap<&str, BTreeMap<u64, u64>> = BTreeMap::new();
    for session in view.sessions.iter() {
        let kind = session.peer.role();
        if kind != EntityType::MON {
            *counts.entry(kind.name()).or_default().entry(session.peer.features).or_default() += 1;
        }
    }
    let group = |features: &u64, num: &u64| {
        let features = format!("{features:#x}");
        json!({ "features": features, "release": "luminous", "num": num })
    };
    let mut out = Map::new();
    let mons = view.state.monmap.mons.len() as u64;
    out.insert("mon".into(), json!([group(&wire::FEATURES, &mons)]));
    for (kind, by_bits) in counts {
        out.insert(kind.into(), by_bits.iter().map(|(f, n)| group(f, n)).collect());
    }
    Value::Object(out)
}
