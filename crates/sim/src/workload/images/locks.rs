//! Checker `image_lock_excludes`: nobody changes an image's data without its lock. Whoever lost it without
//! knowing is on the blocklist, and was put there before somebody else got the lock.
//!
//! It sees the calls of all machines and their answers, and judges them alone.

use crate::oracle::images::Writer;
use block::{Answer, Call, ObjectCall};
use msgs::Op;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

/// What an answer says about locks.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Gist {
    Nothing,
    /// The lock of this image is to be taken.
    Take(String),
    /// The lock of this image is to be broken.
    Break(String),
    /// A client is put on the blocklist.
    Exclude(Writer),
    /// The newest map has come.
    Map,
}

/// Who has the locks, by what clients said and were told.
#[derive(Debug, Default)]
pub(super) struct Locks {
    /// The machine that has the lock of an image, by the image's id.
    holders: BTreeMap<String, u64>,
    addresses: BTreeMap<String, Writer>,
    /// Clients that are, or are being, put on the blocklist.
    excluded: BTreeSet<Writer>,
    /// For each machine, whom it has put on the blocklist last.
    excluding: BTreeMap<u64, Writer>,
    /// Former owners of an image that are on the blocklist.
    of_image: BTreeMap<String, BTreeSet<Writer>>,
    /// Whom each client knows to be on the blocklist, and has the map for it.
    known: BTreeMap<Writer, Rc<BTreeSet<Writer>>>,
}

impl Locks {
    /// A client has this address.
    pub(super) fn known_as(&mut self, address: String, writer: Writer) {
        self.addresses.insert(address, writer);
    }

    /// True if somebody puts, or has put, a client on the blocklist.
    pub(super) fn is_excluded(&self, writer: Writer) -> bool {
        self.excluded.contains(&writer)
    }

    /// Whom a client knows to be on the blocklist.
    pub(super) fn known_to(&self, writer: Writer) -> Rc<BTreeSet<Writer>> {
        self.known.get(&writer).cloned().unwrap_or_default()
    }

    /// A machine makes a call. Returns what its answer will mean, and what is wrong.
    pub(super) fn sent(&mut self, writer: Writer, machine: u64, call: &Call) -> (Gist, Option<String>) {
        match call {
            Call::Object(call) => self.object(writer, machine, call),
            Call::Command(command) => (self.command(command), None),
            Call::NewestMap => (Gist::Map, None),
            _ => (Gist::Nothing, None),
        }
    }

    fn command(&mut self, command: &str) -> Gist {
        let command: serde_json::Value = serde_json::from_str(command).unwrap_or_default();
        let address = command["addr"].as_str().filter(|_| command["blocklistop"] == "add");
        let Some(writer) = address.and_then(|address| self.addresses.get(address)) else {
            return Gist::Nothing;
        };
        self.excluded.insert(*writer);
        Gist::Exclude(*writer)
    }

    fn object(&mut self, writer: Writer, machine: u64, call: &ObjectCall) -> (Gist, Option<String>) {
        let name = String::from_utf8_lossy(&call.object).into_owned();
        if let Some(id) = name.strip_prefix("rbd_header.") {
            let called = |wanted: &str| {
                call.ops.iter().any(
                    |op| matches!(op, Op::Call { class, method, .. } if class == "lock" && method == wanted),
                )
            };
            if called("unlock") && self.holders.get(id) == Some(&machine) {
                self.holders.remove(id);
            }
            if called("break_lock") {
                return (Gist::Break(id.to_owned()), None);
            }
            return (if called("lock") { Gist::Take(id.to_owned()) } else { Gist::Nothing }, None);
        }
        let id = name.strip_prefix("rbd_data.").and_then(|rest| rest.split('.').next());
        let Some(id) = id.filter(|_| call.writes()) else { return (Gist::Nothing, None) };
        let holder = self.holders.get(id);
        let wrong = (holder != Some(&machine) && !self.is_excluded(writer)).then(|| {
            format!("{writer} (machine {machine}) changes {name} without the lock, which {holder:?} has")
        });
        (Gist::Nothing, wrong)
    }

    /// A machine has an answer.
    pub(super) fn answered(&mut self, writer: Writer, machine: u64, gist: Gist, answer: &Answer) {
        let is_taken = answer.result().is_ok() || answer.result() == Err(wire::Errno::EEXIST);
        match gist {
            // That of one who is excluded may come late: the lock has been broken since.
            Gist::Take(id) if is_taken && !self.is_excluded(writer) => {
                let others = self.of_image.get(&id).cloned().unwrap_or_default();
                self.learn(writer, others);
                self.holders.insert(id, machine);
            }
            Gist::Exclude(other) if answer.result().is_ok() => {
                self.excluding.insert(machine, other);
            }
            Gist::Map if answer.result().is_ok() => {
                let other = self.excluding.get(&machine).copied();
                self.learn(writer, other.into_iter().collect());
            }
            Gist::Break(id) => {
                let other = self.excluding.remove(&machine);
                self.of_image.entry(id).or_default().extend(other);
            }
            _ => {}
        }
    }

    fn learn(&mut self, writer: Writer, others: BTreeSet<Writer>) {
        let known = self.known.entry(writer).or_default();
        if !others.is_subset(known) {
            *known = Rc::new(known.union(&others).copied().collect());
        }
    }
}
