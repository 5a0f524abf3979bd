//! Partitions of a disk that is about to be a member: what the kernel found there is a volume's, or nothing's.
//!
//! The first half of a mirror begins like a disk with a partition table, and the kernel, which reads that when the disk
//! comes, shows partitions of one half. Somebody could mount one. mdadm removes them before it binds a disk, and so does
//! quell: the kernel's idea of them only, nothing on the disk.
#![allow(unsafe_code)]

use core::ffi::{c_char, c_int, c_longlong};

use rustix::fd::OwnedFd;
use rustix::fs::OFlags;
use rustix::io::Errno;
use rustix::ioctl::{Opcode, Setter, ioctl};

use super::Root;
use super::disks::Disk;
use crate::path;

/// BLKPG of linux/blkpg.h: `_IO(0x12, 105)`.
const BLKPG: Opcode = 0x1269;
const BLKPG_DEL_PARTITION: c_int = 2;

/// `struct blkpg_ioctl_arg`
#[repr(C)]
struct Argument {
    op: c_int,
    flags: c_int,
    datalen: c_int,
    data: *const Partition,
}

/// `struct blkpg_partition`
#[repr(C)]
struct Partition {
    start: c_longlong,
    length: c_longlong,
    pno: c_int,
    devname: [c_char; 64],
    volname: [c_char; 64],
}

/// Has the kernel forget the partitions of `disk`. EBUSY: one is open. Opens the disk, so only a worker may call it.
pub fn forget(root: &Root, disk: &Disk) -> Result<(), Errno> {
    let name = disk.name.as_str();
    let mut numbers: heapless::Vec<u32, 256> = heapless::Vec::new();
    root.entries(path!("/sys/block/{name}").as_str(), |entry| {
        if entry.starts_with(name.as_bytes())
            && let Ok(entry) = core::str::from_utf8(entry)
            && let Some(number) =
                root.read_u32(path!("/sys/block/{name}/{entry}/partition").as_str())
        {
            // The kernel has no more.
            let _ = numbers.push(number);
        }
        true
    })?;
    if numbers.is_empty() || root.is_fixture() {
        return Ok(());
    }
    let fd = root.open(
        path!("/dev/{name}").as_str(),
        OFlags::RDONLY | OFlags::NONBLOCK,
    )?;
    if rustix::fs::fstat(&fd)?.st_rdev != disk.dev.0 {
        return Err(Errno::NODEV);
    }
    numbers
        .iter()
        .try_for_each(|&number| match delete(&fd, number) {
            Err(Errno::NXIO) => Ok(()),
            other => other,
        })
}

fn delete(fd: &OwnedFd, number: u32) -> Result<(), Errno> {
    let partition = Partition {
        start: 0,
        length: 0,
        pno: c_int::try_from(number).map_err(|_| Errno::INVAL)?,
        devname: [0; 64],
        volname: [0; 64],
    };
    let argument = Argument {
        op: BLKPG_DEL_PARTITION,
        flags: 0,
        datalen: c_int::try_from(size_of::<Partition>()).map_err(|_| Errno::INVAL)?,
        data: &partition,
    };
    // SAFETY: BLKPG reads a blkpg_ioctl_arg and the blkpg_partition it points to, both of which live until it returns.
    unsafe { ioctl(fd, Setter::<BLKPG, Argument>::new(argument)) }
}
