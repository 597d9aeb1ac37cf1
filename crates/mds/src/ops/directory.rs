//! Changes of a directory, and the clients that work in one alone (docs/adr/0017-asynchronous-creates.md).

use super::context::Cx;
use super::draft::Draft;
use crate::types::{ClientId, Stop};
use fsfmt::{ClientRange, DirFrag, InodeData, InodeKey};
use msgs::cap;

/// Records that a name in `dir` is added or removed; `files` and `dirs` are the changes of its counts.
pub(super) fn change(
    cx: &Cx<'_>,
    draft: &mut Draft<'_>,
    dir: DirFrag,
    (files, dirs): (i64, i64),
) -> Result<(), Stop> {
    draft.dir_changed(dir, files, dirs)?;
    if cx.cache.subtrees.keeper(dir).is_shard() {
        // Nobody relies on what is in its directory.
        return Ok(());
    }
    cx.revoke_others(dir.inode(), cap::FILE_SHARED);
    let inode = cx.dir(dir.inode())?;
    let data = draft.inode(dir.inode())?;
    data.is_sharded &= cx.cache.subtrees.is_sharded(dir.ino);
    // Nobody else has it alone now. A record that remains is of a lock.
    data.ranges.retain(|client, range| {
        let is_old = *client != cx.client.0 && std::mem::take(&mut range.bits) != 0;
        !is_old || cx.cache.locks.holds(ClientId(*client), dir.inode())
    });
    if !inode.is_recorded(cx.client) && inode.may_be_exclusive(cx.client) {
        record(cx, data, dir.inode());
    }
    Ok(())
}

/// Records the asking client in a directory as one that may work in it alone, if it does such things.
/// `within` is a directory that it may change for this.
pub(super) fn record(cx: &Cx<'_>, data: &mut InodeData, within: InodeKey) {
    if cx.may_create_async(within) {
        data.ranges.get_or_insert_with(cx.client.0, ClientRange::default).bits = cap::DIR_ASYNC;
    }
}
