//! `nacre store` and `nacre inspect store`: the content of an OSD's or a monitor's device.

use super::probe::{self, device_of};
use super::terminal::{Format, progress};
use super::{store_bench, store_bench_args, store_pg};
use anyhow::{Context, Result, bail};
use clap::{Args, Subcommand};
use serde_json::json;
use std::fs::File;
use std::io::{Seek, SeekFrom, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use stdx::BufMut;
use store::{Depth, Report};

#[derive(Args)]
pub(crate) struct StoreArgs {
    #[command(subcommand)]
    command: StoreCommand,
}

#[derive(Subcommand)]
enum StoreCommand {
    /// Check every checksum, and the owners of every block.
    Check(TargetArgs),
    /// Measure a store on a device of its own.
    Bench(store_bench_args::BenchArgs),
    /// Write an OSD's copies of a PG, or of all PGs of a pool, into files; the OSD must be stopped.
    Export(store_pg::ExportArgs),
    /// Put exported copies into the store of an OSD, which must be stopped.
    Import(store_pg::ImportArgs),
    /// Remove the remains of an unfinished import; the OSD must be stopped.
    Remove(store_pg::RemoveArgs),
}

#[derive(Args)]
pub(super) struct TargetArgs {
    /// A file, a partition, a disk, or the directory of a daemon.
    target: PathBuf,
    /// The form of the output.
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

pub(crate) fn run(args: &StoreArgs) -> Result<()> {
    match &args.command {
        StoreCommand::Check(target) => check(target),
        StoreCommand::Bench(bench) => store_bench::run(bench),
        StoreCommand::Export(args) => store_pg::export(args),
        StoreCommand::Import(args) => store_pg::import(args),
        StoreCommand::Remove(args) => store_pg::remove(args),
    }
}

pub(super) fn inspect(target: &TargetArgs) -> Result<()> {
    let report = Device::open(&target.target)?.look(Depth::Index)?;
    print(&report, target.format)
}

fn check(args: &TargetArgs) -> Result<()> {
    let device = Device::open(&args.target)?;
    device.lock()?;
    let report = device.look(Depth::Data)?;
    print(&report, args.format)?;
    match report.damage.len() {
        0 => Ok(()),
        1 => bail!("{}: damaged in one place", args.target.display()),
        n => bail!("{}: damaged in {n} places", args.target.display()),
    }
}

/// A device opened for reading only.
struct Device {
    file: File,
    path: PathBuf,
    size: u64,
}

impl Device {
    fn open(target: &Path) -> Result<Self> {
        let path = device_of(target);
        let mut file = File::open(&path).with_context(|| format!("cannot open {}", path.display()))?;
        let size =
            file.seek(SeekFrom::End(0)).with_context(|| format!("cannot measure {}", path.display()))?;
        Ok(Self { file, path, size })
    }

    /// A store that changes while it is read would look damaged.
    fn lock(&self) -> Result<()> {
        if !runtime::lock_shared(&self.file, &self.path) {
            bail!("{}: stop that one first", probe::held(&self.path));
        }
        Ok(())
    }

    fn look(&self, depth: Depth) -> Result<Report> {
        let bar = progress("{pos} of {len} blocks");
        let mut read = |offset: u64, len: usize| {
            let mut buf = BufMut::zeroed(len);
            let read = self.file.read_exact_at(buf.as_mut_slice(), offset);
            read.map(|()| buf.freeze()).map_err(|e| format!("read of {len} bytes at {offset}: {e}"))
        };
        let mut progress = |done, all| {
            if bar.length() != Some(all) {
                bar.set_length(all);
            }
            bar.set_position(done);
        };
        let report = store::inspect(self.size, depth, &mut read, &mut progress);
        bar.finish_and_clear();
        report.map_err(|what| anyhow::anyhow!("{}: {what}", self.path.display()))
    }
}

fn print(report: &Report, format: Format) -> Result<()> {
    let text = match format {
        Format::Plain => plain(report),
        Format::Json => serde_json::to_string_pretty(&as_json(report))? + "\n",
    };
    std::io::stdout().lock().write_all(text.as_bytes())?;
    Ok(())
}

fn plain(report: &Report) -> String {
    let mut lines = Vec::new();
    for (i, text) in report.superblocks.iter().enumerate() {
        lines.push(format!("superblock {}: {text}", ['A', 'B'][i % 2]));
    }
    lines.extend(report.fields.iter().map(|(name, value)| format!("  {name:<14} {value}")));
    let (records, txns, bytes) = report.log;
    lines.push(format!("log: {records} records, {txns} transactions, {bytes} bytes; {}", report.log_end));
    for (level, pages) in report.pages.iter().enumerate() {
        lines.push(format!("index level {level}: {pages} pages"));
    }
    for (name, count, bytes) in report.entries.iter().filter(|e| e.1 > 0) {
        lines.push(format!("  {name:<18} {count:>12} entries {bytes:>14} bytes"));
    }
    let (objects, data) = report.objects;
    lines.push(format!("objects: {objects}, {data} bytes"));
    let (blocks, further) = report.blocks;
    lines.push(format!("blocks: {blocks} with data, {further} further references, {} free", report.free));
    lines.push(format!("checksums compared: {} blocks", report.compared));
    lines.extend(report.damage.iter().map(|what| format!("DAMAGED: {what}")));
    if report.damage.is_empty() {
        lines.push("sound".to_owned());
    }
    lines.join("\n") + "\n"
}

fn as_json(report: &Report) -> serde_json::Value {
    let entries: Vec<_> = report
        .entries
        .iter()
        .map(|(kind, n, bytes)| json!({"kind": kind, "entries": n, "bytes": bytes}))
        .collect();
    let fields: serde_json::Map<_, _> =
        report.fields.iter().map(|(name, value)| (name.replace(' ', "_"), json!(value))).collect();
    json!({
        "superblocks": report.superblocks,
        "superblock": fields,
        "log": {
            "records": report.log.0,
            "transactions": report.log.1,
            "bytes": report.log.2,
            "end": report.log_end,
        },
        "pages": report.pages,
        "page_bytes": report.page_bytes,
        "entries": entries,
        "objects": report.objects.0,
        "bytes": report.objects.1,
        "blocks": report.blocks.0,
        "further_references": report.blocks.1,
        "free_blocks": report.free,
        "compared_blocks": report.compared,
        "damage": report.damage,
    })
}
