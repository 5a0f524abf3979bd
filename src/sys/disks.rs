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

/// The nearest Intel RAID controller above a disk: SATA in RAID mode (RST, VROC), or a VMD, whose class is RAID too. mdadm
/// takes IMSM members nowhere else unless it is told to.
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

/// The last function of that kind among the folders of a sysfs path.
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
            says("vendor", b"0x8086") && says("class", b"0x0104")
        })
}

/// Calls `each` with the name of whatever md, dm or bcache device has taken the disk or a partition of it.
pub fn holders(root: &Root, name: &str, each: &mut dyn FnMut(&Name)) -> Result<(), Errno> {
    holders_in(root, &attr(name, "holders"), each)?;
    partitions(root, name, &mut |part, _| {
        // One that goes while we look has no holders either.
        let _ = holders_in(root, &attr(name, path!("{part}/holders").as_str()), each);
    })
}

fn holders_in(root: &Root, dir: &Path, each: &mut dyn FnMut(&Name)) -> Result<(), Errno> {
    root.entries(dir.as_str(), |holder| {
        each(&Printable(holder).to_text());
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
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::fs::{create_dir_all, write};
    use std::os::unix::fs::symlink;
    use tempfile::TempDir;

    fn fixture(files: &[(&str, &str)]) -> (TempDir, Root) {
        let dir = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = dir.path().join(path);
            create_dir_all(path.parent().unwrap()).unwrap();
            write(path, text).unwrap();
        }
        let root = Root::below(dir.path().as_os_str()).unwrap();
        (dir, root)
    }

    fn names(root: &Root) -> Vec<String> {
        let mut names = Vec::new();
        candidates(root, &mut |disk| names.push(disk.name.to_string())).unwrap();
        names.sort();
        names
    }

    #[test]
    fn only_what_can_be_a_member_is_a_candidate() {
        let dir = tempfile::tempdir().unwrap();
        let yes = ["nvme0n1", "nvme10n2", "sda", "sdaa"];
        let no = [
            "nvme0c1n1",
            "loop0",
            "ram1",
            "zram0",
            "md127",
            "dm-0",
            "sr0",
            "fd0",
            "nbd0",
            "vda",
            "mmcblk0",
            "sd",
            "sda1",
            "nvme0n1p1",
            "xvda",
            "pmem0",
        ];
        for name in yes.iter().chain(&no) {
            let at = dir.path().join("sys/block").join(name);
            create_dir_all(&at).unwrap();
            write(at.join("dev"), "259:0\n").unwrap();
            write(at.join("size"), "2048\n").unwrap();
        }
        let at = |file: &str| dir.path().join("sys/block").join(file);
        for (name, file, text) in [("sdb", "size", "0\n"), ("nvme7n1", "hidden", "1\n")] {
            create_dir_all(at(name)).unwrap();
            write(at(name).join("dev"), "8:1\n").unwrap();
            write(at(name).join("size"), "2048\n").unwrap();
            write(at(name).join(file), text).unwrap();
        }
        create_dir_all(at("sda/queue")).unwrap();
        write(at("sda/queue/logical_block_size"), "4096\n").unwrap();
        write(at("sda/diskseq"), "17\n").unwrap();
        let root = Root::below(dir.path().as_os_str()).unwrap();
        assert_eq!(names(&root), yes);
        let disk = by_name(&root, "sda").unwrap();
        assert_eq!((disk.sectors, disk.sector, disk.diskseq), (2048, 4096, 17));
        let disk = by_name(&root, "nvme0n1").unwrap();
        assert_eq!((disk.sector, disk.diskseq), (512, 0));
        assert_eq!(by_name(&root, "../block/sda").err(), Some(Errno::NOENT));
    }

    #[test]
    fn disks_as_people_name_them() {
        let (dir, root) = fixture(&[
            ("sys/block/nvme0n1/dev", "259:1\n"),
            ("sys/block/nvme0n1/size", "2048\n"),
            ("sys/class/block/nvme0n1p1/partition", "1\n"),
            ("dev/nvme0n1", ""),
            ("dev/nvme0n1p1", ""),
            ("dev/null/x", ""),
        ]);
        create_dir_all(dir.path().join("dev/disk/by-id")).unwrap();
        symlink("../../nvme0n1", dir.path().join("dev/disk/by-id/x")).unwrap();
        for word in ["nvme0n1", "/dev/nvme0n1", "/dev/disk/by-id/x"] {
            assert_eq!(named(&root, word).unwrap().name.as_str(), "nvme0n1");
        }
        assert_eq!(named(&root, "nvme0n1p1").err(), Some(Errno::INVAL));
        assert_eq!(named(&root, "sda").err(), Some(Errno::NOENT));
        assert_eq!(named(&root, "/dev/null").err(), Some(Errno::NOTBLK));
    }

    #[test]
    fn serials_of_sysfs() {
        let dir = tempfile::tempdir().unwrap();
        let at = |minor: u32| dir.path().join(format!("sys/dev/block/8:{minor}/device"));
        for minor in 0..4 {
            create_dir_all(at(minor)).unwrap();
        }
        write(at(0).join("serial"), "S4EVNX0M      \n").unwrap();
        write(at(1).join("vpd_pg80"), b"\0\x80\0\x08  WD-1234trailing").unwrap();
        write(at(2).join("vpd_pg80"), b"\0\x80\0\0").unwrap();
        let root = Root::below(dir.path().as_os_str()).unwrap();
        let serial = |minor| {
            let mut buf = [0; 256];
            serial(&root, Dev(rustix::fs::makedev(8, minor)), &mut buf).map(<[u8]>::to_vec)
        };
        assert_eq!(serial(0), Some(b"S4EVNX0M".to_vec()));
        assert_eq!(serial(1), Some(b"  WD-123".to_vec()));
        assert_eq!(serial(2), None);
        assert_eq!(serial(3), None);
    }

    #[test]
    fn the_controller_above() {
        let (dir, root) = fixture(&[
            ("sys/bus/pci/devices/0000:00:0e.0/vendor", "0x8086\n"),
            ("sys/bus/pci/devices/0000:00:0e.0/class", "0x010400\n"),
            ("sys/bus/pci/devices/10000:e1:00.0/vendor", "0x144d\n"),
            ("sys/bus/pci/devices/10000:e1:00.0/class", "0x010802\n"),
            ("sys/bus/pci/devices/0000:00:17.0/vendor", "0x8086\n"),
            ("sys/bus/pci/devices/0000:00:17.0/class", "0x010400\n"),
            ("sys/bus/pci/devices/0000:00:1f.2/vendor", "0x8086\n"),
            ("sys/bus/pci/devices/0000:00:1f.2/class", "0x010601\n"),
            ("sys/bus/pci/devices/0000:03:00.0/vendor", "0x1000\n"),
            ("sys/bus/pci/devices/0000:03:00.0/class", "0x010400\n"),
            ("sys/block/x", ""),
            ("sys/class/nvme/x", ""),
        ]);
        let vmd =
            "../devices/pci0000:00/0000:00:0e.0/pci10000:e0/10000:e0:06.0/10000:e1:00.0/nvme/nvme2";
        let ata = |address: &str| {
            format!("../devices/pci0000:00/{address}/ata1/host0/target0:0:0/0:0:0:0/block/sda")
        };
        let head = "devices/virtual/nvme-subsystem/nvme-subsys3";
        let links = [
            ("block/nvme2n1", format!("{vmd}/nvme2n1")),
            ("block/sda", ata("0000:00:17.0")),
            ("block/sdb", ata("0000:00:1f.2")),
            ("block/sdc", ata("0000:03:00.0")),
            ("block/nvme3n1", format!("../{head}/nvme3n1")),
            ("class/nvme/nvme2", format!("../{vmd}")),
        ];
        for (link, to) in links {
            symlink(to, dir.path().join("sys").join(link)).unwrap();
        }
        let head = dir.path().join("sys").join(head);
        create_dir_all(head.join("nvme3n1")).unwrap();
        create_dir_all(head.join("nvme2")).unwrap();
        symlink("..", head.join("nvme3n1/device")).unwrap();
        let above = |name| {
            let disk = Disk {
                name: Text::of(format_args!("{name}")),
                dev: Dev(0),
                diskseq: 0,
                sectors: 0,
                sector: 512,
            };
            platform(&root, &disk).map(|address| address.to_string())
        };
        assert_eq!(above("nvme2n1").as_deref(), Some("0000:00:0e.0"));
        assert_eq!(above("nvme3n1").as_deref(), Some("0000:00:0e.0"));
        assert_eq!(above("sda").as_deref(), Some("0000:00:17.0"));
        assert_eq!(above("sdb"), None);
        assert_eq!(above("sdc"), None);
        assert_eq!(above("sdd"), None);
    }

    #[test]
    fn holders_of_a_disk_and_its_partitions() {
        let (_dir, root) = fixture(&[
            ("sys/block/sda/holders/md127/x", ""),
            ("sys/block/sda/sda1/partition", "1\n"),
            ("sys/block/sda/sda1/holders/dm-0/x", ""),
            ("sys/block/sda/sda_not/holders/dm-1/x", ""),
        ]);
        let mut seen = Vec::new();
        holders(&root, "sda", &mut |name| seen.push(name.to_string())).unwrap();
        assert_eq!(seen, ["md127", "dm-0"]);
        assert!(holders(&root, "sdb", &mut |_| ()).is_err());
    }
}
