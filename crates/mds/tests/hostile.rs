//! What a client with a key may send: well-formed messages with any values. None of them ends the rank, the
//! journal that they leave can be replayed, and one that may only enter a directory of its own changes
//! nothing elsewhere. `NACRE_HOSTILE=5000 cargo test -p mds --test hostile` sends more of them.

mod world;

use mds::{ClientId, ClientPeer, MdsOptions};
use msgs::{Body, ClientCaps, ClientRequest, ClientSession, FilePath, MdsOp, cap, session_op};
use std::time::Duration;
use stdx::{Rng, test_seeds};
use wire::Sample;
use world::World;
use world::client::{create, mkdir, request, setattr_mode, setattr_size, two};

const GOOD: u64 = 10;
const BAD: u64 = 66;
const STRANGER: u64 = 67;

const FILES: [&str; 4] = ["g/f0", "g/f1", "g/d/f2", "pit/f3"];

fn tree(w: &mut World) {
    for dir in ["g", "g/d", "pit", "pit/d"] {
        assert_eq!(w.call(GOOD, mkdir(dir)).result, 0);
    }
    for (i, file) in FILES.iter().enumerate() {
        assert_eq!(w.call(GOOD, create(file, 1)).result, 0);
        assert_eq!(w.call(GOOD, setattr_size(file, 1000 * i as u64)).result, 0);
        assert_eq!(w.call(GOOD, setattr_mode(file, 0o640)).result, 0);
    }
    assert_eq!(w.call(GOOD, two(MdsOp::LINK, "g/l", "g/f0")).result, 0);
}

/// What is outside of the directory that the bad one may enter.
fn outside(w: &mut World) -> Vec<String> {
    let names = ["", "g", "g/d", "g/f0", "g/f1", "g/d/f2", "g/l"];
    let mut out = Vec::new();
    for name in names {
        let reply = w.call(GOOD, request(MdsOp::GETATTR, name));
        assert_eq!(reply.result, 0, "{name}");
        let t = reply.trace.target.expect("a target");
        let owner = (t.uid, t.gid, t.mode, t.nlink);
        // The root's times and counts follow what happens in the directory below it.
        let times = if name.is_empty() { None } else { Some((t.mtime, t.size, t.nfiles, t.nsubdirs)) };
        out.push(format!("{name}: {} {owner:?} {times:?} {:?}", t.ino, t.xattrs));
    }
    out
}

fn path(rng: &mut Rng) -> FilePath {
    let text = *rng.pick(&[
        "",
        "pit",
        "pit/f3",
        "pit/d",
        "pit/new",
        "pit/d/new",
        "pit/../g/f0",
        "..",
        "../g",
        "/",
        "//g",
        "g",
        "g/f0",
        "g/d/f2",
        "g/new",
        "f3",
        "new",
        ".snap",
        ".snap/x",
        "pit/.snap/x",
        "a/b/c/d",
        "\u{0}",
        "pit/ü",
    ]);
    let ino = match rng.below(8) {
        0 => Sample::sample(rng),
        1 => 0,
        2 | 3 => (1 << 40) + rng.below(24),
        4 => 0x600 + rng.below(10),
        5 => 0x100 + rng.below(4),
        _ => 1,
    };
    let text = if rng.chance(1, 30) { "n".repeat(rng.below(5000) as usize) } else { text.to_owned() };
    FilePath { ino, path: text.into_bytes() }
}

fn any_request(rng: &mut Rng) -> ClientRequest {
    let mut any = ClientRequest::sample(rng);
    if rng.chance(1, 6) {
        return any;
    }
    let ops: Vec<MdsOp> = (0..0x2000).map(MdsOp).filter(|op| op.name().is_some()).collect();
    any.op = *rng.pick(&ops);
    any.path = path(rng);
    any.path2 = path(rng);
    any.head_version = rng.range(1, 4) as u16;
    (any.caller_uid, any.caller_gid) = (0, 0);
    if rng.chance(2, 3) {
        any.flags = *rng.pick(&[0, 2, 2, 4, 1]);
        (any.num_retry, any.num_fwd, any.ino) = (0, 0, 0);
        any.releases.clear();
        any.oldest_client_tid = 0;
    }
    any
}

fn any_caps(rng: &mut Rng) -> ClientCaps {
    let mut m = ClientCaps::sample(rng);
    m.ino = (1 << 40) + rng.below(24);
    m.cap_id = rng.below(60);
    if rng.chance(2, 3) {
        m.op = rng.below(12) as u32;
        (m.seq, m.issue_seq) = (rng.below(5) as u32, rng.below(5) as u32);
        m.dirty = msgs::Caps(*rng.pick(&[0, cap::FILE_WR, cap::AUTH_EXCL, cap::XATTR_EXCL, cap::FILE_EXCL]));
    }
    m
}

/// The bad one's messages go past the world's clients, which keep to the rules.
fn send(w: &mut World, from: u64, tid: u64, body: impl Into<Body>) {
    let raw = body.into().to_raw(tid);
    if let Ok((tid, body)) = Body::from_raw(raw) {
        w.rank.client_message(w.now, ClientId(from), tid, body);
        w.effects();
    }
}

fn come_in(w: &mut World, who: u64, caps: &str) {
    let caps = auth::MdsCap::parse(caps).expect("caps");
    w.rank.client_connected(ClientId(who), ClientPeer { caps, ..ClientPeer::default() });
}

fn open(w: &mut World) {
    let mut open = ClientSession::of(session_op::REQUEST_OPEN, 0);
    open.features = ClientSession::feature_bytes(0x7ffff);
    send(w, BAD, 0, open);
    w.quiet();
}

fn play(seed: u64, caps: &str) -> (World, Vec<String>) {
    let mut rng = Rng::from_seed(seed);
    let mut w = World::new(seed, MdsOptions::default());
    w.has_hostile = true;
    w.connect(GOOD);
    tree(&mut w);
    let before = outside(&mut w);
    come_in(&mut w, BAD, caps);
    come_in(&mut w, STRANGER, caps);
    open(&mut w);
    for round in 0..rng.range(30, 120) {
        let from = if rng.chance(1, 10) { STRANGER } else { BAD };
        match rng.below(16) {
            0 => Body::samples(&mut rng).into_iter().for_each(|body| send(&mut w, from, rng.below(9), body)),
            1..4 => send(&mut w, from, rng.below(5), any_caps(&mut rng)),
            4 => open(&mut w),
            5 => w.advance(Duration::from_secs(rng.below(20))),
            6 if rng.chance(1, 4) => {
                w.restart(&[GOOD]);
                come_in(&mut w, BAD, caps);
                come_in(&mut w, STRANGER, caps);
            }
            _ => send(&mut w, from, 100 + round, any_request(&mut rng)),
        }
        if rng.chance(2, 3) {
            w.quiet();
        }
        w.finish_evictions();
    }
    (w, before)
}

#[test]
fn messages_with_any_content_end_no_rank_and_its_journal_replays() {
    for seed in test_seeds("NACRE_HOSTILE", 300) {
        let told = std::panic::catch_unwind(|| {
            let (mut w, _) = play(seed, "allow *");
            // The bad one goes with whatever it holds.
            w.advance(Duration::from_secs(400));
            w.finish_evictions();
            w.restart(&[GOOD]);
            w.advance(Duration::from_secs(60));
            w.finish_evictions();
            let reply = w.call(GOOD, mkdir("after"));
            assert!(matches!(reply.result, 0 | -17), "{}", reply.result);
        });
        assert!(told.is_ok(), "seed {seed}");
    }
}

#[test]
fn a_client_of_one_directory_changes_nothing_elsewhere() {
    for seed in test_seeds("NACRE_HOSTILE", 300) {
        let told = std::panic::catch_unwind(|| {
            let (mut w, before) = play(seed, "allow rw path=/pit");
            w.advance(Duration::from_secs(400));
            w.finish_evictions();
            assert_eq!(outside(&mut w), before);
        });
        assert!(told.is_ok(), "seed {seed}");
    }
}
