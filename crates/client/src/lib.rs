//! The library that programs link: `Cluster`, `Pool`, `Fs`.

mod fs;

pub use fs::{Fs, Invalidated};
pub use fsclient::{
    Answer, Attr, Caller, DirEntry, Entry, Errno, Fh, FileLock, FsRequest, Ino, Invalidate, ObjectRequest,
    Reply, Request, SetAttr, Statfs,
};
