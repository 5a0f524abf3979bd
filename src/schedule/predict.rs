//! How long a plan takes: the plan carried out on a simulated clock.

use core::cmp::Reverse;

use heapless::binary_heap::{BinaryHeap, Max};

use super::{Item, Limits, Schedule};
use crate::capability::Class;

/// The most workers a prediction counts with: the greatest `quell.jobs`.
pub const PREDICT_WIDTH_MAX: usize = 1_024;

/// The times of a plan.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Predicted {
    /// One after the other, as the kernel does it, in milliseconds. Only PCIe controllers count: fabrics drivers have no
    /// shutdown callback, so the kernel loses no time on them.
    pub serial_ms: u64,
    /// As planned, in milliseconds.
    pub planned_ms: u64,
}

impl<const N: usize> Schedule<N> {
    /// Loads the items as [`load`](Self::load) does, carries them out on a simulated clock on which every job takes its
    /// predicted time, and tells the times. Afterwards the schedule is used up: `load` again to do it.
    ///
    /// Items beyond `N` are simulated as further passes, each starting when the one before has ended. More than
    /// [`PREDICT_WIDTH_MAX`] workers count as so many. O(n log n).
    pub fn predict(&mut self, items: &[Item], limits: Limits) -> Predicted {
        let limits = Limits {
            total: limits.total.min(PREDICT_WIDTH_MAX),
            ..limits
        };
        let serial = items
            .iter()
            .filter(|item| item.class == Class::Nvme)
            .map(|item| u64::from(item.predicted_ms))
            .sum();
        let mut predicted = Predicted {
            serial_ms: serial,
            planned_ms: 0,
        };
        let mut rest = items;
        while !rest.is_empty() {
            let taken = self.load(rest, limits);
            predicted.planned_ms += self.run(rest);
            match rest.get(taken..) {
                Some(further) if taken > 0 => rest = further,
                _ => break,
            }
        }
        predicted
    }

    /// Runs what is loaded; the time it takes in milliseconds.
    fn run(&mut self, items: &[Item]) -> u64 {
        let mut now = 0;
        let mut running = BinaryHeap::<Reverse<(u64, u32)>, Max, PREDICT_WIDTH_MAX>::new();
        loop {
            while let Some(item) = self.next() {
                let index = usize::try_from(item).ok();
                let took = index
                    .and_then(|at| items.get(at))
                    .map_or(0, |item| item.predicted_ms);
                if running
                    .push(Reverse((now + u64::from(took), item)))
                    .is_err()
                {
                    // Not reached: no more have a place than the heap holds.
                    self.finish(item);
                }
            }
            let Some(Reverse((end, item))) = running.pop() else {
                return now;
            };
            now = end;
            self.finish(item);
        }
    }
}
