//! `mon` capabilities.

use super::parser::Parser;
use super::{CapsError, Perm, mon_profiles};
use std::collections::BTreeMap;

/// What a principal may do at the monitors.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct MonCap {
    grants: Vec<MonGrant>,
}

/// One thing allowed. Profiles are expanded when parsed.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum MonGrant {
    /// On all services, or one (`mon`, `osd`, `mds`, `auth`, `pg`, `log`, `config-key`, …).
    Service { service: Option<String>, perm: Perm },
    /// `allow r fsname=NAME`: reads everything, but of the file systems sees only this one.
    FileSystem { name: String, perm: Perm },
    /// One command by prefix, its arguments as given.
    Command { prefix: String, args: BTreeMap<String, Constraint> },
}

#[derive(Clone, PartialEq, Debug)]
pub(super) enum Constraint {
    Equals(String),
    Prefix(String),
}

impl Constraint {
    fn holds(&self, value: &str) -> bool {
        match self {
            Self::Equals(v) => value == v,
            Self::Prefix(p) => value.starts_with(p.as_str()),
        }
    }
}

impl MonCap {
    /// Parses a capability string.
    pub fn parse(text: &str) -> Result<Self, CapsError> {
        let grants = Parser::grants(text, grant)?;
        Ok(Self { grants: grants.into_iter().flatten().collect() })
    }

    /// Whether it is `allow *`.
    pub fn is_allow_all(&self) -> bool {
        let all = MonGrant::Service { service: None, perm: Perm::ALL };
        self.grants.contains(&all)
    }

    /// Whether `perm` is granted on `service`; several grants add up.
    pub fn allows(&self, service: &str, perm: Perm) -> bool {
        let sum = self.grants.iter().fold(Perm::NONE, |sum, grant| match grant {
            MonGrant::Service { service: s, perm } if s.as_deref().is_none_or(|s| s == service) => {
                sum.and(*perm)
            }
            MonGrant::FileSystem { perm, .. } => sum.and(*perm),
            _ => sum,
        });
        sum.has(perm)
    }

    /// Whether the command `prefix` with `args`, which belongs to `service` and needs `perm` there, may run.
    pub fn allows_command(
        &self,
        service: &str,
        perm: Perm,
        prefix: &str,
        args: &BTreeMap<String, String>,
    ) -> bool {
        self.allows(service, perm)
            || self.grants.iter().any(|grant| match grant {
                MonGrant::Command { prefix: p, args: wanted } => {
                    p == prefix && wanted.iter().all(|(name, c)| args.get(name).is_some_and(|v| c.holds(v)))
                }
                MonGrant::Service { .. } | MonGrant::FileSystem { .. } => false,
            })
    }

    /// Whether the file system `name` may be seen.
    pub fn allows_fs(&self, name: &str) -> bool {
        let sees = |grant: &MonGrant| match grant {
            MonGrant::Service { service, perm } => {
                service.as_deref().is_none_or(|s| s == "mds" || s == "fs") && perm.has(Perm::R)
            }
            MonGrant::FileSystem { name: n, perm } => n == name && perm.has(Perm::R),
            MonGrant::Command { .. } => false,
        };
        self.grants.iter().any(sees)
    }
}

fn grant(p: &mut Parser<'_>) -> Result<Vec<MonGrant>, CapsError> {
    let allow = p.eat_word("allow");
    if p.eat_word("profile") {
        let at = p.error("");
        let name = p.value("a profile's name")?;
        return mon_profiles::expand(&name)
            .ok_or(CapsError { at: at.at, expected: format!("a known profile; found `{name}`") });
    }
    if !allow {
        return Err(p.error("`allow` or `profile`"));
    }
    if p.eat_word("service") {
        let service = Some(p.value("a service's name")?);
        let perm = p.perm().ok_or_else(|| p.error("a selection of `rwx`, or `*`"))?;
        return Ok(vec![MonGrant::Service { service, perm }]);
    }
    if p.eat_word("command") {
        let prefix = p.value("a command")?;
        return Ok(vec![MonGrant::Command { prefix, args: constraints(p)? }]);
    }
    let perm =
        p.perm().ok_or_else(|| p.error("`*`, a selection of `rwx`, `profile`, `service` or `command`"))?;
    if p.eat_word("fsname") {
        return Ok(vec![MonGrant::FileSystem { name: p.value("a file system's name")?, perm }]);
    }
    Ok(vec![MonGrant::Service { service: None, perm }])
}

/// `mgr` capabilities: those of `mon`, and profiles limited to a pool.
pub(super) fn check_mgr(text: &str) -> Result<(), CapsError> {
    Parser::grants(text, |p| {
        grant(p)?;
        while p.eat_word("pool") || p.eat_word("namespace") {
            p.value("a name")?;
        }
        Ok(())
    })
    .map(drop)
}

/// `with name=value name prefix value`.
fn constraints(p: &mut Parser<'_>) -> Result<BTreeMap<String, Constraint>, CapsError> {
    let mut out = BTreeMap::new();
    if !p.eat_word("with") {
        return Ok(out);
    }
    while !p.grant_ends() {
        let name = p.word("an argument's name")?;
        let constraint = if p.eat_word("prefix") {
            Constraint::Prefix(p.word("a prefix")?)
        } else if p.eat('=') {
            Constraint::Equals(p.word("a value")?)
        } else {
            return Err(p.error("`=` or `prefix`"));
        };
        out.insert(name, constraint);
    }
    Ok(out)
}
