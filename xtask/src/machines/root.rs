//! What a machine's root file system lies on, on the volume that is for it.
//!
//! Where that is the volume itself no VM is needed: it begins at the first sector of either member. For all else a VM assembles
//! the members once, lays on the volume what is to be there and fills it.

use super::boot::overlay;
use super::disks::{self, Disks, KERNEL, MEMBERS, ROOT_MIB, drives};
use super::layers::write;
use crate::setup::{Generator, checked};
use crate::vm::{Drive, Machine};
use anyhow::{Context, Result};
use serde::Deserialize;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// The root file system's own UUID.
pub(super) const FS_UUID: &str = "0d1e2f30-4152-4637-8899-aabbccddeeff";
/// The UUID of what is encrypted.
const LUKS_UUID: &str = "1e2f3041-5263-4748-99aa-bbccddeeff00";
/// What opens it. The initramfs holds it too: nobody is there to type anything.
const KEY: &str = "a key that only a test may have so long in its source";
const KEY_FILE: &str = "/etc/keys/root.key";

/// What a root file system that does not have the volume to itself leaves to what lies between: more than that takes, since all
/// of the file system is written by the VM.
const BETWEEN_MIB: u64 = 256;

/// What it lies on.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Root {
    /// The volume itself.
    #[default]
    Volume,
    /// A partition of it.
    Partition,
    /// A logical volume in a group that has it alone.
    Lvm,
    /// What cryptsetup makes of it.
    Luks,
}

/// What a VM is told before and after it has its own part to do: `volume` is the array, `root` what it has made of it.
const BEGIN: &str = r#"
export DM_DISABLE_UDEV=1
modprobe -a md_mod raid1
nodes 1 2 3
expect_rc 0 mdadm --assemble --scan
volume=/dev/$(vol 0)
"#;
const FILL: &str = r#"
wait_block "$root"
dd if="$(node 3)" of="$root" bs=1M conv=fsync
"#;
const END: &str = r#"
stop_arrays
is clean "$(says "$(node 1)" 'Dirty State')"
"#;

const PARTITION: &str = r#"
echo , | sfdisk --quiet --label gpt "$volume"
root=${volume}p1
"#;

const LVM: &str = r#"
expect_rc 0 lvm pvcreate "$volume"
expect_rc 0 lvm vgcreate machine "$volume"
expect_rc 0 lvm lvcreate --yes --wipesignatures n --extents 100%FREE --name root machine
root=/dev/mapper/machine-root
"#;

// How hard it is to guess the key is nothing to a test, and every boot has to do it.
const LUKS: &str = r#"
expect_rc 0 cryptsetup luksFormat --batch-mode --uuid "$(cat /case/uuid)" --pbkdf pbkdf2 --pbkdf-force-iterations 1000 "$volume" /case/key
expect_rc 0 cryptsetup open --key-file /case/key "$volume" root
root=/dev/mapper/root
"#;

impl Root {
    /// The size of the file system.
    pub(super) fn mib(self) -> u64 {
        match self {
            Self::Volume => ROOT_MIB,
            Self::Partition | Self::Lvm | Self::Luks => ROOT_MIB - BETWEEN_MIB,
        }
    }

    /// What its machine's name ends in.
    pub(super) fn suffix(self) -> &'static str {
        match self {
            Self::Volume => "",
            Self::Partition => "-partition",
            Self::Lvm => "-lvm",
            Self::Luks => "-luks",
        }
    }

    /// What fstab and the kernel's command line call it, as Debian's installer would.
    pub(super) fn source(self) -> String {
        match self {
            Self::Volume | Self::Partition => format!("UUID={FS_UUID}"),
            Self::Lvm => "/dev/mapper/machine-root".to_owned(),
            Self::Luks => "/dev/mapper/root_crypt".to_owned(),
        }
    }

    /// The words by which an initramfs finds it.
    pub(super) fn words(self, generator: Generator) -> String {
        let more = match (generator, self) {
            (Generator::Dracut, Self::Lvm) => " rd.lvm.lv=machine/root".to_owned(),
            (Generator::Dracut, Self::Luks) => {
                format!(" rd.luks.name={LUKS_UUID}=root_crypt rd.luks.key={LUKS_UUID}={KEY_FILE}")
            }
            _ => String::new(),
        };
        format!("root={}{more}", self.source())
    }

    /// What it has the userland's /etc hold.
    pub(super) fn configure(self, etc: &Path) -> Result<()> {
        if self != Self::Luks {
            return Ok(());
        }
        let in_etc = KEY_FILE.trim_start_matches("/etc/");
        write(&etc.join(in_etc), KEY, 0o600)?;
        let table = format!("root_crypt UUID={LUKS_UUID} {KEY_FILE} luks,initramfs\n");
        write(&etc.join("crypttab"), &table, 0o644)?;
        // Either maker of an initramfs takes the key along in its own way.
        let dracut = format!("install_items+=\" {KEY_FILE} \"\n");
        write(&etc.join("dracut.conf.d/key.conf"), &dracut, 0o644)?;
        write(
            &etc.join("cryptsetup-initramfs/conf-hook"),
            &format!("KEYFILE_PATTERN={KEY_FILE}\n"),
            0o644,
        )
    }

    /// What is done in the VM before the file system is there, and after; nothing where none is needed.
    fn steps(self) -> Option<(&'static str, &'static str)> {
        match self {
            Self::Volume => None,
            Self::Partition => Some((PARTITION, "")),
            Self::Lvm => Some((LVM, "expect_rc 0 lvm vgchange --activate n machine\n")),
            Self::Luks => Some((LUKS, "expect_rc 0 cryptsetup close root\n")),
        }
    }

    /// The whole script, empty where there is nothing to do.
    pub(super) fn script(self) -> String {
        self.steps().map_or_else(String::new, |(before, after)| {
            format!("{BEGIN}{before}{FILL}{after}{END}")
        })
    }

    /// The VM that it runs in.
    fn machine(self) -> Result<Machine> {
        let [members, _] = drives();
        let machine = Machine::new(KERNEL)?
            .mdadm("4.4")?
            .drive(members)
            .drive(Drive {
                mib: self.mib(),
                ..Drive::default()
            })
            .timeout(Duration::from_secs(600));
        let modules = |more: &[&str]| {
            let all: Vec<String> = ["nvme", "dm-mod"]
                .iter()
                .chain(more)
                .map(|&name| name.to_owned())
                .collect();
            machine.clone().modules(&all)
        };
        match self {
            Self::Volume => Ok(machine),
            Self::Partition => machine.tool("fdisk:sbin/sfdisk"),
            Self::Lvm => modules(&[]).tool("lvm2:sbin/lvm"),
            Self::Luks => modules(&["dm-crypt", "xts", "aesni_intel", "algif_skcipher"])
                .text("case/key", KEY, 0o600)
                .text("case/uuid", LUKS_UUID, 0o644)
                .tool("cryptsetup-bin:sbin/cryptsetup"),
        }
    }

    /// Makes DIR/root.raw, a file system, a whole member with that in its place.
    pub(super) fn pour(self, dir: &Path, disks: &Disks) -> Result<()> {
        let run = tempfile::tempdir().context("no temporary folder for a VM")?;
        let copy = |number: usize| run.path().join(format!("d{number}n1.qcow2"));
        for number in 0..MEMBERS {
            overlay(&disks.file(number), &copy(number))?;
        }
        let root = dir.join("root.raw");
        overlay(&root, &copy(MEMBERS))?;
        disks::run(&self.machine()?, run.path(), &self.script())?;
        checked(
            Command::new("qemu-img")
                .args(["compare", "-q"])
                .args((0..MEMBERS).map(copy)),
        )
        .context("the halves of a mirror are not alike")?;
        let member = dir.join("member.raw");
        checked(
            Command::new("qemu-img")
                .args(["convert", "-q", "-O", "raw"])
                .arg(copy(0))
                .arg(&member),
        )?;
        Ok(fs::rename(member, root)?)
    }
}
