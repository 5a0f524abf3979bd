//! Stock Debian kernels in the cache, each with the headers of the same version and the test module built against them.

use super::apt::{Apt, Suite};
use super::{Need, cache, checked, digest, host};
use anyhow::{Context, Result, bail};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The kernels that cases run on, oldest first.
pub(crate) const KERNELS: &[&str] = &["6.1", "6.12"];

/// A kernel in the cache.
#[derive(Clone, Debug)]
pub(crate) struct Kernel {
    /// What `uname -r` says in the VM.
    pub(crate) version: String,
    /// The bootable image.
    pub(crate) image: PathBuf,
    /// `lib/modules/VERSION`, with a `modules.dep`.
    pub(crate) modules: PathBuf,
    /// What modules for it are built against.
    pub(super) headers: PathBuf,
    /// The test module, built for this kernel from the source as it is now.
    pub(crate) slow_nvme: PathBuf,
}

/// The kernel `name`, downloaded where it is not in the cache yet; a cached version is kept as it is.
pub(crate) fn kernel(name: &str) -> Result<Kernel> {
    if !KERNELS.contains(&name) {
        bail!("no kernel {name}; there are {}", KERNELS.join(" and "));
    }
    host(Need::Vm)?;
    let lock = cache::lock()?;
    let tree = cache::entry(&lock, &format!("kernels/{name}"), |part| {
        download(&lock, name, part)
    })?;
    let version = fs::read_to_string(tree.join("version"))
        .context("the cached kernel has no version file")?;
    let headers = tree
        .join("usr/src")
        .join(format!("linux-headers-{version}"));
    relocate(&tree, &headers)?;
    let slow_nvme = module(&lock, name, &headers, &version)?;
    Ok(Kernel {
        headers,
        image: tree.join("boot").join(format!("vmlinuz-{version}")),
        modules: tree.join("lib/modules").join(&version),
        version,
        slow_nvme,
    })
}

fn download(lock: &cache::Lock, name: &str, part: &Path) -> Result<()> {
    // All of them are in Debian 12's own suites, whatever the host is.
    let apt = Apt::new(lock, Suite::Named("bookworm"))?;
    let meta = match name {
        "6.1" => "linux-image-amd64".to_owned(),
        _ => format!("linux-image-{name}-amd64"),
    };
    let (version, image) = apt
        .candidate(&meta)
        .with_context(|| format!("no package {meta} in Debian 12's suites"))?;
    let release = image
        .strip_prefix("linux-image-")
        .with_context(|| format!("{meta} depends on {image}, not on a kernel"))?
        .to_owned();
    let base = release.trim_end_matches("-amd64");
    let kbuild = match name {
        "6.1" => "linux-kbuild-6.1".to_owned(),
        _ => format!("linux-kbuild-{base}"),
    };
    eprintln!("setup: unpacking the kernel {release} and its headers into the cache, for the VMs");
    let packages: Vec<String> = [
        image.clone(),
        format!("linux-headers-{release}"),
        format!("linux-headers-{base}-common"),
        kbuild,
    ]
    .iter()
    .map(|package| format!("{package}={version}"))
    .collect();
    apt.unpack(&packages, false, part)?;
    checked(Command::new("depmod").arg("-b").arg(part).arg(&release))?;
    fs::write(part.join("version"), release)?;
    Ok(())
}

/// The test module. Kept by a digest of its source, so that an edit is seen and nothing else costs time.
fn module(lock: &cache::Lock, name: &str, headers: &Path, version: &str) -> Result<PathBuf> {
    let source = crate::vm::root().join("tests/slow_nvme");
    let text = fs::read(source.join("slow_nvme.c"))?;
    let dir = cache::entry(
        lock,
        &format!("modules/{name}-{version}-{:016x}", digest(&text)),
        |part| {
            eprintln!("setup: building slow_nvme.ko for {version}");
            for file in ["slow_nvme.c", "Makefile"] {
                fs::copy(source.join(file), part.join(file))?;
            }
            build(headers, part, "slow_nvme.ko")
        },
    )?;
    Ok(dir.join("slow_nvme.ko"))
}

/// Has the kernel's own build make the module FILE of the sources in `dir`.
pub(super) fn build(headers: &Path, dir: &Path, file: &str) -> Result<()> {
    // The compiler that built the kernel may not be the host's; for a module of this kind that is no matter.
    checked(
        Command::new("make")
            .arg("-C")
            .arg(headers)
            .arg(format!("M={}", dir.display()))
            .args([
                "CC=gcc",
                "CONFIG_GCC_PLUGINS=",
                "CONFIG_DEBUG_INFO_BTF_MODULES=",
                "modules",
            ]),
    )
    .with_context(|| format!("building {file}"))?;
    checked(
        Command::new("strip")
            .arg("--strip-debug")
            .arg(dir.join(file)),
    )
}

/// Debian's header packages name each other by absolute paths below /usr/src; here they lie in the cache.
fn relocate(tree: &Path, headers: &Path) -> Result<()> {
    let makefile = headers.join("Makefile");
    let text = fs::read_to_string(&makefile)
        .with_context(|| format!("no headers in {}", headers.display()))?;
    let here = format!("include {}/", tree.join("usr/src").display());
    if !text.contains(&here) {
        fs::write(&makefile, text.replace("include /usr/src/", &here))?;
    }
    Ok(())
}
