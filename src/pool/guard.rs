//! The last resort: reboot(2) waits without bound for the lock of a device whose removal never returns. A process that
//! outlives quell resets the machine then.

use rustix::fd::AsRawFd;
use rustix::io::Errno;

use super::{Ended, Foreman, Pool, State, WORKERS, worker};
use crate::deadline::Deadline;
use crate::sys::Root;
use crate::{kmsg, stage, sys};

impl Pool<'_> {
    /// Leaves a process behind that listens to the workers that are still under way, and, if one of them has not
    /// returned after `seconds`, has the foreman say so and resets the machine by sysrq
    /// (Documentation/admin-guide/sysrq.rst). What does return is the foreman's to tell, as ever.
    pub fn leave_guard(&mut self, foreman: &mut dyn Foreman, seconds: u32) -> Result<(), Errno> {
        let root = self.root;
        let mut keep: heapless::Vec<i32, { WORKERS + 1 }> = heapless::Vec::new();
        if let Some(file) = foreman.needs() {
            let _ = keep.push(file.as_raw_fd());
        }
        let phase = self.phase;
        let theirs = |w: &super::Worker| w.state != State::Idle && w.phase == phase;
        for worker in &self.workers {
            if theirs(worker) {
                let _ = keep.push(worker.socket.as_raw_fd());
            }
        }
        worker::child(root, &keep, || {
            kmsg::after_fork();
            sys::memory::lock();
            // The other ones' sockets are closed here already; they are forgotten, not dropped.
            while let Some(at) = self.workers.iter().position(|w| !theirs(w)) {
                core::mem::forget(self.workers.swap_remove(at));
            }
            for worker in &mut self.workers {
                if let Some(job) = worker.state.job() {
                    // Waited for until the very end, whatever its bounds were.
                    worker.state = State::GivenAway {
                        job,
                        since_ms: u64::MAX,
                    };
                }
            }
            let ended = self.run(&mut Listening(foreman), Deadline::in_seconds(seconds), None);
            // A machine that is not going down stays up, whatever it was that somebody called by hand.
            if ended == Ended::Deadline && stage::shutting_down(root) {
                foreman.last_words(&mut self.unfinished());
                reset(root);
            }
        })?;
        // What one of two readers hears the other misses: from here on these workers are the guard's alone.
        while let Some(at) = self.workers.iter().position(theirs) {
            self.workers.swap_remove(at);
        }
        Ok(())
    }
}

/// Resets the machine. What other drives have not written yet gets two seconds, and file systems two to become read-only:
/// both are done by the kernel's own workers, so a drive that hangs does not hold this up.
pub(crate) fn reset(root: &Root) {
    if root.is_fixture() {
        return;
    }
    for (key, seconds) in [(b"s", 2), (b"u", 2), (b"b", 0)] {
        // If even the last fails there is only the hardware watchdog.
        let _ = root.write("/proc/sysrq-trigger", key);
        std::thread::sleep(core::time::Duration::from_secs(seconds));
    }
}

/// A foreman that has no more jobs, and no bounds.
struct Listening<'a>(&'a mut dyn Foreman);

impl Foreman for Listening<'_> {
    fn next(&mut self) -> Option<u32> {
        None
    }
    fn order(&self, _job: u32, _order: &mut [u8; super::MESSAGE]) -> usize {
        0
    }
    fn blocks_others(&self, _job: u32) -> bool {
        false
    }
    fn bounds(&self, _job: u32) -> super::Bounds {
        super::Bounds {
            hold_ms: u64::MAX,
            job_ms: u64::MAX,
        }
    }
    fn message(&mut self, job: u32, message: &[u8]) {
        self.0.message(job, message);
    }
    fn done(&mut self, job: u32, died: bool) {
        self.0.done(job, died);
    }
    fn abandon(&mut self, _job: u32) {}
    fn tick(&mut self) {
        self.0.tick();
    }
}
