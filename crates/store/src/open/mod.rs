//! Opening: find the superblock, walk the index above its leaves to learn where its pages are, load the map
//! of blocks, scan the log, apply what the index does not contain.
//!
//! Each phase is a type with a `step`, which begins disk operations through a [`Port`] and runs again when
//! they have all ended. A blank device is made a store first, a device that has grown is marked so. The log
//! is read twice (`log`): to find its end, then to apply it. A store that was shut down cleanly has no log to
//! read.

mod log;
mod port;

use crate::api::{StoreError, StoreOut};
use crate::config::{Config, MkfsInfo};
use crate::core::Core;
use crate::io::{Io, Purpose};
use crate::key::Key;
use crate::page::Ptr;
use crate::ring::Ring;
use crate::stop::Stop;
use crate::superblock::{COPIES, Found, Super, Supers};
use log::{LogScan, Replay};
pub(crate) use port::Turn;
use port::{LOG_PIECE, Port};
use std::collections::BTreeMap;
use stdx::{BLOCK, Buf, Rng};

/// The most pages loaded at once while the index is walked.
const PAGES_AHEAD: usize = 16;

enum Phase {
    /// Making durable what an earlier process wrote, before it is believed.
    Flush,
    Superblocks,
    Blank(Blank),
    Publish(Publish),
    Walk(Walk),
    /// The map of blocks, from this key on.
    Space(Key),
    Scan(Box<LogScan>),
    Replay(Box<Replay>),
    /// Between phases.
    Done,
}

/// Opening a store.
pub(crate) struct Opening {
    mkfs: Option<MkfsInfo>,
    /// The size of the log of a new store.
    log_bytes: Option<u64>,
    rng: Rng,
    phase: Phase,
    /// Operations under way.
    pending: usize,
    /// Results of the last operations, in order.
    read: BTreeMap<usize, Buf>,
    /// True if the store is new.
    made: bool,
}

impl Opening {
    pub fn begin(
        mkfs: Option<MkfsInfo>,
        config: &Config,
        rng: Rng,
        io: &mut Io,
        out: &mut Vec<StoreOut>,
    ) -> Self {
        io.flush(Purpose::Open(0), out);
        let (read, log_bytes) = (BTreeMap::new(), config.log_bytes);
        Self { mkfs, log_bytes, rng, phase: Phase::Flush, pending: 1, read, made: false }
    }

    /// An operation has ended.
    pub fn ended(&mut self, part: usize, result: Result<Buf, StoreError>) -> Result<(), StoreError> {
        let tolerant = matches!(&self.phase, Phase::Scan(scan) if scan.tolerates_errors());
        let bytes = result.or_else(|error| if tolerant { Ok(Buf::default()) } else { Err(error) })?;
        self.pending -= 1;
        self.read.insert(part, bytes);
        Ok(())
    }

    /// True while records of the log are being applied.
    pub fn is_replaying(&self) -> bool {
        matches!(self.phase, Phase::Replay(_))
    }

    /// True if operations are under way.
    pub fn is_waiting(&self) -> bool {
        self.pending > 0
    }

    /// One step of opening. Not to be called while records that it gave are not applied.
    pub fn step(
        &mut self,
        core: &mut Core,
        supers: &mut Supers,
        io: &mut Io,
        out: &mut Vec<StoreOut>,
    ) -> Result<Turn, Stop> {
        if self.is_waiting() {
            return Ok(Turn::Waiting);
        }
        let read: Vec<Buf> = std::mem::take(&mut self.read).into_values().collect();
        let mut port = Port { io, out, begun: 0 };
        let turn = self.advance(&read, core, supers, &mut port);
        self.pending = port.begun;
        turn
    }

    fn advance(
        &mut self,
        read: &[Buf],
        core: &mut Core,
        supers: &mut Supers,
        port: &mut Port<'_>,
    ) -> Result<Turn, Stop> {
        let next = match &mut self.phase {
            Phase::Flush => {
                COPIES.iter().for_each(|offset| port.read(*offset, BLOCK as u64));
                Some(Phase::Superblocks)
            }
            Phase::Superblocks => Some(self.find_super(read, core, supers, port.io.disk().size)?),
            Phase::Blank(blank) => {
                let [first, second] = COPIES;
                // The second copy first: if the first one is valid, the store is complete.
                let publish = || Phase::Publish(Publish { copies: [second, first], step: 0 });
                blank.step(read, supers.newest(), port).then(publish)
            }
            Phase::Publish(publish) => match publish.step(supers.newest(), port) {
                false => None,
                true => {
                    supers.replace(supers.newest().clone());
                    Some(Phase::Walk(Walk { todo: core.adopt(supers.newest())? }))
                }
            },
            Phase::Walk(walk) => walk.step(core, port)?.then(|| Phase::Space(Key::of([b"F"]))),
            Phase::Space(from) => match core.load_space(from)? {
                Some(next) => Some(Phase::Space(next)),
                None if supers.newest().clean || self.made => {
                    self.phase = Phase::Done;
                    return Ok(Turn::Open(Some(self.new_ring(supers.newest()))));
                }
                None => Some(Phase::Scan(Box::new(LogScan::new(supers.newest())))),
            },
            Phase::Scan(scan) => match scan.step(read, core, supers.newest(), port)? {
                None => None,
                Some(end) => {
                    self.phase = Phase::Replay(Box::new(Replay::new(supers.newest(), end)));
                    return Ok(Turn::Log(self.new_ring(supers.newest())));
                }
            },
            Phase::Replay(replay) => return replay.step(read, port),
            Phase::Done => unreachable!("opened already"),
        };
        if let Some(phase) = next {
            self.phase = phase;
        }
        Ok(Turn::Progress)
    }

    /// The ring of the log, whose records of this incarnation get a nonce of their own.
    fn new_ring(&mut self, sup: &Super) -> Ring {
        Ring::of(sup).marked(self.rng.u64())
    }

    /// Chooses the newest superblock, or makes one on a blank device.
    fn find_super(
        &mut self,
        read: &[Buf],
        core: &mut Core,
        supers: &mut Supers,
        size: u64,
    ) -> Result<Phase, Stop> {
        let found: Vec<Found> = read.iter().map(|block| Super::parse(block)).collect();
        let not = |what: String| Err(Stop::Error(StoreError::NotAStore(what)));
        let Some(newest) = found.iter().filter_map(Found::valid).max_by_key(|sup| sup.generation) else {
            if let Some(what) = found.iter().find_map(Found::other) {
                return not(what.to_owned());
            }
            let Some(info) = self.mkfs.take() else { return not("the device is blank".to_owned()) };
            return match Super::make(&info, size, self.log_bytes, &mut self.rng) {
                Err(what) => not(what),
                Ok(sup) => {
                    supers.replace(sup);
                    self.made = true;
                    Ok(Phase::Blank(Blank::default()))
                }
            };
        };
        if newest.blocks * BLOCK as u64 > size {
            return not(format!("the store has {} bytes, the device {size}", newest.blocks * BLOCK as u64));
        }
        let same = |found: &Found| found.valid().is_some_and(|sup| sup.generation == newest.generation);
        supers.adopt(newest.clone(), !found.iter().all(same));
        if newest.blocks < size / BLOCK as u64 {
            // Both copies say that the device has grown before anything may lie in the new space.
            supers.grow(size / BLOCK as u64);
            return Ok(Phase::Publish(Publish { copies: COPIES, step: 0 }));
        }
        Ok(Phase::Walk(Walk { todo: core.adopt(newest)? }))
    }
}

/// Zeroes the log of a new store, piece by piece, where it is not zero.
#[derive(Default)]
struct Blank {
    /// Bytes that are zero.
    done: u64,
}

impl Blank {
    /// True when all is zero.
    fn step(&mut self, read: &[Buf], sup: &Super, port: &mut Port<'_>) -> bool {
        let place = sup.log_offset() + self.done;
        let left = sup.log_bytes - self.done;
        if let Some(bytes) = read.first() {
            if bytes.iter().any(|b| *b != 0) {
                port.write(place, Buf::zeros(bytes.len()));
            }
            self.done += bytes.len() as u64;
        } else if left > 0 {
            port.read(place, LOG_PIECE.min(left));
        } else {
            return true;
        }
        false
    }
}

/// Writes both copies of a superblock, each followed by a flush.
struct Publish {
    /// Byte offsets, in order of writing.
    copies: [u64; 2],
    /// Even: write, odd: flush.
    step: usize,
}

impl Publish {
    /// True when both are durable.
    fn step(&mut self, sup: &Super, port: &mut Port<'_>) -> bool {
        match self.step {
            0 | 2 => port.write(self.copies[self.step / 2], sup.encode_block()),
            1 | 3 => port.flush(),
            _ => return true,
        }
        self.step += 1;
        false
    }
}

/// Walks the index above its leaves and marks all its pages as taken.
struct Walk {
    /// Pages yet to be looked at, with their levels.
    todo: Vec<(Ptr, u8)>,
}

impl Walk {
    /// True when all pages are marked.
    fn step(&mut self, core: &mut Core, port: &mut Port<'_>) -> Result<bool, Stop> {
        let Some((ptr, level)) = self.todo.last().copied() else { return Ok(true) };
        match core.mark_children(ptr, level) {
            Ok(children) => {
                self.todo.pop();
                if level > 1 {
                    self.todo.extend(children.into_iter().map(|child| (child, level - 1)));
                }
                Ok(false)
            }
            Err(stop) => {
                for (ptr, level) in self.todo.iter().rev().take(PAGES_AHEAD) {
                    if !core.has_page(*ptr) {
                        port.io.load(*ptr, *level, port.out)?;
                    }
                }
                Err(stop)
            }
        }
    }
}
