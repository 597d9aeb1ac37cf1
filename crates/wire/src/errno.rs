//! Linux error numbers, which are Ceph's on every platform.

use crate::{Decode, DecodeError, Encode, Reader, Sample, Writer};
use std::fmt;
use stdx::Rng;

/// A Linux error number as a type: positive, never zero. A reply on the wire carries it negated
/// ([`Errno::to_result_code`]); stored and inter-daemon formats carry it as it is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Errno(i32);

macro_rules! errnos {
    ($($name:ident = $value:literal $text:literal;)*) => {
        impl Errno {
            $( #[doc = $text] pub const $name: Self = Self($value); )*

            /// The symbol, such as `ENOENT`; `None` for a number that Ceph does not use.
            pub fn name(self) -> Option<&'static str> {
                match self.0 {
                    $( $value => Some(stringify!($name)), )*
                    _ => None,
                }
            }

            /// The text that `strerror` gives.
            pub fn text(self) -> String {
                match self.0 {
                    $( $value => $text.to_owned(), )*
                    other => format!("Unknown error {other}"),
                }
            }

            #[cfg(test)]
            const ALL: &'static [Self] = &[$( Self::$name, )*];
        }
    };
}

errnos! {
    EPERM = 1 "Operation not permitted";
    ENOENT = 2 "No such file or directory";
    EINTR = 4 "Interrupted system call";
    EIO = 5 "Input/output error";
    ENXIO = 6 "No such device or address";
    E2BIG = 7 "Argument list too long";
    ENOEXEC = 8 "Exec format error";
    EBADF = 9 "Bad file descriptor";
    EAGAIN = 11 "Resource temporarily unavailable";
    ENOMEM = 12 "Cannot allocate memory";
    EACCES = 13 "Permission denied";
    EBUSY = 16 "Device or resource busy";
    EEXIST = 17 "File exists";
    EXDEV = 18 "Invalid cross-device link";
    ENODEV = 19 "No such device";
    ENOTDIR = 20 "Not a directory";
    EISDIR = 21 "Is a directory";
    EINVAL = 22 "Invalid argument";
    EMFILE = 24 "Too many open files";
    EFBIG = 27 "File too large";
    ENOSPC = 28 "No space left on device";
    EROFS = 30 "Read-only file system";
    EMLINK = 31 "Too many links";
    EPIPE = 32 "Broken pipe";
    EDOM = 33 "Numerical argument out of domain";
    ERANGE = 34 "Numerical result out of range";
    EDEADLK = 35 "Resource deadlock avoided";
    ENAMETOOLONG = 36 "File name too long";
    ENOSYS = 38 "Function not implemented";
    ENOTEMPTY = 39 "Directory not empty";
    ELOOP = 40 "Too many levels of symbolic links";
    ENODATA = 61 "No data available";
    EMULTIHOP = 72 "Multihop attempted";
    EBADMSG = 74 "Bad message";
    EOVERFLOW = 75 "Value too large for defined data type";
    EILSEQ = 84 "Invalid or incomplete multibyte or wide character";
    ERESTART = 85 "Interrupted system call should be restarted";
    EMSGSIZE = 90 "Message too long";
    EOPNOTSUPP = 95 "Operation not supported";
    EADDRINUSE = 98 "Address already in use";
    ENOTCONN = 107 "Transport endpoint is not connected";
    ESHUTDOWN = 108 "Cannot send after transport endpoint shutdown";
    ETIMEDOUT = 110 "Connection timed out";
    ECONNREFUSED = 111 "Connection refused";
    EHOSTUNREACH = 113 "No route to host";
    EALREADY = 114 "Operation already in progress";
    EINPROGRESS = 115 "Operation now in progress";
    ESTALE = 116 "Stale file handle";
    EDQUOT = 122 "Disk quota exceeded";
    ECANCELED = 125 "Operation canceled";
}

impl Errno {
    /// The error of a client that is on the blocklist: Ceph's alias of `ESHUTDOWN`.
    pub const EBLOCKLISTED: Self = Self::ESHUTDOWN;
    /// The error of a write with an older snapshot context than the object's, under `ORDERSNAP`: Ceph's alias
    /// of `ERESTART`.
    pub const EOLDSNAPC: Self = Self::ERESTART;
    /// The largest error number; a failed `CMPEXT` returns `-(MAX + offset)`.
    pub const MAX: i32 = 4095;

    /// The error that a result code carries: any negative number. `None` for success (zero or positive).
    ///
    /// `i32::MIN`, which no peer may send, becomes `i32::MAX`.
    pub fn from_result_code(code: i32) -> Option<Self> {
        (code < 0).then(|| Self(code.checked_neg().unwrap_or(i32::MAX)))
    }

    /// What a result code says: a number that is not negative, as success has it, or an error.
    pub fn check(code: i32) -> Result<u32, Self> {
        Self::from_result_code(code).map_or(Ok(code.unsigned_abs()), Err)
    }

    /// The negative number that a reply carries.
    pub const fn to_result_code(self) -> i32 {
        -self.0
    }

    /// The positive number, as the operating system knows it.
    pub const fn get(self) -> i32 {
        self.0
    }

    /// The error of a positive number, as the operating system uses it; `None` for zero and below.
    pub fn new(errno: i32) -> Option<Self> {
        (errno > 0).then_some(Self(errno))
    }
}

/// The symbol, or `errno 4000` for a number without one.
impl fmt::Display for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => f.write_str(name),
            None => write!(f, "errno {}", self.0),
        }
    }
}

impl fmt::Debug for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Encode for Errno {
    fn encode(&self, w: &mut Writer) {
        w.put(&self.0);
    }
}

impl Decode for Errno {
    const MIN_SIZE: usize = 4;
    fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let errno = r.get()?;
        Self::new(errno).ok_or_else(|| r.error(format!("error number {errno}")))
    }
}

impl Sample for Errno {
    fn sample(rng: &mut Rng) -> Self {
        Self(1 + rng.below(Self::MAX as u64) as i32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn result_codes_are_errors_only_below_zero() {
        assert_eq!(Errno::from_result_code(-2), Some(Errno::ENOENT));
        assert_eq!(Errno::from_result_code(0), None);
        assert_eq!(Errno::from_result_code(7), None);
        assert_eq!((Errno::check(0), Errno::check(7)), (Ok(0), Ok(7)));
        assert_eq!(Errno::check(-2), Err(Errno::ENOENT));
        assert_eq!(Errno::from_result_code(i32::MIN).map(Errno::get), Some(i32::MAX));
        for errno in Errno::ALL {
            assert_eq!(Errno::from_result_code(errno.to_result_code()), Some(*errno));
        }
    }

    #[test]
    fn errors_are_shown_by_their_symbol() {
        assert_eq!(Errno::ENOENT.to_string(), "ENOENT");
        assert_eq!(Errno::ENOENT.text(), "No such file or directory");
        let unknown = Errno::new(4000).expect("a positive number");
        assert_eq!(unknown.to_string(), "errno 4000");
        assert_eq!(unknown.text(), "Unknown error 4000");
        assert_eq!(Errno::new(0), None);
    }

    #[test]
    fn no_error_of_zero_is_decoded() {
        assert!(Reader::new(&0i32.to_le_bytes()).get::<Errno>().is_err());
        assert_eq!(Reader::new(&2i32.to_le_bytes()).get::<Errno>().ok(), Some(Errno::ENOENT));
    }
}
