//! The numbers of hosts.

stdx::ids! {
    /// A host: a node's address and disks, which outlive the node's process.
    pub struct HostId(usize) = "host{}";
}
