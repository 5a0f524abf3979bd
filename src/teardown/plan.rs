//! What becomes of every array, and what is to be done next. Pure.
//!
//! The order comes from the graph: an array is stopped once nothing stands on it any more. So stacked arrays go from the
//! top, volumes before their container, and containers side by side. mdmon is brought back before a volume that needs it.

use rustix::io::Errno;

use super::graph::{ARRAYS, Graph, Kind};
use super::order::{Step, Stopped};
use crate::sys::md::{Name, State};

/// What is done with an array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    /// It is stopped.
    Stop,
    /// It is in use, and made clean: it may go down as it is.
    Clean,
}

/// What became of one array, or is to become of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// Nobody asked for it.
    Ignored,
    /// The kernel keeps its metadata, and nobody asked for such arrays.
    Native,
    /// mdadm reshapes it, and must not be disturbed.
    Reshaped,
    /// The node's user says by whom.
    Busy,
    /// What stands on it stays.
    HeldUp(usize),
    /// To be done.
    Todo(Action),
    /// Under way, since then.
    Running(Step, u64),
    /// Stopped, after so many milliseconds.
    Stopped(Stopped, u32),
    /// It had gone by itself.
    Gone,
    /// In use, and clean.
    Clean(u32),
    /// In use, and still dirty; the node's words say what it does.
    NotClean(u32),
    /// A step failed.
    Failed(Step, Errno),
    /// Every step succeeded, and it is still there; the node's words say in which state.
    StillThere,
    /// Its worker died.
    Died(Step),
    /// A step has not returned.
    Abandoned(Step, u32),
    /// Its turn did not come in time.
    NotStarted,
}

impl Fate {
    /// Whether what it stands on is free of it.
    const fn is_gone(self) -> bool {
        matches!(self, Self::Stopped(..) | Self::Gone)
    }

    const fn is_open(self) -> bool {
        matches!(self, Self::Todo(_) | Self::Running(..))
    }
}

/// Where bringing back a container's mdmon stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mend {
    NotNeeded,
    Todo,
    Running,
    /// It runs, since a moment ago.
    Fresh,
    /// It cannot be had.
    Failed,
}

/// A piece of work for a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Job {
    /// Start the mdmon of the container there.
    Mend(usize),
    /// Do this with the array there.
    Do(usize, Action),
    /// Take away what named the arrays that have gone.
    Tidy,
}

impl Job {
    const MEND: u32 = 1 << 16;
    const CLEAN: u32 = 1 << 17;
    const TIDY: u32 = u32::MAX;

    /// As the pool knows it.
    pub(super) fn number(self) -> u32 {
        let index = |at: usize| u32::try_from(at).unwrap_or(0);
        match self {
            Self::Do(at, Action::Stop) => index(at),
            Self::Do(at, Action::Clean) => index(at) | Self::CLEAN,
            Self::Mend(at) => index(at) | Self::MEND,
            Self::Tidy => Self::TIDY,
        }
    }

    pub(super) fn of(number: u32) -> Self {
        let at = usize::from(number as u16);
        match number {
            Self::TIDY => Self::Tidy,
            n if n & Self::MEND != 0 => Self::Mend(at),
            n if n & Self::CLEAN != 0 => Self::Do(at, Action::Clean),
            _ => Self::Do(at, Action::Stop),
        }
    }
}

/// What is asked for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ask {
    /// Arrays whose metadata the kernel keeps as well.
    pub(super) native: bool,
    /// A volume in use is made clean.
    pub(super) clean: bool,
    /// What is not in use is stopped; else it is made clean as well.
    pub(super) stop: bool,
    /// An mdmon that is missing is brought back also for a volume that is clean: something may yet write to it.
    pub(super) mend_clean: bool,
}

/// The graph, and what becomes of it.
pub(super) struct Plan {
    pub(super) graph: Graph,
    pub(super) fates: heapless::Vec<Fate, ARRAYS>,
    mends: heapless::Vec<Mend, ARRAYS>,
    tidied: bool,
}

impl Plan {
    pub(super) const fn new() -> Self {
        Self {
            graph: Graph::new(),
            fates: heapless::Vec::new(),
            mends: heapless::Vec::new(),
            tidied: false,
        }
    }

    /// Decides on every array that `wanted` says yes to; a volume is wanted with its container.
    pub(super) fn decide(&mut self, ask: Ask, wanted: &dyn Fn(usize) -> bool) {
        self.fates.clear();
        self.mends.clear();
        self.tidied = false;
        for at in 0..self.graph.nodes().len() {
            let container = self.graph.container_of(at);
            let is_wanted = wanted(at) || container.is_some_and(wanted);
            let fate = match is_wanted {
                true => self.first_fate(ask, at),
                false => Fate::Ignored,
            };
            // There is a place for every node.
            let _ = self.fates.push(fate);
        }
        for at in 0..self.fates.len() {
            let mend = self.mend(ask, at);
            let _ = self.mends.push(mend);
        }
    }

    fn first_fate(&self, ask: Ask, at: usize) -> Fate {
        let Some(node) = self.graph.node(at) else {
            return Fate::Ignored;
        };
        match node.kind {
            _ if node.array.state == State::Clear => Fate::Gone,
            Kind::Native if !ask.native => Fate::Native,
            _ if node.reshaped => Fate::Reshaped,
            Kind::Redundant if ask.clean && !(ask.stop && node.user.is_empty()) => {
                Fate::Todo(Action::Clean)
            }
            _ if !ask.stop => Fate::Ignored,
            _ if !node.user.is_empty() => Fate::Busy,
            _ => Fate::Todo(Action::Stop),
        }
    }

    /// Whether mdmon is to be brought back for the volumes of the container at `at`.
    fn mend(&self, ask: Ask, at: usize) -> Mend {
        let dead = |node: &super::graph::Node| node.kind == Kind::Container && !node.mdmon;
        let wanted = self.graph.node(at).is_some_and(dead)
            && self.graph.above(at).any(|volume| {
                matches!(self.fates.get(volume), Some(Fate::Todo(_)))
                    && self
                        .graph
                        .node(volume)
                        .is_some_and(|n| n.needs_mdmon(ask.mend_clean))
            });
        if wanted { Mend::Todo } else { Mend::NotNeeded }
    }

    /// The next job to start now; it counts as running from here on. What cannot be done any more is settled on the way.
    pub(super) fn next(&mut self, now_ms: u64) -> Option<Job> {
        if let Some(at) = self.mends.iter().position(|m| *m == Mend::Todo) {
            self.set_mend(at, Mend::Running);
            return Some(Job::Mend(at));
        }
        for at in 0..self.fates.len() {
            if let Some(Fate::Todo(action)) = self.fates.get(at).copied()
                && self.is_ready(at, action)
            {
                self.settle(at, Fate::Running(Step::Claim, now_ms));
                return Some(Job::Do(at, action));
            }
        }
        let over = !self.fates.iter().any(|fate| fate.is_open());
        let any = self
            .fates
            .iter()
            .any(|fate| matches!(fate, Fate::Stopped(..)));
        if over && any && !core::mem::replace(&mut self.tidied, true) {
            return Some(Job::Tidy);
        }
        None
    }

    fn is_ready(&mut self, at: usize, action: Action) -> bool {
        let container = self.graph.container_of(at);
        let mend = container.and_then(|at| self.mends.get(at).copied());
        if mend == Some(Mend::Running) {
            return false;
        }
        if action == Action::Clean {
            return true;
        }
        let fate = |above: &usize| self.fates.get(*above).copied().unwrap_or(Fate::Ignored);
        let left = self
            .graph
            .above(at)
            .find(|above| !fate(above).is_gone() && !fate(above).is_open());
        if let Some(above) = left {
            self.settle(at, Fate::HeldUp(above));
            return false;
        }
        self.graph
            .above(at)
            .all(|above| self.fates.get(above).is_some_and(|fate| fate.is_gone()))
    }

    /// Whether any job is left, now or later.
    pub(super) fn has_more(&self) -> bool {
        !self.tidied && self.fates.iter().any(|fate| fate.is_open())
    }

    /// Sets the fate of the array at `at`.
    pub(super) fn settle(&mut self, at: usize, fate: Fate) {
        if let Some(place) = self.fates.get_mut(at) {
            *place = fate;
        }
    }

    /// A worker is at this step of the array at `at`.
    pub(super) fn step(&mut self, at: usize, step: Step) {
        if let Some(Fate::Running(now, _)) = self.fates.get_mut(at) {
            *now = step;
        }
    }

    /// The arrays that were stopped.
    pub(super) fn stopped(&self) -> impl Iterator<Item = &Name> {
        let all = self.graph.nodes().iter().zip(&self.fates);
        all.filter(|(_, fate)| matches!(fate, Fate::Stopped(..)))
            .map(|(node, _)| &node.array.name)
    }

    /// Whether the array at `at` has a clean state that somebody keeps.
    pub(super) fn can_be_clean(&self, at: usize) -> bool {
        self.graph
            .node(at)
            .is_some_and(|node| node.kind == Kind::Redundant)
    }

    /// Whether the mdmon that the volume at `at` has was started only now.
    pub(super) fn is_fresh(&self, at: usize) -> bool {
        let container = self.graph.container_of(at);
        container.and_then(|at| self.mends.get(at)) == Some(&Mend::Fresh)
    }

    /// The mdmon of the container at `at` is there again.
    pub(super) fn mended(&mut self, at: usize) {
        self.set_mend(at, Mend::Fresh);
    }

    /// Its worker is through with it, or is not waited for: what has not come about by now is not counted on.
    pub(super) fn mend_over(&mut self, at: usize) {
        if self.mends.get(at) == Some(&Mend::Running) {
            self.set_mend(at, Mend::Failed);
        }
    }

    fn set_mend(&mut self, at: usize, mend: Mend) {
        if let Some(place) = self.mends.get_mut(at) {
            *place = mend;
        }
    }

    /// Nothing more is begun, since the time is up: what waits for something that stays says so, the rest that its turn did
    /// not come.
    pub(super) fn close(&mut self, now_ms: u64) {
        for at in 0..self.fates.len() {
            match self.fates.get(at).copied() {
                Some(Fate::Running(step, since)) => {
                    let waited = u32::try_from(now_ms.saturating_sub(since)).unwrap_or(u32::MAX);
                    self.settle(at, Fate::Abandoned(step, waited));
                }
                Some(Fate::Todo(_)) => self.settle(at, Fate::NotStarted),
                _ => {}
            }
        }
        for at in 0..self.fates.len() {
            let stays = |above: &usize| self.fates.get(*above).is_some_and(|fate| !fate.is_gone());
            let above = self.graph.above(at).find(stays);
            if self.fates.get(at) == Some(&Fate::NotStarted)
                && let Some(above) = above
            {
                self.settle(at, Fate::HeldUp(above));
            }
        }
    }
}

#[cfg(test)]
mod tests;
