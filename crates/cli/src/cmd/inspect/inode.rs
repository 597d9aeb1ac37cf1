//! `nacre inspect inode`: an inode, and the way to it.

use super::findings::Findings;
use super::json;
use super::show::Show;
use super::target::{Target, TargetArgs};
use super::text::{interval, shown};
use super::view::{Found, Traced, View};
use anyhow::{Result, bail};
use fsfmt::{BackPointer, Ino, names};
use serde_json::{Value, json};

/// Prints an inode.
pub(super) fn show(show: Show<'_>, args: &TargetArgs) -> Result<Findings> {
    let Show { objects, rank, mut printer } = show;
    let mut view = View::new(objects, args.source.journal_of(rank))?;
    let ino = match &args.target {
        Target::Ino(ino) => *ino,
        Target::Path(path) => match view.resolve(path)? {
            Some(found) => found.inode.ino,
            None => return printer.end(view.into_findings()),
        },
    };
    let Traced { trace, top, found } = view.inode(ino)?;
    if found.is_none() && trace.is_empty() && view.findings().count() == 0 {
        let journal = if args.source.stored { "" } else { " and the journal" };
        bail!("no inode {:#x}: nothing in the inode index{journal} leads to it (a path may)", ino.0);
    }
    let path = path(&trace, top);
    printer.line(format!("inode        {:#x} ({})", ino.0, ino.0))?;
    printer.line(format!("path         {path}"))?;
    for (of, back) in &trace {
        let BackPointer { dir, name, version, .. } = back;
        printer.line(format!("back trace   {of} is {} in {dir}, version {version}", shown(name)))?;
    }
    if let Some(found) = &found {
        printer.line(format!("stored in    {}", place(objects.pool(), found)))?;
        let data = json::inode(&found.inode);
        for (key, value) in data.as_object().into_iter().flatten() {
            let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            printer.line(format!("  {key:<16} {value}"))?;
        }
    }
    let backtrace = |(of, back): &(Ino, BackPointer)| {
        let mut value = json::back_pointer(back);
        value["ino"] = of.0.into();
        value
    };
    printer.fields(&json!({
        "ino": ino.0,
        "path": path,
        "backtrace": trace.iter().map(backtrace).collect::<Vec<Value>>(),
        "dentry": found.as_ref().and_then(place_json),
        "from_journal": found.as_ref().map(|found| found.is_from_journal),
        "inode": found.as_ref().map(|found| json::inode(&found.inode)),
        "journal_events": view.journal_events(),
    }))?;
    printer.end(view.into_findings())
}

/// The path that a trace tells; it begins with the inode where it ends.
fn path(trace: &[(Ino, BackPointer)], top: Ino) -> String {
    let mut out = if top == Ino::ROOT { String::new() } else { format!("<{:x}>", top.0) };
    for (_, back) in trace.iter().rev() {
        out += &format!("/{}", shown(&back.name));
    }
    if out.is_empty() { "/".to_owned() } else { out }
}

fn place(pool: &str, found: &Found) -> String {
    let journal = if found.is_from_journal { ", as the journal changes it" } else { "" };
    match &found.place {
        None => format!("{pool}/{}{journal}", names::base_object(found.inode.ino)),
        Some((dir, key, first)) => {
            let (object, interval) = (names::dir_object(*dir), interval(*first, key));
            format!("{pool}/{object} key {} {interval}{journal}", shown(&key.to_omap()))
        }
    }
}

fn place_json(found: &Found) -> Option<Value> {
    let (dir, key, first) = found.place.as_ref()?;
    Some(json!({
        "dirfrag": json::dirfrag(*dir),
        "object": names::dir_object(*dir),
        "key": shown(&key.to_omap()),
        "snap_first": first.0,
    }))
}
