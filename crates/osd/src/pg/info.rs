//! An OSD's knowledge of its copy of a PG, and of the PG's past. Stored with the copy and exchanged when
//! peering.

use super::member::ActingSet;
use maps::{EVersion, Epoch, Spg};
use std::collections::BTreeSet;
use wire::wire_structs;

wire_structs! {
    /// The PG's past, as far as all members must agree on it; of two, the later epochs are right.
    #[derive(Eq)]
    pub struct History[v 1/1] {
        /// The map in which the PG came to be; 0 where this OSD has not learned it.
        pub epoch_created: Epoch,
        /// The PG was active on all members of the acting set of an interval at this epoch.
        pub last_epoch_started: Epoch,
        /// All of the acting set had all objects at this epoch.
        pub last_epoch_clean: Epoch,
    }

    /// Objects and bytes.
    #[derive(Copy, Eq)]
    pub struct Stats[v 2/1] {
        /// Number of objects.
        pub objects: i64,
        /// Bytes of data.
        pub bytes: i64,
        /// Read operations served.
        pub reads: u64,
        /// Bytes read by clients.
        pub read_bytes: u64,
        /// Number of write operations.
        pub writes: u64,
        /// Bytes written by clients.
        pub written_bytes: u64,
        /// Clones; they count as objects too.
        pub clones: i64 = since 2,
    }

    /// One OSD's copy of a PG.
    #[derive(Eq)]
    pub struct Info[v 4/4] {
        /// The PG, and the shard of it.
        pub pgid: Spg,
        /// The newest log entry.
        pub last_update: EVersion,
        /// Log entries up to here are cut off.
        pub log_tail: EVersion,
        /// The epoch at which this copy last took part in an active PG.
        pub last_epoch_started: Epoch,
        /// The copy lacks objects that its log does not tell of: only a resync completes it.
        pub incomplete: bool,
        /// Number of objects that the log names and the copy lacks.
        pub missing: u64,
        /// The newest version that clients saw of any object.
        pub last_user_version: u64,
        /// History of the PG.
        pub history: History,
        /// Usage of the PG.
        pub stats: Stats,
        /// Updates up to here were durable, with their objects, on all members of the acting set of their
        /// time.
        pub sure_to: EVersion = since 2,
        /// The first update, since the copy last took part in an active PG, that was logged without its
        /// objects for lack of space, and still is; 0 if there is none. Nobody was answered about it or later
        /// updates, except deletions that all members have.
        pub short_of: EVersion = since 3,
        /// True if the log from there on names no object that is here, so that it can be forgotten.
        pub forgettable: bool = since 3,
    }

    /// A time in which the PG's membership did not change.
    #[derive(Eq)]
    pub struct Interval[v 2/2] {
        /// First epoch of the interval.
        pub first: Epoch,
        /// Last epoch of the interval.
        pub last: Epoch,
        /// Who served it.
        pub acting: ActingSet,
        /// True if writes may have been acknowledged in it.
        pub maybe_rw: bool,
    }

    /// A member's report to the primary.
    pub struct Notice[v 2/1] {
        /// Info of its copy.
        pub info: Info,
        /// The intervals since the PG was last clean, the present one not included.
        pub past: Vec<Interval>,
        /// Nanoseconds for which a former primary may still serve reads under its lease.
        pub lease_left_ns: u64,
        /// Feature level of its OSD, as reported to the monitors; 0 from OSDs that predate the field.
        pub feature_level: u32 = since 2,
    }
}

impl History {
    /// Takes over what another OSD knows better. Whether anything changed.
    pub fn merge(&mut self, other: &Self) -> bool {
        let before = self.clone();
        if self.epoch_created == Epoch(0) {
            self.epoch_created = other.epoch_created;
        }
        self.last_epoch_started = self.last_epoch_started.max(other.last_epoch_started);
        self.last_epoch_clean = self.last_epoch_clean.max(other.last_epoch_clean);
        *self != before
    }
}

impl Info {
    /// Nothing was ever written to it.
    pub fn is_empty(&self) -> bool {
        self.last_update == EVersion::default()
    }

    /// Number of the newest update up to which the copy had room for all that it was sent.
    pub fn had_room_to(&self) -> u64 {
        match self.short_of == EVersion::default() {
            true => self.last_update.version,
            false => self.short_of.version.saturating_sub(1),
        }
    }
}

impl Stats {
    /// Counts a change of an object.
    pub fn apply(&mut self, delta: &Delta) {
        self.objects += delta.objects;
        self.bytes += delta.bytes;
        self.clones += delta.clones;
        self.writes += u64::from(!delta.internal);
        self.written_bytes += delta.written;
    }

    /// The share of a PG that was split off: 1 / 2^`bits`. The location of each object is not counted; the
    /// sum stays right.
    pub fn part(&self, bits: u32) -> Self {
        let part = |all: i64| all >> bits.min(63);
        let (objects, bytes, clones) = (part(self.objects), part(self.bytes), part(self.clones));
        Self { objects, bytes, clones, ..Self::default() }
    }

    /// A part has become another PG's.
    pub fn lose(&mut self, part: &Self) {
        self.objects -= part.objects;
        self.bytes -= part.bytes;
        self.clones -= part.clones;
    }

    /// All of another PG has become this one's.
    pub fn gain(&mut self, other: &Self) {
        self.objects += other.objects;
        self.bytes += other.bytes;
        self.clones += other.clones;
        self.reads += other.reads;
        self.read_bytes += other.read_bytes;
        self.writes += other.writes;
        self.written_bytes += other.written_bytes;
    }
}

/// Changes of one update in [`Stats`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Delta {
    /// Heads and clones.
    pub objects: i64,
    /// Change of size; clones count with what they share with nothing newer.
    pub bytes: i64,
    /// Bytes of payload.
    pub written: u64,
    /// Change of the number of clones.
    pub clones: i64,
    /// No client asked for it.
    pub internal: bool,
}

/// Adds another OSD's knowledge of the past: intervals are facts, so those that begin in an epoch that is not
/// covered here are simply added. Whether that changed anything.
pub fn merge_past(mine: &mut Vec<Interval>, theirs: &[Interval]) -> bool {
    let known: BTreeSet<Epoch> = mine.iter().map(|i| i.first).collect();
    let covered = |e: Epoch| mine.iter().any(|i| i.first <= e && e <= i.last);
    let new: Vec<_> =
        theirs.iter().filter(|i| !known.contains(&i.first) && !covered(i.first)).cloned().collect();
    let before = mine.clone();
    mine.extend(new);
    mine.sort_by_key(|i| i.first);
    keep_newest(mine);
    *mine != before
}

/// An interval has ended, and the PG was last clean at `clean`.
pub fn add_past(past: &mut Vec<Interval>, ended: Interval, clean: Epoch) {
    past.push(ended);
    keep_newest(past);
    trim_past(past, clean);
}

/// Of the intervals with the same members the newest tells all: who has to be heard, and until when they may
/// have served. So the past of a PG that does not get clean while OSDs come and go has no more intervals than
/// there were sets of members.
fn keep_newest(past: &mut Vec<Interval>) {
    let mut seen = BTreeSet::new();
    let newest: BTreeSet<Epoch> =
        past.iter().rev().filter(|i| seen.insert((&i.acting, i.maybe_rw))).map(|i| i.first).collect();
    past.retain(|i| newest.contains(&i.first));
}

/// Forgets the intervals that ended before `clean`: everything that they wrote is on all members that were
/// clean then.
pub fn trim_past(past: &mut Vec<Interval>, clean: Epoch) {
    past.retain(|i| i.last >= clean);
}

#[cfg(test)]
mod tests {
    use super::*;
    use maps::OsdId;

    fn set(osds: &[i32]) -> ActingSet {
        ActingSet::replicated(osds.iter().copied().map(OsdId).collect())
    }

    fn interval(first: u32, last: u32) -> Interval {
        Interval { first: Epoch(first), last: Epoch(last), acting: set(&[first as i32]), maybe_rw: true }
    }

    #[test]
    fn the_past_is_merged_without_doubles() {
        let mut past = vec![interval(5, 7), interval(8, 9)];
        merge_past(&mut past, &[interval(3, 4), interval(5, 7), interval(10, 11)]);
        assert_eq!(past, [interval(3, 4), interval(5, 7), interval(8, 9), interval(10, 11)]);
        trim_past(&mut past, Epoch(8));
        assert_eq!(past, [interval(8, 9), interval(10, 11)]);
    }

    #[test]
    fn of_intervals_with_the_same_members_the_newest_is_remembered() {
        let of = |first: u32, osds: &[i32]| Interval { acting: set(osds), ..interval(first, first) };
        let (mut past, clean) = (Vec::new(), Epoch(0));
        for round in 0..1000 {
            add_past(&mut past, of(3 * round + 1, &[0, 1]), clean);
            add_past(&mut past, of(3 * round + 2, &[0]), clean);
            add_past(&mut past, of(3 * round + 3, &[1]), clean);
        }
        let wanted = [of(2998, &[0, 1]), of(2999, &[0]), of(3000, &[1])];
        assert_eq!(past, wanted);
        assert!(!merge_past(&mut past, &[of(7, &[0, 1]), of(8, &[0])]), "nothing that is not known");
        assert!(merge_past(&mut past, &[of(7, &[1, 0])]), "another primary");
        let unwritten = Interval { maybe_rw: false, ..of(3001, &[1]) };
        assert!(merge_past(&mut past, std::slice::from_ref(&unwritten)));
        assert_eq!(past, [&[of(7, &[1, 0])], &wanted[..], &[unwritten]].concat());
    }

    #[test]
    fn history_only_grows() {
        let mut a =
            History { epoch_created: Epoch(2), last_epoch_started: Epoch(5), last_epoch_clean: Epoch(5) };
        let b = History { epoch_created: Epoch(0), last_epoch_started: Epoch(4), last_epoch_clean: Epoch(9) };
        assert!(a.merge(&b));
        assert_eq!(
            (a.epoch_created, a.last_epoch_started, a.last_epoch_clean),
            (Epoch(2), Epoch(5), Epoch(9))
        );
        assert!(!a.merge(&b));
    }
}
