//! `nacre inspect sessions`: the table of sessions of a rank (`cephfs-table-tool RANK show session`).

use super::findings::{Findings, Part};
use super::json;
use super::show::Show;
use super::target::SourceArgs;
use super::view::View;
use anyhow::Result;
use fsfmt::tables::{SessionRecord, parse_session_key};
use fsfmt::{names, ranges};
use serde_json::json;
use std::collections::BTreeMap;

/// Prints the sessions of a rank.
pub(super) fn show(show: Show<'_>, args: &SourceArgs) -> Result<Findings> {
    let Show { objects, rank, mut printer } = show;
    let mut view = View::new(objects, args.journal_of(rank))?;
    let object = names::session_table(rank);
    let mut sessions: BTreeMap<u64, SessionRecord> = BTreeMap::new();
    let is_there = view.all_values(Part::Table, &object, &mut |findings, key, value| {
        match parse_session_key(key) {
            Some(client) => {
                let record = findings.decode(Part::Table, &object, Some(key), value);
                record.map(|record| sessions.insert(client, record));
            }
            None => findings.damage(Part::Table, &object, Some(key), "no client has such a key"),
        }
        Ok(())
    })?;
    let stored = sessions.clone();
    view.tables().change_sessions(&mut sessions);
    let missing = if is_there { "" } else { " (no such object)" };
    printer.line(format!(
        "sessions of rank {rank}, {}/{object}{missing}: {}",
        objects.pool(),
        sessions.len()
    ))?;
    printer.fields(&json!({ "rank": rank, "object": object, "journal_events": view.journal_events() }))?;
    printer.open_list("sessions")?;
    for (client, record) in &sessions {
        let is_from_journal = stored.get(client) != Some(record);
        printer.line(line(*client, record, is_from_journal))?;
        let mut value = json::session(*client, record);
        value["from_journal"] = is_from_journal.into();
        printer.item(&value)?;
    }
    printer.close()?;
    printer.end(view.into_findings())
}

fn line(client: u64, record: &SessionRecord, is_from_journal: bool) -> String {
    let said = |key: &str| record.metadata.get(key).map_or("-", String::as_str).escape_debug().to_string();
    format!(
        "  {:<7} client.{client} {} {} host {} mount point {}: {} completed requests, {} flushes, {} + {} \
         inode numbers (reserved + delegated){}",
        if is_from_journal { "journal" } else { "stored" },
        record.addrs,
        record.name.escape_debug(),
        said("hostname"),
        said("mount_point"),
        record.completed.len(),
        record.flushed.len(),
        ranges::count(&record.preallocated),
        ranges::count(&record.delegated),
        if record.was_absent { ", was absent" } else { "" },
    )
}
