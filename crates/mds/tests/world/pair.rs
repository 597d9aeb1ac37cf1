//! Two clients and what they hold.

use super::World;
use super::client::getattr;
use mds::MdsOptions;
use msgs::{ClientRequest, InodeStat, cap};
use wire::Errno;

pub const A: u64 = 10;
pub const B: u64 = 20;

pub fn two_clients(seed: u64) -> World {
    let mut w = World::new(seed, MdsOptions::default());
    w.connect(A);
    w.connect(B);
    w
}

pub fn ino(reply: &msgs::ClientReply) -> u64 {
    assert_eq!(reply.result, 0, "{:?}", reply.op);
    reply.trace.target.as_ref().expect("a target").ino
}

pub fn caps(w: &World, client: u64, ino: u64) -> u32 {
    w.clients[&client].held.get(&ino).map_or(0, |h| h.caps)
}

/// A sends a request that succeeds.
pub fn ok(w: &mut World, r: ClientRequest) {
    let what = format!("{} {}", r.op, String::from_utf8_lossy(&r.path.path));
    assert_eq!(w.call(A, r).result, 0, "{what}");
}

/// A sends a request that fails.
pub fn fails(w: &mut World, r: ClientRequest, errno: Errno) {
    let what = format!("{} {}", r.op, String::from_utf8_lossy(&r.path.path));
    assert_eq!(w.call(A, r).result, errno.to_result_code(), "{what}");
}

/// The attributes that a client is told of a path.
pub fn stat(w: &mut World, client: u64, path: &str) -> InodeStat {
    let reply = w.call(client, getattr(path, cap::ANY_SHARED));
    assert_eq!(reply.result, 0, "getattr {path}");
    *reply.trace.target.expect("a target")
}
