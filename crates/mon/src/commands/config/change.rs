//! Sets and removes options, and shows what was changed.

use crate::commands::reply::{Outcome, answer, output, said};
use crate::domain::config_log;
use crate::edit::Edit;
use crate::failure::{Failure, invalid, missing};
use crate::view::View;
use decl::{Args, Conf, options};
use serde_json::{Map, Value, json};

/// Kinds of entities that options can be set for.
const KINDS: [&str; 6] = ["global", "mon", "osd", "mds", "client", "mgr"];

/// Validates a `who`: `global`, a kind, or a name, with masks after slashes.
pub(crate) fn section(who: &str) -> Result<String, Failure> {
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

/// Validates a value against its type. Unknown names are accepted if they may belong to clients.
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

/// Imports the options of a configuration file that can be set centrally; prints the others, which stay in
/// the file.
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
        map.ranks.iter().filter_map(|n| map.mons.get(n)).map(|m| crate::text::addrs(&m.addrs)).collect();
    output(format!(
        "# minimal ceph.conf for {0}\n[global]\n\tfsid = {0}\n\tmon_host = {1}\n",
        map.fsid,
        hosts.join(" ")
    ))
}
