//! Health checks of OSDs: down, full, flagged, slow, or with a failing device.

use crate::domain::devices::noted;
use crate::domain::osd_flags::flag_names as osd_state_flags;
use crate::domain::usage::fullness;
use crate::health::check::Check;
use crate::pg_stats::PgTable;
use crate::text::plural;
use crate::view::View;
use decl::Code;
use maps::{OsdId, OsdMap, osd_flags, osd_state};

pub(super) fn osd_checks(map: &OsdMap, out: &mut Vec<Check>) {
    let down: Vec<_> = map.existing().filter(|(_, o)| !o.is_up() && o.is_in()).collect();
    if down.is_empty() {
        return;
    }
    let place = |osd: i32| {
        let parts: Vec<_> = crate::crush_edit::location(&map.crush, osd);
        parts.iter().rev().map(|(t, n)| format!("{t}={n}")).collect::<Vec<_>>().join(",")
    };
    let detail = down.iter().map(|(id, _)| format!("osd.{id} ({}) is down", place(id.0))).collect();
    let summary = format!("{} down", plural(down.len(), "osds", "osds"));
    out.push(Check { code: Code::OsdDown, summary, count: down.len(), detail });
    let host_type = map.crush.type_of("host");
    // A host's shadows hold the same devices.
    let is_host = |b: &&crush::Bucket| Some(i32::from(b.ty)) == host_type && !map.crush.is_shadow(b.id);
    let hosts = map.crush.buckets.iter().flatten().filter(is_host);
    let mut dead_hosts = Vec::new();
    for host in hosts {
        let devices = crate::crush_edit::devices(&map.crush, host.id);
        let all_down = |d: &i32| map.is_down(maps::OsdId(*d)) && map.is_in(maps::OsdId(*d));
        if !devices.is_empty() && devices.iter().all(all_down) {
            let name = map.crush.names.get(&host.id).cloned().unwrap_or_default();
            dead_hosts.push(format!("host {name} ({} osds) is down", devices.len()));
        }
    }
    if !dead_hosts.is_empty() {
        let count = dead_hosts.len();
        let summary = format!("{} down", plural(count, "host", "hosts"));
        out.push(Check { code: Code::OsdHostDown, summary, count, detail: dead_hosts });
    }
}

pub(super) fn full_checks(view: &View<'_>, out: &mut Vec<Check>) {
    let (map, pgs) = (view.state.osdmap(), &view.pgs);
    let levels = [
        (Code::OsdFull, "full", f64::from(map.full_ratio)),
        (Code::OsdBackfillFull, "backfillfull", f64::from(map.backfillfull_ratio)),
        (Code::OsdNearFull, "nearfull", f64::from(map.nearfull_ratio)),
    ];
    let mut found: [Vec<String>; 3] = Default::default();
    for (osd, _) in map.existing().filter(|(_, o)| o.is_in()) {
        let used = fullness(pgs, osd);
        if let Some(i) = levels.iter().position(|(_, _, ratio)| *ratio > 0.0 && used >= *ratio) {
            found[i].push(format!("osd.{osd} is {} at {:.0}%", levels[i].1, used * 100.0));
        }
    }
    for ((code, name, _), detail) in levels.into_iter().zip(found) {
        if !detail.is_empty() {
            let summary = format!("{} {name} osd(s)", detail.len());
            out.push(Check { code, summary, count: detail.len(), detail });
        }
    }
}

pub(super) fn flag_checks(map: &OsdMap, out: &mut Vec<Check>) {
    const WARN: u32 = osd_flags::PAUSERD
        | osd_flags::PAUSEWR
        | osd_flags::PAUSEREC
        | osd_flags::NOUP
        | osd_flags::NODOWN
        | osd_flags::NOOUT
        | osd_flags::NOIN
        | osd_flags::NOBACKFILL
        | osd_flags::NORECOVER
        | osd_flags::NOSCRUB
        | osd_flags::NODEEP_SCRUB
        | osd_flags::NOREBALANCE
        | osd_flags::NOTIERAGENT
        | osd_flags::NOSNAPTRIM
        | osd_flags::FULL;
    // As `ceph osd unset` takes them: two of them are one there.
    let name = |name| if matches!(name, "pauserd" | "pausewr") { "pause" } else { name };
    let set = osd_flags::NAMES.iter().filter(|(bit, _)| map.flags & WARN & bit != 0);
    let mut names: Vec<_> = set.map(|(_, n)| name(*n)).collect();
    names.dedup();
    if !names.is_empty() {
        let summary = format!("{} flag(s) set", names.join(","));
        out.push(Check { code: Code::OsdmapFlags, summary, count: names.len(), detail: Vec::new() });
    }
    let mut detail = Vec::new();
    let mut all = 0;
    for (osd, entry) in map.existing() {
        let bits = entry.state & (osd_state::NOUP | osd_state::NODOWN | osd_state::NOIN | osd_state::NOOUT);
        if bits != 0 {
            all |= bits;
            detail.push(format!("osd.{osd} has flags {}", osd_state_flags(bits).join(",")));
        }
    }
    for (node, bits) in &map.crush_node_flags {
        all |= bits;
        detail.push(format!("{} has flags {}", map.crush.name(*node), osd_state_flags(*bits).join(",")));
    }
    for (class, bits) in &map.device_class_flags {
        all |= bits;
        let name = map.crush.class_names.get(class).cloned().unwrap_or_default();
        detail.push(format!("device class '{name}' has flags {}", osd_state_flags(*bits).join(",")));
    }
    if !detail.is_empty() {
        let names = osd_state_flags(all).join(",").to_uppercase();
        let summary =
            format!("{} OSDs or CRUSH {{nodes, device-classes}} have {{{names}}} flags set", detail.len());
        out.push(Check { code: Code::OsdFlags, summary, count: detail.len(), detail });
    }
}

/// Requests that have waited for too long, at OSDs that are up.
pub(super) fn slow_ops_check(map: &OsdMap, pgs: &PgTable, out: &mut Vec<Check>) {
    let slow = pgs.osds().iter().filter(|(osd, stat)| stat.slow_ops.0 > 0 && map.is_up(**osd));
    let slow: Vec<_> = slow.map(|(osd, stat)| (*osd, stat.slow_ops)).collect();
    let Some(oldest) = slow.iter().map(|(_, (_, seconds))| *seconds).max() else { return };
    let count: u32 = slow.iter().map(|(_, (count, _))| *count).sum();
    let names: Vec<String> = slow.iter().map(|(osd, _)| format!("osd.{}", osd.0)).collect();
    let who = match &names[..] {
        [one] => format!("{one} has slow ops"),
        some => format!("daemons [{}] have slow ops.", some.join(",")),
    };
    let summary = format!(
        "{}, oldest one blocked for {oldest} sec, {who}",
        plural(count as usize, "slow op", "slow ops")
    );
    let line = |(osd, (count, seconds)): &(OsdId, (u32, u32))| {
        format!("osd.{} has {count} slow ops, oldest is blocked for {seconds} sec", osd.0)
    };
    let detail = slow.iter().map(line).collect();
    out.push(Check { code: Code::SlowOps, summary, count: count as usize, detail });
}

/// Devices whose OSDs were marked out.
pub(super) fn device_checks(view: &View<'_>, out: &mut Vec<Check>) {
    let map = view.state.osdmap();
    let still = noted(view.state).into_iter().filter(|(osd, _)| map.osd(*osd).is_some_and(|o| !o.is_in()));
    let detail: Vec<String> = still.map(|(_, text)| text).collect();
    if !detail.is_empty() {
        let summary =
            format!("{} slow or failing, marked out", plural(detail.len(), "device is", "devices are"));
        out.push(Check { code: Code::DeviceHealth, summary, count: detail.len(), detail });
    }
}
