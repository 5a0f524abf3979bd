//! Whole machines: real Debian userlands whose root lies on an Intel RAID volume, booted by their own initramfs.
//!
//! `case` says what a file below `tests/machines/` may hold, `disks` has mdadm make the drives, `image` makes a root file
//! system and an initramfs from a userland and puts it on them, `root` what lies between, `layers` says what lies over the
//! userland, `boot` boots copies and `kept` keeps what is expensive. The console and its checks are the VM bench's.

mod boot;
mod case;
mod disks;
mod image;
mod kept;
mod layers;
mod root;
#[cfg(test)]
mod shell;

use crate::vm::{self, Boot, Outcome};
use anyhow::{Context, Result, bail};

pub(crate) use case::{Case, all};
pub(crate) use image::Package;

/// What every case's script may call beside the VM bench's prelude.
const PRELUDE: &str = include_str!("prelude.sh");

/// Runs a case on a userland; with `live` its console is shown as it comes.
pub(crate) fn run_case(case: &Case, userland: &str, live: bool) -> Result<Outcome> {
    let image = image::image(userland, case.package, &case.packages, case.root)?;
    vm::outcome(
        &format!("machines/{}-{userland}", case.name),
        live,
        || boot::boots(case, &image, live),
        |boots| case.failures(boots),
    )
}

/// Boots a userland's machine once, from drives as they were made, with a script as cases have them.
pub(crate) fn boot_once(userland: &str, package: Package, script: &str) -> Result<Boot> {
    let case = Case::once(package, script)?;
    let image = image::image(userland, case.package, &case.packages, case.root)?;
    let mut boots = vm::attempts(|| boot::boots(&case, &image, false))?;
    boots.pop().context("the machine was not booted")
}

/// What a run is called.
pub(crate) fn label(case: &Case, userland: &str) -> String {
    format!("machine {} on {userland}", case.name)
}

/// `cargo xtask machine [--on USERLAND] CASE...` and `cargo xtask machine --list`.
pub(crate) fn run(args: &[String]) -> Result<()> {
    let usage = "usage: cargo xtask machine [--on USERLAND] CASE... | --list\nCASE is a case's name or a part of it, USERLAND a userland's or a part of it";
    let cases = all()?;
    let mut on = "";
    let mut patterns = Vec::new();
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--list" => {
                for case in &cases {
                    println!("{:20} {}", case.name, case.title);
                    println!("{:20} on {}", "", case.userlands().join(", "));
                }
                return Ok(());
            }
            "--on" => on = args.next().context(usage)?,
            option if option.starts_with('-') => bail!("{usage}"),
            pattern => patterns.push(pattern),
        }
    }
    let mut runs = 0;
    let mut failed = 0;
    let chosen = |case: &&Case| patterns.iter().any(|pattern| case.name.contains(pattern));
    for case in cases.iter().filter(chosen) {
        for userland in case.userlands().iter().filter(|name| name.contains(on)) {
            let outcome = run_case(case, userland, true)?;
            runs += 1;
            failed += usize::from(!outcome.failures.is_empty());
            vm::report(&label(case, userland), &case.title, &outcome);
        }
    }
    if runs == 0 {
        bail!("nothing to run; {usage}");
    }
    if failed > 0 {
        bail!("{failed} failed");
    }
    Ok(())
}
