//! Checker `unexpected_event`: an event of level WARN or ERROR is either listed here, as a consequence of the
//! simulated faults, or it is a finding. So each new event of these levels is considered once.

use super::late::Late;
use node::{Event, Level};

/// Events that a correct implementation may report under these faults, with the reason.
const EXPECTED: [(&str, &str); 6] = [
    ("marked_down", "an OSD that was cut off or slow sees the map that gave it up, and boots again"),
    ("begins_anew", "a metadata server that was silent for too long sees that it was given up"),
    ("object_unfound", "the newest version of an object is on disks that are away; its requests wait"),
    ("file_locks_lost", "a client that was away for longer than its session lasts held file locks"),
    (
        "mds_session_lost",
        "a client that was away for longer than its session lasts; without lost writes this is a warning",
    ),
    (
        "evicted",
        "the same, if the metadata server has put it on the blocklist: it comes back as a new client",
    ),
];

/// Events about a disk that rots or refuses operations.
const ERRORS: [&str; 3] = ["object_unreadable", "object_damaged", "scrub_ended"];

/// Returns the violation; `None` if the event is expected. `disks_fail` admits the events of failing disks,
/// and `late` those of clients that came too late.
pub fn check(node: &str, event: &Event, disks_fail: bool, late: &Late) -> Option<String> {
    let expected = event.level == Level::Warn && EXPECTED.iter().any(|(name, _)| *name == event.name)
        || disks_fail && ERRORS.contains(&event.name)
        || late.explains(node, event);
    (!expected).then(|| format!("{node}: {:?} {}: {}", event.level, event.name, event.detail))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::oracle::late::told;

    fn event(level: Level, name: &'static str) -> Event {
        Event::new(level, name, "because")
    }

    #[test]
    fn only_listed_warnings_pass() {
        let late = Late::default();
        assert_eq!(check("osd.0", &event(Level::Warn, "marked_down"), false, &late), None);
        let why = check("osd.0", &event(Level::Warn, "push_undecodable"), false, &late);
        assert_eq!(why.as_deref(), Some("osd.0: Warn push_undecodable: because"));
        assert!(
            check("client.0", &event(Level::Error, "mds_session_lost"), false, &late).is_some(),
            "lost writes are no warning"
        );
    }

    #[test]
    fn only_a_client_that_was_missing_or_evicted_may_lose_what_it_had_not_synced() {
        let refused = Event::new(Level::Warn, "unsafe_requests_lost", "client.4102 repeats a request that");
        let lost = event(Level::Error, "change_lost");
        let missing = "not back yet: client.4102, client.4103";
        let missing = Event::new(Level::Info, "clients_missing", missing);
        let returned = Event::new(Level::Info, "client_returned", "client.4102 has come back");
        let evicted = Event::new(Level::Info, "client_evicted", "client.4102: an administrator says so");
        let lost_all = event(Level::Error, "evicted");
        let mut late = Late::default();
        assert!(check("client.2", &lost_all, false, &late).is_some());
        late.note("mds.a", &told(&evicted).expect("it says something"), |client| {
            Some(format!("client.{}", client - 4100))
        });
        assert_eq!(check("client.2", &lost_all, false, &late), None);
        assert!(check("client.3", &lost_all, false, &late).is_some());
        let passes = |events: &[(&str, &Event)]| {
            let mut late = Late::default();
            for (from, told) in events.iter().filter_map(|(from, event)| Some((from, told(event)?))) {
                late.note(from, &told, |client| Some(format!("client.{}", client - 4100)));
            }
            assert!(check("client.3", &lost, false, &late).is_some(), "another client");
            [("mds.a", &refused), ("client.2", &lost)]
                .map(|(node, event)| check(node, event, false, &late).is_none())
        };
        let [missing, refused, returned] = [&missing, &refused, &returned].map(|event| ("mds.a", event));
        let other = |(_, event)| ("mds.b", event);
        assert_eq!(passes(&[missing, refused, returned]), [true, true]);
        assert_eq!(passes(&[missing]), [false, false]);
        assert_eq!(passes(&[refused, missing]), [false, false]);
        assert_eq!(passes(&[missing, returned, refused]), [false, false]);
        assert_eq!(passes(&[missing, other(returned), refused]), [false, false], "to a successor");
        let two_ranks = [missing, other(missing), other(returned), refused];
        assert_eq!(passes(&two_ranks), [true, true], "one of two ranks took it back");
    }

    #[test]
    fn writes_are_lost_only_with_the_file_that_was_not_made() {
        let missing = Event::new(Level::Info, "clients_missing", "not back yet: client.4102");
        let refused = Event::new(Level::Warn, "unsafe_requests_lost", "client.4102 repeats a request that");
        let gone = "client.4102 claims 10000000fa2, which is gone";
        let gone = Event::new(Level::Info, "claimed_cap_dropped", gone);
        let passes = |events: &[&Event], node, ino| {
            let mut late = Late::default();
            for told in events.iter().filter_map(|event| told(event)) {
                late.note("mds.a", &told, |client| Some(format!("client.{}", client - 4100)));
            }
            let detail = format!("the MDS has dropped the capability on inode {ino}");
            check(node, &Event::new(Level::Error, "writes_lost", detail), false, &late).is_none()
        };
        assert!(passes(&[&missing, &refused, &gone], "client.2", "10000000fa2"));
        assert!(!passes(&[&missing, &refused, &gone], "client.2", "20000000fa2"), "another file");
        assert!(!passes(&[&missing, &refused, &gone], "client.3", "10000000fa2"), "another client");
        assert!(!passes(&[&gone], "client.2", "10000000fa2"), "a client that was there in time");
    }
}
