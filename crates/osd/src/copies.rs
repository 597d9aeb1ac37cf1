//! Objects that are read from wherever they are to be copied (COPY_FROM): the primary of the copy asks the primary of the source as a
//! client would, part by part, and holds it to the version that the first part had.
//!
//! What was asked is asked again with every new map and after a lost connection; answers to an earlier question are not known
//! any more. The questions overtake what waits for the source object, so that two copies in opposite directions do not wait
//! for each other (`pg/client.rs`).

use crate::object::key_of;
use crate::ops::{Copied, CopySource};
use crate::osd::Osd;
use crate::pg::request::ClientOp;
use maps::{OsdId, PgId, Spg};
use msgs::errno::{EAGAIN, EINVAL, ENOENT, EOVERFLOW, ERANGE};
use msgs::op::input::{self, OmapGetVals, OmapValuesReply, StatReply};
use msgs::{Extent, Op, OsdOp, OsdOpReply, osd_flag};
use std::collections::BTreeMap;
use wire::{EntityId, EntityType};

/// Data of one part.
const CHUNK: u64 = 8 << 20;
/// An object that is changed so often while it is read is not copied.
const RESTARTS: u32 = 20;

/// A request that waits for a source: its PG, its number and attempt, and the operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CopyFor {
    /// Of the copy.
    pub pgid: PgId,
    /// Of the request.
    pub op: u64,
    /// Of the request.
    pub attempt: u32,
    /// In its vector.
    pub at: usize,
}

/// What became of it.
pub type CopyResult = Result<Copied, i32>;

#[derive(Debug)]
struct Copy {
    wanted: CopyFor,
    source: CopySource,
    /// Who was asked.
    asked: Option<OsdId>,
    so_far: Copied,
    begun: bool,
    more_omap: bool,
    restarts: u32,
}

/// All objects that are being read, by the number of the question.
#[derive(Debug, Default)]
pub struct Copies(BTreeMap<u64, Copy>);

impl Osd {
    /// Begins to read what requests want to copy, and takes answers of PGs of our own.
    pub(crate) fn copies_settle(&mut self) -> bool {
        let wanted = std::mem::take(&mut self.core.copies_wanted);
        let answers = std::mem::take(&mut self.core.local_answers);
        let busy = !wanted.is_empty() || !answers.is_empty();
        for (wanted, source) in wanted {
            let (so_far, begun, more_omap) = (Copied::default(), false, false);
            self.ask_copy(Copy { wanted, source, asked: None, so_far, begun, more_omap, restarts: 0 });
        }
        for (tid, reply) in answers {
            self.copy_answer(tid, &reply);
        }
        busy
    }

    /// A new map: whoever was asked may not be the one to ask any more.
    pub(crate) fn ask_copies_again(&mut self) {
        for copy in std::mem::take(&mut self.copies.0).into_values() {
            self.ask_copy(copy);
        }
    }

    /// A connection to an OSD is gone, and what was asked on it.
    pub(crate) fn copies_link_lost(&mut self, osd: OsdId) {
        let lost: Vec<u64> =
            self.copies.0.iter().filter(|(_, c)| c.asked == Some(osd)).map(|(tid, _)| *tid).collect();
        for tid in lost {
            if let Some(copy) = self.copies.0.remove(&tid) {
                self.ask_copy(copy);
            }
        }
    }

    fn copy_done(&mut self, wanted: CopyFor, result: CopyResult) {
        if let Some((pg, core)) = self.pg(wanted.pgid) {
            pg.on_copied(core, (wanted.op, wanted.attempt, wanted.at), result);
        }
    }

    fn ask_copy(&mut self, mut copy: Copy) {
        // Nobody waits for it any more.
        let waits = |pg: &crate::pg::Pg| pg.waits_for_copy(copy.wanted.op, copy.wanted.attempt);
        if !self.pgs.get(&copy.wanted.pgid).is_some_and(waits) {
            return;
        }
        let object = &copy.source.object;
        let map = &self.core.map;
        let Some(pool) = map.pools.get(&object.pool) else {
            return self.copy_done(copy.wanted, Err(ENOENT));
        };
        let pgid = pool.raw_pg_to_pg(PgId::new(object.pool, object.hash));
        copy.asked = map.pg_up_acting(pgid).acting_primary;
        let request = OsdOp {
            pgid: Spg::replicated(pgid),
            hash: object.hash,
            epoch: self.core.epoch(),
            flags: osd_flag::READ | osd_flag::ONDISK | osd_flag::KNOWN_REDIR,
            locator: maps::ObjectLocator {
                pool: object.pool,
                key: object.key.clone(),
                ns: object.ns.clone(),
                hash: -1,
            },
            oid: object.name.clone(),
            ops: copy.question().into_iter().map(Into::into).collect(),
            snapid: object.snap,
            ..OsdOp::default()
        };
        let tid = self.core.next_round();
        match copy.asked {
            Some(osd) if osd == self.core.config.id => self.ask_ourselves(tid, pgid, request),
            Some(osd) => self.core.send_osd(osd, tid, msgs::Body::from(request)),
            None => {}
        }
        self.copies.0.insert(tid, copy);
    }

    fn ask_ourselves(&mut self, tid: u64, pgid: PgId, request: OsdOp) {
        let object = maps::HObject {
            hash: request.hash,
            ..maps::HObject::head(pgid.pool, &request.locator.ns, &request.locator.key, &request.oid)
        };
        let us = EntityId::new(EntityType::OSD, self.core.config.id.0.into());
        let (addr, now) = (self.core.config.addrs.front(), self.core.now.mono);
        let id = self.core.next_op();
        if let Some(pg) = self.pgs.get_mut(&pgid).filter(|pg| pg.is_primary(&self.core)) {
            let op = ClientOp::ours(tid, (us, addr), Box::new(request), key_of(&object), now);
            pg.on_client_op(&mut self.core, id, op);
        }
    }

    /// A part has come.
    pub(crate) fn copy_answer(&mut self, tid: u64, reply: &OsdOpReply) {
        let Some(mut copy) = self.copies.0.remove(&tid) else { return };
        if reply.result < 0 {
            let changed = matches!(-reply.result, ERANGE | EOVERFLOW) && copy.begun;
            if changed && copy.source.version == 0 && copy.restarts < RESTARTS {
                (copy.so_far, copy.begun, copy.restarts) = (Copied::default(), false, copy.restarts + 1);
                return self.ask_copy(copy);
            }
            let errno = if changed && copy.source.version == 0 { EAGAIN } else { -reply.result };
            return self.copy_done(copy.wanted, Err(errno));
        }
        if copy.take(reply).is_none() {
            return self.copy_done(copy.wanted, Err(EINVAL));
        }
        if copy.more_omap || (copy.so_far.data.len() as u64) < copy.so_far.size {
            return self.ask_copy(copy);
        }
        self.copy_done(copy.wanted, Ok(copy.so_far));
    }
}

impl Copy {
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
                    self.so_far.data.append(result.data.clone());
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
