//! Sources of COPY_FROM. The primary of the copy asks the primary of the source as a client would, part by
//! part, and insists on the version of the first part.
//!
//! Everything read stays in memory until its request has been answered, so memory is reserved first: as many
//! objects are read at once as fit, and an object larger than all of it is read alone. Only the first part
//! tells the object's size; an object that turns out not to fit beside the others starts over when it does.
//! Objects waiting in line hold no memory.
//!
//! Questions are repeated with every new map and after a lost connection; answers to earlier questions are
//! ignored. The questions overtake requests queued for the source object, so that two copies in opposite
//! directions do not wait for each other (`pg/client/queues.rs`).

mod steps;

use crate::core::CopyFor;
use crate::ops::{Copied, CopySource};
use maps::OsdId;
use msgs::op::input::{self, OmapGetVals, OmapValuesReply, StatReply};
use msgs::{Extent, Op, OsdOpReply};
use std::collections::{BTreeMap, VecDeque};
use stdx::{Budget, Hold, Reservation};
use wire::Errno;

/// Data of one part.
const CHUNK: u64 = 4 << 20;
/// Memory for all objects that are copied at once.
const MEMORY: u64 = 16 << 20;
/// An object that changes this many times while it is read is not copied.
const RESTARTS: u32 = 20;

/// The copied object with its memory reservation, or an errno.
pub type CopyResult = Result<(Copied, Hold), Errno>;

#[derive(Debug)]
struct SourceRead {
    wanted: CopyFor,
    source: CopySource,
    /// The OSD that was asked.
    asked: Option<OsdId>,
    so_far: Copied,
    begun: bool,
    more_omap: bool,
    restarts: u32,
    /// Memory that it needs, as far as known.
    wants: u64,
    memory: Option<Reservation>,
}

impl SourceRead {
    /// Starts over and releases its memory.
    fn begin(&mut self) {
        (self.so_far, self.begun, self.more_omap, self.memory) = (Copied::default(), false, false, None);
    }
}

/// All objects that are to be read.
#[derive(Debug)]
pub struct CopyReads {
    /// Reads in progress, by the number of their question.
    asked: BTreeMap<u64, SourceRead>,
    /// Reads that wait for memory.
    waiting: VecDeque<SourceRead>,
    memory: Budget,
}

impl Default for CopyReads {
    fn default() -> Self {
        Self { asked: BTreeMap::new(), waiting: VecDeque::new(), memory: Budget::new(MEMORY) }
    }
}

impl CopyReads {
    /// Bytes that are held.
    #[cfg(test)]
    pub(crate) fn held(&self) -> u64 {
        self.memory.used()
    }
}

impl SourceRead {
    fn question(&self) -> Vec<Op> {
        let version = if self.begun { self.so_far.user_version } else { self.source.version };
        let mut ops = Vec::new();
        if version != 0 {
            ops.push(Op::AssertVer { ver: version });
        }
        if !self.begun {
            ops.extend([Op::Stat, Op::GetXattrs, Op::OmapGetHeader]);
        }
        ops.push(Op::Read(Extent::new(self.so_far.data.len() as u64, CHUNK)));
        if !self.begun || self.more_omap {
            let start_after = self.so_far.omap.last().map(|(key, _)| key.clone()).unwrap_or_default();
            let ask = OmapGetVals { start_after, max: u64::MAX, prefix: Vec::new() };
            ops.push(Op::OmapGetVals { data: input::write(&ask) });
        }
        ops
    }

    /// Takes the answers to [`Self::question`]; `None` if they do not fit it.
    fn take(&mut self, reply: &OsdOpReply) -> Option<()> {
        let question = self.question();
        if question.len() != reply.ops.len() {
            return None;
        }
        self.more_omap = false;
        for (op, result) in question.iter().zip(&reply.ops) {
            match op {
                Op::Stat => {
                    let (size, mtime): StatReply = input::read(&result.data).ok()?;
                    (self.so_far.size, self.so_far.mtime) = (size, mtime);
                }
                Op::GetXattrs => {
                    let attrs: BTreeMap<Vec<u8>, Vec<u8>> = input::read(&result.data).ok()?;
                    self.so_far.attrs = attrs.into_iter().collect();
                }
                Op::OmapGetHeader => self.so_far.omap_header = result.data.to_vec(),
                Op::Read(_) => {
                    let short = result.data.is_empty() && (self.so_far.data.len() as u64) < self.so_far.size;
                    // The part is counted here from now on, and not as a message, because messages wait for
                    // one another.
                    self.so_far.data.append(result.data.settled());
                    if short {
                        return None;
                    }
                }
                Op::OmapGetVals { .. } => {
                    let (values, more): OmapValuesReply = input::read(&result.data).ok()?;
                    self.more_omap = more && !values.is_empty();
                    self.so_far.omap.extend(values);
                }
                _ => {}
            }
        }
        self.begun = true;
        self.so_far.user_version = reply.user_version;
        Some(())
    }
}
