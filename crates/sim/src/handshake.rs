//! Authentication of a simulated connection: the real state machines of both ends, without frames between
//! them.

use auth::{
    AuthDone, AuthStep, Authenticator, ConMode, Initiator, InitiatorDone, InitiatorStep, MonAuthenticator,
    ServiceAuthenticator,
};
use node::{CloseReason, Peer, Target};
use std::sync::Arc;
use stdx::{Now, Rng};
use wire::{AddrVec, EntityAddr, EntityId, EntityName, EntityType};

/// Runs the handshake of `target` with a daemon that has `keys`. Returns the peer as the acceptor and as the
/// opener see it.
pub(crate) fn run(
    mut target: Target,
    keys: &Arc<auth::ServerKeys>,
    ids: &Arc<auth::GlobalIds>,
    now: Now,
    from: EntityAddr,
    rng: &mut Rng,
) -> Result<(Peer, Peer), CloseReason> {
    let mut acceptor = match target.service {
        EntityType::MON => Authenticator::Mon(MonAuthenticator::new(keys.clone(), ids.clone())),
        _ => Authenticator::Service(ServiceAuthenticator::new(keys.clone())),
    };
    let (accepted, opened) = exchange(&mut target.auth, &mut acceptor, now, rng)?;
    let at_acceptor = Peer {
        id: EntityId::new(accepted.entity.ty, accepted.global_id as i64),
        name: accepted.entity,
        global_id: accepted.global_id,
        addrs: AddrVec::from(from),
        socket_addr: from,
        ours: target.addr,
        features: wire::FEATURES,
        caps: accepted.caps,
        tickets: None,
    };
    let at_opener = Peer {
        name: EntityName::new(target.service, ""),
        id: EntityId::new(target.service, -1),
        global_id: accepted.global_id,
        addrs: AddrVec::from(target.addr),
        socket_addr: target.addr,
        ours: from,
        features: wire::FEATURES,
        caps: String::new(),
        tickets: opened.tickets.map(Box::new),
    };
    Ok((at_acceptor, at_opener))
}

fn exchange(
    initiator: &mut Initiator,
    acceptor: &mut Authenticator,
    now: Now,
    rng: &mut Rng,
) -> Result<(AuthDone, InitiatorDone), CloseReason> {
    let denied = |_| CloseReason::Denied;
    let (method, payload) = initiator.start(now, rng).map_err(denied)?;
    let mut step = acceptor.request(method, ConMode::Crc, &payload, now, rng);
    loop {
        match step {
            AuthStep::More(payload) => {
                let InitiatorStep::More(answer) = initiator.reply_more(&payload, now, rng).map_err(denied)?
                else {
                    return Err(CloseReason::Protocol);
                };
                step = acceptor.more(&answer, now, rng);
            }
            AuthStep::Done(done) => {
                let opened = initiator.done(done.global_id, ConMode::Crc, &done.blob, now).map_err(denied)?;
                return Ok((done, opened));
            }
            AuthStep::Fail { .. } => return Err(CloseReason::Denied),
            AuthStep::NotReady(_) => return Err(CloseReason::Lost),
        }
    }
}
