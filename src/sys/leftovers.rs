//! Processes that still use the old root when all others have gone, and their end.
//!
//! systemd's last round spares what root runs with an `@` in front of its name (docs/ROOT_STORAGE_DAEMONS.md there). What came
//! from the initramfs and does not touch the old root may be what the old root stands on; what does touch it keeps it from
//! being unmounted. Of the latter only mdmon is needed to the last. What the kernel shows of itself below the old root, or
//! devices there, is not the old root's: whoever came from the initramfs has its /dev/null there. A file system that is
//! mounted below these is: systemd moves what it finds busy to /run/shutdown/mounts (its src/shutdown/umount.c).

use core::mem::MaybeUninit;

use rustix::fs::{OFlags, RawDir};
use rustix::io::Errno;
use rustix::process::Signal;

use super::md::mdmon;
use super::{Root, mounts, proc};
use crate::path;
use crate::text::{Printable, Text};

/// One of them, as `comm[pid]`.
pub type Called = Text<32>;

/// What the kernel shows of itself, and memory, mounted a second time below the old root.
pub const WINDOWS: [&str; 4] = [
    "/oldroot/run",
    "/oldroot/dev",
    "/oldroot/sys",
    "/oldroot/proc",
];

/// Where a process has something.
#[derive(Clone, Copy, Debug)]
struct Place<'a> {
    below: &'a str,
    /// Not in these, but in a file system that is mounted below one.
    but: &'a [&'a str],
}

impl Place<'_> {
    fn has(&self, root: &Root, path: &[u8]) -> bool {
        let window = self.but.iter().find(|window| is_below(path, window));
        is_below(path, self.below) && window.is_none_or(|window| is_on_mount_in(root, window, path))
    }
}

fn is_on_mount_in(root: &Root, window: &str, path: &[u8]) -> bool {
    let mut is = false;
    // Where the mounts cannot be read nobody is ended: the unmount will say that it is busy.
    let _ = mounts::each(root, &mut |mount| {
        let point = mount.point.as_str();
        is |= !mount.is_virtual && is_below(point.as_bytes(), window) && is_below(path, point);
    });
    is
}

/// Ends (SIGKILL) every process that has something of the old root's but pid 1, `spared` and every mdmon; calls `each` with those.
/// A process that is still there the next time had not gone yet.
pub fn end(root: &Root, old: &str, spared: &[u32], each: &mut dyn FnMut(Called)) {
    let old = Place {
        below: old,
        but: &WINDOWS,
    };
    users(root, old, &mut |pid, is_mdmon| {
        if pid != 1 && !spared.contains(&pid) && !is_mdmon && kill(root, old, pid).is_ok() {
            each(called(root, pid));
        }
    });
}

/// Asks every mdmon below `old` to see its arrays clean and end (SIGTERM), and returns how many there are.
pub fn end_mdmons(root: &Root, old: &str) -> usize {
    let mut count = 0;
    users(root, anywhere(old), &mut |pid, is_mdmon| {
        if is_mdmon {
            count += 1;
            let _ = proc::signal(root, pid, Signal::TERM, &|| mdmon::is_mdmon(root, pid));
        }
    });
    count
}

/// How many mdmons are below `old`.
pub fn mdmons(root: &Root, old: &str) -> usize {
    let mut count = 0;
    users(root, anywhere(old), &mut |_, is_mdmon| {
        count += usize::from(is_mdmon);
    });
    count
}

/// Whether that process has anything at or below `old`.
pub fn is_user(root: &Root, old: &str, pid: u32) -> bool {
    uses(root, anywhere(old), pid)
}

/// An mdmon is needed, and then to be gone, whatever it is that it has there.
const fn anywhere(old: &str) -> Place<'_> {
    Place {
        below: old,
        but: &[],
    }
}

/// Calls `each` with every process that uses something there, and whether it is an mdmon.
fn users(root: &Root, old: Place<'_>, each: &mut dyn FnMut(u32, bool)) {
    // Without /proc there is nobody to be seen: the unmount will say that it is busy.
    let _ = root.entries("/proc", |entry| {
        let pid = core::str::from_utf8(entry)
            .ok()
            .and_then(|name| name.parse().ok());
        if let Some(pid) = pid.filter(|pid| uses(root, old, *pid)) {
            each(pid, mdmon::is_mdmon(root, pid));
        }
        true
    });
}

/// By what it runs, where it is and what it has open. (Its libraries come from where its program does.) A kernel thread has
/// none of these.
fn uses(root: &Root, old: Place<'_>, pid: u32) -> bool {
    ["exe", "cwd", "root"]
        .iter()
        .any(|link| leads_below(root, old, path!("/proc/{pid}/{link}").as_str()))
        || has_open(root, old, pid).unwrap_or(false)
}

fn leads_below(root: &Root, old: Place<'_>, link: &str) -> bool {
    let mut buf = [0; 512];
    root.read_link(link, &mut buf)
        .is_ok_and(|target| old.has(root, target))
}

fn is_below(path: &[u8], old: &str) -> bool {
    path.strip_prefix(old.as_bytes())
        .is_some_and(|rest| rest.is_empty() || rest.starts_with(b"/"))
}

fn has_open(root: &Root, old: Place<'_>, pid: u32) -> Result<bool, Errno> {
    let dir = root.open(
        path!("/proc/{pid}/fd").as_str(),
        OFlags::RDONLY | OFlags::DIRECTORY,
    )?;
    let mut buf = [MaybeUninit::uninit(); 2048];
    let mut entries = RawDir::new(&dir, &mut buf);
    while let Some(entry) = entries.next() {
        let mut target = [0; 512];
        let entry = entry?;
        let len = rustix::fs::readlinkat_raw(&dir, entry.file_name(), &mut target).unwrap_or(0);
        if old.has(root, target.get(..len).unwrap_or_default()) {
            return Ok(true);
        }
    }
    Ok(false)
}

fn kill(root: &Root, old: Place<'_>, pid: u32) -> Result<(), Errno> {
    proc::signal(root, pid, Signal::KILL, &|| uses(root, old, pid))
}

fn called(root: &Root, pid: u32) -> Called {
    let mut buf = [0; 64];
    let comm = root.read(path!("/proc/{pid}/comm").as_str(), &mut buf);
    Text::of(format_args!("{}[{pid}]", Printable(comm.unwrap_or(b"pid"))))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn users_of_the_old_root_are_found_and_a_fixtures_are_not_touched_b28() {
        let dir = tempfile::tempdir().unwrap();
        let process = |pid: u32, name: &str, links: &[(&str, &str)]| {
            let at = dir.path().join(format!("proc/{pid}"));
            std::fs::create_dir_all(at.join("fd")).unwrap();
            std::fs::write(at.join("cmdline"), format!("{name}\0x\0")).unwrap();
            for (link, target) in links {
                symlink(target, at.join(link)).unwrap();
            }
        };
        process(
            1,
            "/shutdown",
            &[("exe", "/shutdown"), ("fd/0", "/dev/console")],
        );
        process(2, "", &[("cwd", "/"), ("root", "/")]);
        process(
            20,
            "@writer",
            &[("exe", "/oldroot/usr/bin/writer"), ("cwd", "/")],
        );
        process(
            21,
            "@iscsid",
            &[("exe", "/sbin/iscsid (deleted)"), ("fd/3", "/dev/sda")],
        );
        process(
            22,
            "@log",
            &[("exe", "/bin/log"), ("fd/4", "/oldroot/var/log/x")],
        );
        process(23, "@here", &[("exe", "/bin/sh"), ("cwd", "/oldroot")]);
        process(
            24,
            "@near",
            &[("exe", "/oldrooted/bin/sh"), ("cwd", "/oldroot2")],
        );
        process(30, "@usr/sbin/mdmon", &[("exe", "/oldroot/usr/sbin/mdmon")]);
        process(31, "@sbin/mdmon", &[("exe", "/sbin/mdmon (deleted)")]);
        // The /dev of the initramfs has become that of the old root.
        process(
            25,
            "@ntfs-3g",
            &[("exe", "/sbin/ntfs-3g"), ("fd/0", "/oldroot/dev/null")],
        );
        process(
            32,
            "@sbin/mdmon",
            &[("exe", "/sbin/mdmon"), ("fd/0", "/oldroot/dev/null")],
        );
        // One whose file system systemd has moved, and one on memory beside it.
        process(
            26,
            "@moved",
            &[
                ("exe", "/bin/sh"),
                ("fd/1", "/oldroot/run/shutdown/mounts/1f/x"),
            ],
        );
        process(
            27,
            "@beside",
            &[
                ("exe", "/bin/sh"),
                ("fd/1", "/oldroot/run/shutdown/mounts/x"),
            ],
        );
        std::fs::create_dir_all(dir.path().join("proc/self")).unwrap();
        std::fs::write(
            dir.path().join("proc/self/mountinfo"),
            "1 0 0:20 / /oldroot/run rw - tmpfs tmpfs rw\n\
             2 1 8:3 / /oldroot/run/shutdown/mounts/1f rw - ext4 /dev/sda3 rw\n",
        )
        .unwrap();
        let root = Root::below(dir.path().as_os_str()).unwrap();
        let seen = |but| {
            let mut seen = Vec::new();
            let below = "/oldroot";
            users(&root, Place { below, but }, &mut |pid, mdmon| {
                seen.push((pid, mdmon))
            });
            seen.sort();
            seen
        };
        assert_eq!(
            seen(&WINDOWS),
            [
                (20, false),
                (22, false),
                (23, false),
                (26, false),
                (30, true)
            ]
        );
        assert_eq!(
            seen(&[]),
            [
                (20, false),
                (22, false),
                (23, false),
                (25, false),
                (26, false),
                (27, false),
                (30, true),
                (32, true)
            ]
        );
        assert_eq!(mdmons(&root, "/oldroot"), 2);
        let mut ended = 0;
        end(&root, "/oldroot", &[], &mut |_| ended += 1);
        assert_eq!(ended, 0);
    }
}
