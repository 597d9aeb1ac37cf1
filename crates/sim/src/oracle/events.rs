//! Checker `unexpected_event`: an event of level WARN or ERROR is either listed here, as a consequence of the
//! simulated faults, or it is a finding. So each new event of these levels is considered once.

use node::{Event, Level};

/// Events that a correct implementation may report under these faults, with the reason.
const EXPECTED: [(&str, &str); 4] = [
    ("marked_down", "an OSD that was cut off or slow sees the map that gave it up, and boots again"),
    ("begins_anew", "a metadata server that was silent for too long sees that it was given up"),
    ("object_unfound", "the newest version of an object is on disks that are away; its requests wait"),
    (
        "mds_session_lost",
        "a client that was away for longer than its session lasts; without lost writes this is a warning",
    ),
];

/// Events about a disk that rots or refuses operations.
const ERRORS: [&str; 3] = ["object_unreadable", "object_damaged", "scrub_ended"];

/// Returns the violation; `None` if the event is expected. `disks_fail` admits the events of failing disks.
pub fn check(node: &str, event: &Event, disks_fail: bool) -> Option<String> {
    let expected = event.level == Level::Warn && EXPECTED.iter().any(|(name, _)| *name == event.name)
        || disks_fail && ERRORS.contains(&event.name);
    (!expected).then(|| format!("{node}: {:?} {}: {}", event.level, event.name, event.detail))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_listed_warnings_pass() {
        let event = |level, name| Event::new(level, name, "because");
        assert_eq!(check("osd.0", &event(Level::Warn, "marked_down"), false), None);
        let why = check("osd.0", &event(Level::Warn, "push_undecodable"), false);
        assert_eq!(why.as_deref(), Some("osd.0: Warn push_undecodable: because"));
        assert!(
            check("client.0", &event(Level::Error, "mds_session_lost"), false).is_some(),
            "lost writes are no warning"
        );
    }
}
