//! Backoffs: a client is told to hold requests for objects that can't be served for long, so that they do not
//! occupy memory that other requests need (docs/protocol.md 5.7).
//!
//! Dropped requests are sent again when the client is told that the backoff has ended. Until the client
//! acknowledges a backoff, its requests of the range were sent before it knew, and are dropped too, even if
//! the backoff has ended meanwhile: the requests dropped earlier are sent again after them, and must not be
//! overtaken.

use maps::{HObject, Spg};
use node::ConnId;
use std::collections::BTreeMap;

/// Feature bits of peers that understand backoffs.
const FEATURE: u64 = 1 << 21 | 1 << 57;

/// True if a peer with these features understands backoffs.
pub fn are_understood(features: u64) -> bool {
    features & FEATURE == FEATURE
}

/// Objects of one PG: from the first, inclusive, to the second, exclusive, or the single one that both name.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Range {
    /// First object of the range.
    pub begin: HObject,
    /// End of the range, exclusive.
    pub end: HObject,
}

impl Range {
    /// The range of one object.
    pub fn of(object: HObject) -> Self {
        Self { begin: object.clone(), end: object }
    }

    fn has(&self, at: &HObject) -> bool {
        *at == self.begin || self.begin < *at && *at < self.end
    }
}

/// A backoff that one client was sent.
#[derive(Debug)]
struct Backoff {
    id: u64,
    range: Range,
    acknowledged: bool,
    ended: bool,
}

/// All backoffs of an OSD.
#[derive(Debug, Default)]
pub struct Backoffs {
    told: BTreeMap<(Spg, ConnId), Vec<Backoff>>,
    last: u64,
}

impl Backoffs {
    /// True if a client's request for an object must be dropped: it will be sent again.
    pub fn holds(&self, pgid: Spg, conn: ConnId, at: &HObject) -> bool {
        if stdx::mutants::is_active("osd_takes_what_is_held_back") {
            return false;
        }
        self.told.get(&(pgid, conn)).is_some_and(|told| told.iter().any(|b| b.range.has(at)))
    }

    /// True if no client has a backoff.
    pub fn is_empty(&self) -> bool {
        self.told.is_empty()
    }

    /// Starts a backoff and returns its number.
    pub fn begin(&mut self, pgid: Spg, conn: ConnId, range: Range) -> u64 {
        self.last += 1;
        let backoff = Backoff { id: self.last, range, acknowledged: false, ended: false };
        self.told.entry((pgid, conn)).or_default().push(backoff);
        self.last
    }

    /// Notes that a client has acknowledged a backoff.
    pub fn acknowledged(&mut self, pgid: Spg, conn: ConnId, id: u64) {
        let told = self.told.get_mut(&(pgid, conn)).into_iter().flatten();
        told.filter(|b| b.id == id).for_each(|b| b.acknowledged = true);
        self.tidy(pgid, conn);
    }

    /// Ends the backoffs of a PG, or of one object: returns the connections to inform.
    pub fn end(&mut self, pgid: Spg, object: Option<&HObject>) -> Vec<(ConnId, u64, Range)> {
        let (first, last) = ((pgid, ConnId(0)), (pgid, ConnId(u64::MAX)));
        let mut over = Vec::new();
        for ((_, conn), told) in self.told.range_mut(first..=last) {
            let range = object.map(|object| Range::of(object.clone()));
            for backoff in
                told.iter_mut().filter(|b| !b.ended && range.as_ref().is_none_or(|r| *r == b.range))
            {
                backoff.ended = true;
                over.push((*conn, backoff.id, backoff.range.clone()));
            }
        }
        over.iter().for_each(|(conn, ..)| self.tidy(pgid, *conn));
        over
    }

    /// Forgets a closed connection.
    pub fn forget(&mut self, conn: ConnId) {
        self.told.retain(|(_, c), _| *c != conn);
    }

    fn tidy(&mut self, pgid: Spg, conn: ConnId) {
        let Some(told) = self.told.get_mut(&(pgid, conn)) else { return };
        told.retain(|b| !(b.ended && b.acknowledged));
        if told.is_empty() {
            self.told.remove(&(pgid, conn));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use maps::PgId;

    const PG: Spg = Spg { pgid: PgId { pool: 1, seed: 0 }, shard: Spg::NO_SHARD };
    const CONN: ConnId = ConnId(ConnId::ACCEPTED | 7);

    fn object(name: &str) -> HObject {
        HObject::head(1, b"", b"", name.as_bytes())
    }

    fn all() -> Range {
        Range { begin: HObject { pool: 1, ..HObject::default() }, end: HObject::max() }
    }

    #[test]
    fn what_was_sent_before_the_client_knew_is_dropped_even_if_the_backoff_has_ended() {
        let mut b = Backoffs::default();
        let id = b.begin(PG, CONN, all());
        assert!(b.holds(PG, CONN, &object("x")));
        assert!(
            !b.holds(Spg { shard: 0, ..PG }, CONN, &object("x")) && !b.holds(PG, ConnId(1), &object("x"))
        );
        assert_eq!(b.end(PG, None), [(CONN, id, all())]);
        assert_eq!(b.end(PG, None), [], "told once");
        assert!(b.holds(PG, CONN, &object("x")));
        b.acknowledged(PG, CONN, id + 1);
        assert!(b.holds(PG, CONN, &object("x")));
        b.acknowledged(PG, CONN, id);
        assert!(!b.holds(PG, CONN, &object("x")) && b.is_empty());
    }

    #[test]
    fn that_of_an_object_ends_alone() {
        let mut b = Backoffs::default();
        let id = b.begin(PG, CONN, Range::of(object("x")));
        b.acknowledged(PG, CONN, id);
        assert!(b.holds(PG, CONN, &object("x")) && !b.holds(PG, CONN, &object("y")));
        assert_eq!(b.end(PG, Some(&object("y"))), []);
        assert_eq!(b.end(PG, Some(&object("x"))), [(CONN, id, Range::of(object("x")))]);
        assert!(b.is_empty());
    }

    #[test]
    fn a_connection_takes_its_backoffs_with_it() {
        let mut b = Backoffs::default();
        b.begin(PG, CONN, all());
        b.begin(PG, ConnId(3), all());
        b.forget(CONN);
        assert!(!b.holds(PG, CONN, &object("x")) && b.holds(PG, ConnId(3), &object("x")));
    }
}
