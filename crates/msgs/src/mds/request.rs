//! Metadata operations (MClientRequest).

use crate::ArgBytes;
use maps::Epoch;
use std::fmt;
use stdx::Bufs;
use wire::{Decode, DecodeError, Encode, Message, RawMsg, Reader, Sample, Utime, Writer, wire_structs};

/// Number of a metadata operation; 0x1000 marks those that change something.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct MdsOp(pub u32);

macro_rules! mds_ops {
    ($($name:ident = $value:literal $text:literal;)*) => {
        #[allow(missing_docs)]
        impl MdsOp {
            $( pub const $name: Self = Self($value); )*

            /// Ceph's name of it.
            pub fn name(self) -> Option<&'static str> {
                match self.0 {
                    $( $value => Some($text), )*
                    _ => None,
                }
            }
        }
    };
}

mds_ops! {
    LOOKUP = 0x100 "lookup";
    GETATTR = 0x101 "getattr";
    LOOKUPHASH = 0x102 "lookuphash";
    LOOKUPPARENT = 0x103 "lookupparent";
    LOOKUPINO = 0x104 "lookupino";
    LOOKUPNAME = 0x105 "lookupname";
    GETVXATTR = 0x106 "getvxattr";
    DUMMY = 0x107 "dummy";
    GETFILELOCK = 0x110 "getfilelock";
    OPEN = 0x302 "open";
    READDIR = 0x305 "readdir";
    LOOKUPSNAP = 0x400 "lookupsnap";
    LSSNAP = 0x402 "lssnap";
    READDIR_SNAPDIFF = 0x405 "readdir-snapdiff";
    SETXATTR = 0x1105 "setxattr";
    RMXATTR = 0x1106 "rmxattr";
    SETLAYOUT = 0x1107 "setlayout";
    SETATTR = 0x1108 "setattr";
    SETFILELOCK = 0x1109 "setfilelock";
    SETDIRLAYOUT = 0x110a "setdirlayout";
    MKNOD = 0x1201 "mknod";
    LINK = 0x1202 "link";
    UNLINK = 0x1203 "unlink";
    RENAME = 0x1204 "rename";
    MKDIR = 0x1220 "mkdir";
    RMDIR = 0x1221 "rmdir";
    SYMLINK = 0x1222 "symlink";
    CREATE = 0x1301 "create";
    MKSNAP = 0x1400 "mksnap";
    RMSNAP = 0x1401 "rmsnap";
    RENAMESNAP = 0x1403 "renamesnap";
    // Not Ceph's: only servers that announce them are asked for them (`session_metadata::SMALL_FILES`,
    // `RENAME_FLAGS`).
    STORE_DATA = 0x0f01 "store-data";
    RENAME_FLAGS = 0x1f04 "rename-flags";
}

impl MdsOp {
    /// True if it changes something.
    pub fn writes(self) -> bool {
        self.0 & 0x1000 != 0
    }
}

impl fmt::Display for MdsOp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => f.write_str(name),
            None => write!(f, "mds-op-{:#x}", self.0),
        }
    }
}

impl fmt::Debug for MdsOp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Encode for MdsOp {
    fn encode(&self, w: &mut Writer) {
        w.put(&self.0);
    }
}

impl Decode for MdsOp {
    const MIN_SIZE: usize = 4;
    fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        r.get().map(Self)
    }
}

impl Sample for MdsOp {
    fn sample(rng: &mut stdx::Rng) -> Self {
        *rng.pick(&[Self::LOOKUP, Self::CREATE, Self::READDIR, Self::RENAME])
    }
}

/// Bits of [`ClientRequest::flags`].
pub mod request_flag {
    /// A resend after the MDS failed over, of a request that had been answered unsafely.
    pub const REPLAY: u32 = 1;
    /// The dentry is wanted in the trace.
    pub const WANT_DENTRY: u32 = 2;
    /// The client has already told its caller that it succeeded.
    pub const ASYNC: u32 = 4;
}

wire_structs! {
    /// A name below an inode.
    #[derive(Eq)]
    pub struct FilePath[u8 1] {
        /// Inode at which it starts; 0 without one.
        pub ino: u64,
        /// Components separated by slashes.
        pub path: Vec<u8>,
    }

    /// The fixed part of a release.
    #[derive(Copy, Eq)]
    struct ReleaseHead[plain] {
        ino: u64,
        cap_id: u64,
        caps: u32,
        wanted: u32,
        seq: u32,
        issue_seq: u32,
        mseq: u32,
        dname_seq: u32,
        dname_len: u32,
    }
}

/// Capabilities, and perhaps a dentry lease, that a request releases.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct DentryRelease {
    /// The inode.
    pub ino: u64,
    /// Id of the capability.
    pub cap_id: u64,
    /// Bits that the client keeps.
    pub caps: u32,
    /// Bits that it wants.
    pub wanted: u32,
    /// Of the last message about the cap.
    pub seq: u32,
    /// Of the last grant.
    pub issue_seq: u32,
    /// Of the last migration.
    pub mseq: u32,
    /// Of the lease.
    pub dname_seq: u32,
    /// Name of the leased dentry; empty for none.
    pub dname: Vec<u8>,
}

impl Encode for DentryRelease {
    fn encode(&self, w: &mut Writer) {
        let Self { ino, cap_id, caps, wanted, seq, issue_seq, mseq, dname_seq, .. } = *self;
        let dname_len = u32::try_from(self.dname.len()).expect("a name is short");
        w.put(&ReleaseHead { ino, cap_id, caps, wanted, seq, issue_seq, mseq, dname_seq, dname_len });
        w.raw(&self.dname);
    }
}

impl Decode for DentryRelease {
    const MIN_SIZE: usize = 44;
    fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let ReleaseHead { ino, cap_id, caps, wanted, seq, issue_seq, mseq, dname_seq, dname_len } =
            r.get()?;
        let dname = r.take(dname_len as usize)?.to_vec();
        Ok(Self { ino, cap_id, caps, wanted, seq, issue_seq, mseq, dname_seq, dname })
    }
}

impl Sample for DentryRelease {
    fn sample(rng: &mut stdx::Rng) -> Self {
        Self {
            ino: Sample::sample(rng),
            cap_id: Sample::sample(rng),
            dname: Sample::sample(rng),
            ..Self::default()
        }
    }
}

/// A metadata operation.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct ClientRequest {
    /// 1 (also written for 0), or 2 (wide retry counters), or 3 (owner of a new inode); decides the form of
    /// the head.
    pub head_version: u16,
    /// All requests with smaller tids are completed: the MDS may forget their results.
    pub oldest_client_tid: u64,
    /// The MDS map that the client has.
    pub mdsmap_epoch: Epoch,
    /// [`request_flag`] bits.
    pub flags: u32,
    /// Counts resends.
    pub num_retry: u32,
    /// Counts forwards between MDSs.
    pub num_fwd: u32,
    /// The operation.
    pub op: MdsOp,
    /// User of the caller.
    pub caller_uid: u32,
    /// Group of the caller.
    pub caller_gid: u32,
    /// The inode number: of a replayed CREATE the one given before, of an ASYNC one the delegated one.
    pub ino: u64,
    /// Depends on `op`.
    pub args: ArgBytes,
    /// Owner of a new inode; the caller if the client named none.
    pub owner_uid: u32,
    /// Group of a new inode; the caller's if the client named none.
    pub owner_gid: u32,
    /// Target.
    pub path: FilePath,
    /// Second name: source of RENAME and LINK, last name of READDIR, target of SYMLINK, name of an xattr.
    pub path2: FilePath,
    /// Caps given up.
    pub releases: Vec<DentryRelease>,
    /// Time of the request.
    pub stamp: Utime,
    /// Groups of the caller.
    pub gid_list: Vec<u64>,
    /// Encrypted long name.
    pub alternate_name: Vec<u8>,
    /// Encryption context.
    pub fscrypt_auth: Vec<u8>,
    /// Encrypted file size.
    pub fscrypt_file: Vec<u8>,
    /// Value of an xattr, or another bulk argument.
    pub data: Bufs,
}

impl Message for ClientRequest {
    const KIND: u16 = 24;
    const NAME: &'static str = "client_request";
    const VERSION: u16 = 6;
    const COMPAT: u16 = 1;

    fn encode_parts(&self, raw: &mut RawMsg) {
        let extended = !self.fscrypt_auth.is_empty() || !self.fscrypt_file.is_empty();
        raw.version = if extended { 6 } else { 5 };
        let mut w = Writer::new();
        self.encode_head(&mut w);
        w.put(&self.path);
        w.put(&self.path2);
        self.releases.iter().for_each(|release| w.put(release));
        w.put(&self.stamp);
        w.put(&self.gid_list);
        w.put(&self.alternate_name);
        if extended {
            w.put(&self.fscrypt_auth);
            w.put(&self.fscrypt_file);
        }
        raw.front = w.into_vec();
        raw.data = self.data.clone();
    }

    fn decode_parts(raw: &RawMsg) -> Result<Self, DecodeError> {
        let r = &mut Reader::new(&raw.front);
        if raw.version < 3 {
            return Err(
                r.error(format!("client_request version {}: clients older than Nautilus", raw.version))
            );
        }
        // 3: Linux, where its session is not open yet. It repeats what another rank has told it to ask here.
        let (mut out, num_releases) = Self::decode_head(r, raw.version == 3)?;
        out.path = r.get()?;
        out.path2 = r.get()?;
        out.releases = (0..num_releases).map(|_| r.get()).collect::<Result<_, _>>()?;
        out.stamp = r.get()?;
        if raw.version >= 4 {
            out.gid_list = r.get()?;
        }
        if raw.version >= 5 {
            out.alternate_name = r.get()?;
        }
        if raw.version >= 6 {
            out.fscrypt_auth = r.get()?;
            out.fscrypt_file = r.get()?;
        }
        out.data = raw.data.clone();
        Ok(out)
    }
}

impl ClientRequest {
    fn encode_head(&self, w: &mut Writer) {
        let narrow = |n: u32| u8::try_from(n).unwrap_or(u8::MAX);
        w.put(&self.head_version.max(1));
        w.put(&self.oldest_client_tid);
        w.put(&self.mdsmap_epoch);
        w.put(&self.flags);
        w.put(&narrow(self.num_retry));
        w.put(&narrow(self.num_fwd));
        w.put(&u16::try_from(self.releases.len()).expect("a request releases few caps"));
        w.put(&self.op);
        w.put(&self.caller_uid);
        w.put(&self.caller_gid);
        w.put(&self.ino);
        w.put(&self.args);
        if self.head_version >= 2 {
            w.put(&self.num_retry);
            w.put(&self.num_fwd);
        }
        if self.head_version >= 3 {
            w.put(&(w.len() as u32 + 12));
            w.put(&self.owner_uid);
            w.put(&self.owner_gid);
        }
    }

    /// The head, which may have no version, and the number of releases that it announces.
    fn decode_head(r: &mut Reader<'_>, is_old: bool) -> Result<(Self, u16), DecodeError> {
        let start = r.position();
        let head_version: u16 = if is_old { 1 } else { r.get()? };
        let (oldest_client_tid, mdsmap_epoch, flags) = (r.get()?, r.get()?, r.get()?);
        let (retry, fwd): (u8, u8) = r.get()?;
        let num_releases: u16 = r.get()?;
        let mut out = Self {
            head_version,
            oldest_client_tid,
            mdsmap_epoch,
            flags,
            num_retry: retry.into(),
            num_fwd: fwd.into(),
            op: r.get()?,
            caller_uid: r.get()?,
            caller_gid: r.get()?,
            ino: r.get()?,
            args: r.get()?,
            ..Self::default()
        };
        (out.owner_uid, out.owner_gid) = (out.caller_uid, out.caller_gid);
        if head_version >= 2 {
            out.num_retry = r.get()?;
            out.num_fwd = r.get()?;
        }
        if head_version >= 3 {
            let len = r.get::<u32>()? as usize;
            let owner: (u32, u32) = (r.get()?, r.get()?);
            // All ones: none is named.
            out.owner_uid = Some(owner.0).filter(|uid| *uid != u32::MAX).unwrap_or(out.caller_uid);
            out.owner_gid = Some(owner.1).filter(|gid| *gid != u32::MAX).unwrap_or(out.caller_gid);
            // A later head is longer by what we do not know.
            r.take(len.saturating_sub(r.position() - start))?;
        }
        Ok((out, num_releases))
    }
}

impl Sample for ClientRequest {
    fn sample(rng: &mut stdx::Rng) -> Self {
        let caller = rng.u32();
        let head_version = rng.range(1, 4) as u16;
        Self {
            head_version,
            oldest_client_tid: Sample::sample(rng),
            mdsmap_epoch: Sample::sample(rng),
            flags: Sample::sample(rng),
            num_retry: rng.below(200) as u32,
            num_fwd: rng.below(200) as u32,
            op: Sample::sample(rng),
            caller_uid: caller,
            caller_gid: caller,
            ino: Sample::sample(rng),
            args: Sample::sample(rng),
            owner_uid: if head_version == 3 { rng.u32() } else { caller },
            owner_gid: caller,
            path: Sample::sample(rng),
            path2: Sample::sample(rng),
            releases: Sample::sample(rng),
            stamp: Sample::sample(rng),
            gid_list: Sample::sample(rng),
            alternate_name: Sample::sample(rng),
            fscrypt_auth: Sample::sample(rng),
            fscrypt_file: Sample::sample(rng),
            data: Sample::sample(rng),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_old_form_of_linux_is_read() {
        let request = ClientRequest {
            head_version: 1,
            op: MdsOp::MKDIR,
            oldest_client_tid: 9,
            path: FilePath { ino: 1, path: b"d".to_vec() },
            ..ClientRequest::default()
        };
        let mut raw = RawMsg { kind: ClientRequest::KIND, ..RawMsg::default() };
        request.encode_parts(&mut raw);
        // Without the head's version, the groups and the long name.
        let (groups, name) = (4, 4);
        let end = raw.front.len() - groups - name;
        raw.front = raw.front[2..end].to_vec();
        raw.version = 3;
        assert_eq!(ClientRequest::from_raw(&raw).expect("readable"), request);
    }
}
