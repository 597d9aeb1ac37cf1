//! Health checks on the builds of daemons: an upgrade that is not finished, and one that is.

use crate::domain::builds::{daemons, parts};
use crate::domain::features::prospect;
use crate::health::check::Check;
use crate::state::State;
use decl::Code;
use std::collections::BTreeMap;

pub(super) fn checks(state: &State, out: &mut Vec<Check>) {
    out.extend(old_versions(state));
    out.extend(finished(state));
}

/// Daemons that run and are of an older version than others; the words are Ceph's.
fn old_versions(state: &State) -> Option<Check> {
    let mut by_version: BTreeMap<(Vec<u64>, String), Vec<String>> = BTreeMap::new();
    for daemon in daemons(state).into_iter().filter(|daemon| daemon.is_up) {
        let Some(version) = daemon.version else { continue };
        by_version.entry((parts(&version), version)).or_default().push(daemon.name.to_string());
    }
    by_version.pop_last();
    let line = |((_, version), names): (&(Vec<u64>, String), &Vec<String>)| {
        let are = if names.len() == 1 { "is" } else { "are" };
        format!("{} {are} running an older version of ceph: {version}", names.join(" "))
    };
    let detail: Vec<String> = by_version.iter().map(line).collect();
    let count = by_version.values().map(Vec::len).sum();
    let summary = match (detail.len(), count) {
        (0, _) => return None,
        (1, 1) => "There is a daemon running an older version of ceph",
        (1, _) => "There are daemons running an older version of ceph",
        _ => "There are daemons running multiple old versions of ceph",
    };
    Some(Check { code: Code::DaemonOldVersion, summary: summary.to_owned(), count, detail })
}

/// All daemons can do a higher level than the one in use.
fn finished(state: &State) -> Option<Check> {
    let found = prospect(state);
    let summary = format!(
        "all OSDs and other daemons can do feature level {}, and {} is in use",
        found.newest, found.in_use
    );
    found.is_ready().then(|| Check { code: Code::OsdUpgradeFinished, summary, count: 1, detail: Vec::new() })
}
