//! Paths in requests: an inode, and names from there on.

use crate::types::Stop;
use fsfmt::{Ino, InodeKey};
use msgs::FilePath;
use wire::Errno;

/// The longest name.
const NAME_MAX: usize = 255;

/// The inode at which a path starts.
pub fn base(path: &FilePath) -> InodeKey {
    if path.ino == 0 { Ino::ROOT.head() } else { Ino(path.ino).head() }
}

/// The names of a path.
pub(super) fn components(path: &FilePath) -> Result<Vec<&[u8]>, Stop> {
    let names: Vec<&[u8]> = path.path.split(|b| *b == b'/').filter(|n| !n.is_empty()).collect();
    for name in &names {
        if name.len() > NAME_MAX {
            return Err(Errno::ENAMETOOLONG.into());
        }
        if name.contains(&0) || matches!(*name, b"." | b"..") {
            return Err(Errno::EINVAL.into());
        }
    }
    Ok(names)
}
