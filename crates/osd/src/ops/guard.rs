//! ASSERT_VER, and the answer about what objects do not have yet: clones.

use super::{Exec, OpError, OpOutput, done, output};
use maps::SnapId;
use msgs::errno::{EINVAL, EOVERFLOW, ERANGE};
use msgs::op::input::{CloneInfo, ListSnapsReply};

impl Exec<'_> {
    pub(super) fn assert_ver(&mut self, ver: u64) -> Result<OpOutput, OpError> {
        match ver {
            0 => Err(EINVAL),
            ver if ver < self.info.user_version => Err(ERANGE),
            ver if ver > self.info.user_version => Err(EOVERFLOW),
            _ => done(),
        }
    }

    pub(super) fn list_snaps(&mut self) -> Result<OpOutput, OpError> {
        self.must_exist()?;
        let head = CloneInfo { cloneid: SnapId::HEAD, size: self.size, ..CloneInfo::default() };
        output(&ListSnapsReply { clones: vec![head], seq: SnapId(0) })
    }
}
