//! Looks at who uses what, and decides what becomes of each controller.

use log::{debug, error, warn};

use super::crew::{COMPLETE, UNKNOWN, USES_CONTROLLER, USES_NAMESPACE};
use super::fate::{Fate, Selection};
use super::order::Order;
use super::{Ended, Run};
use crate::capability::{Class, Transport};
use crate::name::Key;
use crate::pool::{Bounds, Foreman, MESSAGE};
use crate::sys::claims::Lasts;
use crate::sys::nvme::Inventory;
use crate::sys::{claims, proc};
use crate::text::{Printable, Text};

/// The longest a look at the users may take, in milliseconds. It takes a few microseconds for each open file.
const USERS_MS: u64 = 8_000;
/// The longest the controllers are waited for to say their RTD3E, in milliseconds.
const IDENTIFY_MS: u64 = 5_000;

/// Whether the controllers are asked for RTD3E.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Look {
    /// For whoever wants to know.
    AskAll,
    /// Only where there are more controllers than workers, so that the order counts: an admin command costs time.
    AskIfItDecides,
}

impl Run<'_> {
    /// Decides what becomes of each controller of the inventory.
    pub(super) fn look(&mut self, selection: Selection<'_>, ask: Look, few_is_fine: bool) {
        if self.cut.is_some() {
            // Nothing will be done, so nobody needs to know who uses what.
            return self.plan.judge_all(selection, &self.policy, few_is_fine);
        }
        let known = match claims::mark(self.context.root, &mut self.plan.inventory) {
            Ok(()) => {
                self.prepare(selection, few_is_fine);
                self.users()
            }
            Err(unknown) => {
                error!("{unknown}; nothing is done");
                false
            }
        };
        self.plan.judge_all(selection, &self.policy, few_is_fine);
        if !known {
            for fate in &mut self.plan.fates {
                if matches!(fate, Fate::Todo(_)) {
                    *fate = Fate::Unknown;
                }
            }
        }
        if ask == Look::AskAll || self.some_must_wait() {
            self.identify();
        }
    }

    /// True if not all can be done at once, so that the order counts.
    fn some_must_wait(&self) -> bool {
        let options = &self.context.options;
        let todo = self.plan.todo();
        todo > options.jobs_total(todo) || todo > options.width_of(Class::Nvme)
    }

    /// Has a worker look at the processes, which takes it a while: meanwhile the controllers are read.
    pub(super) fn ask_for_users(&mut self) {
        self.pool.next_phase(1);
        self.pool.begin(&mut Asking {
            inventory: None,
            complete: false,
            asked: false,
            unknown: None,
        });
    }

    /// Makes the workers while one looks at the processes: most of what can be done by what is known will be done.
    fn prepare(&mut self, selection: Selection<'_>, few_is_fine: bool) {
        if !self.context.dry_run {
            self.plan.judge_all(selection, &self.policy, few_is_fine);
            self.plan.make_jobs(self.timeouts);
            let jobs = self.plan.items.len();
            self.pool.prepare(self.context.options.jobs_total(jobs));
        }
    }

    /// Marks what a process has open. False if that cannot be known.
    fn users(&mut self) -> bool {
        let mut asking = Asking {
            inventory: Some(&mut self.plan.inventory),
            complete: false,
            asked: true,
            unknown: None,
        };
        let deadline = self
            .context
            .deadline
            .within_ms(USERS_MS.min(self.context.deadline.rest_ms() / 2));
        let ended = self
            .pool
            .run(&mut asking, deadline, self.context.signals.as_ref());
        let Asking {
            complete, unknown, ..
        } = asking;
        match ended {
            Ended::Signal(_) => self.cut = Some(ended),
            Ended::NoWorkers(errno) => self.no_workers(errno),
            _ if complete => {}
            _ if self.context.dry_run && !proc::is_root() => {
                warn!(
                    "not every process can be looked into without being root: the plan may be of more than can be done"
                );
                return true;
            }
            _ => match unknown {
                Some(why) => error!("{why}; nothing is done"),
                None => error!(
                    "cannot tell what is in use, the look at it does not come to its end; nothing is done"
                ),
            },
        }
        complete
    }

    /// Asks the controllers that are to be done for RTD3E, which decides who is longest. One that does not answer
    /// counts as one that does not say.
    fn identify(&mut self) {
        let options = &self.context.options;
        let width = options
            .jobs_total(self.plan.todo())
            .min(options.width_of(Class::Nvme));
        self.pool.next_phase(width);
        let fates = &self.plan.fates;
        let inventory = &mut self.plan.inventory;
        let mut asking = Identifying {
            inventory,
            fates,
            next: 0,
        };
        let deadline = self
            .context
            .deadline
            .within_ms(IDENTIFY_MS.min(self.context.deadline.rest_ms() / 4));
        match self
            .pool
            .run(&mut asking, deadline, self.context.signals.as_ref())
        {
            ended @ Ended::Signal(_) => self.cut = Some(ended),
            ended => debug!("asked for RTD3E: {ended:?}"),
        }
    }
}

/// Neither job has a bound of its own: the deadline it is given is.
const UNBOUNDED: Bounds = Bounds {
    hold_ms: u64::MAX,
    job_ms: u64::MAX,
};

/// The one job of finding the users.
struct Asking<'a> {
    /// Where it is marked; none before there is one, when nobody is listened to yet.
    inventory: Option<&'a mut Inventory>,
    asked: bool,
    complete: bool,
    /// Why it cannot be.
    unknown: Option<Text<150>>,
}

impl Foreman for Asking<'_> {
    fn next(&mut self) -> Option<u32> {
        (!core::mem::replace(&mut self.asked, true)).then_some(0)
    }

    fn order(&self, _job: u32, order: &mut [u8; MESSAGE]) -> usize {
        Order::Users {
            main: std::process::id(),
        }
        .encode(order)
    }

    fn blocks_others(&self, _job: u32) -> bool {
        false
    }

    fn bounds(&self, _job: u32) -> Bounds {
        UNBOUNDED
    }

    fn message(&mut self, _job: u32, message: &[u8]) {
        let Some((tag, rest)) = message.split_first() else {
            return;
        };
        match *tag {
            COMPLETE => self.complete = true,
            UNKNOWN => self.unknown = Some(Printable(rest).to_text()),
            _ => {}
        }
        let Some((lasts, rest)) = rest.split_first() else {
            return;
        };
        let Some((instance, rest)) = rest.split_first_chunk::<4>() else {
            return;
        };
        let Some((head, text)) = rest.split_first_chunk::<4>() else {
            return;
        };
        let key = Key {
            instance: u32::from_le_bytes(*instance),
            head: u32::from_le_bytes(*head),
        };
        let (lasts, who) = (Lasts::of(*lasts), Printable(text));
        let Some(inventory) = &mut self.inventory else {
            return;
        };
        match *tag {
            USES_CONTROLLER => {
                inventory.hold_controller(key.instance, lasts, format_args!("{who}"))
            }
            USES_NAMESPACE => inventory.hold(key, lasts, format_args!("{who}")),
            _ => {}
        }
    }

    fn done(&mut self, _job: u32, _died: bool) {}

    fn abandon(&mut self, _job: u32) {}
}

/// A job for each PCIe controller that is to be done.
struct Identifying<'a> {
    inventory: &'a mut Inventory,
    fates: &'a [Fate],
    next: usize,
}

impl Identifying<'_> {
    fn instance(&self, at: usize) -> u32 {
        self.inventory
            .controllers()
            .get(at)
            .map_or(0, |c| c.instance)
    }
}

impl Foreman for Identifying<'_> {
    fn next(&mut self) -> Option<u32> {
        loop {
            let at = self.next;
            let fate = self.fates.get(at)?;
            self.next += 1;
            let pcie = self
                .inventory
                .controllers()
                .get(at)
                .is_some_and(|c| c.transport == Transport::Pcie);
            if pcie && matches!(fate, Fate::Todo(_)) {
                return u32::try_from(at).ok();
            }
        }
    }

    fn order(&self, job: u32, order: &mut [u8; MESSAGE]) -> usize {
        Order::Identify {
            instance: self.instance(job as usize),
        }
        .encode(order)
    }

    fn blocks_others(&self, _job: u32) -> bool {
        false
    }

    fn bounds(&self, _job: u32) -> Bounds {
        UNBOUNDED
    }

    fn message(&mut self, job: u32, message: &[u8]) {
        if let (Ok(us), Some(c)) = (
            <[u8; 4]>::try_from(message),
            self.inventory.controllers_mut().get_mut(job as usize),
        ) {
            c.rtd3e_us = Some(u32::from_le_bytes(us)).filter(|us| *us > 0);
        }
    }

    fn done(&mut self, _job: u32, _died: bool) {}

    fn abandon(&mut self, _job: u32) {}
}
