//! The steps that are one test each: formatting, lints, documentation, and the builds.

use super::{b44, shell};
use crate::build::{self, Std, cargo};
use crate::{native, setup};
use anyhow::{Context, Result, bail};
use std::process::Command;

/// One step.
pub(super) struct Step {
    pub(super) name: &'static str,
    /// Only with `--all`.
    pub(super) slow: bool,
    pub(super) run: fn() -> Result<String>,
}

const fn quick(name: &'static str, run: fn() -> Result<String>) -> Step {
    Step {
        name,
        slow: false,
        run,
    }
}

/// The quickest first: what is wrong there is known within seconds.
pub(super) const STEPS: &[Step] = &[
    quick("rustfmt", rustfmt),
    quick("b44: one way to start quell", b44::check),
    quick("shellcheck", shellcheck),
    quick("clippy", clippy),
    quick("rustdoc", rustdoc),
    quick("aarch64 check", aarch64),
    quick("build with own std", own_std),
    quick("build as packagers do", || {
        Ok(build::build(Some(Std::Prebuilt))?.line)
    }),
    quick("the shipped binary starts", starts),
    Step {
        name: "build with Debian's std",
        slow: true,
        run: || Ok(build::build(Some(Std::Debian))?.line),
    },
];

/// Runs a command to its end; its output is the error where it fails.
fn quiet(command: &mut Command) -> Result<String> {
    setup::checked(command)?;
    Ok(String::new())
}

fn rustfmt() -> Result<String> {
    build::components(&["rustfmt"])?;
    // The files' names are enough: what is to be done about them is always `cargo fmt`.
    quiet(cargo().args(["fmt", "--all", "--check", "--", "-l", "--color=never"]))
}

fn shellcheck() -> Result<String> {
    setup::host(setup::Need::Test)?;
    shell::check()
}

fn clippy() -> Result<String> {
    build::components(&["clippy"])?;
    quiet(cargo().args([
        "clippy",
        "--locked",
        "--workspace",
        "--all-targets",
        "--",
        "-D",
        "warnings",
    ]))
}

fn rustdoc() -> Result<String> {
    quiet(cargo().env("RUSTDOCFLAGS", "-D warnings").args([
        "doc",
        "--locked",
        "--workspace",
        "--no-deps",
        "--document-private-items",
    ]))
}

/// The library and binary compile for the other architecture. Where its std cannot be had prebuilt, it is compiled from
/// source (a check needs no libc); where that is missing too, the line says so.
fn aarch64() -> Result<String> {
    const TARGET: &str = "aarch64-unknown-linux-musl";
    let mut check = cargo();
    check.args([
        "check",
        "--locked",
        "--package",
        "quell",
        "--target",
        TARGET,
    ]);
    if build::rustup_target(TARGET)? {
        return quiet(&mut check);
    }
    if !build::has_std_source()? {
        return Ok(format!(
            "NOT CHECKED: the std of {TARGET} cannot be had here"
        ));
    }
    check
        .env("RUSTC_BOOTSTRAP", "1")
        .arg("-Zbuild-std=std,panic_abort");
    quiet(&mut check).map(|_| "std from source".to_owned())
}

fn own_std() -> Result<String> {
    // Built without a choice, as a person does; `quell()` remembers it for all that follows.
    let line = build::build(None)?.line;
    build::quell()?;
    Ok(line)
}

fn starts() -> Result<String> {
    let root = tempfile::tempdir()?;
    let out = native::quell(&build::quell()?, root.path(), ["--help"])?
        .output()
        .context("cannot start it")?;
    if !out.status.success() {
        bail!(
            "quell --help ended with {}: {}",
            out.status,
            String::from_utf8_lossy(&out.stderr)
        );
    }
    Ok(String::new())
}
