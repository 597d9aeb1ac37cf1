//! Commands of the admin socket, also given by `ceph tell mon.NAME`.

use crate::commands::{features, features_json, monmap_json, quorum_json, status_json};
use crate::consensus::Raft;
use crate::domain::modules;
use crate::mon::Mon;
use crate::storage::Storage;
use crate::text;
use decl::perf::Groups;
use serde_json::{Value, json};
use stdx::Now;
use wire::Errno;

/// Commands of the admin socket beside those on options.
const ADMIN: &[(&str, &str)] = &[
    ("help", "Lists these commands"),
    ("mon_status", "Shows this monitor's place in the quorum"),
    ("ops", "Shows the commands that wait to be committed"),
    ("quorum_status", "Shows which monitors agree"),
    ("status", "Shows the state of the cluster"),
    ("mgr module serve", "Shows what the process of this monitor is to serve over HTTP"),
    ("version", "Prints this monitor's version"),
];

/// All commands of the admin socket.
pub(super) fn admin_commands() -> Vec<(&'static str, &'static str)> {
    ADMIN.iter().chain(decl::perf::COMMANDS).chain(decl::settings::COMMANDS).copied().collect()
}

/// True if a command in JSON is one of the admin socket. Sent to this monitor it is meant for its process,
/// even if the monitors' table has a command of the same name.
pub(super) fn is_admin_command(text: &str) -> bool {
    let parsed: serde_json::Value = serde_json::from_str(text).unwrap_or_default();
    let prefix = parsed["prefix"].as_str().unwrap_or_default();
    admin_commands().into_iter().any(|(signature, _)| decl::sig::prefix(signature) == prefix)
}

impl<S: Storage> Mon<S> {
    pub(super) fn tell_admin(&mut self, now: Now, text: &str) -> ((i32, String, Vec<u8>), u64) {
        let (code, output) = self.admin_command(now, text);
        let answer =
            if code < 0 { (code, output, Vec::new()) } else { (code, String::new(), output.into_bytes()) };
        (answer, 0)
    }

    /// Answers that wait for the log, by index.
    fn ops_json(&self) -> serde_json::Value {
        let one = |index| json!({ "description": "an answer that waits to be committed", "index": index });
        let ops: Vec<_> = self.answers.indexes().map(one).collect();
        serde_json::json!({ "num_ops": ops.len(), "ops": ops })
    }

    /// A command of the admin socket.
    pub(super) fn admin_command(&mut self, now: Now, command: &str) -> (i32, String) {
        let parsed: serde_json::Value = serde_json::from_str(command).unwrap_or_default();
        let text = |value: serde_json::Value| (0, text::pretty(&value));
        if let Some(answer) = self.settings_command(&parsed) {
            return answer.map_or_else(|(errno, why)| (errno.to_result_code(), why), text);
        }
        match parsed["prefix"].as_str().unwrap_or_default() {
            prefix if decl::perf::is_command(prefix) => {
                text(self.perf().command(prefix).unwrap_or_default().into())
            }
            "mon_status" => text(self.mon_status_json()),
            "quorum_status" => text(quorum_json(&self.view(now))),
            "status" => text(status_json(&self.view(now))),
            "version" => text(serde_json::json!({
                "version": text::version(), "release": "pacific", "release_type": "dev",
            })),
            "mgr module serve" => text(modules::to_serve(&self.view(now))),
            "ops" => text(self.ops_json()),
            "help" => text(decl::describe::local_help(&admin_commands())),
            "get_command_descriptions" => {
                (0, decl::describe::local_descriptions(&admin_commands(), "mon", false).to_string())
            }
            other => (Errno::EINVAL.to_result_code(), format!("unknown command `{other}` (try `help`)")),
        }
    }

    /// The performance counters.
    fn perf(&self) -> Groups {
        let (sessions, began, ended) = self.sessions.counts();
        let (stood, won) = self.log.raft().map(Raft::elections).unwrap_or_default();
        let mut out = Groups::default();
        out.group("mon")
            .gauge("num_sessions", sessions, "Sessions of clients and daemons")
            .count("session_add", began, "Sessions begun")
            .count("session_rm", ended, "Sessions ended")
            .count("election_call", stood, "Elections that this monitor has called")
            .count("election_win", won, "Elections that it has won");
        out
    }

    /// Runs a command on the options of this process; `None` if it is none.
    pub(super) fn settings_command(&mut self, command: &Value) -> Option<decl::settings::Outcome> {
        let own = format!("mon.{}", self.config.name);
        let central = crate::options::config_for(self.log.state(), &own);
        let config = &self.config;
        let settings = self.settings.get_or_insert_with(|| decl::Settings::new(own, config.options.clone()));
        settings.set_central(central);
        let answer = settings.command(command)?;
        self.config.options = settings.local();
        Some(answer)
    }

    /// This monitor's status, as `ping` and the admin socket show it.
    pub(super) fn mon_status_json(&self) -> Value {
        let (map, quorum) = (&self.log.state().monmap, &self.volatile.quorum);
        let name = &self.config.name;
        let state = match quorum.leader() {
            "" if self.log.is_blank() => "synchronizing",
            "" => "electing",
            leader if leader == name => "leader",
            _ => "peon",
        };
        json!({
            "name": name,
            "rank": map.rank_of(name).map_or(-1, |r| r as i64),
            "state": state,
            "election_epoch": quorum.epoch(),
            "quorum": quorum.ranks(map),
            "quorum_age": self.ticker.next().since(quorum.since()).as_secs(),
            "features": {
                "required_con": "2449958747317026820", "required_mon": features(map.persistent_features.bits),
                "quorum_con": "4540138312169291775", "quorum_mon": features(map.persistent_features.bits),
            },
            "outside_quorum": quorum.missing(map),
            "extra_probe_peers": [],
            "sync_provider": [],
            "version": self.log.state().version,
            "monmap": monmap_json(map),
            "feature_map": features_json(&self.view_now()),
            "stretch_mode": false,
        })
    }
}
