//! Health checks of monitors and metadata servers.

use crate::domain::managers::Managers;
use crate::domain::mds_ranks::followers;
use crate::health::check::Check;
use crate::text::plural;
use crate::view::View;
use decl::Code;
use maps::{Gid, MdsMap, MdsRank, MdsState};
use wire::Utime;

pub(super) fn mon_checks(view: &View<'_>, out: &mut Vec<Check>) {
    let (map, quorum) = (&view.state.monmap, &view.quorum);
    let missing = quorum.missing(map);
    if !missing.is_empty() && !quorum.leader().is_empty() {
        let shown = |name: &String| map.mons.get(name).map(|m| crate::text::addrs(&m.addrs));
        let line = |name: &String| {
            let (rank, addr) = (map.rank_of(name).unwrap_or_default(), shown(name).unwrap_or_default());
            format!("mon.{name} (rank {rank}) addr {addr} is down (out of quorum)")
        };
        let detail = missing.iter().map(line).collect();
        let summary =
            format!("{}/{} mons down, quorum {}", missing.len(), map.mons.len(), quorum.names().join(","));
        out.push(Check { code: Code::MonDown, summary, count: missing.len(), detail });
    }
    let allowed: f64 = view.option("mon_clock_drift_allowed");
    let far =
        quorum.clocks().iter().filter(|(_, clock)| clock.ahead_s.abs() > allowed + clock.round_trip_s / 2.0);
    let detail: Vec<String> = far
        .map(|(name, clock)| {
            let (skew, latency) = (clock.ahead_s, clock.round_trip_s);
            format!("mon.{name} clock skew {skew:.3}s > max {allowed}s (latency {latency:.6}s)")
        })
        .collect();
    if !detail.is_empty() {
        let names: Vec<&str> = detail.iter().filter_map(|d| d.split(' ').next()).collect();
        let summary = format!("clock skew detected on {}", names.join(", "));
        out.push(Check { code: Code::MonClockSkew, summary, count: detail.len(), detail });
    }
}

/// Monitors whose stores fill up; the codes are Ceph's.
pub(super) fn space_checks(view: &View<'_>, out: &mut Vec<Check>) {
    let levels: [(Code, &str, &str); 2] = [
        (Code::MonDiskCrit, "mon_data_avail_crit", "very low on available space"),
        (Code::MonDiskLow, "mon_data_avail_warn", "low on available space"),
    ];
    let least = levels.map(|(_, option, _)| view.option::<u64>(option));
    let mut found: [Vec<(String, String)>; 2] = Default::default();
    for (name, used) in view.quorum.used() {
        let left = u64::from(1000 - used.min(1000)) / 10;
        if let Some(i) = least.iter().position(|least| *least > 0 && left <= *least) {
            found[i].push((format!("mon.{name}"), format!("mon.{name} has {left}% avail")));
        }
    }
    for ((code, _, what), found) in levels.into_iter().zip(found) {
        let (names, detail): (Vec<String>, Vec<String>) = found.into_iter().unzip();
        if !detail.is_empty() {
            let is = if names.len() == 1 { "is" } else { "are" };
            let summary = format!("mons {} {is} {what}", names.join(","));
            out.push(Check { code, summary, count: detail.len(), detail });
        }
    }
}

/// Warns if there is no manager any more. A cluster without file systems needs none.
pub(super) fn mgr_check(view: &View<'_>, out: &mut Vec<Check>) {
    let managers = Managers::of(&view.state.kv);
    let had_one = managers.active_change != Utime::default();
    if managers.active().is_none() && had_one && !view.state.fsmap.filesystems.is_empty() {
        let summary = "no active mgr".to_owned();
        out.push(Check { code: Code::MgrDown, summary, count: 1, detail: Vec::new() });
    }
}

/// The ranks whose servers are away, without another one that could take over.
fn lost_ranks(fs: &MdsMap) -> usize {
    let is_laggy = |gid: &Gid| fs.mds_info.get(gid).is_some_and(|i| i.laggy_since != Utime::default());
    fs.up.values().filter(|gid| is_laggy(gid)).count()
}

pub(super) fn mds_checks(view: &View<'_>, out: &mut Vec<Check>) {
    let fsmap = &view.state.fsmap;
    let (mut offline, mut degraded, mut short) = (Vec::new(), Vec::new(), Vec::new());
    for fs in fsmap.filesystems.values().map(|f| &f.mds_map) {
        let (name, lost) = (&fs.fs_name, lost_ranks(fs));
        if fs.up.len() == lost {
            offline.push(format!("fs {name} is offline because no MDS is active for it."));
        }
        let recovering =
            |r: &MdsRank| fs.state_of(*r) != MdsState::ACTIVE && fs.state_of(*r) != MdsState::CREATING;
        if lost > 0 || !fs.failed.is_empty() || !fs.damaged.is_empty() || fs.up.keys().any(recovering) {
            degraded.push(format!("fs {name} is degraded"));
        }
        let up = (fs.up.len() - lost) as i32;
        if up < fs.max_mds {
            short.push(format!("fs {name} has {up} MDS online, but wants {}", fs.max_mds));
        }
    }
    failed_ranks(view, out);
    damage(view, out);
    insufficient_standbys(view, out);
    let of_servers = |count| format!("{count} MDSs behind on trimming");
    reports(view, Code::MdsTrim, of_servers, out);
    let late = |count| format!("{} failing to respond to capability release", clients(count));
    reports(view, Code::MdsClientLateRelease, late, out);
    let old = |count| format!("{} failing to advance oldest client/flush tid", clients(count));
    reports(view, Code::MdsClientOldestTid, old, out);
    let mut add = |code, list: Vec<String>, what: &str| {
        if !list.is_empty() {
            let summary = format!("{} {what}", plural(list.len(), "filesystem is", "filesystems are"));
            out.push(Check { code, summary, count: list.len(), detail: list });
        }
    };
    add(Code::MdsAllDown, offline, "offline");
    add(Code::FsDegraded, degraded, "degraded");
    add(Code::MdsUpLessThanMax, short, "online with fewer MDS than max_mds");
}

/// File systems with ranks that no server has; the code and texts are Ceph's.
fn failed_ranks(view: &View<'_>, out: &mut Vec<Check>) {
    let count = |fs: &MdsMap| fs.failed.len() + lost_ranks(fs);
    let maps = view.state.fsmap.filesystems.values().map(|f| &f.mds_map).filter(|fs| count(fs) > 0);
    let detail: Vec<String> =
        maps.map(|fs| format!("fs {} has {} failed mds", fs.fs_name, count(fs))).collect();
    if !detail.is_empty() {
        let have = plural(detail.len(), "filesystem has", "filesystems have");
        let summary = format!("{have} a failed mds daemon");
        out.push(Check { code: Code::FsWithFailedMds, summary, count: detail.len(), detail });
    }
}

/// Ranks that can't start because of damage, and servers that have found some; the texts are Ceph's.
fn damage(view: &View<'_>, out: &mut Vec<Check>) {
    let (mut ranks, mut reports) = (Vec::new(), Vec::new());
    for fs in view.state.fsmap.filesystems.values().map(|f| &f.mds_map) {
        let of_rank = |rank: &MdsRank| format!("fs {} rank {rank} is damaged", fs.fs_name);
        ranks.extend(fs.damaged.iter().map(of_rank));
        reports.extend(reported(view, fs, Code::MdsDamage));
    }
    let summary = match (ranks.len(), reports.len()) {
        (0, 0) => return,
        (0, count) => format!("{count} MDSs report damaged metadata"),
        (count, _) => format!("{} damaged", plural(count, "mds daemon", "mds daemons")),
    };
    let detail: Vec<String> = ranks.into_iter().chain(reports).collect();
    out.push(Check { code: Code::MdsDamage, summary, count: detail.len(), detail });
}

/// What the servers of a file system report under a code.
fn reported<'a>(view: &'a View<'_>, fs: &'a MdsMap, code: Code) -> impl Iterator<Item = String> + 'a {
    let of_one = move |info: &'a maps::MdsInfo| {
        let line = move |line| format!("mds.{}(mds.{}): {line}", info.name, info.rank);
        view.mds.reported(info.gid, code).map(line)
    };
    fs.mds_info.values().flat_map(of_one)
}

/// What servers report under a code, each line of which is one of the things that the summary counts; the
/// texts are Ceph's.
fn reports(view: &View<'_>, code: Code, summary: impl Fn(usize) -> String, out: &mut Vec<Check>) {
    let maps = view.state.fsmap.filesystems.values().map(|f| &f.mds_map);
    let detail: Vec<String> = maps.flat_map(|fs| reported(view, fs, code)).collect();
    if !detail.is_empty() {
        out.push(Check { code, summary: summary(detail.len()), count: detail.len(), detail });
    }
}

fn clients(count: usize) -> String {
    plural(count, "client", "clients")
}

/// Fewer standbys than a file system wants; the codes and texts are Ceph's.
fn insufficient_standbys(view: &View<'_>, out: &mut Vec<Check>) {
    let fsmap = &view.state.fsmap;
    let have = fsmap.standby_daemons.len();
    let missing = |fs: &MdsMap| {
        let wanted = usize::try_from(fs.standby_count_wanted).unwrap_or(0);
        wanted.saturating_sub(have + followers(fs).count())
    };
    let missing = fsmap.filesystems.values().map(|fs| missing(&fs.mds_map)).max().unwrap_or(0);
    if missing > 0 {
        let summary = "insufficient standby MDS daemons available".to_owned();
        let detail = vec![format!("have {have}; want {missing} more")];
        out.push(Check { code: Code::MdsInsufficientStandby, summary, count: 1, detail });
    }
}
