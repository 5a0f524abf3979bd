//! Processes and the kernel as a whole: who pid 1 is, where quell runs, signals, locked memory.

use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use rustix::io::Errno;

use super::Root;

/// A command line as the kernel keeps it, its words ended by NUL (proc(5), cmdline).
pub struct CommandLine {
    buf: [u8; 1024],
    len: usize,
}

impl CommandLine {
    /// Pid 1's: during shutdown that is the shutdown program with its verb.
    pub fn of_init(root: &Root) -> Result<Self, Errno> {
        let mut line = Self {
            buf: [0; 1024],
            len: 0,
        };
        line.len = root.read("/proc/1/cmdline", &mut line.buf)?.len();
        Ok(line)
    }

    /// All of it, NULs included: to be compared.
    pub fn bytes(&self) -> &[u8] {
        self.buf.get(..self.len).unwrap_or_default()
    }

    /// Its words.
    pub fn words(&self) -> impl Iterator<Item = &[u8]> {
        self.bytes().split(|&b| b == 0)
    }
}

/// Why nothing is quell's business here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotOurs {
    /// The devices are the host's.
    Container,
    /// A kdump kernel: the crashed one's devices were never shut down, and what counts is the dump.
    Kdump,
}

impl core::fmt::Display for NotOurs {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            Self::Container => "in a container the devices are the host's",
            Self::Kdump => "in a kdump kernel only the dump counts",
        })
    }
}

/// Whether this machine is quell's to act on.
///
/// Sources: systemd's container interface (/run/systemd/container, `container=` in pid 1's environment), namespaces(7),
/// user_namespaces(7) for uid_map, Documentation/admin-guide/kdump for /proc/vmcore.
pub fn not_ours(root: &Root) -> Option<NotOurs> {
    if root.exists("/proc/vmcore") {
        return Some(NotOurs::Kdump);
    }
    let mut buf = [0; 4096];
    let by_environ = root.read("/proc/1/environ", &mut buf).is_ok_and(|env| {
        env.split(|&b| b == 0)
            .any(|var| var.starts_with(b"container="))
    });
    let mut buf = [0; 256];
    let by_namespace = root.read("/proc/self/uid_map", &mut buf).is_ok_and(|map| {
        let mut words = map.split(u8::is_ascii_whitespace).filter(|w| !w.is_empty());
        // The initial namespace maps everything to itself.
        (words.next(), words.next(), words.next()) != (Some(b"0"), Some(b"0"), Some(b"4294967295"))
    });
    // PROC_PID_INIT_INO of linux/proc_ns.h: in any other namespace of processes the users of a drive cannot be seen.
    let mut buf = [0; 40];
    let foreign = root
        .read_link("/proc/self/ns/pid", &mut buf)
        .is_ok_and(|link| link != b"pid:[4026531836]");
    (by_environ || foreign || by_namespace || root.exists("/run/systemd/container"))
        .then_some(NotOurs::Container)
}

/// This boot's name (/proc/sys/kernel/random/boot_id).
pub fn boot_id<'b>(root: &Root, buf: &'b mut [u8; 64]) -> &'b [u8] {
    root.read("/proc/sys/kernel/random/boot_id", buf)
        .unwrap_or_default()
}

/// True for root.
pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// SIGTERM, SIGINT and SIGHUP, taken when asked for instead of at any moment: so nothing is half done when one comes.
pub struct Signals {
    fd: SignalFd,
}

impl Signals {
    /// Blocks them from now on.
    pub fn block() -> Result<Self, nix::errno::Errno> {
        let mut set = SigSet::empty();
        for signal in [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP] {
            set.add(signal);
        }
        set.thread_block()?;
        let fd = SignalFd::with_flags(&set, SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC)?;
        Ok(Self { fd })
    }

    /// The name of a signal that has come.
    pub fn take(&self) -> Option<&'static str> {
        let info = self.fd.read_signal().ok()??;
        let number = i32::try_from(info.ssi_signo).ok()?;
        Signal::try_from(number).ok().map(Signal::as_str)
    }
}

impl rustix::fd::AsFd for Signals {
    fn as_fd(&self) -> rustix::fd::BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Sends a signal to the process that has this number, if it is `still` the one that was meant.
pub(super) fn signal(
    root: &Root,
    pid: u32,
    signal: rustix::process::Signal,
    still: &dyn Fn() -> bool,
) -> Result<(), Errno> {
    use rustix::process::{Pid, PidfdFlags, kill_process, pidfd_open, pidfd_send_signal};
    if root.is_fixture() {
        return Err(Errno::OPNOTSUPP);
    }
    let number = i32::try_from(pid).ok().and_then(Pid::from_raw);
    let number = number.ok_or(Errno::SRCH)?;
    let process = match pidfd_open(number, PidfdFlags::empty()) {
        // From here on it is that process or none, whoever may get its number.
        Ok(process) => Some(process),
        // A kernel before 5.3: between the look and the signal it might end and another get its number.
        Err(Errno::NOSYS) => None,
        Err(errno) => return Err(errno),
    };
    match (still(), process) {
        (true, Some(process)) => pidfd_send_signal(process, signal),
        (true, None) => kill_process(number, signal),
        (false, _) => Err(Errno::SRCH),
    }
}

/// Raises the number of files this process may have open to what 1,024 workers need: hooks start with a limit of 1,024.
pub fn raise_file_limit() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    const WANTED: u64 = 4096;
    let limit = getrlimit(Resource::Nofile);
    let top = limit.maximum.unwrap_or(WANTED).min(WANTED);
    if limit.current.is_some_and(|now| now < top) {
        let raised = Rlimit {
            current: Some(top),
            maximum: limit.maximum,
        };
        let _ = setrlimit(Resource::Nofile, raised);
    }
}

/// /sys/kernel/rcu_expedited (kernel/ksysfs.c) held at 1: a removal waits for
/// several grace periods, and expedited ones take milliseconds. Put back when dropped.
pub struct Expedited<'a> {
    root: &'a Root,
    raised: bool,
}

impl<'a> Expedited<'a> {
    const FILE: &'static str = "/sys/kernel/rcu_expedited";

    /// Raises it where it is 0; a kernel without it is only slower.
    pub fn raise(root: &'a Root) -> Self {
        let raised = root.read_u32(Self::FILE) == Some(0) && root.write(Self::FILE, b"1").is_ok();
        Self { root, raised }
    }
}

impl Drop for Expedited<'_> {
    fn drop(&mut self) {
        if self.raised {
            // A machine that goes on with it at 1 is none the worse.
            let _ = self.root.write(Self::FILE, b"0");
        }
    }
}
