//! What metadata servers say while somebody looks at file systems: their clients, and the directories that
//! have most to do and most in them. They are asked by `tell`, so it costs nobody anything at other times,
//! and say a bounded part each (`dump top`): file systems may have very many clients.

use crate::monitors::{Monitors, Refused, parsed};
use crate::value::{fields, int, num, rows, text};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::time::Duration;

/// The time for which all who ask are shown the same.
pub(crate) const TTL: Duration = Duration::from_secs(4);
/// The most clients that are shown of a file system, and of all.
const MOST_CLIENTS: (usize, usize) = (100, 500);
/// The most directories of each list that are shown of a file system, and of all.
const MOST_DIRS: (usize, usize) = (20, 200);
/// What servers are asked for.
const TOP: &str = "dump top";

/// What there is to see of all file systems at one time.
pub(crate) struct Files {
    /// Seconds since 1970 at which it was read.
    pub at: u64,
    /// By number.
    pub filesystems: Vec<FileSystem>,
}

/// What there is to see of one.
pub(crate) struct FileSystem {
    /// Its number.
    pub id: i64,
    /// Its name.
    pub name: String,
    /// The busiest clients, in that order, each with its key.
    pub clients: Vec<(String, Value)>,
    /// All of them.
    pub num_clients: usize,
    /// The largest directories.
    pub by_size: Vec<Value>,
    /// The busiest ones.
    pub by_load: Vec<Value>,
    /// False if servers have too many directories in memory for a look at all.
    pub seen_all_dirs: bool,
    /// Ranks that did not answer, and why.
    pub unanswered: Vec<Value>,
}

/// A server that holds a rank.
struct Server {
    rank: i64,
    name: String,
    addr: String,
}

/// The servers that have clients, of a file system as `fs dump` shows it.
fn servers(fs: &Value) -> Vec<Server> {
    let all = fields(&fs["mdsmap"]["info"]).map(|(_, info)| info);
    let serving = all.filter(|info| ["up:active", "up:stopping"].contains(&text(&info["state"])));
    let server = |info: &Value| Server {
        rank: int(&info["rank"]),
        name: text(&info["name"]).to_owned(),
        addr: text(&info["addr"]).to_owned(),
    };
    let mut servers: Vec<Server> = serving.map(server).collect();
    servers.sort_by_key(|server| server.rank);
    servers
}

/// The address of a server that holds a rank, by its name.
pub(crate) fn address_of(fsmap: &Value, name: &str) -> Option<String> {
    let all = rows(&fsmap["filesystems"]).iter().flat_map(servers);
    all.into_iter().find(|server| server.name == name).map(|server| server.addr)
}

impl Files {
    /// Asks all servers that hold ranks.
    pub fn read(monitors: &dyn Monitors) -> Result<Self, Refused> {
        let fsmap = monitors.ask(json!({ "prefix": "fs dump" }))?;
        let filesystems = rows(&fsmap["filesystems"]);
        let share = |(each, all): (usize, usize)| each.min(all / filesystems.len().max(1)).max(1);
        let (clients, dirs) = (share(MOST_CLIENTS), share(MOST_DIRS));
        let command = json!({ "prefix": TOP, "sessions": clients, "dirs": dirs, "format": "json" });
        let all: Vec<(&Value, Vec<Server>)> = filesystems.iter().map(|fs| (fs, servers(fs))).collect();
        let servers = all.iter().flat_map(|(_, servers)| servers);
        let commands: Vec<(String, Value)> =
            servers.map(|server| (server.addr.clone(), command.clone())).collect();
        let mut told = monitors.tell(&commands).into_iter();
        let mut read = |(fs, servers): (&Value, Vec<Server>)| {
            let answers = servers.into_iter().map(|server| {
                let none = || Err(Refused { code: -107, text: "it was not asked".to_owned() });
                let answer = told.next().unwrap_or_else(none);
                (server, answer.and_then(|output| parsed(&command, &output)))
            });
            FileSystem::of(fs, answers.collect(), (clients, dirs))
        };
        Ok(Self { at: crate::clock::now(), filesystems: all.into_iter().map(&mut read).collect() })
    }
}

impl FileSystem {
    fn of(fs: &Value, answers: Vec<(Server, Result<Value, Refused>)>, most: (usize, usize)) -> Self {
        let mut unanswered = Vec::new();
        let mut told: Vec<(Server, Value)> = Vec::new();
        for (server, answer) in answers {
            match answer {
                Ok(answer) => told.push((server, answer)),
                Err(why) => unanswered.push(json!({ "rank": server.rank, "why": why.to_string() })),
            }
        }
        let (id, name) = (int(&fs["id"]), text(&fs["mdsmap"]["fs_name"]).to_owned());
        let (clients, num_clients) = clients(id, &told, most.0);
        Self {
            id,
            name,
            clients,
            num_clients,
            by_size: dirs(&told, "dirs_by_size", "rbytes", most.1),
            by_load: dirs(&told, "dirs_by_load", "pop_auth_subtree", most.1),
            seen_all_dirs: told.iter().all(|(_, answer)| answer["seen_all_dirs"] != false),
            unanswered,
        }
    }
}

/// The busiest clients of a file system, and how many there are: a client that no list has room for is known
/// by its number only.
fn clients(fs: i64, told: &[(Server, Value)], most: usize) -> (Vec<(String, Value)>, usize) {
    let mut known: BTreeMap<i64, Client<'_>> = BTreeMap::new();
    for (server, answer) in told {
        for session in rows(&answer["sessions"]) {
            known.entry(int(&session["id"])).or_default().sessions.push((server, session));
        }
    }
    let most_of_a_rank = told.iter().map(|(_, answer)| int(&answer["num_sessions"])).max().unwrap_or(0);
    let all = known.len().max(usize::try_from(most_of_a_rank).unwrap_or(0));
    let mut rows: Vec<(f64, i64, i64, Value)> = known
        .iter()
        .map(|(id, client)| (client.sum("request_load_avg"), client.caps(), *id, client.row(fs, *id)))
        .collect();
    rows.sort_by(|a, b| b.0.total_cmp(&a.0).then(b.1.cmp(&a.1)).then(a.2.cmp(&b.2)));
    rows.truncate(most);
    (rows.into_iter().map(|(_, _, id, row)| (format!("{fs}/{id}"), row)).collect(), all)
}

/// A client's sessions, one with each rank.
#[derive(Default)]
struct Client<'a> {
    sessions: Vec<(&'a Server, &'a Value)>,
}

impl Client<'_> {
    fn sum(&self, field: &str) -> f64 {
        self.sessions.iter().map(|(_, session)| num(&session[field])).sum()
    }

    fn caps(&self) -> i64 {
        self.sessions.iter().map(|(_, session)| int(&session["num_caps"])).sum()
    }

    fn row(&self, fs: i64, id: i64) -> Value {
        let Some((server, session)) = self.sessions.first() else { return Value::Null };
        let said = &session["client_metadata"];
        let addr = text(&session["addrs"][0]);
        let unusual = self.sessions.iter().find(|(_, session)| text(&session["state"]) != "open");
        json!({
            "filesystem": fs, "id": id, "name": session["entity"], "host": text(&said["hostname"]),
            "addr": plain(addr), "mount_point": text(&said["mount_point"]),
            "root": text(&said["root"]), "kind": kind(said), "caps": self.caps(),
            "requests_per_s": (self.sum("request_load_avg") * 10.0).round() / 10.0,
            "ranks": self.sessions.iter().map(|(server, _)| server.rank).collect::<Vec<_>>(),
            "state": unusual.map_or("open", |(_, session)| text(&session["state"])),
            "server": server.name,
        })
    }
}

/// An address without its kind: `10.0.0.1:0/7`, as blocklists show it.
fn plain(addr: &str) -> &str {
    let kinds = ["v2:", "v1:", "any:"];
    kinds.iter().find_map(|kind| addr.strip_prefix(kind)).unwrap_or(addr)
}

/// The program that a client is, and its version.
fn kind(said: &Value) -> String {
    let kernel = text(&said["kernel_version"]);
    if !kernel.is_empty() {
        return format!("Linux {kernel}");
    }
    // `ceph version 18.2.2 (…) reef (stable)`
    let mut words = text(&said["ceph_version"]).split(' ');
    let name = words.next().unwrap_or_default();
    [name, words.nth(1).unwrap_or_default()].join(" ").trim_end().to_owned()
}

/// The directories that are first by a field. Those with parts at several ranks are added up.
fn dirs(told: &[(Server, Value)], list: &str, by: &str, most: usize) -> Vec<Value> {
    let mut known: BTreeMap<&str, Value> = BTreeMap::new();
    for (server, answer) in told {
        for dir in rows(&answer[list]) {
            let sum = known.entry(text(&dir["path"])).or_insert_with(|| json!({ "ranks": [] }));
            for (field, value) in fields(dir).filter(|(_, value)| value.is_number()) {
                sum[field] = match (sum[field].as_i64(), value.as_i64()) {
                    (None, _) if sum[field].is_null() => value.clone(),
                    (Some(a), Some(b)) => a.saturating_add(b).into(),
                    _ => (num(&sum[field]) + num(value)).into(),
                };
            }
            if let Some(ranks) = sum["ranks"].as_array_mut() {
                ranks.push(server.rank.into());
            }
        }
    }
    let mut all: Vec<(&str, Value)> = known.into_iter().collect();
    all.sort_by(|(_, a), (_, b)| num(&b[by]).total_cmp(&num(&a[by])));
    let named = |(path, mut dir): (&str, Value)| {
        dir["path"] = path.into();
        dir
    };
    all.into_iter().take(most).map(named).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server(rank: i64) -> Server {
        Server { rank, name: format!("s{rank}"), addr: String::new() }
    }

    fn session(id: i64, load: f64, said: &Value) -> Value {
        json!({
            "id": id, "state": "open", "num_caps": 5, "request_load_avg": load, "entity": "client.a",
            "addrs": ["v2:10.0.0.9:0/77"], "client_metadata": said,
        })
    }

    #[test]
    fn a_client_of_several_ranks_is_one_and_those_that_are_left_out_count() {
        let linux = json!({ "hostname": "h", "root": "/d", "kernel_version": "6.8.0" });
        let fuse = json!({ "ceph_version": "ceph version 18.2.2 (abc) reef (stable)", "mount_point": "/m" });
        let told = [
            (server(0), json!({ "num_sessions": 12, "sessions": [session(1, 2.0, &linux)] })),
            (
                server(1),
                json!({ "num_sessions": 2, "sessions": [session(2, 2.5, &fuse), session(1, 1.25, &linux)] }),
            ),
        ];
        let (shown, all) = clients(3, &told, 100);
        assert_eq!((shown.len(), all), (2, 12));
        let (key, first) = &shown[0];
        assert_eq!(
            (key.as_str(), &first["requests_per_s"], &first["caps"]),
            ("3/1", &json!(3.3), &json!(10))
        );
        assert_eq!((&first["ranks"], &first["kind"]), (&json!([0, 1]), &json!("Linux 6.8.0")));
        assert_eq!((&first["addr"], &first["server"]), (&json!("10.0.0.9:0/77"), &json!("s0")));
        assert_eq!((&shown[1].1["kind"], &shown[1].1["mount_point"]), (&json!("ceph 18.2.2"), &json!("/m")));
        assert_eq!(clients(3, &told, 1).0.len(), 1);
        assert_eq!(kind(&json!({ "ceph_version": "odd" })), "odd");
        assert_eq!(kind(&Value::Null), "");
        let addrs = ["any:10.0.0.1:0/7", "v2:[::1]:0/7", "[::1]:0/7"].map(plain);
        assert_eq!(addrs, ["10.0.0.1:0/7", "[::1]:0/7", "[::1]:0/7"]);
    }

    #[test]
    fn directories_are_added_up_over_ranks_and_cut() {
        let dir = |path: &str, load: f64| json!({ "path": path, "pop_auth_subtree": load, "pop_me": 1 });
        let told = [
            (server(0), json!({ "l": [dir("/", 3.0), dir("/a", 2.0)] })),
            (server(1), json!({ "l": [dir("/a", 1.5)] })),
        ];
        let all = dirs(&told, "l", "pop_auth_subtree", 1);
        assert_eq!(all, [json!({ "path": "/a", "pop_auth_subtree": 3.5, "pop_me": 2, "ranks": [0, 1] })]);
    }

    #[test]
    fn a_server_is_found_by_its_name() {
        let info = |name: &str, state: &str| json!({ "name": name, "state": state, "addr": "10.0.0.1:1/2" });
        let map = json!({ "info": { "gid_1": info("a", "up:active"), "gid_2": info("b", "up:replay") } });
        let fsmap = json!({ "filesystems": [{ "id": 1, "mdsmap": map }] });
        assert_eq!(address_of(&fsmap, "a").as_deref(), Some("10.0.0.1:1/2"));
        assert_eq!((address_of(&fsmap, "b"), address_of(&Value::Null, "a")), (None, None));
    }
}
