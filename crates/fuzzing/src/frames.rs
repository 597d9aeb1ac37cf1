//! A connection's bytes, at an acceptor that trusts everybody, so that the code after the handshake is
//! reached too.

use auth::{
    Authenticator, ConMode, Credentials, GlobalIds, Initiator, Method, MonAuthenticator, ServerKeys, Tickets,
};
use msgr::{AcceptConfig, Auth, Common, Conn, ConnectConfig, Event, Want};
use std::sync::Arc;
use stdx::{Instant, Now, Rng, Wall};
use wire::{AddrVec, EntityAddr, EntityName, EntityType, RawMsg};

/// More than the messenger's limits for one message, in bytes: beyond it something is not bounded.
const MOST_MEMORY: usize = 160 << 20;

/// The bytes that a client sends.
pub fn frames(data: &[u8]) {
    let now = Now { mono: Instant(1), wall: Wall(1) };
    let mut conn = acceptor(now);
    let mut rest = data;
    loop {
        while let Some(event) = conn.poll_event() {
            if matches!(event, Event::Closed(_)) {
                return;
            }
        }
        while conn.poll_write().is_some() {}
        match conn.want() {
            Want::Nothing => return,
            Want::Budget(n) => {
                assert!((n as usize) < MOST_MEMORY, "{n} bytes for one message");
                conn.grant(None, now);
            }
            Want::Read(memory) => {
                assert!(memory.len() < MOST_MEMORY, "{} bytes at once", memory.len());
                let n = memory.len().min(rest.len());
                if n == 0 {
                    return;
                }
                memory[..n].copy_from_slice(&rest[..n]);
                conn.filled(n, now);
                rest = &rest[n..];
            }
        }
    }
}

fn address(text: &str) -> EntityAddr {
    EntityAddr::parse(text).expect("a constant address")
}

fn acceptor(now: Now) -> Conn {
    let keys = Arc::new(ServerKeys::new(EntityType::MON, vec![Method::None]));
    let ids = Arc::new(GlobalIds::new());
    ids.push(5000..5001);
    let machine = Authenticator::Mon(MonAuthenticator::new(keys.clone(), ids));
    let auth = Auth { machine, methods: keys.method_numbers() };
    let mine = AddrVec::from(address("v2:127.0.0.1:3300/0"));
    let common = Common::new(EntityType::MON, 0, mine, address("any:127.0.0.1:0/555"));
    let common = Common { con_modes: vec![ConMode::Crc], ..common };
    Conn::accept(AcceptConfig { common, auth, lossy: true }, now, Rng::from_seed(1))
}

/// The bytes of a client that connects and sends `messages`: a seed for fuzzing.
pub fn client_stream(messages: Vec<RawMsg>) -> Vec<u8> {
    let now = Now { mono: Instant(1), wall: Wall(1) };
    let mut server = acceptor(now);
    let credentials = Credentials { name: EntityName::new(EntityType::CLIENT, "admin"), key: None };
    let mine = AddrVec::from(address("any:127.0.0.1:0/555"));
    let common = Common::new(EntityType::CLIENT, -1, mine, address("v2:127.0.0.1:3300/0"));
    let config = ConnectConfig {
        common: Common { con_modes: vec![ConMode::Crc], ..common },
        auth: Initiator::mon(credentials, Tickets::default(), vec![EntityType::OSD]),
        peer_type: EntityType::MON,
        target: address("v2:127.0.0.1:3300/0"),
        lossy: true,
    };
    let mut client = Conn::connect(config, None, now, Rng::from_seed(2));
    for message in messages {
        client.send(message);
    }
    let mut stream = Vec::new();
    for _ in 0..32 {
        let sent = taken(&mut client);
        give(&mut server, &sent, now);
        stream.extend(sent);
        let answered = taken(&mut server);
        give(&mut client, &answered, now);
    }
    stream
}

fn taken(conn: &mut Conn) -> Vec<u8> {
    let mut out = Vec::new();
    while conn.poll_event().is_some() {}
    while let Some(bytes) = conn.poll_write() {
        out.extend(bytes.to_vec());
    }
    out
}

fn give(conn: &mut Conn, mut bytes: &[u8], now: Now) {
    while !bytes.is_empty() {
        while conn.poll_event().is_some() {}
        match conn.want() {
            Want::Nothing => return,
            Want::Budget(_) => conn.grant(None, now),
            Want::Read(memory) => {
                let n = memory.len().min(bytes.len());
                memory[..n].copy_from_slice(&bytes[..n]);
                conn.filled(n, now);
                bytes = &bytes[n..];
            }
        }
    }
}
