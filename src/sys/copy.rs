//! This program, copied to where it can be run from when the root it came from is gone.

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use super::{Path, Root};
use crate::path;

/// A piece of the file: on the stack, and few of them.
const PIECE: usize = 32 * 1024;

/// Puts a copy of the running program at `to`, executable, whole or not at all: by another name first, then by rename(2).
pub fn program(root: &Root, to: &str) -> Result<(), Errno> {
    let from = rustix::fs::open(
        "/proc/self/exe",
        OFlags::RDONLY | OFlags::CLOEXEC,
        Mode::empty(),
    )?;
    let new = beside(to);
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC | OFlags::NOFOLLOW;
    let file = root.open_mode(new.as_str(), flags, Mode::from_raw_mode(0o700))?;
    let mut piece = [0; PIECE];
    loop {
        let n = rustix::io::retry_on_intr(|| rustix::io::read(&from, &mut piece))?;
        if n == 0 {
            break;
        }
        let mut rest = piece.get(..n).unwrap_or_default();
        while !rest.is_empty() {
            let n = rustix::io::retry_on_intr(|| rustix::io::write(&file, rest))?;
            rest = rest.get(n..).unwrap_or_default();
        }
    }
    // Whatever the umask is.
    rustix::fs::fchmod(&file, Mode::from_raw_mode(0o755))?;
    drop(file);
    rename(root, new.as_str(), to)
}

/// Makes `at` a symbolic link to `target`, whatever was there.
pub fn link(root: &Root, target: &str, at: &str) -> Result<(), Errno> {
    let new = beside(at);
    let (dir, name) = root.parent(new.as_str())?;
    match rustix::fs::unlinkat(&dir, name, rustix::fs::AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => {}
        Err(errno) => return Err(errno),
    }
    rustix::fs::symlinkat(target, &dir, name)?;
    rename(root, new.as_str(), at)
}

/// Whether what is mounted by this process is mounted for pid 1 too (mount_namespaces(7)).
pub fn is_init_namespace(root: &Root) -> bool {
    let (mut ours, mut inits) = ([0; 64], [0; 64]);
    let ours = root.read_link("/proc/self/ns/mnt", &mut ours);
    ours.is_ok() && ours == root.read_link("/proc/1/ns/mnt", &mut inits)
}

fn beside(path: &str) -> Path {
    path!("{path}.new")
}

fn rename(root: &Root, from: &str, to: &str) -> Result<(), Errno> {
    let (dir, from) = root.parent(from)?;
    let name = to.rsplit('/').next().unwrap_or(to);
    rustix::fs::renameat(&dir, from, &dir, name)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_copy_is_whole_executable_and_replaces_what_was_there() {
        let dir = tempfile::tempdir().unwrap();
        let root = Root::below(dir.path().as_os_str()).unwrap();
        let file = dir.path().join("shutdown");
        std::fs::write(&file, "half of one").unwrap();
        program(&root, "/shutdown").unwrap();
        let own = std::fs::read("/proc/self/exe").unwrap();
        assert!(std::fs::read(&file).unwrap() == own);
        let mode = std::fs::metadata(&file).unwrap().permissions().mode();
        assert_eq!(mode & 0o7777, 0o755);
        assert!(!dir.path().join("shutdown.new").exists());
        assert!(root.executable("/shutdown"));
        link(&root, "shutdown", "/quell").unwrap();
        link(&root, "shutdown", "/quell").unwrap();
        assert!(std::fs::read(dir.path().join("quell")).unwrap() == own);
        assert_eq!(program(&root, "/none/shutdown"), Err(Errno::NOENT));
    }
}
