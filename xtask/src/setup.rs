//! What every other command calls first: the host's tools and the cache of what goes into VMs.
//!
//! Tools come from Debian packages by name. Kernels, busybox and whatever else a VM needs are downloaded and unpacked into
//! the cache folder and never installed on the host.

mod apt;
mod cache;
pub(crate) mod elf;
mod kernels;
mod md_wait;
mod mdadm;
mod userland;

use anyhow::{Context, Result, bail};
use std::path::{Path, PathBuf};
use std::process::Command;

pub(crate) use apt::{Suite, unpacked, unpacked_alone};
pub(crate) use cache::root as cache;
pub(crate) use kernels::{KERNELS, Kernel, kernel};
pub(crate) use md_wait::md_with_wait;
pub(crate) use mdadm::mdadm;
pub(crate) use userland::{Generator, Userland, userland, userlands};

/// What a command is about to do, and so which tools it needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Need {
    /// Lints over the shell files.
    Test,
    /// Virtual machines and the kernel module in them.
    Vm,
}

/// A tool: the file that shows it is there, its package, and why it is wanted.
struct Tool(&'static str, &'static str, &'static str);

const TEST_TOOLS: &[Tool] = &[Tool(
    "/usr/bin/shellcheck",
    "shellcheck",
    "lints the shell files",
)];

const VM_TOOLS: &[Tool] = &[
    Tool(
        "/usr/bin/qemu-system-x86_64",
        "qemu-system-x86",
        "runs the VM cases",
    ),
    Tool("/usr/bin/gcc", "gcc", "compiles the test kernel module"),
    Tool("/usr/bin/make", "make", "drives the kernel's own build"),
    Tool(
        "/usr/include/libelf.h",
        "libelf-dev",
        "the kernel's objtool",
    ),
    Tool("/usr/bin/pahole", "dwarves", "the kernel's module build"),
    Tool("/usr/bin/xz", "xz-utils", "unpacks kernel modules"),
    Tool(
        "/sbin/depmod",
        "kmod",
        "works out what kernel modules depend on",
    ),
];

/// Makes sure that the host has what `need` asks for. Quick when nothing is missing: it only looks for files.
pub(crate) fn host(need: Need) -> Result<()> {
    let tools = match need {
        Need::Test => TEST_TOOLS,
        Need::Vm => VM_TOOLS,
    };
    let missing: Vec<(&str, &str)> = tools
        .iter()
        .filter(|Tool(file, _, _)| !Path::new(file).exists())
        .map(|Tool(_, package, why)| (*package, *why))
        .collect();
    packages(&missing)
}

/// Installs Debian packages on the host, saying which and why. Installed ones are left alone.
pub(crate) fn packages(wanted: &[(&str, &str)]) -> Result<()> {
    if wanted.is_empty() {
        return Ok(());
    }
    supported()?;
    let missing: Vec<&(&str, &str)> = wanted.iter().filter(|(name, _)| !installed(name)).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let names: Vec<&str> = missing.iter().map(|(name, _)| *name).collect();
    for (name, why) in &missing {
        eprintln!("setup: needs the package {name}: {why}");
    }
    if !rustix::process::geteuid().is_root() {
        bail!(
            "only root can install packages; run this once, then the same command again:\n    sudo apt-get install --no-install-recommends {}",
            names.join(" ")
        );
    }
    if install(&names).is_ok() {
        return Ok(());
    }
    // The lists may be missing or name versions that are gone.
    checked(Command::new("apt-get").args(["-q", "update"])).context("apt-get update")?;
    install(&names)
}

fn install(names: &[&str]) -> Result<()> {
    checked(
        Command::new("apt-get")
            .env("DEBIAN_FRONTEND", "noninteractive")
            // Another run, or the machine's own updates, may be at it.
            .args(["-o", "DPkg::Lock::Timeout=600"])
            .args(["-q", "-y", "install", "--no-install-recommends"])
            .args(names),
    )
    .with_context(|| format!("apt-get install {}", names.join(" ")))
}

fn installed(name: &str) -> bool {
    Command::new("dpkg-query")
        .args(["-W", "-f=${db:Status-Status} ", name])
        .output()
        .is_ok_and(|out| out.stdout.starts_with(b"installed"))
}

/// Debian 12 or later on amd64, with apt.
fn supported() -> Result<()> {
    let release = std::fs::read_to_string("/etc/os-release").unwrap_or_default();
    let field = |key: &str| {
        release
            .lines()
            .find_map(|line| line.strip_prefix(key)?.strip_prefix('='))
            .map(|value| value.trim_matches('"').to_owned())
    };
    let name = field("PRETTY_NAME").unwrap_or_else(|| "this system".to_owned());
    if field("ID").as_deref() != Some("debian") {
        bail!("the set-up needs Debian 12 or later, not {name}");
    }
    // Testing and unstable have no number.
    if let Some(Ok(version)) = field("VERSION_ID").map(|version| version.parse::<u32>())
        && version < 12
    {
        bail!("the set-up needs Debian 12 or later, not {name}");
    }
    if !Path::new("/usr/bin/apt-get").exists() {
        bail!("the set-up needs apt-get, which {name} does not have");
    }
    if std::env::consts::ARCH != "x86_64" {
        bail!(
            "the VMs are amd64 only, this machine is {}",
            std::env::consts::ARCH
        );
    }
    Ok(())
}

/// The static busybox of the running Debian release, unpacked in the cache.
pub(crate) fn busybox() -> Result<PathBuf> {
    let tree = unpacked_alone(Suite::Host, &["busybox-static"])?;
    for path in ["bin/busybox", "usr/bin/busybox"] {
        if tree.join(path).exists() {
            return Ok(tree.join(path));
        }
    }
    bail!("no busybox in {}", tree.display())
}

/// The cache's entry NAME, a folder, filled by `fill` where it is not there yet.
pub(crate) fn cached(name: &str, fill: impl FnOnce(&Path) -> Result<()>) -> Result<PathBuf> {
    cache::entry(&cache::lock()?, name, fill)
}

/// FNV-1a: enough to tell one version of a source file from another.
pub(crate) fn digest(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// Runs a command to its end; its output is shown only when it fails.
pub(crate) fn checked(command: &mut Command) -> Result<()> {
    let out = command
        .output()
        .with_context(|| format!("cannot start {}", command.get_program().to_string_lossy()))?;
    if !out.status.success() {
        bail!(
            "{} ended with {}:\n{}{}",
            command.get_program().to_string_lossy(),
            out.status,
            String::from_utf8_lossy(&out.stdout),
            String::from_utf8_lossy(&out.stderr)
        );
    }
    Ok(())
}

/// `cargo xtask setup`: everything, so that later commands find it.
pub(crate) fn run(args: &[String]) -> Result<()> {
    if !args.is_empty() {
        bail!("usage: cargo xtask setup");
    }
    host(Need::Test)?;
    host(Need::Vm)?;
    println!("busybox: {}", busybox()?.display());
    for name in KERNELS {
        let kernel = kernel(name)?;
        println!(
            "kernel {name}: {} ({})",
            kernel.version,
            kernel.image.display()
        );
    }
    for name in mdadm::versions() {
        println!("mdadm {name}: {}", mdadm(name)?.place().display());
    }
    Ok(())
}
