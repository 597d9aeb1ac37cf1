//! lseek(2) to data and to holes.
//!
//! Nobody has a list of a file's objects, so OSDs are asked for them one after another, many at a time. What
//! is buffered here is data. A search ends after [`MAX_OBJECTS`]: what was not looked at is then reported as
//! data, which lseek(2) allows. A program that copies a file by its data goes on from there.

use crate::api::{Answer, Fh};
use crate::data::FileData;
use crate::key::InodeKey;
use crate::op::{Attempt, Stage, Step, done, fail};
use crate::search::{SEEK_HOLE, Search};
use crate::transfer::extent;
use msgs::{Op as ObjectOp, cap};
use striper::Striper;
use wire::Errno;

/// Objects that one search looks at: 64 GiB of a file with the default layout.
const MAX_OBJECTS: u64 = 16_384;

impl FileData<'_> {
    /// Begins a search at `offset`.
    pub(crate) fn seek(&mut self, attempt: &mut Attempt<'_>, fh: Fh, offset: u64, sized: bool) -> Step {
        let file = match self.handles.usable(fh) {
            Ok(file) => file,
            Err(errno) => return fail(errno),
        };
        let key = file.key();
        let Some(inode) = self.cache.inode(key) else { return fail(Errno::EBADF) };
        // Whoever may write knows what is buffered, and that others buffer nothing.
        let may_look = inode.may_do_io(cap::FILE_RD) || inode.may_do_io(cap::FILE_WR);
        if key.is_head() && !may_look {
            return self.wait_for_cap(attempt, key, sized);
        }
        let is_sized = sized || !key.is_head() || inode.knows_size() || inode.caps().is_revoked();
        if !is_sized {
            return self.ask_size(attempt, key);
        }
        if offset >= inode.attrs().size() {
            return fail(Errno::ENXIO);
        }
        if let Some(step) = self.wait_for_store(attempt, key, sized) {
            return step;
        }
        self.look(attempt, key, offset, 0)
    }

    /// Asks for the extents of the next objects.
    fn look(&mut self, attempt: &mut Attempt<'_>, key: InodeKey, start: u64, looked: u64) -> Step {
        let inode = self.cache.open_inode(key);
        let attrs = inode.attrs();
        let Some(striper) = Striper::new(attrs.layout()) else { return fail(Errno::EIO) };
        let search = Search::new(&striper, inode.data().dirty(), (start, attrs.size()), looked);
        let truncation = attrs.truncation();
        let objects = search.pieces().iter().map(|p| {
            let oid = striper::object_name(key.ino(), p.object_no);
            (oid, extent(truncation, &striper, p.object_no, p.offset, p.len))
        });
        let objects = objects.collect();
        self.submit_pieces(attempt, key, objects, |pool, ns, oid, extent| {
            rados::Request::read(pool, ns, oid, vec![ObjectOp::MapExt(extent)]).at_snap(key.snap())
        });
        attempt.wait_at(Stage::Search(search))
    }

    /// Goes on with a search whose objects are known.
    pub(crate) fn looked(&mut self, attempt: &mut Attempt<'_>, fh: Fh, whence: u32, search: &Search) -> Step {
        let Ok(file) = self.handles.file(fh) else { return fail(Errno::EBADF) };
        let size = self.cache.open_inode(file.key()).attrs().size();
        let looked = search.looked();
        match search.found(whence) {
            Err(errno) => fail(errno),
            Ok(Some(at)) => done(Answer::Offset(at)),
            Ok(None) if search.end() >= size && whence == SEEK_HOLE => done(Answer::Offset(size)),
            Ok(None) if search.end() >= size => fail(Errno::ENXIO),
            Ok(None) if looked < MAX_OBJECTS => self.look(attempt, file.key(), search.end(), looked),
            Ok(None) => done(Answer::Offset(if whence == SEEK_HOLE { size } else { search.end() })),
        }
    }
}
