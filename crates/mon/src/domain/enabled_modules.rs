//! The modules of Ceph's manager that are enabled, of those that monitors serve in its place.

use std::collections::BTreeMap;

/// The key of the enabled ones in the key-value store.
pub const KEY: &str = "mgr/modules";
/// Modules that can be enabled.
pub const OPTIONAL: [&str; 2] = ["dashboard", "prometheus"];

/// The modules that are enabled.
pub fn enabled(kv: &BTreeMap<String, Vec<u8>>) -> Vec<&'static str> {
    let stored: Vec<String> =
        kv.get(KEY).and_then(|bytes| serde_json::from_slice(bytes).ok()).unwrap_or_default();
    OPTIONAL.into_iter().filter(|name| stored.iter().any(|s| s == name)).collect()
}
