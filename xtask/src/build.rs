//! `cargo xtask build`: the shipped binary, one static file with its own std, checked for size and shape.
//!
//! The std that rustup ships is built for speed and with unwinding; one built for size, with `panic=abort`, makes the
//! binary less than half as big. Its source comes from rustup, else from Debian's packages.

mod cargo;
mod elf;
mod toolchain;

use anyhow::{Context, Result, bail};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

pub(crate) use cargo::{cargo, root, target_dir};
pub(crate) use toolchain::{Std, components, has_std_source, rustup_target};

/// What is built.
pub(crate) const TARGET: &str = "x86_64-unknown-linux-musl";
/// The shipped binary is never larger.
const OWN_STD_LIMIT: u64 = 512 * 1024;
/// Nor is what a packager's plain `cargo build` makes, with a std that was built for speed and walks the stack.
const PREBUILT_LIMIT: u64 = 1024 * 1024;

/// A binary that was built and looked at.
#[derive(Clone, Debug)]
pub(crate) struct Built {
    /// Where it is.
    pub(crate) path: PathBuf,
    /// One line: size, shape, which std.
    pub(crate) line: String,
}

/// Builds quell with the std that is asked for, or the best that can be had, and checks the result.
pub(crate) fn build(std: Option<Std>) -> Result<Built> {
    let std = std.map_or_else(toolchain::best, Ok)?;
    let path = match std {
        Std::Rustup => toolchain::with_rustup()?,
        Std::Debian => toolchain::with_debian()?,
        Std::Prebuilt => toolchain::with_prebuilt()?,
    };
    let limit = match std {
        Std::Prebuilt => PREBUILT_LIMIT,
        Std::Rustup | Std::Debian => OWN_STD_LIMIT,
    };
    let line = check(&path, limit, std)?;
    Ok(Built { path, line })
}

/// The shipped binary, built if it is not there or not of this source. One cargo run in each process.
// What goes into VMs and packages asks for it.
pub(crate) fn quell() -> Result<PathBuf> {
    static DONE: Mutex<Option<PathBuf>> = Mutex::new(None);
    let mut done = DONE
        .lock()
        .map_err(|_| anyhow::anyhow!("an earlier build went wrong"))?;
    if let Some(path) = &*done {
        return Ok(path.clone());
    }
    let built = build(None).context("cannot build quell")?;
    *done = Some(built.path.clone());
    Ok(built.path)
}

/// Size and shape: what an initramfs without any library can run, and no larger than promised.
fn check(path: &Path, limit: u64, std: Std) -> Result<String> {
    let bytes = std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    let shape = elf::Shape::of(&bytes).with_context(|| format!("{}", path.display()))?;
    if !shape.is_static() {
        bail!(
            "{} is not static: it names an interpreter or libraries",
            path.display()
        );
    }
    let size = bytes.len() as u64;
    let line = format!(
        "{size} bytes ({:.0} KiB, at most {} KiB), {}, {std}",
        size as f64 / 1024.0,
        limit / 1024,
        if shape.pie {
            "static-pie"
        } else {
            "static, not PIE"
        },
    );
    if size > limit {
        bail!("{} is too large: {line}", path.display());
    }
    Ok(line)
}

/// Runs the command.
pub(crate) fn run(args: &[String]) -> Result<()> {
    let mut std = None;
    for arg in args {
        match arg.strip_prefix("--std=") {
            Some(name) => std = Some(name.parse()?),
            None => bail!("usage: cargo xtask build [--std=rustup|debian|prebuilt]"),
        }
    }
    let built = build(std)?;
    println!("{}", built.path.display());
    println!("{}", built.line);
    Ok(())
}
