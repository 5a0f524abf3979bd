//! The main process's side of a run: hands out jobs as the schedule says, and judges what comes of them.

use log::error;
use rustix::fd::{AsFd, BorrowedFd};

use super::fate::Fate;
use super::order::{CONTROLLERS as PER_ORDER, End, Said, Step};
use super::plan::Plan;
use super::report;
use crate::capability::{Action, Left};
use crate::deadline::{Deadline, now_ms};
use crate::pool::{Bounds, Foreman, MESSAGE};
use crate::schedule::Schedule;
use crate::sys::kmsg::Reader;
use crate::sys::nvme::CONTROLLERS;
use crate::text::Text;

/// Carries a plan out.
pub(super) struct Carrying<'a> {
    pub(super) plan: &'a mut Plan,
    pub(super) schedule: &'a mut Schedule<CONTROLLERS>,
    /// The kernel's log, where it can be read.
    pub(super) witness: Option<Reader>,
    /// Controllers whose shutdown the driver gave up, by instance.
    pub(super) complaints: heapless::Vec<u32, CONTROLLERS>,
    /// What would not be through by then is not started.
    pub(super) fit: Option<Deadline>,
    /// The guard's time, for the words about an abandoned job; none where there is no guard.
    pub(super) guard_s: Option<u32>,
    /// Another plan will be carried out after this one.
    pub(super) more_to_come: bool,
}

impl Carrying<'_> {
    /// The controllers of a job's order, by its places; what is done with them may change the plan meanwhile.
    fn members(&self, job: u32) -> heapless::Vec<usize, PER_ORDER> {
        self.plan.members(job).take(PER_ORDER).collect()
    }

    /// The controller at place `at` of a job's order.
    fn member(&self, job: u32, at: u8) -> Option<usize> {
        self.plan.members(job).nth(usize::from(at))
    }

    fn fate(&self, at: usize) -> Option<Fate> {
        self.plan.fates.get(at).copied()
    }

    fn settle(&mut self, at: usize, fate: Fate) {
        if let Some(place) = self.plan.fates.get_mut(at) {
            *place = fate;
        }
        // Only a PCI device's removal holds up the reboot.
        let guard_s = self
            .guard_s
            .filter(|_| self.fate_action(at) == Action::Unbind);
        report::controller(self.plan, at, guard_s);
    }

    /// Hears what the driver has said so far.
    pub(super) fn hear_witness(&mut self) {
        if let Some(witness) = &mut self.witness {
            witness.drain(|instance| {
                let _ = self.complaints.push(instance);
            });
        }
    }

    /// True if the driver could be heard all along and said nothing of this controller.
    fn confirmed(&mut self, instance: u32) -> bool {
        // The driver speaks before its removal returns, so all it had to say is there by now.
        self.hear_witness();
        let heard = self.witness.as_ref().is_some_and(|w| !w.lost());
        heard && !self.complaints.is_full() && !self.complaints.contains(&instance)
    }

    fn judge(&mut self, at: usize, end: End, ms: u32) -> Fate {
        let instance = self
            .plan
            .inventory
            .controllers()
            .get(at)
            .map_or(0, |c| c.instance);
        match end {
            End::Gone => match self.fate_action(at) {
                Action::Delete => Fate::Deleted(ms),
                Action::Unbind if self.confirmed(instance) => Fate::Quiesced(ms),
                Action::Unbind => Fate::Unconfirmed(ms),
            },
            End::GoneUntold => Fate::Unconfirmed(ms),
            End::NotStarted => Fate::NotStarted,
            End::Busy(key) => match self
                .plan
                .inventory
                .namespace_mut(key)
                .and_then(|ns| ns.holder)
            {
                Some(holder) => Fate::Busy(holder),
                None => Fate::Claimed(key),
            },
            End::Unflushed(key, errno) => Fate::Unflushed(key, errno),
            End::Unopened(key, errno) => Fate::Unopened(key, errno),
            End::Changed => Fate::Changed,
            End::NotLive(state) => Fate::NotLive(state),
            End::Vanished => Fate::Vanished,
            End::Failed(step, errno) => Fate::Failed(step, errno),
            End::StillThere => Fate::StillThere,
        }
    }

    fn fate_action(&self, at: usize) -> Action {
        use crate::capability::Transport;
        match self
            .plan
            .inventory
            .controllers()
            .get(at)
            .map(|c| c.transport)
        {
            Some(Transport::Pcie) | None => Action::Unbind,
            Some(_) => Action::Delete,
        }
    }

    /// A virtual function that stays keeps its physical one.
    fn keep_physical(&mut self, at: usize) {
        let physfn = self
            .plan
            .inventory
            .controllers()
            .get(at)
            .and_then(|c| c.physfn);
        if let Some(physfn) = physfn
            && let Some((at, job)) = self.plan.spare(physfn)
        {
            report::controller(self.plan, at, None);
            if let Some(job) = job {
                self.schedule.skip(job);
            }
        }
    }

    /// Settles what is not: the run is over, at `now` milliseconds since boot.
    pub(super) fn close(&mut self) {
        let now = now_ms();
        for at in 0..self.plan.fates.len() {
            match self.fate(at) {
                Some(Fate::Running(step, since)) => {
                    self.settle(at, Fate::Abandoned(step, waited(since, now)))
                }
                Some(Fate::Todo(_)) => self.settle(at, Fate::NotStarted),
                _ => {}
            }
        }
    }
}

fn waited(since: u64, now: u64) -> u32 {
    u32::try_from(now.saturating_sub(since)).unwrap_or(u32::MAX)
}

impl Foreman for Carrying<'_> {
    fn next(&mut self) -> Option<u32> {
        loop {
            let job = self.schedule.next()?;
            let fits = self
                .fit
                .is_none_or(|end| self.plan.predicted_ms(job) <= end.rest_ms());
            for at in self.members(job) {
                if fits {
                    if let Some(fate) = self.plan.fates.get_mut(at) {
                        *fate = Fate::Running(Step::Claim, now_ms());
                    }
                } else {
                    self.settle(at, Fate::NoTime);
                }
            }
            if fits {
                return Some(job);
            }
            self.schedule.finish(job);
        }
    }

    fn order(&self, job: u32, order: &mut [u8; MESSAGE]) -> usize {
        self.plan.order(job, order)
    }

    fn more(&self) -> bool {
        self.more_to_come || self.schedule.waiting() > 0
    }

    fn blocks_others(&self, job: u32) -> bool {
        self.schedule.blocks_others(job)
    }

    fn bounds(&self, job: u32) -> Bounds {
        self.plan.bounds(job)
    }

    fn message(&mut self, job: u32, message: &[u8]) {
        match Said::decode(message) {
            Some(Said::At(at, step)) => {
                // The steps before the first controller's are all the others' too.
                let members = if step < Step::Act {
                    at..u8::MAX
                } else {
                    at..at + 1
                };
                for at in members {
                    let Some(at) = self.member(job, at) else {
                        break;
                    };
                    if let Some(Fate::Running(now, _)) = self.plan.fates.get_mut(at) {
                        *now = step;
                    }
                }
            }
            Some(Said::End(at, end, ms)) => {
                if let Some(at) = self.member(job, at) {
                    let fate = self.judge(at, end, ms);
                    self.settle(at, fate);
                    if !matches!(end, End::Gone | End::GoneUntold | End::Vanished) {
                        self.keep_physical(at);
                    }
                }
            }
            // Only our own workers write messages.
            None => {}
        }
    }

    fn done(&mut self, job: u32, died: bool) {
        for at in self.members(job) {
            if let Some(Fate::Running(step, _) | Fate::Abandoned(step, _)) = self.fate(at)
                && died
            {
                self.settle(at, Fate::Died(step));
                self.keep_physical(at);
            }
        }
        self.schedule.finish(job);
    }

    fn give_back(&mut self, job: u32) {
        for at in self.members(job) {
            self.settle(at, Fate::NotStarted);
        }
    }

    fn abandon(&mut self, job: u32) {
        self.schedule.abandon(job);
    }

    fn tick(&mut self) {
        self.hear_witness();
    }

    fn needs(&self) -> Option<BorrowedFd<'_>> {
        self.witness.as_ref().map(AsFd::as_fd)
    }

    fn last_words(&mut self, unfinished: &mut dyn Iterator<Item = u32>) {
        let mut names = Text::<600>::new();
        for at in unfinished.flat_map(|job| self.plan.members(job)) {
            let c = self.plan.inventory.controllers().get(at);
            if let (Some(c), Some(Fate::Abandoned(..))) = (c, self.fate(at)) {
                names.add(format_args!(" {}", report::Named(c)));
            }
        }
        error!(
            "the removal never returned of{names}: the machine is reset now, {} s after it was given up",
            self.guard_s.unwrap_or_default()
        );
    }
}

/// Whether a reason to leave a controller is policy: nothing anybody has to look after.
pub(super) fn is_policy(left: Left) -> bool {
    matches!(
        left,
        Left::KernelAsync | Left::TooFew | Left::Fabrics | Left::Platform | Left::Off
    )
}
