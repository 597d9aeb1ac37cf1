//! An object's info: its versions and truncation state, kept in one xattr of the store.

use crate::snapset::SnapSet;
use maps::{EVersion, HObject, SnapId};
use store::{ObjectKey, ObjectView};
use wire::{Reader, Utime, Writer, wire_structs};

/// The store's xattr that holds the [`ObjectInfo`].
pub const INFO_ATTR: &[u8] = b"_";
/// Prefix of clients' xattrs in the store, so that none collides with [`INFO_ATTR`].
const USER_ATTR_PREFIX: u8 = b'_';

wire_structs! {
    /// Versions and truncation state of an object; its size is the store's.
    pub struct ObjectInfo[v 2/1] {
        /// The PG's version of its last change.
        pub version: EVersion,
        /// The version that clients see.
        pub user_version: u64,
        /// Time of the last change, by the client's clock.
        pub mtime: Utime,
        /// The number of the last truncation of its file (CephFS).
        pub truncate_seq: u32,
        /// The size at that truncation.
        pub truncate_size: u64,
        /// Heads only: the clones.
        pub snapset: SnapSet = since 2,
        /// Heads only: it was deleted and remains for its clones.
        pub whiteout: bool = since 2,
        /// Clones only: the snapshots that it shows, ascending.
        pub snaps: Vec<SnapId> = since 2,
    }
}

impl ObjectInfo {
    /// Parses the xattr; `None` if it is damaged.
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        Reader::new(bytes).get().ok()
    }

    /// The xattr's value.
    pub fn to_bytes(&self) -> Vec<u8> {
        Writer::encode(self)
    }
}

/// The info of an object that was read with its xattrs.
pub fn object_info(view: &ObjectView) -> Option<ObjectInfo> {
    let (_, value) = view.attrs.iter().find(|(name, _)| name == INFO_ATTR)?;
    ObjectInfo::parse(value)
}

/// The store's name of a client's xattr.
pub fn user_attr(name: &[u8]) -> Vec<u8> {
    [&[USER_ATTR_PREFIX], name].concat()
}

/// The client's name of a store's xattr; `None` for the OSD's own.
pub fn client_attr(stored: &[u8]) -> Option<&[u8]> {
    match stored {
        [USER_ATTR_PREFIX, name @ ..] if !name.is_empty() => Some(name),
        _ => None,
    }
}

/// The store's key of a shard of an object that the wire names so.
pub fn key_of(shard: i8, object: &HObject) -> ObjectKey {
    ObjectKey {
        shard,
        snap: object.snap.0,
        ..ObjectKey::head(object.pool, object.hash, &object.ns, &object.key, &object.name)
    }
}

/// The head of the object that `key` is the head or a clone of.
pub fn head_of(key: &ObjectKey) -> ObjectKey {
    at_snap(key, ObjectKey::HEAD)
}

/// The clone of this id, or the head, of the same object.
pub fn at_snap(key: &ObjectKey, snap: u64) -> ObjectKey {
    ObjectKey { snap, ..key.clone() }
}

/// A key before those of all clones of the object, whose head is the last. [`head_of`] it is that head.
pub fn first_of(key: &ObjectKey) -> ObjectKey {
    at_snap(key, 0)
}

/// The wire's name of an object that the store keeps under `key`.
pub fn hobject_of(key: &ObjectKey) -> HObject {
    HObject {
        key: key.locator.clone(),
        name: key.name.clone(),
        snap: SnapId(key.snap),
        hash: key.hash,
        max: false,
        ns: key.namespace.clone(),
        pool: key.pool,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use maps::Spg;

    #[test]
    fn the_first_key_of_an_object_leads_to_its_head_again() {
        let head = ObjectKey::head(1, 7, b"ns", b"", b"name");
        let first = first_of(&at_snap(&head, 5));
        assert_eq!(head_of(&first), head);
        assert!(first < at_snap(&head, 1) && (first..=head_of(&first_of(&head))).contains(&head));
    }

    #[test]
    fn client_attrs_never_collide_with_ours() {
        assert_eq!(client_attr(INFO_ATTR), None);
        assert_eq!(client_attr(&user_attr(b"_")), Some(b"_" as &[u8]));
        assert_eq!(client_attr(b"snapset"), None);
    }

    #[test]
    fn what_was_written_before_there_were_snapshots_is_read() {
        let old = ObjectInfo { user_version: 5, truncate_seq: 2, ..ObjectInfo::default() };
        let mut w = Writer::new();
        w.versioned(1, 1, |w| {
            w.put(&(old.version, old.user_version));
            w.put(&(old.mtime, old.truncate_seq));
            w.put(&old.truncate_size);
        });
        assert_eq!(ObjectInfo::parse(&w.into_vec()), Some(old));
    }

    #[test]
    fn clones_come_before_their_head_and_behind_the_first_key() {
        let head = HObject::head(3, b"", b"", b"name");
        let head = key_of(Spg::NO_SHARD, &head);
        let clone = at_snap(&head, 7);
        assert!(first_of(&head) < clone && clone < head && head_of(&clone) == head);
    }

    #[test]
    fn keys_and_wire_names_map_to_each_other() {
        let object = HObject::head(3, b"ns", b"key", b"name");
        assert_eq!(hobject_of(&key_of(2, &object)), object);
    }
}
