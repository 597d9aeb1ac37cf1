//! Checker `one_content_per_epoch`: a map that a monitor has shown to anyone is the map of that epoch for
//! ever, also after the monitor lost its power. Nobody ever learns of uncommitted state (docs/design.md,
//! decision 11).

use crate::host::HostId;
use crate::world::Observer;
use node::{Body, Msg};
use std::collections::BTreeMap;
use std::hash::Hasher as _;
use stdx::FoldHasher;

/// A map's identity: incremental or full, and its epoch.
type Which = (bool, u32);

/// Observes all messages that carry OSD maps.
pub fn observer() -> Observer {
    let mut seen: BTreeMap<Which, (u64, HostId)> = BTreeMap::new();
    Box::new(move |_, from, _, msg: &Msg| {
        let Body::Client(msgs::Body::OsdMap(maps)) = &msg.body else { return None };
        let parts = maps.incrementals.iter().map(|(e, bytes)| ((false, e.0), bytes));
        let parts = parts.chain(maps.fulls.iter().map(|(e, bytes)| ((true, e.0), bytes)));
        for (which, bytes) in parts {
            let mut hasher = FoldHasher::default();
            hasher.write_usize(bytes.len());
            hasher.write(bytes);
            let hash = hasher.finish();
            let (first, by) = *seen.entry(which).or_insert((hash, from));
            if first != hash {
                let kind = if which.0 { "full" } else { "incremental" };
                let what =
                    format!("{kind} OSD map {} from {from} is not the one that {by} sent before", which.1);
                return Some(("one_content_per_epoch", what));
            }
        }
        None
    })
}
