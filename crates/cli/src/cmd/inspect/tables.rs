//! `nacre inspect tables`: inode numbers, snapshots, strays, and the tables that later versions fill
//! (`cephfs-table-tool RANK show inode|snap`).

use super::findings::{Findings, Part};
use super::json;
use super::printer::Printer;
use super::show::Show;
use super::target::SourceArgs;
use super::text::{shown, time};
use super::view::View;
use anyhow::Result;
use fsfmt::tables::InoTable;
use fsfmt::{DirFrag, Ino, Link, PackRecord, PreparedTxn, SnapRecord, SnapTable, names};
use maps::SnapId;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use wire::Decode;

/// The omap key of the head of the table of snapshots.
const SNAP_HEAD: &[u8] = b"head";

/// Prints the tables of a rank, and the table of snapshots.
pub(super) fn show(show: Show<'_>, args: &SourceArgs) -> Result<Findings> {
    let Show { objects, rank, mut printer } = show;
    let mut view = View::new(objects, args.journal_of(rank))?;
    printer.field("journal_events", &view.journal_events().into())?;
    inode_numbers(&mut view, &mut printer, rank)?;
    snapshots(&mut view, &mut printer)?;
    strays(&mut view, &mut printer, rank)?;
    others(&mut view, &mut printer, "prepared", &names::prepared_table(rank), prepared)?;
    others(&mut view, &mut printer, "packs", &names::pack_table(rank), pack)?;
    printer.end(view.into_findings())
}

fn inode_numbers(view: &mut View<'_>, printer: &mut Printer<'_>, rank: u32) -> Result<()> {
    let object = names::ino_table(rank);
    let mut table: InoTable = view.data(Part::Table, &object)?.unwrap_or_default();
    view.tables().change_numbers(&mut table);
    let (next, free) = (table.next, table.free.len());
    printer.line(format!("inodes, {object}: the next number is {next:#x}, {free} free ranges below"))?;
    printer.field("inotable", &json!({ "next": next, "free": json::ranges(&table.free) }))
}

fn snapshots(view: &mut View<'_>, printer: &mut Printer<'_>) -> Result<()> {
    let object = names::snap_table();
    let (mut head, mut records) = (SnapTable::default(), BTreeMap::new());
    view.all_values(Part::Table, &object, &mut |findings, key, value| {
        let number = std::str::from_utf8(key).ok().and_then(|key| u64::from_str_radix(key, 16).ok());
        match number.map(SnapId) {
            _ if key == SNAP_HEAD => {
                head = findings.decode(Part::Table, &object, Some(key), value).unwrap_or_default();
            }
            Some(snap) => {
                let record: Option<SnapRecord> = findings.decode(Part::Table, &object, Some(key), value);
                record.map(|record| records.insert(snap, record));
            }
            None => findings.damage(Part::Table, &object, Some(key), "no snapshot has such a key"),
        }
        Ok(())
    })?;
    view.tables().change_snapshots(&mut head, &mut records);
    let last = head.last_created.max(head.last_removed).0;
    printer.line(format!("snapshots, {object}: {}, the last id is {last}", records.len()))?;
    for (snap, record) in &records {
        let (state, info) = (json::snap_state_name(record.state), &record.info);
        let (ino, name, stamp) = (info.ino, shown(&info.name), time(info.stamp));
        printer.line(format!("  {} {state} of {ino}, made {stamp}: {name}", snap.0))?;
    }
    let list: Vec<Value> = records.iter().map(|(snap, record)| json::snap_record(*snap, record)).collect();
    let (version, created) = (head.version, head.last_created.0);
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
