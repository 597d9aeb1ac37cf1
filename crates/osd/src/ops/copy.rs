//! COPY_FROM, COPY_FROM2: the object becomes a copy of another one, which [`crate::copy_from`] reads.

use super::exec::Exec;
use super::result::{OpOutput, OpStop, done};
use super::source::{Copied, CopySource};
use crate::object::{key_of, user_attr};
use crate::watch::{WATCH_ATTR, to_bytes};
use maps::{HObject, ObjectLocator, SnapId};
use stdx::Bufs;
use store::TxnOp;
use wire::{Errno, Reader};

/// All flags of COPY_FROM2; all but the last are about cache tiers.
const FLAGS: u8 = 0x3f;
/// A truncation of the copy follows the name.
const TRUNCATE: u8 = 0x20;

impl Exec<'_> {
    pub(super) fn copy_from(
        &mut self,
        i: usize,
        (snap, version): (SnapId, u64),
        flags: Option<u8>,
        data: &Bufs,
    ) -> Result<OpOutput, OpStop> {
        let flags = flags.unwrap_or(0);
        if flags & !FLAGS != 0 {
            return Err(Errno::EINVAL.into());
        }
        let bytes = data.to_buf();
        let mut r = Reader::new(&bytes);
        let (name, locator): (Vec<u8>, ObjectLocator) = r.get().map_err(|_| Errno::EINVAL)?;
        let truncation = match flags & TRUNCATE {
            0 => None,
            _ => Some(r.get::<(u32, u64)>().map_err(|_| Errno::EINVAL)?),
        };
        let hash = locator.hash_of(&name);
        let object = HObject { snap, hash, ..HObject::head(locator.pool, &locator.ns, &locator.key, &name) };
        if key_of(self.key.shard, &object) == *self.key {
            return Err(Errno::EINVAL.into());
        }
        match self.loaded.copies.get(&i) {
            None => {
                self.copies.push((i, CopySource { object, version }));
                Err(OpStop::NeedsData)
            }
            Some(Err(errno)) => Err(OpStop::Fail(*errno)),
            Some(Ok(copied)) => Ok(self.become_copy(copied, truncation)?),
        }
    }

    fn become_copy(&mut self, copied: &Copied, truncation: Option<(u32, u64)>) -> Result<OpOutput, Errno> {
        if copied.size > self.limits.object_size {
            return Err(Errno::EFBIG);
        }
        let key = || self.key.clone();
        let mut steps = vec![TxnOp::Remove(key()), TxnOp::Touch(key())];
        if !copied.data.is_empty() {
            steps.push(TxnOp::Write(key(), 0, copied.data.clone()));
        }
        steps.push(TxnOp::Truncate(key(), copied.size));
        let attrs = copied.attrs.iter().map(|(name, value)| (user_attr(name), value.clone()));
        steps.extend(attrs.map(|(name, value)| TxnOp::SetAttr(key(), name, value)));
        if !self.watches.is_empty() {
            steps.push(TxnOp::SetAttr(key(), WATCH_ATTR.to_vec(), to_bytes(&self.watches)));
        }
        if !copied.omap_header.is_empty() {
            steps.push(TxnOp::OmapSetHeader(key(), copied.omap_header.clone()));
        }
        if !copied.omap.is_empty() {
            steps.push(TxnOp::OmapSet(key(), copied.omap.clone()));
        }
        self.txn.extend(steps);
        (self.exists, self.modified, self.size) = (true, true, copied.size);
        (self.info.truncate_seq, self.info.truncate_size) = truncation.unwrap_or_default();
        self.copied = Some((copied.user_version, copied.mtime));
        done()
    }
}
