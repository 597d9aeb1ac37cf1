//! Clients that give monitor commands: they set, read and remove values under a few keys. Each key is a
//! register, and all answers together must be those of a single monitor.

use super::{ClientWorld, Load};
use crate::host::HostId;
use crate::oracle::linear::{Entry, Judgement, Model, Step};
use fsclient::{Answer, Reply, Request};
use node::RequestId;
use serde_json::json;
use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;
use stdx::{Bufs, Instant, Rng};
use wire::Errno;

/// A client's command about a key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Action {
    Get,
    Set(u32),
    Remove,
}

/// A call with its answer: the value that was read.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Call {
    client: usize,
    action: Action,
    read: Option<u32>,
}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { client, action, read } = self;
        write!(f, "client.{client} {action:?} = {read:?}")
    }
}

/// The value of a key.
#[derive(Clone, Hash, PartialEq, Eq, Debug)]
struct Register(Option<u32>);

impl Model for Register {
    type Call = Call;

    fn apply(&self, call: &Call) -> Step<Self> {
        match call.action {
            Action::Get if self.0 == call.read => Step::Same,
            Action::Get => Step::Wrong,
            _ => self.apply_unknown(call).map_or(Step::Same, Step::To),
        }
    }

    fn apply_unknown(&self, call: &Call) -> Option<Self> {
        let next = match call.action {
            Action::Get => return None,
            Action::Set(value) => Self(Some(value)),
            Action::Remove => Self(None),
        };
        (next != *self).then_some(next)
    }

    fn is_read(call: &Call) -> bool {
        call.action == Action::Get
    }

    fn are_alike(a: &Call, b: &Call) -> bool {
        a.action == b.action
    }
}

struct Pending {
    client: usize,
    key: usize,
    number: usize,
}

/// The load of monitor commands.
pub struct CommandLoad {
    rng: Rng,
    clients: Vec<(HostId, Instant, bool)>,
    left: usize,
    next_value: u32,
    clock: u64,
    pending: BTreeMap<RequestId, Pending>,
    history: Vec<Vec<Entry<Call>>>,
    answered: usize,
    last_look: usize,
    bursts: Option<Bursts>,
}

/// Calls come in bursts, and the Raft log is quiet in between: then a monitor that was cut off lacks nothing.
#[derive(Clone, Copy)]
struct Bursts {
    from: Instant,
    to: Instant,
}

/// The longest time between two calls of one client.
const THINK: Duration = Duration::from_millis(300);

impl CommandLoad {
    /// A load of `calls` calls by these clients.
    pub fn new(mut rng: Rng, clients: &[HostId], calls: usize, now: Instant) -> Self {
        let keys = rng.range(1, 4) as usize;
        let bursts = rng.chance(1, 2).then_some(Bursts { from: now, to: now });
        let (lanes, calls) = if bursts.is_some() { (2, 3 * calls) } else { (1, calls) };
        Self {
            rng,
            clients: clients
                .iter()
                .flat_map(|host| [(*host, now, false); 2].into_iter().take(lanes))
                .collect(),
            left: calls,
            next_value: 0,
            clock: 0,
            pending: BTreeMap::new(),
            history: vec![Vec::new(); keys],
            answered: 0,
            last_look: 0,
            bursts,
        }
    }

    /// The time of the next call by a client that is free now.
    fn next_at(&mut self, now: Instant) -> Instant {
        let Some(mut bursts) = self.bursts else {
            return now + Duration::from_nanos(self.rng.below(THINK.as_nanos() as u64) + 1);
        };
        let mut ms = |least: u64, most: u64| Duration::from_micros(self.rng.range(1000 * least, 1000 * most));
        let at = now + ms(1, 30);
        if at < bursts.to {
            return at;
        }
        if bursts.from <= now {
            bursts.from = now + ms(300, 2_500);
            bursts.to = bursts.from + ms(20, 200);
            self.bursts = Some(bursts);
        }
        bursts.from + ms(1, 30)
    }

    fn tick(&mut self) -> u64 {
        self.clock += 1;
        self.clock
    }

    fn call(&mut self, world: &mut ClientWorld, client: usize, key: usize, action: Action) {
        let name = format!("register/{key}");
        let command = match action {
            Action::Get => json!({ "prefix": "config-key get", "key": name }),
            Action::Set(value) => {
                json!({ "prefix": "config-key set", "key": name, "val": value.to_string() })
            }
            Action::Remove => json!({ "prefix": "config-key rm", "key": name }),
        };
        let entry = Entry { call: self.tick(), ret: None, what: Call { client, action, read: None } };
        self.history[key].push(entry);
        let number = self.history[key].len() - 1;
        let request = Request::Command { command: command.to_string(), input: Bufs::default() };
        let id = world.request(self.clients[client].0, request);
        self.clients[client].2 = true;
        self.pending.insert(id, Pending { client, key, number });
    }
}

impl Load for CommandLoad {
    fn wants_at(&self) -> Option<Instant> {
        if self.left == 0 && self.last_look == 0 {
            return None;
        }
        self.clients.iter().filter(|(_, _, busy)| !busy).map(|(_, at, _)| *at).min()
    }

    fn issue(&mut self, world: &mut ClientWorld) {
        for client in 0..self.clients.len() {
            let (host, at, busy) = self.clients[client];
            if at > world.now() || busy {
                continue;
            }
            self.clients[client].1 = self.next_at(world.now());
            if !world.is_up(host) {
                continue;
            }
            if self.last_look > 0 {
                self.last_look -= 1;
                self.call(world, client, self.last_look, Action::Get);
            } else if self.left > 0 {
                self.left -= 1;
                self.next_value += 1;
                let key = self.rng.below(self.history.len() as u64) as usize;
                let action = match self.rng.below(10) {
                    0..5 => Action::Get,
                    5 => Action::Remove,
                    _ => Action::Set(self.next_value),
                };
                self.call(world, client, key, action);
            }
        }
    }

    fn answered(&mut self, _: &mut ClientWorld, _: HostId, id: RequestId, reply: &Reply) -> bool {
        let Some(Pending { client, key, number }) = self.pending.remove(&id) else { return false };
        self.clients[client].2 = false;
        let now = self.tick();
        let entry = &mut self.history[key][number];
        let read = match reply {
            Ok(Answer::Command { result: Ok(()), output, .. }) => {
                let text = String::from_utf8_lossy(&output.to_vec()).into_owned();
                text.trim().parse().ok()
            }
            Ok(Answer::Command { result: Err(Errno::ENOENT), .. }) => None,
            // The client gave up, so the outcome is unknown.
            _ => return true,
        };
        if entry.what.action == Action::Get {
            entry.what.read = read;
        }
        entry.ret = Some(now);
        self.answered += 1;
        true
    }

    fn died(&mut self, host: HostId, _: Instant) {
        self.pending.retain(|_, p| self.clients[p.client].0 != host);
        self.clients.iter_mut().filter(|(s, ..)| *s == host).for_each(|(_, _, busy)| *busy = false);
    }

    fn finish(&mut self, _: &ClientWorld) {
        self.left = 0;
        self.last_look = self.history.len();
    }

    fn in_flight(&self) -> Vec<String> {
        let line =
            |p: &Pending| format!("client.{} {:?}", p.client, self.history[p.key][p.number].what.action);
        self.pending.values().map(line).collect()
    }

    fn answered_calls(&self) -> usize {
        self.answered
    }

    fn verdicts(&self) -> Vec<(&'static str, Judgement)> {
        let mut judgement = Judgement::default();
        for (key, history) in self.history.iter().enumerate() {
            judgement.judge(&format!("register {key}"), &Register(None), history);
        }
        vec![("commands_linearizable", judgement)]
    }
}
