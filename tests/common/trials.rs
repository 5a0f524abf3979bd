//! A list of tests that is made while running: cargo's own harness knows only functions.
//!
//! The output is that of cargo's harness, so whatever counts tests there counts these.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

/// One test.
pub(crate) struct Trial {
    name: String,
    run: Box<dyn Fn() -> Result<(), String> + Send + Sync>,
}

impl Trial {
    pub(crate) fn new(
        name: impl Into<String>,
        run: impl Fn() -> Result<(), String> + Send + Sync + 'static,
    ) -> Self {
        Self {
            name: name.into(),
            run: Box::new(run),
        }
    }
}

/// What cargo's harness is asked on its command line, as far as it is needed here.
#[derive(Default)]
struct Asked {
    patterns: Vec<String>,
    skipped: Vec<String>,
    exact: bool,
    list: bool,
    ignored: bool,
    threads: Option<usize>,
}

impl Asked {
    fn parse(args: impl IntoIterator<Item = String>) -> Self {
        let mut asked = Self::default();
        let mut args = args.into_iter();
        while let Some(arg) = args.next() {
            let (name, value) = match arg.split_once('=') {
                Some((name, value)) => (name.to_owned(), Some(value.to_owned())),
                None => (arg, None),
            };
            match name.as_str() {
                "--exact" => asked.exact = true,
                "--list" => asked.list = true,
                "--ignored" => asked.ignored = true,
                "--skip" => asked.skipped.extend(value.or_else(|| args.next())),
                "--test-threads" => {
                    asked.threads = value.or_else(|| args.next()).and_then(|n| n.parse().ok());
                }
                "--format" | "--color" | "-Z" if value.is_none() => drop(args.next()),
                flag if flag.starts_with('-') => {}
                pattern => asked.patterns.push(pattern.to_owned()),
            }
        }
        asked
    }

    fn takes(&self, name: &str) -> bool {
        let is = |pattern: &String| {
            if self.exact {
                name == pattern
            } else {
                name.contains(pattern.as_str())
            }
        };
        // None is ignored.
        !self.ignored
            && (self.patterns.is_empty() || self.patterns.iter().any(is))
            && !self.skipped.iter().any(is)
    }
}

/// Runs those that argv asks for, so many at once as there are processors.
pub(crate) fn run(trials: Vec<Trial>) -> ExitCode {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    run_at_once(trials, cores)
}

/// Runs those that argv asks for, at most `width` at once; with 1 in this very thread.
pub(crate) fn run_at_once(trials: Vec<Trial>, width: usize) -> ExitCode {
    let asked = Asked::parse(std::env::args().skip(1));
    let all = trials.len();
    let trials: Vec<Trial> = trials
        .into_iter()
        .filter(|t| asked.takes(&t.name))
        .collect();
    if asked.list {
        for trial in &trials {
            println!("{}: test", trial.name);
        }
        println!("\n{} tests, 0 benchmarks", trials.len());
        return ExitCode::SUCCESS;
    }
    println!("\nrunning {} tests", trials.len());
    let start = Instant::now();
    let failed = Mutex::new(Vec::new());
    let next = AtomicUsize::new(0);
    let work = || {
        while let Some(trial) = trials.get(next.fetch_add(1, Ordering::Relaxed)) {
            let result = catch_unwind(AssertUnwindSafe(|| (trial.run)()))
                .unwrap_or_else(|panic| Err(said(panic.as_ref())));
            let outcome = if result.is_ok() { "ok" } else { "FAILED" };
            println!("test {} ... {outcome}", trial.name);
            if let Err(why) = result {
                failed.lock().unwrap().push((&trial.name, why));
            }
        }
    };
    match asked.threads.unwrap_or(width).min(width) {
        0 | 1 => work(),
        n => std::thread::scope(|scope| {
            for _ in 0..n {
                scope.spawn(work);
            }
        }),
    }
    let failed = failed.into_inner().unwrap();
    if !failed.is_empty() {
        println!("\nfailures:");
        for (name, why) in &failed {
            println!("\n---- {name} ----\n{why}");
        }
        println!("\nfailures:");
        for (name, _) in &failed {
            println!("    {name}");
        }
    }
    println!(
        "\ntest result: {}. {} passed; {} failed; 0 ignored; 0 measured; {} filtered out; finished in {:.2}s\n",
        if failed.is_empty() { "ok" } else { "FAILED" },
        trials.len() - failed.len(),
        failed.len(),
        all - trials.len(),
        start.elapsed().as_secs_f64()
    );
    if failed.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(101)
    }
}

fn said(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied())
        .unwrap_or("it panicked")
        .to_owned()
}
