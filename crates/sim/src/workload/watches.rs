//! Clients that watch a few objects, notify one another, acknowledge soon, late or never, and end their
//! watches, while the objects are written to and deleted.

use super::{ClientWorld, Load};
use crate::host::HostId;
use crate::objects::{OBJECTS, object_request};
use crate::oracle::linear::Judgement;
use crate::oracle::watches::History;
use fsclient::{Answer, Reply, Request};
use msgs::op::input::{self, ListWatchersReply};
use msgs::{Extent, Op};
use node::RequestId;
use std::collections::BTreeMap;
use std::time::Duration;
use stdx::{Bufs, Instant, Rng};
use wire::Errno;

/// The longest time between two calls of one client.
const THINK: Duration = Duration::from_millis(600);
/// The most unanswered calls of one client.
const DEPTH: usize = 4;
/// The most watches of one client.
const WATCHES: usize = 3;
/// The longest timeout of a watch, in seconds.
const LONGEST: u64 = 15;

/// The load of watches.
pub struct WatchLoad {
    history: History,
    /// The last time at which a watch heard anything, by its cookie.
    heard_at: BTreeMap<u64, Instant>,
    rng: Rng,
    clients: Vec<ClientState>,
    names: Vec<String>,
    /// Calls still to be made.
    left: usize,
    /// Objects still to be made.
    to_make: Vec<String>,
    pending: BTreeMap<RequestId, Pending>,
    next_cookie: u64,
    /// Acknowledgements to give later.
    late: BTreeMap<(Instant, u64), Ack>,
    answered: usize,
    end: End,
}

/// Calls that remain at the end, one after another.
#[derive(Default)]
enum End {
    #[default]
    NotYet,
    /// A last notification of each object.
    Notifies(Vec<String>),
    /// A listing of each object's watchers, when watches of dead clients have timed out.
    Lists(Instant, Vec<String>),
}

struct ClientState {
    host: HostId,
    flying: usize,
    next_at: Instant,
    /// Its watches by cookie: the object, and true once the watch was acknowledged.
    watches: BTreeMap<u64, (String, bool)>,
}

struct Ack {
    client: usize,
    cookie: u64,
    id: u64,
    number: usize,
}

struct Pending {
    client: usize,
    what: What,
}

enum What {
    Watch(u64),
    Notify(usize),
    List(String),
    Delete(usize),
    /// A call whose answer tells nothing.
    Other(&'static str),
}

impl WatchLoad {
    /// A load of `calls` calls by these clients on a few objects.
    pub fn new(mut rng: Rng, clients: &[HostId], calls: usize, now: Instant) -> Self {
        let names: Vec<String> = (0..rng.range(1, 4)).map(|i| format!("w{i}")).collect();
        let clients = clients.iter();
        let clients = clients.map(|host| ClientState {
            host: *host,
            flying: 0,
            next_at: now,
            watches: BTreeMap::new(),
        });
        Self {
            history: History::default(),
            heard_at: BTreeMap::new(),
            clients: clients.collect(),
            rng,
            to_make: names.clone(),
            names,
            left: calls,
            pending: BTreeMap::new(),
            next_cookie: 0,
            late: BTreeMap::new(),
            answered: 0,
            end: End::NotYet,
        }
    }

    fn send(&mut self, world: &mut ClientWorld, client: usize, request: Request, what: What) {
        let id = world.request(self.clients[client].host, request);
        self.clients[client].flying += 1;
        self.pending.insert(id, Pending { client, what });
    }

    fn notify(&mut self, world: &mut ClientWorld, client: usize, name: &str, last: bool) {
        let number = self.history.notify_called(name, last);
        let timeout = if last { 10 } else { self.rng.range(1, 6) as u32 };
        let payload = number.to_string().into_bytes();
        let request = Request::Notify {
            pool: OBJECTS.into(),
            namespace: Vec::new(),
            name: name.as_bytes().to_vec(),
            payload,
            timeout,
        };
        self.send(world, client, request, What::Notify(number));
    }

    fn watch(&mut self, world: &mut ClientWorld, client: usize, name: String) {
        self.next_cookie += 1;
        let cookie = self.next_cookie;
        let timeout = self.rng.range(8, LONGEST + 1);
        self.history.watch_called(cookie, &name, Duration::from_secs(timeout));
        let request = Request::Watch {
            pool: OBJECTS.into(),
            namespace: Vec::new(),
            name: name.as_bytes().to_vec(),
            cookie,
            timeout: timeout as u32,
        };
        self.clients[client].watches.insert(cookie, (name, false));
        self.send(world, client, request, What::Watch(cookie));
    }

    fn unwatch(&mut self, world: &mut ClientWorld, client: usize, cookie: u64) {
        self.history.ended(cookie);
        self.clients[client].watches.remove(&cookie);
        self.send(world, client, Request::Unwatch { cookie }, What::Other("ends a watch"));
    }

    fn ack(&mut self, world: &mut ClientWorld, Ack { client, cookie, id, number }: Ack) {
        let Some((name, _)) = self.clients[client].watches.get(&cookie).cloned() else { return };
        let reply = History::answer(cookie, id, number);
        self.history.answers(cookie, &reply);
        let input = input::NotifyAckInput { notify_id: id, watch_cookie: cookie, reply };
        let ack = Op::NotifyAck { cookie: 0, data: input::write(&input) };
        self.send(world, client, object_request(&name, vec![ack]), What::Other("acknowledges"));
    }

    fn draw(&mut self, world: &mut ClientWorld, client: usize) {
        let name = self.rng.pick(&self.names).clone();
        let watches = &self.clients[client].watches;
        let there: Vec<u64> = watches.iter().filter(|(_, w)| w.1).map(|(cookie, _)| *cookie).collect();
        match self.rng.below(100) {
            0..35 if watches.len() < WATCHES => self.watch(world, client, name),
            35..43 if !there.is_empty() => {
                let cookie = *self.rng.pick(&there);
                self.unwatch(world, client, cookie);
            }
            43..55 => {
                let append = Op::Append { extent: Extent::new(0, 1), data: Bufs::from(b"x".to_vec()) };
                self.send(world, client, object_request(&name, vec![append]), What::Other("appends"));
            }
            55..58 => {
                let request = object_request(&name, vec![Op::Delete]);
                let number = self.history.delete_called(&name);
                self.send(world, client, request, What::Delete(number));
                self.to_make.push(name);
            }
            _ => self.notify(world, client, &name, false),
        }
    }

    fn heard(&mut self, world: &mut ClientWorld, host: HostId, (cookie, id): (u64, u64), payload: &[u8]) {
        self.heard_at.insert(cookie, world.now());
        let Some(number) = self.history.heard(cookie, id, payload) else { return };
        let Some(client) = self.clients.iter().position(|c| c.host == host) else { return };
        let ack = Ack { client, cookie, id, number };
        let finishing = !matches!(self.end, End::NotYet);
        match self.rng.below(20) {
            0 if !finishing => {}
            1..3 if !finishing => {
                let at = world.now() + Duration::from_millis(self.rng.range(1, 2500));
                self.late.insert((at, id ^ cookie << 48), ack);
            }
            _ => self.ack(world, ack),
        }
    }

    /// Makes the next call at the end.
    fn ask_last(&mut self, world: &mut ClientWorld, client: usize) {
        let now = world.now();
        match &mut self.end {
            End::NotYet => {}
            End::Notifies(names) => match names.pop() {
                Some(name) => self.notify(world, client, &name, true),
                None if self.pending.is_empty() => {
                    let at = now + Duration::from_secs(LONGEST + 3);
                    self.end = End::Lists(at, self.names.clone());
                }
                None => {}
            },
            End::Lists(at, names) if *at <= now => {
                let Some(name) = names.pop() else { return };
                let request = object_request(&name, vec![Op::ListWatchers]);
                self.send(world, client, request, What::List(name));
            }
            End::Lists(..) => {}
        }
    }
}

impl Load for WatchLoad {
    fn wants_at(&self) -> Option<Instant> {
        let late = self.late.keys().next().map(|(at, _)| *at);
        let idle = self.clients.iter().filter(|c| c.flying < DEPTH).map(|c| c.next_at).min();
        let calls = match &self.end {
            End::NotYet => idle.filter(|_| self.left > 0 || !self.to_make.is_empty()),
            // The listings follow when the last notifications are answered.
            End::Notifies(names) => idle.filter(|_| !names.is_empty() || self.pending.is_empty()),
            End::Lists(at, names) => idle.filter(|_| !names.is_empty()).map(|idle| idle.max(*at)),
        };
        late.into_iter().chain(calls).min()
    }

    fn issue(&mut self, world: &mut ClientWorld) {
        let now = world.now();
        while let Some(entry) = self.late.first_entry()
            && entry.key().0 <= now
        {
            let ack = entry.remove();
            if world.is_up(self.clients[ack.client].host) {
                self.ack(world, ack);
            }
        }
        for client in 0..self.clients.len() {
            let state = &self.clients[client];
            if state.next_at > now || state.flying >= DEPTH {
                continue;
            }
            let pause = Duration::from_nanos(self.rng.below(THINK.as_nanos() as u64) + 1);
            self.clients[client].next_at = now + pause;
            if !world.is_up(self.clients[client].host) {
                continue;
            }
            if let Some(name) = self.to_make.pop() {
                let request = object_request(&name, vec![Op::Create { data: Bufs::default() }]);
                self.send(world, client, request, What::Other("makes an object"));
            } else if !matches!(self.end, End::NotYet) {
                self.clients[client].next_at = now;
                self.ask_last(world, client);
            } else if self.left > 0 {
                self.left -= 1;
                self.draw(world, client);
            }
        }
    }

    fn answered(&mut self, world: &mut ClientWorld, host: HostId, id: RequestId, reply: &Reply) -> bool {
        match reply {
            Ok(Answer::Notified { cookie, notify_id, payload, .. }) => {
                self.heard(world, host, (*cookie, *notify_id), payload);
                return true;
            }
            Ok(Answer::WatchBroken { cookie, alive_at, .. }) => {
                self.history.broken(*cookie, world.now().since(*alive_at));
                if let Some(client) = self.clients.iter().position(|c| c.host == host) {
                    self.clients[client].watches.remove(cookie);
                    if self.rng.chance(1, 2) {
                        let request = Request::Unwatch { cookie: *cookie };
                        self.send(world, client, request, What::Other("ends a broken watch"));
                    }
                }
                return true;
            }
            _ => {}
        }
        let Some(Pending { client, what }) = self.pending.remove(&id) else { return false };
        self.clients[client].flying -= 1;
        self.answered += 1;
        match (what, reply) {
            (What::Watch(cookie), Ok(Answer::Watching { result, client: gid })) => {
                self.heard_at.insert(cookie, world.now());
                self.history.watch_answered(cookie, *result, *gid);
                if result.is_err() {
                    self.clients[client].watches.remove(&cookie);
                } else if let Some(watch) = self.clients[client].watches.get_mut(&cookie) {
                    watch.1 = true;
                }
            }
            (What::Notify(number), Ok(Answer::NotifyEnded { result, reply, attempts })) => {
                self.history.notify_ended(number, *result, reply, *attempts);
            }
            (What::Delete(number), _) => self.history.delete_answered(number),
            (What::List(name), Ok(Answer::Object { result, ops, .. })) => {
                let list = ops.first().filter(|_| result.is_ok()).map(|(_, data)| data);
                let list: ListWatchersReply =
                    list.map(|data| input::read(data).expect("an OSD's list decodes")).unwrap_or_default();
                if matches!(result, Ok(_) | Err(Errno::ENOENT)) {
                    self.history.listed(&name, list.entries.iter().map(|entry| entry.cookie));
                }
            }
            _ => {}
        }
        true
    }

    fn died(&mut self, host: HostId, now: Instant) {
        let clients = &self.clients;
        self.pending.retain(|_, p| clients[p.client].host != host);
        self.late.retain(|_, ack| clients[ack.client].host != host);
        for client in self.clients.iter_mut().filter(|c| c.host == host) {
            client.flying = 0;
            for cookie in std::mem::take(&mut client.watches).into_keys() {
                let heard_at = self.heard_at.get(&cookie).copied().unwrap_or(now);
                self.history.died(cookie, now.since(heard_at));
            }
        }
    }

    fn finish(&mut self, _: &ClientWorld) {
        self.left = 0;
        self.end = End::Notifies(self.names.clone());
    }

    fn in_flight(&self) -> Vec<String> {
        let line = |p: &Pending| match &p.what {
            What::Watch(cookie) => format!("client.{} registers watch {cookie}", p.client),
            What::Notify(number) => format!("client.{} makes notification {number}", p.client),
            What::List(name) => format!("client.{} lists who watches {name}", p.client),
            What::Delete(number) => format!("client.{} makes deletion {number}", p.client),
            What::Other(what) => format!("client.{} {what}", p.client),
        };
        let pending = self.pending.values().map(line);
        let left = match &self.end {
            End::NotYet => Vec::new(),
            End::Notifies(names) => [&["lists".to_owned()], &names[..]].concat(),
            End::Lists(_, names) => names.clone(),
        };
        pending.chain(left.into_iter().map(|name| format!("last look at {name}"))).collect()
    }

    fn answered_calls(&self) -> usize {
        self.answered
    }

    fn verdicts(&self) -> Vec<(&'static str, Judgement)> {
        vec![("watches_told", self.history.check())]
    }
}
