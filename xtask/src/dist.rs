//! `cargo xtask dist`: a .deb and an .rpm in `target/dist`, both of the list that `install` puts in place.
//!
//! Nothing in them needs anything: the binary is static. Each is read back before it is shown.

mod deb;
mod rpm;

use anyhow::{Context, Result, bail};
use std::fs;
use std::path::{Path, PathBuf};

use crate::build;
use crate::install::{self, Entry};

const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Who is to be written to is not settled: nobody gets mail there.
const MAINTAINER: &str = "the quell authors <quell@quell.invalid>";

const SUMMARY: &str = "assemble Intel RAID at boot, shut down NVMe controllers side by side";

const DESCRIPTION: &str = "\
At boot, quell assembles Intel RAID (IMSM, known as VROC and RST) arrays in
the initramfs of dracut or initramfs-tools. In the last second of a shutdown
it stops them and tells every NVMe controller that nobody uses to shut down,
many at once, where the kernel would take one after the other.";

/// The one unit that can be enabled. The packages leave that to the administrator, and take back what he did.
const UNIT: &str = "quell-exitrd.service";

/// Runs the command.
pub(crate) fn run(args: &[String]) -> Result<()> {
    if !args.is_empty() {
        bail!("usage: cargo xtask dist");
    }
    let binary = build::quell()?;
    let list = install::list(&build::root(), &binary)?;
    speaks_of_no_builder(&fs::read(&binary)?)?;
    let dir = build::target_dir()?.join("dist");
    fs::create_dir_all(&dir).with_context(|| format!("cannot make {}", dir.display()))?;
    for package in packages(&list, &dir, date()?)? {
        let size = fs::metadata(&package)?.len();
        println!("{} ({} KiB)", package.display(), size.div_ceil(1024));
    }
    Ok(())
}

/// The .deb alone, at `to`, for a machine in a VM: of no date, so that it is another one only where it holds something else.
pub(crate) fn deb(to: &Path) -> Result<()> {
    let list = install::list(&build::root(), &build::quell()?)?;
    let dir = tempfile::tempdir()?;
    fs::copy(deb::build(&list, dir.path(), 0)?, to)?;
    Ok(())
}

/// Makes both packages in `dir` and reads them back.
fn packages(list: &[Entry], dir: &Path, date: u32) -> Result<[PathBuf; 2]> {
    let deb = deb::build(list, dir, date)?;
    holds(&deb, &deb::read(&deb)?, list)?;
    let rpm = rpm::build(list, dir, date)?;
    holds(&rpm, &rpm::read(&rpm)?, list)?;
    Ok([deb, rpm])
}

/// Compares what a package holds with what it should hold.
fn holds(package: &Path, found: &[Entry], list: &[Entry]) -> Result<()> {
    let differs = |a: &[Entry], b: &[Entry]| {
        let odd = a.iter().find(|entry| !b.contains(entry));
        odd.map(|entry| entry.to.clone())
    };
    match differs(list, found).or_else(|| differs(found, list)) {
        Some(to) => bail!("{}: /{to} is not as it should be", package.display()),
        None => Ok(()),
    }
}

/// The time that everything in the packages bears: that of the last commit, so that who builds the same gets the same.
fn date() -> Result<u32> {
    if let Ok(date) = std::env::var("SOURCE_DATE_EPOCH") {
        return date
            .parse()
            .context("SOURCE_DATE_EPOCH is no number of seconds");
    }
    let git = std::process::Command::new("git")
        .current_dir(build::root())
        .args(["log", "-1", "--format=%ct"])
        .output();
    let said = git.map(|out| out.stdout).unwrap_or_default();
    // A tree without its history has the time of its newest part that is always there.
    match String::from_utf8_lossy(&said).trim().parse() {
        Ok(date) => Ok(date),
        Err(_) => {
            let changed = fs::metadata(build::root().join("Cargo.lock"))?.modified()?;
            let since = changed.duration_since(std::time::UNIX_EPOCH)?;
            Ok(u32::try_from(since.as_secs())?)
        }
    }
}

/// Refuses a binary that names a folder of the machine it was built on.
fn speaks_of_no_builder(binary: &[u8]) -> Result<()> {
    let home = std::env::var_os("HOME").map(PathBuf::from);
    let here = [Some(build::root()), Some(build::target_dir()?), home];
    for place in here.into_iter().flatten() {
        // With a slash at its end: `/proc/1/root` is not somebody's home.
        let place = place.join("");
        let name = place.as_os_str().as_encoded_bytes();
        if name != b"/" && binary.windows(name.len()).any(|part| part == name) {
            bail!("the binary speaks of {}", place.display());
        }
    }
    Ok(())
}

/// Every folder that the entries lie in, outermost first.
fn folders(list: &[Entry]) -> Vec<&Path> {
    let ancestors = list
        .iter()
        .flat_map(|entry| Path::new(&entry.to).ancestors().skip(1));
    let mut folders: Vec<&Path> = ancestors.filter(|path| *path != Path::new("")).collect();
    folders.sort();
    folders.dedup();
    folders
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::install::What;

    fn list() -> Vec<Entry> {
        let binary = tempfile::NamedTempFile::new().unwrap();
        fs::write(&binary, "binary").unwrap();
        install::list(&build::root(), binary.path()).unwrap()
    }

    #[test]
    fn both_packages_hold_the_list_and_are_the_same_every_time() {
        let (first, second) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let date = 1_700_000_000;
        let packages = |dir: &Path| {
            packages(&list(), dir, date)
                .unwrap()
                .map(|path| fs::read(path).unwrap())
        };
        assert!(packages(first.path()) == packages(second.path()));
    }

    #[test]
    fn what_differs_is_named() {
        let list = list();
        let mut other = list.clone();
        let last = other.last_mut().unwrap();
        last.what = What::Link("elsewhere".to_owned());
        let name = last.to.clone();
        for (found, list) in [(&other, &list), (&list, &other)] {
            let error = holds(Path::new("x.deb"), found, list)
                .unwrap_err()
                .to_string();
            assert!(error.contains(&name), "{error}");
        }
        assert!(holds(Path::new("x.deb"), &list[1..], &list).is_err());
        assert!(holds(Path::new("x.deb"), &list, &list[1..]).is_err());
    }

    #[test]
    fn the_one_unit_is_the_one_the_scripts_know() {
        let list = list();
        let units = list
            .iter()
            .filter(|entry| entry.to.starts_with("usr/lib/systemd/system/"));
        let units: Vec<&str> = units
            .filter_map(|entry| entry.to.rsplit('/').next())
            .collect();
        assert_eq!(units, [UNIT]);
        for script in [
            include_str!("dist/postinst.sh"),
            include_str!("dist/postrm.sh"),
        ] {
            assert!(script.contains(UNIT));
        }
    }

    #[test]
    fn the_changelog_is_of_this_version_and_names_who_made_it() {
        let text = fs::read_to_string(build::root().join("doc/changelog")).unwrap();
        assert!(text.starts_with(&format!("quell ({VERSION}) ")));
        assert!(text.contains(&format!("\n -- {MAINTAINER}  ")));
    }

    #[test]
    fn a_binary_that_speaks_of_where_it_was_built_is_refused() {
        let place = build::root().join("src/main.rs");
        assert!(speaks_of_no_builder(place.as_os_str().as_encoded_bytes()).is_err());
        assert!(speaks_of_no_builder(b"src/main.rs").is_ok());
    }
}
