//! Quotas: limits of a tree, set as xattrs of its directory. Clients observe them; of the number of files,
//! the server refuses what a client does not.

use super::context::Cx;
use super::draft::Draft;
use super::plan::{Plan, RealmChange, Reply};
use super::snap::quiesce;
use crate::types::Stop;
use fsfmt::{Ino, InodeKey, Quota, Realm};
use msgs::cap;
use wire::Errno;

const ALL: &[u8] = b"ceph.quota";
const MAX_BYTES: &[u8] = b"ceph.quota.max_bytes";
const MAX_FILES: &[u8] = b"ceph.quota.max_files";

/// True if an xattr is a quota.
pub(super) fn is_name(name: &[u8]) -> bool {
    [ALL, MAX_BYTES, MAX_FILES].contains(&name)
}

/// Sets a quota; without a value, removes it.
pub(super) fn set(cx: &Cx<'_>, name: &[u8], value: Option<&[u8]>) -> Result<Plan, Stop> {
    let target = cx.resolve(&cx.request.path)?.ino;
    let data = &cx.inode(target)?.data;
    if !data.is_dir() || target.is_base() && target.ino != Ino::ROOT {
        return Err(Errno::EINVAL.into());
    }
    let quota = match value {
        Some(value) => parse(name, value, &data.quota).ok_or(Errno::EINVAL)?,
        None => parse(name, b"0", &data.quota).unwrap_or_default(),
    };
    cx.gather_below(target)?;
    // Clients find the quotas that concern an inode by its realm and those around it.
    let begins_realm = quota.is_enabled() && data.own_realm.is_none() && target.ino != Ino::ROOT;
    if begins_realm {
        quiesce(cx, target)?;
    }
    cx.revoke_others(target, cap::XATTR_SHARED);
    cx.revoke(target, None, cap::XATTR_EXCL);
    let mut draft = Draft::new(cx.cache, cx.now);
    let changed = draft.changed(target)?;
    changed.quota = quota.into();
    if begins_realm {
        // The same snapshots count as before. Clients move to a realm that is not older than their present
        // one.
        let seq = cx.cache.snap_context(cx.cache.realm_of(cx.inode(target)?)).seq;
        changed.own_realm = Some(Box::new(Realm { created: seq, seq, ..Realm::default() }));
    }
    let realm = begins_realm.then_some(RealmChange::Split(target.ino));
    let reply = Reply { target: Some(target), ..Reply::default() };
    cx.finish(Plan { local: draft.finish(), reply, realm, touched: vec![target], ..Plan::default() })
}

/// Refuses a new inode in a directory if a tree that it would be in has as many as its quota allows.
pub(super) fn check_files(cx: &Cx<'_>, dir: InodeKey) -> Result<(), Stop> {
    if !cx.cache.may_have_quotas || cx.is_promised() {
        return Ok(());
    }
    let dir = cx.cache.inodes.get(&dir);
    for inode in dir.into_iter().flat_map(|dir| cx.cache.upwards(dir)) {
        let (most, stat) = (inode.data.quota.max_files, &inode.data.rstat);
        if most > 0 && stat.rfiles.saturating_add(stat.rsubdirs) >= most {
            cx.see(inode.change);
            return Err(Errno::EDQUOT.into());
        }
    }
    Ok(())
}

/// The quota after a value of one of its xattrs is set.
fn parse(name: &[u8], value: &[u8], old: &Quota) -> Option<Quota> {
    let text = std::str::from_utf8(value).ok()?.trim_end_matches('\0');
    let mut quota = old.clone();
    match name {
        MAX_BYTES => quota.max_bytes = size(text)?,
        MAX_FILES => quota.max_files = count(text)?,
        _ if text == "0" => quota = Quota::default(),
        _ => {
            for (key, value) in text.split_ascii_whitespace().map(|pair| pair.split_once('=').unzip()) {
                match key? {
                    "max_bytes" => quota.max_bytes = size(value?)?,
                    "max_files" => quota.max_files = count(value?)?,
                    _ => return None,
                }
            }
        }
    }
    Some(quota)
}

/// A number that fits the signed fields of messages.
fn count(text: &str) -> Option<u64> {
    text.parse().ok().filter(|n| i64::try_from(*n).is_ok())
}

/// Bytes, perhaps with a binary unit: `10K`, `10Ki`, `1T`.
fn size(text: &str) -> Option<u64> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = text.strip_prefix(digits)?;
    let power = match unit.strip_suffix('i').unwrap_or(unit) {
        "" | "B" => 0,
        "K" => 1,
        "M" => 2,
        "G" => 3,
        "T" => 4,
        "P" => 5,
        "E" => 6,
        _ => return None,
    };
    let bytes = count(digits)?.checked_mul(1 << (10 * power))?;
    i64::try_from(bytes).is_ok().then_some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_numbers_with_binary_units() {
        let old = Quota { max_bytes: 5, max_files: 6 };
        let set = |name, value| parse(name, value, &old).map(|q| (q.max_bytes, q.max_files));
        assert_eq!(set(MAX_BYTES, b"100"), Some((100, 6)));
        assert_eq!(set(MAX_BYTES, b"10Ki"), Some((10 << 10, 6)));
        assert_eq!(set(MAX_BYTES, b"1T"), Some((1 << 40, 6)));
        assert_eq!(set(MAX_FILES, b"7"), Some((5, 7)));
        assert_eq!(set(ALL, b"max_bytes=1M max_files=2"), Some((1 << 20, 2)));
        assert_eq!(set(ALL, b"max_files=0"), Some((5, 0)));
        assert_eq!(set(ALL, b"0"), Some((0, 0)));
        for wrong in [&b"-1"[..], b"", b"1X", b"K", b"1 2", b"9223372036854775808", b"8E", b"\xff"] {
            assert_eq!(set(MAX_BYTES, wrong), None, "{wrong:?}");
        }
        for wrong in [&b"max_bytes"[..], b"max_bytes=", b"size=1", b"=", b"max_files=1K"] {
            assert_eq!(set(ALL, wrong), None, "{wrong:?}");
        }
    }
}
