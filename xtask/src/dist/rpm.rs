//! The .rpm, made by the rpm crate.

use anyhow::{Context, Result, bail};
use rpm::{
    BuildConfig, CompressionType, Dependency, FileOptions, FileType, Package, PackageBuilder,
};
use std::path::{Path, PathBuf};

use super::{DESCRIPTION, MAINTAINER, SUMMARY, UNIT, VERSION};
use crate::install::{Entry, What};

/// Folders that every system has, and that the package therefore does not own. Others go when it goes, where they are empty.
const SYSTEM: &[&str] = &[
    "usr",
    "usr/lib",
    "usr/lib/systemd",
    "usr/lib/systemd/system",
    "usr/lib/systemd/system-preset",
    "usr/lib/systemd/system-shutdown",
    "usr/sbin",
    "usr/share",
    "usr/share/doc",
    "usr/share/man",
    "usr/share/man/man7",
    "usr/share/man/man8",
];

/// SUSE builds new initramfs images at the end of a transaction in which somebody asked for it; Fedora and its kin leave that
/// to the administrator.
const REGENERATE: &str = "\
again=/usr/lib/module-init-tools/regenerate-initrd-posttrans
if [ -x $again ]; then
    mkdir -p /run/regenerate-initrd && touch /run/regenerate-initrd/all
    $again || :
fi";

/// Makes the package in `dir`.
pub(super) fn build(list: &[Entry], dir: &Path, date: u32) -> Result<PathBuf> {
    let config = BuildConfig::v4()
        .compression(CompressionType::Gzip)
        .source_date(date);
    let mut package = PackageBuilder::new("quell", VERSION, "MIT OR Apache-2.0", "x86_64", SUMMARY);
    package
        .using_config(config)
        .release("1")
        .description(DESCRIPTION)
        .packager(MAINTAINER)
        .suggests(Dependency::any("mdadm"))
        .suggests(Dependency::any("dracut"))
        // The unit runs at the end of a shutdown only: there is nothing to stop.
        .pre_uninstall_script(format!(
            "if [ $1 -eq 0 ]; then\n    systemctl --no-reload disable {UNIT} >/dev/null 2>&1 || :\nfi"
        ))
        .post_trans_script(REGENERATE)
        .post_untrans_script(REGENERATE);
    for folder in super::folders(list) {
        let name = folder.to_str().context("a folder's name is UTF-8")?;
        if !SYSTEM.contains(&name) {
            package.with_dir_entry(FileOptions::dir(format!("/{name}")))?;
        }
    }
    for entry in list {
        let to = format!("/{}", entry.to);
        match &entry.what {
            What::Link(target) => package.with_symlink(FileOptions::symlink(to, target))?,
            What::File(bytes, executable) => {
                let options =
                    FileOptions::new(to).permissions(if *executable { 0o755 } else { 0o644 });
                package.with_file_contents(bytes.clone(), options)?
            }
        };
    }
    let rpm = dir.join(format!("quell-{VERSION}-1.x86_64.rpm"));
    package.build()?.write_file(&rpm)?;
    Ok(rpm)
}

/// What a package holds, but for folders. All of it is root's.
pub(super) fn read(rpm: &Path) -> Result<Vec<Entry>> {
    let package = Package::open(rpm).with_context(|| format!("cannot read {}", rpm.display()))?;
    package.verify_digests()?;
    let mut found = Vec::new();
    for file in package.files()? {
        let file = file?;
        let meta = &file.metadata;
        let to = meta.path().display().to_string();
        if (meta.user(), meta.group()) != ("root", "root") {
            bail!("{to} is not root's");
        }
        let what = match (meta.file_type(), meta.permissions()) {
            (FileType::Dir, 0o755) => continue,
            (FileType::SymbolicLink, _) => What::Link(meta.linkto().unwrap_or_default().to_owned()),
            (FileType::Regular, mode @ (0o755 | 0o644)) => {
                let bytes = file
                    .content()
                    .with_context(|| format!("{to} has no content"))?;
                What::File(bytes.to_vec(), mode == 0o755)
            }
            (_, mode) => bail!("{to} is of an odd kind, or mode: {mode:o}"),
        };
        let to = to.trim_start_matches('/').to_owned();
        found.push(Entry { to, what });
    }
    Ok(found)
}
