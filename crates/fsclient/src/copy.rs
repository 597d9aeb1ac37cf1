//! copy_file_range(2): reads and writes by turns, without the caller's memory.

use crate::api::{Answer, FsRequest, Reply};
use crate::data::FileData;
use crate::op::{Attempt, Copied, Step, done};
use wire::Errno;

/// Bytes of one read and the write of it.
const PIECE: u64 = 8 << 20;
/// Bytes of one call, so that its caller can be interrupted. It goes on from there.
const MOST: u64 = 128 << 20;

impl FileData<'_> {
    /// Goes on with a copy. What was copied before an error or the end of the file is the answer.
    pub(crate) fn copy(&mut self, attempt: &mut Attempt<'_>, request: &FsRequest) -> Step {
        let FsRequest::CopyRange { fh_in, offset_in, fh_out, offset_out, len } = request else {
            return Step::Done(Err(Errno::EIO));
        };
        let most = (*len).min(MOST);
        loop {
            let Copied { bytes, read } = attempt.copied();
            let (at_in, at_out) = (offset_in.checked_add(*bytes), offset_out.checked_add(*bytes));
            let (Some(at_in), Some(at_out)) = (at_in, at_out) else { return ended(*bytes, Errno::EFBIG) };
            let part = match read.clone() {
                _ if *bytes == most => return done(Answer::Written(*bytes as u32)),
                None => FsRequest::Read { fh: *fh_in, offset: at_in, len: PIECE.min(most - *bytes) as u32 },
                Some(data) => {
                    let kill_suidgid = attempt.caller().uid != 0;
                    FsRequest::Write { fh: *fh_out, offset: at_out, data, kill_suidgid }
                }
            };
            let Step::Done(reply) = self.step(attempt, &part) else { return Step::Wait };
            if let Some(end) = take(attempt.copied(), reply) {
                return end;
            }
        }
    }

    /// The error of a copy that can't begin.
    pub(crate) fn refuse_copy(&self, fh_in: u64, fh_out: u64) -> Option<Errno> {
        let (from, to) = (self.handles.reader(fh_in), self.handles.writer(fh_out));
        let refused = from.err().or(to.err());
        refused.or_else(|| to.is_ok_and(|to| to.appends()).then_some(Errno::EBADF))
    }
}

/// Takes the answer to a read or a write. Returns the answer of the copy if that ends it.
fn take(copied: &mut Copied, reply: Reply) -> Option<Step> {
    match reply {
        Ok(Answer::Data(data)) if data.is_empty() => Some(done(Answer::Written(copied.bytes as u32))),
        Ok(Answer::Data(data)) => {
            copied.read = Some(data);
            None
        }
        Ok(Answer::Written(len)) => {
            (copied.bytes, copied.read) = (copied.bytes + u64::from(len), None);
            None
        }
        Ok(_) => Some(ended(copied.bytes, Errno::EIO)),
        Err(errno) => Some(ended(copied.bytes, errno)),
    }
}

fn ended(bytes: u64, errno: Errno) -> Step {
    Step::Done(if bytes > 0 { Ok(Answer::Written(bytes as u32)) } else { Err(errno) })
}
