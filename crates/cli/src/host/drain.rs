//! Moving the data of OSDs to others: what would be lost by it, and waiting until nothing is needed there.

use super::query::{list, query, query_with, unclean};
use super::{Member, members};
use crate::cluster::ask;
use crate::cmd::terminal;
use anyhow::{Result, bail};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// Between two looks at how far it is.
const LOOK: Duration = Duration::from_millis(500);
/// The part of the space of OSDs that may be in use before they count as nearly full.
const NEARLY_FULL: f64 = 0.85;

/// Refuses to empty these OSDs where the others could not hold all copies.
pub(crate) fn check_drain(cluster: &client::Cluster, osds: &BTreeSet<u64>) -> Result<()> {
    let members = members(cluster)?;
    let rules = query_with(cluster, json!({ "prefix": "osd crush rule dump" }))?;
    let pools = query_with(cluster, json!({ "prefix": "osd pool ls", "detail": "detail" }))?;
    match refusal(&members, &rules, &pools, osds) {
        Some(why) => bail!("{why}"),
        None => Ok(()),
    }
}

/// The reason why these OSDs can't be emptied.
fn refusal(
    members: &BTreeMap<String, Member>,
    rules: &Value,
    pools: &Value,
    osds: &BTreeSet<u64>,
) -> Option<String> {
    let stays = |member: &Member| {
        let stay = member.osds.iter().filter(|osd| osd.up && osd.is_in && !osds.contains(&osd.id));
        stay.cloned().collect::<Vec<_>>()
    };
    let left: Vec<_> = members.iter().map(|(name, member)| (name, member, stays(member))).collect();
    let left: Vec<_> = left.into_iter().filter(|(_, _, osds)| !osds.is_empty()).collect();
    for pool in list(pools) {
        let rule = list(rules).iter().find(|rule| rule["rule_id"] == pool["crush_rule"]);
        let steps = rule.map(|rule| list(&rule["steps"])).unwrap_or_default();
        let domain = steps.iter().filter_map(|step| step["type"].as_str()).next_back().unwrap_or("osd");
        let places = match domain {
            "host" => left.len(),
            "rack" => left.iter().filter_map(|(_, m, _)| m.rack.as_ref()).collect::<BTreeSet<_>>().len(),
            _ => left.iter().map(|(_, _, osds)| osds.len()).sum(),
        };
        let (name, size) = (pool["pool_name"].as_str().unwrap_or("?"), pool["size"].as_u64().unwrap_or(0));
        if (places as u64) < size {
            return Some(format!(
                "pool {name} keeps {size} copies on as many {domain}s, and {places} would be left: add one \
                 first, or want fewer copies (`ceph osd pool set {name} size {places}`)"
            ));
        }
    }
    let moved = members.values().flat_map(|m| &m.osds).filter(|osd| osds.contains(&osd.id) && osd.is_in);
    let moved: u64 = moved.map(|osd| osd.used).sum();
    let (size, used) =
        left.iter().flat_map(|(_, _, osds)| osds).fold((0, 0), |(s, u), o| (s + o.size, u + o.used));
    let room = (size as f64 * NEARLY_FULL) as u64;
    (used + moved > room).then(|| {
        format!(
            "{} GiB would have to move, and the other disks can take {} GiB before they are nearly full: add \
             disks first",
            moved >> 30,
            room.saturating_sub(used) >> 30
        )
    })
}

/// Has the data of these OSDs moved to others, and waits until every PG has all its copies there. A wait that
/// was cut short goes on when the command is given again.
pub(crate) fn drain(cluster: &client::Cluster, osds: &BTreeSet<u64>) -> Result<()> {
    let ids: Vec<String> = osds.iter().map(ToString::to_string).collect();
    ask(cluster, &json!({ "prefix": "osd out", "ids": ids }))?;
    let bar = terminal::progress("moved");
    let (mut most, mut first) = (0, true);
    loop {
        let left = pgs_on(cluster, osds)?.max(unclean(&query(cluster, "status")?));
        let safe = query_with(cluster, json!({ "prefix": "osd safe-to-destroy", "ids": ids }))?;
        // Reports come after maps: the first look may see the state before.
        if left == 0 && list(&safe["active"]).is_empty() && !first {
            bar.finish_and_clear();
            return Ok(());
        }
        (most, first) = (left.max(most), false);
        bar.set_length(most);
        bar.set_position(most - left);
        std::thread::park_timeout(LOOK);
    }
}

/// The PGs that these OSDs hold.
fn pgs_on(cluster: &client::Cluster, osds: &BTreeSet<u64>) -> Result<u64> {
    let usage = query(cluster, "osd df")?;
    let ours =
        list(&usage["nodes"]).iter().filter(|of| of["id"].as_u64().is_some_and(|id| osds.contains(&id)));
    Ok(ours.filter_map(|of| of["pgs"].as_u64()).sum())
}

#[cfg(test)]
mod tests {
    use super::super::members::MemberOsd;
    use super::*;

    fn cluster(hosts: u64, used: u64) -> BTreeMap<String, Member> {
        let osd = |id| MemberOsd { id, up: true, is_in: true, size: 100 << 30, used: used << 30 };
        let host = |n: u64| Member { osds: vec![osd(2 * n), osd(2 * n + 1)], ..Member::default() };
        (0..hosts).map(|n| (format!("h{n}"), host(n))).collect()
    }

    fn refused(members: &BTreeMap<String, Member>, domain: &str, osds: &[u64]) -> Option<String> {
        let rules = json!([{ "rule_id": 0, "steps": [
            { "op": "take" }, { "op": "chooseleaf_firstn", "type": domain }, { "op": "emit" },
        ]}]);
        let pools = json!([{ "pool_name": "p", "size": 3, "crush_rule": 0 }]);
        refusal(members, &rules, &pools, &osds.iter().copied().collect())
    }

    #[test]
    fn a_host_goes_where_enough_others_are_left() {
        assert_eq!(refused(&cluster(4, 10), "host", &[6, 7]), None);
        assert_eq!(refused(&cluster(3, 10), "host", &[5]), None, "one disk of a host");
        let why = refused(&cluster(3, 10), "host", &[4, 5]).expect("refused");
        assert!(why.contains("pool p keeps 3 copies on as many hosts, and 2 would be left"), "{why}");
        assert_eq!(
            refused(&cluster(3, 10), "osd", &[4, 5]),
            None,
            "four disks are enough for a rule over disks"
        );
        let mut members = cluster(4, 10);
        members.get_mut("h0").expect("is there").osds.iter_mut().for_each(|osd| osd.up = false);
        assert!(refused(&members, "host", &[6, 7]).is_some(), "a host that is down is none");
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        assert_eq!(refused(&cluster(4, 60), "host", &[6, 7]), None);
        let why = refused(&cluster(4, 70), "host", &[6, 7]).expect("refused");
        assert!(why.contains("140 GiB would have to move") && why.contains("90 GiB"), "{why}");
    }
}
