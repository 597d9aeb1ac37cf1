//! What an operation on a whole image works with.

use crate::call::{Call, ObjectCall};
use crate::error::Error;
use crate::header::Header;
use crate::layer::Layer;
use crate::lock;
use crate::map::ObjectMap;
use crate::script::{Cx, Flow};
use msgs::Op;
use std::sync::Arc;
use wire::Errno;

/// Objects that are worked on at the same time.
pub(super) const AT_ONCE: u64 = 64;

/// An image whose lock is held, if it has one.
#[derive(Debug)]
pub(crate) struct Work {
    /// The image itself.
    pub(crate) layer: Arc<Layer>,
    /// Its name.
    pub(crate) name: String,
    /// Its object map, if that is to be believed.
    pub(crate) map: Option<ObjectMap>,
    /// The number of the watch.
    pub(crate) watch: u64,
    /// The lock is held.
    pub(crate) locked: bool,
}

impl Work {
    pub(crate) fn header(&self) -> &Header {
        &self.layer.header
    }

    /// Changes the header, if the lock is still ours.
    pub(super) fn on_header(&self, ops: Vec<Op>) -> ObjectCall {
        let guard = self.locked.then(|| lock::assert_held(self.watch));
        self.header().on(guard.into_iter().chain(ops).collect())
    }

    /// True unless the object map says that the object does not exist.
    pub(super) fn may_exist(&self, n: u64) -> bool {
        self.map.as_ref().is_none_or(|map| map.get(n) != crate::map::state::NONEXISTENT)
    }

    /// Runs a vector on each of these data objects that may exist; that one does not exist is no failure.
    pub(super) fn each(
        &self,
        cx: &mut Cx<'_>,
        what: &str,
        objects: std::ops::Range<u64>,
        ops: impl Fn(u64) -> Vec<Op>,
    ) -> Flow<()> {
        let header = self.header();
        let snapc = header.snapc();
        for from in objects.clone().step_by(AT_ONCE as usize) {
            let answers = cx.all(|| {
                let some = (from..objects.end.min(from + AT_ONCE)).filter(|n| self.may_exist(*n));
                let call = |n| ObjectCall::new(&header.data, header.data_object(n), ops(n)).under(&snapc);
                some.map(|n| Call::Object(call(n))).collect()
            })?;
            for answer in answers {
                match answer.result() {
                    Ok(()) | Err(Errno::ENOENT) => {}
                    Err(errno) => return Err(Error::of(errno, what).into()),
                }
            }
        }
        Ok(())
    }
}
