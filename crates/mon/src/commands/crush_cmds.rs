//! The CRUSH map's rules, tunables and contents.

use super::format::{answer, structured};
use super::{Outcome, View, missing};
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
        None => missing(format!("there is no CRUSH rule `{name}`")),
    }
}

pub fn class_ls(view: &View<'_>, args: &Args) -> Outcome {
    structured(args, &json!(view.state.osdmap().crush.class_names.values().collect::<Vec<_>>()))
}

fn tunables_json(map: &CrushMap) -> Value {
    let t = &map.tunables;
    let optimal = *t == crush::Tunables::default();
    json!({
        "choose_local_tries": t.choose_local_tries,
        "choose_local_fallback_tries": t.choose_local_fallback_tries,
        "choose_total_tries": t.choose_total_tries,
        "chooseleaf_descend_once": t.chooseleaf_descend_once,
        "chooseleaf_vary_r": t.chooseleaf_vary_r,
        "chooseleaf_stable": t.chooseleaf_stable,
        "straw_calc_version": t.straw_calc_version,
        "allowed_bucket_algs": t.allowed_bucket_algs,
        "profile": if optimal { "jewel" } else { "unknown" },
        "optimal_tunables": i32::from(optimal),
        "legacy_tunables": 0,
        "minimum_required_version": "jewel",
        "require_feature_tunables": 1,
        "require_feature_tunables2": 1,
        "has_v2_rules": 0,
        "require_feature_tunables3": 1,
        "has_v3_rules": 0,
        "has_v4_buckets": 1,
        "require_feature_tunables5": 1,
        "has_v5_rules": 0,
    })
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
            "choose_args": {},
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
