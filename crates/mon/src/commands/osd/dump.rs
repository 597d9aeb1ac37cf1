//! `osd dump`: the OSD map in full; and pools as it and `osd pool ls detail` print them.

use crate::commands::osd::select::at_epoch;
use crate::commands::reply::{Outcome, answer};
use crate::text::{addrs, addrvec, float, legacy_addr, number};
use crate::view::View;
use decl::Args;
use maps::{IntervalSet, OsdId, OsdMap, Pool, pool_flags, release};
use serde_json::{Map, Value, json};
use wire::Utime;

pub fn dump(view: &View<'_>, args: &Args) -> Outcome {
    let map = at_epoch(view, args)?;
    answer(args, || dump_json(&map), || dump_text(&map))
}

/// A single-precision ratio as text, without the noise of its binary form.
fn ratio(x: f32) -> String {
    float(f64::from(x))
}

fn stamp(t: Utime) -> String {
    if t == Utime::default() { "0.000000".into() } else { t.iso8601() }
}

/// The names of the map's flags, as clients print them.
pub fn flag_names(map: &OsdMap) -> Vec<&'static str> {
    maps::osd_flags::NAMES.iter().filter(|(bit, _)| map.has_flag(*bit)).map(|(_, n)| *n).collect()
}

/// The oldest client release that can read the map.
fn min_compat(map: &OsdMap) -> &'static str {
    if map.pg_upmap_items.is_empty() && map.pg_upmap.is_empty() { "jewel" } else { "luminous" }
}

fn intervals(set: &IntervalSet) -> Value {
    set.iter().map(|(begin, length)| json!({ "begin": begin, "length": length })).collect::<Vec<_>>().into()
}

fn snaps_by_pool(sets: &std::collections::BTreeMap<i64, IntervalSet>) -> Value {
    sets.iter().map(|(pool, set)| json!({ "pool": pool, "snaps": intervals(set) })).collect::<Vec<_>>().into()
}

fn dump_json(map: &OsdMap) -> Value {
    let names = flag_names(map);
    let mut sorted = names.clone();
    sorted.sort_unstable();
    let pools: Vec<Value> = map.pools.keys().map(|id| pool_json(map, *id, "pool")).collect();
    let osds: Vec<Value> = map.existing().map(|(id, _)| osd_json(map, id)).collect();
    let xinfo: Vec<Value> = map.existing().map(|(id, _)| xinfo_json(map, id)).collect();
    let ids = |list: &[OsdId]| list.iter().map(|o| o.0).collect::<Vec<_>>();
    let temp: Vec<Value> =
        map.pg_temp.iter().map(|(pg, a)| json!({ "pgid": pg.to_string(), "osds": ids(a) })).collect();
    let primary: Vec<Value> =
        map.primary_temp.iter().map(|(pg, o)| json!({ "pgid": pg.to_string(), "osd": o.0 })).collect();
    let upmap: Vec<Value> =
        map.pg_upmap.iter().map(|(pg, a)| json!({ "pgid": pg.to_string(), "osds": ids(a) })).collect();
    let items = |(pg, list): (&maps::PgId, &Vec<(OsdId, OsdId)>)| {
        let pairs: Vec<Value> = list.iter().map(|(a, b)| json!({ "from": a.0, "to": b.0 })).collect();
        json!({ "pgid": pg.to_string(), "mappings": pairs })
    };
    let items: Vec<Value> = map.pg_upmap_items.iter().map(items).collect();
    let blocklist: Map<String, Value> =
        map.blocklist.iter().map(|(a, t)| (a.legacy_string(), t.iso8601().into())).collect();
    json!({
        "epoch": map.epoch.0,
        "fsid": map.fsid.to_string(),
        "created": map.created.iso8601(),
        "modified": map.modified.iso8601(),
        "last_up_change": stamp(map.last_up_change),
        "last_in_change": stamp(map.last_in_change),
        "flags": names.join(","),
        "flags_num": map.flags,
        "flags_set": sorted,
        "crush_version": map.crush_version,
        "full_ratio": number(f64::from(map.full_ratio)),
        "backfillfull_ratio": number(f64::from(map.backfillfull_ratio)),
        "nearfull_ratio": number(f64::from(map.nearfull_ratio)),
        "cluster_snapshot": map.cluster_snapshot,
        "pool_max": map.pool_max,
        "max_osd": map.max_osd(),
        "require_min_compat_client": release::name(map.require_min_compat_client),
        "min_compat_client": min_compat(map),
        "require_osd_release": release::name(map.require_osd_release),
        "pools": pools,
        "osds": osds,
        "osd_xinfo": xinfo,
        "pg_upmap": upmap,
        "pg_upmap_items": items,
        "pg_temp": temp,
        "primary_temp": primary,
        "blocklist": blocklist,
        "range_blocklist": {},
        "erasure_code_profiles": map.ec_profiles,
        "removed_snaps_queue": snaps_by_pool(&map.removed_snaps_queue),
        "new_removed_snaps": snaps_by_pool(&map.new_removed_snaps),
        "new_purged_snaps": snaps_by_pool(&map.new_purged_snaps),
        "crush_node_flags": node_flags(map),
        "device_class_flags": class_flags(map),
        "stretch_mode": {
            "stretch_mode_enabled": false,
            "stretch_bucket_count": 0,
            "degraded_stretch_mode": 0,
            "recovering_stretch_mode": 0,
            "stretch_mode_bucket": 0,
        },
    })
}

fn node_flags(map: &OsdMap) -> Value {
    let one =
        |(id, bits): (&i32, &u32)| (map.crush.name(*id), crate::domain::osd_flags::flag_names(*bits).into());
    Value::Object(map.crush_node_flags.iter().map(one).collect())
}

fn class_flags(map: &OsdMap) -> Value {
    let name = |id: &i32| map.crush.class_names.get(id).cloned().unwrap_or_default();
    let one = |(id, bits): (&i32, &u32)| (name(id), crate::domain::osd_flags::flag_names(*bits).into());
    Value::Object(map.device_class_flags.iter().map(one).collect())
}

/// An OSD's entry.
pub fn osd_json(map: &OsdMap, id: OsdId) -> Value {
    let o = map.osd(id).expect("exists");
    json!({
        "osd": id.0,
        "uuid": o.uuid.to_string(),
        "up": i32::from(o.is_up()),
        "in": i32::from(o.is_in()),
        "weight": number(f64::from(o.weight) / 65536.0),
        "primary_affinity": number(f64::from(map.affinity(id)) / 65536.0),
        "last_clean_begin": o.info.last_clean_begin.0,
        "last_clean_end": o.info.last_clean_end.0,
        "up_from": o.info.up_from.0,
        "up_thru": o.info.up_thru.0,
        "down_at": o.info.down_at.0,
        "lost_at": o.info.lost_at.0,
        "public_addrs": addrvec(&o.client_addrs),
        "cluster_addrs": addrvec(&o.cluster_addrs),
        "heartbeat_back_addrs": addrvec(&o.hb_back_addrs),
        "heartbeat_front_addrs": addrvec(&o.hb_front_addrs),
        "public_addr": legacy_addr(&o.client_addrs),
        "cluster_addr": legacy_addr(&o.cluster_addrs),
        "heartbeat_back_addr": legacy_addr(&o.hb_back_addrs),
        "heartbeat_front_addr": legacy_addr(&o.hb_front_addrs),
        "state": o.state_names(),
    })
}

fn xinfo_json(map: &OsdMap, id: OsdId) -> Value {
    let x = &map.osd(id).expect("exists").xinfo;
    json!({
        "osd": id.0,
        "down_stamp": stamp(x.down_stamp),
        "laggy_probability": number(f64::from(x.laggy_probability) / f64::from(u32::MAX)),
        "laggy_interval": x.laggy_interval,
        "features": x.features,
        "old_weight": number(f64::from(x.old_weight) / 65536.0),
        "last_purged_snaps_scrub": "0.000000",
        "dead_epoch": x.dead_epoch.0,
    })
}

/// `off`, `warn`, `on`.
pub fn autoscale(pool: &Pool) -> &'static str {
    crate::domain::pool::MODES.get(usize::from(pool.pg_autoscale_mode)).copied().unwrap_or("off")
}

/// A pool; `id_key` is `pool` in `osd dump` and `pool_id` in `osd pool ls detail`.
pub fn pool_json(map: &OsdMap, id: i64, id_key: &str) -> Value {
    let p = &map.pools[&id];
    let m = &p.last_pg_merge_meta;
    let snap =
        |s: &maps::PoolSnap| json!({ "snapid": s.snapid.0, "stamp": s.stamp.iso8601(), "name": s.name });
    let mode = if p.has_flag(pool_flags::POOL_SNAPS) { "pool" } else { "selfmanaged" };
    let mut out = Map::new();
    let mut put = |k: &str, v: Value| drop(out.insert(k.into(), v));
    put(id_key, id.into());
    put("pool_name", map.pool_name(id).into());
    put("create_time", p.create_time.iso8601().into());
    put("flags", p.flags.into());
    put("flags_names", p.flags_string().into());
    put("type", p.ty.into());
    put("size", p.size.into());
    put("min_size", p.min_size.into());
    put("crush_rule", p.crush_rule.into());
    for name in ["peering_crush_bucket_count", "peering_crush_bucket_target", "peering_crush_bucket_barrier"]
    {
        put(name, 0.into());
    }
    put("peering_crush_bucket_mandatory_member", i32::MAX.into());
    put("object_hash", p.object_hash.into());
    put("pg_autoscale_mode", autoscale(p).into());
    put("pg_num", p.pg_num.into());
    put("pg_placement_num", p.pgp_num.into());
    put("pg_placement_num_target", p.pgp_num_target.into());
    put("pg_num_target", p.pg_num_target.into());
    put("pg_num_pending", p.pg_num_pending.into());
    put(
        "last_pg_merge_meta",
        json!({
            "source_pgid": m.source_pgid.to_string(),
            "ready_epoch": m.ready_epoch.0,
            "last_epoch_started": m.last_epoch_started.0,
            "last_epoch_clean": m.last_epoch_clean.0,
            "source_version": m.source_version.to_string(),
            "target_version": m.target_version.to_string(),
        }),
    );
    put("last_change", p.last_change.to_string().into());
    put("last_force_op_resend", p.last_force_op_resend.to_string().into());
    put("last_force_op_resend_prenautilus", p.last_force_op_resend_prenautilus.to_string().into());
    put("last_force_op_resend_preluminous", p.last_force_op_resend_preluminous.to_string().into());
    put("auid", p.auid.into());
    put("snap_mode", mode.into());
    put("snap_seq", p.snap_seq.0.into());
    put("snap_epoch", p.snap_epoch.0.into());
    put("pool_snaps", p.snaps.values().map(snap).collect::<Vec<_>>().into());
    let removed: Vec<String> = p.removed_snaps.iter().map(|(s, l)| format!("{s:x}~{l:x}")).collect();
    put("removed_snaps", format!("[{}]", removed.join(",")).into());
    put("quota_max_bytes", p.quota_max_bytes.into());
    put("quota_max_objects", p.quota_max_objects.into());
    tiering(p, &mut put);
    put("stripe_width", p.stripe_width.into());
    put("expected_num_objects", p.expected_num_objects.into());
    put("fast_read", p.fast_read.into());
    let opts: Map<String, Value> =
        crate::commands::pool::opts::set(p).into_iter().map(|(k, v)| (k.to_owned(), v)).collect();
    put("options", opts.into());
    put("application_metadata", json!(p.application_metadata));
    Value::Object(out)
}

/// A pool's cache tiering, which Nacre does not have: prints Ceph's defaults.
fn tiering(p: &Pool, put: &mut impl FnMut(&str, Value)) {
    put("tiers", p.tiers.iter().copied().collect::<Vec<i64>>().into());
    put("tier_of", p.tier_of.into());
    put("read_tier", p.read_tier.into());
    put("write_tier", p.write_tier.into());
    put("cache_mode", "none".into());
    put("target_max_bytes", p.target_max_bytes.into());
    put("target_max_objects", p.target_max_objects.into());
    put("cache_target_dirty_ratio_micro", p.cache_target[0].into());
    put("cache_target_dirty_high_ratio_micro", p.cache_target_dirty_high_ratio_micro.into());
    put("cache_target_full_ratio_micro", p.cache_target[1].into());
    put("cache_min_flush_age", p.cache_target[2].into());
    put("cache_min_evict_age", p.cache_target[3].into());
    put("erasure_code_profile", p.ec_profile.clone().into());
    put("hit_set_params", json!({ "type": "none" }));
    put("hit_set_period", p.hit_set_period.into());
    put("hit_set_count", p.hit_set_count.into());
    put("use_gmt_hitset", p.use_gmt_hitset.into());
    put("min_read_recency_for_promote", p.min_read_recency_for_promote.into());
    put("min_write_recency_for_promote", p.min_write_recency_for_promote.into());
    put("hit_set_grade_decay_rate", p.hit_set_grade_decay_rate.into());
    put("hit_set_search_last_n", p.hit_set_search_last_n.into());
    put("grade_table", json!([]));
}

/// Target PG numbers that are not yet reached, and the autoscale mode.
fn targets(p: &Pool) -> String {
    let mut out = String::new();
    for (name, target, now) in [
        ("pg_num_target", p.pg_num_target, p.pg_num),
        ("pgp_num_target", p.pgp_num_target, p.pgp_num),
        ("pg_num_pending", p.pg_num_pending, p.pg_num),
    ] {
        if target != now {
            out.push_str(&format!(" {name} {target}"));
        }
    }
    out + " autoscale_mode " + autoscale(p)
}

/// A pool's line.
pub fn pool_line(map: &OsdMap, id: i64) -> String {
    let p = &map.pools[&id];
    let mut out = format!(
        "pool {id} '{}' {} size {} min_size {} crush_rule {} object_hash rjenkins pg_num {} pgp_num {}{} last_change {}",
        map.pool_name(id),
        if p.is_erasure() { "erasure" } else { "replicated" },
        p.size,
        p.min_size,
        p.crush_rule,
        p.pg_num,
        p.pgp_num,
        targets(p),
        p.last_change
    );
    if p.flags != 0 {
        out.push_str(&format!(" flags {}", p.flags_string()));
    }
    if p.quota_max_bytes > 0 {
        out.push_str(&format!(" max_bytes {}", p.quota_max_bytes));
    }
    if p.quota_max_objects > 0 {
        out.push_str(&format!(" max_objects {}", p.quota_max_objects));
    }
    out.push_str(&format!(" stripe_width {}", p.stripe_width));
    for (name, value) in crate::commands::pool::opts::set(p) {
        out.push_str(&format!(" {name} {}", value.as_str().map_or_else(|| value.to_string(), str::to_owned)));
    }
    let apps: Vec<&str> = p.application_metadata.keys().map(String::as_str).collect();
    if !apps.is_empty() {
        out.push_str(&format!(" application {}", apps.join(",")));
    }
    out.push('\n');
    for s in p.snaps.values() {
        out.push_str(&format!("\tsnap {} '{}' {}\n", s.snapid.0, s.name, s.stamp.iso8601()));
    }
    out
}

/// An OSD's entry in one line.
pub fn osd_line(map: &OsdMap, id: OsdId) -> String {
    let o = map.osd(id).expect("exists");
    let affinity = match map.affinity(id) {
        maps::AFFINITY_DEFAULT => String::new(),
        a => format!(" primary_affinity {}", float(f64::from(a) / 65536.0)),
    };
    format!(
        "osd.{id} {} {} weight {}{affinity} up_from {} up_thru {} down_at {} last_clean_interval [{},{}) {} {} {} {}\n",
        if o.is_up() { "up  " } else { "down" },
        if o.is_in() { "in " } else { "out" },
        float(f64::from(o.weight) / 65536.0),
        o.info.up_from,
        o.info.up_thru,
        o.info.down_at,
        o.info.last_clean_begin,
        o.info.last_clean_end,
        addrs(&o.client_addrs),
        addrs(&o.cluster_addrs),
        o.state_names().join(","),
        o.uuid
    )
}

fn dump_text(map: &OsdMap) -> String {
    let mut out = format!(
        "epoch {}\nfsid {}\ncreated {}\nmodified {}\nflags {}\ncrush_version {}\nfull_ratio {}\nbackfillfull_ratio {}\nnearfull_ratio {}\nrequire_min_compat_client {}\nmin_compat_client {}\nrequire_osd_release {}\nstretch_mode_enabled false\n",
        map.epoch,
        map.fsid,
        map.created.iso8601(),
        map.modified.iso8601(),
        flag_names(map).join(","),
        map.crush_version,
        ratio(map.full_ratio),
        ratio(map.backfillfull_ratio),
        ratio(map.nearfull_ratio),
        release::name(map.require_min_compat_client),
        min_compat(map),
        release::name(map.require_osd_release),
    );
    map.pools.keys().for_each(|id| out.push_str(&pool_line(map, *id)));
    out.push_str(&format!("max_osd {}\n", map.max_osd()));
    map.existing().for_each(|(id, _)| out.push_str(&osd_line(map, id)));
    for (pg, list) in &map.pg_upmap_items {
        let pairs: Vec<String> = list.iter().map(|(a, b)| format!("{a},{b}")).collect();
        out.push_str(&format!("pg_upmap_items {pg} [{}]\n", pairs.join(",")));
    }
    for (pg, list) in &map.pg_temp {
        out.push_str(&format!("pg_temp {pg} {}\n", crate::text::osds(list)));
    }
    for (addr, until) in &map.blocklist {
        out.push_str(&format!("blocklist {} expires {}\n", addr.legacy_string(), until.iso8601()));
    }
    out
}
