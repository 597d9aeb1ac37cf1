//! Served images under a load that checks what it reads, while OSDs are killed and started again. It takes
//! 40 s; `NACRE_BLOCK_SOAK_S=1200` makes it 20 minutes.

use super::nbd::Nbd;
use super::rig::{ALL, Images, MIB, has_tools};
use e2e::{Daemon, Options};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use stdx::Rng;

/// Bytes that have a version of their own.
const BLOCK: usize = 4096;
/// Connections of an image, each with a part of it.
const PARTS: usize = 2;
const SIZE: usize = 24 * MIB;
/// A request may wait for OSDs that have died, and their successors may die too.
const LONGEST_WAIT: Duration = Duration::from_secs(120);

/// What a block has at a version; version 0 is zeros.
fn block(version: u32, n: usize) -> Vec<u8> {
    if version == 0 {
        return vec![0; BLOCK];
    }
    [version.to_le_bytes(), (n as u32).to_le_bytes()].concat().repeat(BLOCK / 8)
}

/// A part of an image, which one connection changes.
struct Part {
    nbd: Nbd,
    rng: Rng,
    /// The first block.
    from: usize,
    versions: Vec<u32>,
    requests: u64,
    longest: Duration,
}

impl Part {
    fn expected(&self, first: usize, count: usize) -> Vec<u8> {
        (first..first + count).flat_map(|i| block(self.versions[i], self.from + i)).collect()
    }

    /// Makes one request.
    fn step(&mut self) {
        let count = self.rng.range(1, 33) as usize;
        let first = self.rng.below((self.versions.len() - count) as u64) as usize;
        let at = ((self.from + first) * BLOCK) as u64;
        let began = Instant::now();
        match self.rng.below(10) {
            0..4 => {
                self.requests += 1;
                let version = self.requests as u32;
                self.versions[first..first + count].fill(version);
                self.nbd.write(at, &self.expected(first, count));
            }
            4 => {
                self.versions[first..first + count].fill(0);
                self.nbd.trim(at, (count * BLOCK) as u32);
            }
            5 => self.nbd.flush(),
            _ => {
                let found = self.nbd.read(at, (count * BLOCK) as u32);
                let wanted = self.expected(first, count);
                let bad = found.iter().zip(&wanted).position(|(a, b)| a != b);
                assert_eq!(
                    bad,
                    None,
                    "{count} blocks from {}: the first byte that differs",
                    self.from + first
                );
            }
        }
        self.requests += 1;
        self.longest = self.longest.max(began.elapsed());
    }
}

/// The parts of a served image, whose bytes are these versions.
fn parts(url: &str, export: &str, seed: u64, version: u32) -> Vec<Part> {
    let blocks = SIZE / BLOCK / PARTS;
    let part = |i: usize| Part {
        nbd: Nbd::connect(url, export),
        rng: Rng::from_seed(seed * 10 + i as u64),
        from: i * blocks,
        versions: vec![version; blocks],
        requests: u64::from(version),
        longest: Duration::ZERO,
    };
    (0..PARTS).map(part).collect()
}

fn soak_time() -> Duration {
    let wanted = std::env::var("NACRE_BLOCK_SOAK_S").ok().and_then(|text| text.parse().ok());
    Duration::from_secs(wanted.unwrap_or(40))
}

#[test]
fn served_images_lose_nothing_while_osds_are_killed() {
    if !has_tools() {
        return;
    }
    let images = Images::start_with(Options { separate: true, osd_size: "2G", ..Options::default() });
    images.rbd(&["create", "plain", "--size", "24M", "--image-feature", "layering"]);
    images.rbd(&["create", "full", "--size", "24M", "--object-size", "1M", "--image-feature", ALL]);
    let base: Vec<u8> = (0..SIZE / BLOCK).flat_map(|n| block(1, n)).collect();
    images.import(&base, "base");
    images.block(&["snap", "create", "rbd/base@s"]);
    images.block(&["clone", "rbd/base@s", "rbd/clone"]);
    let names = [("plain", 0), ("full", 0), ("clone", 1)];
    let mapped: Vec<_> = names.iter().map(|(name, _)| images.map(&format!("rbd/{name}"))).collect();
    let over = AtomicBool::new(false);
    let (ended, _started) = std::thread::scope(|scope| {
        let mut working = Vec::new();
        for (seed, ((name, version), mapped)) in names.iter().zip(&mapped).enumerate() {
            for mut part in parts(&mapped.url, &format!("rbd/{name}"), seed as u64, *version) {
                let over = &over;
                working.push(scope.spawn(move || {
                    while !over.load(Ordering::Relaxed) {
                        part.step();
                    }
                    part
                }));
            }
        }
        let (kills, started) = kill_osds(&images, soak_time());
        over.store(true, Ordering::Relaxed);
        let parts: Vec<Part> = working.into_iter().map(|w| w.join().expect("nothing was lost")).collect();
        assert!(kills >= 3, "{kills} OSDs were killed");
        (parts, started)
    });
    mapped.into_iter().for_each(super::rig::Mapped::end);
    for ((name, _), parts) in names.iter().zip(ended.chunks(PARTS)) {
        let wanted: Vec<u8> = parts.iter().flat_map(|part| part.expected(0, part.versions.len())).collect();
        images.check(name, &wanted);
        let (requests, longest) =
            parts.iter().fold((0, Duration::ZERO), |(n, most), p| (n + p.requests, most.max(p.longest)));
        assert!(requests > 100 && longest < LONGEST_WAIT, "{name}: {requests} requests, up to {longest:?}");
        eprintln!("{name}: {requests} requests, the longest took {longest:?}");
    }
    images.cluster.check_logs().unwrap_or_else(|why| panic!("{why}"));
}

/// Kills one OSD after another, and starts it again. In the middle the clone is flattened. Returns how many
/// were killed, and those that run since.
fn kill_osds(images: &Images, time: Duration) -> (usize, BTreeMap<String, Daemon>) {
    let (began, mut rng) = (Instant::now(), Rng::from_seed(1));
    let (mut started, mut kills, mut flattened) = (BTreeMap::new(), 0, false);
    while began.elapsed() < time {
        let name = format!("osd.{}", rng.below(3));
        images.cluster.kill(&name);
        // Reaped, so that its device is free.
        drop(started.remove(&name));
        std::thread::sleep(Duration::from_millis(rng.range(500, 5_000)));
        started.insert(name.clone(), images.cluster.start_daemon(&name));
        kills += 1;
        if !flattened && began.elapsed() > time / 2 {
            images.block(&["flatten", "rbd/clone"]);
            flattened = true;
        }
        images.cluster.wait_for("OSD that is up again", |status| {
            status["osdmap"]["num_up_osds"].as_u64() == Some(3)
                && status["pgmap"]["pgs_by_state"].as_array().is_some_and(|states| {
                    states
                        .iter()
                        .all(|s| s["state_name"].as_str().is_some_and(|s| s.contains("active+clean")))
                })
        });
    }
    assert!(flattened);
    assert!(images.rbd_json(&["info", "clone"])["parent"].is_null());
    (kills, started)
}
