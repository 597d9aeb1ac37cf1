//! `nacre inspect tables`: inode numbers, snapshots, strays, and the tables that later versions fill
//! (`cephfs-table-tool RANK show inode|snap`).

use super::findings::{Findings, Part};
use super::json;
use super::printer::Printer;
use super::sessions::WITHOUT_JOURNAL;
use super::show::Show;
use super::text::{shown, time};
use super::view::View;
use anyhow::Result;
use fsfmt::tables::InoTable;
use fsfmt::{DirFrag, Ino, Link, PackRecord, PreparedTxn, SnapRecord, SnapTable, names};
use maps::SnapId;
use serde_json::{Value, json};
use wire::Decode;

/// The omap key of the head of the table of snapshots.
const SNAP_HEAD: &[u8] = b"head";

/// Prints the tables of a rank, and the table of snapshots.
pub(super) fn show(show: Show<'_>) -> Result<Findings> {
    let Show { objects, rank, mut printer } = show;
    let mut view = View::new(objects, None)?;
    inode_numbers(&mut view, &mut printer, rank)?;
    snapshots(&mut view, &mut printer)?;
    strays(&mut view, &mut printer, rank)?;
    others(&mut view, &mut printer, "prepared", &names::prepared_table(rank), prepared)?;
    others(&mut view, &mut printer, "packs", &names::pack_table(rank), pack)?;
    view.findings().note(WITHOUT_JOURNAL);
    printer.end(view.into_findings())
}

fn inode_numbers(view: &mut View<'_>, printer: &mut Printer<'_>, rank: u32) -> Result<()> {
    let object = names::ino_table(rank);
    let table: Option<InoTable> = view.data(Part::Table, &object)?;
    match &table {
        Some(table) => {
            let (next, ranges) = (table.next, table.free.len());
            printer.line(format!(
                "inodes, {object}: the next number is {next:#x}, {ranges} free ranges below"
            ))?;
        }
        None => printer.line(format!("inodes, {object}: not there, or unreadable"))?,
    }
    let value = table.map(|table| json!({ "next": table.next, "free": json::ranges(&table.free) }));
    printer.field("inotable", &value.into())
}

fn snapshots(view: &mut View<'_>, printer: &mut Printer<'_>) -> Result<()> {
    let object = names::snap_table();
    let (mut head, mut lines, mut list) = (None::<SnapTable>, Vec::new(), Vec::new());
    view.all_values(Part::Table, &object, &mut |findings, key, value| {
        if key == SNAP_HEAD {
            head = findings.decode(Part::Table, &object, Some(key), value);
            return Ok(());
        }
        let number = std::str::from_utf8(key).ok().and_then(|key| u64::from_str_radix(key, 16).ok());
        let Some(snap) = number.map(SnapId) else {
            findings.damage(Part::Table, &object, Some(key), "no snapshot has such a key");
            return Ok(());
        };
        if let Some(record) = findings.decode::<SnapRecord>(Part::Table, &object, Some(key), value) {
            let (state, info) = (json::snap_state_name(record.state), &record.info);
            let (ino, name, stamp) = (info.ino, shown(&info.name), time(info.stamp));
            lines.push(format!("  {} {state} of {ino}, made {stamp}: {name}", snap.0));
            list.push(json::snap_record(snap, &record));
        }
        Ok(())
    })?;
    let last = head.as_ref().map_or(0, |head| head.last_created.max(head.last_removed).0);
    printer.line(format!("snapshots, {object}: {}, the last id is {last}", lines.len()))?;
    lines.iter().try_for_each(|line| printer.line(line))?;
    let (version, created) = head.as_ref().map_or((0, 0), |head| (head.version, head.last_created.0));
    let value = json!({ "version": version, "last_snap": last, "last_created": created, "snaps": list });
    printer.field("snaptable", &value)
}

fn strays(view: &mut View<'_>, printer: &mut Printer<'_>, rank: u32) -> Result<()> {
    let dir = DirFrag::whole(Ino::stray(rank));
    let (mut lines, mut list) = (Vec::new(), Vec::<Value>::new());
    view.entries(dir, &mut |key, dentry, _| {
        let (size, from, nlink) = match &dentry.link {
            Link::Primary(inode) => (inode.size, inode.stray_from, inode.nlink),
            Link::Remote { .. } => (0, Ino(0), 0),
        };
        let ino = dentry.link.ino();
        lines.push(format!("  {ino} {size} bytes, {nlink} names, was in {from}"));
        list.push(json::dentry(key, dentry));
        Ok(())
    })?;
    printer.line(format!("strays, {}: {}", names::dir_object(dir), lines.len()))?;
    lines.iter().try_for_each(|line| printer.line(line))?;
    printer.field("strays", &list.into())
}

fn prepared(txn: &PreparedTxn) -> Value {
    json!({
        "participants": txn.participants.iter().map(|rank| rank.0).collect::<Vec<_>>(),
        "updates": txn.updates.iter().map(ToString::to_string).collect::<Vec<_>>(),
        "is_committed": txn.is_committed,
    })
}

fn pack(pack: &PackRecord) -> Value {
    json!({
        "pool_id": pack.pool,
        "bytes": pack.bytes,
        "live_bytes": pack.live_bytes,
        "files": pack.files,
    })
}

/// Prints a table that no version fills yet, if it is there.
fn others<T: Decode>(
    view: &mut View<'_>,
    printer: &mut Printer<'_>,
    name: &str,
    object: &str,
    describe: impl Fn(&T) -> Value,
) -> Result<()> {
    let mut list = Vec::new();
    view.all_values(Part::Table, object, &mut |findings, key, value| {
        if let Some(record) = findings.decode::<T>(Part::Table, object, Some(key), value) {
            let mut value = describe(&record);
            value["key"] = shown(key).into();
            list.push(value);
        }
        Ok(())
    })?;
    if !list.is_empty() {
        printer.line(format!("{name}, {object}: {}", list.len()))?;
        list.iter().try_for_each(|record| printer.line(format!("  {record}")))?;
    }
    printer.field(name, &list.into())
}
