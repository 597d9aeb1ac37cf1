//! Inodes and names: learning from replies, forgetting, and which inodes need attention.

mod inodes;
mod promised;
mod quota;
mod snapped;

use crate::api::{Attr, Entry, Ino};
use crate::buffer::BufferTotal;
use crate::deadlines::Deadlines;
use crate::dir_handle::StreamEntry;
use crate::inode::{Inode, ListingRight, PATIENCE};
use crate::key::{InodeKey, OpId};
use crate::names::{Name, Names};
use crate::numbers::Numbers;
use crate::partition::Partition;
use crate::realms::Realms;
use crate::references::References;
use crate::releases::Release;
use crate::unwanted::Unwanted;
use inodes::Inodes;
use maps::{FileLayout, MdsRank, ceph_str_hash_rjenkins};
use msgs::{
    CapReconnect, CapReleaseItem, Caps, ClientCaps, ClientReply, ClientSnap, DirStat, InodeStat, LeaseStat,
    cap_op, snap_op,
};
use rados::SnapContext;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use stdx::{Instant, Now, Shared};
use wire::Errno;

/// Hashes of names of inodes that were dropped, for each inode that is kept, of 10 bytes or so: other names
/// are known not to be in their directories.
const FORGOTTEN_PER_INODE: usize = 32;

/// The inodes and names that the client knows.
///
/// Invariants: an inode that something happened to is settled before the input ends; the total of buffered
/// bytes is the sum over the inodes; a capability that is dropped is given back.
#[derive(Debug)]
pub(crate) struct Cache {
    inodes: Inodes,
    /// References that local callers hold to inodes that are not here.
    references: References,
    numbers: Numbers,
    /// The layout that came last: inodes with the same one share it.
    last_layout: Shared<FileLayout>,
    names: Names,
    partition: Partition,
    buffer: BufferTotal,
    realms: Realms,
    /// A directory with a quota was ever here.
    has_quotas: bool,
    /// Quotas are told, and do not limit what is done here.
    ignores_quotas: bool,
    /// Inodes to be settled: written back, invalidated, reported to their MDS.
    unsettled: BTreeSet<InodeKey>,
    /// Inodes whose waiters may go on.
    changed: BTreeSet<InodeKey>,
    /// Operations that may go on.
    woken: Vec<OpId>,
    /// Capabilities to be given back.
    releases: Vec<Release>,
    /// Directories that were forgotten while listings of them may be under way.
    forgotten_dirs: Vec<InodeKey>,
    /// The error of a write to an inode that is not here any more, if nobody was told of it.
    untold_error: Option<Errno>,
    /// Invalidations under way.
    invalidations: BTreeMap<u64, InodeKey>,
    last_invalidation: u64,
    /// When withdrawals of names take too long.
    overdue_at: Deadlines<u64>,
    /// When names of directories are not believed above any more.
    names_expire_at: Deadlines<InodeKey>,
    /// When this client has not worked in directories for a while.
    work_ends_at: Deadlines<InodeKey>,
    unwanted: Unwanted,
    last_flush_tid: u64,
    /// The inodes of flushes without an acknowledgement, by tid, and of some that are lost with their inodes.
    flushes: BTreeMap<u64, InodeKey>,
    use_counter: u64,
    unused_limit: usize,
    /// Calls of [`Self::trim_inodes`] that do not look.
    calls_without_look: usize,
}

impl Cache {
    /// An empty cache: beyond `unused_limit` inodes those that nobody uses are dropped, writers wait beyond
    /// `buffer_limit` bytes.
    pub(crate) fn new(unused_limit: usize, buffer_limit: u64) -> Self {
        Self {
            inodes: Inodes::default(),
            references: References::default(),
            numbers: Numbers::default(),
            last_layout: Shared::default(),
            names: Names::new(FORGOTTEN_PER_INODE * unused_limit),
            partition: Partition::default(),
            buffer: BufferTotal::new(buffer_limit),
            realms: Realms::default(),
            has_quotas: false,
            ignores_quotas: false,
            unsettled: BTreeSet::new(),
            changed: BTreeSet::new(),
            woken: Vec::new(),
            releases: Vec::new(),
            forgotten_dirs: Vec::new(),
            untold_error: None,
            invalidations: BTreeMap::new(),
            last_invalidation: 0,
            overdue_at: Deadlines::default(),
            names_expire_at: Deadlines::default(),
            work_ends_at: Deadlines::default(),
            unwanted: Unwanted::default(),
            last_flush_tid: 0,
            flushes: BTreeMap::new(),
            use_counter: 0,
            unused_limit,
            calls_without_look: 0,
        }
    }

    #[cfg(test)]
    pub(crate) fn limit_unused_inodes(&mut self, limit: usize) {
        self.unused_limit = limit;
    }

    #[cfg(test)]
    pub(crate) fn forget_at_most(&mut self, names: usize) {
        self.names.forget_at_most(names);
    }

    pub(crate) fn inode(&self, key: InodeKey) -> Option<&Inode> {
        self.inodes.get(&key)
    }

    /// An inode to be changed; [`Cache::inode_changed`] or [`Cache::settle_later`] follows.
    pub(crate) fn inode_mut(&mut self, key: InodeKey) -> Option<&mut Inode> {
        self.inodes.get_mut(&key)
    }

    /// An inode that an open file keeps.
    pub(crate) fn open_inode(&mut self, key: InodeKey) -> &mut Inode {
        self.inodes.get_mut(&key).expect("an open file keeps its inode")
    }

    pub(crate) fn len(&self) -> usize {
        self.inodes.len()
    }

    /// Number of capabilities held.
    pub(crate) fn cap_count(&self) -> usize {
        self.inodes.values().filter(|i| i.caps().cap().is_some()).count()
    }

    pub(crate) fn buffer(&self) -> &BufferTotal {
        &self.buffer
    }

    pub(crate) fn partition(&self) -> &Partition {
        &self.partition
    }

    // Attention.

    /// Something about the inode changed: its waiters try again, and it is settled.
    pub(crate) fn inode_changed(&mut self, key: InodeKey) {
        self.changed.insert(key);
        self.unsettled.insert(key);
    }

    /// An operation wants something of the inode: it is settled, and no waiter is woken.
    pub(crate) fn settle_later(&mut self, key: InodeKey) {
        self.unsettled.insert(key);
    }

    /// Wakes the inode's waiters, without settling it again.
    pub(crate) fn wake_waiters(&mut self, key: InodeKey) {
        self.changed.insert(key);
    }

    pub(crate) fn next_unsettled(&mut self) -> Option<InodeKey> {
        self.unsettled.pop_first()
    }

    /// The waiters of the next inode that changed; `None` if there is no such inode.
    pub(crate) fn next_waiters(&mut self) -> Option<BTreeSet<OpId>> {
        let key = self.changed.pop_first()?;
        Some(self.inodes.get_mut(&key).map(Inode::take_waiters).unwrap_or_default())
    }

    /// Takes the operations that may go on.
    pub(crate) fn take_woken(&mut self) -> Vec<OpId> {
        std::mem::take(&mut self.woken)
    }

    /// Takes the capabilities to be given back.
    pub(crate) fn take_releases(&mut self) -> Vec<Release> {
        std::mem::take(&mut self.releases)
    }

    /// Takes the directories that were forgotten.
    pub(crate) fn take_forgotten_dirs(&mut self) -> Vec<InodeKey> {
        std::mem::take(&mut self.forgotten_dirs)
    }

    // Learning.

    /// Takes everything that a reply of `rank` says of dentry and inode.
    pub(crate) fn learn(&mut self, now: Now, rank: MdsRank, reply: &ClientReply) {
        self.learn_realms(&reply.snap_trace);
        let target = reply.trace.target.as_ref().map(|target| self.learn_inode(rank, target));
        if let Some(dentry) = &reply.trace.dentry {
            let dir = self.learn_inode(rank, &dentry.dir);
            self.learn_dir(dir, &dentry.dir_stat);
            self.learn_name(now, dir, &dentry.name, target, &dentry.lease);
        }
    }

    /// Takes the description of an inode, and the capability that came with it from `rank`.
    pub(crate) fn learn_inode(&mut self, rank: MdsRank, stat: &InodeStat) -> InodeKey {
        let key = InodeKey::new(stat.ino, stat.snapid);
        self.use_counter += 1;
        let Self { inodes, numbers, references, .. } = self;
        let inode = inodes.get_or_insert_with(key, || {
            let mut inode = Inode::new(key, numbers.give(key));
            references.give_back(&mut inode);
            inode
        });
        inode.set_used_at(self.use_counter);
        self.releases.extend(inode.update(rank, stat).map(|(rank, item)| Release::soon(rank, item)));
        inode.share_layout(&mut self.last_layout);
        self.has_quotas |= inode.attrs().quota().is_enabled();
        self.inode_changed(key);
        key
    }

    /// Takes a message about snapshot realms.
    pub(crate) fn snap_message(&mut self, msg: &ClientSnap) {
        self.learn_realms(&msg.trace);
        if msg.op != snap_op::SPLIT {
            return;
        }
        for realm in &msg.split_realms {
            self.realms.move_below(*realm, msg.split);
        }
        for ino in &msg.split_inos {
            let Some(inode) = self.inodes.get_mut(&InodeKey::head(*ino)) else { continue };
            if inode.caps().cap().is_some_and(|cap| self.realms.may_move(cap.realm(), msg.split)) {
                inode.move_to_realm(msg.split);
            }
        }
    }

    /// The snapshots that a write to an inode must preserve.
    pub(crate) fn snap_context(&self, key: InodeKey) -> SnapContext {
        let cap = self.inodes.get(&key).and_then(|inode| inode.caps().cap());
        let cap = cap.filter(|_| !stdx::mutants::is_active("client_writes_without_snapshots"));
        cap.map_or_else(SnapContext::default, |cap| self.realms.context(cap.realm()))
    }

    /// Takes the authority of a directory's fragment.
    pub(crate) fn learn_dir(&mut self, dir: InodeKey, stat: &DirStat) {
        if self.inodes.contains_key(&dir) {
            self.partition.learn(dir, stat);
        }
    }

    /// Takes a name, `None` if it does not exist.
    pub(crate) fn learn_name(
        &mut self,
        now: Now,
        dir: InodeKey,
        name: &[u8],
        target: Option<InodeKey>,
        lease: &LeaseStat,
    ) {
        // What was promised of a name is newer than any answer before that to the promise.
        let Some(parent) = self.inodes.get(&dir).filter(|dir| !dir.promised().has_name(name)) else { return };
        self.names.learn(now, parent, name, target, lease);
        if let Some(inode) = target.and_then(|key| self.inodes.get_mut(&key)) {
            inode.set_parent(dir, name);
        }
    }

    /// Takes a message about a capability. Returns an error to be logged.
    pub(crate) fn cap_message(&mut self, rank: MdsRank, tid: u64, msg: &ClientCaps) -> Option<String> {
        let key = InodeKey::head(msg.ino);
        if msg.op == cap_op::FLUSH_ACK {
            self.flushes.remove(&tid);
            self.inodes.get_mut(&key)?.take_flush_ack(tid, msg);
            self.inode_changed(key);
            return None;
        }
        if msg.op == cap_op::IMPORT {
            self.learn_realms(&msg.snap_trace);
            if let Some(inode) = self.inodes.get(&key).filter(|inode| inode.attr().nlink == 1)
                && let Some((dir, name)) = inode.parent()
            {
                self.partition.infer(*dir, name, rank);
            }
            if self.inodes.get_mut(&key).is_some_and(|inode| inode.take_moved_cap(rank, msg)) {
                self.inode_changed(key);
                return None;
            }
        }
        let is_held =
            |i: &&mut Inode| i.caps().cap().is_some_and(|c| c.id() == msg.cap_id && c.auth_rank() == rank);
        let Some(inode) = self.inodes.get_mut(&key).filter(is_held) else {
            // We have given it up, and the release may still be on its way. The message does not bring it
            // back: for the MDS the capability ends with that release.
            if matches!(msg.op, cap_op::REVOKE | cap_op::GRANT | cap_op::IMPORT) {
                let (cap_id, migrate_seq) = (msg.cap_id, msg.migrate_seq);
                let item = CapReleaseItem { ino: msg.ino, cap_id, migrate_seq, seq: msg.seq };
                self.releases.push(Release::soon(rank, item));
            }
            return None;
        };
        let mut error = None;
        match msg.op {
            cap_op::GRANT | cap_op::REVOKE | cap_op::TRUNC => inode.take_cap_message(msg),
            cap_op::EXPORT => match msg.next_authority() {
                Some(next) => inode.move_cap(&next),
                // The MDS has dropped the capability, and nothing tells us that another rank has it.
                None if inode.lose_all() => {
                    error = Some(format!("the MDS has dropped the capability on inode {:x}", msg.ino));
                }
                None => {}
            },
            _ => {}
        }
        self.inode_changed(key);
        error
    }

    /// An inode's capability comes from further ranks than the one that has it here.
    pub(crate) fn catch_up(&mut self, msg: &ClientCaps) {
        if let Some(inode) = self.inodes.get_mut(&InodeKey::head(msg.ino)) {
            inode.catch_up(msg);
        }
    }

    // Names.

    /// The answer for a name without asking an MDS.
    pub(crate) fn lookup(&self, now: Now, dir: InodeKey, name: &[u8]) -> Name {
        self.inodes.get(&dir).map_or(Name::Unknown, |dir| self.names.lookup(now, dir, name))
    }

    /// The inode that a name last led to, believed or not.
    pub(crate) fn last_known(&self, dir: InodeKey, name: &[u8]) -> Option<InodeKey> {
        self.names.last_known(dir, name)
    }

    /// Forgets a name that may exist.
    pub(crate) fn forget_name(&mut self, dir: InodeKey, name: &[u8]) {
        match self.inodes.get_mut(&dir) {
            Some(parent) if self.names.forget(parent, name) => {}
            Some(parent) => parent.forget_name(),
            None => self.names.remove(dir, name),
        }
    }

    /// Notes that a name does not exist any more, because we removed it under the directory's `Fs`.
    pub(crate) fn note_removed(&mut self, dir: InodeKey, name: &[u8]) {
        if let Some(parent) = self.inodes.get(&dir) {
            self.names.note_absent(parent, name);
        }
    }

    /// All entries of a directory in the order of an MDS's listing, if names and attributes are believed
    /// here.
    pub(crate) fn listing(&self, dir: InodeKey) -> Option<Vec<StreamEntry>> {
        const HASH_MASK: u32 = 0xff_ffff;
        let dir = self.inodes.get(&dir).filter(|dir| dir.attrs().hashes_by_rjenkins())?;
        let mut all = Vec::new();
        for (name, key) in self.names.all_of(dir)? {
            let inode = self.inodes.get(&key).filter(|inode| inode.knows_attributes())?;
            let entry = StreamEntry { key, mode: inode.attrs().mode(), name: name.to_vec() };
            all.push((ceph_str_hash_rjenkins(name) & HASH_MASK, entry));
        }
        // Names come in their own order, and stay in it where hashes are equal.
        all.sort_by_key(|(hash, _)| *hash);
        Some(all.into_iter().map(|(_, entry)| entry).collect())
    }

    /// The right that a listing of `dir` which arrives now rests on; `None` without `Fs`.
    pub(crate) fn listing_right(&self, dir: InodeKey) -> Option<ListingRight> {
        self.inodes.get(&dir)?.listing_right()
    }

    // References and forgetting.

    /// The inode of a name for a local caller, who holds one more reference to it from now on.
    pub(crate) fn entry(&mut self, now: Now, dir: InodeKey, name: &[u8], key: InodeKey) -> Option<Entry> {
        let entry = self.entry_of(key)?;
        let entry_valid = self.tell_name_if(now, dir, name, |names, dir| names.leads_to(dir, name, key));
        Some(Entry { entry_valid, ..entry })
    }

    /// The same for an inode that was found without a name.
    pub(crate) fn entry_of(&mut self, key: InodeKey) -> Option<Entry> {
        let inode = self.inodes.get_mut(&key)?;
        inode.add_lookups(1);
        self.use_counter += 1;
        inode.set_used_at(self.use_counter);
        let (attr, attr_valid) = (inode.attr(), inode.tell_attributes(false));
        Some(Entry { attr, entry_valid: Duration::ZERO, attr_valid })
    }

    /// True if local callers believe both that a name leads to an inode and its attributes, and will for a
    /// while yet: to tell them again brings nothing.
    pub(crate) fn is_entry_fresh(&self, now: Now, dir: InodeKey, name: &[u8], key: InodeKey) -> bool {
        let is_name_fresh = |dir: &Inode| dir.is_name_fresh(now.mono, name);
        self.inodes.get(&dir).is_some_and(is_name_fresh)
            && self.inodes.get(&key).is_some_and(Inode::are_attributes_told)
    }

    /// The time for which a local caller may believe the answer for a name.
    pub(crate) fn tell_name(&mut self, now: Now, dir: InodeKey, name: &[u8]) -> Duration {
        self.tell_name_if(now, dir, name, |names, dir| names.is_under_right(dir, name))
    }

    /// The same, if the table's answer for the name is sure.
    fn tell_name_if(
        &mut self,
        now: Now,
        dir: InodeKey,
        name: &[u8],
        is_sure: impl Fn(&Names, &Inode) -> bool,
    ) -> Duration {
        let Some(inode) = self.inodes.get_mut(&dir).filter(|inode| is_sure(&self.names, inode)) else {
            return Duration::ZERO;
        };
        let valid = inode.tell_name(now.mono, name);
        if valid > Duration::ZERO {
            self.names_expire_at.note(dir, now.mono + Inode::NAMES_KEPT);
        }
        valid
    }

    /// Local callers have moved a name: they believe it at its new place for as long as at its old one.
    pub(crate) fn move_told_name(
        &mut self,
        now: Now,
        (dir, name): (InodeKey, &[u8]),
        (new_dir, new_name): (InodeKey, &[u8]),
    ) {
        let is_told = self.inodes.get(&dir).is_some_and(|dir| dir.is_name_told(name));
        if let Some(new) = self.inodes.get_mut(&new_dir).filter(|_| is_told) {
            self.names_expire_at.note(new_dir, now.mono + Inode::NAMES_KEPT);
            new.note_told_name(now.mono, new_name);
            self.unsettled.insert(new_dir);
        }
    }

    /// The attributes of an inode that a local caller has asked for by its number, and the time for which it
    /// may believe them.
    pub(crate) fn attributes(&mut self, key: InodeKey) -> Option<(Attr, Duration)> {
        let inode = self.inodes.get_mut(&key)?;
        self.use_counter += 1;
        inode.set_used_at(self.use_counter);
        let valid = inode.tell_attributes(true);
        Some((inode.attr(), valid))
    }

    /// A local caller gives references back.
    pub(crate) fn forget_lookups(&mut self, ino: Ino, count: u64) {
        let key = self.key(ino);
        if let Some(inode) = self.inodes.get_mut(&key) {
            inode.forget_lookups(count);
            if !inode.usage().is_referenced() && inode.attrs().nlink() == 0 {
                self.inode_changed(key);
            }
        } else {
            self.references.forget(ino, count);
        }
    }

    /// The directory that a directory is in, as far as is known.
    pub(crate) fn parent(&self, dir: InodeKey) -> Option<InodeKey> {
        let parent = self.inodes.get(&dir).and_then(|inode| inode.parent());
        parent.map(|(parent, _)| *parent).or_else(|| self.references.parent(self.number(dir)))
    }

    /// Drops the inodes that were used least recently, if there are too many. What callers believe of one is
    /// withdrawn first, so that it goes when there are too many again. A look visits all inodes; so there is
    /// one in many calls, each of which adds at most one inode.
    pub(crate) fn trim_inodes(&mut self) {
        let slack = self.unused_limit / 8;
        if self.inodes.len() < self.unused_limit + slack {
            self.calls_without_look = 0;
            return;
        }
        if self.calls_without_look > 0 {
            self.calls_without_look -= 1;
            return;
        }
        self.calls_without_look = slack;
        let excess = self.inodes.len() - self.unused_limit;
        let is_needed = |i: &&Inode| i.key() == InodeKey::ROOT || i.attrs().quota().is_enabled();
        let unused = self.inodes.values().filter(|i| i.is_idle() || i.is_replaceable());
        // With a directory its names would go.
        let rank = |i: &Inode| (i.attrs().is_dir(), i.usage().used_at(), i.key());
        let mut unused: Vec<_> = unused.filter(|i| !is_needed(i)).map(rank).collect();
        unused.sort_unstable();
        unused.into_iter().take(excess).for_each(|(_, _, key)| self.let_go(key));
    }

    /// Drops an inode that nobody uses; if callers believe something of it, this is withdrawn first.
    fn let_go(&mut self, key: InodeKey) {
        let Some(inode) = self.inodes.get_mut(&key) else { return };
        if inode.may_go() {
            self.drop_inode(key);
        } else if inode.is_replaceable() {
            inode.withdraw_belief();
            self.unsettled.insert(key);
        }
    }

    /// Gives capabilities of `rank` back until at most `max` are held.
    pub(crate) fn trim_caps(&mut self, rank: MdsRank, max: usize) {
        let is_held = |i: &&Inode| i.caps().cap().is_some_and(|cap| cap.auth_rank() == rank);
        // An MDS tells only those that hold a directory with a quota how much of it is used.
        let is_needed = |i: &&Inode| i.key() == InodeKey::ROOT || i.attrs().quota().is_enabled();
        let held = self.inodes.values().filter(is_held).filter(|i| !is_needed(i));
        let mut held: Vec<_> = held.map(|i| (!i.is_idle(), i.usage().used_at(), i.key())).collect();
        let excess = held.len().saturating_sub(max);
        held.sort_unstable();
        for (in_use, _, key) in held.into_iter().take(excess) {
            if !in_use {
                self.drop_inode(key);
                continue;
            }
            let inode = self.inodes.get_mut(&key).expect("just listed");
            if inode.is_only_referenced() && inode.is_believed_above() {
                // It goes back when it is recalled again, after what rests on it.
                inode.withdraw_belief();
                self.unsettled.insert(key);
            } else if inode.is_only_referenced() {
                self.releases.extend(release_of(inode));
                inode.lose_cap();
            }
        }
    }

    /// Drops an inode that may go and gives its capability back.
    pub(crate) fn drop_inode(&mut self, key: InodeKey) {
        let Some(mut inode) = self.inodes.remove(&key) else { return };
        if inode.attrs().nlink() > 0 {
            self.untold_error = inode.take_untold_error().or(self.untold_error);
        }
        assert!(inode.may_go(), "inode {key:?} is dropped while it is in use");
        self.numbers.take_back(inode.number());
        self.references.dropped(&inode);
        self.names_expire_at.remove(key);
        self.work_ends_at.remove(key);
        self.recount_as((inode.data().counted_bytes(), 0));
        self.buffer.note_clean(key);
        self.releases.extend(release_of(&inode));
        if let Some((dir, name)) = inode.parent()
            && self.names.last_known(*dir, name) == Some(key)
        {
            self.forget_name(*dir, name);
        }
        if inode.attrs().is_dir() {
            self.names.remove_dir(key);
            self.partition.forget(key);
            self.forgotten_dirs.push(key);
        }
    }

    // Sessions.

    /// The session with `rank` is lost: nothing shared is believed until its next MDS has our claims.
    pub(crate) fn suspend(&mut self, rank: MdsRank) {
        self.for_each_of(rank, Inode::suspend);
    }

    /// The session with `rank` serves again.
    pub(crate) fn resume(&mut self, rank: MdsRank) {
        self.for_each_of(rank, Inode::resume);
    }

    /// The session with `rank` can't be had back: its capabilities are void, and what was changed under them
    /// is lost. Returns the number of inodes with lost changes.
    pub(crate) fn lose_session(&mut self, rank: MdsRank) -> usize {
        let mut lost = 0;
        self.for_each_of(rank, |inode| lost += usize::from(inode.lose_all()));
        // A name may rest on a lease of a rank that is not its directory's.
        self.names.clear();
        self.inodes.values_mut().for_each(Inode::forget_name);
        lost
    }

    /// True if capabilities of `rank` are held.
    pub(crate) fn holds_of(&self, rank: MdsRank) -> bool {
        self.inodes.values().any(|i| i.caps().cap().is_some_and(|cap| cap.auth_rank() == rank))
    }

    fn for_each_of(&mut self, rank: MdsRank, mut act: impl FnMut(&mut Inode)) {
        let mut keys = Vec::new();
        for inode in self.inodes.values_mut().filter(|i| i.rests_on(rank)) {
            act(inode);
            keys.push(inode.key());
        }
        keys.into_iter().for_each(|key| self.inode_changed(key));
    }

    /// Gives up capabilities of `rank`, whose MDS is gone, on inodes that nobody uses: `max` are kept, those
    /// that were used last. Its next MDS has to load what is claimed.
    pub(crate) fn give_up_idle(&mut self, rank: MdsRank, max: usize) {
        self.trim_caps(rank, max);
        self.releases.retain(|release| release.rank != rank);
    }

    /// The claims on all capabilities of `rank`, for its next MDS.
    pub(crate) fn claims(&mut self, rank: MdsRank) -> BTreeMap<u64, CapReconnect> {
        let of_rank = self.inodes.values_mut().filter(|i| i.rests_on(rank));
        of_rank.filter_map(|i| Some((i.key().ino(), i.claim()?))).collect()
    }

    // Write-back.

    /// Has data and attributes of an inode leave after a while.
    pub(crate) fn note_dirty(&mut self, now: Now, key: InodeKey) {
        self.buffer.note_dirty(now, key);
    }

    /// Has a writer wait until fewer bytes are buffered.
    pub(crate) fn wait_for_space(&mut self, op: OpId) {
        self.buffer.wait_for_space(op);
    }

    /// Updates the total of buffered bytes after a file's have changed, however that was.
    pub(crate) fn recount(&mut self, key: InodeKey) {
        if let Some(counts) = self.inodes.get_mut(&key).map(Inode::recount) {
            self.recount_as(counts);
        }
    }

    fn recount_as(&mut self, counts: (u64, u64)) {
        self.woken.extend(self.buffer.recount(counts));
    }

    /// True if buffered data of the inode should leave now.
    pub(crate) fn is_write_back_due(&self, now: Now, inode: &Inode) -> bool {
        inode.must_write_back() || self.buffer.is_crowded() || self.buffer.is_due(now, inode.key())
    }

    /// Has everything leave that has waited for long enough.
    pub(crate) fn write_back_old(&mut self, now: Now) {
        for key in self.buffer.take_due(now) {
            if let Some(inode) = self.inodes.get_mut(&key) {
                inode.want_old_to_leave();
            }
            self.inode_changed(key);
        }
    }

    /// Has `op` wait until every inode's data and attributes are durable. Returns false if they are.
    pub(crate) fn wait_for_all(&mut self, op: OpId) -> bool {
        let mut waits = false;
        for inode in self.inodes.values_mut().filter(|i| i.has_unwritten() || i.promised().is_any()) {
            inode.wait_for_sync(op);
            self.unsettled.insert(inode.key());
            waits = true;
        }
        waits
    }

    /// The error of a write that failed, if nobody was told of it.
    pub(crate) fn take_untold_error(&mut self) -> Option<Errno> {
        let errors = self.inodes.values_mut().filter_map(Inode::take_untold_error);
        errors.fold(self.untold_error.take(), |first, error| first.or(Some(error)))
    }

    /// Composes the message about the inode's capability that is due, with the tid of its flush or 0.
    pub(crate) fn take_cap_message(&mut self, key: InodeKey) -> Option<(u64, ClientCaps)> {
        let tid = self.last_flush_tid + 1;
        let tells_unwanted = self.unwanted.is_due(key);
        let mut message = self.inodes.get_mut(&key)?.cap_message(tid, tells_unwanted)?;
        if message.dirty == Caps::NONE {
            return Some((0, message));
        }
        self.last_flush_tid = tid;
        self.flushes.insert(tid, key);
        message.oldest_flush_tid = self.oldest_flush();
        self.wake_waiters(key);
        Some((tid, message))
    }

    /// The oldest flush without an acknowledgement, of any inode: the MDS remembers this one and later ones,
    /// lest it carry one out again. 0 if there is none.
    fn oldest_flush(&mut self) -> u64 {
        while let Some(flush) = self.flushes.first_entry() {
            let (tid, inode) = (*flush.key(), self.inodes.get(flush.get()));
            if inode.is_some_and(|inode| inode.caps().is_flushing(tid)) {
                return tid;
            }
            flush.remove();
        }
        0
    }

    /// The flushes of an inode that a rank gets again which has its capability now, by tid.
    pub(crate) fn repeat_flushes_of(&mut self, key: InodeKey) -> BTreeMap<u64, ClientCaps> {
        let tids = self.inodes.get(&key).map(|inode| inode.caps().flushing().collect()).unwrap_or_default();
        self.repeated(tids)
    }

    /// The flushes that the next MDS of `rank` gets again ahead of the claims, by tid.
    pub(crate) fn repeat_flushes(&mut self, rank: MdsRank) -> BTreeMap<u64, ClientCaps> {
        let rests = |key: &InodeKey| self.inodes.get(key).is_some_and(|inode| inode.rests_on(rank));
        let tids = self.flushes.iter().filter(|(_, key)| rests(key)).map(|(tid, _)| *tid).collect();
        self.repeated(tids)
    }

    fn repeated(&mut self, tids: Vec<u64>) -> BTreeMap<u64, ClientCaps> {
        if tids.is_empty() {
            return BTreeMap::new();
        }
        let oldest_flush_tid = self.oldest_flush();
        let repeat = |tid: u64| {
            let flush = self.inodes.get(self.flushes.get(&tid)?)?.repeat_flush(tid)?;
            Some((tid, ClientCaps { oldest_flush_tid, ..flush }))
        };
        tids.into_iter().filter_map(repeat).collect()
    }

    #[cfg(test)]
    pub(crate) fn last_flush(&self) -> u64 {
        self.last_flush_tid
    }

    /// Ends the settling of an inode: ends what was wanted of it and is done, drops it if nobody needs it.
    pub(crate) fn end_settling(&mut self, now: Now, key: InodeKey) {
        let Some(inode) = self.inodes.get_mut(&key) else { return self.unwanted.note(now, key, false) };
        let clean = inode.settle_write_back();
        // No name leads to it: the MDS may purge it only when we let go.
        let removed = inode.attrs().nlink() == 0 && key != InodeKey::ROOT;
        if cfg!(debug_assertions) {
            inode.check();
        }
        if clean {
            self.buffer.note_clean(key);
        } else if !inode.usage().access().writes {
            self.buffer.note_closed(now, key);
        }
        self.unwanted.note(now, key, inode.is_unwanted_file());
        if removed {
            self.let_go(key);
        }
        self.trim_inodes();
    }

    // Cached pages.

    /// Begins to invalidate stale pages of an inode. Returns the invalidation.
    pub(crate) fn start_invalidation(&mut self, key: InodeKey) -> Option<u64> {
        let inode = self.inodes.get_mut(&key).filter(|i| i.has_stale_pages())?;
        self.last_invalidation += 1;
        inode.start_invalidation(self.last_invalidation);
        self.invalidations.insert(self.last_invalidation, key);
        Some(self.last_invalidation)
    }

    /// Begins to withdraw stale attributes of an inode. Returns the withdrawal.
    pub(crate) fn start_withdrawal(&mut self, key: InodeKey) -> Option<u64> {
        let inode = self.inodes.get_mut(&key).filter(|i| i.has_stale_trust())?;
        self.last_invalidation += 1;
        inode.start_withdrawal(self.last_invalidation);
        self.invalidations.insert(self.last_invalidation, key);
        Some(self.last_invalidation)
    }

    /// Begins to withdraw stale names in a directory. Returns the withdrawal, and the names.
    pub(crate) fn start_name_withdrawal(&mut self, now: Now, dir: InodeKey) -> Option<(u64, Vec<Vec<u8>>)> {
        let inode = self.inodes.get_mut(&dir).filter(|i| i.has_stale_names())?;
        let id = self.last_invalidation + 1;
        let names = inode.start_name_withdrawal(now.mono, id);
        if names.is_empty() {
            return None;
        }
        self.last_invalidation = id;
        self.invalidations.insert(id, dir);
        self.overdue_at.note(id, now.mono + PATIENCE);
        Some((id, names))
    }

    /// Lets revocations go on that have waited for long for names to be withdrawn.
    pub(crate) fn end_patience(&mut self, now: Now) {
        while let Some(id) = self.overdue_at.take_due(now.mono) {
            let Some(key) = self.invalidations.get(&id).copied() else { continue };
            if let Some(rest) =
                self.inodes.get_mut(&key).and_then(|i| i.name_withdrawal_overdue(now.mono, id))
            {
                self.overdue_at.note(id, now.mono + rest);
            }
            self.inode_changed(key);
        }
    }

    /// Drops what was told of names and is not believed any more.
    pub(crate) fn drop_expired_names(&mut self, now: Now) {
        while let Some(dir) = self.names_expire_at.take_due(now.mono) {
            if self.inodes.get_mut(&dir).is_some_and(|inode| inode.drop_expired_names(now.mono)) {
                self.names_expire_at.note(dir, now.mono + Inode::NAMES_KEPT);
            }
        }
    }

    /// Has the MDSs told of files that nobody has wanted for a while.
    pub(crate) fn tell_unwanted(&mut self, now: Now) {
        self.unsettled.extend(self.unwanted.take_due(now));
    }

    /// The time of the next call of [`Self::end_patience`], [`Self::drop_expired_names`],
    /// [`Self::end_work`] or [`Self::tell_unwanted`] that has something to do.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        let names = [self.overdue_at.first(), self.names_expire_at.first()];
        let wishes = [self.work_ends_at.first(), self.unwanted.deadline()];
        names.into_iter().chain(wishes).flatten().min()
    }

    /// Local callers have forgotten what an invalidation or a withdrawal is about.
    pub(crate) fn finish_invalidation(&mut self, id: u64) {
        let Some(key) = self.invalidations.remove(&id) else { return };
        self.overdue_at.remove(id);
        if self.inodes.get_mut(&key).is_some_and(|inode| inode.finish_invalidation(id)) {
            self.inode_changed(key);
        }
    }

    #[cfg(test)]
    pub(crate) fn set_buffer_limit(&mut self, limit: u64) {
        self.buffer.set_limit(limit);
    }

    /// Asserts the invariants after an input.
    pub(crate) fn check(&self) {
        assert!(
            self.unsettled.is_empty() && self.changed.is_empty(),
            "the client settled with inodes to settle"
        );
        assert!(self.woken.is_empty(), "the client settled with operations to wake");
        assert!(self.releases.is_empty(), "the client settled with capabilities to give back");
        if cfg!(debug_assertions) {
            let counted = |key| self.inodes.get(&key).map_or(0, |inode: &Inode| inode.data().counted_bytes());
            self.buffer.check(counted);
        }
    }
}

fn release_of(inode: &Inode) -> Option<Release> {
    let cap = inode.caps().cap()?;
    let (rank, item) = (cap.auth_rank(), cap.release_item(inode.key().ino()));
    // The MDS frees the space of a file without a name once nobody has it.
    Some(if inode.attrs().nlink() == 0 { Release::soon(rank, item) } else { Release::later(rank, item) })
}
