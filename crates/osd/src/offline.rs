//! Knowledge for tools about the store of a stopped OSD: the meaning of its objects, and how a PG's copy
//! continues at another OSD.

use crate::object::{INFO_ATTR, ObjectInfo};
use crate::pg::info::Info;
use crate::pg::membership::Members;
use crate::pg::meta::{IMPORTING, INFO, MEMBERS, META_POOL, PG_NUM_BEFORE, index_clone, meta_key, meta_pgid};
use crate::pg::range::objects_of;
use crate::superblock::{SUPERBLOCK, SUPERBLOCK_KEY, Superblock, map_key};
use maps::{Epoch, OsdMap, SnapId, Spg};
use store::{ObjectKey, TxnOp};
use wire::{Decode, DecodeError, Reader, Uuid, Writer};

/// Owner of a store, and the maps in it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Owner {
    /// Id of the cluster.
    pub fsid: Uuid,
    /// The OSD's number.
    pub osd: i32,
    /// The oldest map stored.
    pub oldest: Epoch,
    /// The newest map that its PGs have processed.
    pub newest: Epoch,
}

impl Owner {
    /// The object and the omap key that hold the value for [`Self::parse`].
    pub fn place() -> (ObjectKey, Vec<u8>) {
        (ObjectKey::private(crate::superblock::SUPER_POOL, SUPERBLOCK), SUPERBLOCK_KEY.to_vec())
    }

    /// Parses the stored superblock.
    pub fn parse(bytes: &[u8]) -> Result<Self, DecodeError> {
        let found: Superblock = Reader::new(bytes).get()?;
        Ok(Self { fsid: found.fsid, osd: found.id, oldest: found.oldest, newest: found.newest })
    }
}

/// The object whose data is a map.
pub fn map_object(epoch: Epoch) -> ObjectKey {
    map_key(epoch)
}

/// The object whose omap holds the records of a PG.
pub fn records_of(pgid: Spg) -> ObjectKey {
    meta_key(pgid)
}

/// The key range of PGs' records.
pub fn all_records() -> (ObjectKey, ObjectKey) {
    let bound = |pool| ObjectKey::first_at(pool, i8::MIN, 0);
    (bound(META_POOL), bound(META_POOL + 1))
}

/// The PG whose records an object holds.
pub fn pg_of_records(key: &ObjectKey) -> Option<Spg> {
    meta_pgid(key)
}

/// The key range of a PG's objects.
pub fn range_of(pgid: Spg, pg_num: u32) -> (ObjectKey, ObjectKey) {
    objects_of(pgid, pg_num)
}

/// The step that marks a PG as being imported: until [`imported`] the OSD does not start. The empty record
/// stops programs that do not know this mark.
pub fn importing(pgid: Spg) -> TxnOp {
    let entries = [(IMPORTING, &b"1"[..]), (INFO, b"")];
    TxnOp::OmapSet(meta_key(pgid), entries.map(|(key, value)| (key.to_vec(), value.to_vec())).into())
}

/// True if an import of the PG is unfinished.
pub fn is_importing(records: &[(Vec<u8>, Vec<u8>)]) -> bool {
    records.iter().any(|(key, _)| key == IMPORTING)
}

/// The records of a PG whose objects are here, in pieces of about `bytes` bytes. Each may be a transaction of
/// its own; the last one completes the import.
pub fn imported(pgid: Spg, records: &[(Vec<u8>, Vec<u8>)], bytes: usize) -> Vec<Vec<TxnOp>> {
    let (info, others): (Vec<_>, Vec<_>) = records.iter().cloned().partition(|(key, _)| key == INFO);
    let mut pieces = Vec::new();
    let mut piece = Vec::new();
    let mut held = 0;
    for (key, value) in others {
        held += key.len() + value.len();
        piece.push((key, value));
        if held >= bytes {
            pieces.push(vec![TxnOp::OmapSet(meta_key(pgid), std::mem::take(&mut piece))]);
            held = 0;
        }
    }
    piece.extend(info);
    let ended = TxnOp::OmapRemove(meta_key(pgid), vec![IMPORTING.to_vec()]);
    pieces.push(vec![TxnOp::OmapSet(meta_key(pgid), piece), ended]);
    pieces
}

/// The step that forgets a PG, of which no object is here any more.
pub fn forgotten(pgid: Spg) -> TxnOp {
    TxnOp::Remove(meta_key(pgid))
}

/// The step that indexes an object with these xattrs, if it is a clone, so that it is found when its
/// snapshots are removed.
pub fn index_of(object: &ObjectKey, attrs: &[(Vec<u8>, Vec<u8>)]) -> Option<TxnOp> {
    if object.snap == SnapId::HEAD.0 {
        return None;
    }
    let info = ObjectInfo::parse(&attrs.iter().find(|(name, _)| name == INFO_ATTR)?.1)?;
    Some(index_clone(object, &info.snaps))
}

/// Advances a PG's records from the first of `maps` to the last, as if the OSD had been there: intervals that
/// ended meanwhile are recorded, so that their members are asked before the copy counts as the newest.
pub fn carry_on(pgid: Spg, records: &mut [(Vec<u8>, Vec<u8>)], maps: &[OsdMap]) -> Result<(), String> {
    fn get<T: Decode>(records: &[(Vec<u8>, Vec<u8>)], key: &[u8]) -> Result<T, String> {
        let found = records.iter().find(|(k, _)| k == key).ok_or("a record is missing")?;
        Reader::new(&found.1).get().map_err(|e| e.to_string())
    }
    let info: Info = get(records, INFO)?;
    let mut members: Members = get(records, MEMBERS)?;
    if records.iter().any(|(key, _)| key == PG_NUM_BEFORE) {
        return Err(
            "it was about to be split or merged when its OSD stopped: start that one once, then export again"
                .into(),
        );
    }
    if info.pgid != pgid {
        return Err(format!("the records are of PG {}", info.pgid));
    }
    for pair in maps.windows(2) {
        let next = Members::of(pgid.pgid, &pair[1])
            .ok_or_else(|| format!("the PG is not in map {}", pair[1].epoch))?;
        if Members::of(pgid.pgid, &pair[0]).is_some_and(|before| before.bits() != next.bits()) {
            let epoch = pair[1].epoch;
            return Err(format!(
                "it was split or merged in map {epoch}: the export is of another PG by that name"
            ));
        }
        if let Some(ended) = members.advance(next, &pair[0]) {
            members.add_past(ended, info.history.last_epoch_clean);
        }
    }
    let record = records.iter_mut().find(|(k, _)| k == MEMBERS).ok_or("a record is missing")?;
    record.1 = Writer::encode(&members);
    Ok(())
}
