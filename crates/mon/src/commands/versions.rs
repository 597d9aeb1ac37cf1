//! Versions and features of daemons and clients.

use crate::commands::reply::{Outcome, answer, structured};
use crate::domain::builds::mds_names;
use crate::domain::features;
use crate::domain::managers::Managers;
use crate::edit::Edit;
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
    let up: Vec<String> = match kind {
        "mon" => view.state.monmap.mons.keys().map(|name| format!("mon.{name}")).collect(),
        "osd" => view
            .state
            .osdmap()
            .existing()
            .filter(|(_, o)| o.is_up())
            .map(|(id, _)| format!("osd.{id}"))
            .collect(),
        "mgr" => Managers::of(&view.state.kv).all().map(|m| format!("mgr.{}", m.name)).collect(),
        _ => mds_names(view.state).into_iter().map(|n| format!("mds.{n}")).collect(),
    };
    for name in up {
        let found = wire::EntityName::parse(&name).and_then(|n| view.state.metadata.get(&n));
        let version = found.and_then(|m| m.get("ceph_version")).cloned().unwrap_or_else(|| "unknown".into());
        *out.entry(version).or_default() += 1;
    }
    out
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

/// Raises the feature level, or says what it would do.
pub fn finalize(edit: &mut Edit<'_>, args: &Args, _: &[u8]) -> Outcome {
    let found = features::finalize(edit)?;
    let (raises, is_dry) = (found.is_ready(), args.flag("dry_run"));
    if is_dry {
        edit.discard();
    }
    let (was, possible, raised) = (found.in_use, found.newest, raises && !is_dry);
    let json = || {
        let in_use = if raised { possible } else { was };
        json!({ "feature_level": in_use, "was": was, "possible": possible, "raised": raised })
    };
    let plain = || match (raises, is_dry) {
        (false, _) => format!("feature level {was} is in use, the highest that the daemons can do\n"),
        (true, true) => format!("feature level {possible} would be in use, {was} is now\n"),
        (true, false) => format!(
            "feature level {possible} is in use, {was} was: builds that can do less are refused from now on\n"
        ),
    };
    answer(args, json, plain)
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
