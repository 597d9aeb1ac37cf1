//! The `.meta` file of a subvolume, in the form that Ceph's module `volumes` reads and writes: sections of
//! `key = value`. Keys are in lower case; a `%` is doubled; further lines of a value begin with a tab.

use std::fmt;

/// The section of the subvolume itself.
pub(crate) const GLOBAL: &str = "GLOBAL";
/// The section of the user's values.
pub(crate) const USER: &str = "USER_METADATA";
/// The section that names the origin of a clone.
pub(crate) const SOURCE: &str = "source";
/// The section of clones that are being made: number to snapshot.
pub(crate) const CLONES: &str = "clone snaps";
/// The section that says why a clone failed.
pub(crate) const FAILURE: &str = "CLONE_FAILURE";

/// The section of the user's values of a snapshot.
pub(crate) fn snapshot_section(snap: &str) -> String {
    format!("SNAP_METADATA_{snap}")
}

/// The content of a `.meta` file; sections and keys keep their order.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Meta {
    sections: Vec<(String, Vec<(String, String)>)>,
}

impl Meta {
    /// Reads a file. `None` if it has another form.
    pub fn parse(text: &str) -> Option<Self> {
        let mut out = Self::default();
        for line in text.lines() {
            if line.trim().is_empty() || line.starts_with(['#', ';']) {
                continue;
            }
            if let Some(name) = line.strip_prefix('[') {
                out.sections.push((name.strip_suffix(']')?.to_owned(), Vec::new()));
                continue;
            }
            let (_, items) = out.sections.last_mut()?;
            if line.starts_with([' ', '\t']) {
                let (_, value) = items.last_mut()?;
                value.push('\n');
                value.push_str(&line.trim_start().replace("%%", "%"));
                continue;
            }
            let (key, value) = match line.split_once(" = ") {
                Some(pair) => pair,
                None => line.split_once(['=', ':'])?,
            };
            items.push((key.trim().to_lowercase(), value.trim().replace("%%", "%")));
        }
        Some(out)
    }

    fn section(&self, section: &str) -> Option<&Vec<(String, String)>> {
        self.sections.iter().find(|(name, _)| name == section).map(|(_, items)| items)
    }

    /// A value.
    pub fn get(&self, section: &str, key: &str) -> Option<&str> {
        let key = key.to_lowercase();
        self.section(section)?.iter().find(|(k, _)| *k == key).map(|(_, value)| value.as_str())
    }

    /// All keys and values of a section.
    pub fn items(&self, section: &str) -> &[(String, String)] {
        self.section(section).map_or(&[], Vec::as_slice)
    }

    /// Sets a value.
    pub fn set(&mut self, section: &str, key: &str, value: impl Into<String>) {
        let at = self.sections.iter().position(|(name, _)| name == section).unwrap_or_else(|| {
            self.sections.push((section.to_owned(), Vec::new()));
            self.sections.len() - 1
        });
        let (key, value) = (key.to_lowercase(), value.into());
        let items = &mut self.sections[at].1;
        match items.iter_mut().find(|(k, _)| *k == key) {
            Some((_, old)) => *old = value,
            None => items.push((key, value)),
        }
    }

    /// Removes a value; false if there was none.
    pub fn remove(&mut self, section: &str, key: &str) -> bool {
        let key = key.to_lowercase();
        let Some((_, items)) = self.sections.iter_mut().find(|(name, _)| name == section) else {
            return false;
        };
        let before = items.len();
        items.retain(|(k, _)| *k != key);
        items.len() < before
    }

    /// Removes a section.
    pub fn remove_section(&mut self, section: &str) {
        self.sections.retain(|(name, _)| name != section);
    }
}

impl fmt::Display for Meta {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, items) in self.sections.iter().filter(|(_, items)| !items.is_empty()) {
            writeln!(f, "[{name}]")?;
            for (key, value) in items {
                writeln!(f, "{key} = {}", value.replace('%', "%%").replace('\n', "\n\t"))?;
            }
            writeln!(f)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As Ceph 16.2 writes it.
    const CEPHS: &str = "[GLOBAL]\nversion = 2\ntype = subvolume\npath = /volumes/_nogroup/a/b0c\n\
                         state = complete\n\n[USER_METADATA]\nk/1 = v: 50%% = x\n\n";

    #[test]
    fn what_ceph_writes_is_read_and_written_alike() {
        let mut meta = Meta::parse(CEPHS).expect("is read");
        assert_eq!(meta.get(GLOBAL, "path"), Some("/volumes/_nogroup/a/b0c"));
        assert_eq!(meta.get(USER, "K/1"), Some("v: 50% = x"));
        assert_eq!(meta.to_string(), CEPHS);
        assert!(meta.remove(USER, "k/1") && !meta.remove(USER, "k/1"));
        meta.set(GLOBAL, "path", "");
        meta.set(SOURCE, "volume", "two\nlines");
        let again = Meta::parse(&meta.to_string()).expect("is read");
        assert_eq!((again.get(GLOBAL, "path"), again.get(SOURCE, "volume")), (Some(""), Some("two\nlines")));
        assert!(again.items(USER).is_empty() && !meta.to_string().contains(USER));
    }

    #[test]
    fn another_form_is_refused() {
        for text in ["key = value", "[GLOBAL", "[A]\nword", " x"] {
            assert_eq!(Meta::parse(text), None, "{text:?}");
        }
        assert_eq!(Meta::parse(""), Some(Meta::default()));
    }
}
