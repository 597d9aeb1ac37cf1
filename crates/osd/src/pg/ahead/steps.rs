//! Parts of an update: the primary sends them, a member keeps them until the update comes.

use super::{AHEAD_FEATURE_LEVEL, Ahead, MIN_AHEAD_BYTES, Sent, in_parts};
use crate::completion::CommitFor;
use crate::core::Core;
use crate::pack::pack_with_ahead;
use crate::pg::Pg;
use crate::pg::member::Member;
use crate::pg::meta::ahead_key;
use crate::pg::state::State;
use maps::EVersion;
use node::Level;
use stdx::BLOCK;
use store::{Refusal, Transaction, TxnOp};

impl Pg {
    /// The messages for members that accept pre-shipped data; `None` if all of it travels with the update.
    pub(in crate::pg) fn in_parts(
        &self,
        core: &Core,
        version: EVersion,
        txn: &Transaction,
        log: usize,
    ) -> Option<Sent> {
        let options = &core.options();
        let (object, least) = (
            ahead_key(self.id, self.round.number(), version),
            MIN_AHEAD_BYTES.min(options.update_part as usize),
        );
        let (txn, ahead) = in_parts(txn, &object, options.update_whole, least)?;
        // It has more steps than the whole one, which may only just fit into a store's log.
        let too_large = self.would_refuse(core, &txn, log) == Some(Refusal::TooLarge);
        (!too_large).then(|| Sent { with: pack_with_ahead(&txn, ahead.len() as u64), ahead })
    }

    /// True if a member has said in this round that it accepts pre-shipped data.
    pub(in crate::pg) fn takes_parts(&self, member: Member) -> bool {
        self.round.copy(member).is_some_and(|copy| copy.feature_level() >= AHEAD_FEATURE_LEVEL)
    }

    /// Sends what goes before an update.
    pub(in crate::pg) fn send_ahead(&self, core: &mut Core, member: Member, version: EVersion, sent: &Sent) {
        let step = (core.options().update_part as usize / BLOCK * BLOCK).max(BLOCK);
        for from in (0..sent.ahead.len()).step_by(step) {
            let body = peer::RepData {
                head: self.head(core, member.shard),
                version,
                offset: from as u64,
                data: sent.ahead.slice(from..sent.ahead.len().min(from + step)),
            };
            core.send_osd(member.osd, self.round.number(), peer::Body::from(body));
        }
    }

    /// A part from the primary, of the update that is to come next.
    pub fn on_rep_data(&mut self, core: &mut Core, tid: u64, msg: &peer::RepData) {
        let follows = msg.version.version == self.local.info().last_update.version + 1;
        let current = self.is_current(msg.head.interval) && tid == self.round.activation();
        if !current || !follows || self.state != State::ReplicaActive {
            return;
        }
        let mut ops = Vec::new();
        if msg.offset == 0 {
            self.drop_ahead(core);
            let object = ahead_key(self.id, tid, msg.version);
            ops.push(TxnOp::Remove(object.clone()));
            self.ahead = Some(Ahead { version: msg.version, object, bytes: 0, no_room: false });
        }
        let Some(ahead) = self.ahead.as_ref().filter(|a| a.version == msg.version && a.bytes == msg.offset)
        else {
            return;
        };
        let (object, mut no_room) = (ahead.object.clone(), ahead.no_room);
        if !no_room && (msg.offset == 0 || !stdx::mutants::is_active("osd_loses_parts")) {
            ops.push(TxnOp::Write(object.clone(), msg.offset, msg.data.clone()));
            let mut txn = Transaction { ops };
            if let Some(refusal) = self.would_refuse(core, &txn, 0) {
                no_room = true;
                txn.ops = vec![TxnOp::Remove(object)];
                let text = format!("pg {} {}: {refusal:?}", self.id, msg.version);
                core.event(Level::Info, "part_without_room", text);
            }
            core.submit_own(txn, CommitFor::Nothing);
        }
        if let Some(ahead) = &mut self.ahead {
            (ahead.bytes, ahead.no_room) = (ahead.bytes + msg.data.len() as u64, no_room);
        }
    }

    /// Takes over the parts received for an update that needs `bytes` bytes: the step that removes their
    /// object, if there is one, and whether there was space. `None` if parts are lacking.
    pub(in crate::pg) fn take_ahead(
        &mut self,
        version: EVersion,
        bytes: u64,
    ) -> Option<(Option<TxnOp>, bool)> {
        if bytes == 0 {
            return Some((self.ahead.take().map(|ahead| TxnOp::Remove(ahead.object)), true));
        }
        let ahead = self.ahead.take_if(|a| a.version == version && a.bytes == bytes)?;
        Some((Some(TxnOp::Remove(ahead.object)), !ahead.no_room))
    }

    /// True if some parts of this update are here.
    pub(in crate::pg) fn has_begun_ahead(&self, version: EVersion) -> bool {
        self.ahead.as_ref().is_some_and(|ahead| ahead.version == version)
    }

    /// The update of what has come will not come.
    pub fn drop_ahead(&mut self, core: &mut Core) {
        if let Some(ahead) = self.ahead.take() {
            let ops = vec![TxnOp::Remove(ahead.object)];
            core.submit_own(Transaction { ops }, CommitFor::Nothing);
        }
    }
}
