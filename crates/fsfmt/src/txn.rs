//! The ids of transactions between ranks: changes of what two or more ranks are authoritative for.

use maps::MdsRank;
use std::fmt;

wire::wire_structs! {
    /// The id of a transaction between ranks.
    #[derive(Copy, Eq, PartialOrd, Ord)]
    pub struct TxnId[plain] {
        /// The rank that coordinates it.
        pub coordinator: MdsRank,
        /// Its number there; never used twice.
        pub number: u64,
    }
}

/// The omap key of a transaction in a rank's table of prepared ones.
pub fn txn_key(txn: TxnId) -> Vec<u8> {
    format!("{:08x}.{:016x}", txn.coordinator.0, txn.number).into_bytes()
}

impl fmt::Display for TxnId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.coordinator, self.number)
    }
}
