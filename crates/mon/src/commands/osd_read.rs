//! Commands that read one thing of the OSD map.

use super::format::{addrvec, answer, osds, structured};
use super::table::{Align::L, Align::R, Table};
use super::{Failure, Outcome, Reply, View, invalid, missing, output};
use crate::crush_edit;
use decl::Args;
use maps::{EVersion, ObjectLocator, OsdId, OsdMap, PgId, release};
use msgs::errno;
use peer::pg_state;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use wire::{EntityName, EntityType, Writer};

/// The map of the epoch that is asked for, or the newest.
pub fn at_epoch(view: &View<'_>, args: &Args) -> Result<Arc<OsdMap>, Failure> {
    let maps = &view.state.osd;
    let Some(epoch) = args.int("epoch").filter(|e| *e != 0) else { return Ok(maps.map().clone()) };
    let found = u32::try_from(epoch).ok().and_then(|e| maps.at(maps::Epoch(e)));
    found.ok_or_else(|| {
        let text = format!("osdmap epoch {epoch} is not kept; {} to {} are", maps.oldest(), maps.epoch());
        Failure::new(errno::ENOENT, text)
    })
}

/// The OSD that an argument names, which must exist.
pub fn existing(map: &OsdMap, args: &Args, name: &str) -> Result<OsdId, Failure> {
    match args.osd(name).map(OsdId) {
        Some(osd) if map.exists(osd) => Ok(osd),
        Some(osd) => missing(format!("osd.{osd} does not exist")),
        None => invalid(format!("{name}: write an OSD as 0 or osd.0")),
    }
}

pub fn stat(view: &View<'_>, args: &Args) -> Outcome {
    let map = view.state.osdmap();
    let status = super::status::status_json(view);
    let plain = || {
        let now = view.now.wall.split().0;
        let since = |s: wire::Utime| super::format::age(now.saturating_sub(u64::from(s.sec)));
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
        Some(_) => super::osd_dump::osd_json(map, wanted[0]),
        None => wanted.iter().map(|id| super::osd_dump::osd_json(map, *id)).collect::<Vec<_>>().into(),
    };
    answer(args, json, || wanted.iter().map(|id| super::osd_dump::osd_line(map, *id)).collect())
}

/// How many of a list of daemons have each value of a property.
pub fn count_values(args: &Args, values: impl Iterator<Item = Option<String>>) -> Outcome {
    let mut counts = BTreeMap::<String, u64>::new();
    for value in values {
        *counts.entry(value.unwrap_or_else(|| "unknown".into())).or_default() += 1;
    }
    structured(args, &json!(counts))
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
    output(format!("{}\n", view.soft.pgs.osd(osd).map_or(0, |s| s.reports)))
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
            out.extend(addrs.map(|(name, a)| (name.to_owned(), super::format::addrs(a).into())));
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
    let stats = view.soft.pgs.osds();
    let json = || {
        let one = |(id, s): (&OsdId, &crate::pgstat::OsdStat)| {
            let (ms, ns) = (s.commit_latency_ms, u64::from(s.commit_latency_ms) * 1_000_000);
            json!({ "id": id.0, "perf_stats": {
                "commit_latency_ms": ms, "apply_latency_ms": ms, "commit_latency_ns": ns, "apply_latency_ns": ns,
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
    for osd in view.soft.pgs.pgs().values().flat_map(|s| &s.blocked_by) {
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
    let one = |(addr, until): (&wire::EntityAddr, &wire::Utime)| json!({ "addr": addr.legacy_string(), "until": until.iso8601() });
    let json = || list.iter().map(one).collect::<Vec<_>>().into();
    let plain = || list.iter().map(|(a, t)| format!("{} {}\n", a.legacy_string(), t.iso8601())).collect();
    let reply = answer(args, json, plain)?;
    Ok(Reply { status: format!("listed {} entries", list.len()), ..reply })
}

/// The OSDs of an argument list.
fn ids(map: &OsdMap, args: &Args) -> Result<Vec<OsdId>, Failure> {
    let mut out = Vec::new();
    for text in args.list("ids") {
        match decl::args::parse_osd(&text).map(OsdId) {
            Some(osd) if map.exists(osd) => out.push(osd),
            Some(osd) => return missing(format!("osd.{osd} does not exist")),
            None => return invalid(format!("`{text}` is no OSD: write 0 or osd.0")),
        }
    }
    Ok(out)
}

pub fn ok_to_stop(view: &View<'_>, args: &Args) -> Outcome {
    let map = view.state.osdmap();
    let stop = ids(map, args)?;
    let (mut ok, mut bad, mut degraded) = (0usize, Vec::<String>::new(), Vec::<String>::new());
    for (id, pool) in &map.pools {
        for pg in pool.pgs(*id) {
            let acting = map.pg_up_acting(pg).acting;
            if !acting.iter().any(|o| stop.contains(o)) {
                continue;
            }
            let stat = view.soft.pgs.pgs().get(&pg);
            let active = stat.is_some_and(|s| s.state & pg_state::ACTIVE != 0);
            let left = acting.iter().filter(|o| o.is_some() && !stop.contains(o)).count();
            if active && left >= usize::from(pool.min_size) {
                ok += 1;
                degraded.push(pg.to_string());
            } else {
                bad.push(pg.to_string());
            }
        }
    }
    if !bad.is_empty() {
        let some = bad.iter().take(5).cloned().collect::<Vec<_>>().join(", ");
        return Err(Failure::new(
            errno::EBUSY,
            format!("unsafe to stop: {} PGs would become unavailable ({some} …)", bad.len()),
        ));
    }
    let ids: Vec<i32> = stop.iter().map(|o| o.0).collect();
    let json = json!({
        "ok_to_stop": true, "osds": ids, "num_ok_pgs": ok, "num_not_ok_pgs": 0, "ok_become_degraded": degraded,
    });
    output(format!("{json}\n"))
}

pub fn safe_to_destroy(view: &View<'_>, args: &Args) -> Outcome {
    let map = view.state.osdmap();
    let (mut safe, mut active) = (Vec::new(), Vec::new());
    for osd in ids(map, args)? {
        let mapped = view.soft.pgs.pgs_on(osd);
        let by_map = map.pools.iter().any(|(id, pool)| {
            pool.pgs(*id).any(|pg: PgId| {
                let at = map.pg_up_acting(pg);
                at.up.contains(&osd) || at.acting.contains(&osd)
            })
        });
        let unclean = view
            .soft
            .pgs
            .pgs()
            .values()
            .any(|s| s.state & pg_state::CLEAN == 0 && s.version > EVersion::default());
        if mapped > 0 || by_map || map.is_in(osd) && unclean {
            active.push(osd.0);
        } else {
            safe.push(osd.0);
        }
    }
    // With a format, the original answers and leaves the judgement to the reader.
    if !active.is_empty() && args.format() == "plain" {
        let names: Vec<_> = active.iter().map(ToString::to_string).collect();
        return Err(Failure::new(
            errno::EBUSY,
            format!("OSD(s) {} still have PGs mapped to them", names.join(",")),
        ));
    }
    let json = json!({ "safe_to_destroy": safe, "active": active, "missing_stats": [], "stored_pgs": [] });
    structured(args, &json)
}
