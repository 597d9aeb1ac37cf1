//! Checkers of backoffs, as OSDs send them and as clients receive them.
//!
//! `backoffs_hold`: an OSD does not serve what it has told a client to hold back, and never serves requests
//! that came before the client can have known; the client sends none of them; each backoff is about a
//! request, and each end about a backoff.
//!
//! `backoffs_end`: without faults, no client holds anything back.

use crate::world::{At, Seen};
use maps::{HObject, Spg};
use msgs::{Body, OsdBackoff, OsdOp, backoff_op};
use std::collections::{BTreeMap, BTreeSet};
use wire::Errno;

/// Backoffs at both ends of all connections.
#[derive(Debug, Default)]
pub struct Backoffs {
    osds: BTreeMap<At, OsdEnd>,
    clients: BTreeMap<At, BTreeMap<u64, Range>>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
struct Range {
    pgid: Spg,
    begin: HObject,
    end: HObject,
}

impl Range {
    fn of(m: &OsdBackoff) -> Self {
        Self { pgid: m.pgid, begin: m.begin.clone(), end: m.end.clone() }
    }

    fn has(&self, (pgid, at): &(Spg, HObject)) -> bool {
        self.pgid == *pgid && (*at == self.begin || self.begin < *at && *at < self.end)
    }
}

#[derive(Debug)]
struct Told {
    range: Range,
    acknowledged: bool,
    ended: bool,
}

/// An OSD's end of a connection to a client.
#[derive(Debug, Default)]
struct OsdEnd {
    told: BTreeMap<u64, Told>,
    /// Requests that may be served, with their objects; the OSD has forgotten some.
    taken: BTreeMap<u64, (Spg, HObject)>,
    /// Requests that came while the client was to hold them back.
    late: BTreeSet<u64>,
}

impl OsdEnd {
    fn took(&mut self, tid: u64, body: &Body) {
        match body {
            Body::OsdOp(op) => {
                let place = place_of(op);
                if !self.told.values().any(|told| told.range.has(&place)) {
                    self.late.remove(&tid);
                    self.taken.insert(tid, place);
                } else if !self.taken.contains_key(&tid) {
                    self.late.insert(tid);
                }
            }
            Body::OsdBackoff(m) if m.op == backoff_op::ACK_BLOCK => {
                self.told.entry(m.id).and_modify(|told| told.acknowledged = true);
                self.tidy(m.id);
            }
            _ => {}
        }
    }

    fn sent(&mut self, tid: u64, body: &Body) -> Result<(), String> {
        match body {
            Body::OsdOpReply(reply) => {
                self.taken.remove(&tid);
                // A client without permission may be told so at any time.
                let served = reply.result >= 0 || reply.result == Errno::ENOENT.to_result_code();
                if served && self.late.contains(&tid) {
                    return Err(format!("it serves request {tid}, which is to be held back"));
                }
            }
            Body::OsdBackoff(m) if m.op == backoff_op::BLOCK => {
                let told = Told { range: Range::of(m), acknowledged: false, ended: false };
                let was_asked = self.taken.values().any(|place| told.range.has(place));
                if self.told.insert(m.id, told).is_some() || !was_asked {
                    return Err(format!("backoff {} is of nothing that was asked, or told twice", m.id));
                }
            }
            Body::OsdBackoff(m) if m.op == backoff_op::UNBLOCK => {
                let told = self.told.get_mut(&m.id).filter(|told| !told.ended);
                let Some(told) = told.filter(|told| told.range == Range::of(m)) else {
                    return Err(format!("backoff {} ends, which was not told so", m.id));
                };
                told.ended = true;
                self.tidy(m.id);
            }
            _ => {}
        }
        Ok(())
    }

    fn tidy(&mut self, id: u64) {
        if self.told.get(&id).is_some_and(|told| told.acknowledged && told.ended) {
            self.told.remove(&id);
        }
    }
}

/// The PG and object of a request, which backoffs are compared with.
fn place_of(op: &OsdOp) -> (Spg, HObject) {
    let object = HObject::head(op.pgid.pgid.pool, &op.locator.ns, &op.locator.key, &op.oid);
    (op.pgid, HObject { hash: op.hash, ..object })
}

impl Backoffs {
    /// Observes a message that a node handles or sends.
    pub fn see(&mut self, at: At, seen: Seen<'_>) -> Option<(&'static str, String)> {
        let msg = match seen {
            Seen::Took(msg) | Seen::Sent(msg) => msg,
            Seen::Ended => {
                self.osds.remove(&at);
                self.clients.remove(&at);
                return None;
            }
        };
        let node::Body::Client(body) = &msg.body else { return None };
        let comes_from_osd = match body {
            Body::OsdOp(_) => false,
            Body::OsdOpReply(_) => true,
            Body::OsdBackoff(m) => m.op != backoff_op::ACK_BLOCK,
            _ => return None,
        };
        let is_taken = matches!(seen, Seen::Took(_));
        let found = match (comes_from_osd, is_taken) {
            (false, true) => {
                self.osds.entry(at).or_default().took(msg.tid, body);
                Ok(())
            }
            (true, false) => self.osds.entry(at).or_default().sent(msg.tid, body),
            _ => self.client(at, body),
        };
        found.err().map(|what| ("backoffs_hold", format!("{at:?}: {what}")))
    }

    fn client(&mut self, at: At, body: &Body) -> Result<(), String> {
        match body {
            Body::OsdBackoff(m) if m.op == backoff_op::BLOCK => {
                self.clients.entry(at).or_default().insert(m.id, Range::of(m));
            }
            Body::OsdBackoff(m) if m.op == backoff_op::UNBLOCK => {
                self.clients.entry(at).or_default().remove(&m.id);
            }
            Body::OsdOp(op) => {
                let place = place_of(op);
                if self.clients.get(&at).is_some_and(|told| told.values().any(|range| range.has(&place))) {
                    return Err(format!("it asks for {place:?}, which it is to hold back"));
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// A backoff that has not ended, on a connection that still exists.
    pub fn not_ended(&self, is_connected: impl Fn(At) -> bool) -> Option<(&'static str, String)> {
        let ends = self.osds.iter().filter(|(at, _)| is_connected(**at));
        let mut told = ends.flat_map(|(at, end)| end.told.iter().map(move |(id, told)| (at, id, told)));
        let (at, id, told) = told.find(|(.., told)| !told.ended)?;
        Some(("backoffs_end", format!("{at:?}: backoff {id} has not ended: {:?}", told.range)))
    }
}
