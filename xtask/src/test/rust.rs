//! Cargo's tests (unit, property, fixture and documentation tests), shown as they run and counted one by one.

use super::Wanted;
use super::tally::Tally;
use crate::build::cargo;
use anyhow::{Context, Result};
use std::io::{BufRead, BufReader};
use std::process::Stdio;
use std::time::Instant;

/// The name of the whole step; a pattern that is part of it takes all tests.
const NAME: &str = "rust tests";

/// What the lines of a run say.
#[derive(Debug, Default, PartialEq, Eq)]
struct Count {
    passed: usize,
    failed: Vec<String>,
    /// How many the result lines call failed: a test that is named nowhere is still counted.
    said_failed: usize,
}

impl Count {
    fn line(&mut self, line: &str) {
        if let Some(result) = line.strip_prefix("test result: ") {
            let number = |word: &str| -> usize {
                result
                    .split([';', '.'])
                    .find_map(|part| part.trim().strip_suffix(word)?.trim().parse().ok())
                    .unwrap_or(0)
            };
            self.passed += number("passed");
            self.said_failed += number("failed");
        } else if let Some((name, outcome)) = line
            .strip_prefix("test ")
            .and_then(|rest| rest.rsplit_once(" ... "))
        {
            if outcome == "FAILED" {
                self.failed.push(name.to_owned());
            } else if outcome.starts_with("ignored") {
                // Nothing is left out quietly.
                self.failed.push(format!("{name} (ignored)"));
                self.said_failed += 1;
            }
        }
    }

    /// The failed ones, given how the whole run ended.
    fn failures(mut self, ended_well: bool) -> Vec<String> {
        while self.failed.len() < self.said_failed {
            self.failed.push(format!("{NAME}: one that is not named"));
        }
        if !ended_well && self.failed.is_empty() {
            self.failed.push(NAME.to_owned());
        }
        self.failed
    }
}

/// Runs them.
pub(super) fn run(wanted: &Wanted, tally: &Tally) {
    let start = Instant::now();
    match tests(wanted) {
        Ok((count, ended_well)) => {
            println!(
                "{NAME}: {} passed ({:.1} s)",
                count.passed,
                start.elapsed().as_secs_f64()
            );
            let ended_well = ended_well && (count.passed > 0 || wanted.pattern.is_some());
            tally.add(count.passed, count.failures(ended_well));
        }
        Err(error) => tally.step(NAME, || Err(error)),
    }
}

fn tests(wanted: &Wanted) -> Result<(Count, bool)> {
    let mut command = cargo();
    command.args(["test", "--locked", "--workspace", "--no-fail-fast"]);
    if let Some(pattern) = wanted.pattern.as_deref().filter(|p| !NAME.contains(p)) {
        command.args(["--", pattern]);
    }
    if wanted.all {
        command.env("QUELL_TEST_ALL", "1");
    }
    println!("{NAME}:");
    // Both streams through one pipe would need a shell; what cargo says of its own is for the person alone.
    let mut child = command
        .stdout(Stdio::piped())
        .stdin(Stdio::null())
        .spawn()
        .context("cannot start cargo")?;
    let out = child.stdout.take().context("cargo has a stdout")?;
    let mut count = Count::default();
    for line in BufReader::new(out).split(b'\n') {
        let line = line?;
        let line = String::from_utf8_lossy(&line);
        // Empty runs are most of the output when a pattern was given.
        if !line.is_empty()
            && line != "running 0 tests"
            && !line.contains(" 0 passed; 0 failed; 0 ignored")
        {
            println!("    {line}");
        }
        count.line(&line);
    }
    Ok((count, child.wait()?.success()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(text: &str) -> Count {
        let mut count = Count::default();
        text.lines().for_each(|line| count.line(line));
        count
    }

    #[test]
    fn every_test_is_counted() {
        let count = count(
            "running 3 tests\ntest a::one ... ok\ntest a::two ... ok\n\
             test result: ok. 2 passed; 0 failed; 0 ignored; 0 measured; 1 filtered out; finished in 0.00s\n\
             test src/lib.rs - x (line 3) ... ok\n\
             test result: ok. 1 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.10s\n",
        );
        assert_eq!(count.passed, 3);
        assert!(count.failures(true).is_empty());
    }

    #[test]
    fn failed_and_ignored_ones_are_named() {
        let count = count(
            "test a::one ... FAILED\ntest a::two ... ignored, for a reason\n\
             test result: FAILED. 4 passed; 1 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.00s\n",
        );
        assert_eq!(count.passed, 4);
        assert_eq!(count.failures(false), ["a::one", "a::two (ignored)"]);
    }

    #[test]
    fn a_run_that_ends_badly_without_a_word_has_failed() {
        assert_eq!(count("").failures(false), [NAME]);
        let silent = count("test result: FAILED. 0 passed; 2 failed; 0 ignored; 0 measured\n");
        assert_eq!(silent.failures(false).len(), 2);
    }
}
