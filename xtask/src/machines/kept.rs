//! What is expensive to make, kept in `target/machines/` until it would be made in another way.

use anyhow::{Context, Result};
use rustix::fs::{FlockOperation, flock};
use std::fs::{self, File};
use std::path::PathBuf;

/// The folder NAME as `fill` makes it from what KEY stands for. One that is of another key is replaced, so that a rebuilt
/// quell does not leave an old machine behind each time.
pub(super) fn kept(
    name: &str,
    key: u64,
    fill: impl FnOnce(&std::path::Path) -> Result<()>,
) -> Result<PathBuf> {
    let top = crate::vm::target_dir().join("machines");
    fs::create_dir_all(&top).with_context(|| format!("cannot make {}", top.display()))?;
    let lock = File::create(top.join("lock"))?;
    flock(&lock, FlockOperation::LockExclusive).context("cannot lock target/machines")?;
    let path = top.join(name);
    let mark = path.join("key");
    let key = format!("{key:016x}");
    if fs::read_to_string(&mark).is_ok_and(|found| found == key) {
        return Ok(path);
    }
    if path.exists() {
        fs::remove_dir_all(&path)?;
    }
    fs::create_dir(&path)?;
    fill(&path)?;
    // Last: what was interrupted has no key.
    fs::write(mark, key)?;
    Ok(path)
}
