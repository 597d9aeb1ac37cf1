//! Reports of crashed daemons: filed by whoever finds them, shown until somebody archives them. They are kept in the store
//! of small values under the keys that Ceph's manager uses.

use super::format::{answer, pretty};
use super::table::{Align::L, Table};
use super::{Failure, Outcome, View, invalid, missing, output, said};
use crate::edit::Edit;
use crate::entry::Change;
use decl::Args;
use msgs::errno;
use serde_json::Value;
use std::collections::BTreeMap;
use wire::Utime;

/// Before a report's id.
pub const PREFIX: &str = "mgr/crash/crash/";

/// Bytes of the longest report.
const MAX_REPORT: usize = 65_536;

const DAY: u64 = 86_400;

/// One report.
#[derive(Clone, PartialEq, Debug)]
pub struct Report {
    json: Value,
}

impl Report {
    fn text(&self, key: &str) -> &str {
        self.json[key].as_str().unwrap_or_default()
    }

    /// When it happened, in seconds since 1970; 0 where the report does not say.
    pub fn stamp(&self) -> u64 {
        parse_stamp(self.text("timestamp")).unwrap_or(0)
    }

    /// Whether somebody has looked at it.
    pub fn is_archived(&self) -> bool {
        !self.json["archived"].is_null()
    }

    /// Who crashed where and when.
    pub fn line(&self) -> String {
        let (entity, host) = (self.text("entity_name"), self.text("utsname_hostname"));
        format!("{entity} crashed on host {host} at {}", self.text("timestamp"))
    }

    fn key(&self) -> String {
        format!("{PREFIX}{}", self.text("crash_id"))
    }

    fn store(&self, edit: &mut Edit<'_>) {
        edit.push(Change::Kv(self.key(), Some(self.json.to_string().into_bytes())));
    }
}

/// Seconds since 1970 of `2026-11-22T00:20:11.566164Z`, also with a blank for the T.
fn parse_stamp(text: &str) -> Option<u64> {
    let number = |range: std::ops::Range<usize>| text.get(range)?.parse::<i64>().ok();
    let (year, month, day) = (number(0..4)?, number(5..7)?, number(8..10)?);
    let (hour, minute, second) = (number(11..13)?, number(14..16)?, number(17..19)?);
    // Days of the civil calendar, counted in years that begin in March.
    let shifted = if month > 2 { year } else { year - 1 };
    let day_of_year = (153 * (month + if month > 2 { -3 } else { 9 }) + 2) / 5 + day - 1;
    let days = 365 * shifted + shifted / 4 - shifted / 100 + shifted / 400 + day_of_year - 719_468;
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

fn find(kv: &BTreeMap<String, Vec<u8>>, id: &str) -> Result<Report, Failure> {
    let found = kv.get(&format!("{PREFIX}{id}")).and_then(|v| serde_json::from_slice(v).ok());
    found.map_or_else(|| missing(format!("crash info: {id} not found")), |json| Ok(Report { json }))
}

fn list(view: &View<'_>, args: &Args, keep: impl Fn(&Report) -> bool) -> Outcome {
    let all: Vec<Report> = reports(&view.state.kv).into_iter().filter(keep).collect();
    let plain = || {
        if all.is_empty() {
            return String::new();
        }
        let mut t = Table::new(&["ID", "ENTITY", "NEW"].map(|name| (name, L, L)));
        for r in &all {
            let new = if r.is_archived() { "" } else { "*" };
            t.row(vec![r.text("crash_id").into(), r.text("entity_name").into(), new.into()]);
        }
        t.render()
    };
    answer(args, || all.iter().map(|r| r.json.clone()).collect(), plain)
}

pub fn ls(view: &View<'_>, args: &Args) -> Outcome {
    list(view, args, |_| true)
}

pub fn ls_new(view: &View<'_>, args: &Args) -> Outcome {
    list(view, args, |r| !r.is_archived())
}

pub fn info(view: &View<'_>, args: &Args) -> Outcome {
    output(pretty(&find(&view.state.kv, args.str("id"))?.json))
}

pub fn stat(view: &View<'_>, _: &Args) -> Outcome {
    let all = reports(&view.state.kv);
    let now = view.now.wall.split().0;
    let mut out = format!("{} crashes recorded\n", all.len());
    for days in [1, 3, 7] {
        let old = all.iter().filter(|r| now.saturating_sub(r.stamp()) > days * DAY).count();
        if old > 0 {
            out.push_str(&format!("{old} older than {days} days old\n"));
        }
    }
    output(out)
}

pub fn post(edit: &mut Edit<'_>, _: &Args, input: &[u8]) -> Outcome {
    if input.len() > MAX_REPORT {
        return Err(Failure::new(errno::EFBIG, format!("a crash report has at most {MAX_REPORT} bytes")));
    }
    let Ok(json) = serde_json::from_slice::<Value>(input) else {
        return invalid("give a crash report as JSON with -i");
    };
    let report = Report { json };
    let id = report.text("crash_id");
    if id.is_empty() || id.contains(['/', '\0']) || parse_stamp(report.text("timestamp")).is_none() {
        return invalid("a crash report has a `crash_id` and a `timestamp` (2026-11-22T00:20:11Z)");
    }
    // Filed again by the same finder, it is not new.
    if !edit.base.kv.contains_key(&report.key()) {
        report.store(edit);
    }
    said("")
}

fn archive_one(edit: &mut Edit<'_>, mut report: Report) {
    let stamp: Utime = edit.now.wall.into();
    report.json["archived"] = stamp.iso8601().replace('T', " ").replace("+0000", "").into();
    report.store(edit);
}

pub fn archive(edit: &mut Edit<'_>, args: &Args, _: &[u8]) -> Outcome {
    let report = find(&edit.base.kv, args.str("id"))?;
    if !report.is_archived() {
        archive_one(edit, report);
    }
    said("")
}

pub fn archive_all(edit: &mut Edit<'_>, _: &Args, _: &[u8]) -> Outcome {
    let new: Vec<Report> = reports(&edit.base.kv).into_iter().filter(|r| !r.is_archived()).collect();
    new.into_iter().for_each(|r| archive_one(edit, r));
    said("")
}

pub fn rm(edit: &mut Edit<'_>, args: &Args, _: &[u8]) -> Outcome {
    let key = format!("{PREFIX}{}", args.str("id"));
    // Gone is gone, also where it never was.
    if edit.base.kv.contains_key(&key) {
        edit.push(Change::Kv(key, None));
    }
    said("")
}

pub fn prune(edit: &mut Edit<'_>, args: &Args, _: &[u8]) -> Outcome {
    let Ok(days) = args.text("keep").parse::<u64>() else { return invalid("keep argument must be integer") };
    let now = edit.now.wall.split().0;
    for report in reports(&edit.base.kv) {
        if now.saturating_sub(report.stamp()) > days.saturating_mul(DAY) {
            edit.push(Change::Kv(report.key(), None));
        }
    }
    said("")
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
