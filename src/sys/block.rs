//! Block device nodes: the exclusive open that keeps others out, the flush that keeps data in, and the flag that says read-only.
#![allow(unsafe_code)]

use rustix::fd::OwnedFd;
use rustix::fs::{FileType, OFlags};
use rustix::io::Errno;
use rustix::ioctl::{Opcode, Setter, ioctl};

use super::nvme::Namespace;
use super::{Dev, Root};
use crate::name::Key;
use crate::path;

/// A namespace that nobody else uses and, as long as this lives, nobody else can claim: open(2) with O_EXCL on a block
/// device claims it with all its partitions, and gets EBUSY where a mount, md, dm, swap, zfs, btrfs, bcachefs, drbd or
/// an LIO iblock has claimed it or one of them (block/bdev.c, bd_prepare_to_claim).
///
/// It must be dropped only after the unbind has returned.
pub struct Held {
    fd: OwnedFd,
    key: Key,
}

/// Claims `ns`. Blocks where the device does, so only a worker may call it.
///
/// EBUSY: somebody has it. ENODEV: the node is another device's, which is as good as none.
pub fn hold(root: &Root, ns: &Namespace) -> Result<Held, Errno> {
    let fd = open(
        root,
        path!("/dev/{}", ns.key).as_str(),
        ns.dev,
        OFlags::EXCL,
    )?;
    Ok(Held { fd, key: ns.key })
}

impl Held {
    /// Which namespace it is.
    pub fn key(&self) -> Key {
        self.key
    }

    /// Writes out what the page cache holds and has the drive commit it. The partitions come first: each has a page
    /// cache of its own. Without this the dirty pages are thrown away, since the driver sets the capacity to 0 before
    /// it drops the disk.
    pub fn flush(&self, root: &Root) -> Result<(), Errno> {
        let mut result = Ok(());
        let key = self.key;
        let prefix = path!("{key}p");
        let listed = root.entries(path!("/sys/class/block/{key}").as_str(), |entry| {
            if entry.starts_with(prefix.as_str().as_bytes()) && result.is_ok() {
                result = flush_partition(root, key, entry);
            }
            true
        });
        result?;
        match listed {
            // The namespace went while we held it: there is nothing left to write to.
            Ok(()) | Err(Errno::NOENT) => {}
            Err(errno) => return Err(errno),
        }
        rustix::fs::fsync(&self.fd)
    }
}

fn flush_partition(root: &Root, key: Key, name: &[u8]) -> Result<(), Errno> {
    let name = core::str::from_utf8(name).map_err(|_| Errno::INVAL)?;
    let mut buf = [0; 32];
    let read = root.read(
        path!("/sys/class/block/{key}/{name}/dev").as_str(),
        &mut buf,
    );
    let dev = match read {
        Ok(text) => Dev::parse(text).ok_or(Errno::INVAL)?,
        Err(Errno::NOENT) => return Ok(()),
        Err(errno) => return Err(errno),
    };
    let fd = open(root, path!("/dev/{name}").as_str(), dev, OFlags::empty())?;
    rustix::fs::fsync(fd)
}

/// Opens a block device node read-only and checks that it is the device it says.
fn open(root: &Root, path: &str, dev: Dev, more: OFlags) -> Result<OwnedFd, Errno> {
    let fd = root.open(path, OFlags::RDONLY | more)?;
    if !root.is_fixture() {
        let stat = rustix::fs::fstat(&fd)?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::BlockDevice || stat.st_rdev != dev.0 {
            return Err(Errno::NODEV);
        }
    }
    Ok(fd)
}

/// BLKROSET of linux/fs.h: `_IO(0x12, 93)`.
const BLKROSET: Opcode = 0x125d;

/// Has the kernel call the device `name` read-only. That stops no write; who asks first, as XFS does before it writes to the log of
/// a file system that is read-only itself, lets it be. Of an array or a map nothing else changes. Blocks where the device
/// does, so only a worker may call it.
pub fn set_readonly(root: &Root, name: &str, dev: Dev) -> Result<(), Errno> {
    let fd = open(root, path!("/dev/{name}").as_str(), dev, OFlags::empty())?;
    if root.is_fixture() {
        return Err(Errno::OPNOTSUPP);
    }
    // SAFETY: BLKROSET reads a c_int, which lives until it returns.
    unsafe { ioctl(&fd, Setter::<BLKROSET, core::ffi::c_int>::new(1)) }
}
