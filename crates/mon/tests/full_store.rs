//! A monitor on a small device: how much it takes, what it says when no more fits, and that it takes
//! changes again when something was removed.

mod support;

use node::{DiskId, DiskInfo, DiskOp, DiskResult, Input, Msg, Node, Output};
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;
use stdx::{BufMut, Bufs, Instant, Now, Rng, Wall};
use support::Answer;

const SIZE: u64 = 64 << 20;
const BLOCK: usize = 4096;

/// A device in memory, block by block.
#[derive(Default)]
struct Disk(BTreeMap<u64, Vec<u8>>);

impl Disk {
    fn carry_out(&mut self, op: DiskOp) -> DiskResult {
        match op {
            DiskOp::Read { offset, len, .. } => {
                let mut out = BufMut::zeroed(len);
                for (at, part) in (offset / BLOCK as u64..).zip(out.as_mut_slice().chunks_mut(BLOCK)) {
                    if let Some(bytes) = self.0.get(&at) {
                        part.copy_from_slice(&bytes[..part.len()]);
                    }
                }
                return Ok(out.freeze());
            }
            DiskOp::Write { offset, data, .. } => {
                for (at, part) in (offset / BLOCK as u64..).zip(data.to_buf().chunks(BLOCK)) {
                    self.0.insert(at, part.to_vec());
                }
            }
            DiskOp::Flush { .. } | DiskOp::Discard { .. } => {}
        }
        Ok(stdx::Buf::empty())
    }
}

/// A monitor and its device.
struct Host {
    mon: mon::Mon,
    disk: Disk,
    now: u64,
    next: u64,
    outs: Vec<support::Out>,
}

impl Host {
    fn new() -> Self {
        let mut host =
            Self { mon: monitor(1), disk: Disk::default(), now: 1_000_000_000, next: 0, outs: vec![] };
        host.input(Input::Start);
        host
    }

    fn input(&mut self, input: Input<node::Never>) {
        let now = Now { mono: Instant(self.now), wall: Wall(1_767_225_600_000_000_000 + self.now) };
        let mut out = Vec::new();
        self.mon.handle(now, input, &mut out);
        let mut todo = VecDeque::from(out);
        while let Some(output) = todo.pop_front() {
            match output {
                Output::Disk { id, op } => {
                    let mut more = Vec::new();
                    let result = self.disk.carry_out(op);
                    self.mon.handle(now, Input::Disk { id, result }, &mut more);
                    todo.extend(more);
                }
                Output::Stop(why) => panic!("the monitor stops: {why:?}"),
                other => self.outs.push(other),
            }
        }
    }

    fn pass(&mut self, time: Duration) {
        let end = self.now + time.as_nanos() as u64;
        while self.now < end {
            self.now = self.mon.deadline().map_or(end, |d| d.0).clamp(self.now + 1, end);
            self.input(Input::Timer);
        }
    }

    /// Runs a command of a client of its own.
    fn command(&mut self, json: &str, data: &[u8]) -> Answer {
        self.next += 1;
        let conn = node::ConnId(node::ConnId::ACCEPTED | self.next);
        let peer = support::admin_peer(5000 + self.next);
        self.input(Input::Connected { conn, peer });
        let command = msgs::MonCommand {
            fsid: support::fsid(),
            cmd: vec![json.to_owned()],
            data: Bufs::from(data.to_vec()),
            ..msgs::MonCommand::default()
        };
        self.input(Input::Message { conn, msg: Msg::new(1, msgs::Body::from(command)) });
        self.input(Input::Closed { conn, reason: node::CloseReason::Lost });
        let answer = std::mem::take(&mut self.outs).into_iter().find_map(|out| match out {
            Output::Send { conn: to, msg } if to == conn => match msg.body {
                node::Body::Client(msgs::Body::MonCommandAck(ack)) => {
                    let data = String::from_utf8_lossy(&ack.data.to_vec()).into_owned();
                    Some(Answer { code: ack.r, status: ack.rs.clone(), data })
                }
                _ => None,
            },
            _ => None,
        });
        answer.unwrap_or_else(|| panic!("no answer to {json}"))
    }
}

fn monitor(seed: u64) -> mon::Mon {
    let info = DiskInfo { id: DiskId(0), size: SIZE, sector: 512 };
    let config = mon::MonConfig { disk: info, ..support::config(&BTreeMap::new()) };
    let store = store::Store::new(store::Config::default(), info, Rng::from_seed(seed));
    mon::Mon::new(config, store, Rng::from_seed(seed))
}

/// Bytes of a value.
const VALUE: usize = 50_000;

impl Host {
    fn set(&mut self, n: usize, len: usize) -> Answer {
        self.command(&format!(r#"{{"prefix":"config-key set","key":"key{n}"}}"#), &vec![n as u8; len])
    }

    fn remove(&mut self, n: usize) {
        let answer = self.command(&format!(r#"{{"prefix":"config-key rm","key":"key{n}"}}"#), b"");
        assert_eq!((answer.code, &*answer.status), (0, "key deleted"), "key {n}");
    }

    fn holds(&mut self, n: usize, len: usize) -> bool {
        let answer = self.command(&format!(r#"{{"prefix":"config-key get","key":"key{n}"}}"#), b"");
        answer.code == 0 && answer.data == String::from_utf8_lossy(&vec![n as u8; len])
    }

    /// Sets keys from number `from` on until one is refused twice: its number, and what was said. The first
    /// refusal makes the monitor find out what is left.
    fn fill(&mut self, from: usize, len: usize) -> (usize, Answer) {
        let refused = (from..).find_map(|n| {
            let is_refused = self.set(n, len).code != 0;
            is_refused.then(|| self.set(n, len)).filter(|again| again.code != 0).map(|again| (n, again))
        });
        refused.expect("a device has an end")
    }

    fn health(&mut self) -> String {
        self.pass(Duration::from_secs(10));
        self.command(r#"{"prefix":"health"}"#, b"").data
    }

    /// The process dies, and another one starts on the same device.
    fn crash_and_restart(&mut self) {
        self.mon = monitor(2);
        self.input(Input::Start);
        self.pass(Duration::from_secs(10));
    }
}

#[test]
fn a_full_monitor_says_so_and_goes_on() {
    let mut host = Host::new();
    let (keys, refused) = host.fill(0, VALUE);
    // The index keeps as much free as it takes, since a checkpoint may rewrite all of it.
    assert!((400..450).contains(&keys), "{keys} values of {VALUE} bytes fit");
    assert_eq!(refused.code, wire::Errno::ENOSPC.to_result_code());
    let what =
        ["store of mon.a is full", "this needs ", "config-key rm KEY", "truncate -s +4G", "start it again"];
    assert!(what.iter().all(|part| refused.status.contains(part)), "{}", refused.status);
    let health = host.health();
    assert!(health.contains("mon.a is very low on available space"), "told before: {health}");
    assert!((0..keys).all(|n| host.holds(n, VALUE)) && !host.holds(keys, VALUE));
    // It goes on, however often somebody tries.
    let taken = (0..300).filter(|n| host.set(keys + n, VALUE).code == 0).count();
    assert!(taken <= 2, "{taken} more");
    host.crash_and_restart();
    assert!((0..keys).all(|n| host.holds(n, VALUE)));
}

#[test]
fn a_full_monitor_takes_as_many_keys_again_as_were_removed() {
    let mut host = Host::new();
    let (mut keys, _) = host.fill(0, VALUE);
    for removed in [100, 10, 2] {
        (keys - removed..keys).for_each(|n| host.remove(n));
        let (end, _) = host.fill(keys - removed, VALUE);
        assert!(end >= keys - 1, "{end} of {keys} after {removed} were removed");
        keys = end;
    }
    (0..keys).for_each(|n| host.remove(n));
    let health = host.health();
    assert!(!health.contains("available space"), "{health}");
    assert!(host.fill(0, VALUE).0 >= keys - 1);
}

#[test]
fn a_monitor_that_is_full_to_the_last_byte_can_be_emptied() {
    let mut host = Host::new();
    let mut keys = 0;
    for len in [VALUE, 5000, 500, 1, 0] {
        (keys, _) = host.fill(keys, len);
    }
    host.crash_and_restart();
    (0..keys).rev().for_each(|n| host.remove(n));
    assert_eq!(host.set(0, VALUE).code, 0);
    host.crash_and_restart();
    assert!(host.holds(0, VALUE) && !host.holds(1, VALUE));
}
