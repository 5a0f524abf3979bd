//! VM cases and machines, one after the other or two at a time.
//!
//! Two VMs on two cores do not go twice as fast, but much of a case is waiting, for slow drives above all: side by side they
//! are done in about three quarters of the time.

use super::tally::Tally;
use anyhow::Result;
use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};
use std::thread;

/// One test, which counts itself.
pub(super) struct Job {
    name: String,
    run: Box<dyn FnOnce() -> Result<String> + Send>,
}

impl Job {
    pub(super) fn new(
        name: impl Into<String>,
        run: impl FnOnce() -> Result<String> + Send + 'static,
    ) -> Self {
        Self {
            name: name.into(),
            run: Box::new(run),
        }
    }
}

/// Does all of them. Of two lanes one begins at the front and one at the back, so that the long ones, whose turn is last, are
/// spread over the whole run.
pub(super) fn run(jobs: Vec<Job>, lanes: usize, tally: &Tally) {
    let left = Mutex::new(VecDeque::from(jobs));
    let next = |lane: usize| {
        let mut left = left.lock().unwrap_or_else(PoisonError::into_inner);
        if lane.is_multiple_of(2) {
            left.pop_front()
        } else {
            left.pop_back()
        }
    };
    let work = |lane| {
        while let Some(job) = next(lane) {
            tally.step(&job.name, job.run);
        }
    };
    thread::scope(|scope| {
        for lane in 1..lanes {
            scope.spawn(move || work(lane));
        }
        work(0);
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::bail;
    use std::sync::{Arc, Barrier};

    #[test]
    fn each_is_done_once_and_counted() {
        for lanes in [1, 2, 3] {
            let jobs = (0..20).map(|n| {
                Job::new(format!("test {n}"), move || {
                    if n == 7 {
                        bail!("as it must");
                    }
                    Ok(String::new())
                })
            });
            let tally = Tally::default();
            run(jobs.collect(), lanes, &tally);
            assert_eq!(tally.line(), "xtask: 19 passed, 1 failed");
        }
    }

    #[test]
    fn the_first_and_the_last_are_done_side_by_side() {
        let met = Arc::new(Barrier::new(2));
        let job = |name: &str, waits: bool| {
            let met = Arc::clone(&met);
            Job::new(name, move || {
                if waits {
                    met.wait();
                }
                Ok(String::new())
            })
        };
        let tally = Tally::default();
        run(
            vec![job("first", true), job("between", false), job("last", true)],
            2,
            &tally,
        );
        assert_eq!(tally.line(), "xtask: 3 passed, 0 failed");
    }
}
