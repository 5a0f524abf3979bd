//! Ends what stands on disks besides mounts, md and maps: loop devices, swap.
//!
//! Sources: linux/loop.h; swapoff(2). All of it may block, so only workers may do it.
#![allow(unsafe_code)]

use nix::libc;
use rustix::fd::{AsRawFd, OwnedFd};
use rustix::fs::OFlags;
use rustix::io::Errno;

use super::Root;
use crate::path;

/// `LOOP_CLR_FD`
const LOOP_CLR_FD: libc::c_ulong = 0x4c01;

/// Takes the loop device of that name off its file. EBUSY: somebody has it open; the kernel does it when he closes it.
pub fn clear_loop(root: &Root, name: &str) -> Result<(), Errno> {
    if root.is_fixture() {
        return Err(Errno::OPNOTSUPP);
    }
    let device: OwnedFd = root.open(path!("/dev/{name}").as_str(), OFlags::RDONLY)?;
    // SAFETY: LOOP_CLR_FD has no argument.
    done(unsafe { libc::ioctl(device.as_raw_fd(), LOOP_CLR_FD as _, 0) })?;
    // It says yes to one that is busy too, and means later.
    drop(device);
    match has_file(root, name) {
        true => Err(Errno::BUSY),
        false => Ok(()),
    }
}

/// Whether the loop device of that name is on a file.
pub fn has_file(root: &Root, name: &str) -> bool {
    root.exists(path!("/sys/block/{name}/loop/backing_file").as_str())
}

/// Ends the use of a device or file as swap: all that is on it goes back into memory.
pub fn swap_off(root: &Root, path: &str) -> Result<(), Errno> {
    if root.is_fixture() {
        return Err(Errno::OPNOTSUPP);
    }
    let path = path!("{path}\0");
    let path =
        core::ffi::CStr::from_bytes_with_nul(path.as_str().as_bytes()).map_err(|_| Errno::INVAL)?;
    // SAFETY: it is NUL-terminated text that lives through the call.
    done(unsafe { libc::swapoff(path.as_ptr()) })
}

fn done(returned: libc::c_int) -> Result<(), Errno> {
    match returned {
        0.. => Ok(()),
        _ => Err(Errno::from_raw_os_error(nix::errno::Errno::last_raw())),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn nothing_of_a_fixtures_is_ended() {
        let dir = tempfile::tempdir().unwrap();
        let root = Root::below(dir.path().as_os_str()).unwrap();
        let refused = Err(Errno::OPNOTSUPP);
        assert_eq!(clear_loop(&root, "loop0"), refused);
        assert_eq!(swap_off(&root, "/dev/sda"), refused);
    }
}
