//! The state of migrations: subtrees on their way, other ranks, pins. What is done with it is in `handover/`.

use super::env::Env;
use super::handover::{Ahead, Content, Pace, Sent};
use crate::authority::Hold;
use crate::cache::{Cache, Inode};
use crate::cap::Late;
use crate::types::{ClientId, IoId, Lsn, Segment};
use fsfmt::{Counted, Event, Ino, InodeKey, SubtreeRecord, Update};
use maps::MdsRank;
use msgs::{Body, ClientCaps};
use peer::{HandedCap, TakenCap};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;
use stdx::{FastMap, Instant};

/// What an event is called by which the root of a subtree becomes part of the one around it.
pub(super) const JOINS: &str = "subtree joins";
/// The same of a shard and its directory.
pub(super) const SHARD_JOINS: &str = "shard joins";
/// The reason why a subtree can't be handed over yet.
pub(super) const BUSY: &str = "another one is on its way";
/// Another reason.
pub(super) const FENCED: &str = "a snapshot is being made or removed";
/// Another reason.
pub(super) const TRIMS: &str = "a removed snapshot is being trimmed, by rank 0 alone";

/// The time for which a subtree stays at most while others are needed with it.
const GATHERED_IN: Duration = Duration::from_secs(55);

/// True for a reason that passes by itself.
pub(super) fn passes(why: &str) -> bool {
    [BUSY, FENCED, TRIMS].contains(&why)
}

/// Another rank of the file system.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RankStatus {
    /// Number of servers that have held it.
    pub incarnation: i32,
    /// It serves clients.
    pub is_active: bool,
    /// It is to stop, and hands over all that it has.
    pub is_stopping: bool,
}

/// How far this rank is on its way to stop.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Stopping {
    /// It hands over what it has.
    HandOver,
    /// It has nothing any more, and closes its sessions.
    Close,
    /// Everything is being written back.
    Flush,
}

/// The write that a migration waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Write {
    /// The record that names both ranks.
    Leave,
    /// The root's inode.
    Root,
    /// The record that names the new rank only, or its removal.
    Arrive,
    /// The removal of the record of a subtree that is this rank's anyhow.
    Merge,
    /// The record of a subtree that stays, because the rank that should have got it has stopped.
    Stay,
    /// That other ranks may have replicas of a directory.
    Replicas,
    /// That none has.
    NoReplicas,
}

/// What records are read for.
#[derive(Debug)]
pub(super) enum Read {
    /// To learn who has these subtrees, with what was believed before.
    News(BTreeMap<Ino, Option<Hold>>),
    /// The root of another rank's subtree, for an inode that is not found.
    Root(Ino, Ino),
    /// Because another rank hands a subtree over.
    Check(Offer),
    /// The table of snapshots, with what was read so far.
    Snaps(ForTable, BTreeMap<Vec<u8>, Vec<u8>>),
}

/// What the table of snapshots is read for.
#[derive(Debug)]
pub(super) enum ForTable {
    /// A subtree that comes, with its record.
    Offer(Offer, Option<SubtreeRecord>),
    /// The end of the fence: rank 0 has stored this version, unless it asks anew meanwhile.
    Fence { version: u64, asked: (i32, u64) },
}

/// A subtree that another rank hands over to this one.
#[derive(Debug)]
pub(super) struct Offer {
    pub from: MdsRank,
    pub root: Ino,
    pub content: Box<Content>,
    /// What was known of others below it when it came; none if this rank was handing one of these over.
    pub below: Option<BTreeMap<Ino, Hold>>,
    /// What is counted of subtrees below it, once that is read.
    pub borders: BTreeMap<Ino, Option<Counted>>,
    /// The inodes that it needs were loaded: those that are not cached do not exist.
    pub is_loaded: bool,
}

/// What waits for inodes to be loaded, and goes on with the end of the last of these loads: they may be
/// evicted right after it.
#[derive(Debug)]
pub(super) enum Waiting {
    /// A subtree that is handed over to this rank, with its record.
    Offer(Offer, Option<SubtreeRecord>),
    /// A subtree that this rank hands over.
    Export,
}

/// What has moved in one direction.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Moved {
    pub subtrees: u64,
    pub inodes: u64,
}

impl Moved {
    fn add(&mut self, inodes: usize) {
        self.subtrees += 1;
        self.inodes += inodes as u64;
    }
}

/// Migrations, and what makes them.
///
/// Invariants: a subtree leaves, arrives or is merged, one of them at a time; of those that leave none is
/// part of another; each write under way belongs to such a subtree.
#[derive(Default)]
pub(super) struct Migration {
    pub ranks: BTreeMap<MdsRank, RankStatus>,
    /// What has left and what has come, since the start.
    moved: (Moved, Moved),
    /// The map has told which other ranks there are.
    pub knows_ranks: bool,
    /// Ranks that may hand something over that the predecessor of this one has taken: clients may not have
    /// heard of it, and do not claim what they hold there.
    pub unconfirmed: BTreeSet<MdsRank>,
    pub exports: BTreeMap<Ino, Export>,
    /// Large subtrees of which parts leave first, until the rest does.
    pub in_parts: BTreeMap<Ino, InParts>,
    pub imports: BTreeMap<Ino, Import>,
    /// What clients are to be told of inodes that have left.
    pub exported: VecDeque<Exported>,
    pub pace: Pace,
    /// What has come ahead of subtrees that others are about to hand over to this rank, by root.
    pub ahead: BTreeMap<Ino, Ahead>,
    /// What this rank has sent ahead of the subtrees that it is about to hand over, by root.
    pub sent_ahead: BTreeMap<Ino, SentAhead>,
    /// The number of the last attempt of that.
    pub last_ahead: u64,
    /// What waits for loads, by the subtree's root, with the inodes that are being loaded.
    pub waiting: BTreeMap<Ino, (BTreeSet<InodeKey>, Waiting)>,
    /// Subtrees of this rank that become part of the one around them again, with the event that must be
    /// durable before, until it is.
    pub merges: BTreeMap<Ino, Option<Lsn>>,
    pub recalls: BTreeMap<Ino, Recall>,
    /// Inodes of the subtrees that are about to leave that were not ready for it at the last walk over all,
    /// by root.
    pub unready: BTreeMap<Ino, BTreeSet<InodeKey>>,
    /// Flushes that wait until a subtree has left, or stays.
    pub held: BTreeMap<Ino, Vec<(ClientId, u64, Box<ClientCaps>)>>,
    /// What clients have said of capabilities in subtrees that become part of those around them, by root.
    pub held_for_join: BTreeMap<Ino, Vec<(ClientId, u64, Body)>>,
    pub writes: BTreeMap<IoId, (Ino, Write)>,
    /// Directories of which other ranks have replicas, or are about to.
    pub replicas: BTreeMap<Ino, Giving>,
    /// What records are being read for.
    pub reads: BTreeMap<IoId, Read>,
    /// Inodes that are not found, until other ranks have stored what they have in their journals.
    pub sought: BTreeMap<Ino, Sought>,
    pub last_seek: u64,
    /// What other ranks wait for that here, by the numbers that they have chosen: the last segment that is to
    /// expire.
    pub storing_for: BTreeMap<(MdsRank, u64), Segment>,
    /// Cached directories that are pinned, or may be.
    pub pinned: BTreeSet<Ino>,
    /// Cached directories of which the children are distributed over all ranks.
    pub distributed: BTreeSet<Ino>,
    /// More than one of them has to leave.
    pub has_more_pinned: bool,
    /// Subtrees that operations needed here: until this instant they stay.
    pub stay: BTreeMap<Ino, Instant>,
    pub stopping: Option<Stopping>,
    /// Roots that have become part of the subtrees around them, by the journal of the predecessor.
    pub joined: BTreeSet<Ino>,
    pub fence: Fence,
    pub look_at: Instant,
}

/// How far rank 0 is with a change of the table of snapshots.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) enum FencePhase {
    /// Nobody waits.
    #[default]
    Down,
    /// The others are asked to wait, for the first or second time.
    Asked(u8),
    /// All have waited since then.
    Up(Instant),
    /// The table is being stored: the journal expires up to this event.
    Storing(Lsn),
}

/// The fence around changes of the table of snapshots.
#[derive(Default)]
pub(super) struct Fence {
    pub phase: FencePhase,
    /// Rank 0: an operation needs it.
    pub is_wanted: bool,
    /// Rank 0: number of the last question.
    pub round: u64,
    /// Rank 0: who waits since that question, with the incarnation.
    pub waiting: BTreeMap<MdsRank, i32>,
    /// Rank 0: the same of the first time.
    pub waited: BTreeMap<MdsRank, i32>,
    /// Rank 0: the time of the first question.
    pub began: Instant,
    /// Others: the incarnation of rank 0 that has asked last, and its number.
    pub asked: (i32, u64),
    /// Others: no client can change a file with several names.
    pub is_closed: bool,
    /// Others: the last event at that time.
    pub closed_at: Lsn,
    /// Others: files that clients can still change.
    pub open: BTreeSet<InodeKey>,
    /// Others: rank 0 knows of this incarnation, and asks it when the table is to change.
    pub is_known: bool,
    /// Others: the table's version when this rank began to wait.
    pub version: u64,
    /// Others: the time of the last message.
    pub said: Instant,
    /// The time of the next look, or message.
    pub next: Instant,
}

impl Fence {
    /// Asks all others to wait, for the first or second time.
    pub fn ask(&mut self, now: Instant, time: u8) {
        self.phase = FencePhase::Asked(time);
        self.round += 1;
        self.waited = std::mem::take(&mut self.waiting);
        if time == 1 {
            self.began = now;
        }
        self.next = now;
    }
}

impl Migration {
    /// A subtree has left.
    pub fn has_left(&mut self, inodes: usize) {
        self.moved.0.add(inodes);
    }

    /// A subtree has come.
    pub fn has_come(&mut self, inodes: usize) {
        self.moved.1.add(inodes);
    }

    /// What has left and what has come, since the start.
    pub fn moved(&self) -> (Moved, Moved) {
        self.moved
    }

    /// What the fence, or a rank whose directory this one has a replica of, waits for longest that a client
    /// does not give back.
    pub fn late(&self, cache: &Cache, client: ClientId) -> Option<Late> {
        let returning = cache.replicas.all_kept().filter(|(_, kept)| kept.is_returning);
        let copied = returning.flat_map(|(dir, _)| cache.with_files(dir));
        let needed = self.fence.open.iter().copied().chain(copied);
        needed.filter_map(|ino| cache.late(ino, client)).min()
    }

    /// True if no other rank may hand over what the predecessor of this one has taken.
    pub fn is_certain(&self) -> bool {
        self.unconfirmed.is_empty() && self.offers().next().is_none()
    }

    /// True if no subtree is on its way, or could be.
    pub fn is_idle(&self, cache: &Cache) -> bool {
        self.is_certain()
            && !self.has_more_pinned
            && self.exports.is_empty()
            && self.in_parts.is_empty()
            && self.imports.is_empty()
            && self.merges.is_empty()
            && !self.is_telling(cache)
    }

    /// True while clients do not know yet of all that has come or left.
    pub fn is_telling(&self, cache: &Cache) -> bool {
        !cache.unannounced.is_empty() || !self.exported.is_empty()
    }

    /// Time of the next look.
    pub fn deadline(&self, cache: &Cache) -> Option<Instant> {
        let is_asked = !self.recalls.is_empty() || !self.sought.is_empty() || !self.storing_for.is_empty();
        let looks = !self.is_idle(cache) || is_asked || self.stopping.is_some();
        let looks = looks || self.is_replicating(cache);
        (looks || self.fence.is_wanted || self.is_fencing(cache)).then_some(self.look_at)
    }

    /// True while replicas are given or given back.
    pub fn is_replicating(&self, cache: &Cache) -> bool {
        let is_unknown = |dir| !self.replicas.contains_key(&dir);
        let is_busy = |giving: &Giving| giving.is_busy() || !giving.is_up_to_date(&self.ranks);
        let gives = self.replicas.values().any(is_busy) || cache.replicas.given().any(is_unknown);
        gives || cache.replicas.all_kept().any(|(_, kept)| kept.is_returning)
    }

    /// True while nobody is given a directory alone, because it may be about to leave.
    pub fn withholds_directories(&self) -> bool {
        self.exports.values().any(Export::is_quieting)
    }

    /// Notes a replayed event by which the root of a subtree became part of the one around it.
    pub fn note_replayed(&mut self, event: &Event) {
        if event.what == SHARD_JOINS {
            let roots = event.updates.iter().filter_map(|update| match update {
                Update::Border { root, .. } => Some(*root),
                _ => None,
            });
            self.joined.extend(roots);
        }
        if event.what == JOINS {
            let roots = event.updates.iter().filter_map(|update| match update {
                Update::Dentry { value: Some(dentry), .. } => Some(dentry.link.ino()),
                _ => None,
            });
            self.joined.extend(roots);
        }
    }

    /// Notes a directory that was changed or loaded.
    pub fn note(&mut self, cache: &Cache, ino: InodeKey, inode: &Inode) {
        if inode.data.pin.is_distributed {
            self.distributed.insert(ino.ino);
        }
        if cache.pin_of(ino.ino).is_some() {
            self.pinned.insert(ino.ino);
        }
    }

    /// The ranks over which directories are distributed, this one included.
    pub fn takers(&self, env: &Env) -> Vec<MdsRank> {
        let others = self.ranks.keys().copied().filter(|rank| self.takes_subtrees(*rank));
        let mut ranks: Vec<MdsRank> = others.chain([own(env)]).collect();
        ranks.sort_unstable();
        ranks
    }

    /// Notes that the last event has changed an inode.
    pub fn note_change(&mut self, env: &Env, cache: &Cache, ino: InodeKey) {
        if self.exports.is_empty() {
            return;
        }
        if let Ok(root) = cache.root_of(ino.ino)
            && let Some(export) = self.exports.get_mut(&root)
        {
            export.touched(env.journal().last());
        }
    }

    /// True while a subtree below this one comes to this rank, or becomes part of what is around it.
    pub fn comes_below(&self, cache: &Cache, root: Ino) -> bool {
        let is_below =
            |other: &Ino| cache.subtrees.record(*other).is_some_and(|record| record.is_below(root));
        self.imports.keys().chain(self.merges.keys()).any(is_below)
    }

    /// True while subtrees of this rank may become part of others.
    pub fn has_joins(&self) -> bool {
        !self.imports.is_empty() || !self.merges.is_empty()
    }

    /// True while a subtree of this rank becomes part of the one around it.
    pub fn joins(&self, root: Ino) -> bool {
        self.merges.contains_key(&root) || self.imports.values().any(|import| import.joins.contains(&root))
    }

    /// Subtrees that are handed over to this rank, and of which something is being read first.
    fn offers(&self) -> impl Iterator<Item = &Offer> {
        let checks = self.reads.values().filter_map(|read| match read {
            Read::Check(offer) | Read::Snaps(ForTable::Offer(offer, _), _) => Some(offer),
            _ => None,
        });
        let waiting = self.waiting.values().filter_map(|(_, waiting)| match waiting {
            Waiting::Offer(offer, _) => Some(offer),
            Waiting::Export => None,
        });
        checks.chain(waiting)
    }

    /// True while something is being read because a subtree is handed over to this rank.
    pub fn is_checking(&self, root: Ino) -> bool {
        self.offers().any(|offer| offer.root == root)
    }

    /// True while no subtree may begin to leave: files in it may have several names.
    pub fn is_fencing(&self, cache: &Cache) -> bool {
        self.fence.phase != FencePhase::Down || cache.snaps.is_fenced()
    }

    /// The time for which subtrees stay longer than they would: one that is needed together with others
    /// stays until these have come, or many could never all be here.
    fn gathers_for(&self) -> Duration {
        if self.recalls.is_empty() { Duration::ZERO } else { GATHERED_IN }
    }

    /// Forgets which subtrees stayed.
    pub fn drop_stays(&mut self, now: Instant) {
        let longer = self.gathers_for();
        self.stay.retain(|_, until| now < *until + longer);
    }

    /// True for a subtree that operations needed here lately.
    pub fn stays(&self, root: Ino, now: Instant) -> bool {
        self.stay.get(&root).is_some_and(|until| now < *until + self.gathers_for())
    }

    /// Rank 0: the others that do not wait yet.
    pub fn not_waiting(&self) -> impl Iterator<Item = MdsRank> {
        let others = self.ranks.iter().map(|(rank, status)| (rank, &status.incarnation));
        let waits = |(rank, incarnation)| self.fence.waiting.get(rank) == Some(incarnation);
        others.filter(move |other| !waits(*other)).map(|(rank, _)| *rank)
    }

    /// True if a rank serves clients.
    pub fn is_active(&self, rank: MdsRank) -> bool {
        self.ranks.get(&rank).is_some_and(|status| status.is_active)
    }

    /// True if subtrees may be handed over to a rank.
    pub fn takes_subtrees(&self, rank: MdsRank) -> bool {
        self.ranks.get(&rank).is_some_and(|status| status.is_active && !status.is_stopping)
    }

    /// True if this subtree may be handed over to a rank. One that stops needs its directory of strays for
    /// what its clients have promised, before it can hand over the rest.
    pub fn takes(&self, rank: MdsRank, root: Ino) -> bool {
        self.takes_subtrees(rank) || root == Ino::stray(rank.0 as u32) && self.is_active(rank)
    }
}

/// This rank.
pub(super) fn own(env: &Env) -> MdsRank {
    MdsRank(env.cfg().rank as i32)
}

/// How far a subtree is on its way to another rank.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum ExportStep {
    /// Most of what clients hold in a large subtree is sent ahead, in parts.
    Ahead,
    /// The journal expires up to this event, while everything goes on: else operations would have to wait for
    /// that later.
    Store(Lsn),
    /// Clients give up directories that they have alone: they could not be made to wait for anything else.
    Quiet,
    /// Operations wait until nothing is revoked, all is stored, and the journal has nothing of it any more.
    /// The last event that is about it.
    Settle(Lsn),
    /// The record is being written.
    Record,
    /// The other rank has to take it. The time of the next message.
    Hand(Instant),
    /// The other rank has stopped before it took it: the record is being written that says so.
    Stay,
}

/// A large subtree that leaves in parts.
#[derive(Clone, Copy, Debug)]
pub(super) struct InParts {
    pub to: MdsRank,
    /// The rest stays if no part begins to leave before.
    pub until: Instant,
}

/// A subtree on its way to another rank.
#[derive(Clone, Copy, Debug)]
pub(super) struct Export {
    pub to: MdsRank,
    pub step: ExportStep,
    pub since: Instant,
    /// What it waits for, for people.
    pub waits_for: &'static str,
    /// Operations in it wait since then.
    pub settling_since: Option<Instant>,
}

impl Export {
    /// A subtree that begins to leave.
    pub fn new(to: MdsRank, now: Instant, waits_for: &'static str) -> Self {
        Self { to, step: ExportStep::Ahead, since: now, waits_for, settling_since: None }
    }

    /// A subtree of which the predecessor of this rank has decided that it leaves, or which has left.
    pub fn decided(to: MdsRank, now: Instant) -> Self {
        Self { step: ExportStep::Hand(now), ..Self::new(to, now, "") }
    }

    /// True before operations wait for it.
    pub fn is_beginning(&self) -> bool {
        matches!(self.step, ExportStep::Ahead | ExportStep::Store(_) | ExportStep::Quiet)
    }

    pub fn is_quieting(&self) -> bool {
        matches!(self.step, ExportStep::Quiet | ExportStep::Settle(_))
    }

    pub fn is_handing(&self) -> bool {
        matches!(self.step, ExportStep::Hand(_))
    }

    /// An event has changed something in it.
    pub fn touched(&mut self, lsn: Lsn) {
        if let ExportStep::Settle(last) = &mut self.step {
            *last = lsn;
        }
    }
}

/// How far a directory is on its way to have replicas, or none any more.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum GivingStep {
    /// Its entries are being loaded.
    Load,
    /// Clients give up what not all may have of its files.
    Settle,
    /// The journal expires up to the last event before that: who claims something after a restart finds it.
    Durable(Lsn),
    /// The record is being written.
    Record,
    /// Others have replicas, or are offered them.
    Given,
    /// They give them back.
    Recall,
    /// The record is being removed.
    Forget,
}

/// A directory of which other ranks have replicas.
#[derive(Clone, Debug)]
pub(super) struct Giving {
    pub step: GivingStep,
    pub since: Instant,
    /// The time of the next messages.
    pub next: Instant,
    /// The ranks that may have one, with their incarnations and what they have said.
    pub ranks: BTreeMap<MdsRank, (i32, Said)>,
    /// The number under which they are asked to give it back.
    pub asked: u64,
}

/// What a rank has said about a replica. It may have one in any case.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Said {
    /// Nothing yet.
    Nothing,
    /// It keeps it.
    Keeps,
    /// It does not.
    Refuses,
}

/// How far a subtree is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum ImportStep {
    /// This event must be durable.
    Journal(Lsn),
    /// The root or the record is being written.
    Write,
}

/// A subtree on its way to this rank.
#[derive(Debug)]
pub(super) struct Import {
    pub from: MdsRank,
    /// It becomes part of the subtree around it.
    pub is_merged: bool,
    /// Roots of this rank's own subtrees, which become part of it.
    pub joins: Vec<Ino>,
    pub step: ImportStep,
    /// Capabilities that were taken, each as it was and as it is.
    pub caps: Vec<(HandedCap, TakenCap)>,
}

/// What has been sent ahead of a subtree.
#[derive(Default, Debug)]
pub(super) struct SentAhead {
    pub id: u64,
    pub parts: u32,
    /// What is to be sent yet.
    pub left: VecDeque<InodeKey>,
    /// How often all that was new has been sent.
    pub rounds: u32,
    /// What has been sent of each file.
    pub sent: FastMap<InodeKey, Sent>,
}

/// A capability that has gone to another rank, and what that has made of it.
#[derive(Debug)]
pub(super) struct Exported {
    pub to: MdsRank,
    pub ino: Ino,
    pub client: ClientId,
    pub cap_id: u64,
    pub migrate_seq: u32,
    pub taken: Option<TakenCap>,
}

/// A subtree that operations need here, and which another rank has.
#[derive(Clone, Copy, Debug)]
pub(super) struct Recall {
    pub wanted_at: Instant,
    /// The time of the next message.
    pub next: Instant,
}

/// An inode that other ranks may have in their journals.
#[derive(Debug)]
pub(super) struct Sought {
    /// The number under which the other ranks are asked.
    pub id: u64,
    /// Ranks that may have it.
    pub asked: BTreeSet<MdsRank>,
    /// The time of the next messages.
    pub next: Instant,
    /// The roots of other ranks' subtrees of which copies are being renewed, once all have answered.
    pub roots: Option<BTreeSet<Ino>>,
}
