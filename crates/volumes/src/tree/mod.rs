//! A file system by paths, blocking: what the commands need of it. All paths are absolute.

mod copy;

use client::{Answer, Attr, Caller, DirEntry, Fh, Fs, FsRequest, Ino, SetAttr};
use std::sync::Arc;
use stdx::Bufs;
use wire::Errno;

/// The root's number.
const ROOT: Ino = 1;
/// Bytes of names in one part of a listing.
const LISTING: usize = 64 << 10;
/// Bytes in one read or write.
const CHUNK: u32 = 4 << 20;
/// Most bytes of a file that is read as a whole.
const WHOLE: usize = 4 << 20;
/// Type bits of a mode.
const S_IFMT: u32 = 0o170_000;
const S_IFDIR: u32 = 0o040_000;
const S_IFLNK: u32 = 0o120_000;
const S_IFREG: u32 = 0o100_000;

/// The outcome of an operation.
pub(crate) type Io<T> = Result<T, Errno>;

/// A mounted file system.
#[derive(Clone)]
pub(crate) struct Tree {
    fs: Fs,
    /// Held while somebody uses the mount.
    _use: Arc<()>,
}

/// An inode in use. It is held in the client's cache until it is dropped.
pub(crate) struct Node {
    fs: Fs,
    ino: Ino,
    attr: Attr,
}

impl Drop for Node {
    fn drop(&mut self) {
        if self.ino != ROOT {
            self.fs.submit(caller(), FsRequest::Forget { ino: self.ino, count: 1 }, |_| {});
        }
    }
}

impl Node {
    /// Its attributes as they were when it was found.
    pub fn attr(&self) -> &Attr {
        &self.attr
    }

    /// True if it is a directory.
    pub fn is_dir(&self) -> bool {
        is_dir(self.attr.mode)
    }
}

/// True if these are the type bits of a directory.
pub(crate) fn is_dir(mode: u32) -> bool {
    mode & S_IFMT == S_IFDIR
}

/// True if these are the type bits of a symlink.
pub(crate) fn is_symlink(mode: u32) -> bool {
    mode & S_IFMT == S_IFLNK
}

/// True if these are the type bits of a file.
pub(crate) fn is_file(mode: u32) -> bool {
    mode & S_IFMT == S_IFREG
}

/// A path below a directory.
pub(crate) fn join(dir: &str, name: &str) -> String {
    format!("{}/{name}", dir.trim_end_matches('/'))
}

fn caller() -> Caller {
    Caller::default()
}

/// The directory of a path, and its last name.
fn split(path: &str) -> (&str, &str) {
    path.trim_end_matches('/').rsplit_once('/').unwrap_or(("", path))
}

impl Tree {
    /// A file system; `usage` is held as long as this.
    pub fn new(fs: Fs, usage: Arc<()>) -> Self {
        Self { fs, _use: usage }
    }

    fn call(&self, request: FsRequest) -> Io<Answer> {
        self.fs.call(caller(), request)
    }

    fn node(&self, answer: Answer) -> Io<Node> {
        match answer {
            Answer::Entry(entry) | Answer::Created { entry, .. } => {
                Ok(Node { fs: self.fs.clone(), ino: entry.attr.ino, attr: entry.attr })
            }
            Answer::Absent(_) => Err(Errno::ENOENT),
            _ => Err(Errno::EIO),
        }
    }

    fn root(&self) -> Io<Node> {
        match self.call(FsRequest::Getattr { ino: ROOT })? {
            Answer::Attr(attr, _) => Ok(Node { fs: self.fs.clone(), ino: ROOT, attr }),
            _ => Err(Errno::EIO),
        }
    }

    /// Finds a path; symlinks are not followed.
    pub fn find(&self, path: &str) -> Io<Node> {
        let mut at = self.root()?;
        for name in path.split('/').filter(|name| !name.is_empty()) {
            at = self.child(&at, name.as_bytes())?;
        }
        Ok(at)
    }

    /// Finds a name in a directory.
    pub fn child(&self, dir: &Node, name: &[u8]) -> Io<Node> {
        let found = self.call(FsRequest::Lookup { parent: dir.ino, name: name.to_vec() })?;
        self.node(found)
    }

    /// True if a path exists.
    pub fn exists(&self, path: &str) -> Io<bool> {
        match self.find(path) {
            Ok(_) => Ok(true),
            Err(Errno::ENOENT) => Ok(false),
            Err(errno) => Err(errno),
        }
    }

    fn parent(&self, path: &str) -> Io<(Node, Vec<u8>)> {
        let (dir, name) = split(path);
        Ok((self.find(dir)?, name.as_bytes().to_vec()))
    }

    /// Makes a directory.
    pub fn mkdir(&self, path: &str, mode: u32) -> Io<Node> {
        let (dir, name) = self.parent(path)?;
        self.mkdir_in(&dir, &name, mode)
    }

    /// Makes a directory in another.
    pub fn mkdir_in(&self, dir: &Node, name: &[u8], mode: u32) -> Io<Node> {
        let made = self.call(FsRequest::Mkdir { parent: dir.ino, name: name.to_vec(), mode })?;
        self.node(made)
    }

    /// Makes a directory and those above it that are missing.
    pub fn mkdirs(&self, path: &str, mode: u32) -> Io<Node> {
        let mut at = self.root()?;
        for name in path.split('/').filter(|name| !name.is_empty()) {
            at = match self.child(&at, name.as_bytes()) {
                Err(Errno::ENOENT) => match self.mkdir_in(&at, name.as_bytes(), mode) {
                    Err(Errno::EEXIST) => self.child(&at, name.as_bytes())?,
                    made => made?,
                },
                found => found?,
            };
        }
        Ok(at)
    }

    /// The entries of a directory, without `.` and `..`.
    pub fn list(&self, dir: &Node) -> Io<Vec<DirEntry>> {
        let Answer::Opened { fh, .. } = self.call(FsRequest::Opendir { ino: dir.ino })? else {
            return Err(Errno::EIO);
        };
        let listed = self.list_open(fh);
        // The listing is what counts.
        let _ = self.call(FsRequest::Releasedir { fh });
        listed
    }

    fn list_open(&self, fh: Fh) -> Io<Vec<DirEntry>> {
        let (mut out, mut offset) = (Vec::new(), 0);
        loop {
            let request = FsRequest::Readdir { fh, offset, max_bytes: LISTING, plus: false };
            let Answer::Entries(entries) = self.call(request)? else { return Err(Errno::EIO) };
            let Some(last) = entries.last() else { return Ok(out) };
            offset = last.next_offset;
            out.extend(entries.into_iter().filter(|e| e.name != b"." && e.name != b".."));
        }
    }

    /// The names in a directory that are texts, in order.
    pub fn names(&self, path: &str) -> Io<Vec<String>> {
        self.names_of(path, |_| true)
    }

    /// The names of directories in a directory, in order.
    pub fn dirs(&self, path: &str) -> Io<Vec<String>> {
        self.names_of(path, |entry| is_dir(entry.kind))
    }

    /// The snapshots in a directory of snapshots, in order, without those of directories above.
    pub fn snapshots(&self, snapdir: &str) -> Io<Vec<String>> {
        self.names_of(snapdir, |entry| !entry.name.starts_with(b"_"))
    }

    fn names_of(&self, path: &str, is_meant: impl Fn(&DirEntry) -> bool) -> Io<Vec<String>> {
        let entries = self.list(&self.find(path)?)?.into_iter().filter(is_meant);
        let mut out: Vec<String> = entries.filter_map(|e| String::from_utf8(e.name).ok()).collect();
        out.sort();
        Ok(out)
    }

    /// Removes a name that is not a directory.
    pub fn unlink(&self, path: &str) -> Io<()> {
        let (dir, name) = self.parent(path)?;
        self.unlink_in(&dir, &name)
    }

    /// Removes an empty directory, or a snapshot.
    pub fn rmdir(&self, path: &str) -> Io<()> {
        let (dir, name) = self.parent(path)?;
        self.rmdir_in(&dir, &name)
    }

    /// Removes an entry of a directory that is not a directory.
    pub fn unlink_in(&self, dir: &Node, name: &[u8]) -> Io<()> {
        self.call(FsRequest::Unlink { parent: dir.ino, name: name.to_vec() }).map(drop)
    }

    /// Removes an empty directory from another.
    pub fn rmdir_in(&self, dir: &Node, name: &[u8]) -> Io<()> {
        self.call(FsRequest::Rmdir { parent: dir.ino, name: name.to_vec() }).map(drop)
    }

    /// Renames, replacing what has the new name.
    pub fn rename(&self, from: &str, to: &str) -> Io<()> {
        let ((dir, name), (new_dir, new_name)) = (self.parent(from)?, self.parent(to)?);
        let request =
            FsRequest::Rename { parent: dir.ino, name, new_parent: new_dir.ino, new_name, flags: 0 };
        self.call(request).map(drop)
    }

    /// Makes a symlink.
    pub fn symlink(&self, path: &str, target: &str) -> Io<()> {
        let (dir, name) = self.parent(path)?;
        self.symlink_in(&dir, &name, target.as_bytes()).map(drop)
    }

    /// Makes a symlink in a directory.
    pub fn symlink_in(&self, dir: &Node, name: &[u8], target: &[u8]) -> Io<Node> {
        let request = FsRequest::Symlink { parent: dir.ino, name: name.to_vec(), target: target.to_vec() };
        let made = self.call(request)?;
        self.node(made)
    }

    /// The target of a symlink.
    pub fn readlink(&self, node: &Node) -> Io<Vec<u8>> {
        match self.call(FsRequest::Readlink { ino: node.ino })? {
            Answer::Data(target) => Ok(target.to_vec()),
            _ => Err(Errno::EIO),
        }
    }

    /// The value of an xattr as text, if it has one.
    pub fn xattr(&self, node: &Node, name: &str) -> Io<Option<String>> {
        match self.call(FsRequest::Getxattr { ino: node.ino, name: name.as_bytes().to_vec() }) {
            Ok(Answer::Data(value)) => {
                let text = String::from_utf8(value.to_vec()).map_err(|_| Errno::EINVAL)?;
                Ok(Some(text.trim_end_matches('\0').to_owned()))
            }
            Err(Errno::ENODATA) => Ok(None),
            Ok(_) => Err(Errno::EIO),
            Err(errno) => Err(errno),
        }
    }

    /// Sets an xattr.
    pub fn set_xattr(&self, node: &Node, name: &str, value: &str) -> Io<()> {
        let (name, value) = (name.as_bytes().to_vec(), value.as_bytes().to_vec());
        self.call(FsRequest::Setxattr { ino: node.ino, name, value, flags: 0, kill_sgid: false }).map(drop)
    }

    /// Changes attributes.
    pub fn set(&self, node: &Node, set: SetAttr) -> Io<()> {
        self.call(FsRequest::Setattr { ino: node.ino, set }).map(drop)
    }

    fn open(&self, node: &Node, flags: i32) -> Io<Fh> {
        let request = FsRequest::Open { ino: node.ino, flags: flags as u32, kill_suidgid: false };
        match self.call(request)? {
            Answer::Opened { fh, .. } => Ok(fh),
            _ => Err(Errno::EIO),
        }
    }

    fn release(&self, fh: Fh) -> Io<()> {
        self.call(FsRequest::Release { fh, lock_owner: 0 }).map(drop)
    }

    fn read_at(&self, fh: Fh, offset: u64) -> Io<Bufs> {
        match self.call(FsRequest::Read { fh, offset, len: CHUNK })? {
            Answer::Data(data) => Ok(data),
            _ => Err(Errno::EIO),
        }
    }

    fn write_at(&self, fh: Fh, mut offset: u64, mut data: Bufs) -> Io<()> {
        while !data.is_empty() {
            let request = FsRequest::Write { fh, offset, data: data.clone(), kill_suidgid: false };
            let Answer::Written(n) = self.call(request)? else { return Err(Errno::EIO) };
            if n == 0 {
                return Err(Errno::EIO);
            }
            let n = n as usize;
            (offset, data) = (offset + n as u64, data.slice(n.min(data.len())..data.len()));
        }
        Ok(())
    }

    /// The content of a small file.
    pub fn read(&self, path: &str) -> Io<Vec<u8>> {
        let fh = self.open(&self.find(path)?, libc_flags::RDONLY)?;
        let mut out = Vec::new();
        let result = loop {
            match self.read_at(fh, out.len() as u64) {
                Ok(data) if data.is_empty() => break Ok(()),
                Ok(data) => out.extend_from_slice(&data.to_vec()),
                Err(errno) => break Err(errno),
            }
            if out.len() > WHOLE {
                break Err(Errno::EFBIG);
            }
        };
        self.release(fh)?;
        result.map(|()| out)
    }

    /// Replaces a small file. The new content appears as a whole and is durable.
    pub fn replace(&self, path: &str, content: &[u8], mode: u32) -> Io<()> {
        let draft = format!("{path}.tmp");
        match self.unlink(&draft) {
            Err(errno) if errno != Errno::ENOENT => return Err(errno),
            _ => {}
        }
        let (dir, name) = self.parent(&draft)?;
        let (_node, fh) = self.create_in(&dir, &name, mode)?;
        let written = self.write_at(fh, 0, content.to_vec().into());
        let synced = written.and_then(|()| self.call(FsRequest::Fsync { fh, data_only: false }).map(drop));
        self.release(fh)?;
        synced?;
        self.rename(&draft, path)
    }

    /// Makes and opens a file.
    fn create_in(&self, dir: &Node, name: &[u8], mode: u32) -> Io<(Node, Fh)> {
        let flags = (libc_flags::WRONLY | libc_flags::CREAT) as u32;
        match self.call(FsRequest::Create { parent: dir.ino, name: name.to_vec(), mode, flags })? {
            Answer::Created { entry, fh } => {
                Ok((Node { fs: self.fs.clone(), ino: entry.attr.ino, attr: entry.attr }, fh))
            }
            _ => Err(Errno::EIO),
        }
    }
}

/// Flags of open(2) on Linux.
mod libc_flags {
    pub(super) const RDONLY: i32 = 0;
    pub(super) const WRONLY: i32 = 1;
    pub(super) const CREAT: i32 = 0o100;
}
