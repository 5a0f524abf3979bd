//! Where the standard library comes from, and the cargo runs that follow from it.

use super::{TARGET, cargo};
use crate::setup;
use anyhow::{Context, Result, bail};
use std::ffi::OsString;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::str::FromStr;

/// Which standard library goes into the binary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Std {
    /// Built from rustup's rust-src.
    Rustup,
    /// Built by Debian's compiler from Debian's source, both unpacked in the cache.
    Debian,
    /// The one that comes with the toolchain: what a packager's plain build takes.
    Prebuilt,
}

impl FromStr for Std {
    type Err = anyhow::Error;

    fn from_str(name: &str) -> Result<Self> {
        match name {
            "rustup" => Ok(Self::Rustup),
            "debian" => Ok(Self::Debian),
            "prebuilt" => Ok(Self::Prebuilt),
            _ => bail!("no std called {name}; there are rustup, debian and prebuilt"),
        }
    }
}

impl fmt::Display for Std {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Rustup => "own std from rustup's rust-src",
            Self::Debian => "own std from Debian's packages",
            Self::Prebuilt => "the toolchain's prebuilt std",
        })
    }
}

/// Cargo's flags for a std of our own.
const OWN_STD: &[&str] = &[
    "-Zbuild-std=std,panic_abort",
    "-Zbuild-std-features=optimize_for_size",
    // Where it was built is nobody's business, and of no use anywhere else.
    "-Ztrim-paths",
    "--config=profile.release.trim-paths=true",
];

/// rustup's source of std where it is there or can be had, else Debian's.
pub(super) fn best() -> Result<Std> {
    match ready_rustup() {
        Ok(()) => Ok(Std::Rustup),
        Err(error) => {
            eprintln!("build: no std source from rustup ({error:#}); taking Debian's");
            Ok(Std::Debian)
        }
    }
}

/// The compiler that cargo will use.
fn rustc() -> OsString {
    std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into())
}

fn sysroot() -> Result<PathBuf> {
    let out = Command::new(rustc())
        .args(["--print", "sysroot"])
        .output()
        .context("cannot start rustc")?;
    if !out.status.success() {
        bail!("rustc --print sysroot ended with {}", out.status);
    }
    Ok(PathBuf::from(String::from_utf8(out.stdout)?.trim()))
}

/// Whether the toolchain has the source of std.
pub(crate) fn has_std_source() -> Result<bool> {
    Ok(sysroot()?
        .join("lib/rustlib/src/rust/library/Cargo.lock")
        .exists())
}

/// The source of std, and musl's crt and libc (which only the target's own package holds).
fn ready_rustup() -> Result<()> {
    if !has_std_source()? {
        rustup(&["component", "add", "rust-src"])?;
    }
    if !rustup_target(TARGET)? {
        bail!("the target {TARGET} cannot be had");
    }
    Ok(())
}

/// Whether the toolchain has the prebuilt std of a target; asks rustup for it where not.
pub(crate) fn rustup_target(target: &str) -> Result<bool> {
    let lib = sysroot()?.join("lib/rustlib").join(target).join("lib");
    if !lib.exists()
        && let Err(error) = rustup(&["target", "add", target])
    {
        eprintln!("build: {error:#}");
    }
    Ok(lib.exists())
}

/// Makes sure of toolchain components such as clippy.
pub(crate) fn components(names: &[&str]) -> Result<()> {
    for name in names {
        // `cargo fmt` and `cargo clippy` are the commands of rustfmt and clippy.
        let command = if *name == "rustfmt" { "fmt" } else { name };
        let found = cargo::cargo()
            .args([command, "--version"])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()
            .is_ok_and(|status| status.success());
        if !found {
            rustup(&["component", "add", name])?;
        }
    }
    Ok(())
}

fn rustup(args: &[&str]) -> Result<()> {
    eprintln!("setup: rustup {}", args.join(" "));
    let status = Command::new("rustup")
        .args(args)
        .stdout(Stdio::null())
        .status()
        .context("there is no rustup")?;
    if !status.success() {
        bail!("rustup {} ended with {status}", args.join(" "));
    }
    Ok(())
}

fn release(cargo: &mut Command) -> &mut Command {
    cargo.args([
        "build",
        "--locked",
        "--release",
        "--package",
        "quell",
        "--target",
        TARGET,
    ])
}

/// What a packager types.
pub(super) fn with_prebuilt() -> Result<PathBuf> {
    if !rustup_target(TARGET)? {
        bail!("the toolchain has no std for {TARGET}");
    }
    cargo::executable(release(&mut cargo::cargo()))
}

pub(super) fn with_rustup() -> Result<PathBuf> {
    ready_rustup()?;
    let target_dir = cargo::target_dir()?.join("own-std");
    let unwinder = target_dir.join("no-unwinder");
    no_unwinder("cc", &unwinder)?;
    let mut command = cargo::cargo();
    release(&mut command)
        .args(OWN_STD)
        // Beside the flags in .cargo/config.toml, which the environment would replace.
        .arg("--config")
        .arg(format!(
            "target.{TARGET}.rustflags = [\"-Lnative={}\"]",
            unwinder.display()
        ))
        .env("RUSTC_BOOTSTRAP", "1")
        .arg("--target-dir")
        .arg(target_dir);
    let chosen = "CARGO_TARGET_X86_64_UNKNOWN_LINUX_MUSL_LINKER";
    if std::env::var_os(chosen).is_none() && has_lld(&sysroot()?) {
        command.env(chosen, "rust-lld");
    }
    cargo::executable(&mut command)
}

/// rust-lld lies in the host's folder of the toolchain; it leaves out some KiB that GNU ld keeps.
fn has_lld(sysroot: &Path) -> bool {
    let Ok(dirs) = fs::read_dir(sysroot.join("lib/rustlib")) else {
        return false;
    };
    dirs.flatten()
        .any(|dir| dir.path().join("bin/rust-lld").exists())
}

/// Debian's newest compilers: `-web` is the one kept new for browsers, the plain one is enough on later releases.
const DEBIAN_SETS: &[&[&str]] = &[
    &["cargo-web", "rust-web-src", "rustc-web"],
    &["cargo", "rust-src", "rustc"],
];

/// What std's backtraces ask of an unwinder. A binary that aborts on panic never unwinds, so a backtrace that is empty is
/// all that is lost; and it would tell nothing, without symbols. LLVM's libunwind, which rustup brings, is a tenth of the
/// file; Debian has none for musl, and gcc's own is made for glibc.
const NO_UNWINDER: &str = "int _Unwind_Backtrace(void *trace, void *arg) { (void)trace; (void)arg; return 5; }\n\
                           unsigned long _Unwind_GetIP(void *context) { (void)context; return 0; }\n";

pub(super) fn with_debian() -> Result<PathBuf> {
    setup::packages(&[
        ("gcc", "links the binary"),
        (
            "musl-tools",
            "musl's libc, which Debian's Rust does not bring",
        ),
    ])?;
    let mut tree = Err(anyhow::anyhow!("no Rust in Debian's archive"));
    for set in DEBIAN_SETS {
        tree = setup::unpacked(setup::Suite::Host, set);
        if tree.is_ok() {
            break;
        }
    }
    let tree = tree?;
    let target_dir = cargo::target_dir()?.join("debian-std");
    let libraries = target_dir.join("host-libraries");
    link_libraries(&tree, &libraries)?;
    let unwinder = target_dir.join("no-unwinder");
    no_unwinder("musl-gcc", &unwinder)?;

    // Debian's musl-gcc knows no static-pie.
    let flags = [
        "-Ctarget-feature=+crt-static".to_owned(),
        "-Clink-self-contained=no".to_owned(),
        "-Crelocation-model=static".to_owned(),
        "-Cforce-unwind-tables=no".to_owned(),
        format!("-Lnative={}", unwinder.display()),
    ];
    let bin = tree.join("usr/bin");
    let mut command = cargo::with(bin.join("cargo"));
    release(&mut command)
        .args(OWN_STD)
        .arg("--target-dir")
        .arg(&target_dir)
        .env("RUSTC_BOOTSTRAP", "1")
        .env("RUSTC", bin.join("rustc"))
        .env("RUSTDOC", bin.join("rustdoc"))
        .env("LD_LIBRARY_PATH", &libraries)
        .env("CARGO_TARGET_X86_64_UNKNOWN_LINUX_MUSL_LINKER", "musl-gcc")
        .env("CARGO_ENCODED_RUSTFLAGS", flags.join("\x1f"))
        .env_remove("RUSTUP_TOOLCHAIN")
        .env_remove("RUSTFLAGS");
    cargo::executable(&mut command)
}

/// One folder with a link to each library of the unpacked tree, less libc's own: those must be of the same build as the
/// machine's loader, and so come from the machine.
fn link_libraries(tree: &Path, into: &Path) -> Result<()> {
    if into.exists() {
        fs::remove_dir_all(into)?;
    }
    fs::create_dir_all(into)?;
    for dir in ["usr/lib/x86_64-linux-gnu", "lib/x86_64-linux-gnu"] {
        let Ok(entries) = fs::read_dir(tree.join(dir)) else {
            continue;
        };
        for entry in entries.flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            let link = into.join(&name);
            if name.contains(".so") && !of_libc(&name) && !link.is_symlink() {
                std::os::unix::fs::symlink(entry.path(), &link)?;
            }
        }
    }
    Ok(())
}

fn of_libc(name: &str) -> bool {
    const PARTS: &[&str] = &[
        "ld-linux",
        "libc.",
        "libm.",
        "libmvec.",
        "libdl.",
        "librt.",
        "libpthread.",
        "libresolv.",
        "libutil.",
        "libnss_",
        "libanl.",
        "libBrokenLocale.",
        "libnsl.",
        "libthread_db.",
        "libc_malloc_debug.",
        "libmemusage.",
        "libpcprofile.",
        "libSegFault.",
    ];
    PARTS.iter().any(|part| name.starts_with(part))
}

fn no_unwinder(compiler: &str, into: &Path) -> Result<()> {
    fs::create_dir_all(into)?;
    let (source, object) = (into.join("none.c"), into.join("none.o"));
    fs::write(&source, NO_UNWINDER)?;
    let archive = into.join("libunwind.a");
    let _ = fs::remove_file(&archive);
    setup::checked(
        match compiler {
            "cc" => Command::new("cc"),
            _ => Command::new("musl-gcc"),
        }
        .args(["-Os", "-fPIC", "-c", "-o"])
        .arg(&object)
        .arg(&source),
    )?;
    setup::checked(Command::new("ar").arg("rcs").arg(&archive).arg(&object))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libc_and_its_kin_come_from_the_machine() {
        for name in [
            "libc.so.6",
            "ld-linux-x86-64.so.2",
            "libpthread.so.0",
            "libm.so.6",
        ] {
            assert!(of_libc(name), "{name}");
        }
        for name in [
            "libcurl.so.4",
            "libLLVM.so.22.1",
            "libmbedtls.so.14",
            "libstdc++.so.6",
        ] {
            assert!(!of_libc(name), "{name}");
        }
    }

    #[test]
    fn an_unknown_std_is_refused() {
        assert_eq!("debian".parse::<Std>().ok(), Some(Std::Debian));
        assert!("nightly".parse::<Std>().is_err());
    }
}
