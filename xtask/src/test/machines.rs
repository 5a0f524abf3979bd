//! The whole machines: in the quick run one for each maker of an initramfs, else all cases on all their userlands.

use super::Wanted;
use super::lanes::Job;
use crate::machines::{self, Case};
use anyhow::Result;

/// Those that are wanted.
pub(super) fn jobs(wanted: &Wanted) -> Result<Vec<Job>> {
    let mut jobs = Vec::new();
    for case in machines::all()? {
        for userland in case.userlands() {
            let name = machines::label(&case, &userland);
            if takes(wanted, &case, &userland, &name) {
                let case = case.clone();
                jobs.push(Job::new(name, move || {
                    super::vm::told(machines::run_case(&case, &userland, false)?)
                }));
            }
        }
    }
    Ok(jobs)
}

/// Who names a case or a userland gets it, quick or not.
fn takes(wanted: &Wanted, case: &Case, userland: &str, name: &str) -> bool {
    match &wanted.pattern {
        Some(pattern) => name.contains(pattern.as_str()),
        None => wanted.all || case.quick.iter().any(|quick| quick == userland),
    }
}
