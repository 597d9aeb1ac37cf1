//! Bulk data: its destination, sharing and reservations.

mod common;

use auth::{ConMode, Method, Tickets};
use common::{Pair, World};
use msgr::{Event, Reason, Want};
use stdx::{BLOCK, Budget, Buf, Bufs, Rng};
use wire::RawMsg;

const CRC: &[ConMode] = &[ConMode::Crc];
const MIB: usize = 1 << 20;

fn open_pair(world: &mut World, modes: &[ConMode]) -> Pair {
    let credentials = world.credentials();
    let client = world.connect_mon(modes, credentials, Tickets::default());
    let mut pair = Pair::new(client, world.accept_mon(modes));
    pair.run(&mut Rng::from_seed(3), world.now);
    assert!(!pair.a.ready().resumed && !pair.b.ready().resumed);
    pair
}

fn bulk(len: usize) -> RawMsg {
    let front = vec![5; 100];
    RawMsg { kind: 42, front, data: Bufs::from(Buf::pattern(1, len)), ..RawMsg::default() }
}

#[test]
fn crc_mode_sends_the_callers_memory() {
    let mut world = World::new(1, Method::None);
    let mut pair = open_pair(&mut world, CRC);
    let msg = bulk(4 * MIB);
    let mine = msg.data.parts()[0].as_ptr();
    pair.a.conn.send(msg);
    let bytes = pair.a.conn.poll_write().expect("bytes");
    assert!(bytes.parts().iter().any(|part| part.as_ptr() == mine), "shared, not copied");
    assert_eq!(bytes.parts().len(), 3, "headers, data, epilogue");
}

#[test]
fn small_messages_leave_in_one_piece() {
    let mut world = World::new(1, Method::None);
    let mut pair = open_pair(&mut world, CRC);
    (0..10)
        .for_each(|tid| pair.a.conn.send(RawMsg { kind: 1, tid, front: vec![1; 50], ..RawMsg::default() }));
    assert!(pair.a.conn.has_output());
    let bytes = pair.a.conn.poll_write().expect("bytes");
    assert_eq!(bytes.parts().len(), 1);
    assert!(!pair.a.conn.has_output());
}

/// Sends one message with `data` bytes to the server, which reads it under `budget`. Returns the number of
/// bytes received in place, and the event.
fn receive(modes: &[ConMode], method: Method, data: usize, budget: &Budget) -> (usize, Event) {
    let mut world = World::new(2, method);
    let mut pair = open_pair(&mut world, modes);
    pair.a.conn.send(bulk(data));
    let mut wire = Vec::new();
    while let Some(bytes) = pair.a.conn.poll_write() {
        wire.extend(bytes.to_vec());
    }
    let (mut at, mut direct) = (0, 0);
    loop {
        match pair.b.conn.want() {
            Want::Budget(n) => {
                assert_eq!(n as usize, 100 + data, "the whole length, before any of it is allocated");
                let hold = budget.reserve(n);
                assert!(hold.is_some());
                pair.b.conn.grant(hold, world.now);
            }
            Want::Read(memory) => {
                let n = memory.len().min(wire.len() - at);
                direct += if memory.len() > 20_000 { n } else { 0 };
                memory[..n].copy_from_slice(&wire[at..at + n]);
                at += n;
                assert!(n > 0, "the message came");
                pair.b.conn.filled(n, world.now);
            }
            Want::Nothing => panic!("closed"),
        }
        while let Some(event) = pair.b.conn.poll_event() {
            if let Event::Message { .. } = event {
                return (direct, event);
            }
        }
    }
}

#[test]
fn bulk_lands_aligned_and_in_place_and_holds_its_budget() {
    for (modes, method) in [(CRC, Method::None), (&[ConMode::Secure][..], Method::Cephx)] {
        for len in [4 * MIB, MIB + 77] {
            let budget = Budget::new(16 << 20);
            let (direct, event) = receive(modes, method, len, &budget);
            assert!(direct > len - (40 << 10), "{direct} of {len} without a copy");
            let Event::Message { msg, hold } = event else { panic!("a message") };
            assert!(hold.is_none(), "the data carries it");
            let data = msg.data.to_buf();
            assert!(data.is_aligned() && *data == *Buf::pattern(1, len));
            assert_eq!(data.block_crcs().count(), len.div_ceil(BLOCK));
            assert_eq!(budget.used(), 100 + len as u64);
            drop((msg, data));
            assert_eq!(budget.used(), 0);
        }
    }
}

#[test]
fn a_message_without_data_hands_its_budget_on() {
    let budget = Budget::new(16 << 20);
    let (_, event) = receive(CRC, Method::None, 0, &budget);
    let Event::Message { msg, hold } = event else { panic!("a message") };
    assert_eq!(
        (msg.data.len(), hold.as_ref().map(stdx::Reservation::bytes), budget.used()),
        (0, Some(100), 100)
    );
    drop(hold);
    assert_eq!(budget.used(), 0);
}

#[test]
fn a_changed_handshake_with_correct_checksums_fails_the_signature() {
    let mut world = World::new(4, Method::Cephx);
    let credentials = world.credentials();
    let mut client = world.connect_mon(CRC, credentials, Tickets::default());
    let server = world.accept_mon(CRC);
    let mut banner = client.poll_write().expect("a banner").to_vec();
    assert_eq!(banner.len(), 26);
    // A revision that nobody knows, claimed as supported: harmless, but not the client's own bytes.
    banner[16] = 0x80;
    let mut pair = Pair::new(client, server);
    pair.b.inbox.extend(banner);
    pair.run(&mut Rng::from_seed(1), world.now);
    let reasons = [pair.a.closed(), pair.b.closed()];
    assert!(reasons.contains(&Some(&Reason::Signature)), "{reasons:?}");
    assert!(!pair.b.events.iter().any(|e| matches!(e, Event::Ready(_))));
}
