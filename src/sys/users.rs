//! Which process has an NVMe node open: such a user takes no claim, so an exclusive open does not see it.
//!
//! Looking at what other processes have open can block (a file on a dead NFS server), so only a worker may do it. What it
//! cannot see: files that only an io_uring or a message under way in a socket still holds.

use core::fmt;
use core::mem::MaybeUninit;

use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{AtFlags, FileType, OFlags, RawDir, StatxFlags};
use rustix::io::Errno;

use super::claims::{Found, Lasts};
use super::remote::Remote;
use super::{Dev, Root, claims, kcmp};
use crate::name;
use crate::path;
use crate::sys::targets::Each;
use crate::text::{Printable, Text};

/// Calls `each` with every device that a process but `except` has open.
///
/// An error means that who uses what cannot be known: a process that cannot be looked into may have any of them open.
pub fn scan(root: &Root, except: &[u32], each: &mut Each<'_>) -> Result<(), Errno> {
    let mut remote = Remote::new();
    every_process(root, except, |pid| process(root, pid, &mut remote, each))
}

/// Calls `each` with every device that a process but `except` has mapped, which it may have without having it open. A
/// process that hangs in its own memory makes this hang too: it comes last, and need not come to its end.
pub fn scan_maps(root: &Root, except: &[u32], each: &mut Each<'_>) -> Result<(), Errno> {
    every_process(root, except, |pid| {
        let lines = root.lines::<512>(path!("/proc/{pid}/maps").as_str(), |line| {
            // address perms offset dev inode path
            let path = line.split(|&b| b == b' ').rfind(|word| !word.is_empty());
            let last = path.and_then(|path| path.rsplit(|&b| b == b'/').next());
            if let Some(last) = last
                && let Some(device) = name::device(last)
            {
                each(
                    device,
                    Lasts::Root,
                    format_args!("{} mapped by {}", Printable(last), Process { root, pid }),
                );
            }
        });
        gone_is_fine(lines)
    })
}

fn every_process(
    root: &Root,
    except: &[u32],
    mut look: impl FnMut(u32) -> Result<(), Errno>,
) -> Result<(), Errno> {
    let mut seen = Ok(());
    let kernel = KernelThreads::read(root);
    root.entries("/proc", |entry| {
        if let Some(pid) = number(entry).filter(|pid| !except.contains(pid) && !kernel.has(*pid)) {
            let looked = look(pid);
            if seen.is_ok() {
                seen = looked;
            }
        }
        true
    })?;
    seen
}

/// The kernel's own threads, which have no files and are most of the processes of a machine that goes down.
struct KernelThreads {
    /// Sorted.
    pids: heapless::Vec<u32, 4096>,
}

impl KernelThreads {
    /// All of them are children of kthreadd, which is pid 2 (kernel/kthread.c). A kernel that does not list children
    /// (without CONFIG_PROC_CHILDREN), and those beyond the table, only make the look take longer.
    fn read(root: &Root) -> Self {
        let mut pids = heapless::Vec::new();
        let mut buf = [0; 16];
        let kthreadd = root
            .read("/proc/2/comm", &mut buf)
            .is_ok_and(|comm| comm == b"kthreadd");
        if kthreadd && let Ok(list) = root.open("/proc/2/task/2/children", OFlags::RDONLY) {
            let mut text = [0; 24_576];
            let len = super::read_full(&list, &mut text).unwrap_or(0);
            // The last number may have been cut.
            let whole = text.get(..len).unwrap_or_default();
            let whole = whole
                .get(..whole.iter().rposition(|&b| b == b' ').unwrap_or(0))
                .unwrap_or_default();
            for pid in whole.split(|&b| b == b' ').filter_map(number) {
                let _ = pids.push(pid);
            }
        }
        pids.sort_unstable();
        Self { pids }
    }

    fn has(&self, pid: u32) -> bool {
        pid == 2 && !self.pids.is_empty() || self.pids.binary_search(&pid).is_ok()
    }
}

fn number(name: &[u8]) -> Option<u32> {
    core::str::from_utf8(name).ok()?.parse().ok()
}

/// What ends while we look has nothing open.
fn gone_is_fine(result: Result<(), Errno>) -> Result<(), Errno> {
    match result {
        Err(Errno::NOENT | Errno::SRCH) => Ok(()),
        other => other,
    }
}

/// Looks at one process: the files of its first thread, and those of every thread that has a table of its own. (A thread
/// may have parted from the others, and the first may have ended before them.)
fn process(root: &Root, pid: u32, remote: &mut Remote, each: &mut Each<'_>) -> Result<(), Errno> {
    let mut result = gone_is_fine(files(
        root,
        pid,
        path!("/proc/{pid}/fd").as_str(),
        remote,
        each,
    ));
    let threads = root.entries(path!("/proc/{pid}/task").as_str(), |entry| {
        if let Some(tid) =
            number(entry).filter(|tid| *tid != pid && !kcmp::same_files(root, pid, *tid))
        {
            let dir = path!("/proc/{pid}/task/{tid}/fd");
            let looked = gone_is_fine(files(root, pid, dir.as_str(), remote, each));
            if result.is_ok() {
                result = looked;
            }
        }
        true
    });
    result?;
    gone_is_fine(threads)
}

fn files(
    root: &Root,
    pid: u32,
    path: &str,
    remote: &mut Remote,
    each: &mut Each<'_>,
) -> Result<(), Errno> {
    let dir = root.open(path, OFlags::RDONLY | OFlags::DIRECTORY)?;
    let mut buf = [MaybeUninit::uninit(); 2048];
    let mut entries = RawDir::new(&dir, &mut buf);
    while let Some(entry) = entries.next() {
        let entry = entry?;
        if entry.file_name().to_bytes().starts_with(b".") {
            continue;
        }
        match file(root, pid, &dir, entry.file_name(), remote) {
            Ok(Some((device, node))) => {
                each(
                    device,
                    Lasts::Root,
                    format_args!("{node} opened by {}", Process { root, pid }),
                );
            }
            // It was closed while we looked.
            Ok(None) | Err(Errno::NOENT | Errno::SRCH) => {}
            Err(errno) => return Err(errno),
        }
    }
    Ok(())
}

/// What one open file is, if it is an NVMe node.
fn file(
    root: &Root,
    pid: u32,
    dir: &OwnedFd,
    fd: &core::ffi::CStr,
    remote: &mut Remote,
) -> Result<Option<Found>, Errno> {
    let mut target = [0; 256];
    let len = rustix::fs::readlinkat_raw(dir, fd, &mut target)?;
    let target = target.get(..len).unwrap_or_default();
    // Sockets, pipes and anonymous inodes do not start with a slash.
    if !target.starts_with(b"/") {
        return Ok(None);
    }
    let last = target.rsplit(|&b| b == b'/').next().unwrap_or_default();
    if root.is_fixture() {
        let node = Text::of(format_args!("{}", Printable(last)));
        return Ok(name::device(target).map(|device| (device, node)));
    }
    let telling = name::device(last).is_some() || target.starts_with(b"/dev/");
    if !telling && remote.holds(root, pid, fd)? {
        return Ok(None);
    }
    match by_number(root, dir, fd) {
        // A file system that somebody else answers for, and it does not: not where device nodes work.
        Err(Errno::STALE | Errno::NOTCONN | Errno::ACCESS) if !telling => Ok(None),
        other => other,
    }
}

/// What node an open file is, by its number: the name it was opened by may be anything.
fn by_number(root: &Root, dir: impl AsFd, fd: &core::ffi::CStr) -> Result<Option<Found>, Errno> {
    let stat = rustix::fs::statx(dir, fd, AtFlags::STATX_DONT_SYNC, StatxFlags::TYPE)?;
    let dev = Dev(rustix::fs::makedev(
        stat.stx_rdev_major,
        stat.stx_rdev_minor,
    ));
    Ok(match FileType::from_raw_mode(stat.stx_mode.into()) {
        FileType::BlockDevice => claims::device_of(root, "block", dev),
        FileType::CharacterDevice => claims::device_of(root, "char", dev),
        _ => None,
    })
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
