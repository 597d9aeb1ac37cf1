//! Whole objects on their way from one OSD to another, in parts, each acknowledged when it is durable.
//!
//! The sender is the primary that completes a member's copy, or the holder of an object that the primary
//! asked for. An object in several parts is put together under another key and takes its place with the last
//! part, so that a copy is never torn.

use crate::core::Core;
use crate::pg::member::{Asker, Member};
use crate::pg::meta::temp_key;
use crate::qos::Charge;
use maps::EVersion;
use stdx::Bufs;
use store::{ObjectKey, ObjectView, TxnOp};
use wire::wire_structs;

wire_structs! {
    /// Content of a part other than data.
    #[derive(Eq)]
    pub struct PartAttributes[v 1/1] {
        /// The object's size.
        pub size: u64,
        /// Xattrs, in the first part.
        pub attrs: Vec<(Vec<u8>, Vec<u8>)>,
        /// Omap header, in the first part.
        pub omap_header: Vec<u8>,
        /// Entries of the omap.
        pub omap: Vec<(Vec<u8>, Vec<u8>)>,
    }
}

impl PartAttributes {
    /// Has recovery pay for a part: for all of the object's data with the first one, of which `charged` was
    /// paid, and for entries.
    pub(super) fn pay(&self, core: &mut Core, charged: Option<&mut Charge>) {
        if let Some(charged) = charged {
            core.recovered_object_has(self.size, charged);
        }
        let omap: usize = self.omap.iter().map(|(key, value)| key.len() + value.len()).sum();
        core.charge_bytes(omap as u64);
    }
}

/// Destination of an object.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Destination {
    /// A member whose copy we complete as primary.
    Member(Member),
    /// The primary, who asked on this connection.
    Asker(Asker),
}

/// An object being sent.
#[derive(Debug)]
pub struct Sender {
    pub(super) to: Destination,
    /// The number that its messages carry.
    pub(super) tid: u64,
    /// The object to send.
    pub key: ObjectKey,
    pub(super) version: EVersion,
    pub(super) offset: u64,
    pub(super) omap_after: Option<Vec<u8>>,
    pub(super) first: bool,
    /// The last part is on its way.
    pub(super) last_sent: bool,
    pub(super) charged: Charge,
}

/// Omap entries and bytes of one part.
pub(super) const OMAP_ENTRIES: usize = 1024;
pub(super) const OMAP_BYTES: usize = 256 << 10;

impl Destination {
    /// The shard of whoever gets the object.
    pub(super) fn shard(self) -> i8 {
        match self {
            Self::Member(member) => member.shard,
            Self::Asker(asker) => asker.shard,
        }
    }
}

impl Sender {
    /// Content of the next part, and whether it is the last.
    pub(super) fn part_of(&mut self, view: ObjectView) -> (PartAttributes, Bufs, bool) {
        let data = view.data.into_iter().next().unwrap_or_default();
        let last = self.offset + data.len() as u64 >= view.size && !view.omap_more;
        if let Some((key, _)) = view.omap_entries.last() {
            self.omap_after = Some(key.clone());
        }
        let attrs = if self.first { view.attrs } else { Vec::new() };
        let part =
            PartAttributes { size: view.size, attrs, omap_header: view.omap_header, omap: view.omap_entries };
        (part, data, last)
    }
}

/// The steps that a part means for the store.
pub(super) fn write_part(key: &ObjectKey, msg: &peer::Push, part: PartAttributes, ops: &mut Vec<TxnOp>) {
    if msg.deleted {
        return ops.push(TxnOp::Remove(key.clone()));
    }
    let target = if msg.first && msg.last { key.clone() } else { temp_key(key) };
    if msg.first {
        ops.push(TxnOp::Remove(target.clone()));
        ops.push(TxnOp::Touch(target.clone()));
        ops.extend(part.attrs.into_iter().map(|(name, value)| TxnOp::SetAttr(target.clone(), name, value)));
        if !part.omap_header.is_empty() {
            ops.push(TxnOp::OmapSetHeader(target.clone(), part.omap_header));
        }
    }
    if !msg.data.is_empty() {
        ops.push(TxnOp::Write(target.clone(), msg.offset, msg.data.clone()));
    }
    if !part.omap.is_empty() {
        ops.push(TxnOp::OmapSet(target.clone(), part.omap));
    }
    if msg.last {
        ops.push(TxnOp::Truncate(target.clone(), part.size));
        if target != *key {
            ops.push(TxnOp::Rename(target, key.clone()));
        }
    }
}
