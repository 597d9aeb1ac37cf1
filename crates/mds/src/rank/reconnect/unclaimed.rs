//! What clients hold without having claimed it here. Another rank handed it over to the predecessor, which
//! died before they heard of that: they claim it there, if at all, and that rank hands it over again. Until
//! no other rank has anything to hand over, what inodes of files record of clients that have come back is
//! theirs.

use crate::cache::{Cache, Inode};
use crate::cap;
use crate::rank::env::{Due, Env};
use crate::types::ClientId;
use fsfmt::{ClientRange, InodeKey};
use std::collections::BTreeSet;

/// The clients concerned, and the files.
#[derive(Default)]
pub(super) struct Unclaimed {
    clients: BTreeSet<ClientId>,
    files: BTreeSet<InodeKey>,
}

impl Unclaimed {
    /// True if it concerns nobody.
    pub fn is_empty(&self) -> bool {
        self.clients.is_empty()
    }

    /// Notes that a client has claimed all that it knows to be here, and reserves what it may hold of these
    /// inodes beside that.
    pub fn add(&mut self, cache: &mut Cache, client: ClientId, inodes: &[InodeKey]) {
        self.clients.insert(client);
        for ino in inodes {
            cache.inodes.get_mut(ino).into_iter().for_each(|inode| self.reserve(inode));
        }
    }

    /// Reserves what these clients may hold of a cached file.
    pub fn reserve(&mut self, inode: &mut Inode) {
        if self.clients.is_empty() || !inode.data.is_file() {
            return;
        }
        for (client, range) in inode.data.ranges.iter() {
            let client = ClientId(*client);
            if self.clients.contains(&client) && !inode.caps.contains_key(client) {
                inode.under_way.edit(|at| at.unclaimed.insert(client.into(), recorded(range)));
                self.files.insert(inode.data.key());
            }
        }
    }

    /// No rank hands anything over any more: what is not claimed by now is nobody's.
    pub fn end(&mut self, env: &mut Env, cache: &mut Cache) {
        self.clients.clear();
        for ino in std::mem::take(&mut self.files) {
            if let Some(inode) = cache.inodes.get_mut(&ino) {
                inode.under_way.edit(|at| at.unclaimed.clear());
                env.due(Due::CapsChanged(ino));
            }
        }
    }

    /// A client is evicted.
    pub fn drop_client(&mut self, env: &mut Env, cache: &mut Cache, client: ClientId) {
        if !self.clients.remove(&client) {
            return;
        }
        for ino in &self.files {
            cache.inodes.get_mut(ino).into_iter().for_each(|inode| handed_over(env, inode, client));
        }
        if self.clients.is_empty() {
            self.files.clear();
        }
    }

    /// Asserts what holds between inputs.
    pub fn check(&self) {
        assert!(!self.clients.is_empty() || self.files.is_empty(), "what is reserved may be a client's");
    }
}

/// Bits that a client may hold which an inode records.
pub(super) fn recorded(range: &ClientRange) -> u32 {
    match (range.max_size, range.bits) {
        (0, 0) => msgs::cap::PIN,
        (0, bits) => cap::DIRECTORY | bits,
        _ => cap::LONER,
    }
}

/// What a client holds of an inode is known: another rank has handed it over.
pub(in crate::rank) fn handed_over(env: &mut Env, inode: &mut Inode, client: ClientId) {
    if inode.under_way.unclaimed.contains_key(&client.into()) {
        inode.under_way.edit(|at| at.unclaimed.remove(&client.into()));
        env.due(Due::CapsChanged(inode.data.key()));
    }
}
