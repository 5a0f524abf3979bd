//! Who uses an md array, as the kernel's files tell it: mounts, swap, and the processes that have its node open.
//!
//! Holders (md, dm and bcache devices) are in [`super::disks`]. Sources: proc(5) for mountinfo, swaps and fd.

use rustix::fs::{FileType, OFlags};
use rustix::io::Errno;

use super::claims::optional;
use super::md::Name;
use super::{Dev, Root};
use crate::path;
use crate::text::{Printable, Text};

/// Is called with an array and a user of it, in words.
pub type Each<'a> = dyn FnMut(&Name, core::fmt::Arguments<'_>) + 'a;

/// Calls `each` for every mount of an array or a partition of one, and every swap on one.
pub fn claims(root: &Root, each: &mut Each<'_>) -> Result<(), Errno> {
    root.lines::<4096>("/proc/self/mountinfo", |line| {
        if let Some((on, point)) = mount(root, line) {
            each(
                &on.array,
                format_args!("{} mounted on {}", on.device, Printable(point)),
            );
        }
    })?;
    optional(root.lines::<4096>("/proc/swaps", |line| {
        let file = line.split(|b| b.is_ascii_whitespace()).next();
        if let Some(on) = file.and_then(|file| at_path(root, file)) {
            each(&on.array, format_args!("{} is swap", on.device));
        }
    }))
}

/// proc(5), mountinfo: `36 35 9:126 / /mnt rw,noatime master:1 - ext4 /dev/md126 rw`.
fn mount<'l>(root: &Root, line: &'l [u8]) -> Option<(On, &'l [u8])> {
    let mut fields = line.split(|&b| b == b' ');
    let dev = Dev::parse(fields.nth(2)?)?;
    let point = fields.nth(1)?;
    // btrfs and others show a number of no device; then the source says which it is, or one of them.
    let on = match dev.major() {
        0 => at_path(root, fields.skip_while(|f| *f != b"-").nth(2)?),
        _ => by_number(root, dev),
    };
    Some((on?, point))
}

/// A device and the array that it is, or is a partition of.
struct On {
    array: Name,
    device: Name,
}

/// `/sys/dev/block/259:4 -> ../../devices/virtual/block/md126/md126p1`
fn by_number(root: &Root, dev: Dev) -> Option<On> {
    let mut buf = [0; 512];
    let link = path!("/sys/dev/block/{}:{}", dev.major(), dev.minor());
    let target = root.read_link(link.as_str(), &mut buf).ok()?;
    let mut parts = target.rsplit(|&b| b == b'/');
    let device = parts.next().filter(|name| name.starts_with(b"md"))?;
    let array = parts
        .next()
        .filter(|above| above.starts_with(b"md") && device.starts_with(above))
        .unwrap_or(device);
    Some(On {
        array: Printable(array).to_text(),
        device: Printable(device).to_text(),
    })
}

/// Only nodes below /dev are looked at: any other path may lie on a file system that does not answer.
fn at_path(root: &Root, path: &[u8]) -> Option<On> {
    let path = path.strip_prefix(b"/oldroot").unwrap_or(path);
    let text = core::str::from_utf8(path)
        .ok()
        .filter(|path| path.starts_with("/dev/"))?;
    let stat = root.stat(text).ok()?;
    if FileType::from_raw_mode(stat.st_mode) == FileType::BlockDevice {
        return by_number(root, Dev(stat.st_rdev));
    }
    let name = text.strip_prefix("/dev/").filter(|_| root.is_fixture())?;
    let name: Name = Text::of(format_args!("{name}"));
    root.exists(path!("/sys/block/{name}/md").as_str())
        .then(|| On {
            array: name.clone(),
            device: name,
        })
}

/// Calls `each` for every process but this one that has an array's node, or a partition's, open below /dev. Looking at
/// others' files may block, so only a worker may do it; a process that cannot be looked into is passed over.
pub fn openers(root: &Root, each: &mut Each<'_>) -> Result<(), Errno> {
    let own = std::process::id();
    root.entries("/proc", |entry| {
        let pid = core::str::from_utf8(entry)
            .ok()
            .and_then(|n| n.parse().ok());
        if let Some(pid) = pid.filter(|pid: &u32| *pid != own) {
            let _ = files(root, pid, each);
        }
        true
    })
}

fn files(root: &Root, pid: u32, each: &mut Each<'_>) -> Result<(), Errno> {
    let dir = path!("/proc/{pid}/fd");
    root.entries(dir.as_str(), |fd| {
        let file = path!("{dir}/{}", Printable(fd));
        let mut buf = [0; 256];
        // What was deleted below /dev was a node all the same: mdmon's are.
        if let Ok(target) = root.read_link(file.as_str(), &mut buf)
            && target.starts_with(b"/dev/")
            && let Some(on) = opened(root, file.as_str(), target)
        {
            let mut comm = [0; 64];
            let comm = root.read(path!("/proc/{pid}/comm").as_str(), &mut comm);
            each(
                &on.array,
                format_args!(
                    "{} opened by {}[{pid}]",
                    on.device,
                    Printable(comm.unwrap_or(b"pid"))
                ),
            );
        }
        true
    })
}

fn opened(root: &Root, file: &str, target: &[u8]) -> Option<On> {
    if root.is_fixture() {
        return at_path(root, target);
    }
    let stat = root.stat(file).ok()?;
    (FileType::from_raw_mode(stat.st_mode) == FileType::BlockDevice)
        .then(|| by_number(root, Dev(stat.st_rdev)))?
}

/// Claims the array for a moment. EBUSY: a mount, md, dm, swap or the like has it or a partition of it (open(2), O_EXCL on a
/// block device). ENXIO, ENODEV, ENOENT: it has gone, or has no node. Blocks where the array does, so only a worker may
/// call it.
pub fn claim(root: &Root, name: &str, dev: Dev) -> Result<(), Errno> {
    let node = path!("/dev/{name}");
    let fd = root.open(node.as_str(), OFlags::RDONLY | OFlags::EXCL)?;
    let same = root.is_fixture() || rustix::fs::fstat(fd)?.st_rdev == dev.0;
    if same { Ok(()) } else { Err(Errno::NODEV) }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn users_of_arrays_and_of_their_partitions() {
        let dir = tempfile::tempdir().unwrap();
        let at = |path: &str| {
            let path = dir.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            path
        };
        let write = |path: &str, text: &str| std::fs::write(at(path), text).unwrap();
        write(
            "proc/self/mountinfo",
            "21 1 259:4 / / rw - ext4 /dev/md126p1 rw\n22 1 8:1 / /boot rw - ext4 /dev/sda1 rw\n\
             23 1 0:44 / /b rw - btrfs /dev/md125 rw\n24 1 9:1 / /x\\040y rw - xfs /dev/md1 rw\n",
        );
        write(
            "proc/swaps",
            "Filename Type\n/dev/md124 partition 1 0 -2\n/swapfile file 1 0 -2\n",
        );
        write("proc/71/comm", "dd\n");
        for name in ["md124", "md125", "md126"] {
            write(&format!("dev/{name}"), "");
            write(&format!("sys/block/{name}/md/array_state"), "clean\n");
        }
        for (number, to) in [
            ("259:4", "md126/md126p1"),
            ("9:1", "md1"),
            ("8:1", "sda/sda1"),
        ] {
            let to = format!("../../devices/virtual/block/{to}");
            symlink(to, at(&format!("sys/dev/block/{number}"))).unwrap();
        }
        symlink("/dev/md126", at("proc/71/fd/3")).unwrap();
        symlink("/dev/null", at("proc/71/fd/4")).unwrap();
        let root = Root::below(dir.path().as_os_str()).unwrap();
        let mut seen = Vec::new();
        let mut each = |array: &Name, user: core::fmt::Arguments<'_>| {
            seen.push(format!("{array}: {user}"));
        };
        claims(&root, &mut each).unwrap();
        openers(&root, &mut each).unwrap();
        assert_eq!(
            seen,
            [
                "md126: md126p1 mounted on /",
                "md125: md125 mounted on /b",
                "md1: md1 mounted on /x\\040y",
                "md124: md124 is swap",
                "md126: md126 opened by dd[71]",
            ]
        );
    }
}
