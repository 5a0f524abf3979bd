//! A program from an unpacked tree, with the libraries it needs: what an initramfs has to hold to run it.

use anyhow::{Context, Result};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Where Debian keeps libraries.
const LIBRARY_DIRS: &[&str] = &[
    "usr/lib/x86_64-linux-gnu",
    "lib/x86_64-linux-gnu",
    "usr/lib64",
    "lib64",
    "usr/lib",
    "lib",
    "usr/lib/x86_64-linux-gnu/systemd",
    "usr/lib/systemd",
];

/// The files that `program` (a path inside `tree`, or below its /usr, where newer releases have all of theirs) needs, itself
/// among them: (path in the initramfs, file on the host).
pub(crate) fn with_libraries(tree: &Path, program: &str) -> Result<Vec<(String, PathBuf)>> {
    let program = program.trim_start_matches('/');
    let file = [tree.join(program), tree.join("usr").join(program)]
        .into_iter()
        .find(|path| path.exists())
        .with_context(|| format!("no {program} in {}", tree.display()))?;
    let mut files = vec![(program.to_owned(), file)];
    let mut seen = BTreeSet::new();
    let mut next = 0;
    while let Some((_, file)) = files.get(next).cloned() {
        next += 1;
        for name in needed(&file)? {
            if !seen.insert(name.clone()) {
                continue;
            }
            let found = LIBRARY_DIRS
                .iter()
                .map(|dir| tree.join(dir).join(&name))
                .find(|path| path.exists())
                .with_context(|| {
                    format!(
                        "{} needs {name}, which {} lacks",
                        file.display(),
                        tree.display()
                    )
                })?;
            // The loader's path is fixed in the program; libraries go where it looks first.
            let to = if name.starts_with("ld-linux") {
                format!("lib64/{name}")
            } else {
                format!("lib/x86_64-linux-gnu/{name}")
            };
            files.push((to, found));
        }
    }
    Ok(files)
}

/// The libraries an ELF file names, its loader included. Empty for a static one.
fn needed(file: &Path) -> Result<Vec<String>> {
    let out = Command::new("readelf")
        .arg("-dlW")
        .arg(file)
        .output()
        .context("cannot start readelf")?;
    let text = String::from_utf8_lossy(&out.stdout);
    let mut names = Vec::new();
    for line in text.lines() {
        if let Some((_, rest)) = line.split_once("Shared library: [") {
            names.extend(rest.split(']').next().map(str::to_owned));
        } else if let Some((_, rest)) = line.split_once("program interpreter: ") {
            let path = rest.trim_end_matches(']');
            names.extend(path.rsplit('/').next().map(str::to_owned));
        }
    }
    Ok(names)
}
