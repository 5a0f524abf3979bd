//! The count of what passed and failed, and how it is shown while it goes.

use super::before::Before;
use anyhow::{Result, bail};
use std::io::Write;
use std::time::Instant;

/// How many lines of a failed step's output are shown.
const TAIL: usize = 60;

/// What passed and what failed so far.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    passed: usize,
    failed: Vec<String>,
    before: Option<Before>,
}

impl Tally {
    /// Keeps what passes, and does not do again what has passed before.
    pub(super) fn remember(&mut self, before: Before) {
        self.before = Some(before);
    }

    /// One test that is done by one function. What it gives back on success is shown on its line.
    pub(crate) fn step(&mut self, name: &str, run: impl FnOnce() -> Result<String>) {
        if self.before.as_ref().is_some_and(|before| before.has(name)) {
            println!("{name} ... ok before");
            self.passed += 1;
            return;
        }
        print!("{name} ... ");
        // The line is finished when the step ends: a person sees what is running.
        let _ = std::io::stdout().flush();
        let start = Instant::now();
        let outcome = run();
        let seconds = start.elapsed().as_secs_f64();
        match outcome {
            Ok(note) if note.is_empty() => println!("ok ({seconds:.1} s)"),
            Ok(note) => println!("ok ({seconds:.1} s): {note}"),
            Err(error) => {
                println!("FAILED ({seconds:.1} s)");
                println!("{}", tail(&format!("{error:#}")));
                self.failed.push(name.to_owned());
                return;
            }
        }
        self.passed += 1;
        if let Some(before) = &mut self.before {
            before.add(name);
        }
    }

    /// Tests that were counted elsewhere.
    pub(crate) fn add(&mut self, passed: usize, failed: impl IntoIterator<Item = String>) {
        self.passed += passed;
        self.failed.extend(failed);
    }

    /// The closing line. An error where something failed or nothing ran.
    pub(crate) fn close(self) -> Result<()> {
        println!();
        for name in &self.failed {
            println!("failed: {name}");
        }
        println!("{}", self.line());
        if !self.failed.is_empty() {
            bail!("{} of the tests failed", self.failed.len());
        }
        if self.passed == 0 {
            bail!("no test ran");
        }
        Ok(())
    }

    fn line(&self) -> String {
        format!(
            "xtask: {} passed, {} failed",
            self.passed,
            self.failed.len()
        )
    }
}

/// The end of a long text.
fn tail(text: &str) -> String {
    let lines: Vec<&str> = text.trim_end().lines().collect();
    let from = lines.len().saturating_sub(TAIL);
    let mut shown = String::new();
    if from > 0 {
        shown += &format!("    ({from} lines before these)\n");
    }
    for line in lines.get(from..).unwrap_or_default() {
        shown += &format!("    {line}\n");
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_closing_line_counts_all() {
        let mut tally = Tally::default();
        tally.step("good", || Ok(String::new()));
        tally.step("bad", || bail!("as it must"));
        tally.add(40, ["worse".to_owned()]);
        assert_eq!(tally.line(), "xtask: 41 passed, 2 failed");
        assert!(tally.close().is_err());
    }

    #[test]
    fn a_run_of_nothing_fails() {
        assert!(Tally::default().close().is_err());
        let mut tally = Tally::default();
        tally.add(1, []);
        assert!(tally.close().is_ok());
    }

    #[test]
    fn only_the_end_of_a_long_output_is_shown() {
        let text: Vec<String> = (0..100).map(|n| format!("line {n}")).collect();
        let shown = tail(&text.join("\n"));
        assert!(shown.contains("(40 lines before these)") && shown.contains("line 40\n"));
        assert!(!shown.contains("line 39\n"));
    }
}
