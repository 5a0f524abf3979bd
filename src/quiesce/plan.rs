//! What becomes of each controller, and the jobs that make it so.

use super::fate::{Fate, Selection};
use super::order::{CONTROLLERS as PER_ORDER, Fingerprint, Order, Target};
use crate::capability::{
    Action, CONNECTING_BOUND_MS, Class, FABRICS_PREDICTED_MS, Facts, Left, Policy, Transport,
    hold_bound_ms, job_bound_ms, judge, shutdown_bound_ms, too_few,
};
use crate::pool::{Bounds, MESSAGE};
use crate::schedule::Item;
use crate::sys::claims::Lasts;
use crate::sys::nvme::{CONTROLLERS, Controller, Inventory};
use crate::sys::pci::PciAddress;

/// When it is to happen, which decides what is in use then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    /// At once.
    Now,
    /// When systemd-shutdown runs its hooks: all is unmounted but root, and what that stands on.
    Hooks,
    /// When the exitrd has left the old root, and stopped arrays if it is to.
    Exitrd {
        /// It is to.
        teardown: bool,
    },
}

/// One job: some controllers of one subsystem, all done the same way.
#[derive(Clone, Copy, Debug)]
pub(super) struct Job {
    /// Where the subsystem's controllers start and end in the inventory.
    start: u16,
    end: u16,
    action: Action,
    bounds: Bounds,
}

/// No job.
const NONE: u16 = u16::MAX;

/// Instances up to here are remembered as seen; one beyond is never taken for a late one.
const REMEMBERED: usize = 65_536;

/// The machine's controllers and what becomes of them. Lives in a static.
pub(super) struct Plan {
    pub(super) inventory: Inventory,
    /// By controller.
    pub(super) fates: heapless::Vec<Fate, CONTROLLERS>,
    /// By controller: its job.
    job_of: heapless::Vec<u16, CONTROLLERS>,
    jobs: heapless::Vec<Job, CONTROLLERS>,
    /// By job, for the schedule.
    pub(super) items: heapless::Vec<Item, CONTROLLERS>,
    seen: [u64; REMEMBERED / 64],
}

/// The driver's timeouts, in seconds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Timeouts {
    pub(super) shutdown_s: u32,
    pub(super) admin_s: u32,
}

impl Plan {
    pub(super) const fn new() -> Self {
        Self {
            inventory: Inventory::new(),
            fates: heapless::Vec::new(),
            job_of: heapless::Vec::new(),
            jobs: heapless::Vec::new(),
            items: heapless::Vec::new(),
            seen: [0; REMEMBERED / 64],
        }
    }

    /// True if a controller with that instance was in an earlier look, and is not known to be gone.
    pub(super) fn has_seen(&self, instance: u32) -> bool {
        let at = instance as usize;
        self.seen
            .get(at / 64)
            .is_none_or(|bits| bits >> (at % 64) & 1 == 1)
    }

    fn remember(&mut self, instance: u32, seen: bool) {
        let at = instance as usize;
        if let Some(bits) = self.seen.get_mut(at / 64) {
            *bits = *bits & !(1 << (at % 64)) | u64::from(seen) << (at % 64);
        }
    }

    /// Remembers who is there, and forgets who has gone.
    pub(super) fn remember_all(&mut self) {
        for at in 0..self.fates.len() {
            let (Some(c), Some(fate)) = (self.inventory.controllers().get(at), self.fates.get(at))
            else {
                continue;
            };
            let gone = matches!(
                fate,
                Fate::Quiesced(_) | Fate::Unconfirmed(_) | Fate::Deleted(_) | Fate::Vanished
            );
            self.remember(c.instance, !gone);
        }
    }

    /// Decides what becomes of each controller of the inventory. `few_is_fine`: a plan of one is not too small.
    pub(super) fn judge_all(
        &mut self,
        selection: Selection<'_>,
        policy: &Policy,
        few_is_fine: bool,
    ) {
        self.fates.clear();
        for at in 0..self.inventory.controllers().len() {
            let fate = self.fate_of(at, selection, policy);
            let _ = self.fates.push(fate);
        }
        self.spare_functions_with_virtual_ones();
        if !few_is_fine && too_few(self.todo(), policy) {
            for fate in &mut self.fates {
                if matches!(fate, Fate::Todo(_)) {
                    *fate = Fate::Left(Left::TooFew);
                }
            }
        }
    }

    /// The run is over before it began: nobody's turn will come.
    pub(super) fn start_nothing(&mut self) {
        for fate in &mut self.fates {
            if matches!(fate, Fate::Todo(_) | Fate::Unknown) {
                *fate = Fate::NotStarted;
            }
        }
    }

    /// Controllers that are to be done.
    pub(super) fn todo(&self) -> usize {
        self.fates
            .iter()
            .filter(|f| matches!(f, Fate::Todo(_)))
            .count()
    }

    fn fate_of(&self, at: usize, selection: Selection<'_>, policy: &Policy) -> Fate {
        let Some(c) = self.inventory.controllers().get(at) else {
            return Fate::Ignored;
        };
        let asked = match selection {
            Selection::All => true,
            Selection::Named(names) => names.iter().any(|name| name.is(c)),
            Selection::Unseen => !self.has_seen(c.instance),
        };
        if !asked {
            return Fate::Ignored;
        }
        let facts = Facts {
            transport: c.transport,
            state: c.state,
            has_unbind: c.has_unbind,
            driver_bound: c.driver_bound,
            vfs: c.vfs,
        };
        let action = match judge(&facts, policy) {
            Ok((Class::Nvme, _)) if c.pci.is_none() => return Fate::NoAddress,
            Ok((_, action)) => action,
            Err(left) => return Fate::Left(left),
        };
        if c.unread {
            return Fate::Unread;
        }
        let group = self.group(at);
        match self
            .inventory
            .namespaces_of(group)
            .find_map(|ns| ns.holder)
            .or(c.holder)
        {
            Some(holder) => Fate::Busy(holder),
            None => Fate::Todo(action),
        }
    }

    /// The controllers of one subsystem, around the one at `at`.
    fn group(&self, at: usize) -> &[Controller] {
        let all = self.inventory.controllers();
        let Some(subsystem) = all.get(at).map(|c| c.subsystem) else {
            return &[];
        };
        let start = all.partition_point(|c| c.subsystem < subsystem);
        let end = all.partition_point(|c| c.subsystem <= subsystem);
        all.get(start..end).unwrap_or_default()
    }

    /// A physical function whose virtual one stays must stay.
    fn spare_functions_with_virtual_ones(&mut self) {
        for at in 0..self.fates.len() {
            let vf = self.inventory.controllers().get(at);
            if let Some(physfn) = vf.and_then(|c| c.physfn)
                && !matches!(self.fates.get(at), Some(Fate::Todo(_)))
            {
                self.spare(physfn);
            }
        }
    }

    /// Leaves the controller at `address` if it is not done yet; returns its place and its job.
    pub(super) fn spare(&mut self, address: PciAddress) -> Option<(usize, Option<u32>)> {
        let at = self
            .inventory
            .controllers()
            .iter()
            .position(|c| c.pci == Some(address))?;
        let fate = self
            .fates
            .get_mut(at)
            .filter(|fate| matches!(fate, Fate::Todo(_)))?;
        *fate = Fate::Left(Left::HasVfs { n: 1 });
        let job = self.job_of.get(at).filter(|job| **job != NONE);
        Some((at, job.map(|job| u32::from(*job))))
    }

    /// Has what is in use done too, where nothing will use it by then.
    pub(super) fn free(&mut self, by: By) {
        for at in 0..self.fates.len() {
            let Some(c) = self.inventory.controllers().get(at) else {
                return;
            };
            let group = self.group(at);
            let namespaces = self.inventory.namespaces_of(group);
            let lasts = namespaces.map(|ns| ns.lasts).fold(c.lasts, Lasts::max);
            let free = match by {
                By::Now => false,
                By::Hooks => lasts == Lasts::Hooks && c.holder.is_none(),
                By::Exitrd { teardown: false } => lasts < Lasts::Arrays,
                By::Exitrd { teardown: true } => lasts < Lasts::Machine,
            };
            if free
                && c.transport == Transport::Pcie
                && let Some(fate @ Fate::Busy(_)) = self.fates.get_mut(at)
            {
                *fate = Fate::Todo(Action::Unbind);
            }
        }
    }

    /// Makes the jobs, with what they are expected to take.
    pub(super) fn make_jobs(&mut self, timeouts: Timeouts) {
        self.jobs.clear();
        self.items.clear();
        self.job_of.clear();
        let _ = self.job_of.resize(self.fates.len(), NONE);
        let mut start = 0;
        while start < self.fates.len() {
            let end = start + self.group(start).len().max(1);
            for action in [Action::Unbind, Action::Delete] {
                self.make_jobs_of(start, end, action, timeouts);
            }
            start = end;
        }
        self.order_functions();
    }

    /// Jobs for the controllers `start..end` that `action` is for. They claim the same namespaces, so if there are
    /// several each waits for the one before.
    fn make_jobs_of(&mut self, start: usize, end: usize, action: Action, timeouts: Timeouts) {
        let mut at = start;
        while at < end {
            let job = self.jobs.len();
            let (mut count, mut predicted_ms, mut class) = (0, 0_u32, Class::Nvme);
            while at < end && count < PER_ORDER {
                if let Some(c) = self.inventory.controllers().get(at)
                    && self.fates.get(at) == Some(&Fate::Todo(action))
                    && let Some(place) = self.job_of.get_mut(at)
                {
                    *place = u16::try_from(job).unwrap_or(NONE);
                    count += 1;
                    predicted_ms = predicted_ms.saturating_add(predicted(c, action, timeouts));
                    class = c.transport.class().unwrap_or(class);
                }
                at += 1;
            }
            if count == 0 {
                return;
            }
            // At most as many jobs as controllers, and the table holds those.
            let _ = self.jobs.push(Job {
                start: u16::try_from(start).unwrap_or(NONE),
                end: u16::try_from(end).unwrap_or(NONE),
                action,
                bounds: bounds(action, predicted_ms, count, timeouts),
            });
            let _ = self.items.push(Item {
                predicted_ms,
                class,
                before: None,
            });
            if let Some(earlier) = job
                .checked_sub(1)
                .and_then(|e| self.jobs.get(e).map(|j| (e, j.start)))
                && usize::from(earlier.1) == start
                && let Some(item) = self.items.get_mut(earlier.0)
            {
                item.before = u32::try_from(job).ok();
            }
        }
    }

    /// A virtual function goes before its physical one.
    fn order_functions(&mut self) {
        let all = self.inventory.controllers();
        for (at, physfn) in all
            .iter()
            .enumerate()
            .filter_map(|(at, c)| Some((at, c.physfn?)))
        {
            let first = self.job_of.get(at).copied().filter(|job| *job != NONE);
            let then = all
                .iter()
                .position(|c| c.pci == Some(physfn))
                .and_then(|pf| self.job_of.get(pf).copied())
                .filter(|job| *job != NONE);
            if let (Some(first), Some(then)) = (first, then)
                && first != then
                && let Some(item) = self.items.get_mut(usize::from(first))
            {
                item.before = Some(u32::from(then));
            }
        }
    }

    /// The controllers of a job, as places in the inventory, in the order in which they are done.
    pub(super) fn members(&self, job: u32) -> impl Iterator<Item = usize> {
        let range = self
            .job(job)
            .map_or(0..0, |j| usize::from(j.start)..usize::from(j.end));
        range.filter(move |at| self.job_of.get(*at).is_some_and(|of| u32::from(*of) == job))
    }

    /// Whether a job was made for the controller at `at`.
    pub(super) fn has_job(&self, at: usize) -> bool {
        self.job_of.get(at).is_some_and(|job| *job != NONE)
    }

    fn job(&self, job: u32) -> Option<&Job> {
        self.jobs.get(usize::try_from(job).ok()?)
    }

    /// Whether reboot(2) waits for it: it takes the lock of every PCI device, and fabrics controllers are none.
    pub(super) fn holds_up_reboot(&self, job: u32) -> bool {
        self.job(job).is_some_and(|j| j.action == Action::Unbind)
    }

    /// How long it may take.
    pub(super) fn bounds(&self, job: u32) -> Bounds {
        self.job(job).map_or(
            Bounds {
                hold_ms: 0,
                job_ms: 0,
            },
            |j| j.bounds,
        )
    }

    /// How long it is expected to take, in milliseconds.
    pub(super) fn predicted_ms(&self, job: u32) -> u64 {
        let item = usize::try_from(job).ok().and_then(|at| self.items.get(at));
        item.map_or(0, |item| u64::from(item.predicted_ms))
    }

    /// Its order.
    pub(super) fn order(&self, job: u32, buf: &mut [u8; MESSAGE]) -> usize {
        let Some(&Job { start, action, .. }) = self.job(job) else {
            return 0;
        };
        let all = self.inventory.controllers();
        let Some(subsystem) = all.get(usize::from(start)).map(|c| c.subsystem) else {
            return 0;
        };
        let mut targets = heapless::Vec::new();
        let mut fingerprint = Fingerprint::default();
        let heads = self.inventory.heads_of(subsystem);
        heads.iter().for_each(|ns| fingerprint.add(ns.key));
        for c in self.members(job).filter_map(|at| all.get(at)) {
            let _ = targets.push(Target {
                instance: c.instance,
                pci: c.pci,
            });
            let private = self.inventory.private_of(c.instance);
            private.iter().for_each(|ns| fingerprint.add(ns.key));
        }
        Order::Quiesce {
            action,
            subsystem,
            fingerprint,
            targets,
        }
        .encode(buf)
    }
}

/// What a controller is expected to take at most, in milliseconds.
pub(super) fn predicted(c: &Controller, action: Action, timeouts: Timeouts) -> u32 {
    match action {
        Action::Unbind => shutdown_bound_ms(c.rtd3e_us, timeouts.shutdown_s),
        Action::Delete => FABRICS_PREDICTED_MS,
    }
}

fn bounds(action: Action, predicted_ms: u32, count: usize, timeouts: Timeouts) -> Bounds {
    let count = u32::try_from(count).unwrap_or(u32::MAX);
    match action {
        Action::Unbind => Bounds {
            hold_ms: hold_bound_ms(predicted_ms).into(),
            job_ms: job_bound_ms(timeouts.admin_s.saturating_mul(count), predicted_ms).into(),
        },
        // A target that is dead may not be known to be yet: a live connection gets no more time than a lost one.
        Action::Delete => Bounds {
            hold_ms: hold_bound_ms(predicted_ms).into(),
            job_ms: CONNECTING_BOUND_MS.into(),
        },
    }
}
