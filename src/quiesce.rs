//! Shuts NVMe controllers down, many at once: look, plan, act, report.
//!
//! The driver's own removal sends the shutdown notification and waits for the drive; writing a controller's PCI address
//! to its driver's `unbind` file runs it, and only the device's own lock is held meanwhile. So the work is to find out
//! what may be touched (`plan`), to do it in a bounded number of workers (`crew`), and to find out what came of it
//! (`foreman`).

mod crew;
mod fate;
mod foreman;
mod look;
mod order;
mod plan;
mod report;
mod show;
mod survey;

use std::sync::Mutex;

use log::{Level, error, info, warn};

use crate::capability::{Class, Policy};
use crate::context::{Context, Exit};
use crate::deadline::now_ms;
use crate::errno::Cause;
use crate::pool::{Ended, Pool};
use crate::schedule::{Limits, Predicted, Schedule};
use crate::sys::nvme::{self, CONTROLLERS};
use crate::sys::{kmsg::Reader, memory, proc};

use crew::Worker;
use fate::Selection;
use foreman::Carrying;
use look::Look;
use plan::{Plan, Timeouts};
use report::Tally;

pub use fate::Name;
pub use plan::By;
pub use survey::{Row, Survey, foreign, survey};

/// What is kept of one run: far too large for a stack, and nothing may be allocated.
struct Tables {
    plan: Plan,
    schedule: Schedule<CONTROLLERS>,
}

static TABLES: Mutex<Tables> = Mutex::new(Tables {
    plan: Plan::new(),
    schedule: Schedule::new(),
});

/// Which controllers a command is about.
#[derive(Clone, Copy)]
pub enum Which<'a> {
    /// All there are.
    All,
    /// These, every one of which must exist.
    Named(&'a [Name]),
}

/// One run over the machine.
struct Run<'a> {
    context: &'a Context,
    plan: &'a mut Plan,
    schedule: &'a mut Schedule<CONTROLLERS>,
    pool: Pool<'a>,
    policy: Policy,
    timeouts: Timeouts,
    tally: Tally,
    /// Jobs were started, so this is the middle of the work and not the choice whether to begin it.
    begun: bool,
    /// Another pass follows this one.
    more_to_come: bool,
    /// Why the run was over before its end.
    cut: Option<Ended>,
    /// The kernel's log could not be read, or not all of it: said once.
    deaf_said: bool,
    start_ms: u64,
}

/// Quiesces controllers, or says what that would be.
pub fn run(context: &Context, which: Which<'_>) -> Exit {
    let Ok(mut tables) = TABLES.lock() else {
        return Exit::Missing;
    };
    let Tables { plan, schedule } = &mut *tables;
    let crew = Worker { root: context.root };
    Run::new(context, plan, schedule, Pool::new(context.root, &crew, 1)).all(which)
}

impl<'a> Run<'a> {
    fn new(
        context: &'a Context,
        plan: &'a mut Plan,
        schedule: &'a mut Schedule<CONTROLLERS>,
        pool: Pool<'a>,
    ) -> Self {
        Self {
            context,
            plan,
            schedule,
            pool,
            policy: Policy {
                fabrics_delete: context.options.fabrics_delete,
                quiesce: context.options.quiesce,
                hook_stage: context.stage.is_hook(),
                kernel_async: nvme::kernel_is_async(context.root),
                named: !context.stage.is_hook(),
            },
            timeouts: Timeouts {
                shutdown_s: nvme::shutdown_timeout_s(context.root),
                admin_s: nvme::admin_timeout_s(context.root),
            },
            tally: Tally::default(),
            begun: false,
            more_to_come: false,
            cut: None,
            deaf_said: false,
            start_ms: now_ms(),
        }
    }

    /// Reads the controllers from this instance on; returns where the next pass starts. Who uses them is looked for beside.
    fn scan(&mut self, from: u32) -> Result<Option<u32>, Exit> {
        let mut any = false;
        if nvme::instances(self.context.root, |_| any = true).is_ok() && any {
            self.ask_for_users();
        }
        self.plan
            .inventory
            .scan(self.context.root, from)
            .map_err(|errno| {
                let cause = Cause(errno);
                self.context.nothing(
                    Level::Error,
                    format_args!("/sys/class/nvme cannot be read: {cause}; nothing is done"),
                );
                Exit::Missing
            })
    }

    fn all(&mut self, which: Which<'_>) -> Exit {
        let first = match self.scan(0) {
            Ok(next) => next,
            Err(exit) => return exit,
        };
        let selection = match which {
            Which::All => Selection::All,
            Which::Named(names) => {
                if let Some(exit) = self.unknown(names, first.is_some()) {
                    return exit;
                }
                Selection::Named(names)
            }
        };
        if self.plan.inventory.controllers().is_empty() {
            self.nothing();
            return Exit::Done;
        }
        if !self.context.dry_run {
            proc::raise_file_limit();
        }
        let mut output = show::Output::start(self.context);
        let mut few_is_fine = first.is_some();
        let mut next = Some(first);
        while let Some(further) = next.take() {
            self.more_to_come = further.is_some();
            self.pass(selection, few_is_fine, &mut output);
            few_is_fine = true;
            next = self.next_scan(further);
        }
        if matches!(which, Which::All) && self.begun && self.cut.is_none() {
            self.late(&mut output);
        }
        self.finish(&mut output)
    }

    /// Reads what the next pass is about, if there is one.
    fn next_scan(&mut self, further: Option<u32>) -> Option<Option<u32>> {
        let from = further.filter(|_| self.cut.is_none())?;
        self.ask_for_users();
        match self.plan.inventory.scan(self.context.root, from) {
            Ok(after) => Some(after),
            Err(errno) => {
                warn!(
                    "/sys/class/nvme cannot be read again: {}; what is left goes to the kernel",
                    Cause(errno)
                );
                self.tally.mechanism += 1;
                None
            }
        }
    }

    /// Every name must be a controller's; those that are none are said before anything is touched.
    fn unknown(&self, names: &[Name], more: bool) -> Option<Exit> {
        let all = self.plan.inventory.controllers();
        // Beyond the table a name cannot be checked cheaply; a machine with more than 8,192 controllers is asked by --all.
        let missing = names.iter().find(|name| !all.iter().any(|c| name.is(c)));
        if let (Some(name), false) = (missing, more) {
            match name {
                Name::Instance(n) => error!("there is no controller nvme{n}; nothing is done"),
                Name::Pci(address) => {
                    error!("there is no NVMe controller at {address}; nothing is done")
                }
            }
            return Some(Exit::Usage);
        }
        None
    }

    fn nothing(&self) {
        info!("no NVMe controllers");
        let mut output = show::Output::start(self.context);
        output.end(&self.tally, Predicted::default(), 0, 0);
    }

    /// Plans and does what the inventory holds.
    fn pass(&mut self, selection: Selection<'_>, few_is_fine: bool, output: &mut show::Output<'_>) {
        let ask = if self.context.dry_run {
            Look::AskAll
        } else {
            Look::AskIfItDecides
        };
        if self.context.deadline.is_over() {
            self.cut = Some(Ended::Deadline);
        }
        self.look(selection, ask, few_is_fine);
        if self.cut.is_some() {
            self.plan.start_nothing();
        }
        self.plan.make_jobs(self.timeouts);
        if self.context.dry_run {
            let limits = self.limits();
            let predicted = self.schedule.predict(&self.plan.items, limits);
            output.predicted(predicted, limits.total.min(self.plan.items.len()));
        } else if self.plan.todo() > 0 {
            self.act();
        }
        // Said last: a slow console must not keep the drives waiting.
        report::left(self.plan);
        self.tally.add(self.plan);
        output.controllers(self.plan, self.timeouts);
        self.plan.remember_all();
        if !self.context.reboots() && !self.context.dry_run {
            report::way_back(self.plan);
        }
    }

    fn limits(&self) -> Limits {
        let options = &self.context.options;
        Limits {
            total: options.jobs_total(self.plan.items.len()),
            width: Class::ALL.map(|class| options.width_of(class)),
        }
    }

    /// Carries the plan out.
    fn act(&mut self) {
        let limits = self.limits();
        self.schedule.load(&self.plan.items, limits);
        let witness = Reader::at_end(self.context.root);
        if let Err(errno) = &witness {
            self.deaf(format_args!("/dev/kmsg cannot be read: {}", Cause(*errno)));
        }
        let expedited = proc::Expedited::raise(self.context.root);
        self.begun = true;
        self.pool.next_phase(limits.total);
        let guard_s = self.context.guard_s();
        let mut carrying = Carrying {
            plan: self.plan,
            schedule: self.schedule,
            witness: witness.ok(),
            complaints: heapless::Vec::new(),
            fit: self.context.fit.then_some(self.context.deadline),
            guard_s,
            more_to_come: self.more_to_come,
        };
        self.pool.begin(&mut carrying);
        if self.context.reboots() && !self.context.root.is_fixture() {
            // The drives come first: the one that the binary lies on is in use, and not among them.
            memory::lock();
        }
        let ended = self.pool.run(
            &mut carrying,
            self.context.deadline,
            self.context.signals.as_ref(),
        );
        carrying.close();
        let lost = carrying.witness.as_ref().is_some_and(Reader::lost);
        drop(expedited);
        match ended {
            Ended::All => {}
            Ended::Deadline | Ended::Signal(_) => self.cut = Some(ended),
            Ended::NoWorkers(_) => {}
        }
        if let Some(seconds) = guard_s
            && self
                .pool
                .unfinished()
                .any(|job| carrying.plan.holds_up_reboot(job))
            && let Err(errno) = self.pool.leave_guard(&mut carrying, seconds)
        {
            error!(
                "no process can be made that would reset the machine: {}; only a watchdog will",
                Cause(errno)
            );
        }
        if let Ended::NoWorkers(errno) = ended {
            self.no_workers(errno);
        }
        if lost {
            self.deaf(format_args!("records of /dev/kmsg were lost"));
        }
    }

    /// Nothing can be done without a worker.
    fn no_workers(&mut self, errno: rustix::io::Errno) {
        error!(
            "no worker process can be made: {}; the controllers go to the kernel",
            Cause(errno)
        );
        self.cut = Some(Ended::NoWorkers(errno));
    }

    /// Says once why no shutdown can be confirmed.
    fn deaf(&mut self, why: core::fmt::Arguments<'_>) {
        if !core::mem::replace(&mut self.deaf_said, true) {
            warn!("{why}; whether the drives confirmed their shutdown is not known");
        }
    }

    /// One final pass for controllers that came while the others were done.
    fn late(&mut self, output: &mut show::Output<'_>) {
        let mut any = false;
        let listed = nvme::instances(self.context.root, |instance| {
            any |= !self.plan.has_seen(instance)
        });
        if listed.is_err() || !any {
            return;
        }
        let mut next = self.next_scan(Some(0));
        while let Some(further) = next.take() {
            self.pass(Selection::Unseen, true, output);
            next = self.next_scan(further);
        }
    }

    /// The last line, and the exit status.
    fn finish(&mut self, output: &mut show::Output<'_>) -> Exit {
        let took = now_ms().saturating_sub(self.start_ms);
        if self.context.dry_run {
            output.end(&self.tally, output.sum(), took, 0);
            return if self.tally.mechanism > 0 {
                Exit::Missing
            } else {
                Exit::Done
            };
        }
        let line = self
            .tally
            .line(took, self.pool.forked(), self.pool.abandoned());
        match self.cut {
            Some(Ended::Signal(name)) => warn!("{line}; ended by {name}"),
            Some(Ended::Deadline) => warn!("{line}; the time is up"),
            _ => info!("{line}"),
        }
        output.end(&self.tally, Predicted::default(), took, self.pool.forked());
        self.exit()
    }

    fn exit(&self) -> Exit {
        let Tally {
            busy,
            policy,
            refused,
            unconfirmed,
            abandoned,
            failed,
            mechanism,
            ..
        } = self.tally;
        // A hook has done its part when only what is in use is left; a person wanted what he named.
        let minded = if self.context.stage.is_hook() {
            0
        } else {
            busy + policy
        };
        match () {
            () if mechanism > 0 || matches!(self.cut, Some(Ended::NoWorkers(_))) => Exit::Missing,
            () if minded + refused + unconfirmed + abandoned + failed > 0 || self.cut.is_some() => {
                Exit::Undone
            }
            () => Exit::Done,
        }
    }
}
