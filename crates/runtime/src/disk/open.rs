//! Opening a device: the checks, and the texts of refusals.

use super::device::{Device, Discards};
use super::holder::{in_use, is_kept};
use super::{DiskPool, FileDisk};
use node::{DiskId, DiskInfo};
use rustix::fs::{AtFlags, FlockOperation, OFlags, StatxFlags, fcntl_getfl, fcntl_setfl, flock, statx};
use std::fs::{File, OpenOptions};
use std::io::Error;
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::Duration;
use stdx::{BLOCK, BufMut};

/// The way to access a device.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Access {
    /// The best that the host allows: direct by `io_uring`, direct by threads, through the page cache.
    #[default]
    Best,
    /// Direct, by threads; through the page cache if that is impossible.
    Threads,
    /// Through the page cache.
    Buffered,
}

/// The device to open, and the way.
#[derive(Clone, Debug)]
pub struct DiskSpec {
    /// A regular file or a block device.
    pub path: PathBuf,
    /// The role's number for it.
    pub id: DiskId,
    /// Create a sparse file of this many bytes if there is none.
    pub create_size: Option<u64>,
    /// The way to access it.
    pub access: Access,
}

/// The reason why a device was not opened, with advice.
#[derive(Debug, thiserror::Error)]
pub enum DiskOpenError {
    /// Another process or the kernel has it.
    #[error("{}: stop that one first, or choose another directory", in_use(.0))]
    Locked(PathBuf),
    /// It is neither a file nor a block device.
    #[error("{0} is {1}: give a regular file, a partition or a disk")]
    Kind(PathBuf, &'static str),
    /// Too small to hold anything.
    #[error("{path} has {size} bytes: a device needs at least {needed}")]
    Small {
        /// Path of the device.
        path: PathBuf,
        /// Its size in bytes.
        size: u64,
        /// The size that is needed.
        needed: u64,
    },
    /// The host refused.
    #[error("cannot {what} {path}: {error}{hint}")]
    Io {
        /// The failed operation.
        what: &'static str,
        /// Path of the device.
        path: PathBuf,
        /// The host's answer.
        error: std::io::Error,
        /// Advice, starting with `; `, or empty.
        hint: &'static str,
    },
}

impl DiskOpenError {
    fn io(what: &'static str, path: &Path, error: impl Into<std::io::Error>) -> Self {
        let error = error.into();
        let hint = match error.raw_os_error() {
            Some(libc::EACCES | libc::EPERM) => {
                "; run as a user who may write there, or choose another directory"
            }
            Some(libc::EROFS) => "; the file system is mounted read-only: choose another directory",
            Some(libc::ENOSPC | libc::EDQUOT) => {
                "; the file system is full: free some space or choose another directory"
            }
            Some(libc::EFBIG) => "; the file system holds no file of that size: give a smaller --osd-size",
            Some(libc::ENOENT) => "; it does not exist",
            _ => "",
        };
        Self::Io { what, path: path.to_owned(), error, hint }
    }
}

/// Less than this holds no store.
const SMALLEST: u64 = 64 << 20;

/// Opens the device, creates it if asked to, and locks it for this process.
pub fn open(spec: &DiskSpec, pool: &DiskPool) -> Result<FileDisk, DiskOpenError> {
    let path = &spec.path;
    let file = open_alone(path, spec.create_size.is_some())?;
    let kind = file.metadata().map_err(|e| DiskOpenError::io("examine", path, e))?.file_type();
    let size = if kind.is_file() {
        file_size(&file, path, spec.create_size)?
    } else if kind.is_block_device() {
        device_size(&file, path)?
    } else {
        let found = if kind.is_dir() { "a directory" } else { "neither a file nor a block device" };
        return Err(DiskOpenError::Kind(path.clone(), found));
    };
    let size = size / 4096 * 4096;
    if size < SMALLEST {
        return Err(DiskOpenError::Small { path: path.clone(), size, needed: SMALLEST });
    }
    // A power loss tears no sector of the device; 512 is what every file system and device keeps untorn.
    let sector = if kind.is_block_device() { logical_sector(&file) } else { 512 };
    let info = DiskInfo { id: spec.id, size, sector };
    let memory_align = if spec.access == Access::Buffered { None } else { go_direct(&file) };
    let discards = discards(&file, size);
    let device = Device {
        file,
        path: path.clone(),
        info,
        discards,
        direct: memory_align.is_some(),
        memory_align: memory_align.unwrap_or(1),
        nowait: AtomicBool::new(true),
    };
    let ring = memory_align.is_some() && spec.access == Access::Best;
    Ok(FileDisk::new(device, pool.clone(), ring))
}

/// The number of attempts, and the pause after each, for a device that no living process holds.
const TRIES: u32 = 100;
const PAUSE: Duration = Duration::from_millis(50);

/// Opens a file or device for this process alone, until it is closed.
pub fn open_alone(path: &Path, create: bool) -> Result<File, DiskOpenError> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).truncate(false);
    if std::fs::metadata(path).is_ok_and(|meta| meta.file_type().is_block_device()) {
        // Of a device this claims all names that it has, and its partitions; what is mounted is refused.
        options.custom_flags(libc::O_EXCL);
    } else {
        options.create(create);
    }
    let refused = |what: &'static str, error: Error| match is_held(&error) {
        true => DiskOpenError::Locked(path.to_owned()),
        false => DiskOpenError::io(what, path, error),
    };
    let file = when_free(path, || options.open(path)).map_err(|e| refused("open", e))?;
    when_free(path, || Ok(flock(&file, FlockOperation::NonBlockingLockExclusive)?))
        .map_err(|e| refused("lock", e))?;
    Ok(file)
}

/// Locks a file or device against writers; others may read it too. Returns true if that was possible.
pub fn lock_shared(file: &File, path: &Path) -> bool {
    when_free(path, || Ok(flock(file, FlockOperation::NonBlockingLockShared)?)).is_ok()
}

/// True if a device was refused because it is held.
fn is_held(error: &Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EBUSY | libc::EWOULDBLOCK))
}

/// Takes a device as `take` does. A killed process is gone a moment before the host has completed the
/// operations of its ring and releases the device, so a device that no living process holds is tried again
/// for a few seconds.
fn when_free<T>(path: &Path, mut take: impl FnMut() -> std::io::Result<T>) -> std::io::Result<T> {
    for tries in 0..TRIES {
        match take() {
            Err(error) if is_held(&error) && !is_kept(path) => {
                if tries == 0 {
                    tracing::info!("{}: waiting for it", in_use(path));
                }
                std::thread::sleep(PAUSE);
            }
            result => return result,
        }
    }
    take()
}

/// The way to give space back. A file with all its space allocated keeps it: its owner wanted that. A file
/// that became full by use counts the same.
fn discards(file: &File, size: u64) -> Discards {
    let Ok(meta) = file.metadata() else { return Discards::Never };
    if meta.file_type().is_file() {
        return if meta.blocks() * 512 < size { Discards::Holes } else { Discards::Never };
    }
    let number = format!("{}:{}", rustix::fs::major(meta.rdev()), rustix::fs::minor(meta.rdev()));
    let sys = Path::new("/sys/dev/block").join(number);
    // Of a partition, the queue is that of the disk.
    let limits = [sys.join("queue/discard_max_bytes"), sys.join("../queue/discard_max_bytes")];
    let limit = limits.iter().find_map(|path| std::fs::read_to_string(path).ok());
    let able = limit.is_some_and(|text| text.trim().parse().is_ok_and(|bytes: u64| bytes > 0));
    if able { Discards::Block } else { Discards::Never }
}

/// Makes all access to the file direct, if it can take our blocks so. Returns the required alignment of
/// memory.
fn go_direct(file: &File) -> Option<usize> {
    // Kernels before 6.1 and some file systems don't tell; then use values that suit every device.
    let (memory, offset) = match statx(file, c"", AtFlags::EMPTY_PATH, StatxFlags::DIOALIGN) {
        Ok(found) if found.stx_mask & StatxFlags::DIOALIGN.bits() != 0 => {
            (found.stx_dio_mem_align as usize, found.stx_dio_offset_align as usize)
        }
        _ => (BLOCK, BLOCK),
    };
    // 0: not at all.
    let suits = |align: usize| align > 0 && BLOCK.is_multiple_of(align);
    if !suits(memory) || !suits(offset) {
        return None;
    }
    let flags = fcntl_getfl(file).ok()?;
    fcntl_setfl(file, flags | OFlags::DIRECT).ok()?;
    let mut trial = BufMut::zeroed(BLOCK);
    match file.read_at(trial.as_mut_slice(), 0) {
        // The file system promises more than it can do.
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {
            fcntl_setfl(file, flags).ok()?;
            None
        }
        // The first real read reports any other error.
        _ => Some(memory),
    }
}

/// The size of a file, which gets its full (sparse) length when it is new.
fn file_size(file: &File, path: &Path, create_size: Option<u64>) -> Result<u64, DiskOpenError> {
    let len = file.metadata().map_err(|e| DiskOpenError::io("examine", path, e))?.len();
    match create_size {
        Some(wanted) if len == 0 => {
            file.set_len(wanted).map_err(|e| DiskOpenError::io("size", path, e))?;
            // The length and the directory entry must survive a power loss before anything inside is relied
            // on.
            file.sync_all().map_err(|e| DiskOpenError::io("sync", path, e))?;
            sync_parent(path)?;
            Ok(wanted)
        }
        _ => Ok(len),
    }
}

fn sync_parent(path: &Path) -> Result<(), DiskOpenError> {
    let parent = match path.parent() {
        Some(p) if !p.as_os_str().is_empty() => p,
        _ => Path::new("."),
    };
    File::open(parent).and_then(|dir| dir.sync_all()).map_err(|e| DiskOpenError::io("sync", parent, e))
}

/// The logical sector size of a block device, as far as [`DiskInfo::sector`] allows.
fn logical_sector(file: &File) -> u32 {
    rustix::fs::ioctl_blksszget(file).unwrap_or(512).clamp(512, 4096)
}

fn device_size(mut file: &File, path: &Path) -> Result<u64, DiskOpenError> {
    use std::io::{Seek, SeekFrom};
    file.seek(SeekFrom::End(0)).map_err(|e| DiskOpenError::io("measure", path, e))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn held() -> std::io::Result<()> {
        Err(Error::from_raw_os_error(libc::EWOULDBLOCK))
    }

    #[test]
    fn what_nobody_holds_who_lives_is_waited_for() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        let mut tries = 0;
        let taken = when_free(file.path(), || {
            tries += 1;
            if tries < 3 { held() } else { Ok(()) }
        });
        assert!(taken.is_ok() && tries == 3, "{taken:?} after {tries}");
    }

    #[test]
    fn what_somebody_holds_who_lives_is_refused_at_once() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        let _held = open_alone(file.path(), false).expect("free");
        let mut tries = 0;
        let taken = when_free(file.path(), || {
            tries += 1;
            held()
        });
        assert!(taken.is_err() && tries == 1, "{taken:?} after {tries}");
        let reader = File::open(file.path()).expect("opens");
        assert!(!lock_shared(&reader, file.path()));
    }

    #[test]
    fn what_is_refused_for_another_reason_is_not_tried_again() {
        let mut tries = 0;
        let taken = when_free::<()>(Path::new("/nowhere"), || {
            tries += 1;
            Err(Error::from_raw_os_error(libc::EACCES))
        });
        assert!(taken.is_err() && tries == 1, "{taken:?} after {tries}");
    }
}
