//! Damage to a monitor's device. One sector or block is zeroed, gets a bit flipped or holds data from
//! elsewhere, for every sector that was ever written. Either the monitor reports it at start, with the file
//! and what to do, or the damage changes nothing. The state is never wrong.

use crate::config::MonConfig;
use crate::consensus::Position;
use crate::consensus::VoterId;
use crate::consensus::Voters;
use crate::entry::Change;
use crate::mon::Mon;
use crate::mon::Phase;
use crate::raft_log::LogEvent;
use crate::raft_log::RaftLog;
use crate::raft_log::Rows;
use node::{DiskId, DiskInfo, DiskOp, DiskResult, Input, Node, Output};
use std::collections::{BTreeMap, VecDeque};
use stdx::{BufMut, Instant, Now, Rng, Wall};
use store::Store;

const SECTOR: u64 = 512;
const INFO: DiskInfo = DiskInfo { id: DiskId(0), size: 64 << 20, sector: SECTOR as u32 };
/// First sectors of both superblocks.
const SUPERBLOCKS: [u64; 2] = [0, (128 << 10) / SECTOR];
/// First sector of the index on a device of this size; the log ends there.
const INDEX: u64 = ((256 << 10) + (2 << 20)) / SECTOR;

/// A device's content, sector by sector.
#[derive(Clone, Default)]
struct Disk(BTreeMap<u64, Vec<u8>>);

impl Disk {
    fn carry_out(&mut self, op: DiskOp) -> DiskResult {
        match op {
            DiskOp::Read { offset, len, .. } => return Ok(self.read(offset, len)),
            DiskOp::Write { offset, data, .. } => {
                for (at, part) in (offset / SECTOR..).zip(data.to_buf().chunks(SECTOR as usize)) {
                    self.0.insert(at, part.to_vec());
                }
            }
            DiskOp::Flush { .. } | DiskOp::Discard { .. } => {}
        }
        Ok(stdx::Buf::empty())
    }

    fn read(&self, offset: u64, len: usize) -> stdx::Buf {
        let mut out = BufMut::zeroed(len);
        for (at, part) in (offset / SECTOR..).zip(out.as_mut_slice().chunks_mut(SECTOR as usize)) {
            if let Some(bytes) = self.0.get(&at) {
                part.copy_from_slice(bytes);
            }
        }
        out.freeze()
    }

    fn write(&mut self, first: u64, bytes: &[u8]) {
        for (at, part) in (first..).zip(bytes.chunks(SECTOR as usize)) {
            self.0.insert(at, part.to_vec());
        }
    }
}

fn now(seconds: u64) -> Now {
    let ns = seconds * 1_000_000_000;
    Now { mono: Instant(ns), wall: Wall(1_767_225_600_000_000_000 + ns) }
}

fn config(mons: usize) -> MonConfig {
    let all: Vec<(String, std::net::SocketAddr)> = (["a", "b", "c"].iter().zip(1..))
        .map(|(name, n)| ((*name).to_owned(), ([10, 0, 0, n], 3300).into()))
        .take(mons)
        .collect();
    let mut rng = Rng::from_seed(77);
    let mut keyring = auth::Keyring::default();
    for name in ["mon.", "client.admin"] {
        let key = auth::Key::generate(now(0).wall, &mut rng);
        let caps = BTreeMap::from([("mon".to_owned(), "allow *".to_owned())]);
        let name = wire::EntityName::parse(name).expect("a name");
        keyring.0.insert(name, auth::KeyringEntry { key, caps });
    }
    MonConfig {
        name: "a".into(),
        monmap: maps::MonMap::new(wire::Uuid([7; 16]), now(0).wall.into(), &all),
        keyring,
        methods: vec![auth::Method::Cephx],
        options: BTreeMap::new(),
        hostname: "host1".into(),
        disk: INFO,
        store_path: "/data/mon.a/block".into(),
        joined: None,
        build: Default::default(),
    }
}

fn store(seed: u64) -> Store {
    Store::new(store::Config::default(), INFO, Rng::from_seed(seed))
}

/// Hands a monitor an input and what its disk answers, until there is nothing more; how it stopped, if it
/// did.
fn feed(
    mon: &mut Mon<Store>,
    disk: &mut Disk,
    at: Now,
    input: Input<node::Never>,
) -> Option<Result<(), String>> {
    let mut out = Vec::new();
    mon.handle(at, input, &mut out);
    answer(mon, disk, at, out)
}

fn answer(
    mon: &mut Mon<Store>,
    disk: &mut Disk,
    at: Now,
    out: Vec<Output<node::Never>>,
) -> Option<Result<(), String>> {
    let mut todo = VecDeque::from(out);
    while let Some(output) = todo.pop_front() {
        match output {
            Output::Disk { id, op } => {
                let mut more = Vec::new();
                mon.handle(at, Input::Disk { id, result: disk.carry_out(op) }, &mut more);
                todo.extend(more);
            }
            Output::Stop(result) => return Some(result),
            _ => {}
        }
    }
    None
}

/// A monitor that has written several checkpoints and has entries after the last one.
fn running() -> (Mon<Store>, Disk) {
    let mut disk = Disk::default();
    let mut mon = Mon::new(config(1), store(1), Rng::from_seed(2));
    assert!(feed(&mut mon, &mut disk, now(1), Input::Start).is_none());
    for i in 0..280u64 {
        let value = vec![i as u8; 40 + (i as usize * 37) % 600];
        let change = Change::Kv(format!("key {}", i % 90), Some(value));
        mon.log.propose(now(2).wall, vec![change]);
        // Many in one record, but the last ones.
        if i % 20 == 19 || i > 275 {
            assert!(feed(&mut mon, &mut disk, now(2), Input::Timer).is_none());
        }
    }
    assert!(mon.phase == Phase::Running && mon.log.state().version > 280);
    (mon, disk)
}

/// The device of one that was asked to end.
fn closed() -> Disk {
    let (mut mon, mut disk) = running();
    let mut out = Vec::new();
    mon.shut_down(now(3), &mut out);
    assert_eq!(answer(&mut mon, &mut disk, now(3), out), Some(Ok(())));
    disk
}

/// Everything that a monitor restarts from.
#[derive(Clone, PartialEq, Debug)]
struct Whole {
    rows: (Position, Rows),
    entries: Vec<Vec<u8>>,
    last: Position,
    term: u64,
    voters: Voters,
    own: VoterId,
}

/// Opens the store as a monitor does at its start.
fn open(disk: &Disk) -> Result<Whole, String> {
    let mut log = RaftLog::new(store(3));
    let mut events = Vec::new();
    log.open(&mut events);
    let mut todo = VecDeque::from(events);
    let mut opened = None;
    while let Some(event) = todo.pop_front() {
        let mut more = Vec::new();
        match event {
            LogEvent::Disk(id, DiskOp::Read { offset, len, .. }) => {
                log.disk_done(now(9), id, Ok(disk.read(offset, len)), &mut more);
            }
            // Replaying may write a checkpoint, of which nobody hears here.
            LogEvent::Disk(id, _) => log.disk_done(now(9), id, Ok(stdx::Buf::empty()), &mut more),
            LogEvent::Opened(ident) => opened = Some(ident),
            LogEvent::Failed(why) | LogEvent::Full(why) | LogEvent::Newer(why) => return Err(why),
            other => panic!("{other:?}"),
        }
        todo.extend(more);
    }
    let ident = opened.expect("opened or failed").ok_or("blank")?;
    let own = VoterId(ident.store);
    log.begin(now(9).mono, own, "a", Rng::from_seed(4));
    let raft = log.raft().expect("has begun");
    let entries = (log.state().version + 1..=raft.last().index).filter_map(|i| raft.entry(i));
    Ok(Whole {
        rows: log.snapshot(),
        entries: entries.map(|e| e.data.to_vec()).collect(),
        last: raft.last(),
        term: raft.term(),
        voters: (**raft.voters()).clone(),
        own,
    })
}

/// Error with which one of three monitors refuses to start on this disk.
fn told(disk: &Disk) -> String {
    let mut mon = Mon::new(config(3), store(5), Rng::from_seed(6));
    match feed(&mut mon, &mut disk.clone(), now(9), Input::Start) {
        Some(Err(why)) => why,
        other => panic!("it goes on: {other:?}"),
    }
}

/// Every sector, and every block, damaged in each of the ways: where, how, and the device.
fn each_damage(disk: &Disk, mut look: impl FnMut(u64, &str, Disk)) {
    let sectors: Vec<u64> = disk.0.keys().copied().collect();
    let mut rng = Rng::from_seed(11);
    for (unit, step) in [("sector", 1), ("block", 8)] {
        let len = (SECTOR * step) as usize;
        for at in sectors.iter().copied().filter(|at| at % step == 0) {
            let old = disk.read(at * SECTOR, len).to_vec();
            let mut change = |how: &str, new: &[(u64, Vec<u8>)]| {
                let mut damaged = disk.clone();
                new.iter().for_each(|(at, bytes)| damaged.write(*at, bytes));
                look(at, &format!("{unit} {at} {how}"), damaged);
            };
            change("zeroed", &[(at, vec![0; len])]);
            let (byte, bit) = (rng.below(len as u64) as usize, rng.below(8));
            let mut flipped = old.clone();
            flipped[byte] ^= 1 << bit;
            change("flipped", &[(at, flipped)]);
            let other = *rng.pick(&sectors) / step * step;
            let content = disk.read(other * SECTOR, len).to_vec();
            change("exchanged", &[(at, content), (other, old)]);
        }
    }
}

/// Damage that an inspection finds, apart from one superblock of two.
fn inspected(disk: &Disk) -> Vec<String> {
    let mut read = |offset, len| Ok(disk.read(offset, len));
    let report = store::inspect(INFO.size, store::Depth::Data, &mut read, &mut |_, _| {}).expect("reads");
    report.damage.into_iter().filter(|what| !what.starts_with("a superblock")).collect()
}

#[test]
fn every_sector_of_a_closed_store_is_told_when_damaged_or_is_not_needed() {
    let disk = closed();
    let whole = open(&disk).expect("sound");
    let (mut found, mut harmless) = (0, BTreeMap::<&str, u32>::new());
    each_damage(&disk, |at, what, damaged| match open(&damaged) {
        Err(why) => {
            found += 1;
            let said = told(&damaged);
            assert!(why.len() < said.len() && said.starts_with(&why), "{what}: {why}, and then {said}");
            for part in
                ["file /data/mon.a/block", "/data/mon.a/block.damaged", "start mon.a again", "other monitors"]
            {
                assert!(said.contains(part), "{what}: {said}");
            }
        }
        Ok(opened) => {
            assert_eq!(opened, whole, "{what}: wrong state");
            assert_eq!(inspected(&damaged), Vec::<String>::new(), "{what} was not noticed");
            let place = match at {
                at if SUPERBLOCKS.iter().any(|s| at / 8 == s / 8) => "a superblock of two",
                at if at < INDEX => "the log",
                _ => "what no page is at any more",
            };
            *harmless.entry(place).or_default() += 1;
        }
    });
    println!("{found} found, harmless: {harmless:?}");
    assert!(found > 500, "{found} found, harmless: {harmless:?}");
}

#[test]
fn a_killed_monitors_store_loses_at_most_the_entry_that_was_being_written() {
    let (_, disk) = running();
    let whole = open(&disk).expect("sound");
    let (mut found, mut same, mut without) = (0, 0, 0);
    each_damage(&disk, |_, what, damaged| match open(&damaged) {
        Err(_) => found += 1,
        Ok(opened) if opened == whole => same += 1,
        Ok(opened) => {
            assert!(!what.contains("flipped"), "{what}: a changed bit is no torn write");
            assert_eq!(opened.last.index, whole.last.index - 1, "{what}");
            assert_eq!((&opened.rows, &opened.voters, opened.own), (&whole.rows, &whole.voters, whole.own));
            assert_eq!(opened.entries[..], whole.entries[..whole.entries.len() - 1], "{what}");
            without += 1;
        }
    });
    println!("{found} found, {same} not needed, {without} taken for torn");
    assert!(found > 500 && without < 20, "{found} found, {same} not needed, {without} taken for torn");
}

#[test]
fn a_monitor_that_was_asked_to_end_leaves_nothing_to_replay() {
    let disk = closed();
    let mut read = |offset, len| Ok(disk.read(offset, len));
    let report = store::inspect(INFO.size, store::Depth::Data, &mut read, &mut |_, _| {}).expect("reads");
    assert_eq!((report.log_end.as_str(), report.damage.len()), ("closed in order", 0));
    assert_eq!(open(&disk).expect("sound").entries.len(), open(&running().1).expect("sound").entries.len());
}
