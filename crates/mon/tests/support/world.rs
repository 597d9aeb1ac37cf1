//! Several monitors that hear one another at once, or not at all: connections are made without a handshake,
//! messages arrive in the order in which they were sent.

use super::{Answer, Disk, EPOCH, FakeStore, config, name};
use mon::{Mon, MonConfig};
use node::{Body, CloseReason, ConnId, Input, Msg, Node, Output, Peer};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::SocketAddr;
use std::time::Duration;
use stdx::{Bufs, Instant, Now, Rng, Wall};
use wire::{EntityName, EntityType};

/// Between a message and its arrival.
const DELAY: u64 = 200_000;

/// One monitor's place.
pub struct Place {
    pub mon: Option<Mon<FakeStore>>,
    pub disk: Disk,
    pub ready: bool,
    pub stopped: Option<String>,
    config: MonConfig,
    /// How far its wall clock is ahead, in nanoseconds.
    pub wall_ahead: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct End(usize, ConnId);

fn is_snapshot(msg: &Msg) -> bool {
    matches!(msg.body, Body::Peer(peer::Body::MonSnapshot(_)))
}

enum Due {
    Connected(End, Box<Peer>),
    Message(End, Msg),
    Closed(End, CloseReason),
}

/// All of them.
pub struct World {
    pub places: Vec<Place>,
    now: u64,
    queue: BTreeMap<(u64, u64), (u64, Due)>,
    next: u64,
    next_conn: u64,
    /// The other end of each connection of a monitor.
    ends: BTreeMap<End, End>,
    /// Counts starts of each monitor.
    incarnations: Vec<u64>,
    cut: BTreeSet<(usize, usize)>,
    /// What was sent to clients' connections.
    pub sent: BTreeMap<ConnId, VecDeque<Msg>>,
    /// So many times a connection breaks under the first part of a snapshot.
    pub snapshots_lost: u32,
}

pub fn addr(n: usize) -> SocketAddr {
    ([10, 0, 0, n as u8 + 1], 3300).into()
}

fn letter(n: usize) -> String {
    char::from(b'a' + n as u8).to_string()
}

impl World {
    /// Monitors of a new cluster, started.
    pub fn new(count: usize) -> Self {
        let all: Vec<(String, SocketAddr)> = (0..count).map(|n| (letter(n), addr(n))).collect();
        let mut world = Self {
            places: Vec::new(),
            now: 1_000_000_000,
            queue: BTreeMap::new(),
            next: 0,
            next_conn: 0,
            ends: BTreeMap::new(),
            incarnations: Vec::new(),
            cut: BTreeSet::new(),
            sent: BTreeMap::new(),
            snapshots_lost: 0,
        };
        for n in 0..count {
            world.add(n, &all);
        }
        (0..count).for_each(|n| world.start(n));
        world
    }

    /// A place that knows the monitors `all`.
    pub fn add(&mut self, n: usize, all: &[(String, SocketAddr)]) {
        let monmap = maps::MonMap::new(super::fsid(), Wall(EPOCH).into(), all);
        let config = MonConfig { name: letter(n), monmap, ..config(&BTreeMap::new()) };
        let disk = Disk::default();
        let place = Place { mon: None, disk, ready: false, stopped: None, config, wall_ahead: 0 };
        self.places.push(place);
        self.incarnations.push(0);
    }

    fn now(&self, n: usize) -> Now {
        let wall = Wall(EPOCH + self.now + self.places[n].wall_ahead);
        Now { mono: Instant(self.now), wall }
    }

    pub fn start(&mut self, n: usize) {
        self.incarnations[n] += 1;
        let seed = self.incarnations[n] * 100 + n as u64;
        let place = &mut self.places[n];
        let store = FakeStore::new(place.disk.clone());
        place.mon = Some(Mon::new(place.config.clone(), store, Rng::from_seed(seed)));
        (place.ready, place.stopped) = (false, None);
        self.feed(n, Input::Start);
    }

    /// The process dies.
    pub fn kill(&mut self, n: usize) {
        self.places[n].mon = None;
        self.places[n].disk.crash();
        self.incarnations[n] += 1;
        let ends: Vec<(End, End)> =
            self.ends.iter().filter(|(a, _)| a.0 == n).map(|(a, b)| (*a, *b)).collect();
        for (own, other) in ends {
            self.ends.remove(&own);
            self.ends.remove(&other);
            self.due(other.0, Due::Closed(other, CloseReason::Lost));
        }
    }

    /// The process is asked to end.
    pub fn shut_down(&mut self, n: usize) {
        let now = self.now(n);
        let Some(mon) = &mut self.places[n].mon else { return };
        let mut out = Vec::new();
        mon.shut_down(now, &mut out);
        for output in out {
            self.put_out(n, output);
        }
    }

    /// Its disk is lost as well.
    pub fn wipe(&mut self, n: usize) {
        self.kill(n);
        self.places[n].disk = Disk::default();
    }

    /// Nothing passes between one monitor and the others.
    pub fn isolate(&mut self, n: usize) {
        for other in 0..self.places.len() {
            self.cut.extend([(n, other), (other, n)]);
        }
    }

    pub fn heal(&mut self) {
        self.cut.clear();
    }

    /// The connections that one monitor opened to another break, with what is under way on them.
    pub fn break_links(&mut self, from: usize, to: usize) {
        let own = |a: &End, b: &End| a.0 == from && a.1.0 & ConnId::ACCEPTED == 0 && b.0 == to;
        let ends: Vec<(End, End)> =
            self.ends.iter().filter(|(a, b)| own(a, b)).map(|(a, b)| (*a, *b)).collect();
        for (own, other) in ends {
            self.ends.remove(&own);
            self.ends.remove(&other);
            self.due(own.0, Due::Closed(own, CloseReason::Lost));
            self.due(other.0, Due::Closed(other, CloseReason::Lost));
        }
    }

    fn due(&mut self, to: usize, due: Due) {
        self.next += 1;
        self.queue.insert((self.now + DELAY, self.next), (self.incarnations[to], due));
    }

    fn feed(&mut self, n: usize, input: Input<node::Never>) {
        let now = self.now(n);
        let Some(mon) = &mut self.places[n].mon else { return };
        let mut out = Vec::new();
        mon.handle(now, input, &mut out);
        for output in out {
            self.put_out(n, output);
        }
    }

    fn put_out(&mut self, n: usize, output: Output<node::Never>) {
        match output {
            Output::Connect { conn, to } => {
                let own = End(n, conn);
                let target = (0..self.places.len()).find(|m| Some(addr(*m)) == to.addr.addr);
                let target = target.filter(|m| self.places[*m].mon.is_some() && !self.cut.contains(&(n, *m)));
                let Some(target) = target else { return self.due(n, Due::Closed(own, CloseReason::Refused)) };
                self.next_conn += 1;
                let other = End(target, ConnId(ConnId::ACCEPTED | self.next_conn));
                self.ends.insert(own, other);
                self.ends.insert(other, own);
                self.due(target, Due::Connected(other, monitor()));
                self.due(n, Due::Connected(own, monitor()));
            }
            Output::Send { conn, msg } => match self.ends.get(&End(n, conn)).copied() {
                Some(other) if self.cut.contains(&(n, other.0)) => {}
                Some(other) if self.snapshots_lost > 0 && is_snapshot(&msg) => {
                    self.snapshots_lost -= 1;
                    self.break_links(n, other.0);
                }
                Some(other) => self.due(other.0, Due::Message(other, msg)),
                None => self.sent.entry(conn).or_default().push_back(msg),
            },
            Output::Close { conn } => {
                // The other end first gets what is on its way.
                if let Some(other) = self.ends.remove(&End(n, conn)) {
                    self.due(other.0, Due::Closed(other, CloseReason::Lost));
                }
            }
            Output::Ready => self.places[n].ready = true,
            Output::Stop(result) => {
                self.places[n].stopped = Some(result.err().unwrap_or_default());
                self.kill(n);
            }
            _ => {}
        }
    }

    /// Lets time pass.
    pub fn pass(&mut self, time: Duration) {
        let end = self.now + time.as_nanos() as u64;
        loop {
            let timers = self.places.iter().filter_map(|p| p.mon.as_ref()?.deadline()).map(|d| d.0);
            let next = self.queue.keys().next().map(|(at, _)| *at).into_iter().chain(timers).min();
            match next.filter(|at| *at <= end) {
                Some(at) => self.now = self.now.max(at),
                None => break,
            }
            if let Some(entry) = self.queue.first_entry().filter(|e| e.key().0 <= self.now) {
                let (incarnation, due) = entry.remove();
                self.carry_out(incarnation, due);
            }
            for n in 0..self.places.len() {
                let due = self.places[n].mon.as_ref().and_then(|m| m.deadline());
                if due.is_some_and(|at| at.0 <= self.now) {
                    self.feed(n, Input::Timer);
                }
            }
        }
        self.now = end;
    }

    fn carry_out(&mut self, incarnation: u64, due: Due) {
        let (Due::Connected(End(n, _), _) | Due::Message(End(n, _), _) | Due::Closed(End(n, _), _)) = &due;
        if self.incarnations[*n] != incarnation {
            return;
        }
        match due {
            Due::Connected(End(n, conn), peer) => self.feed(n, Input::Connected { conn, peer }),
            Due::Message(end @ End(n, conn), msg) => {
                if self.ends.contains_key(&end) {
                    // As bytes, like on a real connection.
                    let msg = Msg::from_raw(msg.to_raw()).expect("own encoding");
                    self.feed(n, Input::Message { conn, msg });
                }
            }
            Due::Closed(end @ End(n, conn), reason) => {
                self.ends.remove(&end);
                self.feed(n, Input::Closed { conn, reason });
            }
        }
    }

    /// A client's connection to one monitor.
    pub fn client(&mut self, n: usize, who: &str, caps: &str) -> ConnId {
        self.next_conn += 1;
        let conn = ConnId(ConnId::ACCEPTED | self.next_conn);
        let global_id = 5000 + self.next_conn;
        let peer = super::peer(name(who), global_id, &format!("v2:127.0.0.1:7000/{global_id}"), caps);
        self.feed(n, Input::Connected { conn, peer });
        conn
    }

    pub fn send(&mut self, n: usize, conn: ConnId, tid: u64, body: impl Into<Body>) {
        self.feed(n, Input::Message { conn, msg: Msg::new(tid, body) });
    }

    /// Sends a command; its answer comes later.
    pub fn ask(&mut self, n: usize, json: &str) -> ConnId {
        let conn = self.client(n, "client.admin", "allow *");
        let command = msgs::MonCommand {
            fsid: super::fsid(),
            cmd: vec![json.to_owned()],
            data: Bufs::default(),
            ..msgs::MonCommand::default()
        };
        self.send(n, conn, 7, msgs::Body::from(command));
        conn
    }

    /// The answer to a command, if it has come.
    pub fn answer(&mut self, conn: ConnId) -> Option<Answer> {
        let sent = self.sent.get_mut(&conn)?;
        let at = sent.iter().position(|m| matches!(&m.body, Body::Client(msgs::Body::MonCommandAck(_))))?;
        let Body::Client(msgs::Body::MonCommandAck(ack)) = sent.remove(at)?.body else { return None };
        let data = String::from_utf8_lossy(&ack.data.to_vec()).into_owned();
        Some(Answer { code: ack.r, status: ack.rs.clone(), data })
    }

    /// Runs a command at one monitor to its end, within three seconds.
    pub fn command(&mut self, n: usize, json: &str) -> Answer {
        let conn = self.ask(n, json);
        for _ in 0..300 {
            if let Some(answer) = self.answer(conn) {
                return answer;
            }
            self.pass(Duration::from_millis(10));
        }
        panic!("no answer to {json} within three seconds");
    }

    /// The output of a command that must succeed.
    pub fn ok(&mut self, n: usize, json: &str) -> String {
        let answer = self.command(n, json);
        assert_eq!(answer.code, 0, "{json}: {}", answer.status);
        answer.data
    }

    pub fn json(&mut self, n: usize, json: &str) -> serde_json::Value {
        let with_format = json.trim_end().trim_end_matches('}').to_owned() + r#","format":"json"}"#;
        let text = self.ok(n, &with_format);
        serde_json::from_str(&text).unwrap_or_else(|e| panic!("{json}: {e} in {text}"))
    }

    /// Waits until these monitors are in quorum, as one of them says.
    pub fn wait_quorum(&mut self, n: usize, names: &[&str]) {
        for _ in 0..600 {
            let conn = self.ask(n, r#"{"prefix":"quorum_status"}"#);
            self.pass(Duration::from_millis(20));
            if let Some(answer) = self.answer(conn) {
                let status: serde_json::Value = serde_json::from_str(&answer.data).expect("JSON");
                if status["quorum_names"] == serde_json::json!(names) {
                    return;
                }
            }
        }
        panic!("no quorum of {names:?} within twelve seconds");
    }

    /// The number of the leader, as one monitor says.
    pub fn leader(&mut self, n: usize) -> usize {
        let status = self.json(n, r#"{"prefix":"quorum_status"}"#);
        let name = status["quorum_leader_name"].as_str().expect("a name");
        usize::from(name.as_bytes()[0] - b'a')
    }
}

fn monitor() -> Box<Peer> {
    super::peer(EntityName::new(EntityType::MON, ""), 1, "v2:127.0.0.1:7000/1", "")
}
