//! The only rooms that touch the kernel. They know its files and their formats, and no policy.
//!
//! | room | kernel files |
//! | --- | --- |
//! | [`nvme`] | /sys/class/nvme, /sys/class/nvme-subsystem |
//! | [`identify`] | Identify Controller by ioctl |
//! | [`partitions`] | BLKPG: the kernel's idea of a disk's partitions |
//! | [`pci`] | PCI addresses, /sys/bus/pci |
//! | [`block`] | /dev nodes, O_EXCL opens, fsync |
//! | [`claims`] | mountinfo, swaps, holders: who has claimed a namespace |
//! | [`targets`] | loop devices, configfs targets: who uses one without a claim |
//! | [`users`] | /proc/*/fd: which process has a node open |
//! | [`proc`] | pid 1's command line, containers, kdump, signals |
//! | [`memory`] | /proc/self/maps: memory locks |
//! | [`kmsg`] | the kernel's log, read |
//! | [`disks`] | /sys/block: disks that can be IMSM members, their serials, controllers and holders |
//! | [`tail`] | the end of a disk or file, read |
//! | [`lock`] | locks in /run |
//! | [`copy`] | /proc/self/exe, copied; pid 1's mounts |
//! | [`mounts`] | mountinfo, umount, remount |
//! | [`leftovers`] | processes that still use the old root |
//! | [`dm`] | device-mapper maps: their kinds, their end |
//! | [`unmap`] | loop devices, swap, ended |
//! | [`reboot`] | reboot(2) and systemd's parameter for it |
//! | [`md`] | /sys/block/md*, md_mod: arrays and their members |
//! | [`program`] | other programs, run and waited for |
//! | [`occupied`] | mountinfo, swaps, /proc/*/fd: who uses an array |
//! | [`out`] | standard output and error |

pub mod block;
pub mod claims;
pub mod copy;
pub mod disks;
pub mod dm;
pub mod identify;
mod kcmp;
pub mod kmsg;
pub mod leftovers;
pub mod lock;
mod loopback;
pub mod md;
pub mod memory;
pub mod mounts;
pub mod nvme;
pub mod occupied;
pub mod out;
pub mod partitions;
pub mod pci;
pub mod proc;
pub mod program;
pub mod reboot;
mod remote;
pub mod tail;
pub mod targets;
pub mod unmap;
pub mod users;

use core::mem::MaybeUninit;
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{Access, AtFlags, Mode, OFlags, RawDir, ResolveFlags, Stat};
use rustix::io::Errno;

use crate::errno::Cause;
use crate::text::Text;

/// A path below /sys, /proc, /dev or /run: always shorter than rustix's stack buffer, so opening one never allocates.
pub type Path = Text<250>;

/// Builds a [`Path`].
#[macro_export]
macro_rules! path {
    ($($arg:tt)*) => { $crate::sys::Path::of(format_args!($($arg)*)) };
}

/// Where /sys, /proc, /dev, /run and /etc are: the machine's own, or below `--root DIR`.
pub enum Root {
    /// The machine quell runs on.
    Machine,
    /// A directory that holds them: fixtures, tests, curious people. Every path is resolved inside it
    /// (openat2(2), RESOLVE_IN_ROOT, on the one file system), and nothing that could touch the machine is done.
    Below(OwnedFd),
}

/// Why a `--root` is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BadRoot {
    /// It cannot be opened.
    Open(Errno),
    /// It is the machine's own root.
    Machine,
    /// It lies on the kernel's own sysfs, procfs or devtmpfs.
    Kernel,
    /// The kernel has no openat2(2) (Linux 5.6).
    NoOpenat2(Errno),
}

impl core::fmt::Display for BadRoot {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Open(errno) => write!(f, "cannot be opened: {}", Cause(*errno)),
            Self::Machine => {
                f.write_str("is this machine's own root, leave --root out to mean that")
            }
            Self::Kernel => f.write_str("lies on this machine's own sysfs, procfs or devtmpfs"),
            Self::NoOpenat2(errno) => {
                write!(
                    f,
                    "cannot be confined, the kernel has no openat2: {}",
                    Cause(*errno)
                )
            }
        }
    }
}

/// File system magics of linux/magic.h that no `--root` may lie on.
const SYSFS_MAGIC: u64 = 0x6265_6572;
const PROC_SUPER_MAGIC: u64 = 0x9fa0;
const CGROUP2_SUPER_MAGIC: u64 = 0x6367_7270;

impl Root {
    /// The directory `dir`, checked not to be the machine itself.
    pub fn below(dir: &std::ffi::OsStr) -> Result<Self, BadRoot> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let fd = rustix::fs::open(dir, flags, Mode::empty()).map_err(BadRoot::Open)?;
        let stat = rustix::fs::fstat(&fd).map_err(BadRoot::Open)?;
        let same = |path: &str| {
            rustix::fs::stat(path).is_ok_and(|s| s.st_dev == stat.st_dev && s.st_ino == stat.st_ino)
        };
        if same("/") || same("/proc/1/root") {
            return Err(BadRoot::Machine);
        }
        let fs = rustix::fs::fstatfs(&fd).map_err(BadRoot::Open)?;
        let magic = u64::try_from(fs.f_type).unwrap_or(0);
        let on = |path: &str| rustix::fs::stat(path).is_ok_and(|s| s.st_dev == stat.st_dev);
        // devtmpfs has tmpfs's magic: it is known by being the file system that /dev is.
        if [SYSFS_MAGIC, PROC_SUPER_MAGIC, CGROUP2_SUPER_MAGIC].contains(&magic)
            || on("/sys")
            || on("/proc")
            || (on("/dev") && !on("/"))
        {
            return Err(BadRoot::Kernel);
        }
        let root = Self::Below(fd);
        match root.open("/", OFlags::PATH) {
            Err(errno @ Errno::NOSYS) => Err(BadRoot::NoOpenat2(errno)),
            _ => Ok(root),
        }
    }

    /// True for `--root`: no ioctl, mount, reboot, signal to a pid that was read, exec or module load.
    pub fn is_fixture(&self) -> bool {
        matches!(self, Self::Below(_))
    }

    /// Opens `path`, which starts with `/`, close-on-exec.
    pub fn open(&self, path: &str, flags: OFlags) -> Result<OwnedFd, Errno> {
        self.open_mode(path, flags, Mode::empty())
    }

    pub(super) fn open_mode(
        &self,
        path: &str,
        flags: OFlags,
        mode: Mode,
    ) -> Result<OwnedFd, Errno> {
        let flags = flags | OFlags::CLOEXEC;
        match self {
            Self::Machine => rustix::fs::open(path, flags | OFlags::NOCTTY, mode),
            Self::Below(dir) => {
                // No other file system either: a chroot's /sys may be the machine's own.
                let inside =
                    ResolveFlags::IN_ROOT | ResolveFlags::NO_XDEV | ResolveFlags::NO_MAGICLINKS;
                // A rename anywhere on the machine makes the kernel unsure of a `..` (openat2(2), EAGAIN).
                let mut tries = 0..1000;
                loop {
                    match rustix::fs::openat2(dir, path, flags, mode, inside) {
                        Err(Errno::AGAIN) if tries.next().is_some() => {
                            if tries.start > 100 {
                                std::thread::sleep(core::time::Duration::from_millis(1));
                            }
                        }
                        other => return other,
                    }
                }
            }
        }
    }

    /// Reads a small file whole, or its first `buf.len()` bytes; white space at the end is cut off.
    pub fn read<'b>(&self, path: &str, buf: &'b mut [u8]) -> Result<&'b [u8], Errno> {
        let fd = self.open(path, OFlags::RDONLY)?;
        // A sysfs attribute comes whole, at the first read (Documentation/filesystems/sysfs.rst).
        let n = if path.starts_with("/sys/") {
            rustix::io::retry_on_intr(|| rustix::io::read(&fd, &mut *buf))?
        } else {
            read_full(&fd, buf)?
        };
        Ok(buf.get(..n).unwrap_or_default().trim_ascii_end())
    }

    /// The decimal number in a small file.
    pub fn read_u32(&self, path: &str) -> Option<u32> {
        let mut buf = [0; 32];
        let text = self.read(path, &mut buf).ok()?;
        core::str::from_utf8(text).ok()?.parse().ok()
    }

    /// Writes `data` in one write(2), as sysfs wants it. The file is neither made nor cut.
    pub fn write(&self, path: &str, data: &[u8]) -> Result<(), Errno> {
        let fd = self.open(path, OFlags::WRONLY)?;
        rustix::io::retry_on_intr(|| rustix::io::write(&fd, data)).map(|_| ())
    }

    /// Puts `data` into the file `path` of a tmpfs such as /run: whole or not at all, by rename(2).
    pub fn replace(&self, path: &str, data: &[u8]) -> Result<(), Errno> {
        let new = path!("{path}.new");
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC | OFlags::NOFOLLOW;
        let fd = self.open_mode(new.as_str(), flags, Mode::from_raw_mode(0o600))?;
        rustix::io::write(&fd, data)?;
        let (dir, name) = self.parent(path)?;
        let new_name = path!("{name}.new");
        rustix::fs::renameat(&dir, new_name.as_str(), &dir, name)
    }

    /// The directory that `path` is in, and its name there.
    fn parent<'p>(&self, path: &'p str) -> Result<(OwnedFd, &'p str), Errno> {
        let (dir, name) = path.rsplit_once('/').unwrap_or(("", path));
        let dir = if dir.is_empty() { "/" } else { dir };
        Ok((self.open(dir, OFlags::PATH | OFlags::DIRECTORY)?, name))
    }

    /// Makes the directory `path`, mode 0700; one that is there already is fine.
    pub fn make_dir(&self, path: &str) -> Result<(), Errno> {
        let (parent, name) = self.parent(path)?;
        match rustix::fs::mkdirat(&parent, name, Mode::from_raw_mode(0o700)) {
            Err(Errno::EXIST) => Ok(()),
            other => other,
        }
    }

    /// The text of a symbolic link.
    pub fn read_link<'b>(&self, path: &str, buf: &'b mut [u8]) -> Result<&'b [u8], Errno> {
        let len = match self {
            Self::Machine => rustix::fs::readlinkat_raw(rustix::fs::CWD, path, &mut *buf)?,
            Self::Below(_) => {
                let fd = self.open(path, OFlags::PATH | OFlags::NOFOLLOW)?;
                rustix::fs::readlinkat_raw(&fd, "", &mut *buf)?
            }
        };
        Ok(buf.get(..len).unwrap_or_default())
    }

    /// The last component a symbolic link names: how sysfs says which driver, subsystem or parent.
    pub fn link_name<'b>(&self, path: &str, buf: &'b mut [u8]) -> Result<&'b [u8], Errno> {
        let text = self.read_link(path, buf)?;
        Ok(text.rsplit(|&b| b == b'/').next().unwrap_or_default())
    }

    /// True if `path` is there.
    pub fn exists(&self, path: &str) -> bool {
        match self {
            Self::Machine => rustix::fs::access(path, Access::EXISTS).is_ok(),
            Self::Below(_) => self.open(path, OFlags::PATH).is_ok(),
        }
    }

    /// True if `path` may be executed: false on a mount with noexec, as for systemd's own test (access(2), X_OK).
    pub fn executable(&self, path: &str) -> bool {
        self.open(path, OFlags::PATH)
            .and_then(|fd| {
                let via = path!("/proc/self/fd/{}", rustix::fd::AsRawFd::as_raw_fd(&fd));
                rustix::fs::accessat(
                    rustix::fs::CWD,
                    via.as_str(),
                    Access::EXEC_OK,
                    AtFlags::empty(),
                )
            })
            .is_ok()
    }

    /// What is at `path`, links followed.
    pub fn stat(&self, path: &str) -> Result<Stat, Errno> {
        rustix::fs::fstat(self.open(path, OFlags::PATH)?)
    }

    /// Calls `each` with every name in the directory `path`, in the kernel's order, until it returns false.
    pub fn entries(&self, path: &str, mut each: impl FnMut(&[u8]) -> bool) -> Result<(), Errno> {
        self.every_entry(path, &mut each)
    }

    /// Compiled once, not for each caller.
    fn every_entry(&self, path: &str, each: &mut dyn FnMut(&[u8]) -> bool) -> Result<(), Errno> {
        let fd = self.open(path, OFlags::RDONLY | OFlags::DIRECTORY)?;
        let mut buf = [MaybeUninit::uninit(); 4096];
        let mut dir = RawDir::new(fd, &mut buf);
        while let Some(entry) = dir.next() {
            let entry = entry?;
            let name = entry.file_name().to_bytes();
            if name != b"." && name != b".." && !each(name) {
                break;
            }
        }
        Ok(())
    }

    /// Calls `each` with every line of `path`; a line over `L` bytes is given by its first `L`.
    pub fn lines<const L: usize>(
        &self,
        path: &str,
        mut each: impl FnMut(&[u8]),
    ) -> Result<(), Errno> {
        self.every_line(path, &mut [0; L], &mut each)
    }

    /// Compiled once, not for each caller.
    fn every_line(
        &self,
        path: &str,
        buf: &mut [u8],
        each: &mut dyn FnMut(&[u8]),
    ) -> Result<(), Errno> {
        let fd = self.open(path, OFlags::RDONLY)?;
        let (mut used, mut skipping) = (0, false);
        loop {
            let room = buf.get_mut(used..).unwrap_or_default();
            let n = rustix::io::retry_on_intr(|| rustix::io::read(&fd, &mut *room))?;
            if n == 0 {
                if used > 0 && !skipping {
                    each(buf.get(..used).unwrap_or_default());
                }
                return Ok(());
            }
            used += n;
            let mut start = 0;
            while let Some(end) = position(buf.get(start..used).unwrap_or_default(), b'\n') {
                if !core::mem::take(&mut skipping) {
                    each(buf.get(start..start + end).unwrap_or_default());
                }
                start += end + 1;
            }
            if start == 0 && used == buf.len() {
                // The line is longer than the buffer: its head is what matters, the rest is skipped.
                if !core::mem::replace(&mut skipping, true) {
                    each(buf);
                }
                used = 0;
            } else {
                buf.copy_within(start..used, 0);
                used -= start;
            }
        }
    }
}

fn position(bytes: &[u8], wanted: u8) -> Option<usize> {
    bytes.iter().position(|&b| b == wanted)
}

/// Reads until `buf` is full or the file ends.
fn read_full(fd: impl AsFd, buf: &mut [u8]) -> Result<usize, Errno> {
    let mut used = 0;
    while used < buf.len() {
        let room = buf.get_mut(used..).unwrap_or_default();
        match rustix::io::retry_on_intr(|| rustix::io::read(&fd, &mut *room))? {
            0 => break,
            n => used += n,
        }
    }
    Ok(used)
}

/// A device number as one value, `major:minor` (makedev(3)).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Dev(pub u64);

impl Dev {
    /// From the text of a sysfs `dev` file: `259:3`.
    pub fn parse(text: &[u8]) -> Option<Self> {
        let (major, minor) = core::str::from_utf8(text).ok()?.trim().split_once(':')?;
        Some(Self(rustix::fs::makedev(
            major.parse().ok()?,
            minor.parse().ok()?,
        )))
    }

    /// The driver's number.
    pub fn major(self) -> u32 {
        rustix::fs::major(self.0)
    }

    /// The device's number within its driver.
    pub fn minor(self) -> u32 {
        rustix::fs::minor(self.0)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn root_of(dir: &tempfile::TempDir) -> Root {
        Root::below(dir.path().as_os_str()).unwrap()
    }

    #[test]
    fn a_root_that_is_the_machine_is_refused() {
        let refused = |dir: &str| Root::below(dir.as_ref()).err();
        assert_eq!(refused("/"), Some(BadRoot::Machine));
        assert_eq!(refused("/usr/.."), Some(BadRoot::Machine));
        assert_eq!(refused("/proc"), Some(BadRoot::Kernel));
        assert_eq!(refused("/proc/self"), Some(BadRoot::Kernel));
        assert_eq!(refused("/sys/class"), Some(BadRoot::Kernel));
        assert_eq!(refused("/proc/self/root"), Some(BadRoot::Machine));
        assert_eq!(refused("/no/such"), Some(BadRoot::Open(Errno::NOENT)));
    }

    #[test]
    fn no_path_leads_out_of_a_root() {
        let dir = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink("/etc/passwd", dir.path().join("abs")).unwrap();
        std::os::unix::fs::symlink("../../../../../../etc/passwd", dir.path().join("rel")).unwrap();
        let root = root_of(&dir);
        for path in ["/abs", "/rel", "/../../../etc/passwd"] {
            assert_eq!(
                root.open(path, OFlags::RDONLY).err(),
                Some(Errno::NOENT),
                "{path}"
            );
        }
    }

    #[test]
    fn lines_come_whole_whatever_the_buffer() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(
            dir.path().join("f"),
            "one\n\n0123456789abcdef\n0123456789abcdefghij\nlast",
        )
        .unwrap();
        let root = root_of(&dir);
        let mut seen = Vec::new();
        root.lines::<16>("/f", |line| {
            seen.push(String::from_utf8_lossy(line).into_owned())
        })
        .unwrap();
        assert_eq!(
            seen,
            ["one", "", "0123456789abcdef", "0123456789abcdef", "last"]
        );
        assert_eq!(root.lines::<16>("/none", |_| ()).err(), Some(Errno::NOENT));
    }

    #[test]
    fn small_files_links_and_replacement() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("n"), "17\n").unwrap();
        std::os::unix::fs::symlink("../../bus/pci/drivers/nvme", dir.path().join("driver"))
            .unwrap();
        let root = root_of(&dir);
        assert_eq!(root.read_u32("/n"), Some(17));
        let mut buf = [0; 64];
        assert_eq!(root.link_name("/driver", &mut buf).unwrap(), b"nvme");
        assert!(root.read_link("/n", &mut buf).is_err());
        root.make_dir("/run").unwrap();
        root.make_dir("/run/quell").unwrap();
        root.make_dir("/run/quell").unwrap();
        root.replace("/run/quell/state", b"a=1\n").unwrap();
        root.replace("/run/quell/state", b"a=2\n").unwrap();
        assert_eq!(
            std::fs::read(dir.path().join("run/quell/state")).unwrap(),
            b"a=2\n"
        );
        assert!(!root.exists("/run/quell/state.new"));
        let mut names = Vec::new();
        root.entries("/", |name| {
            names.push(String::from_utf8_lossy(name).into_owned());
            true
        })
        .unwrap();
        names.sort();
        assert_eq!(names, ["driver", "n", "run"]);
    }

    #[test]
    fn device_numbers() {
        let dev = Dev::parse(b"259:3\n").unwrap();
        assert_eq!((dev.major(), dev.minor()), (259, 3));
        assert_eq!(Dev::parse(b"259"), None);
    }
}
