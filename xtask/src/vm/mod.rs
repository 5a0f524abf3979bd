//! The VM bench: stock kernels in QEMU with as many NVMe controllers as a case asks for.
//!
//! `case` says what a file may hold, `machine` what a VM is made of, `drives` its disks, `initramfs` what it boots into, `qemu` runs it,
//! `console` reads what it said and `checks` judges that; `stale` ends what a run that was killed has left. The test module
//! in `tests/slow_nvme` is the ground truth for how many controllers were in flight.

mod case;
mod checks;
mod console;
mod drives;
mod initramfs;
mod machine;
mod qemu;
#[cfg(test)]
pub(crate) mod shell;
mod stale;

use crate::setup::KERNELS;
use anyhow::{Context, Result, bail};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

pub(crate) use case::{Case, End, read};
pub(crate) use checks::{See, failures, validate};
pub(crate) use console::Line;
pub(crate) use initramfs::{Contents, PRELUDE, module_tree};
#[allow(unused_imports, reason = "what demo and bench stand on")]
pub(crate) use {
    console::Event,
    drives::{Drive, Kind, arguments as drive_arguments},
    machine::Machine,
    qemu::{Boot, Exit, arguments as base_arguments, run as run_qemu},
};

/// What running a case on a kernel came to.
#[derive(Debug)]
pub(crate) struct Outcome {
    /// What was wrong; empty is a pass.
    pub(crate) failures: Vec<String>,
    /// How long it took, all boots together.
    pub(crate) wall: Duration,
    /// The console, where it was kept.
    pub(crate) log: Option<PathBuf>,
    /// The console's last lines, to be shown with a failure.
    pub(crate) tail: Vec<String>,
}

/// The repository.
pub(crate) fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here).to_owned()
}

/// Every case below `tests/vm/`, by name.
pub(crate) fn all_cases() -> Result<Vec<Case>> {
    case::all()
}

/// Runs a case on a kernel; with `live` its console is shown as it comes.
pub(crate) fn run_case(case: &Case, kernel: &str, live: bool) -> Result<Outcome> {
    let mut machine = case.machine(kernel)?;
    if case.quell {
        machine = machine.quell(&crate::build::quell()?);
    }
    outcome(
        &format!("vm/{}-{kernel}", case.name),
        live,
        || boots(case, &machine, live),
        |boots| {
            let ends = vec![case.end; boots.len()];
            checks::failures(&ends, &case.allow, &case.see, boots)
        },
    )
}

/// What `boots` came to, as `judge` sees it. The console is kept as target/NAME.log where something was wrong, or `live`.
pub(crate) fn outcome(
    name: &str,
    live: bool,
    boots: impl Fn() -> Result<Vec<Boot>>,
    judge: impl FnOnce(&[Boot]) -> Vec<String>,
) -> Result<Outcome> {
    let start = Instant::now();
    let boots = attempts(boots)?;
    let lines: Vec<String> = boots
        .iter()
        .enumerate()
        .flat_map(|(n, boot)| {
            let head = format!(
                "--- boot {}: {:?} after {:.1} s",
                n + 1,
                boot.exit,
                boot.wall.as_secs_f64()
            );
            std::iter::once(head).chain(boot.lines.iter().map(raw))
        })
        .collect();
    let mut outcome = Outcome {
        failures: judge(&boots),
        wall: start.elapsed(),
        log: None,
        tail: Vec::new(),
    };
    let log = target_dir().join(format!("{name}.log"));
    if outcome.failures.is_empty() && !live {
        // A log that is there is a failure's.
        let _ = fs::remove_file(log);
    } else {
        fs::create_dir_all(log.parent().unwrap_or(&log))?;
        fs::write(&log, lines.join("\n") + "\n")
            .with_context(|| format!("cannot write {}", log.display()))?;
        outcome.log = Some(log);
        let last = lines.len().saturating_sub(30);
        outcome.tail = lines.into_iter().skip(last).collect();
    }
    Ok(outcome)
}

/// What `boots` gives, once more where the emulator went wrong.
pub(crate) fn attempts(boots: impl Fn() -> Result<Vec<Boot>>) -> Result<Vec<Boot>> {
    let mut attempt = 1;
    loop {
        let boots = boots()?;
        if attempt == qemu::ATTEMPTS || !boots.iter().any(Boot::is_emulators_fault) {
            return Ok(boots);
        }
        eprintln!("vm: the emulator itself went wrong (int3), so once more");
        attempt += 1;
    }
}

/// All boots of a case, from empty disks.
fn boots(case: &Case, machine: &Machine, live: bool) -> Result<Vec<Boot>> {
    let disks = tempfile::tempdir()?;
    let mut boots = Vec::new();
    for (n, script) in case.scripts().iter().enumerate() {
        let mut show = |line: &Line| {
            if live {
                println!("{:7.2} {}", line.wall.as_secs_f64(), raw(line));
            }
        };
        let machine = machine.nth(n + 1);
        boots.push(machine.boot(disks.path(), script, &mut show)?);
    }
    Ok(boots)
}

/// A line as it stood on the console.
pub(crate) fn raw(line: &Line) -> String {
    match line.time {
        Some(time) => format!("[{time:12.6}] {}", line.text),
        None => line.text.clone(),
    }
}

/// Cargo's target folder: where logs and the like go.
pub(crate) fn target_dir() -> PathBuf {
    static DIR: OnceLock<PathBuf> = OnceLock::new();
    DIR.get_or_init(|| {
        crate::build::target_dir().unwrap_or_else(|error| {
            // Logs are no reason to fail.
            eprintln!("vm: {error:#}");
            root().join("target")
        })
    })
    .clone()
}

/// `cargo xtask vm [--kernel 6.1|6.12] CASE...` and `cargo xtask vm --list`.
pub(crate) fn run(args: &[String]) -> Result<()> {
    let usage = "usage: cargo xtask vm [--kernel 6.1|6.12] CASE... | --list\nCASE is a case's name or a part of its name or title, such as B30";
    let mut kernel = None;
    let mut patterns = Vec::new();
    let cases = all_cases()?;
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--list" => {
                for case in &cases {
                    let quick = if case.quick { "quick" } else { "" };
                    println!(
                        "{:32} {:8} {:5}  {}",
                        case.name,
                        case.kernels().join(","),
                        quick,
                        case.title
                    );
                }
                return Ok(());
            }
            "--kernel" => {
                let name = args.next().context(usage)?;
                if !KERNELS.contains(&name.as_str()) {
                    bail!("no kernel {name}; there are {}", KERNELS.join(" and "));
                }
                kernel = Some(name.as_str());
            }
            option if option.starts_with('-') => bail!("{usage}"),
            pattern => patterns.push(pattern),
        }
    }
    if patterns.is_empty() {
        bail!("{usage}");
    }
    let chosen: Vec<&Case> = cases
        .iter()
        .filter(|case| patterns.iter().any(|pattern| names(case, pattern)))
        .collect();
    if chosen.is_empty() {
        bail!(
            "no case is named {}; `cargo xtask vm --list` names them",
            patterns.join(" or ")
        );
    }
    let mut failed = 0;
    for case in chosen {
        for on in case.kernels() {
            if kernel.is_some_and(|kernel| kernel != on) {
                continue;
            }
            let outcome = run_case(case, on, true)?;
            failed += usize::from(!outcome.failures.is_empty());
            report(&format!("vm {} on {on}", case.name), &case.title, &outcome);
        }
    }
    if failed > 0 {
        bail!("{failed} failed");
    }
    Ok(())
}

/// Whether a person who says `pattern` means this case. `B3` is not `B30`.
pub(crate) fn names(case: &Case, pattern: &str) -> bool {
    let number = pattern
        .strip_prefix('B')
        .is_some_and(|rest| !rest.is_empty() && rest.chars().all(|c| c.is_ascii_digit()));
    if number {
        return case
            .title
            .split(|c: char| !c.is_ascii_alphanumeric())
            .any(|word| word == pattern);
    }
    case.name.contains(pattern)
}

/// One line for a pass of the run WHAT; for a failure what was wrong and the end of the console.
pub(crate) fn report(what: &str, title: &str, outcome: &Outcome) {
    let seconds = outcome.wall.as_secs_f64();
    if outcome.failures.is_empty() {
        println!("{what}: ok, {seconds:.0} s");
        return;
    }
    for line in &outcome.tail {
        println!("    {line}");
    }
    println!("{what}: FAILED, {seconds:.0} s ({title})");
    for failure in &outcome.failures {
        println!("    {failure}");
    }
    if let Some(log) = &outcome.log {
        println!("    console: {}", log.display());
    }
}
