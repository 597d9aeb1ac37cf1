//! Disk operations through `io_uring`: queued on the event loop, submitted in batches, reaped when the ring's
//! eventfd signals completions.

use super::DiskDone;
use super::device::Device;
use io_uring::{IoUring, opcode, squeue, types};
use node::{DiskOp, DiskResult};
use std::collections::VecDeque;
use std::io::{Error, ErrorKind};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use stdx::{Buf, BufMut, Bufs};

/// Operations that the host has at once; more wait here.
const DEPTH: u32 = 256;

/// Operations submitted before their batch ends, so that the device does not wait for the processor.
const EAGER: usize = 2;

/// A ring of its own for one device.
pub(super) struct Ring {
    event: OwnedFd,
    state: Mutex<State>,
}

struct State {
    ring: IoUring,
    device: Arc<Device>,
    /// Operations in flight by number; numbers are reused.
    flights: Vec<Option<Flight>>,
    unused: Vec<usize>,
    /// Operations not submitted yet, because the ring has [`DEPTH`] already.
    waiting: VecDeque<usize>,
    /// Operations in the ring, submitted or not.
    under_way: u32,
}

/// An operation in flight, and the memory that the host works on: it is not touched or moved until the
/// operation is complete.
struct Flight {
    work: Work,
    /// Bytes that earlier attempts have moved.
    moved: usize,
    done: DiskDone,
}

enum Work {
    Read { offset: u64, len: usize, buf: BufMut },
    Write { offset: u64, data: Bufs, segments: Vec<libc::iovec>, flags: i32 },
    Flush,
    Discard { offset: u64, len: u64, mode: i32 },
}

// SAFETY: the pointers in `segments` are to the heap memory of `data`, which moves along and belongs to no
// thread.
unsafe impl Send for Work {}

impl Ring {
    pub fn new(device: Arc<Device>) -> std::io::Result<Self> {
        // Interrupting a busy event loop to note a completion gains nothing: it looks when its batch is done.
        let ring = IoUring::builder()
            .setup_coop_taskrun()
            .build(DEPTH)
            .or_else(|_| IoUring::builder().build(DEPTH))?;
        if !ring.params().is_feature_nodrop() {
            return Err(Error::new(ErrorKind::Unsupported, "this kernel's io_uring may lose completions"));
        }
        let event = rustix::event::eventfd(0, rustix::event::EventfdFlags::CLOEXEC)?;
        ring.submitter().register_eventfd(event.as_raw_fd())?;
        let state = State {
            ring,
            device,
            flights: Vec::new(),
            unused: Vec::new(),
            waiting: VecDeque::new(),
            under_way: 0,
        };
        Ok(Self { event, state: Mutex::new(state) })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Becomes readable when operations end.
    pub fn event(&self) -> BorrowedFd<'_> {
        self.event.as_fd()
    }

    /// Queues an operation that the device has checked.
    pub fn start(&self, op: DiskOp, done: DiskDone) {
        let mut state = self.state();
        let work = match op {
            DiskOp::Read { offset, len, .. } => Work::Read { offset, len, buf: BufMut::uncleared(len) },
            DiskOp::Write { offset, data, through, .. } => {
                let data = state.device.reachable(data);
                let segment =
                    |p: &Buf| libc::iovec { iov_base: p.as_ptr().cast_mut().cast(), iov_len: p.len() };
                let segments = data.parts().iter().map(segment).collect();
                let flags = if through { libc::RWF_DSYNC } else { 0 };
                Work::Write { offset, data, segments, flags }
            }
            DiskOp::Flush { .. } => Work::Flush,
            DiskOp::Discard { offset, len, .. } => match state.device.punches(len) {
                Some(mode) => Work::Discard { offset, len, mode: mode.bits() as i32 },
                None => {
                    drop(state);
                    return done(Ok(Buf::empty()));
                }
            },
        };
        let empty = match &work {
            Work::Read { len, .. } => *len == 0,
            Work::Write { segments, .. } => segments.is_empty(),
            Work::Flush | Work::Discard { .. } => false,
        };
        if empty {
            drop(state);
            return done(Ok(Buf::empty()));
        }
        let flight = Flight { work, moved: 0, done };
        let at = match state.unused.pop() {
            Some(at) => at,
            None => {
                state.flights.push(None);
                state.flights.len() - 1
            }
        };
        state.flights[at] = Some(flight);
        state.waiting.push_back(at);
        if state.waiting.len() >= EAGER {
            state.submit(0);
        }
    }

    /// Hands over what was queued.
    pub fn submit(&self) {
        self.state().submit(0);
    }

    /// Calls `done` of what has ended.
    pub fn reap(&self) {
        loop {
            let ended = self.state().ended();
            if ended.is_empty() {
                return;
            }
            for (done, result) in ended {
                done(result);
            }
        }
    }

    /// Hands over what was queued, waits until something has ended, and reaps.
    pub fn wait(&self) {
        self.state().submit(1);
        self.reap();
    }
}

impl State {
    /// Hands over what fits into the ring, and waits for `want` completions.
    fn submit(&mut self, want: usize) {
        while self.under_way < DEPTH
            && let Some(at) = self.waiting.pop_front()
        {
            let fd = types::Fd(self.device.file.as_raw_fd());
            let flight = self.flights[at].as_mut().expect("a queued operation");
            let entry = flight.entry(fd).user_data(at as u64);
            // SAFETY: the memory that the entry points to belongs to the flight, which stays until its
            // completion is seen (also when the ring is dropped); the descriptor is open as long as
            // `self.device`.
            let pushed = unsafe { self.ring.submission().push(&entry) };
            pushed.expect("the ring has room for as many as may be under way");
            self.under_way += 1;
        }
        let want = want.min(self.under_way as usize);
        loop {
            if want == 0 && self.ring.submission().is_empty() {
                return;
            }
            match self.ring.submit_and_wait(want) {
                Ok(_) => return,
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                // The host is short of memory, or wants completions to be reaped first, which the owner does
                // next.
                Err(e) if matches!(e.raw_os_error(), Some(libc::EAGAIN | libc::EBUSY)) && want == 0 => return,
                Err(e) if matches!(e.raw_os_error(), Some(libc::EAGAIN | libc::EBUSY)) => {
                    std::thread::yield_now()
                }
                // An error here is a bug in this file; no operation may be lost because of it.
                Err(e) => panic!("io_uring refuses to go on: {e}"),
            }
        }
    }

    /// Takes out what has ended.
    fn ended(&mut self) -> Vec<(DiskDone, DiskResult)> {
        let mut out = Vec::new();
        while let Some(entry) = self.ring.completion().next() {
            self.under_way -= 1;
            let at = entry.user_data() as usize;
            let mut flight = self.flights[at].take().expect("a completion of what is in flight");
            match flight.take_result(entry.result(), &self.device) {
                Some(result) => {
                    self.unused.push(at);
                    out.push((flight.done, finish(flight.work, result)));
                }
                None => {
                    self.flights[at] = Some(flight);
                    self.waiting.push_front(at);
                }
            }
        }
        if !self.waiting.is_empty() || !self.ring.submission().is_empty() {
            self.submit(0);
        }
        out
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // The host still writes into our memory, which must not be freed before that is over. Nobody waits
        // for the results.
        let state = self.state.get_mut().unwrap_or_else(PoisonError::into_inner);
        state.waiting.clear();
        while state.under_way > 0 {
            state.submit(1);
            drop(state.ended());
            state.waiting.clear();
        }
    }
}

impl Flight {
    /// The submission entry, for the part that earlier attempts have left.
    fn entry(&mut self, fd: types::Fd) -> squeue::Entry {
        let moved = self.moved;
        match &mut self.work {
            Work::Read { offset, buf, .. } => {
                let rest = &mut buf.as_mut_slice()[moved..];
                opcode::Read::new(fd, rest.as_mut_ptr(), rest.len() as u32)
                    .offset(*offset + moved as u64)
                    .build()
            }
            Work::Write { offset, segments, flags, .. } => match segments[..] {
                [one] => opcode::Write::new(fd, one.iov_base.cast(), one.iov_len as u32)
                    .offset(*offset + moved as u64)
                    .rw_flags(*flags)
                    .build(),
                _ => opcode::Writev::new(fd, segments.as_ptr().cast(), segments.len() as u32)
                    .offset(*offset + moved as u64)
                    .rw_flags(*flags)
                    .build(),
            },
            Work::Flush => opcode::Fsync::new(fd).flags(types::FsyncFlags::DATASYNC).build(),
            Work::Discard { offset, len, mode } => {
                opcode::Fallocate::new(fd, *len).offset(*offset).mode(*mode).build()
            }
        }
    }

    /// The result, or nothing if it is to be tried again for what is left.
    fn take_result(&mut self, result: i32, device: &Device) -> Option<Result<(), node::DiskError>> {
        if matches!(-result, libc::EINTR | libc::EAGAIN) {
            return None;
        }
        let error = (result < 0).then(|| Error::from_raw_os_error(-result));
        let n = result.max(0) as usize;
        match &mut self.work {
            Work::Read { offset, len, .. } => {
                self.moved += n;
                let short = || Error::from_raw_os_error(libc::EIO);
                match error {
                    None if self.moved == *len => Some(Ok(())),
                    None if n > 0 => None,
                    e => Some(Err(device.read_error(&e.unwrap_or_else(short), *offset, *len))),
                }
            }
            Work::Write { offset, data, segments, .. } => {
                self.moved += n;
                advance(segments, n);
                let full = || Error::from_raw_os_error(libc::ENOSPC);
                match error {
                    None if self.moved == data.len() => Some(Ok(())),
                    None if n > 0 => None,
                    e => Some(Err(device.write_error(&e.unwrap_or_else(full), *offset, data.len()))),
                }
            }
            Work::Flush => Some(error.map_or(Ok(()), |e| Err(device.flush_error(&e)))),
            // Only a hint.
            Work::Discard { .. } => Some(Ok(())),
        }
    }
}

/// Leaves out the first `n` bytes.
fn advance(segments: &mut Vec<libc::iovec>, mut n: usize) {
    let gone = segments.iter().take_while(|s| {
        let whole = s.iov_len <= n;
        n -= if whole { s.iov_len } else { 0 };
        whole
    });
    let gone = gone.count();
    segments.drain(..gone);
    if let Some(first) = segments.first_mut()
        && n > 0
    {
        first.iov_base = first.iov_base.cast::<u8>().wrapping_add(n).cast();
        first.iov_len -= n;
    }
}

fn finish(work: Work, result: Result<(), node::DiskError>) -> DiskResult {
    result.map(|()| match work {
        Work::Read { buf, .. } => buf.freeze(),
        _ => Buf::empty(),
    })
}
