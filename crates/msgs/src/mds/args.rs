//! The arguments of metadata operations: 56 bytes whose meaning depends on the operation.

use maps::{Epoch, LegacyFileLayout};
use wire::{Decode, DecodeError, Encode, Reader, Sample, Timespec, Writer, wire_structs};

/// Size of the union on the wire.
pub const ARGS_SIZE: usize = 56;

/// Arguments of one kind of operation.
pub trait RequestArgs: Encode + Decode {}

/// The union, uninterpreted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ArgBytes(pub [u8; ARGS_SIZE]);

impl Default for ArgBytes {
    fn default() -> Self {
        Self([0; ARGS_SIZE])
    }
}

/// Values of [`FileLockArgs::rule`].
pub mod lock_rule {
    /// fcntl(2), on byte ranges.
    pub const FCNTL: u8 = 1;
    /// flock(2), on whole files.
    pub const FLOCK: u8 = 2;
    /// Is added in a request that interrupts one with the other values.
    pub const INTERRUPT: u8 = 2;
}

/// Values of [`FileLockArgs::kind`] and [`FileLock::kind`](crate::FileLock::kind).
pub mod lock_kind {
    /// Beside other shared ones.
    pub const SHARED: u8 = 1;
    /// Beside no other.
    pub const EXCLUSIVE: u8 = 2;
    /// No lock.
    pub const UNLOCK: u8 = 4;
}

impl ArgBytes {
    /// Reads it as the arguments that the operation has.
    pub fn get<T: RequestArgs>(&self) -> T {
        Reader::new(&self.0).get().expect("every kind of arguments is plain numbers that fit into the union")
    }
}

impl<T: RequestArgs> From<T> for ArgBytes {
    fn from(args: T) -> Self {
        let bytes = Writer::encode(&args);
        let mut out = Self::default();
        out.0[..bytes.len()].copy_from_slice(&bytes);
        out
    }
}

impl Encode for ArgBytes {
    fn encode(&self, w: &mut Writer) {
        w.raw(&self.0);
    }
}

impl Decode for ArgBytes {
    const MIN_SIZE: usize = ARGS_SIZE;
    fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        r.array().map(Self)
    }
}

impl Sample for ArgBytes {
    fn sample(rng: &mut stdx::Rng) -> Self {
        Self(Sample::sample(rng))
    }
}

/// Bits of [`SetattrArgs::mask`].
#[allow(missing_docs)]
pub mod setattr_mask {
    pub const MODE: u32 = 1;
    pub const UID: u32 = 1 << 1;
    pub const GID: u32 = 1 << 2;
    pub const MTIME: u32 = 1 << 3;
    pub const ATIME: u32 = 1 << 4;
    pub const SIZE: u32 = 1 << 5;
    pub const CTIME: u32 = 1 << 6;
    pub const MTIME_NOW: u32 = 1 << 7;
    pub const ATIME_NOW: u32 = 1 << 8;
    pub const BTIME: u32 = 1 << 9;
    pub const KILL_SGUID: u32 = 1 << 10;
}

wire_structs! {
    /// LOOKUP, GETATTR and others without arguments of their own.
    #[derive(Copy, Eq)]
    pub struct GetattrArgs[plain] {
        /// Cap bits whose values are wanted.
        pub mask: u32,
    }

    /// SETATTR.
    #[derive(Copy, Eq)]
    pub struct SetattrArgs[plain] {
        /// New mode.
        pub mode: u32,
        /// New owner.
        pub uid: u32,
        /// New group.
        pub gid: u32,
        /// New time of modification.
        pub mtime: Timespec,
        /// New time of access.
        pub atime: Timespec,
        /// New size.
        pub size: u64,
        /// Size before.
        pub old_size: u64,
        /// Attributes to set: [`setattr_mask`].
        pub mask: u32,
        /// New time of birth.
        pub btime: Timespec,
    }

    /// READDIR and LSSNAP.
    #[derive(Copy, Eq)]
    pub struct ReaddirArgs[plain] {
        /// The fragment.
        pub frag: u32,
        /// The most entries.
        pub max_entries: u32,
        /// The most bytes.
        pub max_bytes: u32,
        /// 1: the reply's flags are a set of bits.
        pub flags: u16,
        /// Start after this hash.
        pub offset_hash: u32,
    }

    /// MKNOD.
    #[derive(Copy, Eq)]
    pub struct MknodArgs[plain] {
        /// With the type.
        pub mode: u32,
        /// Device number.
        pub rdev: u32,
    }

    /// MKDIR.
    #[derive(Copy, Eq)]
    pub struct MkdirArgs[plain] {
        /// Permissions.
        pub mode: u32,
    }

    /// OPEN and CREATE.
    #[derive(Copy, Eq)]
    pub struct OpenArgs[plain] {
        /// Ceph's numbers of the open flags.
        pub flags: u32,
        /// Of a new file.
        pub mode: u32,
        /// Layout of a new file; 0 for the directory's.
        pub stripe_unit: u32,
        /// Layout of a new file; 0 for the directory's.
        pub stripe_count: u32,
        /// Layout of a new file; 0 for the directory's.
        pub object_size: u32,
        /// Pool of a new file; -1 for the directory's.
        pub pool: i32,
        /// Cap bits whose values are wanted.
        pub mask: u32,
        /// Size that the client knows, with truncation.
        pub old_size: u64,
    }

    /// SETXATTR.
    #[derive(Copy, Eq)]
    pub struct SetxattrArgs[plain] {
        /// 1 create, 2 replace, 3 remove.
        pub flags: u32,
        /// Have at least this OSD map before resolving a pool's name.
        pub osdmap_epoch: Epoch,
    }

    /// SETLAYOUT and SETDIRLAYOUT.
    #[derive(Copy, Eq)]
    pub struct SetlayoutArgs[plain] {
        /// The layout.
        pub layout: LegacyFileLayout,
    }

    /// SETFILELOCK and GETFILELOCK.
    #[derive(Copy, Eq)]
    pub struct FileLockArgs[plain] {
        /// One of [`lock_rule`].
        pub rule: u8,
        /// One of [`lock_kind`].
        pub kind: u8,
        /// Owner within the client.
        pub owner: u64,
        /// Process.
        pub pid: u64,
        /// First byte.
        pub start: u64,
        /// Bytes; 0 to the end.
        pub length: u64,
        /// True if to wait until it is free.
        pub wait: u8,
    }

    /// RENAME_FLAGS.
    #[derive(Copy, Eq)]
    pub struct RenameArgs[plain] {
        /// Flags of renameat2(2).
        pub flags: u32,
    }

    /// LOOKUPINO and its like.
    #[derive(Copy, Eq)]
    pub struct LookupInoArgs[plain] {
        /// Cap bits whose values are wanted.
        pub mask: u32,
        /// Of the inode.
        pub snapid: u64,
        /// Its directory.
        pub parent: u64,
        /// Of its name.
        pub hash: u32,
    }
}

impl RequestArgs for GetattrArgs {}
impl RequestArgs for SetattrArgs {}
impl RequestArgs for ReaddirArgs {}
impl RequestArgs for MknodArgs {}
impl RequestArgs for MkdirArgs {}
impl RequestArgs for OpenArgs {}
impl RequestArgs for SetxattrArgs {}
impl RequestArgs for SetlayoutArgs {}
impl RequestArgs for FileLockArgs {}
impl RequestArgs for RenameArgs {}
impl RequestArgs for LookupInoArgs {}

/// Bits of [`RenameArgs::flags`].
pub mod rename_flag {
    /// Fails if the new name exists.
    pub const NOREPLACE: u32 = 1;
    /// Both names exist, and change places.
    pub const EXCHANGE: u32 = 2;
}
