//! Commands that change CRUSH rules and erasure code profiles.

use crate::commands::crush::change::keep;
use crate::commands::crush::failure::crush_failure;
use crate::commands::reply::{Outcome, said};
use crate::edit::Edit;
use crate::failure::{Failure, invalid, missing};
use crush::{CrushError, CrushMap, Step};
use decl::Args;
use maps::pool_type;
use std::collections::BTreeMap;
use wire::Errno;

/// Steps of a rule, for comparing a new one with one that exists.
fn same_rule(crush: &CrushMap, name: &str, wanted: &[Step]) -> bool {
    let steps = crush.rule_of(name).and_then(|id| crush.rule(id)).map(|r| r.steps.clone());
    steps.is_some_and(|steps| steps == wanted)
}

/// Adds a rule. An existing one of the same name is accepted if its steps are the same.
fn add_rule(
    edit: &mut Edit<'_>,
    name: &str,
    make: impl Fn(&mut CrushMap, &str) -> Result<u32, CrushError>,
) -> Outcome {
    let mut crush = edit.crush();
    if crush.rule_of(name).is_some() {
        let mut trial = crush.clone();
        let id = make(&mut trial, "nacre-trial").map_err(crush_failure)?;
        let steps = trial.rule(id).map(|r| r.steps.clone()).unwrap_or_default();
        return match same_rule(&crush, name, &steps) {
            true => said(format!("rule {name} already exists")),
            false => {
                Err(Failure::new(Errno::EEXIST, format!("rule {name} already exists with other contents")))
            }
        };
    }
    let id = make(&mut crush, name).map_err(crush_failure)?;
    keep(edit, crush, format!("created rule {name} at {id}"))
}

pub fn rule_simple(edit: &mut Edit<'_>, args: &Args, _: &[u8]) -> Outcome {
    let (name, root, ty) = (args.str("name"), args.str("root"), args.str("type"));
    let indep = args.opt_str("mode") == Some("indep");
    add_rule(edit, name, |crush, name| match indep {
        true => crush.create_erasure_rule(name, root, ty, None),
        false => crush.create_replicated_rule(name, root, ty, None),
    })
}

pub fn rule_replicated(edit: &mut Edit<'_>, args: &Args, _: &[u8]) -> Outcome {
    let (name, root, ty) = (args.str("name"), args.str("root"), args.str("type"));
    let class = args.opt_str("class").filter(|c| !c.is_empty());
    add_rule(edit, name, |crush, name| crush.create_replicated_rule(name, root, ty, class))
}

pub fn rule_erasure(edit: &mut Edit<'_>, args: &Args, _: &[u8]) -> Outcome {
    let (name, profile_name) = (args.str("name"), args.opt_str("profile").unwrap_or("default"));
    let Some(profile) = edit.osdmap().ec_profiles.get(profile_name).cloned() else {
        return invalid(format!("unknown erasure code profile '{profile_name}'"));
    };
    let of = |key: &str, default: &str| profile.get(key).cloned().unwrap_or_else(|| default.to_owned());
    let (root, domain) = (of("crush-root", "default"), of("crush-failure-domain", "host"));
    let class = profile.get("crush-device-class").cloned().filter(|c| !c.is_empty());
    add_rule(edit, name, |crush, name| crush.create_erasure_rule(name, &root, &domain, class.as_deref()))
}

pub fn rule_rm(edit: &mut Edit<'_>, args: &Args, _: &[u8]) -> Outcome {
    let name = args.str("name");
    let mut crush = edit.crush();
    let Some(id) = crush.rule_of(name) else { return said(format!("rule {name} does not exist")) };
    if edit.osdmap().pools.values().any(|p| u32::from(p.crush_rule) == id) {
        return Err(Failure::new(Errno::EBUSY, format!("crush rule {name} ({id}) is in use")));
    }
    crush.remove_rule(id).map_err(crush_failure)?;
    keep(edit, crush, "")
}

pub fn rule_rename(edit: &mut Edit<'_>, args: &Args, _: &[u8]) -> Outcome {
    let (from, to) = (args.str("srcname"), args.str("dstname"));
    let mut crush = edit.crush();
    match (crush.rule_of(from), crush.rule_of(to)) {
        (None, Some(_)) => said(format!("already renamed to '{to}'")),
        (None, None) => missing(format!("rule '{from}' does not exist")),
        (Some(_), Some(_)) => Err(Failure::new(Errno::EEXIST, format!("rule '{to}' already exists"))),
        (Some(id), None) => {
            crush.rename_rule(id, to).map_err(crush_failure)?;
            keep(edit, crush, "")
        }
    }
}

/// Parameters of a `jerasure` profile that does not set them itself.
const JERASURE: [(&str, &str); 8] = [
    ("crush-device-class", ""),
    ("crush-failure-domain", "host"),
    ("crush-root", "default"),
    ("jerasure-per-chunk-alignment", "false"),
    ("k", "2"),
    ("m", "1"),
    ("technique", "reed_sol_van"),
    ("w", "8"),
];

/// A profile with its defaults filled in, or what is wrong with it.
fn full_profile(given: BTreeMap<String, String>) -> Result<BTreeMap<String, String>, Failure> {
    let plugin = given.get("plugin").map_or("jerasure", String::as_str).to_owned();
    if !["jerasure", "isa"].contains(&plugin.as_str()) {
        return invalid(format!("erasure code plugin `{plugin}` is not known: use jerasure or isa"));
    }
    let mut out = given;
    out.insert("plugin".into(), plugin.clone());
    for (key, value) in JERASURE {
        let jerasure_only = matches!(key, "w" | "jerasure-per-chunk-alignment");
        if plugin == "jerasure" || !jerasure_only {
            out.entry(key.into()).or_insert_with(|| value.into());
        }
    }
    for (key, least) in [("k", 2u32), ("m", 1)] {
        match out[key].parse::<u32>() {
            Ok(n) if (least..=32).contains(&n) => {}
            _ => return invalid(format!("{key}={} must be a number from {least} to 32", out[key])),
        }
    }
    Ok(out)
}

pub fn ec_profile_set(edit: &mut Edit<'_>, args: &Args, _: &[u8]) -> Outcome {
    let name = args.str("name");
    let mut given = BTreeMap::new();
    for word in args.list("profile") {
        match word.split_once('=') {
            Some((k, v)) => drop(given.insert(k.to_owned(), v.to_owned())),
            None => return invalid(format!("`{word}` is no parameter: write NAME=VALUE")),
        }
    }
    let wanted = full_profile(given)?;
    match edit.osdmap().ec_profiles.get(name) {
        Some(old) if *old == wanted => return said(""),
        Some(_) if !args.flag("force") => {
            let text = format!("will not override erasure code profile {name}: add --force");
            return Err(Failure::new(Errno::EPERM, text));
        }
        _ => {}
    }
    edit.osd().new_ec_profiles.insert(name.to_owned(), wanted);
    said("")
}

pub fn ec_profile_rm(edit: &mut Edit<'_>, args: &Args, _: &[u8]) -> Outcome {
    let name = args.str("name");
    let map = edit.osdmap();
    if !map.ec_profiles.contains_key(name) {
        return said(format!("erasure-code-profile {name} does not exist"));
    }
    let user = map.pools.iter().find(|(_, p)| p.ty == pool_type::ERASURE && p.ec_profile == name);
    if let Some((id, _)) = user {
        let text = format!("erasure-code-profile {name} is used by pool '{}'", map.pool_name(*id));
        return Err(Failure::new(Errno::EBUSY, text));
    }
    edit.osd().old_ec_profiles.push(name.to_owned());
    said("")
}
