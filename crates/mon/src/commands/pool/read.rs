//! Commands that read pools.

use crate::commands::osd::dump::{autoscale, pool_json, pool_line};
use crate::commands::reply::{Outcome, answer, structured};
use crate::failure::{Failure, missing};
use crate::text::{bytes, count};
use crate::view::View;
use decl::Args;
use maps::{Pool, pool_flags};
use serde_json::{Map, Value, json};

pub fn lspools(view: &View<'_>, args: &Args) -> Outcome {
    let names = &view.state.osdmap().pool_names;
    let json = || {
        let one = |(id, name): (&i64, &String)| json!({ "poolnum": id, "poolname": name });
        names.iter().map(one).collect::<Vec<_>>().into()
    };
    answer(args, json, || names.iter().map(|(id, name)| format!("{id} {name}\n")).collect())
}

pub fn ls(view: &View<'_>, args: &Args) -> Outcome {
    let map = view.state.osdmap();
    let detail = args.str("detail") == "detail";
    let json = || match detail {
        true => map.pools.keys().map(|id| pool_json(map, *id, "pool_id")).collect::<Vec<_>>().into(),
        false => json!(map.pool_names.values().collect::<Vec<_>>()),
    };
    let plain = || match detail {
        true => map.pools.keys().map(|id| pool_line(map, *id)).chain(["\n".to_owned()]).collect(),
        false => map.pool_names.values().map(|n| format!("{n}\n")).collect(),
    };
    answer(args, json, plain)
}

fn find<'a>(view: &View<'a>, args: &Args, arg: &str) -> Result<(i64, &'a Pool), Failure> {
    match view.state.osdmap().pool_by_name(args.str(arg)) {
        Some(found) => Ok(found),
        None => missing(format!("unrecognized pool '{}'", args.str(arg))),
    }
}

/// Settings in the order of `get all`: name, JSON, text.
fn settings(view: &View<'_>, pool: &Pool) -> Vec<(&'static str, Value, String)> {
    let rules = &view.state.osdmap().crush.rule_names;
    let rule = rules.get(&i32::from(pool.crush_rule)).cloned().unwrap_or_default();
    let number = |name, n: u32| (name, Value::from(n), n.to_string());
    let flag = |name, bit| (name, Value::from(pool.has_flag(bit)), pool.has_flag(bit).to_string());
    let mut out = vec![
        number("size", pool.size.into()),
        number("min_size", pool.min_size.into()),
        number("pg_num", pool.pg_num),
        number("pgp_num", pool.pgp_num),
        ("crush_rule", rule.clone().into(), rule),
        flag("hashpspool", pool_flags::HASHPSPOOL),
        flag("nodelete", pool_flags::NODELETE),
        flag("nopgchange", pool_flags::NOPGCHANGE),
        flag("nosizechange", pool_flags::NOSIZECHANGE),
        flag("write_fadvise_dontneed", pool_flags::WRITE_FADVISE_DONTNEED),
        flag("noscrub", pool_flags::NOSCRUB),
        flag("nodeep-scrub", pool_flags::NODEEP_SCRUB),
        ("use_gmt_hitset", pool.use_gmt_hitset.into(), i32::from(pool.use_gmt_hitset).to_string()),
        number("fast_read", pool.fast_read.into()),
        ("pg_autoscale_mode", autoscale(pool).into(), autoscale(pool).to_owned()),
        flag("bulk", pool_flags::BULK),
    ];
    let text = |v: &Value| v.as_str().map_or_else(|| v.to_string(), str::to_owned);
    out.extend(crate::commands::pool::opts::set(pool).into_iter().map(|(name, value)| {
        let shown = text(&value);
        (name, value, shown)
    }));
    if pool.is_erasure() {
        let profile = pool.ec_profile.clone();
        out.push(("erasure_code_profile", profile.clone().into(), profile));
    }
    out
}

pub fn get(view: &View<'_>, args: &Args) -> Outcome {
    let (id, pool) = find(view, args, "pool")?;
    let var = args.str("var");
    let all: Vec<_> =
        settings(view, pool).into_iter().filter(|(n, _, _)| var == "all" || *n == var).collect();
    if all.is_empty() {
        return missing(format!("option '{var}' is not set on pool '{}'", args.str("pool")));
    }
    let json = || {
        let mut out = Map::new();
        out.insert("pool".into(), args.str("pool").into());
        out.insert("pool_id".into(), id.into());
        out.extend(all.iter().map(|(n, v, _)| ((*n).to_owned(), v.clone())));
        Value::Object(out)
    };
    answer(args, json, || all.iter().map(|(n, _, t)| format!("{n}: {t}\n")).collect())
}

pub fn get_quota(view: &View<'_>, args: &Args) -> Outcome {
    let (id, pool) = find(view, args, "pool")?;
    let name = args.str("pool");
    let stats = view.pgs.pool(id).stats;
    let json = || {
        json!({
            "pool_name": name,
            "pool_id": id,
            "quota_max_objects": pool.quota_max_objects,
            "current_num_objects": stats.num_objects,
            "quota_max_bytes": pool.quota_max_bytes,
            "current_num_bytes": stats.num_bytes,
        })
    };
    let plain = || {
        let objects = match pool.quota_max_objects {
            0 => "N/A".to_owned(),
            n => format!("{} objects  (current num objects: {} objects)", count(n), stats.num_objects),
        };
        let space = match pool.quota_max_bytes {
            0 => "N/A".to_owned(),
            n => format!("{}  (current num bytes: {} bytes)", bytes(n), stats.num_bytes),
        };
        format!("quotas for pool '{name}':\n  max objects: {objects}\n  max bytes  : {space}\n")
    };
    answer(args, json, plain)
}

pub fn stats(view: &View<'_>, args: &Args) -> Outcome {
    let map = view.state.osdmap();
    let wanted: Vec<i64> = match args.opt_str("pool_name") {
        Some(_) => vec![find(view, args, "pool_name")?.0],
        None => map.pools.keys().copied().collect(),
    };
    let json = || {
        let one = |id: &i64| {
            json!({
                "pool_name": map.pool_name(*id), "pool_id": id,
                "recovery": recovery(view, *id), "recovery_rate": recovery_rate(view, *id),
                "client_io_rate": client_rate(view, *id),
            })
        };
        wanted.iter().map(one).collect::<Vec<_>>().into()
    };
    let plain = || {
        let one = |id: &i64| {
            let sum = view.pgs.pool(*id).stats;
            let what = match sum.num_objects_degraded {
                0 => "nothing is going on".to_owned(),
                n => format!("{n}/{} objects degraded", sum.num_object_copies),
            };
            format!("pool {} id {id}\n  {what}\n\n", map.pool_name(*id))
        };
        wanted.iter().map(one).collect()
    };
    answer(args, json, plain)
}

/// The fields that are not 0.
fn rates(all: [(&str, u64); 4]) -> Value {
    let fields = all.into_iter().filter(|(_, rate)| *rate > 0);
    fields.map(|(name, rate)| (name.to_owned(), Value::from(rate))).collect::<serde_json::Map<_, _>>().into()
}

fn client_rate(view: &View<'_>, id: i64) -> Value {
    let r = view.pgs.pool_rates(view.now.mono, id);
    rates([
        ("read_bytes_sec", r.read_bytes),
        ("write_bytes_sec", r.write_bytes),
        ("read_op_per_sec", r.read_ops),
        ("write_op_per_sec", r.write_ops),
    ])
}

fn recovery_rate(view: &View<'_>, id: i64) -> Value {
    let (r, sum) = (view.pgs.pool_rates(view.now.mono, id), view.pgs.pool(id).stats);
    if r.recover_objects + r.recover_bytes == 0 {
        return json!({});
    }
    rates([
        ("recovering_objects_per_sec", r.recover_objects),
        ("recovering_bytes_per_sec", r.recover_bytes),
        ("num_objects_recovered", sum.num_objects_recovered as u64),
        ("num_bytes_recovered", sum.num_bytes_recovered as u64),
    ])
}

fn recovery(view: &View<'_>, id: i64) -> Value {
    let sum = view.pgs.pool(id).stats;
    if sum.num_objects_degraded == 0 {
        return json!({});
    }
    json!({
        "degraded_objects": sum.num_objects_degraded,
        "degraded_total": sum.num_object_copies,
        "degraded_ratio": sum.num_objects_degraded as f64 / sum.num_object_copies.max(1) as f64,
    })
}

pub fn app_get(view: &View<'_>, args: &Args) -> Outcome {
    let map = view.state.osdmap();
    if args.opt_str("pool").is_none() {
        let all: Map<String, Value> = map
            .pools
            .iter()
            .map(|(id, p)| (map.pool_name(*id).to_owned(), json!(p.application_metadata)))
            .collect();
        return structured(args, &Value::Object(all));
    }
    let (_, pool) = find(view, args, "pool")?;
    let name = args.str("pool");
    let Some(app) = args.opt_str("app") else { return structured(args, &json!(pool.application_metadata)) };
    let Some(values) = pool.application_metadata.get(app) else {
        return missing(format!("pool '{name}' has no application '{app}'"));
    };
    let Some(key) = args.opt_str("key") else { return structured(args, &json!(values)) };
    match values.get(key) {
        // The original prints the bare value in every format.
        Some(value) => crate::commands::reply::output(format!("{value}\n")),
        None => missing(format!("application '{app}' on pool '{name}' has no key '{key}'")),
    }
}
