//! A subtree leaves this rank.

use super::content::{caps_of, entry_of};
use super::{Rank, shards};
use crate::authority::{Auth, Hold};
use crate::cache::{Cache, Inode};
use crate::rank::caps::Caps;
use crate::rank::commit::commit;
use crate::rank::effect::Effect;
use crate::rank::fragments::parse_fragment;
use crate::rank::migration::{
    BUSY, Export, ExportStep as Step, Exported, FENCED, SentAhead, TRIMS, Waiting, Write, own,
};
use crate::rank::sessions::Sessions;
use crate::types::{ClientId, Lsn};
use fsfmt::{DirFrag, Ino, InodeData, InodeKey, SubtreeRecord};
use maps::MdsRank;
use msgs::cap;
use node::Level;
use peer::{HandedLocks, MdsHandOver, MdsTaken, TakenCap};
use std::collections::BTreeSet;
use std::time::Duration;
use stdx::FastMap;
use stdx::mutants::is_active;
use wire::{Errno, Writer};

/// Subtrees that are handed over together.
pub(super) const TOGETHER: usize = 32;
/// What an event is called by which snapshots keep the state of a subtree's root before it leaves.
const LEAVES: &str = "subtree leaves";
/// Events that are stored while operations wait: it takes no time.
const FEW_EVENTS: u64 = 100;
/// What a subtree waits for before it can leave.
const AHEAD: &str = "files to go ahead";
const ALONE: &str = "clients to give up directories that they have alone";
const EXPIRES: &str = "the journal to expire";
/// Time after which a subtree that nobody has answered for is handed over again.
const REPEAT_AFTER: Duration = Duration::from_secs(1);
/// A subtree that is not ready to leave after this time stays: a client does not give something back, or is
/// writing all the time. It is tried again later.
const PATIENCE: Duration = Duration::from_secs(3);
/// The same while operations wait.
const SETTLED_WITHIN: Duration = Duration::from_secs(2);
/// The time after which a pin moves a subtree that was not ready.
const TRIED_AGAIN_AFTER: Duration = Duration::from_secs(5);

impl Rank {
    /// True if it serves clients.
    pub(super) fn is_active(&self) -> bool {
        self.env.stage() == crate::rank::Stage::Active
    }

    /// Begins to hand over a directory with what is below it. Returns the reason if that can't be.
    pub(super) fn start_export(&mut self, root: Ino, to: MdsRank) -> Result<(), &'static str> {
        self.may_export(root, to)?;
        let Self { env, migration, .. } = self;
        migration.exports.insert(root, Export::new(to, env.now(), AHEAD));
        migration.unready.remove(&root);
        migration.sent_ahead.remove(&root);
        migration.look_at = env.now();
        Ok(())
    }

    /// Returns the reason if a directory can't be handed over now.
    pub(super) fn may_export(&mut self, root: Ino, to: MdsRank) -> Result<(), &'static str> {
        let top = root.as_shard().map_or(root, |shard| shard.ino);
        let is_here = self.cache.authority(root) == Ok(Auth::Here);
        if let Some(dir) = self.cache.given_below(top).filter(|_| is_here) {
            self.recall_replicas(dir);
            return Err(BUSY);
        }
        let Self { env, cache, migration, .. } = self;
        let Some(inode) = cache.inodes.get(&root.head()) else { return Err("it is not cached") };
        // Others may have begun just now: the journal expires once for all of them.
        let mut others = migration.exports.iter();
        let is_in_time =
            others.all(|(other, export)| export.is_beginning() && may_leave_with(cache, root, *other));
        let is_free = is_in_time && migration.exports.len() < TOGETHER;
        if !is_free || migration.merges.contains_key(&root) || migration.is_telling(cache) {
            return Err(BUSY);
        }
        match cache.authority(root) {
            Ok(Auth::Here) => {}
            _ => return Err("this rank has no authority over it"),
        }
        if !inode.is_named_dir() && !root.is_stray() && !root.is_shard() {
            return Err("only directories with a name can be handed over, and not the root");
        }
        if to == own(env) || !migration.takes(to, root) {
            return Err("the rank is not another one that is active");
        }
        if cache.is_trimming() {
            return Err(TRIMS);
        }
        if migration.is_fencing(cache) {
            return Err(FENCED);
        }
        if cache.new_record(root, own(env), to).is_none() {
            return Err("it has no path from the root");
        }
        Ok(())
    }

    /// Has a directory, or a fragment of it, handed over to another rank.
    pub fn export_dir(
        &mut self,
        path: &str,
        frag: Option<&str>,
        rank: MdsRank,
    ) -> Result<(), (Errno, String)> {
        let found = self.cache.find(path.as_bytes()).ok().flatten();
        let Some(dir) = found else {
            return Err((Errno::ENOENT, format!("{path} is not cached, or does not exist")));
        };
        let begun = match frag {
            Some(frag) => {
                let frag = parse_fragment(frag)?;
                self.start_export_of_shard(DirFrag { ino: dir.ino, frag }, rank)
            }
            None => self.start_export_in_parts(dir.ino, rank),
        };
        self.run();
        begun.map_err(|why| (Errno::EINVAL, format!("{path}: {why}")))
    }

    /// After a restart: goes on with what the predecessor was about to hand over.
    pub(in crate::rank) fn resume_migrations(&mut self) {
        let leaving = self.cache.subtrees.iter().filter(|(_, hold, _)| *hold == Hold::Leaving);
        let leaving = leaving.filter(|_| !is_active("mds_forgets_what_it_hands_over"));
        let leaving: Vec<(Ino, MdsRank)> = leaving.filter_map(|(root, _, r)| Some((root, r?.rank))).collect();
        let now = self.env.now();
        for (root, to) in leaving {
            self.migration.exports.insert(root, Export::decided(to, now));
        }
        self.migration.look_at = now;
    }

    /// A client that claims something in another rank's subtree has not heard that it moved: the predecessor
    /// died before it told. The other rank tells what became of it.
    pub(in crate::rank) fn pass_on(&mut self, ino: InodeKey) {
        if self.cache.unannounced.contains_key(&ino) {
            return;
        }
        let Ok(root) = self.cache.root_of(ino.ino) else { return };
        let to = match self.cache.subtrees.hold(root) {
            Some(Hold::Foreign(rank)) => rank,
            None => MdsRank(root.owner() as i32),
            // It is handed over anyhow, or comes.
            Some(_) => return,
        };
        let now = self.env.now();
        self.migration.exports.entry(root).or_insert(Export::decided(to, now));
        self.migration.look_at = now;
    }

    /// Passes on what clients claimed in a subtree and what is not in it any more: it has become part of
    /// another, or an inode's name has moved.
    fn pass_on_rest(&mut self) {
        let held = self.cache.inodes.iter().filter(|(_, inode)| !inode.caps.is_empty());
        let is_elsewhere =
            |ino: &InodeKey| self.cache.is_fixed(*ino) && !self.cache.unannounced.contains_key(ino);
        let rest = held.map(|(ino, _)| *ino).filter(is_elsewhere).collect::<Vec<_>>();
        rest.into_iter().for_each(|ino| self.pass_on(ino));
    }

    pub(super) fn advance_exports(&mut self) -> bool {
        let mut has_changed = false;
        for root in self.migration.exports.keys().copied().collect::<Vec<_>>() {
            let Export { to, step, since, .. } = self.migration.exports[&root];
            let patience = if matches!(step, Step::Settle(_)) { SETTLED_WITHIN } else { PATIENCE };
            let is_late = self.env.now().since(since) > patience || self.cache.is_trimming();
            let is_ours = self.is_ours(root, matches!(step, Step::Settle(_)));
            match step {
                Step::Store(_) | Step::Ahead | Step::Quiet | Step::Settle(_)
                    if is_late
                        || !is_ours
                        || !self.migration.takes(to, root)
                        || !self.is_still_there(root) =>
                {
                    self.give_up(root);
                    has_changed = true;
                }
                Step::Store(last) if self.write_back.has_expired(&mut self.env, last) => {
                    let export = self.migration.exports.get_mut(&root).expect("under way");
                    (export.step, export.since, export.waits_for) = (Step::Quiet, self.env.now(), ALONE);
                    has_changed |= self.quiet(root);
                }
                Step::Store(_) => {}
                Step::Ahead if self.send_ahead(root, to) => has_changed |= self.store(root),
                Step::Ahead => {}
                Step::Quiet => has_changed |= self.quiet(root),
                Step::Settle(last) => match self.delay(root, last) {
                    None => self.record(root),
                    Some(why) => self.migration.exports.get_mut(&root).expect("under way").waits_for = why,
                },
                Step::Record | Step::Stay => {}
                Step::Hand(_) if self.has_stopped(root, to) => self.take_back(root),
                Step::Hand(_) if self.has_joined(root) => {
                    self.migration.exports.remove(&root);
                    self.pass_on_rest();
                }
                Step::Hand(at) if self.env.now() >= at => self.hand_over(root),
                Step::Hand(_) => {}
            }
        }
        has_changed
    }

    /// False if what is about to leave has become part of something else that comes or goes.
    fn is_ours(&self, root: Ino, is_settling: bool) -> bool {
        match is_settling {
            true => self.cache.subtrees.hold(root) == Some(Hold::Settling),
            false => matches!(self.cache.authority(root), Ok(Auth::Here)),
        }
    }

    /// False if a directory that is about to leave was removed or evicted before operations in it waited, or
    /// a fragment was split or joined.
    fn is_still_there(&self, root: Ino) -> bool {
        if let Some(shard) = root.as_shard() {
            return self.cache.subtrees.record(root).is_some() || shards::is_leaf(&self.cache, shard);
        }
        root.is_stray() || self.cache.inodes.get(&root.head()).is_some_and(|inode| inode.is_named_dir())
    }

    /// The subtree stays.
    fn give_up(&mut self, root: Ino) {
        let Some(export) = self.migration.exports.remove(&root) else { return };
        self.migration.sent_ahead.remove(&root);
        self.migration.unready.remove(&root);
        if self.cache.subtrees.hold(root) == Some(Hold::Settling) {
            match self.cache.subtrees.record(root).is_some() {
                true => self.cache.subtrees.set(root, Hold::Own),
                false => self.cache.subtrees.remove(root),
            }
        }
        self.forget_shard(root);
        self.migration.stay.insert(root, self.env.now() + TRIED_AGAIN_AFTER);
        self.balance.rest(self.env.now(), root);
        self.release_held(root);
        let Export { to, waits_for, .. } = export;
        let text = format!("subtree {root} stays here and not at rank {to}: it still waited for {waits_for}");
        self.env.log(Level::Info, "export_given_up", text);
        self.partition_changed(false);
    }

    /// Has a long journal expire before operations wait: they would have to wait for that.
    fn store(&mut self, root: Ino) -> bool {
        let Self { env, migration, .. } = self;
        let journal = env.journal();
        let unstored = (journal.last() + 1).saturating_sub(journal.first_event(journal.oldest()));
        let export = migration.exports.get_mut(&root).expect("under way");
        export.since = env.now();
        if unstored >= FEW_EVENTS {
            (export.step, export.waits_for) = (Step::Store(journal.last()), EXPIRES);
            return false;
        }
        (export.step, export.waits_for) = (Step::Quiet, ALONE);
        self.quiet(root)
    }

    /// Takes directories back that clients have alone; once nobody has one, operations in the subtree wait.
    fn quiet(&mut self, root: Ino) -> bool {
        let Self { env, cache, sessions, migration, .. } = self;
        let sharded = root.as_shard().map(|shard| shard.inode());
        let is_alone = |ino: &InodeKey| {
            let inode = cache.inodes.get(ino).filter(|inode| inode.data.is_dir());
            if Some(*ino) == sharded {
                return inode.is_some_and(|dir| shards::is_relied_on(dir));
            }
            let is_held = inode.is_some_and(|inode| inode.held_by_others(None) & cap::FILE_EXCL != 0);
            is_held && !is_active("mds_takes_no_directories_back")
        };
        let unready = migration.unready.entry(root).or_default();
        unready.retain(is_alone);
        if !unready.is_empty() {
            return false;
        }
        // Nobody is given one any more, but some may have been made since the last walk.
        *unready = cache.subtree(root).into_iter().chain(sharded).filter(is_alone).collect();
        if unready.is_empty() {
            // Later states of the root are not to be seen from here: snapshots keep this one.
            if cache.is_root_snapped(root) {
                let update = cache.update(cache.inodes[&root.head()].data.clone());
                commit(env, cache, sessions, LEAVES, vec![update]);
            }
            let last = env.journal().last();
            cache.subtrees.set(root, Hold::Settling);
            cache.subtrees.forget_next_shard(root);
            let export = migration.exports.get_mut(&root).expect("it is under way");
            (export.step, export.since) = (Step::Settle(last), env.now());
            export.settling_since = Some(env.now());
            self.find_unready(root);
            return true;
        }
        let alone = unready.clone();
        let holders = alone.iter().filter_map(|ino| cache.inodes.get(ino)).flat_map(|i| i.caps.clients());
        for client in holders.collect::<BTreeSet<ClientId>>() {
            let which = |inode: &Inode| alone.contains(&inode.data.key());
            Caps::revoke_directories(env, cache, sessions, client, which);
        }
        false
    }

    /// Notes the inodes of a subtree that have to become ready before it can leave.
    fn find_unready(&mut self, root: Ino) {
        let inside = self.cache.subtree(root);
        let unready = inside.into_iter().filter(|ino| self.wait_for(*ino).is_some()).collect();
        self.migration.unready.insert(root, unready);
    }

    /// What an inode waits for until it can leave: all of it must be stored, and clients know what they hold.
    /// It is hurried.
    pub(super) fn wait_for(&mut self, ino: InodeKey) -> Option<&'static str> {
        let inode = self.cache.inodes.get(&ino)?;
        let is_stored = inode.data.packed.is_none() && inode.data.truncate_from == 0;
        let is_written = inode.under_way.data_work.is_some();
        if !is_stored && !is_written {
            self.strays.hurry(ino, &inode.data);
        }
        if !is_stored || is_written {
            return Some("data of files to be stored");
        }
        let is_unclear = inode.caps.values().any(|cap| cap.is_revoking() || cap.is_presumed);
        is_unclear.then_some("clients to give back what is revoked")
    }

    /// What the subtree waits for until everything in it is stored, and clients know what they hold. It is
    /// hurried. Walks over all of it are rare: requests to other directories are not to wait for them.
    fn delay(&mut self, root: Ino, last: Lsn) -> Option<&'static str> {
        if self.trimming.is_walking() || self.scrub.is_walking() {
            return Some("a walk over directories to end");
        }
        if !self.fragments.is_idle() {
            return Some("a directory that is being split or joined");
        }
        // Part of it from then on, although it was not when all else became ready.
        if self.migration.comes_below(&self.cache, root) {
            return Some("a subtree that becomes part of it");
        }
        // They may repeat requests that are to be carried out here.
        if self.has_absent_clients() {
            return Some("absent clients to come back");
        }
        let Self { env, cache, write_back, accounting, .. } = self;
        let is_expired = write_back.has_expired(env, last);
        // While the subtree is apart, its root counts above as it does now.
        let inode = &cache.inodes[&root.head()];
        let above = inode.place.as_ref().filter(|(dir, _)| !cache.is_fixed(dir.inode()));
        let is_counted = inode.data.rstat == cache.counted(inode).rstat() || above.is_none();
        if !is_counted {
            accounting.hurry(root.head(), env.now());
        }
        let mut unready = None;
        let mut left = self.migration.unready.remove(&root).unwrap_or_default();
        left.retain(|ino| {
            let why = self.wait_for(*ino);
            unready = why.or(unready);
            why.is_some()
        });
        self.migration.unready.insert(root, left);
        if !is_counted {
            return Some("its statistics to be counted above");
        }
        if unready.is_some() {
            return unready;
        }
        if is_active("mds_hands_over_what_is_not_stored") {
            return None;
        }
        if !is_expired {
            return Some(EXPIRES);
        }
        if self.cache.has_unstored_names(root) {
            let current = self.env.journal().current();
            self.write_back.expire_to(&mut self.env, current);
            return Some(EXPIRES);
        }
        self.find_unready(root);
        (!self.migration.unready[&root].is_empty()).then_some("what clients have changed since")
    }

    /// Writes the record by which the authority moves. From here on there is no way back.
    fn record(&mut self, root: Ino) {
        let Self { env, cache, migration, .. } = self;
        let Some(export) = migration.exports.get_mut(&root) else { return };
        let Some(record) = cache.new_record(root, own(env), export.to) else { return };
        export.step = Step::Record;
        migration.unready.remove(&root);
        self.write_record(root, Some(&record), Write::Leave);
        if !is_active("mds_serves_what_it_hands_over") {
            self.cache.subtrees.set_with(root, Hold::Leaving, Some(record));
        }
    }

    /// The record is stored.
    pub(super) fn recorded(&mut self, root: Ino) {
        let now = self.env.now();
        if let Some(export) = self.migration.exports.get_mut(&root) {
            export.step = Step::Hand(now);
        }
        if self.cache.subtrees.record(root).is_some_and(|record| !record.was_alone) {
            self.cache.borders.remove(root);
        }
    }

    /// Tells the other rank what clients hold, unless some are absent that may hold something.
    fn hand_over(&mut self, root: Ino) {
        let next = self.env.now() + REPEAT_AFTER;
        // What is passed on does not wait for claims that are searched for: the search waits for it.
        let has_absent = match self.is_passed_on(root) {
            true => self.reconnect.has_absent() || self.client_replay.is_repeating(),
            false => self.has_absent_clients(),
        };
        let Some(export) = self.migration.exports.get_mut(&root) else { return };
        let to = export.to;
        export.step = Step::Hand(next);
        if has_absent || !self.migration.is_active(to) {
            return;
        }
        // The other rank knows the directories that lead to other subtrees, but not as they are now.
        let missing = self.cache.missing_between(root);
        if !missing.is_empty() {
            return self.load_for(root, missing, Waiting::Export);
        }
        self.send_content(root);
    }

    /// Sends the other rank what it has to take, if all that needs is cached.
    pub(super) fn send_content(&mut self, root: Ino) {
        let export = self.migration.exports.get(&root).filter(|export| export.is_handing());
        if let Some(Export { to, .. }) = export.copied()
            && self.cache.missing_between(root).is_empty()
        {
            // What is sent again is sent whole.
            let ahead = self.migration.sent_ahead.remove(&root);
            if let Some(m) = self.content_of(root, ahead) {
                self.env.effect(Effect::SendRank(to, m.into()));
            }
        }
    }

    /// The root, the directories below it, and everything that clients hold, but for what went ahead as it
    /// still is.
    fn content_of(&self, root: Ino, ahead: Option<SentAhead>) -> Option<MdsHandOver> {
        let Self { cache, sessions, .. } = self;
        // What is in no subtree is handed over only if its rank has it already.
        let record = match cache.subtrees.record(root) {
            None if root.is_base() => Writer::encode(&SubtreeRecord::default()),
            record => Writer::encode(record?),
        };
        let inode = match cache.inodes.get(&root.head()) {
            None if root.is_base() => Writer::encode(&InodeData::default()),
            inode => Writer::encode(&inode?.data),
        };
        let below = |(other, _): (Ino, Hold)| Some((other.0, Writer::encode(cache.subtrees.record(other)?)));
        let subtrees = cache.subtrees.below(root).filter_map(below).collect();
        let inside = cache.subtree(root);
        let popularity = self.balance.popularity.of(inside.iter().map(|ino| ino.ino));
        // What it has to know was stored before operations waited.
        let snap_table = cache.snaps.stored_version();
        let mut m = MdsHandOver {
            root: root.0,
            record,
            inode,
            subtrees,
            popularity,
            snap_table,
            ahead: ahead.as_ref().map_or(0, |ahead| ahead.id),
            parts: ahead.as_ref().map_or(0, |ahead| ahead.parts),
            ..Default::default()
        };
        let mut sent = ahead.map_or_else(FastMap::default, |ahead| ahead.sent);
        for ino in inside {
            let Some(inode) = cache.inodes.get(&ino) else { continue };
            let is_used = !inode.caps.is_empty() || cache.locks.is_locked(ino);
            let went_ahead = sent.remove(&ino);
            let is_as_sent = went_ahead.as_ref().is_some_and(|sent| sent.is(inode));
            if went_ahead.is_some() && !is_as_sent {
                m.changed.push(ino.ino.0);
            }
            if ino.ino != root && (is_used && !is_as_sent || inode.data.is_dir()) {
                m.entries.extend(entry_of(cache, inode));
            }
            for cap in caps_of(inode) {
                if is_active("mds_hands_over_no_capabilities") {
                    continue;
                }
                if let Some(session) = sessions.get(ClientId(cap.client)) {
                    m.sessions.entry(cap.client).or_insert_with(|| Writer::encode(session.record()));
                }
                if !is_as_sent {
                    m.caps.push(cap);
                }
            }
            for (client, [posix, flock]) in cache.locks.of_file(ino) {
                if is_active("mds_hands_over_no_locks") {
                    continue;
                }
                let mut w = Writer::new();
                w.put(&posix);
                w.put(&flock);
                m.locks.push(HandedLocks { ino: ino.ino.0, client: client.0, locks: w.into_vec() });
            }
        }
        // The rest is not in it any more.
        m.changed.extend(sent.into_keys().map(|ino| ino.ino.0));
        Some(m)
    }

    /// True if the rank that a subtree was handed over to has stopped without it: the map that said so came
    /// late. A rank that has stopped has nothing, and changes no record.
    fn has_stopped(&self, root: Ino, to: MdsRank) -> bool {
        let is_recorded = self.cache.subtrees.hold(root) == Some(Hold::Leaving);
        is_recorded && self.migration.knows_ranks && !self.migration.ranks.contains_key(&to)
    }

    /// True if a subtree of which clients claimed something here, and which another rank has, has become part
    /// of the one around it since.
    fn has_joined(&self, root: Ino) -> bool {
        !root.is_base() && self.cache.subtrees.hold(root).is_none()
    }

    /// Writes the record of a subtree that stays here after all.
    fn take_back(&mut self, root: Ino) {
        let Some(record) = self.cache.subtrees.record(root).cloned() else { return };
        let kept = SubtreeRecord { rank: own(&self.env), from: None, ..record };
        let kept = Some(kept).filter(|record| record.was_alone);
        self.migration.exports.get_mut(&root).expect("under way").step = Step::Stay;
        self.write_record(root, kept.as_ref(), Write::Stay);
    }

    /// The record says that the subtree is this rank's again.
    pub(super) fn taken_back(&mut self, root: Ino) {
        let Some(export) = self.migration.exports.remove(&root) else { return };
        match self.cache.subtrees.record(root).cloned().filter(|record| record.was_alone) {
            Some(record) => {
                let record = SubtreeRecord { rank: own(&self.env), from: None, ..record };
                self.cache.subtrees.set_with(root, Hold::Own, Some(record));
            }
            None => self.cache.subtrees.remove(root),
        }
        self.forget_shard(root);
        let text = format!("subtree {root} stays here: rank {} has stopped", export.to);
        self.env.log(Level::Info, "subtree_kept", text);
        self.release_held(root);
        self.tell_authority(root);
        self.partition_changed(true);
    }

    /// The other rank has the subtree.
    pub(super) fn subtree_taken(&mut self, from: MdsRank, m: &MdsTaken) {
        let root = Ino(m.root);
        let is_awaited = |export: &mut Export| export.to == from && matches!(export.step, Step::Hand(_));
        if !self.migration.exports.get_mut(&root).is_some_and(is_awaited) {
            return;
        }
        let export = self.migration.exports.remove(&root);
        self.migration.held.remove(&root);
        let was_passed_on = self.is_passed_on(root);
        let Self { env, cache, sessions, migration, .. } = self;
        let taken = by_holder(&m.caps);
        let inside = cache.subtree(root);
        migration.has_left(inside.len());
        for ino in inside.iter().copied() {
            let Some(inode) = cache.inodes.get_mut(&ino) else { continue };
            migration.exported.extend(let_go(inode, sessions, from, &taken));
            cache.locks.forget(ino);
        }
        let has_name_here = cache.subtrees.record(root).is_none_or(|record| {
            let around = cache.authority(cache.subtrees.around(root, record));
            !record.was_alone || matches!(around, Ok(Auth::Here | Auth::Frozen(_)))
        });
        cache.drop_subtree(root);
        if !has_name_here || root.is_shard() {
            cache.drop_root(root);
        }
        match cache.subtrees.record(root).cloned().filter(|_| !m.is_merged) {
            Some(mut record) => {
                record.from = None;
                cache.subtrees.set_with(root, Hold::Foreign(from), Some(record));
            }
            None => cache.subtrees.remove(root),
        }
        migration.pinned.remove(&root);
        self.strays.subtree_left(root, &inside);
        self.balance.popularity.forget(inside.iter().map(|ino| ino.ino));
        let waited = export.and_then(|export| Some(env.now().since(export.settling_since?)));
        let waited =
            waited.map_or(String::new(), |t| format!(", and operations waited {} ms", t.as_millis()));
        let text = format!("subtree {root} with {} inodes is rank {from}'s now{waited}", inside.len());
        env.log(Level::Info, "subtree_exported", text);
        if was_passed_on {
            self.pass_on_rest();
        }
        self.tell_exported();
        self.partition_changed(true);
    }
}

/// Capabilities as another rank has taken them, by inode and client.
pub(super) type Taken = FastMap<(u64, u64), TakenCap>;

pub(super) fn by_holder(caps: &[TakenCap]) -> Taken {
    caps.iter().map(|c| ((c.ino, c.client), *c)).collect()
}

/// Takes the capabilities on an inode away that another rank has now, which their clients are to be told.
pub(super) fn let_go(
    inode: &mut Inode,
    sessions: &mut Sessions,
    to: MdsRank,
    taken: &Taken,
) -> Vec<Exported> {
    let key = inode.data.key();
    let clients: Vec<ClientId> = inode.caps.clients().collect();
    let one = |client: ClientId| {
        let cap = inode.caps.remove(client).expect("one of its capabilities");
        sessions.release(client, key);
        let taken = taken.get(&(key.ino.0, client.0)).copied();
        Exported { to, ino: key.ino, client, cap_id: cap.id, migrate_seq: cap.migrate_seq, taken }
    };
    clients.into_iter().map(one).collect()
}

/// True if two subtrees may leave together: directories of which none is in the other, or shards of the same
/// directory.
pub(super) fn may_leave_with(cache: &Cache, one: Ino, other: Ino) -> bool {
    match (one.as_shard(), other.as_shard()) {
        (Some(one), Some(other)) => one.ino == other.ino && one.frag != other.frag,
        (None, None) => !one.is_base() && !other.is_base() && !is_nested(cache, one, other),
        _ => false,
    }
}

/// True if one of two directories is in the other.
fn is_nested(cache: &Cache, one: Ino, other: Ino) -> bool {
    let is_below = |dir: Ino, above: Ino| {
        let dir = cache.inodes.get(&dir.head());
        dir.is_some_and(|dir| cache.upwards(dir).any(|inode| inode.data.ino == above))
    };
    one == other || is_below(one, other) || is_below(other, one)
}
