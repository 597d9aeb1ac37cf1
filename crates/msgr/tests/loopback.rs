//! Both ends of a connection against each other, in every mode, with bytes in random pieces.

mod common;

use auth::{ConMode, Credentials, Key, Method, Tickets};
use common::{End, Pair, World, message};
use msgr::{Event, Reason};
use std::time::Duration;
use stdx::Rng;
use wire::{EntityType, Errno};

const CRC: &[ConMode] = &[ConMode::Crc];
const SECURE: &[ConMode] = &[ConMode::Secure];
const BOTH: &[ConMode] = &[ConMode::Crc, ConMode::Secure];

/// Exchanges messages over an open pair and checks that they come whole, once, in order, and aligned.
fn chatter(pair: &mut Pair, world: &mut World) {
    let mut rng = world.rng.fork();
    let sent: Vec<_> = (0..60).map(|tid| message(tid, &mut rng)).collect();
    for (i, msg) in sent.iter().enumerate() {
        let end = if i % 2 == 0 { &mut pair.a } else { &mut pair.b };
        end.conn.send(msg.clone());
        if rng.chance(1, 3) {
            pair.run(&mut rng, world.now);
        }
    }
    pair.run(&mut rng, world.now);
    for (end, odd) in [(&pair.a, 1), (&pair.b, 0)] {
        let expected: Vec<_> = sent.iter().filter(|m| m.tid % 2 == odd).collect();
        assert_eq!(end.messages(), expected, "{:?}", end.closed());
        let aligned = |m: &&wire::RawMsg| m.data.parts().iter().all(stdx::Buf::is_aligned);
        assert!(end.messages().iter().all(aligned));
    }
}

#[test]
fn a_client_and_a_monitor_talk_in_every_mode() {
    for (method, modes, mode) in [
        (Method::Cephx, CRC, ConMode::Crc),
        (Method::Cephx, SECURE, ConMode::Secure),
        (Method::Cephx, BOTH, ConMode::Crc),
        (Method::None, BOTH, ConMode::Crc),
    ] {
        for seed in 0..20 {
            let mut world = World::new(seed, method);
            let credentials = world.credentials();
            let client = world.connect_mon(modes, credentials, Tickets::default());
            let mut pair = Pair::new(client, world.accept_mon(BOTH));
            pair.run(&mut Rng::from_seed(seed), world.now);
            let (a, b) = (pair.a.ready(), pair.b.ready());
            assert_eq!((a.mode, b.mode, a.lossy, b.lossy), (mode, mode, true, true));
            assert_eq!((a.peer_type, b.peer_type), (EntityType::MON, EntityType::CLIENT));
            assert_eq!((b.entity.to_string(), b.caps.as_str()), ("client.admin".into(), "allow *"));
            assert_eq!((a.global_id, b.global_id, b.num), (4200, 4200, 4200));
            assert_eq!(a.tickets.as_ref().map(|t| t.global_id), Some(4200));
            assert_eq!(b.features, msgr::FEATURES);
            chatter(&mut pair, &mut world);
        }
    }
}

#[test]
fn a_client_and_a_service_talk_with_the_monitors_tickets() {
    for (method, modes) in [(Method::Cephx, CRC), (Method::Cephx, SECURE), (Method::None, CRC)] {
        for lossy in [true, false] {
            let mut world = World::new(7, method);
            let tickets = world.tickets();
            let client = world.connect_service(modes, &tickets, lossy, None, 1);
            let mut pair = Pair::new(client, world.accept_service(BOTH, lossy));
            pair.run(&mut Rng::from_seed(1), world.now);
            let caps = if method == Method::Cephx { "allow r" } else { "allow *" };
            let b = pair.b.ready();
            assert_eq!((b.caps.as_str(), b.global_id, b.lossy), (caps, tickets.global_id, lossy));
            assert_eq!(b.cookie == 0, lossy);
            assert_eq!(pair.a.ready().cookie, b.cookie);
            chatter(&mut pair, &mut world);
        }
    }
}

#[test]
fn a_global_id_is_kept_only_with_proof() {
    let mut world = World::new(3, Method::Cephx);
    let tickets = world.tickets();
    let credentials = world.credentials();
    let again = |world: &mut World, tickets: Tickets| {
        let client = world.connect_mon(CRC, credentials.clone(), tickets);
        let mut pair = Pair::new(client, world.accept_mon(CRC));
        pair.run(&mut Rng::from_seed(1), world.now);
        pair
    };
    let kept = again(&mut world, tickets.clone());
    assert_eq!((kept.b.ready().global_id, kept.a.ready().global_id), (tickets.global_id, tickets.global_id));
    let fresh = again(&mut world, Tickets::default());
    assert_eq!(fresh.b.ready().global_id, tickets.global_id + 1);
    // Another's number with one's own ticket.
    let mut stolen = tickets;
    stolen.global_id += 1;
    let refused = again(&mut world, stolen);
    assert!(matches!(refused.b.closed(), Some(Reason::Auth(_))), "{:?}", refused.b.events);
    assert!(
        matches!(refused.a.closed(), Some(Reason::Refused { errno: Errno::EACCES, .. })),
        "{:?}",
        refused.a.events
    );
}

#[test]
fn a_wrong_key_and_a_wrong_method_are_refused_with_what_is_allowed() {
    let mut world = World::new(4, Method::Cephx);
    let wrong = Key::generate(world.now.wall, &mut Rng::from_seed(99));
    for (key, errno) in [(Some(wrong), Errno::EACCES), (None, Errno::EOPNOTSUPP)] {
        let credentials = Credentials { name: world.name.clone(), key };
        let client = world.connect_mon(CRC, credentials, Tickets::default());
        let mut pair = Pair::new(client, world.accept_mon(CRC));
        pair.run(&mut Rng::from_seed(1), world.now);
        assert_eq!(pair.a.closed(), Some(&Reason::Refused { errno, methods: vec![2] }));
    }
    let credentials = world.credentials();
    let client = world.connect_mon(SECURE, credentials, Tickets::default());
    let mut pair = Pair::new(client, world.accept_mon(CRC));
    pair.run(&mut Rng::from_seed(1), world.now);
    assert_eq!(
        pair.a.closed(),
        Some(&Reason::Refused { errno: Errno::EOPNOTSUPP, methods: vec![2] }),
        "secure is not allowed"
    );
}

#[test]
fn without_ids_a_client_is_told_to_come_back() {
    let mut world = World::new(5, Method::Cephx);
    world.ids = std::sync::Arc::new(auth::GlobalIds::new());
    let credentials = world.credentials();
    let client = world.connect_mon(CRC, credentials, Tickets::default());
    let mut pair = Pair::new(client, world.accept_mon(CRC));
    pair.run(&mut Rng::from_seed(1), world.now);
    assert_eq!(pair.b.closed(), Some(&Reason::NotReady("no global ids")));
}

#[test]
fn an_initiator_keeps_alive_and_notices_silence() {
    let mut world = World::new(6, Method::None);
    let tickets = world.tickets();
    let mut client = world.connect_service(CRC, &tickets, true, None, 1);
    let deadline = client.deadline().expect("the handshake's");
    assert_eq!(deadline, world.now.mono + Duration::from_secs(20));
    let mut late = world.now;
    late.mono = deadline;
    client.tick(late);
    assert!(matches!(client.poll_event(), Some(Event::Closed(Reason::HandshakeTimeout))));

    let mut config_world = World::new(6, Method::None);
    let mut pair = {
        let client = config_world.connect_service_with_idle(&tickets, Duration::from_secs(30));
        Pair::new(client, config_world.accept_service(CRC, true))
    };
    let mut now = config_world.now;
    pair.run(&mut Rng::from_seed(1), now);
    for _ in 0..5 {
        now.mono = pair.a.conn.deadline().expect("a keepalive's");
        pair.a.conn.tick(now);
        pair.run(&mut Rng::from_seed(1), now);
        assert!(!pair.a.conn.is_closed(), "the answer counts as a sign of life");
    }
    assert!(now.mono.since(config_world.now.mono) >= Duration::from_secs(50));
    while !pair.a.conn.is_closed() {
        now.mono = pair.a.conn.deadline().expect("one");
        pair.a.conn.tick(now);
    }
    assert!(matches!(pair.a.conn.poll_event(), Some(Event::Closed(Reason::Idle))));
}

#[test]
fn another_incarnation_or_role_is_refused() {
    let mut world = World::new(8, Method::None);
    let tickets = world.tickets();
    let client = world.connect_service(CRC, &tickets, true, None, 1);
    let mut pair = Pair::new(client, world.accept_mon(CRC));
    pair.run(&mut Rng::from_seed(1), world.now);
    assert!(matches!(pair.a.closed(), Some(Reason::WrongPeer(_))));
    let client = world.connect_service(CRC, &tickets, true, None, 1);
    let mut pair =
        Pair { b: End::new(world.accept_service_as(78)), ..Pair::new(client, world.accept_mon(CRC)) };
    pair.run(&mut Rng::from_seed(1), world.now);
    assert!(matches!(pair.b.closed(), Some(Reason::WrongPeer(_))), "{:?}", pair.b.events);
}
