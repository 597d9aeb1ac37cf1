//! Capability strings: parsed once into a list of grants, and the questions that a role asks of them.

mod mds;
mod mon;
mod mon_profiles;
mod network;
mod osd;
mod parser;
#[cfg(test)]
mod table_tests;
#[cfg(test)]
mod tests;

pub use mds::{Access, Caller, MdsCap};
pub use mon::MonCap;
pub use osd::{ClassCall, OsdCap, OsdTarget};
pub use parser::CapsError;

/// Read, write and execute, as a set.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Perm(u8);

impl Perm {
    /// Nothing.
    pub const NONE: Self = Self(0);
    /// Read.
    pub const R: Self = Self(1);
    /// Write.
    pub const W: Self = Self(2);
    /// Execute: at a monitor commands that change authentication, at an OSD class methods that read or write.
    pub const X: Self = Self(4 | 8 | 16);
    /// Read and write.
    pub const RW: Self = Self(3);
    /// Class methods that read.
    pub const CLASS_READ: Self = Self(8);
    /// Class methods that write.
    pub const CLASS_WRITE: Self = Self(16);
    /// Everything, also what has no letter.
    pub const ALL: Self = Self(0xff);

    /// True if all of `other` is in it.
    pub fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Both together.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// `rwx` in any selection, `*` or `all`.
    fn parse(word: &str) -> Option<Self> {
        if word == "*" || word == "all" {
            return Some(Self::ALL);
        }
        let letter = |p: Option<Self>, c| match c {
            'r' => Some(p?.and(Self::R)),
            'w' => Some(p?.and(Self::W)),
            'x' => Some(p?.and(Self::X)),
            _ => None,
        };
        word.chars().fold(Some(Self::NONE), letter).filter(|p| *p != Self::NONE)
    }
}

/// Checks one `service`'s capability string, as `ceph auth` does before it stores it.
pub fn check_caps(service: &str, text: &str) -> Result<(), CapsError> {
    match service {
        "mon" => MonCap::parse(text).map(drop),
        "osd" => OsdCap::parse(text).map(drop),
        "mds" => MdsCap::parse(text).map(drop),
        // Nacre has no mgr: its capabilities are those of a monitor, which answers in its place.
        "mgr" => mon::check_mgr(text),
        other => Err(CapsError { at: 0, expected: format!("one of mon, osd, mds, mgr; found `{other}`") }),
    }
}
