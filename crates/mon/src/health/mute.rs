//! Mutes of health checks, and which checks the cluster log shows as raised.

use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Prefix of the mutes in the key-value store: one key for each code.
pub const MUTES: &str = "health/mute/";

/// Prefix of the keys under which the monitors record raised findings, with their summaries.
pub const RAISED: &str = "health/raised/";

/// A code that an administrator has muted.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Mute {
    /// Stays when the condition goes away or gets worse.
    pub sticky: bool,
    /// Summary at the time of the mute.
    pub summary: String,
    /// Number of affected items at the time of the mute.
    pub count: u64,
    /// Seconds since 1970 at which it ends by itself.
    pub until: Option<u64>,
}

impl Mute {
    fn parse(bytes: &[u8]) -> Option<Self> {
        let json: Value = serde_json::from_slice(bytes).ok()?;
        Some(Self {
            sticky: json["sticky"].as_bool()?,
            summary: json["summary"].as_str()?.to_owned(),
            count: json["count"].as_u64()?,
            until: json["until"].as_u64(),
        })
    }

    /// Encodes it for the key-value store.
    pub fn encode(&self) -> Vec<u8> {
        let json = json!({
            "sticky": self.sticky, "summary": self.summary, "count": self.count, "until": self.until,
        });
        json.to_string().into_bytes()
    }
}

/// All mutes by code.
pub(crate) type Mutes = BTreeMap<String, Mute>;

/// The mutes that are stored.
pub(crate) fn mutes(kv: &BTreeMap<String, Vec<u8>>) -> Mutes {
    let mine = kv.range(MUTES.to_owned()..).take_while(|(k, _)| k.starts_with(MUTES));
    mine.filter_map(|(k, v)| Some((k[MUTES.len()..].to_owned(), Mute::parse(v)?))).collect()
}

/// The codes that the cluster log shows as raised, with their summaries.
pub(crate) fn raised(kv: &BTreeMap<String, Vec<u8>>) -> BTreeMap<String, String> {
    let mine = kv.range(RAISED.to_owned()..).take_while(|(k, _)| k.starts_with(RAISED));
    mine.map(|(k, v)| (k[RAISED.len()..].to_owned(), String::from_utf8_lossy(v).into_owned())).collect()
}
