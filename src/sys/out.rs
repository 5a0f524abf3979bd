//! Standard output and error, written without ever waiting for a reader that does not read.

use core::sync::atomic::{AtomicBool, Ordering};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::AsFd;
use rustix::io::Errno;

/// How long a reader may keep quell waiting, once, in milliseconds.
const PATIENCE_MS: i64 = 500;

/// A reader did: from then on nobody waits for one.
static GAVE_UP: AtomicBool = AtomicBool::new(false);

/// The most that is written at once: what a pipe that polls as writable takes without blocking (PIPE_BUF, pipe(7)).
const CHUNK: usize = 4096;

/// Whether readers are waited for as long as they like: where nothing is being done there is no hurry.
static PATIENT: AtomicBool = AtomicBool::new(false);

/// Says whether there is no hurry.
pub fn patient(patient: bool) {
    PATIENT.store(patient, Ordering::Relaxed);
}

/// Writes `data`. Where something is being done, what a reader does not take within half a second is dropped: a full pipe or
/// a stopped terminal must not hold up a shutdown.
pub fn write(fd: impl AsFd, mut data: &[u8]) {
    while !data.is_empty() {
        let mut fds = [PollFd::new(&fd, PollFlags::OUT)];
        let ms = if GAVE_UP.load(Ordering::Relaxed) {
            0
        } else {
            PATIENCE_MS
        };
        let patience = Timespec {
            tv_sec: 0,
            tv_nsec: ms * 1_000_000,
        };
        let patience = (!PATIENT.load(Ordering::Relaxed)).then_some(&patience);
        match poll(&mut fds, patience) {
            Err(Errno::INTR) => continue,
            Ok(1..) => {}
            _ => return GAVE_UP.store(true, Ordering::Relaxed),
        }
        let chunk = data.get(..data.len().min(CHUNK)).unwrap_or_default();
        match rustix::io::write(&fd, chunk) {
            Ok(n) if n > 0 => data = data.get(n..).unwrap_or_default(),
            Err(Errno::INTR) => {}
            _ => return,
        }
    }
}
