//! A client's request, and where it stands.

use crate::ops::{Loaded, Loads, may_write};
pub use crate::stage::{Stage, Waits};
use crate::watch::{Effect, Watcher};
use maps::{EVersion, ReqId, SnapId, Spg};
use msgs::op::watch_op;
use msgs::{Op, OsdOp, OsdOpReply, osd_flag};
use node::ConnId;
use serde_json::{Value, json};
use stdx::{Hold, Instant, Now, Wall};
use store::ObjectKey;
use wire::{EntityAddr, EntityId};

/// Answer to a client.
pub type Reply = OsdOpReply;

/// A request that is not answered.
#[derive(Debug)]
pub struct ClientOp {
    /// Its number, which grows with the order of arrival.
    pub id: u64,
    /// Connection for the answer; `None` if nobody waits for one any more, or nobody asked.
    pub conn: Option<ConnId>,
    /// Transaction id of the message.
    pub tid: u64,
    /// Id by which its repetition is recognized.
    pub reqid: ReqId,
    /// The client and its address.
    pub from: (EntityId, EntityAddr),
    /// Nobody asks: this watch has not been heard of for too long.
    pub expired: Option<Watcher>,
    /// The number of a question of our own.
    pub ours: Option<u64>,
    /// True if it may change the object.
    pub writes: bool,
    /// The client's request.
    pub request: Box<OsdOp>,
    /// The object's head: all requests to any state of it run in one order.
    pub key: ObjectKey,
    /// The object to read or write: the head, or the clone that shows the requested snapshot.
    pub target: ObjectKey,
    /// The PG's own: take removed snapshots out of this clone.
    pub trim: Option<SnapId>,
    /// Time of arrival.
    pub received: Instant,
    /// Its present stage.
    pub stage: Stage,
    /// Time that it spent in each stage.
    pub waits: Waits,
    /// Counts starts from scratch; reads of an earlier one are ignored.
    pub attempt: u32,
    pub(super) loads: Option<Loads>,
    /// True while the head is loaded only to find the object to read.
    pub(super) resolving: bool,
    pub(super) loaded: Loaded,
    pub(super) reads_left: usize,
    pub(super) damaged: bool,
    /// True if the object that it could not read was already compared with other copies.
    pub(super) checked: bool,
    pub(super) reply: Option<Box<Reply>>,
    /// Effects on watches, to be carried out with the answer.
    pub(super) effects: Vec<Effect>,
    /// Memory for its answer, which takes it along.
    pub hold: Hold,
    /// A page of a listing.
    pub(super) page: Option<super::list::page::Page>,
    /// We are not primary; how far the log went when it began to load.
    pub(super) balanced: Option<EVersion>,
}

impl ClientOp {
    /// A request that has just come.
    pub fn new(
        conn: ConnId,
        tid: u64,
        client: (EntityId, EntityAddr),
        request: Box<OsdOp>,
        key: ObjectKey,
        now: Instant,
    ) -> Self {
        // The nonce distinguishes incarnations, in case a client restarts its tids.
        let reqid = ReqId { name: client.0, tid, inc: client.1.nonce as i32 };
        Self {
            id: 0,
            conn: Some(conn),
            tid,
            reqid,
            from: client,
            expired: None,
            ours: None,
            writes: may_write(&request),
            request,
            target: key.clone(),
            key,
            trim: None,
            received: now,
            stage: Stage::Waiting,
            waits: Waits::begin(now),
            attempt: 0,
            loads: None,
            resolving: false,
            loaded: Loaded::default(),
            reads_left: 0,
            damaged: false,
            checked: false,
            reply: None,
            effects: Vec::new(),
            hold: Hold::NONE,
            page: None,
            balanced: None,
        }
    }

    /// The PG's own request to take removed snapshots out of a clone.
    pub fn trim(head: ObjectKey, clone: SnapId, now: Instant) -> Self {
        let request = OsdOp { flags: osd_flag::WRITE, snapid: SnapId::HEAD, ..OsdOp::default() };
        let nobody = (EntityId::default(), EntityAddr::default());
        let op = Self::new(ConnId(0), 0, nobody, Box::new(request), head, now);
        Self { conn: None, reqid: ReqId::default(), trim: Some(clone), ..op }
    }

    /// Goes on to wait for something else.
    pub(super) fn enter(&mut self, stage: Stage, now: Instant) {
        self.waits.leave(self.stage, now);
        self.stage = stage;
    }

    /// Waits for its turn again, and then starts from scratch.
    pub(super) fn wait_again(&mut self, now: Instant) {
        self.enter(Stage::Waiting, now);
        self.attempt += 1;
    }

    /// True if it reads a state of the object other than the head.
    pub(super) fn at_snapshot(&self) -> bool {
        !matches!(self.request.snapid, SnapId::HEAD | SnapId::DIR) && !self.writes
    }

    /// The end of a watch that has not been heard of for too long. It is ordered as if its owner had asked
    /// for it.
    pub fn expiry(watcher: Watcher, key: ObjectKey, now: stdx::Now) -> Self {
        let (cookie, client) = watcher;
        let end = Op::Watch { cookie, ver: 0, op: watch_op::UNWATCH, generation: 0, timeout: 0 };
        let request = OsdOp { ops: vec![end.into()], ..OsdOp::default() };
        let op = Self::new(ConnId(0), 0, (client, EntityAddr::default()), Box::new(request), key, now.mono);
        Self { conn: None, expired: Some(watcher), ..op }
    }

    /// A question of our own, whose answer stays here.
    pub fn ours(
        tid: u64,
        from: (EntityId, EntityAddr),
        request: Box<OsdOp>,
        key: ObjectKey,
        now: Instant,
    ) -> Self {
        Self { conn: None, ours: Some(tid), ..Self::new(ConnId(0), tid, from, request, key, now) }
    }

    /// True if it deletes its object and does nothing else.
    pub(super) fn deletes(&self) -> bool {
        let ops = &self.request.ops;
        self.trim.is_none() && !ops.is_empty() && ops.iter().all(|o| matches!(o.op, Op::Delete))
    }

    pub(super) fn is_pg_op(&self) -> bool {
        self.request.flags & osd_flag::PGOP != 0 || self.request.ops.iter().any(|o| o.op.code().is_pg_op())
    }
}

impl ClientOp {
    /// The request in words, and how long it has been in each stage.
    pub fn describe(&self, pgid: Spg, now: Now) -> Value {
        let age = now.mono.since(self.received);
        let codes: Vec<String> = self.request.ops.iter().map(|o| o.op.code().to_string()).collect();
        let name = String::from_utf8_lossy(&self.request.oid);
        let began = Wall(now.wall.0.saturating_sub(u64::try_from(age.as_nanos()).unwrap_or(u64::MAX)));
        json!({
            "description": format!("osd_op({} {pgid} {name:?} {codes:?})", self.reqid),
            "initiated_at": wire::Utime::from(began).iso8601(),
            "age": age.as_secs_f64(),
            "duration": age.as_secs_f64(),
            "type_data": { "flag_point": self.stage.text(), "events": self.waits.dump(self.stage, now.mono) },
        })
    }
}
