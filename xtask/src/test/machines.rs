//! The whole machines: in the quick run one for each maker of an initramfs, else all cases on all their userlands.

use super::Wanted;
use super::tally::Tally;
use crate::machines::{self, Case};

/// Runs them, one at a time, for the same reason as VM cases.
pub(super) fn run(wanted: &Wanted, tally: &mut Tally) {
    let cases = match machines::all() {
        Ok(cases) => cases,
        Err(error) => return tally.step("machine cases", || Err(error)),
    };
    for case in &cases {
        for userland in case.userlands() {
            let name = machines::label(case, &userland);
            if takes(wanted, case, &userland, &name) {
                tally.step(&name, || {
                    super::vm::told(machines::run_case(case, &userland, false)?)
                });
            }
        }
    }
}

/// Who names a case or a userland gets it, quick or not.
fn takes(wanted: &Wanted, case: &Case, userland: &str, name: &str) -> bool {
    match &wanted.pattern {
        Some(pattern) => name.contains(pattern.as_str()),
        None => wanted.all || case.quick.iter().any(|quick| quick == userland),
    }
}
