//! Effects on the omap of an object.

use super::Plan;
use crate::api::ObjectKey;
use crate::key::{self, Key};
use crate::onode::Onode;
use crate::stop::Stop;

impl<'a> Plan<'a> {
    pub(super) fn omap_set(
        &mut self,
        object: &'a ObjectKey,
        entries: &[(Vec<u8>, Vec<u8>)],
    ) -> Result<(), Stop> {
        let mut onode = self.make(object)?;
        if onode.omap == 0 {
            onode.omap = self.new_id();
        }
        for (name, value) in entries {
            if let Some(len) = self.replace_cell(key::omap(onode.omap, name), value)? {
                self.count_omap(&mut onode, -1, name.len() as u64 + len);
            }
            self.count_omap(&mut onode, 1, (name.len() + value.len()) as u64);
        }
        self.put_onode(object, &onode);
        Ok(())
    }

    fn count_omap(&mut self, onode: &mut Onode, entries: i64, bytes: u64) {
        let change = bytes as i64 * entries;
        onode.omap_count = onode.omap_count.wrapping_add_signed(entries);
        onode.omap_bytes = onode.omap_bytes.wrapping_add_signed(change);
        self.done.stats.omap = self.done.stats.omap.wrapping_add_signed(change);
        self.done.stats.largest_omap = self.done.stats.largest_omap.max(onode.omap_bytes);
    }

    pub(super) fn omap_remove(&mut self, object: &'a ObjectKey, keys: &[Vec<u8>]) -> Result<(), Stop> {
        let Some(mut onode) = self.onode(object)?.filter(|o| o.omap != 0) else { return Ok(()) };
        for name in keys {
            if let Some(len) = self.remove_cell(key::omap(onode.omap, name))? {
                self.count_omap(&mut onode, -1, name.len() as u64 + len);
            }
        }
        self.put_onode(object, &onode);
        Ok(())
    }

    pub(super) fn omap_remove_range(
        &mut self,
        object: &'a ObjectKey,
        from: &[u8],
        to: &[u8],
    ) -> Result<(), Stop> {
        let Some(mut onode) = self.onode(object)?.filter(|o| o.omap != 0) else { return Ok(()) };
        let mut gone = Vec::new();
        {
            let mut scan = self.scan(&key::omap(onode.omap, from), &key::omap(onode.omap, to));
            while let Some(entry) = scan.next()? {
                gone.push((Key::from(entry.0), entry.1.to_vec()));
            }
        }
        for (key, value) in gone {
            let len = self.drop_cell(&value)?;
            self.count_omap(&mut onode, -1, (key.len() - key::OMAP_KEY_AT) as u64 + len);
            self.delete(key);
        }
        self.put_onode(object, &onode);
        Ok(())
    }

    /// Parts with the omap at once; its entries are removed bit by bit later.
    pub(super) fn forget_omap(&mut self, onode: &mut Onode) {
        if onode.omap != 0 {
            self.put(key::garbage(onode.omap), Vec::new());
            self.done.garbage = true;
            self.done.stats.omap -= onode.omap_bytes;
            (onode.omap, onode.omap_count, onode.omap_bytes) = (0, 0, 0);
        }
    }
}
