//! The sessions with monitors and OSDs, and which operation each of their answers is for.

use crate::api::{Answer, Reply};
use crate::key::{InodeKey, OpId};
use crate::op::Outs;
use auth::Initiator;
use maps::{Epoch, OsdMap};
use monc::{Monc, MoncConfig, MoncOut, Told};
use msgs::Body;

use rados::{Cluster, ClusterOut, Completion, Listing, Rados, RadosConfig, RadosOut, RadosTold};
use std::collections::{BTreeMap, VecDeque};
use stdx::{Bufs, FastMap, Now, Rng};
use wire::{EntityType, Errno, Writer};

/// The use of an answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Token {
    /// Piece `piece` of an operation's transfer.
    Piece { op: OpId, piece: usize },
    /// The buffered extent at `offset`.
    Flight { key: InodeKey, offset: u64, bytes: u64 },
    /// The whole answer of an operation.
    Whole { op: OpId },
}

/// An answer, or something unasked.
#[derive(Debug)]
pub(crate) enum ServiceEvent {
    /// A piece of a transfer is done.
    Piece { op: OpId, piece: usize, result: Result<Bufs, Errno> },
    /// A buffered extent has arrived at the OSDs, or failed.
    Landed { key: InodeKey, offset: u64, bytes: u64, result: Result<(), Errno> },
    /// An operation has its answer.
    Answered { op: OpId, reply: Reply },
    /// A monitor has answered an operation's message.
    MonAnswered { op: OpId, body: Box<Body> },
    /// An answer without a request.
    Unasked(Answer),
    /// The monitor session says something else.
    Mon(Box<Told>),
    /// There is a new OSD map.
    OsdMap,
}

impl ServiceEvent {
    /// True if an OSD refuses this client, which is on the blocklist.
    pub(crate) fn is_refusal(&self) -> bool {
        let refused = Some(Errno::EBLOCKLISTED);
        match self {
            Self::Piece { result, .. } => result.as_ref().err().copied() == refused,
            Self::Landed { result, .. } => result.err() == refused,
            _ => false,
        }
    }
}

/// Sessions with monitors and OSDs.
///
/// Invariant: a token is in the table from its request to its answer. Answers are taken one after another, as
/// events: an operation is not changed from within its own attempt.
#[derive(Debug)]
pub(crate) struct Services {
    cluster: Cluster,
    tokens: FastMap<u64, Token>,
    last_token: u64,
    /// Operations that wait for a watch to be registered, by its cookie.
    registering: BTreeMap<u64, OpId>,
    events: VecDeque<ServiceEvent>,
}

impl Services {
    pub(crate) fn new(monc: MoncConfig, rados: RadosConfig, rng: &mut Rng) -> Self {
        Self {
            cluster: Cluster::new(monc, rados, rng),
            tokens: FastMap::default(),
            last_token: 0,
            registering: BTreeMap::new(),
            events: VecDeque::new(),
        }
    }

    /// The sessions themselves, to look at.
    pub(crate) fn cluster(&self) -> &Cluster {
        &self.cluster
    }

    /// The current OSD map, of epoch 0 before there is one.
    pub(crate) fn osdmap(&self) -> &OsdMap {
        self.cluster.engine().map()
    }

    /// The id of a pool.
    pub(crate) fn pool_id(&self, name: &str) -> Option<i64> {
        self.osdmap().pool_by_name(name).map(|(pool, _)| pool)
    }

    /// The credentials for a connection to an MDS.
    pub(crate) fn mds_auth(&self) -> Box<Initiator> {
        self.cluster.monc().service_auth(EntityType::MDS)
    }

    pub(crate) fn next_event(&mut self) -> Option<ServiceEvent> {
        self.events.pop_front()
    }

    fn token(&mut self, token: Token) -> u64 {
        self.last_token += 1;
        self.tokens.insert(self.last_token, token);
        self.last_token
    }

    /// Submits an object operation.
    pub(crate) fn submit(&mut self, now: Now, token: Token, request: rados::Request, out: &mut Outs) {
        let token = self.token(token);
        self.rados(now, out, |rados, outs| rados.submit(now, token, request, outs));
    }

    /// Object operations wait for this map.
    pub(crate) fn wait_for_map(&mut self, now: Now, epoch: Epoch, out: &mut Outs) {
        self.rados(now, out, |rados, outs| rados.wait_for_map(epoch, outs));
    }

    /// Asks the OSDs or registers something with them; `ask` gets the number by which the answer is known.
    pub(crate) fn ask_osds(
        &mut self,
        now: Now,
        op: OpId,
        out: &mut Outs,
        ask: impl FnOnce(&mut Rados, u64, &mut Vec<RadosOut>),
    ) {
        let token = self.token(Token::Whole { op });
        self.rados(now, out, |rados, outs| ask(rados, token, outs));
    }

    /// Asks a monitor; `ask` gets the number by which the answer is known.
    pub(crate) fn ask_mon(
        &mut self,
        now: Now,
        op: OpId,
        out: &mut Outs,
        ask: impl FnOnce(&mut Monc, u64, &mut Vec<MoncOut>),
    ) {
        let token = self.token(Token::Whole { op });
        self.mon(now, out, |monc, outs| ask(monc, token, outs));
    }

    /// Registers a watch for an operation: [`ServiceEvent::Answered`] tells when it is.
    pub(crate) fn watch(
        &mut self,
        now: Now,
        op: OpId,
        cookie: u64,
        out: &mut Outs,
        watch: impl FnOnce(&mut Rados, &mut Vec<RadosOut>),
    ) {
        self.registering.insert(cookie, op);
        self.rados(now, out, watch);
    }

    /// Ends a watch. Returns the operation that still waited for its registration.
    pub(crate) fn unwatch(&mut self, now: Now, op: OpId, cookie: u64, out: &mut Outs) -> Option<OpId> {
        let registering = self.registering.remove(&cookie);
        self.ask_osds(now, op, out, |rados, token, outs| rados.unwatch(now, token, cookie, outs));
        registering
    }

    /// Calls the monitor session.
    pub(crate) fn mon(&mut self, now: Now, out: &mut Outs, call: impl FnOnce(&mut Monc, &mut Vec<MoncOut>)) {
        self.call(out, |cluster, outs| cluster.mon(now, outs, call));
    }

    fn rados(&mut self, now: Now, out: &mut Outs, call: impl FnOnce(&mut Rados, &mut Vec<RadosOut>)) {
        self.call(out, |cluster, outs| cluster.rados(now, outs, call));
    }

    /// Calls both sessions, carries out what they send, and keeps what they say as events.
    pub(crate) fn call(&mut self, out: &mut Outs, call: impl FnOnce(&mut Cluster, &mut Vec<ClusterOut>)) {
        let mut outs = Vec::new();
        call(&mut self.cluster, &mut outs);
        for item in outs {
            match item {
                ClusterOut::Net(net) => out.push(net.into()),
                ClusterOut::Mon(Told::Reply { token, body }) => {
                    if let Some(op) = self.whole(token) {
                        self.events.push_back(ServiceEvent::MonAnswered { op, body: Box::new(body) });
                    }
                }
                ClusterOut::Mon(told) => self.events.push_back(ServiceEvent::Mon(Box::new(told))),
                ClusterOut::Rados(told) => self.rados_told(told),
            }
        }
    }

    fn rados_told(&mut self, told: RadosTold) {
        let event = match told {
            RadosTold::Map(_) => Some(ServiceEvent::OsdMap),
            RadosTold::Done { token, completion } => self.object_done(token, *completion),
            RadosTold::Listed { token, result } => {
                self.answered(token, result.map(|listing| listing_answer(*listing)))
            }
            RadosTold::NotifyEnded { token, result, reply, attempts } => {
                self.answered(token, Ok(Answer::NotifyEnded { result, reply, attempts }))
            }
            RadosTold::Watched { cookie, result } => self.registering.remove(&cookie).map(|op| {
                let client = self.cluster.monc().global_id();
                ServiceEvent::Answered { op, reply: Ok(Answer::Watching { result, client }) }
            }),
            RadosTold::Notified { cookie, notify_id, notifier, payload } => {
                Some(ServiceEvent::Unasked(Answer::Notified { cookie, notify_id, notifier, payload }))
            }
            RadosTold::WatchBroken { cookie, errno, alive_at } => {
                Some(ServiceEvent::Unasked(Answer::WatchBroken { cookie, errno, alive_at }))
            }
            _ => None,
        };
        self.events.extend(event);
    }

    fn object_done(&mut self, token: u64, done: Completion) -> Option<ServiceEvent> {
        let result = done.result;
        Some(match self.tokens.remove(&token)? {
            Token::Piece { op, piece } => {
                let data = done.ops.into_iter().next().map(|o| o.data).unwrap_or_default();
                ServiceEvent::Piece { op, piece, result: result.map(|_| data) }
            }
            Token::Flight { key, offset, bytes } => {
                ServiceEvent::Landed { key, offset, bytes, result: result.map(drop) }
            }
            Token::Whole { op } => {
                let ops = done.ops.into_iter().map(|o| (Errno::check(o.rval), o.data)).collect();
                let reply = Ok(Answer::Object { result, ops, version: done.version });
                ServiceEvent::Answered { op, reply }
            }
        })
    }

    fn answered(&mut self, token: u64, reply: Reply) -> Option<ServiceEvent> {
        self.whole(token).map(|op| ServiceEvent::Answered { op, reply })
    }

    fn whole(&mut self, token: u64) -> Option<OpId> {
        match self.tokens.remove(&token)? {
            Token::Whole { op } => Some(op),
            Token::Piece { .. } | Token::Flight { .. } => None,
        }
    }

    /// Asserts the invariant after an input.
    pub(crate) fn check(&self) {
        assert!(self.events.is_empty(), "the client settled with answers to take");
    }
}

fn listing_answer(listing: Listing) -> Answer {
    let names = listing.entries.into_iter().map(|e| (e.oid, e.locator)).collect();
    let cursor = listing.next.map(|next| Writer::encode(&next)).unwrap_or_default();
    Answer::Objects { names, cursor }
}

#[cfg(test)]
impl Services {
    /// Buffered extents on their way.
    pub(crate) fn flights(&self) -> usize {
        self.tokens.values().filter(|token| matches!(token, Token::Flight { .. })).count()
    }

    /// Reads that OSDs were asked for.
    pub(crate) fn reads(&self) -> usize {
        self.tokens.values().filter(|token| matches!(token, Token::Piece { .. })).count()
    }

    /// All buffered extents on their way arrive. Returns their number.
    pub(crate) fn land_all(&mut self) -> usize {
        self.end_flights(Ok(()))
    }

    /// All buffered extents on their way end with this result. Returns their number.
    pub(crate) fn end_flights(&mut self, result: Result<(), Errno>) -> usize {
        let count = self.flights();
        let flights = self.tokens.extract_if(|_, token| matches!(token, Token::Flight { .. }));
        let landed = flights.filter_map(|(_, token)| match token {
            Token::Flight { key, offset, bytes } => Some(ServiceEvent::Landed { key, offset, bytes, result }),
            Token::Piece { .. } | Token::Whole { .. } => None,
        });
        self.events.extend(landed);
        count
    }

    /// All reads that OSDs were asked for end with this result.
    pub(crate) fn end_reads(&mut self, result: &Result<Bufs, Errno>) {
        let reads = self.tokens.extract_if(|_, token| matches!(token, Token::Piece { .. }));
        let ended = reads.filter_map(|(_, token)| match token {
            Token::Piece { op, piece } => Some(ServiceEvent::Piece { op, piece, result: result.clone() }),
            Token::Flight { .. } | Token::Whole { .. } => None,
        });
        self.events.extend(ended);
    }

    pub(crate) fn is_waiting(&self) -> bool {
        !self.tokens.is_empty()
    }
}
