//! A pool's mode of mirroring, its uuid among the clusters, and its peers.

use crate::cls::class::{MethodResult, done, fail, output};
use crate::cls::object::{MethodStop, Object};
use crate::cls::stored::{self, Input, find, key, load, save};
use wire::{Errno, Utime, wire_structs};

const UUID: &[u8] = b"mirror_uuid";
const MODE: &[u8] = b"mirror_mode";
/// Key of the namespace in the peers' pools that is mirrored with this one.
const REMOTE_NAMESPACE: &[u8] = b"remote_namespace";
/// Prefix of the peers' keys.
const PEER: &[u8] = b"mirror_peer_";

/// Modes of mirroring.
mod mode {
    pub const DISABLED: u32 = 0;
    /// The last one that is known.
    pub const INIT_ONLY: u32 = 3;
}

/// Directions of a peer.
pub(super) mod direction {
    /// Images come from it.
    pub const RX: u8 = 0;
    /// Images go to it.
    pub const TX: u8 = 1;
    pub const RX_TX: u8 = 2;
}

wire_structs! {
    /// A peer (`cls::rbd::MirrorPeer`).
    pub(super) struct Peer[v 2/1] {
        pub uuid: Vec<u8>,
        pub site: Vec<u8>,
        pub client: Vec<u8>,
        /// -1: it is not used any more.
        pub pool: i64,
        /// One of [`direction`].
        pub direction: u8 = since 2,
        /// The uuid of the peer's pool.
        pub mirror_uuid: Vec<u8> = since 2,
        pub last_seen: Utime = since 2,
    }
}

impl Peer {
    fn is_valid(&self) -> bool {
        let knows_client = match self.direction {
            direction::TX => true,
            direction::RX | direction::RX_TX => !self.client.is_empty(),
            _ => false,
        };
        knows_client && !self.uuid.is_empty() && !self.site.is_empty()
    }
}

fn peers(o: &mut Object<'_, '_>) -> Result<Vec<Peer>, MethodStop> {
    stored::list_all(o, PEER)?.iter().map(|(_, value)| stored::decode(value)).collect()
}

fn save_peer(o: &mut Object<'_, '_>, peer: &Peer) -> MethodResult {
    save(o, &key(PEER, &peer.uuid), peer)?;
    done()
}

fn is_enabled(o: &mut Object<'_, '_>) -> Result<bool, MethodStop> {
    Ok(find::<u32>(o, MODE)?.is_some_and(|mode| mode != mode::DISABLED))
}

fn must_be_enabled(o: &mut Object<'_, '_>) -> Result<(), MethodStop> {
    if is_enabled(o)? { Ok(()) } else { fail(Errno::EINVAL) }
}

pub fn mirror_uuid_get(o: &mut Object<'_, '_>, _: &[u8]) -> MethodResult {
    output(&o.omap_value(UUID)?.ok_or(Errno::ENOENT)?)
}

/// Sets the pool's uuid, which cannot change while it is mirrored.
pub fn mirror_uuid_set(o: &mut Object<'_, '_>, bytes: &[u8]) -> MethodResult {
    let uuid: Vec<u8> = Input::new(bytes).get()?;
    if uuid.is_empty() || is_enabled(o)? {
        return fail(Errno::EINVAL);
    }
    o.omap_set(vec![(UUID.to_vec(), uuid)])?;
    done()
}

pub fn mirror_mode_get(o: &mut Object<'_, '_>, _: &[u8]) -> MethodResult {
    output(&load::<u32>(o, MODE)?)
}

/// A mirrored pool has a uuid (EINVAL), one that is not has no peers (EBUSY).
pub fn mirror_mode_set(o: &mut Object<'_, '_>, bytes: &[u8]) -> MethodResult {
    match Input::new(bytes).get()? {
        mode::DISABLED if !peers(o)?.is_empty() => return fail(Errno::EBUSY),
        mode::DISABLED if o.exists() => {
            o.omap_remove([MODE, UUID, REMOTE_NAMESPACE].map(<[u8]>::to_vec).into())?
        }
        mode::DISABLED => {}
        mode if mode > mode::INIT_ONLY || o.omap_value(UUID)?.is_none() => return fail(Errno::EINVAL),
        mode => save(o, MODE, &mode)?,
    }
    done()
}

pub fn mirror_remote_namespace_get(o: &mut Object<'_, '_>, _: &[u8]) -> MethodResult {
    output(&load::<Vec<u8>>(o, REMOTE_NAMESPACE)?)
}

/// Sets the namespace, which cannot change while it is mirrored.
pub fn mirror_remote_namespace_set(o: &mut Object<'_, '_>, bytes: &[u8]) -> MethodResult {
    let namespace: Vec<u8> = Input::new(bytes).get()?;
    if is_enabled(o)? {
        return fail(Errno::EINVAL);
    }
    save(o, REMOTE_NAMESPACE, &namespace)?;
    done()
}

pub fn mirror_peer_list(o: &mut Object<'_, '_>, _: &[u8]) -> MethodResult {
    output(&peers(o)?)
}

/// Adds a peer. ESTALE if its uuid is known, EEXIST if its site or pool is.
pub fn mirror_peer_add(o: &mut Object<'_, '_>, bytes: &[u8]) -> MethodResult {
    let peer: Peer = Input::new(bytes).get()?;
    must_be_enabled(o)?;
    if !peer.is_valid() {
        return fail(Errno::EINVAL);
    }
    if o.omap_value(UUID)?.ok_or(Errno::ENOENT)? == peer.uuid || peer.direction == direction::TX {
        return fail(Errno::EINVAL);
    }
    for other in peers(o)? {
        if other.uuid == peer.uuid {
            return fail(Errno::ESTALE);
        }
        let same_pool = !peer.mirror_uuid.is_empty() && other.mirror_uuid == peer.mirror_uuid;
        if other.site == peer.site || same_pool {
            return fail(Errno::EEXIST);
        }
    }
    save_peer(o, &peer)
}

pub fn mirror_peer_remove(o: &mut Object<'_, '_>, bytes: &[u8]) -> MethodResult {
    let uuid: Vec<u8> = Input::new(bytes).get()?;
    if o.exists() {
        stored::remove(o, &key(PEER, &uuid))?;
    }
    done()
}

/// The peer that a ping of this site and pool is from: one of the site, unless that is another pool's; then
/// one of the pool, whose site may have been renamed.
fn pinging(peers: &[Peer], site: &[u8], mirror_uuid: &[u8]) -> Option<Peer> {
    let of_site = peers.iter().find(|peer| peer.site == site);
    let is_other = |peer: &Peer| !peer.mirror_uuid.is_empty() && peer.mirror_uuid != mirror_uuid;
    if of_site.is_none_or(is_other)
        && let Some(of_pool) = peers.iter().find(|peer| peer.mirror_uuid == mirror_uuid)
    {
        let site = if of_site.is_some() { of_pool.site.clone() } else { site.to_vec() };
        return Some(Peer { site, ..of_pool.clone() });
    }
    of_site.map(|peer| Peer { mirror_uuid: mirror_uuid.to_vec(), ..peer.clone() })
}

/// A peer tells that it takes images from here. One that nobody has added is added.
pub fn mirror_peer_ping(o: &mut Object<'_, '_>, bytes: &[u8]) -> MethodResult {
    let mut input = Input::new(bytes);
    let (site, mirror_uuid): (Vec<u8>, Vec<u8>) = (input.get()?, input.get()?);
    if input.get::<u8>()? != direction::TX {
        return fail(Errno::EINVAL);
    }
    must_be_enabled(o)?;
    if site.is_empty() || mirror_uuid.is_empty() {
        return fail(Errno::EINVAL);
    }
    let mut peer = match pinging(&peers(o)?, &site, &mirror_uuid) {
        Some(peer) => peer,
        None => {
            let uuid = stored::unique_name(o, o.op() as u64);
            Peer { uuid, site, pool: -1, direction: direction::TX, mirror_uuid, ..Peer::default() }
        }
    };
    if peer.direction == direction::RX {
        peer.direction = direction::RX_TX;
    }
    peer.last_seen = o.now();
    if peer.is_valid() { save_peer(o, &peer) } else { fail(Errno::EINVAL) }
}

pub fn mirror_peer_set_client(o: &mut Object<'_, '_>, bytes: &[u8]) -> MethodResult {
    let mut input = Input::new(bytes);
    let (uuid, client): (Vec<u8>, _) = (input.get()?, input.get()?);
    let peer: Peer = load(o, &key(PEER, &uuid))?;
    save_peer(o, &Peer { client, ..peer })
}

pub fn mirror_peer_set_cluster(o: &mut Object<'_, '_>, bytes: &[u8]) -> MethodResult {
    let mut input = Input::new(bytes);
    let (uuid, site): (Vec<u8>, Vec<u8>) = (input.get()?, input.get()?);
    let peers = peers(o)?;
    if peers.iter().any(|peer| peer.uuid != uuid && peer.site == site) {
        return fail(Errno::EEXIST);
    }
    let peer = peers.into_iter().find(|peer| peer.uuid == uuid).ok_or(Errno::ENOENT)?;
    save_peer(o, &Peer { site, ..peer })
}

pub fn mirror_peer_set_direction(o: &mut Object<'_, '_>, bytes: &[u8]) -> MethodResult {
    let mut input = Input::new(bytes);
    let (uuid, direction): (Vec<u8>, _) = (input.get()?, input.get()?);
    let peer: Peer = load(o, &key(PEER, &uuid))?;
    save_peer(o, &Peer { direction, ..peer })
}
