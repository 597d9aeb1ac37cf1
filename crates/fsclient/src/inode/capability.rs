//! The capability on an inode: what its MDS allows, what is still in use of it, what changed here and is to
//! be flushed.

use maps::MdsRank;
use msgs::{CapPeer, CapReleaseItem, Caps, ClientCaps, DentryRelease, InodeStatCap, cap, cap_op};
use std::collections::BTreeMap;

/// Bits that an MDS keeps for clients that have not come back to it.
const KEPT: u32 = cap::AUTH_EXCL | cap::XATTR_EXCL | cap::FILE_EXCL | cap::FILE_WR | cap::FILE_BUFFER;

/// The capability as its MDS last described it.
///
/// Invariant: `issued` is a subset of `implemented`, except for bits that only a reconnect claims.
#[derive(Clone, Debug)]
pub(crate) struct Cap {
    id: u64,
    /// The rank that issued it: the inode's authority, or one that has a replica.
    auth_rank: MdsRank,
    /// Sequence number of the last message about it.
    seq: u32,
    /// Sequence number of the last grant.
    issue_seq: u32,
    /// Number of migrations between ranks.
    mseq: u32,
    realm: u64,
    /// Bits that the MDS allows now.
    issued: Caps,
    /// Bits that we may still be using: more than `issued` while a revocation is not acknowledged.
    implemented: Caps,
    /// Bits that the MDS knows we want.
    wanted: Caps,
    /// It is that which an asynchronous create assumes: the answer tells which it is.
    is_assumed: bool,
    /// A revocation took away only what was given up already. The message that said so may have come too
    /// early for the MDS to count.
    owes_answer: bool,
    /// Its rank has handed it over, and the other has not said so yet: nothing is sent about it until then.
    is_moving: bool,
    /// The session is lost. The next MDS keeps what we may have written under, but others may change what we
    /// only know: shared bits count for nothing until it has our claim.
    is_suspended: bool,
}

impl Cap {
    fn new(id: u64, auth_rank: MdsRank) -> Self {
        Self {
            id,
            auth_rank,
            seq: 0,
            issue_seq: 0,
            mseq: 0,
            realm: 0,
            issued: Caps::NONE,
            implemented: Caps::NONE,
            wanted: Caps::NONE,
            is_assumed: false,
            owes_answer: false,
            is_moving: false,
            is_suspended: false,
        }
    }

    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    pub(crate) fn auth_rank(&self) -> MdsRank {
        self.auth_rank
    }

    /// The snapshot realm that the inode is in.
    pub(crate) fn realm(&self) -> u64 {
        self.realm
    }

    /// Number of migrations between ranks.
    pub(super) fn mseq(&self) -> u32 {
        self.mseq
    }

    /// The item that gives the capability back.
    pub(crate) fn release_item(&self, ino: u64) -> CapReleaseItem {
        CapReleaseItem { ino, cap_id: self.id, migrate_seq: self.mseq, seq: self.issue_seq }
    }
}

/// The last file growth that the MDS knows of.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum Growth {
    /// It has the size on stable storage.
    #[default]
    Durable,
    /// It was not told.
    Untold,
    /// The flush with this tid tells it.
    Flushing(u64),
}

/// The outcome of a message for the issued bits, which the inode's other parts must follow.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use]
pub(super) enum Issued {
    /// The message was not taken.
    Ignored,
    /// It was taken; `Fs` is as it was.
    Taken,
    /// It was taken, and `Fs` was gained or lost.
    SharedTurned,
}

/// Everything that the inode's MDS and we have told each other about rights, and what it does not know yet.
///
/// Invariants: without a capability nothing is asked for; `Growth::Flushing` names a flush in `flushing`.
#[derive(Debug, Default)]
pub(crate) struct Capability {
    cap: Option<Cap>,
    /// The rank that had the authority when the last capability was given up.
    former_rank: Option<MdsRank>,
    /// Changes that the MDS does not know, by the bits they were made under: `Fw` size and times of writes,
    /// `Fx` times that were set, `Ax` mode and owner.
    dirty: Caps,
    /// Flushes without an acknowledgement, by tid. The next MDS gets them again as they were: it may have
    /// carried them out, and let others make changes since.
    flushing: BTreeMap<u64, Box<ClientCaps>>,
    growth: Growth,
    /// Writes may reach up to here.
    max_size: u64,
    /// The `max_size` that a writer needs.
    wanted_max_size: u64,
    /// The last `max_size` that the MDS was asked for, so that each request is sent once.
    requested_max_size: u64,
    /// The bits on a state of a snapshot. The MDS neither records nor revokes them.
    unrecorded: Caps,
}

/// A message about the capability that is due.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Due {
    pub(super) wanted: Caps,
    pub(super) gives_back: bool,
    /// Revoked bits that are not given back yet.
    pub(super) keeps: Caps,
    pub(super) flushes: Caps,
    pub(super) asks_size: bool,
}

/// The needs of the rest of the inode that decide which message is due.
#[derive(Clone, Copy, Debug)]
pub(super) struct Needs {
    pub(super) wanted: Caps,
    pub(super) in_use: Caps,
    /// No data are buffered.
    pub(super) clean: bool,
    /// A local caller waits for the flush, and no data wait to leave: they are in flight at most.
    pub(super) hurries: bool,
    /// Somebody waits for the flush, or nobody writes any more.
    pub(super) flush: bool,
    /// The inode's last name was removed, as far as its caller knows.
    pub(super) is_removed: bool,
    /// It is time to tell the MDS that nobody here wants the file any more, if there is nothing else to tell.
    pub(super) tells_unwanted: bool,
}

impl Capability {
    pub(crate) fn cap(&self) -> Option<&Cap> {
        self.cap.as_ref()
    }

    /// The rank that has the authority, or was the last that is known to have had it.
    pub(crate) fn last_rank(&self) -> Option<MdsRank> {
        self.cap.as_ref().map(Cap::auth_rank).or(self.former_rank)
    }

    /// The bits that may be relied on now.
    pub(crate) fn issued(&self) -> Caps {
        match &self.cap {
            Some(c) if c.is_suspended && !c.issued.has_any(KEPT) => Caps(c.issued.0 & cap::PIN),
            Some(c) => c.issued,
            None => self.unrecorded,
        }
    }

    /// Takes the bits on a state of a snapshot.
    pub(super) fn set_unrecorded(&mut self, bits: Caps) -> Issued {
        let turned = (self.unrecorded.0 ^ bits.0) & cap::FILE_SHARED != 0;
        self.unrecorded = bits;
        if turned { Issued::SharedTurned } else { Issued::Taken }
    }

    /// Issued bits and those whose revocation is not confirmed yet.
    pub(crate) fn held(&self) -> Caps {
        self.cap.as_ref().map_or(Caps::NONE, |c| c.issued | c.implemented)
    }

    /// True if `bit` was not given back yet.
    pub(crate) fn implements(&self, bit: u32) -> bool {
        self.cap.as_ref().is_some_and(|c| c.implemented.has(bit))
    }

    /// True while a revocation is not confirmed.
    pub(crate) fn is_revoked(&self) -> bool {
        self.cap.as_ref().is_some_and(|c| c.implemented.0 & !c.issued.0 != 0)
    }

    /// Bits under which something changed here that the MDS may not have yet.
    pub(crate) fn unacknowledged(&self) -> Caps {
        self.flushing.values().fold(self.dirty, |all, flush| all | flush.dirty)
    }

    pub(crate) fn has_dirty(&self) -> bool {
        self.dirty != Caps::NONE
    }

    pub(crate) fn has_flushing(&self) -> bool {
        !self.flushing.is_empty()
    }

    /// The tids of the flushes without an acknowledgement.
    pub(crate) fn flushing(&self) -> impl Iterator<Item = u64> {
        self.flushing.keys().copied()
    }

    /// True if the flush `tid` has no acknowledgement.
    pub(crate) fn is_flushing(&self, tid: u64) -> bool {
        self.flushing.contains_key(&tid)
    }

    /// True if the MDS has the file's size on stable storage.
    pub(crate) fn has_durable_size(&self) -> bool {
        self.growth == Growth::Durable
    }

    pub(crate) fn max_size(&self) -> u64 {
        self.max_size
    }

    /// Notes a change made under `bit`, which a flush tells the MDS.
    pub(super) fn note_change(&mut self, bit: u32) {
        self.dirty = self.dirty | Caps(bit);
    }

    /// Notes that the file has grown.
    pub(super) fn note_growth(&mut self) {
        self.growth = Growth::Untold;
    }

    pub(super) fn set_max_size(&mut self, max_size: u64) {
        if max_size != self.max_size {
            self.max_size = max_size;
            self.requested_max_size = 0;
        }
    }

    /// Has the MDS asked for room up to `size`.
    pub(super) fn want_max_size(&mut self, size: u64) {
        self.wanted_max_size = self.wanted_max_size.max(size);
    }

    /// Takes the bits that the MDS allows from now on.
    fn set_issued(&mut self, bits: Caps) -> Issued {
        let Some(cap) = &mut self.cap else { return Issued::Ignored };
        let turned = (cap.issued.0 ^ bits.0) & cap::FILE_SHARED != 0;
        cap.issued = bits;
        cap.implemented = cap.implemented | bits;
        if turned { Issued::SharedTurned } else { Issued::Taken }
    }

    /// True if what came from `rank` is another capability than the one held.
    pub(super) fn is_replaced_by(&self, rank: MdsRank, stat: &InodeStatCap) -> bool {
        let is_same = |c: &Cap| c.id == stat.cap_id || c.is_assumed;
        self.cap.as_ref().is_some_and(|c| !is_same(c) || c.auth_rank != rank)
    }

    /// The inode is in another snapshot realm now.
    pub(super) fn move_to_realm(&mut self, realm: u64) {
        if let Some(cap) = &mut self.cap {
            cap.realm = realm;
        }
    }

    /// Takes the capability that came with a reply.
    pub(super) fn take_reply(&mut self, rank: MdsRank, stat: &InodeStatCap) -> Issued {
        let cap = self.cap.get_or_insert_with(|| Cap::new(stat.cap_id, rank));
        // A reply may overtake a message about the capability: the higher sequence number is the newer one.
        if stat.seq < cap.seq {
            return Issued::Ignored;
        }
        (cap.seq, cap.issue_seq) = (stat.seq, stat.seq);
        (cap.mseq, cap.realm) = (stat.mseq, stat.realm);
        cap.wanted = cap.wanted | Caps(stat.wanted);
        cap.id = stat.cap_id;
        // A reply only adds bits: only a revocation takes them away. What was assumed was never given.
        let kept = if std::mem::take(&mut cap.is_assumed) { Caps::NONE } else { cap.issued };
        self.set_issued(kept | Caps(stat.caps))
    }

    /// The capability at hand is not from an MDS: the answer that brings one replaces it.
    pub(super) fn assume(&mut self) {
        if let Some(cap) = &mut self.cap {
            cap.is_assumed = true;
        }
    }

    /// True if the capability at hand is not from an MDS.
    pub(crate) fn is_assumed(&self) -> bool {
        self.cap.as_ref().is_some_and(|c| c.is_assumed)
    }

    /// Takes a grant or revocation. Returns the bits that it takes away.
    pub(super) fn take_message(&mut self, msg: &ClientCaps) -> (Caps, Issued) {
        let Some(cap) = &mut self.cap else { return (Caps::NONE, Issued::Ignored) };
        let lost = cap.issued & !msg.caps;
        (cap.seq, cap.mseq) = (msg.seq, msg.migrate_seq);
        // The IMPORT may have been lost with the session that it was for.
        if std::mem::take(&mut cap.is_moving) {
            cap.wanted = msg.wanted;
        }
        cap.owes_answer = msg.op == cap_op::REVOKE && lost == Caps::NONE;
        (lost, self.set_issued(msg.caps))
    }

    /// The rank has handed the capability over to another.
    pub(super) fn move_to(&mut self, next: &CapPeer) {
        if let Some(cap) = &mut self.cap {
            (cap.id, cap.auth_rank, cap.mseq) = (next.cap_id, MdsRank(next.mds), next.mseq);
            cap.seq = next.issue_seq.saturating_sub(1);
            (cap.issue_seq, cap.is_moving, cap.owes_answer) = (cap.seq, true, false);
            self.requested_max_size = 0;
        }
    }

    /// True while the rank that has it from now on has said nothing of it.
    pub(super) fn is_moving(&self) -> bool {
        self.cap.as_ref().is_some_and(|cap| cap.is_moving)
    }

    /// `msg` comes from the last of several ranks that have had it since the one here: that one has not told
    /// yet that it handed it over, or died before it could. Its successor tells only after it has asked the
    /// last one, which is not to hear meanwhile that the client has given the capability up.
    pub(super) fn catch_up(&mut self, msg: &ClientCaps) {
        if let Some(cap) = self.cap.as_mut().filter(|cap| cap.mseq < msg.former.mseq) {
            (cap.id, cap.auth_rank) = (msg.former.cap_id, MdsRank(msg.former.mds));
        }
    }

    /// The capability came from another rank, which `msg` names. Returns true if it is the one that is held.
    pub(super) fn arrive(&mut self, rank: MdsRank, msg: &ClientCaps) -> bool {
        let Some(cap) = &mut self.cap else { return false };
        let is_told = cap.id == msg.cap_id && cap.auth_rank == rank;
        let is_untold = cap.id == msg.former.cap_id && cap.auth_rank.0 == msg.former.mds;
        if is_told || is_untold {
            (cap.id, cap.auth_rank, cap.realm) = (msg.cap_id, rank, msg.realm);
            (cap.issue_seq, cap.is_moving) = (msg.seq, false);
            // What the other rank was asked for too late, it has dropped.
            (cap.wanted, self.requested_max_size) = (msg.wanted, 0);
        }
        is_told || is_untold
    }

    /// Takes the acknowledgement of the flush `tid`.
    pub(super) fn take_flush_ack(&mut self, tid: u64) {
        self.flushing.remove(&tid);
        if self.growth == Growth::Flushing(tid) {
            self.growth = Growth::Durable;
        }
    }

    /// Gives up bits with a request, without a message of its own.
    pub(super) fn release(&mut self, ino: u64, bits: u32) -> Option<DentryRelease> {
        let cap = self.cap.as_mut().filter(|c| c.implemented.has_any(bits))?;
        cap.issued = Caps(cap.issued.0 & !bits);
        cap.implemented = Caps(cap.implemented.0 & !bits);
        Some(DentryRelease {
            ino,
            cap_id: cap.id,
            caps: cap.implemented.0,
            wanted: cap.wanted.0,
            seq: cap.seq,
            issue_seq: cap.issue_seq,
            mseq: cap.mseq,
            ..DentryRelease::default()
        })
    }

    /// Gives up a bit at once, without having been asked.
    pub(super) fn give_up(&mut self, bits: u32) {
        if let Some(cap) = &mut self.cap {
            cap.issued = Caps(cap.issued.0 & !bits);
        }
    }

    pub(super) fn lose_cap(&mut self) {
        self.former_rank = self.last_rank();
        self.cap = None;
        self.requested_max_size = 0;
    }

    /// Forgets everything that was to be flushed. Returns true if there was anything.
    pub(super) fn discard(&mut self) -> bool {
        let lost = self.dirty != Caps::NONE || !self.flushing.is_empty();
        self.flushing.clear();
        self.growth = Growth::Durable;
        self.dirty = Caps::NONE;
        lost
    }

    pub(super) fn set_suspended(&mut self, suspended: bool) {
        if let Some(cap) = &mut self.cap {
            cap.is_suspended = suspended;
        }
    }

    /// The session is lost: the next MDS takes what we claim as issued and counts from zero.
    pub(super) fn prepare_claim(&mut self) {
        // The next MDS has not heard what this one was asked for.
        self.requested_max_size = 0;
        let Some(cap) = &mut self.cap else { return };
        (cap.seq, cap.issue_seq, cap.mseq) = (0, 0, 0);
        (cap.owes_answer, cap.is_moving) = (false, false);
    }

    /// The flush `tid` for the next MDS, which gets it ahead of the claims.
    pub(super) fn repeat_flush(&self, tid: u64, wanted: Caps) -> Option<ClientCaps> {
        let (cap, flush) = (self.cap.as_ref()?, self.flushing.get(&tid)?);
        Some(ClientCaps {
            realm: cap.realm,
            cap_id: cap.id,
            seq: cap.seq,
            issue_seq: cap.issue_seq,
            migrate_seq: cap.mseq,
            caps: cap.implemented,
            wanted,
            ..(**flush).clone()
        })
    }

    /// The claim for the next MDS: all that it knows of what we want and hold.
    pub(super) fn claim(&mut self, ino: u64, wanted: Caps) -> Option<msgs::CapReconnect> {
        let cap = self.cap.as_mut()?;
        cap.wanted = wanted;
        Some(msgs::CapReconnect {
            path: Vec::new(),
            cap_id: cap.id,
            wanted: wanted.0,
            issued: cap.implemented.0,
            snaprealm: cap.realm,
            pathbase: ino,
            flock: Vec::new(),
            snap_follows: maps::SnapId::default(),
        })
    }

    /// True if the MDS believes that the file is wanted, and it is not any more.
    pub(super) fn wants_less(&self, wanted: Caps) -> bool {
        let file_bits = cap::ANY_FILE_WR | cap::FILE_RD | cap::FILE_CACHE;
        wanted == Caps::NONE && self.cap.as_ref().is_some_and(|cap| cap.wanted.has_any(file_bits))
    }

    /// The message about the capability that is due now, if any.
    pub(super) fn due(&self, needs: Needs) -> Option<Due> {
        let cap = self.cap.as_ref().filter(|cap| !cap.is_moving)?;
        let (wanted, revoked) = (needs.wanted, self.is_revoked());
        // Size and times follow the data that they describe, unless a caller waits for both: until it is
        // answered it may find neither after a crash. Mode and owner need not wait.
        let may_follow = needs.clean || needs.hurries;
        let ready = if may_follow { self.dirty.0 } else { self.dirty.0 & cap::AUTH_EXCL };
        let flushes = if revoked || may_follow && needs.flush { ready } else { 0 };
        let unflushed = self.dirty.0 & !flushes;
        // A revocation is confirmed as a whole. But the MDS may need `Ls` to carry out the removal for which
        // the rest waits.
        let taken = cap.implemented.0 & !cap.issued.0;
        let keeps = match taken & (needs.in_use.0 | unflushed) {
            0 => 0,
            _ if needs.is_removed => taken & !cap::LINK_SHARED,
            _ => taken,
        };
        let gives_back = (revoked || cap.owes_answer) && (keeps == 0 || keeps != taken);
        let asks = wanted != Caps::NONE && wanted.0 & !cap.wanted.0 != 0;
        // What is revoked and still in use does not come back: others may have it for long.
        let wants_less = (needs.tells_unwanted || revoked) && self.wants_less(wanted);
        // The MDS gives no room to a client that does not want to write: the request waits for the next
        // writer.
        let asks_size = self.wanted_max_size > self.max_size
            && self.wanted_max_size > self.requested_max_size
            && self.issued().has(cap::FILE_WR)
            && wanted.has_any(cap::ANY_FILE_WR);
        (gives_back || asks || wants_less || flushes != 0 || asks_size).then_some(Due {
            wanted,
            gives_back,
            keeps: Caps(keeps),
            flushes: Caps(flushes),
            asks_size,
        })
    }

    /// Notes that the message `due` is sent. Returns its part that describes the capability.
    pub(super) fn sent(&mut self, due: &Due) -> ClientCaps {
        let cap = self.cap.as_mut().expect("a message is due only about a capability");
        if due.gives_back {
            cap.implemented = cap.issued | due.keeps;
            cap.owes_answer = false;
        }
        cap.wanted = due.wanted;
        ClientCaps {
            realm: cap.realm,
            cap_id: cap.id,
            seq: cap.seq,
            issue_seq: cap.issue_seq,
            caps: cap.implemented,
            wanted: due.wanted,
            dirty: due.flushes,
            migrate_seq: cap.mseq,
            ..ClientCaps::default()
        }
    }

    /// Notes that `flush` is sent as flush `tid`, with the changes that it names.
    pub(super) fn flush_sent(&mut self, tid: u64, flush: &ClientCaps) {
        self.dirty = self.dirty & !flush.dirty;
        if self.growth != Growth::Durable && flush.dirty.has_any(cap::FILE_WR) {
            self.growth = Growth::Flushing(tid);
        }
        self.flushing.insert(tid, Box::new(flush.clone()));
    }

    /// The `max_size` to put into the message `due`: 0 unless it asks.
    pub(super) fn request_size(&mut self, due: &Due) -> u64 {
        if !due.asks_size {
            return 0;
        }
        self.requested_max_size = self.wanted_max_size;
        self.wanted_max_size
    }

    /// Asserts the invariants.
    pub(super) fn check(&self) {
        if let Growth::Flushing(tid) = self.growth {
            assert!(
                self.flushing.contains_key(&tid),
                "growth is told by flush {tid}, which is not under way"
            );
        }
        if let Some(cap) = &self.cap {
            let (issued, implemented) = (cap.issued, cap.implemented);
            assert!(implemented.has(issued.0), "issued {issued} is more than implemented {implemented}");
        } else {
            assert_eq!(self.requested_max_size, 0, "room was asked for without a capability");
        }
    }
}
