//! Outputs of the engine, for its owner.

use crate::Listing;
use maps::{Epoch, OsdMap};
use monc::Net;
use msgs::OpResult;
use msgs::op::input::NotifyReply;
use std::sync::Arc;
use stdx::Instant;
use wire::Errno;

/// One output of [`crate::Rados`].
#[derive(Debug)]
pub enum RadosOut {
    /// For the world.
    Net(Net),
    /// For the owner.
    Told(RadosTold),
}

impl From<Net> for RadosOut {
    fn from(net: Net) -> Self {
        Self::Net(net)
    }
}

impl From<RadosTold> for RadosOut {
    fn from(told: RadosTold) -> Self {
        Self::Told(told)
    }
}

/// The end of an operation.
#[derive(Clone, PartialEq, Debug)]
pub struct Completion {
    /// The number that the last operation of the vector returned, or the vector's error.
    pub result: Result<u32, Errno>,
    /// One result for each operation; empty if no OSD was asked.
    pub ops: Vec<OpResult>,
    /// The object's version that clients see.
    pub version: u64,
}

impl Completion {
    /// The end of an operation that no OSD was asked for.
    pub(crate) fn failed(errno: Errno) -> Self {
        Self { result: Err(errno), ops: Vec::new(), version: 0 }
    }
}

/// News for the owner. [`crate::Cluster`] handles the first three.
#[derive(Clone, PartialEq, Debug)]
pub enum RadosTold {
    /// Subscribe OSD maps from this epoch on; 0: only a whole map helps.
    WantMap(Epoch),
    /// Ask the monitors for the newest OSD map's epoch, and call [`crate::Rados::newest_epoch`] with it.
    WantNewestEpoch,
    /// This epoch has arrived on another way than from a monitor.
    GotMap(Epoch),
    /// There is a new map.
    Map(Arc<OsdMap>),
    /// An operation has ended.
    Done {
        /// The owner's number.
        token: u64,
        /// The outcome.
        completion: Box<Completion>,
    },
    /// A listing has ended.
    Listed {
        /// The owner's number.
        token: u64,
        /// The listing, or why there is none.
        result: Result<Box<Listing>, Errno>,
    },
    /// A watch is registered, or can't be and is forgotten.
    Watched {
        /// The owner's number.
        cookie: u64,
        /// Whether it is registered.
        result: Result<(), Errno>,
    },
    /// A notification of an object's watchers, to be answered with [`msgs::Op::NotifyAck`].
    Notified {
        /// Of the watch.
        cookie: u64,
        /// The OSD's number for it, for the answer. The same one may come twice.
        notify_id: u64,
        /// Global id of the notifier.
        notifier: u64,
        /// Its payload.
        payload: Vec<u8>,
    },
    /// A watch is no more, and what was notified since it was last heard of may have passed it.
    WatchBroken {
        /// The owner's number.
        cookie: u64,
        /// Why.
        errno: Errno,
        /// An OSD has heard of the watch at that time or later: up to then nothing has passed it.
        alive_at: Instant,
    },
    /// A notification has ended.
    NotifyEnded {
        /// The owner's number.
        token: u64,
        /// Whether it reached its watchers: ETIMEDOUT if one of them did not answer.
        result: Result<(), Errno>,
        /// The watchers that answered, and those that did not.
        reply: NotifyReply,
        /// Number of its registrations.
        attempts: u32,
    },
}
