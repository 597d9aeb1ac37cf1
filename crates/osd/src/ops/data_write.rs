//! WRITE, WRITEFULL, APPEND, WRITESAME, TRUNCATE, TRIMTRUNC, ZERO, DELETE, CREATE, SETALLOCHINT.

use super::exec::Exec;
use super::result::{OpOutput, done};
use msgs::Extent;
use stdx::Bufs;
use store::TxnOp;
use wire::Errno;

/// Minimum bytes of a repeated piece.
const PIECE: u64 = 64 << 10;

impl Exec<'_> {
    fn check_range(&self, off: u64, len: u64) -> Result<(), Errno> {
        match off.checked_add(len) {
            Some(end) if end <= self.limits.object_size && off < self.limits.object_size => Ok(()),
            _ => Err(Errno::EFBIG),
        }
    }

    fn set_size(&mut self, size: u64) {
        self.size = size;
        self.txn.push(TxnOp::Truncate(self.key.clone(), size));
    }

    /// Executes a truncation that the client made before this write and that has not arrived here. CephFS
    /// sends truncations to objects lazily and relies on their number in each later request.
    fn catch_up_truncation(&mut self, e: &Extent) -> Result<(), Errno> {
        let (seq, size) = e.truncation();
        if seq <= self.info.truncate_seq {
            return Ok(());
        }
        if self.exists && size != self.size {
            if size > self.limits.object_size {
                return Err(Errno::EFBIG);
            }
            self.set_size(size);
        }
        (self.info.truncate_seq, self.info.truncate_size) = (seq, size);
        Ok(())
    }

    pub(crate) fn write(&mut self, e: &Extent, data: &Bufs) -> Result<OpOutput, Errno> {
        if e.len != data.len() as u64 {
            return Err(Errno::EINVAL);
        }
        self.check_range(e.off, e.len)?;
        let mut data = data.clone();
        if e.truncation().0 < self.info.truncate_seq && e.off + e.len > self.size {
            // A write sent before an executed truncation: bytes after the end were cut off by it.
            let keep = self.size.saturating_sub(e.off).min(e.len);
            data = data.slice(0..keep as usize);
        }
        self.catch_up_truncation(e)?;
        self.put(e.off, data);
        done()
    }

    /// Writes at a validated offset. As in Ceph, a write of no bytes beyond the end does not extend the
    /// object.
    fn put(&mut self, off: u64, data: Bufs) {
        self.ensure_exists();
        let end = off + data.len() as u64;
        if data.is_empty() {
            if off > self.size {
                self.set_size(off);
            }
            return;
        }
        self.txn.push(TxnOp::Write(self.key.clone(), off, data));
        self.size = self.size.max(end);
    }

    pub(crate) fn write_full(&mut self, e: &Extent, data: &Bufs) -> Result<OpOutput, Errno> {
        if e.len != data.len() as u64 {
            return Err(Errno::EINVAL);
        }
        self.check_range(0, e.len)?;
        self.ensure_exists();
        if self.size > 0 {
            // No old byte is kept, so that rewriting an unreadable object repairs it.
            self.set_size(0);
        }
        self.put(0, data.clone());
        done()
    }

    pub(super) fn append(&mut self, e: &Extent, data: &Bufs) -> Result<OpOutput, Errno> {
        if e.len != data.len() as u64 {
            return Err(Errno::EINVAL);
        }
        self.check_range(self.size, e.len)?;
        self.put(self.size, data.clone());
        done()
    }

    pub(super) fn write_same(&mut self, off: u64, len: u64, data: &Bufs) -> Result<OpOutput, Errno> {
        let unit = data.len() as u64;
        if len == 0 {
            return done();
        }
        if unit == 0 || !len.is_multiple_of(unit) {
            return Err(Errno::EINVAL);
        }
        self.check_range(off, len)?;
        self.put(off, repeated(data, len));
        done()
    }

    /// Without an object there is nothing to truncate, and none is created.
    pub(crate) fn truncate(&mut self, to: u64, e: &Extent) -> Result<OpOutput, Errno> {
        if !self.exists {
            return done();
        }
        self.check_range(to, 0)?;
        let (seq, size) = e.truncation();
        if seq != 0 {
            if to != size {
                return Err(Errno::EINVAL);
            }
            if seq <= self.info.truncate_seq {
                return done();
            }
            (self.info.truncate_seq, self.info.truncate_size) = (seq, size);
        }
        self.modified = true;
        self.set_size(to);
        done()
    }

    /// Never extends the object; a range that reaches its end truncates it, as in Ceph.
    pub(super) fn zero(&mut self, e: &Extent) -> Result<OpOutput, Errno> {
        self.check_range(e.off, e.len)?;
        if !self.exists {
            return done();
        }
        self.catch_up_truncation(e)?;
        self.modified = true;
        let left = self.size.saturating_sub(e.off);
        if e.len > 0 && left > 0 && e.len >= left {
            self.set_size(e.off);
        } else if e.len.min(left) > 0 {
            self.txn.push(TxnOp::Zero(self.key.clone(), e.off, e.len));
        }
        done()
    }

    pub(crate) fn delete(&mut self) -> Result<OpOutput, Errno> {
        self.must_exist()?;
        self.txn.push(TxnOp::Remove(self.key.clone()));
        self.end_watches();
        self.exists = false;
        self.size = 0;
        self.info = Default::default();
        self.modified = true;
        done()
    }

    pub(crate) fn create(&mut self, exclusive: bool) -> Result<OpOutput, Errno> {
        if self.exists && exclusive {
            return Err(Errno::EEXIST);
        }
        self.ensure_exists();
        done()
    }

    /// The hint itself is not used; clients only see that it creates the object.
    pub(super) fn set_alloc_hint(&mut self) -> Result<OpOutput, Errno> {
        self.ensure_exists();
        done()
    }
}

/// Repeats `data` up to `len` bytes. Short data is first made into a longer piece: a piece for each byte
/// would take forty times its size.
fn repeated(data: &Bufs, len: u64) -> Bufs {
    let unit = data.len() as u64;
    let longer = (PIECE / unit).min(len / unit);
    let piece = if longer > 1 { data.to_vec().repeat(longer as usize).into() } else { data.clone() };
    let mut whole = Bufs::new();
    for _ in 0..len / piece.len() as u64 {
        whole.append(piece.clone());
    }
    let rest = len as usize - whole.len();
    whole.append(piece.slice(0..rest));
    whole
}
