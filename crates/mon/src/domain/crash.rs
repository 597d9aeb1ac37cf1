//! Reports of crashed daemons. Whoever finds a crash files a report; it is shown until somebody archives it.
//! Reports are kept in the key-value store under the keys that Ceph's manager uses.

use crate::edit::Edit;
use crate::entry::Change;
use serde_json::Value;
use std::collections::BTreeMap;
use wire::Utime;

/// Prefix of a report's key, followed by its id.
pub const PREFIX: &str = "mgr/crash/crash/";

/// A crash report.
#[derive(Clone, PartialEq, Debug)]
pub struct Report {
    json: Value,
}

impl Report {
    /// A report as it was filed.
    pub fn new(json: Value) -> Self {
        Self { json }
    }

    /// The report as it is shown.
    pub fn json(&self) -> &Value {
        &self.json
    }

    /// Notes that somebody has looked at it.
    pub fn archive(&mut self, stamp: Utime) {
        self.json["archived"] = stamp.iso8601().replace('T', " ").replace("+0000", "").into();
    }

    /// A field that is text; empty if there is none.
    pub fn text(&self, key: &str) -> &str {
        self.json[key].as_str().unwrap_or_default()
    }

    /// Time of the crash in seconds since 1970; 0 if the report does not say.
    pub fn stamp(&self) -> u64 {
        parse_stamp(self.text("timestamp")).unwrap_or(0)
    }

    /// True if somebody has archived it.
    pub fn is_archived(&self) -> bool {
        !self.json["archived"].is_null()
    }

    /// One line that names the daemon, host and time.
    pub fn line(&self) -> String {
        let (entity, host) = (self.text("entity_name"), self.text("utsname_hostname"));
        format!("{entity} crashed on host {host} at {}", self.text("timestamp"))
    }

    /// The key under which it is stored.
    pub fn key(&self) -> String {
        format!("{PREFIX}{}", self.text("crash_id"))
    }

    /// Puts the report into the key-value store.
    pub fn store(&self, edit: &mut Edit<'_>) {
        edit.push(Change::Kv(self.key(), Some(self.json.to_string().into_bytes())));
    }
}

/// Seconds since 1970 of `2026-11-22T00:20:11.566164Z`, also with a blank for the T.
pub(crate) fn parse_stamp(text: &str) -> Option<u64> {
    let number = |range: std::ops::Range<usize>| text.get(range)?.parse::<i64>().ok();
    let (year, month, day) = (number(0..4)?, number(5..7)?, number(8..10)?);
    let (hour, minute, second) = (number(11..13)?, number(14..16)?, number(17..19)?);
    let days = stdx::civil::day_of_date(year, month, day);
    u64::try_from(days * 86_400 + hour * 3600 + minute * 60 + second).ok()
}

/// All reports, oldest first.
pub fn reports(kv: &BTreeMap<String, Vec<u8>>) -> Vec<Report> {
    let mine = kv.range(PREFIX.to_owned()..).take_while(|(k, _)| k.starts_with(PREFIX));
    let mut out: Vec<Report> =
        mine.filter_map(|(_, v)| Some(Report { json: serde_json::from_slice(v).ok()? })).collect();
    out.sort_by(|a, b| a.text("timestamp").cmp(b.text("timestamp")));
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stamps_are_seconds_since_1970() {
        assert_eq!(parse_stamp("1970-01-01T00:00:00Z"), Some(0));
        assert_eq!(parse_stamp("2026-11-22T00:20:11.566164Z"), Some(1_795_306_811));
        assert_eq!(parse_stamp("2024-02-29 12:00:00"), Some(1_709_208_000));
        assert_eq!(parse_stamp("yesterday"), None);
    }
}
