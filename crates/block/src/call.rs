//! What a script asks of the world, and the answers. Whoever drives scripts carries them out with a client of
//! the cluster.

use maps::SnapId;
use msgs::Op;
use rados::SnapContext;
use std::time::Duration;
use stdx::Bufs;
use wire::{Encode, Errno, Writer};

/// A pool, by its id, and a namespace in it.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Place {
    /// The pool.
    pub pool: i64,
    /// The namespace; the default one is empty.
    pub namespace: Vec<u8>,
}

/// One operation of the world.
#[derive(Clone, PartialEq, Debug)]
pub enum Call {
    /// A vector of operations on one object.
    Object(ObjectCall),
    /// Watches an object. The answer is [`Answer::Watching`]; notifications come as inputs of the machine.
    Watch {
        /// Pool and namespace.
        place: Place,
        /// The object.
        object: Vec<u8>,
        /// The number of the watch.
        cookie: u64,
    },
    /// Ends a watch.
    Unwatch {
        /// The number of the watch.
        cookie: u64,
    },
    /// Notifies the watchers of an object, and collects their answers.
    Notify {
        /// Pool and namespace.
        place: Place,
        /// The object.
        object: Vec<u8>,
        /// The message.
        payload: Vec<u8>,
        /// The time for the answers.
        timeout: Duration,
    },
    /// A monitor's command, in JSON.
    Command(String),
    /// Takes a snapshot id of a pool ([`Answer::Snap`]), or releases one.
    PoolSnap {
        /// The pool.
        pool: i64,
        /// The one to release; `None` for a new one.
        remove: Option<SnapId>,
    },
    /// Waits until object operations are sent with the newest map that the monitors have.
    NewestMap,
}

/// A vector of operations on one object.
#[derive(Clone, PartialEq, Debug)]
pub struct ObjectCall {
    /// Pool and namespace.
    pub place: Place,
    /// The object.
    pub object: Vec<u8>,
    /// The operations, all of which happen, or none.
    pub ops: Vec<Op>,
    /// The state to read.
    pub snap: SnapId,
    /// The snapshots that a write preserves.
    pub snapc: SnapContext,
}

impl ObjectCall {
    /// A vector on the head of an object that has no snapshots.
    pub fn new(place: &Place, object: impl Into<Vec<u8>>, ops: Vec<Op>) -> Self {
        let (place, object) = (place.clone(), object.into());
        Self { place, object, ops, snap: SnapId::HEAD, snapc: SnapContext::default() }
    }

    /// The same, of a snapshot.
    #[must_use]
    pub fn at(self, snap: SnapId) -> Self {
        Self { snap, ..self }
    }

    /// The same, preserving snapshots.
    #[must_use]
    pub fn under(self, snapc: &SnapContext) -> Self {
        Self { snapc: snapc.clone(), ..self }
    }
}

/// The answer to a [`Call`].
#[derive(Clone, PartialEq, Debug)]
pub enum Answer {
    /// Of an object: the result of the vector, and the output of each operation.
    Object {
        /// The vector's result.
        result: Result<u32, Errno>,
        /// Each operation's output; may be empty if the vector failed.
        outputs: Vec<Bufs>,
    },
    /// Of a watch: the number by which other clients know this one.
    Watching(Result<u64, Errno>),
    /// Of a notification: the answers that are not empty, also if other watchers did not answer in time.
    Notified {
        /// ETIMEDOUT if a watcher did not answer.
        result: Result<(), Errno>,
        /// Answers.
        acks: Vec<Vec<u8>>,
    },
    /// Of a command.
    Command {
        /// Its result.
        result: Result<(), Errno>,
        /// Its status line.
        status: String,
        /// Its output.
        output: Vec<u8>,
    },
    /// Of [`Call::PoolSnap`]: the new id, or the one that was released.
    Snap(Result<SnapId, Errno>),
    /// Of all others.
    Done(Result<(), Errno>),
}

impl Answer {
    /// Whether the call succeeded.
    pub fn result(&self) -> Result<(), Errno> {
        match self {
            Self::Object { result, .. } => result.map(drop),
            Self::Watching(result) => result.map(drop),
            Self::Snap(result) => result.map(drop),
            Self::Notified { result, .. } | Self::Command { result, .. } | Self::Done(result) => *result,
        }
    }

    /// The output of an operation of the vector.
    pub fn output(&self, i: usize) -> Bufs {
        match self {
            Self::Object { outputs, .. } => outputs.get(i).cloned().unwrap_or_default(),
            _ => Bufs::new(),
        }
    }
}

/// A call of a method of class `rbd`.
pub(crate) fn rbd(method: &str, input: &impl Encode) -> Op {
    method_of("rbd", method, Writer::encode(input))
}

/// A call of a method of any class with an encoded input.
pub(crate) fn method_of(class: &str, method: &str, input: Vec<u8>) -> Op {
    Op::Call { class: class.into(), method: method.into(), input: input.into() }
}

/// The input of a method that takes none.
pub(crate) const NOTHING: [u8; 0] = [];

/// Methods that do not change their object. All others may.
const READERS: &[&str] = &[
    "assert_locked",
    "dir_get_id",
    "dir_get_name",
    "dir_list",
    "get_data_pool",
    "get_features",
    "get_flags",
    "get_id",
    "get_info",
    "get_object_prefix",
    "get_protection_status",
    "get_size",
    "get_snapcontext",
    "get_stripe_unit_count",
    "object_map_load",
    "parent_get",
    "parent_overlap_get",
    "snapshot_get",
];

impl ObjectCall {
    /// True if it may change the object.
    pub fn writes(&self) -> bool {
        self.ops.iter().any(|op| match op {
            Op::Call { method, .. } => !READERS.contains(&method.as_str()),
            op => op.code().writes(),
        })
    }
}
