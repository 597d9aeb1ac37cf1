//! Proxies, the leader's stand-ins for sessions at other monitors. Their connection numbers never leave this
//! node.

use node::ConnId;
use std::collections::BTreeMap;

/// The bit that marks connection numbers of proxies.
const PROXY: u64 = 1 << 62;

/// True if a connection is a proxy of a session at another monitor.
pub(crate) fn is_proxy(conn: ConnId) -> bool {
    conn.0 & ConnId::ACCEPTED == 0 && conn.0 & PROXY != 0
}

/// A session at another monitor: that monitor's accepted connection, and its number of the session.
pub(crate) type RemoteSession = (ConnId, u64);

/// The proxies, one for each session. Both maps hold the same pairs.
#[derive(Debug, Default)]
pub(crate) struct Proxies {
    sessions: BTreeMap<ConnId, RemoteSession>,
    by_session: BTreeMap<RemoteSession, ConnId>,
    last: u64,
}

impl Proxies {
    /// The proxy of a session.
    pub fn of(&self, session: RemoteSession) -> Option<ConnId> {
        self.by_session.get(&session).copied()
    }

    /// The session of a proxy.
    pub fn session(&self, proxy: ConnId) -> Option<RemoteSession> {
        self.sessions.get(&proxy).copied()
    }

    /// Adds a proxy for a session that has none.
    pub fn add(&mut self, session: RemoteSession) -> ConnId {
        self.last += 1;
        let proxy = ConnId(PROXY | self.last);
        let known = self.by_session.insert(session, proxy);
        assert_eq!(known, None, "a session has one stand-in");
        self.sessions.insert(proxy, session);
        proxy
    }

    /// Removes a proxy. Returns false if there was none.
    pub fn remove(&mut self, proxy: ConnId) -> bool {
        let Some(session) = self.sessions.remove(&proxy) else { return false };
        self.by_session.remove(&session);
        true
    }

    /// The proxies of one monitor's sessions, or all.
    pub fn list(&self, monitor: Option<ConnId>) -> Vec<ConnId> {
        let of = |conn: ConnId| monitor.is_none_or(|monitor| monitor == conn);
        self.sessions.iter().filter(|(_, (conn, _))| of(*conn)).map(|(proxy, _)| *proxy).collect()
    }
}
