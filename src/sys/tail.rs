//! The end of a disk or of a file, for reading metadata, never for writing.
//!
//! Disks are read past the page cache (open(2), O_DIRECT): md writes to its members below it, so what an earlier read left
//! there is stale.
#![allow(unsafe_code)]

use rustix::fd::OwnedFd;
use rustix::fs::{FileType, OFlags};
use rustix::io::Errno;
use rustix::ioctl::{Getter, ioctl, opcode};

use super::disks::Disk;
use super::{Dev, Root};
use crate::path;

/// Something with an end, open for reading.
pub struct Tail {
    fd: OwnedFd,
    bytes: u64,
    /// A fixture's file has only the end of its disk: what is before.
    before: u64,
    disk: Option<Device>,
}

/// What only a block device has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Device {
    /// Bytes of a logical sector.
    pub sector: u32,
    /// It is a partition.
    pub is_partition: bool,
    /// Its number.
    pub dev: Dev,
}

/// Opens a block device or a file. EOPNOTSUPP: it is neither, or it is a device below a fixture root, which is asked
/// nothing.
pub fn open(root: &Root, path: &str) -> Result<Tail, Errno> {
    // A FIFO would wait for somebody to write; a device is not asked to wait either.
    let fd = root.open(path, OFlags::RDONLY | OFlags::NONBLOCK)?;
    let stat = rustix::fs::fstat(&fd)?;
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => Ok(Tail {
            bytes: u64::try_from(stat.st_size).unwrap_or(0),
            before: 0,
            fd,
            disk: None,
        }),
        FileType::BlockDevice if !root.is_fixture() => {
            let dev = Dev(stat.st_rdev);
            let partition = path!("/sys/dev/block/{}:{}/partition", dev.major(), dev.minor());
            read_past_cache(&fd);
            Ok(Tail {
                bytes: size(&fd)?,
                before: 0,
                disk: Some(Device {
                    sector: rustix::fs::ioctl_blksszget(&fd)?,
                    is_partition: root.exists(partition.as_str()),
                    dev,
                }),
                fd,
            })
        }
        _ => Err(Errno::OPNOTSUPP),
    }
}

/// Opens the disk that sysfs showed; blocks where it hangs. ENODEV: the node is another device's. Below a fixture root the
/// file in the node's place is the disk, or the last of it.
pub fn open_disk(root: &Root, disk: &Disk) -> Result<Tail, Errno> {
    let node = path!("/dev/{}", disk.name);
    let fd = root.open(node.as_str(), OFlags::RDONLY | OFlags::NONBLOCK)?;
    let stat = rustix::fs::fstat(&fd)?;
    let bytes = disk.sectors.saturating_mul(512);
    let before = match FileType::from_raw_mode(stat.st_mode) {
        FileType::BlockDevice if !root.is_fixture() && stat.st_rdev == disk.dev.0 => {
            read_past_cache(&fd);
            0
        }
        FileType::RegularFile if root.is_fixture() => {
            bytes.saturating_sub(u64::try_from(stat.st_size).unwrap_or(0))
        }
        _ => return Err(Errno::NODEV),
    };
    Ok(Tail {
        fd,
        bytes,
        before,
        disk: Some(Device {
            sector: disk.sector,
            is_partition: false,
            dev: disk.dev,
        }),
    })
}

/// Where that cannot be, the cache will do.
fn read_past_cache(fd: &OwnedFd) {
    if let Ok(flags) = rustix::fs::fcntl_getfl(fd) {
        let _ = rustix::fs::fcntl_setfl(fd, flags | OFlags::DIRECT);
    }
}

/// What O_DIRECT asks for: memory and position at multiples of the largest sectors that hold metadata.
#[repr(align(4096))]
struct Aligned([u8; 4 * Self::UNIT as usize]);

impl Aligned {
    const UNIT: u64 = 4096;
}

impl Tail {
    /// How large all of it is.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// What only a block device has; `None` for a file.
    pub fn disk(&self) -> Option<Device> {
        self.disk
    }

    /// Reads its last `buf.len()` bytes. EIO: it is shorter, or has become so.
    pub fn read(&self, buf: &mut [u8]) -> Result<(), Errno> {
        let at = self.bytes.checked_sub(buf.len() as u64).ok_or(Errno::IO)?;
        self.read_bytes(at, buf)
    }

    /// Fills `buf` from that sector of 512 bytes on. EIO: there is not as much.
    pub fn read_at(&self, sector: u64, buf: &mut [u8]) -> Result<(), Errno> {
        self.read_bytes(sector.checked_mul(512).ok_or(Errno::IO)?, buf)
    }

    fn read_bytes(&self, at: u64, buf: &mut [u8]) -> Result<(), Errno> {
        let mut at = at.checked_sub(self.before).ok_or(Errno::IO)?;
        let mut rest = buf;
        let mut aligned = Aligned([0; _]);
        while !rest.is_empty() {
            let skip = at % Aligned::UNIT;
            let n = self.read_aligned(at - skip, &mut aligned)?;
            // As much as sectors of 4096 bytes could shift it, so it is small.
            let skip = usize::try_from(skip).unwrap_or(usize::MAX);
            let found = aligned.0.get(skip..n).unwrap_or_default();
            let n = found.len().min(rest.len());
            let (now, later) = rest.split_at_mut_checked(n).ok_or(Errno::IO)?;
            now.copy_from_slice(
                found
                    .get(..n)
                    .filter(|found| !found.is_empty())
                    .ok_or(Errno::IO)?,
            );
            at += n as u64;
            rest = later;
        }
        Ok(())
    }

    fn read_aligned(&self, at: u64, buf: &mut Aligned) -> Result<usize, Errno> {
        loop {
            let read = rustix::io::retry_on_intr(|| rustix::io::pread(&self.fd, &mut buf.0, at));
            let flags = rustix::fs::fcntl_getfl(&self.fd)?;
            if read != Err(Errno::INVAL) || !flags.contains(OFlags::DIRECT) {
                return read;
            }
            rustix::fs::fcntl_setfl(&self.fd, flags - OFlags::DIRECT)?;
        }
    }
}

/// BLKGETSIZE64 of linux/fs.h: bytes of a block device.
fn size(fd: &OwnedFd) -> Result<u64, Errno> {
    // The kernel's number is made with size_t, what it stores is a u64.
    const OPCODE: rustix::ioctl::Opcode = opcode::read::<usize>(0x12, 114);
    // SAFETY: BLKGETSIZE64 stores a u64 and reads nothing.
    unsafe { ioctl(fd, Getter::<OPCODE, u64>::new()) }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn the_end_of_a_file() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("f"), "0123456789").unwrap();
        let root = Root::below(dir.path().as_os_str()).unwrap();
        let tail = open(&root, "f").unwrap();
        assert_eq!((tail.bytes(), tail.disk()), (10, None));
        let mut buf = [0; 4];
        tail.read(&mut buf).unwrap();
        assert_eq!(&buf, b"6789");
        assert_eq!(tail.read(&mut [0; 11]).err(), Some(Errno::IO));
        assert_eq!(open(&root, "none").err(), Some(Errno::NOENT));
        assert_eq!(open(&root, ".").err(), Some(Errno::OPNOTSUPP));
    }
    #[test]
    fn a_fixtures_file_is_the_last_of_its_disk() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("dev")).unwrap();
        let content: Vec<u8> = (0..40_000u32).map(|i| (i % 251) as u8).collect();
        std::fs::write(dir.path().join("dev/sda"), &content).unwrap();
        let root = Root::below(dir.path().as_os_str()).unwrap();
        let disk = |sectors| Disk {
            name: crate::text::Text::of(format_args!("sda")),
            dev: Dev(0),
            diskseq: 0,
            sectors,
            sector: 4096,
        };
        let tail = open_disk(&root, &disk(1000)).unwrap();
        assert_eq!((tail.bytes(), tail.disk().unwrap().sector), (512_000, 4096));
        let mut buf = [0; 30_000];
        tail.read(&mut buf).unwrap();
        assert_eq!(buf, content[10_000..]);
        let mut buf = [0; 512];
        tail.read_at(999, &mut buf).unwrap();
        assert_eq!(buf, content[40_000 - 512..]);
        assert_eq!(tail.read_at(1000, &mut buf).err(), Some(Errno::IO));
        assert_eq!(tail.read_at(0, &mut buf).err(), Some(Errno::IO));
        assert_eq!(tail.read_at(u64::MAX, &mut buf).err(), Some(Errno::IO));
    }
}
