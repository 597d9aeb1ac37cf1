//! Operations on open directories: a stream of entries in the MDS's order of hashes, fetched in chunks.

use crate::api::{Answer, DirEntry, Fh, FsRequest, Ino};
use crate::cache::Cache;
use crate::dir_handle::{DOTS, StreamEntry};
use crate::handles::Handles;
use crate::op::{Attempt, Stage, Step, done, fail};
use crate::sessions::Sessions;
use crate::sync;
use msgs::{ClientReply, ClientRequest, FilePath, MdsOp, ReaddirArgs, ReaddirReply};
use stdx::Now;
use wire::{Errno, Reader};

/// Entries asked for at once.
const CHUNK: u32 = 1024;
/// The kernel's own header for each entry, in bytes; with attributes.
const ENTRY_HEADER: usize = 24;
const ENTRY_PLUS_HEADER: usize = 152;

/// The owners that operations on directories need.
pub(crate) struct Directories<'a> {
    pub(crate) cache: &'a mut Cache,
    pub(crate) handles: &'a mut Handles,
    pub(crate) sessions: &'a mut Sessions,
}

impl Directories<'_> {
    /// Attempts an operation.
    pub(crate) fn step(&mut self, attempt: &mut Attempt<'_>, request: &FsRequest) -> Step {
        match request {
            FsRequest::Opendir { ino } => self.open(*ino),
            FsRequest::Releasedir { fh } => {
                self.handles.close_dir(*fh);
                done(Answer::Done)
            }
            FsRequest::Fsyncdir { .. } => sync::wait_for_journal(self.sessions, attempt),
            FsRequest::Readdir { fh, offset, max_bytes, plus } => {
                self.read(attempt, *fh, *offset, *max_bytes, *plus).unwrap_or_else(fail)
            }
            _ => fail(Errno::EIO),
        }
    }

    fn open(&mut self, ino: Ino) -> Step {
        // An inode that is not known, as the root at first, is the MDS's to judge.
        let key = self.cache.key(ino);
        let is_dir = self.cache.inode(key).is_none_or(|inode| inode.attrs().is_dir());
        if !is_dir {
            return fail(Errno::ENOTDIR);
        }
        done(Answer::Opened { fh: self.handles.open_dir(key), keep_cache: false })
    }

    fn read(
        &mut self,
        attempt: &mut Attempt<'_>,
        fh: Fh,
        offset: u64,
        max_bytes: usize,
        plus: bool,
    ) -> Result<Step, Errno> {
        if let Stage::Answered(reply) = attempt.take_stage() {
            self.take_chunk(attempt, fh, &reply)?;
        }
        let dir = self.handles.dir_mut(fh)?;
        let mut end = dir.seek(offset);
        if dir.is_at_start()
            && let Some(all) = self.cache.listing(dir.key())
        {
            dir.take_all(all);
            end = dir.seek(offset);
        }
        if let Some(end) = end {
            return Ok(done(Answer::Entries(self.entries(
                attempt.now(),
                fh,
                offset,
                end,
                max_bytes,
                plus,
            )?)));
        }
        let dir = self.handles.dir(fh)?;
        let (frag, last_name) = dir.position();
        let args = ReaddirArgs { frag, max_entries: CHUNK, max_bytes: 0, flags: 1, offset_hash: 0 };
        let caller = attempt.caller();
        let message = ClientRequest {
            op: if dir.key().is_snapdir() { MdsOp::LSSNAP } else { MdsOp::READDIR },
            path: self.cache.path(dir.key()).ok_or(Errno::ESTALE)?,
            path2: FilePath { ino: 0, path: last_name.to_vec() },
            args: args.into(),
            caller_uid: caller.uid,
            caller_gid: caller.gid,
            ..ClientRequest::default()
        };
        Ok(self.sessions.ask_fragment(attempt, self.cache, message, frag))
    }

    /// Takes a chunk from an MDS, with the inodes and names in it.
    fn take_chunk(&mut self, attempt: &Attempt<'_>, fh: Fh, reply: &ClientReply) -> Result<(), Errno> {
        if let Some(errno) = Errno::from_result_code(reply.result) {
            return Err(errno);
        }
        let listing: ReaddirReply = Reader::new(&reply.extra).get().map_err(|_| Errno::EIO)?;
        let dir = self.handles.dir_mut(fh)?;
        let (key, right) = (dir.key(), self.cache.listing_right(dir.key()));
        let rank = attempt.answered_by();
        self.cache.learn_dir(key, &listing.dir);
        let mut chunk = Vec::new();
        for entry in &listing.entries {
            let inode = self.cache.learn_inode(rank, &entry.inode);
            self.cache.learn_name(attempt.now(), key, &entry.name, Some(inode), &entry.lease);
            chunk.push(StreamEntry { key: inode, mode: entry.inode.mode, name: entry.name.clone() });
        }
        if dir.take_chunk(&listing, chunk, right)
            && let Some(inode) = self.cache.inode_mut(key)
        {
            inode.set_names_complete();
        }
        Ok(())
    }

    /// Entries from `offset` on that are here, up to `end`. If only the dots are, the rest is fetched when
    /// the reader comes back for more.
    fn entries(
        &mut self,
        now: Now,
        fh: Fh,
        offset: u64,
        end: u64,
        max_bytes: usize,
        plus: bool,
    ) -> Result<Vec<DirEntry>, Errno> {
        let mut entries = Vec::new();
        let mut bytes = 0;
        for n in offset..end {
            let entry = if n < DOTS { self.dots(fh, n)? } else { self.entry_at(now, fh, n, plus)? };
            bytes += entry.name.len() + if plus { ENTRY_PLUS_HEADER } else { ENTRY_HEADER };
            entries.push(entry);
            if bytes >= max_bytes {
                break;
            }
        }
        Ok(entries)
    }

    fn dots(&self, fh: Fh, n: u64) -> Result<DirEntry, Errno> {
        let key = self.handles.dir(fh)?.key();
        let parent = self.cache.parent(key).unwrap_or(key);
        let (name, key) = if n == 0 { (b".".to_vec(), key) } else { (b"..".to_vec(), parent) };
        let ino = self.cache.number(key);
        Ok(DirEntry { ino, kind: 0o040_000, next_offset: n + 1, name, entry: None })
    }

    fn entry_at(&mut self, now: Now, fh: Fh, n: u64, plus: bool) -> Result<DirEntry, Errno> {
        let dir = self.handles.dir(fh)?;
        let (parent, StreamEntry { key, mode, name }) = (dir.key(), dir.entry(n).clone());
        // Of an inode that was dropped meanwhile, or whose attributes are not ours to tell any more, only the
        // name is told; as of one of which the caller knows the rest.
        let is_believed = || self.cache.inode(key).is_some_and(|i| i.knows_attributes());
        let is_told = || self.cache.is_entry_fresh(now, parent, &name, key);
        let tells_all = plus && is_believed() && !is_told();
        let entry = if tells_all { self.cache.entry(now, parent, &name, key) } else { None };
        let ino = self.cache.number(key);
        Ok(DirEntry { ino, kind: mode & 0o170_000, next_offset: n + 1, name, entry })
    }
}
