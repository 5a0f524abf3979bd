//! Disks of every kind, and what is above and on them.
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
        ("sys/bus/pci/devices/0000:05:00.0/vendor", "0x8086\n"),
        ("sys/bus/pci/devices/0000:05:00.0/class", "0x010802\n"),
        ("sys/bus/pci/devices/0000:06:00.0/vendor", "0x144d\n"),
        ("sys/bus/pci/devices/0000:06:00.0/class", "0x010802\n"),
        ("sys/bus/pci/devices/0000:07:00.0/vendor", "0x8086\n"),
        ("sys/bus/pci/devices/0000:07:00.0/class", "0x010700\n"),
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
    let nvme =
        |address: &str| format!("../devices/pci0000:00/0000:00:01.0/{address}/nvme/nvme0/nvme0n1");
    let head = "devices/virtual/nvme-subsystem/nvme-subsys3";
    let links = [
        ("block/nvme2n1", format!("{vmd}/nvme2n1")),
        ("block/sda", ata("0000:00:17.0")),
        ("block/sdb", ata("0000:00:1f.2")),
        ("block/sdc", ata("0000:03:00.0")),
        ("block/sde", ata("0000:07:00.0")),
        ("block/nvme3n1", format!("../{head}/nvme3n1")),
        ("block/nvme5n1", nvme("0000:05:00.0")),
        ("block/nvme6n1", nvme("0000:06:00.0")),
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
    // An NVMe drive of Intel's own, another maker's, and an SCU, whose firmware mdadm asks.
    assert_eq!(above("nvme5n1").as_deref(), Some("0000:05:00.0"));
    assert_eq!(above("nvme6n1"), None);
    assert_eq!(above("sde"), None);
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
