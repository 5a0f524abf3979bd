//! The items that can start: for each class a heap of ranks, smallest (longest job) first, all in one array.

use crate::capability::Class;

/// The heaps. Each class has as much of the array as it has items, so that none can overflow into the next.
#[cfg_attr(test, derive(Clone))]
pub(super) struct Ready<const N: usize> {
    ranks: [u16; N],
    /// Where each class's share starts, and how much of it is in use.
    start: [usize; Class::COUNT],
    len: [usize; Class::COUNT],
}

impl<const N: usize> Ready<N> {
    pub(super) const fn new() -> Self {
        Self {
            ranks: [0; N],
            start: [0; Class::COUNT],
            len: [0; Class::COUNT],
        }
    }

    /// Empties all heaps and gives each class so much room.
    pub(super) fn clear(&mut self, counts: [usize; Class::COUNT]) {
        self.len = [0; Class::COUNT];
        let mut start = 0;
        for (at, count) in self.start.iter_mut().zip(counts) {
            *at = start;
            start += count;
        }
    }

    /// The smallest rank of a class.
    pub(super) fn first(&self, class: Class) -> Option<u16> {
        let len = *self.len.get(class.index())?;
        if len == 0 {
            None
        } else {
            self.ranks.get(*self.start.get(class.index())?).copied()
        }
    }

    /// Adds a rank. O(log n); O(1) where ranks come in rising order.
    pub(super) fn push(&mut self, class: Class, rank: u16) {
        let Some(len) = self.len.get_mut(class.index()) else {
            return;
        };
        *len += 1;
        let at = *len - 1;
        if let Some(heap) = self.heap(class) {
            if let Some(last) = heap.get_mut(at) {
                *last = rank;
            }
            rise(heap, at);
        }
    }

    /// Takes the smallest rank. O(log n).
    pub(super) fn pop(&mut self, class: Class) -> Option<u16> {
        self.take(class, 0)
    }

    /// Takes this rank out, wherever it is. O(n).
    pub(super) fn remove(&mut self, class: Class, rank: u16) {
        if let Some(at) = self
            .heap(class)
            .and_then(|heap| heap.iter().position(|r| *r == rank))
        {
            self.take(class, at);
        }
    }

    fn take(&mut self, class: Class, at: usize) -> Option<u16> {
        let heap = self.heap(class)?;
        let last = heap.len().checked_sub(1)?;
        heap.get(at)?;
        heap.swap(at, last);
        let (taken, rest) = heap.split_last_mut()?;
        let taken = *taken;
        sink(rest, at);
        rise(rest, at);
        *self.len.get_mut(class.index())? = last;
        Some(taken)
    }

    fn heap(&mut self, class: Class) -> Option<&mut [u16]> {
        let (start, len) = (
            *self.start.get(class.index())?,
            *self.len.get(class.index())?,
        );
        self.ranks.get_mut(start..start.checked_add(len)?)
    }
}

/// Moves an entry towards the root until its parent is no greater.
fn rise(heap: &mut [u16], mut at: usize) {
    while at > 0 {
        let parent = (at - 1) / 2;
        match (heap.get(parent), heap.get(at)) {
            (Some(parent), Some(rank)) if parent > rank => {}
            _ => return,
        }
        heap.swap(parent, at);
        at = parent;
    }
}

/// Moves an entry away from the root until its children are no smaller.
fn sink(heap: &mut [u16], mut at: usize) {
    loop {
        let (left, right) = (2 * at + 1, 2 * at + 2);
        let Some(mut least) = heap.get(left).map(|rank| (*rank, left)) else {
            return;
        };
        if let Some(rank) = heap.get(right) {
            least = least.min((*rank, right));
        }
        if heap.get(at).is_none_or(|rank| *rank <= least.0) {
            return;
        }
        heap.swap(at, least.1);
        at = least.1;
    }
}
