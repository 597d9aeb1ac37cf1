//! `nacre inspect dir`: a directory's fragments and entries.

use super::findings::{Findings, Part};
use super::json;
use super::show::Show;
use super::stored::Stored;
use super::target::{Target, TargetArgs};
use super::text::{interval, kind, shown, time};
use super::view::View;
use anyhow::{Result, bail};
use fsfmt::{Dentry, DentryKey, DirFrag, Fnode, Frag, Ino, InodeData, Link, names};
use serde_json::json;

/// Bits by which fragments are split.
const SPLIT_BITS: u32 = 3;
/// Fragments of a directory whose inode is lost are looked for down to so many bits.
const MOST_BITS: u32 = 9;

/// Prints a directory.
pub(super) fn show(show: Show<'_>, args: &TargetArgs) -> Result<Findings> {
    let Show { objects, rank, mut printer } = show;
    let mut view = View::new(objects, args.source.journal_of(rank))?;
    let (ino, found) = match &args.target {
        Target::Ino(ino) => (Some(*ino), view.inode(*ino)?.found),
        Target::Path(path) => {
            let found = view.resolve(path)?;
            (found.as_ref().map(|found| found.inode.ino), found)
        }
    };
    let inode = found.map(|found| found.inode);
    if let Some(inode) = inode.as_ref().filter(|inode| !inode.is_dir()) {
        bail!("{:#x} is a {}: `nacre inspect inode` shows it", inode.ino.0, kind(inode.dtype()));
    }
    let Some(ino) = ino else { return printer.end(view.into_findings()) };
    let leaves = match &inode {
        Some(inode) => inode.fragtree.leaves(),
        None => lost_leaves(&mut view, ino)?,
    };
    printer.line(head(ino, inode.as_ref(), leaves.len()))?;
    printer.field("ino", &ino.0.into())?;
    printer.field("inode", &inode.as_ref().map(json::inode).into())?;
    printer.field("journal_events", &view.journal_events().into())?;
    printer.open_list("frags")?;
    let (mut live, mut is_whole) = (0, true);
    for frag in leaves {
        let dir = DirFrag { ino, frag };
        let object = names::dir_object(dir);
        let fnode = view.omap_header::<Fnode>(&object)?;
        is_whole &= matches!(fnode, Stored::Here(_));
        printer.line(frag_line(&object, &fnode))?;
        printer.open_item()?;
        printer.fields(&json!({
            "dirfrag": json::dirfrag(dir),
            "object": object,
            "is_there": matches!(fnode, Stored::Here(_)),
        }))?;
        if let Stored::Here(fnode) = &fnode {
            printer.fields(&json::fnode(fnode))?;
        }
        printer.open_list("dentries")?;
        let damage = view.findings().count();
        view.entries(dir, &mut |key, dentry, is_from_journal| {
            live += u64::from(key.is_head());
            printer.line(line(key, dentry, is_from_journal))?;
            let mut value = json::dentry(key, dentry);
            value["from_journal"] = is_from_journal.into();
            printer.item(&value)
        })?;
        is_whole &= view.findings().count() == damage;
        printer.close()?;
        printer.close()?;
    }
    printer.close()?;
    if let Some(inode) = &inode {
        compare(&mut view, inode, live, is_whole);
    }
    printer.end(view.into_findings())
}

/// Compares the entries that were found with what the inode counts.
fn compare(view: &mut View<'_>, inode: &InodeData, live: u64, is_whole: bool) {
    let counted = inode.dirstat.nfiles.saturating_add(inode.dirstat.nsubdirs);
    // The directories of a rank count nothing.
    if live == counted || inode.ino.is_base() && inode.ino != Ino::ROOT {
        return;
    }
    let object = names::dir_object(DirFrag::whole(inode.ino));
    let what = format!("{live} entries can be read, and the inode counts {counted}");
    if !is_whole && live < counted {
        view.disagree(Part::Fragment, &object, None, &format!("{what}: its object is gone or damaged"));
    } else {
        view.findings().note(format!("{what}: `scrub start PATH recursive` tells more (docs/damage.md)"));
    }
}

/// The fragments of a directory whose inode is lost: those that have objects, and what the journal adds.
fn lost_leaves(view: &mut View<'_>, ino: Ino) -> Result<Vec<Frag>> {
    let (mut leaves, mut left) = (Vec::new(), vec![Frag::WHOLE]);
    while let Some(frag) = left.pop() {
        let dir = DirFrag { ino, frag };
        if view.exists(&names::dir_object(dir))? {
            leaves.push(frag);
        } else if frag.bits() < MOST_BITS {
            left.extend(frag.parts(SPLIT_BITS));
        } else if view.is_changed(dir) {
            leaves.push(frag);
        }
    }
    leaves.sort_by_key(|frag| frag.value());
    if leaves.is_empty() {
        bail!("no inode {:#x} is known, and it has no object of a directory", ino.0);
    }
    if !ino.is_base() && view.findings().count() == 0 {
        let what = format!("nothing leads to {ino}, which has objects of a directory");
        view.disagree(Part::Index, &names::index_object(ino), Some(&names::index_key(ino)), &what);
    }
    view.findings()
        .note("its inode was not found: fragments are those that have objects, or are in the journal");
    Ok(leaves)
}

fn head(ino: Ino, inode: Option<&InodeData>, fragments: usize) -> String {
    let name = format!("directory {:#x} ({})", ino.0, ino.0);
    let Some(inode) = inode else { return name };
    let (stat, rstat) = (&inode.dirstat, &inode.rstat);
    format!(
        "{name}: mode {:o}, {} files, {} directories, {fragments} fragments; below: {} bytes, {} files, {} \
         directories",
        inode.mode, stat.nfiles, stat.nsubdirs, rstat.rbytes, rstat.rfiles, rstat.rsubdirs
    )
}

fn frag_line(object: &str, fnode: &Stored<Fnode>) -> String {
    let what = match fnode {
        Stored::Here(fnode) => format!("version {}, stored up to event {}", fnode.version, fnode.event),
        Stored::Absent => "no such object".to_owned(),
        Stored::Unreadable(_) => "it can't be read".to_owned(),
    };
    format!("fragment {object}: {what}")
}

fn line(key: &DentryKey, dentry: &Dentry, is_from_journal: bool) -> String {
    let source = if is_from_journal { "journal" } else { "stored" };
    let (link, dtype, size, mtime) = match &dentry.link {
        Link::Primary(inode) => ("primary", inode.dtype(), inode.size.to_string(), time(inode.mtime)),
        Link::Remote { dtype, .. } => ("remote", *dtype, "-".to_owned(), "-".to_owned()),
    };
    let (interval, ino, name) = (interval(dentry.first, key), dentry.link.ino(), shown(&key.name));
    let kind = kind(dtype);
    format!("  {source:<7} {interval:<10} {kind:<7} {link:<7} {ino:>12} {size:>12} {mtime:<19}  {name}")
}
