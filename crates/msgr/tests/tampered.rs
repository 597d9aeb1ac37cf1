//! A peer that changes or shortens a proof of the handshake is refused by the end that sees it, for a reason
//! that is counted.

mod common;

use auth::{ConMode, DenialKind, Method, Tickets};
use common::{End, World};
use msgr::{Conn, Reason};
use stdx::Rng;

const SECURE: &[ConMode] = &[ConMode::Secure];
const CRC: &[ConMode] = &[ConMode::Crc];
/// Preamble and its checksum, of every frame in crc mode.
const PREAMBLE: usize = 32;
/// A small secure frame: preamble block, inline payload and tag are one record of 96 bytes.
const SECURE_RECORD: usize = 96;
const AUTH_SIGNATURE: u8 = 7;

/// The two ends of a connection, run until the client has signed; the bytes from there on are handed out.
fn until_signature(world: &mut World, modes: &[ConMode], service: bool) -> (End, End, Vec<u8>) {
    let (a, b): (Conn, Conn) = if service {
        let tickets = world.tickets();
        (world.connect_service(modes, &tickets, false, None, 1), world.accept_service(modes, false))
    } else {
        let credentials = world.credentials();
        (world.connect_mon(modes, credentials, Tickets::default()), world.accept_mon(modes))
    };
    let (mut a, mut b) = (End::new(a), End::new(b));
    for _ in 0..20 {
        while let Some(bytes) = b.conn.poll_write() {
            a.inbox.extend(bytes.to_vec());
        }
        while a.read(5000, world.now) {}
        let mut sent = Vec::new();
        while let Some(bytes) = a.conn.poll_write() {
            sent.extend(bytes.to_vec());
        }
        if b.conn.proven().is_some() {
            return (a, b, sent);
        }
        b.inbox.extend(sent);
        while b.read(5000, world.now) {}
    }
    panic!("no signature: {:?} {:?}", a.events, b.events);
}

fn end_of(world: &World, mut b: End, bytes: &[u8]) -> Option<Reason> {
    b.inbox.extend(bytes);
    while b.read(5000, world.now) {}
    assert!(b.events.iter().all(|e| !matches!(e, msgr::Event::Ready(_))), "let in");
    b.closed().cloned()
}

#[test]
fn a_changed_or_shortened_signature_in_crc_mode() {
    for service in [false, true] {
        let mut world = World::new(1, Method::Cephx);
        let (_, b, sent) = until_signature(&mut world, CRC, service);
        assert_eq!((sent[0], b.conn.proven()), (AUTH_SIGNATURE, Some(&world.name)));
        // The right signature, shorter, in a frame that is well formed.
        for len in [1, 16, 31] {
            let (_, b, sent) = until_signature(&mut World::new(1, Method::Cephx), CRC, service);
            let frame = framed(&sent[PREAMBLE..PREAMBLE + len]);
            assert_eq!(end_of(&world, b, &frame), Some(Reason::Signature), "{len} bytes");
        }
        // One bit of it, with the checksum that then belongs to it.
        let (_, b, sent) = until_signature(&mut World::new(1, Method::Cephx), CRC, service);
        let mut signature = sent[PREAMBLE..PREAMBLE + 32].to_vec();
        signature[31] ^= 1;
        assert_eq!(end_of(&world, b, &framed(&signature)), Some(Reason::Signature));
        // Without encryption only the checksum tells.
        let (_, b, mut sent) = until_signature(&mut World::new(1, Method::Cephx), CRC, service);
        sent[PREAMBLE] ^= 1;
        assert!(matches!(end_of(&world, b, &sent), Some(Reason::Crc(_))));
    }
}

/// A frame with one segment and right checksums.
fn framed(signature: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0; PREAMBLE - 4];
    (bytes[0], bytes[1]) = (AUTH_SIGNATURE, 1);
    bytes[2..6].copy_from_slice(&(signature.len() as u32).to_le_bytes());
    bytes[6] = 8;
    let crc = stdx::crc32c::update(0, &bytes);
    bytes.extend_from_slice(&crc.to_le_bytes());
    bytes.extend_from_slice(signature);
    bytes.extend_from_slice(&stdx::crc32c::update(!0, signature).to_le_bytes());
    bytes
}

#[test]
fn a_changed_or_shortened_frame_in_secure_mode() {
    let mut rng = Rng::from_seed(3);
    for round in 0..200 {
        let service = round % 2 == 1;
        let mut world = World::new(2, Method::Cephx);
        let (_, b, mut sent) = until_signature(&mut world, SECURE, service);
        assert!(sent.len() >= SECURE_RECORD, "{}", sent.len());
        let at = rng.below(SECURE_RECORD as u64) as usize;
        sent[at] ^= 1 << rng.below(8);
        assert_eq!(end_of(&world, b, &sent), Some(Reason::Decrypt), "byte {at}");
    }
    // The end of the tag is missing, and something else comes in its place.
    for missing in 1..=16 {
        let mut world = World::new(2, Method::Cephx);
        let (_, b, sent) = until_signature(&mut world, SECURE, true);
        let short = [&sent[..SECURE_RECORD - missing], &vec![0x5a; missing]].concat();
        assert_eq!(end_of(&world, b, &short), Some(Reason::Decrypt), "{missing} bytes of the tag");
    }
}

/// The reason names the client that the acceptor refused.
#[test]
fn a_denial_names_who_and_why() {
    let mut world = World::new(4, Method::Cephx);
    let mut credentials = world.credentials();
    credentials.key = Some(auth::Key::generate(world.now.wall, &mut Rng::from_seed(99)));
    let client = world.connect_mon(CRC, credentials, Tickets::default());
    let mut pair = common::Pair::new(client, world.accept_mon(CRC));
    pair.run(&mut Rng::from_seed(1), world.now);
    let Some(Reason::Auth(denial)) = pair.b.closed() else { panic!("{:?}", pair.b.events) };
    assert_eq!((denial.kind, denial.entity.as_ref()), (DenialKind::WrongKey, Some(&world.name)));
    assert!(
        matches!(pair.a.closed(), Some(Reason::Refused { errno: wire::Errno::EACCES, .. })),
        "{:?}",
        pair.a.events
    );
}
