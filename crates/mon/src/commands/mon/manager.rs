//! Commands about managers, and about what the monitors do in the place of Ceph's manager modules.

use crate::commands::reply::{Outcome, count_values, said, structured};
use crate::domain::managers::{self, Managers, entity};
use crate::domain::modules::{self, OPTIONAL};
use crate::edit::Edit;
use crate::entry::Change;
use crate::failure::{invalid, missing};
use crate::text::{addrs, addrvec, legacy_addr};
use crate::view::View;
use decl::Args;
use maps::Gid;
use serde_json::{Value, json};

/// The modules of Ceph whose commands managers, or monitors in their place, carry out.
const MODULES: [&str; 6] = ["balancer", "crash", "devicehealth", "pg_autoscaler", "snap_schedule", "volumes"];

pub fn mgr_stat(view: &View<'_>, args: &Args) -> Outcome {
    let map = Managers::of(&view.state.kv).map();
    let json = json!({
        "epoch": map.epoch.0, "available": map.available, "active_name": map.active_name,
        "num_standby": map.standbys.len(),
    });
    structured(args, &json)
}

pub fn mgr_dump(view: &View<'_>, args: &Args) -> Outcome {
    let map = Managers::of(&view.state.kv).map();
    let standby = |(gid, m): (&Gid, &maps::MgrStandby)| {
        let features = m.features;
        json!({ "gid": gid.0, "name": m.name, "mgr_features": features, "available_modules": [] })
    };
    let json = json!({
        "epoch": map.epoch.0, "active_gid": map.active_gid.0, "active_name": map.active_name,
        "active_addrs": addrvec(&map.active_addrs), "active_addr": legacy_addr(&map.active_addrs),
        "active_change": map.active_change.iso8601(), "active_mgr_features": map.active_features,
        "available": map.available, "standbys": map.standbys.iter().map(standby).collect::<Vec<_>>(),
        "modules": modules::enabled(&view.state.kv), "available_modules": [],
        "services": modules::services(view), "always_on_modules": {},
        "last_failure_osd_epoch": 0,
        "active_clients": [],
    });
    structured(args, &json)
}

pub fn mgr_fail(edit: &mut Edit<'_>, args: &Args, _: &[u8]) -> Outcome {
    let all = Managers::of(&edit.base.kv);
    let found = match args.opt_str("who") {
        None => all.active(),
        Some(who) => all.all().find(|m| m.name == who || m.gid.0.to_string() == who),
    };
    match (found.map(|m| m.gid), args.opt_str("who")) {
        (Some(gid), _) => {
            managers::remove(edit, &[gid]);
            said("")
        }
        (None, Some(who)) => said(format!("Daemon not found '{who}', already failed?")),
        (None, None) => said("Currently no active mgr"),
    }
}

/// The metadata of one manager, with its name and addresses.
fn metadata(view: &View<'_>, m: &managers::Manager) -> Value {
    let known = view.state.metadata.get(&entity(&m.name));
    let mut out = json!({ "name": m.name, "addr": legacy_addr(&m.addrs), "addrs": addrs(&m.addrs) });
    for (key, value) in known.into_iter().flatten() {
        out[key] = value.clone().into();
    }
    out
}

pub fn mgr_metadata(view: &View<'_>, args: &Args) -> Outcome {
    let all = Managers::of(&view.state.kv);
    match args.opt_str("who") {
        Some(who) => match all.all().find(|m| m.name == who) {
            Some(found) => structured(args, &metadata(view, found)),
            None => missing(format!("there is no mgr.{who}")),
        },
        None => structured(args, &all.all().map(|m| metadata(view, m)).collect()),
    }
}

pub fn mgr_count_metadata(view: &View<'_>, args: &Args) -> Outcome {
    let value =
        |m: &managers::Manager| view.state.metadata.get(&entity(&m.name))?.get(args.str("property")).cloned();
    count_values(args, Managers::of(&view.state.kv).all().map(value))
}

pub fn mgr_module_ls(view: &View<'_>, args: &Args) -> Outcome {
    let enabled = modules::enabled(&view.state.kv);
    let disabled = OPTIONAL.iter().filter(|name| !enabled.contains(name));
    let disabled: Vec<Value> =
        disabled.map(|name| json!({ "name": name, "can_run": true, "error_string": "" })).collect();
    structured(
        args,
        &json!({ "always_on_modules": MODULES, "enabled_modules": enabled, "disabled_modules": disabled }),
    )
}

fn store_enabled(edit: &mut Edit<'_>, enabled: &[&str]) {
    let json = json!(enabled).to_string().into_bytes();
    edit.push(Change::Kv(modules::KEY.to_owned(), Some(json)));
}

pub fn mgr_module_enable(edit: &mut Edit<'_>, args: &Args, _: &[u8]) -> Outcome {
    let (module, mut enabled) = (args.str("module"), modules::enabled(&edit.base.kv));
    match OPTIONAL.iter().find(|name| **name == module) {
        None if MODULES.contains(&module) => {
            said(format!("module '{module}' is already enabled (always-on)"))
        }
        None => missing(format!("there is no module '{module}'")),
        Some(name) if enabled.contains(name) => said(format!("module '{module}' is already enabled")),
        Some(name) => {
            enabled.push(name);
            store_enabled(edit, &enabled);
            said("")
        }
    }
}

pub fn mgr_module_disable(edit: &mut Edit<'_>, args: &Args, _: &[u8]) -> Outcome {
    let (module, mut enabled) = (args.str("module"), modules::enabled(&edit.base.kv));
    if MODULES.contains(&module) {
        return invalid(format!("module '{module}' cannot be disabled (always-on)"));
    }
    if !OPTIONAL.contains(&module) {
        return invalid(format!("there is no module '{module}'"));
    }
    if !enabled.contains(&module) {
        return said(format!("module '{module}' is already disabled"));
    }
    enabled.retain(|name| *name != module);
    store_enabled(edit, &enabled);
    said("")
}

pub fn mgr_services(view: &View<'_>, args: &Args) -> Outcome {
    structured(args, &modules::services(view))
}
