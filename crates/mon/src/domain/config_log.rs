//! History of options. Each change is recorded in the key-value store, under Ceph's keys and in Ceph's
//! encoding, and can be reverted.

use crate::edit::Edit;
use crate::entry::Change;
use crate::state::State;
use std::collections::BTreeMap;
use wire::{Reader, Utime, Writer};

/// Keys are `config-history/N/` for the stamp and cause, and with `-SECTION/NAME` and `+SECTION/NAME` for old
/// and new value.
pub const PREFIX: &str = "config-history/";

/// Changes that are kept.
const KEEP: u64 = 1000;

/// One option of a change.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct OptionChange {
    /// Section with masks.
    pub who: String,
    /// Name of the option.
    pub name: String,
    /// Value before the change.
    pub old: Option<String>,
    /// Value after the change.
    pub new: Option<String>,
}

/// One recorded change.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Entry {
    /// Counts up from 1.
    pub version: u64,
    /// Time of the change.
    pub stamp: Utime,
    /// Reason for the change, if one was given.
    pub cause: String,
    /// The changed options, by section and name.
    pub changes: Vec<OptionChange>,
}

type Kv = BTreeMap<String, Vec<u8>>;

/// The number of the last change, 0 before the first.
pub fn newest(kv: &Kv) -> u64 {
    versions(kv).max().unwrap_or(0)
}

fn versions(kv: &Kv) -> impl Iterator<Item = u64> {
    let keys = kv.range(PREFIX.to_owned()..).map(|(k, _)| k).take_while(|k| k.starts_with(PREFIX));
    keys.filter_map(|k| k.strip_prefix(PREFIX)?.strip_suffix('/')?.parse().ok())
}

/// All changes that are kept, oldest first.
pub fn entries(kv: &Kv) -> Vec<Entry> {
    let mut all: BTreeMap<u64, Entry> = BTreeMap::new();
    for (key, value) in kv.range(PREFIX.to_owned()..).take_while(|(k, _)| k.starts_with(PREFIX)) {
        let Some((version, what)) = key.strip_prefix(PREFIX).and_then(|rest| rest.split_once('/')) else {
            continue;
        };
        let Ok(version) = version.parse() else { continue };
        let entry = all.entry(version).or_default();
        entry.version = version;
        let Some((sign, option)) = what.split_at_checked(1) else {
            let mut r = Reader::new(value);
            entry.stamp = r.get().unwrap_or_default();
            entry.cause = r.get().unwrap_or_default();
            continue;
        };
        // Names of the manager's options have slashes of their own.
        let of_manager = option.find("/mgr/").map(|at| (&option[..at], &option[at + 1..]));
        let Some((who, name)) = of_manager.or_else(|| option.rsplit_once('/')) else { continue };
        let value = Some(String::from_utf8_lossy(value).into_owned());
        let found = entry.changes.iter().position(|c| c.who == who && c.name == name);
        let at = found.unwrap_or_else(|| {
            let new = OptionChange { who: who.to_owned(), name: name.to_owned(), ..OptionChange::default() };
            entry.changes.push(new);
            entry.changes.len() - 1
        });
        match sign {
            "-" => entry.changes[at].old = value,
            _ => entry.changes[at].new = value,
        }
    }
    all.into_values().collect()
}

/// Options to set or remove: section, name, value.
pub type Wanted = Vec<(String, String, Option<String>)>;

/// Sets and removes options, and records what changed.
pub fn change(edit: &mut Edit<'_>, wanted: Wanted) {
    let (config, kv) = (edit.base.config.clone(), edit.base.kv.clone());
    let version = newest(&kv) + 1;
    let mut noted = false;
    for (who, name, value) in wanted {
        let key = (who, name);
        let old = config.get(&key);
        if old == value.as_ref() {
            continue;
        }
        let (who, name) = key;
        for (sign, value) in [('-', old), ('+', value.as_ref())] {
            if let Some(value) = value {
                let key = format!("{PREFIX}{version}/{sign}{who}/{name}");
                edit.push(Change::Kv(key, Some(value.clone().into_bytes())));
            }
        }
        edit.push(Change::Config(who, name, value));
        noted = true;
    }
    if noted {
        let mut w = Writer::new();
        w.put(&edit.stamp());
        w.put(&String::new());
        edit.push(Change::Kv(format!("{PREFIX}{version}/"), Some(w.into_vec())));
        trim(edit, &kv, version);
    }
}

fn trim(edit: &mut Edit<'_>, kv: &Kv, newest: u64) {
    for version in versions(kv).filter(|v| v + KEEP <= newest) {
        let prefix = format!("{PREFIX}{version}/");
        let keys = kv.range(prefix.clone()..).map(|(k, _)| k).take_while(|k| k.starts_with(&prefix));
        keys.for_each(|key| edit.push(Change::Kv(key.clone(), None)));
    }
}

/// The settings that restore the options as they were after change `to`.
pub fn undo(state: &State, to: u64) -> Wanted {
    let mut before: BTreeMap<(String, String), Option<String>> = BTreeMap::new();
    for entry in entries(&state.kv).into_iter().filter(|e| e.version > to).rev() {
        before.extend(entry.changes.into_iter().map(|c| ((c.who, c.name), c.old)));
    }
    before.into_iter().map(|((who, name), value)| (who, name, value)).collect()
}
