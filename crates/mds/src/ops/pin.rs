//! Pins: which rank is to serve a directory and what is below it (`ceph.dir.pin`), unless a directory below
//! says otherwise.

use super::context::Cx;
use super::draft::Draft;
use super::plan::{Plan, Reply};
use crate::types::Stop;
use fsfmt::{InodeData, Pin};
use maps::MdsRank;
use msgs::cap;
use wire::Errno;

/// The xattr that is the pin.
const NAME: &[u8] = b"ceph.dir.pin";
/// No file system has as many ranks.
const RANKS_END: i32 = 256;

/// True if an xattr is a pin.
pub(super) fn is_name(name: &[u8]) -> bool {
    name == NAME
}

/// The rank that an inode is pinned to for clients; -1 for none.
pub fn shown(data: &InodeData) -> i32 {
    data.pin.rank.map_or(-1, |rank| rank.0)
}

/// Sets a pin; a negative one removes it, as Ceph has it.
pub(super) fn set(cx: &Cx<'_>, value: &[u8]) -> Result<Plan, Stop> {
    let target = cx.resolve(&cx.request.path)?.ino;
    if !cx.inode(target)?.data.is_dir() || target.is_base() {
        return Err(Errno::EINVAL.into());
    }
    let text = std::str::from_utf8(value).map_err(|_| Errno::EINVAL)?;
    let rank: i32 = text.trim_end_matches('\0').parse().map_err(|_| Errno::EINVAL)?;
    if rank >= RANKS_END {
        return Err(Errno::EDOM.into());
    }
    cx.revoke_others(target, cap::XATTR_SHARED);
    cx.revoke(target, None, cap::XATTR_EXCL);
    let mut draft = Draft::new(cx.cache, cx.now);
    let data = draft.changed(target)?;
    data.pin = Pin { rank: (rank >= 0).then_some(MdsRank(rank)), ..(*data.pin).clone() }.into();
    let reply = Reply { target: Some(target), ..Reply::default() };
    cx.finish(Plan { local: draft.finish(), reply, touched: vec![target], ..Plan::default() })
}
