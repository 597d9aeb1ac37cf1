//! `nacre inspect sessions`: the table of sessions of a rank (`cephfs-table-tool RANK show session`).

use super::findings::{Findings, Part};
use super::json;
use super::show::Show;
use super::view::View;
use anyhow::Result;
use fsfmt::tables::{SessionRecord, parse_session_key};
use fsfmt::{InoRange, names};
use serde_json::json;

/// What is not to be seen in the tables.
pub(super) const WITHOUT_JOURNAL: &str =
    "what the journal changes of this is not included (nacre inspect journal)";

/// Prints the sessions of a rank.
pub(super) fn show(show: Show<'_>) -> Result<Findings> {
    let Show { objects, rank, mut printer } = show;
    let mut view = View::new(objects, None)?;
    let object = names::session_table(rank);
    printer.line(format!("sessions of rank {rank}, {}/{object}", objects.pool()))?;
    printer.fields(&json!({ "rank": rank, "object": object }))?;
    printer.open_list("sessions")?;
    let mut count = 0;
    let is_there = view.all_values(Part::Table, &object, &mut |findings, key, value| {
        let Some(client) = parse_session_key(key) else {
            findings.damage(Part::Table, &object, Some(key), "no client has such a key");
            return Ok(());
        };
        if let Some(record) = findings.decode(Part::Table, &object, Some(key), value) {
            count += 1;
            printer.line(line(client, &record))?;
            printer.item(&json::session(client, &record))?;
        }
        Ok(())
    })?;
    printer.close()?;
    let missing = if is_there { "" } else { "; the table does not exist" };
    printer.line(format!("{count} sessions{missing}"))?;
    view.findings().note(WITHOUT_JOURNAL);
    printer.end(view.into_findings())
}

fn line(client: u64, record: &SessionRecord) -> String {
    let said = |key: &str| record.metadata.get(key).map_or("-", String::as_str).escape_debug().to_string();
    let numbers = |ranges: &[InoRange]| ranges.iter().map(|range| range.count).fold(0, u64::saturating_add);
    format!(
        "client.{client} {} {} host {} mount point {}: {} completed requests, {} flushes, {} + {} inode \
         numbers (reserved + delegated){}",
        record.addrs,
        record.name.escape_debug(),
        said("hostname"),
        said("mount_point"),
        record.completed.len(),
        record.flushed.len(),
        numbers(&record.preallocated),
        numbers(&record.delegated),
        if record.was_absent { ", was absent" } else { "" },
    )
}
