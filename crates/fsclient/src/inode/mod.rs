//! One inode: attributes, the capability, users, buffered writes, cached pages; and the rules between them.

mod alone;
mod attributes;
mod capability;
mod listing;
mod messages;
mod pages;
mod promised;
mod small_files;
mod told_names;
mod trust;
mod usage;
mod write_back;

pub(crate) use attributes::{Attributes, Truncation};
pub(crate) use capability::Capability;
pub(crate) use listing::{ListingRight, NameRight};
pub(crate) use promised::Promised;
pub(crate) use told_names::PATIENCE;
pub(crate) use usage::{Access, Usage};
pub(crate) use write_back::WriteBack;

use crate::acl;
use crate::api::{Attr, Ino, SetAttr};
use crate::dirty::Flight;
use crate::key::{InodeKey, OpId};
use maps::FileLayout;
use msgs::{Caps, cap, small_file};
use pages::Pages;
use std::collections::BTreeSet;
use std::time::Duration;
use stdx::{Bufs, Instant, Rare, Shared, Wall};
use striper::Striper;
use told_names::{Right, ToldNames};
use trust::Trust;
use wire::Errno;

/// Each of these keeps others from writing, so that cached pages stay valid.
const KEEPS_PAGES: u32 = cap::FILE_CACHE | cap::FILE_BUFFER | cap::FILE_EXCL;

/// The time for which attributes are told, if a withdrawal is certain to reach whoever believes them.
const TOLD_FOR: Duration = Duration::from_secs(30);
/// The same for an answer that a withdrawal may overtake, because callers do not have the inode yet; and for
/// directories, whose recursive statistics change under no bit.
const TOLD_BRIEFLY: Duration = Duration::from_secs(1);
/// The bits that attributes rest on.
pub(crate) const STAT_CAPS: u32 = cap::PIN | cap::ANY_SHARED;

/// One inode. Its parts are owners of their own; this type holds what concerns several of them.
///
/// Invariants: a bit is given back only when nothing here uses it; a change that the MDS does not know is
/// never replaced by its older state; pages are kept only under a right that keeps others from writing.
#[derive(Debug, Default)]
pub(crate) struct Inode {
    key: InodeKey,
    /// The number by which local callers know it.
    number: Ino,
    attrs: Attributes,
    caps: Capability,
    usage: Usage,
    data: Rare<WriteBack>,
    pages: Pages,
    trust: Trust,
    names: NameRight,
    told_names: Rare<ToldNames>,
    promised: Rare<Promised>,
    /// This client works in this directory: it wants to create and unlink without waiting until then.
    works_until: Option<Instant>,
    /// The layout that new files of this directory get, as long as `DIR_CREATE` is held.
    file_layout: Option<Box<FileLayout>>,
    /// The directory and name where we last saw it.
    parent: Option<(InodeKey, Vec<u8>)>,
}

/// A little more would take a quarter more memory: allocators have no class between 512 and 640 bytes.
const _: () = assert!(size_of::<Inode>() <= 512);

impl Inode {
    pub(crate) fn new(key: InodeKey, number: Ino) -> Self {
        Self { key, number, ..Self::default() }
    }

    pub(crate) fn key(&self) -> InodeKey {
        self.key
    }

    /// The number by which local callers know it.
    pub(crate) fn number(&self) -> Ino {
        self.number
    }

    pub(crate) fn attrs(&self) -> &Attributes {
        &self.attrs
    }

    /// Shares the layout with the inode that had the same one last.
    pub(crate) fn share_layout(&mut self, last: &mut Shared<FileLayout>) {
        self.attrs.share_layout(last);
    }

    pub(crate) fn caps(&self) -> &Capability {
        &self.caps
    }

    /// The inode is in another snapshot realm now.
    pub(crate) fn move_to_realm(&mut self, realm: u64) {
        self.caps.move_to_realm(realm);
    }

    pub(crate) fn usage(&self) -> &Usage {
        &self.usage
    }

    pub(crate) fn data(&self) -> &WriteBack {
        &self.data
    }

    pub(crate) fn names(&self) -> &NameRight {
        &self.names
    }

    pub(crate) fn parent(&self) -> Option<&(InodeKey, Vec<u8>)> {
        self.parent.as_ref()
    }

    pub(crate) fn set_parent(&mut self, dir: InodeKey, name: &[u8]) {
        self.parent = Some((dir, name.to_vec()));
    }

    /// The attributes for local callers.
    pub(crate) fn attr(&self) -> Attr {
        self.attrs.attr(self.number)
    }

    // Rights.

    /// True if attributes are known here without asking. An inode without a name never gets one.
    pub(crate) fn knows_attributes(&self) -> bool {
        let links = if self.attrs.nlink() == 0 { cap::LINK_SHARED } else { 0 };
        self.may(STAT_CAPS & !links) && !self.attrs.is_outdated()
    }

    /// True if all of `bits` may be used.
    pub(crate) fn may(&self, bits: u32) -> bool {
        self.caps.issued().has(bits)
    }

    /// True if the ACLs are known here without asking.
    pub(crate) fn knows_acls(&self) -> bool {
        self.may(cap::XATTR_SHARED)
    }

    /// True unless it is known here that there is no access list, so that the mode says all.
    pub(crate) fn may_have_acl(&self) -> bool {
        !self.knows_acls() || self.attrs.xattrs().contains_key(acl::ACCESS)
    }

    /// A name has left this directory by a rename, whose reply describes the directory that it came to.
    pub(crate) fn note_outdated(&mut self) {
        self.attrs.note_outdated();
    }

    /// True if I/O under `bit` may go on, even while it is revoked: an invalidation may wait for I/O on its
    /// pages, and the revocation is confirmed only after it.
    pub(crate) fn may_do_io(&self, bit: u32) -> bool {
        self.may(bit) || self.pages.is_invalidating() && self.caps.implements(bit)
    }

    /// True if size and times are known here without asking.
    pub(crate) fn knows_size(&self) -> bool {
        self.caps.issued().has_any(cap::FILE_SHARED | cap::FILE_EXCL)
    }

    /// True if pages that local callers have stay valid: nobody else can write.
    pub(crate) fn may_keep_pages(&self) -> bool {
        self.caps.issued().has_any(KEEPS_PAGES)
    }

    /// The bits that open files and buffered writes want.
    pub(crate) fn wanted(&self) -> Caps {
        let Access { reads, writes, lazy } = self.usage.access();
        let mut bits = 0;
        if reads {
            bits |= cap::FILE_SHARED | cap::FILE_RD | cap::FILE_CACHE;
        }
        if writes {
            bits |= cap::FILE_SHARED | cap::FILE_EXCL | cap::FILE_WR | cap::FILE_BUFFER;
        }
        if !self.data.dirty().is_empty() {
            bits |= cap::FILE_WR | cap::FILE_BUFFER;
        }
        if lazy {
            bits |= cap::FILE_LAZYIO;
        }
        if self.works_until.is_some() {
            bits |= cap::DIR_ASYNC;
        }
        // Bits for attributes come with replies; wanting them would bring them back too early.
        if bits != 0 { Caps(bits | cap::PIN) } else { Caps::NONE }
    }

    /// The bits that something under way rests on: they may not be given back yet.
    fn in_use(&self) -> Caps {
        let mut bits = cap::PIN;
        if self.usage.is_reading() {
            bits |= cap::FILE_RD;
        }
        if !self.data.dirty().is_empty() {
            bits |= cap::FILE_WR | cap::FILE_BUFFER;
        }
        if self.pages.delays_revocation(self.may_keep_pages()) {
            bits |= KEEPS_PAGES | cap::FILE_RD | cap::FILE_WR;
        }
        if self.trust.delays_revocation(self.knows_attributes()) {
            bits |= cap::ANY_SHARED;
        }
        // Nobody may make a name in a directory before its removal is carried out.
        if self.promised.has_names() || self.promised.is_unlinked() && self.attrs.is_dir() {
            bits |= cap::DIR_ASYNC;
        }
        if self.told_names.delays_revocation(self.may(cap::FILE_SHARED)) {
            bits |= cap::FILE_SHARED;
        }
        Caps(bits)
    }

    /// True if nothing local needs the inode, and nobody refers to it: it may be forgotten.
    pub(crate) fn is_idle(&self) -> bool {
        self.is_unused() && !self.usage.is_referenced()
    }

    /// True if nothing local needs the inode but references from above. Of a live inode, whose number says
    /// all, these need nothing here, once callers believe nothing of it.
    pub(crate) fn is_unused(&self) -> bool {
        let is_withdrawing = self.trust.is_withdrawing() || self.told_names.is_withdrawing();
        let is_told = self.pages.is_invalidating() || is_withdrawing;
        let is_promised = self.promised.is_any();
        self.usage.is_unused() && !self.has_unwritten() && !is_told && !is_promised
    }

    /// True if the inode may be dropped from memory.
    pub(crate) fn may_go(&self) -> bool {
        self.is_idle() || self.is_replaceable() && !self.is_believed_above()
    }

    /// True if nothing local needs the inode, and an MDS can describe it to those who refer to it. It forgets
    /// an inode without a name; then only a file whose name others have removed is hardly in use above, since
    /// it would be open here. Somebody may be in such a directory, or hold the end of a pipe.
    pub(crate) fn is_replaceable(&self) -> bool {
        let may_be_forgotten = || self.attrs.is_file() && !self.usage.is_removed_here();
        self.is_unused() && self.key.is_head() && (self.attrs.nlink() > 0 || may_be_forgotten())
    }

    /// True if data are buffered or the MDS has not acknowledged a change.
    pub(crate) fn has_unwritten(&self) -> bool {
        !self.data.dirty().is_empty() || self.caps.has_dirty() || self.caps.has_flushing()
    }

    /// True if data are buffered or changes were not flushed yet.
    pub(crate) fn has_unflushed(&self) -> bool {
        !self.data.dirty().is_empty() || self.caps.has_dirty()
    }

    /// True if only references from above keep the inode: they need no capability.
    pub(crate) fn is_only_referenced(&self) -> bool {
        let is_needed = self.pages.is_cached() || self.promised.is_any();
        self.usage.is_closed() && !self.has_unwritten() && !is_needed
    }

    // Local users.

    pub(crate) fn opened(&mut self, access: Access) {
        self.usage.opened(access);
    }

    pub(crate) fn closed(&mut self, access: Access) {
        self.usage.closed(access);
        if !self.usage.access().writes {
            self.data.edit(WriteBack::closed);
        }
    }

    /// True if writes through an open file may be buffered; a lazy one may although others have it open.
    pub(crate) fn may_buffer(&self, access: Access) -> bool {
        self.may(cap::FILE_BUFFER) || access.lazy && self.may(cap::FILE_LAZYIO)
    }

    /// Local callers get pages by a read or write. Those that they may not keep are theirs to check.
    pub(crate) fn note_pages(&mut self) {
        if self.may_keep_pages() {
            self.pages.note_pages();
        }
    }

    /// Local callers have been told of changes together with their own: unless nobody else can have made any,
    /// their pages are dropped.
    pub(crate) fn told_own_change(&mut self) {
        if !self.may_keep_pages() && self.attrs.is_file() {
            self.pages.doubt();
        }
    }

    /// A local caller takes the last name away, or could not.
    pub(crate) fn set_removed_here(&mut self, is_removed: bool) {
        self.usage.set_removed_here(is_removed);
    }

    pub(crate) fn add_lookups(&mut self, count: u64) {
        self.usage.add_lookups(count);
    }

    pub(crate) fn forget_lookups(&mut self, count: u64) {
        self.usage.forget_lookups(count);
        if !self.usage.is_referenced() {
            self.trust.forget();
            self.told_names.edit(ToldNames::forget);
        }
    }

    // Attributes and names believed above.

    /// The time for which local callers may believe the attributes that they are told now; `by_number` if
    /// they asked for this inode by its number.
    pub(crate) fn tell_attributes(&mut self, by_number: bool) -> Duration {
        let is_withdrawing = self.trust.is_withdrawing() || self.told_names.is_withdrawing();
        if !self.knows_attributes() || is_withdrawing {
            return Duration::ZERO;
        }
        match self.trust.tell(by_number) && !self.attrs.is_dir() {
            true => TOLD_FOR,
            false => TOLD_BRIEFLY,
        }
    }

    /// The time for which local callers may believe a name in this directory that is believed here under its
    /// `Fs`.
    pub(crate) fn tell_name(&mut self, now: Instant, name: &[u8]) -> Duration {
        self.told_names.edit(|told| told.tell(now, name))
    }

    /// True if local callers may believe a name in this directory.
    pub(crate) fn is_name_told(&self, name: &[u8]) -> bool {
        self.told_names.has(name)
    }

    /// True if local callers believe a name in this directory, and will for a while yet.
    pub(crate) fn is_name_fresh(&self, now: Instant, name: &[u8]) -> bool {
        self.told_names.is_fresh(now, name)
    }

    /// True if local callers were told the attributes that are believed here.
    pub(crate) fn are_attributes_told(&self) -> bool {
        self.trust.is_told() && self.knows_attributes() && !self.is_belief_doubted()
    }

    /// Local callers have moved a name that they believe into this directory.
    pub(crate) fn note_told_name(&mut self, now: Instant, name: &[u8]) {
        let has_right = self.may(cap::FILE_SHARED);
        self.told_names.edit(|told| {
            told.note(now, name);
            told.note_right(has_right);
        });
    }

    /// True if local callers believe attributes or names.
    pub(crate) fn is_believed_above(&self) -> bool {
        let is_told = self.trust.is_told() || self.told_names.is_told();
        is_told || self.trust.is_withdrawing() || self.told_names.is_withdrawing()
    }

    /// The capability is about to be given up: what is believed above has to be withdrawn first.
    pub(crate) fn withdraw_belief(&mut self) {
        self.trust.note_right(false);
        self.told_names.edit(|told| told.note_right(false));
    }

    /// True if attributes are believed above that are to be withdrawn, or are being withdrawn.
    pub(crate) fn is_belief_doubted(&self) -> bool {
        self.trust.is_stale(self.knows_attributes()) || self.trust.is_withdrawing()
    }

    /// An xattr is removed, which the answer need not have told.
    pub(crate) fn forget_xattr(&mut self, name: &[u8]) {
        self.attrs.forget_xattr(name);
    }

    /// True if names in this directory are believed above that may be stale.
    pub(crate) fn has_stale_names(&self) -> bool {
        self.told_names.is_stale(self.may(cap::FILE_SHARED))
    }

    /// Begins withdrawal `id` of the names. Returns them; without any, there is no withdrawal.
    pub(crate) fn start_name_withdrawal(&mut self, now: Instant, id: u64) -> Vec<Vec<u8>> {
        let right = match (self.may(cap::FILE_SHARED), self.caps.implements(cap::FILE_SHARED)) {
            (true, _) => Right::Held,
            (false, true) => Right::Revoked,
            (false, false) => Right::GivenBack,
        };
        self.told_names.edit(|told| told.start(now, id, right))
    }

    /// Withdrawal `id` of the names takes long. Returns the time after which that is to be noted again.
    pub(crate) fn name_withdrawal_overdue(&mut self, now: Instant, id: u64) -> Option<Duration> {
        let has_right = self.may(cap::FILE_SHARED);
        self.told_names.edit(|told| told.overdue(now, id, has_right))
    }

    /// Drops what was told of names and is not believed any more. Returns true if some may still be.
    pub(crate) fn drop_expired_names(&mut self, now: Instant) -> bool {
        self.told_names.edit(|told| told.drop_expired(now));
        self.told_names.is_told()
    }

    /// The time after which [`Self::drop_expired_names`] drops a name that is told now.
    pub(crate) const NAMES_KEPT: Duration = ToldNames::KEPT;

    /// The local caller `pid` gets an answer about a name in this directory.
    pub(crate) fn name_answered(&mut self, pid: u32) {
        self.told_names.edit(|told| told.used(pid));
    }

    /// The local caller `pid` is about to change names in this directory.
    pub(crate) fn change_begins(&mut self, now: Instant, pid: u32) {
        self.told_names.edit(|told| told.change_begins(now, pid));
    }

    /// The local caller `pid` has changed names in this directory, or failed to.
    pub(crate) fn change_ends(&mut self, now: Instant, pid: u32) {
        self.told_names.edit(|told| told.change_ends(now, pid));
    }

    /// True if the caller `pid` may not look a name up in this directory that callers believe: its attributes
    /// are kept back.
    pub(crate) fn is_guarded_from(&mut self, pid: u32) -> bool {
        self.told_names.edit(|told| told.is_guarded_from(pid))
    }

    /// True if attributes are believed above that may be stale.
    pub(crate) fn has_stale_trust(&self) -> bool {
        self.trust.is_stale(self.knows_attributes())
    }

    /// Begins withdrawal `id` of the attributes.
    pub(crate) fn start_withdrawal(&mut self, id: u64) {
        self.trust.start(id);
    }

    pub(crate) fn set_used_at(&mut self, used_at: u64) {
        self.usage.set_used_at(used_at);
    }

    /// Has `op` tried again when something about the inode changes.
    pub(crate) fn wait(&mut self, op: OpId) {
        self.usage.wait(op);
    }

    pub(crate) fn take_waiters(&mut self) -> BTreeSet<OpId> {
        self.usage.take_waiters()
    }

    /// Has `op` wait until data and attributes are durable.
    pub(crate) fn wait_for_sync(&mut self, op: OpId) {
        self.data.edit(WriteBack::want_sync);
        self.usage.wait(op);
    }

    /// Has `op`, an fsync, wait until data and attributes are durable.
    pub(crate) fn wait_for_fsync(&mut self, op: OpId) {
        self.data.edit(WriteBack::want_fsync);
        self.usage.wait(op);
    }

    /// Has `op` wait until the data are durable.
    pub(crate) fn wait_for_data(&mut self, op: OpId) {
        self.data.edit(WriteBack::want_data);
        self.usage.wait(op);
    }

    /// Has data and attributes leave that have waited for long enough. Those of a file that nobody writes any
    /// more need not be durable at once.
    pub(crate) fn want_old_to_leave(&mut self) {
        if self.usage.access().writes {
            self.data.edit(WriteBack::want_sync)
        } else {
            self.data.edit(WriteBack::want_data)
        }
    }

    /// Forgets the buffered data of a file that nobody can open any more.
    pub(crate) fn discard_removed(&mut self) {
        let is_gone = self.attrs.nlink() == 0 && self.usage.is_closed() && !self.promised.is_any();
        if is_gone && self.is_here_alone() && !self.usage.is_referenced() {
            self.data.edit(WriteBack::forget_waiting);
        }
    }

    /// True if no other client has the file open, since its data may be buffered here.
    fn is_here_alone(&self) -> bool {
        self.may(cap::FILE_BUFFER) && !self.caps.is_revoked()
    }

    /// True if the data of a file without a name have to leave: it is not written any more, and they won't be
    /// discarded when the last reference goes, as it soon does unless a descriptor that opens nothing
    /// (`O_PATH`) holds it.
    fn must_leave_unnamed(&self) -> bool {
        let is_kept = self.usage.is_referenced() && self.is_here_alone();
        self.attrs.nlink() == 0 && !self.usage.access().writes && !is_kept
    }

    /// Nobody waits for data and attributes any more.
    pub(crate) fn end_sync(&mut self) {
        self.data.edit(WriteBack::end_sync);
    }

    pub(crate) fn start_read(&mut self) {
        self.usage.start_read();
    }

    pub(crate) fn end_read(&mut self) {
        self.usage.end_read();
    }

    /// Buffers a write.
    pub(crate) fn write(&mut self, offset: u64, data: Bufs, wall: Wall) {
        let end = offset + data.len() as u64;
        self.data.edit(|buffered| {
            buffered.note_changed(offset);
            buffered.dirty_mut().write(offset, data);
        });
        self.note_write(end, wall);
        self.note_pages();
    }

    /// Nothing of this file is anywhere but here: it was just made.
    pub(crate) fn made_here(&mut self) {
        if self.attrs.is_file() {
            self.data.edit(WriteBack::made_here);
        }
    }

    /// Has the whole content of a small new file that a caller syncs go to the MDS with the next flush,
    /// instead of to an object. Returns true if it does from now on.
    pub(crate) fn hand_over(&mut self) -> bool {
        if self.data.is_changed() {
            return self.data.edit(|data| data.hand_over(self.attrs.size()));
        }
        let most = small_file::MAX_BYTES;
        let attrs = &self.attrs;
        let fits = attrs.size() <= most && u64::from(attrs.layout().stripe_unit) >= most;
        let is_uncut = attrs.truncation().seq <= 1 && attrs.nlink() > 0;
        let is_alone = self.may(cap::FILE_WR | cap::FILE_BUFFER) && !self.caps.is_revoked();
        let is_awaited = self.data.is_fsynced() && self.usage.has_waiters();
        is_awaited && fits && is_uncut && is_alone && self.data.edit(|data| data.hand_over(self.attrs.size()))
    }

    /// True if a write that ends at `end` may change the content that is in the journal: it goes there again.
    pub(crate) fn may_change_small_file(&self, end: u64) -> bool {
        end <= small_file::MAX_BYTES && self.data.knows_content(self.attrs.size())
    }

    /// The MDS takes no data: those of a small new file go to an object.
    pub(crate) fn keep_from_journal(&mut self) {
        self.data.edit(WriteBack::keep_from_journal);
    }

    /// The MDS has stored the content in an object.
    pub(crate) fn stored(&mut self) {
        self.data.edit(WriteBack::stored);
    }

    /// Cuts buffered data off at `size`.
    pub(crate) fn truncate_buffered(&mut self, size: u64) {
        self.data.edit(WriteBack::not_fresh);
        // What has changed since it went into the journal goes there as a whole, and is cut then.
        if !self.data.is_changed() {
            self.data.edit(|data| data.dirty_mut().truncate(size));
        }
    }

    /// Forgets buffered data in a hole, and has those in flight arrive.
    pub(crate) fn punch_buffered(&mut self, offset: u64, end: u64) {
        self.data.edit(|data| {
            data.not_fresh();
            data.dirty_mut().punch(offset, end);
            data.want_sync();
        });
    }

    /// Hands out the next buffered extent to be written, at most `max` bytes of one object.
    pub(crate) fn take_off(&mut self, max: u64) -> Option<(Striper, Flight)> {
        let layout = self.attrs.layout();
        let striper = Striper::new(layout)?;
        // One flight is one object operation: with stripes, an object's bytes are contiguous only within a
        // unit.
        let unit =
            if layout.stripe_count == 1 { striper.object_size() } else { u64::from(layout.stripe_unit) };
        let flight = self.data.edit(|data| data.take_off(max, unit))?;
        Some((striper, flight))
    }

    /// The flight at `offset` has ended.
    pub(crate) fn landed(&mut self, offset: u64, result: Result<(), Errno>) {
        self.data.edit(|data| data.landed(offset, result));
    }

    /// Counts the buffered bytes again. Returns the former and the new count.
    pub(crate) fn recount(&mut self) -> (u64, u64) {
        self.data.edit(WriteBack::recount)
    }

    /// Ends what was wanted and is done. Returns true if nothing is left to be flushed.
    pub(crate) fn settle_write_back(&mut self) -> bool {
        self.data.edit(WriteBack::update_data_wanted);
        let clean = !self.has_unflushed();
        if clean {
            self.data.edit(WriteBack::end_sync);
        }
        clean
    }

    /// Notes that data up to `end` were written or allocated.
    pub(crate) fn note_write(&mut self, end: u64, wall: Wall) {
        let is_shared = self.pages.note_write(self.may_keep_pages());
        // Without `Fx` the later of two times is the one that all clients agree on.
        if !is_shared && self.may(cap::FILE_EXCL) && self.attrs.take_back_mtime(wall) {
            self.caps.note_change(cap::FILE_EXCL);
        }
        if self.attrs.note_write(end, wall, is_shared) {
            self.caps.note_growth();
        }
        self.caps.note_change(cap::FILE_WR);
    }

    /// Has the MDS asked for room up to `size`.
    pub(crate) fn want_max_size(&mut self, size: u64) {
        self.caps.want_max_size(size);
    }

    /// Changes mode, owner and times here, if that needs nobody else. Returns true if it did.
    pub(crate) fn set_here(&mut self, set: &SetAttr, wall: Wall) -> bool {
        let owner = set.changes_owner(self.attrs.mode());
        let times = set.mtime.is_some() || set.atime.is_some();
        let may = (!owner || self.may(cap::AUTH_EXCL)) && (!times || self.may(cap::FILE_EXCL));
        if !may || !self.attrs.is_file() || set.size.is_some() || set.ctime.is_some() {
            return false;
        }
        if owner {
            self.attrs.change_owner(set, wall);
            self.caps.note_change(cap::AUTH_EXCL);
        }
        if times {
            self.attrs.change_times(set, wall);
            self.caps.note_change(cap::FILE_EXCL);
        }
        true
    }

    /// Changes the mode here, also while the right to do so is revoked and not given back yet: the new mode
    /// goes with it. Returns true if it did.
    pub(crate) fn set_mode_here(&mut self, set: &SetAttr, wall: Wall) -> bool {
        if !self.caps.implements(cap::AUTH_EXCL) {
            return false;
        }
        self.attrs.change_owner(set, wall);
        self.caps.note_change(cap::AUTH_EXCL);
        true
    }

    /// Takes the error of a failed write of which a handle was not told yet; it knows the first `seen`.
    pub(crate) fn take_error(&mut self, seen: &mut u64) -> Option<Errno> {
        self.data.edit(|data| data.take_error(seen))
    }

    /// The same, if nobody was told of it.
    pub(crate) fn take_untold_error(&mut self) -> Option<Errno> {
        self.data.edit(WriteBack::take_untold_error)
    }

    /// True if somebody waits for buffered data to arrive: a local caller, or whoever revokes the right to
    /// keep them.
    pub(crate) fn has_urgent_data(&self) -> bool {
        let is_awaited = self.data.is_wanted() && self.usage.has_waiters();
        is_awaited || self.caps.is_revoked() || !self.may_buffer(self.usage.access())
    }

    /// True if a local caller waits until data and attributes are durable.
    fn is_synced_by_caller(&self) -> bool {
        self.data.is_sync_wanted() && self.usage.has_waiters()
    }

    /// True if buffered data have to leave now: somebody waits for them, they may not stay, or they fill an
    /// object. Of a file without a name that nobody writes any more nothing stays, so that it may be purged.
    pub(crate) fn must_write_back(&self) -> bool {
        self.has_urgent_data()
            || self.data.is_wanted()
            || self.must_leave_unnamed()
            || self.data.dirty().waiting_bytes() >= u64::from(self.attrs.layout().object_size).max(1 << 20)
    }

    // Pages and names.

    /// True if a file that is opened now may use the pages that callers have.
    pub(crate) fn has_valid_pages(&self) -> bool {
        self.pages.has_valid(self.may_keep_pages())
    }

    pub(crate) fn has_stale_pages(&self) -> bool {
        self.pages.has_stale(self.may_keep_pages())
    }

    /// Begins invalidation `id` of the cached pages.
    pub(crate) fn start_invalidation(&mut self, id: u64) {
        self.pages.start(id);
    }

    /// Callers have forgotten what invalidation `id` is about. Returns false if that is not the one under
    /// way.
    pub(crate) fn finish_invalidation(&mut self, id: u64) -> bool {
        self.trust.finish(id) || self.told_names.edit(|told| told.finish(id)) || self.pages.finish(id)
    }

    /// A name in this directory is forgotten that may exist.
    pub(crate) fn forget_name(&mut self) {
        self.names.forget_name();
    }

    /// All names in this directory are known.
    pub(crate) fn set_names_complete(&mut self) {
        self.names.set_complete();
    }

    /// The right that a listing of this directory which arrives now rests on; `None` without `Fs`.
    pub(crate) fn listing_right(&self) -> Option<ListingRight> {
        self.may(cap::FILE_SHARED).then(|| self.names.of_listing())
    }

    /// Asserts the invariants.
    pub(crate) fn check(&self) {
        self.caps.check();
        self.data.check();
        let is_whole = || self.data.is_whole(self.attrs.size());
        assert!(
            !self.data.is_changed() || is_whole(),
            "a part of what has changed since it was in the journal"
        );
        self.pages.check();
        self.trust.check();
        self.told_names.check();
    }
}
