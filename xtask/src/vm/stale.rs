//! QEMUs that have outlived their xtask.
//!
//! An xtask that ends in whatever way takes its QEMU along, but for one that is killed with -9. So each QEMU leaves its pid
//! in `target/vm/run/`, in a file named after its xtask's, and the next xtask ends those whose parent is not that one any
//! more. A machine left behind would eat a core for ever, since a case may well hang on purpose.

use anyhow::{Context, Result};
use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Once;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Where one QEMU writes its pid. The file goes when this does.
#[derive(Debug)]
pub(super) struct PidFile(PathBuf);

impl PidFile {
    /// A new one. The first call ends what earlier runs have left.
    pub(super) fn new() -> Result<Self> {
        static FIRST: Once = Once::new();
        static NUMBER: AtomicUsize = AtomicUsize::new(0);
        let dir = super::target_dir().join("vm/run");
        fs::create_dir_all(&dir).with_context(|| format!("cannot make {}", dir.display()))?;
        FIRST.call_once(|| end_all(&dir));
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        Ok(Self(
            dir.join(format!("{}-{number}.pid", std::process::id())),
        ))
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for PidFile {
    fn drop(&mut self) {
        // QEMU removes it itself, unless it was killed.
        let _ = fs::remove_file(&self.0);
    }
}

/// Ends every QEMU of `dir` whose xtask has gone, and forgets those that have gone themselves.
fn end_all(dir: &Path) {
    let Ok(entries) = fs::read_dir(dir) else {
        return;
    };
    for file in entries.flatten().map(|entry| entry.path()) {
        let pid = fs::read_to_string(&file).ok();
        let pid = pid.and_then(|text| text.trim().parse::<u32>().ok());
        let proc = |name| {
            fs::read_to_string(format!("/proc/{}/{name}", pid.unwrap_or_default()))
                .unwrap_or_default()
        };
        match state(&file, &proc("cmdline"), &proc("status")) {
            State::Running => continue,
            State::Orphan => {
                let raw = pid.and_then(|pid| i32::try_from(pid).ok());
                if let Some(pid) = raw.and_then(Pid::from_raw) {
                    eprintln!("vm: ending a QEMU that an earlier run left behind");
                    let _ = kill_process(pid, Signal::KILL);
                }
            }
            State::Gone => {}
        }
        let _ = fs::remove_file(file);
    }
}

#[derive(Debug, PartialEq, Eq)]
enum State {
    /// Its xtask still looks after it, or is about to start it.
    Running,
    /// Its xtask has gone.
    Orphan,
    /// It is not there, or its pid is another's by now.
    Gone,
}

/// What has become of the QEMU with this pid file, whose pid has this cmdline and status.
fn state(file: &Path, cmdline: &str, status: &str) -> State {
    if !cmdline.contains(&*file.to_string_lossy()) {
        return State::Gone;
    }
    let parent = status
        .lines()
        .find_map(|line| line.strip_prefix("PPid:"))
        .map(str::trim);
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    if name.split('-').next() == parent {
        State::Running
    } else {
        State::Orphan
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_qemu_of_ours_without_its_xtask_is_ended() {
        let file = Path::new("/t/vm/run/812-3.pid");
        let ours = "qemu-system-x86_64\0-pidfile\0/t/vm/run/812-3.pid\0";
        let child_of = |pid| format!("Name:\tqemu-system-x86\nPid:\t900\nPPid:\t{pid}\n");
        assert_eq!(state(file, ours, &child_of(812)), State::Running);
        assert_eq!(state(file, ours, &child_of(1)), State::Orphan);
        assert_eq!(state(file, "sleep\0", &child_of(1)), State::Gone);
        assert_eq!(state(file, "", ""), State::Gone);
    }
}
