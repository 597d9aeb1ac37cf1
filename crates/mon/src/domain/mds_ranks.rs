//! Ranks of metadata servers: beacons, failures, and who takes a rank.

use crate::edit::Edit;
use crate::entry::Change;
use maps::{Epoch, Fscid, Gid, MdsInfo, MdsMap, MdsRank, MdsState};
use std::cmp::Reverse;
use std::time::Duration;
use wire::{EntityName, EntityType, Utime};

/// Time for which a failed MDS's address is blocklisted: Ceph's `mds_blocklist_interval`.
const BLOCKLIST: Duration = Duration::from_secs(24 * 3600);

/// The answer to a beacon.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Answer {
    /// Acknowledges the beacon.
    Ack,
    /// Sends the map that no longer has this MDS.
    Gone,
}

pub(crate) fn beacon(edit: &mut Edit<'_>, m: &peer::MdsBeacon) -> Answer {
    if !edit.fsmap_now().mds_roles.contains_key(&m.gid) {
        if m.state != MdsState::BOOT || is_of_predecessor(edit.fsmap_now(), m) {
            return Answer::Gone;
        }
        boot(edit, m);
        assign(edit);
        return Answer::Ack;
    }
    let Some((fscid, info)) = find(edit.fsmap_now(), m.gid) else { return Answer::Gone };
    if m.state == MdsState::NULL || m.state == MdsState::STOPPED {
        match fscid {
            Some(fscid) if info.state == MdsState::STOPPING => stopped(edit, fscid, m.gid),
            _ => drop(fail(edit, m.gid)),
        }
        assign(edit);
        return Answer::Ack;
    }
    let (old, laggy) = (info.state, info.laggy_since != Utime::default());
    let Some(fscid) = fscid else { return Answer::Ack };
    if m.state == MdsState::DAMAGED && old != MdsState::STANDBY_REPLAY {
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
    if moves && m.state == MdsState::ACTIVE {
        stop_surplus(edit, fscid);
    }
    Answer::Ack
}

/// Begins to stop the last rank of a file system that has more than `max_mds`, one at a time: it hands over
/// all that it has to the others.
pub(crate) fn stop_surplus(edit: &mut Edit<'_>, fscid: Fscid) {
    let fs = &edit.fsmap_now().filesystems[&fscid].mds_map;
    let surplus = fs.r#in.last().filter(|rank| rank.0 >= fs.max_mds).copied();
    // One that is not active stops when it is.
    let Some(rank) = surplus.filter(|rank| fs.state_of(*rank) == MdsState::ACTIVE) else { return };
    let gid = fs.up[&rank];
    let fs = edit.filesystem(fscid);
    let info = fs.mds_info.get_mut(&gid).expect("the holder of a rank");
    info.state = MdsState::STOPPING;
    let note = format!("mds.{} stops rank {rank} of `{}`", info.name, fs.fs_name);
    edit.notes.push(note);
}

/// A rank has handed over everything. Its daemon boots anew, as a standby.
fn stopped(edit: &mut Edit<'_>, fscid: Fscid, gid: Gid) {
    let fs = edit.filesystem(fscid);
    let info = fs.mds_info.remove(&gid).expect("was found there");
    fs.up.remove(&info.rank);
    fs.r#in.remove(&info.rank);
    fs.stopped.insert(info.rank);
    let note = format!("rank {} of `{}` has stopped", info.rank, fs.fs_name);
    edit.notes.push(note);
    edit.fsmap().mds_roles.remove(&gid);
    let follower = follower_of(&edit.fsmap_now().filesystems[&fscid].mds_map, info.rank).map(|info| info.gid);
    follower.map(|gid| fail(edit, gid));
    stop_surplus(edit, fscid);
}

/// True if a daemon of the same name joined after the sender's map. The beacon is a late one of the run
/// before it, or the sender repeats it when it has seen the map.
fn is_of_predecessor(fsmap: &maps::FsMap, m: &peer::MdsBeacon) -> bool {
    let Some(namesake) = of_name(fsmap, &m.name) else { return false };
    let of_file_system =
        || fsmap.filesystems.get(fsmap.mds_roles.get(&namesake.gid)?).map(|fs| fs.mds_map.epoch);
    let joined = fsmap.standby_epochs.get(&namesake.gid).copied().or_else(of_file_system);
    joined.is_some_and(|joined| m.epoch < joined)
}

/// State changes that an MDS may make by itself.
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

/// What the map says of an MDS.
pub(crate) fn info_of(fsmap: &maps::FsMap, gid: Gid) -> Option<&MdsInfo> {
    find(fsmap, gid).map(|(_, info)| info)
}

/// The MDS of a name, if the map has one.
pub(crate) fn of_name<'a>(fsmap: &'a maps::FsMap, name: &str) -> Option<&'a MdsInfo> {
    fsmap.mds_roles.keys().filter_map(|gid| info_of(fsmap, *gid)).find(|info| info.name == name)
}

/// Finds an MDS: in a file system, or `None` for a standby.
fn find(fsmap: &maps::FsMap, gid: Gid) -> Option<(Option<Fscid>, &MdsInfo)> {
    let fscid = *fsmap.mds_roles.get(&gid)?;
    match fsmap.filesystems.get(&fscid) {
        Some(fs) => fs.mds_map.mds_info.get(&gid).map(|info| (Some(fscid), info)),
        None => fsmap.standby_daemons.get(&gid).map(|info| (None, info)),
    }
}

fn boot(edit: &mut Edit<'_>, m: &peer::MdsBeacon) {
    // A new incarnation of a daemon that is still in the map: the old one must be dead.
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

/// Removes an MDS from the map and returns its name. Its rank becomes vacant, and its address is blocklisted.
pub(crate) fn fail(edit: &mut Edit<'_>, gid: Gid) -> Option<String> {
    // It or its successor may be the first standby, and gone before the next look.
    want_standbys(edit);
    let (fscid, info) = find(edit.fsmap_now(), gid)?;
    let info = info.clone();
    if let Some(fscid) = fscid.filter(|_| info.state == MdsState::STANDBY_REPLAY) {
        // It has written nothing, and the rank is not its own.
        edit.filesystem(fscid).mds_info.remove(&gid);
    } else if let Some(fscid) = fscid {
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

pub(crate) fn mark_laggy(edit: &mut Edit<'_>, gid: Gid) {
    let stamp = edit.stamp();
    let Some((Some(fscid), info)) = find(edit.fsmap_now(), gid) else { return };
    if info.laggy_since == Utime::default() {
        let fs = edit.filesystem(fscid);
        fs.mds_info.get_mut(&gid).expect("was found there").laggy_since = stamp;
    }
}

/// True if a rank is vacant and a standby exists, or one should follow a rank.
pub(crate) fn needs_assignment(fsmap: &maps::FsMap) -> bool {
    let mut all = fsmap.filesystems.values().map(|fs| &fs.mds_map);
    match fsmap.standby_daemons.is_empty() {
        true => all.any(|fs| wanted_rank(fs).is_some_and(|(rank, _)| follower_of(fs, rank).is_some())),
        false => all.any(|fs| wanted_rank(fs).is_some() || lacks_follower(fs).is_some()),
    }
}

/// The standbys that follow the journals of a file system's ranks.
pub(crate) fn followers(fs: &MdsMap) -> impl Iterator<Item = &MdsInfo> {
    fs.mds_info.values().filter(|info| info.state == MdsState::STANDBY_REPLAY)
}

/// The standby that follows a rank's journal.
fn follower_of(fs: &MdsMap, rank: MdsRank) -> Option<&MdsInfo> {
    followers(fs).find(|info| info.rank == rank)
}

/// The active rank that a standby should follow.
fn lacks_follower(fs: &MdsMap) -> Option<MdsRank> {
    let is_allowed = fs.flags & MdsMap::ALLOW_STANDBY_REPLAY != 0 && fs.flags & MdsMap::NOT_JOINABLE == 0;
    let mut held = fs.up.keys().filter(|rank| fs.state_of(**rank) == MdsState::ACTIVE);
    held.find(|rank| is_allowed && follower_of(fs, **rank).is_none()).copied()
}

/// True if a standby is there for a rank of a file system: idle, or following.
pub(crate) fn has_standby(fsmap: &maps::FsMap, gid: Gid, is_alive: impl Fn(Gid) -> bool) -> bool {
    let fs = fsmap.mds_roles.get(&gid).and_then(|id| fsmap.filesystems.get(id));
    let following = fs.into_iter().flat_map(|fs| followers(&fs.mds_map));
    following.chain(fsmap.standby_daemons.values()).any(|info| is_alive(info.gid))
}

/// True if an MDS serves no rank: its failure needs no replacement.
pub(crate) fn is_standby(fsmap: &maps::FsMap, gid: Gid) -> bool {
    let idle = [MdsState::STANDBY, MdsState::STANDBY_REPLAY];
    info_of(fsmap, gid).is_some_and(|info| idle.contains(&info.state))
}

/// Standbys from which on a file system counts on having one, unless an administrator said how many.
const COUNTED_ON: i32 = 1;

fn counts_on_standbys(fs: &MdsMap) -> bool {
    fs.standby_count_wanted < 0 && !fs.up.is_empty()
}

/// True if a file system has a standby for the first time.
pub(crate) fn wants_standby_count(fsmap: &maps::FsMap) -> bool {
    let has_one = |fs: &MdsMap| !fsmap.standby_daemons.is_empty() || followers(fs).next().is_some();
    fsmap.filesystems.values().any(|fs| counts_on_standbys(&fs.mds_map) && has_one(&fs.mds_map))
}

/// Notes that a file system has had a standby, so that health tells when there is none any more.
pub(crate) fn want_standbys(edit: &mut Edit<'_>) {
    if wants_standby_count(edit.fsmap_now()) {
        let all = edit.fsmap_now().filesystems.iter().filter(|(_, fs)| counts_on_standbys(&fs.mds_map));
        for id in all.map(|(id, _)| *id).collect::<Vec<_>>() {
            edit.filesystem(id).standby_count_wanted = COUNTED_ON;
        }
    }
}

/// The vacant rank of a file system, and the state that its next MDS begins in.
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

/// Assigns ranks to standbys as long as there are both, and then followers to ranks.
pub(crate) fn assign(edit: &mut Edit<'_>) {
    assign_ranks(edit);
    assign_followers(edit);
}

fn assign_ranks(edit: &mut Edit<'_>) {
    while let Some((fscid, rank, state, gid)) = next_assignment(edit) {
        let mut info = take_standby(edit, fscid, gid);
        let fs = edit.filesystem(fscid);
        let inc = fs.inc.entry(rank).or_default();
        *inc += 1;
        (info.rank, info.state, info.inc) = (rank, state, *inc);
        fs.r#in.insert(rank);
        fs.failed.remove(&rank);
        fs.stopped.remove(&rank);
        fs.up.insert(rank, gid);
        let note = format!("mds.{} takes rank {rank} of `{}` ({})", info.name, fs.fs_name, state.name());
        fs.mds_info.insert(gid, info);
        edit.notes.push(note);
    }
}

fn assign_followers(edit: &mut Edit<'_>) {
    let all = edit.fsmap_now().filesystems.iter();
    let lacking: Vec<_> = all.filter_map(|(id, fs)| Some((*id, lacks_follower(&fs.mds_map)?))).collect();
    for (fscid, rank) in lacking {
        let Some(gid) = best_standby(edit, fscid) else { return };
        let mut info = take_standby(edit, fscid, gid);
        (info.rank, info.state) = (rank, MdsState::STANDBY_REPLAY);
        let note = format!("mds.{} follows rank {rank} ({})", info.name, info.state.name());
        edit.filesystem(fscid).mds_info.insert(gid, info);
        edit.notes.push(note);
    }
}

/// The next vacant rank with the state that it begins in, and who gets it: by preference the standby that has
/// followed it.
fn next_assignment(edit: &Edit<'_>) -> Option<(Fscid, MdsRank, MdsState, Gid)> {
    edit.fsmap_now().filesystems.iter().find_map(|(id, fs)| {
        let (rank, state) = wanted_rank(&fs.mds_map)?;
        let follower = follower_of(&fs.mds_map, rank).map(|info| info.gid);
        let gid = follower.filter(|gid| edit.view.is_mds_alive(*gid)).or_else(|| best_standby(edit, *id))?;
        Some((*id, rank, state, gid))
    })
}

/// The idle standby for a file system: one that is known to live, if possible, by preference one that asked
/// for this file system, and then one on the host that has most processors idle.
fn best_standby(edit: &Edit<'_>, fscid: Fscid) -> Option<Gid> {
    let fits = |info: &MdsInfo| info.join_fscid == fscid;
    let cores = |gid| edit.view.mds.load(gid).idle / 1000;
    let best =
        |info: &&MdsInfo| (edit.view.is_mds_alive(info.gid), fits(info), cores(info.gid), Reverse(info.gid));
    edit.fsmap_now().standby_daemons.values().max_by_key(best).map(|info| info.gid)
}

/// Takes a standby, idle or following, from its place in the map; it becomes part of a file system.
fn take_standby(edit: &mut Edit<'_>, fscid: Fscid, gid: Gid) -> MdsInfo {
    let map = edit.fsmap();
    map.standby_epochs.remove(&gid);
    map.mds_roles.insert(gid, fscid);
    let idle = map.standby_daemons.remove(&gid);
    idle.or_else(|| edit.filesystem(fscid).mds_info.remove(&gid)).expect("it was found there")
}

/// Makes the standbys that follow the ranks of a file system idle ones.
pub(crate) fn release_followers(edit: &mut Edit<'_>, fscid: Fscid) {
    let all = followers(&edit.fsmap_now().filesystems[&fscid].mds_map).map(|info| info.gid);
    for gid in all.collect::<Vec<_>>() {
        // Its memory is of no use any more: it starts over and boots as an idle one.
        fail(edit, gid);
    }
}
