//! `mgr` capabilities: the grammar of those of `mon`, profiles limited to a pool, and modules of Ceph's
//! manager.

use super::mon::{self, MonCap};
use super::mon_grant::MonGrant;
use super::network::Placed;
use super::parser::{CapsError, Parser};
use super::perm::Perm;
use std::collections::BTreeMap;
use std::net::IpAddr;
use wire::EntityName;

/// A principal's permissions at the manager.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct MgrCap(MonCap);

impl MgrCap {
    /// Parses a capability string.
    pub fn parse(text: &str) -> Result<Self, CapsError> {
        let grants = Parser::grants(text, |p| {
            let grants = grant(p)?;
            Placed::parse(p, grants)
        })?;
        Ok(Self(MonCap::of_grants(grants.into_iter().flatten().collect())))
    }

    /// The part that counts for the principal `name` connected from `from`.
    #[must_use]
    pub fn for_peer(self, name: &EntityName, from: Option<IpAddr>) -> Self {
        Self(self.0.for_peer(name, from))
    }

    /// True if it is `allow *`.
    pub fn is_allow_all(&self) -> bool {
        self.0.is_allow_all()
    }

    /// True if the command `prefix` with `args`, which belongs to `service` and needs `perm` there, may run.
    pub fn allows_command(
        &self,
        service: &str,
        perm: Perm,
        prefix: &str,
        args: &BTreeMap<String, String>,
    ) -> bool {
        self.0.allows_command(service, perm, prefix, args)
    }
}

fn grant(p: &mut Parser<'_>) -> Result<Vec<MonGrant>, CapsError> {
    let mut grants = mon::grant(p)?;
    while p.eat_word("pool") || p.eat_word("namespace") {
        p.value("a name")?;
        // Limited to a part of the cluster that no command of ours stays in.
        grants.clear();
    }
    Ok(grants)
}
