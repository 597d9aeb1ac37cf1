//! Evicting clients: the monitors put one on the OSDs' blocklist, and when the map that says so is here its
//! session ends. An administrator may ask for it, or have used the blocklist directly.

use super::Mds;
use crate::rank::Rank;
use crate::types::ClientId;
use maps::OsdMap;
use msgs::{Body, ClientSession, session_op};
use stdx::{Bufs, Now};
use wire::{AddrType, AddrVec, EntityAddr, Errno};

impl Mds {
    /// `client evict`: the clients that an administrator names, as `id=NUMBER`, `NUMBER` or `*`.
    pub(super) fn evict_named(&mut self, command: &serde_json::Value) -> (i32, String) {
        let rank = match self.active_rank() {
            Ok(rank) => rank,
            Err(refusal) => return refusal,
        };
        let filters = command["filters"].as_array().map(Vec::as_slice).unwrap_or_default();
        let mut named: Vec<ClientId> = Vec::new();
        for filter in filters {
            let text = filter.as_str().unwrap_or_default();
            match text.strip_prefix("id=").unwrap_or(text) {
                "*" => named.extend(rank.clients()),
                number => match number.parse() {
                    Ok(id) => named.push(ClientId(id)),
                    Err(_) => {
                        let why = format!("`{text}` names no client: use id=NUMBER, or id=* for all");
                        return (Errno::EINVAL.to_result_code(), why);
                    }
                },
            }
        }
        if named.is_empty() {
            let why = "name the clients: id=NUMBER, as `session ls` shows it, or id=* for all".to_owned();
            return (Errno::EINVAL.to_result_code(), why);
        }
        named.into_iter().for_each(|client| rank.evict(client));
        (0, String::new())
    }

    /// Asks the monitors to blocklist a client at each of its addresses.
    pub(super) fn ask_eviction(&mut self, now: Now, client: ClientId, addrs: &AddrVec) {
        let Some(addr) = addrs.0.first() else {
            // It never had an address that OSDs could know.
            if let Some(rank) = &mut self.rank {
                rank.evicted(now, client);
            }
            return;
        };
        let token = self.next_token;
        self.next_token += 1;
        self.evictions.insert(token, (client, None));
        let text = EntityAddr { ty: AddrType::ANY, ..*addr }.legacy_string();
        let json = format!(r#"{{"prefix":"osd blocklist","blocklistop":"add","addr":"{text}"}}"#);
        self.with_cluster(|cluster, outs| {
            cluster.mon(now, outs, |monc, o| monc.command(token, json, Bufs::new(), o));
        });
    }

    /// Handles the monitors' answer: the client is refused from the newest OSD map on.
    pub(super) fn eviction_asked(&mut self, now: Now, token: u64) {
        let Some((_, epoch)) = self.evictions.get_mut(&token) else { return };
        match epoch {
            None => {
                // The command is answered once its map exists: any later map of ours contains it.
                *epoch = Some(self.cluster.engine().map().epoch.next());
            }
            Some(_) => return,
        }
        self.finish_evictions(now);
    }

    /// Ends evictions whose map is here: from now on every operation of ours and of other clients carries it.
    pub(super) fn finish_evictions(&mut self, now: Now) {
        let have = self.cluster.engine().map().clone();
        let is_done = |client, epoch: Option<maps::Epoch>| {
            epoch.is_some_and(|e| e <= have.epoch) || self.is_refused(&have, client)
        };
        let done: Vec<u64> = (self.evictions.iter())
            .filter(|(_, (client, epoch))| is_done(*client, *epoch))
            .map(|(token, _)| *token)
            .collect();
        for token in done {
            if let (Some((client, _)), Some(rank)) = (self.evictions.remove(&token), &mut self.rank) {
                rank.evicted(now, client);
            }
        }
    }

    /// Evicts the clients that a map shows on the blocklist: whoever put them there wants them out, and they
    /// can write nothing back.
    pub(super) fn follow_blocklist(&mut self, now: Now) {
        let map = self.cluster.engine().map().clone();
        if self.blocklist.iter().eq(map.blocklist.keys()) {
            return;
        }
        let clients = self.rank.iter().flat_map(Rank::clients);
        let refused: Vec<ClientId> = clients.filter(|client| self.is_refused(&map, *client)).collect();
        self.blocklist = map.blocklist.keys().copied().collect();
        for client in refused {
            if let Some(rank) = &mut self.rank {
                rank.refused(now, client);
            }
        }
    }

    /// The answer to a client that asks for a session, and that the OSDs refuse: it would get capabilities
    /// that it can't use. It takes another address first.
    pub(super) fn refusal(&self, client: ClientId, body: &Body) -> Option<Body> {
        let asks = matches!(body, Body::ClientSession(m) if m.head.op == session_op::REQUEST_OPEN);
        let addrs = self.rank.as_ref().filter(|_| asks)?.peer_addrs(client)?;
        let map = self.cluster.engine().map();
        addrs.0.iter().any(|addr| map.is_blocklisted(addr)).then(|| {
            let mut reject = ClientSession::of(session_op::REJECT, 0);
            reject.metadata.insert("error_string".to_owned(), "blocklisted".to_owned());
            reject.into()
        })
    }

    fn is_refused(&self, map: &OsdMap, client: ClientId) -> bool {
        let Some(addrs) = self.rank.as_ref().and_then(|r| r.client_addrs(client)) else { return true };
        addrs.0.iter().any(|addr| map.is_blocklisted(addr))
    }
}
