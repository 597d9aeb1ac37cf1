//! Feature levels: one number says which formats and messages the daemons of a cluster may use among
//! themselves (docs/adr/0030-feature-level.md).

use std::collections::BTreeMap;

/// OSDs can merge PGs. An older one would take the lower `pg_num` for the end of the PG and delete its
/// objects.
pub const MERGES: u32 = 2;
/// OSDs take the data of large updates in advance. Never gated: OSDs tell one another, and nothing of it is
/// stored for long.
pub const AHEAD: u32 = 3;
/// OSDs know log entries that undo others. They tell one another.
pub const UNDO: u32 = 4;

/// The key of the highest level that a daemon can do in its metadata.
pub const NEWEST: &str = "feature_level";
/// The key of the lowest one, if that is not 1.
pub const OLDEST: &str = "feature_level_oldest";

/// The levels that a build can work at.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Levels {
    /// The lowest.
    pub oldest: u32,
    /// The highest.
    pub newest: u32,
}

/// What daemons say of the build that they are.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Build {
    /// Its version: `0.1.0`.
    pub version: String,
    /// The levels that it can work at.
    pub levels: Levels,
}

impl Default for Levels {
    /// Those of this build.
    fn default() -> Self {
        Self { oldest: 1, newest: UNDO }
    }
}

impl Default for Build {
    /// This build.
    fn default() -> Self {
        Self { version: env!("CARGO_PKG_VERSION").to_owned(), levels: Levels::default() }
    }
}

impl Levels {
    /// Those that a daemon's metadata name; level 1 for builds that name none.
    pub fn announced(metadata: &BTreeMap<String, String>) -> Self {
        let of = |key| metadata.get(key).and_then(|level| level.parse().ok());
        Self { oldest: of(OLDEST).unwrap_or(1), newest: of(NEWEST).unwrap_or(1) }
    }

    /// Adds them to a daemon's metadata.
    pub fn announce(self, metadata: &mut BTreeMap<String, String>) {
        metadata.insert(NEWEST.to_owned(), self.newest.to_string());
        if self.oldest > 1 {
            metadata.insert(OLDEST.to_owned(), self.oldest.to_string());
        }
    }

    /// The reason why a daemon of such a build may not be in a cluster that uses a level, if it may not.
    pub fn refusal(self, who: &str, in_use: u32) -> Option<String> {
        let Self { oldest, newest } = self;
        if in_use > newest {
            return Some(format!(
                "the cluster uses feature level {in_use}, and the build of {who} can do {newest} at most: \
                 install a newer one on its host and start {who} again; an older one would lose data"
            ));
        }
        // A map without a level is older than levels.
        (in_use.max(1) < oldest).then(|| {
            format!(
                "the cluster uses feature level {in_use}, and the build of {who} needs {oldest} at least: go \
                 back to the former build, run `nacre finalize` once all daemons have it, and upgrade then"
            )
        })
    }

    /// The reason why a store that was used at a level may not be opened, if it may not. Nothing was changed
    /// in it.
    pub fn refusal_of_store(self, whose: &str, level: u32) -> Option<String> {
        (level > self.newest).then(|| {
            format!(
                "the store of {whose} was used at feature level {level}, and this build can do {} at most: \
                 install a build that can do level {level} and start {whose} again; nothing was changed",
                self.newest
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOME: Levels = Levels { oldest: 2, newest: 4 };

    #[test]
    fn a_build_is_refused_outside_its_range_with_what_to_do() {
        let refused = |level| SOME.refusal("osd.3", level);
        assert_eq!([2, 3, 4].map(refused), [None, None, None]);
        let newer = refused(5).expect("refused");
        assert!(
            newer.contains("level 5") && newer.contains("4 at most") && newer.contains("install"),
            "{newer}"
        );
        let older = refused(1).expect("refused");
        assert!(older.contains("needs 2") && older.contains("nacre finalize"), "{older}");
        assert_eq!(Levels { oldest: 1, newest: 4 }.refusal("osd.3", 0), None, "a map without a level");
    }

    #[test]
    fn a_store_of_a_later_level_is_refused() {
        assert_eq!(SOME.refusal_of_store("osd.3", 4), None);
        assert_eq!(SOME.refusal_of_store("osd.3", 0), None, "a store from before there were levels");
        let why = SOME.refusal_of_store("osd.3", 6).expect("refused");
        assert!(
            why.contains("level 6") && why.contains("4 at most") && why.contains("nothing was changed"),
            "{why}"
        );
    }

    #[test]
    fn levels_are_read_as_they_were_announced() {
        let mut metadata = BTreeMap::new();
        assert_eq!(Levels::announced(&metadata), Levels { oldest: 1, newest: 1 });
        SOME.announce(&mut metadata);
        assert_eq!(Levels::announced(&metadata), SOME);
    }
}
