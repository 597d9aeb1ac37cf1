//! Connections to other OSDs. Each OSD opens its own for its questions, and answers come back on it.
//! Questions on a lost connection are repeated by a new round of peering.

use maps::{Epoch, OsdId, OsdMap};
use monc::{ConnSpace, Monc};
use node::{CloseReason, ConnId, Msg, Target};
use std::collections::BTreeMap;
use std::time::Duration;
use stdx::{FastMap, Instant};
use wire::{EntityId, EntityType, Uuid};

use crate::outbox::{Out, Outbox};

/// Our share of the node's connection numbers, beside that of the monitor session.
const LINKS_SPACE: u8 = 2;

/// Purpose of a connection.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Purpose {
    /// Replication, peering, recovery.
    Data,
    /// Heartbeats only.
    Ping,
}

#[derive(Debug, Default)]
struct Link {
    conn: Option<ConnId>,
    up_from: Epoch,
    /// Messages queued until a connection is open.
    queue: Vec<Msg>,
    retry_at: Instant,
}

/// All connections to other OSDs.
#[derive(Debug)]
pub struct Links {
    conns: ConnSpace,
    by_osd: BTreeMap<(Purpose, OsdId), Link>,
    by_conn: FastMap<ConnId, (Purpose, OsdId)>,
    retry_delay: Duration,
}

impl Links {
    /// Creates an owner without connections.
    pub fn new(retry_delay: Duration) -> Self {
        Self {
            conns: ConnSpace::new(LINKS_SPACE),
            by_osd: BTreeMap::new(),
            by_conn: FastMap::default(),
            retry_delay,
        }
    }

    /// True if a connection is one of these.
    pub fn owns(&self, conn: ConnId) -> bool {
        self.conns.owns(conn)
    }

    /// The OSD and the purpose of a connection.
    pub fn of(&self, conn: ConnId) -> Option<(Purpose, OsdId)> {
        self.by_conn.get(&conn).copied()
    }

    /// Sends on the data connection once it is there.
    pub fn send(&mut self, osd: OsdId, msg: Msg) {
        self.by_osd.entry((Purpose::Data, osd)).or_default().queue.push(msg);
    }

    /// Sends a ping. Pings do not queue for a connection that can't be opened.
    pub fn ping(&mut self, osd: OsdId, msg: Msg) {
        let link = self.by_osd.entry((Purpose::Ping, osd)).or_default();
        link.queue.clear();
        link.queue.push(msg);
    }

    /// Drops heartbeat connections to OSDs that are no longer peers.
    pub fn keep_pings(&mut self, peers: &[OsdId], out: &mut Outbox) {
        let gone: Vec<_> =
            self.by_osd.keys().filter(|(p, o)| *p == Purpose::Ping && !peers.contains(o)).copied().collect();
        gone.into_iter().for_each(|key| self.remove(key, out));
    }

    /// Closes connections to OSDs that a new map has down or restarted; messages sent there are void. Returns
    /// the OSDs from which something may be awaited: the map begins new intervals for PGs with them as
    /// members, but not for PGs of which they merely have copies.
    pub fn map_changed(&mut self, map: &OsdMap, out: &mut Outbox) -> Vec<OsdId> {
        let stale = |((_, osd), link): (&(Purpose, OsdId), &Link)| {
            let up = map.osd(*osd).filter(|o| o.is_up()).map(|o| o.info.up_from);
            up.is_none() || link.conn.is_some() && up != Some(link.up_from)
        };
        let gone: Vec<_> = self.by_osd.iter().filter(|e| stale(*e)).map(|(key, _)| *key).collect();
        let ended =
            gone.iter().filter(|(purpose, _)| *purpose == Purpose::Data).map(|(_, osd)| *osd).collect();
        for key in gone {
            // Messages queued without a connection are for the incarnation that is up now.
            let queue = self.by_osd.get_mut(&key).map(|l| std::mem::take(&mut l.queue)).unwrap_or_default();
            self.remove(key, out);
            if map.is_up(key.1) && !queue.is_empty() {
                self.by_osd.entry(key).or_default().queue = queue;
            }
        }
        ended
    }

    fn remove(&mut self, key: (Purpose, OsdId), out: &mut Outbox) {
        if let Some(Link { conn: Some(conn), .. }) = self.by_osd.remove(&key) {
            self.by_conn.remove(&conn);
            out.push(Out::Close { conn });
        }
    }

    /// Handles a closed connection and returns its OSD and purpose.
    pub fn closed(&mut self, now: Instant, conn: ConnId, reason: CloseReason) -> Option<(Purpose, OsdId)> {
        let key = self.by_conn.remove(&conn)?;
        let link = self.by_osd.get_mut(&key)?;
        link.conn = None;
        link.queue.clear();
        // A connection that broke is reopened at once, to check that the process is still there.
        let wait = if reason == CloseReason::Lost { Duration::ZERO } else { self.retry_delay };
        link.retry_at = now + wait;
        Some(key)
    }

    /// Opens connections that are needed and sends the queued messages.
    pub fn flush(&mut self, ctx: &LinkCtx<'_>, out: &mut Outbox) {
        for (key @ (purpose, osd), link) in &mut self.by_osd {
            if link.queue.is_empty() {
                continue;
            }
            if link.conn.is_none() {
                let Some(entry) =
                    ctx.map.osd(*osd).filter(|o| o.is_up() && ctx.may_connect && link.retry_at <= ctx.now)
                else {
                    continue;
                };
                let addrs = match purpose {
                    Purpose::Data => &entry.cluster_addrs,
                    Purpose::Ping => &entry.hb_back_addrs,
                };
                let Some(addr) = addrs.msgr2().or_else(|| entry.client_addrs.msgr2()) else { continue };
                let conn = self.conns.next_id();
                let auth = ctx.monc.service_auth(EntityType::OSD);
                let to = Target { service: EntityType::OSD, addr, lossless: false, auth };
                out.push(Out::Connect { conn, to: Box::new(to) });
                let from = EntityId { ty: EntityType::OSD, num: i64::from(ctx.id.0) };
                let hello = peer::Hello { fsid: ctx.fsid, from, epoch: ctx.map.epoch };
                out.send(conn, Msg::new(0, peer::Body::from(hello)));
                (link.conn, link.up_from) = (Some(conn), entry.info.up_from);
                self.by_conn.insert(conn, *key);
            }
            if let Some(conn) = link.conn {
                link.queue.drain(..).for_each(|msg| out.send(conn, msg));
            }
        }
    }

    /// Time at which a connection with queued messages may be retried.
    pub fn deadline(&self) -> Option<Instant> {
        self.by_osd.values().filter(|l| l.conn.is_none() && !l.queue.is_empty()).map(|l| l.retry_at).min()
    }
}

/// Context for opening connections.
pub struct LinkCtx<'a> {
    /// The current time.
    pub now: Instant,
    /// The map, for addresses.
    pub map: &'a OsdMap,
    /// The session to the monitor, for tickets.
    pub monc: &'a Monc,
    /// True if there are tickets, or none are needed.
    pub may_connect: bool,
    /// Number of this OSD.
    pub id: OsdId,
    /// Id of the cluster.
    pub fsid: Uuid,
}
