//! Shows options: of one entity, of a running daemon, and their defaults.

use crate::commands::config::change::section;
use crate::commands::reply::{Outcome, answer, output};
use crate::commands::table::Align::L;
use crate::commands::table::Table;
use crate::failure::{invalid, missing};
use crate::options::{lookup, resolve};
use crate::view::View;
use decl::{Args, options};
use serde_json::{Map, Value, json};
use wire::{EntityName, EntityType};

fn level(name: &str) -> &'static str {
    options::find(name).map_or("advanced", |o| o.level)
}

fn runtime(name: &str) -> bool {
    options::find(name).is_none_or(|o| o.runtime)
}

/// A section without its masks, and the masks as they are shown.
fn split_masks(who: &str) -> (&str, &str) {
    who.split_once('/').unwrap_or((who, ""))
}

/// The masks of a section as Ceph names them.
fn mask_fields(mask: &str) -> Map<String, Value> {
    let mut out = Map::new();
    for (kind, value) in mask.split('/').filter_map(|m| m.split_once(':')) {
        if kind == "class" {
            out.insert("device_class".into(), value.into());
        } else {
            out.insert("location_type".into(), kind.into());
            out.insert("location_value".into(), value.into());
        }
    }
    out
}

pub fn dump(view: &View<'_>, args: &Args) -> Outcome {
    let all = &view.state.config;
    let json = || {
        let one = |((who, name), value): (&(String, String), &String)| {
            let (section, mask) = split_masks(who);
            let mut out = json!({
                "section": section, "name": name, "value": value, "level": level(name),
                "can_update_at_runtime": runtime(name), "mask": mask,
            });
            mask_fields(mask).into_iter().for_each(|(k, v)| out[k] = v);
            out
        };
        all.iter().map(one).collect::<Vec<_>>().into()
    };
    let plain = || {
        let mut t = config_table();
        for ((who, name), value) in all.iter() {
            let (section, mask) = split_masks(who);
            let depth = if section == "global" { 0 } else { 1 + section.matches('.').count() };
            row(&mut t, format!("{}{section}", "  ".repeat(depth)), mask, name, value);
        }
        t.render()
    };
    answer(args, json, plain)
}

fn config_table() -> Table {
    Table::new(&["WHO", "MASK", "LEVEL", "OPTION", "VALUE", "RO"].map(|name| (name, L, L)))
}

fn row(t: &mut Table, who: String, mask: &str, name: &str, value: &str) {
    let fixed = if runtime(name) { "" } else { "*" };
    t.row(vec![who, mask.into(), level(name).into(), name.into(), value.into(), fixed.into()]);
}

pub fn get(view: &View<'_>, args: &Args) -> Outcome {
    let who = args.str("who");
    if section(who).is_err() {
        return invalid(format!("unrecognized entity '{who}'"));
    }
    let target = crate::options::target_of(view.state, who);
    let all = resolve(&view.state.config, &target);
    if let Some(key) = args.opt_str("key") {
        let key = options::normalize(key);
        if options::find(&key).is_none() && !all.contains_key(key.as_str()) {
            return missing(format!("unrecognized key '{key}'"));
        }
        // The original prints the bare value in every format.
        return output(format!("{}\n", lookup(&Default::default(), &view.state.config, &target, &key)));
    }
    let json = || {
        let one = |(name, (value, origin)): (&&str, &(&str, &str))| {
            let (section, mask) = split_masks(origin);
            let body = json!({
                "value": value, "section": section, "mask": mask_fields(mask),
                "can_update_at_runtime": runtime(name),
            });
            ((*name).to_owned(), body)
        };
        Value::Object(all.iter().map(one).collect())
    };
    let plain = || {
        let mut t = config_table();
        for (name, (value, origin)) in &all {
            let (section, mask) = split_masks(origin);
            row(&mut t, section.to_owned(), mask, name, value);
        }
        t.render()
    };
    answer(args, json, plain)
}

pub fn ls(_: &View<'_>, args: &Args) -> Outcome {
    let names: Vec<&str> = options::ALL.iter().map(|o| o.name).collect();
    answer(args, || json!(names), || names.iter().map(|n| format!("{n}\n")).collect())
}

pub fn help(_: &View<'_>, args: &Args) -> Outcome {
    let name = options::normalize(args.str("key"));
    let Some(o) = options::find(&name) else { return missing(format!("there is no option '{name}'")) };
    let plain = || {
        let when =
            if o.runtime { "" } else { "\n  Read once, when the daemon starts or the cluster is made" };
        format!(
            "{} - {}\n  ({}, {})\n  Default: {}{when}\n",
            o.name,
            o.help,
            o.type_name(),
            o.level,
            o.default
        )
    };
    answer(args, || o.describe(), plain)
}

/// True if the map or this monitor knows a daemon of that name.
fn is_daemon(view: &View<'_>, name: &EntityName) -> bool {
    let fsmap = &view.state.fsmap;
    match name.ty {
        EntityType::MON => view.state.monmap.mons.contains_key(&name.id),
        EntityType::OSD => name.id.parse().is_ok_and(|id| view.state.osdmap().exists(maps::OsdId(id))),
        EntityType::MDS => {
            let ranks = fsmap.filesystems.values().flat_map(|f| f.mds_map.mds_info.values());
            ranks.chain(fsmap.standby_daemons.values()).any(|i| i.name == name.id)
        }
        _ => false,
    }
}

/// Options of a daemon by name: value and source. For daemons other than this monitor only central settings
/// are known; `ceph tell NAME config show` shows their files.
fn shown(view: &View<'_>, who: &str, defaults: bool) -> Vec<(String, String, &'static str)> {
    let target = crate::options::target_of(view.state, who);
    let set = resolve(&view.state.config, &target);
    let own = format!("mon.{}", view.config.name) == who;
    let mut out = Vec::new();
    let mut names: Vec<&str> = set.keys().copied().collect();
    if own {
        names.extend(view.config.options.keys().map(String::as_str));
    }
    if defaults {
        names.extend(options::ALL.iter().map(|o| o.name));
    }
    names.sort_unstable();
    names.dedup();
    for name in names {
        let file = if own { view.config.options.get(name) } else { None };
        let (value, source) = match (file, set.get(name)) {
            (Some(value), _) => (value.as_str(), "file"),
            (None, Some((value, _))) => (*value, "mon"),
            (None, None) => (options::find(name).map_or("", |o| o.default), "default"),
        };
        out.push((name.to_owned(), value.to_owned(), source));
    }
    out
}

fn show_with(view: &View<'_>, args: &Args, defaults: bool) -> Outcome {
    let who = args.str("who");
    if EntityName::parse(who).filter(|name| is_daemon(view, name)).is_none() {
        return missing(format!("no config state for daemon {who}"));
    }
    if let Some(key) = args.opt_str("key") {
        let key = options::normalize(key);
        let all = shown(view, who, true);
        return match all.into_iter().find(|(name, _, _)| *name == key) {
            Some((_, value, _)) => output(format!("{value}\n")),
            None => missing(format!("there is no option '{key}'")),
        };
    }
    let all = shown(view, who, defaults);
    let json = || {
        let one = |line: &(String, String, &str)| {
            let (name, value, source) = line;
            json!({ "name": name, "value": value, "source": source })
        };
        all.iter().map(one).collect::<Vec<_>>().into()
    };
    let plain = || {
        let mut t = Table::new(&["NAME", "VALUE", "SOURCE"].map(|name| (name, L, L)));
        all.iter().for_each(|(n, v, s)| t.row(vec![n.clone(), v.clone(), (*s).to_owned()]));
        t.render()
    };
    answer(args, json, plain)
}

pub fn show_daemon(view: &View<'_>, args: &Args) -> Outcome {
    show_with(view, args, false)
}

pub fn show_defaults(view: &View<'_>, args: &Args) -> Outcome {
    show_with(view, args, true)
}
