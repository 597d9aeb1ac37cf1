//! The members of a PG: which OSD has which shard of it.
//!
//! In a replicated PG all members have the same shard, [`Spg::NO_SHARD`], and their order says only who comes
//! first. In an erasure-coded PG the position is the shard: if nobody has it the position is a hole, and no
//! other OSD moves up.

use maps::{OsdId, Pool, Spg};
use node::ConnId;
use std::fmt;
use wire::wire_structs;

/// A shard of a PG on an OSD (Ceph's `pg_shard_t`). What a PG keeps for each of its copies is keyed by it, as
/// one OSD may have several shards of an erasure-coded PG.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Member {
    /// The OSD. Members are ordered by it first, so that reservations are taken in one order.
    pub osd: OsdId,
    /// The shard; [`Spg::NO_SHARD`] in a replicated PG.
    pub shard: i8,
}

impl fmt::Display for Member {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.shard {
            Spg::NO_SHARD => self.osd.fmt(f),
            shard => write!(f, "{}({shard})", self.osd),
        }
    }
}

impl fmt::Debug for Member {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Whoever has asked something of our copy, and is answered on the same connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Asker {
    /// The connection.
    pub conn: ConnId,
    /// The number of the question.
    pub tid: u64,
    /// The shard that the asker has.
    pub shard: i8,
}

wire_structs! {
    /// An up set or an acting set.
    ///
    /// Invariant: a replicated one has no holes, and its first member is the primary.
    #[derive(Eq, PartialOrd, Ord)]
    pub struct ActingSet[v 1/1] {
        /// By position; [`OsdId::NONE`] is a hole.
        osds: Vec<OsdId>,
        /// The OSD of the primary; it counts if it has a position.
        primary: OsdId,
        /// Positions are shards: the pool is erasure-coded.
        by_shard: bool,
    }
}

impl ActingSet {
    /// The set of a PG of `pool`, as the map places it.
    pub fn of(pool: &Pool, mut osds: Vec<OsdId>, primary: Option<OsdId>) -> Self {
        if !pool.is_erasure() {
            osds.retain(|osd| osd.is_some());
            // Affinity and `primary_temp` may choose another one than the map's first.
            if let Some(at) = osds.iter().position(|osd| Some(*osd) == primary) {
                osds[..=at].rotate_right(1);
            }
            return Self::replicated(osds);
        }
        let first = osds.iter().copied().find(|osd| osd.is_some());
        let primary = primary.filter(|osd| osds.contains(osd)).or(first).unwrap_or(OsdId::NONE);
        Self { osds, primary, by_shard: true }
    }

    /// The set of a replicated PG, the primary first.
    pub fn replicated(osds: Vec<OsdId>) -> Self {
        let primary = osds.first().copied().unwrap_or(OsdId::NONE);
        Self { osds, primary, by_shard: false }
    }

    /// The members, by position. Holes are passed over.
    pub fn members(&self) -> impl Iterator<Item = Member> + '_ {
        let placed = self.osds.iter().enumerate().filter(|(_, osd)| osd.is_some());
        placed.map(|(at, osd)| Member { shard: self.shard_at(at), osd: *osd })
    }

    fn shard_at(&self, position: usize) -> i8 {
        match self.by_shard {
            true => i8::try_from(position).expect("a pool has at most 127 shards"),
            false => Spg::NO_SHARD,
        }
    }

    /// The OSDs by position, as maps and monitors have them: a hole is [`OsdId::NONE`].
    pub fn osds(&self) -> &[OsdId] {
        &self.osds
    }

    /// The member that leads.
    pub fn primary(&self) -> Option<Member> {
        self.members().find(|member| member.osd == self.primary)
    }

    /// True if a shard is on this OSD.
    pub fn contains(&self, member: Member) -> bool {
        self.members().any(|other| other == member)
    }

    /// True if an OSD has some shard.
    pub fn has_osd(&self, osd: OsdId) -> bool {
        self.osds.contains(&osd)
    }

    /// Number of members.
    pub fn count(&self) -> usize {
        self.members().count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use maps::pool_type;

    const HOLE: OsdId = OsdId::NONE;

    fn set(ty: u8, osds: &[OsdId], primary: Option<OsdId>) -> ActingSet {
        ActingSet::of(&Pool { ty, size: 4, ..Pool::default() }, osds.to_vec(), primary)
    }

    fn shards(set: &ActingSet) -> Vec<(i8, i32)> {
        set.members().map(|member| (member.shard, member.osd.0)).collect()
    }

    #[test]
    fn a_replicated_set_has_no_holes_and_its_primary_first() {
        let set = set(pool_type::REPLICATED, &[OsdId(4), HOLE, OsdId(2), OsdId(7)], Some(OsdId(2)));
        assert_eq!(shards(&set), [(-1, 2), (-1, 4), (-1, 7)]);
        assert_eq!(set.primary().map(|p| p.to_string()), Some("2".into()));
        assert_eq!(set.osds(), [OsdId(2), OsdId(4), OsdId(7)]);
        assert_eq!(ActingSet::replicated(Vec::new()).primary(), None);
    }

    #[test]
    fn an_erasure_coded_set_keeps_its_positions() {
        let set = set(pool_type::ERASURE, &[OsdId(4), HOLE, OsdId(2), OsdId(4)], Some(OsdId(2)));
        assert_eq!(shards(&set), [(0, 4), (2, 2), (3, 4)]);
        assert_eq!((set.primary().map(|p| p.to_string()), set.count()), (Some("2(2)".into()), 3));
        assert!(set.contains(Member { shard: 3, osd: OsdId(4) }) && set.has_osd(OsdId(4)));
        assert!(!set.contains(Member { shard: 1, osd: OsdId(4) }));
    }

    #[test]
    fn a_primary_that_is_no_member_gives_way_to_the_first_that_is() {
        let set = set(pool_type::ERASURE, &[HOLE, OsdId(3)], Some(OsdId(9)));
        assert_eq!(set.primary(), Some(Member { shard: 1, osd: OsdId(3) }));
    }
}
