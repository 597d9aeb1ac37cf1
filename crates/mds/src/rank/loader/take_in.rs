//! Loaded bytes become entries and inodes of the cache.

use super::{Loader, Step};
use crate::cache::Cache;
use crate::io::ObjReply;
use crate::page::Page;
use crate::rank::env::{Due, Env};
use crate::types::Need;
use fsfmt::{BackPointer, Dentry, DentryKey, DirFrag, InodeData, names};
use std::collections::BTreeMap;
use wire::{DecodeError, Reader};

impl Loader {
    pub(super) fn take_in(
        &mut self,
        env: &mut Env,
        cache: &mut Cache,
        need: &Need,
        step: &Step,
        reply: Option<ObjReply>,
    ) -> Result<(), DecodeError> {
        let mut page = None;
        match (step, need) {
            (Step::Entry, Need::Dentry(dir, key)) => {
                let (entries, _) = omap(reply);
                let value =
                    entries.get(&key.to_omap()).map(|v| Reader::new(v).get::<Dentry>()).transpose()?;
                take_entry(env, cache, *dir, key, value);
            }
            (Step::Page(after), Need::Dentry(dir, _) | Need::Page(dir, _)) => {
                let last = take_page(env, cache, *dir, after, reply)?;
                if let Need::Dentry(dir, key) = need {
                    if last.as_ref().is_some_and(|l| key > l) {
                        // Larger than its statistics say: fetch the entry itself.
                        self.fetch_entry(*dir, key, need.clone());
                        return Ok(());
                    }
                    take_entry(env, cache, *dir, key, None);
                }
                page = Some(Page { dir: *dir, after: after.clone(), last, since: cache.tick });
            }
            (Step::Index, Need::Inode(ino)) => {
                let (entries, _) = omap(reply);
                if let Some(value) = entries.get(&names::index_key(ino.ino)) {
                    let back: BackPointer = Reader::new(value).get()?;
                    self.follow_back_pointer(env, cache, need.clone(), &back);
                    return Ok(());
                }
            }
            (Step::Base, Need::Inode(_)) => {
                if let Some(ObjReply::Data(bytes)) = reply
                    && !bytes.is_empty()
                {
                    cache.loaded_base(Reader::new(&bytes).get::<InodeData>()?);
                }
            }
            _ => unreachable!("steps belong to their needs"),
        }
        self.finish_with(env, cache, need, page);
        Ok(())
    }
}

fn take_entry(env: &mut Env, cache: &mut Cache, dir: DirFrag, key: &DentryKey, value: Option<Dentry>) {
    let ino = value.as_ref().map(|d| d.link.ino().head());
    cache.loaded(&(dir, key.clone()), value);
    if let Some(ino) = ino {
        env.due(Due::InodeLoaded(ino));
    }
}

/// Adds a page; returns its last entry, or `None` if it reaches the end.
fn take_page(
    env: &mut Env,
    cache: &mut Cache,
    dir: DirFrag,
    after: &[u8],
    reply: Option<ObjReply>,
) -> Result<Option<DentryKey>, DecodeError> {
    let (entries, more) = omap(reply);
    let last = if more { entries.keys().next_back().and_then(|k| DentryKey::from_omap(k)) } else { None };
    for (key, value) in entries {
        let Some(key) = DentryKey::from_omap(&key) else { continue };
        take_entry(env, cache, dir, &key, Some(Reader::new(&value).get()?));
    }
    // The page includes changes not stored yet, which could be stored and evicted before the operation reads
    // them.
    cache.touch_page(dir, after, last.as_ref());
    if after.is_empty() && last.is_none() {
        cache.dirs.entry(dir).or_default().complete = true;
    }
    Ok(last)
}

fn omap(reply: Option<ObjReply>) -> (BTreeMap<Vec<u8>, Vec<u8>>, bool) {
    match reply {
        Some(ObjReply::Omap(entries, more)) => (entries, more),
        _ => (BTreeMap::new(), false),
    }
}
