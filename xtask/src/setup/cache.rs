//! The cache folder: `${XDG_CACHE_HOME:-~/.cache}/quell`.
//!
//! An entry is a folder that is filled under another name and renamed when it is whole, under a lock: a run that was
//! interrupted leaves nothing that looks finished, and two runs never fill the same entry.

use anyhow::{Context, Result};
use rustix::fs::{FlockOperation, flock};
use std::fs::{self, File};
use std::path::{Path, PathBuf};

/// The cache's own folder, made if it is not there.
pub(crate) fn root() -> Result<PathBuf> {
    let base = std::env::var_os("XDG_CACHE_HOME")
        .map(PathBuf::from)
        .filter(|path| path.is_absolute())
        .or_else(|| std::env::home_dir().map(|home| home.join(".cache")))
        .context("neither XDG_CACHE_HOME nor HOME is set")?;
    let root = base.join("quell");
    fs::create_dir_all(&root).with_context(|| format!("cannot make {}", root.display()))?;
    Ok(root)
}

/// Holds the cache for one process until it is dropped.
pub(crate) struct Lock {
    _file: File,
}

/// Waits for the cache.
pub(crate) fn lock() -> Result<Lock> {
    let path = root()?.join("lock");
    let file = File::create(&path).with_context(|| format!("cannot open {}", path.display()))?;
    if flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() {
        eprintln!("setup: waiting for another run to leave the cache");
        flock(&file, FlockOperation::LockExclusive).context("cannot lock the cache")?;
    }
    Ok(Lock { _file: file })
}

/// The entry NAME, filled by `fill` where it is not there. The caller holds the lock.
pub(crate) fn entry(
    _lock: &Lock,
    name: &str,
    fill: impl FnOnce(&Path) -> Result<()>,
) -> Result<PathBuf> {
    let path = root()?.join(name);
    if path.exists() {
        return Ok(path);
    }
    let parent = path.parent().context("an entry lies in the cache")?;
    fs::create_dir_all(parent)?;
    let part = path.with_file_name(format!(
        ".part-{}",
        path.file_name().unwrap_or_default().to_string_lossy()
    ));
    if part.exists() {
        fs::remove_dir_all(&part)?;
    }
    fs::create_dir(&part)?;
    fill(&part)?;
    fs::rename(&part, &path).with_context(|| format!("cannot finish {}", path.display()))?;
    Ok(path)
}
