//! Commands on the admin socket, and those that come through `ceph tell`.

use crate::core::Out;
use crate::osd::Osd;
use crate::perf::Present;
use crate::pg::state::State;
use maps::PgId;
use node::{AdminId, ConnId};
use serde_json::{Value, json};
use wire::Errno;

/// Commands beside those on options: signature as `decl::sig` reads it, and what they tell.
const COMMANDS: &[(&str, &str)] = &[
    (
        "clear_shards_repaired count:int?",
        "sets how many damaged objects this OSD has replaced, to 0 where no number is given",
    ),
    (
        "deep_scrub pgid:pg",
        "compare all copies of a placement group with their data; this OSD is its primary",
    ),
    ("dump_ops_in_flight", "requests that are not answered, and what each waits for"),
    ("dump_historic_ops", "the slowest requests of the last ten minutes, and what each waited for"),
    ("dump_historic_slow_ops", "the last requests that took more than ten seconds"),
    ("dump_pgs", "all placement groups of this OSD"),
    ("dump_qos", "how fast background work may go beside clients"),
    ("exit", "end this OSD as a signal would"),
    ("help", "this list"),
    ("list_unfound pgid:pg", "objects whose newest version nobody has who answers"),
    (
        "mark_unfound_lost pgid:pg mulcmd:choice(revert|delete)",
        "give up the newest versions of such objects, or the objects",
    ),
    ("ops", "same as dump_ops_in_flight"),
    (
        "pg pgid:pg cmd:choice(query|scrub|deep_scrub|repair|list_unfound)",
        "one placement group: what it is, or what is to be done with it",
    ),
    (
        "pg pgid:pg cmd:choice(mark_unfound_lost) mulcmd:choice(revert|delete)",
        "give up the newest versions of objects that nobody has, or the objects",
    ),
    ("query pgid:pg", "one placement group"),
    ("repair pgid:pg", "as deep_scrub, and replace what is damaged"),
    ("scrub pgid:pg", "compare all copies of a placement group; this OSD is its primary"),
    ("status", "who this is and how far it is"),
    ("version", "the version of this program"),
];

fn commands() -> Vec<(&'static str, &'static str)> {
    COMMANDS.iter().chain(decl::perf::COMMANDS).chain(decl::settings::COMMANDS).copied().collect()
}

impl Osd {
    /// A command from the admin socket.
    pub(crate) fn admin(&mut self, id: AdminId, command: &str) {
        let (code, output) = match self.command(command) {
            Ok(value) => (0, serde_json::to_string_pretty(&value).unwrap_or_default()),
            Err((errno, text)) => (errno.to_result_code(), text),
        };
        self.core.push(Out::AdminReply { id, code, output });
    }

    /// A command through `ceph tell`, which only administrators may give.
    pub(crate) fn tell(&mut self, conn: ConnId, tid: u64, command: &msgs::Command) {
        let allowed = self.core.session(conn).is_some_and(|s| s.caps().is_allow_all());
        let text = command.cmd.concat();
        let answer = if allowed {
            self.command(&text)
        } else {
            Err((Errno::EPERM, "the key must allow all on OSDs (osd 'allow *')".to_owned()))
        };
        let mut reply = msgs::CommandReply::default();
        match answer {
            Ok(value) => reply.data = serde_json::to_vec_pretty(&value).unwrap_or_default().into(),
            Err((errno, text)) => (reply.r, reply.rs) = (errno.to_result_code(), text),
        }
        self.core.send(conn, tid, msgs::Body::from(reply));
    }

    fn command(&mut self, text: &str) -> Result<Value, (Errno, String)> {
        let parsed: Value = serde_json::from_str(text).unwrap_or_else(|_| json!({ "prefix": text.trim() }));
        let prefix = parsed["prefix"].as_str().unwrap_or_default();
        if let Some(answer) = self.settings_command(&parsed).or_else(|| self.perf_command(prefix).map(Ok)) {
            return answer;
        }
        match prefix {
            "status" => Ok(self.status()),
            "ops" | "dump_ops_in_flight" => {
                let ops: Vec<Value> = self.pgs.values().flat_map(|pg| pg.dump_ops(&self.core)).collect();
                Ok(json!({ "num_ops": ops.len(), "ops": ops }))
            }
            "exit" => {
                self.ask_to_end();
                Ok(json!({}))
            }
            "dump_historic_ops" => Ok(self.core.op_tracker().dump()),
            "dump_historic_slow_ops" => Ok(self.core.op_tracker().dump_slow()),
            "dump_qos" => Ok(self.core.dump_qos()),
            "dump_pgs" => Ok(self.pgs.values().map(|pg| pg.dump(&self.core)).collect()),
            "clear_shards_repaired" => {
                let count = parsed["count"].as_u64().unwrap_or_default();
                self.core.set_repaired(u32::try_from(count).unwrap_or(u32::MAX));
                Ok(json!({ "num_shards_repaired": self.core.store().repaired() }))
            }
            "scrub" | "deep_scrub" | "repair" => self.scrub_command(&parsed, prefix),
            "pg" if matches!(parsed["cmd"].as_str(), Some("scrub" | "deep_scrub" | "repair")) => {
                self.scrub_command(&parsed, parsed["cmd"].as_str().unwrap_or_default())
            }
            "query" | "pg" | "list_unfound" | "mark_unfound_lost" => self.pg_command(&parsed, prefix),
            "version" => Ok(
                json!({ "version": env!("CARGO_PKG_VERSION"), "release": "pacific", "release_type": "dev" }),
            ),
            "help" => Ok(decl::describe::local_help(&commands())),
            "get_command_descriptions" => Ok(decl::describe::local_descriptions(&commands(), "osd", false)),
            other => {
                let known: Vec<&str> = commands().into_iter().map(|(name, _)| name).collect();
                Err((Errno::EINVAL, format!("no command `{other}`; there are: {}", known.join(", "))))
            }
        }
    }

    /// A command on the performance counters; `None` if it is none. `perf dump` also tells how often each
    /// event happened.
    fn perf_command(&self, prefix: &str) -> Option<Value> {
        if !decl::perf::is_command(prefix) {
            return None;
        }
        let mut present = Present {
            peers: self.heartbeats.peers().len() as u64,
            removing: self.removals.len() as u64,
            ..Present::default()
        };
        for pg in self.pgs.values().filter(|pg| !self.removals.contains(&pg.id())) {
            present.requests += pg.requests().count() as u64;
            let count = match pg.state() {
                _ if pg.is_primary(&self.core) => &mut present.primary,
                State::Stray => &mut present.stray,
                _ => &mut present.replica,
            };
            *count += 1;
        }
        let mut told = self.core.perf_groups(&present).command(prefix)?;
        if prefix == "perf dump" {
            told.insert("events".to_owned(), json!(self.core.counters()));
        }
        Some(told.into())
    }

    fn pg_command(&mut self, parsed: &Value, prefix: &str) -> Result<Value, (Errno, String)> {
        let what = if prefix == "pg" { parsed["cmd"].as_str().unwrap_or("query") } else { prefix };
        let pgid = parsed["pgid"].as_str().and_then(PgId::parse);
        let pgid = pgid.ok_or((Errno::EINVAL, format!("{what} needs a pgid as in 1.2f")))?;
        let (pg, core) = self
            .shard_here(pgid)
            .and_then(|pgid| self.pg(pgid))
            .ok_or((Errno::ENOENT, format!("pg {pgid} is not here")))?;
        match (what, parsed["mulcmd"].as_str()) {
            ("list_unfound", _) => Ok(pg.list_unfound(core)),
            ("mark_unfound_lost", Some(how @ ("revert" | "delete"))) => {
                pg.mark_unfound_lost(core, how == "delete").map(Value::from)
            }
            ("mark_unfound_lost", _) => {
                Err((Errno::EINVAL, "mark_unfound_lost needs `revert` or `delete`".into()))
            }
            _ => Ok(pg.dump(core)),
        }
    }

    fn scrub_command(&mut self, parsed: &Value, what: &str) -> Result<Value, (Errno, String)> {
        let pgid = parsed["pgid"].as_str().and_then(PgId::parse);
        let pgid = pgid.ok_or((Errno::EINVAL, format!("{what} needs a pgid as in 1.2f")))?;
        match self.scrub_order(pgid, what != "scrub", what == "repair") {
            true => Ok(json!({ "pgid": pgid.to_string(), "ordered": what })),
            false => Err((Errno::EAGAIN, format!("this OSD is not the primary of pg {pgid}"))),
        }
    }

    fn status(&self) -> Value {
        let mut states = std::collections::BTreeMap::<String, usize>::new();
        for pg in self.pgs.values() {
            *states.entry(pg.state().to_string()).or_default() += 1;
        }
        let usage = self.core.usage();
        json!({
            "cluster_fsid": self.core.config().fsid.to_string(),
            "osd_fsid": self.core.config().uuid.to_string(),
            "whoami": self.core.id().0,
            "state": if self.core.is_up() { "active" } else if self.boot.is_running() { "booting" } else { "initializing" },
            "oldest_map": self.maps.superblock().oldest.0,
            "cluster_osdmap_trim_lower_bound": self.maps.superblock().oldest.0,
            "newest_map": self.core.epoch().0,
            "num_pgs": self.pgs.len(),
            "pg_states": states,
            "bytes_total": usage.total,
            "bytes_available": usage.available,
            "objects": usage.objects,
        })
    }
}
