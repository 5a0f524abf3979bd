//! Which process has an NVMe node open: such a user takes no claim, so an exclusive open does not see it.
//!
//! Looking at what other processes have open can block (a file on a dead NFS server), so only a worker may do it.

use core::fmt;
use core::mem::MaybeUninit;

use rustix::fd::AsFd;
use rustix::fs::{AtFlags, FileType, OFlags, RawDir, StatxFlags};
use rustix::io::Errno;

use super::{Dev, Root, claims};
use crate::name::{self, Device};
use crate::path;
use crate::text::{Printable, Text};

/// A process that has a node open.
pub struct User {
    /// Which node.
    pub device: Device,
    /// `nvme0n1p1 opened by smartd[812]`.
    pub text: Text<96>,
}

/// File systems whose files only a server can tell about.
const REMOTE: [&[u8]; 11] = [
    b"nfs", b"nfs4", b"cifs", b"smb3", b"9p", b"ceph", b"afs", b"lustre", b"gfs2", b"ocfs2",
    b"autofs",
];

/// Mount points below which nothing is looked at, since a look may never return.
struct Remote {
    points: heapless::Vec<Text<200>, 64>,
    /// There were more than the table holds: then only names that say `nvme` or `ng` are looked at.
    many: bool,
}

impl Remote {
    fn read(root: &Root) -> Result<Self, Errno> {
        let mut remote = Self {
            points: heapless::Vec::new(),
            many: false,
        };
        root.lines::<4096>("/proc/self/mountinfo", |line| {
            let mut fields = line.split(|&b| b == b' ');
            let point = fields.nth(4).unwrap_or_default();
            let kind = fields.skip_while(|f| *f != b"-").nth(1).unwrap_or_default();
            if REMOTE.contains(&kind) || kind.starts_with(b"fuse") {
                let text = Text::of(format_args!("{}", Printable(point)));
                remote.many |= text.is_cut() || remote.points.push(text).is_err();
            }
        })?;
        Ok(remote)
    }

    fn holds(&self, path: &[u8]) -> bool {
        self.many
            || self.points.iter().any(|point| {
                path.strip_prefix(point.as_str().as_bytes())
                    .is_some_and(|rest| rest.is_empty() || rest.starts_with(b"/"))
            })
    }
}

/// Calls `each` with every process that has a controller's, namespace's or partition's node open, but for `except`.
///
/// An error means that who uses what cannot be known: a process that cannot be looked into may have any of them open.
pub fn scan(root: &Root, except: &[u32], mut each: impl FnMut(User)) -> Result<(), Errno> {
    let remote = Remote::read(root)?;
    let mut own = [0; 64];
    let own_mounts = root
        .read_link("/proc/self/ns/mnt", &mut own)
        .unwrap_or_default();
    let mut seen = Ok(());
    root.entries("/proc", |entry| {
        let pid = core::str::from_utf8(entry)
            .ok()
            .and_then(|text| text.parse::<u32>().ok());
        if let Some(pid) = pid.filter(|pid| !except.contains(pid)) {
            let looked = process(root, pid, &remote, own_mounts, &mut each);
            if seen.is_ok() {
                seen = looked;
            }
        }
        true
    })?;
    seen
}

/// Looks at one process. One that ends while we look has nothing open.
fn process(
    root: &Root,
    pid: u32,
    remote: &Remote,
    own_mounts: &[u8],
    each: &mut impl FnMut(User),
) -> Result<(), Errno> {
    let ended = |errno| match errno {
        Errno::NOENT | Errno::SRCH => Ok(()),
        other => Err(other),
    };
    let flags = OFlags::RDONLY | OFlags::DIRECTORY;
    let dir = match root.open(path!("/proc/{pid}/fd").as_str(), flags) {
        Ok(dir) => dir,
        Err(errno) => return ended(errno),
    };
    // Asked for when it is first needed: most processes have only sockets, pipes and nodes open.
    let mut same_mounts = None;
    let mut has_our_mounts = || {
        let mut mounts = [0; 64];
        *same_mounts.get_or_insert_with(|| {
            root.read_link(path!("/proc/{pid}/ns/mnt").as_str(), &mut mounts)
                .is_ok_and(|ns| ns == own_mounts)
        })
    };
    let mut buf = [MaybeUninit::uninit(); 2048];
    let mut entries = RawDir::new(&dir, &mut buf);
    let mut target = [0; 256];
    while let Some(entry) = entries.next() {
        let entry = match entry {
            Ok(entry) => entry,
            Err(errno) => return ended(errno),
        };
        let Ok(len) = rustix::fs::readlinkat_raw(&dir, entry.file_name(), &mut target) else {
            continue;
        };
        let target = target.get(..len).unwrap_or_default();
        // Sockets, pipes and anonymous inodes do not start with a slash.
        if !target.starts_with(b"/") {
            continue;
        }
        let last = target.rsplit(|&b| b == b'/').next().unwrap_or_default();
        let telling = name::device(last).is_some();
        let safe =
            telling || target.starts_with(b"/dev/") || (has_our_mounts() && !remote.holds(target));
        let found = match (root.is_fixture(), safe) {
            (true, _) => {
                name::device(target).map(|d| (d, Text::of(format_args!("{}", Printable(last)))))
            }
            (false, true) => by_number(root, &dir, entry.file_name()),
            (false, false) => None,
        };
        if let Some((device, node)) = found {
            let text = Text::of(format_args!("{node} opened by {}", Process { root, pid }));
            each(User { device, text });
        }
    }
    Ok(())
}

/// What node an open file is, by its number: the name it was opened by may be anything.
fn by_number(root: &Root, dir: impl AsFd, fd: &core::ffi::CStr) -> Option<(Device, Text<40>)> {
    let stat = rustix::fs::statx(dir, fd, AtFlags::STATX_DONT_SYNC, StatxFlags::TYPE).ok()?;
    let dev = Dev(rustix::fs::makedev(
        stat.stx_rdev_major,
        stat.stx_rdev_minor,
    ));
    match FileType::from_raw_mode(stat.stx_mode.into()) {
        FileType::BlockDevice => claims::device_of(root, "block", dev),
        FileType::CharacterDevice => claims::device_of(root, "char", dev),
        _ => None,
    }
}

/// Shows a process as `comm[pid]`.
struct Process<'a> {
    root: &'a Root,
    pid: u32,
}

impl fmt::Display for Process<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut buf = [0; 64];
        let comm = self
            .root
            .read(path!("/proc/{}/comm", self.pid).as_str(), &mut buf);
        write!(f, "{}[{}]", Printable(comm.unwrap_or(b"pid")), self.pid)
    }
}
