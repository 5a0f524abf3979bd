//! `cargo xtask test [--all [--resume]] [PATTERN]`: every kind of test, one after the other, and one closing line that counts them.
//!
//! A failure never ends the run, and nothing is left out quietly: a step whose tool is missing has failed, and so has a Rust
//! test that is marked ignored.

mod b44;
mod before;
mod differential;
mod lanes;
mod machines;
mod rust;
mod shell;
mod source;
mod steps;
mod tally;
mod vm;

use anyhow::{Result, bail};
use before::Before;
use tally::Tally;

/// What the person asked for.
#[derive(Clone, Debug, Default)]
pub(crate) struct Wanted {
    /// Slow steps and loops too, and each VM case on each kernel.
    pub(crate) all: bool,
    /// What has passed on the same tree is not done again.
    resume: bool,
    /// Only what has this in its name.
    pub(crate) pattern: Option<String>,
}

impl Wanted {
    fn parse(args: &[String]) -> Result<Self> {
        let mut wanted = Self::default();
        for arg in args {
            match arg.as_str() {
                "--all" => wanted.all = true,
                "--resume" => wanted.resume = true,
                flag if flag.starts_with('-') => {
                    bail!("usage: cargo xtask test [--all [--resume]] [PATTERN]")
                }
                pattern if wanted.pattern.is_none() => wanted.pattern = Some(pattern.to_owned()),
                _ => bail!("usage: cargo xtask test [--all [--resume]] [PATTERN]"),
            }
        }
        if wanted.resume && !wanted.all {
            bail!("--resume goes with --all");
        }
        Ok(wanted)
    }

    /// Whether a test of this name is to run.
    pub(crate) fn takes(&self, name: &str) -> bool {
        self.pattern
            .as_ref()
            .is_none_or(|pattern| name.contains(pattern.as_str()))
    }
}

/// Runs the command.
pub(crate) fn run(args: &[String]) -> Result<()> {
    let wanted = Wanted::parse(args)?;
    let tally = if wanted.all {
        // Not in target/: it is to outlive a checkout that does.
        let file = crate::setup::cache()?.join("test-all.passed");
        Tally::remembering(Before::open(file, wanted.resume)?)
    } else {
        Tally::default()
    };
    for step in steps::STEPS {
        if wanted.takes(step.name) && (wanted.all || !step.slow) {
            tally.step(step.name, step.run);
        }
    }
    rust::run(&wanted, &tally);
    let mut jobs = Vec::new();
    for (what, some) in [
        ("vm cases", vm::jobs(&wanted)),
        ("machine cases", machines::jobs(&wanted)),
    ] {
        match some {
            Ok(some) => jobs.extend(some),
            Err(error) => tally.step(what, || Err(error)),
        }
    }
    lanes::run(jobs, if wanted.all { 2 } else { 1 }, &tally);
    differential::run(&wanted, &tally);
    tally.close()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wanted(args: &[&str]) -> Result<Wanted> {
        Wanted::parse(&args.iter().map(|&arg| arg.to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn a_pattern_chooses_by_part_of_the_name() {
        let some = wanted(&["--all", "b31"]).unwrap();
        assert!(some.all && some.takes("vm b31_width") && !some.takes("vm b32"));
        assert!(wanted(&[]).unwrap().takes("anything"));
    }

    #[test]
    fn unknown_flags_and_second_patterns_are_refused() {
        assert!(wanted(&["--quick"]).is_err());
        assert!(wanted(&["a", "b"]).is_err());
        assert!(wanted(&["--resume"]).is_err());
    }
}
