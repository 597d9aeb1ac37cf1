//! Clients that write to a few objects, take snapshots meanwhile, read them, roll back to them and remove
//! them.

use super::objects::balanced;
use super::{ClientWorld, Load};
use crate::cluster::SNAPSHOTS;
use crate::host::HostId;
use crate::oracle::linear::Judgement;
use crate::oracle::objects::filled;
use crate::oracle::snapshots::{Action, History};
use fsclient::SnapContext;
use fsclient::{Answer, ObjectRequest, Reply, Request};
use maps::SnapId;
use msgs::{Extent, Op};
use node::RequestId;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;
use stdx::{Bufs, Instant, Rng};
use wire::Errno;

/// The load of snapshots.
pub struct SnapshotLoad {
    history: History,
    rng: Rng,
    clients: Vec<ClientState>,
    names: Vec<String>,
    /// Calls still to be made.
    left: usize,
    /// Objects and snapshots to read at the end, before the last snapshots are removed.
    last_look: Vec<(String, Option<u64>)>,
    last_removals: Vec<u64>,
    pending: BTreeMap<RequestId, Pending>,
    next_tag: u32,
    /// Ids of existing snapshots.
    snaps: BTreeSet<u64>,
    newest: u64,
    /// The client that is taking a snapshot: one at a time, so that a context has all snapshots older than
    /// its newest.
    taker: Option<usize>,
    /// The newest snapshot when the first write to each object was acknowledged: all later snapshots show the
    /// object.
    there_since: BTreeMap<String, u64>,
    /// Snapshots that a client rolled back to. The rollback may still happen after all have forgotten it, so
    /// these snapshots are not removed before the end.
    kept: BTreeSet<u64>,
}

struct ClientState {
    host: HostId,
    depth: usize,
    flying: usize,
    next_at: Instant,
    /// Its snapshot context, which it renews now and then.
    context: (u64, Vec<u64>),
}

struct Pending {
    client: usize,
    what: What,
}

enum What {
    Call { name: String, number: usize, reads: bool },
    Take,
    Remove(u64),
}

/// The longest time between two calls of one client.
const THINK: Duration = Duration::from_millis(400);

impl SnapshotLoad {
    /// A load of `calls` calls by these clients on a few objects.
    pub fn new(mut rng: Rng, clients: &[HostId], calls: usize, now: Instant) -> Self {
        let objects = rng.range(1, 5);
        let clients = clients.iter().map(|host| ClientState {
            host: *host,
            depth: rng.range(1, 4) as usize,
            flying: 0,
            next_at: now,
            context: (0, Vec::new()),
        });
        Self {
            history: History::default(),
            clients: clients.collect(),
            rng,
            names: (0..objects).map(|i| if i % 2 == 0 { format!("s{i}") } else { format!("d{i}") }).collect(),
            there_since: BTreeMap::new(),
            left: calls,
            last_look: Vec::new(),
            last_removals: Vec::new(),
            pending: BTreeMap::new(),
            next_tag: 0,
            snaps: BTreeSet::new(),
            newest: 0,
            taker: None,
            kept: BTreeSet::new(),
        }
    }

    /// Ids of removed snapshots.
    pub fn removed(&self) -> &BTreeSet<u64> {
        &self.history.removed
    }

    fn send(&mut self, world: &mut ClientWorld, client: usize, request: Request, what: What) {
        let id = world.request(self.clients[client].host, request);
        self.clients[client].flying += 1;
        self.pending.insert(id, Pending { client, what });
    }

    fn call(&mut self, world: &mut ClientWorld, client: usize, name: String, action: Action) {
        let context = self.clients[client].context.clone();
        let number = self.history.called(&name, client, action.clone(), context.clone());
        let (op, snap) = op_of(&action);
        let request = Request::Object(ObjectRequest {
            pool: SNAPSHOTS.into(),
            namespace: Vec::new(),
            name: name.as_bytes().to_vec(),
            ops: vec![op],
            snap,
            snapc: SnapContext {
                seq: SnapId(context.0),
                snaps: context.1.iter().rev().copied().map(SnapId).collect(),
            },
            flags: balanced(matches!(action, Action::Read(_)), number),
        });
        let reads = matches!(action, Action::Read(_));
        self.send(world, client, request, What::Call { name, number, reads });
    }

    fn draw(&mut self, world: &mut ClientWorld, client: usize) {
        self.next_tag += 1;
        let (tag, name) = (self.next_tag, self.rng.pick(&self.names).clone());
        if self.rng.chance(2, 3) {
            self.clients[client].context = (self.newest, self.snaps.iter().copied().collect());
        }
        let snaps: Vec<u64> = self.snaps.iter().copied().collect();
        // Objects are either deleted or rolled back, never both: see the checker.
        let goes = crate::oracle::snapshots::may_go(&name);
        let there = self.there_since.get(&name).copied().unwrap_or(u64::MAX);
        let back: Vec<u64> = snaps.iter().copied().filter(|snap| *snap > there).collect();
        let rng = &mut self.rng;
        let len = if rng.chance(1, 10) { 9000 } else { rng.range(1, 200) as usize };
        let action = match rng.below(100) {
            0..12 if self.taker.is_some() => Action::Read(None),
            0..12 => {
                self.taker = Some(client);
                let request = Request::PoolSnap { pool: SNAPSHOTS.into(), remove: None };
                return self.send(world, client, request, What::Take);
            }
            12..18 => {
                let Some(snap) = snaps.iter().find(|s| !self.kept.contains(s)).copied() else { return };
                return self.remove(world, client, snap);
            }
            18..38 => Action::WriteFull { tag, len },
            38..55 => Action::Append { tag, len: rng.range(1, 100) as usize },
            55..67 if goes => Action::Delete,
            55..67 if !back.is_empty() => {
                let snap = *rng.pick(&back);
                self.kept.insert(snap);
                Action::Rollback(snap)
            }
            67..88 if !snaps.is_empty() => Action::Read(Some(*rng.pick(&snaps))),
            _ => Action::Read(None),
        };
        self.call(world, client, name, action);
    }

    fn remove(&mut self, world: &mut ClientWorld, client: usize, snap: u64) {
        self.snaps.remove(&snap);
        self.history.removed.insert(snap);
        let request = Request::PoolSnap { pool: SNAPSHOTS.into(), remove: Some(SnapId(snap)) };
        self.send(world, client, request, What::Remove(snap));
    }
}

impl Load for SnapshotLoad {
    fn wants_at(&self) -> Option<Instant> {
        let removes = !self.last_removals.is_empty() && self.pending.is_empty();
        if self.left == 0 && self.last_look.is_empty() && !removes {
            return None;
        }
        self.clients.iter().filter(|c| c.flying < c.depth).map(|c| c.next_at).min()
    }

    fn issue(&mut self, world: &mut ClientWorld) {
        for client in 0..self.clients.len() {
            let now = world.now();
            let state = &self.clients[client];
            if state.next_at > now || state.flying >= state.depth {
                continue;
            }
            let pause = Duration::from_nanos(self.rng.below(THINK.as_nanos() as u64) + 1);
            self.clients[client].next_at = now + pause;
            if !world.is_up(self.clients[client].host) {
                continue;
            }
            if let Some((name, snap)) = self.last_look.pop() {
                self.clients[client].next_at = now;
                self.call(world, client, name, Action::Read(snap));
            } else if self.left > 0 {
                self.left -= 1;
                self.draw(world, client);
            } else if self.pending.is_empty()
                && let Some(snap) = self.last_removals.pop()
            {
                self.remove(world, client, snap);
            }
        }
    }

    fn answered(&mut self, _: &mut ClientWorld, _: HostId, id: RequestId, reply: &Reply) -> bool {
        let Some(Pending { client, what }) = self.pending.remove(&id) else { return false };
        self.clients[client].flying -= 1;
        match (what, reply) {
            (What::Call { name, number, reads }, Ok(Answer::Object { result, ops, .. })) => {
                let data = ops.first().map(|(_, data)| Arc::new(data.to_vec()));
                let seen = data.filter(|_| reads && result.is_ok());
                if !reads && result.is_ok() {
                    self.there_since.entry(name.clone()).or_insert(self.newest);
                }
                self.history.returned(&name, number, *result, seen);
            }
            (What::Call { name, number, .. }, _) => {
                self.history.returned(&name, number, Err(Errno::EIO), None);
            }
            (What::Take, Ok(Answer::PoolSnap { result: Ok(()), snap: Some(snap) })) => {
                self.taker = None;
                self.snaps.insert(snap.0);
                self.newest = self.newest.max(snap.0);
            }
            (What::Remove(_), Ok(Answer::PoolSnap { result: Ok(()), .. })) => {}
            // The outcome is unknown: the removal is requested again at the end.
            (What::Remove(snap), _) => self.last_removals.push(snap),
            (What::Take, _) => self.taker = None,
        }
        true
    }

    fn died(&mut self, host: HostId, _: Instant) {
        let clients = &self.clients;
        let (gone, rest) =
            std::mem::take(&mut self.pending).into_iter().partition(|(_, p)| clients[p.client].host == host);
        self.pending = rest;
        self.taker = self.taker.filter(|taker| clients[*taker].host != host);
        let gone: BTreeMap<RequestId, Pending> = gone;
        self.last_removals.extend(gone.into_values().filter_map(|p| match p.what {
            What::Remove(snap) => Some(snap),
            _ => None,
        }));
        self.clients.iter_mut().filter(|c| c.host == host).for_each(|c| c.flying = 0);
    }

    fn finish(&mut self, _: &ClientWorld) {
        self.left = 0;
        for name in self.history.names() {
            self.last_look.push((name.clone(), None));
            self.last_look.extend(self.snaps.iter().map(|snap| (name.clone(), Some(*snap))));
        }
        if self.rng.chance(1, 2) {
            self.last_removals.extend(&self.snaps);
        }
    }

    fn in_flight(&self) -> Vec<String> {
        let line = |p: &Pending| match &p.what {
            What::Call { name, number, .. } => format!("client.{} call {number} of {name}", p.client),
            What::Take => format!("client.{} takes a snapshot", p.client),
            What::Remove(snap) => format!("client.{} removes snapshot {snap}", p.client),
        };
        self.pending
            .values()
            .map(line)
            .chain(self.last_look.iter().map(|(name, snap)| format!("last look at {name} {snap:?}")))
            .chain(self.last_removals.iter().map(|snap| format!("last removal of {snap}")))
            .collect()
    }

    fn answered_calls(&self) -> usize {
        self.history.answered()
    }

    fn verdicts(&self) -> Vec<(&'static str, Judgement)> {
        vec![("snapshots_linearizable", self.history.check())]
    }

    fn removed_snaps(&self) -> Option<&BTreeSet<u64>> {
        Some(self.removed())
    }
}

fn op_of(action: &Action) -> (Op, SnapId) {
    let extent = |len: usize| Extent::new(0, len as u64);
    let bytes = |tag: u32, len: usize| Bufs::from(filled(tag, 0, len));
    let op = match action {
        Action::WriteFull { tag, len } => Op::WriteFull { extent: extent(*len), data: bytes(*tag, *len) },
        Action::Append { tag, len } => Op::Append { extent: extent(*len), data: bytes(*tag, *len) },
        Action::Delete => Op::Delete,
        Action::Rollback(snap) => Op::Rollback { snap: SnapId(*snap) },
        Action::Read(snap) => return (Op::Read(extent(0)), snap.map_or(SnapId::HEAD, SnapId)),
    };
    (op, SnapId::HEAD)
}
