//! Sums over the clients with a capability on one inode. The bits of each client follow from the sums without
//! its own share, so that evaluating all of them takes one pass.

use crate::cache::Inode;
use crate::cap::{Cap, Wants, conflicts, policy_beside};
use crate::types::ClientId;

/// Sums over the capabilities on an inode.
pub(super) struct Holders {
    wants: Wants,
    /// For each bit the number of clients that may hold it.
    held: [u32; u32::BITS as usize],
}

impl Holders {
    pub fn of(inode: &Inode) -> Self {
        let mut sums = Self { wants: Wants::default(), held: [0; u32::BITS as usize] };
        for cap in inode.caps.values() {
            sums.wants.add(cap.wanted);
            sums.count(cap.held(), 1);
        }
        inode.under_way.unclaimed.values().for_each(|bits| sums.count(*bits, 1));
        sums
    }

    fn count(&mut self, bits: u32, by: i32) {
        for (bit, count) in self.held.iter_mut().enumerate() {
            if bits & 1 << bit != 0 {
                *count = count.saturating_add_signed(by);
            }
        }
    }

    /// Notes that a client may hold `now` instead of `before`.
    pub fn update(&mut self, before: u32, now: u32) {
        self.count(before & !now, -1);
        self.count(now & !before, 1);
    }

    /// Bits that the client may be given now.
    pub fn allowed(&self, inode: &Inode, client: ClientId, cap: &Cap) -> u32 {
        let others = self.wants.without(cap.wanted);
        let bits = inode.limit(client.into(), policy_beside(inode.data.is_dir(), cap.wanted, others));
        debug_assert_eq!(bits, inode.allowed(client), "the sums say what a walk says");
        bits
    }

    /// Bits that the client could be granted now.
    pub fn grantable(&self, inode: &Inode, client: ClientId, cap: &Cap) -> u32 {
        let unclaimed = inode.under_way.unclaimed.get(&client.into()).copied().unwrap_or(0);
        let own = |bit: usize| (cap.held() >> bit & 1) + (unclaimed >> bit & 1);
        let held_by_others = self.held.iter().enumerate().fold(0, |all, (bit, count)| {
            let is_held = *count > own(bit);
            all | u32::from(is_held) << bit
        });
        let bits = self.allowed(inode, client, cap) & !conflicts(held_by_others);
        let bits = inode.unless_unrecorded(client, bits);
        debug_assert_eq!(bits, inode.grantable(client), "the sums say what a walk says");
        bits
    }
}
