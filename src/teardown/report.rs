//! What became of each array, in words, for programs, and all together.

use core::fmt;

use log::{Level, log};
use rustix::io::Errno;

use super::graph::{Called, Graph, Node};
use super::order::Stopped;
use super::plan::{Action, Fate, Plan};
use crate::errno::Cause;
use crate::text::{Millis, Text};

/// A fate in words.
pub(super) struct Told<'a> {
    pub(super) fate: Fate,
    pub(super) node: &'a Node,
    pub(super) graph: &'a Graph,
}

impl fmt::Display for Told<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { fate, node, graph } = *self;
        let took = |ms: u32| Millis(ms.into());
        match fate {
            Fate::Ignored => f.write_str("not asked for"),
            Fate::Native => f.write_str("left: not Intel RAID; name it to have it stopped"),
            Fate::Reshaped => f.write_str("left: it is being reshaped, which is mdadm's to end"),
            Fate::Busy if node.user.is_empty() => f.write_str("left: busy, by whom cannot be seen"),
            Fate::Busy => write!(f, "left: busy ({})", node.user),
            Fate::HeldUp(at) => match graph.node(at) {
                Some(above) => write!(f, "left: {} stays", Called(above)),
                None => write!(f, "left: {} stays", node.words),
            },
            Fate::Todo(_) => f.write_str("to be done"),
            Fate::Running(step, _) => write!(f, "under way: {}", step.name()),
            Fate::Stopped(Stopped::Clean, ms) => write!(f, "stopped clean in {}", took(ms)),
            Fate::Stopped(Stopped::Plain, ms) => write!(f, "stopped in {}", took(ms)),
            Fate::Stopped(Stopped::Dirty, ms) => write!(
                f,
                "stopped in {}, left dirty: no mdmon recorded its end, its next start resyncs",
                took(ms)
            ),
            Fate::Gone => f.write_str("had gone by itself"),
            Fate::Clean(ms) => write!(
                f,
                "made clean in {}, stays in use ({})",
                took(ms),
                node.user
            ),
            Fate::NotClean(ms) => write!(
                f,
                "not clean after {}: {}, in use ({})",
                took(ms),
                node.words,
                node.user
            ),
            Fate::Failed(step, errno) => {
                write!(f, "left: {} failed: {}", step.name(), Cause(errno))
            }
            Fate::StillThere => write!(f, "left: it was stopped and is still {}", node.words),
            Fate::Died(step) => write!(f, "left: its worker died, {}", step.name()),
            Fate::Abandoned(step, ms) => write!(
                f,
                "abandoned after {}, {} has not returned",
                took(ms),
                step.name()
            ),
            Fate::NotStarted => f.write_str("left: its turn did not come in time"),
        }
    }
}

/// How loud a fate is.
fn level(fate: Fate) -> Level {
    match fate {
        Fate::Stopped(Stopped::Clean | Stopped::Plain, _)
        | Fate::Clean(_)
        | Fate::Native
        | Fate::Busy
        | Fate::HeldUp(_) => Level::Info,
        Fate::Ignored | Fate::Gone | Fate::Todo(_) | Fate::Running(..) => Level::Debug,
        _ => Level::Warn,
    }
}

/// Says what became of the array at `at`.
pub(super) fn array(plan: &Plan, at: usize) {
    if let (Some(node), Some(&fate)) = (plan.graph.node(at), plan.fates.get(at)) {
        let told = Told {
            fate,
            node,
            graph: &plan.graph,
        };
        log!(level(fate), "{} {told}", Called(node));
    }
}

/// A fate as one word for programs.
pub(super) const fn word(fate: Fate) -> &'static str {
    match fate {
        Fate::Ignored => "ignored",
        Fate::Native | Fate::Reshaped => "left",
        Fate::Busy => "busy",
        Fate::HeldUp(_) => "held-up",
        Fate::Todo(_) => "planned",
        Fate::Running(..) => "running",
        Fate::Stopped(Stopped::Clean, _) => "stopped-clean",
        Fate::Stopped(Stopped::Plain, _) => "stopped",
        Fate::Stopped(Stopped::Dirty, _) => "stopped-dirty",
        Fate::Gone => "gone",
        Fate::Clean(_) => "clean",
        Fate::NotClean(_) => "not-clean",
        Fate::Failed(..) | Fate::StillThere | Fate::Died(_) => "failed",
        Fate::Abandoned(..) => "abandoned",
        Fate::NotStarted => "not-started",
    }
}

/// How long it took, where that is known.
pub(super) const fn took(fate: Fate) -> Option<u32> {
    match fate {
        Fate::Stopped(_, ms) | Fate::Clean(ms) | Fate::NotClean(ms) | Fate::Abandoned(_, ms) => {
            Some(ms)
        }
        _ => None,
    }
}

/// What is done with an array, as one word.
pub(super) const fn name_of(action: Action) -> &'static str {
    match action {
        Action::Stop => "stop",
        Action::Clean => "clean",
    }
}

/// What a whole run came to.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Tally {
    /// Arrays it was about.
    pub(super) asked: usize,
    pub(super) planned: usize,
    pub(super) stopped: usize,
    /// Of these, left dirty.
    pub(super) dirty: usize,
    /// In use, or below what is.
    pub(super) busy: usize,
    /// In use and not clean.
    pub(super) not_clean: usize,
    /// Left for another reason that nobody has to look after.
    pub(super) left: usize,
    pub(super) failed: usize,
    /// Could not be written to for want of privilege.
    pub(super) mechanism: usize,
}

impl Tally {
    /// Adds what became of a plan's arrays.
    pub(super) fn add(&mut self, plan: &Plan) {
        for fate in &plan.fates {
            self.asked += usize::from(!matches!(fate, Fate::Ignored | Fate::Gone | Fate::Native));
            let count = match fate {
                Fate::Ignored | Fate::Gone | Fate::Native | Fate::Running(..) => continue,
                Fate::Todo(_) => &mut self.planned,
                Fate::Stopped(Stopped::Dirty, _) => {
                    self.stopped += 1;
                    &mut self.dirty
                }
                Fate::Stopped(..) => &mut self.stopped,
                Fate::Busy | Fate::HeldUp(_) | Fate::Clean(_) => &mut self.busy,
                Fate::NotClean(_) => &mut self.not_clean,
                Fate::Reshaped => &mut self.left,
                Fate::Failed(_, Errno::ACCESS | Errno::PERM | Errno::ROFS) => &mut self.mechanism,
                Fate::Failed(..)
                | Fate::StillThere
                | Fate::Died(_)
                | Fate::Abandoned(..)
                | Fate::NotStarted => &mut self.failed,
            };
            *count += 1;
        }
    }

    /// The line for all: `stopped 3 of 4 arrays in 0.2 s, 1 left`.
    pub(super) fn line(&self, took_ms: u64) -> Text<160> {
        let mut line = Text::of(format_args!(
            "stopped {} of {} array{} in {}",
            self.stopped,
            self.asked,
            if self.asked == 1 { "" } else { "s" },
            Millis(took_ms)
        ));
        for (count, what) in [
            (self.dirty, "left dirty"),
            (self.busy, "in use"),
            (self.not_clean, "in use and not clean"),
            (self.left + self.failed + self.mechanism, "left"),
        ] {
            if count > 0 {
                line.add(format_args!(", {count} {what}"));
            }
        }
        line
    }
}
