//! Connections that the node opens: dialling, and dialling again for lossless sessions.

use super::link::Link;
use super::shared::{NetEvent, Shared};
use super::{listen, session, socket};
use crate::clock;
use auth::Initiator;
use msgr::{Conn, ConnectConfig, Session};
use node::{CloseReason, ConnId, Target};
use std::rc::Rc;
use std::time::Duration;
use tokio::net::TcpStream;

/// The first wait before dialling again; doubled up to a limit.
const RETRY_FIRST: Duration = Duration::from_millis(50);
const RETRY_MAX: Duration = Duration::from_secs(2);
/// Time for which a session is kept whose key the other end refuses: its ticket may have expired while the
/// network was down, and a new one is on its way.
const DENIED_PATIENCE: Duration = Duration::from_secs(30);

/// A machine for one attempt.
fn new_conn(shared: &Shared, to: &Target, auth: Initiator, session: Option<Session>) -> Conn {
    let mut common = shared.common(to.addr);
    common.idle_timeout = Some(shared.idle_timeout(to.service));
    common.con_modes = shared.limits.mode.map_or_else(|| listen::con_modes(to.service), |mode| vec![mode]);
    let config = ConnectConfig { common, auth, peer_type: to.service, target: to.addr, lossy: !to.lossless };
    Conn::connect(config, session, clock::now(), shared.fork_rng())
}

/// The connection as it is before the socket is open; messages may already be queued.
pub(super) fn new_link(shared: &Shared, to: &Target) -> Link {
    let addr = to.addr.addr.unwrap_or_else(|| ([0, 0, 0, 0], 0).into());
    Link::new(new_conn(shared, to, to.auth.as_ref().clone(), None), addr, shared.limits.answer_share)
}

/// Dials and serves until the connection, or the lossless session over several sockets, is over.
pub(super) async fn run(conn: ConnId, to: Target, link: Rc<Link>, shared: Rc<Shared>) {
    let reason = serve(&to, &link, &shared).await;
    // Dropped if the node has closed it meanwhile.
    (shared.sink)(NetEvent::Closed { conn, reason });
    link.set_ended();
}

async fn serve(to: &Target, link: &Rc<Link>, shared: &Rc<Shared>) -> CloseReason {
    let mut retry = RETRY_FIRST;
    let (mut lost_at, mut denied_at, mut begun) = (None, None, false);
    loop {
        match open(link, shared).await {
            Ok(stream) => {
                let reason = socket::Pump::new(&stream, link, shared).run().await;
                shared.count_closed(link, &reason);
                if link.is_ready() {
                    (retry, lost_at, denied_at, begun) = (RETRY_FIRST, None, None, true);
                }
                let closed = session::close_reason(&reason);
                let can_come_back = match closed {
                    CloseReason::Denied => {
                        let now = clock::now().mono;
                        begun && now.since(*denied_at.get_or_insert(now)) < DENIED_PATIENCE
                    }
                    _ => session::can_come_back(&reason),
                };
                if !to.lossless || !can_come_back || link.is_finishing() {
                    return closed;
                }
            }
            // The process is gone, and every session with it.
            Err(reason) if !to.lossless || reason == CloseReason::Refused => return reason,
            Err(_) => {}
        }
        let since = *lost_at.get_or_insert(clock::now().mono);
        if link.is_finishing() || clock::now().mono >= since + shared.limits.session_timeout {
            return CloseReason::TimedOut;
        }
        let Some(session) = link.conn().take_session() else {
            return CloseReason::Lost;
        };
        let auth = link.auth().unwrap_or_else(|| to.auth.as_ref().clone());
        link.replace_conn(new_conn(shared, to, auth, Some(session)));
        tokio::time::sleep(retry).await;
        retry = (retry * 2).min(RETRY_MAX);
    }
}

/// Opens the socket.
async fn open(link: &Link, shared: &Shared) -> Result<TcpStream, CloseReason> {
    let dialled =
        tokio::time::timeout(shared.limits.connect_timeout, TcpStream::connect(link.socket_addr())).await;
    let counted = |name: &str, reason: CloseReason| {
        shared.metrics.count(name);
        Err(reason)
    };
    match dialled {
        Ok(Ok(stream)) => Ok(stream),
        Ok(Err(e)) if e.kind() == std::io::ErrorKind::ConnectionRefused => {
            counted("connects_refused", CloseReason::Refused)
        }
        Ok(Err(_)) => counted("connects_failed", CloseReason::Lost),
        Err(_) => counted("connects_timed_out", CloseReason::TimedOut),
    }
}
