//! Everything a person types: `cargo xtask COMMAND`.
//!
//! | command | what it does |
//! | --- | --- |
//! | `build` | the shipped binary, checked for size |
//! | `test [--all [--resume]] [PATTERN]` | every kind of test; the closing line counts them |
//! | `vm [--kernel 6.1\|6.12] CASE` | one VM case, its console shown live |
//! | `machine [--on USERLAND] CASE` | one case on whole Debian machines, live as well |
//! | `differential [NAME]` | what quell assembles, judged by mdadm |
//! | `demo` | the main job where people can watch it |
//! | `bench` | the figures of BENCHMARKS.md |
//! | `install --destdir DIR` | what a package holds, laid out as it is installed |
//! | `dist` | a .deb and an .rpm of the same |
//! | `setup` | what the others call first: the tools and the cache |

mod bench;
mod build;
mod demo;
mod differential;
mod dist;
mod docs;
mod install;
mod machines;
mod native;
mod setup;
mod test;
mod vm;

use std::process::ExitCode;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let rest = args.get(1..).unwrap_or_default();
    let done = match args.first().map(String::as_str) {
        Some("build") => build::run(rest),
        Some("test") => test::run(rest),
        Some("vm") => vm::run(rest),
        Some("machine") => machines::run(rest),
        Some("differential") => differential::run(rest),
        Some("demo") => demo::run(rest),
        Some("bench") => bench::run(rest),
        Some("install") => install::run(rest),
        Some("dist") => dist::run(rest),
        Some("setup") => setup::run(rest),
        _ => Err(anyhow::anyhow!(
            "usage: cargo xtask build|test|vm|machine|differential|demo|bench|install|dist|setup (see xtask/src/main.rs)"
        )),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}
