//! PGNLS: a PG's objects in the order of their reversed hashes, page by page (PROTOCOL.md 5.8).

use super::Pg;
use super::client::Stage;
use crate::core::{Core, ReadFor};
use crate::object::{hobject_of, key_of};
use maps::HObject;
use msgs::errno::{EINVAL, EOPNOTSUPP};
use msgs::op::input::{self, ListEntry, PgNlsReply};
use msgs::{Op, OsdOpReply};
use std::collections::BTreeSet;
use store::{ObjectKey, Read, ReadReply, StoreError};

/// The namespace that stands for all of them.
const ALL_NAMESPACES: &[u8] = b"\x01";
/// At most so many names in one page.
const PAGE: usize = 1024;
/// The operation's result at the end of the PG.
const END: i32 = 1;

impl Pg {
    /// Asks the store for the page that a request wants.
    pub fn start_list(&mut self, core: &mut Core, id: u64) {
        if !self.tail_sure {
            // Names may be on a single disk only; the request is looked at again when none is.
            return;
        }
        let Some(op) = self.ops.get_mut(&id) else { return };
        let read = match &op.request.ops[..] {
            [sub] => match &sub.op {
                Op::PgNls { max, data, .. } => {
                    input::read_cursor(data).map_err(|_| EINVAL).map(|c| (*max, c))
                }
                _ => Err(EOPNOTSUPP),
            },
            _ => Err(EOPNOTSUPP),
        };
        match read {
            Ok((max, cursor)) => {
                let from = cursor.map_or(self.range.0.clone(), |c| page_start(&c));
                let from = from.clamp(self.range.0.clone(), self.range.1.clone());
                op.stage = Stage::Loading;
                // The page's bounds are kept as the request's key, which listings have no other use for.
                op.key = from.clone();
                let max = usize::try_from(max).unwrap_or(PAGE).clamp(1, PAGE) + 1;
                let read = Read::List { from, to: self.range.1.clone(), max };
                core.io.read(core.now, read, ReadFor::List(self.id, id, op.attempt));
            }
            Err(errno) => {
                let reply = OsdOpReply::to(&op.request, -errno, core.epoch());
                self.answer(core, id, reply);
            }
        }
    }

    /// The page has come.
    pub fn on_list_read(
        &mut self,
        core: &mut Core,
        (id, attempt): (u64, u32),
        result: Result<ReadReply, StoreError>,
    ) {
        let (lease, end_handle) = (self.has_lease(core), self.end_handle());
        let Some(op) = self.ops.get_mut(&id).filter(|op| op.attempt == attempt && op.stage == Stage::Loading)
        else {
            return;
        };
        if !lease {
            op.stage = Stage::NeedsLease;
            return;
        }
        let (Ok(ReadReply::List(keys)), Op::PgNls { max, .. }) = (result, &op.request.ops[0].op) else {
            let reply = OsdOpReply::to(&op.request, -EINVAL, core.epoch());
            return self.answer(core, id, reply);
        };
        let max = usize::try_from(*max).unwrap_or(PAGE).clamp(1, PAGE);
        let bound = if keys.len() > max { keys[max].clone() } else { self.range.1.clone() };
        // Objects that are not here yet are objects of the PG all the same.
        let missing = self.missing.range(op.key.clone()..bound.clone()).map(|(k, _)| k.clone());
        let all: BTreeSet<ObjectKey> = keys.into_iter().filter(|k| *k < bound).chain(missing).collect();
        let next = all.iter().nth(max).cloned();
        let wanted = &op.request.locator.ns;
        let shown = all.iter().take(max).filter(|k| k.snap == ObjectKey::HEAD);
        let shown = shown.filter(|k| wanted == ALL_NAMESPACES || *wanted == k.namespace);
        let entries = shown.map(|k| ListEntry {
            namespace: k.namespace.clone(),
            oid: k.name.clone(),
            locator: k.locator.clone(),
        });
        let entries: Vec<ListEntry> = entries.collect();
        let next = next.unwrap_or(bound);
        let end = next >= self.range.1;
        let handle = if end { end_handle } else { hobject_of(&next) };
        let mut reply = OsdOpReply::to(&op.request, if end { END } else { 0 }, core.epoch());
        reply.ops[0].rval = reply.result;
        reply.ops[0].data = input::write(&PgNlsReply { handle, entries });
        reply.set_version(self.info.last_update, self.info.last_user_version);
        self.answer_when_durable(core, id, self.info.last_update, Box::new(reply));
    }

    /// Where the next PG of the order begins; behind the last one, the marker behind all objects.
    fn end_handle(&self) -> HObject {
        if self.range.1.shard != self.range.0.shard {
            return HObject::max();
        }
        HObject { hash: self.range.1.hash, pool: self.id.pool, ..HObject::default() }
    }
}

/// The first key at or behind a cursor; the marker behind all objects is behind all keys.
fn page_start(cursor: &HObject) -> ObjectKey {
    if cursor.max {
        ObjectKey::first_at(i64::MAX, -1, 0)
    } else {
        ObjectKey { generation: 0, ..key_of(cursor) }
    }
}
