//! Commands that read one thing of the OSD map.

use crate::commands::osd::select::{at_epoch, existing};
use crate::commands::reply::{Outcome, Reply, answer, count_values, output, structured};
use crate::commands::table::Align::{L, R};
use crate::commands::table::Table;
use crate::crush_edit;
use crate::failure::{invalid, missing};
use crate::text::{addrvec, osds};
use crate::view::View;
use decl::Args;
use maps::{ObjectLocator, OsdId, OsdMap, release};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use wire::{EntityName, EntityType, Writer};

pub fn stat(view: &View<'_>, args: &Args) -> Outcome {
    let map = view.state.osdmap();
    let status = crate::commands::status::status_json(view);
    let plain = || {
        let now = view.now.wall.split().0;
        let since = |s: wire::Utime| crate::text::age(now.saturating_sub(u64::from(s.sec)));
        let (all, up, r#in) = counts(map);
        format!(
            "{all} osds: {up} up (since {}), {in} in (since {}); epoch: e{}\n",
            since(map.last_up_change),
            since(map.last_in_change),
            map.epoch
        )
    };
    answer(args, || status["osdmap"].clone(), plain)
}

fn counts(map: &OsdMap) -> (usize, usize, usize) {
    let all = map.existing();
    all.fold((0, 0, 0), |(n, up, r#in), (_, o)| {
        (n + 1, up + usize::from(o.is_up()), r#in + usize::from(o.is_in()))
    })
}

fn list(args: &Args, ids: &[i32]) -> Outcome {
    answer(args, || json!(ids), || ids.iter().map(|id| format!("{id}\n")).collect())
}

pub fn ls(view: &View<'_>, args: &Args) -> Outcome {
    let map = at_epoch(view, args)?;
    list(args, &map.existing().map(|(id, _)| id.0).collect::<Vec<_>>())
}

pub fn ls_tree(view: &View<'_>, args: &Args) -> Outcome {
    let map = at_epoch(view, args)?;
    match map.crush.id_of(args.str("name")) {
        Some(id) => list(args, &crush_edit::devices(&map.crush, id)),
        None => missing(format!("`{}` is no CRUSH bucket or OSD", args.str("name"))),
    }
}

pub fn getmap(view: &View<'_>, args: &Args) -> Outcome {
    let map = at_epoch(view, args)?;
    Ok(Reply { status: format!("got osdmap epoch {}", map.epoch), data: Writer::encode(&*map) })
}

pub fn getcrushmap(view: &View<'_>, args: &Args) -> Outcome {
    let map = at_epoch(view, args)?;
    Ok(Reply { status: map.crush_version.to_string(), data: Writer::encode(&*map.crush) })
}

pub fn getmaxosd(view: &View<'_>, args: &Args) -> Outcome {
    let map = view.state.osdmap();
    answer(
        args,
        || json!({ "epoch": map.epoch.0, "max_osd": map.max_osd() }),
        || format!("max_osd = {} in epoch {}\n", map.max_osd(), map.epoch),
    )
}

/// In every format a bare word, as in the original.
pub fn min_compat_client(view: &View<'_>, _: &Args) -> Outcome {
    output(format!("{}\n", release::name(view.state.osdmap().require_min_compat_client)))
}

pub fn info(view: &View<'_>, args: &Args) -> Outcome {
    let map = view.state.osdmap();
    let wanted: Vec<OsdId> = match args.osd("id") {
        Some(_) => vec![existing(map, args, "id")?],
        None => map.existing().map(|(id, _)| id).collect(),
    };
    let json = || match args.osd("id") {
        Some(_) => crate::commands::osd::dump::osd_json(map, wanted[0]),
        None => {
            wanted.iter().map(|id| crate::commands::osd::dump::osd_json(map, *id)).collect::<Vec<_>>().into()
        }
    };
    answer(args, json, || wanted.iter().map(|id| crate::commands::osd::dump::osd_line(map, *id)).collect())
}

pub fn count_metadata(view: &View<'_>, args: &Args) -> Outcome {
    let property = args.str("property");
    let value = |osd| metadata_of(view, osd).and_then(|m| m.get(property)).cloned();
    count_values(args, view.state.osdmap().existing().map(|(id, _)| value(id)))
}

/// OSDs are not bound to NUMA nodes: each is listed with its host alone.
pub fn numa_status(view: &View<'_>, args: &Args) -> Outcome {
    let map = view.state.osdmap();
    let host = |osd| metadata_of(view, osd).and_then(|m| m.get("hostname")).cloned().unwrap_or_default();
    let json = || {
        let one = |(id, _): (OsdId, &maps::OsdEntry)| json!({ "osd": id.0, "host": host(id) });
        map.existing().map(one).collect::<Vec<_>>().into()
    };
    let plain = || {
        let names = [
            ("OSD", L, R),
            ("HOST", L, L),
            ("NETWORK", L, R),
            ("STORAGE", L, R),
            ("AFFINITY", L, R),
            ("CPUS", L, L),
        ];
        let mut t = Table::new(&names);
        for (id, _) in map.existing() {
            t.row(vec![id.to_string(), host(id), "-".into(), "-".into(), "-".into(), "-".into()]);
        }
        t.render()
    };
    answer(args, json, plain)
}

pub fn last_stat_seq(view: &View<'_>, args: &Args) -> Outcome {
    let osd = existing(view.state.osdmap(), args, "id")?;
    output(format!("{}\n", view.pgs.osd(osd).map_or(0, |s| s.reports)))
}

fn metadata_of<'a>(view: &View<'a>, osd: OsdId) -> Option<&'a BTreeMap<String, String>> {
    view.state.metadata.get(&EntityName::new(EntityType::OSD, osd.to_string()))
}

pub fn find(view: &View<'_>, args: &Args) -> Outcome {
    let map = view.state.osdmap();
    let osd = existing(map, args, "id")?;
    let entry = map.osd(osd).expect("was checked");
    let mut out = Map::new();
    out.insert("osd".into(), osd.0.into());
    out.insert("addrs".into(), addrvec(&entry.client_addrs));
    out.insert("osd_fsid".into(), entry.uuid.to_string().into());
    let meta = metadata_of(view, osd);
    for (field, key) in [("host", "hostname"), ("container_name", "container_name")] {
        if let Some(value) = meta.and_then(|m| m.get(key)) {
            out.insert(field.into(), value.clone().into());
        }
    }
    let place: Map<String, Value> =
        crush_edit::location(&map.crush, osd.0).into_iter().map(|(t, n)| (t, n.into())).collect();
    out.insert("crush_location".into(), place.into());
    structured(args, &Value::Object(out))
}

pub fn metadata(view: &View<'_>, args: &Args) -> Outcome {
    let map = view.state.osdmap();
    let one = |osd: OsdId| {
        let mut out = Map::new();
        out.insert("id".into(), osd.0.into());
        let meta = metadata_of(view, osd).into_iter().flatten();
        out.extend(meta.map(|(k, v)| (k.clone(), v.clone().into())));
        if let Some(entry) = map.osd(osd).filter(|o| o.is_up()) {
            let class = crush_edit::class(&map.crush, osd.0);
            out.insert("default_device_class".into(), class.into());
            let addrs = [
                ("front_addr", &entry.client_addrs),
                ("back_addr", &entry.cluster_addrs),
                ("hb_front_addr", &entry.hb_front_addrs),
                ("hb_back_addr", &entry.hb_back_addrs),
            ];
            out.extend(addrs.map(|(name, a)| (name.to_owned(), crate::text::addrs(a).into())));
        }
        Value::Object(out)
    };
    match args.opt_str("id").is_some() || args.int("id").is_some() {
        true => structured(args, &one(existing(map, args, "id")?)),
        false => structured(args, &map.existing().map(|(id, _)| one(id)).collect::<Vec<_>>().into()),
    }
}

pub fn map_object(view: &View<'_>, args: &Args) -> Outcome {
    let map = view.state.osdmap();
    let Some((pool, _)) = map.pool_by_name(args.str("pool")) else {
        return missing(format!("there is no pool `{}`", args.str("pool")));
    };
    let locator =
        ObjectLocator { pool, ns: args.str("nspace").as_bytes().to_vec(), ..ObjectLocator::default() };
    let raw = map.object_raw_pg(&locator, args.str("object").as_bytes());
    let Some(pg) = map.object_pg(&locator, args.str("object").as_bytes()) else {
        return invalid("the object has no placement group");
    };
    let at = map.pg_up_acting(pg);
    let ids = |list: &[OsdId]| list.iter().map(|o| o.0).collect::<Vec<_>>();
    let primary = |p: Option<OsdId>| p.map_or(-1, |o| o.0);
    let json = || {
        json!({
            "epoch": map.epoch.0,
            "pool": args.str("pool"),
            "pool_id": pool,
            "objname": args.str("object"),
            "raw_pgid": raw.to_string(),
            "pgid": pg.to_string(),
            "up": ids(&at.up),
            "up_primary": primary(at.up_primary),
            "acting": ids(&at.acting),
            "acting_primary": primary(at.acting_primary),
        })
    };
    let plain = || {
        format!(
            "osdmap e{} pool '{}' ({pool}) object '{}' -> pg {raw} ({pg}) -> up ({}, p{}) acting ({}, p{})\n",
            map.epoch,
            args.str("pool"),
            args.str("object"),
            osds(&at.up),
            primary(at.up_primary),
            osds(&at.acting),
            primary(at.acting_primary)
        )
    };
    answer(args, json, plain)
}

pub fn perf(view: &View<'_>, args: &Args) -> Outcome {
    let stats = view.pgs.osds();
    let json = || {
        let one = |(id, s): (&OsdId, &crate::pg_stats::OsdStat)| {
            let (ms, ns) = (s.commit_latency_ms, u64::from(s.commit_latency_ms) * 1_000_000);
            json!({ "id": id.0, "perf_stats": {
                "commit_latency_ms": ms, "apply_latency_ms": ms,
                "commit_latency_ns": ns, "apply_latency_ns": ns,
            }})
        };
        let infos: Vec<Value> = stats.iter().map(one).collect();
        json!({ "pg_ready": true, "osdstats": { "osd_perf_infos": infos } })
    };
    let plain = || {
        let mut t = Table::new(&[("osd", L, R), ("commit_latency(ms)", L, R), ("apply_latency(ms)", L, R)]);
        for (id, s) in stats {
            let ms = s.commit_latency_ms.to_string();
            t.row(vec![id.to_string(), ms.clone(), ms]);
        }
        t.render()
    };
    answer(args, json, plain)
}

pub fn blocked_by(view: &View<'_>, args: &Args) -> Outcome {
    let mut counts: BTreeMap<OsdId, usize> = BTreeMap::new();
    for osd in view.pgs.pgs().values().flat_map(|s| &s.blocked_by) {
        *counts.entry(*osd).or_default() += 1;
    }
    let json = || {
        let infos: Vec<Value> =
            counts.iter().map(|(id, n)| json!({ "id": id.0, "num_blocked": n })).collect();
        json!({ "pg_ready": true, "osd_blocked_by": { "osd_blocked_by_infos": infos } })
    };
    let plain = || {
        let mut t = Table::new(&[("osd", L, R), ("num_blocked", L, R)]);
        counts.iter().for_each(|(id, n)| t.row(vec![id.to_string(), n.to_string()]));
        t.render()
    };
    answer(args, json, plain)
}

pub fn blocklist_ls(view: &View<'_>, args: &Args) -> Outcome {
    let list = &view.state.osdmap().blocklist;
    let one = |(addr, until): (&wire::EntityAddr, &wire::Utime)| {
        let (addr, until) = (addr.legacy_string(), until.iso8601());
        json!({ "addr": addr, "until": until })
    };
    let json = || list.iter().map(one).collect::<Vec<_>>().into();
    let plain = || list.iter().map(|(a, t)| format!("{} {}\n", a.legacy_string(), t.iso8601())).collect();
    let reply = answer(args, json, plain)?;
    Ok(Reply { status: format!("listed {} entries", list.len()), ..reply })
}
