//! Metadata servers: their beacons, who holds which rank, what happens when one is silent.

use crate::edit::Edit;
use crate::entry::Change;
use crate::mon::{Mon, Out};
use crate::soft::MdsSeen;
use crate::storage::Storage;
use crate::syslog::LogLevel;
use maps::{Epoch, Fscid, Gid, MdsInfo, MdsMap, MdsRank, MdsState};
use node::ConnId;
use std::time::Duration;
use stdx::{Instant, Now};
use wire::{EntityName, EntityType, Utime};

/// How long a failed MDS's address may not write: Ceph's `mds_blocklist_interval`.
const BLOCKLIST: Duration = Duration::from_secs(24 * 3600);
/// An MDS whose session ended and that does not come back for so long is replaced, if somebody can.
const SESSION_GRACE: Duration = Duration::from_secs(2);

impl<S: Storage> Mon<S> {
    pub(crate) fn mds_beacon(
        &mut self,
        now: Now,
        conn: ConnId,
        tid: u64,
        m: peer::MdsBeacon,
        out: &mut Vec<Out>,
    ) {
        let is_mds = self.sessions.get(conn).is_some_and(|s| {
            s.is(EntityType::MDS) && s.name().id == m.name && s.caps.allows("mds", auth::Perm::X)
        });
        if !is_mds || m.fsid != self.log.state().monmap.fsid {
            let text = format!("beacon of mds.{} from {}", m.name, self.who(conn));
            out.push(node::Output::Event(node::Event::new(node::Level::Warn, "mds_beacon_refused", text)));
            return;
        }
        self.soft.mds_seen.insert(m.gid, MdsSeen { at: now.mono, conn: Some(conn) });
        let (answer, index) = self.edit(now, |edit| beacon(edit, &m));
        if answer == Answer::Gone {
            // It was replaced: it must see the map without itself and stop.
            let state = self.log.state();
            let map = MdsMap { epoch: state.fsmap.epoch, ..MdsMap::default() };
            let body = msgs::MdsMap {
                fsid: m.fsid,
                epoch: map.epoch,
                map: wire::Writer::encode(&map),
                fs_name: String::new(),
            };
            out.push(Self::send(conn, 0, msgs::Body::from(body)));
            return;
        }
        let epoch = self.log.tail().fsmap.epoch;
        let ack = peer::MdsBeacon { metadata: Default::default(), health: Default::default(), epoch, ..m };
        self.after(index, Self::send(conn, tid, peer::Body::from(ack)), out);
    }

    pub(crate) fn mds_session_closed(&mut self, now: Instant, conn: ConnId) {
        for seen in self.soft.mds_seen.values_mut() {
            if seen.conn == Some(conn) {
                *seen = MdsSeen { at: now, conn: None };
            }
        }
    }

    pub(crate) fn start_mds_soft(&mut self, now: Instant) {
        self.follow_fsmap(now);
    }

    /// Keeps the clocks in step with a new map.
    pub(crate) fn follow_fsmap(&mut self, now: Instant) {
        let roles = &self.log.state().fsmap.mds_roles;
        self.soft.mds_seen.retain(|gid, seen| roles.contains_key(gid) || seen.conn.is_some());
        for gid in roles.keys() {
            self.soft.mds_seen.entry(*gid).or_insert(MdsSeen { at: now, conn: None });
        }
    }

    /// Replaces silent metadata servers and gives ranks to standbys.
    pub(crate) fn tick_mdss(&mut self, now: Now) {
        let grace: Duration = self.option("mds_beacon_grace");
        let late = |seen: &MdsSeen| match seen.conn {
            Some(_) => now.mono.since(seen.at) > grace,
            None => now.mono.since(seen.at) > SESSION_GRACE.min(grace),
        };
        // After a restart of the monitor everyone gets the whole grace to come back.
        let settled = now.mono.since(self.soft.since) > grace;
        let silent: Vec<Gid> =
            self.soft.mds_seen.iter().filter(|(_, s)| settled && late(s)).map(|(gid, _)| *gid).collect();
        let fsmap = self.log.tail().fsmap.clone();
        let silent: Vec<Gid> = silent.into_iter().filter(|gid| fsmap.mds_roles.contains_key(gid)).collect();
        if silent.is_empty() && !needs_assignment(&fsmap) {
            return;
        }
        let wait_for_standby = grace;
        let seen = self.soft.mds_seen.clone();
        let (failed, _) = self.edit(now, |edit| {
            let mut failed = Vec::new();
            for gid in silent {
                let fsmap = edit.fsmap_now();
                let standby = fsmap.standby_daemons.contains_key(&gid);
                let replaceable = fsmap
                    .standby_daemons
                    .keys()
                    .any(|g| !standby_is_silent(&seen, *g, now, wait_for_standby));
                let over_grace = seen.get(&gid).is_some_and(|s| now.mono.since(s.at) > wait_for_standby);
                if standby && over_grace || !standby && replaceable {
                    failed.push(fail(edit, gid));
                } else if !standby && over_grace {
                    mark_laggy(edit, gid);
                }
            }
            assign(edit);
            failed
        });
        for name in failed.into_iter().flatten() {
            self.say(now, LogLevel::Warn, format!("mds.{name} is silent and was removed"));
        }
    }
}

fn standby_is_silent(
    seen: &std::collections::BTreeMap<Gid, MdsSeen>,
    gid: Gid,
    now: Now,
    grace: Duration,
) -> bool {
    seen.get(&gid).is_none_or(|s| s.conn.is_none() || now.mono.since(s.at) > grace)
}

/// What an MDS is answered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Answer {
    /// Its beacon, as acknowledgement.
    Ack,
    /// The map without it.
    Gone,
}

fn beacon(edit: &mut Edit<'_>, m: &peer::MdsBeacon) -> Answer {
    if !edit.fsmap_now().mds_roles.contains_key(&m.gid) {
        if m.state != MdsState::BOOT {
            return Answer::Gone;
        }
        boot(edit, m);
        assign(edit);
        return Answer::Ack;
    }
    if m.state == MdsState::NULL || m.state == MdsState::STOPPED {
        fail(edit, m.gid);
        assign(edit);
        return Answer::Ack;
    }
    let Some((fscid, info)) = find(edit.fsmap_now(), m.gid) else { return Answer::Gone };
    let (old, laggy) = (info.state, info.laggy_since != Utime::default());
    let Some(fscid) = fscid else { return Answer::Ack };
    if m.state == MdsState::DAMAGED {
        let rank = info.rank;
        fail(edit, m.gid);
        let fs = edit.filesystem(fscid);
        fs.failed.remove(&rank);
        fs.damaged.insert(rank);
        return Answer::Ack;
    }
    let moves = m.state != old && m.seq > info.state_seq && may_move(old, m.state);
    if moves || laggy {
        let fs = edit.filesystem(fscid);
        let info = fs.mds_info.get_mut(&m.gid).expect("was found there");
        info.laggy_since = Utime::default();
        if moves {
            info.state = m.state;
            info.state_seq = m.seq;
            edit.notes.push(format!("mds.{} {} -> {}", m.name, old.name(), m.state.name()));
        }
    }
    Answer::Ack
}

/// The steps that an MDS takes by itself.
fn may_move(from: MdsState, to: MdsState) -> bool {
    type S = MdsState;
    match to {
        S::ACTIVE => matches!(from, S::CREATING | S::STARTING | S::REJOIN | S::CLIENTREPLAY | S::RECONNECT),
        S::CLIENTREPLAY => from == S::REJOIN,
        S::REJOIN => matches!(from, S::RECONNECT | S::REPLAY),
        S::RECONNECT => matches!(from, S::REPLAY | S::RESOLVE),
        S::RESOLVE => from == S::REPLAY,
        S::STOPPING => from == S::ACTIVE,
        _ => false,
    }
}

/// Where an MDS is: in a file system, or `None` for a standby.
fn find(fsmap: &maps::FsMap, gid: Gid) -> Option<(Option<Fscid>, &MdsInfo)> {
    let fscid = *fsmap.mds_roles.get(&gid)?;
    match fsmap.filesystems.get(&fscid) {
        Some(fs) => fs.mds_map.mds_info.get(&gid).map(|info| (Some(fscid), info)),
        None => fsmap.standby_daemons.get(&gid).map(|info| (None, info)),
    }
}

fn boot(edit: &mut Edit<'_>, m: &peer::MdsBeacon) {
    // A new run of a daemon that is still in the map: the old one can't be alive.
    let all = edit.fsmap_now().mds_roles.keys().copied().collect::<Vec<_>>();
    let same = |gid: &Gid| find(edit.fsmap_now(), *gid).is_some_and(|(_, info)| info.name == m.name);
    let old: Vec<Gid> = all.into_iter().filter(same).collect();
    for gid in old {
        fail(edit, gid);
    }
    let info = MdsInfo {
        gid: m.gid,
        name: m.name.clone(),
        rank: MdsRank::NONE,
        state: MdsState::STANDBY,
        state_seq: m.seq,
        addrs: m.addrs.clone(),
        standby_for_rank: MdsRank::NONE,
        features: m.features,
        join_fscid: m.join_fs,
        compat: edit.fsmap_now().default_compat.clone(),
        ..MdsInfo::default()
    };
    let map = edit.fsmap();
    let epoch = map.epoch;
    map.standby_daemons.insert(m.gid, info);
    map.standby_epochs.insert(m.gid, epoch);
    map.mds_roles.insert(m.gid, Fscid::NONE);
    let name = EntityName::new(EntityType::MDS, m.name.clone());
    if edit.base.metadata.get(&name) != Some(&m.metadata) {
        edit.push(Change::Metadata(name, Some(m.metadata.clone())));
    }
    edit.notes.push(format!("mds.{} {} is a standby", m.name, m.addrs));
}

/// Takes an MDS out of the map. Its rank waits for another one, and its address may not write any more. Gives its name.
pub(crate) fn fail(edit: &mut Edit<'_>, gid: Gid) -> Option<String> {
    let (fscid, info) = find(edit.fsmap_now(), gid)?;
    let info = info.clone();
    if let Some(fscid) = fscid {
        let until = edit.now.wall + BLOCKLIST;
        let osd_epoch: Epoch = edit.osd().epoch;
        for addr in &info.addrs.0 {
            edit.osd().new_blocklist.insert(*addr, until.into());
        }
        let fs = edit.filesystem(fscid);
        fs.last_failure_osd_epoch = osd_epoch;
        fs.last_failure = fs.epoch;
        fs.mds_info.remove(&gid);
        if info.rank != MdsRank::NONE {
            fs.up.remove(&info.rank);
            if info.state == MdsState::CREATING {
                fs.r#in.remove(&info.rank); // nothing was made yet: the next one begins anew
            } else {
                fs.failed.insert(info.rank);
            }
        }
    }
    let map = edit.fsmap();
    map.standby_daemons.remove(&gid);
    map.standby_epochs.remove(&gid);
    map.mds_roles.remove(&gid);
    Some(info.name)
}

fn mark_laggy(edit: &mut Edit<'_>, gid: Gid) {
    let stamp = edit.stamp();
    let Some((Some(fscid), info)) = find(edit.fsmap_now(), gid) else { return };
    if info.laggy_since == Utime::default() {
        let fs = edit.filesystem(fscid);
        fs.mds_info.get_mut(&gid).expect("was found there").laggy_since = stamp;
    }
}

/// Whether a rank waits and a standby is there.
fn needs_assignment(fsmap: &maps::FsMap) -> bool {
    !fsmap.standby_daemons.is_empty()
        && fsmap.filesystems.values().any(|fs| wanted_rank(&fs.mds_map).is_some())
}

/// The rank that a file system needs somebody for, and the state to begin in.
fn wanted_rank(fs: &MdsMap) -> Option<(MdsRank, MdsState)> {
    if fs.flags & MdsMap::NOT_JOINABLE != 0 {
        return None;
    }
    if let Some(rank) = fs.failed.first() {
        return Some((*rank, MdsState::REPLAY));
    }
    // Damaged ranks wait for a person.
    let rank = (0..fs.max_mds).map(MdsRank).find(|r| !fs.r#in.contains(r))?;
    let state = if fs.stopped.contains(&rank) { MdsState::STARTING } else { MdsState::CREATING };
    Some((rank, state))
}

/// Gives ranks to standbys as long as there are both.
pub(crate) fn assign(edit: &mut Edit<'_>) {
    loop {
        let fsmap = edit.fsmap_now();
        let Some((fscid, (rank, state))) =
            fsmap.filesystems.iter().find_map(|(id, fs)| wanted_rank(&fs.mds_map).map(|w| (*id, w)))
        else {
            return;
        };
        let fits = |info: &&MdsInfo| info.join_fscid == fscid;
        let any = fsmap.standby_daemons.values();
        let Some(info) = any.clone().find(fits).or_else(|| any.clone().next()) else { return };
        let mut info = info.clone();
        let map = edit.fsmap();
        map.standby_daemons.remove(&info.gid);
        map.standby_epochs.remove(&info.gid);
        map.mds_roles.insert(info.gid, fscid);
        let fs = edit.filesystem(fscid);
        let inc = fs.inc.entry(rank).or_default();
        *inc += 1;
        (info.rank, info.state, info.inc) = (rank, state, *inc);
        fs.r#in.insert(rank);
        fs.failed.remove(&rank);
        fs.stopped.remove(&rank);
        fs.up.insert(rank, info.gid);
        let note = format!("mds.{} takes rank {rank} of `{}` ({})", info.name, fs.fs_name, info.state.name());
        fs.mds_info.insert(info.gid, info);
        edit.notes.push(note);
    }
}
