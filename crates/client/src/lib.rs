//! The library that programs link: [`Cluster`], [`Pool`], [`Fs`]. It also speaks to a real Ceph cluster.
//!
//! ```no_run
//! use client::{Cluster, Options};
//! let options = Options::new("nacre-data/ceph.conf");
//! let cluster = Cluster::connect(&options, std::time::Duration::from_secs(10))?;
//! let pool = cluster.pool("p");
//! pool.write_full(b"greeting", &vec![b'!'; 3].into())?;
//! assert_eq!(pool.stat(b"greeting")?.size, 3);
//! # Ok::<(), client::Error>(())
//! ```

mod cluster;
mod config;
mod fs;
mod pool;

pub use cluster::{Cluster, CommandReply, Requests};
pub use config::{Error, Options};
pub use fs::{Fs, Invalidated};
pub use fsclient::{
    Answer, Attr, Caller, ClientOptions, DirEntry, Entry, Errno, Fh, FileLock, FsRequest, Ino, Invalidate,
    ObjectRequest, OpAnswer, PoolRef, Reply, Request, SetAttr, Statfs,
};
pub use pool::{Pool, Stat, Vectored};
pub use runtime::{FileClock, Found};
