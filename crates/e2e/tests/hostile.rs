//! Strangers that send garbage to every port of a running cluster: each is disconnected and counted, memory
//! stays bounded, and the cluster goes on.
#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "tests with real sockets and processes"
)]

use e2e::{Cluster, Options, has};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;
use stdx::Rng;

const STRANGERS: u64 = 150;

#[test]
fn nonsense_on_every_port_is_counted_and_harms_nobody() {
    if !has("ceph") {
        return;
    }
    let cluster = Cluster::start(Options::default());
    let addresses = cluster.addresses();
    assert_eq!(addresses.len(), 5, "a monitor, three OSDs and a metadata server: {addresses:?}");
    let resident = cluster.resident();
    for (i, (name, addr)) in addresses.iter().enumerate() {
        let before = cluster.counted(name, "closed_");
        let mut rng = Rng::from_seed(i as u64);
        for kind in 0..STRANGERS {
            stranger(*addr, &nonsense(kind, &mut rng));
        }
        let closed = cluster.counted(name, "closed_") - before;
        assert!(closed >= STRANGERS, "{name}: {closed} of {STRANGERS}: {}", cluster.admin(name, "perf dump"));
    }
    let grown = cluster.resident().saturating_sub(resident);
    assert!(grown < 32 << 20, "{} KiB more are resident", grown >> 10);
    cluster.client("ceph", &["-s"]).ok();
}

/// Random bytes, a cut-off or damaged greeting, or a frame that claims to be huge.
fn nonsense(kind: u64, rng: &mut Rng) -> Vec<u8> {
    let banner = b"ceph v2\n\x10\0\x01\0\0\0\0\0\0\0\x01\0\0\0\0\0\0\0".to_vec();
    let mut random = vec![0; rng.below(2000) as usize];
    rng.fill(&mut random);
    match kind % 5 {
        0 => random,
        1 => banner[..rng.below(banner.len() as u64) as usize].to_vec(),
        2 => [banner, random].concat(),
        3 => [banner, preamble(1 + rng.below(20) as u8, [u32::MAX - rng.u32() % 1000, 0, 0, 0])].concat(),
        _ => [banner, preamble(1 + rng.below(20) as u8, [rng.u32() % 5000, 0, 0, 0]), random].concat(),
    }
}

/// The head of a frame with one or more segments, its checksum right.
fn preamble(tag: u8, lens: [u32; 4]) -> Vec<u8> {
    let mut out = vec![tag, 1];
    for len in lens {
        out.extend_from_slice(&len.to_le_bytes());
        out.extend_from_slice(&8u16.to_le_bytes());
    }
    out.extend_from_slice(&[0, 0]);
    let crc = stdx::crc32c::update(0, &out);
    out.extend_from_slice(&crc.to_le_bytes());
    out
}

/// Sends `bytes` and waits until the other end has hung up.
fn stranger(addr: SocketAddr, bytes: &[u8]) {
    let mut stream = TcpStream::connect(addr).expect("connects");
    stream.set_read_timeout(Some(Duration::from_secs(25))).expect("a socket");
    // The other end may hang up in the middle, which is what it should do.
    let _ = stream.write_all(bytes);
    let _ = stream.shutdown(std::net::Shutdown::Write);
    let ended = stream.read_to_end(&mut Vec::new());
    assert!(!ended.is_err_and(|e| e.kind() == std::io::ErrorKind::WouldBlock), "the connection was kept");
}
