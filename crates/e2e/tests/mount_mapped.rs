//! Files that a program has mapped.
#![allow(clippy::disallowed_types, clippy::disallowed_methods, reason = "tests with real files")]

use e2e::{Cluster, Mount, Options};
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

const PAGE: usize = 4096;
/// What must have happened by then never happens.
const PATIENCE: Duration = Duration::from_secs(60);

/// A shared mapping of a file's first pages.
struct Mapping {
    start: *mut u8,
    len: usize,
}

impl Mapping {
    fn new(file: &File, len: usize) -> Self {
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: the kernel chooses the place, and the descriptor is open.
        let start = unsafe {
            libc::mmap(std::ptr::null_mut(), len, protection, libc::MAP_SHARED, file.as_raw_fd(), 0)
        };
        assert_ne!(start, libc::MAP_FAILED, "maps");
        Self { start: start.cast(), len }
    }

    /// Fills bytes of it; they must be within the file.
    fn fill(&mut self, from: usize, to: usize, byte: u8) {
        assert!(from < to && to <= self.len);
        // SAFETY: these bytes are mapped, and nobody else in this process refers to them.
        unsafe { self.start.add(from).write_bytes(byte, to - from) }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: it was mapped by `new`.
        unsafe { libc::munmap(self.start.cast(), self.len) };
    }
}

/// Changes mapped pages, then cuts them off, twice. Linux writes none of them while it waits for the answer.
fn cut_off_changed_pages(path: &Path) {
    let mut file =
        OpenOptions::new().read(true).write(true).create_new(true).open(path).expect("makes the file");
    file.write_all(&[b'x'; 2 * PAGE]).expect("writes");
    let mut mapping = Mapping::new(&file, 2 * PAGE);
    for byte in *b"ab" {
        mapping.fill(1000, 2 * PAGE, byte);
        file.set_len(2000).expect("cuts it off");
        file.set_len(2 * PAGE as u64).expect("extends it");
    }
    mapping.fill(PAGE, PAGE + 10, b'c');
}

#[test]
fn changed_pages_of_a_mapping_can_be_cut_off() {
    if !Mount::is_possible() {
        return;
    }
    let cluster = Cluster::start(Options::default());
    let (mut one, two) = (Mount::new(&cluster, "one"), Mount::new(&cluster, "two"));
    let path = one.point().join("f");
    let (tx, done) = mpsc::channel();
    let program = thread::spawn(move || {
        cut_off_changed_pages(&path);
        tx.send(()).expect("somebody waits");
    });
    if done.recv_timeout(PATIENCE) == Err(mpsc::RecvTimeoutError::Timeout) {
        // Else the program waits for ever.
        one.kill();
        panic!("the truncation is not answered");
    }
    program.join().expect("it has changed the file");
    let mut expected = vec![0; 2 * PAGE];
    expected[..1000].fill(b'x');
    expected[1000..2000].fill(b'b');
    expected[PAGE..PAGE + 10].fill(b'c');
    for mount in [&one, &two] {
        assert!(fs::read(mount.point().join("f")).expect("reads") == expected, "{:?}", mount.point());
    }
}
