//! What the engine gives its owner.

use crate::Listing;
use maps::{Epoch, OsdMap};
use monc::Net;
use msgs::OpResult;
use std::sync::Arc;

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
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Completion {
    /// 0, positive, or a negative errno.
    pub result: i32,
    /// One for each operation; empty where no OSD was asked.
    pub ops: Vec<OpResult>,
    /// The object's version that clients see.
    pub version: u64,
}

/// What the owner learns. [`crate::Cluster`] takes care of the first three.
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
        /// How.
        completion: Box<Completion>,
    },
    /// A listing has ended.
    Listed {
        /// The owner's number.
        token: u64,
        /// What, or a negative errno.
        result: Result<Box<Listing>, i32>,
    },
}
