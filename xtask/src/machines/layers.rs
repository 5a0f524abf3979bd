//! What lies over a userland: the modules of the kernel, what makes it this machine, and what runs a case's script.

use super::disks::Disks;
use super::root::Root;
use crate::setup::Kernel;
use anyhow::Result;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

/// Units that would write to the console, into the lines that are read there, or only cost time.
const MASKED: &[&str] = &[
    "serial-getty@ttyS0.service",
    "getty@tty1.service",
    "getty-static.service",
    "e2scrub_reap.service",
];

/// Runs what the host has put into the firmware; a machine that is booted by hand has nothing there.
const RUN: &str = "#!/bin/sh\n\
    modprobe qemu_fw_cfg\n\
    script=/sys/firmware/qemu_fw_cfg/by_name/opt/quell/script/raw\n\
    [ -e $script ] || exit 0\n\
    sh -eu $script </dev/null\n\
    echo \"<6>quell-case: script rc=$?\" >/dev/kmsg\n";

const UNIT: &str = "[Unit]\n\
    Description=The case's script\n\
    After=multi-user.target\n\
    [Service]\n\
    ExecStart=/case/run\n";

/// QEMU's drives have no Intel platform behind them, and mdadm then looks at no metadata of this kind unless it finds this in its
/// environment, which udev gives to what its rules call. Either maker of an initramfs takes the rule along. An image of dracut's
/// is made where there is no hardware to be seen: it is one for any machine.
const PLATFORM: &[(&str, &str, u32)] = &[
    (
        "udev/rules.d/01-no-platform.rules",
        "ENV{IMSM_NO_PLATFORM}=\"1\"\n",
        0o644,
    ),
    (
        "dracut.conf.d/case.conf",
        "install_items+=\" /etc/udev/rules.d/01-no-platform.rules \"\nhostonly=\"no\"\n",
        0o644,
    ),
    (
        "initramfs-tools/hooks/case",
        "#!/bin/sh\n\
         [ \"$1\" != prereqs ] || exit 0\n\
         mkdir -p \"$DESTDIR/etc/udev/rules.d\"\n\
         cp /etc/udev/rules.d/01-no-platform.rules \"$DESTDIR/etc/udev/rules.d\"\n",
        0o755,
    ),
];

/// What makes any userland this machine.
pub(super) fn machine(dir: &Path, kernel: &Kernel, disks: &Disks, root: Root) -> Result<()> {
    // On a busy host udev may take its time for a disk, too.
    let options = "defaults,x-systemd.device-timeout=600";
    let mut fstab = format!(
        "{} / ext4 defaults 0 1\nLABEL=second /srv ext4 {options} 0 2\n",
        root.source()
    );
    for name in ["a", "b", "c", "d"] {
        fstab += &format!("LABEL={name} /mnt/{name} ext4 {options} 0 2\n");
        fs::create_dir_all(dir.join("mnt").join(name))?;
    }
    let arrays = disks.arrays.join("\n");
    let conf = format!("HOMEHOST <system>\nMAILADDR root\n{arrays}\n");
    let etc = dir.join("etc");
    let files = [
        ("fstab", fstab.as_str(), 0o644),
        ("hostname", "machine\n", 0o644),
        // Without one it would be a first boot, with all that is decided then.
        ("machine-id", "6f1c2b7e9a5d4c3f8e0b1a2d3c4e5f60\n", 0o444),
        ("mdadm/mdadm.conf", &conf, 0o644),
        ("systemd/system/case.service", UNIT, 0o644),
    ];
    for (name, text, mode) in files.iter().chain(PLATFORM) {
        write(&etc.join(name), text, *mode)?;
    }
    root.configure(&etc)?;
    let units = etc.join("systemd/system");
    let wanted = units.join("multi-user.target.wants");
    fs::create_dir_all(&wanted)?;
    symlink("../case.service", wanted.join("case.service"))?;
    for unit in MASKED {
        symlink("/dev/null", units.join(unit))?;
    }
    boot_folder(dir, kernel)?;
    let case = dir.join("case");
    fs::create_dir_all(&case)?;
    fs::copy(&kernel.slow_nvme, case.join("slow_nvme.ko"))?;
    write(&case.join("run"), RUN, 0o755)
}

/// A file below the userland.
pub(super) fn write(file: &Path, text: &str, mode: u32) -> Result<()> {
    fs::create_dir_all(file.parent().unwrap_or(file))?;
    fs::write(file, text)?;
    Ok(fs::set_permissions(file, fs::Permissions::from_mode(mode))?)
}

/// What a kernel's package has in /boot: initramfs-tools reads in the configuration how it may pack its image, and kexec wants
/// the kernel.
fn boot_folder(dir: &Path, kernel: &Kernel) -> Result<()> {
    let boot = dir.join("boot");
    fs::create_dir_all(&boot)?;
    for name in ["vmlinuz", "config"] {
        let file = format!("{name}-{}", kernel.version);
        fs::copy(kernel.image.with_file_name(&file), boot.join(&file))?;
    }
    Ok(())
}
