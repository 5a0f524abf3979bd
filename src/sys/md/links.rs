//! How people find an array: what udev is told of it, and where there is no udev the links it would make.
//!
//! Source: mdadm's udev rules (`udev-md-raid-arrays.rules`).

use rustix::fd::OwnedFd;
use rustix::fs::{
    AtFlags, FileType, Mode, OFlags, mkdirat, mknodat, renameat, symlinkat, unlinkat,
};
use rustix::io::Errno;

use super::Name;
use crate::imsm::names::PartitionName;
use crate::path;
use crate::sys::{Dev, Path, Root, disks};
use crate::text::{Printable, Text};

/// The path of a link to an array: mdadm's map has no longer ones.
pub type Link = Text<200>;

/// By what an array is found.
#[derive(Clone, Debug)]
pub struct Names {
    /// The kernel's name.
    pub array: Name,
    /// The link below /dev/md; or the node itself, if it has none.
    pub path: Link,
    /// Its UUID.
    pub uuid: Text<40>,
}

const MD: &str = "/dev/md";
const BY_ID: &str = "/dev/disk/by-id";

/// True where udev makes the links.
pub fn udev_runs(root: &Root) -> bool {
    root.exists("/run/udev/control")
}

/// Tells udev that an array is not what it was.
pub fn change(root: &Root, array: &str) -> Result<(), Errno> {
    root.write(path!("/sys/block/{array}/uevent").as_str(), b"change")
}

/// Has the kernel look for partitions: it does when the array is first opened after its start. May block, so only a worker
/// may call it.
pub fn scan_partitions(root: &Root, array: &str) -> Result<(), Errno> {
    match root.is_fixture() {
        true => Ok(()),
        false => {
            let node = path!("/dev/{array}");
            root.open(node.as_str(), OFlags::RDONLY).map(drop)
        }
    }
}

/// Makes nodes that the kernel has not made, and links to the array and its partitions. What stands in a link's place and is
/// none is left (EEXIST).
pub fn make(root: &Root, names: &Names) -> Result<(), Errno> {
    let Names { array, path, uuid } = names;
    let name = path
        .as_str()
        .strip_prefix(MD)
        .and_then(|name| name.strip_prefix('/'));
    let mut result = node(root, array);
    let mut all = |to: &Name, name: Option<Path>, id: Path| {
        let made = link(root, BY_ID, &id, &path!("../../{to}"));
        let named = name.map_or(Ok(()), |name| link(root, MD, &name, &path!("../{to}")));
        result = result.and(made).and(named);
    };
    all(
        array,
        name.map(|name| path!("{name}")),
        path!("md-uuid-{uuid}"),
    );
    let listed = disks::partitions(root, array.as_str(), &mut |part, number| {
        let name = name.map(|name| path!("{}", PartitionName(name.as_bytes(), number)));
        all(part, name, path!("md-uuid-{uuid}-part{number}"));
    });
    result.and(listed)
}

/// The kernel makes nodes where /dev is a devtmpfs.
fn node(root: &Root, array: &Name) -> Result<(), Errno> {
    let at = path!("/dev/{array}");
    let mut buf = [0; 32];
    let dev = root.read(path!("/sys/class/block/{array}/dev").as_str(), &mut buf)?;
    let dev = Dev::parse(dev).ok_or(Errno::INVAL)?;
    match root.stat(at.as_str()) {
        _ if root.is_fixture() => Ok(()),
        Ok(stat) if stat.st_rdev == dev.0 => Ok(()),
        Ok(_) => Err(Errno::EXIST),
        Err(Errno::NOENT) => {
            let (dir, name) = parent(root, at.as_str())?;
            let mode = Mode::from_raw_mode(0o600);
            mknodat(dir, name, FileType::BlockDevice, mode, dev.0)
        }
        Err(errno) => Err(errno),
    }
}

/// Whatever the link led to: who makes one knows whose the name is. mdadm leaves links behind where there is no udev, and
/// the array they led to may be another's volume by now.
fn link(root: &Root, dir: &str, name: &Path, to: &Path) -> Result<(), Errno> {
    make_dir(root, dir)?;
    let fd = root.open(dir, OFlags::PATH | OFlags::DIRECTORY)?;
    match symlinkat(to.as_str(), &fd, name.as_str()) {
        Err(Errno::EXIST) => {}
        other => return other,
    }
    let mut buf = [0; 256];
    match root.read_link(path!("{dir}/{name}").as_str(), &mut buf) {
        // mdadm's own are absolute.
        Ok(old) if last(old) == last(to.as_str().as_bytes()) => return Ok(()),
        Ok(_) => {}
        // No link: a node that somebody made.
        Err(_) => return Err(Errno::EXIST),
    }
    let new = path!("{name}.new");
    match unlinkat(&fd, new.as_str(), AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => {}
        Err(errno) => return Err(errno),
    }
    symlinkat(to.as_str(), &fd, new.as_str())?;
    renameat(&fd, new.as_str(), &fd, name.as_str())
}

/// The last part of a path.
fn last(path: &[u8]) -> Option<&[u8]> {
    path.rsplit(|&b| b == b'/').next()
}

/// Takes away all links to an array and to its partitions, whoever made them.
pub fn remove(root: &Root, array: &str) -> Result<(), Errno> {
    let mut result = Ok(());
    for dir in [MD, BY_ID] {
        let listed = root.entries(dir, |entry| {
            let name = Printable(entry);
            let mut buf = [0; 256];
            let to = root.link_name(path!("{dir}/{name}").as_str(), &mut buf);
            if to.is_ok_and(|to| is_of(to, array)) {
                let gone = root
                    .open(dir, OFlags::PATH | OFlags::DIRECTORY)
                    .and_then(|fd| unlinkat(fd, entry, AtFlags::empty()));
                result = result.and(gone);
            }
            true
        });
        result = result.and(crate::sys::claims::optional(listed));
    }
    result
}

/// The array itself, or a partition of it (`md126p1`).
fn is_of(name: &[u8], array: &str) -> bool {
    let Some(rest) = name.strip_prefix(array.as_bytes()) else {
        return false;
    };
    let part = rest.strip_prefix(b"p").unwrap_or_default();
    rest.is_empty() || (!part.is_empty() && part.iter().all(u8::is_ascii_digit))
}

/// Makes a directory for everybody to read, and those above it up to the first below `/`, which is there.
pub(super) fn make_dir(root: &Root, dir: &str) -> Result<(), Errno> {
    let ends = dir.match_indices('/').skip(2).map(|(end, _)| end);
    for end in ends.chain([dir.len()]) {
        let (above, name) = parent(root, dir.get(..end).unwrap_or_default())?;
        match mkdirat(above, name, Mode::from_raw_mode(0o755)) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(errno) => return Err(errno),
        }
    }
    Ok(())
}

fn parent<'p>(root: &Root, path: &'p str) -> Result<(OwnedFd, &'p str), Errno> {
    let (dir, name) = path.rsplit_once('/').ok_or(Errno::INVAL)?;
    Ok((root.open(dir, OFlags::PATH | OFlags::DIRECTORY)?, name))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::fs::{create_dir_all, read_link, write};
    use std::os::unix::fs::symlink;

    fn names(path: &str) -> Names {
        Names {
            array: Text::of(format_args!("md126")),
            path: Text::of(format_args!("{path}")),
            uuid: Text::of(format_args!("1:2:3:4")),
        }
    }

    fn links(dir: &std::path::Path) -> Vec<String> {
        let mut seen = Vec::new();
        for folder in ["md", "disk/by-id"] {
            for entry in std::fs::read_dir(dir.join("dev").join(folder)).unwrap() {
                let path = entry.unwrap().path();
                let name = path.file_name().unwrap().to_str().unwrap();
                let to = read_link(&path).unwrap();
                seen.push(format!("{name} -> {}", to.display()));
            }
        }
        seen.sort();
        seen
    }

    #[test]
    fn links_as_udev_makes_them() {
        let dir = tempfile::tempdir().unwrap();
        let at = |path: &str| dir.path().join(path);
        for part in ["", "/md126p1", "/md126p12"] {
            create_dir_all(at("sys/block/md126").join(&part[part.len().min(1)..])).unwrap();
        }
        create_dir_all(at("sys/class/block")).unwrap();
        symlink("../../block/md126", at("sys/class/block/md126")).unwrap();
        write(at("sys/block/md126/dev"), "9:126\n").unwrap();
        write(at("sys/block/md126/uevent"), "").unwrap();
        write(at("sys/block/md126/md126p1/partition"), "1\n").unwrap();
        write(at("sys/block/md126/md126p12/partition"), "12\n").unwrap();
        create_dir_all(at("dev/md")).unwrap();
        write(at("dev/md125"), "").unwrap();
        // Left over from an array that is no more, and from one whose number another has now. And a node.
        symlink("../md127", at("dev/md/sys")).unwrap();
        symlink("/dev/md125", at("dev/md/sys1")).unwrap();
        write(at("dev/md/sys12"), "").unwrap();
        let root = Root::below(dir.path().as_os_str()).unwrap();

        assert_eq!(make(&root, &names("/dev/md/sys")), Err(Errno::EXIST));
        std::fs::remove_file(at("dev/md/sys12")).unwrap();
        assert_eq!(make(&root, &names("/dev/md/sys")), Ok(()));
        assert_eq!(make(&root, &names("/dev/md/vol0")), Ok(()));
        assert_eq!(make(&root, &names("/dev/md126")), Ok(()));
        let expected = [
            "md-uuid-1:2:3:4 -> ../../md126",
            "md-uuid-1:2:3:4-part1 -> ../../md126p1",
            "md-uuid-1:2:3:4-part12 -> ../../md126p12",
            "sys -> ../md126",
            "sys1 -> ../md126p1",
            "sys12 -> ../md126p12",
            "vol0 -> ../md126",
            "vol0p1 -> ../md126p1",
            "vol0p12 -> ../md126p12",
        ];
        assert_eq!(links(dir.path()), expected);

        symlink("/dev/md126", at("dev/md/by-mdadm")).unwrap();
        symlink("../md1266", at("dev/md/other")).unwrap();
        symlink("../md126pp1", at("dev/md/odd")).unwrap();
        remove(&root, "md126").unwrap();
        assert_eq!(
            links(dir.path()),
            ["odd -> ../md126pp1", "other -> ../md1266"]
        );
        std::fs::remove_dir_all(at("dev/disk")).unwrap();
        assert_eq!(remove(&root, "md126"), Ok(()));

        assert!(!udev_runs(&root));
        change(&root, "md126").unwrap();
        assert_eq!(
            std::fs::read(at("sys/block/md126/uevent")).unwrap(),
            b"change"
        );
        assert_eq!(change(&root, "md1"), Err(Errno::NOENT));
    }
}
