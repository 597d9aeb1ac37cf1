//! What a scrub is to do.

/// Options of a scrub, as Ceph names them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ScrubOptions {
    /// Also everything below.
    pub recursive: bool,
    /// Put right what can be told from the rest: statistics, and the inode index.
    pub repair: bool,
    /// With `repair`: give up what can't be read, so that its directory can be used again.
    pub force: bool,
}

impl ScrubOptions {
    /// Parses a list with commas; the word that is none.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut out = Self::default();
        for word in text.split(',').filter(|word| !word.is_empty()) {
            match word {
                "recursive" => out.recursive = true,
                "repair" => out.repair = true,
                "force" => out.force = true,
                other => return Err(other.to_owned()),
            }
        }
        Ok(out)
    }

    /// The list again.
    pub(super) fn text(self) -> String {
        let words = [(self.recursive, "recursive"), (self.repair, "repair"), (self.force, "force")];
        words.into_iter().filter_map(|(is_set, word)| is_set.then_some(word)).collect::<Vec<_>>().join(",")
    }
}
