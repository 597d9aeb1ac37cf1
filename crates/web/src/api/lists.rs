//! Hosts, OSDs and pools: lists that can be long.

use super::request::{facts, number};
use crate::app::App;
use crate::facts::Facts;
use crate::guard::answer;
use crate::tables::List;
use crate::usage::{HostUsage, rounded};
use crate::value::{fields, int, num, rows, text};
use axum::extract::{RawQuery, State};
use axum::response::Response;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, PoisonError};

async fn list(
    app: &App,
    query: Option<&str>,
    list: List,
    rows: fn(&Facts) -> Vec<(String, Value)>,
) -> Response {
    let facts = match facts(app).await {
        Ok(facts) => facts,
        Err(response) => return response,
    };
    let mut tables = app.tables.lock().unwrap_or_else(PoisonError::into_inner);
    answer(&tables.since(list, facts.at, number(query, "since"), || rows(&facts)))
}

pub(super) async fn osds(State(app): State<Arc<App>>, RawQuery(query): RawQuery) -> Response {
    list(&app, query.as_deref(), List::Osds, osd_rows).await
}

pub(super) async fn hosts(State(app): State<Arc<App>>, RawQuery(query): RawQuery) -> Response {
    list(&app, query.as_deref(), List::Hosts, host_rows).await
}

/// The charts of one host, or of all together.
pub(super) async fn usage(State(app): State<Arc<App>>, RawQuery(query): RawQuery) -> Response {
    let facts = match facts(&app).await {
        Ok(facts) => facts,
        Err(response) => return response,
    };
    let query = query.unwrap_or_default();
    let host = query.split('&').find_map(|pair| pair.strip_prefix("host="));
    answer(&facts.usage.chart(host.filter(|host| !host.is_empty())))
}

pub(super) async fn pools(State(app): State<Arc<App>>, RawQuery(query): RawQuery) -> Response {
    list(&app, query.as_deref(), List::Pools, pool_rows).await
}

/// A part of a whole in percent, to a tenth: what changes less is not worth telling.
fn percent(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { (part / whole * 1000.0).round() / 10.0 } else { 0.0 }
}

fn osd_rows(facts: &Facts) -> Vec<(String, Value)> {
    let (reports, hosts, classes) = (facts.osd_reports(), facts.hosts_of_osds(), facts.classes());
    let one = |osd: &Value| {
        let id = int(&osd["osd"]);
        let none = Value::Null;
        let report = reports.get(&id).copied().unwrap_or(&none);
        let said = facts.maps.osd_metadata.get(&id).unwrap_or(&none);
        let row = json!({
            "id": id, "host": hosts.get(&id), "class": classes.get(&id), "up": int(&osd["up"]) == 1,
            "in": int(&osd["in"]) == 1, "weight": osd["weight"], "pgs": int(&report["num_pgs"]),
            "bytes": int(&report["total_bytes"]),
            "used_percent": percent(num(&report["used_bytes"]), num(&report["total_bytes"])),
            "commit_ms": int(&report["commit_latency_ms"]), "slow_ops": int(&report["slow_ops"]),
            "device": text(&said["devices"]),
        });
        (id.to_string(), row)
    };
    rows(&facts.maps.osdmap["osds"]).iter().map(one).collect()
}

/// A host with what runs there.
#[derive(Default)]
struct Host {
    osds: Vec<i64>,
    others: Vec<String>,
}

fn host_rows(facts: &Facts) -> Vec<(String, Value)> {
    let maps = &facts.maps;
    let mut hosts: BTreeMap<&str, Host> = BTreeMap::new();
    for (osd, host) in facts.hosts_of_osds() {
        hosts.entry(host).or_default().osds.push(osd);
    }
    for (kind, all) in
        [("mon", &maps.mon_metadata), ("mds", &maps.mds_metadata), ("mgr", &facts.mgr_metadata)]
    {
        for (name, said) in all {
            hosts.entry(text(&said["hostname"])).or_default().others.push(format!("{kind}.{name}"));
        }
    }
    let (reports, up) = (facts.osd_reports(), up_osds(facts));
    let one = |(name, host): (&str, Host)| {
        let sum = |field: &str| -> f64 {
            host.osds.iter().filter_map(|osd| reports.get(osd)).map(|report| num(&report[field])).sum()
        };
        let said = facts.maps.osd_metadata.values().chain(maps.mon_metadata.values());
        let said = said.chain(maps.mds_metadata.values()).find(|said| text(&said["hostname"]) == name);
        let none = Value::Null;
        let said = said.unwrap_or(&none);
        let memory = text(&said["mem_total_kb"]).parse::<u64>().unwrap_or(0);
        let used = facts.usage.of_host(name);
        let pair = |of: fn(&HostUsage) -> [f64; 2]| used.map(|used| of(used).map(rounded));
        let row = json!({
            "name": name, "osds": host.osds.len(),
            "osds_up": host.osds.iter().filter(|osd| up.contains(osd)).count(),
            "daemons": host.others, "bytes": sum("total_bytes"),
            "used_percent": percent(sum("used_bytes"), sum("total_bytes")), "pgs": sum("num_pgs"),
            "cpu": text(&said["cpu"]), "memory_bytes": memory.saturating_mul(1024),
            "system": text(&said["distro_description"]),
            "cores": pair(|used| used.cores), "net_bytes_per_s": pair(|used| used.net),
            "disk_bytes_per_s": pair(|used| used.disk), "client_bytes_per_s": pair(|used| used.client),
        });
        (name.to_owned(), row)
    };
    hosts.into_iter().filter(|(name, _)| !name.is_empty()).map(one).collect()
}

fn up_osds(facts: &Facts) -> BTreeSet<i64> {
    let osds = rows(&facts.maps.osdmap["osds"]).iter();
    osds.filter(|osd| int(&osd["up"]) == 1).map(|osd| int(&osd["osd"])).collect()
}

fn by_id<'a>(list: &'a Value, id: &str) -> BTreeMap<i64, &'a Value> {
    rows(list).iter().map(|one| (int(&one[id]), one)).collect()
}

fn pool_rows(facts: &Facts) -> Vec<(String, Value)> {
    let (df, pgs) = (by_id(&facts.df["pools"], "id"), by_id(&facts.summary["pools"], "pool_id"));
    let one = |pool: &Value| {
        let id = int(&pool["pool"]);
        let none = Value::Null;
        let stats = df.get(&id).map_or(&none, |pool| &pool["stats"]);
        let uses: Vec<&String> = fields(&pool["application_metadata"]).map(|(name, _)| name).collect();
        let row = json!({
            "id": id, "name": text(&pool["pool_name"]),
            "kind": if int(&pool["type"]) == 3 { "erasure" } else { "replicated" },
            "size": int(&pool["size"]), "min_size": int(&pool["min_size"]), "pg_num": int(&pool["pg_num"]),
            "uses": uses, "stored_bytes": int(&stats["stored"]), "objects": int(&stats["objects"]),
            "max_avail_bytes": int(&stats["max_avail"]),
            "used_percent": percent(num(&stats["percent_used"]), 1.0),
            "pg_states": pgs.get(&id).map_or(&none, |pool| &pool["states"]),
        });
        (id.to_string(), row)
    };
    rows(&facts.maps.osdmap["pools"]).iter().map(one).collect()
}
