//! Answers that are short in every cluster.

use super::request::facts;
use crate::app::App;
use crate::facts::Facts;
use crate::guard::answer;
use crate::pages;
use crate::value::{fields, int, num, rows, text};
use axum::extract::{RawQuery, State};
use axum::http::header;
use axum::response::{IntoResponse, Response};
use decl::Code;
use serde_json::{Value, json};
use std::sync::Arc;

macro_rules! answered {
    ($($(#[$doc:meta])* $name:ident = $of:ident;)*) => { $(
        $(#[$doc])*
        pub(super) async fn $name(State(app): State<Arc<App>>) -> Response {
            match facts(&app).await {
                Ok(facts) => answer(&$of(&facts)),
                Err(response) => response,
            }
        }
    )* };
}

answered! {
    summary = summary_of;
    health = health_of;
    pgs = pgs_of;
    filesystems = filesystems_of;
    monitors = monitors_of;
}

pub(super) async fn openapi() -> Response {
    ([(header::CONTENT_TYPE, "application/json")], pages::OPENAPI).into_response()
}

/// Objects that are not where they should be, how fast they get there and when that will be done.
fn recovery_of(facts: &Facts) -> Value {
    let pools = rows(&facts.summary["pools"]);
    let sum = |name: &str| pools.iter().map(|pool| num(&pool[name])).sum::<f64>();
    let (degraded, misplaced) = (sum("num_objects_degraded"), sum("num_objects_misplaced"));
    let rate = num(&facts.status["pgmap"]["recovering_objects_per_sec"]);
    let left = (rate > 0.0).then(|| ((degraded + misplaced) / rate).ceil());
    json!({
        "degraded": degraded, "misplaced": misplaced, "unfound": sum("num_objects_unfound"),
        "copies": sum("num_object_copies"), "objects_per_s": rate,
        "bytes_per_s": num(&facts.status["pgmap"]["recovering_bytes_per_sec"]), "seconds_left": left,
    })
}

fn summary_of(facts: &Facts) -> Value {
    let (status, df) = (&facts.status, &facts.df["stats"]);
    let samples: Vec<Value> = facts
        .samples
        .iter()
        .map(|s| {
            json!([
                s.at,
                s.bytes[0],
                s.bytes[1],
                s.bytes[2],
                s.ops[0],
                s.ops[1],
                s.commit_ms[0],
                s.commit_ms[1],
                s.commit_ms[2]
            ])
        })
        .collect();
    let skip = samples.len().saturating_sub(120);
    json!({
        "fsid": status["fsid"], "at": facts.at, "health": facts.health["status"],
        "checks": facts.health["checks"].as_object().map_or(0, serde_json::Map::len),
        "mons": { "in_quorum": rows(&status["quorum_names"]).len(), "all": status["monmap"]["num_mons"] },
        "osds": {
            "all": status["osdmap"]["num_osds"], "up": status["osdmap"]["num_up_osds"],
            "in": status["osdmap"]["num_in_osds"],
        },
        "flags": facts.flags(), "pools": status["pgmap"]["num_pools"], "pgs": status["pgmap"]["num_pgs"],
        "pgs_by_state": status["pgmap"]["pgs_by_state"], "objects": status["pgmap"]["num_objects"],
        "stored_bytes": status["pgmap"]["data_bytes"], "total_bytes": df["total_bytes"],
        "used_bytes": df["total_used_raw_bytes"], "recovery": recovery_of(facts),
        "sample_fields": [
            "at", "read_bytes", "write_bytes", "recovery_bytes", "read_ops", "write_ops", "commit_ms_p50",
            "commit_ms_p99", "commit_ms_max",
        ],
        "samples": samples[skip..],
    })
}

fn health_of(facts: &Facts) -> Value {
    let one = |(code, check): (&String, &Value)| {
        let known = Code::ALL.iter().find(|known| known.name() == code);
        let detail: Vec<&str> = rows(&check["detail"]).iter().map(|line| text(&line["message"])).collect();
        json!({
            "code": code, "severity": check["severity"], "summary": check["summary"]["message"],
            "count": check["summary"]["count"], "muted": check["muted"], "cause": detail,
            "effect": known.map(|code| code.effect()), "to_do": known.map(|code| code.advice()),
        })
    };
    let checks: Vec<Value> = fields(&facts.health["checks"]).map(one).collect();
    json!({ "status": facts.health["status"], "checks": checks, "mutes": facts.health["mutes"] })
}

fn pgs_of(facts: &Facts) -> Value {
    json!({
        "by_state": facts.status["pgmap"]["pgs_by_state"], "pools": facts.summary["pools"],
        "recovery": recovery_of(facts),
    })
}

fn filesystems_of(facts: &Facts) -> Value {
    let maps = &facts.maps;
    let server = |info: &Value| {
        let said = maps.mds_metadata.get(text(&info["name"]));
        json!({
            "name": info["name"], "rank": info["rank"], "state": info["state"],
            "host": said.map(|said| &said["hostname"]), "addr": info["addr"],
        })
    };
    let pools = rows(&maps.osdmap["pools"]);
    let pool = |id: &Value| {
        let found = pools.iter().find(|pool| pool["pool"] == *id);
        found.map_or_else(String::new, |pool| text(&pool["pool_name"]).to_owned())
    };
    let one = |fs: &Value| {
        let map = &fs["mdsmap"];
        let mut servers: Vec<Value> = fields(&map["info"]).map(|(_, info)| server(info)).collect();
        servers.sort_by_key(|server| (int(&server["rank"]), text(&server["name"]).to_owned()));
        json!({
            "id": fs["id"], "name": map["fs_name"], "max_mds": map["max_mds"], "servers": servers,
            "failed": map["failed"], "damaged": map["damaged"], "metadata_pool": pool(&map["metadata_pool"]),
            "data_pools": rows(&map["data_pools"]).iter().map(pool).collect::<Vec<_>>(),
        })
    };
    json!({
        "filesystems": rows(&maps.fsmap["filesystems"]).iter().map(one).collect::<Vec<_>>(),
        "standbys": rows(&maps.fsmap["standbys"]).iter().map(server).collect::<Vec<_>>(),
    })
}

fn monitors_of(facts: &Facts) -> Value {
    let quorum: Vec<&str> = rows(&facts.quorum["quorum_names"]).iter().map(text).collect();
    let leader = text(&facts.quorum["quorum_leader_name"]);
    let one = |mon: &Value| {
        let name = text(&mon["name"]);
        let said = facts.maps.mon_metadata.get(name);
        json!({
            "name": name, "rank": mon["rank"], "addr": mon["public_addr"],
            "in_quorum": quorum.contains(&name),
            "leads": name == leader, "host": said.map(|said| &said["hostname"]),
            "version": said.map(|said| &said["ceph_version"]),
        })
    };
    let standbys = rows(&facts.mgrmap["standbys"]).iter().map(|standby| &standby["name"]);
    json!({
        "monitors": rows(&facts.maps.monmap["mons"]).iter().map(one).collect::<Vec<_>>(),
        "managers": { "active": facts.mgrmap["active_name"], "standbys": standbys.collect::<Vec<_>>() },
    })
}

fn log_lines(facts: &Facts) -> Vec<Value> {
    let one = |line: &Value| {
        let who = text(&line["name"]);
        let key = format!("{}/{who}/{}", text(&line["stamp"]), int(&line["seq"]));
        json!({
            "key": key, "at": line["stamp"], "who": who, "priority": line["priority"],
            "text": line["message"],
        })
    };
    rows(&facts.log).iter().map(one).collect()
}

/// The last lines of the cluster log, or those behind the one with the key `after`.
pub(super) async fn log(State(app): State<Arc<App>>, RawQuery(query): RawQuery) -> Response {
    let facts = match facts(&app).await {
        Ok(facts) => facts,
        Err(response) => return response,
    };
    let query = query.unwrap_or_default();
    let after = query.split('&').find_map(|pair| pair.strip_prefix("after="));
    let mut lines = log_lines(&facts);
    // Compared without the characters that a browser writes in another way.
    let plain = |text: &str| text.chars().filter(char::is_ascii_alphanumeric).collect::<String>();
    let after = after.map(|after| plain(&after.replace("%3A", "").replace("%2F", "").replace("%2B", "")));
    let seen = after.and_then(|after| lines.iter().position(|line| plain(text(&line["key"])) == after));
    if let Some(seen) = seen {
        lines.drain(..=seen);
    }
    answer(&json!({ "lines": lines }))
}
