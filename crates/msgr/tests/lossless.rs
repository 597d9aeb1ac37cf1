//! A lossless session over connections that break: every message arrives once and in order.

mod common;

use auth::{ConMode, Method, Tickets};
use common::{Pair, World};
use msgr::{Claim, Event, Session, SessionTable};
use std::time::Duration;
use stdx::{Buf, Bufs, Now, Rng};
use wire::RawMsg;

const MESSAGES: u64 = 6;

/// A client and an MDS that each want to send [`MESSAGES`] to the other.
struct Scene {
    world: World,
    rng: Rng,
    tickets: Tickets,
    modes: &'static [ConMode],
    table: SessionTable<u32>,
    /// The server's end of the last connection, which may not know yet that it is dead.
    old: Option<msgr::Conn>,
    session: Option<Session>,
    began: bool,
    global_seq: u64,
    next_key: u32,
    key: u32,
    at_client: Vec<u64>,
    at_server: Vec<u64>,
    resumed: u32,
}

fn numbered(tid: u64) -> RawMsg {
    let data = Bufs::from(Buf::pattern(tid, 100 + tid as usize * 7));
    RawMsg { kind: 24, tid, front: vec![tid as u8; 30], data, ..RawMsg::default() }
}

impl Scene {
    fn new(seed: u64, method: Method, modes: &'static [ConMode]) -> Self {
        let mut world = World::new(seed, method);
        let tickets = world.tickets();
        Self {
            world,
            rng: Rng::from_seed(seed),
            tickets,
            modes,
            table: SessionTable::new(),
            old: None,
            session: None,
            began: false,
            global_seq: 0,
            next_key: 0,
            key: 0,
            at_client: vec![],
            at_server: vec![],
            resumed: 0,
        }
    }

    fn done(&self) -> bool {
        self.at_client.len() as u64 >= MESSAGES && self.at_server.len() as u64 >= MESSAGES
    }

    /// One connection that breaks after `cut` bytes; the bytes that went over it.
    fn connection(&mut self, cut: usize) -> usize {
        self.global_seq += 1;
        let mut client = self.world.connect_service(
            self.modes,
            &self.tickets,
            false,
            self.session.take(),
            self.global_seq,
        );
        if !self.began {
            (0..MESSAGES).for_each(|tid| client.send(numbered(tid)));
            self.began = true;
        }
        let mut pair = Pair::new(client, self.world.accept_service(&[ConMode::Crc, ConMode::Secure], false));
        pair.cut = cut;
        loop {
            pair.run(&mut self.rng, self.world.now);
            let events: Vec<_> = pair.b.events.drain(..).collect();
            let idle = events.is_empty();
            events.into_iter().for_each(|e| self.server_event(e, &mut pair));
            if idle {
                break;
            }
        }
        for event in pair.a.events.drain(..) {
            match event {
                Event::Ready(r) => self.resumed += u32::from(r.resumed),
                Event::Message { msg, .. } => self.at_client.push(msg.tid),
                other => panic!("at the client: {other:?}"),
            }
        }
        self.session = pair.a.conn.take_session();
        assert!(self.session.is_some(), "a lossless client's session outlives its connection");
        // The server notices at once, or not before the client is back.
        if self.rng.chance(1, 2) {
            if let Some(session) = pair.b.conn.take_session() {
                assert!(self.table.park(self.key, session, self.world.now.mono).is_none());
            }
        } else if pair.b.conn.client_cookie() != 0 {
            self.old = Some(pair.b.conn);
        }
        pair.moved
    }

    fn server_event(&mut self, event: Event, pair: &mut Pair) {
        match event {
            Event::Ready(r) if r.resumed => {
                assert_eq!((r.num, r.addrs.0.len()), (r.global_id as i64, 1), "known from the first time");
                let key =
                    self.table.live(self.key, r.cookie, pair.b.conn.client_cookie(), &r.entity, r.global_id);
                assert_eq!(key, None);
            }
            Event::Ready(r) => {
                // A new session: what an earlier one delivered belongs to another connection above.
                self.next_key += 1;
                let cookie = pair.b.conn.client_cookie();
                let replaced = self.table.live(self.next_key, r.cookie, cookie, &r.entity, r.global_id);
                assert_eq!(replaced.is_some(), self.key != 0, "the half-made session before it is dropped");
                self.key = self.next_key;
                assert!(
                    self.at_client.is_empty() && self.at_server.is_empty(),
                    "nothing was delivered before"
                );
                (0..MESSAGES).for_each(|tid| pair.b.conn.send(numbered(tid)));
            }
            Event::Resume(want) => {
                let session = match self.table.claim(&want) {
                    Claim::Parked(key, session) => {
                        assert_eq!(key, self.key);
                        Some(*session)
                    }
                    Claim::Live(key) => {
                        assert_eq!(key, self.key);
                        self.old.take().and_then(|mut old| old.take_session())
                    }
                    Claim::Unknown => panic!("the session must be known"),
                };
                assert!(session.is_some());
                pair.b.conn.resume(session, self.world.now);
            }
            Event::Message { msg, .. } => {
                assert_eq!(msg, numbered(msg.tid));
                self.at_server.push(msg.tid);
            }
            Event::Closed(reason) => panic!("at the server: {reason}"),
        }
    }

    fn check(&self, what: &str) {
        let all: Vec<u64> = (0..MESSAGES).collect();
        assert_eq!((&self.at_client, &self.at_server), (&all, &all), "{what}");
    }
}

fn cut_everywhere(method: Method, modes: &'static [ConMode]) {
    let whole = Scene::new(1, method, modes).connection(usize::MAX);
    assert!(whole > 2000, "{whole} bytes");
    let mut resumed = 0;
    for cut in 0..whole {
        let mut scene = Scene::new(1 + cut as u64, method, modes);
        scene.connection(cut);
        scene.connection(usize::MAX);
        assert!(scene.done(), "cut at {cut}");
        scene.check(&format!("cut at {cut}"));
        resumed += scene.resumed;
    }
    assert!(resumed > 500, "most cuts are after the handshake: {resumed}");
}

#[test]
fn a_cut_at_any_byte_loses_and_doubles_nothing_in_crc_mode() {
    cut_everywhere(Method::None, &[ConMode::Crc]);
}

#[test]
fn a_cut_at_any_byte_loses_and_doubles_nothing_in_secure_mode() {
    cut_everywhere(Method::Cephx, &[ConMode::Secure]);
}

#[test]
fn many_cuts_in_a_row_lose_and_double_nothing() {
    for seed in 0..200 {
        let mut scene = Scene::new(seed, Method::Cephx, &[ConMode::Crc]);
        let mut connections = 0;
        while !scene.done() {
            let cut = 500 + scene.rng.below(2500) as usize;
            scene.connection(cut);
            connections += 1;
            assert!(connections < 500, "seed {seed} gets nowhere");
        }
        scene.check(&format!("seed {seed}"));
    }
}

#[test]
fn a_forgotten_session_starts_anew() {
    let mut scene = Scene::new(1, Method::None, &[ConMode::Crc]);
    scene.connection(usize::MAX);
    scene.check("first");
    let client = scene.world.connect_service(scene.modes, &scene.tickets, false, scene.session.take(), 9);
    let mut pair = Pair::new(client, scene.world.accept_service(&[ConMode::Crc], false));
    pair.run(&mut scene.rng, scene.world.now);
    assert!(pair.b.resume().is_some());
    pair.b.conn.resume(None, scene.world.now);
    pair.run(&mut scene.rng, scene.world.now);
    assert!(!pair.a.ready().resumed && !pair.b.ready().resumed, "the client drops what it knew");
}

#[test]
fn a_client_that_counts_too_low_is_corrected_on_the_same_connection() {
    let mut scene = Scene::new(1, Method::None, &[ConMode::Crc]);
    scene.global_seq = 50;
    scene.connection(usize::MAX);
    scene.global_seq = 3;
    scene.connection(usize::MAX);
    assert_eq!(scene.resumed, 1, "after SESSION_RETRY_GLOBAL");
    scene.check("nothing doubled");
}

#[test]
fn another_principal_cannot_take_a_session() {
    let mut scene = Scene::new(1, Method::Cephx, &[ConMode::Crc]);
    scene.connection(usize::MAX);
    let other = scene.world.tickets();
    assert_ne!(other.global_id, scene.tickets.global_id);
    let client = scene.world.connect_service(scene.modes, &other, false, scene.session.take(), 9);
    let mut pair = Pair::new(client, scene.world.accept_service(&[ConMode::Crc], false));
    pair.run(&mut scene.rng, scene.world.now);
    let want = pair.b.resume().expect("asks for it").clone();
    assert!(matches!(scene.table.claim(&want), Claim::Unknown));
}

#[test]
fn parked_sessions_expire() {
    let mut scene = Scene::new(2, Method::None, &[ConMode::Crc]);
    while scene.table.parked_mut(scene.key).is_none() {
        scene.old = None;
        scene.connection(usize::MAX);
        if scene.old.is_some() {
            scene = Scene::new(scene.rng.u64(), Method::None, &[ConMode::Crc]);
        }
    }
    let now = scene.world.now.mono;
    assert_eq!(scene.table.expire(now), vec![]);
    assert_eq!(scene.table.expire(now + std::time::Duration::from_nanos(1)), vec![scene.key]);
    assert!(scene.table.is_empty());
}

#[test]
fn an_acknowledgement_waits_a_little_for_a_message_that_tells_it_too() {
    let mut world = World::new(1, Method::None);
    let tickets = world.tickets();
    let client = world.connect_service(&[ConMode::Crc], &tickets, false, None, 1);
    let mut pair = Pair::new(client, world.accept_service(&[ConMode::Crc], false));
    let (mut rng, start) = (Rng::from_seed(1), world.now);
    let after = |ms: u64| Now { mono: start.mono + Duration::from_millis(ms), ..start };
    pair.run(&mut rng, start);

    pair.a.conn.send(numbered(1));
    pair.run(&mut rng, after(1));
    assert!(pair.a.conn.queued() > 0 && !pair.b.conn.has_output());
    assert_eq!(pair.b.conn.deadline(), Some(after(11).mono));
    pair.b.conn.tick(after(10));
    assert!(!pair.b.conn.has_output());
    pair.b.conn.tick(after(11));
    pair.run(&mut rng, after(11));
    assert_eq!((pair.a.conn.queued(), pair.b.conn.deadline()), (0, None), "no message came");

    pair.a.conn.send(numbered(2));
    pair.run(&mut rng, after(12));
    pair.b.conn.send(numbered(3));
    pair.run(&mut rng, after(13));
    assert_eq!((pair.a.conn.queued(), pair.b.conn.deadline()), (0, None), "the answer told it");

    (0..32).for_each(|tid| pair.a.conn.send(numbered(tid)));
    pair.run(&mut rng, after(14));
    assert_eq!(pair.a.conn.queued(), 0, "many are not kept waiting");
    pair.a.conn.send(RawMsg { data: Bufs::from(Buf::zeros(64 << 10)), ..numbered(1) });
    pair.run(&mut rng, after(15));
    assert_eq!(pair.a.conn.queued(), 0, "nor a large one");
}
