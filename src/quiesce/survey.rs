//! The same look and the same plan as a hook's, without doing anything: what `status` tells.

use super::fate::{Fate, Selection};
use super::look::Look;
use super::plan::{By, Plan, predicted};
use super::report::Told;
use super::{Run, TABLES, Tables, Worker};
use crate::capability::{Left, Transport};
use crate::context::{Context, Exit};
use crate::path;
use crate::pool::Pool;
use crate::sys::Root;
use crate::sys::nvme::Controller;
use crate::sys::pci::{self, PciAddress};
use crate::text::{Printable, Text};

/// What a hook would do with one controller.
pub struct Row<'a> {
    /// `nvme3`'s 3.
    pub instance: u32,
    /// Its PCI function.
    pub pci: Option<PciAddress>,
    /// `pcie`, `tcp`, ...
    pub transport: Text<16>,
    /// The driver's state of it.
    pub state: crate::capability::State,
    /// What it says of itself.
    pub model: Text<64>,
    /// Likewise.
    pub serial: Text<64>,
    /// Likewise.
    pub firmware: Text<64>,
    /// RTD3 Entry Latency in microseconds, where it says one.
    pub rtd3e_us: Option<u32>,
    /// It would be done, in at most so many milliseconds.
    pub predicted_ms: Option<u32>,
    /// Why it would be left, or that it would be done.
    pub text: &'a dyn core::fmt::Display,
}

/// What a hook would do with all of them.
#[derive(Clone, Copy, Debug, Default)]
pub struct Survey {
    /// Controllers there are.
    pub controllers: usize,
    /// Those that would be done.
    pub todo: usize,
    /// How many of them at once.
    pub width: usize,
    /// PCIe controllers that would be left to the kernel, which does them one by one.
    pub one_by_one: usize,
    /// How long those take at most, in milliseconds.
    pub one_by_one_ms: u64,
    /// How long those to be done take as planned, in milliseconds.
    pub planned_ms: u64,
    /// How long all PCIe controllers take one by one, in milliseconds.
    pub serial_ms: u64,
    /// The kernel itself does them in parallel.
    pub kernel_async: bool,
    /// It could not be found out who uses what.
    pub blind: bool,
}

/// Looks at the machine as a hook would, and tells each controller's row.
///
/// More than one table of controllers is told in further passes, as they would be done.
pub fn survey(context: &Context, by: By, each: &mut dyn FnMut(&Row<'_>)) -> Result<Survey, Exit> {
    let Ok(mut tables) = TABLES.lock() else {
        return Err(Exit::Missing);
    };
    let Tables { plan, schedule } = &mut *tables;
    let crew = Worker { root: context.root };
    let mut run = Run::new(context, plan, schedule, Pool::new(context.root, &crew, 1));
    run.policy.hook_stage = true;
    run.policy.named = false;
    let mut survey = Survey {
        kernel_async: run.policy.kernel_async,
        ..Survey::default()
    };
    let mut next = Some(0);
    while let Some(from) = next {
        next = run.scan(from)?;
        let several = by != By::Now && run.plan.inventory.controllers().len() > 1;
        run.look(
            Selection::All,
            Look::AskAll,
            next.is_some() || survey.controllers > 0 || several,
        );
        run.plan.free(by);
        run.add_to(&mut survey);
        rows(context.root, run.plan, run.timeouts, each);
    }
    Ok(survey)
}

impl Run<'_> {
    fn add_to(&mut self, survey: &mut Survey) {
        for (c, fate) in self
            .plan
            .inventory
            .controllers()
            .iter()
            .zip(&self.plan.fates)
        {
            survey.controllers += 1;
            survey.blind |= *fate == Fate::Unknown;
            if c.transport != Transport::Pcie {
                continue;
            }
            let ms = u64::from(predicted(
                c,
                crate::capability::Action::Unbind,
                self.timeouts,
            ));
            survey.serial_ms += ms;
            if !matches!(fate, Fate::Todo(_) | Fate::Left(Left::KernelAsync)) {
                survey.one_by_one += 1;
                survey.one_by_one_ms += ms;
            }
        }
        self.plan.make_jobs(self.timeouts);
        let limits = self.limits();
        survey.todo += self.plan.todo();
        survey.width = survey.width.max(limits.total.min(self.plan.items.len()));
        survey.planned_ms += self.schedule.predict(&self.plan.items, limits).planned_ms;
    }
}

fn rows(root: &Root, plan: &Plan, timeouts: super::Timeouts, each: &mut dyn FnMut(&Row<'_>)) {
    for (c, &fate) in plan.inventory.controllers().iter().zip(&plan.fates) {
        let told = Told {
            fate,
            inventory: &plan.inventory,
            guard_s: None,
        };
        each(&row(root, c, fate, timeouts, &told));
    }
}

fn row<'a>(
    root: &Root,
    c: &Controller,
    fate: Fate,
    timeouts: super::Timeouts,
    text: &'a Told<'a>,
) -> Row<'a> {
    let told = |file: &str| {
        let mut buf = [0; 64];
        let read = root.read(
            path!("/sys/class/nvme/nvme{}/{file}", c.instance).as_str(),
            &mut buf,
        );
        Printable(read.unwrap_or_default().trim_ascii()).to_text()
    };
    Row {
        instance: c.instance,
        pci: c.pci,
        transport: Text::of(format_args!("{}", told("transport"))),
        state: c.state,
        model: told("model"),
        serial: told("serial"),
        firmware: told("firmware_rev"),
        rtd3e_us: c.rtd3e_us,
        predicted_ms: match fate {
            Fate::Todo(action) => Some(predicted(c, action, timeouts)),
            _ => None,
        },
        text,
    }
}

/// PCI functions of the NVM class that no NVMe driver has.
pub fn foreign(root: &Root, each: impl FnMut(PciAddress, &[u8])) {
    pci::foreign_functions(root, each);
}
