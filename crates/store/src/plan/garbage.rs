//! Removal of large objects and omaps, some entries at a time.

use super::Plan;
use crate::extents::decode_extent;
use crate::key::{self, Key};
use crate::stop::{Stop, corrupt};

impl Plan<'_> {
    /// Removes some entries of objects and omaps that were parted with, from `from` on: all before it are
    /// gone already. Gives where to go on; false where there are no more.
    pub(crate) fn collect_garbage(
        &mut self,
        entries: usize,
        from: Option<&Key>,
    ) -> Result<(bool, Option<Key>), Stop> {
        let first = self.scan(&Key::of([b"G"]), &Key::of([b"H"])).next()?.map(|(name, _)| Key::from(name));
        let Some(name) = first else { return Ok((false, None)) };
        let id = key::number(&name, 1).ok_or_else(|| corrupt("name of something removed"))?;
        let (of_omap, of_object) = (key::prefixed(b'M', id), key::part(id));
        let within = |prefix: &Key| from.filter(|key| key.starts_with(prefix));
        let mut gone = match within(&of_object) {
            Some(_) => Vec::new(),
            None => self.some(&of_omap, within(&of_omap).unwrap_or(&of_omap), entries)?,
        };
        let of_object_from = within(&of_object).unwrap_or(&of_object);
        gone.extend(self.some(&of_object, of_object_from, entries - gone.len())?);
        let mut up_to = gone.last().map(|(key, _)| key.clone());
        if gone.len() < entries {
            self.delete(name);
            up_to = None;
        }
        for (key, value) in gone {
            match decode_extent(&key, &value).filter(|_| key::is_extent(&key)) {
                Some(extent) => self.unmap(id, extent.block, extent.end())?,
                None => drop(self.drop_cell(&value)?),
            }
            self.delete(key);
        }
        Ok((true, up_to))
    }

    /// At most `max` entries whose keys begin with `prefix`, from `from` on.
    pub(super) fn some(&self, prefix: &Key, from: &Key, max: usize) -> Result<Vec<(Key, Vec<u8>)>, Stop> {
        let mut scan = self.scan(from, &key::end_of(prefix));
        let mut out = Vec::new();
        while out.len() < max
            && let Some(entry) = scan.next()?
        {
            out.push((entry.0.into(), entry.1.to_vec()));
        }
        Ok(out)
    }
}
