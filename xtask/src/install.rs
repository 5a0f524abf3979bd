//! `cargo xtask install --destdir DIR`: what a package holds, laid out as it is installed.
//!
//! One table says what goes where; packages are made from the same table, so that they cannot differ from it.

use anyhow::{Context, Result, bail};
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Component, Path, PathBuf};

use crate::build;

/// What one entry puts in place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// The shipped binary.
    Binary,
    /// A file of the tree, by its path there.
    File(&'static str),
    /// A symbolic link to this.
    Link(&'static str),
}

/// One thing a package holds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    /// Where it comes from.
    pub(crate) kind: Kind,
    /// Its place below the root, without a leading slash.
    pub(crate) to: &'static str,
    /// Permissions, for what is not a link.
    pub(crate) mode: u32,
}

const fn file(from: &'static str, to: &'static str, mode: u32) -> Entry {
    Entry {
        kind: Kind::File(from),
        to,
        mode,
    }
}

const fn link(to: &'static str, target: &'static str) -> Entry {
    Entry {
        kind: Kind::Link(target),
        to,
        mode: 0o777,
    }
}

/// What a package holds, in the order in which it is put in place: nothing points to what is not there yet.
pub(crate) const TABLE: &[Entry] = &[
    Entry {
        kind: Kind::Binary,
        to: "usr/lib/quell/quell",
        mode: 0o755,
    },
    link("usr/sbin/quell", "../lib/quell/quell"),
    file("README.md", "usr/share/doc/quell/README.md", 0o644),
    file("LICENSE-MIT", "usr/share/doc/quell/LICENSE-MIT", 0o644),
    file(
        "LICENSE-APACHE",
        "usr/share/doc/quell/LICENSE-APACHE",
        0o644,
    ),
    // The drop-in last: from then on shutdowns go through quell.
    link(
        "usr/lib/systemd/system-shutdown/quell.shutdown",
        "../../quell/quell",
    ),
];

/// Puts the table's entries below `destdir` and says what it did.
pub(crate) fn install(table: &[Entry], tree: &Path, binary: &Path, destdir: &Path) -> Result<()> {
    fs::create_dir_all(destdir).with_context(|| format!("cannot make {}", destdir.display()))?;
    let root = fs::canonicalize(destdir)?;
    for entry in table {
        let place = place(&root, entry.to)?;
        match entry.kind {
            Kind::Binary => copy(binary, &place, entry.mode)?,
            Kind::File(from) if !tree.join(from).exists() => {
                eprintln!("install: there is no {from} yet; left out");
                continue;
            }
            Kind::File(from) => copy(&tree.join(from), &place, entry.mode)?,
            Kind::Link(target) => replace(&place, |new| Ok(symlink(target, new)?))?,
        }
        println!("/{}", entry.to);
    }
    Ok(())
}

/// The place of an entry, its folders made. A link on the way that leads out of `root` is refused: nothing is ever written
/// outside.
fn place(root: &Path, to: &str) -> Result<PathBuf> {
    let path = Path::new(to);
    if !path
        .components()
        .all(|part| matches!(part, Component::Normal(_)))
    {
        bail!("{to} is no path below a root");
    }
    let name = path.file_name().context("an entry has a name")?;
    let mut dir = root.to_path_buf();
    for part in path.parent().into_iter().flat_map(Path::components) {
        dir.push(part);
        if !dir.is_symlink() && !dir.exists() {
            fs::create_dir(&dir).with_context(|| format!("cannot make {}", dir.display()))?;
            // Whatever the umask of who makes the package.
            fs::set_permissions(&dir, fs::Permissions::from_mode(0o755))?;
        }
        dir = fs::canonicalize(&dir).with_context(|| format!("cannot follow {}", dir.display()))?;
        if !dir.starts_with(root) {
            bail!("{to} would lie outside, at {}", dir.display());
        }
    }
    Ok(dir.join(name))
}

fn copy(from: &Path, to: &Path, mode: u32) -> Result<()> {
    replace(to, |new| {
        fs::copy(from, new).with_context(|| format!("cannot copy {}", from.display()))?;
        Ok(fs::set_permissions(new, fs::Permissions::from_mode(mode))?)
    })
}

/// Makes the new one beside the old one and renames it: a shutdown in this moment finds the one or the other, and a link
/// that stands at the place is replaced, not followed.
fn replace(to: &Path, make: impl FnOnce(&Path) -> Result<()>) -> Result<()> {
    let mut new = to.as_os_str().to_owned();
    new.push(".quell-new");
    let new = PathBuf::from(new);
    if new.symlink_metadata().is_ok() {
        fs::remove_file(&new)?;
    }
    make(&new)
        .and_then(|()| Ok(fs::rename(&new, to)?))
        .with_context(|| format!("cannot write {}", to.display()))
}

/// Runs the command.
pub(crate) fn run(args: &[String]) -> Result<()> {
    let destdir = match args {
        [one] => one.strip_prefix("--destdir="),
        [flag, dir] if flag == "--destdir" => Some(dir.as_str()),
        _ => None,
    };
    let Some(destdir) = destdir.filter(|dir| !dir.is_empty()) else {
        bail!("usage: cargo xtask install --destdir DIR (the running system is --destdir /)");
    };
    let binary = build::quell()?;
    install(TABLE, &build::root(), &binary, Path::new(destdir))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o7777
    }

    fn tree() -> (tempfile::TempDir, PathBuf) {
        let tree = tempfile::tempdir().unwrap();
        for name in ["README.md", "LICENSE-MIT", "LICENSE-APACHE", "binary"] {
            fs::write(tree.path().join(name), name).unwrap();
        }
        let binary = tree.path().join("binary");
        (tree, binary)
    }

    #[test]
    fn everything_is_in_its_place_and_a_second_run_changes_nothing() {
        let (tree, binary) = tree();
        let to = tempfile::tempdir().unwrap();
        for _ in 0..2 {
            install(TABLE, tree.path(), &binary, &to.path().join("new")).unwrap();
        }
        let usr = to.path().join("new/usr");
        let real = fs::canonicalize(usr.join("lib/quell/quell")).unwrap();
        assert_eq!(fs::read_to_string(&real).unwrap(), "binary");
        assert_eq!(mode(&real), 0o755);
        assert_eq!(mode(&usr.join("lib/quell")), 0o755);
        for link in ["sbin/quell", "lib/systemd/system-shutdown/quell.shutdown"] {
            assert!(usr.join(link).is_symlink());
            assert_eq!(fs::canonicalize(usr.join(link)).unwrap(), real, "{link}");
        }
        assert_eq!(mode(&usr.join("share/doc/quell/LICENSE-MIT")), 0o644);
    }

    #[test]
    fn the_trees_own_folder_is_complete() {
        let tree = build::root();
        assert!(tree.join("LICENSE-MIT").exists() && tree.join("LICENSE-APACHE").exists());
    }

    #[test]
    fn nothing_is_written_outside() {
        let (tree, binary) = tree();
        let (to, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        symlink(outside.path(), to.path().join("usr")).unwrap();
        assert!(install(TABLE, tree.path(), &binary, to.path()).is_err());
        assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 0);
        for bad in ["../x", "/etc/x", "a/../../x", ""] {
            assert!(place(to.path(), bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_link_at_the_place_is_replaced_not_followed() {
        let (tree, binary) = tree();
        let (to, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let victim = outside.path().join("victim");
        fs::write(&victim, "as it was").unwrap();
        fs::create_dir_all(to.path().join("usr/lib/quell")).unwrap();
        symlink(&victim, to.path().join("usr/lib/quell/quell")).unwrap();
        install(TABLE, tree.path(), &binary, to.path()).unwrap();
        assert_eq!(fs::read_to_string(&victim).unwrap(), "as it was");
    }

    #[test]
    fn a_destination_must_be_given() {
        assert!(run(&[]).is_err());
        assert!(run(&["--destdir=".to_owned()]).is_err());
    }
}
