//! Bytes from strangers: no panic, bounded memory, a counted reason.

mod common;

use auth::{ConMode, Method, Tickets};
use common::{End, Pair, World, message};
use msgr::{Conn, Event, Reason, Want};
use std::collections::BTreeSet;
use stdx::{Now, Rng};

/// Feeds `bytes` to `conn`. Returns the largest memory that it asked for, and the reason of its end.
fn drive(conn: &mut Conn, mut bytes: &[u8], now: Now) -> (usize, Option<Reason>) {
    let mut largest = 0;
    loop {
        while let Some(event) = conn.poll_event() {
            if let Event::Closed(reason) = event {
                return (largest, Some(reason));
            }
        }
        match conn.want() {
            Want::Nothing => return (largest, None),
            Want::Budget(n) => {
                assert!(n < 200 << 20, "{n}");
                conn.grant(None, now);
            }
            Want::Read(memory) => {
                largest = largest.max(memory.len());
                let n = memory.len().min(bytes.len());
                if n == 0 {
                    return (largest, None);
                }
                memory[..n].copy_from_slice(&bytes[..n]);
                conn.filled(n, now);
                bytes = &bytes[n..];
            }
        }
    }
}

fn banner() -> Vec<u8> {
    let mut bytes = b"ceph v2\n".to_vec();
    bytes.extend_from_slice(&[16, 0, 1, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0]);
    bytes
}

#[test]
fn noise_ends_a_connection_at_once_and_allocates_nothing() {
    let mut world = World::new(1, Method::Cephx);
    let mut rng = Rng::from_seed(1);
    let mut reasons = BTreeSet::new();
    for round in 0..2000 {
        let mut bytes = if round % 2 == 0 { banner() } else { vec![] };
        let mut noise = vec![0; rng.below(3000) as usize];
        rng.fill(&mut noise);
        bytes.extend_from_slice(&noise);
        let mut conn = if round % 3 == 0 {
            world.accept_mon(&[ConMode::Crc])
        } else {
            world.accept_service(&[ConMode::Crc, ConMode::Secure], false)
        };
        let now = world.now;
        let (largest, reason) = drive(&mut conn, &bytes, now);
        assert!(largest <= 128 << 10, "{largest}");
        reasons.extend(reason.map(|r| r.name()));
    }
    assert!(reasons.contains("banner") && reasons.contains("crc"), "{reasons:?}");
}

#[test]
fn http_and_old_protocols_are_refused_after_one_byte() {
    let mut world = World::new(1, Method::None);
    for bytes in [&b"GET / HTTP/1.1\r\n"[..], b"ceph v027", b"\x16\x03\x01", b"ceph v2\n\x00\x00"] {
        let now = world.now;
        let (_, reason) = drive(&mut world.accept_mon(&[ConMode::Crc]), bytes, now);
        assert!(matches!(reason, Some(Reason::Banner(_))), "{bytes:?}: {reason:?}");
    }
}

/// A frame's start, well formed, with these segments.
fn preamble(tag: u8, lens: &[u32]) -> Vec<u8> {
    let mut bytes = vec![0; 28];
    (bytes[0], bytes[1]) = (tag, lens.len() as u8);
    for (i, len) in lens.iter().enumerate() {
        bytes[2 + 6 * i..6 + 6 * i].copy_from_slice(&len.to_le_bytes());
    }
    let crc = stdx::crc32c::update(0, &bytes);
    bytes.extend_from_slice(&crc.to_le_bytes());
    bytes
}

#[test]
fn announced_lengths_are_checked_before_anything_is_allocated() {
    let mut world = World::new(1, Method::None);
    for (tag, lens, expected) in [
        (1, &[u32::MAX][..], "oversize"),
        (1, &[70_000], "oversize"),
        (17, &[41, 10, 10, 10], "unexpected"),
        (1, &[10, 10], "frame"),
        (1, &[0], "frame"),
        (0, &[10], "unexpected"),
        (99, &[10], "unexpected"),
        (21, &[10], "unexpected"),
    ] {
        let mut bytes = banner();
        bytes.extend(preamble(tag, lens));
        let now = world.now;
        let (largest, reason) = drive(&mut world.accept_mon(&[ConMode::Crc]), &bytes, now);
        assert_eq!(reason.map(|r| r.name()), Some(expected), "{tag} {lens:?}");
        assert!(largest <= 32 << 10);
    }
}

#[test]
fn an_open_connection_refuses_oversized_messages() {
    for (lens, expected) in [
        (&[41, 17 << 20][..], "oversize"),
        (&[41, 0, 17 << 20], "oversize"),
        (&[41, 0, 0, u32::MAX], "oversize"),
        (&[70_000], "oversize"),
    ] {
        let mut world = World::new(2, Method::None);
        let mut pair = open_pair(&mut world);
        let now = world.now;
        let (_, reason) = drive(&mut pair.b.conn, &preamble(17, lens), now);
        assert_eq!(reason.map(|r| r.name()), Some(expected));
    }
}

fn open_pair(world: &mut World) -> Pair {
    let credentials = world.credentials();
    let client = world.connect_mon(&[ConMode::Crc, ConMode::Secure], credentials, Tickets::default());
    let mut pair = Pair::new(client, world.accept_mon(&[ConMode::Crc, ConMode::Secure]));
    pair.run(&mut Rng::from_seed(3), world.now);
    assert!(!pair.b.ready().resumed);
    pair
}

/// Every handshake of a client with single bytes changed or cut, at both ends: there is never a panic, and if
/// the server admits a client under cephx, it is the right one.
#[test]
fn changed_handshakes_never_authenticate_somebody_else() {
    let mut rng = Rng::from_seed(5);
    let mut reasons = BTreeSet::new();
    for round in 0..3000 {
        let mut world = World::new(round % 7, Method::Cephx);
        let credentials = world.credentials();
        let modes = if round % 2 == 0 { [ConMode::Crc] } else { [ConMode::Secure] };
        let mut a = End::new(world.connect_mon(&modes, credentials, Tickets::default()));
        let mut b = End::new(world.accept_mon(&[ConMode::Crc, ConMode::Secure]));
        a.conn.send(message(1, &mut rng));
        let target = rng.below(900) as usize;
        let to_b = rng.chance(2, 3);
        let (mut seen, mut harmless) = (0, false);
        for _ in 0..30 {
            for (from, to, hit) in
                [(&mut a, true, to_b), (&mut b, false, !to_b)].map(|(e, d, h)| (e.conn.poll_write(), d, h))
            {
                let Some(bytes) = from else { continue };
                let mut bytes = bytes.to_vec();
                if hit && (seen..seen + bytes.len()).contains(&target) {
                    let bit = rng.below(8);
                    // The upper half of late_status means nothing.
                    harmless = bytes[target - seen] == 0x0e && bit >= 4;
                    bytes[target - seen] ^= 1 << bit;
                }
                seen += if hit { bytes.len() } else { 0 };
                if to { b.inbox.extend(bytes) } else { a.inbox.extend(bytes) }
            }
            while a.read(5000, world.now) | b.read(5000, world.now) {}
        }
        for end in [&a, &b] {
            reasons.extend(end.closed().map(Reason::name));
        }
        if b.events.iter().any(|e| matches!(e, Event::Ready(_))) {
            assert_eq!(b.ready().entity.to_string(), "client.admin");
        }
        if seen > target {
            let undetected = b.messages().len() == 1 && a.closed().is_none() && b.closed().is_none();
            assert!(!undetected || harmless, "round {round}: byte {target} changed without notice");
        }
    }
    for name in ["banner", "crc", "decrypt"] {
        assert!(reasons.contains(name), "{name} in {reasons:?}");
    }
}

#[test]
fn a_sender_that_is_never_acknowledged_is_cut_off() {
    let mut world = World::new(2, Method::None);
    let mut pair = open_pair(&mut world);
    let mut rng = Rng::from_seed(1);
    let mut sent = 0;
    while !pair.b.conn.is_closed() {
        let mut msg = message(sent, &mut rng);
        msg.data = stdx::Bufs::from(stdx::Buf::zeros(64 << 20));
        pair.b.conn.send(msg);
        sent += 1;
        assert!(sent < 100);
    }
    assert!(matches!(pair.b.conn.poll_event(), Some(Event::Closed(Reason::QueueFull))));
}

/// A frame in crc mode with correct checksums around arbitrary content.
fn sealed(tag: u8, control: &[u8], payload: [&[u8]; 3]) -> Vec<u8> {
    let crc = |b: &[u8]| stdx::crc32c::update(!0, b).to_le_bytes();
    let all = [control, payload[0], payload[1], payload[2]];
    let segments = all.iter().rposition(|s| !s.is_empty()).map_or(1, |i| i + 1);
    let lens: Vec<u32> = all[..segments].iter().map(|s| s.len() as u32).collect();
    let mut bytes = preamble(tag, &lens);
    bytes.extend_from_slice(control);
    bytes.extend_from_slice(&crc(control));
    if segments > 1 {
        payload.iter().for_each(|s| bytes.extend_from_slice(s));
        bytes.push(0xe);
        for (i, segment) in payload.iter().enumerate() {
            bytes.extend_from_slice(&if i + 1 < segments { crc(segment) } else { [0; 4] });
        }
    }
    bytes
}

/// A control payload: arbitrary bytes, or a plausible one with bytes changed.
fn control(tag: u8, rng: &mut Rng) -> Vec<u8> {
    let mut bytes = match rng.below(3) {
        0 => vec![0; rng.below(200) as usize],
        1 if tag == 17 => vec![0; 41],
        _ => {
            // An address vector, then numbers: the start of CLIENT_IDENT, SESSION_RECONNECT and others.
            let mut w = wire::Writer::new();
            w.put(&wire::AddrVec::from(World::server_addr()));
            w.put(&World::server_addr());
            (0..6).for_each(|_| w.put(&rng.below(4)));
            w.into_vec()
        }
    };
    for _ in 0..rng.below(6) {
        if !bytes.is_empty() {
            let at = rng.below(bytes.len() as u64) as usize;
            bytes[at] = rng.u32() as u8;
        }
    }
    if bytes.is_empty() { vec![1] } else { bytes }
}

/// Frames with correct checksums and arbitrary content, in every state, at both ends.
#[test]
fn well_formed_nonsense_never_panics() {
    let mut rng = Rng::from_seed(11);
    let mut reasons = BTreeSet::new();
    for round in 0..4000 {
        let mut world = World::new(round % 5, Method::None);
        let tickets = world.tickets();
        let lossy = rng.chance(1, 2);
        let client = world.connect_service(&[ConMode::Crc], &tickets, lossy, None, 1);
        let mut pair = Pair::new(client, world.accept_service(&[ConMode::Crc], lossy));
        // Somewhere within the handshake or after it.
        pair.cut = rng.below(900) as usize;
        pair.run(&mut rng, world.now);
        let mut bytes = Vec::new();
        for _ in 0..rng.range(1, 6) {
            let tag = if rng.chance(1, 3) { 17 } else { rng.range(1, 21) as u8 };
            let control = control(tag, &mut rng);
            let part = vec![7; rng.below(3000) as usize];
            let empty: &[u8] = &[];
            let payload = match (tag, rng.below(3)) {
                (17, 0) => [&part[..], empty, empty],
                (17, 1) => [&part[..part.len() / 2], &part[..1.min(part.len())], &part],
                _ => [empty; 3],
            };
            bytes.extend(sealed(tag, &control, payload));
        }
        let end = if rng.chance(1, 2) { &mut pair.a } else { &mut pair.b };
        // Bytes in flight come first, so that frames stay whole.
        let mut all: Vec<u8> = end.inbox.drain(..).collect();
        if rng.chance(1, 2) {
            all.clear();
        }
        all.extend(bytes);
        let (_, reason) = drive(&mut end.conn, &all, world.now);
        reasons.extend(reason.map(|r| r.name()));
        if rng.chance(1, 2) {
            end.conn.resume(None, world.now);
        }
        let _ = (end.conn.poll_write(), end.conn.take_session());
    }
    for name in ["unexpected", "malformed", "frame"] {
        assert!(reasons.contains(name), "{name} in {reasons:?}");
    }
}
