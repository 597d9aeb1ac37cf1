//! A cached inode.

use crate::cap::{Cap, STRONG, conflicts, policy};
use crate::filelock::FileLocks;
use crate::types::{ClientId, Lsn, OpId, Place};
use fsfmt::InodeData;
use msgs::cap;
use std::collections::{BTreeMap, BTreeSet};

/// Bits that clients must not have while an operation needs them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Restriction {
    /// Who may keep them.
    pub except: Option<ClientId>,
    /// Which bits.
    pub mask: u32,
}

/// An inode with what clients hold of it.
#[derive(Debug)]
pub struct Inode {
    /// What is stored.
    pub data: InodeData,
    /// Its primary entry; none for base inodes.
    pub place: Option<Place>,
    /// The event that changed it last; 0 for one that was loaded.
    pub lsn: Lsn,
    /// Caps by client.
    pub caps: BTreeMap<ClientId, Cap>,
    /// What operations under way forbid.
    pub restrictions: BTreeMap<OpId, Vec<Restriction>>,
    /// Operations that wait for caps to come back, or for its truncation or lock.
    pub waiters: BTreeSet<OpId>,
    /// File locks.
    pub locks: Option<Box<FileLocks>>,
    /// Data objects are being removed or shortened.
    pub data_work: Option<DataWork>,
}

/// Work on a file's data objects.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DataWork {
    /// Shortening down to the truncation's size.
    Truncate {
        /// The next object.
        next: u64,
        /// The first that is not to be touched.
        end: u64,
        /// In flight.
        in_flight: u32,
    },
    /// Removing all, because the last name and the last cap are gone.
    Purge {
        /// The next object.
        next: u64,
        /// The first that is not to be touched.
        end: u64,
        /// In flight.
        in_flight: u32,
    },
}

impl Inode {
    /// A cached inode that no client has.
    pub fn new(data: InodeData, place: Option<Place>, lsn: Lsn) -> Self {
        Self {
            data,
            place,
            lsn,
            caps: BTreeMap::new(),
            restrictions: BTreeMap::new(),
            waiters: BTreeSet::new(),
            locks: None,
            data_work: None,
        }
    }

    /// Bits that clients other than `except` may hold.
    pub fn held_by_others(&self, except: Option<ClientId>) -> u32 {
        self.caps.iter().filter(|(c, _)| Some(**c) != except).fold(0, |all, (_, cap)| all | cap.held())
    }

    /// What `client` may be given now.
    pub fn allowed(&self, client: ClientId) -> u32 {
        let wanted = self.caps.get(&client).map_or(0, |c| c.wanted);
        let others = self.caps.iter().filter(|(c, _)| **c != client).map(|(_, cap)| cap.wanted);
        let mut bits = policy(self.data.is_dir(), wanted, others);
        for r in self.restrictions.values().flatten() {
            if r.except != Some(client) {
                bits &= !r.mask;
            }
        }
        // From the event on, not only once the objects are being cut: what is written in between would be cut off too.
        if self.data.truncate_from > 0 || matches!(self.data_work, Some(DataWork::Truncate { .. })) {
            bits &= !(cap::FILE_WR | cap::FILE_BUFFER | cap::FILE_EXCL | cap::FILE_CACHE | cap::FILE_RD);
        }
        bits | cap::PIN
    }

    /// Whether it is recorded that `client` may hold write and exclusive bits.
    pub fn is_recorded(&self, client: ClientId) -> bool {
        self.data.ranges.get(&client.0).is_some_and(|r| r.max_size > 0)
    }

    /// What `client` could be told now that it has, beyond what it holds.
    pub fn grantable(&self, client: ClientId) -> u32 {
        let bits = self.allowed(client) & !conflicts(self.held_by_others(Some(client)));
        if self.is_recorded(client) { bits } else { bits & !STRONG }
    }

    /// Whether nothing in memory depends on it.
    pub fn is_idle(&self) -> bool {
        self.caps.is_empty()
            && self.restrictions.is_empty()
            && self.waiters.is_empty()
            && self.locks.is_none()
            && self.data_work.is_none()
    }
}
