//! What is mounted, and ways to end that (proc(5) for mountinfo, umount(2), mount(2)).
//!
//! All but the reading may block, so only workers may do it.

use rustix::io::Errno;
use rustix::mount::{MountFlags, UnmountFlags, mount, mount_remount, unmount};

use super::disks::{self, Name};
use super::{Dev, Path, Root};
use crate::path;
use crate::text::{Printable, Text};

/// One mount.
#[derive(Clone, Debug)]
pub struct Mount {
    /// Where it is.
    pub point: Path,
    /// Nothing can be written to its file system, wherever else that may be mounted.
    pub readonly: bool,
    /// It is a window into the kernel, or memory: there is nothing in it to lose.
    pub is_virtual: bool,
    /// Programs on it may not be run.
    pub noexec: bool,
}

/// File systems that are on no disk and no other machine (/proc/filesystems, what systemd and dracut mount at start).
const VIRTUAL: &[&[u8]] = &[
    b"autofs",
    b"binfmt_misc",
    b"bpf",
    b"cgroup",
    b"cgroup2",
    b"configfs",
    b"debugfs",
    b"devpts",
    b"devtmpfs",
    b"efivarfs",
    b"fusectl",
    b"hugetlbfs",
    b"mqueue",
    b"nsfs",
    b"proc",
    b"pstore",
    b"ramfs",
    b"rootfs",
    b"rpc_pipefs",
    b"securityfs",
    b"selinuxfs",
    b"sysfs",
    b"tmpfs",
    b"tracefs",
];

/// Calls `each` with every mount, in the kernel's order: what is mounted on another comes after it. EINVAL: there is one that
/// was not understood, or whose path is too long; it is not among them.
pub fn each(root: &Root, each: &mut dyn FnMut(Mount)) -> Result<(), Errno> {
    let mut garbled = false;
    lines(root, &mut |_, mount| match mount {
        Some(mount) => each(mount),
        None => garbled = true,
    })?;
    match garbled {
        true => Err(Errno::INVAL),
        false => Ok(()),
    }
}

/// Calls `each` with the kernel's name of every block device that something mounted is known to be on, and the mount.
pub fn devices(root: &Root, each: &mut dyn FnMut(&Name, &Mount)) -> Result<(), Errno> {
    lines(root, &mut |line, mount| {
        if let Some(mount) = mount {
            let _ = devices_of(root, line, &mut |name| each(name, &mount));
        }
    })
}

fn lines(root: &Root, each: &mut dyn FnMut(&[u8], Option<Mount>)) -> Result<(), Errno> {
    root.lines::<8192>("/proc/self/mountinfo", |line| each(line, parse(line)))
}

/// btrfs and others show a number of no device: then the source says which it is, one of them (`/dev/sda1`), or all
/// (`/dev/sda1:/dev/sdb1`). More stand among the options: XFS' `logdev=/dev/sdc1`.
fn devices_of(root: &Root, line: &[u8], each: &mut dyn FnMut(&Name)) -> Option<()> {
    let mut fields = line.split(|&b| b == b' ');
    let dev = Dev::parse(fields.nth(2)?)?;
    let mut behind = fields.skip_while(|field| *field != b"-").skip(1);
    let kind = behind.next()?;
    let source = behind.next()?;
    let options = behind.next()?;
    if dev.major() != 0 {
        let link = path!("/sys/dev/block/{}:{}", dev.major(), dev.minor());
        let mut buf = [0; 512];
        each(&Printable(root.link_name(link.as_str(), &mut buf).ok()?).to_text());
    } else if let Some(name) = device_at(root, source) {
        each(&name);
        if kind == b"btrfs" {
            btrfs(root, &name, each);
        }
    } else if source.starts_with(b"/dev/") {
        paths_in(root, source, each);
    }
    paths_in(root, options, each);
    Some(())
}

/// Calls `each` with the devices among the words in `text`.
fn paths_in(root: &Root, text: &[u8], each: &mut dyn FnMut(&Name)) {
    for word in text.split(|b| b",:=".contains(b)) {
        if let Some(name) = device_at(root, word) {
            each(&name);
        }
    }
}

/// Only nodes below /dev are looked at: any other path may lie on a file system that does not answer.
fn device_at(root: &Root, path: &[u8]) -> Option<Name> {
    let path = path.strip_prefix(b"/oldroot").unwrap_or(path);
    let path = path.starts_with(b"/dev/").then_some(path)?;
    disks::kernel_name(root, core::str::from_utf8(path).ok()?).ok()
}

/// /sys/fs/btrfs/UUID/devices/* (fs/btrfs/sysfs.c): all devices of the file system that has this one.
fn btrfs(root: &Root, one: &Name, each: &mut dyn FnMut(&Name)) {
    const TOP: &str = "/sys/fs/btrfs";
    let _ = root.entries(TOP, |uuid| {
        let dir = path!("{TOP}/{}/devices", Printable(uuid));
        if root.exists(path!("{dir}/{one}").as_str()) {
            let _ = disks::names_in(root, &dir, each);
        }
        true
    });
}

/// Whether there is one that is `wanted`. What cannot be seen may be one.
pub fn any(root: &Root, wanted: &dyn Fn(&Mount) -> bool) -> bool {
    let mut any = false;
    let read = each(root, &mut |mount| any |= wanted(&mount));
    any || read.is_err()
}

/// `36 35 259:2 / /mnt\040a rw,noatime master:1 - ext4 /dev/nvme0n1p2 rw,errors=continue`. A path that is too long for a
/// [`Path`] is none: cut, it would be another's.
fn parse(line: &[u8]) -> Option<Mount> {
    let mut fields = line.split(|&b| b == b' ');
    let point = unescaped(fields.nth(4)?)?;
    let options = fields.next()?;
    let mut behind = fields.skip_while(|field| *field != b"-").skip(1);
    let kind = behind.next()?;
    let of_all = behind.nth(1)?;
    let has = |options: &[u8], word: &[u8]| options.split(|&b| b == b',').any(|o| o == word);
    Some(Mount {
        point,
        readonly: has(of_all, b"ro"),
        is_virtual: VIRTUAL.contains(&kind),
        noexec: has(options, b"noexec"),
    })
}

/// Blanks, tabs, newlines and backslashes are octal numbers in mountinfo.
fn unescaped(field: &[u8]) -> Option<Path> {
    let mut bytes: heapless::Vec<u8, 256> = heapless::Vec::new();
    let mut rest = field;
    while let Some((&first, after)) = rest.split_first() {
        let (byte, after) = match (first, after.split_first_chunk::<3>()) {
            (b'\\', Some((digits, after))) => {
                let digits = core::str::from_utf8(digits).ok()?;
                (u8::from_str_radix(digits, 8).ok()?, after)
            }
            _ => (first, after),
        };
        bytes.push(byte).ok()?;
        rest = after;
    }
    let path: Path = Text::of(format_args!("{}", core::str::from_utf8(&bytes).ok()?));
    (!path.is_cut()).then_some(path)
}

/// Unmounts what nobody uses, with all that was written to it on the disk.
pub fn end(point: &str) -> Result<(), Errno> {
    unmount(point, UnmountFlags::NOFOLLOW)
}

/// The same, without what a server or program that answers nothing would still have to be given: that is lost. Only for what
/// [`end`] has been waiting for, since a server that does answer would lose it just as well.
pub fn force(point: &str) -> Result<(), Errno> {
    unmount(point, UnmountFlags::FORCE | UnmountFlags::NOFOLLOW)
}

/// Takes a mount, and all on it, out of sight; it ends when its last user does. For windows into the kernel only: what is on
/// a disk must not be left to be written to by who knows whom.
pub fn detach(point: &str) -> Result<(), Errno> {
    unmount(point, UnmountFlags::DETACH | UnmountFlags::NOFOLLOW)
}

/// Makes a file system read-only, with all that was written to it on the disk. EBUSY: something is open for writing.
pub fn make_readonly(point: &str) -> Result<(), Errno> {
    mount_remount(point, MountFlags::RDONLY, "")
}

/// Mounts memory, `size` as tmpfs(5) has it, that programs may be run from.
pub fn memory(point: &str, size: &str) -> Result<(), Errno> {
    let options = Text::<80>::of(format_args!("size={size},mode=0755\0"));
    let options = core::ffi::CStr::from_bytes_with_nul(options.as_str().as_bytes())
        .map_err(|_| Errno::INVAL)?;
    let flags = MountFlags::NOSUID | MountFlags::NODEV;
    mount("quell", point, "tmpfs", flags, options)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_mount_is_read_as_the_kernel_writes_it() {
        let ext4 = parse(
            b"36 35 259:2 / /mnt/a\\040b\\134c rw,noatime,noexec master:1 - ext4 /dev/nvme0n1p2 rw,errors=continue",
        )
        .unwrap();
        assert_eq!(ext4.point.as_str(), "/mnt/a b\\c");
        assert!(!ext4.readonly && !ext4.is_virtual && ext4.noexec);
        let bound = parse(b"36 35 259:2 / /mnt ro,relatime - ext4 /dev/nvme0n1p2 rw").unwrap();
        assert!(!bound.readonly, "another mount of it may be written to");
        let proc = parse(b"22 1 0:21 / /proc rw,nosuid shared:5 master:3 - proc proc rw").unwrap();
        assert!(proc.is_virtual && !proc.noexec);
        assert!(
            parse(b"22 1 9:126 / / ro - xfs /dev/md126 ro")
                .unwrap()
                .readonly
        );
    }

    #[test]
    fn a_file_system_of_several_devices_is_on_all_of_them() {
        let dir = tempfile::tempdir().unwrap();
        let at = |path: &str| {
            let path = dir.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            path
        };
        let lines = "1 0 9:126 / /oldroot ro - xfs /dev/md126 ro,logdev=/dev/sdc,noquota\n\
                     2 1 0:44 / /oldroot/b ro - btrfs /oldroot/dev/sda ro\n\
                     3 1 0:45 / /oldroot/c rw - bcachefs /dev/sdc:/dev/sdd rw\n\
                     4 1 0:46 / /oldroot/n rw - nfs server:/dev/sda rw\n";
        std::fs::write(at("proc/self/mountinfo"), lines).unwrap();
        for name in ["sda", "sdb"] {
            std::fs::write(at(&format!("sys/fs/btrfs/uuid/devices/{name}")), "").unwrap();
        }
        for name in ["sda", "sdb", "sdc", "sdd"] {
            std::fs::write(at(&format!("dev/{name}")), "").unwrap();
        }
        std::os::unix::fs::symlink("../../block/md126", at("sys/dev/block/9:126")).unwrap();
        let root = Root::below(dir.path().as_os_str()).unwrap();
        let mut seen = Vec::new();
        devices(&root, &mut |name, mount| {
            seen.push(format!("{}: {name}", mount.point))
        })
        .unwrap();
        seen.sort();
        seen.dedup();
        assert_eq!(
            seen,
            [
                "/oldroot/b: sda",
                "/oldroot/b: sdb",
                "/oldroot/c: sdc",
                "/oldroot/c: sdd",
                "/oldroot: md126",
                "/oldroot: sdc",
            ]
        );
    }

    #[test]
    fn one_that_is_not_understood_is_not_passed_over_in_silence() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(dir.path().join("proc/self")).unwrap();
        let root = Root::below(dir.path().as_os_str()).unwrap();
        let read = |text: &str| {
            std::fs::write(dir.path().join("proc/self/mountinfo"), text).unwrap();
            let mut count = 0;
            (each(&root, &mut |_| count += 1), count)
        };
        let good = "22 1 9:126 / / ro - xfs /dev/md126 ro\n";
        assert_eq!(read(good), (Ok(()), 1));
        let long = format!(
            "{good}23 1 8:1 / /{} rw - xfs /dev/sda rw\n{good}",
            "x".repeat(300)
        );
        assert_eq!(read(&long), (Err(Errno::INVAL), 2));
    }

    #[test]
    fn what_is_no_whole_mount_is_none() {
        for line in [
            "",
            "36 35 259:2 / /mnt rw",
            "36 35 259:2 / /mnt rw -",
            "36 35 259:2 / /m\\9z9 rw - ext4 /dev/sda rw",
            "36 35 259:2 / /m\\777 rw - ext4 /dev/sda rw",
        ] {
            assert!(parse(line.as_bytes()).is_none(), "{line}");
        }
        let long = format!("36 35 259:2 / /{} rw - ext4 /dev/sda rw", "x".repeat(250));
        assert!(parse(long.as_bytes()).is_none());
        let invalid = b"36 35 259:2 / /\xff rw - ext4 /dev/sda rw";
        assert!(parse(invalid).is_none());
    }
}
