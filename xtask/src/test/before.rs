//! What an earlier run of the same tree has passed, so that a run of hours that was cut off need not begin anew.

use anyhow::{Context, Result, bail};
use std::collections::BTreeSet;
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The steps that have passed, one a line behind the name of the tree they passed on.
#[derive(Debug)]
pub(super) struct Before {
    file: PathBuf,
    passed: BTreeSet<String>,
}

impl Before {
    /// Reads what was kept; with `resume` unset, or of another tree, it counts for nothing and is begun anew.
    pub(super) fn open(file: PathBuf, resume: bool) -> Result<Self> {
        Self::of_tree(file, resume, &tree(&crate::build::root())?)
    }

    fn of_tree(file: PathBuf, resume: bool, tree: &str) -> Result<Self> {
        let text = fs::read_to_string(&file).unwrap_or_default();
        let mut lines = text.lines();
        let same = lines.next() == Some(tree);
        if resume && same {
            let passed = lines.map(str::to_owned).collect();
            return Ok(Self { file, passed });
        }
        if let Some(dir) = file.parent() {
            fs::create_dir_all(dir)?;
        }
        fs::write(&file, format!("{tree}\n"))
            .with_context(|| format!("cannot write {}", file.display()))?;
        Ok(Self {
            file,
            passed: BTreeSet::new(),
        })
    }

    /// Whether it has passed.
    pub(super) fn has(&self, name: &str) -> bool {
        self.passed.contains(name)
    }

    /// It has passed now. What cannot be kept is only done once more.
    pub(super) fn add(&mut self, name: &str) {
        if self.passed.insert(name.to_owned())
            && let Ok(mut file) = fs::OpenOptions::new().append(true).open(&self.file)
        {
            let _ = writeln!(file, "{name}");
        }
    }
}

/// A name for all that the tests depend on: what is in the files, whatever commit that is. Figures that were measured are no
/// part of it.
fn tree(checkout: &Path) -> Result<String> {
    let mut hasher = DefaultHasher::new();
    for args in [
        &["ls-files", "--stage"][..],
        &["diff", "--binary"],
        &["ls-files", "--others", "--exclude-standard"],
    ] {
        let out = Command::new("git")
            .current_dir(checkout)
            .args(args)
            .args(["--", ".", ":(exclude)BENCHMARKS.md"])
            .output()
            .context("cannot run git")?;
        if !out.status.success() {
            bail!("this is no git checkout: what is tested has no name");
        }
        out.stdout.hash(&mut hasher);
    }
    Ok(format!("{:016x}", hasher.finish()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_passed_on_this_tree_need_not_be_done_again() {
        let dir = tempfile::tempdir().unwrap();
        let file = || dir.path().join("all/passed");
        let mut first = Before::of_tree(file(), false, "tree").unwrap();
        first.add("vm a on 6.1");
        let again = Before::of_tree(file(), true, "tree").unwrap();
        assert!(again.has("vm a on 6.1") && !again.has("vm a on 6.12"));
        assert!(
            !Before::of_tree(file(), true, "another")
                .unwrap()
                .has("vm a on 6.1")
        );
        assert!(
            !Before::of_tree(file(), true, "tree")
                .unwrap()
                .has("vm a on 6.1")
        );
    }

    #[test]
    fn a_tree_is_what_is_in_its_files() -> Result<()> {
        let dir = tempfile::tempdir()?;
        let git = |args: &[&str]| {
            let mut git = Command::new("git");
            git.current_dir(dir.path())
                .env("GIT_CONFIG_GLOBAL", "/dev/null");
            git.args(["-c", "user.name=x", "-c", "user.email=x@example.org"]);
            crate::setup::checked(git.args(args))
        };
        let write = |name: &str, text: &str| fs::write(dir.path().join(name), text);
        git(&["init", "-q"])?;
        write("code", "1")?;
        git(&["add", "."])?;
        git(&["commit", "-q", "-m", "one"])?;
        let first = tree(dir.path())?;
        git(&["commit", "-q", "--amend", "-m", "by another name"])?;
        write("BENCHMARKS.md", "1 s")?;
        assert_eq!(tree(dir.path())?, first);
        write("code", "2")?;
        let second = tree(dir.path())?;
        assert_ne!(second, first);
        write("more", "")?;
        assert_ne!(tree(dir.path())?, second);
        Ok(())
    }

    #[test]
    fn who_does_not_ask_for_it_begins_anew() {
        let dir = tempfile::tempdir().unwrap();
        let file = || dir.path().join("passed");
        Before::of_tree(file(), false, "tree").unwrap().add("a");
        Before::of_tree(file(), false, "tree").unwrap();
        assert!(!Before::of_tree(file(), true, "tree").unwrap().has("a"));
    }
}
