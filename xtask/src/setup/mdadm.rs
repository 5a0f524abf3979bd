//! mdadm and mdmon as the releases of Debian ship them, unpacked in the cache.

use super::apt::{Suite, unpacked};
use super::elf;
use anyhow::{Context, Result, ensure};
use std::fs;
use std::path::{Path, PathBuf};

/// The versions that go into VMs, oldest first, each with the release that has it.
const RELEASES: &[(&str, &str)] = &[("4.2", "bookworm"), ("4.4", "trixie"), ("4.6", "forky")];

/// Their names.
pub(super) fn versions() -> impl Iterator<Item = &'static str> {
    RELEASES.iter().map(|(version, _)| *version)
}

/// One version in the cache.
#[derive(Clone, Debug)]
pub(crate) struct Mdadm {
    /// The release it comes from.
    pub(crate) suite: Suite,
    tree: PathBuf,
}

/// The version `name`, downloaded where it is not in the cache yet.
pub(crate) fn mdadm(name: &str) -> Result<Mdadm> {
    let (_, codename) = RELEASES
        .iter()
        .find(|(version, _)| *version == name)
        .with_context(|| {
            let names: Vec<&str> = versions().collect();
            format!("no mdadm {name}; there are {}", names.join(", "))
        })?;
    let suite = Suite::Named(codename);
    let mdadm = Mdadm {
        suite,
        tree: unpacked(suite, &["mdadm"])?,
    };
    mdadm.says(name)?;
    Ok(mdadm)
}

impl Mdadm {
    /// Where it is unpacked.
    pub(super) fn place(&self) -> &Path {
        &self.tree
    }

    /// `mdadm` or `mdmon` at /sbin with the libraries it needs: (path in the initramfs, file on the host).
    pub(crate) fn files(&self, program: &str) -> Result<Vec<(String, PathBuf)>> {
        elf::with_libraries(&self.tree, &format!("sbin/{program}"))
    }

    /// A release that is still in the making changes its version.
    fn says(&self, version: &str) -> Result<()> {
        let files = self.files("mdadm")?;
        let (_, program) = files.first().context("mdadm is a file")?;
        let bytes = fs::read(program)?;
        let words = format!("mdadm - v{version}");
        let here = &self.tree;
        ensure!(
            bytes
                .windows(words.len())
                .any(|window| window == words.as_bytes()),
            "{} holds another version than mdadm {version}",
            here.display()
        );
        Ok(())
    }
}
