//! Other programs, run and waited for: mdmon, modprobe. Not by std, whose way allocates and is large.
#![allow(unsafe_code)]

use core::ffi::{CStr, c_char};
use core::fmt;

use nix::libc;
use nix::sys::signal::SigSet;
use nix::unistd::ForkResult;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Pid, PidfdFlags, WaitOptions, WaitStatus, pidfd_open, waitpid};
use rustix::time::Timespec;

use super::{Path, Root};
use crate::deadline::Deadline;
use crate::errno::Cause;
use crate::path;

/// Why a program did not do what it was run for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// There is no such program.
    Missing,
    /// It could not be started.
    Spawn(Errno),
    /// It ended with that status.
    Exit(i32),
    /// A signal ended it.
    Signal,
    /// It had not ended by the deadline. It goes on.
    Timeout,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing => f.write_str("no such program"),
            Self::Spawn(errno) => write!(f, "cannot be run: {}", Cause(*errno)),
            Self::Exit(status) => write!(f, "ended with status {status}"),
            Self::Signal => f.write_str("was ended by a signal"),
            Self::Timeout => f.write_str("did not end in time"),
        }
    }
}

/// Arguments a program may have, its own name included.
const ARGUMENTS: usize = 4;

/// Runs `program` with `args` (the first is what it is called) and waits until it ends with 0. It is never killed.
///
/// Only a worker may call this: the program gets its standard files, working directory and environment, but no signal
/// blocked or ignored, and none of its other files.
pub fn run(root: &Root, program: &str, args: &[&str], deadline: Deadline) -> Result<(), Failure> {
    run_below(root, "/", program, args, deadline)
}

/// The same, with `dir` as its root (chroot(2)).
pub fn run_below(
    root: &Root,
    dir: &str,
    program: &str,
    args: &[&str],
    deadline: Deadline,
) -> Result<(), Failure> {
    if root.is_fixture() {
        return Err(Failure::Spawn(Errno::OPNOTSUPP));
    }
    start(dir, program, args)
        .map_err(Failure::Spawn)?
        .wait(deadline)
}

/// Has the kernel's own helper bring in a module, as the kernel itself would (Documentation/admin-guide/sysctl/kernel.rst,
/// modprobe).
pub fn load_module(root: &Root, name: &str, deadline: Deadline) -> Result<(), Failure> {
    let mut buf = [0; 240];
    let helper = root
        .read("/proc/sys/kernel/modprobe", &mut buf)
        .map_err(|_| Failure::Missing)?;
    match core::str::from_utf8(helper) {
        Ok(helper) if root.executable(helper) => run(root, helper, &[helper, "-q", name], deadline),
        _ => Err(Failure::Missing),
    }
}

/// A program under way.
struct Child {
    pid: Pid,
    /// Where it says why it could not become the program.
    trouble: OwnedFd,
}

fn start(dir: &str, program: &str, args: &[&str]) -> Result<Child, Errno> {
    let dir = (dir != "/").then(|| terminated(dir)).transpose()?;
    let program = terminated(program)?;
    let mut words: heapless::Vec<Path, ARGUMENTS> = heapless::Vec::new();
    for arg in args {
        words.push(terminated(arg)?).map_err(|_| Errno::TOOBIG)?;
    }
    // A null pointer ends them.
    let mut pointers = [core::ptr::null(); ARGUMENTS + 1];
    for (pointer, word) in pointers.iter_mut().zip(&words) {
        *pointer = pointer_to(word)?;
    }
    let program = pointer_to(&program)?;
    let dir = dir.as_ref().map(pointer_to).transpose()?;
    let (trouble, theirs) = pipe_with(PipeFlags::CLOEXEC)?;
    // SAFETY: the child calls nothing but system calls until it ends or is another program.
    match unsafe { nix::unistd::fork() } {
        Ok(ForkResult::Parent { child }) => {
            let pid = Pid::from_raw(child.as_raw()).ok_or(Errno::AGAIN)?;
            Ok(Child { pid, trouble })
        }
        Ok(ForkResult::Child) => {
            become_program(dir, program, &pointers, &theirs);
            // SAFETY: _exit(2) is always safe.
            unsafe { libc::_exit(127) }
        }
        Err(errno) => Err(Errno::from_raw_os_error(errno as i32)),
    }
}

/// Returns only if that cannot be.
fn become_program(
    dir: Option<*const c_char>,
    program: *const c_char,
    args: &[*const c_char],
    trouble: &OwnedFd,
) {
    let _ = rustix::process::setsid();
    // Handled signals get back their defaults by exec, ignored ones would stay so.
    for signal in 1..=libc::SIGRTMAX() {
        // SAFETY: the default action runs no handler of ours.
        unsafe { libc::signal(signal, libc::SIG_DFL) };
    }
    let _ = SigSet::empty().thread_set_mask();
    // SAFETY: all are NUL-terminated text in the caller's frame, which this process has a copy of.
    unsafe {
        if dir.is_none_or(|dir| libc::chroot(dir) == 0 && libc::chdir(c"/".as_ptr()) == 0) {
            libc::execv(program, args.as_ptr());
        }
    }
    let errno = nix::errno::Errno::last_raw();
    let _ = rustix::io::write(trouble, &errno.to_ne_bytes());
}

fn terminated(text: &str) -> Result<Path, Errno> {
    let terminated = path!("{text}\0");
    match terminated.is_cut() {
        true => Err(Errno::NAMETOOLONG),
        false => Ok(terminated),
    }
}

fn pointer_to(text: &Path) -> Result<*const c_char, Errno> {
    CStr::from_bytes_with_nul(text.as_str().as_bytes())
        .map(CStr::as_ptr)
        .map_err(|_| Errno::INVAL)
}

impl Child {
    fn wait(self, deadline: Deadline) -> Result<(), Failure> {
        /// Where the kernel has no pidfd_open(2) (before 5.3), the child is looked at again and again.
        const AGAIN_MS: u64 = 5;
        let pidfd = pidfd_open(self.pid, PidfdFlags::empty()).ok();
        loop {
            if let Some((_, status)) =
                waitpid(Some(self.pid), WaitOptions::NOHANG).map_err(Failure::Spawn)?
            {
                return self.outcome(status);
            }
            if deadline.is_over() {
                return Err(Failure::Timeout);
            }
            let _ = match &pidfd {
                Some(pidfd) => poll(
                    &mut [PollFd::new(pidfd, PollFlags::IN)],
                    Some(&timespec(deadline.rest_ms())),
                ),
                None => poll(&mut [], Some(&timespec(AGAIN_MS.min(deadline.rest_ms())))),
            };
        }
    }

    fn outcome(&self, status: WaitStatus) -> Result<(), Failure> {
        let mut errno = [0; 4];
        if rustix::io::read(&self.trouble, &mut errno) == Ok(errno.len()) {
            return Err(match Errno::from_raw_os_error(i32::from_ne_bytes(errno)) {
                Errno::NOENT => Failure::Missing,
                errno => Failure::Spawn(errno),
            });
        }
        match status.exit_status() {
            Some(0) => Ok(()),
            Some(status) => Err(Failure::Exit(status)),
            None => Err(Failure::Signal),
        }
    }
}

/// For poll(2).
pub(super) fn timespec(ms: u64) -> Timespec {
    let ms = i64::try_from(ms).unwrap_or(i64::MAX);
    Timespec {
        tv_sec: ms / 1000,
        tv_nsec: ms % 1000 * 1_000_000,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn shell(script: &str, ms: u64) -> Result<(), Failure> {
        let deadline = Deadline::in_seconds(60).within_ms(ms);
        start("/", "/bin/sh", &["@sh", "-c", script])
            .unwrap()
            .wait(deadline)
    }

    #[test]
    fn how_a_program_ends_is_told() {
        assert_eq!(shell("exit 0", 10_000), Ok(()));
        assert_eq!(shell("exit 3", 10_000), Err(Failure::Exit(3)));
        assert_eq!(shell("exit 127", 10_000), Err(Failure::Exit(127)));
        assert_eq!(shell("kill -9 $$", 10_000), Err(Failure::Signal));
        assert_eq!(shell("sleep 0.5", 20), Err(Failure::Timeout));
        // A daemon it leaves behind holds nobody up.
        assert_eq!(shell("sleep 2 & exit 0", 1000), Ok(()));
        // It sees its name and no signal ignored or blocked (proc(5), status).
        let free = "test \"$0\" = @sh && grep -q '^SigIgn:.*0000000$' /proc/$$/status";
        assert_eq!(shell(free, 10_000), Ok(()));
    }

    #[test]
    fn what_is_no_program_is_missing() {
        let deadline = Deadline::in_seconds(10);
        let run = |program| start("/", program, &[program]).unwrap().wait(deadline);
        assert_eq!(run("/no/such/program"), Err(Failure::Missing));
        assert_eq!(run("/proc"), Err(Failure::Spawn(Errno::ACCESS)));
        let long = "x".repeat(300);
        assert_eq!(start("/", &long, &[]).err(), Some(Errno::NAMETOOLONG));
        assert_eq!(start("/", "a\0b", &[]).err(), Some(Errno::INVAL));
        assert_eq!(start("/", "a", &["a"; 5]).err(), Some(Errno::TOOBIG));
    }

    #[test]
    fn nothing_is_run_for_a_fixture() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(dir.path().join("proc/sys/kernel")).unwrap();
        let root = Root::below(dir.path().as_os_str()).unwrap();
        let deadline = Deadline::in_seconds(1);
        let refused = Err(Failure::Spawn(Errno::OPNOTSUPP));
        assert_eq!(run(&root, "/bin/true", &["true"], deadline), refused);
        assert_eq!(
            load_module(&root, "md_mod", deadline),
            Err(Failure::Missing)
        );
        std::fs::write(dir.path().join("proc/sys/kernel/modprobe"), "/proc\n").unwrap();
        assert_eq!(load_module(&root, "md_mod", deadline), refused);
    }
}
