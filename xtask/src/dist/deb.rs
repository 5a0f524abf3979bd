//! The .deb, put together by dpkg-deb.

use anyhow::{Context, Result, bail};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::{DESCRIPTION, MAINTAINER, SUMMARY, VERSION};
use crate::install::{self, Entry, What};

/// Both makers of initramfs images answer to this name, dracut as well: they build a new image, with quell in it or, when it
/// has been removed, without.
const TRIGGERS: &str = "activate-noawait update-initramfs\n";

/// The unit is left as it is, but what an administrator enables is to go when the package is purged.
const POSTINST: &str = include_str!("postinst.sh");
const POSTRM: &str = include_str!("postrm.sh");

/// Makes the package in `dir`.
pub(super) fn build(list: &[Entry], dir: &Path, date: u32) -> Result<PathBuf> {
    let stage = tempfile::tempdir()?;
    let root = stage.path().join("quell");
    install::install(list, &root)?;
    let control = root.join("DEBIAN");
    fs::create_dir(&control)?;
    fs::set_permissions(&control, fs::Permissions::from_mode(0o755))?;
    for (name, text, mode) in [
        ("control", self::control(list), 0o644),
        ("md5sums", md5sums(list, &root)?, 0o644),
        ("triggers", TRIGGERS.to_owned(), 0o644),
        ("postinst", POSTINST.to_owned(), 0o755),
        ("postrm", POSTRM.to_owned(), 0o755),
    ] {
        fs::write(control.join(name), text)?;
        fs::set_permissions(control.join(name), fs::Permissions::from_mode(mode))?;
    }
    let deb = dir.join(format!("quell_{VERSION}_amd64.deb"));
    // xz, which Debian's dpkg of every release reads.
    output(
        Command::new("dpkg-deb")
            .args(["--root-owner-group", "-Zxz", "--build"])
            .args([&root, &deb])
            .env("SOURCE_DATE_EPOCH", date.to_string()),
    )?;
    Ok(deb)
}

fn control(list: &[Entry]) -> String {
    // In KiB, every file and folder rounded up.
    let size: usize = list
        .iter()
        .map(|entry| match &entry.what {
            What::File(bytes, _) => bytes.len().div_ceil(1024),
            What::Link(_) => 1,
        })
        .sum::<usize>()
        + super::folders(list).len();
    let description = DESCRIPTION.replace('\n', "\n ");
    format!(
        "Package: quell\nVersion: {VERSION}\nArchitecture: amd64\nMaintainer: {MAINTAINER}\nInstalled-Size: {size}\n\
         Suggests: mdadm, dracut | initramfs-tools\nEnhances: dracut, initramfs-tools, mdadm\nSection: admin\n\
         Priority: optional\nDescription: {SUMMARY}\n {description}\n"
    )
}

fn md5sums(list: &[Entry], root: &Path) -> Result<String> {
    let files = list
        .iter()
        .filter(|entry| matches!(entry.what, What::File(..)));
    output(
        Command::new("md5sum")
            .current_dir(root)
            .args(files.map(|entry| &entry.to)),
    )
}

/// What a package holds. All of it is root's.
pub(super) fn read(deb: &Path) -> Result<Vec<Entry>> {
    for line in output(Command::new("dpkg-deb").arg("--contents").arg(deb))?.lines() {
        let [mode, owner] = [0, 1].map(|at| line.split_whitespace().nth(at).unwrap_or_default());
        if owner != "root/root"
            || !["drwxr-xr-x", "-rwxr-xr-x", "-rw-r--r--", "lrwxrwxrwx"].contains(&mode)
        {
            bail!("{}: {line}", deb.display());
        }
    }
    let root = tempfile::tempdir()?;
    output(
        Command::new("dpkg-deb")
            .arg("--extract")
            .arg(deb)
            .arg(root.path()),
    )?;
    install::below(root.path())
}

fn output(command: &mut Command) -> Result<String> {
    let program = command.get_program().to_string_lossy().into_owned();
    let out = command
        .output()
        .with_context(|| format!("cannot start {program}"))?;
    if !out.status.success() {
        bail!(
            "{program} ended with {}: {}",
            out.status,
            String::from_utf8_lossy(&out.stderr)
        );
    }
    Ok(String::from_utf8(out.stdout)?)
}
