//! Processes that still use the old root when all others have gone, and their end.
//!
//! systemd's last round spares what root runs with an `@` in front of its name (docs/ROOT_STORAGE_DAEMONS.md there). What came
//! from the initramfs and does not touch the old root may be what the old root stands on; what does touch it keeps it from
//! being unmounted. Of the latter only mdmon is needed to the last.

use core::mem::MaybeUninit;

use rustix::fs::{OFlags, RawDir};
use rustix::io::Errno;
use rustix::process::Signal;

use super::md::mdmon;
use super::{Root, proc};
use crate::path;
use crate::text::{Printable, Text};

/// One of them, as `comm[pid]`.
pub type Called = Text<32>;

/// Ends (SIGKILL) every process below `old` but pid 1, `spared` and every mdmon; calls `each` with those. A process that is
/// still there the next time had not gone yet.
pub fn end(root: &Root, old: &str, spared: &[u32], each: &mut dyn FnMut(Called)) {
    users(root, old, &mut |pid, is_mdmon| {
        if pid != 1 && !spared.contains(&pid) && !is_mdmon && kill(root, old, pid).is_ok() {
            each(called(root, pid));
        }
    });
}

/// Asks every mdmon below `old` to see its arrays clean and end (SIGTERM), and returns how many there are.
pub fn end_mdmons(root: &Root, old: &str) -> usize {
    let mut count = 0;
    users(root, old, &mut |pid, is_mdmon| {
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
    users(root, old, &mut |_, is_mdmon| {
        count += usize::from(is_mdmon);
    });
    count
}

/// Calls `each` with every process that uses something below `old`, and whether it is an mdmon.
fn users(root: &Root, old: &str, each: &mut dyn FnMut(u32, bool)) {
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
fn uses(root: &Root, old: &str, pid: u32) -> bool {
    ["exe", "cwd", "root"]
        .iter()
        .any(|link| leads_below(root, old, path!("/proc/{pid}/{link}").as_str()))
        || has_open(root, old, pid).unwrap_or(false)
}

fn leads_below(root: &Root, old: &str, link: &str) -> bool {
    let mut buf = [0; 512];
    root.read_link(link, &mut buf)
        .is_ok_and(|target| is_below(target, old))
}

fn is_below(path: &[u8], old: &str) -> bool {
    path.strip_prefix(old.as_bytes())
        .is_some_and(|rest| rest.is_empty() || rest.starts_with(b"/"))
}

fn has_open(root: &Root, old: &str, pid: u32) -> Result<bool, Errno> {
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
        if is_below(target.get(..len).unwrap_or_default(), old) {
            return Ok(true);
        }
    }
    Ok(false)
}

fn kill(root: &Root, old: &str, pid: u32) -> Result<(), Errno> {
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
        let root = Root::below(dir.path().as_os_str()).unwrap();
        let mut seen = Vec::new();
        users(&root, "/oldroot", &mut |pid, mdmon| seen.push((pid, mdmon)));
        seen.sort();
        assert_eq!(seen, [(20, false), (22, false), (23, false), (30, true)]);
        assert_eq!(mdmons(&root, "/oldroot"), 1);
        let mut ended = 0;
        end(&root, "/oldroot", &[], &mut |_| ended += 1);
        assert_eq!(ended, 0);
    }
}
