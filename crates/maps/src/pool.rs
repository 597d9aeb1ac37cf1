//! Pools, `pg_pool_t` (docs/protocol.md 4.2).

use crate::{EVersion, Epoch, IntervalSet, PgId, SnapId, split_off, stable_mod, stable_mod_mask};
use std::collections::{BTreeMap, BTreeSet};
use stdx::Rng;
use wire::{Decode, DecodeError, Encode, Reader, Sample, Utime, Writer};

/// Values of [`Pool::ty`].
pub mod pool_type {
    /// Copies.
    pub const REPLICATED: u8 = 1;
    /// Coded.
    pub const ERASURE: u8 = 3;
}

/// Bits of [`Pool::flags`].
pub mod pool_flags {
    /// The placement seed is hashed with the pool's id.
    pub const HASHPSPOOL: u64 = 1;
    /// Out of space: writers wait.
    pub const FULL: u64 = 1 << 1;
    /// Erasure-coded objects may be overwritten.
    pub const EC_OVERWRITES: u64 = 1 << 2;
    /// Has complete clones only; cache tiering.
    pub const INCOMPLETE_CLONES: u64 = 1 << 3;
    /// May not be deleted.
    pub const NODELETE: u64 = 1 << 4;
    /// `pg_num` may not be changed.
    pub const NOPGCHANGE: u64 = 1 << 5;
    /// `size` may not be changed.
    pub const NOSIZECHANGE: u64 = 1 << 6;
    /// Writes with the hint fadvise=dontneed; cache tiering.
    pub const WRITE_FADVISE_DONTNEED: u64 = 1 << 7;
    /// No light scrub.
    pub const NOSCRUB: u64 = 1 << 8;
    /// No deep scrub.
    pub const NODEEP_SCRUB: u64 = 1 << 9;
    /// Full because of its quota.
    pub const FULL_QUOTA: u64 = 1 << 10;
    /// Nearly full.
    pub const NEARFULL: u64 = 1 << 11;
    /// Too full to backfill into.
    pub const BACKFILLFULL: u64 = 1 << 12;
    /// Clients manage snapshots.
    pub const SELFMANAGED_SNAPS: u64 = 1 << 13;
    /// The pool as a whole has snapshots.
    pub const POOL_SNAPS: u64 = 1 << 14;
    /// PGs are being made.
    pub const CREATING: u64 = 1 << 15;
    /// Every operation fails with EIO.
    pub const EIO: u64 = 1 << 16;
    /// Expected to be large.
    pub const BULK: u64 = 1 << 17;

    /// Ceph's names, by bit.
    pub const NAMES: [(u64, &str); 18] = [
        (HASHPSPOOL, "hashpspool"),
        (FULL, "full"),
        (EC_OVERWRITES, "ec_overwrites"),
        (INCOMPLETE_CLONES, "incomplete_clones"),
        (NODELETE, "nodelete"),
        (NOPGCHANGE, "nopgchange"),
        (NOSIZECHANGE, "nosizechange"),
        (WRITE_FADVISE_DONTNEED, "write_fadvise_dontneed"),
        (NOSCRUB, "noscrub"),
        (NODEEP_SCRUB, "nodeep-scrub"),
        (FULL_QUOTA, "full_quota"),
        (NEARFULL, "nearfull"),
        (BACKFILLFULL, "backfillfull"),
        (SELFMANAGED_SNAPS, "selfmanaged_snaps"),
        (POOL_SNAPS, "pool_snaps"),
        (CREATING, "creating"),
        (EIO, "eio"),
        (BULK, "bulk"),
    ];
}

/// Keys of [`Pool::opts`].
pub mod pool_opt {
    /// Seconds, double.
    pub const SCRUB_MIN_INTERVAL: i32 = 0;
    /// Seconds, double.
    pub const SCRUB_MAX_INTERVAL: i32 = 1;
    /// Seconds, double.
    pub const DEEP_SCRUB_INTERVAL: i32 = 2;
    /// Integer.
    pub const RECOVERY_PRIORITY: i32 = 3;
    /// Integer.
    pub const RECOVERY_OP_PRIORITY: i32 = 4;
    /// Integer.
    pub const SCRUB_PRIORITY: i32 = 5;
    /// String.
    pub const COMPRESSION_MODE: i32 = 6;
    /// String.
    pub const COMPRESSION_ALGORITHM: i32 = 7;
    /// Double.
    pub const COMPRESSION_REQUIRED_RATIO: i32 = 8;
    /// Bytes, integer.
    pub const COMPRESSION_MAX_BLOB_SIZE: i32 = 9;
    /// Bytes, integer.
    pub const COMPRESSION_MIN_BLOB_SIZE: i32 = 10;
    /// Integer.
    pub const CSUM_TYPE: i32 = 11;
    /// Bytes, integer.
    pub const CSUM_MAX_BLOCK: i32 = 12;
    /// Bytes, integer.
    pub const CSUM_MIN_BLOCK: i32 = 13;
    /// Integer: fewest PGs the autoscaler may choose.
    pub const PG_NUM_MIN: i32 = 15;
    /// Bytes, integer.
    pub const TARGET_SIZE_BYTES: i32 = 16;
    /// Double.
    pub const TARGET_SIZE_RATIO: i32 = 17;
    /// Double: weight of the pool's bytes for the autoscaler.
    pub const PG_AUTOSCALE_BIAS: i32 = 18;
    /// Integer: most PGs the autoscaler may choose.
    pub const PG_NUM_MAX: i32 = 23;
}

/// A value of [`Pool::opts`].
#[derive(Clone, PartialEq, Debug)]
pub enum PoolOpt {
    /// 0 on the wire.
    Str(String),
    /// 1 on the wire.
    Int(i64),
    /// 2 on the wire.
    Double(f64),
}

impl Encode for PoolOpt {
    fn encode(&self, w: &mut Writer) {
        match self {
            Self::Str(s) => {
                w.put(&0i32);
                w.put(s);
            }
            Self::Int(n) => {
                w.put(&1i32);
                w.put(n);
            }
            Self::Double(x) => {
                w.put(&2i32);
                w.put(x);
            }
        }
    }
}

impl Decode for PoolOpt {
    const MIN_SIZE: usize = 8;
    fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        match r.get::<i32>()? {
            0 => r.get().map(Self::Str),
            1 => r.get().map(Self::Int),
            2 => r.get().map(Self::Double),
            other => Err(r.error(format!("pool option of type {other}"))),
        }
    }
}

impl Sample for PoolOpt {
    fn sample(rng: &mut Rng) -> Self {
        match rng.below(3) {
            0 => Self::Str(Sample::sample(rng)),
            1 => Self::Int(Sample::sample(rng)),
            _ => Self::Double(Sample::sample(rng)),
        }
    }
}

wire::wire_structs! {
    /// `pool_snap_info_t`: a snapshot of a whole pool.
    pub struct PoolSnap[v 2/2] {
        /// Id.
        pub snapid: SnapId,
        /// Time of its creation.
        pub stamp: Utime,
        /// Name.
        pub name: String,
    }

    /// `pg_merge_meta_t`: the last merge of two PGs.
    pub struct MergeMeta[v 1/1] {
        /// The PG that went.
        pub source_pgid: PgId,
        /// Epoch in which both were ready.
        pub ready_epoch: Epoch,
        /// History.
        pub last_epoch_started: Epoch,
        /// History.
        pub last_epoch_clean: Epoch,
        /// Last version of the source.
        pub source_version: EVersion,
        /// Last version of the target.
        pub target_version: EVersion,
    }
}

/// A pool. The default is a replicated pool of nothing; see [`Pool::replicated`].
#[derive(Clone, PartialEq, Debug)]
pub struct Pool {
    /// One of [`pool_type`].
    pub ty: u8,
    /// Copies, or k+m.
    pub size: u8,
    /// Id of its CRUSH rule.
    pub crush_rule: u8,
    /// 2, rjenkins.
    pub object_hash: u8,
    /// Number of PGs.
    pub pg_num: u32,
    /// Number of PGs as placement sees it.
    pub pgp_num: u32,
    /// Epoch of the last change; set when an incremental is applied.
    pub last_change: Epoch,
    /// The newest snapshot id.
    pub snap_seq: SnapId,
    /// Epoch of the last change to the snapshots.
    pub snap_epoch: Epoch,
    /// Snapshots of the pool as a whole.
    pub snaps: BTreeMap<SnapId, PoolSnap>,
    /// Removed snapshots, as clients before Octopus learn of them.
    pub removed_snaps: IntervalSet,
    /// No longer in use.
    pub auid: u64,
    /// See [`pool_flags`].
    pub flags: u64,
    /// Fewest copies with which it serves.
    pub min_size: u8,
    /// 0 for none.
    pub quota_max_bytes: u64,
    /// 0 for none.
    pub quota_max_objects: u64,
    /// Cache tiering, as all up to `hit_set_count`.
    pub tiers: BTreeSet<i64>,
    /// -1.
    pub tier_of: i64,
    /// 0.
    pub cache_mode: u8,
    /// -1, or clients send reads there.
    pub read_tier: i64,
    /// -1, or clients send writes there.
    pub write_tier: i64,
    /// Free.
    pub properties: BTreeMap<String, String>,
    /// Encoding of the parameters; one 0 for none.
    pub hit_set_params: Vec<u8>,
    /// Seconds.
    pub hit_set_period: u32,
    /// Number of sets.
    pub hit_set_count: u32,
    /// Bytes in a stripe of an erasure-coded pool, 0 in others.
    pub stripe_width: u32,
    /// Cache tiering.
    pub target_max_bytes: u64,
    /// Cache tiering.
    pub target_max_objects: u64,
    /// Cache tiering: dirty and full ratio, flush and evict age.
    pub cache_target: [u32; 4],
    /// Name.
    pub ec_profile: String,
    /// Clients from before Luminous resend at this epoch.
    pub last_force_op_resend_preluminous: Epoch,
    /// Cache tiering.
    pub min_read_recency_for_promote: i32,
    /// A hint.
    pub expected_num_objects: u64,
    /// Cache tiering.
    pub cache_target_dirty_high_ratio_micro: u32,
    /// Cache tiering.
    pub min_write_recency_for_promote: i32,
    /// Cache tiering.
    pub use_gmt_hitset: bool,
    /// Reads ask all shards at once.
    pub fast_read: bool,
    /// Cache tiering.
    pub hit_set_grade_decay_rate: i32,
    /// Cache tiering.
    pub hit_set_search_last_n: u32,
    /// See [`pool_opt`].
    pub opts: BTreeMap<i32, PoolOpt>,
    /// Clients from before Nautilus resend at this epoch.
    pub last_force_op_resend_prenautilus: Epoch,
    /// Application to key to value.
    pub application_metadata: BTreeMap<String, BTreeMap<String, String>>,
    /// Time of its creation.
    pub create_time: Utime,
    /// Target of `pg_num`.
    pub pg_num_target: u32,
    /// Target of `pgp_num`.
    pub pgp_num_target: u32,
    /// `pg_num` after the merge in progress.
    pub pg_num_pending: u32,
    /// Clients resend at this epoch.
    pub last_force_op_resend: Epoch,
    /// 0 off, 1 warn, 2 on.
    pub pg_autoscale_mode: u8,
    /// The last merge.
    pub last_pg_merge_meta: MergeMeta,
}

impl Default for Pool {
    fn default() -> Self {
        Self {
            ty: pool_type::REPLICATED,
            size: 0,
            crush_rule: 0,
            object_hash: 2,
            pg_num: 0,
            pgp_num: 0,
            last_change: Epoch(0),
            snap_seq: SnapId(0),
            snap_epoch: Epoch(0),
            snaps: BTreeMap::new(),
            removed_snaps: IntervalSet::new(),
            auid: 0,
            flags: 0,
            min_size: 0,
            quota_max_bytes: 0,
            quota_max_objects: 0,
            tiers: BTreeSet::new(),
            tier_of: -1,
            cache_mode: 0,
            read_tier: -1,
            write_tier: -1,
            properties: BTreeMap::new(),
            hit_set_params: vec![0],
            hit_set_period: 0,
            hit_set_count: 0,
            stripe_width: 0,
            target_max_bytes: 0,
            target_max_objects: 0,
            cache_target: [0; 4],
            ec_profile: String::new(),
            last_force_op_resend_preluminous: Epoch(0),
            min_read_recency_for_promote: 0,
            expected_num_objects: 0,
            cache_target_dirty_high_ratio_micro: 0,
            min_write_recency_for_promote: 0,
            use_gmt_hitset: true,
            fast_read: false,
            hit_set_grade_decay_rate: 0,
            hit_set_search_last_n: 0,
            opts: BTreeMap::new(),
            last_force_op_resend_prenautilus: Epoch(0),
            application_metadata: BTreeMap::new(),
            create_time: Utime::default(),
            pg_num_target: 0,
            pgp_num_target: 0,
            pg_num_pending: 0,
            last_force_op_resend: Epoch(0),
            pg_autoscale_mode: 0,
            last_pg_merge_meta: MergeMeta::default(),
        }
    }
}

impl Pool {
    /// A new replicated pool.
    pub fn replicated(size: u8, min_size: u8, rule: u8, pg_num: u32, now: Utime) -> Self {
        Self {
            size,
            min_size,
            crush_rule: rule,
            pg_num,
            pgp_num: pg_num,
            pg_num_target: pg_num,
            pgp_num_target: pg_num,
            pg_num_pending: pg_num,
            flags: pool_flags::HASHPSPOOL,
            cache_target: [400_000, 800_000, 0, 0],
            cache_target_dirty_high_ratio_micro: 600_000,
            create_time: now,
            ..Self::default()
        }
    }

    /// True if bit `flag` of [`pool_flags`] is set.
    pub fn has_flag(&self, flag: u64) -> bool {
        self.flags & flag != 0
    }

    /// True if positions in a placement matter, so that holes stay.
    pub fn is_erasure(&self) -> bool {
        self.ty == pool_type::ERASURE
    }

    /// True if the pool's PGs have this shard: a position of an erasure-coded one, [`Spg::NO_SHARD`] of a
    /// replicated one.
    ///
    /// [`Spg::NO_SHARD`]: crate::Spg::NO_SHARD
    pub fn has_shard(&self, shard: i8) -> bool {
        match self.is_erasure() {
            true => u8::try_from(shard).is_ok_and(|shard| shard < self.size),
            false => shard == crate::Spg::NO_SHARD,
        }
    }

    /// The names of its flags, comma-separated, as `ceph osd pool ls detail` prints them.
    pub fn flags_string(&self) -> String {
        let names = pool_flags::NAMES.iter().filter(|(bit, _)| self.has_flag(*bit));
        names.map(|(_, name)| *name).collect::<Vec<_>>().join(",")
    }

    /// The PG of a raw PG, whose seed is a whole hash.
    pub fn raw_pg_to_pg(&self, raw: PgId) -> PgId {
        PgId { pool: raw.pool, seed: stable_mod(raw.seed, self.pg_num, stable_mod_mask(self.pg_num)) }
    }

    /// The placement seed of a PG.
    pub fn pps(&self, pg: PgId) -> u32 {
        let seed = stable_mod(pg.seed, self.pgp_num, stable_mod_mask(self.pgp_num));
        if self.has_flag(pool_flags::HASHPSPOOL) {
            crush::hash32_2(seed, pg.pool as u32)
        } else {
            seed.wrapping_add(pg.pool as u32)
        }
    }

    /// True if a PG is about to be merged, and serves no requests until that is done or cancelled.
    pub fn is_premerge(&self, seed: u32) -> bool {
        let left = self.pg_num_pending;
        let merges = (1..self.pg_num).contains(&left) && seed < self.pg_num;
        merges && (seed >= left || split_off(seed, left, self.pg_num).next().is_some())
    }

    /// All its PGs.
    pub fn pgs(&self, pool_id: i64) -> impl Iterator<Item = PgId> + use<> {
        (0..self.pg_num).map(move |seed| PgId { pool: pool_id, seed })
    }
}
