//! Objects of a pool.

use crate::{Answer, Errno, Error, ObjectRequest, OpAnswer, Reply, Request};
use maps::SnapId;
use msgs::op::input::{self, OmapGetVals, OmapKeys, OmapValues, OmapValuesReply};
use msgs::{Extent, Op};
use runtime::Handle;
use stdx::Bufs;
use wire::{Decode, Reader, Utime};

/// Objects in one answer of a listing.
const LIST_CHUNK: usize = 1000;
/// Bytes in one read or write of [`Pool::read_all`] and [`Pool::write_full`].
const CHUNK: usize = 4 << 20;

/// A pool of a cluster.
#[derive(Clone)]
pub struct Pool {
    handle: Handle<Request, Reply>,
    name: String,
    namespace: Vec<u8>,
    snap: SnapId,
    flags: u32,
}

/// The answer to a vector: its result, and the result and output of each operation.
pub type Vectored = (Result<u32, Errno>, Vec<OpAnswer>);

/// An object's attributes.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Stat {
    /// Size in bytes.
    pub size: u64,
    /// Time of the last change.
    pub mtime: Utime,
}

impl Pool {
    pub(crate) fn new(handle: Handle<Request, Reply>, name: &str) -> Self {
        Self { handle, name: name.to_owned(), namespace: Vec::new(), snap: SnapId::HEAD, flags: 0 }
    }

    /// The same pool, in a namespace.
    #[must_use]
    pub fn in_namespace(&self, namespace: &[u8]) -> Self {
        Self { namespace: namespace.to_vec(), ..self.clone() }
    }

    /// The same pool, read as of a snapshot.
    #[must_use]
    pub fn at_snap(&self, snap: SnapId) -> Self {
        Self { snap, ..self.clone() }
    }

    /// The same pool; requests have these [`msgs::osd_flag`] bits too.
    #[must_use]
    pub fn with_flags(&self, flags: u32) -> Self {
        Self { flags, ..self.clone() }
    }

    /// Runs a vector of operations on one object, atomically. Returns the result and output of each.
    pub fn operate(&self, object: &[u8], ops: Vec<Op>) -> Result<Vec<OpAnswer>, Error> {
        match self.vector(object, ops)? {
            (Ok(_), ops) => Ok(ops),
            (Err(errno), _) => Err(self.failed(object, errno)),
        }
    }

    fn failed(&self, object: &[u8], errno: Errno) -> Error {
        Error::Errno { what: format!("{}/{}", self.name, String::from_utf8_lossy(object)), errno }
    }

    /// The same; also returns the answer to a vector that failed.
    pub fn vector(&self, object: &[u8], ops: Vec<Op>) -> Result<Vectored, Error> {
        let request = ObjectRequest {
            pool: self.name.as_str().into(),
            namespace: self.namespace.clone(),
            name: object.to_vec(),
            ops,
            snap: self.snap,
            snapc: Default::default(),
            flags: self.flags,
        };
        match self.handle.call(Request::Object(request)).map_err(|_| Error::Gone)? {
            Ok(Answer::Object { result, ops, .. }) => Ok((result, ops)),
            Ok(_) => Err(self.failed(object, Errno::EIO)),
            Err(errno) => Err(self.failed(object, errno)),
        }
    }

    fn single(&self, object: &[u8], op: Op) -> Result<Bufs, Error> {
        Ok(self.operate(object, vec![op])?.into_iter().next().map(|(_, data)| data).unwrap_or_default())
    }

    /// Reads at most `len` bytes.
    pub fn read(&self, object: &[u8], offset: u64, len: u64) -> Result<Bufs, Error> {
        self.single(object, Op::Read(Extent::new(offset, len)))
    }

    /// Returns the size and the time of the last change.
    pub fn stat(&self, object: &[u8]) -> Result<Stat, Error> {
        let (size, mtime) = self.answer(object, Op::Stat)?;
        Ok(Stat { size, mtime })
    }

    /// One page of an object's omap: at most `max` entries with keys behind `after`, and whether more follow.
    pub fn omap_page(&self, object: &[u8], after: &[u8], max: u64) -> Result<OmapValuesReply, Error> {
        let page = OmapGetVals { start_after: after.to_vec(), max, prefix: Vec::new() };
        self.answer(object, Op::OmapGetVals { data: input::write(&page) })
    }

    /// The entries of these keys; a key that the omap lacks is left out.
    pub fn omap_values(&self, object: &[u8], keys: &OmapKeys) -> Result<OmapValues, Error> {
        self.answer(object, Op::OmapGetValsByKeys { data: input::write(keys) })
    }

    /// The header of an object's omap; empty if none was set.
    pub fn omap_header(&self, object: &[u8]) -> Result<Vec<u8>, Error> {
        Ok(self.single(object, Op::OmapGetHeader)?.to_vec())
    }

    /// Runs an operation whose answer is a structure; an answer that is none is an I/O error.
    fn answer<T: Decode>(&self, object: &[u8], op: Op) -> Result<T, Error> {
        let data = self.single(object, op)?.to_buf();
        Reader::new(&data).get().map_err(|_| self.failed(object, Errno::EIO))
    }

    /// Removes an object.
    pub fn remove(&self, object: &[u8]) -> Result<(), Error> {
        self.single(object, Op::Delete).map(drop)
    }

    /// Replaces an object by `data`, in several operations beyond 4 MiB.
    pub fn write_full(&self, object: &[u8], data: &Bufs) -> Result<(), Error> {
        let first = data.slice(0..data.len().min(CHUNK));
        let extent = Extent::new(0, first.len() as u64);
        self.single(object, Op::WriteFull { extent, data: first })?;
        for at in (CHUNK..data.len()).step_by(CHUNK) {
            let piece = data.slice(at..data.len().min(at + CHUNK));
            let extent = Extent::new(at as u64, piece.len() as u64);
            self.single(object, Op::Write { extent, data: piece })?;
        }
        Ok(())
    }

    /// Reads a whole object; `sink` takes it piece by piece.
    pub fn read_all(
        &self,
        object: &[u8],
        mut sink: impl FnMut(&Bufs) -> std::io::Result<()>,
    ) -> Result<(), Error> {
        let mut offset = 0;
        loop {
            let data = self.read(object, offset, CHUNK as u64)?;
            offset += data.len() as u64;
            sink(&data).map_err(|e| Error::Connect(format!("cannot write the output: {e}")))?;
            if data.len() < CHUNK {
                return Ok(());
            }
        }
    }

    /// Lists all objects in the pool's order; `each` takes their names one by one.
    pub fn list(&self, mut each: impl FnMut(&[u8])) -> Result<(), Error> {
        let mut cursor = Vec::new();
        loop {
            let request = Request::ListObjects {
                pool: self.name.as_str().into(),
                namespace: self.namespace.clone(),
                cursor,
                max: LIST_CHUNK,
            };
            match self.handle.call(request).map_err(|_| Error::Gone)? {
                Ok(Answer::Objects { names, cursor: next }) => {
                    names.iter().for_each(|(name, _)| each(name));
                    if next.is_empty() {
                        return Ok(());
                    }
                    cursor = next;
                }
                Ok(_) => return Err(Error::Errno { what: self.name.clone(), errno: Errno::EIO }),
                Err(errno) => return Err(Error::Errno { what: self.name.clone(), errno }),
            }
        }
    }
}
