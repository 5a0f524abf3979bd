//! The VM cases: the quick ones on one kernel, or all on all.

use super::Wanted;
use super::tally::Tally;

/// Runs them, one at a time: two machines on two cores would only make each other's timing worse.
pub(super) fn run(_wanted: &Wanted, tally: &mut Tally) {
    tally.step("vm cases", || anyhow::bail!("not written yet"));
}
