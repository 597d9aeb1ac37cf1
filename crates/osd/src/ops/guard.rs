//! The guard ASSERT_VER.

use super::{Exec, OpError, OpOutput, done};
use msgs::errno::{EINVAL, EOVERFLOW, ERANGE};

impl Exec<'_> {
    pub(super) fn assert_ver(&mut self, ver: u64) -> Result<OpOutput, OpError> {
        match ver {
            0 => Err(EINVAL),
            ver if ver < self.info.user_version => Err(ERANGE),
            ver if ver > self.info.user_version => Err(EOVERFLOW),
            _ => done(),
        }
    }
}
