//! Answers, as the kernel takes them.

use crate::abi::{self, Body, ENTRY_OUT, OUT_HEADER};
use crate::places::{Places, is_dir};
use crate::request::Form;
use crate::root::Root;
use client::{Answer, Caller, DirEntry, Entry, Fs, FsRequest};
use rustix::io::{IoSlice, writev};
use std::os::fd::OwnedFd;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use stdx::Bufs;

/// The kernel's end of the mount, which takes answers.
pub(crate) struct Device {
    pub(crate) fd: OwnedFd,
    /// Takes references back that the kernel does not get.
    pub(crate) fs: Fs,
    /// The kernel can be told to ask for a name again (Linux 6.5). Another must not believe names: it could
    /// only be told to drop them, with everything that is mounted on them.
    pub(crate) expires_names: bool,
    /// The directory that the kernel calls 1.
    pub(crate) root: Root,
    /// Where the kernel has directories.
    pub(crate) places: Mutex<Places>,
}

impl Device {
    /// Where the kernel has directories.
    pub(crate) fn places(&self) -> MutexGuard<'_, Places> {
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Answers a request.
    pub(crate) fn answer(&self, unique: u64, form: Form, answer: Result<Answer, client::Errno>) {
        let mut unseen = Vec::new();
        let answer = if self.expires_names { answer } else { answer.and_then(told_no_names) };
        if let (Form::Entries { dir, plus: true, .. }, Ok(Answer::Entries(entries))) = (form, &answer) {
            let mut places = self.places();
            for e in entries.iter().filter(|e| e.entry.is_some() && is_dir(e.kind)) {
                places.listed(dir, &e.name, e.ino);
            }
        }
        if let (Form::Found(asked), Ok(Answer::Entry(entry))) = (form, &answer) {
            return self.answer_found(unique, asked, entry);
        }
        match answer.map(|answer| encode(form, answer, &mut unseen)) {
            Ok(Ok(Content::Body(body))) => self.send(unique, 0, &[&body.0]),
            Ok(Ok(Content::Data(data))) => {
                let parts: Vec<&[u8]> = data.parts().iter().map(|part| &part[..]).collect();
                self.send(unique, 0, &parts);
            }
            Ok(Err(errno)) => self.refuse(unique, errno),
            Err(errno) => self.refuse(unique, errno.get()),
        }
        for ino in unseen {
            self.forget(ino, 1);
        }
    }

    /// Answers with an inode that was found by its number. What the kernel cannot have under the number that
    /// it asked for, or under any, is not in this mount.
    fn answer_found(&self, unique: u64, asked: Option<u64>, entry: &Entry) {
        let node = self.root.found(entry.attr.ino);
        match node.filter(|node| asked.is_none_or(|asked| asked == *node)) {
            Some(node) => self.send(unique, 0, &[&Body::default().entry_as(node, entry).0]),
            None => {
                self.forget(entry.attr.ino, 1);
                self.refuse(unique, libc::ESTALE);
            }
        }
    }

    /// Gives references to an inode back.
    pub(crate) fn forget(&self, ino: u64, count: u64) {
        self.fs.submit(Caller::default(), FsRequest::Forget { ino, count }, |_| {});
    }

    /// Answers a request with an error.
    pub(crate) fn refuse(&self, unique: u64, errno: i32) {
        self.send(unique, -errno, &[]);
    }

    /// Has the kernel ask for names again. It waits for operations that hold the directory.
    pub(crate) fn expire(&self, parent: u64, names: &[Vec<u8>]) {
        if !self.expires_names {
            // It was told no names, and would drop them with what is mounted on them.
            return;
        }
        let parent = self.root.outer(parent);
        for name in names {
            self.forget_name(parent, name, abi::EXPIRE_ONLY);
        }
    }

    /// Has the kernel drop a name that leads to nothing any more, with what it knows below. It waits for
    /// operations that hold the directory.
    pub(crate) fn drop_name(&self, parent: u64, name: &[u8]) {
        self.forget_name(self.root.outer(parent), name, 0);
    }

    fn forget_name(&self, parent: u64, name: &[u8], flags: u32) {
        // A notice is an answer to no request, with its kind in place of an error.
        self.send(0, abi::NOTIFY_INVAL_ENTRY, &[&Body::default().inval_entry(parent, name, flags).0]);
    }

    fn send(&self, unique: u64, error: i32, parts: &[&[u8]]) {
        let len = OUT_HEADER + parts.iter().map(|part| part.len()).sum::<usize>();
        let mut head = [0; OUT_HEADER];
        head[..4].copy_from_slice(&(len as u32).to_ne_bytes());
        head[4..8].copy_from_slice(&error.to_ne_bytes());
        head[8..].copy_from_slice(&unique.to_ne_bytes());
        let mut slices = vec![IoSlice::new(&head)];
        slices.extend(parts.iter().map(|part| IoSlice::new(part)));
        // The caller has gone, or the mount has, or the kernel does not know the name.
        let _ = writev(&self.fd, &slices);
    }
}

/// The same answer, with names that are asked for each time.
fn told_no_names(mut answer: Answer) -> Result<Answer, client::Errno> {
    match &mut answer {
        Answer::Absent(_) => return Err(client::Errno::ENOENT),
        Answer::Entry(entry) | Answer::Created { entry, .. } => entry.entry_valid = Duration::ZERO,
        Answer::Entries(entries) => {
            entries.iter_mut().filter_map(|e| e.entry.as_mut()).for_each(|e| e.entry_valid = Duration::ZERO);
        }
        _ => {}
    }
    Ok(answer)
}

/// The kernel reads and writes a file with `O_DIRECT` past its cache, and several threads at a time.
const DIRECT: u32 = abi::OPEN_DIRECT_IO | abi::OPEN_PARALLEL_DIRECT_WRITES;

enum Content {
    Body(Body),
    Data(Bufs),
}

/// Encodes an answer. One that the request can't have is a bug of ours and becomes EIO.
fn encode(form: Form, answer: Answer, unseen: &mut Vec<u64>) -> Result<Content, i32> {
    let mut body = Body::default();
    match (form, answer) {
        (Form::Plain, Answer::Data(data)) => return Ok(Content::Data(data)),
        (Form::Xattr(size), Answer::Data(value)) => return xattr(size, value),
        (Form::Xattr(size), Answer::Names(names)) => {
            let list: Vec<u8> = names.into_iter().flat_map(|name| name.into_iter().chain([0])).collect();
            return xattr(size, list.into());
        }
        (Form::Entries { size, plus, .. }, Answer::Entries(entries)) => {
            put_entries(&mut body, size, plus, &entries, unseen);
        }
        (Form::Statx, Answer::Attr(attr, valid)) => {
            body.statx_out(&attr, valid);
        }
        (Form::Ioctl, Answer::Done) => {
            // The result, flags, and the number of buffers that the caller is to give.
            body.u32(0).u32(0).u32(0).u32(0);
        }
        (Form::Direct, answer) => put_plain(&mut body, answer, DIRECT)?,
        (Form::Plain, answer) => put_plain(&mut body, answer, 0)?,
        _ => return Err(libc::EIO),
    }
    Ok(Content::Body(body))
}

/// Puts the content of an answer; one that has a handle of a file has also these flags.
fn put_plain(body: &mut Body, answer: Answer, flags: u32) -> Result<(), i32> {
    match answer {
        Answer::Done => body,
        Answer::Entry(entry) => body.entry(&entry),
        Answer::Absent(valid) => body.absent(valid),
        Answer::Attr(attr, valid) => body.attr_out(&attr, valid),
        Answer::Opened { fh, keep_cache } => {
            body.u64(fh).u32(flags | if keep_cache { abi::OPEN_KEEP_CACHE } else { 0 }).u32(0)
        }
        Answer::Created { entry, fh } => body.entry(&entry).u64(fh).u32(flags).u32(0),
        Answer::Written(n) => body.u32(n).u32(0),
        Answer::Lock(lock) => body.u64(lock.start).u64(lock.end).u32(lock.kind).u32(lock.pid),
        Answer::Offset(offset) => body.u64(offset),
        Answer::Statfs(s) => {
            body.u64(s.blocks).u64(s.free).u64(s.free).u64(s.files).u64(s.free_files);
            // Size of a block, the longest name, size of a fragment, padding, and six that are spare.
            body.u32(s.block).u32(255).u32(s.block).u32(0).u64(0).u64(0).u64(0)
        }
        _ => return Err(libc::EIO),
    };
    Ok(())
}

fn xattr(size: u32, value: Bufs) -> Result<Content, i32> {
    match size as usize {
        0 => {
            let mut body = Body::default();
            body.u32(value.len() as u32).u32(0);
            Ok(Content::Body(body))
        }
        size if size < value.len() => Err(libc::ERANGE),
        _ => Ok(Content::Data(value)),
    }
}

fn put_entries(body: &mut Body, size: usize, plus: bool, entries: &[DirEntry], unseen: &mut Vec<u64>) {
    let mut is_full = false;
    for e in entries {
        let len = abi::dirent_len(&e.name) + if plus { ENTRY_OUT } else { 0 };
        is_full |= body.0.len() + len > size;
        if is_full {
            // The kernel never sees this entry, so the reference that came with it goes back.
            unseen.extend(e.entry.is_some().then_some(e.ino));
            continue;
        }
        if plus {
            // Without an entry (`.`, `..`, and what is not ours to tell) its inode is 0 here: the kernel
            // takes the number and the type that follow, and counts no reference.
            body.entry(&e.entry.unwrap_or_default());
        }
        body.dirent(e.ino, e.next_offset, e.kind, &e.name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use client::Attr;

    fn entry(ino: u64, name: &str, has_reference: bool) -> DirEntry {
        let attr = Attr { ino, mode: 0o100_644, ..Attr::default() };
        let entry = has_reference.then(|| Entry { attr, ..Entry::default() });
        DirEntry { ino, kind: attr.mode, next_offset: ino, name: name.into(), entry }
    }

    #[test]
    fn entries_without_space_are_given_back() {
        let entries = [entry(1, ".", false), entry(7, "a", true), entry(8, "b", true), entry(9, "c", true)];
        let each = abi::dirent_len(b"a") + ENTRY_OUT;
        let (mut body, mut unseen) = (Body::default(), Vec::new());
        put_entries(&mut body, 2 * each + 5, true, &entries, &mut unseen);
        assert_eq!((body.0.len(), unseen), (2 * each, vec![8, 9]));
    }

    #[test]
    fn the_kernel_counts_references_to_what_has_an_entry_only() {
        let entries = [entry(7, "a", true), entry(8, "b", false)];
        let mut body = Body::default();
        put_entries(&mut body, 1000, true, &entries, &mut Vec::new());
        let each = abi::dirent_len(b"a") + ENTRY_OUT;
        let number = |at: usize| u64::from_ne_bytes(body.0[at..at + 8].try_into().expect("eight bytes"));
        assert_eq!([0, ENTRY_OUT, each, each + ENTRY_OUT].map(number), [7, 7, 0, 8], "references and names");
    }

    #[test]
    fn a_kernel_that_cannot_ask_again_is_told_no_names() {
        let told = |mut e: DirEntry| {
            e.entry = e.entry.map(|entry| Entry { entry_valid: Duration::from_secs(1), ..entry });
            e
        };
        let entries = vec![entry(1, ".", false), told(entry(7, "a", true))];
        let Ok(Answer::Entries(entries)) = told_no_names(Answer::Entries(entries)) else { panic!("entries") };
        assert_eq!(entries[1].entry.expect("it has one").entry_valid, Duration::ZERO);
        let absent = Answer::Absent(Duration::from_secs(1));
        assert_eq!(told_no_names(absent), Err(client::Errno::ENOENT));
    }

    #[test]
    fn a_direct_handle_allows_parallel_writes() {
        let flags = |form, keep_cache| {
            let opened = encode(form, Answer::Opened { fh: 9, keep_cache }, &mut Vec::new());
            let Ok(Content::Body(body)) = opened else { panic!("a body") };
            u32::from_ne_bytes(body.0[8..12].try_into().expect("four bytes"))
        };
        let all = [(Form::Plain, false), (Form::Plain, true), (Form::Direct, false), (Form::Direct, true)];
        assert_eq!(all.map(|(form, keep)| flags(form, keep)), [0, 0x2, 0x41, 0x43]);
    }

    #[test]
    fn an_answer_of_another_kind_is_an_error() {
        let answer = |form, answer| encode(form, answer, &mut Vec::new()).map(|_| ());
        assert_eq!(answer(Form::Xattr(10), Answer::Done), Err(libc::EIO));
        assert_eq!(answer(Form::Plain, Answer::Names(Vec::new())), Err(libc::EIO));
        assert_eq!(answer(Form::Xattr(3), Answer::Data(b"long".to_vec().into())), Err(libc::ERANGE));
        assert_eq!(answer(Form::Xattr(0), Answer::Data(b"long".to_vec().into())), Ok(()));
    }
}
