//! Messages between clients and the active manager. What services report of themselves is not interpreted.

use crate::Rest;
use stdx::Bufs;
use wire::Uuid;

wire::messages! {
    /// A service (a gateway, a mirror) introduces itself. Clients that only send commands do not.
    pub struct MgrOpen = 0x700 "mgr_open" [v 1/1] {
        /// Its name, metadata and settings.
        pub body: Rest,
    }

    /// Counters and state of a service. It sends none until a manager has configured it.
    pub struct MgrReport = 0x702 "mgr_report" [v 1/1] {
        /// The report.
        pub body: Rest,
    }

    /// A service takes its leave, and waits for the same message as the answer.
    pub struct MgrClose = 0x708 "mgr_close" [v 1/1] {
        /// Its name.
        pub body: Rest,
    }

    /// A command (`rados_mgr_command`, `ceph tell mgr`). Clients older than Ceph 15 send [`crate::Command`].
    pub struct MgrCommand = 0x709 "mgr_command" [v 1/0] {
        /// Of the cluster; zeros from librados.
        pub fsid: Uuid,
        /// One string of JSON.
        pub cmd: Vec<String>,
        /// Input.
        pub data: Bufs = data,
    }

    /// Answers [`MgrCommand`].
    pub struct MgrCommandReply = 0x70a "mgr_command_reply" [v 1/0] {
        /// 0 or a negative errno.
        pub r: i32,
        /// Status text.
        pub rs: String,
        /// Output.
        pub data: Bufs = data,
    }

    /// A service changes what it said in [`MgrOpen`].
    pub struct MgrUpdate = 0x70b "mgr_update" [v 1/1] {
        /// The change.
        pub body: Rest,
    }
}
