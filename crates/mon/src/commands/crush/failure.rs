//! Refusals of changes of the CRUSH map.

use crate::failure::Failure;
use crush::CrushError;
use wire::Errno;

/// The errno of a refused change.
pub fn crush_failure(error: CrushError) -> Failure {
    let errno = match error {
        CrushError::NoItem(_) => Errno::ENOENT,
        CrushError::Exists(_) => Errno::EEXIST,
        CrushError::InUse(_) => Errno::EBUSY,
        CrushError::NoType(_) | CrushError::NoClass(_) | CrushError::BadName(_) | CrushError::Loop(_) => {
            Errno::EINVAL
        }
        CrushError::Legacy(_) => Errno::EPERM,
    };
    Failure::new(errno, error.to_string())
}
