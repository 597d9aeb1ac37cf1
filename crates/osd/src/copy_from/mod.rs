//! Objects that are read from wherever they are to be copied (COPY_FROM): the primary of the copy asks the
//! primary of the source as a client would, part by part, and holds it to the version that the first part
//! had.
//!
//! All that is read stays in memory until its request has been answered, so that is reserved before: as many
//! are read at once as there is memory for, and one that is larger than that is read alone. Only the first
//! part tells how large an object is; one that turns out not to fit beside the others begins anew when it
//! does. What is waited for in line holds nothing.
//!
//! What was asked is asked again with every new map and after a lost connection; answers to an earlier
//! question are not known any more. The questions overtake what waits for the source object, so that two
//! copies in opposite directions do not wait for each other (`pg/client/queues.rs`).

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
/// For all objects that are copied at once.
const MEMORY: u64 = 16 << 20;
/// An object that is changed so often while it is read is not copied.
const RESTARTS: u32 = 20;

/// What became of it, and what its memory is counted by.
pub type CopyResult = Result<(Copied, Hold), Errno>;

#[derive(Debug)]
struct SourceRead {
    wanted: CopyFor,
    source: CopySource,
    /// Who was asked.
    asked: Option<OsdId>,
    so_far: Copied,
    begun: bool,
    more_omap: bool,
    restarts: u32,
    /// How much memory it needs, as far as that is known.
    wants: u64,
    memory: Option<Reservation>,
}

impl SourceRead {
    /// It begins anew, and holds nothing.
    fn begin(&mut self) {
        (self.so_far, self.begun, self.more_omap, self.memory) = (Copied::default(), false, false, None);
    }
}

/// All objects that are to be read.
#[derive(Debug)]
pub struct CopyReads {
    /// What was asked, by the number of the question.
    asked: BTreeMap<u64, SourceRead>,
    /// What waits for memory.
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

    /// Takes the answers to [`Self::question`]; `None` where they are not that.
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
                    // It is counted here from now on, not as a message: those wait for one another.
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
