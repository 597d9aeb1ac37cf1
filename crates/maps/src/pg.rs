//! Placement groups, versions and request ids.

use crate::{Epoch, OsdId};
use std::fmt;
use std::ops::RangeInclusive;
use stdx::Rng;
use wire::{Decode, DecodeError, Encode, EntityId, Reader, Sample, Writer};

/// A placement group, `pg_t`; also an object's raw PG, whose seed is the object's whole hash.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct PgId {
    /// Pool id.
    pub pool: i64,
    /// Number within the pool.
    pub seed: u32,
}

impl PgId {
    /// `pool.seed`.
    pub fn new(pool: i64, seed: u32) -> Self {
        Self { pool, seed }
    }

    /// Parses `1.2f`.
    pub fn parse(text: &str) -> Option<Self> {
        let (pool, seed) = text.split_once('.')?;
        Some(Self { pool: pool.parse().ok()?, seed: u32::from_str_radix(seed, 16).ok()? })
    }
}

impl fmt::Display for PgId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:x}", self.pool, self.seed)
    }
}

impl fmt::Debug for PgId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Encode for PgId {
    fn encode(&self, w: &mut Writer) {
        w.put(&1u8);
        w.put(&self.pool);
        w.put(&self.seed);
        w.put(&-1i32); // once the preferred OSD
    }
}

impl Decode for PgId {
    const MIN_SIZE: usize = 17;
    fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let version: u8 = r.get()?;
        if version != 1 {
            return Err(r.error(format!("pg_t of version {version}")));
        }
        let pg = Self { pool: r.get()?, seed: r.get()? };
        r.get::<i32>()?;
        Ok(pg)
    }
}

impl Sample for PgId {
    fn sample(rng: &mut Rng) -> Self {
        Self { pool: rng.below(100) as i64, seed: rng.u32() }
    }
}

/// A placement group's shard, `spg_t`: position in an erasure-coded PG, or [`Spg::NO_SHARD`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Spg {
    /// The group.
    pub pgid: PgId,
    /// The position.
    pub shard: i8,
}

impl Spg {
    /// The shard of replicated PGs.
    pub const NO_SHARD: i8 = -1;

    /// The only shard of a replicated PG.
    pub fn replicated(pgid: PgId) -> Self {
        Self { pgid, shard: Self::NO_SHARD }
    }

    /// Every shard that a PG may have, in order.
    pub fn all_of(pgid: PgId) -> RangeInclusive<Self> {
        Self { pgid, shard: i8::MIN }..=Self { pgid, shard: i8::MAX }
    }

    /// The same shard of another PG.
    pub fn of(self, pgid: PgId) -> Self {
        Self { pgid, ..self }
    }

    /// Parses `1.2f` or `1.2fs3`.
    pub fn parse(text: &str) -> Option<Self> {
        match text.split_once('s') {
            None => PgId::parse(text).map(Self::replicated),
            Some((pgid, shard)) => {
                let shard = shard.parse().ok().filter(|shard: &i8| *shard >= 0)?;
                Some(Self { pgid: PgId::parse(pgid)?, shard })
            }
        }
    }
}

impl Default for Spg {
    fn default() -> Self {
        Self::replicated(PgId::default())
    }
}

impl fmt::Display for Spg {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.shard {
            Self::NO_SHARD => self.pgid.fmt(f),
            shard => write!(f, "{}s{shard}", self.pgid),
        }
    }
}

impl fmt::Debug for Spg {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Encode for Spg {
    fn encode(&self, w: &mut Writer) {
        w.versioned(1, 1, |w| {
            w.put(&self.pgid);
            w.put(&self.shard);
        });
    }
}

impl Decode for Spg {
    const MIN_SIZE: usize = 24;
    fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        r.versioned(1, |_, r| Ok(Self { pgid: r.get()?, shard: r.get()? }))
    }
}

impl Sample for Spg {
    fn sample(rng: &mut Rng) -> Self {
        Self { pgid: Sample::sample(rng), shard: rng.below(4) as i8 - 1 }
    }
}

/// A count of changes within a PG; never decreases.
pub type Version = u64;

/// The version of a PG's change: the epoch in which it was ordered, then its number (`eversion_t`).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct EVersion {
    /// Decides first.
    pub epoch: Epoch,
    /// Grows over all epochs.
    pub version: Version,
}

impl EVersion {
    /// `epoch'version`.
    pub fn new(epoch: Epoch, version: Version) -> Self {
        Self { epoch, version }
    }
}

impl fmt::Display for EVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}'{}", self.epoch, self.version)
    }
}

impl fmt::Debug for EVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Encode for EVersion {
    fn encode(&self, w: &mut Writer) {
        w.put(&self.version);
        w.put(&self.epoch);
    }
}

impl Decode for EVersion {
    const MIN_SIZE: usize = 12;
    fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let version = r.get()?;
        Ok(Self { epoch: r.get()?, version })
    }
}

impl Sample for EVersion {
    fn sample(rng: &mut Rng) -> Self {
        Self { epoch: Sample::sample(rng), version: Sample::sample(rng) }
    }
}

/// The sender and number of a change, by which a resent request is recognized (`osd_reqid_t`).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct ReqId {
    /// The client; its number is its `global_id`.
    pub name: EntityId,
    /// The client's transaction id.
    pub tid: u64,
    /// The client's incarnation, 0 for most.
    pub inc: i32,
}

impl fmt::Display for ReqId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}:{}", self.name, self.inc, self.tid)
    }
}

impl fmt::Debug for ReqId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Encode for ReqId {
    fn encode(&self, w: &mut Writer) {
        w.versioned(2, 2, |w| {
            w.put(&self.name);
            w.put(&self.tid);
            w.put(&self.inc);
        });
    }
}

impl Decode for ReqId {
    const MIN_SIZE: usize = 27;
    fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        r.versioned(2, |_, r| Ok(Self { name: r.get()?, tid: r.get()?, inc: r.get()? }))
    }
}

impl Sample for ReqId {
    fn sample(rng: &mut Rng) -> Self {
        Self { name: Sample::sample(rng), tid: Sample::sample(rng), inc: 0 }
    }
}

/// The placement of a PG, as `OsdMap::pg_up_acting` returns it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct UpActing {
    /// The up set: CRUSH's placement, as far as it is up; holes only in erasure-coded pools.
    pub up: Vec<OsdId>,
    /// The first of `up`, or as primary affinity decides.
    pub up_primary: Option<OsdId>,
    /// The acting set: the OSDs that serve it.
    pub acting: Vec<OsdId>,
    /// The OSD that clients talk to.
    pub acting_primary: Option<OsdId>,
}
