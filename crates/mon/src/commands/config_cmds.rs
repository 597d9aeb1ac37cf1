//! Options set centrally, and the store of small values.

use super::format::{answer, pretty, structured};
use super::table::{Align::L, Table};
use super::{Failure, Outcome, View, invalid, missing, output, said};
use crate::config::{lookup, sections};
use crate::edit::Edit;
use crate::entry::Change;
use decl::{Args, options};
use msgs::errno;
use serde_json::{Map, Value, json};

/// The section of a `who`: `global`, a kind, or a name.
fn section(who: &str) -> Result<String, Failure> {
    let kind = who.split('.').next().unwrap_or_default();
    let known = ["global", "mon", "osd", "mds", "client", "mgr"].contains(&kind);
    if !known || who.contains('/') || who == "global." {
        return invalid(format!(
            "`{who}` is no section: write global, mon, osd, mds, client, or a name as osd.0"
        ));
    }
    Ok(who.to_owned())
}

pub fn set(edit: &mut Edit<'_>, args: &Args, _: &[u8]) -> Outcome {
    let who = section(args.str("who"))?;
    let name = options::normalize(args.str("name"));
    let value = args.str("value");
    match options::find(&name) {
        Some(option) => option.check(value).or_else(invalid)?,
        None if options::is_clients(&name) || args.flag("force") => {}
        None => {
            return invalid(format!(
                "unrecognized config option '{name}' (see `ceph config ls`; --force stores it all the same)"
            ));
        }
    }
    edit.push(Change::Config(who, name, Some(value.to_owned())));
    said("")
}

pub fn rm(edit: &mut Edit<'_>, args: &Args, _: &[u8]) -> Outcome {
    let who = section(args.str("who"))?;
    let name = options::normalize(args.str("name"));
    if edit.base.config.contains_key(&(who.clone(), name.clone())) {
        edit.push(Change::Config(who, name, None));
    }
    said("")
}

fn level(name: &str) -> &'static str {
    options::find(name).map_or("unknown", |o| o.level)
}

pub fn dump(view: &View<'_>, args: &Args) -> Outcome {
    let all = &view.state.config;
    let json = || {
        let one = |((who, name), value): (&(String, String), &String)| {
            json!({
                "section": who, "name": name, "value": value, "level": level(name),
                "can_update_at_runtime": true, "mask": "",
            })
        };
        all.iter().map(one).collect::<Vec<_>>().into()
    };
    let plain = || {
        let mut t = config_table();
        for ((who, name), value) in all.iter() {
            let depth = if who == "global" { 0 } else { 1 + who.matches('.').count() };
            let who = format!("{}{who}", "  ".repeat(depth));
            t.row(vec![who, String::new(), level(name).into(), name.clone(), value.clone(), String::new()]);
        }
        t.render()
    };
    answer(args, json, plain)
}

fn config_table() -> Table {
    Table::new(&["WHO", "MASK", "LEVEL", "OPTION", "VALUE", "RO"].map(|name| (name, L, L)))
}

pub fn get(view: &View<'_>, args: &Args) -> Outcome {
    let who = section(args.str("who"))?;
    let names = sections(&who);
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    if let Some(key) = args.opt_str("key") {
        let key = options::normalize(key);
        let is_set = view.state.config.keys().any(|(w, n)| names.contains(&&**w) && *n == key);
        if options::find(&key).is_none() && !is_set {
            return missing(format!("unrecognized key '{key}'"));
        }
        let value = lookup(&Default::default(), &view.state.config, &names, &key);
        return answer(args, || json!(value), || format!("{value}\n"));
    }
    let all = crate::publish::config_for(view.state, &who);
    let origin = |name: &String| {
        let set = |s: &&&str| view.state.config.contains_key(&((**s).to_owned(), name.clone()));
        names.iter().rev().find(set).copied().unwrap_or("global").to_owned()
    };
    let json = || {
        let one = |(name, value): (&String, &String)| {
            let body = json!({
                "value": value, "section": origin(name), "mask": {}, "can_update_at_runtime": true,
            });
            (name.clone(), body)
        };
        Value::Object(all.iter().map(one).collect())
    };
    let plain = || {
        let mut t = config_table();
        for (name, value) in &all {
            t.row(vec![
                origin(name),
                String::new(),
                level(name).into(),
                name.clone(),
                value.clone(),
                String::new(),
            ]);
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
    let ty = format!("{:?}", o.ty).to_lowercase();
    let json =
        || json!({ "name": o.name, "type": ty, "level": o.level, "desc": o.help, "default": o.default });
    let plain = || format!("{} - {}\n  ({ty}, {})\n  Default: {}\n", o.name, o.help, o.level, o.default);
    answer(args, json, plain)
}

/// All options as this monitor has them; for its admin socket.
pub fn show(view: &View<'_>) -> Value {
    let own = format!("mon.{}", view.config.name);
    let value = |name: &str| lookup(&view.config.options, &view.state.config, &["global", "mon", &own], name);
    let all = options::ALL.iter().map(|o| (o.name.to_owned(), value(o.name).into()));
    Value::Object(all.collect::<Map<_, _>>())
}

pub fn key_get(view: &View<'_>, args: &Args) -> Outcome {
    match view.state.kv.get(args.str("key")) {
        Some(value) => {
            Ok(super::Reply { status: format!("obtained '{}'", args.str("key")), data: value.clone() })
        }
        None => missing(format!("error obtaining '{}': no such key", args.str("key"))),
    }
}

/// Longest stored value.
const MAX_VALUE: usize = 65_536;

pub fn key_set(edit: &mut Edit<'_>, args: &Args, input: &[u8]) -> Outcome {
    let key = args.str("key");
    let value = args.opt_str("val").map_or_else(|| input.to_vec(), |v| v.as_bytes().to_vec());
    if value.len() > MAX_VALUE {
        let text = format!("error: entry size limited to {MAX_VALUE} bytes, this one has {}", value.len());
        return Err(Failure::new(errno::EFBIG, text));
    }
    edit.push(Change::Kv(key.to_owned(), Some(value)));
    said(format!("set {key}"))
}

pub fn key_rm(edit: &mut Edit<'_>, args: &Args, _: &[u8]) -> Outcome {
    let key = args.str("key");
    if !edit.base.kv.contains_key(key) {
        return said(format!("no such key '{key}'"));
    }
    edit.push(Change::Kv(key.to_owned(), None));
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
