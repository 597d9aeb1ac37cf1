//! The monitors themselves, the cluster log, and what belongs to no other family.

use crate::cluster_log::{LogLevel, format_line};
use crate::commands::mon::json::{FEATURES, features, monmap_json};
use crate::commands::reply::{Outcome, Reply, answer, output, structured};
use crate::domain::managers::{self, Managers};
use crate::failure::missing;
use crate::text::{addrs, addrvec};
use crate::view::View;
use decl::Args;
use maps::{MonMap, release};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use wire::{EntityName, EntityType, Writer};

pub fn descriptions(view: &View<'_>, _: &Args) -> Outcome {
    // Without a manager a client would wait for one: it is told instead that there is no such command.
    let with_manager = Managers::of(&view.state.kv).active().is_some();
    output(decl::describe::descriptions(with_manager).to_string())
}

pub fn fsid(view: &View<'_>, args: &Args) -> Outcome {
    let fsid = view.state.monmap.fsid.to_string();
    answer(args, || json!({ "fsid": fsid }), || format!("{fsid}\n"))
}

/// The map of an epoch; only the newest is kept.
fn at_epoch<'a>(view: &View<'a>, args: &Args) -> Result<&'a MonMap, crate::failure::Failure> {
    let map = &view.state.monmap;
    match args.int("epoch").filter(|e| *e != 0 && *e != i64::from(map.epoch)) {
        Some(epoch) => missing(format!("monmap epoch {epoch} is not kept; the newest is {}", map.epoch)),
        None => Ok(map),
    }
}

pub fn dump(view: &View<'_>, args: &Args) -> Outcome {
    let map = at_epoch(view, args)?;
    let json = || {
        let mut json = monmap_json(map);
        json["quorum"] = view.quorum.ranks(map).into();
        json
    };
    let plain = || {
        let mut out = format!(
            "epoch {}\nfsid {}\nlast_changed {}\ncreated {}\nmin_mon_release {} ({})\nelection_strategy: {}\n",
            map.epoch,
            map.fsid,
            map.last_changed.iso8601(),
            map.created.iso8601(),
            map.min_mon_release,
            release::name(map.min_mon_release),
            map.strategy
        );
        for (rank, name) in map.ranks.iter().enumerate() {
            let shown = map.mons.get(name).map(|m| addrs(&m.addrs)).unwrap_or_default();
            out.push_str(&format!("{rank}: {shown} mon.{name}\n"));
        }
        out
    };
    let reply = answer(args, json, plain)?;
    Ok(Reply { status: format!("dumped monmap epoch {}", map.epoch), ..reply })
}

pub fn getmap(view: &View<'_>, args: &Args) -> Outcome {
    let map = at_epoch(view, args)?;
    Ok(Reply { status: format!("got monmap epoch {}", map.epoch), data: Writer::encode(map) })
}

/// Metadata that a monitor reported about itself and its host.
fn mon_metadata(view: &View<'_>, name: &str) -> Map<String, Value> {
    let mut out = Map::new();
    if let Some(info) = view.state.monmap.mons.get(name) {
        out.insert("addrs".into(), addrs(&info.addrs).into());
    }
    let said = view.state.metadata.get(&EntityName::new(EntityType::MON, name));
    if said.is_none() && name == view.config.name {
        out.insert("ceph_release".into(), "pacific".into());
        let version = &view.config.build.version;
        out.insert("ceph_version".into(), crate::text::version_of(version).into());
        out.insert("ceph_version_short".into(), version.clone().into());
        out.insert("hostname".into(), view.config.hostname.clone().into());
        out.extend(view.host.iter().map(|(k, v)| (k.clone(), v.clone().into())));
    }
    out.extend(said.into_iter().flatten().map(|(k, v)| (k.clone(), v.clone().into())));
    out
}

pub fn metadata(view: &View<'_>, args: &Args) -> Outcome {
    let map = &view.state.monmap;
    match args.opt_str("id") {
        Some(id) if map.mons.contains_key(id) => structured(args, &Value::Object(mon_metadata(view, id))),
        Some(id) => missing(format!("there is no mon.{id}")),
        None => {
            let one = |name: &String| {
                let mut out = Map::new();
                out.insert("name".into(), name.clone().into());
                out.extend(mon_metadata(view, name));
                Value::Object(out)
            };
            structured(args, &map.ranks.iter().map(one).collect::<Vec<_>>().into())
        }
    }
}

pub fn feature_ls(view: &View<'_>, args: &Args) -> Outcome {
    let map = &view.state.monmap;
    let persistent = features(map.persistent_features.bits);
    let json = || {
        json!({
            "all": { "supported": FEATURES, "persistent": FEATURES },
            "monmap": { "persistent": persistent, "optional": [], "required": persistent },
        })
    };
    let plain = || {
        let (all, ours) = (FEATURES.join(","), persistent.join(","));
        format!(
            "all features\n\tsupported: [{all}]\n\tpersistent: [{all}]\non current monmap (epoch {})\n\tpersistent: [{ours}]\n\trequired: [{ours}]\n",
            map.epoch
        )
    };
    answer(args, json, plain)
}

pub fn count_metadata(view: &View<'_>, args: &Args) -> Outcome {
    let property = args.str("property");
    let value =
        |name: &String| mon_metadata(view, name).get(property).and_then(Value::as_str).map(str::to_owned);
    crate::commands::reply::count_values(args, view.state.monmap.ranks.iter().map(value))
}

pub fn node_ls(view: &View<'_>, args: &Args) -> Outcome {
    let host_of = |name: &EntityName| {
        let host = view.state.metadata.get(name).and_then(|m| m.get("hostname"));
        host.cloned().unwrap_or_else(|| "unknown".into())
    };
    let mut all: BTreeMap<&str, BTreeMap<String, Vec<Value>>> =
        ["mon", "osd", "mds", "mgr"].map(|kind| (kind, BTreeMap::new())).into();
    let mut add = |kind: &'static str, host: String, who: Value| {
        all.entry(kind).or_default().entry(host).or_default().push(who);
    };
    for name in &view.state.monmap.ranks {
        add("mon", host_of(&EntityName::new(EntityType::MON, name.clone())), name.clone().into());
    }
    for (id, _) in view.state.osdmap().existing() {
        add("osd", host_of(&EntityName::new(EntityType::OSD, id.to_string())), id.0.into());
    }
    let fsmap = &view.state.fsmap;
    let ranks = fsmap.filesystems.values().flat_map(|f| f.mds_map.mds_info.values());
    for info in ranks.chain(fsmap.standby_daemons.values()) {
        add("mds", host_of(&EntityName::new(EntityType::MDS, info.name.clone())), info.name.clone().into());
    }
    for manager in Managers::of(&view.state.kv).all() {
        add("mgr", host_of(&managers::entity(&manager.name)), manager.name.clone().into());
    }
    match args.opt_str("type").filter(|t| *t != "all") {
        Some(kind) => structured(args, &json!(all.get(kind))),
        None => {
            let order = ["mon", "osd", "mds", "mgr"];
            let out: Map<String, Value> =
                order.iter().map(|k| ((*k).to_owned(), json!(all.get(k)))).collect();
            structured(args, &Value::Object(out))
        }
    }
}

pub fn log_last(view: &View<'_>, args: &Args) -> Outcome {
    let n = args.int("num").unwrap_or(20).max(1) as usize;
    let prio = args.opt_str("level").and_then(LogLevel::parse).unwrap_or(LogLevel::Info as u16);
    let channel = args.opt_str("channel").unwrap_or("*");
    let lines = view.state.log.last(n, prio, channel);
    let json = || {
        let tag =
            |p: u16| ["[DBG]", "[INF]", "[SEC]", "[WRN]", "[ERR]"].get(usize::from(p)).copied().unwrap_or("");
        let one = |l: &&msgs::LogEntry| {
            json!({
                "name": l.name.to_string(),
                "rank": l.rank.to_string(),
                "addrs": addrvec(&l.addrs),
                "stamp": l.stamp.iso8601(),
                "seq": l.seq,
                "channel": l.channel,
                "priority": tag(l.prio),
                "message": l.msg,
            })
        };
        lines.iter().map(one).collect::<Vec<_>>().into()
    };
    let plain = || lines.iter().map(|l| format!("{}\n", format_line(l))).collect();
    answer(args, json, plain)
}
