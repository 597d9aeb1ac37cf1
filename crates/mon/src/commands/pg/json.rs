//! PGs and their sums in JSON.

use crate::pg_stats::PoolSum;
use maps::{ObjectStatSum, OsdId, StoreStatfs};
use peer::PgStat;
use serde_json::{Map, Value, json};

/// JSON of an `object_stat_sum_t`.
pub fn stat_sum(s: &ObjectStatSum) -> Value {
    let mut out = Map::new();
    macro_rules! put {
        ($($name:literal $field:ident;)*) => { $( out.insert($name.into(), s.$field.into()); )* };
    }
    put! {
        "num_bytes" num_bytes;
        "num_objects" num_objects;
        "num_object_clones" num_object_clones;
        "num_object_copies" num_object_copies;
        "num_objects_missing_on_primary" num_objects_missing_on_primary;
        "num_objects_missing" num_objects_missing;
        "num_objects_degraded" num_objects_degraded;
        "num_objects_misplaced" num_objects_misplaced;
        "num_objects_unfound" num_objects_unfound;
        "num_objects_dirty" num_objects_dirty;
        "num_whiteouts" num_whiteouts;
        "num_read" num_rd;
        "num_read_kb" num_rd_kb;
        "num_write" num_wr;
        "num_write_kb" num_wr_kb;
        "num_scrub_errors" num_scrub_errors;
        "num_shallow_scrub_errors" num_shallow_scrub_errors;
        "num_deep_scrub_errors" num_deep_scrub_errors;
        "num_objects_recovered" num_objects_recovered;
        "num_bytes_recovered" num_bytes_recovered;
        "num_keys_recovered" num_keys_recovered;
        "num_objects_omap" num_objects_omap;
        "num_objects_hit_set_archive" num_objects_hit_set_archive;
        "num_bytes_hit_set_archive" num_bytes_hit_set_archive;
        "num_flush" num_flush;
        "num_flush_kb" num_flush_kb;
        "num_evict" num_evict;
        "num_evict_kb" num_evict_kb;
        "num_promote" num_promote;
        "num_flush_mode_high" num_flush_mode_high;
        "num_flush_mode_low" num_flush_mode_low;
        "num_evict_mode_some" num_evict_mode_some;
        "num_evict_mode_full" num_evict_mode_full;
        "num_objects_pinned" num_objects_pinned;
        "num_legacy_snapsets" num_legacy_snapsets;
        "num_large_omap_objects" num_large_omap_objects;
        "num_objects_manifest" num_objects_manifest;
        "num_omap_bytes" num_omap_bytes;
        "num_omap_keys" num_omap_keys;
        "num_objects_repaired" num_objects_repaired;
    }
    Value::Object(out)
}

/// JSON of a `store_statfs_t`.
pub fn store(s: &StoreStatfs) -> Value {
    json!({
        "total": s.total,
        "available": s.available,
        "internally_reserved": s.internally_reserved,
        "allocated": s.allocated,
        "data_stored": s.data_stored,
        "data_compressed": s.data_compressed,
        "data_compressed_allocated": s.data_compressed_allocated,
        "data_compressed_original": s.data_compressed_original,
        "omap_allocated": s.omap_allocated,
        "internal_metadata": s.internal_metadata,
    })
}

/// The numbers of a list of OSDs.
pub fn ids(list: &[OsdId]) -> Vec<i32> {
    list.iter().map(|o| o.0).collect()
}

fn first(list: &[OsdId]) -> i32 {
    list.first().map_or(-1, |o| o.0)
}

/// JSON of one PG's statistics.
pub fn pg(s: &PgStat) -> Value {
    let mut out = Map::new();
    let mut put = |k: &str, v: Value| drop(out.insert(k.into(), v));
    put("pgid", s.pgid.to_string().into());
    put("version", s.version.to_string().into());
    put("reported_seq", s.reported_seq.into());
    put("reported_epoch", s.reported_epoch.0.into());
    put("state", crate::pg_stats::state_name(s.state).into());
    let (change, active, clean) = (s.last_change.iso8601(), s.last_active.iso8601(), s.last_clean.iso8601());
    put("last_fresh", active.clone().into());
    put("last_change", change.clone().into());
    put("last_active", active.clone().into());
    put("last_peered", active.clone().into());
    put("last_clean", clean.clone().into());
    put("last_became_active", change.clone().into());
    put("last_became_peered", change.into());
    put("last_unstale", active.clone().into());
    put("last_undegraded", clean.clone().into());
    put("last_fullsized", clean.into());
    put("mapping_epoch", s.reported_epoch.0.into());
    put("log_start", "0'0".into());
    put("ondisk_log_start", "0'0".into());
    put("created", 0.into());
    put("last_epoch_clean", s.reported_epoch.0.into());
    put("parent", "0.0".into());
    put("parent_split_bits", 0.into());
    put("last_scrub", s.last_scrub_version.to_string().into());
    put("last_scrub_stamp", s.last_scrub.iso8601().into());
    put("last_deep_scrub", s.last_deep_scrub_version.to_string().into());
    put("last_deep_scrub_stamp", s.last_deep_scrub.iso8601().into());
    put("last_clean_scrub_stamp", s.last_clean_scrub.iso8601().into());
    put("log_size", s.log_size.into());
    put("ondisk_log_size", s.log_size.into());
    for what in [
        "stats",
        "dirty_stats",
        "omap_stats",
        "hitset_stats",
        "hitset_bytes_stats",
        "pin_stats",
        "manifest_stats",
    ] {
        put(&format!("{what}_invalid"), false.into());
    }
    put("snaptrimq_len", s.snap_trim_queue.into());
    put("stat_sum", stat_sum(&s.stats));
    put("up", ids(&s.up).into());
    put("acting", ids(&s.acting).into());
    put("avail_no_missing", json!([]));
    put("object_location_counts", json!([]));
    put("blocked_by", ids(&s.blocked_by).into());
    put("up_primary", first(&s.up).into());
    put("acting_primary", first(&s.acting).into());
    let purged = s
        .purged_snaps
        .iter()
        .map(|(start, length)| json!({ "start": start.to_string(), "length": length.to_string() }));
    put("purged_snaps", purged.collect::<Vec<_>>().into());
    Value::Object(out)
}

/// The sums of a pool, or of all of them.
pub fn sums(sum: &PoolSum) -> Map<String, Value> {
    let json = json!({
        "stat_sum": stat_sum(&sum.stats),
        "store_stats": store(&sum.store),
        "log_size": sum.log_size,
        "ondisk_log_size": sum.log_size,
        "up": sum.up,
        "acting": sum.acting,
        "num_store_stats": sum.num_store,
    });
    match json {
        Value::Object(out) => out,
        _ => Map::new(),
    }
}
