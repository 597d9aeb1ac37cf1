//! The simulator itself, with the smallest role possible: an echo server that makes each message durable
//! before it answers, and a client that repeats unanswered messages.

use auth::{Credentials, Initiator, Method, ServerKeys, Tickets};
use msgs::Ping;
use node::{ConnId, DiskId, DiskOp, DiskOpId, Input, Msg, Never, Node, Output, Target};
use sim::{Boot, Crash, Daemon, Faults, HostId, HostSpec, World};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use stdx::{Instant, Now};
use wire::{EntityAddr, EntityName, EntityType};

const SECTOR: u64 = 512;

/// Writes each tid to a sector of its own, flushes, and answers with the same tid.
#[derive(Default)]
struct Echo {
    next_io: u64,
    waiting: BTreeMap<DiskOpId, (ConnId, u64, Stage)>,
    /// Answers before the flush: a fault that the checker must see.
    hasty: bool,
}

#[derive(Clone, Copy)]
enum Stage {
    Written,
    Flushed,
}

impl Echo {
    fn io(&mut self, state: (ConnId, u64, Stage), op: DiskOp, out: &mut Vec<Output<Never>>) {
        self.next_io += 1;
        self.waiting.insert(DiskOpId(self.next_io), state);
        out.push(Output::Disk { id: DiskOpId(self.next_io), op });
    }
}

impl Node for Echo {
    type Request = Never;
    type Reply = Never;

    fn handle(&mut self, _now: Now, input: Input<Never>, out: &mut Vec<Output<Never>>) {
        match input {
            Input::Start => {
                out.push(Output::Keys(Arc::new(ServerKeys::new(EntityType::OSD, vec![Method::None]))));
                out.push(Output::Ready);
            }
            Input::Message { conn, msg } => {
                let mut sector = vec![0; SECTOR as usize];
                sector[..8].copy_from_slice(&msg.tid.to_le_bytes());
                let op = DiskOp::Write {
                    disk: DiskId(0),
                    offset: msg.tid * SECTOR,
                    data: sector.into(),
                    through: false,
                };
                self.io((conn, msg.tid, Stage::Written), op, out);
            }
            Input::Disk { id, result } => {
                result.expect("the disk is healthy");
                match self.waiting.remove(&id).expect("an operation of ours") {
                    (conn, tid, Stage::Written) => {
                        if self.hasty {
                            out.push(Output::Send {
                                conn,
                                msg: Msg::new(tid, msgs::Body::from(Ping::default())),
                            });
                        }
                        self.io((conn, tid, Stage::Flushed), DiskOp::Flush { disk: DiskId(0) }, out);
                    }
                    (conn, tid, Stage::Flushed) => {
                        out.push(Output::Send {
                            conn,
                            msg: Msg::new(tid, msgs::Body::from(Ping::default())),
                        });
                    }
                }
            }
            _ => {}
        }
    }

    fn deadline(&self) -> Option<Instant> {
        None
    }
}

/// Sends tids 1, 2, 3 … one at a time, repeats each after 5 ms without an answer, and reports each answer.
struct Client {
    server: SocketAddr,
    next_conn: u64,
    conn: Option<ConnId>,
    tid: u64,
    retry_at: Instant,
}

impl Client {
    fn send(&mut self, now: Now, out: &mut Vec<Output<u64>>) {
        let conn = *self.conn.get_or_insert_with(|| {
            self.next_conn += 1;
            let credentials = Credentials { name: EntityName::new(EntityType::CLIENT, "echo"), key: None };
            let auth = Initiator::service(credentials, Tickets::default(), EntityType::OSD);
            let addr = EntityAddr::msgr2(self.server, 0);
            let to = Target { service: EntityType::OSD, addr, lossless: false, auth: Box::new(auth) };
            out.push(Output::Connect { conn: ConnId(self.next_conn), to: Box::new(to) });
            ConnId(self.next_conn)
        });
        out.push(Output::Send { conn, msg: Msg::new(self.tid, msgs::Body::from(Ping::default())) });
        self.retry_at = now.mono + Duration::from_millis(5);
    }
}

impl Node for Client {
    type Request = ();
    type Reply = u64;

    fn handle(&mut self, now: Now, input: Input<()>, out: &mut Vec<Output<u64>>) {
        match input {
            Input::Start | Input::Timer => self.send(now, out),
            Input::Message { msg, .. } if msg.tid == self.tid => {
                out.push(Output::Reply { id: node::RequestId(0), reply: self.tid });
                self.tid += 1;
                self.send(now, out);
            }
            Input::Closed { conn, .. } if Some(conn) == self.conn => {
                self.conn = None;
                self.retry_at = now.mono + Duration::from_millis(10);
            }
            _ => {}
        }
    }

    fn deadline(&self) -> Option<Instant> {
        Some(self.retry_at)
    }
}

struct Scenario {
    world: World<(), u64>,
    server: HostId,
}

impl Scenario {
    fn new(seed: u64, hasty: bool) -> Self {
        let mut rng = stdx::Rng::from_seed(seed);
        let mut world = World::new(seed, Faults::draw(&mut rng));
        let addr: SocketAddr = ([10, 0, 0, 1], 6800).into();
        let server = world.add(HostSpec {
            name: "echo".into(),
            service: Some(EntityType::OSD),
            addr,
            disks: vec![1 << 20],
            make: Box::new(move |_: Boot| Box::new(Daemon::new(Echo { hasty, ..Echo::default() }))),
        });
        let client = world.add(HostSpec {
            name: "client".into(),
            service: None,
            addr: ([10, 0, 0, 2], 0).into(),
            disks: vec![],
            make: Box::new(move |_| {
                Box::new(Client { server: addr, next_conn: 0, conn: None, tid: 1, retry_at: Instant(0) })
            }),
        });
        world.start(server);
        world.start(client);
        Self { world, server }
    }

    /// Runs with crashes. Returns the tids that were acknowledged but are not on the disk afterwards.
    fn lost_acknowledgements(&mut self) -> Vec<u64> {
        let mut acknowledged = 0;
        for _ in 0..20 {
            let span = self.world.rng().range(1, 40);
            self.world.run_for(Duration::from_millis(span));
            self.world.crash(self.server, Crash::Power);
            // Acknowledged tids must be on the disk now.
            acknowledged = self.world.take_replies().last().map_or(acknowledged, |(_, _, tid)| *tid);
            let missing: Vec<u64> = (1..=acknowledged).filter(|tid| self.stored(*tid) != *tid).collect();
            if !missing.is_empty() {
                return missing;
            }
            self.world.start(self.server);
        }
        assert!(acknowledged > 20, "the client got on: {acknowledged}");
        Vec::new()
    }

    fn stored(&mut self, tid: u64) -> u64 {
        let disk = self.world.disk(self.server, 0);
        disk.issue(
            DiskOpId(u64::MAX),
            DiskOp::Read { disk: DiskId(0), offset: tid * SECTOR, len: SECTOR as usize, cached: false },
        );
        let bytes = disk.end(DiskOpId(u64::MAX)).expect("readable");
        u64::from_le_bytes(bytes[..8].try_into().expect("8 bytes"))
    }
}

#[test]
fn one_seed_twice_gives_one_trace_and_two_seeds_two() {
    let run = |seed| {
        let mut scenario = Scenario::new(seed, false);
        scenario.world.trace = sim::Trace::with_text();
        scenario.lost_acknowledgements();
        let lines: Vec<String> = scenario.world.trace.lines().map(String::from).collect();
        (scenario.world.trace.hash(), lines)
    };
    for seed in 0..8 {
        let (first, second) = (run(seed), run(seed));
        assert_eq!(first.1, second.1);
        assert_eq!(first.0, second.0);
        assert!(first.1.len() > 100, "something happened: {} lines", first.1.len());
    }
    assert_ne!(run(1).0, run(2).0);
}

#[test]
fn what_is_acknowledged_survives_power_loss() {
    for seed in 0..50 {
        assert_eq!(Scenario::new(seed, false).lost_acknowledgements(), Vec::<u64>::new(), "seed {seed}");
    }
}

#[test]
fn an_answer_before_the_flush_is_caught() {
    let caught =
        (0..50).filter(|seed| !Scenario::new(*seed, true).lost_acknowledgements().is_empty()).count();
    assert!(caught > 10, "caught in {caught} of 50 seeds");
}
