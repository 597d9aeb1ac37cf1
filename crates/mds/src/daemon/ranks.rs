//! Other ranks: what is sent to them, and which there are.

use super::{Mds, Out};
use crate::rank::RankStatus;
use maps::{MdsMap, MdsRank, MdsState};
use node::{Msg, Output, Target};
use std::collections::BTreeMap;
use wire::EntityType;

impl Mds {
    /// Sends a message to another rank, if somebody holds it.
    pub(super) fn send_rank(&mut self, rank: MdsRank, body: peer::Body, out: &mut Out) {
        let Some(info) = self.map.up.get(&rank).and_then(|gid| self.map.mds_info.get(gid)) else { return };
        let conn = match self.links.get(rank) {
            Some(conn) => conn,
            None => {
                let Some(addr) = info.addrs.msgr2() else { return };
                let conn = self.links.add(rank, info.gid);
                let auth = self.cluster.monc().service_auth(EntityType::MDS);
                let to = Target { service: EntityType::MDS, addr, lossless: false, auth };
                out.push(Output::Connect { conn, to: Box::new(to) });
                conn
            }
        };
        out.push(Output::Send { conn, msg: Msg::new(0, body) });
    }

    /// Tells the rank which others there are.
    pub(super) fn tell_ranks(&mut self, now: stdx::Now, out: &mut Out) {
        out.extend(self.links.outdated(&self.map).into_iter().map(|conn| Output::Close { conn }));
        let own = self.map.mds_info.get(&self.gid()).map(|info| info.rank);
        let others = self.map.r#in.iter().filter(|rank| Some(**rank) != own);
        let status = |rank: &MdsRank| {
            let state = self.map.state_of(*rank);
            let (is_active, is_stopping) = (state.serves(), state == MdsState::STOPPING);
            let incarnation = self.map.inc.get(rank).copied().unwrap_or_default();
            (*rank, RankStatus { incarnation, is_active, is_stopping })
        };
        let ranks: BTreeMap<MdsRank, RankStatus> = others.map(status).collect();
        if let Some(rank) = &mut self.rank {
            rank.set_ranks(now, ranks);
            rank.set_balanced(self.map.flags & MdsMap::BALANCE_AUTOMATE != 0);
        }
    }
}
