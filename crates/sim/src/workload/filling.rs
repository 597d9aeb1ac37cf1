//! A client that writes until the disks are full, waits, removes its objects, and starts over. Nobody reads
//! its objects; the checkers of the other loads judge the answers to the other clients meanwhile.

use super::{ClientWorld, Load};
use crate::host::HostId;
use crate::objects::object_request;
use crate::oracle::linear::Judgement;
use fsclient::{Answer, Reply, Request};
use msgs::{Extent, Op, osd_flag};
use node::RequestId;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use stdx::{Bufs, Instant, Rng};
use wire::Errno;

/// Size of an object in bytes.
const SIZE: usize = 1 << 20;
/// The most requests of a kind in flight.
const DEPTH: usize = 4;
/// A number of objects beyond what any disk of such a run holds.
const MOST: usize = 100;

/// The load that fills disks.
pub struct FillLoad {
    rng: Rng,
    client: HostId,
    /// The number of the next object.
    next: u32,
    /// Objects that exist or may exist.
    there: BTreeSet<u32>,
    pending: BTreeMap<RequestId, (u32, bool)>,
    removes: bool,
    /// The latest time to turn from writing to removing, and back.
    turn_at: Instant,
    is_over: bool,
    answered: usize,
    refused: usize,
}

impl FillLoad {
    /// The client must be one that never dies: nobody else knows its objects.
    pub fn new(rng: Rng, client: HostId, now: Instant) -> Self {
        Self {
            rng,
            client,
            next: 0,
            there: BTreeSet::new(),
            pending: BTreeMap::new(),
            removes: false,
            turn_at: now + Duration::from_secs(8),
            is_over: false,
            answered: 0,
            refused: 0,
        }
    }

    fn ask(&mut self, world: &mut ClientWorld, number: u32, removes: bool) {
        let data = Bufs::from(vec![number as u8 | 1; SIZE]);
        let op =
            if removes { Op::Delete } else { Op::WriteFull { extent: Extent::new(0, SIZE as u64), data } };
        let mut request = object_request(&format!("fill{number}"), vec![op]);
        if let Request::Object(request) = &mut request
            && removes
        {
            request.flags = osd_flag::FULL_TRY;
        }
        self.pending.insert(world.request(self.client, request), (number, removes));
    }

    /// An object without a request in flight.
    fn idle(&self) -> Option<u32> {
        self.there.iter().copied().find(|n| self.pending.values().all(|(busy, _)| busy != n))
    }

    /// Reports whether another removal, or write, may be requested. Removals do not wait for writes without
    /// space.
    fn is_free(&self, removing: bool) -> bool {
        self.pending.values().filter(|(_, removes)| *removes == removing).count() < DEPTH
    }

    fn may_write(&self) -> bool {
        self.is_free(false) && self.refused == 0 && self.there.len() < MOST
    }
}

impl Load for FillLoad {
    fn wants_at(&self) -> Option<Instant> {
        match self.removes || self.is_over {
            true if self.is_free(true) && self.idle().is_some() => Some(Instant(0)),
            true if self.is_over => None,
            false if self.may_write() => Some(Instant(0)),
            _ => Some(self.turn_at),
        }
    }

    fn issue(&mut self, world: &mut ClientWorld) {
        let now = world.now();
        if self.turn_at <= now && !self.is_over {
            self.removes = !self.removes;
            self.refused = 0;
            self.turn_at = now + Duration::from_millis(self.rng.range(2_000, 8_000));
        }
        let removes = self.removes || self.is_over;
        while removes && self.is_free(true) {
            let Some(number) = self.idle() else { break };
            self.ask(world, number, true);
        }
        while !removes && self.may_write() {
            self.next += 1;
            self.there.insert(self.next);
            self.ask(world, self.next, false);
        }
    }

    fn answered(&mut self, _: &mut ClientWorld, _: HostId, id: RequestId, reply: &Reply) -> bool {
        let Some((number, removes)) = self.pending.remove(&id) else { return false };
        self.answered += 1;
        match reply {
            Ok(Answer::Object { result: Ok(0) | Err(Errno::ENOENT), .. }) if removes => {
                self.there.remove(&number);
            }
            Ok(Answer::Object { result: Err(Errno::ENOSPC), .. }) if !removes => self.refused += 1,
            _ => {}
        }
        true
    }

    fn died(&mut self, _: HostId, _: Instant) {}

    fn faults_ended(&mut self) {
        self.is_over = true;
    }

    fn finish(&mut self, _: &ClientWorld) {}

    fn in_flight(&self) -> Vec<String> {
        let line = |(number, removes): &(u32, bool)| {
            format!("{} fill{number}", if *removes { "removing" } else { "writing" })
        };
        self.pending.values().map(line).collect()
    }

    fn answered_calls(&self) -> usize {
        self.answered
    }

    fn verdicts(&self) -> Vec<(&'static str, Judgement)> {
        Vec::new()
    }
}
