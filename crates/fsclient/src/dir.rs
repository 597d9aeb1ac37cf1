//! Open directories: a stream of entries in the MDS's order of hashes, fetched in chunks and kept until the reader is past them.

use crate::api::{Answer, Caller, DirEntry, Fh, FsRequest, Ino};
use crate::cache::{STAT_CAPS, path};
use crate::client::{Client, Op, Outs, Stage, Step, fail};
use msgs::errno::{EBADF, EIO, ENOTDIR};
use msgs::{ClientReply, ClientRequest, FilePath, MdsOp, ReaddirArgs, ReaddirReply, cap, readdir_flag};
use stdx::Now;
use wire::Reader;

/// Entries asked for at once.
const CHUNK: u32 = 1024;
/// The two entries that no MDS sends.
const DOTS: u64 = 2;

/// An open directory. Entry number `n` of the stream (counted from 0, with `.` and `..`) is followed by offset `n + 1`.
#[derive(Debug)]
pub(crate) struct DirHandle {
    ino: Ino,
    /// Stream number of `chunk[0]`.
    first: u64,
    chunk: Vec<(Ino, u32, Vec<u8>)>,
    /// The fragment that comes next, and the last name seen of it.
    frag: u32,
    last_name: Vec<u8>,
    /// No more chunks follow.
    at_end: bool,
    /// What the directory's names rested on when the stream's first chunk came: unchanged at the end, all names are known.
    began: Option<Belief>,
}

/// By what a listing may be believed later: the directory's `shared_gen` and `names_forgotten`.
type Belief = (u64, u64);

impl DirHandle {
    fn new(ino: Ino) -> Self {
        Self {
            ino,
            first: DOTS,
            chunk: Vec::new(),
            frag: 0,
            last_name: Vec::new(),
            at_end: false,
            began: None,
        }
    }
}

impl Client {
    /// One attempt at an operation of this file.
    #[expect(
        clippy::too_many_arguments,
        reason = "the parts of one operation, taken apart for the borrow checker"
    )]
    pub(crate) fn dir_step(
        &mut self,
        now: Now,
        number: u64,
        op: &mut Op,
        stage: Stage,
        caller: &Caller,
        request: &FsRequest,
        out: &mut Outs,
    ) -> Step {
        match request {
            FsRequest::Opendir { ino } => match self.inodes.get(ino) {
                // What nothing is known of (the root at first) is for the MDS to say.
                inode if inode.is_none_or(|i| i.is_dir()) => {
                    let handle = DirHandle::new(*ino);
                    let fh = self.next_fh();
                    self.dirs.insert(fh, handle);
                    Step::Done(Ok(Answer::Opened { fh, keep_cache: false }))
                }
                _ => fail(ENOTDIR),
            },
            FsRequest::Releasedir { fh } => {
                self.dirs.remove(fh);
                Step::Done(Ok(Answer::Done))
            }
            FsRequest::Fsyncdir { .. } => self.wait_for_journal(number, out),
            FsRequest::Readdir { fh, offset, max_bytes, plus } => {
                if let Stage::Answered(reply) = stage
                    && let Err(errno) = self.take_chunk(now, *fh, &reply)
                {
                    return fail(errno);
                }
                if let Some(entries) = self.entries_from(*fh, *offset, *max_bytes, *plus) {
                    return Step::Done(entries.map(Answer::Entries));
                }
                op.stage = Stage::AtMds;
                let message = self.readdir_request(*fh, caller);
                self.ask_mds(now, number, message, out);
                Step::Wait
            }
            _ => fail(EIO),
        }
    }

    /// Waits until everything that was answered unsafely is safe.
    pub(crate) fn wait_for_journal(&mut self, number: u64, out: &mut Outs) -> Step {
        if !self.mds.has_unsafe() {
            return Step::Done(Ok(Answer::Done));
        }
        self.journal_waiters.insert(number);
        self.mds.flush_journal(out);
        Step::Wait
    }

    fn readdir_request(&self, fh: Fh, caller: &Caller) -> ClientRequest {
        let dir = &self.dirs[&fh];
        let args = ReaddirArgs { frag: dir.frag, max_entries: CHUNK, max_bytes: 0, flags: 1, offset_hash: 0 };
        ClientRequest {
            op: MdsOp::READDIR,
            path: path(dir.ino),
            path2: FilePath { ino: 0, path: dir.last_name.clone() },
            args: args.into(),
            caller_uid: caller.uid,
            caller_gid: caller.gid,
            ..ClientRequest::default()
        }
    }

    /// Takes a chunk from the MDS; inodes and names in it are learnt.
    fn take_chunk(&mut self, now: Now, fh: Fh, reply: &ClientReply) -> Result<(), i32> {
        if reply.result < 0 {
            return Err(-reply.result);
        }
        let listing: ReaddirReply = Reader::new(&reply.extra).get().map_err(|_| EIO)?;
        let Some(mut dir) = self.dirs.remove(&fh) else { return Err(EBADF) };
        let belief = self.belief(dir.ino);
        // An empty first fragment is a part of the stream, too.
        if dir.chunk.is_empty() && dir.first == DOTS && dir.frag == 0 {
            dir.began = belief;
        }
        dir.first += dir.chunk.len() as u64;
        dir.chunk.clear();
        for entry in &listing.entries {
            let ino = self.learn_inode(&entry.inode);
            self.learn_dentry(now, dir.ino, &entry.name, Some(ino), &entry.lease);
            dir.chunk.push((ino, entry.inode.mode, entry.name.clone()));
        }
        let frag_done = listing.flags & readdir_flag::FRAG_END != 0 || listing.entries.is_empty();
        match (frag_done, next_frag(listing.dir.frag)) {
            (false, _) => {
                dir.frag = listing.dir.frag;
                dir.last_name = listing.entries.last().map(|e| e.name.clone()).unwrap_or_default();
            }
            (true, Some(next)) => (dir.frag, dir.last_name) = (next, Vec::new()),
            (true, None) => {
                dir.at_end = true;
                if let (Some(inode), Some((shared_gen, _))) = (self.inodes.get_mut(&dir.ino), belief)
                    && belief == dir.began
                {
                    inode.complete = Some(shared_gen);
                }
            }
        }
        self.dirs.insert(fh, dir);
        Ok(())
    }

    /// What a listing of a directory that arrives now rests on; `None` without `Fs`.
    fn belief(&self, dir: Ino) -> Option<Belief> {
        let inode = self.inodes.get(&dir).filter(|i| i.may(cap::FILE_SHARED))?;
        Some((inode.shared_gen, inode.names_forgotten))
    }

    /// A directory is forgotten: listings of it that are under way say nothing of the inode that may come in its place.
    pub(crate) fn end_belief_in_listings(&mut self, dir: Ino) {
        self.dirs.values_mut().filter(|d| d.ino == dir).for_each(|d| d.began = None);
    }

    /// Entries from stream number `offset` on, or `None` where a chunk must be fetched first.
    fn entries_from(
        &mut self,
        fh: Fh,
        offset: u64,
        max_bytes: usize,
        plus: bool,
    ) -> Option<Result<Vec<DirEntry>, crate::Errno>> {
        let Some(dir) = self.dirs.get_mut(&fh) else { return Some(Err(crate::Errno(EBADF))) };
        let ino = dir.ino;
        if offset < dir.first && (offset >= DOTS || dir.first > DOTS) {
            // Wound back: the stream begins anew.
            *dir = DirHandle::new(ino);
        }
        let (first, len, at_end) = (dir.first, dir.chunk.len() as u64, dir.at_end);
        if offset >= first + len && !at_end {
            return None;
        }
        let mut entries = Vec::new();
        let mut bytes = 0;
        for n in offset..first + len {
            let entry = if n < DOTS { self.dots(ino, n) } else { self.entry_at(fh, n, plus) };
            // The kernel's own header for each entry, and its attributes.
            bytes += entry.name.len() + if plus { 152 } else { 24 };
            entries.push(entry);
            if bytes >= max_bytes {
                break;
            }
        }
        // Nothing but the dots is there yet: go on fetching only when the reader comes back for more.
        Some(Ok(entries))
    }

    fn dots(&self, ino: Ino, n: u64) -> DirEntry {
        let parent = self.inodes.get(&ino).and_then(|i| i.parent.as_ref()).map_or(ino, |(dir, _)| *dir);
        let (name, ino) = if n == 0 { (b".".to_vec(), ino) } else { (b"..".to_vec(), parent) };
        DirEntry { ino, kind: 0o040_000, next_offset: n + 1, name, entry: None }
    }

    fn entry_at(&mut self, fh: Fh, n: u64, plus: bool) -> DirEntry {
        let dir = &self.dirs[&fh];
        let (ino, mode, name) = dir.chunk[(n - dir.first) as usize].clone();
        // An inode that was dropped meanwhile, or whose attributes are not ours to tell any more, is told by its name only.
        let believed = self.inodes.get(&ino).is_some_and(|i| i.may(STAT_CAPS));
        let entry = if plus && believed { self.entry(ino) } else { None };
        DirEntry { ino, kind: mode & 0o170_000, next_offset: n + 1, name, entry }
    }
}

/// The fragment after `frag` in order of hashes; `None` after the last. A fragment is (bits << 24 | first hash).
fn next_frag(frag: u32) -> Option<u32> {
    let (bits, value) = (frag >> 24, frag & 0xff_ffff);
    let size = 1u64 << 24u32.saturating_sub(bits);
    let next = u64::from(value) + size;
    (next < 1 << 24).then_some(bits << 24 | next as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fragments_follow_each_other_to_the_last() {
        assert_eq!(next_frag(0), None, "the whole directory is one fragment");
        let quarters: Vec<u32> = std::iter::successors(Some(2 << 24), |f| next_frag(*f)).collect();
        assert_eq!(quarters, [2 << 24, 2 << 24 | 0x40_0000, 2 << 24 | 0x80_0000, 2 << 24 | 0xc0_0000]);
    }
}
