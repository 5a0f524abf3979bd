//! What was decided and done, in lines.

use core::fmt;

use log::{Level, error, info, warn};

use super::Case;
use super::decide::{Fate, Outcome, Patience};
use super::look::Hash;
use super::steps::is_redundant;
use crate::deadline::now_ms;
use crate::imsm::{Migration, Plan, SlotState, Standing, Verdict};
use crate::text::{Millis, Printable, Seconds};

/// What a person can do about what nobody starts.
const ADVICE: &str = "`quell examine DISK...` shows what each disk says; who knows which is right can have mdadm start it by hand";

/// Lines about how things stand, as opposed to what is done: where nothing has changed since the last call of the initrd's
/// loop they are not worth repeating.
#[derive(Default)]
pub(super) struct Lines(Vec<(Level, String)>);

impl Lines {
    pub(super) fn add(&mut self, level: Level, line: String) {
        self.0.push((level, line));
    }

    /// Says them, quietly where the last call said the same; returns what they come to.
    pub(super) fn say(&self, last: Option<u64>) -> u64 {
        let mut hash = Hash::default();
        // How long there is still to wait is no news.
        let news = |line: &str| line.split(", for ").next().unwrap_or_default().len();
        for (_, line) in &self.0 {
            hash.add(line.as_bytes().get(..news(line)).unwrap_or_default());
        }
        for (level, line) in &self.0 {
            let level = if last == Some(hash.0) {
                Level::Debug
            } else {
                *level
            };
            log::log!(level, "{line}");
        }
        hash.0
    }

    /// What was decided of a container, where nothing more will be said of it.
    pub(super) fn decided(&mut self, case: &Case<'_, '_>) {
        let uuid = case.container.uuid();
        match &case.decision.outcome {
            Outcome::Runs | Outcome::Goes => {}
            Outcome::Left(why) => {
                self.add(Level::Info, format!("container {uuid}: left alone: {why}"))
            }
            Outcome::Mdadm(why) => {
                self.add(
                    Level::Warn,
                    format!("container {uuid}: left to mdadm: {why}"),
                );
            }
            Outcome::Unsafe(why) => {
                let line = format!("container {uuid}: nobody starts it: {why}. {ADVICE}");
                self.add(Level::Error, line);
            }
            Outcome::Waits(patience) => {
                let can_start = case
                    .plans
                    .iter()
                    .any(|plan| plan.verdict == Verdict::Degraded);
                let (missing, until) = (Missing(case), Until(*patience, can_start));
                let line = format!("container {uuid}: waits for disk {missing}{until}");
                self.add(Level::Info, line);
            }
        }
        for member in case.container.members() {
            let name = member.name;
            let what = match case.container.standing(member) {
                Standing::Active(_) | Standing::Lagging(_) | Standing::Journal(_) => continue,
                Standing::Spare(_) => "is its spare, and left alone",
                Standing::Failed(_) => "was failed, and is left out",
                Standing::Stale => "is not counted on any more by the others, and is left out",
            };
            if case.container.refusal().is_none() {
                self.add(
                    Level::Info,
                    format!("container {uuid}: {name} ({}) {what}", member.serial),
                );
            }
        }
        let whole = matches!(
            case.decision.outcome,
            Outcome::Mdadm(_) | Outcome::Unsafe(_)
        );
        for (plan, fate) in case.plans.iter().zip(&case.decision.fates) {
            let name = Name(plan);
            match fate {
                Fate::Not(why) if !whole => {
                    let line = format!("{name} (container {uuid}): not started: {why}");
                    self.add(Level::Error, line);
                }
                Fate::Left(why) => {
                    self.add(
                        Level::Info,
                        format!("{name} (container {uuid}): left alone: {why}"),
                    );
                }
                Fate::Runs => {
                    let array = case.existing.and_then(|e| e.volume(plan.index));
                    let array = array.map_or("", |volume| volume.name.as_str());
                    self.add(Level::Info, format!("{array} ({name}) runs already"));
                }
                _ => {}
            }
        }
    }
}

/// Says, before a volume starts, what md will do to it, and why.
pub(super) fn before(plan: &Plan<'_>, array: &str) {
    let name = Name(plan);
    for slot in plan.slots_that(|state| matches!(state, SlotState::Lagging { .. })) {
        if let SlotState::Lagging { generation, newest } = slot.state {
            warn!(
                "{array} ({name}): disk {} is left out: its metadata is of generation {generation} where the newest is {newest}, so what it holds is not to be trusted",
                slot.serial
            );
        }
    }
    for slot in plan.slots_that(|state| state == SlotState::Missing) {
        warn!(
            "{array} ({name}): starts without disk {}, which is recorded as failed",
            slot.serial
        );
    }
    for slot in &plan.slots {
        if let SlotState::Rebuild(from) = slot.state {
            let done = Done(from, plan);
            info!("{array} ({name}): disk {} is rebuilt{done}", slot.serial);
        }
    }
    if !is_redundant(plan) {
        return;
    }
    let why = match plan.migration {
        _ if plan.dirty => "dirty: it was being written when it stopped",
        Some(Migration::Init) => "in its first resync",
        Some(Migration::Repair) => "in the resync after it stopped dirty",
        _ => "never synchronised",
    };
    match plan.resync_start {
        Some(from) => warn!(
            "{array} ({name}): {why}; it is resynchronised{}",
            Done(from, plan)
        ),
        None if plan.dirty => info!("{array} ({name}): {why}"),
        None => {}
    }
}

/// Says how a volume came up.
pub(super) fn started(plan: &Plan<'_>, array: &str, ms: u32) {
    info!(
        "{}",
        Started {
            plan,
            array,
            ms,
            how: "started"
        }
    );
}

/// Says that a volume came up, what it stays, and why it must not be written.
pub(super) fn readonly(plan: &Plan<'_>, array: &str, why: &str) {
    error!("{array} ({}) stays {why}", Name(plan));
}

/// Says that a volume did not come up.
pub(super) fn failed(plan: &Plan<'_>, array: &str, why: &str) {
    error!("{array} ({}): not started: {why}", Name(plan));
}

struct Started<'a> {
    plan: &'a Plan<'a>,
    array: &'a str,
    ms: u32,
    how: &'static str,
}

impl fmt::Display for Started<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            plan,
            array,
            ms,
            how,
        } = self;
        let in_sync = plan.slots_that(|state| state == SlotState::InSync).count();
        write!(
            f,
            "{array} ({}) raid{} {in_sync}/{} {how} in {}",
            Name(plan),
            plan.geometry.level.number(),
            plan.slots.len(),
            Millis(u64::from(*ms))
        )?;
        if is_redundant(plan) && in_sync < plan.slots.len() {
            f.write_str(", degraded")?;
        }
        Ok(())
    }
}

/// A volume's name, safe for a console.
pub(super) struct Name<'a>(pub &'a Plan<'a>);

impl fmt::Display for Name<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Printable(self.0.name).fmt(f)
    }
}

/// The serials of the disks that a container lacks.
pub(super) struct Missing<'a, 's, 'm>(pub &'a Case<'s, 'm>);

impl fmt::Display for Missing<'_, '_, '_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (disk, n) in self.0.container.missing().zip(0..) {
            write!(f, "{}{}", if n > 0 { ", " } else { "" }, disk.serial)?;
        }
        Ok(())
    }
}

/// For how long.
struct Until(Patience, bool);

impl fmt::Display for Until {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Patience::Never if self.1 => f.write_str("; --degraded starts it without"),
            Patience::Never => f.write_str(", without which no volume can be started"),
            Patience::Until(end) => {
                write!(f, ", for {} at most", Seconds(end.saturating_sub(now_ms())))
            }
        }
    }
}

/// From where on, of how much.
struct Done<'a>(u64, &'a Plan<'a>);

impl fmt::Display for Done<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all = self.1.geometry.component_kib.saturating_mul(2);
        match self.0 {
            0 => Ok(()),
            from => write!(f, " from sector {from} of {all} on"),
        }
    }
}
