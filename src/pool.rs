//! A fixed number of forked workers, one job each at a time.
//!
//! Workers are processes, not threads: a thread that hangs in the kernel keeps its whole process from exiting, a forked
//! worker is simply left behind. quell never kills one: a fatal signal makes the nvme driver give up its wait for the
//! drive, and power may go while the drive still flushes.
//!
//! The main process never blocks: it hands out jobs, listens, and looks at the clock. What is done, in which order, and
//! what it means is the [`Foreman`]'s; how a job is done is the [`Crew`]'s, and runs in the worker.

mod guard;
mod worker;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};

use crate::deadline::{Deadline, now_ms};
use crate::sys::Root;
use crate::sys::proc::Signals;

pub(crate) use guard::reset;
pub(crate) use worker::apart;
pub use worker::{Reply, side_by_side};

/// The greatest number of places (`quell.jobs`), and of workers that may be given up beside them.
pub const WIDTH_MAX: usize = 1024;
/// Workers there can be at once.
const WORKERS: usize = 2 * WIDTH_MAX;
/// However few places there are, so many workers may be given up and replaced.
const ABANDONED_MIN: usize = 4;
/// The longest message of a worker.
pub const MESSAGE: usize = 256;
/// How often the foreman gets to look around while nothing happens, in milliseconds.
const TICK_MS: u64 = 1000;

/// How a job is done: runs in the worker, may block.
pub trait Crew {
    /// Does what the order says, telling of it as it goes.
    fn work(&self, order: &[u8], reply: &Reply);
}

/// What is done, in which order, and what comes of it: runs in the main process, never blocks.
pub trait Foreman {
    /// The next job to start now, if there is one. It counts as running from here on.
    fn next(&mut self) -> Option<u32>;
    /// Writes the order for a job, for [`Crew::work`]; returns its length. It must say all that the job needs: a worker
    /// knows nothing that was learnt after it was made.
    fn order(&self, job: u32, order: &mut [u8; MESSAGE]) -> usize;
    /// True if jobs wait, now or later: then a worker that has nothing to do is kept.
    fn more(&self) -> bool {
        true
    }
    /// True if another job could start were this one's place given away.
    fn blocks_others(&self, job: u32) -> bool;
    /// How long the job may take.
    fn bounds(&self, job: u32) -> Bounds;
    /// A worker says something of its job.
    fn message(&mut self, job: u32, message: &[u8]);
    /// The job has ended; `died` if its worker went without saying so.
    fn done(&mut self, job: u32, died: bool);
    /// The job runs on, but its place is given away.
    fn abandon(&mut self, job: u32);
    /// The job was taken and never begun, for want of a worker.
    fn give_back(&mut self, _job: u32) {}
    /// Called now and then, and whenever something has happened.
    fn tick(&mut self) {}
    /// A file it reads, to be kept open in the guard.
    fn needs(&self) -> Option<BorrowedFd<'_>> {
        None
    }
    /// In the guard: these jobs never returned, and the machine is reset now.
    fn last_words(&mut self, _unfinished: &mut dyn Iterator<Item = u32>) {}
}

/// The two bounds of a job, in milliseconds.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// After this long its place is given to another, if one waits for it.
    pub hold_ms: u64,
    /// After this long it is no longer waited for.
    pub job_ms: u64,
}

/// Why a run came to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// Every job was done or given up.
    All,
    /// The deadline came first.
    Deadline,
    /// A signal did.
    Signal(&'static str),
    /// Not one worker could be made.
    NoWorkers(Errno),
}

/// Where a worker stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Idle,
    /// Works on this job since then.
    Running {
        job: u32,
        since_ms: u64,
    },
    /// The same, but its place is another's now.
    GivenAway {
        job: u32,
        since_ms: u64,
    },
    /// The same, and it is no longer waited for.
    Left {
        job: u32,
    },
}

impl State {
    fn job(self) -> Option<u32> {
        match self {
            Self::Idle => None,
            Self::Running { job, .. } | Self::GivenAway { job, .. } | Self::Left { job } => {
                Some(job)
            }
        }
    }
}

struct Worker {
    socket: OwnedFd,
    pid: rustix::process::Pid,
    state: State,
    /// Its job is one of this phase's.
    phase: u32,
}

/// The workers of one run.
pub struct Pool<'a> {
    root: &'a Root,
    crew: &'a dyn Crew,
    width: usize,
    workers: heapless::Vec<Worker, WORKERS>,
    forked: usize,
    abandoned: usize,
    /// Those of this phase, which alone use up what may be replaced.
    abandoned_now: usize,
    fork_error: Option<Errno>,
    /// A job that found no worker, since none could be made.
    unplaced: Option<u32>,
    phase: u32,
}

impl<'a> Pool<'a> {
    /// No worker yet: they are made as jobs come, at most `width` (1 to [`WIDTH_MAX`]) and one more for each given up.
    pub fn new(root: &'a Root, crew: &'a dyn Crew, width: usize) -> Self {
        Self {
            root,
            crew,
            width: width.clamp(1, WIDTH_MAX),
            workers: heapless::Vec::new(),
            forked: 0,
            abandoned: 0,
            abandoned_now: 0,
            fork_error: None,
            unplaced: None,
            phase: 0,
        }
    }

    /// Makes ready for another foreman's jobs. What is still under way is given up, and no longer listened to.
    pub fn next_phase(&mut self, width: usize) {
        for worker in &mut self.workers {
            if let State::Running { job, .. } | State::GivenAway { job, .. } = worker.state {
                self.abandoned += usize::from(matches!(worker.state, State::Running { .. }));
                worker.state = State::Left { job };
            }
        }
        self.phase += 1;
        self.width = width.clamp(1, WIDTH_MAX);
        self.abandoned_now = 0;
        self.unplaced = None;
        self.fork_error = None;
    }

    /// Processes made so far.
    pub fn forked(&self) -> usize {
        self.forked
    }

    /// Workers given up so far: their place was given away, or they were no longer waited for.
    pub fn abandoned(&self) -> usize {
        self.abandoned
    }

    /// Jobs that are still under way, waited for or not.
    pub fn unfinished(&self) -> impl Iterator<Item = u32> {
        self.workers
            .iter()
            .filter(|w| w.phase == self.phase)
            .filter_map(|w| w.state.job())
    }

    /// Hands out the foreman's first jobs and does not wait for them: [`run`](Self::run) does, in the same phase.
    pub fn begin(&mut self, foreman: &mut dyn Foreman) {
        self.hand_out(foreman);
    }

    /// Makes workers ahead of their jobs, while there is time, until there are `count`. One that cannot be made is missed
    /// later.
    pub fn prepare(&mut self, count: usize) {
        while self.workers.len() < count.min(WIDTH_MAX) && self.fork().is_ok() {}
    }

    /// Hands out the foreman's jobs until there are no more, the deadline has come or a signal has.
    pub fn run(
        &mut self,
        foreman: &mut dyn Foreman,
        deadline: Deadline,
        signals: Option<&Signals>,
    ) -> Ended {
        let ended = self.work(foreman, deadline, signals);
        if let Some(job) = self.unplaced.take() {
            foreman.give_back(job);
        }
        ended
    }

    fn work(
        &mut self,
        foreman: &mut dyn Foreman,
        deadline: Deadline,
        signals: Option<&Signals>,
    ) -> Ended {
        loop {
            if let Some(name) = signals.and_then(Signals::take) {
                return Ended::Signal(name);
            }
            let end = deadline.rest_ms();
            if end == 0 {
                return Ended::Deadline;
            }
            self.hand_out(foreman);
            self.give_up(foreman);
            // Giving up may have made room.
            self.hand_out(foreman);
            let waited_for = self
                .workers
                .iter()
                .any(|w| matches!(w.state, State::Running { .. } | State::GivenAway { .. }));
            if !waited_for {
                return match self.fork_error {
                    Some(errno) if self.workers.is_empty() => Ended::NoWorkers(errno),
                    _ => Ended::All,
                };
            }
            let wait = end.min(self.next_bound_ms(foreman)).min(TICK_MS);
            self.listen(foreman, wait, signals);
            foreman.tick();
        }
    }

    /// Starts what can be started.
    fn hand_out(&mut self, foreman: &mut dyn Foreman) {
        loop {
            let idle = self.workers.iter().position(|w| w.state == State::Idle);
            if idle.is_none() && self.places_taken() >= self.width {
                return;
            }
            let Some(job) = self.unplaced.take().or_else(|| foreman.next()) else {
                return;
            };
            let at = match idle.map_or_else(|| self.fork(), Ok) {
                Ok(at) => at,
                Err(errno) => {
                    // It waits for the next worker that has nothing to do.
                    self.unplaced = Some(job);
                    self.fork_error = Some(errno);
                    return;
                }
            };
            let Some(worker) = self.workers.get_mut(at) else {
                return;
            };
            let mut order = [0; MESSAGE];
            let len = foreman.order(job, &mut order);
            let order = order.get(..len).unwrap_or_default();
            // The socket of an idle worker is empty, so this does not block.
            if rustix::net::send(&worker.socket, order, SendFlags::NOSIGNAL).is_ok() {
                worker.state = State::Running {
                    job,
                    since_ms: now_ms(),
                };
                worker.phase = self.phase;
            } else {
                self.bury(at);
                foreman.done(job, true);
            }
        }
    }

    /// Workers that hold a place, idle ones among them.
    fn places_taken(&self) -> usize {
        self.workers
            .iter()
            .filter(|w| matches!(w.state, State::Idle | State::Running { .. }))
            .count()
    }

    fn fork(&mut self) -> Result<usize, Errno> {
        if self.workers.is_full() {
            return Err(Errno::AGAIN);
        }
        let (ours, theirs) = rustix::net::socketpair(
            AddressFamily::UNIX,
            SocketType::SEQPACKET,
            SocketFlags::CLOEXEC,
            None,
        )?;
        let pid = worker::fork(self.root, theirs, self.crew)?;
        self.forked += 1;
        let at = self.workers.len();
        // There was room a moment ago.
        let _ = self.workers.push(Worker {
            socket: ours,
            pid,
            state: State::Idle,
            phase: self.phase,
        });
        Ok(at)
    }

    /// Looks at the clock: whose place is given away, and who is no longer waited for.
    fn give_up(&mut self, foreman: &mut dyn Foreman) {
        let now = now_ms();
        let most = self.width.max(ABANDONED_MIN);
        for worker in &mut self.workers {
            match worker.state {
                State::Running { job, since_ms } => {
                    let bounds = foreman.bounds(job);
                    let held = now.saturating_sub(since_ms);
                    if held >= bounds.job_ms {
                        worker.state = State::Left { job };
                    } else if held >= bounds.hold_ms
                        && self.abandoned_now < most
                        && foreman.blocks_others(job)
                    {
                        worker.state = State::GivenAway { job, since_ms };
                    } else {
                        continue;
                    }
                    self.abandoned += 1;
                    self.abandoned_now += 1;
                    foreman.abandon(job);
                }
                State::GivenAway { job, since_ms }
                    if now.saturating_sub(since_ms) >= foreman.bounds(job).job_ms =>
                {
                    worker.state = State::Left { job };
                }
                _ => {}
            }
        }
    }

    /// When the clock is to be looked at again, in milliseconds from now.
    fn next_bound_ms(&self, foreman: &dyn Foreman) -> u64 {
        let now = now_ms();
        let left = |worker: &Worker| match worker.state {
            State::Running { job, since_ms } => {
                let bounds = foreman.bounds(job);
                let held = now.saturating_sub(since_ms);
                let bound = if held < bounds.hold_ms {
                    bounds.hold_ms.min(bounds.job_ms)
                } else {
                    bounds.job_ms
                };
                Some(bound.saturating_sub(held))
            }
            State::GivenAway { job, since_ms } => Some(
                foreman
                    .bounds(job)
                    .job_ms
                    .saturating_sub(now.saturating_sub(since_ms)),
            ),
            _ => None,
        };
        self.workers
            .iter()
            .filter_map(left)
            .min()
            .unwrap_or(TICK_MS)
    }

    /// Waits at most `ms` milliseconds for somebody to say something, and hears them all.
    fn listen(&mut self, foreman: &mut dyn Foreman, ms: u64, signals: Option<&Signals>) {
        let mut fds: heapless::Vec<PollFd<'_>, { WORKERS + 1 }> = heapless::Vec::new();
        for worker in &self.workers {
            let _ = fds.push(PollFd::new(&worker.socket, PollFlags::IN));
        }
        if let Some(signals) = signals {
            let _ = fds.push(PollFd::from_borrowed_fd(signals.as_fd(), PollFlags::IN));
        }
        // A millisecond more, so that a bound has passed when we wake for it.
        let ms = i64::try_from(ms + 1).unwrap_or(i64::MAX);
        let wait = Timespec {
            tv_sec: ms / 1000,
            tv_nsec: (ms % 1000) * 1_000_000,
        };
        if !matches!(poll(&mut fds, Some(&wait)), Ok(1..)) {
            return;
        }
        let mut ready: heapless::Vec<usize, WORKERS> = heapless::Vec::new();
        for (at, fd) in fds.iter().take(self.workers.len()).enumerate() {
            if !fd.revents().is_empty() {
                let _ = ready.push(at);
            }
        }
        drop(fds);
        // From the end, since one that has gone leaves a gap that the last one fills.
        for at in ready.into_iter().rev() {
            self.hear(foreman, at);
        }
    }

    /// Hears all that the worker at `at` has to say.
    fn hear(&mut self, foreman: &mut dyn Foreman, at: usize) {
        let mut message = [0; MESSAGE];
        loop {
            let Some(worker) = self.workers.get_mut(at) else {
                return;
            };
            match rustix::net::recv(&worker.socket, &mut message, RecvFlags::DONTWAIT) {
                Err(Errno::AGAIN | Errno::INTR) => return,
                Ok((len, _)) if len > 0 => {
                    let Some(job) = worker.state.job() else {
                        continue;
                    };
                    let current = worker.phase == self.phase;
                    match message.get(1..len) {
                        Some(said) if message.first() == Some(&worker::SAYS) => {
                            if current {
                                foreman.message(job, said);
                            }
                        }
                        _ => {
                            let had_place = matches!(worker.state, State::Running { .. });
                            worker.state = State::Idle;
                            if current {
                                foreman.done(job, false);
                            }
                            // Its place may be another's by now. And when nothing waits any more a worker goes while
                            // the others still work, so that at the end there are not all of them to be waited for; one
                            // stays for what comes late.
                            if !had_place || (!foreman.more() && self.workers.len() > 1) {
                                return self.bury(at);
                            }
                        }
                    }
                }
                // It is gone: it died, for a worker goes only when we do.
                Ok(_) | Err(_) => {
                    let job = worker.state.job().filter(|_| worker.phase == self.phase);
                    self.bury(at);
                    if let Some(job) = job {
                        foreman.done(job, true);
                    }
                    return;
                }
            }
        }
    }

    /// Takes a worker off the list: its socket closes, and it goes by itself.
    fn bury(&mut self, at: usize) {
        if at < self.workers.len() {
            let worker = self.workers.swap_remove(at);
            drop(worker.socket);
            worker::reap(worker.pid);
        }
    }
}
