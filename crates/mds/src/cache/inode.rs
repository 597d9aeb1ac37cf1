//! A cached inode.

use super::Holders;
use crate::cap::{Cap, OBJECT_BITS, STRONG, conflicts, policy};
use crate::cut::{self, Cut};
use crate::types::{ClientId, Holder, LastChange, OpId, Place, SnapContext};
use fsfmt::InodeData;
use msgs::cap;
use std::collections::{BTreeMap, BTreeSet};
use stdx::{ConstDefault, Instant, Rare};

/// Bits that a running operation revokes from holders and withholds until it ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Revocation {
    /// The holder that may keep them.
    pub except: Option<Holder>,
    /// Bits to be given back.
    pub mask: u32,
}

/// An inode with what clients hold of it.
#[derive(Debug)]
pub struct Inode {
    /// The stored part of the inode.
    pub data: InodeData,
    /// Its primary entry; none for base inodes.
    pub place: Option<Place>,
    /// The events that changed it last.
    pub change: LastChange,
    /// Capabilities on it, by holder.
    pub caps: Holders,
    /// What is under way on it.
    pub under_way: Rare<UnderWay>,
}

/// What is under way on an inode: nothing on nearly all.
#[derive(Default, PartialEq, Debug)]
pub struct UnderWay {
    /// Revocations by operations.
    pub revocations: BTreeMap<OpId, Vec<Revocation>>,
    /// Operations that wait for caps to come back, or for its truncation or lock.
    pub waiters: BTreeSet<OpId>,
    /// On a directory: the last time that a client had to give up the right to work in it alone. For a while
    /// it counts as shared, and nobody is given that right.
    pub shared_at: Option<Instant>,
    /// Removal or truncation of its data objects, if in progress.
    pub data_work: Option<DataWork>,
    /// Holders that have claimed `FILE_WR` after a restart: what they wrote before is not known here until
    /// they have given it up for once.
    pub untold: BTreeSet<Holder>,
    /// Bits that clients may hold which have come back after a restart and have not claimed them: another
    /// rank may be about to hand them over.
    pub unclaimed: BTreeMap<Holder, u32>,
}

impl UnderWay {
    const NOTHING: Self = Self {
        revocations: BTreeMap::new(),
        waiters: BTreeSet::new(),
        shared_at: None,
        data_work: None,
        untold: BTreeSet::new(),
        unclaimed: BTreeMap::new(),
    };
}

impl ConstDefault for UnderWay {
    fn const_default() -> &'static Self {
        const { &Self::NOTHING }
    }
}

/// What is done to a file's data objects.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Work {
    /// Everything is removed, because the last name and the last cap are gone.
    Purge,
    /// A truncation is carried out: another one may follow meanwhile.
    Cut(Cut),
    /// Data that are in the journal only are stored, this version of them.
    Store(u64),
}

/// Work on a file's data objects.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DataWork {
    /// What is done to them.
    pub what: Work,
    /// The snapshots for which objects are preserved. All of them are durable; later ones do not get into
    /// work that is under way.
    pub snaps: SnapContext,
    /// Next object to process.
    pub next: u64,
    /// First object to keep.
    pub end: u64,
    /// Number of requests in flight.
    pub in_flight: u32,
}

impl Inode {
    /// A cached inode that no client has.
    pub fn new(data: InodeData, place: Option<Place>, change: LastChange) -> Self {
        Self { data, place, change, caps: Holders::default(), under_way: Rare::default() }
    }

    /// Bits that holders other than `except` may hold.
    pub fn held_by_others(&self, except: Option<Holder>) -> u32 {
        let held = self.caps.iter().map(|(holder, cap)| (holder, cap.held()));
        let unclaimed = self.under_way.unclaimed.iter().map(|(holder, bits)| (*holder, *bits));
        held.chain(unclaimed)
            .filter(|(holder, _)| Some(*holder) != except)
            .fold(0, |all, (_, bits)| all | bits)
    }

    /// The same without what is only presumed.
    pub fn known_of_others(&self, except: ClientId) -> u32 {
        let others = self.caps.iter().filter(|(holder, cap)| *holder != except.into() && !cap.is_presumed);
        others.fold(0, |all, (_, cap)| all | cap.held())
    }

    /// Bits that `holder` may be given now.
    pub fn allowed(&self, holder: impl Into<Holder>) -> u32 {
        let holder = holder.into();
        let wanted = self.caps.get(holder).map_or(0, |c| c.wanted);
        let others = self.caps.iter().filter(|(other, _)| *other != holder).map(|(_, cap)| cap.wanted);
        self.limit(holder, policy(self.data.is_dir(), wanted, others))
    }

    /// The part of `bits` that no operation and no truncation withholds from `holder`.
    pub fn limit(&self, holder: Holder, mut bits: u32) -> u32 {
        for r in self.under_way.revocations.values().flatten() {
            if r.except != Some(holder) {
                bits &= !r.mask;
            }
        }
        // From the event on, and not only while objects are being removed: data written in between would be
        // removed too.
        if cut::delays_clients(&self.data) {
            bits &= !(cap::FILE_WR | cap::FILE_BUFFER | cap::FILE_EXCL | cap::FILE_CACHE | cap::FILE_RD);
        }
        // Whoever has written data that are in the journal only keeps what it has. They are in no object yet,
        // where others would look for them.
        if self.data.packed.is_some() && !ignores_where_data_are() {
            bits &= !OBJECT_BITS | self.caps.get(holder).map_or(0, |cap| cap.pending);
        }
        if self.data.is_sharded {
            bits &= !(cap::FILE_SHARED | cap::FILE_EXCL | cap::AUTH_EXCL);
        }
        if self.under_way.shared_at.is_some() {
            bits &= !cap::FILE_EXCL;
        }
        if !self.under_way.untold.is_empty() {
            bits = self.until_told(holder, bits);
        }
        self.whole(bits | cap::PIN)
    }

    /// The part of `bits` for `holder` while writers have not told what they wrote before a restart. Nobody
    /// else begins to read: Linux relies on the size that comes with `FILE_RD`. They tell it when they give
    /// their rights up for somebody who wants to.
    fn until_told(&self, holder: Holder, mut bits: u32) -> u32 {
        let untold = &self.under_way.untold;
        if untold.iter().any(|writer| *writer != holder) {
            bits &= !cap::FILE_RD | self.caps.get(holder).map_or(0, |cap| cap.pending);
        }
        let waits = |(other, cap): (Holder, &Cap)| other != holder && cap.wanted & cap::FILE_RD != 0;
        if untold.contains(&holder) && self.caps.iter().any(waits) {
            bits &= !(cap::FILE_WR | cap::FILE_BUFFER | cap::FILE_EXCL);
        }
        bits
    }

    /// Notes that the holder may not hold `FILE_WR` any more: then it has told what it wrote.
    pub fn note_told(&mut self, holder: Holder) {
        let writes = self.caps.get(holder).is_some_and(|cap| cap.held() & cap::FILE_WR != 0);
        if !writes && self.under_way.untold.contains(&holder) {
            self.under_way.edit(|at| at.untold.remove(&holder));
        }
    }

    /// The part of `bits` that is of use: on a directory, those to work in it asynchronously only with
    /// `FILE_EXCL`, and while it has a name.
    fn whole(&self, bits: u32) -> u32 {
        let is_of_use = bits & cap::FILE_EXCL != 0 && self.data.nlink > 0;
        if self.data.is_dir() && !is_of_use { bits & !cap::DIR_OPS } else { bits }
    }

    /// True if the inode records that `client` may hold write and exclusive bits.
    pub fn is_recorded(&self, client: ClientId) -> bool {
        self.data.ranges.get(&client.0).is_some_and(|r| r.max_size > 0 || r.bits != 0)
    }

    /// True if its objects are being removed, since nobody had a name or a capability for it: it is gone.
    pub fn is_being_purged(&self) -> bool {
        self.under_way.data_work.as_ref().is_some_and(|work| matches!(work.what, Work::Purge))
    }

    /// True for a file that nobody has a name or a capability for. Before a restart its objects may have been
    /// removed in part, so that nobody is given it again.
    pub fn is_abandoned(&self) -> bool {
        let is_unnamed = self.data.is_file() && self.data.nlink == 0;
        is_unnamed && self.caps.is_empty() && self.under_way.waiters.is_empty()
    }

    /// True if somebody wants to read or write objects, and may not because the data are in the journal only.
    pub fn is_store_awaited(&self) -> bool {
        let waits = |cap: &Cap| cap.wanted & OBJECT_BITS & !cap.pending != 0;
        let matters = self.data.packed.is_some() && !ignores_where_data_are();
        matters && (!self.under_way.waiters.is_empty() || self.caps.values().any(waits))
    }

    /// True if `client` could be given a directory for itself; to work in it asynchronously, once the inode
    /// records that.
    pub fn may_be_exclusive(&self, client: ClientId) -> bool {
        let others = self.held_by_others(Some(client.into()));
        self.data.is_dir() && self.allowed(client) & !conflicts(others) & cap::FILE_EXCL != 0
    }

    /// Bits that `client` could be granted now, including those it holds.
    pub fn grantable(&self, client: ClientId) -> u32 {
        let others = self.held_by_others(Some(client.into()));
        self.unless_unrecorded(client, self.allowed(client) & !conflicts(others))
    }

    /// The part of `bits` that `client` may have, as recorded in the inode.
    pub fn unless_unrecorded(&self, client: ClientId, bits: u32) -> u32 {
        self.whole(if self.is_recorded(client) { bits } else { bits & !STRONG })
    }

    /// True for a directory that has a name, so that a rank can have it for itself.
    pub fn is_named_dir(&self) -> bool {
        !self.data.ino.is_base() && self.data.is_dir() && self.data.nlink > 0
    }

    /// True if nothing else in memory depends on it, but for file locks.
    pub fn is_idle(&self) -> bool {
        self.caps.is_empty()
            && self.under_way.revocations.is_empty()
            && self.under_way.waiters.is_empty()
            && self.under_way.data_work.is_none()
    }
}

/// Planted fault: clients look into objects before the journal's data are there.
fn ignores_where_data_are() -> bool {
    stdx::mutants::is_active("mds_grants_before_data_are_stored")
}
