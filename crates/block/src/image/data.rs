//! Reads and changes of data.

use super::api::{Output, Reply};
use super::queue::Waiting;
use super::tasks::{Done, Purpose, Reading};
use super::{Image, Stage};
use crate::change::{self, Change, What};
use crate::error::Error;
use crate::format::feature;
use crate::layer;
use crate::script::{Cx, Flow};
use stdx::{Bufs, Instant};
use wire::Errno;

impl Image {
    /// True if the range lies in the image; otherwise the request is answered.
    fn is_inside(&self, id: u64, offset: u64, len: u64, out: &mut Vec<Output>) -> bool {
        let size = self.layer.as_ref().map_or(0, |layer| layer.size);
        let inside = offset.checked_add(len).is_some_and(|end| end <= size);
        if !inside {
            let text = format!("{len} bytes at {offset} are beyond the image's end ({size} bytes)");
            out.push(Output::Reply { id, reply: Err(Error::new(Errno::EINVAL, text)) });
        }
        inside
    }

    /// Begins the reads that wait. By an old header they could show what is no more: behind the end of an
    /// image that became smaller, its parent's data.
    pub(super) fn start_reads(&mut self, now: Instant, out: &mut Vec<Output>) {
        while (self.is_fresh() || self.removed)
            && let Some((id, offset, len)) = self.reads.pop_front()
        {
            self.read(now, id, offset, len, out);
        }
    }

    fn read(&mut self, now: Instant, id: u64, offset: u64, len: u64, out: &mut Vec<Output>) {
        if !self.is_inside(id, offset, len, out) {
            return;
        }
        let layer = self.layer.clone().expect("the image is open");
        let overlap = layer.overlap;
        let read = move |cx: &mut Cx<'_>| -> Flow<Done> {
            let data = layer::read(cx, &layer, &[(offset, len)])?;
            Ok(Done::Data(data.into_iter().next().unwrap_or_default()))
        };
        self.start(now, Purpose::Read(Reading { id, offset, len, overlap }), read, out);
    }

    pub(super) fn read_ended(&mut self, read: &Reading, result: Result<Done, Error>, out: &mut Vec<Output>) {
        if self.is_doubtful(read) {
            return self.reads.push_back((read.id, read.offset, read.len));
        }
        let reply = result.map(|done| match done {
            Done::Data(data) => Reply::Data(data),
            _ => unreachable!("a read gives data"),
        });
        out.push(Output::Reply { id: read.id, reply });
    }

    /// True if a read may have found the parent's data where the image does not share them any more: an
    /// object that lay over them was removed after the read had begun. It is made again by the new header.
    fn is_doubtful(&self, read: &Reading) -> bool {
        let is_open = matches!(self.stage, Stage::Open | Stage::Closing(_)) && !self.removed;
        let overlap = self.layer.as_ref().map_or(0, |layer| layer.overlap);
        is_open && read.overlap > 0 && (!self.is_fresh() || overlap < read.overlap)
    }

    /// Writes data, or zeros if there are none.
    pub(super) fn change(
        &mut self,
        id: u64,
        offset: u64,
        len: u64,
        data: Option<&Bufs>,
        out: &mut Vec<Output>,
    ) {
        if self.is_read_only() {
            let error = Error::new(Errno::EPERM, "the image is open for reading only");
            return out.push(Output::Reply { id, reply: Err(error) });
        }
        if !self.is_inside(id, offset, len, out) {
            return;
        }
        let layer = self.layer.as_ref().expect("the image is open");
        let pieces = layer.header.striper.pieces(offset, len);
        if pieces.is_empty() {
            return out.push(Output::Reply { id, reply: Ok(Reply::Done) });
        }
        let request = self.requests.add(id, pieces.len());
        for piece in &pieces {
            let what = match data {
                Some(data) => What::Write { offset: piece.offset, data: piece.gather(data) },
                None => What::Zero { offset: piece.offset, len: piece.len },
            };
            self.queue.push(piece.object_no, Waiting { request, what });
        }
    }

    /// Begins the changes that may be made now.
    pub(super) fn start_changes(&mut self, now: Instant, out: &mut Vec<Output>) {
        if !self.may_change() {
            return;
        }
        for object in self.queue.ready() {
            while let Some(first) = self.queue.first(object) {
                let change = self.describe(object, first.what.clone());
                let is_inside = change.is_inside();
                let Some(waiting) = self.queue.begin(object, !change.is_simple()) else { break };
                if !is_inside {
                    // The image has become smaller while the change waited.
                    self.queue.end(object);
                    let error = Error::new(Errno::EINVAL, "this is beyond the image's end by now");
                    self.requests.end(waiting.request, Some(error), out);
                    continue;
                }
                let purpose = Purpose::Change { object, request: waiting.request };
                let run = move |cx: &mut Cx<'_>| change::run(cx, &change).map(Done::Changed);
                self.start(now, purpose, run, out);
                // It may have ended, and the image been lost with it.
                if !self.may_change() {
                    return;
                }
            }
        }
    }

    fn describe(&self, object: u64, what: What) -> Change {
        let layer = self.layer.clone().expect("the image is open");
        let mapped = self.lock.is_held() && layer.header.has(feature::OBJECT_MAP);
        Change { object, what, state: self.map.as_ref().map(|map| map.get(object)), mapped, layer }
    }

    pub(super) fn change_ended(
        &mut self,
        object: u64,
        request: u64,
        result: Result<Done, Error>,
        out: &mut Vec<Output>,
    ) {
        self.queue.end(object);
        let error = match result {
            Ok(Done::Changed(state)) => {
                if let Some(map) = &mut self.map {
                    map.set(object, state);
                }
                None
            }
            Ok(_) => unreachable!("a change gives the object's state"),
            Err(error) => {
                // The stored map may say something else of the object now. Reading it again is simplest.
                self.stale |= self.map.is_some();
                Some(error)
            }
        };
        self.requests.end(request, error, out);
    }
}
