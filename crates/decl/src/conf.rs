//! Configuration files as Ceph writes them: INI with `[global]`, `[osd]`, `[osd.0]` sections, where blanks,
//! dashes and underscores in a key mean the same.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use wire::{AddrType, EntityAddr, EntityName};

/// Port of a monitor whose address gives none.
pub const MON_PORT: u16 = 3300;

/// A parsed file.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Conf {
    sections: BTreeMap<String, BTreeMap<String, String>>,
}

/// A line that can't be read, or a value that can't be used.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ConfError {
    /// Line number, counted from 1; 0 if no single line is at fault.
    pub line: usize,
    /// The expected syntax.
    pub what: String,
}

impl std::fmt::Display for ConfError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.line {
            0 => f.write_str(&self.what),
            line => write!(f, "line {line}: {}", self.what),
        }
    }
}

impl std::error::Error for ConfError {}

impl Conf {
    /// Parses a file.
    pub fn parse(text: &str) -> Result<Self, ConfError> {
        let mut out = Self::default();
        let mut section = "global".to_owned();
        let mut continued = String::new();
        for (i, raw) in text.lines().enumerate() {
            let raw = match raw.strip_suffix('\\') {
                Some(part) => {
                    continued.push_str(part);
                    continue;
                }
                None => std::mem::take(&mut continued) + raw,
            };
            let line = strip_comment(&raw).trim();
            if line.is_empty() {
                continue;
            }
            let fail = |what: String| ConfError { line: i + 1, what };
            if let Some(name) = line.strip_prefix('[').and_then(|l| l.strip_suffix(']')) {
                section = name.trim().to_owned();
                continue;
            }
            let (key, value) =
                line.split_once('=').ok_or_else(|| fail("expected [section] or name = value".to_owned()))?;
            let value = value.trim();
            let value = value.strip_prefix('"').and_then(|v| v.strip_suffix('"')).unwrap_or(value);
            out.sections.entry(section.clone()).or_default().insert(normal(key), value.to_owned());
        }
        Ok(out)
    }

    /// The value of `key` for `name`: of `[type.id]`, else `[type]`, else `[global]`; `$name`, `$type`, `$id`
    /// and `$cluster` are filled in.
    pub fn get(&self, name: &EntityName, key: &str) -> Option<String> {
        let key = normal(key);
        let own = name.to_string();
        let value =
            [own.as_str(), name.ty.name(), "global"].iter().find_map(|s| self.sections.get(*s)?.get(&key))?;
        let filled = value
            .replace("$name", &own)
            .replace("$type", name.ty.name())
            .replace("$id", &name.id)
            .replace("$cluster", "ceph");
        Some(filled)
    }

    /// All sections with their values, by key with underscores; nothing is filled in.
    pub fn sections(&self) -> &BTreeMap<String, BTreeMap<String, String>> {
        &self.sections
    }

    /// All values for `name`, by key with underscores; as [`Self::get`] gives them.
    pub fn all(&self, name: &EntityName) -> BTreeMap<String, String> {
        let own = name.to_string();
        let sections = ["global", name.ty.name(), own.as_str()];
        let keys = sections.iter().filter_map(|s| self.sections.get(*s)).flat_map(BTreeMap::keys);
        keys.filter_map(|key| Some((key.clone(), self.get(name, key)?))).collect()
    }

    /// The monitors' msgr2 addresses from `mon host`, in the order given.
    pub fn mon_hosts(&self, name: &EntityName) -> Result<Vec<EntityAddr>, ConfError> {
        let fail = |what: String| ConfError { line: 0, what };
        let value = self
            .get(name, "mon_host")
            .ok_or_else(|| fail("no `mon host` in [global]: add the monitors' addresses".into()))?;
        let mut out = Vec::new();
        for item in value.split([',', ' ', ';']).map(without_list_brackets).filter(|s| !s.is_empty()) {
            if !item.starts_with("v1:") {
                out.push(
                    parse_host(item).ok_or_else(|| fail(format!("`mon host`: `{item}` is no address")))?,
                );
            }
        }
        if out.is_empty() {
            return Err(fail(format!("`mon host = {value}` names no msgr2 address (v2:IP:PORT)")));
        }
        Ok(out)
    }

    /// True if `name` must authenticate by cephx, which is the default; false if it trusts everybody
    /// (`none`).
    pub fn uses_cephx(&self, name: &EntityName) -> bool {
        let value =
            self.get(name, "auth_client_required").or_else(|| self.get(name, "auth_cluster_required"));
        value.is_none_or(|v| v.split([',', ' ']).any(|m| m.trim() == "cephx"))
    }
}

/// A member of `[v2:…,v1:…]` without the list's brackets, but with those of an IPv6 address.
fn without_list_brackets(item: &str) -> &str {
    let item = item.trim();
    let item = if item.starts_with("[v") { &item[1..] } else { item };
    let closes = item.matches(']').count() > item.matches('[').count();
    if closes { item.strip_suffix(']').unwrap_or(item) } else { item }
}

/// A monitor's address as `mon host` has it: `IP`, `IP:PORT`, `v2:IP:PORT`. The port is 3300 if there is
/// none.
pub fn parse_host(item: &str) -> Option<EntityAddr> {
    let bare = item.strip_prefix("v2:").unwrap_or(item);
    let bare = bare.split('/').next().unwrap_or(bare);
    let addr = match bare.parse::<SocketAddr>() {
        Ok(addr) => addr,
        Err(_) => SocketAddr::new(bare.trim_matches(['[', ']']).parse::<IpAddr>().ok()?, MON_PORT),
    };
    Some(EntityAddr { ty: AddrType::MSGR2, nonce: 0, addr: Some(addr) })
}

/// Everything from the first `#` or `;` that is not escaped.
fn strip_comment(line: &str) -> &str {
    let mut escaped = false;
    for (i, c) in line.char_indices() {
        match c {
            '#' | ';' if !escaped => return &line[..i],
            _ => escaped = c == '\\' && !escaped,
        }
    }
    line
}

fn normal(key: &str) -> String {
    key.trim()
        .split([' ', '_', '-', '\t'])
        .filter(|w| !w.is_empty())
        .collect::<Vec<_>>()
        .join("_")
        .to_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::EntityType;

    const FILE: &str = "# a comment\n[global]\nfsid = 1234\nmon host = [v2:10.0.0.1:3300/0,v1:10.0.0.1:6789/0] 10.0.0.2 [v2:[::1]:3301]\n\
        keyring = /d/$name.keyring ; another\n[osd]\n  osd-max backfills = 3\n[osd.0]\nosd_max_backfills = \"4\"\n";

    fn osd(id: &str) -> EntityName {
        EntityName::new(EntityType::OSD, id)
    }

    #[test]
    fn the_narrowest_section_wins_and_spellings_are_one() {
        let conf = Conf::parse(FILE).expect("parses");
        assert_eq!(conf.get(&osd("0"), "osd max backfills").as_deref(), Some("4"));
        assert_eq!(conf.get(&osd("1"), "osd_max_backfills").as_deref(), Some("3"));
        assert_eq!(conf.get(&osd("1"), "keyring").as_deref(), Some("/d/osd.1.keyring"));
        assert_eq!(conf.get(&osd("1"), "nothing"), None);
        assert_eq!(conf.all(&osd("0"))["osd_max_backfills"], "4");
    }

    #[test]
    fn monitors_are_listed_without_their_old_protocol() {
        let hosts = Conf::parse(FILE).expect("parses").mon_hosts(&osd("0")).expect("addresses");
        let hosts: Vec<String> = hosts.iter().map(ToString::to_string).collect();
        assert_eq!(hosts, ["v2:10.0.0.1:3300/0", "v2:10.0.0.2:3300/0", "v2:[::1]:3301/0"]);
    }

    #[test]
    fn says_which_line_is_wrong() {
        assert_eq!(Conf::parse("[global]\nnonsense\n").expect_err("no value").line, 2);
        // The offending text may be a key.
        let error = Conf::parse("[global]\nkey AQAr8AFr\n").expect_err("no value").to_string();
        assert!(!error.contains("AQAr8AFr"), "{error}");
        let none = Conf::parse("[global]\nfsid = 1\n").expect("parses");
        assert!(none.mon_hosts(&osd("0")).expect_err("missing").to_string().contains("mon host"));
    }

    #[test]
    fn cephx_is_the_default() {
        assert!(Conf::parse("").expect("parses").uses_cephx(&osd("0")));
        assert!(!Conf::parse("auth client required = none").expect("parses").uses_cephx(&osd("0")));
    }
}
