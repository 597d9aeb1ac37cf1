//! Capability strings: parsed once into a list of grants, and the questions that a role asks of them.

mod mds;
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
        // Nacre has no mgr: its capabilities are those of a monitor, which answers in its place.
        "mgr" => mon::check_mgr(text),
        other => Err(CapsError { at: 0, expected: format!("one of mon, osd, mds, mgr; found `{other}`") }),
    }
}
