//! Locks between processes: flock(2) on a file of /run.

use core::time::Duration;

use rustix::fd::OwnedFd;
use rustix::fs::{FlockOperation, Mode, OFlags};
use rustix::io::Errno;

use super::Root;
use crate::deadline::Deadline;

const PAUSE: Duration = Duration::from_millis(10);

/// Takes the lock `path`, whose folder is made if it is not there, as soon as nobody has it. It is held until what comes
/// back is dropped, or the process ends, however it does. EWOULDBLOCK: somebody had it until the deadline.
pub fn exclusive(root: &Root, path: &str, deadline: Deadline) -> Result<OwnedFd, Errno> {
    take(
        root,
        path,
        FlockOperation::NonBlockingLockExclusive,
        deadline,
    )
}

/// The same, and others may take it so too.
pub fn shared(root: &Root, path: &str, deadline: Deadline) -> Result<OwnedFd, Errno> {
    take(root, path, FlockOperation::NonBlockingLockShared, deadline)
}

fn take(
    root: &Root,
    path: &str,
    how: FlockOperation,
    deadline: Deadline,
) -> Result<OwnedFd, Errno> {
    let fd = open(root, path)?;
    loop {
        match rustix::fs::flock(&fd, how) {
            Ok(()) => return Ok(fd),
            Err(Errno::WOULDBLOCK) if !deadline.is_over() => std::thread::sleep(PAUSE),
            Err(errno) => return Err(errno),
        }
    }
}

fn open(root: &Root, path: &str) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW;
    let mode = Mode::from_raw_mode(0o600);
    match root.open_mode(path, flags, mode) {
        Err(Errno::NOENT) => {
            let dir = path.rsplit_once('/').map_or("/", |(dir, _)| dir);
            root.make_dir(dir)?;
            root.open_mode(path, flags, mode)
        }
        other => other,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn one_holds_it_and_the_next_waits_no_longer_than_it_may() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("run")).unwrap();
        let root = Root::below(dir.path().as_os_str()).unwrap();
        let soon = || Deadline::in_seconds(0);
        let first = exclusive(&root, "/run/quell/lock", soon()).unwrap();
        let second = exclusive(&root, "/run/quell/lock", soon());
        assert_eq!(second.err(), Some(Errno::WOULDBLOCK));
        drop(first);
        assert!(exclusive(&root, "/run/quell/lock", soon()).is_ok());
        let one = shared(&root, "/run/quell/lock", soon()).unwrap();
        assert!(shared(&root, "/run/quell/lock", soon()).is_ok());
        assert!(exclusive(&root, "/run/quell/lock", soon()).is_err());
        drop(one);
        assert_eq!(
            exclusive(&root, "/none/at/all", soon()).err(),
            Some(Errno::NOENT)
        );
    }
}
