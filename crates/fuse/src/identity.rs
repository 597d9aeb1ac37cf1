//! The process that serves a mount: it tells who it is by an xattr of the mounted directory, so that whoever
//! unmounts it can wait for its end.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

/// The xattr. No file system has one of this name: it is in none of the name spaces of setxattr(2).
pub(crate) const XATTR: &str = "nacre.server";

/// The value of [`XATTR`] in this process: its number and the time of its start.
pub(crate) fn of_this_process() -> io::Result<Vec<u8>> {
    let pid = std::process::id();
    let started = started(pid)?;
    Ok(format!("{pid} {started}").into_bytes())
}

/// The time at which a process has started, in ticks since the start of the system. Numbers of processes are
/// used again, and are others in another namespace: with this they are not mistaken.
fn started(pid: u32) -> io::Result<u64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"))?;
    started_of(&stat).ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, format!("/proc/{pid}/stat")))
}

/// Field 22 of `/proc/PID/stat`, counted from behind the name, which may contain anything.
fn started_of(stat: &str) -> Option<u64> {
    let (_, behind) = stat.rsplit_once(')')?;
    behind.split_whitespace().nth(19)?.parse().ok()
}

/// A process that serves a mount.
pub struct ServerProcess {
    pid: u32,
    fd: OwnedFd,
}

impl ServerProcess {
    /// The process that serves the mount of which `root` is the mounted directory. `None` if it cannot be
    /// seen from here. Fails if this is no mount of ours, or if it does not answer.
    pub fn of(root: impl AsFd) -> io::Result<Option<Self>> {
        let mut value = [0; 64];
        let len = match rustix::fs::fgetxattr(root, XATTR, &mut value) {
            Ok(len) => len,
            Err(Errno::OPNOTSUPP | Errno::NODATA | Errno::RANGE) => {
                return Err(io::Error::new(io::ErrorKind::Unsupported, "it is no mount of `nacre mount`"));
            }
            Err(error) => return Err(error.into()),
        };
        let Some((pid, at)) = parse(&value[..len]) else { return Ok(None) };
        let Some(fd) = Pid::from_raw(pid as i32).and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok())
        else {
            return Ok(None);
        };
        // Looked at when the descriptor is there, which stays that of the same process.
        let is_it = started(pid).is_ok_and(|started| started == at);
        Ok(is_it.then_some(Self { pid, fd }))
    }

    /// Its number.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Waits until it has ended, for at most `patience`. Returns false if it still runs.
    pub fn wait(&self, patience: Duration) -> io::Result<bool> {
        let patience = Timespec::try_from(patience).map_err(io::Error::other)?;
        let ended = poll(&mut [PollFd::new(&self.fd, PollFlags::IN)], Some(&patience))?;
        Ok(ended > 0)
    }
}

fn parse(value: &[u8]) -> Option<(u32, u64)> {
    let (pid, started) = std::str::from_utf8(value).ok()?.split_once(' ')?;
    Some((pid.parse().ok()?, started.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_known_by_its_number_and_its_start() {
        let value = of_this_process().expect("proc");
        let (pid, at) = parse(&value).expect("two numbers");
        assert_eq!((pid, at), (std::process::id(), started(pid).expect("proc")));
        let stat = "7 (a) b) c) S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 4242 20";
        assert_eq!(started_of(stat), Some(4242));
        for value in [&b""[..], b"7", b"7 ", b"x 7", b"-1 7", b"\xff 7"] {
            assert_eq!(parse(value), None, "{value:?}");
        }
    }
}
