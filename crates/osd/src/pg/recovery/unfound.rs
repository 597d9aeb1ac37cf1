//! Objects whose newest version nobody has who answers, and what a person may decide of them once everybody
//! who may have it has answered or was declared lost: that they go back to what the primary has of them, or
//! that they are gone.

use super::reverting::Reverting;
use crate::completion::{CommitFor, ReadFor};
use crate::core::Core;
use crate::object::{INFO_ATTR, ObjectInfo, object_info};
use crate::pg::Pg;
use crate::pg::log::{Answer, Entry, entry_kind};
use crate::pg::member::Member;
use crate::pg::meta::MetaChange;
use crate::pg::state::State;
use maps::{EVersion, OsdId, OsdMap, ReqId};
use node::Level;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use store::{ObjectKey, Read, ReadReply, StoreError, TxnOp};
use wire::Errno;

/// From which level on OSDs know entries that undo others. One below it would answer a repeated request as if
/// it had been carried out.
const UNDO_FEATURE_LEVEL: u32 = peer::level::UNDO;

/// Reason for a refusal: an errno and a text.
type Refusal = (Errno, String);

/// True if an OSD's data of an interval that began with `first` is given up.
pub fn is_given_up(map: &OsdMap, osd: OsdId, first: maps::Epoch) -> bool {
    map.osd(osd).is_none_or(|o| !o.exists() || !o.is_up() && o.info.lost_at > first)
}

impl Pg {
    /// Objects that nobody has at the version needed.
    fn unfound(&self) -> impl Iterator<Item = (&ObjectKey, &EVersion)> {
        self.local.missing().iter().filter(|(key, _)| self.recovery.unfound.contains(*key))
    }

    /// OSDs that may have objects which nobody else has: they are down, or have not answered yet.
    fn unheard(&self, core: &Core) -> BTreeMap<OsdId, &'static str> {
        let us = self.us(core);
        let past = self.members.past().iter().filter(|i| i.maybe_rw);
        let members = past.flat_map(|i| i.acting.members().map(|member| (member, i.first)));
        let unheard = members.filter(|(member, first)| {
            *member != us && !self.round.knows(*member) && !is_given_up(core.map(), member.osd, *first)
        });
        unheard
            .map(|(Member { osd, .. }, _)| {
                (osd, if core.map().is_up(osd) { "not queried" } else { "osd is down" })
            })
            .collect()
    }

    /// The answer to `ceph pg PGID list_unfound`.
    pub fn list_unfound(&self, core: &Core) -> Value {
        let object = |(key, need): (&ObjectKey, &EVersion)| {
            json!({
                "oid": {
                    "oid": String::from_utf8_lossy(&key.name),
                    "key": String::from_utf8_lossy(&key.locator),
                    "snapid": key.snap as i64,
                    "hash": key.hash,
                    "max": 0,
                    "pool": key.pool,
                    "namespace": String::from_utf8_lossy(&key.namespace),
                },
                "need": need.to_string(),
                "have": EVersion::default().to_string(),
                "flags": "none",
                "locations": [],
            })
        };
        let unheard = self.unheard(core);
        let might: Vec<Value> =
            unheard.iter().map(|(osd, why)| json!({ "osd": osd.0.to_string(), "status": why })).collect();
        json!({
            "num_missing": self.local.missing().len(),
            "num_unfound": self.unfound().count(),
            "objects": self.unfound().map(object).collect::<Vec<_>>(),
            "state": self.state.to_string(),
            "available_might_have_unfound": true,
            "might_have_unfound": might,
            "more": false,
        })
    }

    /// A person gives up what nobody has: the objects go back to the version that is here, or are deleted.
    /// Says how many.
    pub fn mark_unfound_lost(&mut self, core: &mut Core, delete: bool) -> Result<String, Refusal> {
        if !self.is_primary(core) || self.state != State::Active || self.members.is_premerge() {
            return Err((
                Errno::EAGAIN,
                format!("pg {} is not active with this OSD as its primary", self.id),
            ));
        }
        let keys: Vec<ObjectKey> = self.unfound().map(|(key, _)| key.clone()).collect();
        if keys.is_empty() {
            return Ok("pg has no unfound objects".into());
        }
        let unheard = self.unheard(core);
        if !unheard.is_empty() {
            let who: Vec<String> = unheard.iter().map(|(osd, why)| format!("osd.{osd} ({why})")).collect();
            let text = format!(
                "pg has {} unfound objects but we haven't probed all sources, not marking lost: {}",
                keys.len(),
                who.join(", ")
            );
            return Err((Errno::EINVAL, text));
        }
        if let Some(clone) = keys.iter().find(|key| key.snap != ObjectKey::HEAD) {
            let name = String::from_utf8_lossy(&clone.name).into_owned();
            return Err((
                Errno::EINVAL,
                format!("snapshot {:x} of {name} is unfound: remove that snapshot", clone.snap),
            ));
        }
        let said = format!("pg has {} objects unfound and apparently lost marking", keys.len());
        self.recovery.reverting = Reverting::default();
        if delete {
            self.recovery.reverting.found = keys.into_iter().map(|key| (key, None)).collect();
            self.give_up_unfound(core);
            return Ok(said);
        }
        self.recovery.reverting.awaited = keys.len();
        for key in keys {
            let read = Read::attrs_of(&key);
            let then = ReadFor::Reverted { pgid: self.id, round: self.round.number(), key: Box::new(key) };
            core.read(read, then);
        }
        Ok(said)
    }

    /// Undoes refused updates of an object that nobody has. Nobody was told of them either, so the object
    /// reverts to its state here by itself, and clients ask again. Not possible if clones of it came or went,
    /// or an OSD of an older version takes part.
    pub(in crate::pg) fn undo_refused(&mut self, core: &mut Core, key: &ObjectKey) {
        let Some(first) = self.local.refused_since(key) else { return };
        let older =
            self.round.copies().any(|(_, copy)| copy.exists() && copy.feature_level() < UNDO_FEATURE_LEVEL);
        let of_clones = self.local.log().from(first).any(|e| e.object == *key && !e.clones.is_empty());
        let not_now = !self.state.is_active() || self.members.is_premerge();
        if key.snap != ObjectKey::HEAD || of_clones || older || not_now {
            return;
        }
        self.recovery.reverting.undoes.insert(key.clone(), first);
        self.recovery.reverting.awaited += 1;
        let read = Read::attrs_of(key);
        let then =
            ReadFor::Reverted { pgid: self.id, round: self.round.number(), key: Box::new(key.clone()) };
        core.read(read, then);
    }

    /// Takes the local state of an object that is to be reverted.
    pub fn on_revert_read(
        &mut self,
        core: &mut Core,
        round: u64,
        key: ObjectKey,
        result: Result<ReadReply, StoreError>,
    ) {
        if round != self.round.number() || self.recovery.reverting.awaited == 0 {
            return;
        }
        let view = match result {
            Ok(ReadReply::Object(view)) => view,
            other => {
                let why = other.err().map_or_else(String::new, |error| error.to_string());
                core.event(Level::Error, "object_not_given_up", format!("pg {} {key:?}: {why}", self.id));
                self.recovery.reverting = Reverting::default();
                return;
            }
        };
        let reverting = &mut self.recovery.reverting;
        reverting.awaited -= 1;
        reverting.found.insert(key, view.as_ref().and_then(object_info));
        if reverting.awaited == 0 {
            self.give_up_unfound(core);
        }
    }

    /// Logs the decision as updates of our own. A new round of peering brings them to the others, who find
    /// these objects missing at their new versions, and so takes them from here.
    fn give_up_unfound(&mut self, core: &mut Core) {
        let Reverting { found, undoes, .. } = std::mem::take(&mut self.recovery.reverting);
        let (mut entries, mut ops) = (Vec::new(), Vec::new());
        let mut version = self.next_version(core);
        for (key, info) in found {
            let Some(need) = self.local.missing().get(&key).copied() else { continue };
            let kind = if info.is_some() { entry_kind::MODIFY } else { entry_kind::DELETE };
            let user_version = info.as_ref().map_or(0, |info| info.user_version);
            let what = if info.is_some() { "goes back to what is here" } else { "is deleted" };
            let undoes = undoes.get(&key).copied().unwrap_or_default();
            // Nobody was told of what is undone; what a person gives up may have been acknowledged.
            let (level, name) = match undoes == EVersion::default() {
                true => (Level::Warn, "object_given_up"),
                false => (Level::Info, "update_without_room_undone"),
            };
            core.event(level, name, format!("pg {} {key:?}@{need} {what}", self.id));
            match info {
                Some(info) => {
                    let info = ObjectInfo { version, ..info };
                    ops.push(TxnOp::SetAttr(key.clone(), INFO_ATTR.to_vec(), info.to_bytes()));
                }
                None => ops.push(TxnOp::Remove(key.clone())),
            }
            entries.push(Entry {
                version,
                prior: need,
                kind,
                object: key,
                reqid: ReqId::default(),
                answer: Answer { user_version, ..Answer::default() },
                mtime: core.now().wall.into(),
                clones: Vec::new(),
                undoes,
            });
            version.version += 1;
        }
        let mut change = MetaChange::default();
        self.local.revert(entries, self.state, &mut change);
        self.submit(core, ops, change, CommitFor::Nothing);
        self.restart(core);
    }
}
