//! The metadata pool of a file system of a cluster, found by the monitors' maps.

use super::stored::{Entries, Objects, Stored};
use crate::cluster::{ClientArgs, PATIENCE, ask};
use crate::cmd::terminal::Format;
use anyhow::{Context, Result, bail};
use clap::Args;
use client::{Cluster, Pool};
use fsfmt::names;
use serde_json::{Value, json};
use wire::Errno;

/// Omap entries that are read at a time.
const PAGE: u64 = 1024;
/// Begins the journal header of Ceph's own metadata servers, behind the length of its text.
const CEPH_JOURNAL: &[u8] = b"ceph fs volume v0";

/// Options of all commands about a file system.
#[derive(Args)]
pub(super) struct FsArgs {
    #[command(flatten)]
    client: ClientArgs,
    /// The file system [default: the only one].
    #[arg(long)]
    fs: Option<String>,
    /// The rank whose journal and tables are meant.
    #[arg(long, default_value_t = 0)]
    pub rank: u32,
    /// The form of the output.
    #[arg(long, short = 'f', value_enum, default_value_t)]
    pub format: Format,
}

/// The metadata pool of a file system.
pub(super) struct MetadataPool {
    cluster: Cluster,
    pool: Pool,
    name: String,
}

impl MetadataPool {
    /// Connects to the cluster, and finds the pool.
    pub fn open(args: &FsArgs) -> Result<Self> {
        let cluster = Cluster::connect(&args.client.options()?, PATIENCE)?;
        let list = ask(&cluster, &json!({ "prefix": "fs ls", "format": "json" }))?;
        let list: Value = serde_json::from_slice(&list).context("the monitors' list of file systems")?;
        let name = choose(list.as_array().map(Vec::as_slice).unwrap_or_default(), args.fs.as_deref())?;
        let this = Self { pool: cluster.pool(&name), cluster, name };
        if let Stored::Here(header) = this.data(&names::journal_object(args.rank, 0))?
            && header.windows(CEPH_JOURNAL.len()).any(|bytes| bytes == CEPH_JOURNAL)
        {
            bail!("this file system is stored by Ceph: use cephfs-journal-tool and cephfs-table-tool");
        }
        Ok(this)
    }

    /// Leaves the cluster.
    pub fn close(self) -> Result<()> {
        Ok(self.cluster.shut_down()?)
    }
}

/// The metadata pool of the file system of this name, or of the only one.
pub(super) fn choose(list: &[Value], wanted: Option<&str>) -> Result<String> {
    let name = |fs: &Value| fs["name"].as_str().unwrap_or_default().to_owned();
    let all: Vec<String> = list.iter().map(name).collect();
    let found = match (wanted, list) {
        (Some(wanted), _) => list.iter().find(|fs| fs["name"] == wanted),
        (None, [only]) => Some(only),
        (None, []) => bail!("the cluster has no file system"),
        (None, _) => bail!("which file system? give --fs with one of {}", all.join(", ")),
    };
    let found = found.with_context(|| {
        format!("no file system `{}`: there are {}", wanted.unwrap_or_default(), all.join(", "))
    })?;
    found["metadata_pool"].as_str().map(str::to_owned).context("the monitors name no metadata pool")
}

/// What an answer says of the object; what it says of the cluster is an error.
fn stored<T>(answer: Result<T, client::Error>) -> Result<Stored<T>> {
    match answer {
        Ok(value) => Ok(Stored::Here(value)),
        Err(client::Error::Errno { errno: Errno::ENOENT, .. }) => Ok(Stored::Absent),
        Err(client::Error::Errno { errno: errno @ Errno::EIO, .. }) => Ok(Stored::Unreadable(errno)),
        Err(error) => Err(error.into()),
    }
}

impl Objects for MetadataPool {
    fn pool(&self) -> &str {
        &self.name
    }

    fn data(&self, object: &str) -> Result<Stored<Vec<u8>>> {
        let mut all = Vec::new();
        let read = self.pool.read_all(object.as_bytes(), |data| {
            data.parts().iter().for_each(|part| all.extend_from_slice(part));
            Ok(())
        });
        Ok(match stored(read)? {
            Stored::Here(()) => Stored::Here(all),
            Stored::Absent => Stored::Absent,
            Stored::Unreadable(errno) => Stored::Unreadable(errno),
        })
    }

    fn header(&self, object: &str) -> Result<Stored<Vec<u8>>> {
        stored(self.pool.omap_header(object.as_bytes()))
    }

    fn page(&self, object: &str, after: &[u8]) -> Result<Stored<(Entries, bool)>> {
        stored(self.pool.omap_page(object.as_bytes(), after, PAGE))
    }

    fn value(&self, object: &str, key: &[u8]) -> Result<Stored<Option<Vec<u8>>>> {
        let keys = [key.to_vec()].into();
        let values = self.pool.omap_values(object.as_bytes(), &keys);
        stored(values.map(|mut values| values.remove(key)))
    }

    fn names(&self, prefix: &str) -> Result<Vec<String>> {
        let mut found = Vec::new();
        self.pool.list(|name| {
            if let Some(name) = std::str::from_utf8(name).ok().filter(|name| name.starts_with(prefix)) {
                found.push(name.to_owned());
            }
        })?;
        Ok(found)
    }
}
