//! From items to a schedule: successors checked, cycles cut, longest first.

use core::cmp::Reverse;

use super::{Item, Limits, NONE, Schedule, Slot, Status};
use crate::capability::Class;

impl<const N: usize> Schedule<N> {
    /// Forgets everything and takes these items. Returns how many were taken: the first `N`. The rest is for a further
    /// pass; to keep precedence across passes a predecessor must not stand in a later one.
    pub fn load(&mut self, items: &[Item], limits: Limits) -> usize {
        let items = items.get(..N).unwrap_or(items);
        self.len = items.len();
        self.limits = Limits {
            total: limits.total.max(1),
            width: limits.width.map(|width| width.max(1)),
        };
        self.running = 0;
        self.running_of = [0; Class::COUNT];
        self.waiting = self.len;
        self.stranded = 0;
        self.abandoned = 0;
        for (i, (slot, item)) in self.slots.iter_mut().zip(items).enumerate() {
            let before = item
                .before
                .and_then(|to| u16::try_from(to).ok())
                .filter(|to| usize::from(*to) < self.len);
            *slot = Slot {
                status: Status::Waiting,
                class: item.class,
                before: before.filter(|to| usize::from(*to) != i).unwrap_or(NONE),
                ..Slot::EMPTY
            };
        }
        self.break_cycles();
        for i in 0..self.len {
            if let Some(successor) = self
                .slot(i)
                .and_then(|slot| self.slots.get_mut(usize::from(slot.before)))
            {
                successor.pending += 1;
            }
        }
        self.rank(items);
        self.len
    }

    /// Takes away every edge that lies on a cycle. Each item has at most one successor, so following it from any item
    /// runs into an end, into an earlier walk, or into this walk again: then there is a cycle, and it starts there.
    /// `pending` holds the number of the walk that saw the item meanwhile.
    fn break_cycles(&mut self) {
        let mut walk = 0;
        for start in 0..self.len {
            walk += 1;
            let mut at = start;
            while let Some(slot) = self.slots.get_mut(at).filter(|slot| slot.pending == 0) {
                slot.pending = walk;
                at = usize::from(slot.before);
            }
            if self.slot(at).is_some_and(|slot| slot.pending == walk) {
                while let Some(slot) = self.slots.get_mut(at).filter(|slot| slot.before != NONE) {
                    at = usize::from(core::mem::replace(&mut slot.before, NONE));
                }
            }
        }
        for slot in self.slots.iter_mut().take(self.len) {
            slot.pending = 0;
        }
    }

    /// Sorts: longest first, ties by index; and lays out the heaps of what can start at once.
    fn rank(&mut self, items: &[Item]) {
        let mut counts = [0; Class::COUNT];
        for ((i, at), item) in (0..).zip(self.order.iter_mut()).zip(items) {
            *at = i;
            if let Some(count) = counts.get_mut(item.class.index()) {
                *count += 1;
            }
        }
        self.ready.clear(counts);
        let Some(order) = self.order.get_mut(..self.len) else {
            return;
        };
        let predicted = |i: u16| {
            items
                .get(usize::from(i))
                .map_or(0, |item| item.predicted_ms)
        };
        order.sort_unstable_by_key(|i| (Reverse(predicted(*i)), *i));
        for (rank, i) in (0..).zip(order.iter()) {
            if let Some(slot) = self.slots.get_mut(usize::from(*i)) {
                slot.rank = rank;
                if slot.pending == 0 {
                    self.ready.push(slot.class, rank);
                }
            }
        }
    }
}
