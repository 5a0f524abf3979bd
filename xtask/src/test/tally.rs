//! The count of what passed and failed, and how it is shown while it goes.

use super::before::Before;
use anyhow::{Result, bail};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// How many lines of a failed step's output are shown.
const TAIL: usize = 60;

/// What passed and what failed so far. Tests that are done side by side share it.
#[derive(Debug, Default)]
pub(crate) struct Tally(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    passed: usize,
    failed: Vec<String>,
    before: Option<Before>,
}

impl Tally {
    /// One that keeps what passes, and does not do again what has passed before.
    pub(super) fn remembering(before: Before) -> Self {
        Self(Mutex::new(State {
            before: Some(before),
            ..State::default()
        }))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One test that is done by one function. What it gives back on success is shown on its line.
    pub(crate) fn step(&self, name: &str, run: impl FnOnce() -> Result<String>) {
        {
            let mut state = self.state();
            if state.before.as_ref().is_some_and(|before| before.has(name)) {
                println!("{name} ... ok before");
                state.passed += 1;
                return;
            }
        }
        // A person sees what is running.
        println!("{name} begins");
        let start = Instant::now();
        let outcome = run();
        let seconds = start.elapsed().as_secs_f64();
        // What belongs together is printed together.
        let mut state = self.state();
        match outcome {
            Ok(note) if note.is_empty() => println!("{name} ... ok ({seconds:.1} s)"),
            Ok(note) => println!("{name} ... ok ({seconds:.1} s): {note}"),
            Err(error) => {
                println!("{name} ... FAILED ({seconds:.1} s)");
                println!("{}", tail(&format!("{error:#}")));
                state.failed.push(name.to_owned());
                return;
            }
        }
        state.passed += 1;
        if let Some(before) = &mut state.before {
            before.add(name);
        }
    }

    /// Tests that were counted elsewhere.
    pub(crate) fn add(&self, passed: usize, failed: impl IntoIterator<Item = String>) {
        let mut state = self.state();
        state.passed += passed;
        state.failed.extend(failed);
    }

    /// The closing line. An error where something failed or nothing ran.
    pub(crate) fn close(self) -> Result<()> {
        let state = self.state();
        println!();
        for name in &state.failed {
            println!("failed: {name}");
        }
        println!("{}", state.line());
        if !state.failed.is_empty() {
            bail!("{} of the tests failed", state.failed.len());
        }
        if state.passed == 0 {
            bail!("no test ran");
        }
        Ok(())
    }

    /// How it stands.
    #[cfg(test)]
    pub(super) fn line(&self) -> String {
        self.state().line()
    }
}

impl State {
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
        let tally = Tally::default();
        tally.step("good", || Ok(String::new()));
        tally.step("bad", || bail!("as it must"));
        tally.add(40, ["worse".to_owned()]);
        assert_eq!(tally.line(), "xtask: 41 passed, 2 failed");
        assert!(tally.close().is_err());
    }

    #[test]
    fn a_run_of_nothing_fails() {
        assert!(Tally::default().close().is_err());
        let tally = Tally::default();
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
