//! Counts of objects and bytes, as OSDs report them and clients get them.

use wire::{Decode, DecodeError, Encode, Reader, Sample, Writer};

wire::wire_structs! {
    /// `object_stat_sum_t`: what a PG or a pool holds and has done.
    pub struct ObjectStatSum[v 20/14] {
        /// Bytes in all objects.
        pub num_bytes: i64,
        /// Objects, clones included.
        pub num_objects: i64,
        /// Objects that are clones.
        pub num_object_clones: i64,
        /// Objects times replicas.
        pub num_object_copies: i64,
        /// Objects that the primary lacks.
        pub num_objects_missing_on_primary: i64,
        /// Copies that are missing.
        pub num_objects_degraded: i64,
        /// Objects of which no copy is known.
        pub num_objects_unfound: i64,
        /// Reads.
        pub num_rd: i64,
        /// KiB read.
        pub num_rd_kb: i64,
        /// Writes.
        pub num_wr: i64,
        /// KiB written.
        pub num_wr_kb: i64,
        /// Errors found by scrub.
        pub num_scrub_errors: i64,
        /// Objects recovered.
        pub num_objects_recovered: i64,
        /// Bytes recovered.
        pub num_bytes_recovered: i64,
        /// Omap keys recovered.
        pub num_keys_recovered: i64,
        /// Errors found by comparing metadata.
        pub num_shallow_scrub_errors: i64,
        /// Errors found by comparing data.
        pub num_deep_scrub_errors: i64,
        /// Objects not yet flushed to a base tier.
        pub num_objects_dirty: i64,
        /// Deleted objects that are remembered.
        pub num_whiteouts: i64,
        /// Objects with omap.
        pub num_objects_omap: i64,
        /// Cache tiering.
        pub num_objects_hit_set_archive: i64,
        /// Copies on OSDs that are not to keep them.
        pub num_objects_misplaced: i64,
        /// Cache tiering.
        pub num_bytes_hit_set_archive: i64,
        /// Cache tiering.
        pub num_flush: i64,
        /// Cache tiering.
        pub num_flush_kb: i64,
        /// Cache tiering.
        pub num_evict: i64,
        /// Cache tiering.
        pub num_evict_kb: i64,
        /// Cache tiering.
        pub num_promote: i64,
        /// Cache tiering.
        pub num_flush_mode_high: i32,
        /// Cache tiering.
        pub num_flush_mode_low: i32,
        /// Cache tiering.
        pub num_evict_mode_some: i32,
        /// Cache tiering.
        pub num_evict_mode_full: i32,
        /// Cache tiering.
        pub num_objects_pinned: i64,
        /// Objects that some OSD lacks.
        pub num_objects_missing: i64,
        /// Objects in a form from before Luminous.
        pub num_legacy_snapsets: i64 = since 16,
        /// Objects with too many omap keys.
        pub num_large_omap_objects: i64 = since 17,
        /// Deduplicated objects.
        pub num_objects_manifest: i64 = since 18,
        /// Bytes in omap.
        pub num_omap_bytes: i64 = since 19,
        /// Keys in omap.
        pub num_omap_keys: i64 = since 19,
        /// Objects that scrub repaired.
        pub num_objects_repaired: i64 = since 20,
    }

    /// `object_stat_collection_t`.
    pub struct StatCollection[v 2/2] {
        /// The sums.
        pub sum: ObjectStatSum,
        /// Sums by category, a feature that is no more.
        pub categories: NoCategories,
    }

    /// `store_statfs_t`: what an object store, or one pool in it, takes.
    pub struct StoreStatfs[v 1/1] {
        /// Size of the device in bytes.
        pub total: u64,
        /// Free bytes.
        pub available: u64,
        /// Bytes kept for the store itself.
        pub internally_reserved: i64,
        /// Bytes in allocation units.
        pub allocated: i64,
        /// Bytes as users see them.
        pub data_stored: i64,
        /// Bytes after compression.
        pub data_compressed: i64,
        /// Bytes allocated for compressed data.
        pub data_compressed_allocated: i64,
        /// Bytes of compressed data before compression.
        pub data_compressed_original: i64,
        /// Bytes of omap.
        pub omap_allocated: i64,
        /// Bytes of the store's metadata.
        pub internal_metadata: i64,
    }

    /// `pool_stat_t`.
    pub struct PoolStat[v 7/5] {
        /// Objects and bytes.
        pub stats: StatCollection,
        /// Log entries in memory.
        pub log_size: i64,
        /// Log entries on disk.
        pub ondisk_log_size: i64,
        /// Number of PG shards that are up.
        pub up: i32,
        /// Number of PG shards that act.
        pub acting: i32,
        /// Space.
        pub store_stats: StoreStatfs = since 7,
        /// OSDs that are in `store_stats`.
        pub num_store_stats: u32 = since 7,
    }
}

/// A count that is always 0 in what we write; what others wrote is skipped with the structure's length.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct NoCategories;

impl Encode for NoCategories {
    fn encode(&self, w: &mut Writer) {
        w.put(&0u32);
    }
}

impl Decode for NoCategories {
    const MIN_SIZE: usize = 4;
    fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        r.get::<u32>().map(|_| Self)
    }
}

impl Sample for NoCategories {
    fn sample(_: &mut stdx::Rng) -> Self {
        Self
    }
}

impl ObjectStatSum {
    /// Adds another's counts.
    pub fn add(&mut self, other: &Self) {
        macro_rules! add {
            ($($field:ident)*) => { $( self.$field = self.$field.wrapping_add(other.$field); )* };
        }
        add!(num_bytes num_objects num_object_clones num_object_copies num_objects_missing_on_primary
            num_objects_degraded num_objects_unfound num_rd num_rd_kb num_wr num_wr_kb num_scrub_errors
            num_objects_recovered num_bytes_recovered num_keys_recovered num_shallow_scrub_errors
            num_deep_scrub_errors num_objects_dirty num_whiteouts num_objects_omap num_objects_hit_set_archive
            num_objects_misplaced num_bytes_hit_set_archive num_flush num_flush_kb num_evict num_evict_kb
            num_promote num_flush_mode_high num_flush_mode_low num_evict_mode_some num_evict_mode_full
            num_objects_pinned num_objects_missing num_legacy_snapsets num_large_omap_objects
            num_objects_manifest num_omap_bytes num_omap_keys num_objects_repaired);
    }
}
