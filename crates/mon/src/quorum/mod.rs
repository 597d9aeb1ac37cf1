//! A monitor's view of the other monitors: connections ([`links`]), the leader ([`standing`]), the quorum
//! ([`info`]), requests and sessions of clients at monitors that do not lead ([`requests`], [`proxies`]), and
//! snapshots for monitors that are far behind ([`snapshots`]). The actions on it are in [`crate::mon`].

pub(crate) mod codec;
pub(crate) mod info;
pub(crate) mod links;
pub(crate) mod proxies;
pub(crate) mod requests;
pub(crate) mod snapshots;
pub(crate) mod standing;
mod watch;

pub use watch::{Seen, seen};
