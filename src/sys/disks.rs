//! Whole disks as sysfs shows them: which of them can be IMSM members, what they are called, what is above and on them.
//! No node is opened here but to see whose it is: a hung disk holds nobody up.
//!
//! Sources: Documentation/ABI/stable/sysfs-block, Documentation/ABI/testing/sysfs-bus-pci, mdadm's `platform-intel.c`.

use core::str::FromStr;

use rustix::fs::FileType;
use rustix::io::Errno;

use super::pci::PciAddress;
use super::{Dev, Path, Root};
use crate::name;
use crate::path;
use crate::text::{Printable, Text};

/// The kernel's name of a disk or partition as it stands in /sys/block: `nvme0n1`, `/` as `!`.
pub type Name = Text<32>;

/// A whole disk.
#[derive(Clone, Debug)]
pub struct Disk {
    /// What the kernel calls it.
    pub name: Name,
    /// Its device number.
    pub dev: Dev,
    /// Counts every disk the kernel has seen, so that one that came back is not taken for the old one; 0 before Linux 5.15.
    pub diskseq: u64,
    /// How large it is, in sectors of 512 bytes.
    pub sectors: u64,
    /// Bytes of a logical sector.
    pub sector: u32,
}

/// Calls `each` with every disk that can be an IMSM member: heads of NVMe namespaces and SCSI disks (all of ATA is SCSI
/// to Linux). Nothing else has a serial that mdadm would know: no loop, ram, md, dm, network or virtio disk, no optical one.
pub fn candidates(root: &Root, each: &mut dyn FnMut(Disk)) -> Result<(), Errno> {
    root.entries("/sys/block", |entry| {
        if let (true, Ok(name)) = (is_candidate(entry), core::str::from_utf8(entry))
            && let Ok(disk) = by_name(root, name)
            && disk.sectors > 0
            && root.read_u32(attr(name, "hidden").as_str()).unwrap_or(0) == 0
        {
            each(disk);
        }
        true
    })
}

/// A path of a multipath head (`nvme0c1n1`) is none: the head is.
fn is_candidate(name: &[u8]) -> bool {
    let letters = name.strip_prefix(b"sd").unwrap_or_default();
    let is_scsi = !letters.is_empty() && letters.iter().all(u8::is_ascii_lowercase);
    is_scsi || name::namespace(name).is_some()
}

/// The whole disk the kernel calls `name`. ENOENT: there is none; a partition is none.
pub fn by_name(root: &Root, name: &str) -> Result<Disk, Errno> {
    if name.is_empty() || name.contains('/') || name.starts_with('.') {
        return Err(Errno::NOENT);
    }
    let mut buf = [0; 32];
    let dev = root.read(attr(name, "dev").as_str(), &mut buf)?;
    Ok(Disk {
        name: Text::of(format_args!("{name}")),
        dev: Dev::parse(dev).ok_or(Errno::INVAL)?,
        diskseq: number(root, &attr(name, "diskseq")).unwrap_or(0),
        sectors: number(root, &attr(name, "size")).ok_or(Errno::INVAL)?,
        sector: number(root, &attr(name, "queue/logical_block_size")).unwrap_or(512),
    })
}

/// The disk a person means: `nvme0n1`, `/dev/nvme0n1`, `/dev/disk/by-id/...`. EINVAL: that is a partition.
pub fn named(root: &Root, word: &str) -> Result<Disk, Errno> {
    let name = kernel_name(root, word)?;
    if root.exists(path!("/sys/class/block/{name}/partition").as_str()) {
        return Err(Errno::INVAL);
    }
    by_name(root, name.as_str())
}

/// What the kernel calls the block device that `word` means, by the number of the node it leads to. A fixture has files
/// for nodes: there a link's or the word's own last part must do.
pub fn kernel_name(root: &Root, word: &str) -> Result<Name, Errno> {
    let node = match word.contains('/') {
        true => path!("{word}"),
        false => path!("/dev/{word}"),
    };
    let stat = root.stat(node.as_str())?;
    let mut buf = [0; 512];
    let name = match FileType::from_raw_mode(stat.st_mode) {
        FileType::BlockDevice => {
            let dev = Dev(stat.st_rdev);
            root.link_name(sysfs(dev, "").as_str().trim_end_matches('/'), &mut buf)?
        }
        FileType::RegularFile if root.is_fixture() => {
            root.link_name(node.as_str(), &mut buf).or_else(|_| {
                node.as_str()
                    .rsplit('/')
                    .next()
                    .map(str::as_bytes)
                    .ok_or(Errno::INVAL)
            })?
        }
        _ => return Err(Errno::NOTBLK),
    };
    Ok(Printable(name).to_text())
}

/// The most a SCSI serial may have: more is no serial to mdadm.
const SCSI_SERIAL_MAX: usize = 50;

/// What the disk says its serial is, as it says it: an NVMe controller's (or subsystem's) `serial`, or the payload of the
/// VPD page 0x80 that the kernel keeps of a SCSI or ATA disk (SPC: 4 bytes of head, the last of them the length).
pub fn serial<'b>(root: &Root, dev: Dev, buf: &'b mut [u8; 256]) -> Option<&'b [u8]> {
    let nvme = sysfs(dev, "device/serial");
    let nvme = root.read(nvme.as_str(), &mut *buf).map_or(0, <[u8]>::len);
    if nvme > 0 {
        return buf.get(..nvme);
    }
    let page = sysfs(dev, "device/vpd_pg80");
    let read = root.read(page.as_str(), &mut *buf).ok()?.len();
    let len = usize::from(*buf.get(3)?);
    let payload = buf.get(4..read.min(4 + len))?;
    (1..=SCSI_SERIAL_MAX).contains(&len).then_some(payload)
}

/// What has mdadm take a disk as an IMSM member: the nearest Intel RAID controller above it, SATA in RAID mode (RST, VROC) or a
/// VMD, whose class is RAID too; or the disk itself, an NVMe drive of Intel's. It takes them below an SCU too (driver isci),
/// where firmware says that it does RAID, which is for mdadm to find out. Anywhere else it has to be told to.
pub fn platform(root: &Root, disk: &Disk) -> Option<PciAddress> {
    let name = disk.name.as_str();
    let mut buf = [0; 512];
    let above = root.read_link(attr_of(name).as_str(), &mut buf).ok()?;
    if let Some(found) = raid_controller(root, above) {
        return Some(found);
    }
    // A multipath head hangs below no controller: its subsystem's controllers tell where it really is.
    let mut found = None;
    let _ = root.entries(attr(name, "device").as_str(), |entry| {
        if name::controller(entry).is_some() {
            let link = path!("/sys/class/nvme/{}", Printable(entry));
            let above = root.read_link(link.as_str(), &mut buf);
            found = above.ok().and_then(|above| raid_controller(root, above));
        }
        found.is_none()
    });
    found
}

/// The last function of these kinds among the folders of a sysfs path.
fn raid_controller(root: &Root, above: &[u8]) -> Option<PciAddress> {
    above
        .rsplit(|&b| b == b'/')
        .filter_map(PciAddress::parse)
        .find(|address| {
            let says = |file: &str, value: &[u8]| {
                let path = path!("/sys/bus/pci/devices/{address}/{file}");
                root.read(path.as_str(), &mut [0; 16])
                    .is_ok_and(|text| text.starts_with(value))
            };
            says("vendor", b"0x8086") && (says("class", b"0x0104") || says("class", b"0x0108"))
        })
}

/// Calls `each` with the name of whatever md, dm or bcache device has taken the disk or a partition of it.
pub fn holders(root: &Root, name: &str, each: &mut dyn FnMut(&Name)) -> Result<(), Errno> {
    names_in(root, &attr(name, "holders"), each)?;
    partitions(root, name, &mut |part, _| {
        // One that goes while we look has no holders either.
        let _ = names_in(root, &attr(name, path!("{part}/holders").as_str()), each);
    })
}

/// Whether any has.
pub fn is_held(root: &Root, name: &str) -> bool {
    let mut any = false;
    // Without a folder of holders there are none.
    let _ = holders(root, name, &mut |_| any = true);
    any
}

/// Whether any has taken a disk whose name begins so.
pub fn any_held(root: &Root, prefix: &str) -> bool {
    let mut any = false;
    let _ = root.entries("/sys/block", |entry| {
        any = entry.starts_with(prefix.as_bytes())
            && core::str::from_utf8(entry).is_ok_and(|name| is_held(root, name));
        !any
    });
    any
}

/// Calls `each` with every name in a folder of block devices.
pub fn names_in(root: &Root, dir: &Path, each: &mut dyn FnMut(&Name)) -> Result<(), Errno> {
    root.entries(dir.as_str(), |name| {
        each(&Printable(name).to_text());
        true
    })
}

/// Calls `each` with the name and the number of every partition of the disk (or array) `name`.
pub fn partitions(root: &Root, name: &str, each: &mut dyn FnMut(&Name, u32)) -> Result<(), Errno> {
    root.entries(attr_of(name).as_str(), |entry| {
        if entry.starts_with(name.as_bytes()) {
            let part: Name = Printable(entry).to_text();
            let file = attr(name, path!("{part}/partition").as_str());
            if let Some(number) = root.read_u32(file.as_str()) {
                each(&part, number);
            }
        }
        true
    })
}

fn attr_of(name: &str) -> Path {
    path!("/sys/block/{name}")
}

fn attr(name: &str, file: &str) -> Path {
    path!("/sys/block/{name}/{file}")
}

fn sysfs(dev: Dev, file: &str) -> Path {
    path!("/sys/dev/block/{}:{}/{file}", dev.major(), dev.minor())
}

/// The decimal number in a small file.
fn number<T: FromStr>(root: &Root, path: &Path) -> Option<T> {
    let mut buf = [0; 32];
    let text = root.read(path.as_str(), &mut buf).ok()?;
    core::str::from_utf8(text).ok()?.parse().ok()
}

#[cfg(test)]
mod tests;
