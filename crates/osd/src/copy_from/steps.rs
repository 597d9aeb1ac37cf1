//! The OSD's steps in reading sources of copies.

use super::{CHUNK, CopyResult, RESTARTS, SourceRead};
use crate::core::CopyFor;
use crate::object::key_of;
use crate::ops::Copied;
use crate::osd::Osd;
use crate::pg::request::ClientOp;
use maps::{OsdId, PgId, Spg};
use msgs::{OsdOp, OsdOpReply, osd_flag};
use stdx::Hold;
use wire::{EntityId, EntityType, Errno};

impl Osd {
    /// Starts to read the sources that requests asked for, and takes answers of our own PGs.
    pub(crate) fn copies_settle(&mut self) -> bool {
        let wanted = self.core.take_wanted_copies();
        let answers = self.core.take_own_answers();
        let busy = !wanted.is_empty() || !answers.is_empty();
        for (wanted, source) in wanted {
            let (so_far, begun, more_omap) = (Copied::default(), false, false);
            let (restarts, wants, memory) = (0, CHUNK, None);
            let copy =
                SourceRead { wanted, source, asked: None, so_far, begun, more_omap, restarts, wants, memory };
            self.copies.waiting.push_back(copy);
        }
        for (tid, reply) in answers {
            self.copy_answer(tid, &reply);
        }
        self.begin_copies() || busy
    }

    /// Starts the waiting reads for which there is memory, in order. Returns true if there was one.
    fn begin_copies(&mut self) -> bool {
        let mut any = false;
        while let Some(copy) = self.copies.waiting.front()
            && let Some(memory) = self.copies.memory.reserve(copy.wants)
            && let Some(mut copy) = self.copies.waiting.pop_front()
        {
            copy.memory = Some(memory);
            self.ask_copy(copy);
            any = true;
        }
        any
    }

    /// Repeats all questions after a new map: another OSD may have to be asked.
    pub(crate) fn ask_copies_again(&mut self) {
        for copy in std::mem::take(&mut self.copies.asked).into_values() {
            self.ask_copy(copy);
        }
    }

    /// Handles the loss of a connection to an OSD, and of the questions sent on it.
    pub(crate) fn copies_link_lost(&mut self, osd: OsdId) {
        let lost: Vec<u64> =
            self.copies.asked.iter().filter(|(_, c)| c.asked == Some(osd)).map(|(tid, _)| *tid).collect();
        for tid in lost {
            if let Some(copy) = self.copies.asked.remove(&tid) {
                self.ask_copy(copy);
            }
        }
    }

    fn copy_done(&mut self, wanted: CopyFor, result: CopyResult) {
        if let Some((pg, core)) = self.pg(wanted.pgid) {
            pg.on_copied(core, (wanted.op, wanted.attempt, wanted.at), result);
        }
    }

    /// Asks for the next part of a read that has its memory.
    fn ask_copy(&mut self, mut copy: SourceRead) {
        // Nobody waits for it any more.
        let waits = |pg: &crate::pg::Pg| pg.waits_for_copy(copy.wanted.op, copy.wanted.attempt);
        if !self.pgs.get(&copy.wanted.pgid).is_some_and(waits) {
            return;
        }
        let object = &copy.source.object;
        let map = self.core.map();
        let Some(pool) = map.pools.get(&object.pool) else {
            return self.copy_done(copy.wanted, Err(Errno::ENOENT));
        };
        let pgid = pool.raw_pg_to_pg(PgId::new(object.pool, object.hash));
        let primary = map.primary_shard(pgid);
        copy.asked = primary.map(|(_, osd)| osd);
        let pgid = primary.map_or(Spg::replicated(pgid), |(pgid, _)| pgid);
        if copy.asked.is_some() && copy.memory.is_none() {
            return self.copies.waiting.push_back(copy);
        }
        let request = OsdOp {
            pgid,
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
            Some(osd) if osd == self.core.id() => self.ask_ourselves(tid, pgid, request),
            Some(osd) => self.core.send_osd(osd, tid, msgs::Body::from(request)),
            // No OSD has it now. It starts over with a later map; meanwhile others get its memory.
            None => copy.begin(),
        }
        self.copies.asked.insert(tid, copy);
    }

    fn ask_ourselves(&mut self, tid: u64, pgid: Spg, request: OsdOp) {
        let object = maps::HObject {
            hash: request.hash,
            ..maps::HObject::head(pgid.pgid.pool, &request.locator.ns, &request.locator.key, &request.oid)
        };
        let us = EntityId::new(EntityType::OSD, self.core.id().0.into());
        let (addr, now) = (self.core.config().addrs.front(), self.core.now().mono);
        let id = self.core.next_op();
        if let Some(pg) = self.pgs.get_mut(&pgid).filter(|pg| pg.is_primary(&self.core)) {
            let op = ClientOp::ours(tid, (us, addr), Box::new(request), key_of(pgid.shard, &object), now);
            pg.on_client_op(&mut self.core, id, op);
        }
    }

    /// Handles the answer to a question.
    pub(crate) fn copy_answer(&mut self, tid: u64, reply: &OsdOpReply) {
        let Some(mut copy) = self.copies.asked.remove(&tid) else { return };
        if let Some(errno) = Errno::from_result_code(reply.result) {
            let changed = matches!(errno, Errno::ERANGE | Errno::EOVERFLOW) && copy.begun;
            if changed && copy.source.version == 0 && copy.restarts < RESTARTS {
                let (memory, restarts) = (copy.memory.take(), copy.restarts + 1);
                copy.begin();
                (copy.memory, copy.restarts) = (memory, restarts);
                return self.ask_copy(copy);
            }
            let errno = if changed && copy.source.version == 0 { Errno::EAGAIN } else { errno };
            return self.copy_done(copy.wanted, Err(errno));
        }
        if copy.take(reply).is_none() {
            return self.copy_done(copy.wanted, Err(Errno::EINVAL));
        }
        if !self.copy_fits(&mut copy) {
            copy.begin();
            return self.copies.waiting.push_back(copy);
        }
        if copy.more_omap || (copy.so_far.data.len() as u64) < copy.so_far.size {
            return self.ask_copy(copy);
        }
        let memory = copy.memory.map_or(Hold::NONE, Hold::from);
        self.copy_done(copy.wanted, Ok((copy.so_far, memory)));
    }

    /// True if the object's known size fits into memory beside the other reads.
    fn copy_fits(&self, copy: &mut SourceRead) -> bool {
        copy.wants = copy.wants.max(copy.so_far.bytes());
        let Some(memory) = &mut copy.memory else { return false };
        let (budget, has) = (&self.copies.memory, memory.bytes());
        let others = budget.used() - has;
        let fits = copy.wants <= has || others == 0 || others + copy.wants <= budget.limit();
        if fits {
            memory.resize(copy.wants.max(has));
        }
        fits
    }
}
