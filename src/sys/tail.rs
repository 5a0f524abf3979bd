//! The end of a disk or of a file, and what a disk says of itself: for reading metadata, never for writing.
#![allow(unsafe_code)]

use rustix::fd::OwnedFd;
use rustix::fs::{FileType, OFlags};
use rustix::io::Errno;
use rustix::ioctl::{Getter, ioctl, opcode};

use super::{Dev, Root};
use crate::path;

/// Something with an end, open for reading.
pub struct Tail {
    fd: OwnedFd,
    bytes: u64,
    disk: Option<Disk>,
}

/// What only a disk has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Disk {
    /// Bytes of a logical sector.
    pub sector: u32,
    /// It is a partition.
    pub is_partition: bool,
    dev: Dev,
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
            fd,
            disk: None,
        }),
        FileType::BlockDevice if !root.is_fixture() => {
            let dev = Dev(stat.st_rdev);
            let partition = sysfs(dev, "partition");
            Ok(Tail {
                bytes: size(&fd)?,
                disk: Some(Disk {
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

impl Tail {
    /// How large all of it is.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// What only a disk has; `None` for a file.
    pub fn disk(&self) -> Option<Disk> {
        self.disk
    }

    /// Reads its last `buf.len()` bytes. EIO: it is shorter, or has become so.
    pub fn read(&self, buf: &mut [u8]) -> Result<(), Errno> {
        let mut at = self.bytes.checked_sub(buf.len() as u64).ok_or(Errno::IO)?;
        let mut rest = buf;
        while !rest.is_empty() {
            let n = rustix::io::retry_on_intr(|| rustix::io::pread(&self.fd, &mut *rest, at))?;
            if n == 0 {
                return Err(Errno::IO);
            }
            at += n as u64;
            rest = rest
                .split_at_mut_checked(n)
                .map_or(&mut [], |(_, rest)| rest);
        }
        Ok(())
    }
}

/// The most a SCSI serial may have: more is no serial to mdadm.
const SCSI_SERIAL_MAX: usize = 50;

impl Disk {
    /// What it says its serial is, as it says it: an NVMe controller's (or subsystem's) `serial`, or the payload of the VPD
    /// page 0x80 that the kernel keeps of a SCSI or ATA disk (SPC: 4 bytes of head, the last of them the length).
    pub fn serial<'b>(&self, root: &Root, buf: &'b mut [u8; 256]) -> Option<&'b [u8]> {
        let nvme = sysfs(self.dev, "device/serial");
        let nvme = root.read(nvme.as_str(), &mut *buf).map_or(0, <[u8]>::len);
        if nvme > 0 {
            return buf.get(..nvme);
        }
        let page = sysfs(self.dev, "device/vpd_pg80");
        let read = root.read(page.as_str(), &mut *buf).ok()?.len();
        let len = usize::from(*buf.get(3)?);
        let payload = buf.get(4..read.min(4 + len))?;
        (1..=SCSI_SERIAL_MAX).contains(&len).then_some(payload)
    }
}

fn sysfs(dev: Dev, file: &str) -> super::Path {
    path!("/sys/dev/block/{}:{}/{file}", dev.major(), dev.minor())
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
    fn serials_of_sysfs() {
        let dir = tempfile::tempdir().unwrap();
        let at = |minor: u32| dir.path().join(format!("sys/dev/block/8:{minor}/device"));
        for minor in 0..4 {
            std::fs::create_dir_all(at(minor)).unwrap();
        }
        std::fs::write(at(0).join("serial"), "S4EVNX0M      \n").unwrap();
        std::fs::write(at(1).join("vpd_pg80"), b"\0\x80\0\x08  WD-1234trailing").unwrap();
        std::fs::write(at(2).join("vpd_pg80"), b"\0\x80\0\0").unwrap();
        let root = Root::below(dir.path().as_os_str()).unwrap();
        let serial = |minor| {
            let disk = Disk {
                sector: 512,
                is_partition: false,
                dev: Dev(rustix::fs::makedev(8, minor)),
            };
            let mut buf = [0; 256];
            disk.serial(&root, &mut buf).map(<[u8]>::to_vec)
        };
        assert_eq!(serial(0), Some(b"S4EVNX0M".to_vec()));
        assert_eq!(serial(1), Some(b"  WD-123".to_vec()));
        assert_eq!(serial(2), None);
        assert_eq!(serial(3), None);
    }
}
