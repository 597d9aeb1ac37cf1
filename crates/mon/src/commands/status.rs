//! `ceph status`: the state of the cluster on one page.

use crate::commands::reply::{Outcome, answer};
use crate::domain::managers::Managers;
use crate::domain::mds_ranks::followers;
use crate::domain::modules;
use crate::health::Health;
use crate::text::{age, bytes, count, percent};
use crate::view::View;
use decl::Args;
use maps::{Fscid, MdsState};
use serde_json::{Value, json};

pub fn status(view: &View<'_>, args: &Args) -> Outcome {
    answer(args, || status_json(view), || status_text(view))
}

struct Numbers {
    osds: usize,
    up: usize,
    r#in: usize,
    remapped: usize,
    pools: usize,
    pgs: usize,
    objects: i64,
    data: i64,
    total: u64,
    avail: u64,
}

fn numbers(view: &View<'_>) -> Numbers {
    let (map, pgs) = (view.state.osdmap(), &view.pgs);
    let (sum, space) = (pgs.total(), pgs.space(map));
    Numbers {
        osds: map.existing().count(),
        up: map.existing().filter(|(_, o)| o.is_up()).count(),
        r#in: map.existing().filter(|(_, o)| o.is_in()).count(),
        remapped: pgs.pgs().values().filter(|s| s.state & peer::pg_state::REMAPPED != 0).count(),
        pools: map.pools.len(),
        pgs: map.pools.values().map(|p| p.pg_num as usize).sum(),
        objects: sum.num_objects,
        data: sum.num_bytes,
        total: space.total,
        avail: space.available,
    }
}

/// `ceph status -f json`.
pub fn status_json(view: &View<'_>) -> Value {
    let (state, n) = (view.state, numbers(view));
    let map = state.osdmap();
    let managers = Managers::of(&state.kv).map();
    json!({
        "fsid": state.monmap.fsid.to_string(),
        "health": Health::of(view).json(false),
        "election_epoch": view.quorum.epoch(),
        "quorum": view.quorum.ranks(&state.monmap),
        "quorum_names": view.quorum.names(),
        "quorum_age": view.now.mono.since(view.quorum.since()).as_secs(),
        "monmap": {
            "epoch": state.monmap.epoch,
            "min_mon_release_name": maps::release::name(state.monmap.min_mon_release),
            "num_mons": state.monmap.mons.len(),
        },
        "osdmap": {
            "epoch": map.epoch.0,
            "num_osds": n.osds,
            "num_up_osds": n.up,
            "osd_up_since": map.last_up_change.sec,
            "num_in_osds": n.r#in,
            "osd_in_since": map.last_in_change.sec,
            "num_remapped_pgs": n.remapped,
        },
        "pgmap": pgmap_json(view, &n),
        "fsmap": fsmap_json(view),
        "mgrmap": {
            "available": managers.available, "num_standbys": managers.standbys.len(),
            "modules": modules::enabled(&state.kv),
            "services": modules::services(view),
        },
        "servicemap": { "epoch": 0, "modified": "0.000000", "services": {} },
        "progress_events": {},
    })
}

fn pgmap_json(view: &View<'_>, n: &Numbers) -> Value {
    let pgs = &view.pgs;
    let states = pgs.by_state(view.state.osdmap());
    let states: Vec<Value> = states.iter().map(|(s, c)| json!({ "state_name": s, "count": c })).collect();
    let mut out = json!({
        "pgs_by_state": states,
        "num_pgs": n.pgs,
        "num_pools": n.pools,
        "num_objects": n.objects,
        "data_bytes": n.data,
        "bytes_used": n.total - n.avail.min(n.total),
        "bytes_avail": n.avail,
        "bytes_total": n.total,
    });
    let sum = pgs.total();
    if sum.num_objects_degraded > 0 {
        out["degraded_objects"] = sum.num_objects_degraded.into();
        out["degraded_total"] = sum.num_object_copies.into();
        out["degraded_ratio"] =
            (sum.num_objects_degraded as f64 / sum.num_object_copies.max(1) as f64).into();
    }
    let rates = pgs.rates(view.now.mono);
    let fields = [
        ("read_bytes_sec", rates.read_bytes),
        ("write_bytes_sec", rates.write_bytes),
        ("read_op_per_sec", rates.read_ops),
        ("write_op_per_sec", rates.write_ops),
        ("recovering_bytes_per_sec", rates.recover_bytes),
        ("recovering_objects_per_sec", rates.recover_objects),
    ];
    for (name, value) in fields.into_iter().filter(|(_, v)| *v > 0) {
        out[name] = value.into();
    }
    out
}

fn fsmap_json(view: &View<'_>) -> Value {
    let fsmap = &view.state.fsmap;
    let mut ranks = Vec::new();
    for (id, fs) in &fsmap.filesystems {
        for (rank, gid) in &fs.mds_map.up {
            let Some(info) = fs.mds_map.mds_info.get(gid) else { continue };
            ranks.push(json!({
                "filesystem_id": id.0, "rank": rank.0,
                "name": info.name, "status": info.state.name(), "gid": gid.0,
            }));
        }
    }
    let mut out = json!({ "epoch": fsmap.epoch.0 });
    if let Some((id, fs)) = fsmap.filesystems.first_key_value() {
        out["id"] = id.0.into();
        out["up"] = fs.mds_map.up.len().into();
        out["in"] = fs.mds_map.r#in.len().into();
        out["max"] = fs.mds_map.max_mds.into();
    }
    out["by_rank"] = ranks.into();
    out["up:standby"] = fsmap.standby_daemons.len().into();
    let following: usize = fsmap.filesystems.values().map(|f| followers(&f.mds_map).count()).sum();
    if following > 0 {
        out["up:standby-replay"] = following.into();
    }
    out
}

fn status_text(view: &View<'_>) -> String {
    let (state, n) = (view.state, numbers(view));
    let map = state.osdmap();
    let health = Health::of(view);
    let now = view.now.wall.split().0;
    let since = |stamp: wire::Utime| age(now.saturating_sub(u64::from(stamp.sec)));
    let mut out =
        format!("  cluster:\n    id:     {}\n    health: {}\n", state.monmap.fsid, health.status_line());
    for c in health.heard() {
        out.push_str(&format!("            {}\n", c.summary));
    }
    let quorum = &view.quorum;
    let missing = quorum.missing(&state.monmap);
    let missing =
        if missing.is_empty() { String::new() } else { format!(", out of quorum: {}", missing.join(", ")) };
    out.push_str(&format!(
        " \n  services:\n    mon: {} daemons, quorum {} (age {}){missing}\n    mgr: {}\n",
        state.monmap.mons.len(),
        quorum.names().join(","),
        age(view.now.mono.since(quorum.since()).as_secs()),
        mgr_line(view, now)
    ));
    if !state.fsmap.filesystems.is_empty() || !state.fsmap.standby_daemons.is_empty() {
        out.push_str(&format!("    mds: {}\n", mds_line(view)));
    }
    let up_since = if n.up > 0 { format!(" (since {})", since(map.last_up_change)) } else { String::new() };
    let in_since = if n.r#in > 0 { format!(" (since {})", since(map.last_in_change)) } else { String::new() };
    let remapped = if n.remapped > 0 { format!("; {} remapped pgs", n.remapped) } else { String::new() };
    out.push_str(&format!(
        "    osd: {} osds: {} up{up_since}, {} in{in_since}{remapped}\n",
        n.osds, n.up, n.r#in
    ));
    data_text(view, &n, &mut out);
    out.push_str(" \n");
    out
}

fn mgr_line(view: &View<'_>, now: u64) -> String {
    let managers = Managers::of(&view.state.kv);
    let since = age(now.saturating_sub(u64::from(managers.active_change.sec)));
    let standbys: Vec<&str> = managers.standbys.iter().map(|m| m.name.as_str()).collect();
    let standbys = match standbys.is_empty() {
        true => String::new(),
        false => format!(", standbys: {}", standbys.join(", ")),
    };
    match managers.active() {
        Some(active) => format!("{}(active, since {since}){standbys}", active.name),
        None if managers.active_change == wire::Utime::default() => "not needed".to_owned(),
        None => format!("no daemons active (since {since})"),
    }
}

fn mds_line(view: &View<'_>) -> String {
    let fsmap = &view.state.fsmap;
    let up: usize = fsmap.filesystems.values().map(|f| f.mds_map.up.len()).sum();
    let want: i32 = fsmap.filesystems.values().map(|f| f.mds_map.max_mds).sum();
    let standby = match fsmap.standby_daemons.len() {
        0 => String::new(),
        n => format!(", {n} standby"),
    };
    let following: usize = fsmap.filesystems.values().map(|f| followers(&f.mds_map).count()).sum();
    let hot = if following > 0 { format!(", {following} hot standby") } else { String::new() };
    format!("{up}/{want} daemons up{standby}{hot}")
}

/// True if every rank of a file system is active.
fn is_healthy(view: &View<'_>, id: Fscid) -> bool {
    view.state.fsmap.filesystems.get(&id).is_some_and(|f| {
        let m = &f.mds_map;
        m.failed.is_empty()
            && m.damaged.is_empty()
            && !m.up.is_empty()
            && m.up.keys().all(|r| m.state_of(*r) == MdsState::ACTIVE)
    })
}

fn data_text(view: &View<'_>, n: &Numbers, out: &mut String) {
    out.push_str(" \n  data:\n");
    let filesystems = &view.state.fsmap.filesystems;
    if !filesystems.is_empty() {
        let healthy = filesystems.keys().filter(|id| is_healthy(view, **id)).count();
        out.push_str(&format!("    volumes: {healthy}/{} healthy\n", filesystems.len()));
    }
    out.push_str(&format!(
        "    pools:   {} pools, {} pgs\n    objects: {} objects, {}\n    usage:   {} used, {} / {} avail\n",
        n.pools,
        n.pgs,
        count(n.objects.max(0) as u64),
        bytes(n.data.max(0) as u64),
        bytes(n.total - n.avail.min(n.total)),
        bytes(n.avail),
        bytes(n.total)
    ));
    let states = view.pgs.by_state(view.state.osdmap());
    let mut lines = Vec::new();
    let unknown = states.iter().find(|(s, _)| s == "unknown").map_or(0, |(_, c)| *c);
    let inactive = view.pgs.pgs().values().filter(|s| s.state & peer::pg_state::ACTIVE == 0).count();
    for (bad, what) in [(unknown, "pgs unknown"), (inactive, "pgs not active")] {
        if bad > 0 {
            lines.push(format!("{:.3}% {what}", percent(bad as f64, n.pgs as f64)));
        }
    }
    let sum = view.pgs.total();
    for (bad, what) in [(sum.num_objects_degraded, "degraded"), (sum.num_objects_misplaced, "misplaced")] {
        if bad > 0 {
            let share = percent(bad as f64, sum.num_object_copies as f64);
            lines.push(format!("{bad}/{} objects {what} ({share:.3}%)", sum.num_object_copies));
        }
    }
    let width = states.iter().map(|(_, c)| c.to_string().len()).max().unwrap_or(0);
    lines.extend(states.iter().map(|(s, c)| format!("{c:<width$} {s}")));
    for (i, line) in lines.iter().enumerate() {
        let head = if i == 0 { "    pgs:     " } else { "             " };
        out.push_str(&format!("{head}{line}\n"));
    }
    if lines.is_empty() {
        out.push_str("    pgs:     \n");
    }
    io_text(view, out);
}

fn io_text(view: &View<'_>, out: &mut String) {
    let r = view.pgs.rates(view.now.mono);
    let mut client = Vec::new();
    if r.read_bytes > 0 || r.read_ops > 0 {
        client.push(format!("{}/s rd", bytes(r.read_bytes)));
    }
    if r.write_bytes > 0 || r.write_ops > 0 {
        client.push(format!("{}/s wr", bytes(r.write_bytes)));
    }
    if client.is_empty() && r.recover_bytes == 0 {
        return;
    }
    out.push_str(" \n  io:\n");
    if !client.is_empty() {
        client.push(format!("{} op/s rd", count(r.read_ops)));
        client.push(format!("{} op/s wr", count(r.write_ops)));
        out.push_str(&format!("    client:   {}\n", client.join(", ")));
    }
    if r.recover_bytes > 0 {
        out.push_str(&format!(
            "    recovery: {}/s, {} objects/s\n",
            bytes(r.recover_bytes),
            count(r.recover_objects)
        ));
    }
}
