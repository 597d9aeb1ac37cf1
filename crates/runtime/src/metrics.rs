//! Counters of one node: how often each event happened and why connections ended.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

/// Counters by name. Clones share them.
#[derive(Clone, Default, Debug)]
pub struct Metrics(Arc<Mutex<BTreeMap<String, u64>>>);

impl Metrics {
    /// Adds one to `name`.
    pub fn count(&self, name: &str) {
        self.add(name, 1);
    }

    /// Adds `by` to `name`.
    pub fn add(&self, name: &str, by: u64) {
        let mut counters = self.lock();
        match counters.get_mut(name) {
            Some(value) => *value += by,
            None => {
                counters.insert(name.to_owned(), by);
            }
        }
    }

    /// The value of `name`, 0 if nothing was counted.
    pub fn get(&self, name: &str) -> u64 {
        self.lock().get(name).copied().unwrap_or(0)
    }

    /// All counters as a JSON object, in the order of their names.
    pub fn to_json(&self) -> String {
        let fields: Vec<String> =
            self.lock().iter().map(|(name, value)| format!("\"{name}\":{value}")).collect();
        format!("{{{}}}", fields.join(","))
    }

    /// A node's answer, a JSON object, with all counters beside its fields, as `counters`. A node that has
    /// no such answer leaves them alone.
    pub fn beside(&self, (code, answer): &(i32, String)) -> String {
        let counters = format!("{{\"counters\":{}", self.to_json());
        match answer.trim().strip_prefix('{').map(str::trim_start).filter(|_| *code == 0) {
            None | Some("}") => format!("{counters}}}\n"),
            Some(fields) => format!("{counters},{fields}\n"),
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<String, u64>> {
        self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_by_name_and_prints_in_order() {
        let metrics = Metrics::default();
        metrics.count("b");
        metrics.clone().add("a", 3);
        metrics.count("b");
        assert_eq!(metrics.get("b"), 2);
        assert_eq!(metrics.to_json(), r#"{"a":3,"b":2}"#);
        let beside = |code, answer: &str| metrics.beside(&(code, answer.to_owned()));
        assert_eq!(beside(0, "{\n \"osd\": {}\n}"), "{\"counters\":{\"a\":3,\"b\":2},\"osd\": {}\n}\n");
        assert_eq!(beside(0, "{}"), "{\"counters\":{\"a\":3,\"b\":2}}\n");
        assert_eq!(beside(-22, "no such command"), "{\"counters\":{\"a\":3,\"b\":2}}\n");
    }
}
