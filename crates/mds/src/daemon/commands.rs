//! Commands of `ceph tell mds.NAME` and of the admin socket.

use super::asker::Asker;
use super::{Mds, Out};
use crate::config::MdsOptions;
use crate::rank::{Rank, ScrubOptions, Stage};
use decl::perf::Groups;
use fsfmt::Ino;
use maps::MdsRank;
use node::ConnId;
use std::collections::BTreeMap;
use wire::Errno;

/// Commands other than those on options: signature as `decl::sig` reads it, and help.
const COMMANDS: &[(&str, &str)] = &[
    ("cache status", "memory that the cache takes, and its limit"),
    ("client evict filters:str*", "end the sessions of clients, and have OSDs refuse them (id=N, or id=*)"),
    ("client ls", "same as session ls"),
    ("damage ls", "what was found damaged in the stored metadata; operations on it fail with EIO"),
    ("damage rm damage_id:int", "forget a damaged item: it is read again when it is next needed"),
    ("dirfrag ls path:str", "the fragments of a cached directory"),
    ("dirfrag merge path:str frag:str", "join all parts of a fragment (0/0: of the directory)"),
    ("dirfrag split path:str frag:str bits:int", "split a fragment into 2^bits parts"),
    ("dump inode number:int", "a cached inode: its path, who holds what of it, and what is being revoked"),
    ("dump loads", "how much is done in which directories, and what each rank has to do"),
    (
        "dump top sessions:int? dirs:int?",
        "the clients that ask most (100), and the directories with most load and most bytes (20 each)",
    ),
    ("dump_ops_in_flight", "requests that are not answered, and what each waits for"),
    (
        "export dir path:str rank:int frag:str?",
        "hand a directory, or a fragment of it, with what is below it over to another rank",
    ),
    ("flush journal", "write back everything that is journaled so far, and wait for it"),
    ("get subtrees", "which rank has the authority over which directories"),
    ("help", "this list"),
    ("ops", "same as dump_ops_in_flight"),
    (
        "replicate dir path:str",
        "have the other ranks answer for a directory that many read, until it changes",
    ),
    ("scrub abort", "end all scrubs"),
    ("scrub pause", "stop scrubs after their present step"),
    ("scrub resume", "let paused scrubs go on"),
    ("scrub start path:str scrubops:str*", "compare what is stored below a path (recursive, repair, force)"),
    ("scrub status", "scrubs that are under way, and how the last one ended"),
    ("session evict filters:str*", "same as client evict"),
    ("session ls", "clients"),
    ("status", "who this is and how far it is"),
    ("version", "the version of this program"),
];

fn commands() -> Vec<(&'static str, &'static str)> {
    COMMANDS.iter().chain(decl::perf::COMMANDS).chain(decl::settings::COMMANDS).copied().collect()
}

impl Mds {
    /// Runs a command of `ceph tell`, which only administrators may send.
    pub(super) fn tell(&mut self, conn: ConnId, tid: u64, command: &msgs::Command, out: &mut Out) {
        let asker = Asker::Tell(conn, tid);
        if self.administrators.contains(&conn) {
            return self.command(asker, &command.cmd.concat(), out);
        }
        let why = "the key must allow all on metadata servers (mds 'allow *')".to_owned();
        asker.answer((Errno::EPERM.to_result_code(), why), out);
    }

    /// Runs a command and answers it, perhaps later.
    pub(super) fn command(&mut self, asker: Asker, command: &str, out: &mut Out) {
        let json: serde_json::Value = serde_json::from_str(command).unwrap_or_default();
        if json["prefix"] != "flush journal" {
            return asker.answer(self.run_command(&json), out);
        }
        match self.active_rank() {
            Ok(rank) => {
                rank.flush_journal();
                self.flushes.push(asker);
            }
            Err(refusal) => asker.answer(refusal, out),
        }
    }

    /// The rank, if it serves clients, or what a command that needs it is answered.
    pub(super) fn active_rank(&mut self) -> Result<&mut Rank, (i32, String)> {
        let active = self.rank.as_mut().filter(|rank| rank.stage() == Stage::Active);
        active.ok_or_else(|| (Errno::EAGAIN.to_result_code(), "this server is not active".to_owned()))
    }

    /// Answers those who wait for a flush that has ended.
    pub(super) fn answer_flushes(&mut self, out: &mut Out) {
        if self.flushes.is_empty() || !self.rank.as_ref().is_some_and(Rank::is_flushed) {
            return;
        }
        let done = serde_json::json!({ "message": "", "return_code": 0 }).to_string();
        self.flushes.drain(..).for_each(|asker| asker.answer((0, done.clone()), out));
    }

    /// Applies options that may change while it runs.
    pub(super) fn apply_settings(&mut self) {
        let ours = decl::options::ALL.iter().filter(|o| o.runtime && o.name.starts_with("mds_"));
        let set =
            ours.filter_map(|o| Some((o.name.to_owned(), self.settings.set_value(o.name)?.0.to_owned())));
        let set: BTreeMap<String, String> = set.collect();
        let limits = match set.is_empty() {
            true => self.first_options.clone(),
            false => MdsOptions::from_values(&set),
        };
        self.config.options.take_limits(&limits);
        if let Some(rank) = &mut self.rank {
            rank.set_limits(&limits);
        }
    }

    fn run_command(&mut self, json: &serde_json::Value) -> (i32, String) {
        let text = |value: serde_json::Value| (0, value.to_string());
        if let Some(answer) = self.settings.command(json) {
            self.apply_settings();
            return answer.map_or_else(|(errno, why)| (errno.to_result_code(), why), text);
        }
        match json["prefix"].as_str() {
            Some("status") => {
                let stats = self.rank.as_ref().map(Rank::stats).unwrap_or_default();
                text(serde_json::json!({
                    "name": self.config.name,
                    "state": self.state.name(),
                    "mdsmap_epoch": self.map.epoch.0,
                    "inodes": stats.inodes,
                    "entries": stats.entries,
                    "journal_bytes": self.rank.as_ref().map_or(0, Rank::journal_bytes),
                }))
            }
            Some("cache status") => text(self.cache_status()),
            Some("session ls" | "client ls") => {
                text(self.rank.as_ref().map(Rank::session_list).unwrap_or_default().into())
            }
            Some("session evict" | "client evict") => self.evict_named(json),
            Some("damage ls") => text(self.rank.as_ref().map(Rank::damage_list).unwrap_or_default().into()),
            Some("get subtrees") => text(self.rank.as_ref().map(Rank::subtree_list).unwrap_or_default()),
            Some("dump loads") => text(self.rank.as_ref().map(Rank::load_list).unwrap_or_default()),
            Some("dump top") => {
                let number = |name: &str, usual| json[name].as_u64().map_or(usual, |n| n as usize);
                let (sessions, dirs) = (number("sessions", 100), number("dirs", 20));
                text(self.rank.as_ref().map(|rank| rank.top(sessions, dirs)).unwrap_or_default())
            }
            Some("dump inode") => self.dump_inode(json),
            Some("export dir") => self.export_dir(json),
            Some("replicate dir") => self.replicate_dir(json),
            Some("damage rm") => self.forget_damage(json),
            Some(prefix @ ("dirfrag ls" | "dirfrag merge" | "dirfrag split")) => self.dirfrag(prefix, json),
            Some("scrub start") => self.start_scrub(json),
            Some(prefix @ ("scrub abort" | "scrub pause" | "scrub resume" | "scrub status")) => {
                self.active_rank().map_or_else(|refusal| refusal, |rank| control_scrub(rank, prefix))
            }
            Some(prefix) if decl::perf::is_command(prefix) => {
                text(self.perf().command(prefix).unwrap_or_default().into())
            }
            Some("ops" | "dump_ops_in_flight") => {
                let list = self.rank.as_ref().map(Rank::op_list).unwrap_or_default();
                text(serde_json::json!({ "num_ops": list.len(), "ops": list }))
            }
            Some("version") => text(serde_json::json!({
                "version": env!("CARGO_PKG_VERSION"), "release": "pacific", "release_type": "dev",
            })),
            Some("help") => text(decl::describe::local_help(&commands())),
            Some("get_command_descriptions") => {
                text(decl::describe::local_descriptions(&commands(), "mds", false))
            }
            other => {
                (Errno::EINVAL.to_result_code(), format!("no such command: {}", other.unwrap_or("(none)")))
            }
        }
    }

    /// The performance counters; of a server without a rank those of its object operations.
    fn perf(&self) -> Groups {
        let mut out = Groups::default();
        if let Some(rank) = &self.rank {
            rank.put_perf(&mut out);
            let number = self.map.mds_info.get(&self.gid()).map_or(MdsRank::NONE, |info| info.rank);
            out.group("mds_rank_perf")
                .label("rank", number.0.to_string())
                .gauge("cpu_usage", u64::from(self.load.busy / 10), "Percent of a processor that it uses")
                .gauge("open_requests", rank.op_list().len() as u64, "Requests that are not answered yet");
        }
        if let Some(resident) = self.load.resident {
            out.more("mds_mem")
                .gauge("rss", resident.all >> 10, "Kilobytes of memory that the process has")
                .gauge("heap", resident.anonymous >> 10, "Kilobytes of it that are in no file");
        }
        let engine = self.cluster.engine();
        let (reads, writes) = engine.begun();
        out.group("objecter")
            .gauge("op_active", engine.pending() as u64, "Object operations that have not ended")
            .count("op", reads + writes, "Object operations")
            .count("op_r", reads, "Object operations that read")
            .count("op_w", writes, "Object operations that write");
        out
    }

    /// The size of the cache: what Ceph's servers say, and what that is made of.
    fn cache_status(&self) -> serde_json::Value {
        let stats = self.rank.as_ref().map(Rank::stats).unwrap_or_default();
        serde_json::json!({
            "pool": { "items": stats.inodes + stats.entries + stats.capabilities, "bytes": stats.bytes },
            "limit_bytes": self.config.options.cache_bytes + self.config.options.spare_bytes,
            "inodes": stats.inodes,
            "entries": stats.entries,
            "directories": stats.dirs,
            "capabilities": stats.capabilities,
        })
    }

    /// `damage rm`; as in Ceph, it is no error if there is no such item.
    fn forget_damage(&mut self, json: &serde_json::Value) -> (i32, String) {
        let Some(id) = json["damage_id"].as_u64() else {
            return (
                Errno::EINVAL.to_result_code(),
                "damage_id is a number that `damage ls` shows".to_owned(),
            );
        };
        if let Some(rank) = &mut self.rank {
            rank.forget_damage(id);
        }
        (0, String::new())
    }

    /// The commands on fragments of directories.
    fn dirfrag(&mut self, prefix: &str, json: &serde_json::Value) -> (i32, String) {
        let rank = match self.active_rank() {
            Ok(rank) => rank,
            Err(refusal) => return refusal,
        };
        let text = |name: &str| json[name].as_str().unwrap_or_default();
        let done = match prefix {
            "dirfrag ls" => rank.list_fragments(text("path")).map(|list| list.to_string()),
            "dirfrag merge" => rank.join_fragments(text("path"), text("frag")).map(|()| String::new()),
            _ => {
                let bits = json["bits"].as_u64().and_then(|bits| u32::try_from(bits).ok()).unwrap_or(0);
                rank.split_fragment(text("path"), text("frag"), bits).map(|()| String::new())
            }
        };
        done.map_or_else(|(errno, why)| (errno.to_result_code(), why), |answer| (0, answer))
    }

    /// `dump inode`, of a live one.
    fn dump_inode(&mut self, json: &serde_json::Value) -> (i32, String) {
        let Some(number) = json["number"].as_u64() else {
            return (
                Errno::EINVAL.to_result_code(),
                "number is that of an inode, as `ls -i` shows".to_owned(),
            );
        };
        let rank = match self.active_rank() {
            Ok(rank) => rank,
            Err(refusal) => return refusal,
        };
        match rank.describe_inode(Ino(number)) {
            Some(inode) => (0, inode.to_string()),
            None => (Errno::ENOENT.to_result_code(), format!("inode {number} is not cached by this rank")),
        }
    }

    /// `export dir`: only begins, as in Ceph.
    fn export_dir(&mut self, json: &serde_json::Value) -> (i32, String) {
        let rank = match self.active_rank() {
            Ok(rank) => rank,
            Err(refusal) => return refusal,
        };
        let path = json["path"].as_str().unwrap_or_default();
        let to = json["rank"].as_i64().and_then(|rank| i32::try_from(rank).ok()).unwrap_or(-1);
        let code = match rank.export_dir(path, json["frag"].as_str(), MdsRank(to)) {
            Ok(()) => 0,
            Err((errno, why)) => return (errno.to_result_code(), why),
        };
        (0, serde_json::json!({ "return_code": code }).to_string())
    }

    /// `replicate dir`: only begins.
    fn replicate_dir(&mut self, json: &serde_json::Value) -> (i32, String) {
        let rank = match self.active_rank() {
            Ok(rank) => rank,
            Err(refusal) => return refusal,
        };
        match rank.replicate_dir(json["path"].as_str().unwrap_or_default()) {
            Ok(()) => (0, String::new()),
            Err((errno, why)) => (errno.to_result_code(), why),
        }
    }

    fn start_scrub(&mut self, json: &serde_json::Value) -> (i32, String) {
        let words = json["scrubops"].as_array().map(Vec::as_slice).unwrap_or_default();
        let words: Vec<&str> = words.iter().filter_map(serde_json::Value::as_str).collect();
        let number = self.scrubs + 1;
        let usual = format!("{}-{number}", self.cluster.monc().global_id());
        let rank = match self.active_rank() {
            Ok(rank) => rank,
            Err(refusal) => return refusal,
        };
        let options = match ScrubOptions::parse(&words.join(",")) {
            Ok(options) => options,
            Err(word) => {
                let why = format!("`{word}` is no option: use recursive, repair, force");
                return (Errno::EINVAL.to_result_code(), why);
            }
        };
        let tag = json["tag"].as_str().map_or(usual, str::to_owned);
        rank.start_scrub(tag.clone(), json["path"].as_str().unwrap_or("/").to_owned(), options);
        self.scrubs = number;
        let answer = serde_json::json!({ "return_code": 0, "scrub_tag": tag, "mode": "asynchronous" });
        (0, answer.to_string())
    }
}

/// The commands on scrubs that were asked for.
fn control_scrub(rank: &mut Rank, prefix: &str) -> (i32, String) {
    match prefix {
        "scrub abort" => rank.abort_scrub(),
        "scrub status" => return (0, rank.scrub_status().to_string()),
        _ => rank.pause_scrub(prefix == "scrub pause"),
    }
    (0, serde_json::json!({ "return_code": 0 }).to_string())
}
