//! A case: one TOML file below `tests/vm/` with the machine it wants, what runs in it and what must be seen.

use super::checks::{self, See};
use super::drives::Drive;
use super::machine::Machine;
use crate::setup::{self, KERNELS};
use anyhow::{Context, Result, bail};
use serde::Deserialize;
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

/// One case.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Case {
    /// The file's name without `.case`.
    #[serde(skip)]
    pub(crate) name: String,
    /// What it shows, with the behaviour's number.
    pub(crate) title: String,
    /// Whether the quick run takes it (on one kernel).
    #[serde(default)]
    pub(crate) quick: bool,
    /// The kernels it runs on; all of them where it says nothing.
    #[serde(default)]
    kernels: Vec<String>,
    /// Seconds for each boot.
    #[serde(default = "default_timeout")]
    timeout: u64,
    /// How every boot must end.
    #[serde(default)]
    pub(crate) end: End,
    /// One boot's script.
    #[serde(default)]
    script: Option<String>,
    /// Several boots' scripts, on the same disks.
    #[serde(default)]
    boot: Vec<String>,
    /// Whether the quell binary is in the VM.
    #[serde(default = "yes")]
    pub(crate) quell: bool,
    /// What is usually a failure and is wanted here: `aborted`, `panic`, `trace`.
    #[serde(default)]
    pub(crate) allow: Vec<String>,
    #[serde(default)]
    machine: Wanted,
    /// What must be seen. Empty is a failure.
    #[serde(default)]
    pub(crate) see: Vec<See>,
}

/// How a boot ends.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub(crate) enum End {
    /// The script comes to its end with exit code 0.
    #[default]
    Script,
    /// The machine is reset.
    Reset,
    /// The machine is powered off.
    Poweroff,
}

/// The machine a case wants.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Wanted {
    nvme: u32,
    drive: Vec<Drive>,
    memory: Option<u32>,
    cpus: Option<u32>,
    append: String,
    modules: Option<Vec<String>>,
    /// The version of mdadm and mdmon at /sbin; none where it says nothing.
    mdadm: Option<String>,
    tools: Vec<String>,
    qemu: Vec<String>,
    /// The md module with the wait in HOT_REMOVE_DISK, at `/case/md-mod.ko`, for the script to load before any other of md's.
    md_wait: bool,
}

fn default_timeout() -> u64 {
    300
}

fn yes() -> bool {
    true
}

impl Case {
    fn parse(name: &str, text: &str) -> Result<Self> {
        let mut case: Self = toml::from_str(text)?;
        name.clone_into(&mut case.name);
        if case.script.is_none() == case.boot.is_empty() {
            bail!("it needs either `script` or `boot`");
        }
        checks::validate(&case.see, &case.allow)?;
        for drive in &case.machine.drive {
            drive.validate()?;
        }
        for kernel in &case.kernels {
            if !KERNELS.contains(&kernel.as_str()) {
                bail!("unknown kernel {kernel}");
            }
        }
        Ok(case)
    }

    /// The kernels it runs on.
    pub(crate) fn kernels(&self) -> Vec<&str> {
        if self.kernels.is_empty() {
            KERNELS.to_vec()
        } else {
            self.kernels.iter().map(String::as_str).collect()
        }
    }

    /// The script of each boot.
    pub(crate) fn scripts(&self) -> Vec<&str> {
        self.script
            .iter()
            .chain(&self.boot)
            .map(String::as_str)
            .collect()
    }

    /// Its machine, on a kernel.
    pub(crate) fn machine(&self, kernel: &str) -> Result<Machine> {
        let wanted = &self.machine;
        let mut machine = Machine::new(kernel)?
            .nvme(wanted.nvme)
            .append(&wanted.append)
            .qemu(&wanted.qemu)
            .timeout(Duration::from_secs(self.timeout));
        if let Some(memory) = wanted.memory {
            machine = machine.memory(memory);
        }
        if let Some(cpus) = wanted.cpus {
            machine = machine.cpus(cpus);
        }
        if let Some(modules) = &wanted.modules {
            machine = machine.modules(modules);
        }
        for drive in &wanted.drive {
            machine = machine.drive(drive.clone());
        }
        // Before the tools: they have to be of the same release.
        if let Some(version) = &wanted.mdadm {
            machine = machine.mdadm(version)?;
        }
        for tool in &wanted.tools {
            machine = machine.tool(tool)?;
        }
        if wanted.md_wait {
            machine = machine.file("case/md-mod.ko", &setup::md_with_wait(kernel)?, 0o644);
        }
        Ok(machine)
    }
}

/// Every case, by name.
pub(crate) fn all() -> Result<Vec<Case>> {
    read("tests/vm", Case::parse)
}

/// What `parse` makes of the name and the text of each case file in a folder of the tree, by name.
pub(crate) fn read<T>(folder: &str, parse: fn(&str, &str) -> Result<T>) -> Result<Vec<T>> {
    let dir = super::root().join(folder);
    let mut paths: Vec<PathBuf> = fs::read_dir(&dir)
        .with_context(|| format!("cannot read {}", dir.display()))?
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|ext| ext == "case"))
        .collect();
    paths.sort();
    let one = |path: &PathBuf| {
        let text = fs::read_to_string(path)?;
        parse(
            &path.file_stem().unwrap_or_default().to_string_lossy(),
            &text,
        )
    };
    paths
        .iter()
        .map(|path| one(path).with_context(|| format!("{} is not a case", path.display())))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_case_that_checks_nothing_is_refused() {
        let text = "title = \"x\"\nscript = \"true\"\n";
        assert!(Case::parse("x", text).is_err());
        assert!(Case::parse("x", &format!("{text}[[see]]\nre = \"y\"\n")).is_ok());
        assert!(Case::parse("x", &format!("{text}[[see]]\nsaw = \"y\"\n")).is_err());
    }

    #[test]
    fn every_case_can_be_read() -> Result<()> {
        assert!(!all()?.is_empty());
        Ok(())
    }
}
