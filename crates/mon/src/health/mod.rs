//! Health checks: what is wrong, where, and what to do about it.

mod builds;
pub(crate) mod check;
mod mon;
pub(crate) mod mute;
mod osd;
mod pg;
mod ping;
mod pool;
mod scrub;

use crate::health::check::Check;
use crate::health::mute::{Mute, Mutes, mutes};
use crate::text::plural;
use crate::view::View;
use decl::{Code, Severity};
use serde_json::{Map, Value, json};

/// The findings, and those that are muted.
#[derive(Clone, PartialEq, Debug, Default)]
pub(crate) struct Health {
    /// All findings, the worst first.
    pub checks: Vec<Check>,
    /// Mutes by code, including those of codes that are not raised now.
    pub mutes: Mutes,
}

impl Health {
    /// Evaluates all checks.
    pub fn of(view: &View<'_>) -> Self {
        Self { checks: checks(view), mutes: mutes(&view.state.kv) }
    }

    /// True if a finding is muted.
    pub fn is_muted(&self, check: &Check) -> bool {
        self.mutes.contains_key(check.code.name())
    }

    /// Findings that are not muted.
    pub fn heard(&self) -> impl Iterator<Item = &Check> {
        self.checks.iter().filter(|c| !self.is_muted(c))
    }

    /// The overall state; muted findings do not count.
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

    /// The JSON that `health` prints.
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

    /// Mutes that end at `now`, with the reason: their time is over, or, unless sticky, the muted finding is
    /// gone or got worse.
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
    mon::mon_checks(view, &mut out);
    mon::space_checks(view, &mut out);
    mon::mds_checks(view, &mut out);
    mon::mgr_check(view, &mut out);
    osd::osd_checks(map, &mut out);
    osd::full_checks(view, &mut out);
    osd::flag_checks(map, &mut out);
    pg::pg_checks(map, view.pgs, &mut out);
    pg::space_checks(map, view.pgs, &mut out);
    osd::slow_ops_check(map, view.pgs, &mut out);
    ping::checks(view, &mut out);
    scrub::checks(view, &mut out);
    osd::device_checks(view, &mut out);
    pool::pool_checks(view, &mut out);
    pool::autoscale_checks(view, &mut out);
    builds::checks(view.state, &mut out);
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

/// Crashes that nobody has archived yet.
fn crash_check(view: &View<'_>, out: &mut Vec<Check>) {
    let age: std::time::Duration = view.option("mgr_crash_warn_recent_interval");
    let now = view.now.wall.split().0;
    let recent =
        |r: &crate::domain::crash::Report| !r.is_archived() && now.saturating_sub(r.stamp()) <= age.as_secs();
    let reports: Vec<_> = crate::domain::crash::reports(&view.state.kv).into_iter().filter(recent).collect();
    if !reports.is_empty() {
        let count = reports.len();
        let mut detail: Vec<String> =
            reports.iter().take(30).map(crate::domain::crash::Report::line).collect();
        if count > detail.len() {
            detail.push(format!("and {} more", count - detail.len()));
        }
        let summary = format!("{} recently crashed", plural(count, "daemon has", "daemons have"));
        out.push(Check { code: Code::RecentCrash, summary, count, detail });
    }
}
