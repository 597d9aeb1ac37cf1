//! A method's view of its object.

use crate::ops::{Exec, Need, OmapEntry};
use maps::{EVersion, SnapId};
use msgs::Extent;
use std::collections::BTreeMap;
use stdx::Bufs;
use store::TxnOp;
use wire::{EntityAddr, EntityId, Errno, Utime};

/// What a method has declared to do to its object. A method that does more fails with EIO.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Access {
    /// It may read the object. Every method may ask if the object exists.
    pub reads: bool,
    /// It may change the object.
    pub writes: bool,
}

/// Why a method gives nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MethodStop {
    /// It fails with this error.
    Fail(Errno),
    /// It has asked for something that is not loaded, and is run anew when it is.
    NeedsData,
}

impl From<Errno> for MethodStop {
    fn from(errno: Errno) -> Self {
        Self::Fail(errno)
    }
}

/// The object that a method is called on.
pub struct Object<'e, 'a> {
    exec: &'e mut Exec<'a>,
    access: Access,
    op: usize,
    input: &'e Bufs,
}

impl<'e, 'a> Object<'e, 'a> {
    /// An object for a method with this access that is operation number `op` of its vector.
    pub fn new(exec: &'e mut Exec<'a>, access: Access, op: usize, input: &'e Bufs) -> Self {
        Self { exec, access, op, input }
    }

    /// A range of the method's input as data to write, aligned as disks want it: its only copy. Checksums of
    /// its blocks are computed once, for the store and for all who get it.
    pub fn input_data(&self, range: std::ops::Range<usize>) -> Bufs {
        self.input.slice(range).to_aligned().into()
    }

    /// The calling client and its address.
    pub fn caller(&self) -> (EntityId, EntityAddr) {
        (self.exec.caller.who, self.exec.caller.addr)
    }

    /// Time at which the vector is executed.
    pub fn now(&self) -> Utime {
        self.exec.caller.now.into()
    }

    /// The version that the object gets if the vector changes it; no other change in the PG has it.
    pub fn next_version(&self) -> EVersion {
        self.exec.caller.version
    }

    /// The number of the call in its vector.
    pub fn op(&self) -> usize {
        self.op
    }

    /// True if the object exists.
    pub fn exists(&self) -> bool {
        self.exec.exists
    }

    /// The clients that watch the object, and their addresses.
    pub fn watchers(&self) -> Result<Vec<(EntityId, EntityAddr)>, MethodStop> {
        self.may_read()?;
        Ok(self.exec.watches.values().map(|watch| (watch.client, watch.addr)).collect())
    }

    /// The object's size in bytes, as earlier operations of the vector left it.
    pub fn size(&self) -> Result<u64, MethodStop> {
        self.may_read()?;
        Ok(self.exec.size)
    }

    /// The newest snapshot that a writer of the object knew; `None` if there is neither an object nor a
    /// clone.
    pub fn newest_snap(&self) -> Result<Option<SnapId>, MethodStop> {
        self.may_read()?;
        let set = &self.exec.loaded.info.snapset;
        Ok((self.exec.exists || !set.clones.is_empty()).then_some(set.seq))
    }

    fn may_read(&self) -> Result<(), Errno> {
        if self.access.reads { Ok(()) } else { Err(Errno::EIO) }
    }

    fn may_write(&mut self) -> Result<(), Errno> {
        if !self.access.writes {
            return Err(Errno::EIO);
        }
        self.exec.user_modified = true;
        Ok(())
    }

    fn need<T>(&mut self, need: Need) -> Result<T, MethodStop> {
        self.exec.needs.push(need);
        Err(MethodStop::NeedsData)
    }

    /// Value of an xattr.
    pub fn xattr(&self, name: &[u8]) -> Result<Option<&'a [u8]>, MethodStop> {
        self.may_read()?;
        Ok(self.exec.loaded.attrs.get(name).map(Vec::as_slice))
    }

    /// The names of all xattrs.
    pub fn xattr_names(&self) -> Result<impl Iterator<Item = &'a [u8]>, MethodStop> {
        self.may_read()?;
        Ok(self.exec.loaded.attrs.keys().map(Vec::as_slice))
    }

    /// Reads data up to the object's end.
    pub fn read(&mut self, off: u64, len: u64) -> Result<Bufs, MethodStop> {
        self.may_read()?;
        if !self.exec.loaded.exists {
            return Ok(Bufs::new());
        }
        match self.exec.loaded.called.data.get(&(off, len)) {
            Some(data) => Ok(data.clone()),
            None => self.need(Need::Data(off, len)),
        }
    }

    /// The value of an omap key.
    pub fn omap_value(&mut self, key: &[u8]) -> Result<Option<Vec<u8>>, MethodStop> {
        Ok(self.omap_values(&[key.to_vec()])?.remove(key))
    }

    /// The values of those keys that exist.
    pub fn omap_values(&mut self, keys: &[Vec<u8>]) -> Result<BTreeMap<Vec<u8>, Vec<u8>>, MethodStop> {
        self.may_read()?;
        if !self.exec.loaded.exists {
            return Ok(BTreeMap::new());
        }
        let cached = &self.exec.loaded.called.values;
        let unknown: Vec<_> = keys.iter().filter(|k| !cached.contains_key(*k)).cloned().collect();
        if !unknown.is_empty() {
            return self.need(Need::Values(unknown));
        }
        Ok(keys.iter().filter_map(|k| Some((k.clone(), cached.get(k)?.clone()?))).collect())
    }

    /// Omap entries after `after` with a prefix, at most `max`, and whether more follow.
    pub fn omap_range(
        &mut self,
        after: &[u8],
        prefix: &[u8],
        max: usize,
    ) -> Result<(Vec<OmapEntry>, bool), MethodStop> {
        self.may_read()?;
        if !self.exec.loaded.exists {
            return Ok((Vec::new(), false));
        }
        let need = Need::Range { after: after.to_vec(), prefix: prefix.to_vec(), max };
        match self.exec.loaded.called.ranges.get(&need) {
            Some(found) => Ok(found.clone()),
            None => self.need(need),
        }
    }

    /// The omap header.
    pub fn omap_header(&mut self) -> Result<Vec<u8>, MethodStop> {
        self.may_read()?;
        if !self.exec.loaded.exists {
            return Ok(Vec::new());
        }
        match &self.exec.loaded.called.header {
            Some(header) => Ok(header.clone()),
            None => self.need(Need::Header),
        }
    }

    /// Deletes the object.
    pub fn remove(&mut self) -> Result<(), MethodStop> {
        self.may_write()?;
        self.exec.delete()?;
        Ok(())
    }

    /// Makes the object exist. EEXIST if it does and must not.
    pub fn create(&mut self, exclusive: bool) -> Result<(), MethodStop> {
        self.may_write()?;
        self.exec.create(exclusive)?;
        Ok(())
    }

    /// Overwrites data, extending the object.
    pub fn write(&mut self, off: u64, data: Bufs) -> Result<(), MethodStop> {
        self.may_write()?;
        self.exec.write(&Extent::new(off, data.len() as u64), &data)?;
        Ok(())
    }

    /// Sets the size.
    pub fn truncate(&mut self, size: u64) -> Result<(), MethodStop> {
        self.may_write()?;
        self.exec.truncate(size, &Extent::new(size, 0))?;
        Ok(())
    }

    /// Replaces all data.
    pub fn write_full(&mut self, data: Vec<u8>) -> Result<(), MethodStop> {
        self.may_write()?;
        self.exec.write_full(&Extent::new(0, data.len() as u64), &data.into())?;
        Ok(())
    }

    /// Sets an xattr.
    pub fn set_xattr(&mut self, name: &[u8], value: Vec<u8>) -> Result<(), MethodStop> {
        self.may_write()?;
        self.exec.set_xattr(name, &value.into())?;
        Ok(())
    }

    /// Sets omap entries.
    pub fn omap_set(&mut self, entries: Vec<OmapEntry>) -> Result<(), MethodStop> {
        self.may_write()?;
        self.exec.ensure_exists();
        self.step(TxnOp::OmapSet(self.exec.key.clone(), entries));
        Ok(())
    }

    /// Removes omap keys. ENOENT if there is no object; a missing key is no error.
    pub fn omap_remove(&mut self, keys: Vec<Vec<u8>>) -> Result<(), MethodStop> {
        self.may_write()?;
        if !self.exec.exists {
            return Err(Errno::ENOENT.into());
        }
        self.exec.ensure_exists();
        self.step(TxnOp::OmapRemove(self.exec.key.clone(), keys));
        Ok(())
    }

    /// Removes omap keys from the first, inclusive, to the second, exclusive.
    pub fn omap_remove_range(&mut self, from: Vec<u8>, to: Vec<u8>) -> Result<(), MethodStop> {
        self.may_write()?;
        self.exec.ensure_exists();
        self.step(TxnOp::OmapRemoveRange(self.exec.key.clone(), from, to));
        Ok(())
    }

    /// Sets the omap header.
    pub fn omap_set_header(&mut self, header: Vec<u8>) -> Result<(), MethodStop> {
        self.may_write()?;
        self.exec.ensure_exists();
        self.step(TxnOp::OmapSetHeader(self.exec.key.clone(), header));
        Ok(())
    }

    fn step(&mut self, step: TxnOp) {
        self.exec.txn.push(step);
    }
}
