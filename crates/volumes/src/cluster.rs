//! Connections to the cluster: one to the monitors and pools, and one to each file system that is in use.
//! They are made when they are needed, and given up when nobody has used them for a while.

use crate::failure::{Done, Failure, missing};
use crate::tree::Tree;
use client::{Caller, FsRequest, Options};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use stdx::Bufs;
use wire::Errno;

/// Time within which monitors and a metadata server must answer.
const PATIENCE: Duration = Duration::from_secs(30);
/// Time after which an unused connection is given up.
const IDLE: Duration = Duration::from_secs(60);
/// The namespace of our objects in the pool of a file system's metadata.
const NAMESPACE: &[u8] = b"nacre-volumes";

/// A file system of the cluster.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct FileSystem {
    /// Its name.
    pub name: String,
    /// The pool of its metadata.
    pub metadata_pool: String,
    /// The pools of its data, the default one first.
    pub data_pools: Vec<String>,
}

impl FileSystem {
    /// The pool of the data of new files that no layout concerns.
    pub fn usual_pool(&self) -> &str {
        self.data_pools.first().map_or("", String::as_str)
    }
}

struct Connection {
    cluster: client::Cluster,
    used_at: Instant,
    usage: Arc<()>,
}

impl Connection {
    fn open(options: &Options) -> Done<Self> {
        let cluster = client::Cluster::connect(options, PATIENCE)
            .map_err(|error| Failure::new(Errno::ETIMEDOUT, error.to_string()))?;
        Ok(Self { cluster, used_at: Instant::now(), usage: Arc::new(()) })
    }

    fn is_idle(&self) -> bool {
        Arc::strong_count(&self.usage) == 1 && self.used_at.elapsed() > IDLE
    }
}

/// The cluster as commands see it. Threads share it.
pub(crate) struct Cluster {
    options: Options,
    plain: Mutex<Option<Connection>>,
    mounts: Mutex<BTreeMap<String, Connection>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Cluster {
    /// Connects as `options` say, without their mount.
    pub fn new(options: Options) -> Self {
        Self { options, plain: Mutex::default(), mounts: Mutex::default() }
    }

    /// The name that it authenticates by.
    pub fn name(&self) -> String {
        self.options.name.to_string()
    }

    fn with<T>(&self, act: impl FnOnce(&client::Cluster) -> Done<T>) -> Done<T> {
        let mut plain = lock(&self.plain);
        let connection = match plain.take() {
            Some(connection) => connection,
            None => Connection::open(&Options { mount: false, ..self.options.clone() })?,
        };
        let result = act(&connection.cluster);
        // One that has ended is opened anew the next time.
        if !matches!(&result, Err(failure) if failure.errno == Errno::ENOTCONN) {
            *plain = Some(Connection { used_at: Instant::now(), ..connection });
        }
        result
    }

    /// Runs a monitor command and returns its output.
    pub fn command(&self, command: &Value) -> Done<Vec<u8>> {
        self.with(|cluster| {
            let reply = cluster
                .command(&command.to_string(), Bufs::new())
                .map_err(|error| Failure::new(Errno::ENOTCONN, error.to_string()))?;
            match reply.result {
                Ok(()) => Ok(reply.output.to_vec()),
                Err(errno) => Err(self.explained(Failure::new(errno, reply.status))),
            }
        })
    }

    /// Runs a monitor command and reads its output.
    pub fn ask(&self, command: &Value) -> Done<Value> {
        let mut command = command.clone();
        command["format"] = "json".into();
        let output = self.command(&command)?;
        serde_json::from_slice(&output)
            .map_err(|error| Failure::new(Errno::EIO, format!("the monitors' answer: {error}")))
    }

    /// A failure, with what to do about it if our key is the reason.
    pub fn explained(&self, failure: Failure) -> Failure {
        match failure.errno {
            Errno::EACCES | Errno::EPERM => Failure::new(
                failure.errno,
                format!(
                    "the manager's key may not do this ({}); run: ceph auth caps {} mon 'allow profile mds, \
                     allow profile mgr' osd 'allow rwx' mds 'allow *' mgr 'allow profile mds'",
                    failure.text,
                    self.name()
                ),
            ),
            _ => failure,
        }
    }

    /// All file systems.
    pub fn file_systems(&self) -> Done<Vec<FileSystem>> {
        let list = self.ask(&json!({ "prefix": "fs ls" }))?;
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let one = |fs: &Value| FileSystem {
            name: text(&fs["name"]),
            metadata_pool: text(&fs["metadata_pool"]),
            data_pools: fs["data_pools"]
                .as_array()
                .map(|all| all.iter().map(text).collect())
                .unwrap_or_default(),
        };
        Ok(list.as_array().map(|all| all.iter().map(one).collect()).unwrap_or_default())
    }

    /// A file system by name.
    pub fn file_system(&self, name: &str) -> Done<FileSystem> {
        match self.file_systems()?.into_iter().find(|fs| fs.name == name) {
            Some(fs) => Ok(fs),
            None => missing(format!("FS '{name}' not found")),
        }
    }

    /// The addresses of the monitors, as subvolumes' info shows them.
    pub fn mon_addrs(&self) -> Done<Vec<String>> {
        let map = self.ask(&json!({ "prefix": "mon dump" }))?;
        let addr = |mon: &Value| {
            let addr = mon["addr"].as_str().unwrap_or_default();
            addr.split('/').next().unwrap_or_default().to_owned()
        };
        Ok(map["mons"].as_array().map(|mons| mons.iter().map(addr).collect()).unwrap_or_default())
    }

    /// The tree of a file system, which is mounted if it is not yet.
    pub fn tree(&self, fs: &str) -> Done<Tree> {
        self.file_system(fs)?;
        let mut mounts = lock(&self.mounts);
        if let Some(mount) = mounts.get_mut(fs) {
            let root = FsRequest::Getattr { ino: 1 };
            if mount.cluster.fs().call(Caller::default(), root) != Err(Errno::ENOTCONN) {
                mount.used_at = Instant::now();
                return Ok(Tree::new(mount.cluster.fs(), Arc::clone(&mount.usage)));
            }
            mounts.remove(fs);
        }
        let mut options = Options { mount: true, mount_point: "volumes".into(), ..self.options.clone() };
        options.limits.fs_name = Some(fs.to_owned());
        options.limits.quotas = false;
        let mount = Connection::open(&options)?;
        let tree = Tree::new(mount.cluster.fs(), Arc::clone(&mount.usage));
        mounts.insert(fs.to_owned(), mount);
        Ok(tree)
    }

    /// One of our objects beside a file system's metadata, if it exists.
    pub fn object(&self, fs: &FileSystem, name: &str) -> Done<Option<Vec<u8>>> {
        self.with(|cluster| {
            let pool = cluster.pool(&fs.metadata_pool).in_namespace(NAMESPACE);
            let size = pool.stat(name.as_bytes()).map(|stat| stat.size);
            match size.and_then(|size| pool.read(name.as_bytes(), 0, size)) {
                Ok(content) => Ok(Some(content.to_vec())),
                Err(error) => match of_client(error) {
                    failure if failure.errno == Errno::ENOENT => Ok(None),
                    failure => Err(self.explained(failure)),
                },
            }
        })
    }

    /// Replaces one of our objects.
    pub fn write_object(&self, fs: &FileSystem, name: &str, content: Vec<u8>) -> Done<()> {
        self.with(|cluster| {
            let pool = cluster.pool(&fs.metadata_pool).in_namespace(NAMESPACE);
            let written = pool.write_full(name.as_bytes(), &content.into());
            written.map(drop).map_err(|error| self.explained(of_client(error)))
        })
    }

    /// The nonces of all connections, in order.
    pub fn nonces(&self) -> Vec<u32> {
        let mounts = lock(&self.mounts);
        let plain = lock(&self.plain);
        let mut out: Vec<u32> = mounts.values().chain(plain.as_ref()).map(|c| c.cluster.nonce()).collect();
        out.sort_unstable();
        out
    }

    /// Gives connections up that nobody uses.
    pub fn rest(&self) {
        let mut mounts = lock(&self.mounts);
        let idle: Vec<String> =
            mounts.iter().filter(|(_, mount)| mount.is_idle()).map(|(name, _)| name.clone()).collect();
        let mut ended: Vec<Connection> = idle.iter().filter_map(|name| mounts.remove(name)).collect();
        drop(mounts);
        let mut plain = lock(&self.plain);
        if plain.as_ref().is_some_and(Connection::is_idle) {
            ended.extend(plain.take());
        }
        drop(plain);
        for connection in ended {
            // Without a metadata server it takes until there is one.
            let end = move || match connection.cluster.shut_down() {
                Ok(()) => {}
                Err(error) => tracing::warn!(%error, "a connection of the manager"),
            };
            if let Err(error) = std::thread::Builder::new().name("unmount".into()).spawn(end) {
                tracing::warn!(%error, "cannot start a thread");
            }
        }
    }

    /// Gives up a mount: its file system is to be removed.
    pub fn forget(&self, fs: &str) {
        drop(lock(&self.mounts).remove(fs));
    }

    /// Breaks all connections off. What is under way fails.
    pub fn leave(&self) {
        lock(&self.mounts).clear();
        *lock(&self.plain) = None;
    }
}

fn of_client(error: client::Error) -> Failure {
    match error {
        client::Error::Errno { errno, .. } => errno.into(),
        other => Failure::new(Errno::ENOTCONN, other.to_string()),
    }
}
