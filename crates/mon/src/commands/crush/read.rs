//! The CRUSH map's rules, tunables and contents.

use crate::commands::reply::{Outcome, answer, structured};
use crate::failure::missing;
use crate::view::View;
use crush::{CrushMap, Rule, Step};
use decl::Args;
use serde_json::{Map, Value, json};

fn step_json(map: &CrushMap, step: &Step) -> Value {
    let ty = |n: &i32| map.types.get(n).cloned().unwrap_or_default();
    let choose = |op: &str, n: &i32, t: &i32| json!({ "op": op, "num": n, "type": ty(t) });
    match step {
        Step::Noop => json!({ "op": "noop" }),
        Step::Take(id) => {
            let name = map.names.get(id).cloned().unwrap_or_default();
            json!({ "op": "take", "item": id, "item_name": name })
        }
        Step::Emit => json!({ "op": "emit" }),
        Step::ChooseFirstn { n, ty } => choose("choose_firstn", n, ty),
        Step::ChooseIndep { n, ty } => choose("choose_indep", n, ty),
        Step::ChooseleafFirstn { n, ty } => choose("chooseleaf_firstn", n, ty),
        Step::ChooseleafIndep { n, ty } => choose("chooseleaf_indep", n, ty),
        Step::SetChooseTries(n) => json!({ "op": "set_choose_tries", "num": n }),
        Step::SetChooseleafTries(n) => json!({ "op": "set_chooseleaf_tries", "num": n }),
        other => {
            let (op, arg1, arg2) = other.parts();
            json!({ "opcode": op, "arg1": arg1, "arg2": arg2 })
        }
    }
}

fn rule_json(map: &CrushMap, id: usize, rule: &Rule) -> Value {
    let steps: Vec<Value> = rule.steps.iter().map(|s| step_json(map, s)).collect();
    json!({
        "rule_id": id,
        "rule_name": map.rule_names.get(&(id as i32)).cloned().unwrap_or_default(),
        "ruleset": rule.mask.ruleset,
        "type": rule.mask.ty,
        "min_size": rule.mask.min_size,
        "max_size": rule.mask.max_size,
        "steps": steps,
    })
}

fn rules_json(map: &CrushMap) -> Value {
    let rules = map.rules.iter().enumerate().filter_map(|(i, r)| r.as_ref().map(|r| rule_json(map, i, r)));
    rules.collect::<Vec<_>>().into()
}

pub fn rule_ls(view: &View<'_>, args: &Args) -> Outcome {
    let names: Vec<&String> = view.state.osdmap().crush.rule_names.values().collect();
    answer(args, || json!(names), || names.iter().map(|n| format!("{n}\n")).collect())
}

pub fn rule_dump(view: &View<'_>, args: &Args) -> Outcome {
    let map = &view.state.osdmap().crush;
    let Some(name) = args.opt_str("name") else { return structured(args, &rules_json(map)) };
    let found = map.rule_of(name).and_then(|id| Some((id, map.rule(id)?)));
    match found {
        Some((id, rule)) => structured(args, &rule_json(map, id as usize, rule)),
        None => missing(format!("unknown crush rule '{name}'")),
    }
}

pub fn class_ls(view: &View<'_>, args: &Args) -> Outcome {
    structured(args, &json!(view.state.osdmap().crush.class_names.values().collect::<Vec<_>>()))
}

/// The profile that the tunables match, named after the release that introduced it.
fn profile(t: &crush::Tunables) -> &'static str {
    let all = ["jewel", "hammer", "firefly", "bobtail", "argonaut"];
    let is = |name: &&&str| {
        let p = crate::commands::crush::tunables::profile(name, t);
        // The straw computation and the algorithms allowed do not change what clients must know.
        let same = crush::Tunables { straw_calc_version: t.straw_calc_version, ..p };
        crush::Tunables { allowed_bucket_algs: t.allowed_bucket_algs, ..same } == *t
            && (**name != "hammer" || t.allowed_bucket_algs & 1 << 5 != 0)
    };
    all.iter().find(is).copied().unwrap_or("unknown")
}

fn tunables_json(map: &CrushMap) -> Value {
    let t = &map.tunables;
    let profile = profile(t);
    let optimal = profile == "jewel";
    let straw2 = map.buckets.iter().flatten().any(|b| b.data.alg() == 5);
    let required = if profile == "unknown" { "jewel" } else { profile };
    let steps =
        |wanted: fn(&Step) -> bool| i32::from(map.rules.iter().flatten().flat_map(|r| &r.steps).any(wanted));
    let v2 = |s: &Step| matches!(s, Step::ChooseIndep { .. } | Step::ChooseleafIndep { .. });
    json!({
        "choose_local_tries": t.choose_local_tries,
        "choose_local_fallback_tries": t.choose_local_fallback_tries,
        "choose_total_tries": t.choose_total_tries,
        "chooseleaf_descend_once": t.chooseleaf_descend_once,
        "chooseleaf_vary_r": t.chooseleaf_vary_r,
        "chooseleaf_stable": t.chooseleaf_stable,
        "straw_calc_version": t.straw_calc_version,
        "allowed_bucket_algs": t.allowed_bucket_algs,
        "profile": profile,
        "optimal_tunables": i32::from(optimal),
        "legacy_tunables": i32::from(profile == "argonaut"),
        "minimum_required_version": required,
        "require_feature_tunables": i32::from(profile != "argonaut"),
        "require_feature_tunables2": i32::from(profile != "argonaut"),
        "has_v2_rules": steps(v2),
        "require_feature_tunables3": i32::from(t.chooseleaf_vary_r != 0),
        "has_v3_rules": steps(|s| matches!(s, Step::SetChooseleafVaryR(_))),
        "has_v4_buckets": i32::from(straw2),
        "require_feature_tunables5": i32::from(t.chooseleaf_stable != 0),
        "has_v5_rules": steps(|s| matches!(s, Step::SetChooseleafStable(_))),
    })
}

pub fn get_tunable(view: &View<'_>, args: &Args) -> Outcome {
    let value = view.state.osdmap().crush.tunables.straw_calc_version;
    answer(args, || json!({ "straw_calc_version": value }), || format!("{value}\n"))
}

pub fn rule_ls_by_class(view: &View<'_>, args: &Args) -> Outcome {
    let (map, name) = (&view.state.osdmap().crush, args.str("class"));
    let Some(class) = map.class_of(name) else {
        return missing(format!("failed to get rules by class '{name}'"));
    };
    let shadows: Vec<i32> = map.class_buckets.values().filter_map(|by| by.get(&class)).copied().collect();
    let takes = |rule: &Rule| rule.steps.iter().any(|s| matches!(s, Step::Take(id) if shadows.contains(id)));
    let rules = map.rules.iter().enumerate().filter(|(_, r)| r.as_ref().is_some_and(takes));
    let names: Vec<String> = rules.filter_map(|(id, _)| map.rule_names.get(&(id as i32)).cloned()).collect();
    answer(args, || json!(names), || names.iter().map(|n| format!("{n}\n")).collect())
}

pub fn ls(view: &View<'_>, args: &Args) -> Outcome {
    let (map, node) = (&view.state.osdmap().crush, args.str("node"));
    let Some(id) = map.id_of(node) else { return missing(format!("node '{node}' does not exist")) };
    let items = map.bucket(id).map_or_else(|| vec![id], |b| b.items.clone());
    let names: Vec<String> = items.into_iter().map(|i| map.name(i)).collect();
    answer(args, || json!(names), || names.iter().map(|n| format!("{n}\n")).collect())
}

pub fn class_ls_osd(view: &View<'_>, args: &Args) -> Outcome {
    let map = &view.state.osdmap().crush;
    let class = map.class_of(args.str("class"));
    let osds: Vec<i32> =
        map.classes.iter().filter(|(id, c)| **id >= 0 && Some(**c) == class).map(|(id, _)| *id).collect();
    answer(args, || json!(osds), || osds.iter().map(|id| format!("{id}\n")).collect())
}

pub fn get_device_class(view: &View<'_>, args: &Args) -> Outcome {
    let map = view.state.osdmap();
    let mut found = Vec::new();
    for text in args.list("ids") {
        match decl::args::parse_osd(&text) {
            _ if matches!(text.as_str(), "any" | "all" | "*") => {
                found.extend(map.existing().map(|(id, _)| id.0))
            }
            Some(osd) if map.exists(maps::OsdId(osd)) => found.push(osd),
            Some(osd) => return missing(format!("osd.{osd} does not exist")),
            None => return crate::failure::invalid(format!("`{text}` is no OSD: write 0 or osd.0")),
        }
    }
    let class = |osd: i32| map.crush.class_name_of(osd).unwrap_or_default();
    let json = || {
        let one = |osd: &i32| json!({ "osd": osd, "device_class": class(*osd) });
        found.iter().map(one).collect::<Vec<_>>().into()
    };
    let plain = || match found.as_slice() {
        [one] => format!("{}\n", class(*one)),
        many => many.iter().map(|osd| format!("{osd} {}\n", class(*osd))).collect(),
    };
    answer(args, json, plain)
}

/// The name of a set of replacement weights: a pool's, or `(compat)` for those of all pools.
fn weight_set_name(view: &View<'_>, id: i64) -> String {
    match id {
        crush::DEFAULT_CHOOSE_ARGS => "(compat)".to_owned(),
        id => view.state.osdmap().pool_name(id).to_owned(),
    }
}

pub fn weight_set_ls(view: &View<'_>, args: &Args) -> Outcome {
    let names: Vec<String> =
        view.state.osdmap().crush.choose_args.keys().map(|id| weight_set_name(view, *id)).collect();
    answer(args, || json!(names), || names.iter().map(|n| format!("{n}\n")).collect())
}

fn choose_args_json(map: &CrushMap, key: impl Fn(i64) -> String) -> Value {
    let weights = |set: &Vec<u32>| set.iter().map(|w| f64::from(*w) / 65536.0).collect::<Vec<_>>();
    let one = |(slot, arg): (&u32, &crush::ChooseArg)| {
        let mut out = Map::new();
        out.insert("bucket_id".into(), (-1 - i64::from(*slot)).into());
        if !arg.weight_set.is_empty() {
            out.insert("weight_set".into(), json!(arg.weight_set.iter().map(weights).collect::<Vec<_>>()));
        }
        if !arg.ids.is_empty() {
            out.insert("ids".into(), json!(arg.ids));
        }
        Value::Object(out)
    };
    let sets = map.choose_args.iter();
    Value::Object(
        sets.map(|(id, args)| (key(*id), args.iter().map(one).collect::<Vec<_>>().into())).collect(),
    )
}

pub fn weight_set_dump(view: &View<'_>, args: &Args) -> Outcome {
    structured(args, &choose_args_json(&view.state.osdmap().crush, |id| id.to_string()))
}

pub fn tunables(view: &View<'_>, args: &Args) -> Outcome {
    structured(args, &tunables_json(&view.state.osdmap().crush))
}

pub fn dump(view: &View<'_>, args: &Args) -> Outcome {
    let map = &view.state.osdmap().crush;
    let device = |id: i32| {
        let mut out = Map::new();
        out.insert("id".into(), id.into());
        let name = map.names.get(&id).cloned().unwrap_or_else(|| format!("device{id}"));
        out.insert("name".into(), name.into());
        let class = crate::crush_edit::class(map, id);
        if !class.is_empty() {
            out.insert("class".into(), class.into());
        }
        Value::Object(out)
    };
    let bucket = |b: &crush::Bucket| {
        let item = |(i, id): (usize, &i32)| json!({ "id": id, "weight": b.item_weight(i), "pos": i });
        json!({
            "id": b.id,
            "name": map.names.get(&b.id).cloned().unwrap_or_default(),
            "type_id": b.ty,
            "type_name": map.types.get(&i32::from(b.ty)).cloned().unwrap_or_default(),
            "weight": b.weight,
            "alg": b.data.alg_name(),
            "hash": "rjenkins1",
            "items": b.items.iter().enumerate().map(item).collect::<Vec<_>>(),
        })
    };
    let types = map.types.iter().map(|(id, name)| json!({ "type_id": id, "name": name }));
    structured(
        args,
        &json!({
            "devices": (0..map.max_devices).map(device).collect::<Vec<_>>(),
            "types": types.collect::<Vec<_>>(),
            "buckets": map.buckets.iter().flatten().map(bucket).collect::<Vec<_>>(),
            "rules": rules_json(map),
            "tunables": tunables_json(map),
            "choose_args": choose_args_json(map, |id| id.to_string()),
        }),
    )
}

pub fn ec_profile_ls(view: &View<'_>, args: &Args) -> Outcome {
    let names: Vec<&String> = view.state.osdmap().ec_profiles.keys().collect();
    answer(args, || json!(names), || names.iter().map(|n| format!("{n}\n")).collect())
}

pub fn ec_profile_get(view: &View<'_>, args: &Args) -> Outcome {
    let Some(profile) = view.state.osdmap().ec_profiles.get(args.str("name")) else {
        return missing(format!("unknown erasure code profile '{}'", args.str("name")));
    };
    answer(args, || json!(profile), || profile.iter().map(|(k, v)| format!("{k}={v}\n")).collect())
}
