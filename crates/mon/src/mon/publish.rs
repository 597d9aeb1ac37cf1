//! Publishes maps to subscribers: at once when they subscribe, and after each commit.

use crate::cluster_log::LogLevel;
use crate::domain::managers::Managers;
use crate::domain::mds_ranks::of_name;
use crate::mon::{Mon, Out};
use crate::options::config_for;
use crate::session::{Session, Sub, SubEnd};
use crate::state::State;
use crate::storage::Storage;
use maps::{Epoch, Fscid, Gid, MdsMap};
use msgs::SUBSCRIBE_ONCE;
use node::ConnId;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use stdx::{Buf, Instant, Now};
use wire::{EntityType, Writer};

/// Maximum incrementals in one message.
const INCS_IN_MESSAGE: u32 = 64;

/// Maximum full maps in one message: each is rebuilt from the oldest kept one and incrementals.
const FULLS_IN_MESSAGE: u32 = 8;

/// For this long a subscription to one OSD map brings the following maps too. A client of Ceph asks for the
/// next map when it loses an OSD. If that map has the OSD down but not yet up again, the client asks for
/// another one only after 5 to 15 s, and as long it would wait for an OSD that fell silent. It is therefore
/// told as soon as an OSD goes down, no matter how long ago it asked. The same holds on a new session, on
/// which it does not ask for maps that it already has, and for OSDs that went down up to this long before the
/// session began, because the client may have been between two sessions.
const NEXT_MAPS: Duration = Duration::from_secs(30);

/// A client that has not asked for OSD maps on its session is sent none before the session is this old. A new
/// session knows no OSDs yet, and librados logs a complaint about a map that it is not ready for.
const SETTLED: Duration = Duration::from_secs(1);

impl<S: Storage> Mon<S> {
    /// Publishes after a commit.
    pub(super) fn after_commit(&mut self, now: Now, out: &mut Vec<Out>) {
        self.publish_keys(now.mono, out);
        self.end_joins(now.mono, out);
        let state = self.log.state();
        let map = state.osdmap().clone();
        // These examine all PGs and OSDs; most commits are about something else.
        if self.volatile.osds.is_behind(map.epoch) {
            self.volatile.pgs.follow(&map);
            self.volatile.osds.follow(now.mono, &map);
            self.volatile.failures.follow(&map);
        }
        self.volatile.mds.follow(now.mono, &self.log.state().fsmap.mds_roles);
        let managers = Managers::of(&self.log.state().kv);
        self.volatile.mgrs.follow(now.mono, managers.all().map(|m| m.gid));
        let at_once = usize::try_from(self.option::<u64>("mon_osd_map_told_at_once")).unwrap_or(usize::MAX);
        let later = self.sessions.told_by_others(map.epoch, at_once.max(1));
        for conn in self.sessions.conns() {
            self.publish(now.mono, conn, !later.contains(&conn), out);
        }
    }

    /// Handles `MMonSubscribe`.
    pub(super) fn subscribe(
        &mut self,
        now: Instant,
        conn: ConnId,
        m: msgs::MonSubscribe,
        out: &mut Vec<Out>,
    ) {
        let total = self.log.state().log.total();
        let Some(session) = self.sessions.get_mut(conn) else { return };
        for (what, item) in m.what {
            let service = what.split('.').next().unwrap_or_default();
            let allowed = match service {
                "osdmap" | "nacremap" => session.caps.allows("osd", auth::Perm::R),
                "mdsmap" | "fsmap" => {
                    session.caps.allows("mds", auth::Perm::R) || session.caps.allows("fs", auth::Perm::R)
                }
                _ if log_level(service).is_some() => session.caps.allows("log", auth::Perm::R),
                _ => true,
            };
            let known = matches!(
                service,
                "monmap" | "osdmap" | "mdsmap" | "fsmap" | "config" | "mgrmap" | "nacremap"
            ) || log_level(service).is_some();
            if allowed && known {
                if service == "config" {
                    session.config = None; // asked anew: answered also where nothing changed
                }
                // A watcher of the cluster log wants lines from now on.
                let is_log = log_level(service).is_some() && item.start == 0;
                let start = if is_log { total + 1 } else { item.start };
                let end = if item.flags & SUBSCRIBE_ONCE == 0 { SubEnd::Never } else { SubEnd::Once };
                session.subs.insert(what, Sub { next: start, end });
            }
        }
        let follows = session.is(EntityType::CLIENT) && session.caps.allows("osd", auth::Perm::R);
        if follows && !session.subs.contains_key("osdmap") {
            let lately = self.volatile.osds.lost_one_within(now, NEXT_MAPS);
            let next =
                if lately { self.volatile.osds.newest_loss() } else { self.log.state().osd.epoch().next() };
            let end = SubEnd::Unasked(now + SETTLED);
            session.subs.insert("osdmap".into(), Sub { next: next.0.into(), end });
        }
        self.publish_to(now, conn, out);
    }

    /// Informs sessions of a lost OSD that were too young when it was lost.
    pub(super) fn publish_unasked(&mut self, now: Instant, out: &mut Vec<Out>) {
        if !self.volatile.osds.lost_one_within(now, NEXT_MAPS + SETTLED) {
            return;
        }
        let lost_at = u64::from(self.volatile.osds.newest_loss().0);
        let is_due =
            |sub: &Sub| matches!(sub.end, SubEnd::Unasked(from) if from <= now) && sub.next <= lost_at;
        let waits = |conn: &ConnId| self.sessions.get(*conn).is_some_and(|s| s.subs.values().any(is_due));
        for conn in self.sessions.conns().into_iter().filter(waits).collect::<Vec<_>>() {
            self.publish_to(now, conn, out);
        }
    }

    /// Sends a session the maps that it subscribed to and does not have.
    pub(crate) fn publish_to(&mut self, now: Instant, conn: ConnId, out: &mut Vec<Out>) {
        self.publish(now, conn, true, out);
    }

    /// Like [`Self::publish_to`], with OSD maps only if the session does not get them from other OSDs.
    fn publish(&mut self, now: Instant, conn: ConnId, osdmaps: bool, out: &mut Vec<Out>) {
        let state = self.log.state();
        if state.is_empty() {
            return;
        }
        let lost_at = u64::from(self.volatile.osds.newest_loss().0);
        let Some(session) = self.sessions.get_mut(conn) else { return };
        let mut subs = std::mem::take(&mut session.subs);
        subs.retain(|what, sub| {
            let waits = match sub.end {
                SubEnd::At(end) => end <= now && sub.next > lost_at,
                SubEnd::Unasked(from) => now < from || sub.next > lost_at,
                SubEnd::Never | SubEnd::Once => false,
            };
            if waits || what == "osdmap" && !osdmaps {
                return true;
            }
            let sent = match what.split_once('.').unwrap_or((what, "")) {
                (what, _) if log_level(what).is_some() => log_since(state, what, sub),
                ("monmap", _) => monmap(state, sub),
                ("osdmap", _) => {
                    let bodies = osdmap(state, sub);
                    if !bodies.is_empty() {
                        session.map_share.told();
                    }
                    bodies
                }
                ("nacremap", _) => nacremap(state, sub),
                ("mdsmap", fs) => mdsmap(state, session, fs, sub),
                ("fsmap", which) => fsmap(state, session, which == "user", sub),
                ("config", _) => config(state, session),
                ("mgrmap", _) => mgrmap(state, sub),
                _ => Vec::new(),
            };
            let answered = !sent.is_empty();
            out.extend(sent.into_iter().map(|body| Self::send(conn, 0, body)));
            if !answered || sub.end != SubEnd::Once {
                return true;
            }
            sub.end = SubEnd::At(now + NEXT_MAPS);
            what == "osdmap"
        });
        session.subs = subs;
    }
}

type Bodies = Vec<node::Body>;

fn monmap(state: &State, sub: &mut Sub) -> Bodies {
    let epoch = u64::from(state.monmap.epoch);
    if sub.next > epoch {
        return Vec::new();
    }
    sub.next = epoch + 1;
    vec![msgs::Body::from(msgs::MonMap { map: Writer::encode(&*state.monmap) }).into()]
}

fn osdmap(state: &State, sub: &mut Sub) -> Bodies {
    let newest = state.osd.epoch();
    if sub.next > u64::from(newest.0) {
        return Vec::new();
    }
    let from = Epoch(u32::try_from(sub.next).unwrap_or(u32::MAX));
    sub.next = u64::from(newest.0) + 1;
    osdmaps_since(state, from)
}

/// An empty message that names the available epochs.
fn no_osdmaps(state: &State) -> msgs::OsdMap {
    msgs::OsdMap {
        fsid: state.monmap.fsid,
        oldest: state.osd.oldest(),
        newest: state.osd.epoch(),
        ..msgs::OsdMap::default()
    }
}

/// The messages that bring a subscriber who asks for epochs from `from` on up to the newest: incrementals as
/// far as they are kept. A subscriber who asks from the oldest epoch gets that one in full first, because an
/// OSD of Ceph without a map accepts no other start.
pub(super) fn osdmaps_since(state: &State, from: Epoch) -> Bodies {
    let newest = state.osd.epoch();
    let head = no_osdmaps(state);
    let full = |epoch, bytes: &Buf| {
        let fulls = BTreeMap::from([(epoch, bytes.clone())]);
        node::Body::from(msgs::Body::from(msgs::OsdMap { fulls, ..head.clone() }))
    };
    let (oldest, oldest_full) = state.osd.oldest_full();
    if from.0 == 0 || from < oldest {
        return vec![full(newest, state.osd.full())];
    }
    let mut out = Vec::new();
    let mut at = from.0;
    if from == oldest {
        out.push(full(oldest, oldest_full));
        at += 1;
    }
    while at <= newest.0 {
        let end = newest.0.min(at + INCS_IN_MESSAGE - 1);
        let inc = |e| state.osd.inc(Epoch(e)).map(|bytes| (Epoch(e), bytes.clone()));
        let incrementals = (at..=end).filter_map(inc).collect();
        out.push(msgs::Body::from(msgs::OsdMap { incrementals, ..head.clone() }).into());
        at = end + 1;
    }
    out
}

/// The requested epochs that are still kept, as many as fit into one message. A client that lacks more asks
/// again.
pub(super) fn osdmaps_asked_for(state: &State, m: &msgs::MonGetOsdMap) -> msgs::OsdMap {
    let epochs = |first: Epoch, last: Epoch, most: u32| {
        let first = first.max(state.osd.oldest());
        let last = last.0.min(state.osd.epoch().0).min(first.0.saturating_add(most - 1));
        (first.0..=last).map(Epoch)
    };
    let inc = |e| state.osd.inc(e).map(|bytes| (e, bytes.clone()));
    let full = |e| state.osd.at(e).map(|map| (e, Writer::encode(&*map).into()));
    let wants = |first: Epoch, last: Epoch| first.0 != 0 && last.0 != 0;
    let mut maps = no_osdmaps(state);
    if wants(m.full_first, m.full_last) {
        maps.fulls = epochs(m.full_first, m.full_last, FULLS_IN_MESSAGE).filter_map(full).collect();
    }
    if wants(m.inc_first, m.inc_last) {
        maps.incrementals = epochs(m.inc_first, m.inc_last, INCS_IN_MESSAGE).filter_map(inc).collect();
    }
    maps
}

fn nacremap(state: &State, sub: &mut Sub) -> Bodies {
    let map = state.osd.nacre();
    if sub.next > u64::from(map.epoch.0) {
        return Vec::new();
    }
    sub.next = u64::from(map.epoch.0) + 1;
    vec![peer::Body::from(peer::NacreMap { fsid: state.monmap.fsid, map: (**map).clone() }).into()]
}

fn mdsmap(state: &State, session: &Session, fs: &str, sub: &mut Sub) -> Bodies {
    let (map, name) = mdsmap_for(state, session, fs);
    let epoch = u64::from(map.epoch.0);
    if sub.next > epoch {
        return Vec::new();
    }
    // A subscriber that missed the map in which clients reconnected gets that one first; without it, it would
    // not come back.
    let follows = sub.next > 1 && !session.is(EntityType::MDS);
    let missed = state
        .reconnect_maps
        .values()
        .find(|m| follows && m.fs_name == name && u64::from(m.epoch.0) >= sub.next && m.epoch < map.epoch);
    sub.next = epoch + 1;
    let body = |map: &MdsMap| {
        let (epoch, fs_name) = (map.epoch, name.clone());
        msgs::Body::from(msgs::MdsMap { fsid: state.monmap.fsid, epoch, map: Writer::encode(map), fs_name })
    };
    missed.into_iter().chain([&*map]).map(|map| body(map).into()).collect()
}

/// The map of a session's file system: an MDS its own, a client the one it named or the default.
fn mdsmap_for(state: &State, session: &Session, fs: &str) -> (Arc<MdsMap>, String) {
    let fsmap = &state.fsmap;
    let gid = Gid(session.peer.global_id);
    let fscid = if session.is(EntityType::MDS) {
        fsmap.mds_roles.get(&gid).copied().unwrap_or(Fscid::NONE)
    } else {
        fs.parse().map_or(fsmap.legacy_client_fscid, Fscid)
    };
    let found = fsmap.filesystems.get(&fscid);
    if let Some(found) = found.filter(|f| session.sees_fs(&f.mds_map.fs_name)) {
        return (Arc::new(found.mds_map.clone()), found.mds_map.fs_name.clone());
    }
    // No file system: an empty map, in which a standby finds itself, and one that was replaced the daemon
    // that has its name now.
    let namesake = || of_name(fsmap, &session.name().id).filter(|_| session.is(EntityType::MDS));
    let shown = fsmap.standby_daemons.get(&gid).or_else(namesake);
    let shown = shown.map(|info| (info.gid, info.clone()));
    let map = MdsMap {
        epoch: fsmap.epoch,
        compat: fsmap.default_compat.clone(),
        mds_info: shown.into_iter().collect(),
        ..MdsMap::default()
    };
    (Arc::new(map), String::new())
}

/// The lowest level of a subscription `log-info`, `log-warn` …
fn log_level(what: &str) -> Option<u16> {
    what.strip_prefix("log-").and_then(LogLevel::parse)
}

fn log_since(state: &State, what: &str, sub: &mut Sub) -> Bodies {
    let total = state.log.total();
    if sub.next > total {
        return Vec::new();
    }
    let entries = state.log.since(sub.next, log_level(what).unwrap_or(0));
    sub.next = total + 1;
    if entries.is_empty() {
        return Vec::new();
    }
    let paxos = msgs::Paxos { version: total };
    vec![msgs::Body::from(msgs::Log { paxos, fsid: state.monmap.fsid, entries }).into()]
}

/// The file systems that the session may see, in full or only their names.
fn fsmap(state: &State, session: &Session, names: bool, sub: &mut Sub) -> Bodies {
    let epoch = state.fsmap.epoch;
    if sub.next > u64::from(epoch.0) {
        return Vec::new();
    }
    sub.next = u64::from(epoch.0) + 1;
    let map = session.fsmap(&state.fsmap);
    let body = match names {
        true => msgs::Body::from(msgs::FsMapUser { epoch, map: map.user_map() }),
        false => msgs::Body::from(msgs::FsMap { epoch, map: msgs::Rest(Writer::encode(&*map)) }),
    };
    vec![body.into()]
}

fn mgrmap(state: &State, sub: &mut Sub) -> Bodies {
    let epoch = u64::from(Managers::epoch_of(&state.kv).0);
    if sub.next > epoch {
        return Vec::new();
    }
    sub.next = epoch + 1;
    let map = Managers::of(&state.kv).map();
    vec![msgs::Body::from(msgs::MgrMap { map: msgs::Rest(Writer::encode(&map)) }).into()]
}

fn config(state: &State, session: &mut Session) -> Bodies {
    let config = config_for(state, &session.peer.name.to_string());
    if session.config.as_ref() == Some(&config) {
        return Vec::new();
    }
    session.config = Some(config.clone());
    vec![msgs::Body::from(msgs::Config { config }).into()]
}
