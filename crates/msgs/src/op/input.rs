//! Structures inside the data of operations: what omap and listing operations read and what they return.

use maps::{HObject, IntervalSet, SnapId};
use std::collections::{BTreeMap, BTreeSet};
use stdx::Bufs;
use wire::{Decode, DecodeError, Encode, Reader, Writer, wire_structs};

/// Reads an operation's input; all of it must be used.
pub fn read<T: Decode>(data: &Bufs) -> Result<T, DecodeError> {
    let bytes = data.to_buf();
    let mut r = Reader::new(&bytes);
    let out = r.get()?;
    r.finish()?;
    Ok(out)
}

/// Encodes an operation's input.
pub fn write<T: Encode>(value: &T) -> Bufs {
    Writer::encode(value).into()
}

/// The input of OMAPSETVALS, and the first part of what OMAPGETVALS returns.
pub type OmapValues = BTreeMap<Vec<u8>, Vec<u8>>;
/// The input of OMAPRMKEYS and OMAPGETVALSBYKEYS.
pub type OmapKeys = BTreeSet<Vec<u8>>;
/// The input of OMAP_CMP: key to (value, operator of [`super::cmp_op`]).
pub type OmapAssertions = BTreeMap<Vec<u8>, (Vec<u8>, i32)>;
/// The input of OMAPRMKEYRANGE: first key, and the key behind the last.
pub type OmapKeyRange = (Vec<u8>, Vec<u8>);
/// The reply of OMAPGETVALS: entries, and whether more follow.
pub type OmapValuesReply = (OmapValues, bool);
/// The reply of OMAPGETKEYS: keys, and whether more follow.
pub type OmapKeysReply = (OmapKeys, bool);
/// The reply of STAT: size and time of modification.
pub type StatReply = (u64, wire::Utime);
/// The reply of SPARSE_READ: extents (offset, length), then their bytes one after another.
pub type SparseReply = (BTreeMap<u64, u64>, Bufs);

wire_structs! {
    /// The input of OMAPGETKEYS.
    pub struct OmapGetKeys[plain] {
        /// Only keys behind this one.
        pub start_after: Vec<u8>,
        /// The most.
        pub max: u64,
    }

    /// The input of OMAPGETVALS.
    pub struct OmapGetVals[plain] {
        /// Only keys behind this one.
        pub start_after: Vec<u8>,
        /// The most.
        pub max: u64,
        /// Only keys with this prefix.
        pub prefix: Vec<u8>,
    }

    /// One object in a listing.
    #[derive(Eq)]
    pub struct ListEntry[plain] {
        /// Namespace.
        pub namespace: Vec<u8>,
        /// Name.
        pub oid: Vec<u8>,
        /// Locator key.
        pub locator: Vec<u8>,
    }

    /// The reply of PGNLS. The operation's result is 1 at the end of the PG.
    pub struct PgNlsReply[v 1/1] {
        /// The next position.
        pub handle: HObject,
        /// The objects.
        pub entries: Vec<ListEntry>,
    }

    /// One watcher of an object.
    pub struct WatchItem[v 2/1] {
        /// The watcher.
        pub name: wire::EntityId,
        /// Its number for the watch.
        pub cookie: u64,
        /// Seconds until it is dropped.
        pub timeout: u32,
        /// Its address.
        pub addr: wire::EntityAddr = since 2,
    }

    /// The reply of LIST_WATCHERS.
    pub struct ListWatchersReply[v 1/1] {
        /// All of them.
        pub entries: Vec<WatchItem>,
    }

    /// A clone in [`ListSnapsReply`].
    pub struct CloneInfo[v 1/1] {
        /// Its id, or [`SnapId::HEAD`] for the head.
        pub cloneid: SnapId,
        /// The snapshots that it serves, ascending.
        pub snaps: Vec<SnapId>,
        /// Ranges that it shares with the next newer clone.
        pub overlap: IntervalSet,
        /// Bytes.
        pub size: u64,
    }

    /// The reply of LIST_SNAPS.
    pub struct ListSnapsReply[v 2/1] {
        /// Oldest first, the head last.
        pub clones: Vec<CloneInfo>,
        /// Of the object's snapshot set.
        pub seq: SnapId = since 2,
    }

    /// The input of NOTIFY.
    pub struct NotifyInput[plain] {
        /// 1.
        pub version: u32,
        /// Seconds to wait for acknowledgements; 0 for the default.
        pub timeout: u32,
        /// For the watchers.
        pub payload: Vec<u8>,
    }

    /// The input of NOTIFY_ACK.
    pub struct NotifyAckInput[plain] {
        /// Id of the notification.
        pub notify_id: u64,
        /// Cookie of the watch.
        pub watch_cookie: u64,
        /// For the notifier.
        pub reply: Vec<u8>,
    }

    /// The result of a notification: the watchers' answers, and the watchers that timed out, as (client,
    /// cookie).
    pub struct NotifyReply[plain] {
        /// Answers.
        pub acks: Vec<((u64, u64), Vec<u8>)>,
        /// Those who are missing.
        pub missed: Vec<(u64, u64)>,
    }
}

/// A PGNLS cursor: no data means the beginning of the PG.
pub fn read_cursor(data: &Bufs) -> Result<Option<HObject>, DecodeError> {
    if data.is_empty() { Ok(None) } else { read(data).map(Some) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use stdx::Rng;
    use wire::Sample;

    #[test]
    fn inputs_survive_their_encoding() {
        let mut rng = Rng::from_seed(3);
        let values = OmapValues::sample(&mut rng);
        assert_eq!(read::<OmapValues>(&write(&values)).expect("own encoding"), values);
        let reply = PgNlsReply::sample(&mut rng);
        assert_eq!(read::<PgNlsReply>(&write(&reply)).expect("own encoding"), reply);
        assert!(read::<OmapGetKeys>(&Bufs::from(vec![1, 2])).is_err());
    }
}
