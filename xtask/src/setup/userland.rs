//! Userlands: small Debian systems of several releases, each with one maker of initramfs images, kept as tar files in the
//! cache. They have no kernel: what boots them brings its own.

use super::apt::{Apt, Suite};
use super::{cache, digest, packages};
use anyhow::{Context, Result, bail};
use std::fs::{self, File};
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// A release of Debian with what makes its initramfs.
#[derive(Clone, Copy, Debug)]
struct Recipe {
    release: &'static str,
    generator: Generator,
}

/// What makes the initramfs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Generator {
    /// `dracut`
    Dracut,
    /// `initramfs-tools`
    InitramfsTools,
}

impl Generator {
    /// The Debian package that it comes in.
    pub(crate) fn package(self) -> &'static str {
        match self {
            Self::Dracut => "dracut",
            Self::InitramfsTools => "initramfs-tools",
        }
    }

    /// The distribution's own command for the image of a kernel that has none yet.
    pub(crate) fn command(self, kernel: &str) -> String {
        match self {
            Self::Dracut => format!("dracut --force /boot/initrd.img-{kernel} {kernel}"),
            Self::InitramfsTools => format!("update-initramfs -c -k {kernel}"),
        }
    }
}

const RECIPES: &[Recipe] = &[
    Recipe {
        release: "bookworm",
        generator: Generator::InitramfsTools,
    },
    Recipe {
        release: "bookworm",
        generator: Generator::Dracut,
    },
    Recipe {
        release: "trixie",
        generator: Generator::InitramfsTools,
    },
    Recipe {
        release: "trixie",
        generator: Generator::Dracut,
    },
    Recipe {
        release: "forky",
        generator: Generator::Dracut,
    },
];

/// What every userland has beside what dpkg calls essential. zstd is what either maker likes best for its image.
const PACKAGES: &[&str] = &[
    "systemd-sysv",
    "udev",
    "kmod",
    "mdadm",
    "e2fsprogs",
    "dmsetup",
    "kexec-tools",
    "zstd",
];

/// What nothing in a VM reads.
const LEFT_OUT: [&str; 5] = ["doc", "info", "i18n", "locale", "man"];

/// A userland in the cache.
#[derive(Clone, Debug)]
pub(crate) struct Userland {
    /// `trixie-dracut`
    pub(crate) name: String,
    /// What makes its initramfs.
    pub(crate) generator: Generator,
    /// The whole root.
    pub(crate) tar: PathBuf,
}

impl Recipe {
    fn name(self) -> String {
        format!("{}-{}", self.release, self.generator.package())
    }
}

/// The names of all of them.
pub(crate) fn userlands() -> impl Iterator<Item = String> {
    RECIPES.iter().map(|recipe| recipe.name())
}

/// The userland `name` with the packages `more`, built where it is not in the cache as this recipe makes it.
pub(crate) fn userland(name: &str, more: &[String]) -> Result<Userland> {
    let Some(recipe) = RECIPES.iter().find(|recipe| recipe.name() == name) else {
        let names: Vec<String> = userlands().collect();
        bail!("no userland {name}; there are {}", names.join(", "));
    };
    packages(&[("mmdebstrap", "builds the userlands of whole machines")])?;
    let mut include: Vec<&str> = PACKAGES.to_vec();
    include.push(recipe.generator.package());
    include.extend(more.iter().map(String::as_str));
    let mut build = Command::new("mmdebstrap");
    build
        // What the machine at hand has in its /sys is nothing to an installation.
        .args(["--variant=minbase", "--skip=chroot/mount/sys"])
        .args(["--aptopt=APT::Install-Recommends \"false\""])
        .args(LEFT_OUT.map(|dir| format!("--dpkgopt=path-exclude=/usr/share/{dir}/*")))
        .arg(format!("--include={}", include.join(",")));
    let id = digest(format!("{build:?}").as_bytes());
    let lock = cache::lock()?;
    let dir = cache::entry(&lock, &format!("userlands/{name}-{id:016x}"), |part| {
        eprintln!("setup: building the userland {name} in the cache, one to two minutes");
        let apt = Apt::new(&lock, Suite::Named(recipe.release))?;
        let tar = File::create(part.join("root.tar"))?;
        let log = part.join("build.log");
        for option in apt.patience()? {
            build.arg(format!("--aptopt={option}"));
        }
        let done = build
            .args([recipe.release, "-"])
            .arg(apt.sources())
            .stdin(Stdio::null())
            .stdout(tar)
            .stderr(File::create(&log)?)
            .status()
            .context("cannot start mmdebstrap")?;
        if !done.success() {
            let said = fs::read_to_string(&log).unwrap_or_default();
            bail!("mmdebstrap ended with {done}:\n{said}");
        }
        Ok(())
    })?;
    Ok(Userland {
        name: name.to_owned(),
        generator: recipe.generator,
        tar: dir.join("root.tar"),
    })
}
