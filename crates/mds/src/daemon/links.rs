//! Connections to other ranks. Each server opens its own for what it has to say; what is lost with one is
//! repeated by the rank.

use super::{LINKS_SPACE, Mds, Out};
use crate::rank::RankStatus;
use maps::{Gid, MdsMap, MdsRank, MdsState};
use monc::ConnSpace;
use node::{ConnId, Msg, Output, Target};
use std::collections::BTreeMap;
use wire::EntityType;

/// Open connections, or such that are being opened.
pub(super) struct Links {
    conns: ConnSpace,
    by_rank: BTreeMap<MdsRank, (Gid, ConnId)>,
}

impl Links {
    pub fn new() -> Self {
        Self { conns: ConnSpace::new(LINKS_SPACE), by_rank: BTreeMap::new() }
    }

    /// True if a connection is one of these.
    pub fn owns(&self, conn: ConnId) -> bool {
        self.conns.owns(conn)
    }

    /// A connection is gone.
    pub fn closed(&mut self, conn: ConnId) {
        self.by_rank.retain(|_, (_, open)| *open != conn);
    }

    /// Closes the connections to servers that do not hold their ranks any more.
    pub fn map_changed(&mut self, map: &MdsMap, out: &mut Out) {
        self.by_rank.retain(|rank, (gid, conn)| {
            let is_held = map.up.get(rank) == Some(gid);
            if !is_held {
                out.push(Output::Close { conn: *conn });
            }
            is_held
        });
    }
}

impl Mds {
    /// Sends a message to another rank, if somebody holds it.
    pub(super) fn send_rank(&mut self, rank: MdsRank, body: peer::Body, out: &mut Out) {
        let Some(info) = self.map.up.get(&rank).and_then(|gid| self.map.mds_info.get(gid)) else { return };
        let conn = match self.links.by_rank.get(&rank) {
            Some((_, conn)) => *conn,
            None => {
                let Some(addr) = info.addrs.msgr2() else { return };
                let conn = self.links.conns.next_id();
                let auth = self.cluster.monc().service_auth(EntityType::MDS);
                let to = Target { service: EntityType::MDS, addr, lossless: false, auth };
                out.push(Output::Connect { conn, to: Box::new(to) });
                self.links.by_rank.insert(rank, (info.gid, conn));
                conn
            }
        };
        out.push(Output::Send { conn, msg: Msg::new(0, body) });
    }

    /// Tells the rank which others there are.
    pub(super) fn tell_ranks(&mut self, now: stdx::Now, out: &mut Out) {
        self.links.map_changed(&self.map, out);
        let own = self.map.mds_info.get(&self.gid()).map(|info| info.rank);
        let others = self.map.up.iter().filter(|(rank, _)| Some(**rank) != own);
        let status = |(rank, gid): (&MdsRank, &Gid)| {
            let info = self.map.mds_info.get(gid)?;
            let is_active = matches!(info.state, MdsState::ACTIVE);
            Some((*rank, RankStatus { incarnation: info.inc, is_active }))
        };
        let ranks: BTreeMap<MdsRank, RankStatus> = others.filter_map(status).collect();
        if let Some(rank) = &mut self.rank {
            rank.set_ranks(now, ranks);
        }
    }
}
