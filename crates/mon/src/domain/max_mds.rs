//! `max_mds auto`: a file system gets a rank more when those that it has are busy and a standby's host has a
//! core to spare, and one less when fewer would do.

use crate::domain::mds_ranks::{assign, stop_surplus};
use crate::edit::Edit;
use maps::{Fscid, MdsMap, MdsState};
use std::collections::BTreeMap;
use std::time::Duration;
use stdx::Instant;

/// Ranks that are busier than this get another beside them. In thousandths of a core, on the average: one
/// busy directory can't be shared, so one busy rank among idle ones asks for nothing.
const BUSY: u32 = 600;
/// A rank goes if the others would be no busier than this without it.
const QUIET: u32 = 300;
/// What a host must have idle for one more rank.
const ROOM: u32 = 500;
/// The time for which ranks are busy before there is one more.
const GROWS_AFTER: Duration = Duration::from_secs(20);
/// The time for which fewer ranks would do before there is one less. Each change moves directories.
const SHRINKS_AFTER: Duration = Duration::from_secs(600);
/// The most ranks that a file system is given.
const MOST: i32 = 64;

/// For how long file systems have had too few or too many ranks; the leader's memory.
#[derive(Clone, Debug, Default)]
pub(crate) struct AutoMaxMds(BTreeMap<Fscid, (Wish, Instant)>);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Wish {
    More,
    Fewer,
}

impl AutoMaxMds {
    /// Looks at the loads and changes `max_mds` where one has lasted.
    pub fn look(&mut self, edit: &mut Edit<'_>) {
        let wishes = edit.fsmap_now().filesystems.iter().map(|(id, fs)| (*id, wish(edit, &fs.mds_map)));
        for (id, wish) in wishes.collect::<Vec<_>>() {
            self.wished(edit, id, wish);
        }
        self.0.retain(|id, _| edit.fsmap_now().filesystems.contains_key(id));
    }

    fn wished(&mut self, edit: &mut Edit<'_>, id: Fscid, wish: Option<Wish>) {
        let now = edit.now.mono;
        let Some(wish) = wish else {
            self.0.remove(&id);
            return;
        };
        let since = match self.0.get(&id) {
            Some((before, since)) if *before == wish => *since,
            _ => now,
        };
        self.0.insert(id, (wish, since));
        let (step, lasts) = match wish {
            Wish::More => (1, GROWS_AFTER),
            Wish::Fewer => (-1, SHRINKS_AFTER),
        };
        if now.since(since) < lasts {
            return;
        }
        self.0.remove(&id);
        let fs = edit.filesystem(id);
        fs.max_mds += step;
        let what = if wish == Wish::More { "are busy" } else { "have little to do" };
        let note = format!("the ranks of `{}` {what}: max_mds is {} now", fs.fs_name, fs.max_mds);
        edit.notes.push(note);
        stop_surplus(edit, id);
        assign(edit);
    }
}

/// What the load asks for, if nothing else is going on.
fn wish(edit: &Edit<'_>, fs: &MdsMap) -> Option<Wish> {
    let ranks = i32::try_from(fs.r#in.len()).ok()?;
    let is_steady = ranks == fs.max_mds
        && fs.r#in.iter().all(|rank| fs.state_of(*rank) == MdsState::ACTIVE)
        && fs.flags & MdsMap::NOT_JOINABLE == 0;
    if fs.flags & MdsMap::MAX_MDS_AUTO == 0 || !is_steady {
        return None;
    }
    let busy: u32 = fs.up.values().map(|gid| edit.view.mds.load(*gid).busy).sum();
    let count = fs.up.len() as u32;
    if busy >= BUSY * count && ranks < MOST && has_room(edit, fs) {
        return Some(Wish::More);
    }
    (ranks > 1 && busy <= QUIET * (count - 1)).then_some(Wish::Fewer)
}

/// True if there are more standbys than are wanted for failures, and one's host has processors idle.
fn has_room(edit: &Edit<'_>, fs: &MdsMap) -> bool {
    let idle = edit.fsmap_now().standby_daemons.keys().filter(|gid| edit.view.is_mds_alive(**gid));
    let spare = idle.clone().count() > usize::try_from(fs.standby_count_wanted).unwrap_or(0);
    spare && idle.clone().any(|gid| edit.view.mds.load(*gid).idle >= ROOM)
}
