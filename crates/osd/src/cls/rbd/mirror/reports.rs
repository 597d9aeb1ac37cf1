//! Methods on what daemons report of mirrored images.

use super::images;
use super::pool::{Peer, direction};
use super::status::{self, LOCAL, REMOTE, Report, Said, Status, Stored};
use crate::cls::class::{MethodResult, done, fail, output};
use crate::cls::object::{MethodStop, Object};
use crate::cls::stored::{self, Input, key, load, save};
use std::collections::{BTreeMap, BTreeSet};
use wire::{Errno, Writer};

/// Stores the caller's report. One on an image that is not mirrored (any more) is dropped.
pub fn mirror_image_status_set(o: &mut Object<'_, '_>, bytes: &[u8]) -> MethodResult {
    let mut input = Input::new(bytes);
    let (global, report): (Vec<u8>, Report) = (input.get()?, input.get()?);
    if images::find_global(o, &global)?.is_some_and(|image| image.is_enabled()) {
        let said = Said { up: false, last_update: o.now(), ..report.said };
        let stored = Stored { origin: status::caller(o), said };
        save(o, &status::key_of(&global, &report.mirror_uuid), &stored)?;
    }
    done()
}

pub fn mirror_image_status_remove(o: &mut Object<'_, '_>, bytes: &[u8]) -> MethodResult {
    let global: Vec<u8> = Input::new(bytes).get()?;
    let keys = status::keys_of(o, &global)?;
    if o.exists() {
        o.omap_remove(keys)?;
    }
    done()
}

pub fn mirror_image_status_get(o: &mut Object<'_, '_>, bytes: &[u8]) -> MethodResult {
    let global: Vec<u8> = Input::new(bytes).get()?;
    let watchers = status::watchers(o)?;
    let status = Status::load(o, &global, &watchers)?;
    if status.is_empty() { fail(Errno::ENOENT) } else { output(&status) }
}

/// Gives images, and what is reported of those of which anything is.
pub fn mirror_image_status_list(o: &mut Object<'_, '_>, bytes: &[u8]) -> MethodResult {
    let mut input = Input::new(bytes);
    let (after, max): (Vec<u8>, u64) = (input.get()?, input.get()?);
    let watchers = status::watchers(o)?;
    let (images, mut statuses) = (images::list(o, &after, max)?, BTreeMap::new());
    for (id, image) in &images {
        let status = Status::load(o, &image.global_id, &watchers)?;
        if !status.is_empty() {
            statuses.insert(id.clone(), status);
        }
    }
    output(&(images, statuses))
}

/// Counts images by their states. Which reports count, the pool's peers say.
pub fn mirror_image_status_get_summary(o: &mut Object<'_, '_>, bytes: &[u8]) -> MethodResult {
    let peers: Vec<Peer> = Input::new(bytes).get_or(Vec::new())?;
    let (takes, sends, receivers) = roles(&peers);
    let watchers = status::watchers(o)?;
    let mut states: BTreeMap<u8, i32> = BTreeMap::new();
    for image in images::list(o, b"", u64::MAX)?.into_values() {
        let state = Status::load(o, &image.global_id, &watchers)?.summary(takes, sends, &receivers);
        *states.entry(state).or_default() += 1;
    }
    output(&states)
}

/// Does the pool take images, does it send them, and to which pools?
fn roles(peers: &[Peer]) -> (bool, bool, BTreeSet<Vec<u8>>) {
    let is_sender = |peer: &&Peer| peer.direction != direction::RX;
    let receivers = peers.iter().filter(is_sender).map(|peer| peer.mirror_uuid.clone()).collect();
    let takes = peers.is_empty() || peers.iter().any(|peer| peer.direction != direction::TX);
    (takes, peers.iter().any(|peer| is_sender(&peer)), receivers)
}

/// Drops the reports of daemons that are gone.
pub fn mirror_image_status_remove_down(o: &mut Object<'_, '_>, _: &[u8]) -> MethodResult {
    let watchers = status::watchers(o)?;
    let mut gone = Vec::new();
    for prefix in [LOCAL, REMOTE] {
        for (name, value) in stored::list_all(o, prefix)? {
            if !stored::decode::<Stored>(&value)?.is_up(&watchers) {
                gone.push(key(prefix, &name));
            }
        }
    }
    if !gone.is_empty() {
        o.omap_remove(gone)?;
    }
    done()
}

/// The daemon of this cluster that reports on an image. ESTALE if it is gone.
fn instance(
    o: &mut Object<'_, '_>,
    global: &[u8],
    watchers: &BTreeSet<Vec<u8>>,
) -> Result<status::Origin, MethodStop> {
    let stored: Stored = load(o, &key(LOCAL, global))?;
    if stored.is_up(watchers) { Ok(stored.origin) } else { fail(Errno::ESTALE) }
}

pub fn mirror_image_instance_get(o: &mut Object<'_, '_>, bytes: &[u8]) -> MethodResult {
    let global: Vec<u8> = Input::new(bytes).get()?;
    let watchers = status::watchers(o)?;
    output(&instance(o, &global, &watchers)?)
}

/// Gives daemons by the ids of their images. An image without one takes a place of the list all the same.
pub fn mirror_image_instance_list(o: &mut Object<'_, '_>, bytes: &[u8]) -> MethodResult {
    let mut input = Input::new(bytes);
    let (after, max): (Vec<u8>, u64) = (input.get()?, input.get()?);
    let watchers = status::watchers(o)?;
    let mut instances: BTreeMap<Vec<u8>, status::Origin> = BTreeMap::new();
    for (id, image) in images::list(o, &after, u64::MAX)? {
        if instances.len() as u64 >= max {
            break;
        }
        match instance(o, &image.global_id, &watchers) {
            Ok(origin) => drop(instances.insert(id, origin)),
            Err(MethodStop::NeedsData) => return Err(MethodStop::NeedsData),
            Err(MethodStop::Fail(_)) => {}
        }
    }
    Ok(Writer::encode(&instances).into())
}
