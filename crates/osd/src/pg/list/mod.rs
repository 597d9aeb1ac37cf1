//! PGNLS: a PG's objects in the order of their reversed hashes, page by page (docs/protocol.md 5.8).

pub mod page;

use crate::completion::ReadFor;
use crate::core::Core;
use crate::object::{INFO_ATTR, ObjectInfo, hobject_of, key_of};
use crate::ops::Loads;
use crate::pg::Pg;
use crate::pg::request::{ClientOp, Stage};
use maps::{HObject, OsdMap, PgId, Pool};
use msgs::op::input::{self, ListEntry, PgNlsReply};
use msgs::{Op, OsdOpReply};
use page::Page;
use std::collections::BTreeSet;
use store::{ObjectKey, Read, ReadReply, StoreError};
use wire::Errno;

/// The namespace that stands for all of them.
const ALL_NAMESPACES: &[u8] = b"\x01";
/// Maximum number of names in one page.
const PAGE: usize = 1024;
/// The operation's result at the end of the PG.
const END: i32 = 1;

impl Pg {
    /// Asks the store for the page that a request wants.
    pub fn start_list(&mut self, core: &mut Core, mut op: ClientOp) {
        if !self.replication.is_tail_sure() {
            // Names may be on a single disk only; the request is looked at again when none is.
            return self.requests.put(op);
        }
        if let Some(reply) = self.scrub_ls(core, &op) {
            return self.answer(core, op, reply);
        }
        let read = match &op.request.ops[..] {
            [sub] => match &sub.op {
                Op::PgNls { max, data, .. } => {
                    input::read_cursor(data).map_err(|_| Errno::EINVAL).map(|c| (*max, c))
                }
                _ => Err(Errno::EOPNOTSUPP),
            },
            _ => Err(Errno::EOPNOTSUPP),
        };
        match read {
            Ok((_, Some(cursor))) if is_elsewhere(self.id.pgid, core.map(), &cursor) => {
                let mut reply = OsdOpReply::to(&op.request, END, core.epoch());
                reply.ops[0].rval = END;
                reply.ops[0].data = input::write(&PgNlsReply { handle: cursor, entries: Vec::new() });
                self.answer(core, op, reply);
            }
            Ok((max, cursor)) => {
                let from = cursor.map_or(self.local.range().0.clone(), |c| page_start(self.id.shard, &c));
                let from = from.clamp(self.local.range().0.clone(), self.local.range().1.clone());
                op.enter(Stage::Loading, core.now().mono);
                // The page's bounds are kept as the request's key, which listings have no other use for.
                op.key = from.clone();
                let max = usize::try_from(max).unwrap_or(PAGE).clamp(1, PAGE) + 1;
                let read = Read::List { from, to: self.local.range().1.clone(), max };
                core.read(read, ReadFor::List { pgid: self.id, id: op.id, attempt: op.attempt });
                self.requests.put(op);
            }
            Err(errno) => {
                let reply = OsdOpReply::to(&op.request, errno.to_result_code(), core.epoch());
                self.answer(core, op, reply);
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
        let Some(mut op) = self.requests.take_loading(id, attempt) else { return };
        if !self.has_lease(core) {
            op.enter(Stage::NeedsLease, core.now().mono);
            return self.requests.put(op);
        }
        let (Ok(ReadReply::List(keys)), Op::PgNls { max, .. }) = (result, &op.request.ops[0].op) else {
            let reply = OsdOpReply::to(&op.request, Errno::EINVAL.to_result_code(), core.epoch());
            return self.answer(core, op, reply);
        };
        let max = usize::try_from(*max).unwrap_or(PAGE).clamp(1, PAGE);
        let bound = if keys.len() > max { keys[max].clone() } else { self.local.range().1.clone() };
        // Objects that are not here yet are objects of the PG all the same.
        let missing = self.local.missing().range(op.key.clone()..bound.clone()).map(|(k, _)| k.clone());
        let all: BTreeSet<ObjectKey> = keys.into_iter().filter(|k| *k < bound).chain(missing).collect();
        let next = all.iter().nth(max).cloned().unwrap_or(bound);
        let keys: Vec<ObjectKey> = all.into_iter().take(max).collect();
        // Only what has clones can be a whiteout; of the first one the clones may be on the page before.
        let has_clones = |i: usize| i == 0 || keys[i - 1].snap != ObjectKey::HEAD;
        let doubtful = (0..keys.len()).filter(|i| keys[*i].snap == ObjectKey::HEAD && has_clones(*i));
        let doubtful: BTreeSet<ObjectKey> = doubtful.map(|i| keys[i].clone()).collect();
        if let Some(lacking) = doubtful.iter().find(|key| self.local.lacks(key)) {
            op.wait_again(core.now().mono);
            self.requests.put(op);
            return self.recover_first(core, &lacking.clone());
        }
        let attempt = op.attempt;
        let heads = keys.into_iter().filter(|key| key.snap == ObjectKey::HEAD).collect();
        op.page = Some(Page { heads, next, doubtful: doubtful.clone() });
        if doubtful.is_empty() {
            return self.answer_list(core, op);
        }
        self.requests.put(op);
        for head in doubtful {
            let then = ReadFor::ListedHead { pgid: self.id, id, attempt, head: Box::new(head.clone()) };
            if let Some((_, read)) = Loads::of_head(&head).reads.pop() {
                core.read(read, then);
            }
        }
    }

    /// A head of the page has come: whiteouts are not shown.
    pub fn on_listed_head(
        &mut self,
        core: &mut Core,
        (id, attempt): (u64, u32),
        head: ObjectKey,
        result: Result<ReadReply, StoreError>,
    ) {
        let Some(mut op) = self.requests.take_loading(id, attempt) else { return };
        let Some(page) = &mut op.page else { return self.requests.put(op) };
        page.doubtful.remove(&head);
        let hidden = match result {
            Ok(ReadReply::Object(view)) => view.is_none_or(|view| is_whiteout(&view.attrs)),
            // Unreadable objects are listed.
            _ => false,
        };
        if hidden {
            page.heads.retain(|key| *key != head);
        }
        match page.doubtful.is_empty() {
            true => self.answer_list(core, op),
            false => self.requests.put(op),
        }
    }

    fn answer_list(&mut self, core: &mut Core, mut op: ClientOp) {
        let Page { heads, next, .. } = op.page.take().expect("it has been put together");
        let wanted = &op.request.locator.ns;
        let shown = heads.iter().filter(|k| wanted == ALL_NAMESPACES || *wanted == k.namespace);
        let entries = shown.map(|k| ListEntry {
            namespace: k.namespace.clone(),
            oid: k.name.clone(),
            locator: k.locator.clone(),
        });
        let entries: Vec<ListEntry> = entries.collect();
        let end = next >= self.local.range().1;
        let mut reply = OsdOpReply::to(&op.request, if end { END } else { 0 }, core.epoch());
        let handle = if end { self.end_handle() } else { hobject_of(&next) };
        reply.ops[0].rval = reply.result;
        reply.ops[0].data = input::write(&PgNlsReply { handle, entries });
        reply.set_version(self.local.info().last_update, self.local.info().last_user_version);
        self.answer_when_durable(core, op, self.local.info().last_update, Box::new(reply));
    }

    /// Something has been recovered: listings that waited for it look again.
    pub fn kick_lists(&mut self, core: &mut Core) {
        if !self.is_serving() {
            return;
        }
        for id in self.requests.ids(|op| op.stage == Stage::Waiting && op.is_pg_op()) {
            if let Some(op) = self.requests.take(id) {
                self.start_list(core, op);
            }
        }
    }

    /// Start of the next PG in the order; after the last one, the marker behind all objects.
    fn end_handle(&self) -> HObject {
        if self.local.range().1.shard != self.local.range().0.shard {
            return HObject::max();
        }
        HObject { hash: self.local.range().1.hash, pool: self.id.pgid.pool, ..HObject::default() }
    }
}

/// True if a listing has reached objects of another PG: the PG has split since its client asked. The client
/// continues there, at the same position; the end of what remains of this PG lies before it.
fn is_elsewhere(id: PgId, map: &OsdMap, cursor: &HObject) -> bool {
    let home = |pool: &Pool| pool.raw_pg_to_pg(PgId::new(id.pool, cursor.hash));
    !cursor.max && cursor.pool == id.pool && map.pools.get(&id.pool).is_some_and(|pool| home(pool) != id)
}

fn is_whiteout(attrs: &[(Vec<u8>, Vec<u8>)]) -> bool {
    let info = attrs.iter().find(|(name, _)| name == INFO_ATTR);
    info.and_then(|(_, value)| ObjectInfo::parse(value)).is_some_and(|info| info.whiteout)
}

/// The first key of a shard at or behind a cursor; the marker behind all objects is behind all keys.
fn page_start(shard: i8, cursor: &HObject) -> ObjectKey {
    if cursor.max {
        ObjectKey::first_at(i64::MAX, shard, 0)
    } else {
        ObjectKey { generation: 0, ..key_of(shard, cursor) }
    }
}
