//! What strangers' bytes must not break, one function a kind of input. Each may refuse its input but must not
//! panic, nor hold much more memory than it was given.
//!
//! `cargo +nightly fuzz run frames` (or another of the names here) in this folder looks for inputs that do;
//! `tests/corpus.rs` replays the corpus, whole and damaged, with every test run.

mod frames;

pub use frames::{client_stream, frames};
use stdx::{Bufs, Rng};
use wire::{Decode, Encode, RawMsg, Reader, Writer};

/// The names of all kinds.
pub const KINDS: [&str; 5] = ["frames", "messages", "maps", "texts", "stored"];

/// Runs the kind of that name.
pub fn run(kind: &str, data: &[u8]) {
    match kind {
        "frames" => frames(data),
        "messages" => messages(data),
        "maps" => maps(data),
        "texts" => texts(data),
        "stored" => stored(data),
        other => panic!("no kind of input is called {other}"),
    }
}

/// A message: {u16 type, u16 version, u8 share of the data segment in 256ths} and its segments. If it
/// decodes, it must encode, and decode again to the same.
pub fn messages(data: &[u8]) {
    let Some((head, rest)) = data.split_at_checked(5) else { return };
    let cut = rest.len() - rest.len() * usize::from(head[4]) / 256;
    let raw = RawMsg {
        kind: u16::from_le_bytes([head[0], head[1]]),
        version: u16::from_le_bytes([head[2], head[3]]),
        compat: 1,
        tid: 7,
        priority: 63,
        front: rest[..cut].to_vec(),
        middle: Vec::new(),
        data: Bufs::from(rest[cut..].to_vec()),
    };
    if let Ok(msg) = node::Msg::from_raw(raw) {
        let again = node::Msg::from_raw(msg.to_raw());
        assert!(again.is_ok(), "what we write we read: {msg:?}: {again:?}");
    }
}

/// A cluster map: {u8 which} and its encoding. Placement on whatever decodes must end.
pub fn maps(data: &[u8]) {
    let Some((which, rest)) = data.split_first() else { return };
    match which % 8 {
        0 => {
            if let Ok(map) = Reader::new(rest).get::<maps::OsdMap>() {
                for pool in map.pools.keys().take(4) {
                    for seed in 0..4 {
                        map.pg_up_acting(maps::PgId { pool: *pool, seed });
                    }
                }
            }
        }
        1 => drop(Reader::new(rest).get::<maps::OsdMapIncremental>()),
        2 => drop(Reader::new(rest).get::<maps::MonMap>()),
        3 => drop(Reader::new(rest).get::<maps::MdsMap>()),
        4 => drop(Reader::new(rest).get::<maps::FsMap>()),
        5 => drop(Reader::new(rest).get::<crush::CrushMap>()),
        6 => drop(Reader::new(rest).get::<maps::Pool>()),
        _ => drop(Reader::new(rest).get::<maps::MgrMap>()),
    }
}

/// A text that people write: {u8 which} and a capability string, keyring or configuration file.
pub fn texts(data: &[u8]) {
    let Some((which, rest)) = data.split_first() else { return };
    let Ok(text) = std::str::from_utf8(rest) else { return };
    match which % 6 {
        0 => drop(auth::MonCap::parse(text)),
        1 => drop(auth::OsdCap::parse(text)),
        2 => drop(auth::MdsCap::parse(text)),
        3 => drop(auth::Keyring::parse(text)),
        4 => drop(decl::Conf::parse(text)),
        _ => drop(auth::MgrCap::parse(text)),
    }
}

/// A stored structure: {u8 kind} and its encoding, as a damaged disk might return it.
pub fn stored(data: &[u8]) {
    let Some((which, rest)) = data.split_first() else { return };
    match which % 5 {
        0 => round_trip::<store::Transaction>(rest),
        1 => round_trip::<store::ObjectKey>(rest),
        2 => round_trip::<fsfmt::InodeData>(rest),
        3 => round_trip::<fsfmt::Dentry>(rest),
        _ => round_trip::<fsfmt::Event>(rest),
    }
}

fn round_trip<T: Encode + Decode>(bytes: &[u8]) {
    if let Ok(value) = Reader::new(bytes).get::<T>() {
        let again = Writer::encode(&value);
        assert!(Reader::new(&again).get::<T>().is_ok(), "what we write we read");
    }
}

/// `data` with a few bytes changed, cut off, doubled or swapped.
pub fn damaged(data: &[u8], rng: &mut Rng) -> Vec<u8> {
    let mut out = data.to_vec();
    for _ in 0..rng.range(1, 5) {
        let len = out.len() as u64;
        if len == 0 {
            return out;
        }
        let at = rng.below(len) as usize;
        match rng.below(5) {
            0 => out[at] ^= 1 << rng.below(8),
            1 => out[at] = *rng.pick(&[0, 1, 0x7f, 0x80, 0xff]),
            2 => out.truncate(at),
            3 => {
                let end = rng.range(at as u64, len) as usize;
                let part = out[at..end].to_vec();
                out.splice(at..at, part);
            }
            _ => out.swap(at, rng.below(len) as usize),
        }
    }
    out
}
