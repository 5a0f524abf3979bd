//! The main process's side of a run: hands out jobs as the plan says, and keeps what comes of them.

use log::{info, warn};

use super::graph::{ARRAYS, Called, Words};
use super::order::{self, End, Order, Said, What};
use super::plan::{Action, Fate, Job, Plan};
use super::report;
use crate::deadline::{Deadline, now_ms};
use crate::pool::{Bounds, Foreman, MESSAGE};

/// After so long another array may have the place of one that hangs, and after so long nobody waits for it any more: all
/// that a worker itself waits for is shorter.
const BOUNDS: Bounds = Bounds {
    hold_ms: 5_000,
    job_ms: 25_000,
};

/// Carries a plan out.
pub(super) struct Carrying<'a> {
    pub(super) plan: &'a mut Plan,
    pub(super) deadline: Deadline,
    /// What cannot be stopped is at least made clean.
    pub(super) clean: bool,
    /// Whose fate has been said.
    pub(super) said: [bool; ARRAYS],
}

impl Carrying<'_> {
    fn settle(&mut self, at: usize, fate: Fate) {
        self.plan.settle(at, fate);
        self.say(at);
    }

    fn say(&mut self, at: usize) {
        if let Some(said) = self.said.get_mut(at)
            && !core::mem::replace(said, true)
        {
            report::array(self.plan, at);
        }
    }

    /// Settles what is not, and says what has not been said.
    pub(super) fn close(&mut self) {
        self.plan.close(now_ms());
        for at in 0..self.plan.fates.len() {
            self.say(at);
        }
    }

    fn ended(&mut self, at: usize, end: End, ms: u32, words: &Words) {
        if let Some(node) = self.plan.graph.node_mut(at) {
            let place = match end {
                End::Busy => &mut node.user,
                _ => &mut node.words,
            };
            *place = words.clone();
        }
        let fate = match end {
            End::Stopped(how) => Fate::Stopped(how, ms),
            End::Gone => Fate::Gone,
            End::Clean => Fate::Clean(ms),
            End::NotClean => Fate::NotClean(ms),
            // Its user took no claim, so it was not known.
            End::Busy if self.clean && self.plan.can_be_clean(at) => {
                return self.plan.settle(at, Fate::Todo(Action::Clean));
            }
            End::Busy => Fate::Busy,
            End::Reshaped => Fate::Reshaped,
            // A volume that came meanwhile has no place in the table.
            End::HeldUp => Fate::HeldUp(self.plan.graph.find(words.as_str()).unwrap_or(ARRAYS)),
            End::Failed(step, errno) => Fate::Failed(step, errno),
            End::StillThere => Fate::StillThere,
            End::Mended | End::NotMended => return,
        };
        self.settle(at, fate);
    }

    fn mended(&mut self, at: usize, end: End, words: &Words) {
        if end == End::Mended {
            self.plan.mended(at);
        }
        let Some(node) = self.plan.graph.node(at) else {
            return;
        };
        match end {
            End::Mended => info!("{}: its mdmon was not running, and is again", Called(node)),
            _ => warn!(
                "{}: its mdmon is not running and cannot be started: {words}",
                Called(node)
            ),
        }
    }
}

impl Foreman for Carrying<'_> {
    fn next(&mut self) -> Option<u32> {
        self.plan.next(now_ms()).map(Job::number)
    }

    fn order(&self, job: u32, order: &mut [u8; MESSAGE]) -> usize {
        let end_ms = self.deadline.end_ms();
        let (what, at) = match Job::of(job) {
            Job::Mend(at) => (What::Mend, at),
            Job::Do(at, Action::Stop) => (What::Stop, at),
            Job::Do(at, Action::Clean) => (What::Clean, at),
            Job::Tidy => return order::tidy(order, end_ms, self.plan.stopped()),
        };
        let Some(node) = self.plan.graph.node(at) else {
            return 0;
        };
        Order::of(what, node, self.plan.is_fresh(at), end_ms).encode(order)
    }

    fn more(&self) -> bool {
        self.plan.has_more()
    }

    fn blocks_others(&self, _job: u32) -> bool {
        self.plan.has_more()
    }

    fn bounds(&self, _job: u32) -> Bounds {
        BOUNDS
    }

    fn message(&mut self, job: u32, message: &[u8]) {
        // Only our own workers write messages.
        let Some(said) = Said::decode(message) else {
            return;
        };
        match (Job::of(job), said) {
            (Job::Do(at, _), Said::At(step)) => self.plan.step(at, step),
            (Job::Do(at, _), Said::End(end, ms, words)) => self.ended(at, end, ms, &words),
            (Job::Mend(at), Said::End(end, _, words)) => self.mended(at, end, &words),
            _ => {}
        }
    }

    fn done(&mut self, job: u32, died: bool) {
        match Job::of(job) {
            Job::Mend(at) => self.plan.mend_over(at),
            Job::Do(at, _) => {
                if let Some(Fate::Running(step, _)) = self.plan.fates.get(at).copied()
                    && died
                {
                    self.settle(at, Fate::Died(step));
                }
            }
            Job::Tidy => {}
        }
    }

    fn give_back(&mut self, job: u32) {
        match Job::of(job) {
            Job::Mend(at) => self.plan.mend_over(at),
            Job::Do(at, _) => self.settle(at, Fate::NotStarted),
            Job::Tidy => {}
        }
    }

    fn abandon(&mut self, job: u32) {
        match Job::of(job) {
            // What waits for it is tried without.
            Job::Mend(at) => self.plan.mend_over(at),
            Job::Do(..) | Job::Tidy => {}
        }
    }
}
