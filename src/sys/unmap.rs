//! Ends what stands on disks besides mounts and md: device-mapper maps, loop devices, swap.
//!
//! Sources: linux/dm-ioctl.h, Documentation/admin-guide/device-mapper; linux/loop.h; swapoff(2). All of it may block, so only
//! workers may do it.
#![allow(unsafe_code)]

use nix::libc;
use rustix::fd::{AsRawFd, OwnedFd};
use rustix::fs::OFlags;
use rustix::io::Errno;

use super::{Dev, Root};
use crate::path;

/// `struct dm_ioctl` of linux/dm-ioctl.h.
#[repr(C)]
struct DmIoctl {
    version: [u32; 3],
    data_size: u32,
    data_start: u32,
    target_count: u32,
    open_count: i32,
    flags: u32,
    event_nr: u32,
    padding: u32,
    dev: u64,
    name: [u8; 128],
    uuid: [u8; 129],
    data: [u8; 7],
}

/// `DM_DEV_REMOVE`: `_IOWR(0xfd, 4, struct dm_ioctl)`
const DM_DEV_REMOVE: libc::c_ulong = 0xc138_fd04;
/// `LOOP_CLR_FD`
const LOOP_CLR_FD: libc::c_ulong = 0x4c01;

/// Removes the device-mapper map of that number, which must be used by nobody (EBUSY).
pub fn remove_map(root: &Root, dev: Dev) -> Result<(), Errno> {
    if root.is_fixture() {
        return Err(Errno::OPNOTSUPP);
    }
    let control = root.open("/dev/mapper/control", OFlags::RDWR)?;
    let mut order = DmIoctl {
        // Any kernel takes what asks for this interface's first version.
        version: [4, 0, 0],
        data_size: 312,
        data_start: 0,
        target_count: 0,
        open_count: 0,
        flags: 0,
        event_nr: 0,
        padding: 0,
        dev: dev.0,
        name: [0; 128],
        uuid: [0; 129],
        data: [0; 7],
    };
    // SAFETY: DM_DEV_REMOVE reads and writes `data_size` bytes, which is what DmIoctl has.
    done(unsafe { libc::ioctl(control.as_raw_fd(), DM_DEV_REMOVE as _, &mut order) })
}

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
    fn the_order_has_the_size_the_kernel_copies() {
        assert_eq!(size_of::<DmIoctl>(), 312);
        // _IOWR: direction 3, size, type, number.
        assert_eq!(DM_DEV_REMOVE, 3 << 30 | 312 << 16 | 0xfd << 8 | 4);
    }

    #[test]
    fn nothing_of_a_fixtures_is_ended() {
        let dir = tempfile::tempdir().unwrap();
        let root = Root::below(dir.path().as_os_str()).unwrap();
        let refused = Err(Errno::OPNOTSUPP);
        assert_eq!(remove_map(&root, Dev(0)), refused);
        assert_eq!(clear_loop(&root, "loop0"), refused);
        assert_eq!(swap_off(&root, "/dev/sda"), refused);
    }
}
