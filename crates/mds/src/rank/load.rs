//! Loading what operations lack.

use super::Rank;
use super::run::Op;
use crate::io::{IoResult, IoWhy, ObjOp, ObjReply};
use crate::types::{IoId, Need, OpId};
use fsfmt::{BackPointer, Dentry, DentryKey, DirFrag, Ino, InodeData, InodeKey, names};
use node::Level;
use std::collections::{BTreeMap, BTreeSet};
use wire::{DecodeError, Reader};

/// Entries of a page. A directory with fewer is loaded whole when its first entry is needed.
pub(super) const PAGE: u64 = 512;

/// A load under way.
#[derive(Debug)]
pub(super) struct Load {
    /// Operations that wait for it.
    pub ops: BTreeSet<OpId>,
    /// Loads of inodes that wait for it.
    pub parents: BTreeSet<Need>,
    /// The run in which it was asked for: nothing used since may leave the cache.
    pub tick: u64,
}

/// What an object operation of a load does.
#[derive(Clone, Debug)]
pub(super) enum Step {
    /// Fetches one entry.
    Entry,
    /// Fetches a page, because the directory is small or it was asked for.
    Page(Vec<u8>),
    /// Fetches an entry of the inode index.
    Index,
    /// Fetches a base inode.
    Base,
}

/// A part of a directory that is in the cache without gaps, as of an operation's run.
#[derive(Clone, Debug)]
pub struct Page {
    /// Which directory.
    pub dir: DirFrag,
    /// Behind this omap key …
    pub after: Vec<u8>,
    /// … up to this entry, or to the end.
    pub last: Option<DentryKey>,
    /// Since this run.
    pub since: u64,
}

impl Rank {
    /// Starts a load, or joins it.
    pub(super) fn load(&mut self, need: Need, op: Option<OpId>, parent: Option<Need>) {
        if let Some(load) = self.loads.get_mut(&need) {
            load.ops.extend(op);
            load.parents.extend(parent);
            return;
        }
        let load = Load {
            ops: op.into_iter().collect(),
            parents: parent.into_iter().collect(),
            tick: self.cache.tick,
        };
        self.loads.insert(need.clone(), load);
        match &need {
            Need::Dentry(dir, key) => self.load_entry(*dir, key.clone(), need.clone()),
            Need::Page(dir, after) => {
                let ops = vec![ObjOp::OmapList { after: after.clone(), max: PAGE }];
                self.load_io(names::dir_object(*dir), ops, need.clone(), Step::Page(after.clone()));
            }
            Need::Inode(ino) => self.load_inode(*ino, need.clone()),
            Need::Revoke { .. }
            | Need::Truncated(_)
            | Need::Lock(_)
            | Need::Remote(..)
            | Need::Thaw(_)
            | Need::Prepared(_) => unreachable!("these are not loads"),
        }
    }

    fn load_io(&mut self, object: String, ops: Vec<ObjOp>, need: Need, step: Step) {
        let id = self.start_io(self.metadata(object), ops, IoWhy::Load);
        self.io_loads.insert(id, (need, step));
    }

    fn load_entry(&mut self, dir: DirFrag, key: DentryKey, need: Need) {
        let object = names::dir_object(dir);
        let small = self.cache.inodes.get(&dir.inode()).is_some_and(|i| {
            let stat = &i.data.dirstat;
            stat.nfiles + stat.nsubdirs < PAGE.min(self.cfg.options.cache_inodes as u64 / 8)
        });
        if small && dir.ino != Ino::stray(self.cfg.rank) {
            self.load_io(
                object,
                vec![ObjOp::OmapList { after: Vec::new(), max: PAGE }],
                need,
                Step::Page(Vec::new()),
            );
        } else {
            self.load_io(object, vec![ObjOp::OmapGet(vec![key.to_omap()])], need, Step::Entry);
        }
    }

    fn load_inode(&mut self, ino: InodeKey, need: Need) {
        if ino.is_base() {
            let ops = vec![ObjOp::Read { offset: 0, len: 0 }];
            return self.load_io(names::base_object(ino.ino), ops, need, Step::Base);
        }
        match self.cache.index.get(&ino.ino).map(|change| change.value.clone()) {
            Some(Some(back)) => self.follow_back_pointer(need, &back),
            Some(None) => self.finish_load(&need),
            None => {
                let ops = vec![ObjOp::OmapGet(vec![names::index_key(ino.ino)])];
                self.load_io(names::index_object(ino.ino), ops, need, Step::Index);
            }
        }
    }

    fn follow_back_pointer(&mut self, need: Need, back: &BackPointer) {
        let key = DentryKey::new(&back.name);
        let dir = match self.cache.frag_of(back.dir, key.hash) {
            Ok(dir) => dir,
            Err(Need::Inode(dir)) if !self.waits_for(&need, dir) => {
                // Which fragment it is in says the directory's inode.
                return self.load(Need::Inode(dir), None, Some(need));
            }
            Err(_) => return self.finish_load(&need),
        };
        if self.cache.entry(dir, &key).is_ok() {
            return self.finish_load(&need);
        }
        self.load(Need::Dentry(dir, key), None, Some(need));
    }

    /// True if the load of `inode` waits for `need`: back pointers that lead in a circle are damaged.
    fn waits_for(&self, need: &Need, inode: InodeKey) -> bool {
        let mut left = vec![need];
        while let Some(need) = left.pop() {
            if *need == Need::Inode(inode) {
                return true;
            }
            left.extend(self.loads.get(need).into_iter().flat_map(|load| &load.parents));
        }
        false
    }

    /// Loads a page of the directory of strays, which is never split.
    pub(super) fn load_strays(&mut self, after: Vec<u8>) {
        let dir = DirFrag::whole(Ino::stray(self.cfg.rank));
        self.load(Need::Page(dir, after), None, None);
    }

    /// An object operation of a load has ended.
    pub(super) fn load_done(&mut self, id: IoId, result: IoResult) {
        let Some((need, step)) = self.io_loads.remove(&id) else { return };
        let reply = result.ok().and_then(|mut replies| (!replies.is_empty()).then(|| replies.remove(0)));
        if let Err(e) = self.take_in(&need, &step, reply) {
            let detail = format!("{need:?}: {e}; operations on it fail");
            self.log(Level::Error, "damaged_metadata_seen", detail);
            self.finish_load(&need);
        }
    }

    fn take_in(&mut self, need: &Need, step: &Step, reply: Option<ObjReply>) -> Result<(), DecodeError> {
        match (step, need) {
            (Step::Entry, Need::Dentry(dir, key)) => {
                let (entries, _) = omap(reply);
                let value =
                    entries.get(&key.to_omap()).map(|v| Reader::new(v).get::<Dentry>()).transpose()?;
                self.take_entry(*dir, key, value);
            }
            (Step::Page(after), Need::Dentry(dir, _) | Need::Page(dir, _)) => {
                let last = self.take_page(*dir, after, reply)?;
                if let Need::Dentry(dir, key) = need {
                    if last.as_ref().is_some_and(|l| key > l) {
                        // Larger than its statistics say: fetch the entry itself.
                        let ops = vec![ObjOp::OmapGet(vec![key.to_omap()])];
                        self.load_io(names::dir_object(*dir), ops, need.clone(), Step::Entry);
                        return Ok(());
                    }
                    self.take_entry(*dir, key, None);
                }
                if dir.ino == Ino::stray(self.cfg.rank) && matches!(need, Need::Page(..)) {
                    self.stray_next = last.as_ref().map(DentryKey::to_omap);
                }
                let waiting: Vec<OpId> =
                    self.loads.get(need).into_iter().flat_map(|l| l.ops.clone()).collect();
                let page = Page { dir: *dir, after: after.clone(), last, since: self.cache.tick };
                for id in waiting {
                    if let Some(op) = self.ops.get_mut(&id) {
                        op.pages.push(page.clone());
                    }
                }
            }
            (Step::Index, Need::Inode(ino)) => {
                let (entries, _) = omap(reply);
                if let Some(value) = entries.get(&names::index_key(ino.ino)) {
                    let back: BackPointer = Reader::new(value).get()?;
                    self.follow_back_pointer(need.clone(), &back);
                    return Ok(());
                }
            }
            (Step::Base, Need::Inode(_)) => {
                if let Some(ObjReply::Data(bytes)) = reply
                    && !bytes.is_empty()
                {
                    self.cache.loaded_base(Reader::new(&bytes).get::<InodeData>()?);
                }
            }
            _ => unreachable!("steps belong to their needs"),
        }
        self.finish_load(need);
        Ok(())
    }

    fn take_entry(&mut self, dir: DirFrag, key: &DentryKey, value: Option<Dentry>) {
        let ino = value.as_ref().map(|d| d.link.ino().head());
        self.cache.loaded(&(dir, key.clone()), value);
        if let Some(ino) = ino {
            self.note_inode(ino);
        }
    }

    /// Takes in a page; gives its last entry, or none where it reaches the end.
    fn take_page(
        &mut self,
        dir: DirFrag,
        after: &[u8],
        reply: Option<ObjReply>,
    ) -> Result<Option<DentryKey>, DecodeError> {
        let (entries, more) = omap(reply);
        let last = if more { entries.keys().next_back().and_then(|k| DentryKey::from_omap(k)) } else { None };
        for (key, value) in entries {
            let Some(key) = DentryKey::from_omap(&key) else { continue };
            self.take_entry(dir, &key, Some(Reader::new(&value).get()?));
        }
        // What is not stored yet belongs to it, and could be stored and leave before it is looked at.
        self.cache.touch_page(dir, after, last.as_ref());
        if after.is_empty() && last.is_none() {
            self.cache.dirs.entry(dir).or_default().complete = true;
        }
        Ok(last)
    }

    /// A load is over; what waited for it goes on.
    fn finish_load(&mut self, need: &Need) {
        let Some(load) = self.loads.remove(need) else { return };
        if let Need::Inode(ino) = need
            && !self.cache.inodes.contains_key(ino)
        {
            for id in &load.ops {
                if let Some(op) = self.ops.get_mut(id) {
                    op.missing.insert(*ino);
                }
            }
        }
        if let Need::Inode(ino) = need {
            self.settle_claims(*ino);
            self.settle_flushes(*ino);
        }
        for id in load.ops {
            self.satisfy(id, std::slice::from_ref(need));
        }
        for parent in load.parents {
            self.go_on_with(parent, need);
        }
    }

    /// A load that waited for another, which is over.
    fn go_on_with(&mut self, parent: Need, done: &Need) {
        match (&parent, done) {
            // Now the fragment that it is in is known.
            (Need::Inode(ino), Need::Inode(dir)) if self.cache.inodes.contains_key(dir) => {
                self.load_inode(*ino, parent);
            }
            _ => self.finish_load(&parent),
        }
    }

    /// Nothing used since this run may leave the cache.
    pub(super) fn barrier(&self) -> u64 {
        let loads = self.loads.values().map(|l| l.tick);
        let ops = self.ops.values().filter(|op| op.waits_for_loads()).map(Op::needs_since);
        loads.chain(ops).min().unwrap_or(self.cache.tick + 1)
    }

    /// Drops what is beyond the limit, and asks clients for caps where those keep it there.
    pub(super) fn trim_cache(&mut self) {
        let limit = self.cfg.options.cache_inodes;
        if self.cache.stats().entries > limit {
            let barrier = self.barrier();
            self.cache.trim(limit, barrier);
        }
    }

    /// Looks for what clients have given back, once a second.
    pub(super) fn trim_thoroughly(&mut self) {
        /// Some milliseconds.
        const LOOKS: usize = 20_000;
        let barrier = self.barrier();
        self.cache.trim_some(self.cfg.options.cache_inodes, barrier, LOOKS);
    }
}

fn omap(reply: Option<ObjReply>) -> (BTreeMap<Vec<u8>, Vec<u8>>, bool) {
    match reply {
        Some(ObjReply::Omap(entries, more)) => (entries, more),
        _ => (BTreeMap::new(), false),
    }
}
