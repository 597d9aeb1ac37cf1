//! Tickets and rotating keys over a long session, with the monitor's side of cephx answering.

use auth::{
    AuthStep, ConMode, Credentials, EntityAuth, GlobalIds, Initiator, InitiatorStep, Key, Method,
    MonAuthenticator, RotatingKeys, ServerKeys, Tickets,
};
use monc::{Monc, MoncConfig, MoncOut, Net, Told};
use msgs::Body;
use node::{CloseReason, ConnId, Msg, Peer};
use std::sync::Arc;
use std::time::Duration;
use stdx::{Instant, Now, Rng, Wall};
use wire::{EntityAddr, EntityName, EntityType, Utime, Uuid, Writer};

const HOUR: Duration = Duration::from_secs(3600);
const SERVICES: [EntityType; 1] = [EntityType::OSD];

/// An OSD's session, and the monitor that it talks to.
struct World {
    rng: Rng,
    now: Now,
    credentials: Credentials,
    keys: ServerKeys,
    ids: Arc<GlobalIds>,
    monc: Monc,
    conn: u64,
}

impl World {
    fn new() -> Self {
        let mut rng = Rng::from_seed(7);
        let now = Now { wall: Wall(1_700_000_000_000_000_000), mono: Instant(1) };
        let name = EntityName::parse("osd.0").expect("a name");
        let key = Key::generate(now.wall, &mut rng);
        let mut keys = ServerKeys::new(EntityType::MON, vec![Method::Cephx]);
        let caps = ["mon", "osd"].map(|service| (service.to_owned(), "allow *".to_owned())).into();
        keys.entities.insert(name.clone(), EntityAuth { key: key.clone(), caps });
        for service in [EntityType::AUTH, EntityType::OSD] {
            keys.rotating.insert(service, RotatingKeys::default().rotated(now.wall, HOUR, &mut rng));
        }
        let ids = Arc::new(GlobalIds::new());
        assert!(ids.push(5000..6000));
        let credentials = Credentials { name, key: Some(key) };
        let config = MoncConfig {
            credentials: credentials.clone(),
            mons: vec![EntityAddr::msgr2(([127, 0, 0, 1], 3300).into(), 0)],
            services: SERVICES.to_vec(),
            rotating_keys: Some(wire::EntityType::OSD),
            space: 1,
            hostname: String::new(),
        };
        let monc = Monc::new(config, rng.fork());
        Self { rng, now, credentials, keys, ids, monc, conn: 0 }
    }

    /// A handshake, as the messenger drives it.
    fn login(&mut self) -> Tickets {
        let (now, rng) = (self.now, &mut self.rng);
        let old = self.monc.tickets().clone();
        let mut client = Initiator::mon(self.credentials.clone(), old, SERVICES.to_vec());
        let mut server = MonAuthenticator::new(Arc::new(self.keys.clone()), self.ids.clone());
        let (method, payload) = client.start(now, rng).expect("starts");
        let AuthStep::More(challenge) = server.request(method, ConMode::Crc, &payload, now, rng) else {
            panic!("a challenge comes first")
        };
        let InitiatorStep::More(answer) = client.reply_more(&challenge, now, rng).expect("answers") else {
            panic!("an answer")
        };
        let AuthStep::Done(done) = server.more(&answer, now, rng) else { panic!("accepted") };
        client.done(done.global_id, ConMode::Crc, &done.blob, now).expect("opens").tickets.expect("tickets")
    }

    fn conn(&self) -> ConnId {
        ConnId(1 << 56 | self.conn)
    }

    /// The connection that the machine has asked for is there.
    fn connect(&mut self, out: &mut Vec<MoncOut>) {
        self.conn += 1;
        let peer = Peer {
            name: EntityName::new(EntityType::MON, ""),
            id: wire::EntityId::new(EntityType::MON, 0),
            global_id: 0,
            addrs: Default::default(),
            socket_addr: EntityAddr::default(),
            ours: EntityAddr::default(),
            features: 0,
            caps: String::new(),
            tickets: Some(Box::new(self.login())),
        };
        self.monc.connected(self.now, self.conn(), &peer, out);
    }

    fn pass(&mut self, d: Duration) {
        self.now = Now { mono: self.now.mono + d, wall: self.now.wall + d };
    }

    /// Sleeps until the machine has an output, at most for `most`. Its liveness checks of the monitor are
    /// answered.
    fn wake(&mut self, most: Duration, out: &mut Vec<MoncOut>) {
        let until = self.now.mono + most;
        while out.is_empty() && self.now.mono < until {
            let deadline = self.monc.deadline().expect("wants a timer").min(until);
            self.pass(deadline.since(self.now.mono));
            self.monc.timer(self.now, out);
            self.show_life(out);
        }
    }

    fn show_life(&mut self, out: &mut Vec<MoncOut>) {
        let asks = |o: &MoncOut| {
            let MoncOut::Net(Net::Send { msg, .. }) = o else { return false };
            matches!(msg.body, node::Body::Client(Body::MonGetMap(_)))
        };
        if let Some(at) = out.iter().position(asks) {
            out.remove(at);
            self.monc.message(self.now, self.conn(), monmap(), out);
        }
    }

    /// Answers the MAuth in `out` as the monitor does.
    fn answer(&mut self, out: &mut Vec<MoncOut>) {
        self.show_life(out);
        let sent = out.drain(..).find_map(|o| match o {
            MoncOut::Net(Net::Send {
                msg: Msg { tid, body: node::Body::Client(Body::Auth(m)), .. }, ..
            }) => Some((tid, m)),
            _ => None,
        });
        let (tid, request) = sent.expect("an MAuth was sent");
        let (name, id) = (self.credentials.name.clone(), self.monc.global_id());
        let payload =
            self.keys.answer_request(&name, id, &request.payload, self.now, &mut self.rng).expect("answers");
        let reply = msgs::AuthReply { protocol: request.protocol, payload, ..Default::default() };
        self.monc.message(self.now, self.conn(), Msg::new(tid, Body::from(reply)), out);
    }
}

fn monmap() -> Msg {
    let mons = [("a".to_owned(), ([127, 0, 0, 1], 3300).into())];
    let map = maps::MonMap::new(Uuid([7; 16]), Utime::default(), &mons);
    Msg::new(0, Body::from(msgs::MonMap { map: Writer::encode(&map) }))
}

fn opened() -> (World, Vec<MoncOut>) {
    let (mut w, mut out) = (World::new(), Vec::new());
    w.monc.start(w.now, &mut out);
    w.connect(&mut out);
    w.monc.message(w.now, w.conn(), monmap(), &mut out);
    (w, out)
}

#[test]
fn a_daemon_fetches_its_rotating_keys_at_once_and_again_when_they_rotate() {
    let (mut w, mut out) = opened();
    w.answer(&mut out);
    let Some(MoncOut::Told(Told::RotatingKeys(keys))) = out.pop() else { panic!("{out:?}") };
    assert_eq!(*keys, w.keys.rotating[&EntityType::OSD]);
    // Tickets are renewed first: at three quarters of the hour that is left of the current key and the next.
    w.wake(HOUR, &mut out);
    w.answer(&mut out);
    assert!(matches!(out.pop(), Some(MoncOut::Told(Told::Tickets(_)))));
    for _ in 0..4 {
        w.wake(HOUR, &mut out);
        for service in [EntityType::AUTH, EntityType::OSD] {
            let next = w.keys.rotating[&service].rotated(w.now.wall, HOUR, &mut w.rng);
            w.keys.rotating.insert(service, next);
        }
        w.answer(&mut out);
        if let Some(MoncOut::Told(Told::RotatingKeys(new))) = out.pop() {
            assert!(new.max_ver > keys.max_ver);
            return;
        }
    }
    panic!("the new keys were never fetched");
}

#[test]
fn tickets_are_renewed_before_they_end_and_a_refusal_is_not_the_end() {
    let (mut w, mut out) = opened();
    w.answer(&mut out);
    out.clear();
    let before = w.monc.tickets().get(EntityType::OSD).expect("a ticket").expires;
    w.wake(HOUR, &mut out);
    assert!(w.now.wall < before);
    let refusal = msgs::AuthReply { result: wire::Errno::EACCES.to_result_code(), ..Default::default() };
    out.clear();
    w.monc.message(w.now, w.conn(), Msg::new(0, Body::from(refusal)), &mut out);
    assert!(out.is_empty(), "{out:?}");
    let refused = w.now.mono;
    w.wake(HOUR, &mut out);
    assert_eq!(w.now.mono.since(refused), Duration::from_secs(5));
    w.answer(&mut out);
    assert!(matches!(out.pop(), Some(MoncOut::Told(Told::Tickets(_)))));
    assert!(w.monc.tickets().get(EntityType::OSD).expect("a ticket").expires > before);
}

#[test]
fn a_session_whose_own_ticket_has_ended_is_made_anew_where_it_cannot_be_renewed() {
    let (mut w, mut out) = opened();
    w.answer(&mut out);
    out.clear();
    w.pass(HOUR * 24);
    w.monc.timer(w.now, &mut out); // asks for keys first, without a ticket
    w.keys.rotating.insert(EntityType::OSD, RotatingKeys::default().rotated(w.now.wall, HOUR, &mut w.rng));
    w.keys.rotating.insert(EntityType::AUTH, RotatingKeys::default().rotated(w.now.wall, HOUR, &mut w.rng));
    w.answer(&mut out);
    out.clear();
    let refusal = msgs::AuthReply { result: wire::Errno::EACCES.to_result_code(), ..Default::default() };
    w.monc.message(w.now, w.conn(), Msg::new(0, Body::from(refusal)), &mut out);
    w.wake(HOUR, &mut out);
    let closed = |o: &MoncOut| matches!(o, MoncOut::Net(Net::Close { conn }) if *conn == w.conn());
    assert!(out.iter().any(closed), "{out:?}");
    assert!(matches!(out.last(), Some(MoncOut::Net(Net::Connect { .. }))));
    w.connect(&mut out);
    assert!(w.monc.is_open());
}

#[test]
fn the_global_id_is_kept_over_sessions() {
    let (mut w, mut out) = opened();
    let id = w.monc.global_id();
    assert!((5000..6000).contains(&id));
    w.monc.closed(w.now, w.conn(), CloseReason::Lost, &mut out);
    w.connect(&mut out);
    assert_eq!((w.monc.global_id(), w.monc.is_open()), (id, true));
}

/// Keys rotate each hour, the session's own ticket lasts four: no new handshake is needed, and the id stays.
#[test]
fn a_session_lives_on_past_many_rotations() {
    let (mut w, mut out) = opened();
    w.keys.auth_ticket_ttl = HOUR * 4;
    let (id, end) = (w.monc.global_id(), w.now.wall + HOUR * 100);
    let (mut fetched, mut renewed) = (0, 0);
    while w.now.wall < end {
        let now = w.now.wall;
        for keys in w.keys.rotating.values_mut().filter(|keys| keys.needs_rotation(now)) {
            *keys = keys.rotated(now, HOUR, &mut w.rng);
        }
        while out.iter().any(|o| matches!(o, MoncOut::Net(Net::Send { .. }))) {
            w.answer(&mut out);
            for told in out.iter().filter(|o| matches!(o, MoncOut::Told(_))) {
                match told {
                    MoncOut::Told(Told::RotatingKeys(keys)) => {
                        fetched += 1;
                        assert_eq!(**keys, w.keys.rotating[&EntityType::OSD]);
                    }
                    MoncOut::Told(Told::Tickets(_)) => renewed += 1,
                    other => panic!("{other:?}"),
                }
            }
        }
        out.clear();
        let ticket = w.monc.tickets().get(EntityType::OSD).expect("a ticket");
        assert!(ticket.expires > now && w.monc.global_id() == id && w.monc.is_open());
        w.wake(HOUR / 10, &mut out);
        let lost = |o: &MoncOut| matches!(o, MoncOut::Net(Net::Close { .. } | Net::Connect { .. }));
        assert!(!out.iter().any(lost), "{out:?}");
    }
    assert!(fetched > 90 && renewed > 100, "{fetched} {renewed}");
    assert_eq!(w.ids.left(), 999);
}

#[test]
fn a_daemon_that_was_cut_off_while_keys_rotated_gets_the_new_ones_at_once() {
    let (mut w, mut out) = opened();
    w.answer(&mut out);
    let Some(MoncOut::Told(Told::RotatingKeys(old))) = out.pop() else { panic!("{out:?}") };
    w.monc.closed(w.now, w.conn(), CloseReason::Lost, &mut out);
    for _ in 0..6 {
        w.pass(HOUR);
        for keys in w.keys.rotating.values_mut() {
            *keys = keys.rotated(w.now.wall, HOUR, &mut w.rng);
        }
    }
    out.clear();
    w.connect(&mut out);
    w.answer(&mut out);
    let keys = out.iter().find_map(|o| match o {
        MoncOut::Told(Told::RotatingKeys(keys)) => Some(keys.clone()),
        _ => None,
    });
    let keys = keys.expect("asked for with the first message");
    assert!(old.secrets.keys().all(|id| !keys.secrets.contains_key(id)), "all are new");
    assert_eq!(*keys, w.keys.rotating[&EntityType::OSD]);
}

#[test]
fn old_tickets_that_nobody_can_open_are_given_up() {
    let (mut w, mut out) = opened();
    let id = w.monc.global_id();
    w.monc.closed(w.now, w.conn(), CloseReason::Lost, &mut out);
    for denials in 1..=3 {
        assert_eq!(w.monc.global_id(), id, "after {denials} refusals");
        w.conn += 1;
        w.monc.closed(w.now, w.conn(), CloseReason::Denied, &mut out);
        w.pass(HOUR);
        w.monc.timer(w.now, &mut out);
    }
    w.connect(&mut out);
    assert!(w.monc.is_open() && w.monc.global_id() != id);
}

#[test]
fn tickets_that_a_service_refuses_are_renewed_but_not_all_the_time() {
    let (mut w, mut out) = opened();
    w.answer(&mut out);
    out.clear();
    let old = w.monc.tickets().get(EntityType::OSD).cloned();
    w.monc.tickets_refused(w.now, &mut out);
    w.answer(&mut out);
    assert_ne!(w.monc.tickets().get(EntityType::OSD).cloned(), old);
    out.clear();
    w.monc.tickets_refused(w.now, &mut out);
    assert!(out.is_empty(), "{out:?}");
    w.pass(Duration::from_secs(31));
    w.monc.tickets_refused(w.now, &mut out);
    w.answer(&mut out);
}
