//! An OSD looks at its own copy, for its own scrub or for the primary's.

use super::map::{Asker, LIMIT, Reading, Scan};
use crate::completion::ReadFor;
use crate::core::Core;
use crate::pg::Pg;
use crate::pg::member;
use crate::pg::state::State;
use node::{ConnId, Level};
use std::collections::VecDeque;
use store::{ObjectKey, Read, ReadReply, StoreError};
use wire::{Reader, Writer};

impl Pg {
    /// Begins to look.
    pub(in crate::pg) fn scan(
        &mut self,
        core: &mut Core,
        (from, to): (ObjectKey, ObjectKey),
        deep: bool,
        asker: Asker,
    ) {
        let id = core.next_round();
        let scan = Scan { asker, deep, keys: None, done: Vec::new(), at: None };
        self.scrub.scans.insert(id, scan);
        core.read(Read::List { from, to, max: LIMIT }, ReadFor::Scrub { pgid: self.id, id });
    }

    /// The primary asks.
    pub fn on_scrub(&mut self, core: &mut Core, conn: ConnId, tid: u64, msg: &peer::PgScrub) {
        let member = self.state == State::ReplicaActive && tid > self.round.activation();
        if !self.is_current(msg.head.interval) || !member {
            return;
        }
        let range = (Reader::new(&msg.from).get::<ObjectKey>(), Reader::new(&msg.to).get::<ObjectKey>());
        let (Ok(from), Ok(to)) = range else {
            return core.event(Level::Warn, "scrub_undecodable", format!("pg {}", self.id));
        };
        let range = (from.max(self.local.range().0.clone()), to.min(self.local.range().1.clone()));
        self.scan(core, range, msg.deep, Asker::Primary(member::Asker { conn, tid, shard: msg.head.from }));
    }

    /// The store has answered something that scrub asked.
    pub fn on_scrub_read(&mut self, core: &mut Core, id: u64, result: Result<ReadReply, StoreError>) {
        core.note_background();
        if self.scrub.is_listing(id) {
            return self.on_chunk_listed(core, result);
        }
        let Some(mut scan) = self.scrub.scans.remove(&id) else { return };
        match (&mut scan.keys, result) {
            (None, Ok(ReadReply::List(keys))) if keys.len() < LIMIT => scan.keys = Some(keys.into()),
            (None, Ok(_)) => return self.end_scan(core, scan, "too many objects".to_owned()),
            (None, Err(error)) => return self.end_scan(core, scan, error.to_string()),
            (Some(_), result) => scan.take(result),
        }
        self.go_on_scanning(core, id, scan);
    }

    fn go_on_scanning(&mut self, core: &mut Core, id: u64, mut scan: Scan) {
        if scan.at.is_none() {
            let next = scan.keys.as_mut().and_then(VecDeque::pop_front);
            let Some(key) = next else { return self.end_scan(core, scan, String::new()) };
            scan.at = Some(Reading::of(key));
        }
        let Some(at) = &scan.at else { return };
        let read = at.next(scan.deep, core.options().scrub.stride);
        core.read(read, ReadFor::Scrub { pgid: self.id, id });
        self.scrub.scans.insert(id, scan);
    }

    fn end_scan(&mut self, core: &mut Core, scan: Scan, error: String) {
        if !error.is_empty() {
            core.event(Level::Error, "scrub_scan_failed", format!("pg {}: {error}", self.id));
        }
        match scan.asker {
            Asker::Ourselves(tid) => {
                let us = self.us(core);
                let map = if error.is_empty() { Some(scan.done) } else { None };
                self.take_scrub_map(core, us, tid, map);
            }
            Asker::Primary(member::Asker { conn, tid, shard }) => {
                let reply = peer::PgScrubMap {
                    head: self.head(core, shard),
                    objects: Writer::encode(&scan.done),
                    error,
                };
                core.send(conn, tid, peer::Body::from(reply));
            }
        }
    }
}
