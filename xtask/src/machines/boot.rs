//! Boots a machine: copies of its drives, and for each boot the case's script, which the machine finds in its firmware.

use super::case::Case;
use super::disks::drives;
use super::image::Image;
use crate::vm::{self, Boot, Line};
use anyhow::{Context, Result};
use std::fs;
use std::path::Path;
use std::process::Command;

/// dracut's own exitrd unpacks a whole image into memory.
const MEMORY_MIB: u32 = 1024;

/// All boots of a case, from drives as they were made.
pub(super) fn boots(case: &Case, image: &Image, live: bool) -> Result<Vec<Boot>> {
    let run = tempfile::tempdir().context("no temporary folder for a machine")?;
    let disks = run.path().join("disks");
    fs::create_dir(&disks)?;
    image.overlay(&disks)?;
    let mut boots = Vec::new();
    for (n, script) in case.boot.iter().enumerate() {
        let dir = run.path().join(format!("boot{}", n + 1));
        fs::create_dir(&dir)?;
        let text = format!("{}{}{script}", vm::PRELUDE, super::PRELUDE);
        fs::write(dir.join("script"), text)?;
        let mut arguments = arguments(image, &case.append, &dir);
        arguments.extend(vm::drive_arguments(&drives(), &disks, n + 1)?);
        let mut show = |line: &Line| {
            if live {
                println!("{:7.2} {}", line.wall.as_secs_f64(), vm::raw(line));
            }
        };
        let boot = vm::run_qemu(&arguments, &dir, case.timeout(), &mut show)?;
        let well = case.ended(&boot);
        boots.push(boot);
        // A minute or more each: no further one tells anything.
        if !well {
            break;
        }
    }
    Ok(boots)
}

fn arguments(image: &Image, append: &str, dir: &Path) -> Vec<String> {
    // The metadata is to be taken without an Intel platform by all that is not called by udev too. A terminal that is dumb gets
    // no escape sequences between its lines. A unit that takes its time on a busy host is no failure: each boot has a limit.
    let cmdline = format!(
        "{} ro mdadm.imsm.test=1 IMSM_NO_PLATFORM=1 TERM=dumb 8250.nr_uarts=1 printk.devkmsg=on \
         systemd.log_target=kmsg systemd.show_status=0 systemd.default_timeout_start_sec=600 {append}",
        image.cmdline
    );
    let mut arguments =
        vm::base_arguments(2, MEMORY_MIB, &image.kernel.image, &image.initrd, &cmdline);
    arguments.extend([
        "-fw_cfg".to_owned(),
        format!(
            "name=opt/quell/script,file={}",
            dir.join("script").display()
        ),
    ]);
    arguments
}

/// An empty copy on write of FILE, a raw image, at TO.
pub(super) fn overlay(file: &Path, to: &Path) -> Result<()> {
    crate::setup::checked(
        Command::new("qemu-img")
            .args(["create", "-q", "-f", "qcow2", "-F", "raw", "-b"])
            .arg(file)
            .arg(to),
    )
}
