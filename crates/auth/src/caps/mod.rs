//! Capability strings: parsed once into a list of grants, and the questions that a role asks of them.

mod mds;
mod mgr;
mod mon;
mod mon_grant;
mod mon_profiles;
mod network;
mod osd;
mod parser;
mod perm;
#[cfg(test)]
mod table_tests;
#[cfg(test)]
mod tests;

pub use mds::{Access, Caller, MdsCap};
pub use mgr::MgrCap;
pub use mon::MonCap;
pub use osd::{ClassCall, OsdCap, OsdTarget};
pub use parser::CapsError;
pub use perm::Perm;

/// Checks one `service`'s capability string, as `ceph auth` does before it stores it.
pub fn check_caps(service: &str, text: &str) -> Result<(), CapsError> {
    match service {
        "mon" => MonCap::parse(text).map(drop),
        "osd" => OsdCap::parse(text).map(drop),
        "mds" => MdsCap::parse(text).map(drop),
        "mgr" => MgrCap::parse(text).map(drop),
        other => Err(CapsError { at: 0, expected: format!("one of mon, osd, mds, mgr; found `{other}`") }),
    }
}
