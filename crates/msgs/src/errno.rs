//! Linux error numbers, which are Ceph's on every platform. Replies carry them negated.

macro_rules! errnos {
    ($($name:ident = $value:literal $text:literal;)*) => {
        $( #[doc = $text] pub const $name: i32 = $value; )*

        /// The symbol of a positive or negative error number: `ENOENT`.
        pub fn name(errno: i32) -> Option<&'static str> {
            match errno.unsigned_abs() {
                $( $value => Some(stringify!($name)), )*
                _ => None,
            }
        }

        /// The text of an error number, as `strerror` would return it.
        pub fn text(errno: i32) -> String {
            match errno.unsigned_abs() {
                $( $value => $text.to_owned(), )*
                other => format!("Unknown error {other}"),
            }
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

/// The name of a client that was put on the blocklist: Ceph's alias of ESHUTDOWN.
pub const EBLOCKLISTED: i32 = ESHUTDOWN;
/// A write with an older snapshot context than the object's, under ORDERSNAP: Ceph's alias of ERESTART.
pub const EOLDSNAPC: i32 = ERESTART;
/// A failed CMPEXT returns `-(MAX_ERRNO + offset)`.
pub const MAX_ERRNO: i32 = 4095;

#[cfg(test)]
mod tests {
    #[test]
    fn names_and_texts_are_found_for_either_sign() {
        assert_eq!(super::name(-2), Some("ENOENT"));
        assert_eq!(super::text(2), "No such file or directory");
        assert_eq!(super::text(-4000), "Unknown error 4000");
    }
}
