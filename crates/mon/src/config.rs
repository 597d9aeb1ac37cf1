//! What a monitor is told when it is made, and how options are looked up.

use decl::options;
use maps::MonMap;
use std::collections::BTreeMap;
use std::time::Duration;

/// A monitor's place in its cluster and its options.
#[derive(Clone, Debug)]
pub struct MonConfig {
    /// `a` of `mon.a`.
    pub name: String,
    /// The first map of monitors: fsid, names and addresses. An existing store's own map wins over all but the fsid.
    pub monmap: MonMap,
    /// Keys that a new cluster begins with: at least `mon.` and `client.admin`, with their capabilities.
    pub keyring: auth::Keyring,
    /// Methods that clients and daemons may authenticate with, the preferred one first.
    pub methods: Vec<auth::Method>,
    /// Options of the configuration file and command line, which win over those set with `ceph config set`.
    pub options: BTreeMap<String, String>,
    /// Name of this host, for `mon metadata` and `node ls`.
    pub hostname: String,
    /// The device that the store is on.
    pub disk: node::DiskInfo,
}

/// Options as one daemon of the given name sees them: file and command line, then those set centrally, then defaults.
pub(crate) fn lookup(
    local: &BTreeMap<String, String>,
    central: &BTreeMap<(String, String), String>,
    sections: &[&str],
    name: &str,
) -> String {
    if let Some(value) = local.get(name) {
        return value.clone();
    }
    // The most specific section wins: they are listed from general to specific.
    let set = sections.iter().rev().find_map(|s| central.get(&((*s).to_owned(), name.to_owned())));
    match set {
        Some(value) => value.clone(),
        None => options::find(name).map_or_else(String::new, |o| o.default.to_owned()),
    }
}

/// The sections that apply to an entity (`osd.3`): general first.
pub(crate) fn sections(entity: &str) -> Vec<String> {
    let ty = entity.split('.').next().unwrap_or_default();
    let mut out = vec!["global".to_owned(), ty.to_owned()];
    if entity.contains('.') {
        out.push(entity.to_owned());
    }
    out
}

/// The value of an option with its type.
pub(crate) trait FromOption: Sized {
    /// Parses a value that was checked when it was set.
    fn from_option(text: &str) -> Option<Self>;
}

impl FromOption for u64 {
    fn from_option(text: &str) -> Option<Self> {
        options::parse_size(text)
    }
}

impl FromOption for f64 {
    fn from_option(text: &str) -> Option<Self> {
        text.trim().parse().ok()
    }
}

impl FromOption for bool {
    fn from_option(text: &str) -> Option<Self> {
        options::parse_bool(text)
    }
}

impl FromOption for Duration {
    fn from_option(text: &str) -> Option<Self> {
        options::parse_secs(text)
    }
}

impl FromOption for String {
    fn from_option(text: &str) -> Option<Self> {
        Some(text.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_wins_over_the_specific_section_over_the_general_one() {
        let name = "osd_pool_default_size";
        let key = |section: &str| (section.to_owned(), name.to_owned());
        let mut central = BTreeMap::from([(key("global"), "2".to_owned())]);
        let mut local = BTreeMap::new();
        let sections = ["global", "mon", "mon.a"];
        assert_eq!(lookup(&local, &BTreeMap::new(), &sections, name), "3");
        assert_eq!(lookup(&local, &central, &sections, name), "2");
        central.insert(key("mon.a"), "4".to_owned());
        assert_eq!(lookup(&local, &central, &sections, name), "4");
        local.insert(name.to_owned(), "5".to_owned());
        assert_eq!(lookup(&local, &central, &sections, name), "5");
    }

    #[test]
    fn sections_go_from_general_to_specific() {
        assert_eq!(super::sections("osd.3"), ["global", "osd", "osd.3"]);
        assert_eq!(super::sections("client"), ["global", "client"]);
    }
}
