//! `nacre inspect journal`: what `cephfs-journal-tool` shows with `header get`, `event get list|json|summary`
//! and `journal inspect`.

use super::findings::Findings;
use super::json;
use super::show::Show;
use super::text::time;
use super::walk::{self, Walked};
use anyhow::Result;
use clap::Args;
use fsfmt::journal::JournalHeader;
use fsfmt::{Scanned, names};
use serde_json::json;
use std::collections::BTreeMap;

#[derive(Args)]
pub(super) struct JournalArgs {
    /// Count the events, and do not list them.
    #[arg(long)]
    pub summary: bool,
}

/// Prints the journal of a rank.
pub(super) fn show(show: Show<'_>, args: &JournalArgs) -> Result<Findings> {
    let Show { objects, rank, mut printer } = show;
    let mut findings = Findings::new(objects.pool());
    let header = walk::header(objects, rank, &mut findings)?;
    let place = format!("{}/{}", objects.pool(), names::journal_object(rank, 0));
    printer.line(format!("journal of rank {rank}, {place}"))?;
    printer.field("rank", &rank.into())?;
    printer.field("header", &header.as_ref().map(json::header).into())?;
    let mut by_type: BTreeMap<String, u64> = BTreeMap::new();
    if !args.summary {
        printer.line(format!(
            "{:<14} {:>8} {:>7}  {:<19}  TYPE, UPDATES",
            "POSITION", "EVENT", "BYTES", "STAMP"
        ))?;
        printer.open_list("events")?;
    }
    let walked = walk::walk(objects, rank, header.as_ref(), &mut findings, &mut |found| {
        if let Ok(event) = &found.what
            && event.is_replayed
        {
            *by_type.entry(event.event.what.clone()).or_default() += 1;
        }
        if !args.summary {
            printer.line(line(&found))?;
            printer.item(&json::scanned(&found))?;
        }
        Ok(())
    })?;
    if !args.summary {
        printer.close()?;
    }
    let integrity = if findings.count() == 0 { "OK" } else { "DAMAGED" };
    let positions = Positions::of(header.as_ref(), &walked);
    printer.line(summary(&positions, &walked, &by_type))?;
    printer.line(format!("Overall journal integrity: {integrity}"))?;
    printer.fields(&json!({
        "expire_pos": { "object": positions.expire.0, "offset": 0, "seq": positions.expire.1 },
        "write_pos": { "object": positions.write.0, "offset": positions.write.1, "seq": positions.next },
        "objects": walked.objects,
        "bytes": walked.bytes,
        "events_by_type": by_type,
        "integrity": integrity,
    }))?;
    printer.end(findings)
}

/// Where the journal begins and ends.
struct Positions {
    /// The first object that is needed, and its first event.
    expire: (Option<u64>, Option<u64>),
    /// The object that is written to, and the offset of the next event.
    write: (u64, u64),
    /// The next event's number.
    next: Option<u64>,
}

impl Positions {
    fn of(header: Option<&JournalHeader>, walked: &Walked) -> Self {
        let first = header.map(|header| header.first);
        let write = if walked.objects == 0 { (first.unwrap_or(1), 0) } else { walked.end };
        let first_seq = header.map(|header| header.first_seq);
        Self { expire: (first, first_seq), write, next: walked.next_seq.or(first_seq) }
    }
}

/// One event, or damage, as a line.
fn line(found: &Scanned) -> String {
    let position = format!("{}:{}", found.object, found.offset);
    match &found.what {
        Ok(event) => {
            let updates: Vec<String> = event.event.updates.iter().map(ToString::to_string).collect();
            let not = if event.is_replayed { "" } else { "not replayed: " };
            let (stamp, what) = (time(event.event.stamp), event.event.what.escape_default());
            let (seq, len, updates) = (event.seq, found.len, updates.join("; "));
            format!("{position:<14} {seq:>8} {len:>7}  {stamp}  {not}{what}: {updates}")
        }
        Err(why) => format!("{position:<14} {:>8} {:>7}  DAMAGED: {why}", "-", found.len),
    }
}

fn summary(positions: &Positions, walked: &Walked, by_type: &BTreeMap<String, u64>) -> String {
    let or_unknown = |n: Option<u64>| n.map_or("unknown".to_owned(), |n| n.to_string());
    let (object, seq) = positions.expire;
    let mut out = format!("expire position: object {}, event {}\n", or_unknown(object), or_unknown(seq));
    let ((object, offset), next) = (positions.write, or_unknown(positions.next));
    out += &format!("write position: object {object}, offset {offset}, event {next}\n");
    out += &format!("{} objects, {} bytes\nEvents by type:", walked.objects, walked.bytes);
    by_type.iter().for_each(|(what, count)| out += &format!("\n  {}: {count}", what.escape_default()));
    if by_type.is_empty() {
        out += " none";
    }
    out
}
