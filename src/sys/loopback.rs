//! What a loop device is on, in its own words (loop(4), LOOP_GET_STATUS64).
#![allow(unsafe_code)]

use rustix::fd::OwnedFd;
use rustix::fs::OFlags;
use rustix::io::Errno;
use rustix::ioctl::{Updater, ioctl};

use super::{Dev, Root};

/// `struct loop_info64` of linux/loop.h.
#[repr(C)]
struct LoopInfo64 {
    device: u64,
    inode: u64,
    rdevice: u64,
    offset: u64,
    sizelimit: u64,
    numbers: [u32; 4],
    names: [u8; 64 + 64 + 32],
    init: [u64; 2],
}

/// `LOOP_GET_STATUS64`
const LOOP_GET_STATUS64: rustix::ioctl::Opcode = 0x4c05;

/// The block device that the loop device at `path` is on; none for one on a file, or that cannot be asked.
pub(super) fn backing_device(root: &Root, path: &str) -> Option<Dev> {
    if root.is_fixture() {
        return None;
    }
    let fd = root.open(path, OFlags::RDONLY | OFlags::NONBLOCK).ok()?;
    let info = status(&fd).ok()?;
    // Encoded as stat(2) does (huge_encode_dev), for every major there is.
    (info.rdevice != 0).then_some(Dev(info.rdevice))
}

fn status(fd: &OwnedFd) -> Result<LoopInfo64, Errno> {
    let mut info = LoopInfo64 {
        device: 0,
        inode: 0,
        rdevice: 0,
        offset: 0,
        sizelimit: 0,
        numbers: [0; 4],
        names: [0; 160],
        init: [0; 2],
    };
    // SAFETY: LOOP_GET_STATUS64 writes one struct loop_info64, which LoopInfo64 is to the letter.
    unsafe { ioctl(fd, Updater::<LOOP_GET_STATUS64, LoopInfo64>::new(&mut info)) }?;
    Ok(info)
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_status_has_the_size_the_kernel_copies() {
        assert_eq!(size_of::<super::LoopInfo64>(), 232);
    }
}
