//! Options set centrally, and the store of small values.

use super::format::{answer, pretty, structured};
use super::table::{Align::L, Table};
use super::{Failure, Outcome, Reply, View, invalid, missing, output, said};
use crate::config::{lookup, resolve};
use crate::config_log;
use crate::edit::Edit;
use decl::{Args, Conf, options};
use msgs::errno;
use serde_json::{Map, Value, json};
use wire::{EntityName, EntityType};

/// Kinds of entities that options can be set for.
const KINDS: [&str; 6] = ["global", "mon", "osd", "mds", "client", "mgr"];

/// A `who`, checked: `global`, a kind, or a name, with masks after slashes.
fn section(who: &str) -> Result<String, Failure> {
    let mut parts = who.split('/');
    let name = parts.next().unwrap_or_default();
    let kind = name.split('.').next().unwrap_or_default();
    if !KINDS.contains(&kind) || name.ends_with('.') || kind == "global" && name != "global" {
        return invalid(format!(
            "unrecognized config target '{who}': write global, mon, osd, mds, client, or a name as osd.0"
        ));
    }
    for mask in parts {
        match mask.split_once(':') {
            Some((kind, value)) if !kind.is_empty() && !value.is_empty() => {}
            _ => return invalid(format!("`{mask}` is no mask: write class:CLASS or TYPE:NAME, as rack:r1")),
        }
    }
    Ok(who.to_owned())
}

/// A value with its type's errors told; names that we don't know pass where clients may.
fn check(name: &str, value: &str, force: bool) -> Result<(), Failure> {
    match options::find(name) {
        Some(option) => option.check(value).or_else(|e| invalid(format!("error parsing value: {e}"))),
        None if options::is_clients(name) || force => Ok(()),
        None => invalid(format!(
            "unrecognized config option '{name}' (see `ceph config ls`; --force stores it all the same)"
        )),
    }
}

pub fn set(edit: &mut Edit<'_>, args: &Args, _: &[u8]) -> Outcome {
    let who = section(args.str("who"))?;
    let name = options::normalize(args.str("name"));
    let value = args.text("value");
    check(&name, &value, args.flag("force"))?;
    config_log::change(edit, vec![(who, name, Some(value))]);
    said("")
}

pub fn rm(edit: &mut Edit<'_>, args: &Args, _: &[u8]) -> Outcome {
    let who = section(args.str("who"))?;
    config_log::change(edit, vec![(who, options::normalize(args.str("name")), None)]);
    said("")
}

pub fn reset(edit: &mut Edit<'_>, args: &Args, _: &[u8]) -> Outcome {
    let to = args.int("num").and_then(|n| u64::try_from(n).ok()).unwrap_or(0);
    let newest = config_log::newest(&edit.base.kv);
    if to > newest {
        return missing(format!("there is no change {to}; the newest is {newest} (see `ceph config log`)"));
    }
    let changes = config_log::undo(edit.base, to);
    config_log::change(edit, changes);
    said("")
}

pub fn log(view: &View<'_>, args: &Args) -> Outcome {
    let num = args.int("num").unwrap_or(10).max(0) as usize;
    let entries: Vec<_> = config_log::entries(&view.state.kv).into_iter().rev().take(num).collect();
    let json = || {
        let one = |e: &config_log::Entry| {
            let changes = e.changes.iter().map(|c| {
                let mut out = Map::new();
                out.insert("name".into(), format!("{}/{}", c.who, c.name).into());
                let values = [("previous_value", &c.old), ("new_value", &c.new)];
                let values = values.into_iter().filter_map(|(k, v)| Some((k.to_owned(), v.clone()?.into())));
                out.extend(values);
                Value::Object(out)
            });
            json!({
                "version": e.version, "timestamp": e.stamp.iso8601(), "name": e.cause,
                "changes": changes.collect::<Vec<_>>(),
            })
        };
        entries.iter().map(one).collect::<Vec<_>>().into()
    };
    let plain = || {
        let mut out = String::new();
        for e in &entries {
            let cause = if e.cause.is_empty() { String::new() } else { format!(" --- {}", e.cause) };
            out.push_str(&format!("--- {} --- {}{cause} ---\n", e.version, e.stamp.iso8601()));
            for c in &e.changes {
                for (sign, value) in [("-", &c.old), ("+", &c.new)] {
                    if let Some(value) = value {
                        out.push_str(&format!("{sign} {}/{} = {value}\n", c.who, c.name));
                    }
                }
            }
        }
        out
    };
    answer(args, json, plain)
}

/// Takes over what of a configuration file can be set centrally; what can't is printed, to stay in the file.
pub fn assimilate(edit: &mut Edit<'_>, _: &Args, input: &[u8]) -> Outcome {
    let text = std::str::from_utf8(input).or_else(|_| invalid("the file is not a text"))?;
    let conf = Conf::parse(text).or_else(|e| invalid(e.to_string()))?;
    let (mut changes, mut rest) = (Vec::new(), String::new());
    for (who, values) in conf.sections() {
        let mut stay = Vec::new();
        for (name, value) in values {
            let central = section(who).is_ok() && check(name, value, false).is_ok() && !is_local(name);
            match central {
                true => changes.push((who.clone(), name.clone(), Some(value.clone()))),
                false => stay.push(format!("\t{name} = {value}\n")),
            }
        }
        if !stay.is_empty() {
            rest.push_str(&format!("[{who}]\n{}\n", stay.concat()));
        }
    }
    config_log::change(edit, changes);
    output(rest)
}

/// Options that a process needs before it has found the monitors.
fn is_local(name: &str) -> bool {
    name.starts_with("auth_") || matches!(name, "fsid" | "mon_host" | "keyring" | "log_file" | "admin_socket")
}

pub fn minimal_conf(view: &View<'_>, _: &Args) -> Outcome {
    let map = &view.state.monmap;
    let hosts: Vec<String> =
        map.ranks.iter().filter_map(|n| map.mons.get(n)).map(|m| super::format::addrs(&m.addrs)).collect();
    output(format!(
        "# minimal ceph.conf for {0}\n[global]\n\tfsid = {0}\n\tmon_host = {1}\n",
        map.fsid,
        hosts.join(" ")
    ))
}

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
    let target = crate::publish::target_of(view.state, who);
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

/// Whether the map or this monitor knows such a daemon.
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

/// Options of a daemon by name: value and where it comes from. Of other daemons than this monitor only what is set
/// centrally is known: their files are shown by `ceph tell NAME config show`.
fn shown(view: &View<'_>, who: &str, defaults: bool) -> Vec<(String, String, &'static str)> {
    let target = crate::publish::target_of(view.state, who);
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
        let one = |(name, value, source): &(String, String, &str)| json!({ "name": name, "value": value, "source": source });
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

impl<S: crate::storage::Storage> crate::mon::Mon<S> {
    /// A command on the options of this process; `None` where it is none.
    pub(crate) fn settings_command(&mut self, command: &Value) -> Option<decl::settings::Outcome> {
        let own = format!("mon.{}", self.config.name);
        let central = crate::publish::config_for(self.log.state(), &own);
        let config = &self.config;
        let settings =
            self.soft.settings.get_or_insert_with(|| decl::Settings::new(own, config.options.clone()));
        settings.set_central(central);
        let answer = settings.command(command)?;
        self.config.options = settings.local();
        Some(answer)
    }
}

pub fn key_get(view: &View<'_>, args: &Args) -> Outcome {
    match view.state.kv.get(args.str("key")) {
        Some(value) => Ok(Reply { status: format!("obtained '{}'", args.str("key")), data: value.clone() }),
        None => missing(format!("error obtaining '{}': no such key", args.str("key"))),
    }
}

/// Longest stored value.
const MAX_VALUE: usize = 65_536;

/// Keys that the monitors keep notes of their own under.
fn check_key(key: &str) -> Result<(), Failure> {
    match [config_log::PREFIX, crate::health::MUTES, crate::health::RAISED, crate::disks::PREFIX]
        .iter()
        .any(|prefix| key.starts_with(prefix))
    {
        true => Err(Failure::new(errno::EPERM, format!("'{key}' is the monitors' own: they alone write it"))),
        false => Ok(()),
    }
}

pub fn key_set(edit: &mut Edit<'_>, args: &Args, input: &[u8]) -> Outcome {
    let key = args.str("key");
    check_key(key)?;
    let value = args.opt_str("val").map_or_else(|| input.to_vec(), |v| v.as_bytes().to_vec());
    if value.len() > MAX_VALUE {
        let text = format!("error: entry size limited to {MAX_VALUE} bytes, this one has {}", value.len());
        return Err(Failure::new(errno::EFBIG, text));
    }
    edit.push(crate::entry::Change::Kv(key.to_owned(), Some(value)));
    said(format!("set {key}"))
}

pub fn key_rm(edit: &mut Edit<'_>, args: &Args, _: &[u8]) -> Outcome {
    let key = args.str("key");
    check_key(key)?;
    if !edit.base.kv.contains_key(key) {
        return said(format!("no such key '{key}'"));
    }
    edit.push(crate::entry::Change::Kv(key.to_owned(), None));
    said("key deleted")
}

pub fn key_exists(view: &View<'_>, args: &Args) -> Outcome {
    let key = args.str("key");
    match view.state.kv.contains_key(key) {
        true => said(format!("key '{key}' exists")),
        false => missing(format!("key '{key}' doesn't exist")),
    }
}

pub fn key_ls(view: &View<'_>, args: &Args) -> Outcome {
    structured(args, &json!(view.state.kv.keys().collect::<Vec<_>>()))
}

pub fn key_dump(view: &View<'_>, args: &Args) -> Outcome {
    let prefix = args.str("key");
    let shown = |value: &Vec<u8>| match std::str::from_utf8(value) {
        Ok(text) if !text.contains('\0') => text.to_owned(),
        _ => format!("<<< binary blob of length {} >>>", value.len()),
    };
    let all = view.state.kv.iter().filter(|(k, _)| k.starts_with(prefix));
    let json: Value = Value::Object(all.map(|(k, v)| (k.clone(), shown(v).into())).collect());
    match args.format() {
        "json" => output(json.to_string()),
        _ => output(pretty(&json)),
    }
}
