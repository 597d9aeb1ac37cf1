//! A subtree comes to this rank.

use super::content::{Ahead, Content};
use super::{Rank, STAY};
use crate::authority::{Auth, Hold};
use crate::cache::{Cache, Inode};
use crate::cap::{Cap, Moved, SHARED, conflicts};
use crate::io::{IoWhy, ObjOp};
use crate::rank::caps::{Caps, send_import};
use crate::rank::commit::commit;
use crate::rank::effect::Effect;
use crate::rank::env::{Due, Env};
use crate::rank::migration::{ForTable, Import, ImportStep as Step, JOINS, Offer, Read, Waiting, Write, own};
use crate::rank::reconnect::handed_over;
use crate::rank::sessions::Sessions;
use crate::types::{ClientId, Lsn, RankPeer};
use fsfmt::subtree_key;
use fsfmt::tables::SessionRecord;
use fsfmt::{Ino, InodeData, InodeKey, SubtreeRecord, border_key, names};
use maps::MdsRank;
use msgs::CapPeer;
use node::Level;
use peer::{HandedCap, MdsAuthority, MdsHandAhead, MdsHandOver, MdsTaken, TakenCap};
use std::collections::{BTreeMap, BTreeSet};
use stdx::mutants::is_active;
use wire::{DecodeError, Writer};

/// The flag of a capability whose sender had the authority.
const AUTH: u8 = 1;

/// What is to be made of a subtree that another rank hands over.
enum Claim {
    /// This rank has taken it before. True if it is part of the subtree around it.
    Older(bool),
    /// This rank has taken it before, and it has moved on since.
    Gone,
    /// It comes to this rank.
    New,
    /// Not as long as something that this rank has handed over itself is not known to have arrived. It is
    /// repeated.
    NotYet,
}

impl Rank {
    /// Another rank hands a subtree over. It repeats that, so this may be late: the record says what is so.
    pub(super) fn take_subtree(&mut self, from: RankPeer, m: &MdsHandOver) {
        let root = Ino(m.root);
        if self.migration.imports.contains_key(&root) || self.migration.is_checking(root) {
            return;
        }
        let ahead = self.migration.ahead.remove(&root).filter(|ahead| ahead.is_of(from, m));
        if m.ahead != 0 && ahead.is_none() {
            // This rank, or the connection, is newer than the first of it. All of it is sent again.
            return;
        }
        match Content::decode(m, ahead) {
            Ok(content) => {
                let below = self.settled_below(root, &content.subtrees);
                let content = Box::new(content);
                let known = below.iter().flat_map(BTreeMap::keys).chain(content.subtrees.keys());
                let borders = known.map(|root| (*root, None)).collect();
                let offer = Offer { from: from.rank, root, content, below, borders, is_loaded: false };
                self.read_records([root], Read::Check(offer));
            }
            Err(e) => self.report_bad_offer(from.rank, root, &e),
        }
    }

    /// Another rank is about to hand a subtree over, and sends some of it ahead.
    pub(super) fn take_ahead(&mut self, from: RankPeer, m: &MdsHandAhead) {
        let root = Ino(m.root);
        let before = self.migration.ahead.remove(&root);
        match Ahead::with(before, from, m, self.env.now()) {
            Ok(ahead) => self.migration.ahead.extend(ahead.map(|ahead| (root, ahead))),
            Err(e) => self.report_bad_offer(from.rank, root, &e),
        }
    }

    pub(super) fn report_bad_offer(&mut self, from: MdsRank, root: Ino, e: &DecodeError) {
        let text = format!("rank {from} hands over subtree {root}, but not as it should: {e}");
        self.env.log(Level::Warn, "bad_message_seen", text);
    }

    /// The subtrees below one that comes; none while this rank hands one of them over that the other rank
    /// does not know of: it may have become part of what comes.
    fn settled_below(&self, root: Ino, known: &BTreeMap<Ino, SubtreeRecord>) -> Option<BTreeMap<Ino, Hold>> {
        let below: BTreeMap<Ino, Hold> = self.cache.subtrees.below(root).collect();
        let mut leaving = self.migration.exports.iter().filter(|(_, export)| export.is_handing());
        let is_leaving = leaving.any(|(other, _)| below.contains_key(other) && !known.contains_key(other));
        (!is_leaving).then_some(below)
    }

    /// The record of a subtree that another rank hands over was read.
    pub(super) fn checked(&mut self, offer: Offer, record: Option<&SubtreeRecord>) {
        // A client that is told late of what left may take it for what comes.
        self.tell_rest();
        let Offer { from, root, content, .. } = &offer;
        let (from, root) = (*from, *root);
        let is_settled = offer.below.is_some() && offer.below == self.settled_below(root, &content.subtrees);
        let claim = self.claim_on(root, from, content, record);
        let missing = match claim {
            Claim::New => self.missing_around(root, &content.record),
            Claim::Older(_) => self.missing_of(&content.caps),
            Claim::Gone | Claim::NotYet => BTreeSet::new(),
        };
        if !missing.is_empty() && !offer.is_loaded {
            let offer = Offer { is_loaded: true, ..offer };
            return self.load_for(root, missing, Waiting::Offer(offer, record.cloned()));
        }
        if matches!(claim, Claim::New) && content.snap_table > self.cache.snaps.version() {
            return self.read_table(ForTable::Offer(offer, record.cloned()), BTreeMap::new());
        }
        match claim {
            Claim::Older(is_merged) => self.take_again(root, from, content, is_merged),
            Claim::Gone => self.answer_taken(root, from, record.is_none(), Vec::new()),
            Claim::New if is_settled && missing.is_empty() => {
                self.learn_subtrees(root, &content.subtrees);
                self.take_content(offer);
            }
            // It is handed over once more. Something below it has come or gone meanwhile, or what is above it
            // can't be read.
            Claim::New | Claim::NotYet => {}
        }
    }

    /// What is not cached of the directories above a subtree that comes, and of the roots of this rank's own
    /// below it, which become part of it.
    fn missing_around(&self, root: Ino, record: &SubtreeRecord) -> BTreeSet<InodeKey> {
        let own = self.cache.subtrees.below(root).filter(|(_, hold)| *hold == Hold::Own);
        let own = own.map(|(other, _)| other.head()).filter(|ino| self.cache.inode(*ino).is_err());
        self.cache.missing_above(record).into_iter().chain(own).collect()
    }

    /// The inodes of capabilities that are not cached. The others stay while these are loaded.
    fn missing_of(&self, handed: &[HandedCap]) -> BTreeSet<InodeKey> {
        handed.iter().map(|cap| Ino(cap.ino).head()).filter(|ino| self.cache.inode(*ino).is_err()).collect()
    }

    fn claim_on(&self, root: Ino, from: MdsRank, content: &Content, record: Option<&SubtreeRecord>) -> Claim {
        let hold = |root: Ino| self.cache.subtrees.hold(root);
        let is_leaving = |root: Ino| matches!(hold(root), Some(Hold::Settling | Hold::Leaving));
        let (here, authority) = (hold(root), self.cache.authority(root));
        let is_handed =
            record.is_some_and(|record| record.rank == own(&self.env) && record.from == Some(from));
        if !is_handed {
            return match (here, authority) {
                (Some(Hold::Own | Hold::Settling | Hold::Leaving), _) => Claim::Older(false),
                (None, Ok(Auth::Here)) => Claim::Older(true),
                (None, Ok(Auth::Frozen(around))) if is_leaving(around) => Claim::Older(true),
                (Some(Hold::Arriving), _) => Claim::NotYet,
                _ => Claim::Gone,
            };
        }
        let is_near = |other: &Ino| {
            let record = self.cache.subtrees.record(*other);
            content.record.is_below(*other) || record.is_some_and(|record| record.is_below(root))
        };
        let around_leaves = matches!(authority, Ok(Auth::Frozen(around)) if is_leaving(around));
        // What settles may stay. Then this would be a root of its own in a subtree of the same rank.
        let may_stay = content.record.prefix.iter().any(|e| hold(e.inode.ino) == Some(Hold::Settling));
        let others_come = self.migration.imports.keys().chain(self.migration.merges.keys()).any(is_near);
        // Rank 0 would not ask this one to wait, but may change the table of snapshots.
        let is_unknown = self.cache.snaps.is_fenced() && !self.migration.fence.is_known;
        match around_leaves || may_stay || others_come || is_unknown || self.passes_on() {
            true => Claim::NotYet,
            false => Claim::New,
        }
    }

    /// Takes in which subtrees are below `root`, as the rank knows that hands it over: that rank has merged
    /// those that are missing, and those that this one has not heard of are not its own, or two ranks would
    /// serve them. This one knows better what is in its own subtrees: the other may not have heard yet of
    /// what has become part of them.
    fn learn_subtrees(&mut self, root: Ino, known: &BTreeMap<Ino, SubtreeRecord>) {
        let subtrees = &mut self.cache.subtrees;
        let is_gone =
            |(other, hold): &(Ino, Hold)| matches!(hold, Hold::Foreign(_)) && !known.contains_key(other);
        let gone: Vec<Ino> = subtrees.below(root).filter(is_gone).map(|(other, _)| other).collect();
        gone.into_iter().for_each(|other| subtrees.remove(other));
        let own = own(&self.env);
        for (other, record) in known {
            let nearest = subtrees.nearest_within(root, record);
            let is_in_own = nearest.is_some_and(|hold| !matches!(hold, Hold::Foreign(_)));
            let is_new = subtrees.hold(*other).is_none() && record.rank != own && record.is_below(root);
            if is_new && !is_in_own && *other != root {
                subtrees.set_with(*other, Hold::Foreign(record.rank), Some(record.clone()));
            }
        }
    }

    /// True while clients claim something here that another rank has: until that has told what became of it,
    /// copies here can't be dropped. Meanwhile nothing is taken; it is handed over again.
    pub(super) fn passes_on(&self) -> bool {
        self.migration.exports.iter().any(|(root, export)| export.is_handing() && self.is_passed_on(*root))
    }

    /// True for a subtree under way that does not leave this rank: another has it, and is told what clients
    /// claim of it here.
    pub(super) fn is_passed_on(&self, root: Ino) -> bool {
        self.cache.subtrees.hold(root) != Some(Hold::Leaving)
    }

    /// The answer was lost, or this is a successor of whoever took the subtree: clients may not know yet that
    /// it is here, so that none of them has claimed what it holds. What does not contradict what others have
    /// been given since is taken now.
    fn take_again(&mut self, root: Ino, from: MdsRank, content: &Content, is_merged: bool) {
        let taken = self.take_handed(from, content.sessions.clone(), &content.caps);
        let cache = &mut self.cache;
        for (ino, client, [posix, flock]) in &content.locks {
            if !cache.locks.holds(*client, *ino) {
                cache.locks.claim(*client, *ino, (posix, flock));
            }
        }
        self.answer_taken(root, from, is_merged, taken);
    }

    /// Takes capabilities over one by one, and tells their clients.
    pub(super) fn take_handed(
        &mut self,
        from: MdsRank,
        records: Vec<(ClientId, SessionRecord)>,
        handed: &[HandedCap],
    ) -> Vec<TakenCap> {
        let ino_next = self.write_back.ino_next();
        let Self { env, cache, sessions, caps, reconnect, .. } = self;
        sessions.adopt(env, cache, records, ino_next);
        let mut taken = Vec::new();
        for cap in handed {
            let (ino, client) = (Ino(cap.ino).head(), ClientId(cap.client));
            let has_session = sessions.get(client).is_some();
            let is_given = cache.inodes.get(&ino).is_some_and(|inode| cache.given_around(inode).is_some());
            let Some(inode) = cache.inodes.get_mut(&ino).filter(|_| has_session) else { continue };
            // What else is presumed went with this, and contradicts it as little as it did there.
            let others = inode.known_of_others(client);
            handed_over(env, inode, client);
            // What an absent client may hold here is what the other rank says.
            let is_new = inode.caps.get(client).is_none_or(|cap| cap.is_presumed);
            if is_new && conflicts(others) & cap.held != 0 {
                continue;
            }
            if is_new {
                take_cap(inode, sessions, caps, cap);
            } else if let Some(known) = inode.caps.get_mut(client) {
                // It had one of a replica too, and may have claimed more of that than of this one.
                known.wanted |= cap.wanted;
                let more = cap.held & SHARED & !known.pending;
                if is_given && more != 0 {
                    known.give(known.pending | more, env.now());
                }
                env.due(Due::CapsChanged(ino));
            }
            let now = cache.inodes[&ino].caps.get(client).expect("it has one");
            let now = taken_cap(cap, now);
            taken.push(now);
            if is_new {
                let moved = Moved { client, id: now.id, former: former(cap, from) };
                send_import(env, cache, sessions, ino, &moved);
                reconnect.keep_import(ino, moved);
                if cache.is_fixed(ino) {
                    // Its name has moved on to another rank's directory since.
                    env.due(Due::HeldElsewhere(ino));
                }
            }
        }
        taken
    }

    fn take_content(&mut self, offer: Offer) {
        let Offer { root, from, content, borders, .. } = offer;
        let ino_next = self.write_back.ino_next();
        self.balance.popularity.take(&content.popularity);
        self.balance.rest(self.env.now(), root);
        let Self { env, cache, sessions, caps, .. } = self;
        let Content { record, root: mut inode, sessions: records, entries, caps: handed_caps, locks, .. } =
            *content;
        inode.version += 1;
        self.accounting.subtree_comes(root);
        if !is_active("mds_keeps_old_copies") {
            cache.drop_copies();
        }
        // Of what is in this rank's own directories it knows more than is stored.
        let is_news = |other: &Ino| {
            let around = cache.subtrees.record(*other).and_then(|r| cache.subtrees.nearest_within(root, r));
            around.is_none_or(|hold| matches!(hold, Hold::Foreign(_)))
        };
        let news = borders.into_iter().filter(|(other, _)| is_news(other)).collect();
        cache.borders.renew(news);
        cache.subtrees.set_with(root, Hold::Arriving, Some(record.clone()));
        cache.put_prefix(&record);
        cache.put_root(inode, &record);
        cache.inodes.reserve(entries.len());
        self.migration.has_come(entries.len() + 1);
        entries.into_iter().for_each(|(dir, key, dentry)| cache.put_entry((dir, key), dentry));
        if !is_active("mds_takes_no_sessions") {
            sessions.adopt(env, cache, records, ino_next);
        }
        let mut taken = Vec::with_capacity(handed_caps.len());
        for handed in handed_caps {
            let (ino, client) = (Ino(handed.ino).head(), ClientId(handed.client));
            let has_session = sessions.get(client).is_some();
            let Some(inode) = cache.inodes.get_mut(&ino).filter(|_| has_session) else { continue };
            take_cap(inode, sessions, caps, &handed);
            taken.push((handed, taken_cap(&handed, inode.caps.get(client).expect("just taken"))));
            if handed.is_untold {
                inode.under_way.edit(|at| at.untold.insert(client.into()));
            }
        }
        for (ino, client, [posix, flock]) in locks {
            cache.locks.claim(client, ino, (&posix, &flock));
        }
        let is_merged = matches!(cache.authority(cache.subtrees.around(root, &record)), Ok(Auth::Here));
        let joins = cache.own_within(root);
        if is_merged {
            self.embed(root);
        }
        for other in joins.iter().copied() {
            self.join(other);
        }
        let last = self.env.journal().last();
        self.env.want_durable(last);
        let import = Import { from, is_merged, joins, step: Step::Journal(last), caps: taken };
        self.migration.imports.insert(root, import);
        self.migration.look_at = self.env.now();
    }

    /// A subtree of this rank becomes part of one that comes.
    fn join(&mut self, root: Ino) {
        let Some(record) = self.cache.subtrees.record(root).cloned() else { return };
        let data = self.cache.inodes[&root.head()].data.clone();
        self.cache.subtrees.set(root, Hold::Arriving);
        self.cache.put_root(data, &record);
        self.embed(root);
    }

    /// Removes what the predecessor may have left of roots that are none any more.
    pub(in crate::rank) fn drop_joined_bases(&mut self) {
        for root in std::mem::take(&mut self.migration.joined) {
            if self.cache.subtrees.hold(root).is_none() && !root.is_base() {
                drop_base(&mut self.env, &mut self.cache, root);
            }
        }
    }

    /// Puts the root of a subtree into its entry again, if it has one; returns the event.
    pub(super) fn embed(&mut self, root: Ino) -> Lsn {
        if let Some(shard) = root.as_shard() {
            return self.embed_shard(root, shard.inode());
        }
        let Self { env, cache, sessions, .. } = self;
        let inode = &cache.inodes[&root.head()];
        let counted = cache.counted(inode).rstat();
        let update = cache.update(InodeData { accounted: counted, ..inode.data.clone() });
        commit(env, cache, sessions, JOINS, vec![update])
    }

    pub(super) fn advance_imports(&mut self) -> bool {
        let durable = self.env.journal().durable();
        for root in self.migration.imports.keys().copied().collect::<Vec<_>>() {
            let import = self.migration.imports.get_mut(&root).expect("just listed");
            let Step::Journal(lsn) = import.step else { continue };
            if lsn > durable {
                self.env.want_durable(lsn);
                continue;
            }
            import.step = Step::Write;
            if import.is_merged {
                self.write_arrival(root, None);
                continue;
            }
            let bytes = Writer::encode(&self.cache.inodes[&root.head()].data);
            let ops = vec![ObjOp::WriteFull(bytes)];
            let id = self.env.start_metadata_io(names::base_object(root), ops, IoWhy::Partition);
            self.migration.writes.insert(id, (root, Write::Root));
        }
        false
    }

    /// Writes or removes the record of a subtree that has come, and removes those of others that are part of
    /// it.
    fn write_arrival(&mut self, root: Ino, record: Option<&SubtreeRecord>) {
        let joins = self.migration.imports.get(&root).map_or(Vec::new(), |import| import.joins.clone());
        self.write_records(root, record, joins, Write::Arrive);
    }

    /// Writes the record of a subtree, or removes it.
    pub(super) fn write_record(&mut self, root: Ino, record: Option<&SubtreeRecord>, why: Write) {
        self.write_records(root, record, Vec::new(), why);
    }

    fn write_records(&mut self, root: Ino, record: Option<&SubtreeRecord>, mut joins: Vec<Ino>, why: Write) {
        let mut ops = vec![ObjOp::Create];
        joins.extend(record.is_none().then_some(root));
        let mut gone: Vec<Vec<u8>> =
            joins.into_iter().flat_map(|root| [subtree_key(root), border_key(root)]).collect();
        if let Some(record) = record {
            // From a directory of this rank, which counts all of it as its inode says.
            gone.extend((why == Write::Leave && !record.was_alone).then(|| border_key(root)));
            ops.push(ObjOp::OmapSet(BTreeMap::from([(subtree_key(root), Writer::encode(record))])));
        }
        if !gone.is_empty() {
            ops.push(ObjOp::OmapRemove(gone));
        }
        let id = self.env.start_metadata_io(names::partition(), ops, IoWhy::Partition);
        self.migration.writes.insert(id, (root, why));
    }

    /// The root's inode is stored.
    pub(super) fn root_stored(&mut self, root: Ino) {
        let record = self.cache.subtrees.record(root).cloned().map(settled);
        self.write_arrival(root, record.as_ref());
    }

    /// The record says that the subtree is this rank's: clients hear of it, and operations go on.
    pub(super) fn arrived(&mut self, root: Ino) {
        let Some(import) = self.migration.imports.remove(&root) else { return };
        let Self { env, cache, migration, .. } = self;
        match cache.subtrees.record(root).cloned().filter(|_| !import.is_merged) {
            Some(record) => cache.subtrees.set_with(root, Hold::Own, Some(settled(record))),
            None => cache.subtrees.remove(root),
        }
        if import.is_merged && !root.is_base() {
            drop_base(env, cache, root);
        }
        for other in import.joins.iter().copied() {
            cache.subtrees.remove(other);
            drop_base(env, cache, other);
        }
        for (handed, taken) in import.caps.iter().filter(|_| !is_active("mds_tells_no_client_of_imports")) {
            let moved =
                Moved { client: ClientId(taken.client), id: taken.id, former: former(handed, import.from) };
            cache.unannounced.entry(Ino(taken.ino).head()).or_default().push(moved);
        }
        if migration.recalls.remove(&root).is_some() {
            migration.stay.insert(root, env.now() + STAY);
        }
        if root.is_stray() {
            self.strays.search(env, root);
        }
        // Other subtrees of this rank may count in it.
        let own = cache.subtrees.iter().filter(|(_, hold, _)| *hold == Hold::Own);
        let roots = own.map(|(root, ..)| root.head()).collect::<Vec<_>>();
        let inside =
            cache.subtree(root).into_iter().chain(roots).filter(|ino| !cache.unannounced.contains_key(ino));
        inside.for_each(|ino| env.due(Due::InodeLoaded(ino)));
        env.log(Level::Info, "subtree_imported", format!("subtree {root} of rank {}", import.from));
        let taken = import.caps.into_iter().map(|(_, taken)| taken).collect();
        self.answer_taken(root, import.from, import.is_merged, taken);
        self.announce_first();
        for other in import.joins.into_iter().chain([root]) {
            self.tell_authority(other);
            self.release_joined(other);
        }
        self.partition_changed(false);
    }

    /// Tells the former authority that the subtree is here.
    fn answer_taken(&mut self, root: Ino, to: MdsRank, is_merged: bool, caps: Vec<TakenCap>) {
        let m = MdsTaken { root: root.0, is_merged, caps };
        self.env.effect(Effect::SendRank(to, m.into()));
    }

    /// Tells all other ranks who has the authority over a subtree.
    pub(super) fn tell_authority(&mut self, root: Ino) {
        for rank in self.migration.ranks.keys().copied().collect::<Vec<_>>() {
            self.tell_authority_to(root, rank);
        }
    }

    pub(super) fn tell_authority_to(&mut self, root: Ino, rank: MdsRank) {
        let record = self.cache.subtrees.record(root).map(Writer::encode).unwrap_or_default();
        let m = MdsAuthority { root: root.0, record };
        self.env.effect(Effect::SendRank(rank, m.into()));
    }

    /// Another rank tells who has the authority over a subtree of which this one has nothing. That may be
    /// late: others have told of later moves, or the subtree has come here since. So the record is read.
    pub(super) fn learn_authority(&mut self, from: MdsRank, m: &MdsAuthority) {
        let root = Ino(m.root);
        let believed = self.cache.subtrees.hold(root);
        let stays_there = || {
            let record = self.cache.subtrees.record(root);
            record.and_then(|record| record.from) == Some(from) && !self.migration.imports.contains_key(&root)
        };
        let is_known = match believed {
            None => m.record.is_empty(),
            Some(Hold::Foreign(_)) => {
                let record = self.cache.subtrees.record(root).map(Writer::encode);
                record.is_some_and(|record| record == m.record)
            }
            // It was about to come when this rank stopped.
            Some(Hold::Arriving) => !stays_there(),
            Some(_) => true,
        };
        if !is_known {
            self.read_records([root], Read::News(BTreeMap::from([(root, believed)])));
        }
    }
}

/// The record of a subtree that has come to this rank.
fn settled(record: SubtreeRecord) -> SubtreeRecord {
    SubtreeRecord { from: None, was_alone: true, ..record }
}

/// The root of a subtree is part of the one around it: its inode is not stored alone any more, and tells
/// itself what is counted of it.
pub(super) fn drop_base(env: &mut Env, cache: &mut Cache, root: Ino) {
    cache.borders.remove(root);
    cache.forget_base(root);
    env.start_metadata_io(names::base_object(root), vec![ObjOp::Delete], IoWhy::JournalTrim);
}

/// Gives a client the capability on an inode that another rank hands over. Who has claimed one here knows
/// that one only: it went there and came back without having heard of either.
fn take_cap(inode: &mut Inode, sessions: &mut Sessions, caps: &mut Caps, handed: &HandedCap) {
    let client = ClientId(handed.client);
    let counters = (handed.seq, handed.migrate_seq);
    let claimed = inode.caps.get(client).filter(|cap| !cap.is_presumed).map(|cap| cap.id);
    let id = claimed.unwrap_or_else(|| caps.next_id());
    let cap = Cap::handed_over(id, handed.held, handed.wanted, counters);
    inode.caps.insert(client, cap);
    if inode.data.is_dir() {
        // It does not say so again.
        sessions.note_wanted_of_dir(client, handed.wanted);
    }
    sessions.hold(client, inode.data.key());
}

/// What became of a capability that was handed over.
fn taken_cap(handed: &HandedCap, cap: &Cap) -> TakenCap {
    let HandedCap { ino, client, .. } = *handed;
    TakenCap { ino, client, id: cap.id, seq: cap.seq, migrate_seq: cap.migrate_seq }
}

/// A capability as it was under the rank that hands it over.
fn former(handed: &HandedCap, from: MdsRank) -> CapPeer {
    CapPeer { cap_id: handed.id, issue_seq: handed.seq, mseq: handed.migrate_seq, mds: from.0, flags: AUTH }
}
