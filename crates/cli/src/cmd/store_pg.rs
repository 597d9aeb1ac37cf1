//! `nacre store export|import|remove`: copies of PGs, out of the store of a stopped OSD and into that of
//! another.

use super::pg_file::{Head, Item, Object, Pairs, PgReader, PgWriter};
use super::store_import::Import;
use super::store_local::{Local, PIECE};
use super::terminal::{Format, progress};
use anyhow::{Context, Result, anyhow, bail};
use clap::Args;
use indicatif::ProgressBar;
use maps::{Epoch, Spg};
use osd::offline;
use serde_json::{Value, json};
use std::fs::File;
use std::io::{BufReader, BufWriter, Read};
use std::path::{Path, PathBuf};
use store::ObjectKey;

#[derive(Args)]
pub(crate) struct ExportArgs {
    /// A file, a partition, a disk, or the directory of an OSD, which must be stopped.
    target: PathBuf,
    /// The PG: `1.2f`.
    #[arg(long, required_unless_present = "pool", conflicts_with = "pool")]
    pg: Option<String>,
    /// The name or number of a pool: all its PGs that the OSD has.
    #[arg(long)]
    pool: Option<String>,
    /// The file to make; with `--pool` the directory, which gets a file for each PG.
    file: PathBuf,
    /// The form of the output.
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

#[derive(Args)]
pub(crate) struct ImportArgs {
    /// A file, a partition, a disk, or the directory of an OSD, which must be stopped.
    target: PathBuf,
    /// The file or directory that `nacre store export` has made.
    file: PathBuf,
    /// The form of the output.
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

#[derive(Args)]
pub(crate) struct RemoveArgs {
    /// A file, a partition, a disk, or the directory of an OSD, which must be stopped.
    target: PathBuf,
    /// The PG: `1.2f`. Its import must be unfinished.
    #[arg(long)]
    pg: String,
}

/// The outcome for one PG.
struct Done {
    pgid: Spg,
    /// The OSD that had the copy, and the epoch of the newest map that it knew.
    osd: i32,
    epoch: Epoch,
    objects: u64,
    file: PathBuf,
    what: &'static str,
}

impl Done {
    fn json(&self) -> Value {
        json!({ "pgid": self.pgid.to_string(), "osd": self.osd, "epoch": self.epoch.0,
            "objects": self.objects, "file": self.file.display().to_string(), "done": self.what })
    }
}

fn print(format: Format, done: &[Done], line: impl Fn(&Done) -> String) {
    match format {
        Format::Plain => done.iter().for_each(|done| println!("{}", line(done))),
        Format::Json => {
            println!("{}", json!({ "pgs": done.iter().map(Done::json).collect::<Vec<_>>() }));
        }
    }
}

fn parse(pg: &str) -> Result<Spg> {
    Spg::parse(pg).with_context(|| format!("`{pg}` is no PG: give POOL.NUMBER as in 1.2f"))
}

pub(crate) fn export(args: &ExportArgs) -> Result<()> {
    if args.file.symlink_metadata().is_ok() {
        bail!("{}: it is there already", cannot_create(&args.file));
    }
    let one = args.pg.as_deref().map(parse).transpose()?;
    let mut local = Local::open(&args.target)?;
    let owner = local.owner()?;
    let pgids = match (one, &args.pool) {
        (Some(pgid), _) => vec![pgid],
        (None, Some(pool)) => pgs_of_pool(&mut local, pool)?,
        (None, None) => bail!("give a PG or a pool"),
    };
    let bar = progress("of {len} objects");
    for pgid in &pgids {
        whole(&mut local, *pgid)?;
        bar.inc_length(local.count(*pgid, owner.newest)?);
    }
    let mut name = args.file.file_name().with_context(|| cannot_create(&args.file))?.to_owned();
    name.push(".part");
    let part = args.file.with_file_name(name);
    let made = match one {
        Some(_) => create(&part).map(Some),
        None => std::fs::create_dir(&part).map(|()| None).with_context(|| cannot_create(&part)),
    };
    let mut made = made?;
    let result = (|| {
        let mut done = Vec::new();
        for pgid in pgids {
            let (out, file) = match made.take() {
                Some(out) => (out, args.file.clone()),
                None => {
                    let name = format!("{pgid}.{SUFFIX}");
                    (create(&part.join(&name))?, args.file.join(&name))
                }
            };
            let objects = export_pg(&mut local, pgid, &out, &bar)?;
            done.push(Done { pgid, osd: owner.osd, epoch: owner.newest, objects, file, what: "exported" });
        }
        if one.is_none() {
            sync_dir(&part)?;
        }
        std::fs::rename(&part, &args.file).with_context(|| cannot_create(&args.file))?;
        sync_dir(args.file.parent().unwrap_or(Path::new("")))?;
        anyhow::Ok(done)
    })();
    bar.finish_and_clear();
    if result.is_err() {
        // A file that is not whole is of no use.
        let _ = match one {
            Some(_) => std::fs::remove_file(&part),
            None => std::fs::remove_dir_all(&part),
        };
    }
    print(args.format, &result?, |done| {
        format!("PG {} of osd.{}, as of map {}: {} objects", done.pgid, done.osd, done.epoch, done.objects)
    });
    Ok(())
}

fn cannot_create(path: &Path) -> String {
    format!("cannot create {}", path.display())
}

/// Makes a file; an existing one is left as it is.
fn create(path: &Path) -> Result<File> {
    File::options().write(true).create_new(true).open(path).with_context(|| cannot_create(path))
}

/// The suffix of files in a directory of exports.
const SUFFIX: &str = "pg";

fn sync_dir(dir: &Path) -> Result<()> {
    let dir = if dir.as_os_str().is_empty() { Path::new(".") } else { dir };
    File::open(dir)?.sync_all().with_context(|| dir.display().to_string())
}

fn pgs_of_pool(local: &mut Local, pool: &str) -> Result<Vec<Spg>> {
    let owner = local.owner()?;
    let map = local.map(owner.newest)?;
    let named = map.pool_names.iter().find(|(_, name)| name.as_str() == pool).map(|(id, _)| *id);
    let known = named.or_else(|| pool.parse().ok().filter(|id| map.pools.contains_key(id)));
    let Some(id) = known else {
        let names: Vec<&str> = map.pool_names.values().map(String::as_str).collect();
        bail!("osd.{} knows no pool {pool}; it knows {}", owner.osd, names.join(", "));
    };
    let pgids: Vec<Spg> = local.pgs()?.into_iter().filter(|pgid| pgid.pgid.pool == id).collect();
    if pgids.is_empty() {
        bail!("osd.{} has no PG of pool {pool}", owner.osd);
    }
    Ok(pgids)
}

/// The records of a PG of which the OSD has a whole copy.
fn whole(local: &mut Local, pgid: Spg) -> Result<Pairs> {
    let osd = local.owner()?.osd;
    let Some(records) = local.omap(&offline::records_of(pgid))? else {
        let held: Vec<String> = local.pgs()?.iter().map(ToString::to_string).collect();
        bail!("osd.{osd} has no PG {pgid}; it has {}", held.join(" "));
    };
    if offline::is_importing(&records) {
        bail!("osd.{osd} has only a part of PG {pgid}: its import has not ended");
    }
    Ok(records)
}

/// Writes a copy into a file. Returns the number of objects in it.
fn export_pg(local: &mut Local, pgid: Spg, file: &File, bar: &ProgressBar) -> Result<u64> {
    let owner = local.owner()?;
    let records = whole(local, pgid)?;
    let pg_num = local.pg_num(pgid, owner.newest)?;
    let mut out = PgWriter::new(BufWriter::new(file))?;
    out.put(&Item::Head(Head { fsid: owner.fsid, pgid, pg_num, osd: owner.osd, epoch: owner.newest }))?;
    out.put(&Item::Records(records))?;
    local.each_page(pgid, pg_num, |local, keys| {
        for key in keys {
            export_object(local, key, &mut out)?;
            bar.inc(1);
        }
        Ok(())
    })?;
    let (_, objects) = out.finish()?;
    file.sync_all()?;
    Ok(objects)
}

fn export_object<W: std::io::Write>(local: &mut Local, key: &ObjectKey, out: &mut PgWriter<W>) -> Result<()> {
    let gone = || anyhow!("an object that was listed is gone");
    let view = local.object(key, Vec::new(), None)?.ok_or_else(gone)?;
    let (size, mut entries, mut more) = (view.size, view.omap_entries, view.omap_more);
    out.put(&Item::Object(Object { key: key.clone(), size, attrs: view.attrs, header: view.omap_header }))?;
    let mut at = 0;
    while at < size {
        let len = PIECE.min(size - at);
        let view = local.object(key, vec![(at, len)], None)?.ok_or_else(gone)?;
        let bytes = view.data.first().map(stdx::Bufs::to_vec).unwrap_or_default();
        if bytes.len() as u64 != len {
            bail!("an object of {size} bytes gave {} at {at}", bytes.len());
        }
        if bytes.iter().any(|byte| *byte != 0) {
            out.put(&Item::Data(at, bytes))?;
        }
        at += len;
    }
    while !entries.is_empty() {
        let after = entries.last().map(|(key, _)| key.clone());
        out.put(&Item::Omap(std::mem::take(&mut entries)))?;
        if more {
            let view = local.object(key, Vec::new(), after)?.ok_or_else(gone)?;
            (entries, more) = (view.omap_entries, view.omap_more);
        }
    }
    Ok(())
}

/// A file, or all files of a directory, in order.
fn exports_at(path: &Path) -> Result<Vec<PathBuf>> {
    if !path.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let mut files = Vec::new();
    for entry in std::fs::read_dir(path).with_context(|| format!("cannot list {}", path.display()))? {
        files.extend(Some(entry?.path()).filter(|file| file.extension().is_some_and(|e| e == SUFFIX)));
    }
    if files.is_empty() {
        bail!("{}: there is no export in it (`*.{SUFFIX}`)", path.display());
    }
    files.sort();
    Ok(files)
}

fn reader(path: &Path, bar: &ProgressBar) -> Result<PgReader<impl Read + use<>>> {
    let file = File::open(path).with_context(|| format!("cannot open {}", path.display()))?;
    PgReader::new(BufReader::new(bar.wrap_read(file)))
}

pub(crate) fn import(args: &ImportArgs) -> Result<()> {
    let files = exports_at(&args.file)?;
    let mut bytes = 0;
    for file in &files {
        bytes += std::fs::metadata(file).with_context(|| format!("cannot open {}", file.display()))?.len();
    }
    // Everything is checked before anything is changed.
    let bar = progress("of {total_bytes} looked at");
    bar.set_length(bytes);
    for file in &files {
        let check = || {
            let mut input = reader(file, &bar)?;
            while input.next()?.is_some() {}
            anyhow::Ok(())
        };
        check().with_context(|| file.display().to_string())?;
    }
    bar.finish_and_clear();
    let mut local = Local::open(&args.target)?;
    let to = format!("osd.{}", local.owner()?.osd);
    let bar = progress("of {total_bytes} imported");
    bar.set_length(bytes);
    let mut done = Vec::new();
    let result = files.into_iter().try_for_each(|path| {
        let mut import_one = || {
            let mut input = reader(&path, &bar)?;
            let import = Import::begin(&mut local, &mut input)?;
            let Head { pgid, osd, epoch, .. } = import.head;
            let (objects, what) = match (import.is_there, args.file.is_dir()) {
                (true, false) => bail!("{to} has a copy of PG {pgid} already: nothing was changed"),
                (true, true) => (0, "there already"),
                (false, _) => (import.run(&mut local, &mut input)?, "imported"),
            };
            anyhow::Ok(Done { pgid, osd, epoch, objects, file: path.clone(), what })
        };
        done.push(import_one().with_context(|| path.display().to_string())?);
        anyhow::Ok(())
    });
    let result = result.and_then(|()| local.close());
    bar.finish_and_clear();
    // The PGs before the one that failed stay imported.
    if result.is_ok() || !done.is_empty() {
        print(args.format, &done, |done| match done.what {
            "imported" => {
                format!("PG {} of osd.{} is at {to} now: {} objects", done.pgid, done.osd, done.objects)
            }
            _ => format!("PG {}: {to} has a copy already, which was left as it is", done.pgid),
        });
    }
    result
}

pub(crate) fn remove(args: &RemoveArgs) -> Result<()> {
    let pgid = parse(&args.pg)?;
    let mut local = Local::open(&args.target)?;
    let owner = local.owner()?;
    match local.omap(&offline::records_of(pgid))? {
        None => bail!("osd.{} has no PG {pgid}", owner.osd),
        Some(records) if !offline::is_importing(&records) => {
            bail!("osd.{} has a whole copy of PG {pgid}: only what an import has left is removed", owner.osd)
        }
        Some(_) => {}
    }
    let objects = local.clear(pgid, owner.newest)?;
    local.commit(vec![offline::forgotten(pgid)])?;
    local.close()?;
    println!("PG {pgid} is removed from osd.{}: {objects} objects", owner.osd);
    Ok(())
}

#[cfg(test)]
#[path = "store_pg_tests.rs"]
mod tests;
