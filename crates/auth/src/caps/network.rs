//! `network 10.0.0.0/8`: a grant for those who connect from there.

use super::parser::{CapsError, Parser};
use std::net::IpAddr;

/// A subnet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Network {
    ip: IpAddr,
    bits: u32,
}

/// A grant and the network for which it counts.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Placed<G> {
    pub grant: G,
    /// The network, until it is checked: such a grant allows nothing.
    network: Option<Network>,
}

impl<G> Placed<G> {
    /// All of `grants`, under the clause `network` if one follows.
    pub fn parse(p: &mut Parser<'_>, grants: Vec<G>) -> Result<Vec<Self>, CapsError> {
        let network = match p.eat_word("network") {
            true => Some(Network::parse(p)?),
            false => None,
        };
        Ok(grants.into_iter().map(|grant| Self { grant, network }).collect())
    }

    /// The grants that count for a peer at `from`, with no check left.
    pub fn seen_from(list: Vec<Self>, from: Option<IpAddr>) -> Vec<Self> {
        let counts = |p: &Self| p.network.is_none_or(|n| from.is_some_and(|ip| n.contains(ip)));
        list.into_iter().filter(counts).map(|p| Self { network: None, ..p }).collect()
    }

    /// The grants that count from everywhere.
    pub fn everywhere(list: &[Self]) -> impl Iterator<Item = &G> {
        list.iter().filter(|p| p.network.is_none()).map(|p| &p.grant)
    }
}

impl Network {
    fn parse(p: &mut Parser<'_>) -> Result<Self, CapsError> {
        let at = p.error("").at;
        let word = p.value("a subnet, as 10.0.0.0/8")?;
        let parsed = word.split_once('/').and_then(|(ip, bits)| {
            let ip: IpAddr = ip.trim_start_matches('[').trim_end_matches(']').parse().ok()?;
            let bits: u32 = bits.parse().ok()?;
            (bits <= if ip.is_ipv4() { 32 } else { 128 }).then_some(Self { ip, bits })
        });
        parsed.ok_or_else(|| CapsError { at, expected: format!("a subnet, as 10.0.0.0/8; found `{word}`") })
    }

    fn contains(self, ip: IpAddr) -> bool {
        let same = |a: u128, b: u128, len: u32| self.bits == 0 || (a ^ b) >> (len - self.bits) == 0;
        match (self.ip, ip.to_canonical()) {
            (IpAddr::V4(a), IpAddr::V4(b)) => same(a.to_bits().into(), b.to_bits().into(), 32),
            (IpAddr::V6(a), IpAddr::V6(b)) => same(a.to_bits(), b.to_bits(), 128),
            _ => false,
        }
    }
}
