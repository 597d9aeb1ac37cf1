//! Ending the sessions of clients that have a subvolume mounted.

use crate::cluster::Cluster;
use crate::failure::{Done, Failure};
use crate::outcome::Outcome;
use serde_json::{Value, json};
use wire::{EntityAddr, Errno};

/// Gives a command to the metadata server at an address.
pub type Tell<'a> = dyn Fn(EntityAddr, String) -> Outcome + 'a;

/// Evicts the clients with the key `id` whose mounted directory is `path`. Their key should have lost its
/// access before: else they come back.
pub(crate) fn run(cluster: &Cluster, tell: &Tell<'_>, fs: &str, path: &str, id: &str) -> Done<()> {
    let map = cluster.ask(&json!({ "prefix": "fs get", "fs_name": fs }))?;
    for addr in active_servers(&map["mdsmap"]) {
        let sessions = ask(tell, addr, &json!({ "prefix": "session ls" }))?;
        let sessions: Value = serde_json::from_str(&sessions)
            .map_err(|error| Failure::new(Errno::EIO, format!("the metadata server's sessions: {error}")))?;
        let filters = meant(&sessions, path, id);
        if !filters.is_empty() {
            ask(tell, addr, &json!({ "prefix": "session evict", "filters": filters }))?;
        }
    }
    Ok(())
}

fn ask(tell: &Tell<'_>, addr: EntityAddr, command: &Value) -> Done<String> {
    let Outcome { code, status, output } = tell(addr, command.to_string());
    match Errno::from_result_code(code) {
        None => Ok(output),
        Some(errno) => Err(Failure::new(errno, status)),
    }
}

/// The addresses of the servers that hold ranks.
fn active_servers(map: &Value) -> Vec<EntityAddr> {
    let servers = map["info"].as_object().into_iter().flatten().map(|(_, info)| info);
    let active = servers.filter(|info| info["state"] == "up:active");
    let addrs = active.flat_map(|info| info["addrs"]["addrvec"].as_array().into_iter().flatten());
    addrs
        .filter(|addr| addr["type"] == "v2")
        .filter_map(|addr| {
            let at = addr["addr"].as_str()?.parse().ok()?;
            Some(EntityAddr::msgr2(at, u32::try_from(addr["nonce"].as_u64()?).ok()?))
        })
        .collect()
}

/// The sessions that are to end, as the command names them.
fn meant(sessions: &Value, path: &str, id: &str) -> Vec<String> {
    let entity = format!("client.{id}");
    let is_meant =
        |session: &&Value| session["entity"] == entity && session["client_metadata"]["root"] == path;
    let all = sessions.as_array().into_iter().flatten().filter(is_meant);
    all.filter_map(|session| session["id"].as_u64()).map(|number| format!("id={number}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn those_with_the_key_and_the_directory_are_meant() {
        let session = |n: u64, id: &str, root: &str| {
            let entity = format!("client.{id}");
            json!({ "id": n, "entity": entity, "client_metadata": { "root": root } })
        };
        let all = json!([session(1, "a", "/x"), session(2, "b", "/x"), session(3, "a", "/y"), { "id": 4 }]);
        assert_eq!(meant(&all, "/x", "a"), ["id=1"]);
        assert!(meant(&json!({}), "/x", "a").is_empty());
    }

    #[test]
    fn servers_with_ranks_are_found_in_the_map() {
        let server = |state: &str| {
            let addr = json!({ "type": "v2", "addr": "10.0.0.1:6800", "nonce": 7 });
            json!({ "state": state, "addrs": { "addrvec": [addr] } })
        };
        let map = json!({ "info": { "gid_1": server("up:active"), "gid_2": server("up:standby-replay") } });
        let at = "10.0.0.1:6800".parse().expect("an address");
        assert_eq!(active_servers(&map), [EntityAddr::msgr2(at, 7)]);
        assert!(active_servers(&json!({})).is_empty());
    }
}
