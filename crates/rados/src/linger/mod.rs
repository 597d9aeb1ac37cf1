//! Operations that linger after they were answered (docs/protocol.md 5.6): watches, which stay registered
//! until they are ended, and notifications, which end when their watchers have answered or timed out.
//!
//! An OSD forgets them, except for the stored watch, with the connection and with the PG's interval. So both
//! are registered again, as new operations, when the connection is lost and when an interval begins, in every
//! map between two known ones: a PG may move away in one map and back in the next. A watch that the OSD had
//! dropped by then is broken: its owner is told once, and makes a new one with another cookie.

mod steps;

use crate::Request;
use crate::op::LingerId;
use maps::{ObjectLocator, OsdId, OsdMap, PgId, UpActing, split_off};
use msgs::Op;
use msgs::op::{input, watch_op};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use stdx::Instant;

/// Between two pings of a watch, as Ceph's clients do it.
const PING_EVERY: Duration = Duration::from_secs(5);

#[derive(Debug)]
enum State {
    /// No OSD has acknowledged it yet.
    Registering {
        timeout: u32,
    },
    Registered,
    /// The owner was told that it is broken.
    Broken,
    /// A notification: for watchers, how long they may take in seconds, and the number that the OSD gave it.
    Notifying {
        payload: Vec<u8>,
        timeout: u32,
        notify_id: Option<u64>,
    },
}

#[derive(Debug)]
struct Linger {
    locator: ObjectLocator,
    oid: Vec<u8>,
    state: State,
    /// Interval of its PG; `None` if there is no such pool.
    interval: Option<Interval>,
    /// Counts registrations: answers to earlier ones mean nothing.
    generation: u32,
    /// An OSD has heard of the watch at that time or later.
    alive_at: Instant,
}

/// The parts of a PG's mapping that make an interval.
#[derive(Clone, Debug)]
struct Interval {
    pg: PgId,
    placed: UpActing,
    sizes: (u8, u8),
    pg_num: u32,
    merges: bool,
}

impl Interval {
    fn of(map: &OsdMap, locator: &ObjectLocator, oid: &[u8]) -> Option<Self> {
        let pool = map.pools.get(&locator.pool)?;
        let pg = pool.raw_pg_to_pg(PgId { pool: locator.pool, seed: locator.hash_of(oid) });
        Some(Self {
            pg,
            placed: map.pg_up_acting(pg),
            sizes: (pool.size, pool.min_size),
            pg_num: pool.pg_num,
            merges: pool.is_premerge(pg.seed),
        })
    }

    fn ends_with(&self, next: &Self) -> bool {
        let parts = |old: u32, new: u32| split_off(self.pg.seed, old, new).next().is_some();
        let of = |i: &Self| (i.pg, i.placed.clone(), i.sizes, i.merges);
        of(self) != of(next) || parts(self.pg_num, next.pg_num) || parts(next.pg_num, self.pg_num)
    }
}

/// All of them.
#[derive(Debug, Default)]
pub(crate) struct Lingers {
    all: BTreeMap<LingerId, Linger>,
    /// Time of the next pings.
    ping_at: Option<Instant>,
    /// Those whose interval has ended or whose connection is closed.
    lost: BTreeSet<LingerId>,
}

impl Lingers {
    /// Takes the next map; `whole` if maps before it were skipped.
    pub(crate) fn follow(&mut self, map: &OsdMap, whole: bool) {
        for (id, linger) in &mut self.all {
            let next = Interval::of(map, &linger.locator, &linger.oid);
            let same = match (&linger.interval, &next) {
                (Some(old), Some(new)) => !old.ends_with(new),
                (None, None) => true,
                _ => false,
            };
            if whole || !same {
                self.lost.insert(*id);
            }
            linger.interval = next;
        }
    }

    /// The session with this OSD is lost, and all registrations with it.
    pub(crate) fn session_lost(&mut self, osd: OsdId) {
        let there = |l: &Linger| l.interval.as_ref().is_some_and(|i| i.placed.acting_primary == Some(osd));
        self.lost.extend(self.all.iter().filter(|(_, linger)| there(linger)).map(|(id, _)| *id));
    }

    /// The time at which [`Rados::ping_watches`](crate::Rados::ping_watches) is wanted.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.ping_at
    }
}

impl Linger {
    /// Registers, now or again.
    fn registration(&self, id: LingerId) -> Request {
        match (&self.state, id) {
            (State::Notifying { payload, timeout, .. }, LingerId::Notify(token)) => {
                let payload = payload.clone();
                let data = input::write(&input::NotifyInput { version: 1, timeout: *timeout, payload });
                self.request(Op::Notify { cookie: token, data })
            }
            (State::Registering { timeout }, _) => self.watch(id, watch_op::WATCH, *timeout),
            _ => self.watch(id, watch_op::RECONNECT, 0),
        }
    }

    fn watch(&self, id: LingerId, op: u8, timeout: u32) -> Request {
        let (LingerId::Watch(cookie) | LingerId::Notify(cookie)) = id;
        self.request(Op::Watch { cookie, ver: 0, op, generation: self.generation, timeout })
    }

    fn request(&self, op: Op) -> Request {
        let make = if op.code().writes() { Request::write } else { Request::read };
        let request = make(self.locator.pool, b"", self.oid.clone(), vec![op]);
        Request { locator: self.locator.clone(), ..request }
    }
}
