//! What a monitor knows of the others: connections ([`links`]), the leader ([`standing`]), who is in quorum
//! ([`info`]), requests and sessions of clients at monitors that do not lead ([`requests`], [`proxies`]), and
//! whole states for monitors that are far behind ([`snapshots`]). What is done with it is in [`crate::mon`].

pub(crate) mod codec;
pub(crate) mod info;
pub(crate) mod links;
pub(crate) mod proxies;
pub(crate) mod requests;
pub(crate) mod snapshots;
pub(crate) mod standing;
mod watch;

pub use watch::{Seen, seen};
