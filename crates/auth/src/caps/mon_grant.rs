//! What a `mon` capability allows, and the conditions on the arguments of a command.

use super::parser::Parser;
use super::perm::Perm;
use std::collections::BTreeMap;

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

/// The condition on an argument; the argument must be present.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum Constraint {
    Equals(String),
    Prefix(String),
    /// Starts with `daemon-private/NAME/`, where NAME is the principal's own.
    Private,
    /// One client, `ADDR/NONCE`: not a whole host or network.
    OneClient,
    /// `osd` capabilities made of nothing but profiles of rbd, each for one pool at most.
    RbdProfiles,
}

impl Constraint {
    pub(super) fn holds(&self, value: &str) -> bool {
        match self {
            Self::Equals(v) => value == v,
            Self::Prefix(p) => value.starts_with(p.as_str()),
            Self::Private => false,
            Self::OneClient => value.split_once('/').is_some_and(|(addr, nonce)| {
                !addr.is_empty() && !nonce.is_empty() && nonce.bytes().all(|b| b.is_ascii_digit())
            }),
            Self::RbdProfiles => is_rbd_profiles(value),
        }
    }
}

fn is_rbd_profiles(text: &str) -> bool {
    let profile = |p: &mut Parser<'_>| {
        if !p.eat_word("profile") || !p.value("a profile")?.starts_with("rbd") {
            return Err(p.error("a profile of rbd"));
        }
        if p.eat_word("pool") {
            p.value("a pool")?;
        }
        Ok(())
    };
    Parser::grants(text, profile).is_ok_and(|grants| !grants.is_empty())
}
