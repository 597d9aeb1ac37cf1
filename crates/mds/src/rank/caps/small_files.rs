//! Data of small files that come with a flush, and go through the journal
//! (docs/adr/0020-small-files-in-the-journal.md).

use crate::cache::{Cache, Inode};
use crate::cap::OBJECT_BITS;
use crate::rank::env::Env;
use crate::types::ClientId;
use fsfmt::{InodeData, PackedData};
use msgs::{ClientCaps, small_file};

/// Takes the data that came with a flush into the inode, whose other changes are merged already. False if
/// they have to be written to objects by the client: they are not the whole content of a new file, of which
/// nothing is in an object and of which nobody else has anything.
pub(super) fn take(
    env: &Env,
    cache: &Cache,
    inode: &Inode,
    client: ClientId,
    data: &mut InodeData,
    m: &ClientCaps,
) -> bool {
    let len = m.inline_data.len() as u64;
    let is_sent = m.inline_version == small_file::IN_JOURNAL && (1..=small_file::MAX_BYTES).contains(&len);
    let old = inode.data.packed.as_ref();
    let is_new = inode.data.size == 0 || old.is_some();
    let is_uncut = data.truncate_seq <= 1 && data.truncate_from == 0;
    let is_one_piece = u64::from(data.layout.stripe_unit) >= small_file::MAX_BYTES;
    let is_alone = inode.held_by_others(Some(client.into())) & OBJECT_BITS == 0;
    // One that takes the place of another is not refused: the client would write it to the object now, and
    // the former one would be stored over it later.
    let is_stored_soon = old.is_some() || !env.cfg().full && cache.may_be_unstored(inode, len);
    let may_take = is_sent && is_new && is_uncut && is_one_piece && is_alone && is_stored_soon;
    if !may_take || !data.is_file() || data.size != len {
        return false;
    }
    data.packed = Some(Box::new(PackedData {
        inline: m.inline_data.clone(),
        length: len as u32,
        crc: wire::crc32c::update(!0, &m.inline_data),
        version: old.map_or(0, |old| old.version) + 1,
        ..PackedData::default()
    }));
    true
}
