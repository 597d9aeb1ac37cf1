//! The capabilities on an inode, by holder.

use crate::cap::Cap;
use crate::types::{ClientId, Holder};
use stdx::SortedMap;

/// Capabilities of clients, and of ranks that keep a replica. Most inodes have one holder or none.
#[derive(Default, Debug)]
pub struct Holders {
    caps: SortedMap<Holder, Cap>,
}

impl Holders {
    /// A holder's capability.
    pub fn get(&self, holder: impl Into<Holder>) -> Option<&Cap> {
        self.caps.get(&holder.into())
    }

    /// A holder's capability, to change it.
    pub fn get_mut(&mut self, holder: impl Into<Holder>) -> Option<&mut Cap> {
        self.caps.get_mut(&holder.into())
    }

    /// True if it has a capability.
    pub fn contains_key(&self, holder: impl Into<Holder>) -> bool {
        self.caps.contains_key(&holder.into())
    }

    /// A holder's capability; `new` creates one if it has none.
    pub fn get_or_insert_with(&mut self, holder: impl Into<Holder>, new: impl FnOnce() -> Cap) -> &mut Cap {
        self.caps.get_or_insert_with(holder.into(), new)
    }

    /// Replaces a holder's capability.
    pub fn insert(&mut self, holder: impl Into<Holder>, cap: Cap) -> Option<Cap> {
        self.caps.insert(holder.into(), cap)
    }

    /// Takes a holder's capability away.
    pub fn remove(&mut self, holder: impl Into<Holder>) -> Option<Cap> {
        self.caps.remove(&holder.into())
    }

    /// All capabilities with their holders.
    pub fn iter(&self) -> impl Iterator<Item = (Holder, &Cap)> {
        self.caps.iter().map(|(holder, cap)| (*holder, cap))
    }

    /// The capabilities of all holders.
    pub fn values(&self) -> impl Iterator<Item = &Cap> {
        self.caps.values()
    }

    /// The clients among the holders.
    pub fn clients(&self) -> impl Iterator<Item = ClientId> {
        self.caps.keys().filter_map(|holder| holder.client())
    }

    /// True if nobody has one.
    pub fn is_empty(&self) -> bool {
        self.caps.is_empty()
    }
}
