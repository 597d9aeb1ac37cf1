//! Administrators' commands side by side with Ceph's: the keys of their JSON and their exit status are those
//! that a cluster of Ceph 16.2 gave to the same commands in the same order, or `docs/commands.md` says why
//! not.
//!
//! `data/commands.txt` is the scenario, `data/commands-reference.json` what was recorded: for each command
//! its exit status and the paths of its JSON, nothing else. To record again, start a reference cluster with 3
//! OSDs, an MDS and the file system `cephfs`, and run this test with
//! `NACRE_REFERENCE=/path/to/its/ceph.conf`.
#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "these tests are about real files, processes and time"
)]

use e2e::{Cluster, Options, Ran, has, run};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

const SCENARIO: &str = include_str!("data/commands.txt");
const REFERENCE: &str = include_str!("data/commands-reference.json");
const DIFFERENCES: &str = include_str!("../../../docs/commands.md");

/// The result of a command.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Record {
    line: String,
    code: i32,
    /// Paths of keys; `text` for output that is no JSON.
    keys: BTreeSet<String>,
}

impl Record {
    fn to_json(&self) -> String {
        json!({ "line": self.line, "code": self.code, "keys": self.keys }).to_string()
    }

    fn of_json(json: &Value) -> Option<Self> {
        let keys = json["keys"].as_array()?.iter().filter_map(|k| k.as_str().map(str::to_owned)).collect();
        Some(Self { line: json["line"].as_str()?.to_owned(), code: json["code"].as_i64()? as i32, keys })
    }
}

/// One line of the scenario.
struct Step {
    line: &'static str,
    /// `!` prepares only, `?` compares the exit status alone.
    kind: Option<char>,
}

fn scenario() -> impl Iterator<Item = Step> {
    let lines = SCENARIO.lines().map(str::trim).filter(|l| !l.is_empty() && !l.starts_with('#'));
    lines.map(|l| match l.strip_prefix(['!', '?']) {
        Some(rest) => Step { line: rest.trim(), kind: l.chars().next() },
        None => Step { line: l, kind: None },
    })
}

/// The words of a line; single quotes hold words together.
fn words(line: &str) -> Vec<String> {
    let mut out = vec![String::new()];
    let mut quoted = false;
    for c in line.chars() {
        match c {
            '\'' => quoted = !quoted,
            ' ' if !quoted => out.push(String::new()),
            c => out.last_mut().expect("never empty").push(c),
        }
    }
    out.retain(|w| !w.is_empty());
    out
}

fn ceph(conf: &Path, line: &str) -> Ran {
    let mut command = Command::new("ceph");
    command.arg("-c").arg(conf).args(["--connect-timeout", "20", "-f", "json"]);
    run(command.args(words(line)))
}

/// Objects whose keys are data: names of pools, daemons, options, versions …
const DATA: &[&str] = &[
    "always_on_modules",
    "application_metadata",
    "blocklist",
    "by_rank",
    "caps",
    "checks",
    "client",
    "compat",
    "crush",
    "diff",
    "erasure_code_profiles",
    "incompat",
    "info",
    "mds",
    "mgr",
    "mon",
    "osd",
    "overall",
    "progress_events",
    "required_client_features",
    "ro_compat",
    "services",
    "stats_by_class",
    "up",
];

/// Commands whose answer is an object with data for keys.
const DATA_AT_ROOT: &[&str] = &[
    "config get",
    "config-key dump",
    "mds count-metadata",
    "mds versions",
    "mon count-metadata",
    "mon versions",
    "osd count-metadata",
    "osd pool application get",
    "osd versions",
    "tell osd.0 config show",
    "tell mon.a config show",
    "node ls osd",
    "node ls mon",
    "mgr versions",
];

/// Parts of paths that come and go with what the cluster is doing.
const PASSING: &[&str] = &[
    "_per_sec",
    "_bytes_sec",
    "degraded",
    "misplaced",
    "inactive_pgs",
    "unknown_pgs",
    ".recovery.",
    ".recovery_rate.",
    ".client_io_rate.",
    ".histogram[]",
    ".stuck_pg_stats[]",
    ".blocked_by",
    ".alerts[]",
    ".osd_blocked_by_infos[]",
    ".pg_temp[]",
    ".primary_temp[]",
    ".hb_peers[]",
    ".purged_snaps[]",
    "new_removed_snaps",
    "new_purged_snaps",
];

fn is_data(path: &str, line: &str) -> bool {
    let last = path.rsplit('.').next().unwrap_or_default().trim_end_matches("[]");
    DATA.contains(&last) || path.is_empty() && DATA_AT_ROOT.iter().any(|c| line.starts_with(c))
}

fn collect(value: &Value, path: &str, line: &str, out: &mut BTreeSet<String>) {
    match value {
        Value::Object(map) => {
            for (key, inner) in map {
                let key = if is_data(path, line) {
                    "*"
                } else {
                    key.trim_end_matches(|c: char| c.is_ascii_digit())
                };
                let path = format!("{path}.{key}");
                out.insert(path.clone());
                collect(inner, &path, line, out);
            }
        }
        Value::Array(list) => list.iter().for_each(|v| collect(v, &format!("{path}[]"), line, out)),
        _ => {}
    }
}

fn keys(ran: &Ran, line: &str) -> BTreeSet<String> {
    let mut out = BTreeSet::new();
    let text = ran.stdout.trim();
    match serde_json::from_str::<Value>(text) {
        _ if text.is_empty() => {}
        Ok(value) => collect(&value, "", line, &mut out),
        Err(_) => drop(out.insert("text".into())),
    }
    out.retain(|path| !PASSING.iter().any(|part| path.contains(part)));
    out
}

fn play(conf: &Path) -> Vec<Record> {
    let mut out = Vec::new();
    for step in scenario() {
        let ran = ceph(conf, step.line);
        if step.kind == Some('!') {
            assert_eq!(ran.code, 0, "{}: {}", step.line, ran.stderr);
            continue;
        }
        let keys = if step.kind.is_none() { keys(&ran, step.line) } else { BTreeSet::new() };
        out.push(Record { line: step.line.to_owned(), code: ran.code, keys });
    }
    out
}

/// The table of `docs/commands.md`: command, `exit status` or a path of keys (also those below it), reason.
fn excuses() -> Vec<(String, String)> {
    let mut out = Vec::new();
    for row in DIFFERENCES.lines().filter(|l| l.starts_with("| `")) {
        let cells: Vec<&str> = row.split('|').map(|c| c.trim().trim_matches('`')).collect();
        let [_, command, what, reason, ..] = cells.as_slice() else { continue };
        assert!(reason.len() > 10, "a reason for {command}");
        out.extend(what.split("`, `").map(|w| ((*command).to_owned(), w.trim_matches('`').to_owned())));
    }
    out
}

fn is_excused(excuses: &[(String, String)], line: &str, what: &str) -> bool {
    excuses.iter().any(|(command, path)| {
        let same = command == line || command.strip_suffix('*').is_some_and(|start| line.starts_with(start));
        let below = |rest: &str| path == "." || rest.starts_with(['.', '[']);
        same && (what == path || what.strip_prefix(path.as_str()).is_some_and(below))
    })
}

#[test]
fn keys_and_exit_status_are_those_of_the_reference() {
    if !has("ceph") {
        return;
    }
    if let Some(conf) = std::env::var_os("NACRE_REFERENCE") {
        let records = play(Path::new(&conf));
        let lines: Vec<String> = records.iter().map(Record::to_json).collect();
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/commands-reference.json");
        std::fs::write(path, format!("[\n{}\n]\n", lines.join(",\n"))).expect("writes");
        return;
    }
    let cluster = Cluster::start(Options::default());
    cluster.wait_for("clean PGs", |status| {
        let states = status["pgmap"]["pgs_by_state"].as_array();
        states.is_some_and(|s| s.len() == 1 && s[0]["state_name"] == "active+clean")
    });
    let ours = play(&cluster.conf());
    let theirs: Value = serde_json::from_str(REFERENCE).expect("recorded by this test");
    let theirs = theirs.as_array().expect("a list").iter();
    let theirs: Vec<Record> = theirs.map(|r| Record::of_json(r).expect("recorded by this test")).collect();
    assert_eq!(
        ours.iter().map(|r| &r.line).collect::<Vec<_>>(),
        theirs.iter().map(|r| &r.line).collect::<Vec<_>>(),
        "the scenario has changed: record it anew"
    );
    let excuses = excuses();
    let mut wrong = BTreeMap::<&str, Vec<String>>::new();
    for (our, their) in ours.iter().zip(&theirs) {
        let mut say = |text: String| wrong.entry(&our.line).or_default().push(text);
        if our.code != their.code && !is_excused(&excuses, &our.line, "exit status") {
            say(format!("exit status {} instead of {}", our.code, their.code));
        }
        if our.code != their.code || our.code != 0 {
            continue;
        }
        for key in their.keys.difference(&our.keys) {
            if !is_excused(&excuses, &our.line, key) {
                say(format!("lacks {key}"));
            }
        }
        for key in our.keys.difference(&their.keys) {
            if !is_excused(&excuses, &our.line, key) {
                say(format!("has {key}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{} commands differ: {wrong:#?}", wrong.len());
}

#[test]
fn every_difference_that_is_listed_is_of_a_command_that_is_played() {
    let lines: Vec<&str> = scenario().map(|s| s.line).collect();
    for (command, _) in excuses() {
        let start = command.trim_end_matches('*');
        let found = lines.iter().any(|l| *l == command || command.ends_with('*') && l.starts_with(start));
        assert!(found, "docs/commands.md: `{command}` is not played");
    }
}
