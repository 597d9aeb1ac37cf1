//! Watches and notifications of one PG's objects, at its primary (docs/protocol.md 5.6).
//!
//! Who watches an object is part of the object, in an xattr of its own: [`StoredWatch`]. This is the rest,
//! which ends with the primary's term: the connections on which watchers are reached, when they were last
//! heard of, and notifications that wait for their acknowledgement. A watch that the object has and this does
//! not know is [found](Watches::found) when the object is next looked at, and has its whole timeout from then
//! on to be taken up again.

use msgs::op::input::{self, NotifyReply};
use msgs::{WatchNotify, notify_op};
use node::ConnId;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use stdx::{Bufs, Instant};
use store::ObjectKey;
use wire::{EntityAddr, EntityId, Errno, Reader, Writer, wire_structs};

/// The store's xattr that holds an object's watches.
pub const WATCH_ATTR: &[u8] = b"watch";
/// Timeout of a silent watch, and of a notification, in seconds, if the client sets none
/// (`osd_client_watch_timeout`, `osd_default_notify_timeout`).
pub const DEFAULT_TIMEOUT: u32 = 30;
/// Version of the encoding of notifications.
const MSG_VERSION: u8 = 1;

/// A watch of an object: the client's number for it, and the client.
pub type Watcher = (u64, EntityId);

wire_structs! {
    /// A stored watch.
    #[derive(Eq)]
    pub struct StoredWatch[v 1/1] {
        /// The client's number for it.
        pub cookie: u64,
        /// The watching client.
        pub client: EntityId,
        /// Timeout in seconds without a sign of life.
        pub timeout: u32,
        /// Address of the client when the watch began.
        pub addr: EntityAddr,
    }
}

impl StoredWatch {
    /// Identity of the watcher.
    pub fn watcher(&self) -> Watcher {
        (self.cookie, self.client)
    }
}

/// An object's watches by their owners.
pub type Stored = BTreeMap<Watcher, StoredWatch>;

/// Parses the xattr; `None` if it is damaged.
pub fn parse(bytes: &[u8]) -> Option<Stored> {
    let all: Vec<StoredWatch> = Reader::new(bytes).get().ok()?;
    Some(all.into_iter().map(|w| (w.watcher(), w)).collect())
}

/// The xattr's value.
pub fn to_bytes(stored: &Stored) -> Vec<u8> {
    Writer::encode(&stored.values().cloned().collect::<Vec<_>>())
}

/// Effects of an executed vector on watches, once what it saw and did is durable.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Effect {
    /// Ties the watch to the requester's connection; with `pings` it ends if they stop.
    Connect { watcher: Watcher, timeout: u32, pings: bool },
    /// The watcher is alive.
    Ping(Watcher),
    /// The object no longer has this watch; `tell`: its client may not know.
    End { watcher: Watcher, tell: bool },
    /// All watchers are to be notified.
    Notify { id: u64, cookie: u64, timeout: u32, version: u64, payload: Vec<u8> },
    /// A watcher acknowledges a notification; without a cookie, all watches of the client do.
    Ack { client: EntityId, id: u64, cookie: Option<u64>, reply: Vec<u8> },
}

/// A message for a client.
pub type Told = (ConnId, WatchNotify);

#[derive(Debug)]
struct Watch {
    timeout: Duration,
    conn: Option<ConnId>,
    /// Address of its client, once known.
    addr: Option<EntityAddr>,
    pings: bool,
    /// `None` for a connected watcher that need not ping.
    expires: Option<Instant>,
    /// Its end has been ordered.
    ending: bool,
    /// Notifications that it has not acknowledged.
    notices: BTreeSet<u64>,
}

#[derive(Debug)]
struct Notice {
    object: ObjectKey,
    conn: Option<ConnId>,
    /// Id of the notifying client.
    client: u64,
    cookie: u64,
    version: u64,
    payload: Vec<u8>,
    waiting: BTreeSet<Watcher>,
    acks: BTreeMap<(u64, u64), Vec<u8>>,
    until: Instant,
}

/// All watches and notifications of a PG.
#[derive(Debug, Default)]
pub struct Watches {
    objects: BTreeMap<ObjectKey, BTreeMap<Watcher, Watch>>,
    notices: BTreeMap<u64, Notice>,
    /// Earliest time at which anything is due.
    due: Option<Instant>,
}

impl Watches {
    /// Forgets everything: another OSD is primary.
    pub fn clear(&mut self) {
        *self = Self::default();
    }

    /// Begins a new interval under the same primary: clients notify again.
    pub fn new_interval(&mut self) {
        self.notices.clear();
        self.objects.values_mut().flat_map(BTreeMap::values_mut).for_each(|w| w.notices.clear());
    }

    /// Records the watches of an object that was accessed.
    pub fn found(&mut self, now: Instant, object: &ObjectKey, stored: &Stored) {
        if stored.is_empty() {
            return;
        }
        if stdx::mutants::is_active("osd_forgets_watches_of_others") {
            return;
        }
        let known = self.objects.entry(object.clone()).or_default();
        for (watcher, stored) in stored {
            let watch = known.entry(*watcher).or_insert_with(|| {
                let watch = Watch::new(Duration::from_secs(stored.timeout.into()), now);
                wake(&mut self.due, watch.expires);
                watch
            });
            watch.addr = Some(stored.addr);
        }
    }

    /// Expires all watches whose clients `are_out`. Returns true if there are any.
    pub fn cut_off(&mut self, now: Instant, are_out: impl Fn(&EntityAddr) -> bool) -> bool {
        let mut any = false;
        for watch in self.objects.values_mut().flat_map(BTreeMap::values_mut).filter(|w| !w.ending) {
            if watch.addr.as_ref().is_some_and(&are_out) {
                (watch.expires, watch.conn, any) = (Some(now), None, true);
            }
        }
        self.due = if any { Some(now) } else { self.due };
        any
    }

    /// Records the address of a watch's client.
    pub fn is_at(&mut self, object: &ObjectKey, watcher: Watcher, addr: EntityAddr) {
        if let Some(watch) = self.watch(object, watcher) {
            watch.addr = Some(addr);
        }
    }

    /// Notes a request that shows that a watcher is alive. This is done on arrival: the request may have to
    /// wait for others, and for longer than the watch's timeout. With `conn`, only a watch with that
    /// connection counts.
    pub fn heard_of(&mut self, now: Instant, object: &ObjectKey, watcher: Watcher, conn: Option<ConnId>) {
        if let Some(watch) = self.watch(object, watcher).filter(|w| conn.is_none() || w.conn == conn) {
            watch.expires = watch.expires.map(|at| at.max(now + watch.timeout));
        }
    }

    /// True if a watch has a connection.
    pub fn is_connected(&self, object: &ObjectKey, watcher: Watcher) -> bool {
        self.objects.get(object).and_then(|w| w.get(&watcher)).is_some_and(|w| w.conn.is_some())
    }

    /// Applies an effect of a vector on `object`, which came on `conn` from `client`.
    pub fn apply(
        &mut self,
        now: Instant,
        object: &ObjectKey,
        from: (Option<ConnId>, EntityId),
        effect: Effect,
        out: &mut Vec<Told>,
    ) {
        match effect {
            Effect::Connect { watcher, timeout, pings } => {
                if let Some(conn) = from.0 {
                    self.connect(
                        now,
                        object,
                        (watcher, Duration::from_secs(timeout.into())),
                        (conn, pings),
                        out,
                    );
                }
            }
            Effect::Ping(watcher) => {
                if let Some(watch) = self.watch(object, watcher).filter(|w| w.conn.is_some()) {
                    watch.expires = Some(now + watch.timeout);
                }
            }
            Effect::End { watcher, tell } => self.end(object, watcher, tell, out),
            Effect::Notify { id, cookie, timeout, version, payload } => {
                let notice = Notice {
                    object: object.clone(),
                    conn: from.0,
                    client: from.1.num as u64,
                    cookie,
                    version,
                    payload,
                    waiting: BTreeSet::new(),
                    acks: BTreeMap::new(),
                    until: now + Duration::from_secs(timeout.into()),
                };
                self.notify(id, notice, out);
            }
            Effect::Ack { client, id, cookie, reply } => self.ack(object, client, (id, cookie), &reply, out),
        }
    }

    fn watch(&mut self, object: &ObjectKey, watcher: Watcher) -> Option<&mut Watch> {
        self.objects.get_mut(object)?.get_mut(&watcher)
    }

    fn connect(
        &mut self,
        now: Instant,
        object: &ObjectKey,
        (watcher, timeout): (Watcher, Duration),
        (conn, pings): (ConnId, bool),
        out: &mut Vec<Told>,
    ) {
        let known = self.objects.entry(object.clone()).or_default();
        let watch = known.entry(watcher).or_insert_with(|| Watch::new(timeout, now));
        if watch.conn == Some(conn) {
            return;
        }
        (watch.conn, watch.pings) = (Some(conn), pings);
        watch.expires = pings.then(|| now + watch.timeout);
        wake(&mut self.due, watch.expires);
        let missed = watch.notices.iter().filter_map(|id| Some((*id, self.notices.get(id)?)));
        out.extend(missed.map(|(id, notice)| (conn, notice.message(id, watcher.0))));
    }

    fn end(&mut self, object: &ObjectKey, watcher: Watcher, tell: bool, out: &mut Vec<Told>) {
        let Some(known) = self.objects.get_mut(object) else { return };
        let Some(watch) = known.remove(&watcher) else { return };
        if known.is_empty() {
            self.objects.remove(object);
        }
        if let (true, Some(conn)) = (tell, watch.conn) {
            let gone = WatchNotify {
                msg_version: MSG_VERSION,
                opcode: notify_op::DISCONNECT,
                cookie: watcher.0,
                ..WatchNotify::default()
            };
            out.push((conn, gone));
        }
        for id in watch.notices {
            if let Some(notice) = self.notices.get_mut(&id) {
                notice.waiting.remove(&watcher);
            }
            self.complete(id, false, out);
        }
    }

    fn notify(&mut self, id: u64, mut notice: Notice, out: &mut Vec<Told>) {
        for (watcher, watch) in self.objects.get_mut(&notice.object).into_iter().flatten() {
            // Also for a watcher whose ping is overdue: until its end is ordered it may return, and would not
            // know what it missed.
            if watch.conn.is_none() && stdx::mutants::is_active("osd_notifies_only_who_is_connected") {
                continue;
            }
            watch.notices.insert(id);
            notice.waiting.insert(*watcher);
            if let Some(conn) = watch.conn {
                out.push((conn, notice.message(id, watcher.0)));
            }
        }
        wake(&mut self.due, Some(notice.until));
        self.notices.insert(id, notice);
    }

    fn ack(
        &mut self,
        object: &ObjectKey,
        client: EntityId,
        (id, cookie): (u64, Option<u64>),
        reply: &[u8],
        out: &mut Vec<Told>,
    ) {
        let watches = self.objects.get_mut(object).into_iter().flatten();
        let theirs = watches.filter(|((c, who), _)| *who == client && cookie.is_none_or(|want| want == *c));
        for (watcher, watch) in theirs {
            if watch.notices.remove(&id)
                && let Some(notice) = self.notices.get_mut(&id)
            {
                notice.waiting.remove(watcher);
                notice.acks.insert((client.num as u64, watcher.0), reply.to_vec());
            }
        }
        self.complete(id, false, out);
    }

    /// Completes notifications of a request whose watchers have all answered, or that nobody watches.
    pub fn complete_ready(&mut self, out: &mut Vec<Told>) {
        let ready = self.notices.iter().filter(|(_, n)| n.waiting.is_empty()).map(|(id, _)| *id);
        for id in ready.collect::<Vec<_>>() {
            self.complete(id, false, out);
        }
    }

    fn complete(&mut self, id: u64, late: bool, out: &mut Vec<Told>) {
        if !late && self.notices.get(&id).is_none_or(|n| !n.waiting.is_empty()) {
            return;
        }
        let Some(notice) = self.notices.remove(&id) else { return };
        for watcher in &notice.waiting {
            if let Some(watch) = self.watch(&notice.object, *watcher) {
                watch.notices.remove(&id);
            }
        }
        if let Some(conn) = notice.conn {
            let data = input::write(&NotifyReply {
                acks: notice.acks.into_iter().collect(),
                missed: notice.waiting.iter().map(|(cookie, who)| (who.num as u64, *cookie)).collect(),
            });
            let done = WatchNotify {
                msg_version: MSG_VERSION,
                opcode: notify_op::NOTIFY_COMPLETE,
                cookie: notice.cookie,
                ver: notice.version,
                notify_id: id,
                payload: Vec::new(),
                return_code: if late { Errno::ETIMEDOUT.to_result_code() } else { 0 },
                notifier_gid: notice.client,
                data,
            };
            out.push((conn, done));
        }
    }

    /// Handles the loss of a client's connection; its watches stay until their timeout.
    pub fn disconnected(&mut self, now: Instant, conn: ConnId) {
        for watch in self.objects.values_mut().flat_map(BTreeMap::values_mut).filter(|w| w.conn == Some(conn))
        {
            watch.conn = None;
            watch.expires = watch.expires.or(Some(now + watch.timeout));
            wake(&mut self.due, watch.expires);
        }
        for notice in self.notices.values_mut().filter(|n| n.conn == Some(conn)) {
            notice.conn = None;
        }
    }

    /// Time at which something may be due.
    pub fn deadline(&self) -> Option<Instant> {
        self.due
    }

    fn next_due(&self) -> Option<Instant> {
        let watches = self.objects.values().flat_map(BTreeMap::values).filter(|w| !w.ending);
        watches.filter_map(|w| w.expires).chain(self.notices.values().map(|n| n.until)).min()
    }

    /// Completes expired notifications, and returns expired watches: their end is ordered like any change of
    /// the object.
    pub fn expire(&mut self, now: Instant, out: &mut Vec<Told>) -> Vec<(ObjectKey, Watcher)> {
        if self.due.is_none_or(|at| at > now) {
            return Vec::new();
        }
        let late = self.notices.iter().filter(|(_, n)| n.until <= now).map(|(id, _)| *id);
        for id in late.collect::<Vec<_>>() {
            self.complete(id, true, out);
        }
        let mut gone = Vec::new();
        for (object, watches) in &mut self.objects {
            for (watcher, watch) in watches {
                if !watch.ending && watch.expires.is_some_and(|at| at <= now) {
                    watch.ending = true;
                    gone.push((object.clone(), *watcher));
                }
            }
        }
        self.due = self.next_due();
        gone
    }

    /// True if the client of a watch that was to be ended has returned since.
    pub fn has_returned(&self, now: Instant, object: &ObjectKey, watcher: Watcher) -> bool {
        let watch = self.objects.get(object).and_then(|w| w.get(&watcher));
        watch.is_some_and(|w| w.expires.is_none_or(|at| at > now))
    }

    /// Keeps a watch whose end was not ordered: its timeout starts over.
    pub fn keep(&mut self, now: Instant, object: &ObjectKey, watcher: Watcher) {
        let Some(watch) = self.watch(object, watcher) else { return };
        watch.ending = false;
        if watch.expires.is_some_and(|at| at <= now) {
            watch.expires = Some(now + watch.timeout);
        }
        let expires = watch.expires;
        wake(&mut self.due, expires);
    }
}

/// Notes that something is due at `at`.
fn wake(due: &mut Option<Instant>, at: Option<Instant>) {
    *due = due.iter().copied().chain(at).min();
}

impl Watch {
    /// A watch of which no sign of life has been seen yet.
    fn new(timeout: Duration, now: Instant) -> Self {
        let expires = Some(now + timeout);
        Self {
            timeout,
            conn: None,
            addr: None,
            pings: false,
            expires,
            ending: false,
            notices: BTreeSet::new(),
        }
    }
}

impl Notice {
    fn message(&self, id: u64, cookie: u64) -> WatchNotify {
        WatchNotify {
            msg_version: MSG_VERSION,
            opcode: notify_op::NOTIFY,
            cookie,
            ver: self.version,
            notify_id: id,
            payload: self.payload.clone(),
            return_code: 0,
            notifier_gid: self.client,
            data: Bufs::new(),
        }
    }
}
