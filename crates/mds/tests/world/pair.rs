//! Two clients and what they hold.

use super::World;
use mds::MdsOptions;

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
