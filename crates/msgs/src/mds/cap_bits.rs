//! Capability bits: what a client may assume and do about an inode without asking.

use std::fmt;
use wire::{Decode, DecodeError, Encode, Reader, Sample, Writer};

/// A set of [`cap`] bits. Shown as Ceph shows it: `pAsLsXsFsc`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Caps(pub u32);

/// Bits of [`Caps`]. Shared bits allow to cache, exclusive ones to change without asking.
#[allow(missing_docs)]
pub mod cap {
    pub const PIN: u32 = 1;
    pub const AUTH_SHARED: u32 = 1 << 2;
    pub const AUTH_EXCL: u32 = 2 << 2;
    pub const LINK_SHARED: u32 = 1 << 4;
    pub const LINK_EXCL: u32 = 2 << 4;
    pub const XATTR_SHARED: u32 = 1 << 6;
    pub const XATTR_EXCL: u32 = 2 << 6;
    /// File or directory content is unchanged: size, times; of directories: names.
    pub const FILE_SHARED: u32 = 1 << 8;
    pub const FILE_EXCL: u32 = 1 << 9;
    /// Reads may be answered from the client's cache.
    pub const FILE_CACHE: u32 = 1 << 10;
    pub const FILE_RD: u32 = 1 << 11;
    pub const FILE_WR: u32 = 1 << 12;
    /// Writes may stay in the client's cache.
    pub const FILE_BUFFER: u32 = 1 << 13;
    pub const FILE_WREXTEND: u32 = 1 << 14;
    pub const FILE_LAZYIO: u32 = 1 << 15;
    /// On a directory: files may be created in it asynchronously.
    pub const DIR_CREATE: u32 = FILE_CACHE;
    /// On a directory: names may be removed from it asynchronously.
    pub const DIR_UNLINK: u32 = FILE_RD;
    /// On a directory: both of them.
    pub const DIR_OPS: u32 = DIR_CREATE | DIR_UNLINK;
    /// On a directory: the client works in it alone, and does so asynchronously. They are given and revoked
    /// together.
    pub const DIR_ASYNC: u32 = FILE_EXCL | DIR_OPS;
    /// What a client takes for granted on a file that it creates asynchronously.
    pub const ASSUMED: u32 = PIN | ANY_RD | AUTH_EXCL | XATTR_EXCL | FILE_EXCL | FILE_WR | FILE_BUFFER;
    /// The same on a directory.
    pub const ASSUMED_OF_DIR: u32 = PIN | ANY_SHARED;
    /// The number that it assumes for its capability there: the first on that file.
    pub const ASSUMED_ID: u64 = 1;

    /// All shared bits.
    pub const ANY_SHARED: u32 = AUTH_SHARED | LINK_SHARED | XATTR_SHARED | FILE_SHARED;
    /// Bits of a reader.
    pub const ANY_RD: u32 = ANY_SHARED | FILE_RD | FILE_CACHE;
    /// All exclusive bits.
    pub const ANY_EXCL: u32 = AUTH_EXCL | LINK_EXCL | XATTR_EXCL | FILE_EXCL;
    /// Bits that allow changes of file data.
    pub const ANY_FILE_WR: u32 = FILE_WR | FILE_BUFFER | FILE_EXCL;
    /// Bits that allow any change.
    pub const ANY_WR: u32 = ANY_EXCL | ANY_FILE_WR;
    /// Everything.
    pub const ANY: u32 = ANY_RD | ANY_EXCL | ANY_FILE_WR | FILE_LAZYIO | PIN;
}

impl Caps {
    /// None.
    pub const NONE: Self = Self(0);

    /// True if all of `bits` are there.
    pub fn has(self, bits: u32) -> bool {
        self.0 & bits == bits
    }

    /// True if one of `bits` is there.
    pub fn has_any(self, bits: u32) -> bool {
        self.0 & bits != 0
    }
}

impl std::ops::BitOr for Caps {
    type Output = Self;
    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl std::ops::BitAnd for Caps {
    type Output = Self;
    fn bitand(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }
}

impl std::ops::Not for Caps {
    type Output = Self;
    fn not(self) -> Self {
        Self(!self.0)
    }
}

impl fmt::Display for Caps {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 == 0 {
            return f.write_str("-");
        }
        if self.0 & cap::PIN != 0 {
            f.write_str("p")?;
        }
        for (letter, shift) in [('A', 2), ('L', 4), ('X', 6)] {
            let bits = self.0 >> shift & 3;
            if bits != 0 {
                write!(
                    f,
                    "{letter}{}{}",
                    if bits & 1 != 0 { "s" } else { "" },
                    if bits & 2 != 0 { "x" } else { "" }
                )?;
            }
        }
        let file = self.0 >> 8 & 0xff;
        if file != 0 {
            f.write_str("F")?;
            for (i, letter) in "sxcrwbal".chars().enumerate() {
                if file >> i & 1 != 0 {
                    write!(f, "{letter}")?;
                }
            }
        }
        Ok(())
    }
}

impl fmt::Debug for Caps {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Encode for Caps {
    fn encode(&self, w: &mut Writer) {
        w.put(&self.0);
    }
}

impl Decode for Caps {
    const MIN_SIZE: usize = 4;
    fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        r.get().map(Self)
    }
}

impl Sample for Caps {
    fn sample(rng: &mut stdx::Rng) -> Self {
        Self(rng.u32() & cap::ANY)
    }
}

#[cfg(test)]
mod tests {
    use super::Caps;

    #[test]
    fn prints_as_ceph_does() {
        for (bits, text) in [(0x155, "pAsLsXsFs"), (0x355, "pAsLsXsFsx"), (0, "-"), (0xdb, "pAxLsXsx")] {
            assert_eq!(Caps(bits).to_string(), text);
        }
    }
}
