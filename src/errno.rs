//! Error numbers as words and as the kernel's own symbol, without allocating (std's own text is a `String`).

use core::fmt;

use rustix::io::Errno;

/// Shows an error number: `Device or resource busy (EBUSY)`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cause(pub Errno);

/// What the system calls quell makes are documented to answer, and some more (errno(3)).
const WORDS: &[(Errno, &str)] = &[
    (Errno::PERM, "operation not permitted (EPERM)"),
    (Errno::NOENT, "no such file or directory (ENOENT)"),
    (Errno::SRCH, "no such process (ESRCH)"),
    (Errno::INTR, "interrupted (EINTR)"),
    (Errno::IO, "input/output error (EIO)"),
    (Errno::NXIO, "no such device or address (ENXIO)"),
    (Errno::AGAIN, "temporarily unavailable (EAGAIN)"),
    (Errno::NOMEM, "out of memory (ENOMEM)"),
    (Errno::TOOBIG, "argument list too long (E2BIG)"),
    (Errno::ACCESS, "permission denied (EACCES)"),
    (Errno::NOTBLK, "block device required (ENOTBLK)"),
    (Errno::BUSY, "device or resource busy (EBUSY)"),
    (Errno::EXIST, "file exists (EEXIST)"),
    (Errno::XDEV, "leads out of its root (EXDEV)"),
    (Errno::NODEV, "no such device (ENODEV)"),
    (Errno::NOTDIR, "not a directory (ENOTDIR)"),
    (Errno::ISDIR, "is a directory (EISDIR)"),
    (Errno::INVAL, "invalid argument (EINVAL)"),
    (Errno::NFILE, "too many open files in the system (ENFILE)"),
    (Errno::MFILE, "too many open files (EMFILE)"),
    (Errno::FBIG, "file too large (EFBIG)"),
    (Errno::NOSPC, "no space left on device (ENOSPC)"),
    (Errno::ROFS, "read-only file system (EROFS)"),
    (Errno::PIPE, "broken pipe (EPIPE)"),
    (Errno::NAMETOOLONG, "file name too long (ENAMETOOLONG)"),
    (Errno::NOSYS, "not implemented by this kernel (ENOSYS)"),
    (Errno::LOOP, "too many levels of symbolic links (ELOOP)"),
    (Errno::OPNOTSUPP, "not supported (EOPNOTSUPP)"),
    (Errno::CONNREFUSED, "connection refused (ECONNREFUSED)"),
    (Errno::TIMEDOUT, "timed out (ETIMEDOUT)"),
    (Errno::STALE, "stale file handle (ESTALE)"),
    (Errno::REMOTEIO, "remote I/O error (EREMOTEIO)"),
    (Errno::NOMEDIUM, "no medium (ENOMEDIUM)"),
    (Errno::CANCELED, "cancelled (ECANCELED)"),
];

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match WORDS.iter().find(|(errno, _)| *errno == self.0) {
            Some((_, words)) => f.write_str(words),
            None => write!(f, "errno {}", self.0.raw_os_error()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_symbol_is_kept() {
        assert_eq!(
            Cause(Errno::BUSY).to_string(),
            "device or resource busy (EBUSY)"
        );
        assert_eq!(
            Cause(Errno::from_raw_os_error(117)).to_string(),
            "errno 117"
        );
    }
}
