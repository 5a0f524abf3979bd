//! Which controller is next. Pure: controllers, capabilities and limits → an order, handed out one at a time.
//!
//! [`Schedule`] is the dispatcher of the real pool, and of the simulator that predicts how long a plan takes: what is
//! predicted is what is done. It is list scheduling with the longest job first (Graham's LPT rule, at most
//! 4/3 - 1/(3m) of the optimum on m equal workers, where there is one class and nothing waits for anything), with two
//! limits, the workers in all and the width of each class, and with precedence: a job can have to wait for others.
//!
//! All state lives in fixed arrays, so a schedule can be a `static`. For n jobs and c classes [`Schedule::load`] is
//! O(n log n), [`Schedule::next`] O(c + log n), every other step O(log n) at most, except where one says otherwise.

mod load;
mod predict;
mod ready;
#[cfg(test)]
mod tests;

use crate::capability::Class;
use ready::Ready;

pub use predict::{PREDICT_WIDTH_MAX, Predicted};

/// One job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Item {
    /// How long it is expected to take, in milliseconds.
    pub predicted_ms: u32,
    /// Whose width it takes a place of.
    pub class: Class,
    /// The index of an item that may only start when this one is done (a VF's is its PF). An index that is not loaded,
    /// and every edge on a cycle, counts as `None`: a wrong order is better than a controller that is never done.
    pub before: Option<u32>,
}

/// How many at once. Zeros count as one: a plan always ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Workers in all.
    pub total: usize,
    /// Of each class, by [`Class::index`].
    pub width: [usize; Class::COUNT],
}

/// Where an item stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Status {
    /// Waits for its predecessors, if `pending` > 0, or for a place.
    Waiting,
    /// Has a place.
    Running,
    /// Runs, but its place was given away.
    Abandoned,
    /// Ended, or skipped.
    Done,
}

/// No item.
const NONE: u16 = u16::MAX;

/// What is known of one item.
#[derive(Clone, Copy)]
struct Slot {
    status: Status,
    class: Class,
    /// An abandoned item is among those it waits for, directly or not.
    stranded: bool,
    /// Position in the order, longest first.
    rank: u16,
    /// The item that waits for it, or NONE.
    before: u16,
    /// How many it waits for.
    pending: u16,
}

impl Slot {
    /// Not loaded, and not looked at. All zeros, see [`Schedule::new`].
    const EMPTY: Self = Self {
        status: Status::Waiting,
        class: Class::Nvme,
        stranded: false,
        rank: 0,
        before: 0,
        pending: 0,
    };

    const fn is_waiting(&self) -> bool {
        matches!(self.status, Status::Waiting)
    }
}

/// A plan being carried out: at most `N` items, `N` below 65,535.
///
/// The life of an item: waiting, then running ([`next`](Self::next)), then done ([`finish`](Self::finish)); in between
/// it may be [abandoned](Self::abandon), or it may be [skipped](Self::skip) while it waits. Calls about an item that is
/// not where the call wants it, or not loaded, change nothing.
#[cfg_attr(test, derive(Clone))]
pub struct Schedule<const N: usize> {
    len: usize,
    slots: [Slot; N],
    /// Items by rank.
    order: [u16; N],
    /// The ranks of those that wait for nothing but a place, a heap for each class.
    ready: Ready<N>,
    limits: Limits,
    /// Places taken, in all and by class.
    running: usize,
    running_of: [usize; Class::COUNT],
    /// Waiting items, stranded ones among them.
    waiting: usize,
    stranded: usize,
    abandoned: usize,
}

impl<const N: usize> Default for Schedule<N> {
    fn default() -> Self {
        Self::new()
    }
}

impl<const N: usize> Schedule<N> {
    /// An empty schedule. It is all zeros, so that as a `static` it takes no room in the binary.
    #[must_use]
    pub const fn new() -> Self {
        const { assert!(N < NONE as usize, "items are counted in 16 bits") };
        Self {
            len: 0,
            slots: [Slot::EMPTY; N],
            order: [0; N],
            ready: Ready::new(),
            limits: Limits {
                total: 0,
                width: [0; Class::COUNT],
            },
            running: 0,
            running_of: [0; Class::COUNT],
            waiting: 0,
            stranded: 0,
            abandoned: 0,
        }
    }

    /// The next item to start: the longest of those that wait for nothing and whose class has a place, where there is
    /// a place at all. It has its place from now on. `None`: nothing can start now.
    // Not an iterator: it can go on after None.
    #[allow(clippy::should_implement_trait)]
    pub fn next(&mut self) -> Option<u32> {
        if self.running >= self.limits.total {
            return None;
        }
        let open = |class: &Class| self.room(*class) > 0;
        let class = Class::ALL
            .into_iter()
            .filter(open)
            .filter_map(|class| Some((self.ready.first(class)?, class)))
            .min_by_key(|(rank, _)| *rank)
            .map(|(_, class)| class)?;
        let item = *self.order.get(usize::from(self.ready.pop(class)?))?;
        self.slots.get_mut(usize::from(item))?.status = Status::Running;
        *self.running_of.get_mut(class.index())? += 1;
        self.running += 1;
        self.waiting -= 1;
        Some(u32::from(item))
    }

    /// The item has ended: its place is free, and what waited for it can start. An abandoned item may still end: it has
    /// no place any more, but its successors are not stranded any more.
    pub fn finish(&mut self, item: u32) {
        let Some((at, slot)) = self.find(item) else {
            return;
        };
        match slot.status {
            Status::Running => self.release(slot.class),
            Status::Abandoned => self.abandoned -= 1,
            Status::Waiting | Status::Done => return,
        }
        self.end(at);
        if slot.status == Status::Abandoned {
            self.mark_stranded();
        }
    }

    /// The item runs on, but its place is given away, in all and in its class. What waits for it is
    /// [stranded](Self::stranded) until it is [finished](Self::finish) after all.
    pub fn abandon(&mut self, item: u32) {
        let Some((at, slot)) = self.find(item) else {
            return;
        };
        if slot.status != Status::Running {
            return;
        }
        if let Some(slot) = self.slots.get_mut(at) {
            slot.status = Status::Abandoned;
        }
        self.release(slot.class);
        self.abandoned += 1;
        self.strand(slot.before);
    }

    /// The item is not to be started any more (it went by itself, or must be left): it counts as done, and what waited
    /// for it can start. To keep a successor from starting, skip that one as well. O(n).
    pub fn skip(&mut self, item: u32) {
        let Some((at, slot)) = self.find(item) else {
            return;
        };
        if !slot.is_waiting() {
            return;
        }
        if slot.pending == 0 {
            self.ready.remove(slot.class, slot.rank);
        }
        self.waiting -= 1;
        if slot.stranded {
            self.stranded -= 1;
        }
        self.end(at);
        if slot.stranded {
            // It no longer stands between the abandoned one and its own successors.
            self.mark_stranded();
        }
    }

    /// Items that have not started and still can, now or later: stranded ones are not among them. With
    /// [`running`](Self::running) at 0 as well the plan is at its end.
    #[must_use]
    pub const fn waiting(&self) -> usize {
        self.waiting - self.stranded
    }

    /// Items that have a place.
    #[must_use]
    pub const fn running(&self) -> usize {
        self.running
    }

    /// Items that run without a place.
    #[must_use]
    pub const fn abandoned(&self) -> usize {
        self.abandoned
    }

    /// Whether another item could start if this one's place were given away, to be asked when [`next`](Self::next) has
    /// nothing more: if not, abandoning it wins nothing.
    #[must_use]
    pub fn blocks_others(&self, item: u32) -> bool {
        let Some((_, slot)) = self
            .find(item)
            .filter(|(_, slot)| slot.status == Status::Running)
        else {
            return false;
        };
        Class::ALL.into_iter().any(|class| {
            self.ready.first(class).is_some() && (class == slot.class || self.room(class) > 0)
        })
    }

    /// The items that cannot start because an item they wait for was abandoned and has not ended. O(n) for the whole.
    pub fn stranded(&self) -> impl Iterator<Item = u32> + '_ {
        (0..)
            .zip(self.slots.iter().take(self.len))
            .filter(|(_, slot)| slot.is_waiting() && slot.stranded)
            .map(|(i, _)| i)
    }

    /// The slot of an item that is loaded.
    fn slot(&self, at: usize) -> Option<Slot> {
        self.slots.get(..self.len)?.get(at).copied()
    }

    fn find(&self, item: u32) -> Option<(usize, Slot)> {
        let at = usize::try_from(item).ok()?;
        Some((at, self.slot(at)?))
    }

    fn room(&self, class: Class) -> usize {
        let at = class.index();
        match (self.limits.width.get(at), self.running_of.get(at)) {
            (Some(width), Some(running)) => width.saturating_sub(*running),
            _ => 0,
        }
    }

    fn release(&mut self, class: Class) {
        self.running -= 1;
        if let Some(running) = self.running_of.get_mut(class.index()) {
            *running -= 1;
        }
    }

    /// Marks an item done, and lets its successor start if it was the last one that one waited for.
    fn end(&mut self, at: usize) {
        let Some(slot) = self.slots.get_mut(at) else {
            return;
        };
        slot.status = Status::Done;
        slot.stranded = false;
        let before = usize::from(slot.before);
        if let Some(successor) = self.slots.get_mut(before) {
            successor.pending -= 1;
            if successor.pending == 0 && successor.is_waiting() {
                self.ready.push(successor.class, successor.rank);
            }
        }
    }

    /// Marks what waits for an abandoned item, down the chain, until one that has the mark already or has been skipped.
    fn strand(&mut self, mut at: u16) {
        while let Some(slot) = self
            .slots
            .get_mut(usize::from(at))
            .filter(|slot| slot.is_waiting() && !slot.stranded)
        {
            slot.stranded = true;
            self.stranded += 1;
            at = slot.before;
        }
    }

    /// Finds out anew who is stranded. O(n), but only where an abandoned item has ended or a stranded one was skipped.
    fn mark_stranded(&mut self) {
        self.stranded = 0;
        for slot in &mut self.slots {
            slot.stranded = false;
        }
        for at in 0..self.len {
            if let Some(slot) = self
                .slot(at)
                .filter(|slot| slot.status == Status::Abandoned)
            {
                self.strand(slot.before);
            }
        }
    }
}
