//! Clients that a metadata server went on without after a restart, and which came late. What they had not
//! synced may be refused then (docs/adr/0014-early-replies.md), which is no fault of theirs and no other
//! client's right. The events of servers and clients tell.

use node::Event;
use std::collections::{BTreeMap, BTreeSet};

/// The events that this follows.
pub const FOLLOWED: [&str; 7] = [
    "clients_missing",
    "client_returned",
    "unsafe_requests_lost",
    "claimed_cap_dropped",
    "mds_session_lost",
    "client_evicted",
    "evicted",
];

/// What an event says of clients, which are known by their global ids.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Told {
    /// A server goes on without these.
    Missing(Vec<u64>),
    /// This one has come back.
    Returned(u64),
    /// This one came back, but too late: from some point on, what it had not synced is lost.
    Refused(u64),
    /// This one claims an inode, as the event writes its number, that is not there.
    Gone(u64, String),
    /// A server gives this one up: it holds nothing from now on, although it may not know yet.
    Evicted(u64),
    /// The client itself says that its session is lost, and what it had not synced from some point on.
    SessionLost,
}

/// What an event says.
pub fn told(event: &Event) -> Option<Told> {
    let named = named(&event.detail);
    match event.name {
        "clients_missing" => Some(Told::Missing(named)),
        "client_returned" => Some(Told::Returned(*named.first()?)),
        "unsafe_requests_lost" => Some(Told::Refused(*named.first()?)),
        "claimed_cap_dropped" => Some(Told::Gone(*named.first()?, claimed(&event.detail)?)),
        "client_evicted" => Some(Told::Evicted(*named.first()?)),
        "mds_session_lost" | "evicted" => Some(Told::SessionLost),
        _ => None,
    }
}

/// The clients that a text names, such as `client.4102`.
fn named(text: &str) -> Vec<u64> {
    let after = text.split("client.").skip(1);
    let digits = after.map(|rest| rest.split(|c: char| !c.is_ascii_digit()).next().unwrap_or_default());
    digits.filter_map(|id| id.parse().ok()).collect()
}

/// The inode that a text says is claimed.
fn claimed(text: &str) -> Option<String> {
    let (_, after) = text.split_once("claims ")?;
    Some(after.split([',', ' ']).next()?.to_owned())
}

/// The clients that came late.
#[derive(Clone, Default, Debug)]
pub struct Late {
    /// Those that servers, with several ranks each of its own, went on without, and which have not come back
    /// yet.
    missing: BTreeMap<u64, BTreeSet<String>>,
    /// Those that came too late.
    refused: BTreeSet<u64>,
    /// The names of their nodes.
    losers: BTreeSet<String>,
    /// The inodes that these were to make and which are not there, with what was written to them.
    gone: BTreeSet<(String, String)>,
    /// The names of the nodes that a server has given up: these lose what they had not saved.
    evicted: BTreeSet<String>,
}

impl Late {
    /// Notes what an event of the node `from` says. `node` is the name of the running client that has a
    /// global id.
    pub fn note(&mut self, from: &str, told: &Told, node: impl Fn(u64) -> Option<String>) {
        match told {
            Told::Missing(clients) => clients.iter().for_each(|client| {
                self.missing.entry(*client).or_default().insert(from.to_owned());
            }),
            Told::Returned(client) => {
                let servers = self.missing.entry(*client).or_default();
                // Otherwise it comes back to a successor.
                let went_without = servers.remove(from);
                if servers.is_empty() || !went_without {
                    self.missing.remove(client);
                }
            }
            Told::Refused(client) if self.missing.contains_key(client) => {
                self.refused.insert(*client);
                self.losers.extend(node(*client));
            }
            Told::Gone(client, ino) if self.refused.contains(client) => {
                self.gone.extend(node(*client).map(|node| (node, ino.clone())));
            }
            Told::Evicted(client) => self.evicted.extend(node(*client)),
            Told::Refused(_) | Told::Gone(..) | Told::SessionLost => {}
        }
    }

    /// Reports whether a data object may be of no file: its client came too late to make it, and wrote before
    /// it knew.
    pub fn may_have_left(&self, object: &str) -> bool {
        let of = object.split_once('.').map(|(ino, _)| ino);
        self.gone.iter().any(|(_, ino)| Some(ino.as_str()) == of)
    }

    /// Reports whether an event is about a client that came too late or was evicted, or its own.
    pub fn explains(&self, node: &str, event: &Event) -> bool {
        match event.name {
            "unsafe_requests_lost" => named(&event.detail).first().is_some_and(|c| self.refused.contains(c)),
            "change_lost" => self.losers.contains(node),
            "writes_lost" => {
                let ino = event.detail.rsplit(' ').next().unwrap_or_default();
                self.gone.contains(&(node.to_owned(), ino.to_owned()))
            }
            "evicted" => self.evicted.contains(node),
            _ => false,
        }
    }
}
