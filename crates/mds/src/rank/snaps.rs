//! Snapshot realms as clients are told of them.

use super::env::Env;
use super::sessions::Sessions;
use crate::cache::Cache;
use crate::ops::RealmChange;
use crate::types::{ClientId, Lsn};
use fsfmt::{Ino, Realm};
use msgs::{ClientSnap, snap_op};
use std::collections::{BTreeMap, BTreeSet};

/// Tells clients of a change of realms. They hold nothing that lets them write there without asking, and get
/// this before they are given such bits again.
pub(super) fn tell(env: &mut Env, cache: &Cache, sessions: &mut Sessions, lsn: Lsn, change: RealmChange) {
    if stdx::mutants::is_active("mds_tells_nobody_of_snapshots") {
        return;
    }
    let clients: Vec<ClientId> = sessions.iter().map(|(client, _)| client).collect();
    for client in clients {
        let message = match &change {
            RealmChange::Updated(realm) => update(cache, *realm),
            RealmChange::Split(realm) => split(cache, sessions, client, *realm),
        };
        sessions.send(env, client, lsn, 0, message);
        if change != RealmChange::Split(Realm::GLOBAL) {
            tell_client_of_all(env, cache, sessions, lsn, client);
        }
    }
}

/// Tells clients of the snapshots that count for files with several names: rank 0 has changed the table.
pub(super) fn tell_of_all(env: &mut Env, cache: &Cache, sessions: &mut Sessions) {
    let lsn = env.journal().last();
    for client in sessions.iter().map(|(client, _)| client).collect::<Vec<_>>() {
        tell_client_of_all(env, cache, sessions, lsn, client);
    }
}

/// All snapshots count for files with several names.
fn tell_client_of_all(env: &mut Env, cache: &Cache, sessions: &mut Sessions, lsn: Lsn, client: ClientId) {
    let of_all = split(cache, sessions, client, Realm::GLOBAL);
    if !of_all.split_inos.is_empty() {
        sessions.send(env, client, lsn, 0, of_all);
    }
}

fn update(cache: &Cache, realm: Ino) -> ClientSnap {
    ClientSnap { op: snap_op::UPDATE, trace: cache.realm_trace(realm), ..ClientSnap::default() }
}

/// The message that moves what a client holds in a realm to it, and realms below it.
fn split(cache: &Cache, sessions: &Sessions, client: ClientId, realm: Ino) -> ClientSnap {
    let mut inos = Vec::new();
    let mut realms = BTreeSet::new();
    for key in sessions.held(client) {
        let Some(inode) = cache.inodes.get(&key) else { continue };
        let mut of = cache.realm_of(inode);
        if of == realm {
            inos.push(key.ino.0);
            continue;
        }
        // A realm further down, of which the new one is now the parent.
        while let Some(above) = cache.parent_realm(of) {
            if above == realm {
                realms.insert(of.0);
                break;
            }
            of = above;
        }
    }
    ClientSnap {
        op: snap_op::SPLIT,
        split: realm.0,
        split_inos: inos,
        split_realms: realms.into_iter().collect(),
        trace: cache.realm_trace(realm),
    }
}

/// Tells a client that has returned of the realms of all that it holds: its predecessor may have died before
/// it told of the last changes.
pub(super) fn tell_again(env: &mut Env, cache: &Cache, sessions: &mut Sessions, client: ClientId) {
    if !cache.may_have_realms {
        return;
    }
    let mut realms: BTreeMap<Ino, Vec<u64>> = BTreeMap::new();
    for key in sessions.held(client) {
        if let Some(inode) = cache.inodes.get(&key) {
            realms.entry(cache.realm_of(inode)).or_default().push(key.ino.0);
        }
    }
    let lsn = env.journal().last();
    for (realm, split_inos) in realms {
        let mut message = update(cache, realm);
        if realm != Ino::ROOT {
            message = ClientSnap { op: snap_op::SPLIT, split: realm.0, split_inos, ..message };
        }
        sessions.send(env, client, lsn, 0, message);
    }
}
