//! `cargo xtask install --destdir DIR`: what a package holds, laid out as it is installed.
//!
//! One list says what goes where; packages are made from the same list, so that they cannot differ from it. Most of it comes
//! from folders that are laid out as they are installed.

use anyhow::{Context, Result, bail};
use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Component, Path, PathBuf};

use crate::{build, docs};

/// What one entry puts in place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum What {
    /// A file of these bytes, executable or not.
    File(Vec<u8>, bool),
    /// A symbolic link to this.
    Link(String),
}

/// One thing a package holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    /// Its place below the root, without a leading slash.
    pub(crate) to: String,
    /// What stands there.
    pub(crate) what: What,
}

impl Entry {
    fn file(to: &str, bytes: Vec<u8>) -> Self {
        Self {
            to: to.to_owned(),
            what: What::File(bytes, false),
        }
    }

    fn link(to: &str, target: &str) -> Self {
        Self {
            to: to.to_owned(),
            what: What::Link(target.to_owned()),
        }
    }

    /// Permissions; a link has none of its own.
    pub(crate) fn mode(&self) -> u32 {
        match self.what {
            What::File(_, true) => 0o755,
            What::File(_, false) => 0o644,
            What::Link(_) => 0o777,
        }
    }
}

/// Files that say something, by their names in the tree. Debian asks for the last.
const TEXTS: [&str; 4] = [
    "README.md",
    "LICENSE-MIT",
    "LICENSE-APACHE",
    "doc/copyright",
];

/// From the moment these are there, shutdowns go through quell.
const DROP_INS: &str = "usr/lib/systemd/system-shutdown/";

/// What a package holds, in the order in which it is put in place: nothing points to what is not there yet.
pub(crate) fn list(tree: &Path, binary: &Path) -> Result<Vec<Entry>> {
    let read =
        |path: &Path| fs::read(path).with_context(|| format!("cannot read {}", path.display()));
    let mut list = vec![
        Entry {
            to: "usr/lib/quell/quell".to_owned(),
            what: What::File(read(binary)?, true),
        },
        Entry::link("usr/sbin/quell", "../lib/quell/quell"),
    ];
    for text in TEXTS {
        let bytes = read(&tree.join(text))?;
        let name = text.trim_start_matches("doc/");
        list.push(Entry::file(&format!("usr/share/doc/quell/{name}"), bytes));
    }
    list.push(Entry::file(
        "usr/share/doc/quell/changelog.gz",
        docs::gzip(&read(&tree.join("doc/changelog"))?)?,
    ));
    for (to, bytes) in docs::all(tree)? {
        list.push(Entry::file(to, bytes));
    }
    // Debian's zsh looks here only.
    list.push(Entry::link(
        "usr/share/zsh/vendor-completions/_quell",
        "../site-functions/_quell",
    ));
    for folder in names(tree)?.iter().map(|name| tree.join(name)) {
        // Such a folder is laid out as it is installed.
        if folder.join("usr").is_dir() {
            walk(&folder, "", &mut list)?;
        }
    }
    list.sort_by_key(|entry| entry.to.starts_with(DROP_INS));
    Ok(list)
}

/// What is in a folder, in order.
fn names(folder: &Path) -> Result<Vec<OsString>> {
    let cannot = || format!("cannot read {}", folder.display());
    let mut names = Vec::new();
    for entry in fs::read_dir(folder).with_context(cannot)? {
        names.push(entry.with_context(cannot)?.file_name());
    }
    names.sort();
    Ok(names)
}

/// Everything in `folder`, which stands for `to`, with everything below it.
fn walk(folder: &Path, to: &str, list: &mut Vec<Entry>) -> Result<()> {
    for name in names(folder)? {
        let path = folder.join(&name);
        let cannot = || format!("cannot read {}", path.display());
        let name = name.into_string().ok().with_context(cannot)?;
        let to = match to {
            "" => name,
            to => format!("{to}/{name}"),
        };
        let meta = path.symlink_metadata().with_context(cannot)?;
        if meta.is_dir() {
            walk(&path, &to, list)?;
        } else if meta.is_symlink() {
            let target = fs::read_link(&path).with_context(cannot)?;
            list.push(Entry::link(&to, target.to_str().with_context(cannot)?));
        } else {
            let executable = meta.permissions().mode() & 0o100 != 0;
            let what = What::File(fs::read(&path).with_context(cannot)?, executable);
            list.push(Entry { to, what });
        }
    }
    Ok(())
}

/// What has been put below a folder.
pub(crate) fn below(folder: &Path) -> Result<Vec<Entry>> {
    let mut list = Vec::new();
    walk(folder, "", &mut list)?;
    Ok(list)
}

/// Puts the entries below `destdir`.
pub(crate) fn install(list: &[Entry], destdir: &Path) -> Result<()> {
    fs::create_dir_all(destdir).with_context(|| format!("cannot make {}", destdir.display()))?;
    let root = fs::canonicalize(destdir)?;
    for entry in list {
        let place = place(&root, &entry.to)?;
        match &entry.what {
            What::File(bytes, _) => write(bytes, &place, entry.mode())?,
            What::Link(target) => replace(&place, |new| Ok(symlink(target, new)?))?,
        }
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

fn write(bytes: &[u8], to: &Path, mode: u32) -> Result<()> {
    replace(to, |new| {
        fs::write(new, bytes)?;
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
    let list = list(&build::root(), &build::quell()?)?;
    install(&list, Path::new(destdir))?;
    for entry in &list {
        println!("/{}", entry.to);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o7777
    }

    /// The tree's own list, with a binary of one word.
    fn entries() -> Vec<Entry> {
        let binary = tempfile::NamedTempFile::new().unwrap();
        fs::write(&binary, "binary").unwrap();
        list(&build::root(), binary.path()).unwrap()
    }

    #[test]
    fn everything_is_in_its_place_and_a_second_run_changes_nothing() {
        let to = tempfile::tempdir().unwrap();
        for _ in 0..2 {
            install(&entries(), &to.path().join("new")).unwrap();
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
        let mut installed = below(&to.path().join("new")).unwrap();
        let mut list = entries();
        list.sort_by(|a, b| a.to.cmp(&b.to));
        installed.sort_by(|a, b| a.to.cmp(&b.to));
        assert!(installed == list, "what is installed is not what is listed");
    }

    #[test]
    fn every_place_is_below_usr_and_listed_once_and_links_lead_to_one() {
        let list = entries();
        for entry in &list {
            assert!(entry.to.starts_with("usr/"), "{}", entry.to);
            let same = list.iter().filter(|other| other.to == entry.to).count();
            assert_eq!(same, 1, "{}", entry.to);
            if let What::Link(target) = &entry.what {
                assert!(!target.starts_with('/'), "{}: {target}", entry.to);
            }
        }
        let last = list.last().unwrap();
        assert!(last.to.starts_with(DROP_INS), "{}", last.to);
    }

    #[test]
    fn folders_are_walked_as_they_are() {
        let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let dir = from.path().join("usr/share");
        fs::create_dir_all(&dir).unwrap();
        for (name, mode) in [("run", 0o700), ("read", 0o600)] {
            fs::write(dir.join(name), name).unwrap();
            fs::set_permissions(dir.join(name), fs::Permissions::from_mode(mode)).unwrap();
        }
        symlink("run", dir.join("link")).unwrap();
        install(&below(from.path()).unwrap(), to.path()).unwrap();
        let dir = to.path().join("usr/share");
        assert_eq!(mode(&dir.join("run")), 0o755);
        assert_eq!(mode(&dir.join("read")), 0o644);
        assert_eq!(fs::read_link(dir.join("link")).unwrap(), Path::new("run"));
    }

    #[test]
    fn nothing_is_written_outside() {
        let (to, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        symlink(outside.path(), to.path().join("usr")).unwrap();
        assert!(install(&entries(), to.path()).is_err());
        assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 0);
        for bad in ["../x", "/etc/x", "a/../../x", ""] {
            assert!(place(to.path(), bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_link_at_the_place_is_replaced_not_followed() {
        let (to, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let victim = outside.path().join("victim");
        fs::write(&victim, "as it was").unwrap();
        fs::create_dir_all(to.path().join("usr/lib/quell")).unwrap();
        symlink(&victim, to.path().join("usr/lib/quell/quell")).unwrap();
        install(&entries(), to.path()).unwrap();
        assert_eq!(fs::read_to_string(&victim).unwrap(), "as it was");
    }

    #[test]
    fn a_destination_must_be_given() {
        assert!(run(&[]).is_err());
        assert!(run(&["--destdir=".to_owned()]).is_err());
    }
}
