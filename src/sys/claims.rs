//! Who has claimed a namespace, as the kernel's files tell it: mounts, swap, holders, file systems of several devices.

use rustix::fs::FileType;
use rustix::io::Errno;

use super::nvme::Inventory;
use super::{Dev, Root};
use crate::errno::Cause;
use crate::name::{self, Device};
use crate::path;
use crate::text::Printable;

/// Until when a use goes on, in the order in which a shutdown ends them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Lasts {
    /// A mount or swap, which systemd ends before its hooks run.
    #[default]
    Hooks,
    /// What root stands on, and what programs use: it ends when an exitrd has left the old root.
    Root,
    /// An array of md: it ends when arrays are stopped.
    Arrays,
    /// What nothing ends: an export to others, bcache.
    Machine,
}

impl Lasts {
    /// What `self as u8` says.
    #[must_use]
    pub const fn of(byte: u8) -> Self {
        match byte {
            0 => Self::Hooks,
            1 => Self::Root,
            2 => Self::Arrays,
            _ => Self::Machine,
        }
    }
}

/// Marks every namespace of `inv` that something has claimed.
///
/// An error means that who uses what cannot be known: nothing may be touched then.
pub fn mark(root: &Root, inv: &mut Inventory) -> Result<(), Unknown> {
    mounts(root, inv).map_err(|errno| Unknown {
        file: "/proc/self/mountinfo",
        errno,
    })?;
    optional(swaps(root, inv)).map_err(|errno| Unknown {
        file: "/proc/swaps",
        errno,
    })?;
    optional(holders(root, inv)).map_err(|errno| Unknown {
        file: "/sys/class/block/*/holders",
        errno,
    })?;
    optional(btrfs(root, inv)).map_err(|errno| Unknown {
        file: "/sys/fs/btrfs",
        errno,
    })?;
    optional(bcachefs(root, inv)).map_err(|errno| Unknown {
        file: "/sys/fs/bcachefs",
        errno,
    })
}

/// A file that would tell who uses what, and cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unknown {
    /// Which.
    pub file: &'static str,
    /// Why.
    pub errno: Errno,
}

impl core::fmt::Display for Unknown {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(
            f,
            "cannot tell what is in use, {}: {}",
            self.file,
            Cause(self.errno)
        )
    }
}

/// A feature that is not there has no users.
pub(super) fn optional(result: Result<(), Errno>) -> Result<(), Errno> {
    match result {
        Err(Errno::NOENT | Errno::NOTDIR) => Ok(()),
        other => other,
    }
}

/// proc(5), mountinfo: `36 35 259:2 / /mnt rw,noatime master:1 - ext4 /dev/nvme0n1p2 rw`. A line that is none hides a
/// mount, and there is no process without one.
fn mounts(root: &Root, inv: &mut Inventory) -> Result<(), Errno> {
    let (mut any, mut garbled) = (false, false);
    root.lines::<8192>("/proc/self/mountinfo", |line| {
        match mount(root, inv, line) {
            Some(()) => any = true,
            None => garbled = true,
        }
    })?;
    if any && !garbled {
        Ok(())
    } else {
        Err(Errno::INVAL)
    }
}

fn mount(root: &Root, inv: &mut Inventory, line: &[u8]) -> Option<()> {
    let mut fields = line.split(|&b| b == b' ');
    let dev = Dev::parse(fields.nth(2)?)?;
    let point = fields.nth(1)?;
    let source = fields.skip_while(|f| *f != b"-").nth(2)?;
    // btrfs and zfs show a number of no device; the source says which it is, or one of them.
    let found = match dev.major() {
        0 => None,
        _ => device_of(root, "block", dev),
    };
    if let Some((Device::Namespace(key), part)) = found.or_else(|| by_name(source)) {
        let who = format_args!("{part} mounted on {}", Printable(point));
        match point {
            b"/" | b"/usr" => inv.hold(key, Lasts::Root, who),
            _ => inv.hold(key, Lasts::Hooks, who),
        }
    }
    Some(())
}

/// A device as it was found, with the name it was found by.
pub(super) type Found = (Device, crate::text::Text<40>);

fn found(device: Device, name: &[u8]) -> Found {
    (
        device,
        crate::text::Text::of(format_args!("{}", Printable(name))),
    )
}

/// `/dev/nvme0n1p2`, by its name alone. A device below /oldroot is the same device.
fn by_name(path: &[u8]) -> Option<Found> {
    let path = path.strip_prefix(b"/oldroot").unwrap_or(path);
    let name = path.strip_prefix(b"/dev/")?;
    Some(found(name::device(name)?, name))
}

/// The NVMe device with that number, through /sys/dev/{block,char}.
pub(super) fn device_of(root: &Root, kind: &str, dev: Dev) -> Option<Found> {
    let mut buf = [0; 512];
    let link = path!("/sys/dev/{kind}/{}:{}", dev.major(), dev.minor());
    let name = root.link_name(link.as_str(), &mut buf).ok()?;
    Some(found(name::device(name)?, name))
}

/// The NVMe device that a path which the kernel keeps (loop, targets) leads to: by name, or by what its node is.
/// Only nodes below /dev are looked at: any other path may lie on a file system that does not answer.
pub(super) fn device_at(root: &Root, path: &[u8]) -> Option<Found> {
    if let Some(found) = by_name(path) {
        return Some(found);
    }
    let text = core::str::from_utf8(path)
        .ok()
        .filter(|p| p.starts_with("/dev/"))?;
    let stat = root.stat(text).ok()?;
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::BlockDevice => device_of(root, "block", Dev(stat.st_rdev)),
        FileType::CharacterDevice => device_of(root, "char", Dev(stat.st_rdev)),
        _ => None,
    }
}

/// proc(5), swaps: `/dev/nvme0n1p3 partition 8388604 0 -2`.
fn swaps(root: &Root, inv: &mut Inventory) -> Result<(), Errno> {
    root.lines::<4096>("/proc/swaps", |line| {
        let file = line
            .split(|&b| b == b' ' || b == b'\t')
            .next()
            .unwrap_or_default();
        if let Some((Device::Namespace(key), part)) = device_at(root, file) {
            inv.hold(key, Lasts::Hooks, format_args!("{part} is swap"));
        }
    })
}

/// /sys/class/block/*/holders (Documentation/ABI/testing/sysfs-block): md, dm, bcache on the namespace or a partition.
fn holders(root: &Root, inv: &mut Inventory) -> Result<(), Errno> {
    let mut result = Ok(());
    root.entries("/sys/class/block", |entry| {
        if let Some(Device::Namespace(key)) = name::device(entry)
            && inv.namespace_mut(key).is_some()
            && result.is_ok()
        {
            // One that goes while we look has no holders either.
            result = optional(holders_of(root, inv, key, &Printable(entry)));
        }
        true
    })?;
    result
}

fn holders_of(
    root: &Root,
    inv: &mut Inventory,
    key: name::Key,
    part: &Printable<'_>,
) -> Result<(), Errno> {
    let dir = path!("/sys/class/block/{part}/holders");
    root.entries(dir.as_str(), |holder| {
        let shown = Printable(holder);
        let mut buf = [0; 128];
        let dm = root.read(path!("/sys/class/block/{shown}/dm/name").as_str(), &mut buf);
        match dm {
            Ok(name) => inv.hold(
                key,
                Lasts::Root,
                format_args!("{part} under {shown} ({})", Printable(name)),
            ),
            Err(_) => {
                let lasts = match holder.starts_with(b"md") {
                    true => Lasts::Arrays,
                    false => Lasts::Machine,
                };
                inv.hold(key, lasts, format_args!("{part} in {shown}"));
            }
        }
        false
    })
}

/// /sys/fs/btrfs/UUID/devices/* (fs/btrfs/sysfs.c): every device of a file system, where mountinfo shows one.
fn btrfs(root: &Root, inv: &mut Inventory) -> Result<(), Errno> {
    const TOP: &str = "/sys/fs/btrfs";
    root.entries(TOP, |uuid| {
        let _ = root.entries(
            path!("{TOP}/{}/devices", Printable(uuid)).as_str(),
            |entry| {
                if let Some(Device::Namespace(key)) = name::device(entry) {
                    inv.hold(
                        key,
                        Lasts::Root,
                        format_args!("{} in btrfs {}", Printable(entry), Printable(uuid)),
                    );
                }
                true
            },
        );
        true
    })
}

/// /sys/fs/bcachefs/UUID/dev-N/block (fs/bcachefs/sysfs.c).
fn bcachefs(root: &Root, inv: &mut Inventory) -> Result<(), Errno> {
    const TOP: &str = "/sys/fs/bcachefs";
    root.entries(TOP, |uuid| {
        let dir = path!("{TOP}/{}", Printable(uuid));
        let _ = root.entries(dir.as_str(), |entry| {
            if entry.starts_with(b"dev-") {
                let link = path!("{dir}/{}/block", Printable(entry));
                hold_link(root, inv, link.as_str(), "in bcachefs");
            }
            true
        });
        true
    })
}

fn hold_link(root: &Root, inv: &mut Inventory, link: &str, how: &str) {
    let mut buf = [0; 512];
    if let Ok(name) = root.link_name(link, &mut buf)
        && let Some(Device::Namespace(key)) = name::device(name)
    {
        inv.hold(key, Lasts::Root, format_args!("{} {how}", Printable(name)));
    }
}
