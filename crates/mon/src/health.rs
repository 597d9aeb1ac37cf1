//! Health checks: what is wrong, where, and what to do about it.

use crate::commands::View;
use crate::commands::osd_state::flag_names as osd_state_flags;
use crate::pgstat::PgTable;
use decl::{Code, Severity};
use maps::{MdsRank, MdsState, OsdId, OsdMap, osd_flags, osd_state, pool_flags};
use peer::pg_state;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// One finding.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Check {
    /// What.
    pub code: Code,
    /// One line.
    pub summary: String,
    /// How many things are concerned.
    pub count: usize,
    /// A line each.
    pub detail: Vec<String>,
}

/// Where mutes are kept in the store of small values: a key for each code.
pub const MUTES: &str = "health/mute/";
/// Under which keys the monitors note which findings the cluster log has, with their summaries.
pub const RAISED: &str = "health/raised/";

/// A code that an administrator does not want to hear of.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Mute {
    /// Stays when the condition goes away or gets worse.
    pub sticky: bool,
    /// When it was muted.
    pub summary: String,
    /// Of things concerned, when it was muted.
    pub count: u64,
    /// Seconds since 1970 at which it ends by itself.
    pub until: Option<u64>,
}

impl Mute {
    fn parse(bytes: &[u8]) -> Option<Self> {
        let json: Value = serde_json::from_slice(bytes).ok()?;
        Some(Self {
            sticky: json["sticky"].as_bool()?,
            summary: json["summary"].as_str()?.to_owned(),
            count: json["count"].as_u64()?,
            until: json["until"].as_u64(),
        })
    }

    /// As it is stored.
    pub fn encode(&self) -> Vec<u8> {
        let json = json!({
            "sticky": self.sticky, "summary": self.summary, "count": self.count, "until": self.until,
        });
        json.to_string().into_bytes()
    }
}

/// All mutes by code.
pub(crate) type Mutes = BTreeMap<String, Mute>;

/// The mutes that are stored.
pub(crate) fn mutes(kv: &BTreeMap<String, Vec<u8>>) -> Mutes {
    let mine = kv.range(MUTES.to_owned()..).take_while(|(k, _)| k.starts_with(MUTES));
    mine.filter_map(|(k, v)| Some((k[MUTES.len()..].to_owned(), Mute::parse(v)?))).collect()
}

/// Of which codes the cluster log says that they are raised, with their summaries.
pub(crate) fn raised(kv: &BTreeMap<String, Vec<u8>>) -> BTreeMap<String, String> {
    let mine = kv.range(RAISED.to_owned()..).take_while(|(k, _)| k.starts_with(RAISED));
    mine.map(|(k, v)| (k[RAISED.len()..].to_owned(), String::from_utf8_lossy(v).into_owned())).collect()
}

/// What is wrong, and what of it nobody wants to hear.
#[derive(Clone, PartialEq, Debug, Default)]
pub(crate) struct Health {
    /// All findings, the worst first.
    pub checks: Vec<Check>,
    /// By code; also of codes that are not raised now.
    pub mutes: Mutes,
}

impl Health {
    /// The state of everything.
    pub fn of(view: &View<'_>) -> Self {
        Self { checks: checks(view), mutes: mutes(&view.state.kv) }
    }

    /// Whether a finding is muted.
    pub fn is_muted(&self, check: &Check) -> bool {
        self.mutes.contains_key(check.code.name())
    }

    /// Findings that are not muted.
    pub fn heard(&self) -> impl Iterator<Item = &Check> {
        self.checks.iter().filter(|c| !self.is_muted(c))
    }

    /// The overall state; what is muted does not count.
    pub fn status(&self) -> &'static str {
        self.heard().map(|c| c.code.severity()).max().map_or("HEALTH_OK", Severity::status)
    }

    /// The overall state with the codes that are muted, in one line.
    pub fn status_line(&self) -> String {
        let muted: Vec<&str> =
            self.checks.iter().filter(|c| self.is_muted(c)).map(|c| c.code.name()).collect();
        match muted.is_empty() {
            true => self.status().to_owned(),
            false => format!("{} (muted: {})", self.status(), muted.join(" ")),
        }
    }

    /// As `health` gives it in JSON.
    pub fn json(&self, detail: bool) -> Value {
        let mut all = Map::new();
        for c in &self.checks {
            let mut one = json!({
                "severity": c.code.severity().status(),
                "summary": { "message": c.summary, "count": c.count },
            });
            if detail {
                let lines = c.detail.iter().map(|d| json!({ "message": d })).collect::<Vec<_>>();
                one["detail"] = Value::from(lines);
            }
            one["muted"] = Value::from(self.is_muted(c));
            all.insert(c.code.name().to_owned(), one);
        }
        let mutes: Vec<Value> = self.mutes.iter().map(|(code, mute)| mute_json(code, mute)).collect();
        json!({ "status": self.status(), "checks": all, "mutes": mutes })
    }

    /// Mutes that end at `now`, with why: their time is over, or, unless sticky, what they mute is gone or got worse.
    pub fn ended_mutes(&self, now: u64) -> Vec<(String, &'static str)> {
        let why = |code: &str, mute: &Mute| {
            let check = self.checks.iter().find(|c| c.code.name() == code);
            if mute.until.is_some_and(|until| until <= now) {
                return Some("its time is over");
            }
            match check {
                _ if mute.sticky => None,
                None => Some("it is no longer raised"),
                Some(check) if check.count as u64 > mute.count => Some("it got worse"),
                Some(_) => None,
            }
        };
        self.mutes.iter().filter_map(|(code, mute)| Some((code.clone(), why(code, mute)?))).collect()
    }
}

fn mute_json(code: &str, mute: &Mute) -> Value {
    let mut out = json!({
        "code": code, "sticky": mute.sticky, "summary": mute.summary, "count": mute.count,
    });
    if let Some(until) = mute.until {
        out["ttl"] = wire::Utime { sec: until as u32, nsec: 0 }.iso8601().into();
    }
    out
}

/// Everything that is wrong.
pub(crate) fn checks(view: &View<'_>) -> Vec<Check> {
    let map = view.state.osdmap();
    let mut out = Vec::new();
    mon_checks(view, &mut out);
    mds_checks(view, &mut out);
    osd_checks(map, &mut out);
    full_checks(view, &mut out);
    flag_checks(map, &mut out);
    pg_checks(map, &view.soft.pgs, &mut out);
    pg_room_checks(map, &view.soft.pgs, &mut out);
    slow_ops_check(map, &view.soft.pgs, &mut out);
    crate::scrub_health::checks(view, &mut out);
    crate::disks::checks(view, &mut out);
    pool_checks(view, &mut out);
    crate::autoscale::checks(view, &mut out);
    crash_check(view, &mut out);
    let wanted: u64 = view.option("osd_pool_default_size");
    let osds = map.existing().count();
    if (osds as u64) < wanted {
        let summary = format!("OSD count {osds} < osd_pool_default_size {wanted}");
        out.push(Check { code: Code::TooFewOsds, summary, count: 1, detail: Vec::new() });
    }
    out.sort_by_key(|c| (std::cmp::Reverse(c.code.severity()), c.code));
    out
}

/// A count with its noun.
pub(crate) fn plural(n: usize, one: &str, many: &str) -> String {
    format!("{n} {}", if n == 1 { one } else { many })
}

fn mon_checks(view: &View<'_>, out: &mut Vec<Check>) {
    let (map, quorum) = (&view.state.monmap, &view.soft.quorum);
    let missing = quorum.missing(map);
    if !missing.is_empty() && !quorum.leader.is_empty() {
        let shown = |name: &String| map.mons.get(name).map(|m| crate::commands::format::addrs(&m.addrs));
        let line = |name: &String| {
            let (rank, addr) = (map.rank_of(name).unwrap_or_default(), shown(name).unwrap_or_default());
            format!("mon.{name} (rank {rank}) addr {addr} is down (out of quorum)")
        };
        let detail = missing.iter().map(line).collect();
        let summary =
            format!("{}/{} mons down, quorum {}", missing.len(), map.mons.len(), quorum.names.join(","));
        out.push(Check { code: Code::MonDown, summary, count: missing.len(), detail });
    }
    let allowed: f64 = view.option("mon_clock_drift_allowed");
    let far = quorum.clocks.iter().filter(|(_, (skew, latency))| skew.abs() > allowed + latency / 2.0);
    let detail: Vec<String> = far
        .map(|(name, (skew, latency))| {
            format!("mon.{name} clock skew {skew:.3}s > max {allowed}s (latency {latency:.6}s)")
        })
        .collect();
    if !detail.is_empty() {
        let names: Vec<&str> = detail.iter().filter_map(|d| d.split(' ').next()).collect();
        let summary = format!("clock skew detected on {}", names.join(", "));
        out.push(Check { code: Code::MonClockSkew, summary, count: detail.len(), detail });
    }
}

fn mds_checks(view: &View<'_>, out: &mut Vec<Check>) {
    let fsmap = &view.state.fsmap;
    let (mut offline, mut degraded, mut short) = (Vec::new(), Vec::new(), Vec::new());
    for fs in fsmap.filesystems.values().map(|f| &f.mds_map) {
        let name = &fs.fs_name;
        if fs.up.is_empty() {
            offline.push(format!("fs {name} is offline because no MDS is active for it."));
        }
        let recovering =
            |r: &MdsRank| fs.state_of(*r) != MdsState::ACTIVE && fs.state_of(*r) != MdsState::CREATING;
        if !fs.failed.is_empty() || !fs.damaged.is_empty() || fs.up.keys().any(recovering) {
            degraded.push(format!("fs {name} is degraded"));
        }
        let up = fs.up.len() as i32;
        if up < fs.max_mds {
            short.push(format!("fs {name} has {up} MDS online, but wants {}", fs.max_mds));
        }
        for rank in &fs.damaged {
            let detail = vec![format!("fs {name} rank {rank} is damaged")];
            let summary = format!("{} damaged", plural(1, "mds daemon", "mds daemons"));
            out.push(Check { code: Code::MdsDamage, summary, count: 1, detail });
        }
    }
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

fn osd_checks(map: &OsdMap, out: &mut Vec<Check>) {
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
    let hosts = map.crush.buckets.iter().flatten().filter(|b| Some(i32::from(b.ty)) == host_type);
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

/// How full an OSD's device is, from 0 to 1.
pub(crate) fn fullness(pgs: &PgTable, osd: maps::OsdId) -> f64 {
    pgs.osd(osd)
        .filter(|s| s.store.total > 0)
        .map_or(0.0, |s| (s.store.total - s.store.available.min(s.store.total)) as f64 / s.store.total as f64)
}

fn full_checks(view: &View<'_>, out: &mut Vec<Check>) {
    let (map, pgs) = (view.state.osdmap(), &view.soft.pgs);
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

fn flag_checks(map: &OsdMap, out: &mut Vec<Check>) {
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
    let names: Vec<_> =
        osd_flags::NAMES.iter().filter(|(bit, _)| map.flags & WARN & bit != 0).map(|(_, n)| *n).collect();
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

/// Crashes that nobody has looked at yet.
fn crash_check(view: &View<'_>, out: &mut Vec<Check>) {
    let age: std::time::Duration = view.option("mgr_crash_warn_recent_interval");
    let now = view.now.wall.split().0;
    let recent = |r: &crate::commands::crash::Report| {
        !r.is_archived() && now.saturating_sub(r.stamp()) <= age.as_secs()
    };
    let reports: Vec<_> =
        crate::commands::crash::reports(&view.state.kv).into_iter().filter(recent).collect();
    if !reports.is_empty() {
        let count = reports.len();
        let mut detail: Vec<String> =
            reports.iter().take(30).map(crate::commands::crash::Report::line).collect();
        if count > detail.len() {
            detail.push(format!("and {} more", count - detail.len()));
        }
        let summary = format!("{} recently crashed", plural(count, "daemon has", "daemons have"));
        out.push(Check { code: Code::RecentCrash, summary, count, detail });
    }
}

/// Lines of detail for each check of PGs.
const MAX_DETAIL: usize = 50;

fn pg_checks(map: &OsdMap, pgs: &PgTable, out: &mut Vec<Check>) {
    let (mut inactive, mut degraded) = (Vec::new(), Vec::new());
    let (mut unfound, mut all, mut lacking) = (0i64, 0i64, Vec::new());
    let (mut objects, mut copies) = (0i64, 0i64);
    let mut kinds = BTreeMap::<&str, usize>::new();
    let mut degraded_kinds = BTreeMap::<&str, usize>::new();
    let bump = |kinds: &mut BTreeMap<&'static str, usize>, name| {
        *kinds.entry(name).or_default() += 1;
    };
    for (id, pool) in &map.pools {
        for pg in pool.pgs(*id) {
            let Some(stat) = pgs.pgs().get(&pg) else {
                bump(&mut kinds, "inactive");
                inactive.push(format!("pg {pg} is unknown: no OSD has reported it yet"));
                continue;
            };
            let state = crate::pgstat::state_name(stat.state);
            let acting = crate::commands::format::osds(&stat.acting);
            let line = || format!("pg {pg} is {state}, acting {acting}");
            // Those that are ready to be merged wait for seconds.
            let merges = stat.state & pg_state::PREMERGE != 0 && stat.state & pg_state::CLEAN != 0;
            if stat.state & pg_state::ACTIVE == 0 && !merges || stat.state & pg_state::STALE != 0 {
                bump(&mut kinds, "inactive");
                let more = [
                    (pg_state::PEERING, "peering"),
                    (pg_state::DOWN, "down"),
                    (pg_state::INCOMPLETE, "incomplete"),
                    (pg_state::STALE, "stale"),
                ];
                more.iter().filter(|(bit, _)| stat.state & bit != 0).for_each(|(_, n)| bump(&mut kinds, n));
                inactive.push(line());
            } else if stat.state & (pg_state::DEGRADED | pg_state::UNDERSIZED) != 0 {
                let more = [(pg_state::DEGRADED, "degraded"), (pg_state::UNDERSIZED, "undersized")];
                let have = more.iter().filter(|(bit, _)| stat.state & bit != 0);
                have.for_each(|(_, n)| bump(&mut degraded_kinds, n));
                degraded.push(line());
            }
            objects += stat.stats.num_objects_degraded;
            copies += stat.stats.num_object_copies;
            all += stat.stats.num_objects;
            if stat.stats.num_objects_unfound > 0 {
                unfound += stat.stats.num_objects_unfound;
                lacking.push(format!("pg {pg} has {} unfound objects", stat.stats.num_objects_unfound));
            }
        }
    }
    let list = |kinds: &BTreeMap<&str, usize>| {
        let mut parts: Vec<_> =
            kinds.iter().map(|(k, n)| format!("{} {k}", plural(*n, "pg", "pgs"))).collect();
        parts.sort();
        parts.join(", ")
    };
    if !inactive.is_empty() {
        let summary = format!("Reduced data availability: {}", list(&kinds));
        push_pgs(out, Code::PgAvailability, summary, inactive);
    }
    if !degraded.is_empty() || objects > 0 {
        let share = crate::commands::format::percent(objects as f64, copies as f64);
        let amount = (objects > 0).then(|| format!("{objects}/{copies} objects degraded ({share:.3}%)"));
        let parts: Vec<_> =
            amount.into_iter().chain((!degraded.is_empty()).then(|| list(&degraded_kinds))).collect();
        push_pgs(out, Code::PgDegraded, format!("Degraded data redundancy: {}", parts.join(", ")), degraded);
    }
    if unfound > 0 {
        let share = crate::commands::format::percent(unfound as f64, all as f64);
        push_pgs(out, Code::ObjectUnfound, format!("{unfound}/{all} objects unfound ({share:.3}%)"), lacking);
    }
}

/// PGs whose copies wait for room.
fn pg_room_checks(map: &OsdMap, pgs: &PgTable, out: &mut Vec<Check>) {
    let kinds = [
        (Code::PgRecoveryFull, pg_state::RECOVERY_TOOFULL, "Full OSDs blocking recovery", "recovery_toofull"),
        (
            Code::PgBackfillFull,
            pg_state::BACKFILL_TOOFULL,
            "Low space hindering backfill (add storage if this doesn't resolve itself)",
            "backfill_toofull",
        ),
    ];
    for (code, bit, what, name) in kinds {
        let here =
            pgs.pgs().iter().filter(|(pg, stat)| map.pools.contains_key(&pg.pool) && stat.state & bit != 0);
        let line = |(pg, stat): (&maps::PgId, &peer::PgStat)| {
            let (state, acting) =
                (crate::pgstat::state_name(stat.state), crate::commands::format::osds(&stat.acting));
            format!("pg {pg} is {state}, acting {acting}")
        };
        let detail: Vec<String> = here.map(line).collect();
        if !detail.is_empty() {
            let summary = format!("{what}: {} {name}", plural(detail.len(), "pg", "pgs"));
            push_pgs(out, code, summary, detail);
        }
    }
}

/// Requests that have waited for too long, at OSDs that are up.
fn slow_ops_check(map: &OsdMap, pgs: &PgTable, out: &mut Vec<Check>) {
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

pub(crate) fn push_pgs(out: &mut Vec<Check>, code: Code, summary: String, mut detail: Vec<String>) {
    let count = detail.len();
    if count > MAX_DETAIL {
        detail.truncate(MAX_DETAIL);
        detail.push(format!("and {} more", count - MAX_DETAIL));
    }
    out.push(Check { code, summary, count, detail });
}

fn pool_checks(view: &View<'_>, out: &mut Vec<Check>) {
    let (map, pgs) = (view.state.osdmap(), &view.soft.pgs);
    let (mut single, mut no_app, mut full) = (Vec::new(), Vec::new(), Vec::new());
    for (id, pool) in &map.pools {
        let name = map.pool_name(*id);
        if pool.size == 1 {
            single.push(format!("pool '{name}' has no replicas configured"));
        }
        if pool.application_metadata.is_empty() && pgs.pool(*id).stats.num_objects > 0 {
            no_app.push(format!("application not enabled on pool '{name}'"));
        }
        if pool.has_flag(pool_flags::FULL_QUOTA) {
            full.push(format!("pool '{name}' is full (running out of quota)"));
        }
    }
    let mut add = |code, list: Vec<String>, what: &str| {
        if !list.is_empty() {
            let summary = format!("{} {what}", plural(list.len(), "pool(s)", "pool(s)"));
            out.push(Check { code, summary, count: list.len(), detail: list });
        }
    };
    if view.option("mon_warn_on_pool_no_redundancy") {
        add(Code::PoolNoRedundancy, single, "have no replicas configured");
    }
    if view.option("mon_warn_on_pool_no_app") {
        add(Code::PoolAppNotEnabled, no_app, "do not have an application enabled");
    }
    add(Code::PoolFull, full, "full");
}
