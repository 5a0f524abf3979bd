//! Boots a machine: copies of its drives, and for each boot the case's script, which the machine finds in its firmware.

use super::case::{Case, Start};
use super::image::Image;
use crate::vm::{self, Boot, Contents, Line};
use anyhow::{Context, Result};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// dracut's own exitrd unpacks a whole image into memory.
const MEMORY_MIB: u32 = 1024;

/// All boots of a case, from drives as they were made.
pub(super) fn boots(case: &Case, image: &Image, live: bool) -> Result<Vec<Boot>> {
    let run = tempfile::tempdir().context("no temporary folder for a machine")?;
    let disks = run.path().join("disks");
    fs::create_dir(&disks)?;
    image.overlay(&disks)?;
    let drives = case.drives();
    let mut boots = Vec::new();
    for (n, start) in (1..).zip(&case.boot) {
        let dir = run.path().join(format!("boot{n}"));
        fs::create_dir(&dir)?;
        let text = format!("{}{}{}", vm::PRELUDE, super::PRELUDE, start.script);
        fs::write(dir.join("script"), text)?;
        let words = format!(
            "{} {} {}",
            without(&image.cmdline, &case.without),
            case.append,
            start.append
        );
        let initrd = initramfs(image, start, &dir)?;
        let mut arguments = arguments(&image.kernel.image, &initrd, &words, &dir);
        arguments.extend(vm::drive_arguments(&drives, &disks, n)?);
        if start.forget {
            arguments.push("-snapshot".to_owned());
        }
        let mut show = |line: &Line| {
            if live {
                println!("{:7.2} {}", line.wall.as_secs_f64(), vm::raw(line));
            }
        };
        let boot = vm::run_qemu(&arguments, &dir, case.timeout(), &mut show)?;
        let well = case.ended(start, &boot);
        boots.push(boot);
        // A minute or more each: no further one tells anything.
        if !well {
            break;
        }
    }
    Ok(boots)
}

/// The image's initramfs; where a boot has something over it, one with a further archive, of which the kernel takes the files
/// that are in both.
fn initramfs(image: &Image, start: &Start, dir: &Path) -> Result<PathBuf> {
    if start.over.is_empty() {
        return Ok(image.initrd.clone());
    }
    let mut over = Contents::default();
    for (path, text) in &start.over {
        over.text(path, text, 0o755);
    }
    let archive = dir.join("over");
    over.write(&archive)?;
    let mut bytes = fs::read(&image.initrd)?;
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes.extend(fs::read(archive)?);
    let both = dir.join("initrd");
    fs::write(&both, bytes)?;
    Ok(both)
}

/// The words but for those whose names are given.
fn without(words: &str, names: &[String]) -> String {
    let stays = |word: &&str| {
        let name = word.split_once('=').map_or(*word, |(name, _)| name);
        !names.iter().any(|without| without == name)
    };
    let words: Vec<&str> = words.split_whitespace().filter(stays).collect();
    words.join(" ")
}

fn arguments(kernel: &Path, initrd: &Path, words: &str, dir: &Path) -> Vec<String> {
    // The metadata is to be taken without an Intel platform by all that is not called by udev too. A terminal that is dumb gets
    // no escape sequences between its lines. A unit that takes its time on a busy host is no failure: each boot has a limit.
    let cmdline = format!(
        "ro mdadm.imsm.test=1 IMSM_NO_PLATFORM=1 TERM=dumb 8250.nr_uarts=1 printk.devkmsg=on \
         systemd.log_target=kmsg systemd.show_status=0 systemd.default_timeout_start_sec=600 {words}"
    );
    let mut arguments = vm::base_arguments(2, MEMORY_MIB, kernel, initrd, &cmdline);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_case_can_do_without_some_of_its_machines_words() {
        let words = "root=UUID=1 rd.md.uuid=2 quiet";
        assert_eq!(without(words, &[]), words);
        let names = ["rd.md.uuid".to_owned(), "quiet".to_owned()];
        assert_eq!(without(words, &names), "root=UUID=1");
    }
}
