//! The files behind the disks, before and after, and what a boot wrote to its out disk.

use super::dump::{self, Content};
use crate::setup;
use anyhow::{Context, Result};
use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Room on the out disk, in MiB: the text, then the contents of volumes.
const MIB: u64 = 2048;
/// And for the text.
const TEXT: u64 = 16 << 20;

/// One boot's out disk.
#[derive(Debug)]
pub(super) struct Out(PathBuf);

impl Out {
    /// An empty one.
    pub(super) fn new(path: PathBuf) -> Result<Self> {
        File::create(&path)?.set_len(MIB << 20)?;
        Ok(Self(path))
    }

    /// QEMU's arguments that make it /dev/vda.
    pub(super) fn arguments(&self) -> [String; 4] {
        let drive = format!(
            "if=none,id=out,file={},format=raw,cache=unsafe",
            self.0.display()
        );
        ["-drive", &drive, "-device", "virtio-blk-pci,drive=out"].map(str::to_owned)
    }

    /// The text.
    pub(super) fn text(&self) -> Result<String> {
        let mut bytes = Vec::new();
        File::open(&self.0)?.take(TEXT).read_to_end(&mut bytes)?;
        Ok(dump::text(&bytes))
    }

    /// The first MiB of something on it.
    pub(super) fn head(&self, at: u64, mib: u64) -> Result<Vec<u8>> {
        let mut file = File::open(&self.0)?;
        file.seek(SeekFrom::Start(at << 20))?;
        let mut bytes = Vec::new();
        file.take(mib << 20).read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    /// Where a content differs from another's, in MiB.
    pub(super) fn differs(
        &self,
        here: Content,
        other: &Self,
        there: Content,
    ) -> Result<Option<u64>> {
        for mib in 0..here.length.max(there.length) {
            let same = mib < here.length
                && mib < there.length
                && self.head(here.at + mib, 1)? == other.head(there.at + mib, 1)?;
            if !same {
                return Ok(Some(mib));
            }
        }
        Ok(None)
    }
}

/// A copy of a whole folder of disks; what was never written takes no room.
pub(super) fn copy(from: &Path, to: &Path) -> Result<()> {
    setup::checked(
        Command::new("cp")
            .args(["--recursive", "--sparse=always", "--reflink=auto"])
            .arg(from)
            .arg(to),
    )
}

/// Where two disks differ: the first 64 KiB that do, in bytes.
pub(super) fn first_difference(one: &Path, other: &Path) -> Result<Option<u64>> {
    let open =
        |path: &Path| File::open(path).with_context(|| format!("cannot open {}", path.display()));
    let (one, other) = (open(one)?, open(other)?);
    let (mut here, mut there) = (Vec::new(), Vec::new());
    let mut at = 0;
    loop {
        here.clear();
        there.clear();
        (&one).take(1 << 16).read_to_end(&mut here)?;
        (&other).take(1 << 16).read_to_end(&mut there)?;
        if here != there {
            return Ok(Some(at));
        }
        if here.is_empty() {
            return Ok(None);
        }
        at += here.len() as u64;
    }
}

/// A folder for the disks that mdadm is to make.
pub(super) fn folder(path: PathBuf) -> Result<PathBuf> {
    fs::create_dir(&path).with_context(|| format!("cannot make {}", path.display()))?;
    Ok(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_changed_byte_is_found() -> Result<()> {
        let dir = tempfile::tempdir()?;
        let (one, other) = (dir.path().join("one"), dir.path().join("other"));
        let mut bytes = vec![7; 200_000];
        fs::write(&one, &bytes)?;
        fs::write(&other, &bytes)?;
        assert_eq!(first_difference(&one, &other)?, None);
        *bytes.last_mut().context("a byte")? = 8;
        fs::write(&other, &bytes)?;
        assert_eq!(first_difference(&one, &other)?, Some(3 << 16));
        bytes.pop();
        fs::write(&other, &bytes)?;
        assert_eq!(first_difference(&one, &other)?, Some(3 << 16));
        Ok(())
    }

    #[test]
    fn contents_are_compared_wherever_they_are() -> Result<()> {
        let dir = tempfile::tempdir()?;
        let place = |at, length| Content { at, length };
        let out = Out(dir.path().join("out"));
        let mut bytes = vec![1; 6 << 20];
        bytes.get_mut(2 << 20..3 << 20).context("one MiB")?.fill(2);
        fs::write(&out.0, &bytes)?;
        assert_eq!(out.differs(place(0, 2), &out, place(4, 2))?, None);
        assert_eq!(out.differs(place(1, 2), &out, place(4, 2))?, Some(1));
        assert_eq!(out.differs(place(0, 2), &out, place(4, 1))?, Some(1));
        Ok(())
    }
}
