//! The requests of a PG that are not answered: by their number, in the queues of their objects, and in the
//! line of those that wait for what they saw to be durable.

use crate::ops::Loaded;
use crate::pg::request::{ClientOp, Reply, Stage};
use maps::EVersion;
use node::ConnId;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use stdx::Instant;
use store::ObjectKey;

/// The requests of a PG that are not answered.
///
/// A step takes its request out, works on it, and puts it back or ends it. Meanwhile nobody finds the request
/// here; so it is put back before anything is done that may start other requests.
///
/// Invariants between two inputs: no request is out; a queue holds only requests of its object, each at most
/// once; whoever waits for durability is in that stage and has its reply.
#[derive(Debug, Default)]
pub struct RequestQueues {
    ops: BTreeMap<u64, ClientOp>,
    /// Numbers of the requests for each object, in the order in which they are carried out.
    queues: BTreeMap<ObjectKey, VecDeque<u64>>,
    /// Versions that are not durable yet, each with the request that has seen it.
    awaiting_durability: Vec<(EVersion, u64)>,
    /// Requests that are out for a step.
    taken: usize,
}

impl RequestQueues {
    /// Takes in a request that has just come.
    pub fn insert(&mut self, op: ClientOp) {
        self.taken += 1;
        self.put(op);
    }

    /// Takes a request out for a step.
    pub fn take(&mut self, id: u64) -> Option<ClientOp> {
        let op = self.ops.remove(&id)?;
        self.taken += 1;
        Some(op)
    }

    /// Takes a request out that waits for the store, if this answer is for its present attempt.
    pub fn take_loading(&mut self, id: u64, attempt: u32) -> Option<ClientOp> {
        if self.is_loading(id, attempt) { self.take(id) } else { None }
    }

    /// Takes out the first request of an object's queue.
    pub fn take_first(&mut self, key: &ObjectKey) -> Option<ClientOp> {
        let first = *self.queues.get(key)?.front()?;
        let op = self.take(first);
        assert!(op.is_some(), "request {first} is queued for {key:?} and gone");
        op
    }

    /// Puts a request back after a step.
    pub fn put(&mut self, op: ClientOp) {
        assert!(self.taken > 0, "request {} was not taken", op.id);
        self.taken -= 1;
        let before = self.ops.insert(op.id, op);
        assert!(before.is_none(), "two requests have one number");
    }

    /// Ends a request that is out: it has been answered, or is dropped.
    pub fn end(&mut self, op: &ClientOp) {
        assert!(self.taken > 0, "request {} was not taken", op.id);
        self.taken -= 1;
        self.leave_queue(op);
    }

    /// The requests in order of arrival.
    pub fn iter(&self) -> impl Iterator<Item = &ClientOp> {
        self.ops.values()
    }

    /// Number of requests.
    pub fn len(&self) -> usize {
        self.ops.len()
    }

    /// Numbers of the requests that `wanted` chooses, in order of arrival.
    pub fn ids(&self, wanted: impl Fn(&ClientOp) -> bool) -> Vec<u64> {
        self.ops.values().filter(|op| wanted(op)).map(|op| op.id).collect()
    }

    /// True if a request waits for the store, in this attempt.
    pub fn is_loading(&self, id: u64, attempt: u32) -> bool {
        self.ops.get(&id).is_some_and(|op| op.attempt == attempt && op.stage == Stage::Loading)
    }

    /// Puts a request back, at the end of its object's queue. Gives the queue's length.
    pub fn enqueue(&mut self, op: ClientOp) -> usize {
        let queue = self.queues.entry(op.key.clone()).or_default();
        queue.push_back(op.id);
        let len = queue.len();
        self.put(op);
        len
    }

    /// Takes a request out of its object's queue.
    pub fn leave_queue(&mut self, op: &ClientOp) {
        if let Some(queue) = self.queues.get_mut(&op.key) {
            queue.retain(|queued| *queued != op.id);
        }
    }

    /// True if a request is in its object's queue.
    pub fn is_queued(&self, op: &ClientOp) -> bool {
        self.queues.get(&op.key).is_some_and(|queue| queue.contains(&op.id))
    }

    /// The queued requests for an object.
    pub fn queue(&self, key: &ObjectKey) -> impl Iterator<Item = &ClientOp> {
        self.queues.get(key).into_iter().flatten().filter_map(|id| self.ops.get(id))
    }

    /// The objects that have a queue.
    pub fn objects(&self) -> impl Iterator<Item = &ObjectKey> {
        self.queues.keys()
    }

    /// Removes an object's queue, which is empty.
    pub fn close_queue(&mut self, key: &ObjectKey) {
        let closed = self.queues.remove(key);
        assert!(closed.is_none_or(|queue| queue.is_empty()), "requests for {key:?} are left");
    }

    /// Moves the request at `index` of an object's queue to its front.
    pub fn move_first(&mut self, key: &ObjectKey, index: usize) {
        let Some(queue) = self.queues.get_mut(key) else { return };
        let id = queue.remove(index);
        queue.extend(id);
        queue.rotate_right(1);
    }

    /// Requests that wait for the PG and are in no queue, in order of arrival.
    pub fn unqueued(&self) -> Vec<u64> {
        let queued: BTreeSet<u64> = self.queues.values().flatten().copied().collect();
        self.ids(|op| op.stage == Stage::Waiting && !queued.contains(&op.id))
    }

    /// Puts back a request whose answer waits for `version` to be durable.
    pub fn await_durability(&mut self, mut op: ClientOp, version: EVersion, reply: Box<Reply>, now: Instant) {
        op.enter(Stage::Durable, now);
        op.reply = Some(reply);
        self.awaiting_durability.push((version, op.id));
        self.put(op);
    }

    /// Takes out the answers that waited for versions up to `to`.
    pub fn durable_to(&mut self, to: EVersion) -> Vec<(u64, Box<Reply>)> {
        let answers = self.take_answers(|version, _| version <= to);
        answers.into_iter().map(|(_, id, reply)| (id, reply)).collect()
    }

    /// Takes out the answers that `ready` chooses by version and request.
    pub fn take_answers(
        &mut self,
        ready: impl Fn(EVersion, &ClientOp) -> bool,
    ) -> Vec<(EVersion, u64, Box<Reply>)> {
        let Self { ops, awaiting_durability, .. } = self;
        let mut answers = Vec::new();
        awaiting_durability.retain(|(version, id)| {
            let op = ops.get_mut(id).filter(|op| ready(*version, op));
            let reply = op.and_then(|op| op.reply.take());
            let waits = reply.is_none();
            answers.extend(reply.map(|reply| (*version, *id, reply)));
            waits
        });
        answers
    }

    /// All requests start from scratch, and in no queue. The PG's own are dropped.
    pub fn start_over(&mut self, now: Instant) {
        self.queues.clear();
        self.awaiting_durability.clear();
        self.ops.retain(|_, op| op.trim.is_none());
        for op in self.ops.values_mut() {
            op.wait_again(now);
            (op.loads, op.loaded, op.reply, op.damaged) = (None, Loaded::default(), None, false);
            (op.resolving, op.page) = (false, None);
        }
    }

    /// Drops all requests.
    pub fn clear(&mut self) {
        self.ops.clear();
        self.queues.clear();
        self.awaiting_durability.clear();
    }

    /// Drops these requests, wherever they wait.
    pub fn drop_all(&mut self, dropped: &BTreeSet<u64>) {
        self.ops.retain(|id, _| !dropped.contains(id));
        self.awaiting_durability.retain(|(_, id)| !dropped.contains(id));
        self.queues.retain(|_, queue| {
            queue.retain(|id| !dropped.contains(id));
            !queue.is_empty()
        });
    }

    /// A connection is gone: drops its requests, but for those that `goes_on` chooses, which are answered to
    /// nobody. Gives the objects whose queues have moved on.
    pub fn drop_client(&mut self, conn: ConnId, goes_on: impl Fn(&ClientOp) -> bool) -> Vec<ObjectKey> {
        let mut objects = Vec::new();
        for id in self.ids(|op| op.conn == Some(conn)) {
            let Some(mut op) = self.take(id) else { continue };
            if goes_on(&op) {
                op.conn = None;
                self.put(op);
                continue;
            }
            self.awaiting_durability.retain(|(_, waiting)| *waiting != id);
            self.end(&op);
            objects.extend(self.queues.contains_key(&op.key).then(|| op.key.clone()));
        }
        objects
    }

    /// Asserts the invariants.
    pub fn check(&self) {
        assert_eq!(self.taken, 0, "a request was taken and not put back");
        let mut queued = BTreeSet::new();
        for (key, queue) in &self.queues {
            for id in queue {
                assert!(queued.insert(*id), "request {id} is queued twice");
                assert!(self.ops.get(id).is_some_and(|op| op.key == *key), "request {id} is not for {key:?}");
            }
        }
        for (version, id) in &self.awaiting_durability {
            let waits = self.ops.get(id).is_some_and(|op| op.stage == Stage::Durable && op.reply.is_some());
            assert!(waits, "request {id} does not wait for {version}");
        }
    }
}
