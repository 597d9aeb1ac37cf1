//! Health checks of the network between OSDs: how long their pings take.

use crate::health::check::Check;
use crate::view::View;
use decl::Code;
use maps::{OsdId, OsdMap};
use std::time::Duration;

/// Pairs of OSDs that are named.
const MOST_LINES: usize = 10;

/// The two networks as Ceph names them. Our OSDs have one, whose pings count for both.
const NETWORKS: [(Code, &str); 2] =
    [(Code::OsdSlowPingTimeBack, "back"), (Code::OsdSlowPingTimeFront, "front")];

/// A pair of OSDs whose pings take too long: the longest average, who asked whom, and whether it gets better.
type Slow = (u32, OsdId, OsdId, bool);

/// Pings that take too long in the mean of the last minute, 5 or 15 minutes; the codes and texts are Ceph's.
pub(super) fn checks(view: &View<'_>, out: &mut Vec<Check>) {
    let slow = slow_pairs(view);
    let Some((longest, ..)) = slow.first() else { return };
    let map = view.state.osdmap();
    for (code, network) in NETWORKS {
        let line = |(us, from, to, improves): &Slow| {
            let places = [from, to].map(|osd| place(map, *osd));
            let hint = if *improves { " possibly improving" } else { "" };
            format!(
                "Slow OSD heartbeats on {network} from osd.{from} [{}] to osd.{to} [{}] {} msec{hint}",
                places[0],
                places[1],
                ms(*us)
            )
        };
        let mut detail: Vec<String> = slow.iter().take(MOST_LINES).map(line).collect();
        if slow.len() > MOST_LINES {
            detail.push(format!("and {} more", slow.len() - MOST_LINES));
        }
        let summary = format!("Slow OSD heartbeats on {network} (longest {}ms)", ms(*longest));
        out.push(Check { code, summary, count: slow.len(), detail });
    }
}

/// The slowest first.
fn slow_pairs(view: &View<'_>) -> Vec<Slow> {
    let map = view.state.osdmap();
    let most_us = limit_us(view);
    let mut slow = Vec::new();
    for (from, stat) in view.pgs.osds().iter().filter(|(osd, _)| map.is_up(**osd)) {
        for to in stat.ping_times.iter().filter(|to| map.is_up(to.osd)) {
            let longest = to.one_us.max(to.five_us).max(to.fifteen_us);
            if f64::from(longest) > most_us {
                let improves = to.one_us < to.five_us && to.five_us < to.fifteen_us;
                slow.push((longest, *from, to.osd, improves));
            }
        }
    }
    slow.sort_by_key(|(us, from, to, _)| (std::cmp::Reverse(*us), *from, *to));
    slow
}

/// The longest time, in microseconds.
fn limit_us(view: &View<'_>) -> f64 {
    let given_ms: f64 = view.mgr_option("mon_warn_on_slow_ping_time");
    if given_ms > 0.0 {
        return given_ms * 1000.0;
    }
    let grace: Duration = view.mgr_option("osd_heartbeat_grace");
    grace.as_secs_f64() * 1e6 * view.mgr_option::<f64>("mon_warn_on_slow_ping_ratio")
}

/// Where an OSD is, from the outermost bucket below the root to the one above its host.
fn place(map: &OsdMap, osd: OsdId) -> String {
    let parts = crate::crush_edit::location(&map.crush, osd.0);
    let between = parts.iter().rev().filter(|(ty, _)| !matches!(ty.as_str(), "root" | "host"));
    between.map(|(_, name)| name.as_str()).collect::<Vec<_>>().join(",")
}

fn ms(us: u32) -> String {
    format!("{}.{:03}", us / 1000, us % 1000)
}
