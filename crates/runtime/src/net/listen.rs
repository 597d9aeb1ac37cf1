//! Listening sockets, bound before the node is made: it knows its address, and a taken port is an error at
//! once.

use super::link::Link;
use super::shared::{ACCEPTED_IDLE, Shared};
use super::socket;
use auth::{Authenticator, ConMode, MonAuthenticator, ServerKeys, ServiceAuthenticator};
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use wire::{EntityAddr, EntityType};

/// A bound socket.
#[derive(Debug)]
pub struct Listener {
    socket: std::net::TcpListener,
    addr: SocketAddr,
}

/// The reason why an address can't be listened on, with advice.
#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    /// Another program has the port.
    #[error("port {} of {} is in use by another program: stop it, or choose another with --port", .0.port(), .0.ip())]
    InUse(SocketAddr),
    /// The address is not one of this machine's.
    #[error("{} is no address of this machine: choose another with --addr", .0.ip())]
    NoSuchAddress(SocketAddr),
    /// The port is below 1024 and we are not privileged.
    #[error("port {} needs privileges: choose one above 1023 with --port", .0.port())]
    Privileged(SocketAddr),
    /// Any other error.
    #[error("cannot listen on {0}: {1}")]
    Other(SocketAddr, std::io::Error),
}

impl Listener {
    /// Binds; port 0 takes any free one.
    pub fn bind(addr: SocketAddr) -> Result<Self, ListenError> {
        let failed = |e: std::io::Error| match e.raw_os_error() {
            Some(libc::EADDRINUSE) => ListenError::InUse(addr),
            Some(libc::EADDRNOTAVAIL) => ListenError::NoSuchAddress(addr),
            Some(libc::EACCES) => ListenError::Privileged(addr),
            _ => ListenError::Other(addr, e),
        };
        // The standard library sets SO_REUSEADDR, so that a restart need not wait for old connections to
        // expire.
        let socket = std::net::TcpListener::bind(addr).map_err(failed)?;
        let addr = socket.local_addr().map_err(failed)?;
        Ok(Self { socket, addr })
    }

    /// The address with the port that was taken.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    pub(super) fn into_tokio(self) -> std::io::Result<TcpListener> {
        self.socket.set_nonblocking(true)?;
        TcpListener::from_std(self.socket)
    }
}

/// Accepts connections once the node has given its keys. Until then callers wait in the host's queue.
pub(super) async fn accept_all(listener: TcpListener, shared: Rc<Shared>) {
    let mut keys = shared.keys.subscribe();
    if keys.wait_for(Option::is_some).await.is_err() {
        return;
    }
    loop {
        match listener.accept().await {
            Ok((stream, peer)) => {
                let known = keys.borrow().clone().expect("waited for, and never taken back");
                accept_one(stream, peer, known, &shared);
            }
            Err(error) => {
                // Out of descriptors, usually: the callers wait while others end.
                shared.metrics.count("accept_failed");
                tracing::warn!(%error, "cannot accept a connection");
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    }
}

fn accept_one(stream: TcpStream, peer: SocketAddr, keys: Arc<ServerKeys>, shared: &Rc<Shared>) {
    if shared.tasks.borrow().len() >= shared.limits.connections {
        shared.metrics.count("closed_too_many");
        return;
    }
    shared.refill_global_ids();
    let mut common = shared.common(EntityAddr::msgr2(peer, 0));
    common.idle_timeout = Some(ACCEPTED_IDLE);
    common.con_modes = con_modes(shared.service);
    let methods = keys.method_numbers();
    let machine = match shared.service == EntityType::MON {
        true => Authenticator::Mon(MonAuthenticator::new(keys, shared.global_ids.clone())),
        false => Authenticator::Service(ServiceAuthenticator::new(keys)),
    };
    let auth = msgr::Auth { machine, methods };
    let config = msgr::AcceptConfig { common, auth, lossy: shared.service != EntityType::MDS };
    let conn = msgr::Conn::accept(config, crate::clock::now(), shared.fork_rng());
    shared.metrics.count("accepted");
    let task = socket::serve_accepted(
        stream,
        Rc::new(Link::new(conn, peer, shared.limits.answer_share)),
        shared.clone(),
    );
    shared.spawn(task);
}

/// Keys pass through connections to monitors; elsewhere checksums are enough unless the client asks for more.
pub(super) fn con_modes(acceptor: EntityType) -> Vec<ConMode> {
    match acceptor {
        EntityType::MON => vec![ConMode::Secure, ConMode::Crc],
        _ => vec![ConMode::Crc, ConMode::Secure],
    }
}
