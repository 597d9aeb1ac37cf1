//! Loads the parts of stored objects that a request needs before its execution.

use crate::completion::ReadFor;
use crate::copy_from::CopyResult;
use crate::core::Core;
use crate::ops::{Loaded, Loads};
use crate::pg::Pg;
use crate::pg::request::{ClientOp, Stage};
use crate::pg::snaps::shown_at;
use node::Level;
use store::{ReadReply, StoreError};

impl Pg {
    /// Loads what the request needs. For a request about a snapshot that is the head first, which tells what
    /// shows the snapshot.
    pub(in crate::pg) fn load(&mut self, core: &mut Core, mut op: ClientOp) {
        op.target = op.key.clone();
        op.resolving = op.at_snapshot();
        op.loaded = Loaded::default();
        let loads = match op.resolving {
            true => Loads::of_head(&op.key),
            false => Loads::of(&op.request, &op.key, &core.options().limits),
        };
        self.load_more(core, op, loads);
    }

    /// Asks the stores that have it, and puts the request back until all answers are here.
    pub(super) fn load_more(&mut self, core: &mut Core, mut op: ClientOp, loads: Loads) {
        op.enter(Stage::Loading, core.now().mono);
        op.reads_left = 0;
        let us = self.us(core);
        let (pgid, id, attempt) = (self.id, op.id, op.attempt);
        for (index, (_, read)) in loads.reads.iter().enumerate() {
            for (member, read) in self.backend.read(us, read.clone()) {
                // No message asks another member for a read yet.
                assert_eq!(member, us, "pg {pgid}: a read at osd.{member}");
                op.reads_left += 1;
                core.read(read, ReadFor::Op { pgid, id, attempt, index });
            }
        }
        op.loads = Some(loads);
        self.requests.put(op);
    }

    /// Continues a request about a snapshot after its head was loaded, with the object that shows the
    /// snapshot.
    fn resolve(&mut self, core: &mut Core, mut op: ClientOp) {
        op.resolving = false;
        let head = std::mem::take(&mut op.loaded);
        let target = head.stored.then(|| shown_at(&op.request, &op.key, &head.info.snapset)).flatten();
        let Some(target) = target.filter(|_| !op.damaged) else { return self.finish(core, op) };
        op.target = target.clone();
        if op.balanced.is_some() && self.local.lacks(&target) {
            return self.send_to_primary(core, op);
        }
        let Some(mut op) = self.unless_lacking(core, op, &target, false) else { return };
        let loads = Loads::of(&op.request, &target, &core.options().limits);
        // A later answer must not be taken for one of the head's.
        op.attempt += 1;
        self.load_more(core, op, loads);
    }

    /// True if a request waits for an object that it is to copy.
    pub fn waits_for_copy(&self, id: u64, attempt: u32) -> bool {
        self.requests.is_loading(id, attempt)
    }

    /// An object that a request is to copy has been read.
    pub fn on_copied(&mut self, core: &mut Core, (id, attempt, at): (u64, u32, usize), result: CopyResult) {
        let Some(mut op) = self.requests.take_loading(id, attempt) else { return };
        let copied = result.map(|(copied, memory)| {
            // It ends with the request, as that of an answer.
            op.hold = memory;
            copied
        });
        op.loaded.copies.insert(at, copied);
        self.finish(core, op);
    }

    /// The store has answered one read of a request.
    pub fn on_op_read(
        &mut self,
        core: &mut Core,
        (id, attempt, i): (u64, u32, usize),
        result: Result<ReadReply, StoreError>,
    ) {
        let Some(mut op) = self.requests.take_loading(id, attempt) else { return };
        match (result, &op.loads) {
            (Ok(reply), Some(loads)) => op.damaged |= !loads.take(i, reply, &mut op.loaded),
            (Err(error), _) => {
                op.damaged = true;
                let text = format!("pg {} {:?}: {error}", self.id, op.key);
                core.event(Level::Error, "object_unreadable", text);
            }
            (Ok(_), None) => unreachable!("request {id} loads nothing"),
        }
        op.reads_left -= 1;
        match (op.reads_left, op.resolving) {
            (0, true) => self.resolve(core, op),
            (0, false) => self.finish(core, op),
            _ => self.requests.put(op),
        }
    }
}
