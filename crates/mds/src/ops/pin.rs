//! The xattrs by which directories are pinned to ranks. What follows from them: `pins.rs`.

use super::context::Cx;
use super::draft::Draft;
use super::plan::{Plan, Reply};
use crate::types::Stop;
use fsfmt::{InodeData, Pin};
use maps::MdsRank;
use msgs::cap;
use wire::Errno;

/// The xattrs that are pins.
const RANK: &[u8] = b"ceph.dir.pin";
const DISTRIBUTED: &[u8] = b"ceph.dir.pin.distributed";
const RANDOM: &[u8] = b"ceph.dir.pin.random";
/// No file system has as many ranks.
const RANKS_END: i32 = 256;
/// The greatest part of directories that may be pinned at random, in millionths: Ceph's default of
/// `mds_export_ephemeral_random_max`. Each is a subtree of its own.
const RANDOM_MOST: f64 = 10_000.0;

/// True if an xattr is a pin.
pub(super) fn is_name(name: &[u8]) -> bool {
    matches!(name, RANK | DISTRIBUTED | RANDOM)
}

/// The rank that an inode is pinned to for clients; -1 for none.
pub fn shown(data: &InodeData) -> i32 {
    data.pin.rank.map_or(-1, |rank| rank.0)
}

/// The value of an xattr that is a pin.
pub(super) fn get(data: &InodeData, name: &[u8]) -> String {
    match name {
        DISTRIBUTED => u8::from(data.pin.is_distributed).to_string(),
        RANDOM => (f64::from(data.pin.random_ppm) / 1e6).to_string(),
        _ => shown(data).to_string(),
    }
}

/// The pin with one of its xattrs set to a value.
fn changed(pin: &Pin, name: &[u8], value: &[u8]) -> Result<Pin, Errno> {
    let text = std::str::from_utf8(value).map_err(|_| Errno::EINVAL)?.trim_end_matches('\0');
    Ok(match name {
        DISTRIBUTED => match text {
            "0" | "1" => Pin { is_distributed: text == "1", ..pin.clone() },
            _ => return Err(Errno::EINVAL),
        },
        RANDOM => {
            let part: f64 = text.parse().map_err(|_| Errno::EINVAL)?;
            match part * 1e6 {
                ppm if !(0.0..=1e6).contains(&ppm) => return Err(Errno::EDOM),
                ppm if ppm > RANDOM_MOST => return Err(Errno::EINVAL),
                ppm => Pin { random_ppm: ppm.round() as u32, ..pin.clone() },
            }
        }
        _ => {
            let rank: i32 = text.parse().map_err(|_| Errno::EINVAL)?;
            if rank >= RANKS_END {
                return Err(Errno::EDOM);
            }
            Pin { rank: (rank >= 0).then_some(MdsRank(rank)), ..pin.clone() }
        }
    })
}

/// Sets a pin. A negative rank, 0 and no value at all remove it, as Ceph has it.
pub(super) fn set(cx: &Cx<'_>, name: &[u8], value: Option<&[u8]>) -> Result<Plan, Stop> {
    let target = cx.resolve(&cx.request.path)?.ino;
    let data = &cx.inode(target)?.data;
    let is_own = name == RANK;
    if !data.is_dir() || is_own && target.is_base() {
        return Err(Errno::EINVAL.into());
    }
    let value = match value {
        Some(value) => value,
        None if is_own => b"-1",
        None => b"0",
    };
    let pin = changed(&data.pin, name, value)?;
    if !is_own {
        // The ranks of those below must know.
        cx.gather_below(target)?;
    }
    cx.revoke_others(target, cap::XATTR_SHARED);
    cx.revoke(target, None, cap::XATTR_EXCL);
    let mut draft = Draft::new(cx.cache, cx.now);
    let data = draft.changed(target)?;
    data.pin = pin.into();
    let reply = Reply { target: Some(target), ..Reply::default() };
    cx.finish(Plan { local: draft.finish(), reply, touched: vec![target], ..Plan::default() })
}
