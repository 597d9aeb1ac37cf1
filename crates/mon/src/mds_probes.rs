//! Dialling of metadata servers whose session has ended. A refused connection proves that the process is dead
//! (docs/design.md, decision 7), so nobody has to wait for its grace. Any other end proves nothing.

use maps::Gid;
use node::ConnId;
use std::collections::BTreeMap;

/// The bit that marks connection numbers of probes.
const PROBE: u64 = 1 << 61;

/// True if this monitor opened a connection to see whether a metadata server lives.
pub(crate) fn is_probe(conn: ConnId) -> bool {
    conn.0 & (ConnId::ACCEPTED | PROBE) == PROBE
}

/// The connections that are being opened, at most one for each metadata server.
#[derive(Debug, Default)]
pub(crate) struct MdsProbes {
    open: BTreeMap<ConnId, Gid>,
    last: u64,
}

impl MdsProbes {
    /// The connection for a new probe; `None` if that server is being probed.
    pub fn begin(&mut self, gid: Gid) -> Option<ConnId> {
        if self.open.values().any(|probed| *probed == gid) {
            return None;
        }
        self.last += 1;
        let conn = ConnId(PROBE | self.last);
        self.open.insert(conn, gid);
        Some(conn)
    }

    /// Ends a probe. Returns the server that it was for.
    pub fn end(&mut self, conn: ConnId) -> Option<Gid> {
        self.open.remove(&conn)
    }
}
