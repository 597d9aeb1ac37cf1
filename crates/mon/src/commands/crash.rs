//! Reports of crashed daemons: filed by whoever finds them, listed until somebody archives them.

use crate::commands::reply::{Outcome, answer, output, said};
use crate::commands::table::Align::L;
use crate::commands::table::Table;
use crate::domain::crash::{PREFIX, Report, parse_stamp, reports};
use crate::edit::Edit;
use crate::entry::Change;
use crate::failure::{Failure, invalid, missing};
use crate::text::pretty;
use crate::view::View;
use decl::Args;
use serde_json::Value;
use std::collections::BTreeMap;
use wire::{Errno, Utime};

/// Bytes of the longest report.
const MAX_REPORT: usize = 65_536;

const DAY: u64 = 86_400;

fn find(kv: &BTreeMap<String, Vec<u8>>, id: &str) -> Result<Report, Failure> {
    let found = kv.get(&format!("{PREFIX}{id}")).and_then(|v| serde_json::from_slice(v).ok());
    found.map_or_else(|| missing(format!("crash info: {id} not found")), |json| Ok(Report::new(json)))
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
    answer(args, || all.iter().map(|r| r.json().clone()).collect(), plain)
}

pub fn ls(view: &View<'_>, args: &Args) -> Outcome {
    list(view, args, |_| true)
}

pub fn ls_new(view: &View<'_>, args: &Args) -> Outcome {
    list(view, args, |r| !r.is_archived())
}

pub fn info(view: &View<'_>, args: &Args) -> Outcome {
    output(pretty(find(&view.state.kv, args.str("id"))?.json()))
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
        return Err(Failure::new(Errno::EFBIG, format!("a crash report has at most {MAX_REPORT} bytes")));
    }
    let Ok(json) = serde_json::from_slice::<Value>(input) else {
        return invalid("give a crash report as JSON with -i");
    };
    let report = Report::new(json);
    let id = report.text("crash_id");
    if id.is_empty() || id.contains(['/', '\0']) || parse_stamp(report.text("timestamp")).is_none() {
        return invalid("a crash report has a `crash_id` and a `timestamp` (2026-11-22T00:20:11Z)");
    }
    // A report that the same finder files again is not new.
    if !edit.base.kv.contains_key(&report.key()) {
        report.store(edit);
    }
    said("")
}

fn archive_one(edit: &mut Edit<'_>, mut report: Report) {
    let stamp: Utime = edit.now.wall.into();
    report.archive(stamp);
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
    // Removing a missing report succeeds.
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
