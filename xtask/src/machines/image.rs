//! A machine that can be booted: a userland with its layers as the root file system on the members, and its initramfs.

use super::boot::overlay;
use super::disks::{DRIVES, Disks, KERNEL, MEMBERS, ROOT_MIB, disks};
use super::kept::kept;
use super::layers;
use super::root::{FS_UUID, Root};
use crate::setup::{self, Generator, Kernel, Userland, checked, digest};
use crate::{dist, vm};
use anyhow::{Context, Result, ensure};
use serde::Deserialize;
use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;

const SCRIPT: &str = include_str!("image.sh");

/// What is written at once, or left a hole.
const BLOCK: usize = 64 << 10;

/// What a whole machine loads beside what every VM has.
const MODULES: [&str; 10] = [
    "autofs4",
    "dm-crypt",
    "dm-snapshot",
    "dm-mirror",
    "efivarfs",
    "fuse",
    "qemu_fw_cfg",
    "xts",
    "algif_skcipher",
    "aesni_intel",
];

/// What has become of quell's package on a machine.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Package {
    /// It never was there.
    None,
    /// Its file lies there, for a script to install as a person would.
    Carried,
    /// Installed, as the last thing.
    #[default]
    Installed,
    /// Installed and removed again.
    Removed,
}

impl Package {
    /// What is done about it once there is an initramfs; that is then made anew by whoever feels called upon.
    fn commands(self) -> &'static str {
        match self {
            Self::None | Self::Carried => "",
            Self::Installed => "dpkg -i /case/quell.deb",
            Self::Removed => "dpkg -i /case/quell.deb; dpkg -r quell",
        }
    }

    /// What its machine's name ends in.
    fn suffix(self) -> &'static str {
        match self {
            Self::None => "",
            Self::Carried => "-carried",
            Self::Installed => "-quell",
            Self::Removed => "-removed",
        }
    }
}

/// A machine.
#[derive(Clone, Debug)]
pub(super) struct Image {
    pub(super) kernel: Kernel,
    pub(super) initrd: PathBuf,
    /// The words by which this initramfs finds root.
    pub(super) cmdline: String,
    disks: Disks,
    dir: PathBuf,
}

/// The machine of a userland that has `more` packages and its root there, made where it is not there as it would be made now.
pub(super) fn image(
    userland: &str,
    package: Package,
    more: &[String],
    root: Root,
) -> Result<Image> {
    setup::host(setup::Need::Vm)?;
    setup::packages(&[(
        "qemu-utils",
        "makes copies on write of the machines' drives",
    )])?;
    let userland = setup::userland(userland, more)?;
    let kernel = setup::kernel(KERNEL)?;
    let disks = disks()?;
    let modules = vm::module_tree(&kernel, &MODULES.map(str::to_owned))?;
    let over = tempfile::tempdir()?;
    layers::machine(over.path(), &kernel, &disks, root)?;
    if package != Package::None {
        dist::deb(&over.path().join("case/quell.deb"))?;
    }
    let name = format!(
        "{}{}{}{}",
        userland.name,
        package.suffix(),
        root.suffix(),
        more.iter()
            .map(|name| format!("+{name}"))
            .collect::<String>()
    );
    let command = format!(
        "{}; {}",
        userland.generator.command(&kernel.version),
        package.commands()
    );
    let over_it = contents(over.path())?;
    let key = format!(
        "{SCRIPT}{command}{userland:?}{modules:?}{disks:?}{over_it:016x}{}{}",
        root.mib(),
        root.script()
    );
    let key = digest(key.as_bytes());
    let dir = kept(&name, key, |dir| {
        eprintln!("machines: making {name}");
        make(
            dir,
            &userland,
            &kernel.version,
            &command,
            root.mib(),
            &[&modules, over.path()],
        )?;
        match root {
            Root::Volume => members(dir, &disks),
            _ => root.pour(dir, &disks),
        }
    })?;
    let mut cmdline = root.words(userland.generator);
    if userland.generator == Generator::Dracut {
        cmdline += &format!(" rd.md.uuid={}", disks.container()?);
    }
    Ok(Image {
        kernel,
        initrd: dir.join("initrd"),
        cmdline,
        disks,
        dir,
    })
}

/// Runs the script, as root of a namespace where it is not root anyhow.
fn make(
    dir: &Path,
    userland: &Userland,
    kernel: &str,
    initramfs: &str,
    mib: u64,
    layers: &[&Path],
) -> Result<()> {
    let script = dir.join("image.sh");
    fs::write(&script, SCRIPT)?;
    let mut command = Command::new("unshare");
    command.args(["--mount", "--pid", "--fork"]);
    if !rustix::process::geteuid().is_root() {
        command.args(["--user", "--map-root-user", "--map-auto"]);
    }
    command.arg("sh").arg(&script).arg(dir).arg(&userland.tar);
    command.args([kernel, &mib.to_string(), FS_UUID, initramfs]);
    checked(command.args(layers)).with_context(|| format!("making {}", dir.display()))
}

/// The members with the root on them: its file grown to a member's size, with all that mdadm and the second volume have behind
/// it. Two halves of a mirror are alike to the last byte, so it is one file for both.
fn members(dir: &Path, disks: &Disks) -> Result<()> {
    let root = dir.join("root.raw");
    let halves: Vec<Vec<u8>> = (0..MEMBERS)
        .map(|number| behind_root(&disks.file(number)))
        .collect::<Result<_>>()?;
    ensure!(
        halves.windows(2).all(|pair| pair.first() == pair.last()),
        "mdadm has written different things to the halves of a mirror"
    );
    let half = halves.first().context("no member")?;
    let file = File::options().write(true).open(&root)?;
    let start = ROOT_MIB << 20;
    file.set_len(start + u64::try_from(half.len())?)?;
    for (n, block) in half.chunks(BLOCK).enumerate() {
        if block.iter().any(|byte| *byte != 0) {
            file.write_all_at(block, start + u64::try_from(n * BLOCK)?)?;
        }
    }
    Ok(())
}

/// What a member has behind the volume that is the root.
fn behind_root(file: &Path) -> Result<Vec<u8>> {
    let mut file = File::open(file)?;
    file.seek(SeekFrom::Start(ROOT_MIB << 20))?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    Ok(bytes)
}

impl Image {
    /// Copies on write of all drives, in `disks`.
    pub(super) fn overlay(&self, disks: &Path) -> Result<()> {
        for number in 0..DRIVES {
            let base = if number < MEMBERS {
                self.dir.join("root.raw")
            } else {
                self.disks.file(number)
            };
            overlay(&base, &disks.join(format!("d{number}n1.qcow2")))?;
        }
        Ok(())
    }
}

/// A digest of all files below a folder: names, modes, contents.
fn contents(dir: &Path) -> Result<u64> {
    let mut list: Vec<PathBuf> = fs::read_dir(dir)?
        .map(|entry| Ok(entry?.path()))
        .collect::<Result<_>>()?;
    list.sort();
    let mut text = Vec::new();
    for path in list {
        let meta = path.symlink_metadata()?;
        let what = if meta.is_dir() {
            contents(&path)?
        } else if meta.is_symlink() {
            digest(fs::read_link(&path)?.as_os_str().as_encoded_bytes())
        } else {
            digest(&fs::read(&path)?)
        };
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        text.extend(format!("{name} {:o} {what:016x}\n", meta.permissions().mode()).into_bytes());
    }
    Ok(digest(&text))
}
