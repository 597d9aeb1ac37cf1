//! `journal`: the header of a journal, and appends to its objects. librbd keeps one for each image with the
//! feature `journaling`: what is written is in the journal first, and other clusters replay it.
//!
//! A journal's objects are used in sets of a fixed width, from the minimum set, which the slowest client
//! still needs, to the active one. A *tag* is an owner's term, of a class of terms that follow one another;
//! entries carry its number.

use super::class::{Class, Method, MethodResult, done, fail, output, reader, updater};
use super::object::{MethodStop, Object};
use super::stored::{self, Input, key, load, save};
use std::collections::BTreeMap;
use wire::{Errno, wire_structs};

pub struct Journal;

impl Class for Journal {
    fn name(&self) -> &'static str {
        "journal"
    }

    fn methods(&self) -> &'static [Method] {
        const {
            &[
                updater("create", create),
                reader("get_order", |o, _| number::<u8>(o, ORDER)),
                reader("get_splay_width", |o, _| number::<u8>(o, SPLAY_WIDTH)),
                reader("get_pool_id", |o, _| number::<i64>(o, POOL)),
                reader("get_minimum_set", |o, _| number::<u64>(o, MINIMUM_SET)),
                updater("set_minimum_set", set_minimum_set),
                reader("get_active_set", |o, _| number::<u64>(o, ACTIVE_SET)),
                updater("set_active_set", set_active_set),
                reader("get_client", get_client),
                updater("client_register", client_register),
                updater("client_update_data", client_update_data),
                updater("client_update_state", client_update_state),
                updater("client_unregister", client_unregister),
                updater("client_commit", client_commit),
                reader("client_list", client_list),
                reader("get_next_tag_tid", |o, _| number::<u64>(o, NEXT_TAG)),
                reader("get_tag", get_tag),
                updater("tag_create", tag_create),
                reader("tag_list", tag_list),
                updater("guard_append", guard_append),
                updater("append", append),
            ]
        }
    }
}

const ORDER: &[u8] = b"order";
const SPLAY_WIDTH: &[u8] = b"splay_width";
const POOL: &[u8] = b"pool_id";
const MINIMUM_SET: &[u8] = b"minimum_set";
const ACTIVE_SET: &[u8] = b"active_set";
const NEXT_TAG: &[u8] = b"next_tag_tid";
const NEXT_CLASS: &[u8] = b"next_tag_class";
/// Prefix of the clients' keys.
const CLIENT: &[u8] = b"client_";
/// Prefix of the tags' keys.
const TAG: &str = "tag_";

/// The class of a tag that begins a new one.
const NEW_CLASS: u64 = u64::MAX;
/// The state of a client that nobody waits for.
const DISCONNECTED: u8 = 1;

wire_structs! {
    /// Where a client stands in one object (`cls::journal::ObjectPosition`).
    struct Position[v 1/1] {
        pub object: u64,
        pub tag: u64,
        pub entry: u64,
    }

    /// Where a client stands: the newest object first (`cls::journal::ObjectSetPosition`).
    struct Positions[v 1/1] {
        pub objects: Vec<Position>,
    }

    /// Who writes or replays the journal (`cls::journal::Client`).
    struct Client[v 1/1] {
        pub id: Vec<u8>,
        pub data: Vec<u8>,
        pub committed: Positions,
        pub state: u8,
    }

    /// A tag (`cls::journal::Tag`).
    struct Tag[v 1/1] {
        pub id: u64,
        pub class: u64,
        pub data: Vec<u8>,
    }
}

impl Client {
    /// The oldest tag that it needs; `None` if it has not committed anything.
    fn oldest_tag(&self) -> Option<u64> {
        self.committed.objects.iter().map(|position| position.tag).min()
    }
}

fn number<T: wire::Decode + wire::Encode>(o: &mut Object<'_, '_>, key: &[u8]) -> MethodResult {
    output(&load::<T>(o, key)?)
}

fn create(o: &mut Object<'_, '_>, bytes: &[u8]) -> MethodResult {
    let mut input = Input::new(bytes);
    let (order, width): (u8, u8) = (input.get()?, input.get()?);
    let pool: i64 = input.get()?;
    if o.omap_value(ORDER)?.is_some() {
        return fail(Errno::EEXIST);
    }
    save(o, ORDER, &order)?;
    save(o, SPLAY_WIDTH, &width)?;
    save(o, POOL, &pool)?;
    for zero in [ACTIVE_SET, MINIMUM_SET, NEXT_TAG, NEXT_CLASS] {
        save(o, zero, &0u64)?;
    }
    done()
}

/// Raises the number of a set. ESTALE if it is higher already.
fn raise(o: &mut Object<'_, '_>, key: &[u8], set: u64) -> MethodResult {
    let current: u64 = load(o, key)?;
    if set < current {
        return fail(Errno::ESTALE);
    }
    if set > current {
        save(o, key, &set)?;
    }
    done()
}

fn set_minimum_set(o: &mut Object<'_, '_>, bytes: &[u8]) -> MethodResult {
    let set: u64 = Input::new(bytes).get()?;
    if load::<u64>(o, ACTIVE_SET)? < set { fail(Errno::EINVAL) } else { raise(o, MINIMUM_SET, set) }
}

fn set_active_set(o: &mut Object<'_, '_>, bytes: &[u8]) -> MethodResult {
    let set: u64 = Input::new(bytes).get()?;
    if load::<u64>(o, MINIMUM_SET)? > set { fail(Errno::EINVAL) } else { raise(o, ACTIVE_SET, set) }
}

/// Clients after one; the first may have an empty id, as that of an image itself has.
fn clients(o: &mut Object<'_, '_>, after: &[u8], max: u64) -> Result<Vec<Client>, MethodStop> {
    let last = if after.is_empty() { Vec::new() } else { key(CLIENT, after) };
    stored::list_after(o, CLIENT, last, max)?.iter().map(|(_, value)| stored::decode(value)).collect()
}

fn all_clients(o: &mut Object<'_, '_>) -> Result<Vec<Client>, MethodStop> {
    clients(o, b"", u64::MAX)
}

fn get_client(o: &mut Object<'_, '_>, bytes: &[u8]) -> MethodResult {
    let id: Vec<u8> = Input::new(bytes).get()?;
    output(&load::<Client>(o, &key(CLIENT, &id))?)
}

/// Adds a client, which begins where the slowest one stands: at the start if that has not committed anything.
fn client_register(o: &mut Object<'_, '_>, bytes: &[u8]) -> MethodResult {
    let mut input = Input::new(bytes);
    let (id, data): (Vec<u8>, Vec<u8>) = (input.get()?, input.get()?);
    load::<u8>(o, ORDER)?;
    if o.omap_value(&key(CLIENT, &id))?.is_some() {
        return fail(Errno::EEXIST);
    }
    let progress = |client: &Client| client.committed.objects.first().map(|first| (first.tag, first.entry));
    let slowest = all_clients(o)?.into_iter().min_by_key(progress);
    let committed = slowest.map(|client| client.committed).unwrap_or_default();
    save(o, &key(CLIENT, &id), &Client { id: id.clone(), data, committed, state: 0 })?;
    done()
}

/// Changes what is recorded of a client.
fn change(o: &mut Object<'_, '_>, id: &[u8], with: impl FnOnce(&mut Client)) -> MethodResult {
    let key = key(CLIENT, id);
    let mut client: Client = load(o, &key)?;
    with(&mut client);
    save(o, &key, &client)?;
    done()
}

fn client_update_data(o: &mut Object<'_, '_>, bytes: &[u8]) -> MethodResult {
    let mut input = Input::new(bytes);
    let (id, data): (Vec<u8>, Vec<u8>) = (input.get()?, input.get()?);
    change(o, &id, |client| client.data = data)
}

fn client_update_state(o: &mut Object<'_, '_>, bytes: &[u8]) -> MethodResult {
    let mut input = Input::new(bytes);
    let (id, state): (Vec<u8>, u8) = (input.get()?, input.get()?);
    change(o, &id, |client| client.state = state)
}

fn client_unregister(o: &mut Object<'_, '_>, bytes: &[u8]) -> MethodResult {
    let id: Vec<u8> = Input::new(bytes).get()?;
    stored::remove_existing(o, &key(CLIENT, &id))?;
    expire_tags(o, Some(&id))?;
    done()
}

/// Records how far a client has come, in at most as many objects as are used at once.
fn client_commit(o: &mut Object<'_, '_>, bytes: &[u8]) -> MethodResult {
    let mut input = Input::new(bytes);
    let (id, committed): (Vec<u8>, Positions) = (input.get()?, input.get()?);
    if committed.objects.len() > load::<u8>(o, SPLAY_WIDTH)?.into() {
        return fail(Errno::EINVAL);
    }
    if load::<Client>(o, &key(CLIENT, &id))?.committed == committed {
        return done();
    }
    change(o, &id, |client| client.committed = committed)
}

fn client_list(o: &mut Object<'_, '_>, bytes: &[u8]) -> MethodResult {
    let mut input = Input::new(bytes);
    let (after, max): (Vec<u8>, u64) = (input.get()?, input.get()?);
    output(&clients(o, &after, max)?)
}

fn tags(o: &mut Object<'_, '_>) -> Result<Vec<Tag>, MethodStop> {
    stored::list_all(o, TAG.as_bytes())?.iter().map(|(_, value)| stored::decode(value)).collect()
}

/// The newest tag of each class among those up to the first that is not older than `oldest`: the tags before
/// it in its class are not needed from there on.
fn first_needed(tags: &[Tag], oldest: u64) -> BTreeMap<u64, u64> {
    let past = tags.iter().position(|tag| tag.id >= oldest).map_or(tags.len(), |at| at + 1);
    tags[..past].iter().map(|tag| (tag.class, tag.id)).collect()
}

/// Removes the tags that no client needs; `gone` is being removed. Nothing is known of the needs of a client
/// that has not committed anything.
fn expire_tags(o: &mut Object<'_, '_>, gone: Option<&[u8]>) -> Result<(), MethodStop> {
    let clients = all_clients(o)?;
    let counts = |client: &&Client| Some(client.id.as_slice()) != gone && client.state != DISCONNECTED;
    let oldest: Option<Vec<u64>> = clients.iter().filter(counts).map(Client::oldest_tag).collect();
    let Some(oldest) = oldest.and_then(|oldest| oldest.into_iter().min()) else { return Ok(()) };
    let tags = tags(o)?;
    let first = first_needed(&tags, oldest);
    let is_old = |tag: &&Tag| tag.id < oldest && first.get(&tag.class).is_some_and(|first| tag.id < *first);
    let old: Vec<_> = tags.iter().filter(is_old).map(|tag| stored::snap_key(TAG, tag.id)).collect();
    if old.is_empty() { Ok(()) } else { o.omap_remove(old) }
}

fn get_tag(o: &mut Object<'_, '_>, bytes: &[u8]) -> MethodResult {
    let id: u64 = Input::new(bytes).get()?;
    output(&load::<Tag>(o, &stored::snap_key(TAG, id))?)
}

/// Begins a term. ESTALE if its number is not the next one, EINVAL for a class that there is not.
fn tag_create(o: &mut Object<'_, '_>, bytes: &[u8]) -> MethodResult {
    let mut input = Input::new(bytes);
    let (id, mut class): (u64, u64) = (input.get()?, input.get()?);
    let data: Vec<u8> = input.get()?;
    let key = stored::snap_key(TAG, id);
    if o.omap_value(&key)?.is_some() {
        return fail(Errno::EEXIST);
    }
    if load::<u64>(o, NEXT_TAG)? != id {
        return fail(Errno::ESTALE);
    }
    let next_class: u64 = load(o, NEXT_CLASS)?;
    if class == NEW_CLASS {
        class = next_class;
        save(o, NEXT_CLASS, &class.wrapping_add(1))?;
    } else if class >= next_class {
        return fail(Errno::EINVAL);
    }
    expire_tags(o, None)?;
    save(o, NEXT_TAG, &id.wrapping_add(1))?;
    save(o, &key, &Tag { id, class, data })?;
    done()
}

/// Gives the tags that a client needs, of one class or of all.
fn tag_list(o: &mut Object<'_, '_>, bytes: &[u8]) -> MethodResult {
    let mut input = Input::new(bytes);
    let (after, max): (u64, u64) = (input.get()?, input.get()?);
    let (client, class): (Vec<u8>, Option<u64>) = (input.get()?, input.get()?);
    let client: Client = load(o, &key(CLIENT, &client))?;
    let tags = tags(o)?;
    let first = client.oldest_tag().map(|oldest| first_needed(&tags, oldest)).unwrap_or_default();
    let is_meant = |tag: &&Tag| {
        (after == 0 || tag.id > after)
            && tag.id >= first.get(&tag.class).copied().unwrap_or(0)
            && class.is_none_or(|class| class == tag.class)
    };
    // Ceph looks at the limit only after a tag.
    let max = usize::try_from(max.max(1)).unwrap_or(usize::MAX);
    output(&tags.iter().filter(is_meant).take(max).cloned().collect::<Vec<_>>())
}

/// Guards an append that follows in the vector: EOVERFLOW if the object has this size already.
fn guard_append(o: &mut Object<'_, '_>, bytes: &[u8]) -> MethodResult {
    let max_size: u64 = Input::new(bytes).get()?;
    if o.exists() && o.size()? >= max_size { fail(Errno::EOVERFLOW) } else { done() }
}

/// Appends entries, unless the object has this size already.
fn append(o: &mut Object<'_, '_>, bytes: &[u8]) -> MethodResult {
    let mut input = Input::new(bytes);
    let (max_size, data): (u64, Vec<u8>) = (input.get()?, input.get()?);
    let size = o.size()?;
    if size >= max_size {
        return fail(Errno::EOVERFLOW);
    }
    o.write(size, data.into())?;
    done()
}
