//! The drives of every machine: two that mdadm makes two mirrored volumes of, and four with a file system each.
//!
//! mdadm makes them once, in a VM. What it writes lies behind the data: the first volume begins at the first sector of either
//! member, so that a root file system can be put there without any VM.

use super::kept::kept;
use crate::setup::digest;
use crate::vm::{Drive, Exit, Line, Machine, raw};
use anyhow::{Context, Result, ensure};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The size of the volume that is the root.
pub(super) const ROOT_MIB: u64 = 768;
/// How many drives there are.
pub(super) const DRIVES: usize = 6;
/// How many of them are members, the first ones.
pub(super) const MEMBERS: usize = 2;
/// The kernel of every machine.
pub(super) const KERNEL: &str = "6.12";

/// All drives in order: the members, then those of /mnt/a to /mnt/d.
pub(super) fn drives() -> [Drive; 2] {
    [
        Drive {
            count: 2,
            mib: ROOT_MIB + 128,
            ..Drive::default()
        },
        Drive {
            count: 4,
            mib: 64,
            ..Drive::default()
        },
    ]
}

/// The drives as they were made.
#[derive(Clone, Debug)]
pub(super) struct Disks {
    /// The folder with `d0n1.raw` and so on.
    pub(super) dir: PathBuf,
    /// What an installed system says of the arrays in mdadm.conf.
    pub(super) arrays: Vec<String>,
}

impl Disks {
    /// The content of a drive.
    pub(super) fn file(&self, number: usize) -> PathBuf {
        self.dir.join(format!("d{number}n1.raw"))
    }

    /// The UUID of the container, as mdadm writes it.
    pub(super) fn container(&self) -> Result<&str> {
        self.arrays
            .iter()
            .find(|line| line.contains("metadata=imsm"))
            .and_then(|line| line.split("UUID=").nth(1))
            .context("mdadm names no container")
    }
}

/// What mdadm is told. The first volume is filled by `image`, all else has its file system from here.
const SCRIPT: &str = r#"
imsm 2
SIZE=768M volume root 1 2 --assume-clean
SIZE=64M volume second 1 2 --assume-clean
make() { expect_rc 0 /case/bin/mke2fs -q -t ext4 -L "$1" "$2"; }
make second /dev/md/second
nodes 3 4 5 6
for drive in a:3 b:4 c:5 d:6; do make "${drive%:*}" "$(node "${drive#*:}")"; done
sync
is 0 "$(says "$(node 1)" 'Sector Offset')"
run mdadm --examine --scan
stop_arrays
is clean "$(says "$(node 1)" 'Dirty State')"
"#;

/// The drives, made where they are not there yet.
pub(super) fn disks() -> Result<Disks> {
    let mut machine = Machine::new(KERNEL)?
        .mdadm("4.4")?
        .tool("e2fsprogs:sbin/mke2fs")?
        .modules(&["nvme".to_owned()])
        .timeout(Duration::from_secs(300));
    for drive in drives() {
        machine = machine.drive(drive);
    }
    let key = digest(format!("{SCRIPT}{:?}", drives()).as_bytes());
    let dir = kept("disks", key, |dir| {
        eprintln!("machines: having mdadm make the drives");
        let lines = run(&machine, dir, SCRIPT)?;
        let arrays: Vec<&str> = lines
            .iter()
            .filter_map(|line| line.text.strip_prefix("out: "))
            .filter(|line| line.starts_with("ARRAY "))
            .collect();
        Ok(fs::write(dir.join("arrays"), arrays.join("\n"))?)
    })?;
    let arrays = fs::read_to_string(dir.join("arrays"))?;
    Ok(Disks {
        dir,
        arrays: arrays.lines().map(str::to_owned).collect(),
    })
}

/// Runs in a VM what has to come to its end there, with the drives in `disks`; its console.
pub(super) fn run(machine: &Machine, disks: &Path, script: &str) -> Result<Vec<Line>> {
    let boot = machine.boot(disks, script, &mut |_| {})?;
    let console: Vec<String> = boot.lines.iter().map(raw).collect();
    ensure!(
        boot.exit == Exit::Script && console.iter().any(|line| line.ends_with("script rc=0")),
        "the drives could not be made:\n{}",
        console.join("\n")
    );
    Ok(boot.lines)
}
