//! Between metadata servers.

use maps::{Epoch, MdsRank};

wire::messages! {
    /// Anything between two ranks, encoded by the metadata server.
    pub struct MdsPeer = 0xe300 "mds_peer" [v 1/1] {
        /// The sender's rank.
        pub from: MdsRank,
        /// The sender's MDS map.
        pub epoch: Epoch,
        /// What it is; numbers of the metadata server's.
        pub op: u16,
        /// Encoded by the metadata server.
        pub payload: Vec<u8>,
    }
}
