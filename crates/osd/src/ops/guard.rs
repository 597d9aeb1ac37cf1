//! The guard ASSERT_VER.

use super::exec::Exec;
use super::result::{OpOutput, done};
use wire::Errno;

impl Exec<'_> {
    pub(super) fn assert_ver(&mut self, ver: u64) -> Result<OpOutput, Errno> {
        match ver {
            0 => Err(Errno::EINVAL),
            ver if ver < self.info.user_version => Err(Errno::ERANGE),
            ver if ver > self.info.user_version => Err(Errno::EOVERFLOW),
            _ => done(),
        }
    }
}
