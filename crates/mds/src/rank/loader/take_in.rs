//! Loaded bytes become entries and inodes of the cache.

use super::{Answer, End, Loader, Step};
use crate::cache::Cache;
use crate::io::ObjReply;
use crate::page::Page;
use crate::rank::env::{Due, Env};
use crate::types::{Damage, Damaged, Need};
use fsfmt::{BackPointer, Dentry, DentryKey, DirFrag, Ino, InodeData, InodeKey, names};
use std::collections::BTreeMap;
use wire::Reader;

/// Omap entries, and whether more follow.
type Entries = (BTreeMap<Vec<u8>, Vec<u8>>, bool);

impl Loader {
    /// Takes in what a step has read, and ends the load or begins its next step.
    pub(super) fn take_in(
        &mut self,
        env: &mut Env,
        cache: &mut Cache,
        need: Need,
        step: &Step,
        answer: Answer,
    ) {
        // The fragment was split or joined meanwhile, or another rank has got the directory.
        if let Need::Dentry(dir, _) | Need::Page(dir, _) = &need
            && (!cache.is_leaf(*dir) || !cache.inodes.contains_key(&dir.inode()))
        {
            return self.look_again(env, cache, &need);
        }
        let end = match (step, &need) {
            (Step::Entry, Need::Dentry(dir, key)) => take_key(env, cache, *dir, key, answer),
            (Step::Page(after), Need::Page(dir, _)) => take_page(env, cache, *dir, after, answer),
            (Step::Page(after), Need::Dentry(dir, key)) => {
                let end = take_page(env, cache, *dir, after, answer);
                if end.page.as_ref().and_then(|page| page.last.as_ref()).is_some_and(|last| key > last) {
                    // Larger than its statistics say: fetch the entry itself.
                    return self.fetch_entry(*dir, key, need.clone());
                }
                let is_damaged = end.is_damaged || end.unreadable.contains(key);
                if !is_damaged {
                    take_entry(env, cache, *dir, key, None);
                }
                End { is_damaged, ..end }
            }
            (Step::Index, Need::Inode(ino)) => match back_pointer(env, *ino, answer) {
                Ok(Some(back)) => return self.follow_back_pointer(env, cache, need.clone(), &back),
                Ok(None) => End::default(),
                Err(end) => end,
            },
            (Step::Base, Need::Inode(ino)) => take_base(env, cache, *ino, answer),
            _ => unreachable!("steps belong to their needs"),
        };
        self.finish_with(env, cache, &need, end);
    }
}

fn take_entry(env: &mut Env, cache: &mut Cache, dir: DirFrag, key: &DentryKey, value: Option<Dentry>) {
    let ino = value.as_ref().map(|d| d.link.ino().head());
    cache.loaded(&(dir, key.clone()), value);
    if let Some(ino) = ino {
        env.due(Due::InodeLoaded(ino));
    }
}

/// Adds the entry of one key.
fn take_key(env: &mut Env, cache: &mut Cache, dir: DirFrag, key: &DentryKey, answer: Answer) -> End {
    let Some((entries, _)) = entries(env, cache, dir, answer) else { return End::damaged() };
    match entries.get(&key.to_omap()).map(|value| Reader::new(value).get::<Dentry>()).transpose() {
        Ok(value) => {
            take_entry(env, cache, dir, key, value);
            End::default()
        }
        Err(e) => {
            env.due(Due::Damaged(Damage::new(Damaged::Entry(dir, key.clone()), e.to_string())));
            End::damaged()
        }
    }
}

/// Adds a page, without the entries of it that can't be read.
fn take_page(env: &mut Env, cache: &mut Cache, dir: DirFrag, after: &[u8], answer: Answer) -> End {
    let Some((entries, more)) = entries(env, cache, dir, answer) else { return End::damaged() };
    let last = if more { entries.keys().next_back().and_then(|k| DentryKey::from_omap(k)) } else { None };
    let mut unreadable = Vec::new();
    for (key, value) in entries {
        let Some(key) = DentryKey::from_omap(&key) else { continue };
        match Reader::new(&value).get() {
            Ok(dentry) => take_entry(env, cache, dir, &key, Some(dentry)),
            Err(e) => {
                env.due(Due::Damaged(Damage::new(Damaged::Entry(dir, key.clone()), e.to_string())));
                unreadable.push(key);
            }
        }
    }
    // The page includes changes not stored yet, which could be stored and evicted before the operation reads
    // them.
    cache.touch_page(dir, after, last.as_ref());
    if unreadable.is_empty() {
        cache.dirs.entry(dir).or_default().note_page(after, last.as_ref());
    }
    let page = Some(Page { dir, after: after.to_vec(), last, since: cache.tick });
    End { page, unreadable, is_damaged: false }
}

/// A fragment's entries of an answer; `None`, and the damage is noted, if it can't be read.
fn entries(env: &mut Env, cache: &Cache, dir: DirFrag, answer: Answer) -> Option<Entries> {
    let why = match answer {
        Answer::Found(ObjReply::Omap(entries, more)) => return Some((entries, more)),
        Answer::NoObject if !is_expected(cache, dir) => return Some((BTreeMap::new(), false)),
        Answer::NoObject => "its object is gone",
        Answer::Found(_) | Answer::Unreadable => "its object can't be read",
    };
    env.due(Due::Damaged(Damage::new(Damaged::Frag(dir), why)));
    None
}

/// True if a fragment has an object: its directory counts entries, all of which are stored.
fn is_expected(cache: &Cache, dir: DirFrag) -> bool {
    let counts = |ino: InodeKey| {
        let stat = cache.inodes.get(&ino).map(|inode| &inode.data.dirstat);
        stat.is_some_and(|stat| stat.entries() > 0)
    };
    let is_visible = !dir.ino.is_base() || dir.ino == Ino::ROOT;
    // Another rank may have stored nothing yet.
    let is_visible = is_visible && !cache.is_fixed(dir.inode()) && !cache.subtrees.keeper(dir).is_shard();
    let is_stored = cache.dirs.get(&dir).is_none_or(|d| d.since().is_none());
    // Of several fragments one may be empty.
    is_visible && is_stored && dir == DirFrag::whole(dir.ino) && counts(dir.inode())
}

/// The place of an inode by the inode index.
fn back_pointer(env: &mut Env, ino: InodeKey, answer: Answer) -> Result<Option<BackPointer>, End> {
    let why = match answer {
        Answer::NoObject => return Ok(None),
        Answer::Found(ObjReply::Omap(entries, _)) => {
            let value = entries.get(&names::index_key(ino.ino));
            match value.map(|value| Reader::new(value).get::<BackPointer>()).transpose() {
                Ok(back) => return Ok(back),
                Err(e) => e.to_string(),
            }
        }
        Answer::Found(_) | Answer::Unreadable => "the inode index can't be read".to_owned(),
    };
    env.due(Due::Damaged(Damage::new(Damaged::BackTrace(ino), why)));
    Err(End::damaged())
}

/// Adds an inode that is stored alone.
fn take_base(env: &mut Env, cache: &mut Cache, ino: InodeKey, answer: Answer) -> End {
    let why = match answer {
        Answer::NoObject => return End::default(),
        Answer::Found(ObjReply::Data(bytes)) if bytes.is_empty() => return End::default(),
        Answer::Found(ObjReply::Data(bytes)) => match Reader::new(&bytes).get::<InodeData>() {
            Ok(data) => {
                match cache.subtrees.record(ino.ino).cloned() {
                    Some(record) if !ino.ino.is_base() => cache.loaded_root(data, &record),
                    _ => cache.loaded_base(data),
                }
                return End::default();
            }
            Err(e) => e.to_string(),
        },
        Answer::Found(_) | Answer::Unreadable => "its object can't be read".to_owned(),
    };
    env.due(Due::Damaged(Damage::new(Damaged::Inode(ino), why)));
    End::damaged()
}
