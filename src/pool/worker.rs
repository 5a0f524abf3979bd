//! What a forked process does first, and the worker's loop.
#![allow(unsafe_code)]

use std::os::fd::RawFd;

use nix::sys::signal::{SigHandler, SigSet, Signal};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::ForkResult;
use rustix::fd::{AsFd, AsRawFd, OwnedFd};
use rustix::fs::OFlags;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags};
use rustix::process::Pid;

use super::{Crew, MESSAGE};
use crate::sys::Root;

/// First byte of a message that says something of the job.
pub(super) const SAYS: u8 = 1;
/// First byte of the message that ends a job.
const DONE: u8 = 0;

/// The worker's end of its socket.
pub struct Reply {
    socket: OwnedFd,
}

impl Reply {
    /// Tells the main process something, at most [`MESSAGE`] - 1 bytes. If it is gone, nobody needs to know.
    pub fn say(&self, message: &[u8]) {
        let mut buf = [SAYS; MESSAGE];
        let len = message.len().min(MESSAGE - 1);
        if let (Some(to), Some(from)) = (buf.get_mut(1..=len), message.get(..len)) {
            to.copy_from_slice(from);
        }
        self.send(buf.get(..=len).unwrap_or_default());
    }

    /// True if nobody listens any more: neither the main process nor a guard. What has not begun then is not begun.
    pub fn is_alone(&self) -> bool {
        let mut none = [0; 1];
        let flags = RecvFlags::PEEK | RecvFlags::DONTWAIT;
        matches!(
            rustix::net::recv(&self.socket, &mut none, flags),
            Ok((0, _))
        )
    }

    fn send(&self, bytes: &[u8]) {
        let _ = rustix::io::retry_on_intr(|| {
            rustix::net::send(&self.socket, bytes, SendFlags::NOSIGNAL)
        });
    }
}

/// Makes a worker that listens on `socket`.
pub(super) fn fork(root: &Root, socket: OwnedFd, crew: &dyn Crew) -> Result<Pid, Errno> {
    let keep = [socket.as_raw_fd()];
    child(root, &keep, || {
        let reply = Reply { socket };
        let mut order = [0; MESSAGE];
        loop {
            match rustix::net::recv(&reply.socket, &mut order, RecvFlags::empty()) {
                Ok((len, _)) if len > 0 => {
                    crew.work(order.get(..len).unwrap_or_default(), &reply);
                    reply.send(&[DONE]);
                }
                Err(Errno::INTR) => {}
                // The main process has gone, or wants no more of us.
                _ => return,
            }
        }
    })
}

/// Forks a process of its own that runs `life` and ends. It has its own session, ignores the signals that end a run, has
/// no parent-death signal (fork(2) clears it), its standard files on /dev/null, and none open but `keep`.
pub(super) fn child(root: &Root, keep: &[RawFd], life: impl FnOnce()) -> Result<Pid, Errno> {
    // SAFETY: this process has one thread (it never starts another), so the child may do all that the parent may.
    match unsafe { nix::unistd::fork() } {
        Ok(ForkResult::Parent { child }) => Pid::from_raw(child.as_raw()).ok_or(Errno::AGAIN),
        Ok(ForkResult::Child) => {
            detach(root, keep);
            life();
            // SAFETY: _exit(2) is always safe; nothing of the parent's is to be flushed or dropped twice.
            unsafe { nix::libc::_exit(0) }
        }
        Err(errno) => Err(Errno::from_raw_os_error(errno as i32)),
    }
}

/// Runs `life` in a process as [`child`] makes it.
pub(crate) fn apart(root: &Root, life: impl FnOnce()) -> Result<Pid, Errno> {
    child(root, &[], life)
}

fn detach(root: &Root, keep: &[RawFd]) {
    // None of these can fail in a way that is better answered than ignored: the job comes first.
    let _ = rustix::process::setsid();
    let _ = SigSet::all().thread_set_mask();
    for signal in [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP] {
        // SAFETY: ignoring a signal runs no handler.
        let _ = unsafe { nix::sys::signal::signal(signal, SigHandler::SigIgn) };
    }
    let _ = rustix::process::chdir("/");
    let mut kept: heapless::Vec<RawFd, { super::WORKERS + 2 }> = heapless::Vec::new();
    let _ = kept.extend_from_slice(keep);
    if let Root::Below(dir) = root {
        let _ = kept.push(dir.as_raw_fd());
    }
    kept.sort_unstable();
    // A machine without /dev/null still shuts down: the files are then closed.
    let null = rustix::fs::open(
        "/dev/null",
        OFlags::RDWR | OFlags::CLOEXEC,
        rustix::fs::Mode::empty(),
    );
    match &null {
        Ok(null) => {
            let _ = rustix::stdio::dup2_stdin(null.as_fd());
            let _ = rustix::stdio::dup2_stdout(null.as_fd());
            let _ = rustix::stdio::dup2_stderr(null.as_fd());
        }
        Err(_) => close_range(0, 2),
    }
    let mut from = 3;
    for fd in kept {
        close_range(from, fd - 1);
        from = fd + 1;
    }
    close_range(from, RawFd::MAX);
    // Closed by number above.
    core::mem::forget(null);
}

/// Closes the file descriptors `first` to `last`, which nobody uses any more.
fn close_range(first: RawFd, last: RawFd) {
    /// Where a kernel before 5.9 has no close_range(2): the limit that quell raises its own to.
    const MOST: RawFd = 4096;
    if first > last {
        return;
    }
    // SAFETY: the descriptors belong to values of the parent that the child never uses nor drops.
    unsafe {
        if nix::libc::syscall(nix::libc::SYS_close_range, first, last, 0) != 0 {
            for fd in first..=last.min(MOST) {
                nix::libc::close(fd);
            }
        }
    }
}

/// Does `count` jobs of a worker at the same time, each in a process of its own, and waits for all: threads would weigh
/// more. What it comes to must be told by an errno. Only a worker may call this, since it waits without bound.
pub fn side_by_side(
    count: usize,
    job: &dyn Fn(usize) -> Result<(), Errno>,
) -> Vec<Result<(), Errno>> {
    let begun: Vec<Option<nix::unistd::Pid>> = (0..count)
        .map(|at| {
            // The last one is the worker's own.
            if at + 1 == count {
                return None;
            }
            // SAFETY: this process has one thread, so the child may do all that the parent may.
            match unsafe { nix::unistd::fork() } {
                Ok(ForkResult::Parent { child }) => Some(child),
                Ok(ForkResult::Child) => {
                    let code = job(at).map_or_else(Errno::raw_os_error, |()| 0);
                    // SAFETY: _exit(2) is always safe; nothing of the parent's is to be dropped twice.
                    unsafe { nix::libc::_exit(code) }
                }
                // It is done here, after the others.
                Err(_) => None,
            }
        })
        .collect();
    let here = |at, pid: &Option<_>| pid.is_none().then(|| job(at));
    let own: Vec<_> = begun
        .iter()
        .enumerate()
        .map(|(at, pid)| here(at, pid))
        .collect();
    begun
        .into_iter()
        .zip(own)
        .map(|(pid, own)| match (pid, own) {
            (Some(pid), _) => ended(pid),
            (None, result) => result.unwrap_or(Ok(())),
        })
        .collect()
}

/// What a process came to that was started for one job.
fn ended(pid: nix::unistd::Pid) -> Result<(), Errno> {
    loop {
        match waitpid(pid, None) {
            Ok(WaitStatus::Exited(_, 0)) => return Ok(()),
            Ok(WaitStatus::Exited(_, errno)) => return Err(Errno::from_raw_os_error(errno)),
            Err(nix::errno::Errno::EINTR) => {}
            Ok(_) | Err(_) => return Err(Errno::CHILD),
        }
    }
}

/// Takes note that a child has ended, if it has; nobody waits for one that has not.
pub(super) fn reap(pid: Pid) {
    let pid = nix::unistd::Pid::from_raw(pid.as_raw_nonzero().get());
    let _ = waitpid(pid, Some(WaitPidFlag::WNOHANG));
}
