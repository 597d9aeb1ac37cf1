//! From OSD map messages to the newest map.

use maps::{Epoch, OsdMap, OsdMapIncremental};
use std::collections::BTreeSet;
use std::sync::Arc;
use wire::Reader;

/// The effect of a message of maps.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Took {
    /// Nothing in it is newer.
    Nothing,
    /// There is a newer map.
    Newer,
    /// It does not follow what we have: ask from this epoch on, 0 for a whole map.
    Gap(Epoch),
}

/// Applies maps newer than `map`. `each` gets every map on the way, and true if it does not directly follow
/// the one before.
pub(crate) fn take(map: &mut Arc<OsdMap>, m: &msgs::OsdMap, mut each: impl FnMut(&OsdMap, bool)) -> Took {
    let before = map.epoch;
    if m.newest_contained() <= before {
        return Took::Nothing;
    }
    let newer = m.incrementals.keys().chain(m.fulls.keys()).filter(|e| **e > before);
    for at in newer.copied().collect::<BTreeSet<Epoch>>() {
        if map.epoch.0 > 0 && map.epoch.next() == at && m.incrementals.contains_key(&at) {
            let decoded = Reader::new(&m.incrementals[&at]).get::<OsdMapIncremental>();
            if !decoded.is_ok_and(|inc| Arc::make_mut(map).apply(&inc).is_ok()) {
                return Took::Gap(Epoch(0));
            }
            each(map, false);
        } else if let Some(full) = m.fulls.get(&at) {
            match Reader::new(full).get::<OsdMap>() {
                Ok(full) => {
                    let follows = map.epoch.0 > 0 && map.epoch.next() == at;
                    *map = Arc::new(full);
                    each(map, !follows);
                }
                // Asking again would bring the same bytes for ever; the next map may be better.
                Err(_) => return Took::Nothing,
            }
        }
    }
    match map.epoch {
        e if e < m.newest_contained() => Took::Gap(if e.0 == 0 { Epoch(0) } else { e.next() }),
        _ => Took::Newer,
    }
}
