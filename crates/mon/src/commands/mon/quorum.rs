//! The quorum: who is in it, whose clocks differ, monitors added and removed.

use crate::commands::mon::json::{features, monmap_json};
use crate::commands::reply::{Outcome, answer, output, said, structured};
use crate::edit::Edit;
use crate::entry::Change;
use crate::failure::{Failure, invalid, missing};
use crate::text::{addrs, pretty};
use crate::view::View;
use decl::Args;
use maps::{MonInfo, release};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use wire::{EntityAddr, Errno};

/// Whether a quorum is left without these monitors.
pub fn ok_to_stop(view: &View<'_>, args: &Args) -> Outcome {
    let (map, stop) = (&view.state.monmap, args.list("ids"));
    if let Some(unknown) = stop.iter().find(|name| !map.mons.contains_key(*name)) {
        return missing(format!("mon.{unknown} does not exist"));
    }
    let left: Vec<&str> =
        view.quorum.names().iter().filter(|name| !stop.contains(name)).map(String::as_str).collect();
    let (left, enough, stop) = (left.join(","), left.len() > map.mons.len() / 2, stop.join(","));
    if !enough {
        let text = format!("not enough monitors would be available ({left}) after stopping mons {stop}");
        return Err(Failure::new(Errno::EBUSY, text));
    }
    said(format!("quorum should be preserved ({left}) after stopping {stop}"))
}

/// Ceph's port of monitors.
const PORT: u16 = 3300;

/// `quorum_status` in JSON.
pub fn quorum_json(view: &View<'_>) -> Value {
    let (map, quorum) = (&view.state.monmap, &view.quorum);
    json!({
        "election_epoch": quorum.epoch(),
        "quorum": quorum.ranks(map),
        "quorum_names": quorum.names(),
        "quorum_leader_name": quorum.leader(),
        "quorum_age": view.now.mono.since(quorum.since()).as_secs(),
        "features": {
            "quorum_con": "4540138312169291775",
            "quorum_mon": features(map.persistent_features.bits),
        },
        "monmap": monmap_json(map),
    })
}

pub fn quorum_status(view: &View<'_>, args: &Args) -> Outcome {
    let json = quorum_json(view);
    // Without a format the original prints one line; scripts rely on that.
    match args.format() {
        "json-pretty" => output(pretty(&json)),
        _ => output(json.to_string()),
    }
}

pub fn stat(view: &View<'_>, args: &Args) -> Outcome {
    let (map, quorum) = (&view.state.monmap, &view.quorum);
    let ranks = quorum.ranks(map);
    let json = || {
        let one = |(rank, name): (&usize, &String)| json!({ "rank": rank, "name": name });
        json!({
            "epoch": map.epoch,
            "min_mon_release_name": release::name(map.min_mon_release),
            "num_mons": map.mons.len(),
            "leader": quorum.leader(),
            "quorum": ranks.iter().zip(quorum.names()).map(one).collect::<Vec<Value>>(),
        })
    };
    let plain = || {
        let mons: Vec<_> = map.mons.values().map(|m| format!("{}={}", m.name, addrs(&m.addrs))).collect();
        let numbers: Vec<_> = ranks.iter().map(ToString::to_string).collect();
        format!(
            "e{}: {} mons at {{{}}} removed_ranks: {{}}, election epoch {}, leader {} {}, quorum {} {}\n",
            map.epoch,
            map.mons.len(),
            mons.join(","),
            quorum.epoch(),
            map.rank_of(quorum.leader()).unwrap_or_default(),
            quorum.leader(),
            numbers.join(","),
            quorum.names().join(",")
        )
    };
    answer(args, json, plain)
}

pub fn time_sync_status(view: &View<'_>, args: &Args) -> Outcome {
    let allowed: f64 = view.option("mon_clock_drift_allowed");
    let quorum = &view.quorum;
    let mut skews = Map::new();
    for name in quorum.names() {
        let clock = quorum.clocks().get(name).copied().unwrap_or_default();
        let (skew, latency) = (clock.ahead_s, clock.round_trip_s);
        let health = if skew.abs() > allowed { "HEALTH_WARN" } else { "HEALTH_OK" };
        skews.insert(name.clone(), json!({ "skew": skew, "latency": latency, "health": health }));
    }
    let timechecks = json!({ "epoch": quorum.epoch(), "round": 0, "round_status": "finished" });
    structured(
        args,
        &match view.state.monmap.mons.len() {
            // One monitor has nobody to differ from.
            1 => json!({ "timechecks": timechecks }),
            _ => json!({ "time_skew_status": skews, "timechecks": timechecks }),
        },
    )
}

/// `v2:10.0.0.4:3300/0`, the same in brackets, `10.0.0.4:3300` or `10.0.0.4`.
fn parse_addr(text: &str) -> Option<EntityAddr> {
    let bare = text.trim_start_matches('[').trim_end_matches(']');
    let socket = bare.parse::<SocketAddr>().or_else(|_| bare.parse::<IpAddr>().map(|ip| (ip, PORT).into()));
    socket.ok().map(|addr| EntityAddr::msgr2(addr, 0)).or_else(|| EntityAddr::parse(bare))
}

pub fn add(edit: &mut Edit<'_>, args: &Args, _: &[u8]) -> Outcome {
    let (name, text) = (args.str("name").to_owned(), args.str("addr"));
    let Some(addr) = parse_addr(text) else {
        return invalid(format!("`{text}` is no address: give IP:PORT, such as 10.0.0.4:{PORT}"));
    };
    let map = &edit.base.monmap;
    let same = |m: &MonInfo| m.addrs.0.iter().any(|a| a.addr == addr.addr);
    if let Some(known) = map.mons.get(&name) {
        return match same(known) {
            true => said(format!("mon.{name} at {} already exists", addrs(&known.addrs))),
            false => {
                let text = format!("mon.{name} already exists at {}: remove it first", addrs(&known.addrs));
                Err(Failure::new(Errno::EEXIST, text))
            }
        };
    }
    if let Some(other) = map.mons.values().find(|m| same(m)) {
        return Err(Failure::new(Errno::EEXIST, format!("mon.{} has the address {text}", other.name)));
    }
    let mut next = (**map).clone();
    let info = MonInfo { name: name.clone(), addrs: addr.into(), ..MonInfo::default() };
    let shown = addrs(&info.addrs);
    next.mons.insert(name.clone(), info);
    next.ranks.push(name.clone());
    next.epoch += 1;
    next.last_changed = edit.stamp();
    edit.notes.push(format!("mon.{name} at {shown} is added"));
    edit.push(Change::MonMap(Box::new(next)));
    said(format!("adding mon.{name} at {shown}; start it on an empty directory"))
}

pub fn rm(edit: &mut Edit<'_>, args: &Args, _: &[u8]) -> Outcome {
    let name = args.str("name").to_owned();
    let map = &edit.base.monmap;
    let Some(info) = map.mons.get(&name) else {
        return said(format!("mon.{name} does not exist or has already been removed"));
    };
    let shown = addrs(&info.addrs);
    if map.mons.len() == 1 {
        return invalid(format!("mon.{name} is the last monitor"));
    }
    let rest: BTreeMap<u64, String> =
        edit.base.voters.iter().filter(|(_, n)| **n != name).map(|(id, n)| (*id, n.clone())).collect();
    let alive = rest.values().filter(|n| edit.view.quorum.names().contains(n)).count();
    if alive <= rest.len() / 2 {
        let text = format!("without mon.{name} only {alive} of {} monitors would be in quorum", rest.len());
        return Err(Failure::new(Errno::EBUSY, text));
    }
    let mut next = (**map).clone();
    next.mons.remove(&name);
    next.ranks.retain(|n| *n != name);
    next.epoch += 1;
    next.last_changed = edit.stamp();
    let left = next.mons.len();
    if rest.len() < edit.base.voters.len() {
        edit.push(Change::Voters(rest));
    }
    edit.notes.push(format!("mon.{name} at {shown} is removed"));
    edit.push(Change::MonMap(Box::new(next)));
    said(format!("removing mon.{name} at {shown}, there will be {left} monitors"))
}
