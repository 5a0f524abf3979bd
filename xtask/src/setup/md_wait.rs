//! The md module of 6.12 with the wait put back that kernels up to 6.10 had in HOT_REMOVE_DISK.
//!
//! On an array without a personality, which a container is, nobody ever ends that wait: each removal by the ioctl takes
//! five seconds. The source is the kernel's own from Debian's package of the same version, patched by `tests/md_wait`.

use super::apt::{Apt, Suite};
use super::{cache, checked, digest, kernel, kernels, packages};
use anyhow::{Context, Result};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The kernel it is made for.
const KERNEL: &str = "6.12";

/// The only files of the kernel's source that the module is made of.
const SOURCES: [&str; 5] = ["md.c", "md.h", "md-bitmap.c", "md-bitmap.h", "md-cluster.h"];

/// The module for the kernel `name`, built where it is not in the cache yet.
pub(crate) fn md_with_wait(name: &str) -> Result<PathBuf> {
    anyhow::ensure!(
        name == KERNEL,
        "the md module with the wait is made for {KERNEL}, not for {name}"
    );
    let kernel = kernel(name)?;
    packages(&[("patch", "puts the wait into md")])?;
    let assets = crate::vm::root().join("tests/md_wait");
    let patch = assets.join("wait.patch");
    let lock = cache::lock()?;
    let id = digest(&fs::read(&patch)?);
    let dir = cache::entry(
        &lock,
        &format!("modules/md-wait-{}-{id:016x}", kernel.version),
        |part| {
            source(&lock, &kernel.version, part)?;
            fs::copy(assets.join("Makefile"), part.join("Makefile"))?;
            eprintln!(
                "setup: building md-mod.ko with the wait for {}",
                kernel.version
            );
            // No fuzz: what no longer fits is to be looked at.
            checked(
                Command::new("patch")
                    .args(["-p3", "--fuzz=0", "-d"])
                    .arg(part)
                    .arg("-i")
                    .arg(&patch),
            )
            .context("patching md.c")?;
            kernels::build(&kernel.headers, part, "md-mod.ko")
        },
    )?;
    Ok(dir.join("md-mod.ko"))
}

/// Puts the module's source files into `into`, from the package that belongs to the kernel.
fn source(lock: &cache::Lock, release: &str, into: &Path) -> Result<()> {
    let apt = Apt::new(lock, Suite::Named("bookworm"))?;
    let image = format!("linux-image-{release}");
    let (version, _) = apt
        .candidate(&image)
        .with_context(|| format!("the source of {release} is in no suite any more"))?;
    eprintln!(
        "setup: fetching the source of the kernel {release} into the cache (150 MB), for one module"
    );
    let package = into.join("package");
    fs::create_dir(&package)?;
    apt.unpack(
        &[format!("linux-source-{KERNEL}={version}")],
        false,
        &package,
    )?;
    let top = format!("linux-source-{KERNEL}");
    let archive = package.join(format!("usr/src/{top}.tar.xz"));
    let mut unpack = Command::new("tar");
    unpack
        .arg("-xJf")
        .arg(&archive)
        .arg("-C")
        .arg(into)
        .arg("--strip-components=3")
        .args(SOURCES.map(|file| format!("{top}/drivers/md/{file}")))
        .stdin(Stdio::null());
    checked(&mut unpack).with_context(|| format!("unpacking {}", archive.display()))?;
    Ok(fs::remove_dir_all(&package)?)
}
