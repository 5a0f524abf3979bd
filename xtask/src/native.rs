//! The one place that starts quell on this machine.
//!
//! quell stops arrays and unbinds drivers. Whatever runs it here gives it a folder of its own to look at, never the real
//! /sys, /proc and /dev (B44): a folder that is one of them, or has one of them mounted anywhere below, is refused. That
//! nothing else in the tree starts the binary is checked by `cargo xtask test`.

use anyhow::{Context, Result, bail};
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// quell's own binary, to be run against `root`.
pub(crate) fn quell<S: AsRef<OsStr>>(
    binary: &Path,
    root: &Path,
    args: impl IntoIterator<Item = S>,
) -> Result<Command> {
    let root = checked(root)?;
    let mut command = Command::new(binary);
    command
        .arg("--root")
        .arg(root)
        .args(args)
        .env_remove("QUELL_ROOT");
    Ok(command)
}

/// The root, resolved; an error where quell could touch the machine through it.
fn checked(root: &Path) -> Result<PathBuf> {
    let real = fs::canonicalize(root).with_context(|| format!("no root {}", root.display()))?;
    if !real.is_dir() {
        bail!("{} is not a folder", real.display());
    }
    let mounts =
        fs::read_to_string("/proc/self/mountinfo").context("cannot tell what is mounted where")?;
    match danger(&real, &mounts) {
        Some(why) => bail!("quell is not run against {}: {why}", real.display()),
        None => Ok(real),
    }
}

/// Why a folder must not be a root, given mountinfo.
fn danger(root: &Path, mountinfo: &str) -> Option<String> {
    if root == Path::new("/") {
        return Some("it is the machine's own root".to_owned());
    }
    let mut on = (0, "");
    for line in mountinfo.lines() {
        let parts = line.split_once(" - ").and_then(|(mount, source)| {
            Some((mount.split(' ').nth(4)?, source.split(' ').next()?))
        });
        let Some((point, kind)) = parts else {
            return Some(format!("what is mounted where cannot be read: {line}"));
        };
        let point = PathBuf::from(unescaped(point));
        if root.starts_with(&point) {
            // The last and deepest mount over a path is the one that is seen.
            let depth = point.components().count();
            if depth >= on.0 {
                on = (depth, kind);
            }
        } else if point.starts_with(root) && is_kernels(kind) {
            return Some(format!("{kind} is mounted on {}", point.display()));
        }
    }
    is_kernels(on.1).then(|| format!("it lies on {}", on.1))
}

fn is_kernels(kind: &str) -> bool {
    matches!(kind, "sysfs" | "proc" | "devtmpfs")
}

/// Blanks and the like stand as three octal digits in mountinfo.
fn unescaped(text: &str) -> String {
    [
        ("\\040", " "),
        ("\\011", "\t"),
        ("\\012", "\n"),
        ("\\134", "\\"),
    ]
    .iter()
    .fold(text.to_owned(), |text, (from, to)| text.replace(from, to))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOUNTS: &str = "22 1 254:0 / / rw - ext4 /dev/vda rw\n\
                          23 22 0:21 / /sys rw - sysfs sysfs rw\n\
                          24 22 0:22 / /proc rw - proc proc rw\n\
                          25 22 0:5 / /dev rw - devtmpfs udev rw\n\
                          26 25 0:24 / /dev/shm rw - tmpfs tmpfs rw\n\
                          27 22 0:21 / /srv/a\\040root/sys rw - sysfs sysfs rw\n";

    #[test]
    fn only_harmless_folders_are_roots() {
        let why = |path: &str| danger(Path::new(path), MOUNTS);
        assert_eq!(why("/tmp/fixture"), None);
        assert_eq!(why("/dev/shm/fixture"), None);
        for path in [
            "/",
            "/sys",
            "/sys/class",
            "/proc/1/root",
            "/dev",
            "/srv/a root",
            "/srv",
        ] {
            assert!(why(path).is_some(), "{path}");
        }
        assert!(danger(Path::new("/tmp/fixture"), "garbage").is_some());
    }

    #[test]
    fn the_command_carries_its_root() {
        let root = tempfile::tempdir().unwrap();
        let command = quell(Path::new("/nowhere/quell"), root.path(), ["status"]).unwrap();
        let args: Vec<&OsStr> = command.get_args().collect();
        assert_eq!(args.first(), Some(&OsStr::new("--root")));
        assert_eq!(args.len(), 3);
        assert!(quell(Path::new("/nowhere/quell"), Path::new("/"), ["status"]).is_err());
        assert!(quell(Path::new("/nowhere/quell"), Path::new("/sys"), ["status"]).is_err());
        assert!(
            quell(
                Path::new("/nowhere/quell"),
                &root.path().join("no"),
                ["status"]
            )
            .is_err()
        );
    }
}
