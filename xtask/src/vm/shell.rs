//! shellcheck over the scripts in cases, each with the prelude before it.

use super::{all_cases, initramfs::PRELUDE};
use crate::setup::{self, Need};
use anyhow::{Context, Result, ensure};
use std::fs;
use std::process::Command;

#[test]
fn the_cases_scripts_are_clean() -> Result<()> {
    let mut scripts = Vec::new();
    for case in all_cases()? {
        for (n, script) in case.scripts().iter().enumerate() {
            scripts.push((
                format!("{}.{}", case.name, n + 1),
                format!("{PRELUDE}{script}"),
            ));
        }
    }
    check(&scripts)
}

/// What shellcheck has to say of scripts, by name, is an error.
pub(crate) fn check(scripts: &[(String, String)]) -> Result<()> {
    setup::host(Need::Test)?;
    let dir = tempfile::tempdir()?;
    let mut files = Vec::new();
    for (name, text) in scripts {
        let file = dir.path().join(format!("{name}.sh"));
        fs::write(&file, text)?;
        files.push(file);
    }
    let out = Command::new("shellcheck")
        // What a case does not use of the prelude is no fault.
        .args(["--shell=sh", "--exclude=SC2034,SC2317,SC2329"])
        .args(&files)
        .output()
        .context("cannot start shellcheck")?;
    let said = String::from_utf8_lossy(&out.stdout);
    ensure!(out.status.success(), "{said}");
    Ok(())
}
