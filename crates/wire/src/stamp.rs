//! Stamps and uuids.

use crate::{Decode, DecodeError, Encode, Reader, Writer};
use std::fmt;
use std::time::Duration;
use stdx::Wall;

macro_rules! stamps {
    ($($(#[$meta:meta])* $name:ident)*) => {$(
        $(#[$meta])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
        pub struct $name {
            /// Seconds since 1970.
            pub sec: u32,
            /// Nanoseconds within the second.
            pub nsec: u32,
        }

        impl Encode for $name {
            fn encode(&self, w: &mut Writer) {
                w.put(&self.sec);
                w.put(&self.nsec);
            }
        }

        impl Decode for $name {
            const MIN_SIZE: usize = 8;
            fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
                Ok(Self { sec: r.get()?, nsec: r.get()? })
            }
        }

        impl $name {
            /// True if it lies so far ahead of a clock that somebody has set it: the clocks of two hosts
            /// differ by less than a second.
            pub fn is_ahead_of(self, clock: Wall) -> bool {
                self > Self::from(clock + Duration::from_secs(1))
            }

            /// One nanosecond later; the last one stays.
            pub fn next(self) -> Self {
                Self::from(Wall(Wall::from(self).0 + 1)).max(self)
            }
        }

        impl From<Wall> for $name {
            fn from(wall: Wall) -> Self {
                let (sec, nsec) = wall.split();
                Self { sec: u32::try_from(sec).unwrap_or(u32::MAX), nsec }
            }
        }

        impl From<$name> for Wall {
            fn from(t: $name) -> Self {
                Self(u64::from(t.sec) * 1_000_000_000 + u64::from(t.nsec))
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}.{:09}", self.sec, self.nsec)
            }
        }
    )*};
}

stamps! {
    /// Ceph's `utime_t`: u32 seconds, u32 nanoseconds.
    Utime
    /// `ceph_timespec` of packed structures; the same form as [`Utime`].
    Timespec
}

impl Utime {
    /// ISO 8601 in UTC with microseconds, as Ceph's commands print it (`2026-01-31T12:00:00.000000+0000`).
    pub fn iso8601(&self) -> String {
        let (days, day_sec) = (i64::from(self.sec) / 86_400, self.sec % 86_400);
        let (y, m, d) = stdx::civil::date_of_day(days);
        let (h, min, s) = (day_sec / 3600, day_sec / 60 % 60, day_sec % 60);
        format!("{y:04}-{m:02}-{d:02}T{h:02}:{min:02}:{s:02}.{:06}+0000", self.nsec / 1000)
    }
}

/// 16 bytes, shown as 8-4-4-4-12 hex digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Uuid(pub [u8; 16]);

impl Uuid {
    /// A random (version 4) uuid from 16 random bytes.
    pub fn from_random(mut bytes: [u8; 16]) -> Self {
        bytes[6] = bytes[6] & 0x0f | 0x40;
        bytes[8] = bytes[8] & 0x3f | 0x80;
        Self(bytes)
    }

    /// Parses 32 hex digits with hyphens anywhere between them.
    pub fn parse(text: &str) -> Option<Self> {
        let digits: Vec<u8> = text.bytes().filter(|b| *b != b'-').collect();
        let mut out = [0; 16];
        if digits.len() != 32 {
            return None;
        }
        for (byte, pair) in out.iter_mut().zip(digits.chunks(2)) {
            *byte = u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()?;
        }
        Some(Self(out))
    }
}

impl Encode for Uuid {
    fn encode(&self, w: &mut Writer) {
        w.raw(&self.0);
    }
}

impl Decode for Uuid {
    const MIN_SIZE: usize = 16;
    fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        r.array().map(Self)
    }
}

impl fmt::Display for Uuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, byte) in self.0.iter().enumerate() {
            let hyphen = if matches!(i, 4 | 6 | 8 | 10) { "-" } else { "" };
            write!(f, "{hyphen}{byte:02x}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for Uuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
