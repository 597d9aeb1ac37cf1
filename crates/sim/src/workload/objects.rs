//! Clients that work on a few objects at once: whole and partial writes, appends, deletes, omap entries,
//! guarded updates, and reads of all that an object has.

use super::{ClientWorld, Load};
use crate::host::HostId;
use crate::objects::object_request;
use crate::oracle::linear::Judgement;
use crate::oracle::objects::{Action, History, State, filled};
use fsclient::{Answer, OpAnswer, Reply, Request};
use msgs::op::{cmp_op, input};
use msgs::{Extent, Op, osd_flag};
use node::RequestId;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use stdx::{Bufs, Instant, Rng};
use wire::Errno;

/// The flag with which every other read may be answered by any member.
pub fn balanced(reads: bool, number: usize) -> u32 {
    if reads && !number.is_multiple_of(2) { osd_flag::BALANCE_READS } else { 0 }
}

/// The load of object operations.
pub struct ObjectLoad {
    history: History,
    rng: Rng,
    clients: Vec<ClientState>,
    names: Vec<String>,
    /// Calls still to be made.
    left: usize,
    /// Objects to read at the end.
    last_look: Vec<String>,
    pending: BTreeMap<RequestId, Pending>,
    next_tag: u32,
    /// The last known value of each object's guard.
    guards: BTreeMap<String, Vec<u8>>,
}

struct ClientState {
    host: HostId,
    /// The most calls in flight.
    depth: usize,
    flying: usize,
    next_at: Instant,
    /// True if it only reads: a client that never waits for a write that can't complete sees outdated content
    /// for longest.
    only_reads: bool,
}

struct Pending {
    client: usize,
    name: String,
    number: usize,
    action: Action,
}

/// The longest time between two calls of one client.
const THINK: Duration = Duration::from_millis(400);

impl ObjectLoad {
    /// A load of `calls` calls by these clients on a few objects.
    pub fn new(mut rng: Rng, clients: &[HostId], calls: usize, now: Instant) -> Self {
        let objects = rng.range(2, 9);
        let clients = clients
            .iter()
            .map(|host| ClientState {
                host: *host,
                depth: rng.range(1, 4) as usize,
                flying: 0,
                next_at: now,
                only_reads: false,
            })
            .collect();
        Self {
            history: History::default(),
            rng,
            clients,
            names: (0..objects).map(|i| format!("o{i}")).collect(),
            left: calls,
            last_look: Vec::new(),
            pending: BTreeMap::new(),
            next_tag: 0,
            guards: BTreeMap::new(),
        }
    }

    /// Makes all clients but the first read only, on so many objects that few are written twice.
    pub fn with_readers(mut self) -> Self {
        self.names = (0..self.rng.range(8, 30)).map(|i| format!("o{i}")).collect();
        // Deep enough that some reads go on while others wait for updates that can't become durable.
        self.clients.iter_mut().skip(1).for_each(|c| (c.only_reads, c.depth) = (true, 6));
        self
    }

    fn draw(&mut self, name: &str) -> Action {
        self.next_tag += 1;
        let (tag, rng) = (self.next_tag, &mut self.rng);
        let len = match rng.below(20) {
            0 => 70_000,
            1..4 => rng.range(4000, 9000) as usize,
            _ => rng.range(1, 200) as usize,
        };
        let key = |rng: &mut Rng| vec![b'a' + rng.below(4) as u8];
        match rng.below(100) {
            0..28 => Action::Read,
            28..40 => Action::WriteFull { tag, len },
            40..50 => Action::Write { tag, offset: rng.below(5000) as usize, len },
            50..67 => Action::Append { tag, len: rng.range(1, 100) as usize },
            67..70 => Action::Truncate(rng.below(300) as usize),
            70..72 => Action::Zero { offset: rng.below(200) as usize, len },
            72..76 => Action::Delete,
            76..78 => Action::Create,
            78..84 => Action::OmapSet(key(rng), tag),
            84..86 => Action::OmapRemove(key(rng)),
            86..87 => Action::OmapClear,
            87..89 => Action::AttrRemove,
            89..92 => Action::Everything { tag, len, key: key(rng) },
            _ => Action::Guarded { tag, expect: self.guards.get(name).cloned().unwrap_or_default() },
        }
    }

    fn call(&mut self, world: &mut ClientWorld, client: usize, name: String, action: Action) {
        let number = self.history.called(&name, client, action.clone());
        let host = self.clients[client].host;
        let mut request = object_request(&name, ops(&action));
        if let Request::Object(request) = &mut request {
            request.flags = balanced(action == Action::Read, number);
        }
        let id = world.request(host, request);
        self.clients[client].flying += 1;
        self.pending.insert(id, Pending { client, name, number, action });
    }
}

impl Load for ObjectLoad {
    fn wants_at(&self) -> Option<Instant> {
        if self.left == 0 && self.last_look.is_empty() {
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
            if let Some(name) = self.last_look.pop() {
                self.clients[client].next_at = now;
                self.call(world, client, name, Action::Read);
            } else if self.left > 0 {
                self.left -= 1;
                let name = self.rng.pick(&self.names).clone();
                let reads = self.clients[client].only_reads;
                let action = if reads { Action::Read } else { self.draw(&name) };
                self.call(world, client, name, action);
            }
        }
    }

    fn answered(&mut self, _: &mut ClientWorld, _: HostId, id: RequestId, reply: &Reply) -> bool {
        let Some(Pending { client, name, number, action }) = self.pending.remove(&id) else { return false };
        self.clients[client].flying -= 1;
        match reply {
            Ok(Answer::Object { result, ops, .. }) => {
                let seen = (action == Action::Read && result.is_ok()).then(|| state_of(ops));
                if let Action::Guarded { tag, .. } = action
                    && result.is_ok()
                {
                    self.guards.insert(name.clone(), tag.to_string().into_bytes());
                }
                self.history.returned(&name, number, *result, seen);
            }
            // The client gave up, so the outcome is unknown.
            _ => self.history.returned(&name, number, Err(Errno::EIO), None),
        }
        true
    }

    fn died(&mut self, host: HostId, _: Instant) {
        self.pending.retain(|_, p| self.clients[p.client].host != host);
        self.clients.iter_mut().filter(|c| c.host == host).for_each(|c| c.flying = 0);
    }

    fn finish(&mut self, _: &ClientWorld) {
        self.left = 0;
        self.last_look = self.history.names();
    }

    fn in_flight(&self) -> Vec<String> {
        let line = |p: &Pending| format!("client.{} {:?} of {}", p.client, p.action, p.name);
        self.pending
            .values()
            .map(line)
            .chain(self.last_look.iter().map(|n| format!("last look at {n}")))
            .collect()
    }

    fn answered_calls(&self) -> usize {
        self.history.answered()
    }

    fn verdicts(&self) -> Vec<(&'static str, Judgement)> {
        vec![("objects_linearizable", self.history.check())]
    }
}

/// The vector of operations of an action.
fn ops(action: &Action) -> Vec<Op> {
    let bytes = |tag: u32, offset: usize, len: usize| Bufs::from(filled(tag, offset, len));
    let extent = |offset: usize, len: usize| Extent::new(offset as u64, len as u64);
    match action {
        Action::WriteFull { tag, len } => {
            vec![Op::WriteFull { extent: extent(0, *len), data: bytes(*tag, 0, *len) }]
        }
        Action::Write { tag, offset, len } => {
            vec![Op::Write { extent: extent(*offset, *len), data: bytes(*tag, *offset, *len) }]
        }
        Action::Append { tag, len } => {
            vec![Op::Append { extent: extent(0, *len), data: bytes(*tag, 0, *len) }]
        }
        Action::Truncate(len) => vec![Op::Truncate(extent(*len, 0))],
        Action::Delete => vec![Op::Delete],
        Action::Create => vec![Op::Create { data: Bufs::default() }],
        Action::OmapSet(key, tag) => {
            let values = input::OmapValues::from([(key.clone(), tag.to_string().into_bytes())]);
            vec![Op::OmapSetVals { data: input::write(&values) }]
        }
        Action::OmapRemove(key) => {
            vec![Op::OmapRmKeys { data: input::write(&input::OmapKeys::from([key.clone()])) }]
        }
        Action::OmapClear => vec![Op::OmapClear],
        Action::AttrRemove => vec![Op::RmXattr { name: b"v".to_vec() }],
        Action::Zero { offset, len } => vec![Op::Zero(extent(*offset, *len))],
        Action::Everything { tag, len, key } => {
            let value = Bufs::from(tag.to_string().into_bytes());
            let set = Op::SetXattr { name: b"v".to_vec(), value };
            [
                ops(&Action::WriteFull { tag: *tag, len: *len }),
                ops(&Action::OmapSet(key.clone(), *tag)),
                vec![set],
            ]
            .concat()
        }
        Action::Guarded { tag, expect } => {
            let (name, value) = (b"v".to_vec(), Bufs::from(expect.clone()));
            let guard = Op::CmpXattr { name: name.clone(), value, op: cmp_op::EQ, mode: cmp_op::MODE_STRING };
            let set = Op::SetXattr { name, value: Bufs::from(tag.to_string().into_bytes()) };
            let add = Op::Append { extent: extent(0, 8), data: bytes(*tag, 0, 8) };
            if expect.is_empty() { vec![set, add] } else { vec![guard, set, add] }
        }
        Action::Read => {
            let all = input::OmapGetVals { start_after: Vec::new(), max: 1000, prefix: Vec::new() };
            let omap = Op::OmapGetVals { data: input::write(&all) };
            vec![Op::Read(Extent::new(0, 0)), omap, Op::GetXattrs]
        }
    }
}

/// The object as the vector of a read saw it.
fn state_of(ops: &[OpAnswer]) -> State {
    let [(_, data), (_, omap), (_, attrs)] = ops else { panic!("three answers, not {}", ops.len()) };
    let (omap, _): input::OmapValuesReply = input::read(omap).expect("an OSD's omap answer decodes");
    let attrs: BTreeMap<Vec<u8>, Vec<u8>> = input::read(attrs).expect("an OSD's xattr answer decodes");
    State { data: Arc::new(data.to_vec()), omap, attr: attrs.get(&b"v"[..]).cloned() }
}
