//! Lists of which a page asks only for what has changed since it asked last.

use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Removed rows that are remembered; who asked before them gets the whole list.
const MAX_GONE: usize = 1000;

/// A list with the version at which each row changed.
#[derive(Default)]
struct Table {
    version: u64,
    rows: BTreeMap<String, (u64, Value)>,
    gone: BTreeMap<String, u64>,
    /// Who has seen an older version gets the whole list.
    whole_before: u64,
}

impl Table {
    /// Takes the rows, by key, as they are at a version.
    fn update(&mut self, version: u64, rows: Vec<(String, Value)>) {
        if self.version == 0 {
            self.whole_before = version;
        }
        self.version = version;
        let mut old = std::mem::take(&mut self.rows);
        for (key, row) in rows {
            self.gone.remove(&key);
            let changed = match old.remove(&key) {
                Some((at, before)) if before == row => at,
                _ => version,
            };
            self.rows.insert(key, (changed, row));
        }
        self.gone.extend(old.into_keys().map(|key| (key, version)));
        if self.gone.len() > MAX_GONE {
            self.gone.clear();
            self.whole_before = version;
        }
    }

    /// What has changed since a version; all for 0.
    fn since(&self, since: u64) -> Value {
        let whole = since < self.whole_before || since > self.version;
        let since = if whole { 0 } else { since };
        let rows = self.rows.iter().filter(|(_, (at, _))| *at > since || whole);
        let rows: serde_json::Map<String, Value> =
            rows.map(|(key, (_, row))| (key.clone(), row.clone())).collect();
        let gone: Vec<&String> =
            self.gone.iter().filter(|(_, at)| !whole && **at > since).map(|(key, _)| key).collect();
        json!({ "version": self.version, "whole": whole, "rows": rows, "gone": gone })
    }
}

/// All lists.
#[derive(Default)]
pub(crate) struct Tables {
    hosts: Table,
    osds: Table,
    pools: Table,
    clients: Table,
}

/// Which list.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum List {
    /// By name.
    Hosts,
    /// By number.
    Osds,
    /// By number.
    Pools,
    /// By file system and number.
    Clients,
}

impl Tables {
    /// What has changed in a list since a version; `rows` are those of the time `at`, its version. Versions
    /// are times, so they grow over restarts too.
    pub fn since(
        &mut self,
        list: List,
        at: u64,
        since: u64,
        rows: impl FnOnce() -> Vec<(String, Value)>,
    ) -> Value {
        let table = match list {
            List::Hosts => &mut self.hosts,
            List::Osds => &mut self.osds,
            List::Pools => &mut self.pools,
            List::Clients => &mut self.clients,
        };
        if at > table.version {
            table.update(at, rows());
        }
        table.since(since)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(rows: &[(&str, i32)]) -> Vec<(String, Value)> {
        rows.iter().map(|(key, value)| ((*key).to_owned(), Value::from(*value))).collect()
    }

    #[test]
    fn only_what_changed_is_told() {
        let mut table = Table::default();
        table.update(100, rows(&[("a", 1), ("b", 2)]));
        let all = table.since(0);
        assert_eq!((&all["whole"], &all["rows"]), (&json!(true), &json!({ "a": 1, "b": 2 })));
        table.update(105, rows(&[("a", 1), ("b", 3), ("c", 4)]));
        let some = table.since(100);
        assert_eq!((&some["whole"], &some["rows"]), (&json!(false), &json!({ "b": 3, "c": 4 })));
        table.update(110, rows(&[("a", 1)]));
        assert_eq!(table.since(105)["gone"], json!(["b", "c"]));
        assert_eq!(table.since(110)["rows"], json!({}));
        assert_eq!(table.since(99)["whole"], true, "it was asked before this process looked");
        assert_eq!(table.since(500)["whole"], true, "it was told by another process");
    }
}
