//! What quell assembles against what mdadm assembles: a sample on one kernel, or the whole table with an old mdadm and a new.

use super::Wanted;
use super::tally::Tally;
use crate::differential::Job;
use anyhow::bail;

/// The kernels, each with the mdadm that goes with it. The quick run takes the last.
const PAIRS: &[(&str, &str)] = &[("6.1", "4.2"), ("6.12", "4.6")];

/// Runs them.
pub(super) fn run(wanted: &Wanted, tally: &Tally) {
    let all = wanted.all || wanted.pattern.is_some();
    let from = if wanted.all { 0 } else { PAIRS.len() - 1 };
    for (kernel, mdadm) in PAIRS.iter().skip(from) {
        let title = |name: &str| format!("differential {name} on {kernel} with mdadm {mdadm}");
        let job = Job::new(kernel, mdadm, |name, quick| {
            (all || quick) && wanted.takes(&title(name))
        });
        let done = job.run(&mut |verdict| {
            tally.step(&title(verdict.name), || {
                if !verdict.failures.is_empty() {
                    bail!("{}", verdict.failures.join("\n"));
                }
                Ok(String::new())
            });
        });
        if let Err(error) = done {
            tally.step(&title("as a whole"), || Err(error));
        }
    }
}
