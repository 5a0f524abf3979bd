//! shellcheck over every shell file of the tree, by name or by its first line.

use crate::build::root;
use anyhow::{Context, Result, bail};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Checks them all.
pub(super) fn check() -> Result<String> {
    let files: Vec<PathBuf> = tracked()?
        .into_iter()
        .filter(|path| is_shell(path, &head(path)))
        .collect();
    if files.is_empty() {
        bail!("no shell file found, not even .ci/run");
    }
    let out = Command::new("shellcheck")
        .current_dir(root())
        .args(["--external-sources", "--source-path=SCRIPTDIR"])
        .args(&files)
        .output()
        .context("cannot start shellcheck")?;
    if !out.status.success() {
        bail!(
            "{}{}",
            String::from_utf8_lossy(&out.stdout),
            String::from_utf8_lossy(&out.stderr)
        );
    }
    Ok(format!("{} files", files.len()))
}

/// The tree's files as git knows them, new ones that are not ignored among them.
pub(super) fn tracked() -> Result<Vec<PathBuf>> {
    let out = Command::new("git")
        .current_dir(root())
        .args([
            "ls-files",
            "-z",
            "--cached",
            "--others",
            "--exclude-standard",
        ])
        .output()
        .context("cannot start git")?;
    if !out.status.success() {
        bail!("git ls-files: {}", String::from_utf8_lossy(&out.stderr));
    }
    Ok(String::from_utf8_lossy(&out.stdout)
        .split('\0')
        .filter(|name| !name.is_empty())
        .map(PathBuf::from)
        .filter(|path| root().join(path).is_file())
        .collect())
}

fn head(path: &Path) -> String {
    use std::io::Read;
    let mut start = Vec::new();
    if let Ok(file) = fs::File::open(root().join(path)) {
        // A read that fails leaves an empty start, which is no shell file.
        let _ = file.take(128).read_to_end(&mut start);
    }
    String::from_utf8_lossy(&start).into_owned()
}

fn is_shell(path: &Path, head: &str) -> bool {
    let by_name = path
        .extension()
        .is_some_and(|ext| ["sh", "bash"].iter().any(|shell| ext == *shell));
    let by_line = head
        .lines()
        .next()
        .and_then(|line| line.strip_prefix("#!"))
        .is_some_and(|line| {
            // `#!/usr/bin/env bash` and `#!/bin/sh -e` alike.
            line.split_whitespace()
                .filter_map(|word| word.rsplit('/').next())
                .take(2)
                .any(|word| ["sh", "bash", "dash", "ksh"].contains(&word))
        });
    by_name || by_line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shell_is_known_by_name_or_first_line() {
        let shell = |path: &str, head: &str| is_shell(Path::new(path), head);
        assert!(shell("dracut/module-setup.sh", "check() {"));
        assert!(shell("hooks/quell", "#!/bin/sh -e\n"));
        assert!(shell("hooks/quell", "#!/usr/bin/env bash\n"));
        assert!(shell("x", "#! /bin/dash"));
        assert!(!shell("src/main.rs", "//! x"));
        assert!(!shell("x", "#!/usr/bin/python3"));
    }

    #[test]
    fn the_ci_script_is_among_the_tracked_files() {
        let run = Path::new(".ci/run");
        assert!(tracked().unwrap().iter().any(|path| path == run));
        assert!(is_shell(run, &head(run)));
    }
}
