//! Reservations: a PG recovers when it has a slot of its primary and one of each member that lacks something.
//!
//! Slots are taken in one order: the primary's own, then those of members by their number. Who holds one
//! waits only for later ones, so nobody waits in a circle. A member that is as good as full refuses to be
//! filled; then all slots are given back, and asked for again after a while. What clients wait for needs no
//! slot.

use crate::pg::member::{Asker, Member};
use maps::OsdId;

/// Progress of a PG's reservations.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum Reservation {
    /// It has none and needs none.
    #[default]
    None,
    /// It waits for one of ours.
    Own,
    /// It has ours, and waits for that of the last of these members; the others have given theirs.
    Members(Vec<Member>),
    /// All slots are held: it recovers.
    Held(Vec<Member>),
}

impl Reservation {
    /// True if a reservation of this OSD is held or awaited.
    fn concerns(&self, osd: OsdId) -> bool {
        let has = |members: &[Member]| members.iter().any(|member| member.osd == osd);
        matches!(self, Self::Members(members) | Self::Held(members) if has(members))
    }
}

/// The reservations of a PG: as primary those that it needs, as a member the one that it was asked for.
///
/// Invariant: it waits for one reservation at a time, first our own, then those of members in ascending
/// order.
#[derive(Debug, Default)]
pub struct Reservations {
    standing: Reservation,
    /// Not primary: the primary that has asked, in this round of it.
    asked_by: Option<Asker>,
}

impl Reservations {
    /// Progress as primary.
    #[cfg(test)]
    pub fn standing(&self) -> &Reservation {
        &self.standing
    }

    /// True if a reservation of this OSD is held or awaited.
    pub fn concerns(&self, osd: OsdId) -> bool {
        self.standing.concerns(osd)
    }

    /// True if all slots are held.
    pub fn is_held(&self) -> bool {
        matches!(self.standing, Reservation::Held(_))
    }

    /// There is work: our own slot comes first. True if that is to be asked for.
    pub fn begin(&mut self) -> bool {
        let begins = self.standing == Reservation::None;
        if begins {
            self.standing = Reservation::Own;
        }
        begins
    }

    /// True if our own slot is awaited.
    pub fn awaits_own(&self) -> bool {
        self.standing == Reservation::Own
    }

    /// True if the slot of this member is awaited.
    pub fn awaits(&self, member: Member) -> bool {
        matches!(&self.standing, Reservation::Members(asked) if asked.last() == Some(&member))
    }

    /// The slot that was awaited is here. Gives the next one of `to_fill`, which are in ascending order, that
    /// is to be asked; `None` if all slots are held.
    pub fn advance(&mut self, to_fill: &[Member]) -> Option<Member> {
        let mut asked = match std::mem::take(&mut self.standing) {
            Reservation::Own => Vec::new(),
            Reservation::Members(asked) => asked,
            other => panic!("no slot is awaited: {other:?}"),
        };
        let last = asked.last().copied();
        let next = to_fill.iter().copied().find(|member| last.is_none_or(|last| *member > last));
        asked.extend(next);
        self.standing = if next.is_some() { Reservation::Members(asked) } else { Reservation::Held(asked) };
        next
    }

    /// All slots are given back. Gives the members that were asked for one; `None` if nothing was asked for.
    pub fn end(&mut self) -> Option<Vec<Member>> {
        match std::mem::take(&mut self.standing) {
            Reservation::None => None,
            Reservation::Own => Some(Vec::new()),
            Reservation::Members(members) | Reservation::Held(members) => Some(members),
        }
    }

    /// As a member: the primary asks for a slot.
    pub fn ask(&mut self, asker: Asker) {
        self.asked_by = Some(asker);
    }

    /// The primary that has asked, in this round of it.
    pub fn asker(&self) -> Option<Asker> {
        self.asked_by
    }

    /// As a member: the primary needs no slot any more.
    pub fn release(&mut self) {
        self.asked_by = None;
    }

    /// Another round begins: nothing is held or awaited.
    pub fn forget(&mut self) {
        *self = Self::default();
    }
}
