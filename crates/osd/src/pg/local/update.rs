//! An update as it is sent.

use crate::pg::info::Stats;
use crate::pg::log::Entry;
use wire::wire_structs;

wire_structs! {
    /// An update as all members append it.
    pub struct Update[v 1/1] {
        /// Entry for the log.
        pub entry: Entry,
        /// Statistics of the PG afterwards.
        pub stats: Stats,
        /// User version of the PG afterwards.
        pub last_user_version: u64,
    }
}
