//! quell as pid 1, when systemd-shutdown has pivoted into its tmpfs and run /shutdown.
//!
//! Pid 1 must never end, crash or hang: the kernel panics, or the machine stands still for ever. So it does nothing that can
//! fail. It makes a process that does the work and waits for that, until the deadline at most; then one that calls reboot(2);
//! and is itself the last resort if that does not return.

use core::time::Duration;
use std::sync::OnceLock;

use log::{LevelFilter, error, info, warn};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, WaitOptions, pidfd_open, wait};
use rustix::time::Timespec;

use super::leave;
use crate::context::Context;
use crate::deadline::{Deadline, now_ms};
use crate::errno::Cause;
use crate::options::{Options, Stage};
use crate::stage::{self, Verb};
use crate::sys::reboot::{self, Way};
use crate::sys::{Root, memory, nvme};
use crate::{kmsg, pool};

/// What the work may take beyond its own deadline to say its last words, in seconds.
const GRACE_S: u32 = 3;
/// So long sync(2) is waited for while nothing gets written, in seconds.
const SYNC_S: u32 = 10;
/// So much later than the process that knows the name of the controller that hangs, pid 1 resets the machine.
const AFTER_GUARD_S: u32 = 5;
/// How often children that have ended are taken note of, in nanoseconds.
const TICK_NS: i64 = 200_000_000;

static ROOT: OnceLock<Root> = OnceLock::new();

/// Ends the machine, as `verb` says.
pub(crate) fn run(verb: &str) -> ! {
    let start_ms = now_ms();
    let root = ROOT.get_or_init(|| Root::Machine);
    let options = stage::options(root, Stage::Exitrd, &mut |_| {});
    kmsg::to_kmsg(root, LevelFilter::Info.max(options.log));
    memory::lock();
    let verb = stage::hook_verb(root, verb);
    let mut through = true;
    if options.enable {
        let end = Deadline::in_seconds(options.timeout_s(Stage::Exitrd) + GRACE_S);
        let came = apart(root, &mut || end.is_over(), || work(root, verb));
        through = matches!(came, Came::Ended);
        match came {
            Came::Ended => {}
            Came::Died => error!("the exitrd's work was cut short; the kernel does the rest"),
            Came::Late => {
                warn!("the exitrd's work is not through in time; the kernel does the rest")
            }
            Came::Unmade(errno) => error!(
                "no process can be made: {}; the kernel does all of it",
                Cause(errno)
            ),
        }
    }
    let way = way(root, verb);
    info!(
        "exitrd: {} after {} ms",
        word(way),
        now_ms().saturating_sub(start_ms)
    );
    // What could not be unmounted, or is being unmounted still, may have much to write. It has all the time it makes use of.
    let mut writing = Writing::new();
    let _ = apart(root, &mut || writing.stands_still(root), rustix::fs::sync);
    end(root, way, last_resort(root, options.lastresort_s, through))
}

/// How much there is left to write, and since when it has not become less.
struct Writing {
    least_kib: u64,
    until: Deadline,
}

impl Writing {
    fn new() -> Self {
        Self {
            least_kib: u64::MAX,
            until: Deadline::in_seconds(SYNC_S),
        }
    }

    fn stands_still(&mut self, root: &Root) -> bool {
        let left = memory::unwritten_kib(root).unwrap_or(u64::MAX);
        if left < self.least_kib {
            self.least_kib = left;
            self.until = Deadline::in_seconds(SYNC_S);
        }
        self.until.is_over()
    }
}

/// When reboot(2) has hung for too long. Where the work came to its end whatever hangs has a guard of its own, and the kernel may
/// be shutting down, one after the other, what was left to it: that takes the time it takes. Where it did not, the kernel
/// has what it may take for all controllers on top.
fn last_resort(root: &Root, lastresort_s: u32, through: bool) -> Deadline {
    if through || lastresort_s == 0 {
        return Deadline::at_ms(u64::MAX);
    }
    let mut controllers = 0_u32;
    let _ = nvme::instances(root, |_| controllers += 1);
    let theirs = controllers.saturating_mul(nvme::shutdown_timeout_s(root));
    let seconds = lastresort_s.saturating_add(AFTER_GUARD_S);
    Deadline::in_seconds(seconds.saturating_add(theirs))
}

/// The work, in a process of its own.
fn work(root: &'static Root, verb: Verb) {
    kmsg::after_fork();
    let mut options: Options =
        stage::options(root, Stage::Exitrd, &mut |warning| warn!("{warning}"));
    kmsg::set_level(options.log);
    // Here the kernel is the only other one who could do it, and nobody else unmounts.
    options.enable = true;
    let mut context = Context {
        command: "shutdown",
        root,
        stage: Stage::Exitrd,
        deadline: Deadline::in_seconds(options.timeout_s(Stage::Exitrd)),
        options,
        signals: None,
        dry_run: false,
        json: false,
        fit: false,
        still: false,
    };
    leave::all(&mut context, verb);
}

/// Calls reboot(2), again and again if it comes back, and resets the machine if it does not in time.
fn end(root: &'static Root, way: Way, last_resort: Deadline) -> ! {
    let mut way = way;
    loop {
        let came = apart(root, &mut || last_resort.is_over(), || {
            kmsg::after_fork();
            let errno = reboot::now(root, way);
            error!("{} is refused: {}", word(way), Cause(errno));
        });
        if let Came::Unmade(_) = came {
            // There is nobody else.
            reboot::now(root, way);
        }
        if matches!(came, Came::Late) {
            error!("reboot(2) does not return: the machine is reset");
            pool::reset(root);
        }
        // A kernel without a way to turn the machine off, or without the image it was to enter.
        way = Way::Restart;
        std::thread::sleep(Duration::from_secs(1));
    }
}

/// What a process came to.
enum Came {
    Ended,
    Died,
    Late,
    Unmade(Errno),
}

/// Runs `life` in a process of its own and waits for it until that is `over`. It is never killed.
fn apart(root: &Root, over: &mut dyn FnMut() -> bool, life: impl FnOnce()) -> Came {
    let child = match pool::apart(root, life) {
        Ok(child) => child,
        Err(errno) => return Came::Unmade(errno),
    };
    let pidfd = pidfd_open(child, PidfdFlags::empty()).ok();
    loop {
        if let Some(came) = reap(child) {
            return came;
        }
        if over() {
            return Came::Late;
        }
        let tick = Timespec {
            tv_sec: 0,
            tv_nsec: TICK_NS,
        };
        let _ = match &pidfd {
            Some(pidfd) => poll(&mut [PollFd::new(pidfd, PollFlags::IN)], Some(&tick)),
            None => poll(&mut [], Some(&tick)),
        };
    }
}

/// Takes note of all children that have ended: pid 1 is given everybody's. What `child` came to, if it is among them.
fn reap(child: Pid) -> Option<Came> {
    let mut came = None;
    while let Ok(Some((pid, status))) = wait(WaitOptions::NOHANG) {
        if pid == child {
            came = Some(match status.exit_status() {
                Some(0) => Came::Ended,
                _ => Came::Died,
            });
        }
    }
    came
}

fn way(root: &Root, verb: Verb) -> Way {
    match verb {
        // There is nobody to exit to: systemd turns the machine off then (systemctl(1)).
        Verb::Poweroff | Verb::Exit => Way::PowerOff,
        Verb::Halt => Way::Halt,
        Verb::Kexec if reboot::kexec_is_loaded(root) => Way::Kexec,
        Verb::Kexec => {
            warn!("no kernel is loaded that kexec could enter: reboot");
            Way::Restart
        }
        Verb::Reboot | Verb::SoftReboot => Way::Restart,
    }
}

const fn word(way: Way) -> &'static str {
    match way {
        Way::Restart => "reboot",
        Way::PowerOff => "poweroff",
        Way::Halt => "halt",
        Way::Kexec => "kexec",
    }
}
