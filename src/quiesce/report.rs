//! What a person reads: a line for each controller, and one for all.

use core::fmt;

use log::{Level, info, log};

use super::fate::Fate;
use super::foreman::is_policy;
use super::plan::Plan;
use crate::capability::Class;
use crate::errno::Cause;
use crate::sys::nvme::{Controller, Holder, Inventory};
use crate::text::{Millis, Seconds, Text};

/// A controller as lines name it: `nvme3 0000:05:00.0`, `nvme4 tcp`.
pub(super) struct Named<'a>(pub(super) &'a Controller);

impl fmt::Display for Named<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.pci {
            Some(address) => write!(f, "nvme{} {address}", self.0.instance),
            None => match self.0.transport.class() {
                Some(Class::Nvme) => write!(f, "nvme{}", self.0.instance),
                Some(class) => write!(
                    f,
                    "nvme{} {}",
                    self.0.instance,
                    class.name().trim_start_matches("nvme-")
                ),
                None => write!(f, "nvme{}", self.0.instance),
            },
        }
    }
}

/// What became of a controller, as the rest of its line.
pub(super) struct Told<'a> {
    pub(super) fate: Fate,
    pub(super) inventory: &'a Inventory,
    /// What the last resort will do about an abandoned one.
    pub(super) guard_s: Option<u32>,
}

impl fmt::Display for Told<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = |ms: u32| Seconds(ms.into());
        match self.fate {
            Fate::Ignored => f.write_str("not asked for"),
            Fate::Left(left) => write!(f, "{left}"),
            Fate::Busy(holder @ Holder::Named(_)) => {
                write!(f, "left: busy ({})", self.inventory.holder_name(holder))
            }
            Fate::Busy(Holder::Unnamed) => f.write_str("left: busy"),
            Fate::Claimed(key) => {
                write!(
                    f,
                    "left: busy ({key} is claimed; by whom cannot be seen from here: another mount namespace, zfs, drbd)"
                )
            }
            Fate::Unknown => f.write_str("left: cannot tell whether it is in use"),
            Fate::NoAddress => f.write_str("left: its PCI address cannot be read"),
            Fate::Unread => f.write_str("left: its namespaces could not all be read"),
            Fate::NoTime => f.write_str("left: it would not be through before the exitrd starts"),
            Fate::Todo(_) => f.write_str("to be done"),
            Fate::Running(step, _) => write!(f, "under way: {}", step.name()),
            Fate::Quiesced(ms) => write!(f, "quiesced in {ms} ms"),
            Fate::Deleted(ms) => write!(f, "deleted in {ms} ms"),
            Fate::Unconfirmed(took) => {
                write!(f, "let go after {}, shutdown not confirmed", seconds(took))
            }
            Fate::Unflushed(key, errno) => {
                write!(
                    f,
                    "left: busy with unwritten data ({key} could not be flushed: {})",
                    Cause(errno)
                )
            }
            Fate::Unopened(key, errno) => {
                write!(
                    f,
                    "left: cannot tell whether it is in use (/dev/{key}: {})",
                    Cause(errno)
                )
            }
            Fate::Changed => f.write_str("left: a namespace came while quell looked"),
            Fate::NotLive(state) => write!(f, "left: state {state}"),
            Fate::Vanished => f.write_str("had gone by itself"),
            Fate::Failed(step, errno) => {
                write!(f, "left: {} failed: {}", step.name(), Cause(errno))
            }
            Fate::StillThere => f.write_str("left: its driver was told to let go and has not"),
            Fate::Died(step) => write!(f, "left: its worker died, {}", step.name()),
            Fate::Abandoned(step, waited) => {
                write!(
                    f,
                    "abandoned after {}, {} has not returned; ",
                    seconds(waited),
                    step.name()
                )?;
                match self.guard_s {
                    Some(s) => write!(
                        f,
                        "the reboot waits for it, the machine is reset in {s} s if it never does"
                    ),
                    None => f.write_str("it goes on by itself"),
                }
            }
            Fate::NotStarted => f.write_str("left: its turn did not come in time"),
        }
    }
}

/// How loud a fate is.
fn level(fate: Fate) -> Level {
    match fate {
        Fate::Quiesced(_)
        | Fate::Deleted(_)
        | Fate::Busy(_)
        | Fate::Claimed(_)
        | Fate::Vanished
        | Fate::NoTime => Level::Info,
        Fate::Ignored | Fate::Todo(_) | Fate::Running(..) => Level::Debug,
        Fate::Left(left) if is_policy(left) => Level::Info,
        _ => Level::Warn,
    }
}

/// Says what became of the controller at `at`.
pub(super) fn controller(plan: &Plan, at: usize, guard_s: Option<u32>) {
    if let (Some(c), Some(&fate)) = (plan.inventory.controllers().get(at), plan.fates.get(at)) {
        let told = Told {
            fate,
            inventory: &plan.inventory,
            guard_s,
        };
        log!(level(fate), "{} {told}", Named(c));
    }
}

/// Says what became of those that no job was made for: the others' lines came as they were done.
pub(super) fn left(plan: &Plan) {
    for (at, fate) in plan.fates.iter().enumerate() {
        if !matches!(fate, Fate::Ignored | Fate::Todo(_)) && !plan.has_job(at) {
            controller(plan, at, None);
        }
    }
}

/// What a whole run came to.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Tally {
    /// Controllers it was about.
    pub(super) asked: usize,
    pub(super) quiesced: usize,
    pub(super) unconfirmed: usize,
    pub(super) busy: usize,
    /// To be done, in a dry run.
    pub(super) planned: usize,
    /// Left by the table, and nothing to worry about.
    pub(super) policy: usize,
    /// Left for a reason somebody should know.
    pub(super) refused: usize,
    pub(super) abandoned: usize,
    pub(super) failed: usize,
    /// Could not even be looked at, or written to for want of privilege.
    pub(super) mechanism: usize,
    slowest: Option<(u32, u32)>,
}

impl Tally {
    /// Adds what became of a plan's controllers.
    pub(super) fn add(&mut self, plan: &Plan) {
        use rustix::io::Errno;
        for (c, fate) in plan.inventory.controllers().iter().zip(&plan.fates) {
            self.asked += usize::from(!matches!(fate, Fate::Ignored | Fate::Vanished));
            match *fate {
                Fate::Ignored | Fate::Vanished | Fate::Running(..) => {}
                Fate::Todo(_) => self.planned += 1,
                Fate::Quiesced(ms) | Fate::Deleted(ms) => {
                    self.quiesced += 1;
                    self.took(c, ms);
                }
                Fate::Unconfirmed(ms) => {
                    self.unconfirmed += 1;
                    self.took(c, ms);
                }
                Fate::Busy(_) | Fate::Claimed(_) => self.busy += 1,
                Fate::Left(left) if is_policy(left) => self.policy += 1,
                Fate::Left(_)
                | Fate::NotLive(_)
                | Fate::Changed
                | Fate::Unread
                | Fate::NoAddress
                | Fate::NoTime => self.refused += 1,
                Fate::Abandoned(_, ms) => {
                    self.abandoned += 1;
                    self.took(c, ms);
                }
                Fate::Unknown
                | Fate::Failed(_, Errno::ACCESS | Errno::PERM | Errno::ROFS)
                | Fate::Unopened(_, Errno::ACCESS | Errno::PERM) => {
                    self.mechanism += 1;
                }
                _ => self.failed += 1,
            }
        }
    }

    fn took(&mut self, c: &Controller, ms: u32) {
        if self.slowest.is_none_or(|(_, most)| ms > most) {
            self.slowest = Some((c.instance, ms));
        }
    }

    /// Those that stay with the kernel.
    fn left(&self) -> usize {
        self.busy + self.policy + self.refused + self.failed + self.mechanism
    }

    /// The line for all: `quiesced 23 of 24 controllers in 3.4 s, 24 workers, slowest nvme7 3.1 s, 1 left`.
    pub(super) fn line(&self, took_ms: u64, workers: usize, given_up: usize) -> Text<240> {
        let mut line = Text::of(format_args!(
            "quiesced {} of {} controllers in {}, {workers} worker{}",
            self.quiesced,
            self.asked,
            Millis(took_ms),
            if workers == 1 { "" } else { "s" }
        ));
        if given_up > 0 {
            line.add(format_args!(" ({given_up} given up)"));
        }
        if let Some((instance, ms)) = self.slowest {
            line.add(format_args!(
                ", slowest nvme{instance} {}",
                Millis(ms.into())
            ));
        }
        for (count, what) in [
            (self.unconfirmed, "not confirmed"),
            (self.abandoned, "abandoned"),
            (self.left(), "left"),
        ] {
            if count > 0 {
                line.add(format_args!(", {count} {what}"));
            }
        }
        line
    }
}

/// Tells a person at a shell how to get the controllers back.
pub(super) fn way_back(plan: &Plan) {
    let gone = plan
        .inventory
        .controllers()
        .iter()
        .zip(&plan.fates)
        .filter_map(|(c, fate)| match fate {
            Fate::Quiesced(_) | Fate::Unconfirmed(_) => c.pci,
            _ => None,
        });
    let mut list = Text::<760>::new();
    for address in gone {
        let one = Text::<24>::of(format_args!(" {address}"));
        if list.as_str().len() + one.as_str().len() > 760 {
            give_back(&list);
            list.clear();
        }
        list.add(format_args!("{one}"));
    }
    give_back(&list);
}

fn give_back(list: &Text<760>) {
    if !list.is_empty() {
        info!(
            "to have them back: for a in{list}; do echo $a > /sys/bus/pci/drivers/nvme/bind; done"
        );
    }
}
