//! The consequences of a finished handshake and of a broken socket: new connections, lossless sessions that
//! wait for their client, and the end of both.

use super::link::Link;
use super::shared::{NetEvent, Shared, to_raw};
use crate::clock;
use msgr::{Claim, Ready, Reason, Resume};
use node::{CloseReason, ConnId, Msg, Peer};
use std::rc::Rc;

use wire::{AddrType, AddrVec, EntityAddr, EntityId, EntityName, EntityType};

/// The handshake is complete.
pub(super) fn ready(link: &Rc<Link>, ready: Ready, shared: &Rc<Shared>) {
    let peer = peer(link, &ready, shared.addrs.borrow().front());
    link.set_ready(&peer);
    let dialled = link.id().is_some_and(|id| id.0 & ConnId::ACCEPTED == 0);
    if dialled && peer.tickets.is_some() {
        // A client's number is the global id that the monitors gave it.
        shared.num.set(if shared.service == EntityType::CLIENT {
            ready.global_id as i64
        } else {
            shared.num.get()
        });
    }
    if ready.resumed {
        return;
    }
    let conn = link.id().unwrap_or_else(|| {
        let id = shared.next_accepted();
        link.set_id(id);
        shared.links.borrow_mut().insert(id, Some(link.clone()));
        id
    });
    if !dialled && !ready.lossy {
        let client_cookie = link.conn().client_cookie();
        let mut sessions = shared.sessions.borrow_mut();
        let over = sessions.live(conn, ready.cookie, client_cookie, &ready.entity, ready.global_id);
        drop(sessions);
        if let Some(old) = over {
            end_session(old, shared);
        }
    }
    link.queued();
    (shared.sink)(NetEvent::Connected { conn, peer: Box::new(peer) });
}

/// Ends a session that its client started over, or that was not resumed in time.
fn end_session(conn: ConnId, shared: &Rc<Shared>) {
    let link = shared.links.borrow().get(&conn).cloned().flatten();
    if let Some(link) = link {
        link.conn().close(Reason::Replaced);
        link.poke();
    }
    (shared.sink)(NetEvent::Closed { conn, reason: CloseReason::Reset });
}

/// A lossless client is back on a new socket.
pub(super) fn resume(link: &Rc<Link>, wanted: &Resume, shared: &Rc<Shared>) {
    let claim = shared.sessions.borrow_mut().claim(wanted);
    let (conn, session) = match claim {
        Claim::Unknown => (None, None),
        Claim::Parked(conn, session) => (Some(conn), Some(*session)),
        Claim::Live(conn) => {
            // The old socket does not know yet that it is dead.
            let old = shared.links.borrow().get(&conn).cloned().flatten();
            let session = old.and_then(|old| {
                let session = old.conn().take_session();
                old.poke();
                session
            });
            (Some(conn), session)
        }
    };
    match (conn, session) {
        (Some(conn), Some(session)) => {
            shared.metrics.count("sessions_resumed");
            link.set_id(conn);
            shared.links.borrow_mut().insert(conn, Some(link.clone()));
            link.conn().resume(Some(session), clock::now());
        }
        _ => {
            shared.metrics.count("sessions_reset");
            link.conn().resume(None, clock::now());
        }
    }
}

/// An accepted socket is gone: a lossless session waits for its client, any other connection is over.
pub(super) fn socket_ended(link: &Rc<Link>, reason: &Reason, shared: &Rc<Shared>) {
    let Some(conn) = link.id() else { return };
    let ours =
        shared.links.borrow().get(&conn).is_some_and(|l| l.as_ref().is_some_and(|l| Rc::ptr_eq(l, link)));
    if !ours {
        // The node has closed it, or its session is on another socket.
        return;
    }
    if can_come_back(reason)
        && let Some(session) = link.conn().take_session()
        && shared.sessions.borrow_mut().park(conn, session, clock::now().mono).is_none()
    {
        shared.metrics.count("sessions_parked");
        shared.links.borrow_mut().insert(conn, None);
        return;
    }
    (shared.sink)(NetEvent::Closed { conn, reason: close_reason(reason) });
}

/// True if the network, not a decision, ended the connection.
pub(super) fn can_come_back(reason: &Reason) -> bool {
    matches!(reason, Reason::Eof | Reason::Idle | Reason::Crc(_) | Reason::Decrypt)
}

/// The reason, as the node gets it.
pub(super) fn close_reason(reason: &Reason) -> CloseReason {
    match reason {
        Reason::Eof | Reason::Local | Reason::QueueFull | Reason::NotReady(_) | Reason::Wait => {
            CloseReason::Lost
        }
        Reason::Idle | Reason::HandshakeTimeout => CloseReason::TimedOut,
        Reason::Auth(_) | Reason::Refused { .. } | Reason::Signature => CloseReason::Denied,
        // Another process answers at the address: the incarnation that we meant is dead.
        Reason::WrongPeer(_) => CloseReason::Refused,
        Reason::Replaced => CloseReason::Reset,
        _ => CloseReason::Protocol,
    }
}

/// Ends sessions whose clients do not return.
pub(super) async fn expire(shared: Rc<Shared>) {
    loop {
        tokio::time::sleep(shared.limits.session_timeout / 10).await;
        let before = clock::now().mono - shared.limits.session_timeout;
        let over = shared.sessions.borrow_mut().expire(before);
        for conn in over {
            shared.metrics.count("sessions_expired");
            end_session(conn, &shared);
        }
    }
}

impl Shared {
    /// Queues a message on a session that waits for its client.
    pub(super) fn send_parked(self: &Rc<Self>, conn: ConnId, msg: Msg) {
        let mut sessions = self.sessions.borrow_mut();
        let Some(session) = sessions.parked_mut(conn) else { return };
        session.push(to_raw(msg));
        if session.queued() > self.limits.queued_bytes {
            sessions.remove(conn);
            drop(sessions);
            self.metrics.count("closed_queue_full");
            end_session(conn, self);
        }
    }

    /// Every end of a socket is counted under its reason.
    pub(super) fn count_closed(&self, link: &Link, reason: &Reason) {
        self.metrics.count(&format!("closed_{}", reason.name()));
        let peer = link.socket_addr();
        let dialled = link.id().is_some_and(|id| id.0 & ConnId::ACCEPTED == 0);
        if let Reason::Auth(denial) = reason
            && !dialled
        {
            self.metrics.count(denial.kind.counter());
        }
        let claimed = match reason {
            Reason::Auth(denial) => denial.entity.as_ref().map(ToString::to_string),
            _ => None,
        };
        let proven = link.conn().proven().map(ToString::to_string);
        let who = proven.or(claimed).unwrap_or_default();
        let is_denial = matches!(reason, Reason::Auth(_) | Reason::Signature | Reason::Decrypt);
        match reason {
            Reason::Eof | Reason::Local | Reason::Replaced => tracing::debug!(%peer, %reason, "closed"),
            // The log names a refused peer, at a limited rate.
            _ if is_denial && !dialled && !link.is_ready() => {
                match self.denials.borrow_mut().take(clock::now().mono) {
                    Some(dropped) => tracing::warn!(%peer, who, %reason, dropped, "denied"),
                    None => tracing::debug!(%peer, who, %reason, "denied"),
                }
            }
            // Anybody may send nonsense: no line for each.
            _ if !link.is_ready() => tracing::debug!(%peer, who, %reason, "closed before it was ready"),
            _ => tracing::warn!(%peer, who, %reason, "closed"),
        }
    }
}

/// The peer, to which we have announced the address `announced`.
fn peer(link: &Link, ready: &Ready, announced: EntityAddr) -> Peer {
    let socket = link.socket_addr();
    let dialled = link.id().is_some_and(|id| id.0 & ConnId::ACCEPTED == 0);
    let is_client = ready.peer_type == EntityType::CLIENT;
    let num = if is_client { ready.global_id as i64 } else { ready.num };
    let addrs = match is_client {
        true => {
            // A client's own address can't be trusted; its nonce is its own affair.
            let said = ready.addrs.front();
            let port = said.addr.map_or(0, |a| a.port());
            AddrVec::from(EntityAddr { addr: Some((socket.ip(), port).into()), ..said })
        }
        false => ready.addrs.clone(),
    };
    // Whoever listens nowhere knows only its nonce; the IP address is the one that the peer sees.
    let ours = match (announced.ty, ready.seen_as.addr) {
        (AddrType::ANY, Some(seen)) => EntityAddr { addr: Some((seen.ip(), 0).into()), ..announced },
        _ => announced,
    };
    Peer {
        name: if dialled { EntityName::new(ready.peer_type, "") } else { ready.entity.clone() },
        id: EntityId::new(ready.peer_type, num),
        global_id: ready.global_id,
        addrs,
        socket_addr: EntityAddr::msgr2(socket, 0),
        ours,
        features: ready.features,
        caps: ready.caps.clone(),
        tickets: ready.tickets.clone().map(Box::new),
    }
}
