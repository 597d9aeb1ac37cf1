//! Replays what real clients and real daemons of Ceph 16.2.15 and a Linux 6.1 kernel said to each other:
//! every frame must parse with correct checksums and encode again to the same bytes.
//!
//! A `.streams` file holds connections, each as both directions: {u16 client port, u16 server port, u8 0 from
//! client or 1 from server, u32 length, bytes}; long ones are cut somewhere.

use crate::Reason;
use crate::control::{AuthDone, Header, Reconnect};
use crate::frame::tag;
use crate::gcm::Gcm;
use crate::rx::{Frame, Item, Rx};
use crate::tx::Tx;
use auth::{ConMode, Credentials, Initiator, Keyring, Tickets};
use stdx::{Bufs, Now, Rng};
use wire::{EntityName, Reader, Writer};

const MON_PORT: u16 = 3300;

struct Stream<'a> {
    ports: (u16, u16),
    from_server: bool,
    bytes: &'a [u8],
}

fn streams(file: &[u8]) -> Vec<Stream<'_>> {
    let mut r = Reader::new(file);
    let mut out = Vec::new();
    while !r.is_empty() {
        let ports: (u16, u16) = r.get().expect("ports");
        let from_server: bool = r.get().expect("direction");
        out.push(Stream { ports, from_server, bytes: r.blob().expect("bytes") });
    }
    out
}

/// Feeds `bytes` to `rx` in pieces of random sizes, as far as the memory that it asks for allows.
fn feed(
    rx: &mut Rx,
    mut bytes: &[u8],
    rng: &mut Rng,
    mut each: impl FnMut(&mut Rx, Item),
) -> Result<(), Reason> {
    loop {
        while let Some(item) = rx.next()? {
            each(rx, item);
        }
        if rx.budget().is_some() {
            rx.grant(None);
            continue;
        }
        if bytes.is_empty() {
            return Ok(());
        }
        let space = rx.space();
        assert!(!space.is_empty(), "memory for the next bytes");
        let most = if rng.chance(1, 3) { 10 } else { 20_000 };
        let n = (1 + rng.below(most) as usize).min(bytes.len()).min(space.len());
        space[..n].copy_from_slice(&bytes[..n]);
        rx.filled(n);
        bytes = &bytes[n..];
    }
}

fn again(tx: &mut Tx, frame: &Frame) {
    let data = Bufs::from(frame.data.clone());
    if frame.tag == tag::MESSAGE {
        let header: Header = Reader::new(&frame.control).get().expect("a header");
        assert_eq!(Writer::encode(&header), frame.control);
    }
    tx.frame(frame.tag, &frame.control, &frame.front, &frame.middle, &data);
}

fn banner(stream: &Stream<'_>) -> Tx {
    let mut tx = Tx::new();
    tx.raw(&stream.bytes[..26]);
    tx
}

/// Frames seen, and that all but a cut-off rest encoded to the same bytes.
fn replay(stream: &Stream<'_>, rng: &mut Rng) -> Vec<u8> {
    let mut rx = Rx::new();
    rx.messages = true;
    let (mut tx, mut tags) = (banner(stream), Vec::new());
    let result = feed(&mut rx, stream.bytes, rng, |_, item| {
        if let Item::Frame(frame) = item {
            tags.push(frame.tag);
            again(&mut tx, &frame);
        }
    });
    assert_eq!(result, Ok(()), "{:?}", stream.ports);
    let made = tx.take().expect("bytes").to_vec();
    assert!(stream.bytes.starts_with(&made), "{:?} from server: {}", stream.ports, stream.from_server);
    assert!(made.len() + 20_000 > stream.bytes.len(), "only the cut-off rest may be missing");
    tags
}

#[test]
fn every_frame_of_crc_mode_encodes_to_the_same_bytes() {
    let files: [(&[u8], usize, usize); 5] = [
        (include_bytes!("../tests/data/rados_put.streams"), 4, 17),
        (include_bytes!("../tests/data/rbd_snap.streams"), 4, 50),
        (include_bytes!("../tests/data/kernel_mds.streams"), 1, 50),
        (include_bytes!("../tests/data/kernel_osd.streams"), 3, 20),
        (include_bytes!("../tests/data/fuse_mds.streams"), 1, 50),
    ];
    let mut rng = Rng::from_seed(1);
    for (file, least_connections, least_messages) in files {
        let streams = streams(file);
        for _ in 0..3 {
            let tags: Vec<u8> = streams.iter().flat_map(|s| replay(s, &mut rng)).collect();
            let count = |t| tags.iter().filter(|tag| **tag == t).count();
            assert!(streams.len() >= 2 * least_connections, "{}", streams.len());
            assert!(count(tag::HELLO) == streams.len(), "{}", count(tag::HELLO));
            assert!(count(tag::MESSAGE) >= least_messages, "{}", count(tag::MESSAGE));
        }
    }
}

/// Client and server of one connection to a monitor in secure mode: parses up to AUTH_DONE, derives the keys
/// from the principal's, checks both signatures, decrypts everything, and encrypts it again to the same
/// bytes.
fn decrypt(client: &Stream<'_>, server: &Stream<'_>, keyring: &Keyring, rng: &mut Rng) -> usize {
    let name = EntityName::parse("client.admin").expect("a name");
    let key = keyring.key(&name).cloned();
    let mut done = None;
    let mut rx = Rx::new();
    let _ = feed(&mut rx, server.bytes, rng, |rx, item| match item {
        Item::Frame(f) if f.tag == tag::AUTH_DONE => {
            let frame: AuthDone = Reader::new(&f.control).get().expect("AUTH_DONE");
            done = Some((frame, rx.take_record()));
        }
        _ => {}
    });
    let (done, server_said) = done.expect("an AUTH_DONE before encryption begins");
    let mut initiator = Initiator::mon(Credentials { name, key }, Tickets::default(), vec![]);
    let result =
        initiator.done(done.global_id, ConMode::Secure, &done.payload, Now::default()).expect("opens");
    let client_said = {
        let len = client_handshake_len(client.bytes);
        client.bytes[..len].to_vec()
    };
    let mut messages = 0;
    for (stream, said, heard) in [(client, &client_said, &server_said), (server, &server_said, &client_said)]
    {
        let gcm = || {
            Gcm::pair(&result.connection_secret).map(|(down, up)| if stream.from_server { down } else { up })
        };
        let (mut rx, mut tx) = (after_banner(said), Tx::new());
        tx.take_record();
        rx.decrypt(gcm().expect("a secret"));
        tx.encrypt(gcm().expect("a secret"));
        let mut signature = None;
        let fed = feed(&mut rx, &stream.bytes[said.len()..], rng, |_, item| {
            let Item::Frame(frame) = item else { return };
            signature.get_or_insert(frame.control.clone());
            messages += usize::from(frame.tag == tag::MESSAGE);
            again(&mut tx, &frame);
        });
        assert_eq!(fed, Ok(()));
        assert_eq!(signature.as_deref(), Some(&result.session_key.sign(heard)[..]), "signs what it received");
        assert!(
            tx.take().expect("bytes").to_vec() == stream.bytes[said.len()..],
            "encrypts to the same bytes"
        );
    }
    messages
}

/// A receiver that has read `said`, up to the end of the plain frames.
fn after_banner(said: &[u8]) -> Rx {
    let mut rx = Rx::new();
    feed(&mut rx, said, &mut Rng::from_seed(0), |_, _| {}).expect("plain frames");
    rx.take_record();
    rx.messages = true;
    rx
}

/// Bytes of the client up to and with AUTH_REQUEST_MORE.
fn client_handshake_len(bytes: &[u8]) -> usize {
    let mut rx = Rx::new();
    let mut len = None;
    let _ = feed(&mut rx, bytes, &mut Rng::from_seed(0), |rx, item| match item {
        Item::Frame(f) if f.tag == tag::AUTH_REQUEST_MORE => len = Some(rx.take_record().len()),
        _ => {}
    });
    len.expect("an AUTH_REQUEST_MORE")
}

#[test]
fn secure_mode_decrypts_with_the_clients_key_and_encrypts_to_the_same_bytes() {
    let keyring = Keyring::parse(include_str!("../tests/data/keyring_secure")).expect("a keyring");
    let mut rng = Rng::from_seed(2);
    let files: [&[u8]; 2] = [
        include_bytes!("../tests/data/lspools_secure.streams"),
        include_bytes!("../tests/data/put_secure.streams"),
    ];
    let (mut connections, mut messages) = (0, 0);
    for file in files {
        let all = streams(file);
        for pair in all.chunks(2).filter(|pair| pair[0].ports.1 == MON_PORT) {
            assert_eq!(pair[0].ports, pair[1].ports);
            messages += decrypt(&pair[0], &pair[1], &keyring, &mut rng);
            connections += 1;
        }
    }
    assert!(connections == 6 && messages >= 30, "{connections} {messages}");
}

#[test]
fn a_flipped_bit_anywhere_is_noticed() {
    let file = include_bytes!("../tests/data/rados_put.streams");
    let all = streams(file);
    let osd = all.iter().rev().find(|s| !s.from_server).expect("a client's stream");
    let good = replay(osd, &mut Rng::from_seed(3)).len();
    let mut rng = Rng::from_seed(4);
    for at in 26..osd.bytes.len() {
        let mut bytes = osd.bytes.to_vec();
        let bit = rng.below(8);
        bytes[at] ^= 1 << bit;
        let mut rx = Rx::new();
        rx.messages = true;
        let mut seen = 0;
        let result =
            feed(&mut rx, &bytes, &mut rng, |_, item| seen += usize::from(matches!(item, Item::Frame(_))));
        // The upper half of late_status means nothing.
        let harmless = osd.bytes[at] == crate::frame::LATE_COMPLETE && bit >= 4;
        assert!(result.is_err() || seen < good || harmless, "byte {at}");
    }
}

#[test]
fn control_payloads_round_trip() {
    let reconnect = Reconnect { client_cookie: 1, server_cookie: 2, msg_seq: 9, ..Reconnect::default() };
    let bytes = Writer::encode(&reconnect);
    assert_eq!(Reader::new(&bytes).get::<Reconnect>(), Ok(reconnect));
}
