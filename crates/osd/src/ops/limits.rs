//! How large things may be.

/// Limits that Ceph's OSDs have as options.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Bytes of an object (`osd_max_object_size`).
    pub object_size: u64,
    /// Bytes of a request's data (`osd_max_write_size`).
    pub write_size: u64,
    /// Bytes of an object's name (`osd_max_object_name_len`).
    pub name_len: usize,
    /// Bytes of a namespace (`osd_max_object_namespace_len`).
    pub namespace_len: usize,
    /// Bytes of an xattr's name (`osd_max_attr_name_len`).
    pub attr_name_len: usize,
    /// Bytes of an xattr's value.
    pub attr_size: usize,
    /// Entries of an omap reply (`osd_max_omap_entries_per_request`).
    pub omap_entries: usize,
    /// Bytes of an omap reply.
    pub omap_bytes: usize,
    /// Bytes of a read's reply: what a client's frame may hold.
    pub read_size: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            object_size: 128 << 20,
            write_size: 90 << 20,
            name_len: 2048,
            namespace_len: 256,
            attr_name_len: 100,
            attr_size: 64 << 10,
            omap_entries: 1024,
            omap_bytes: 16 << 20,
            read_size: 128 << 20,
        }
    }
}
