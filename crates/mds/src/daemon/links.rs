//! Connections to other ranks. Each server opens its own for what it has to say; what is lost with one is
//! repeated by the rank.

use maps::{Gid, MdsMap, MdsRank};
use monc::ConnSpace;
use node::ConnId;
use std::collections::BTreeMap;

/// Open connections, or such that are being opened.
pub(super) struct Links {
    conns: ConnSpace,
    by_rank: BTreeMap<MdsRank, (Gid, ConnId)>,
}

impl Links {
    /// None yet; `space` is our share of the connection numbers.
    pub fn new(space: u8) -> Self {
        Self { conns: ConnSpace::new(space), by_rank: BTreeMap::new() }
    }

    /// True if a connection is one of these.
    pub fn owns(&self, conn: ConnId) -> bool {
        self.conns.owns(conn)
    }

    /// A connection is gone.
    pub fn closed(&mut self, conn: ConnId) {
        self.by_rank.retain(|_, (_, open)| *open != conn);
    }

    /// Forgets the connections to servers that do not hold their ranks any more, and returns them.
    pub fn outdated(&mut self, map: &MdsMap) -> Vec<ConnId> {
        let gone = self.by_rank.extract_if(.., |rank, (gid, _)| map.up.get(rank) != Some(gid));
        gone.map(|(_, (_, conn))| conn).collect()
    }

    /// The connection to a rank, if there is one.
    pub fn get(&self, rank: MdsRank) -> Option<ConnId> {
        self.by_rank.get(&rank).map(|(_, conn)| *conn)
    }

    /// A new connection to the server that holds a rank.
    pub fn add(&mut self, rank: MdsRank, gid: Gid) -> ConnId {
        let conn = self.conns.next_id();
        self.by_rank.insert(rank, (gid, conn));
        conn
    }
}
