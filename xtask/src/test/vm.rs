//! The VM cases: the quick ones on one kernel, or all on all.

use super::Wanted;
use super::lanes::Job;
use crate::vm::{self, Case, Outcome};
use anyhow::{Result, bail};

/// The kernel of the quick run, where a case can run on it.
const QUICK_KERNEL: &str = "6.12";

/// Those that are wanted.
pub(super) fn jobs(wanted: &Wanted) -> Result<Vec<Job>> {
    let mut jobs = Vec::new();
    for case in vm::all_cases()? {
        if !takes(wanted, &case) {
            continue;
        }
        let on = case.kernels();
        for (n, kernel) in on.iter().enumerate() {
            let quick = if on.contains(&QUICK_KERNEL) {
                *kernel == QUICK_KERNEL
            } else {
                n == 0
            };
            if wanted.all || quick {
                let (case, kernel) = (case.clone(), kernel.to_string());
                jobs.push(Job::new(
                    format!("vm {} on {kernel}", case.name),
                    move || told(vm::run_case(&case, &kernel, false)?),
                ));
            }
        }
    }
    Ok(jobs)
}

/// Who names a case gets it, quick or not.
fn takes(wanted: &Wanted, case: &Case) -> bool {
    match &wanted.pattern {
        Some(pattern) => vm::names(case, pattern) || format!("vm {}", case.name).contains(pattern),
        None => wanted.all || case.quick,
    }
}

/// A failure is told with the end of the console.
pub(super) fn told(outcome: Outcome) -> Result<String> {
    if outcome.failures.is_empty() {
        return Ok(String::new());
    }
    let log = outcome
        .log
        .map(|path| format!("\nthe whole console is in {}", path.display()))
        .unwrap_or_default();
    bail!(
        "{}\n{}{log}",
        outcome.tail.join("\n"),
        outcome.failures.join("\n")
    );
}
