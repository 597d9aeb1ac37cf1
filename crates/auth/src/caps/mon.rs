//! `mon` capabilities.

use super::mon_grant::{Constraint, MonGrant};
use super::mon_profiles;
use super::network::Placed;
use super::parser::{CapsError, Parser};
use super::perm::Perm;
use std::collections::BTreeMap;
use std::net::IpAddr;
use wire::EntityName;

/// A principal's permissions at the monitors.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct MonCap {
    grants: Vec<Placed<MonGrant>>,
}

impl MonCap {
    pub(super) fn of_grants(grants: Vec<Placed<MonGrant>>) -> Self {
        Self { grants }
    }

    /// Parses a capability string.
    pub fn parse(text: &str) -> Result<Self, CapsError> {
        let grants = Parser::grants(text, |p| {
            let grants = grant(p)?;
            Placed::parse(p, grants)
        })?;
        Ok(Self { grants: grants.into_iter().flatten().collect() })
    }

    /// The part that counts for the principal `name` connected from `from`. Grants for a network or for the
    /// principal's own keys allow nothing before this call.
    #[must_use]
    pub fn for_peer(self, name: &EntityName, from: Option<IpAddr>) -> Self {
        let mut grants = Placed::seen_from(self.grants, from);
        for placed in &mut grants {
            if let MonGrant::Command { args, .. } = &mut placed.grant {
                for constraint in args.values_mut().filter(|c| **c == Constraint::Private) {
                    *constraint = Constraint::Prefix(format!("daemon-private/{name}/"));
                }
            }
        }
        Self { grants }
    }

    fn grants(&self) -> impl Iterator<Item = &MonGrant> {
        Placed::everywhere(&self.grants)
    }

    /// True if it is `allow *`.
    pub fn is_allow_all(&self) -> bool {
        self.grants().any(|g| *g == MonGrant::Service { service: None, perm: Perm::ALL })
    }

    /// The permissions on `service`; several grants add up.
    fn on_service(&self, service: &str) -> Perm {
        if self.is_allow_all() {
            return Perm::ALL;
        }
        // Secrets are kept there: what is granted on everything means them only where it is `*`.
        let blanket = service != "config-key";
        self.grants().fold(Perm::NONE, |sum, grant| match grant {
            MonGrant::Service { service: Some(s), perm } if s == service => sum.and(*perm),
            MonGrant::Service { service: None, perm } | MonGrant::FileSystem { perm, .. } if blanket => {
                sum.and(*perm)
            }
            _ => sum,
        })
    }

    /// True if `perm` is granted on `service`.
    pub fn allows(&self, service: &str, perm: Perm) -> bool {
        self.on_service(service).has(perm)
    }

    /// True if the command `prefix` with `args`, which belongs to `service` and needs `perm` there, may run.
    pub fn allows_command(
        &self,
        service: &str,
        perm: Perm,
        prefix: &str,
        args: &BTreeMap<String, String>,
    ) -> bool {
        self.allows(service, perm)
            || self.grants().any(|grant| match grant {
                MonGrant::Command { prefix: p, args: wanted } => {
                    p == prefix && wanted.iter().all(|(name, c)| args.get(name).is_some_and(|v| c.holds(v)))
                }
                MonGrant::Service { .. } | MonGrant::FileSystem { .. } => false,
            })
    }

    /// True if `perm` is granted on the file system `name`.
    pub fn allows_fs(&self, name: &str, perm: Perm) -> bool {
        self.grants().any(|grant| match grant {
            MonGrant::FileSystem { name: n, perm: p } => n == name && p.has(perm),
            other => is_on_all_fs(other, perm),
        })
    }

    /// True if there are grants for file systems by name: then each of them is checked.
    pub fn names_fs(&self) -> bool {
        self.grants().any(|g| matches!(g, MonGrant::FileSystem { .. }))
    }

    /// True if there are file systems that it must not see.
    pub fn hides_fs(&self) -> bool {
        self.names_fs() && !self.grants().any(|g| is_on_all_fs(g, Perm::R))
    }
}

fn is_on_all_fs(grant: &MonGrant, perm: Perm) -> bool {
    let MonGrant::Service { service, perm: p } = grant else { return false };
    service.as_deref().is_none_or(|s| s == "mds" || s == "fs") && p.has(perm)
}

/// Reads one grant of `mon` or `mgr`, without a network behind it.
pub(super) fn grant(p: &mut Parser<'_>) -> Result<Vec<MonGrant>, CapsError> {
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

/// `with name=value name prefix value`.
fn constraints(p: &mut Parser<'_>) -> Result<BTreeMap<String, Constraint>, CapsError> {
    let mut out = BTreeMap::new();
    if !p.eat_word("with") {
        return Ok(out);
    }
    while !p.grant_ends() && (out.is_empty() || p.peek() != "network") {
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
    match out.is_empty() {
        true => Err(p.error("an argument's name")),
        false => Ok(out),
    }
}
