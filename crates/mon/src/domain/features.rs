//! The cluster's feature level ([`NacreMap::feature_level`](maps::NacreMap::feature_level)): what daemons may
//! store and send that older builds do not understand (docs/adr/0030-feature-level.md). `finalize` raises it;
//! a build that can't do it is refused.

use crate::domain::builds::{Daemon, daemons};
use crate::edit::Edit;
use crate::failure::Failure;
use crate::state::State;
use peer::level::Levels;
use std::collections::BTreeMap;
use wire::Errno;

/// What `finalize` finds.
pub struct Prospect {
    /// The level in use.
    pub in_use: u32,
    /// The highest level that any daemon can do.
    pub newest: u32,
    /// The daemons that can't do that one.
    pub behind: Vec<Daemon>,
}

/// What the daemons can do, and what is in use.
pub fn prospect(state: &State) -> Prospect {
    let in_use = state.osd.nacre().feature_level;
    let daemons = daemons(state);
    let newest = daemons.iter().map(|daemon| daemon.levels.newest).max().unwrap_or(in_use).max(in_use);
    let behind = daemons.into_iter().filter(|daemon| daemon.levels.newest < newest).collect();
    Prospect { in_use, newest, behind }
}

impl Prospect {
    /// True if the level can be raised now.
    pub fn is_ready(&self) -> bool {
        self.newest > self.in_use && self.behind.is_empty()
    }

    /// The reason why it can't, if daemons stand in the way.
    pub fn obstacle(&self) -> Option<String> {
        let Self { in_use, newest, behind } = self;
        if behind.is_empty() {
            return None;
        }
        let line = |daemon: &Daemon| {
            let away = if daemon.is_up { "" } else { ", when it last ran" };
            format!("{} (level {}{away})", daemon.name, daemon.levels.newest)
        };
        let lines: Vec<String> = behind.iter().map(line).collect();
        Some(format!(
            "feature level {in_use} stays in use: level {newest} is not for {}; upgrade and restart them, or remove \
             those that are gone",
            lines.join(", ")
        ))
    }
}

/// Raises the level to the highest that all daemons can do.
pub fn finalize(edit: &mut Edit<'_>) -> Result<Prospect, Failure> {
    let found = prospect(edit.base);
    if let Some(why) = found.obstacle() {
        return Err(Failure::new(Errno::EPERM, why));
    }
    if found.is_ready() {
        edit.nacre().feature_level = found.newest;
        edit.notes.push(format!(
            "feature level {} is in use from now on: builds that can't do it are refused",
            found.newest
        ));
    }
    Ok(found)
}

/// Requires that a level is in use, before something of it is used.
pub fn require(edit: &Edit<'_>, level: u32) -> Result<(), Failure> {
    let in_use = edit.nacre_now().feature_level;
    if in_use >= level {
        return Ok(());
    }
    let text = format!(
        "this needs feature level {level}, and {in_use} is in use: older daemons would lose data; upgrade all of them, \
         then run `nacre finalize`"
    );
    Err(Failure::new(Errno::EPERM, text))
}

/// The reason why a daemon may not take part, if it may not: what it announced, and the highest level that
/// its message names.
pub fn refusal(state: &State, who: &str, metadata: &BTreeMap<String, String>, newest: u32) -> Option<String> {
    let levels = Levels { newest, ..Levels::announced(metadata) };
    levels.refusal(who, state.osd.nacre().feature_level)
}
