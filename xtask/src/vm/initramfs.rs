//! The initramfs of a VM: busybox, kernel modules, the test module, the case's script, and what else is asked for.

use crate::setup::{self, Kernel, Suite};
use anyhow::{Context, Result, bail};
use cpio::newc::Builder;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

const INIT: &str = include_str!("init.sh");
/// What every script may call.
pub(crate) const PRELUDE: &str = include_str!("prelude.sh");

/// What every VM can load. Whatever else these need comes along.
const MODULES: &[&str] = &[
    "nvme",
    "nvmet",
    "nvme-loop",
    "nvmet-tcp",
    "nvme-tcp",
    "nvme-fabrics",
    "ext4",
    // Asked for by name at run time: no dependency of ext4 as depmod sees it.
    "crc32c_generic",
    "loop",
    "dm-mod",
    "dm-delay",
    "md-mod",
    "raid0",
    "raid1",
    "raid10",
    "raid456",
    "brd",
    "overlay",
    "configfs",
    "sch_netem",
    "ahci",
    "sd_mod",
    "virtio_pci",
    "virtio_blk",
    "virtio_scsi",
    "uio_pci_generic",
    "vfio-pci",
    "target_core_mod",
    "target_core_iblock",
];

/// What goes into an initramfs, by its path there (no leading slash).
#[derive(Clone, Debug, Default)]
pub(crate) struct Contents {
    entries: BTreeMap<String, Entry>,
    /// Where programs come from. They share their libraries, so it is one release for all of them.
    suite: Suite,
}

#[derive(Clone, Debug)]
enum Entry {
    Bytes(Vec<u8>, u32),
    File(PathBuf, u32),
    Link(String),
}

impl Contents {
    /// A file with this text.
    pub(crate) fn text(&mut self, path: &str, text: &str, mode: u32) {
        self.put(path, Entry::Bytes(text.as_bytes().to_vec(), mode));
    }

    /// A copy of a file of the host.
    pub(crate) fn file(&mut self, path: &str, from: &Path, mode: u32) {
        self.put(path, Entry::File(from.to_owned(), mode));
    }

    /// A symlink.
    pub(crate) fn link(&mut self, path: &str, target: &str) {
        self.put(path, Entry::Link(target.to_owned()));
    }

    /// mdadm and mdmon of a version, at /sbin where mdadm and quell look for mdmon.
    pub(crate) fn mdadm(&mut self, version: &str) -> Result<()> {
        let mdadm = setup::mdadm(version)?;
        self.suite = mdadm.suite;
        for program in ["mdadm", "mdmon"] {
            for (to, from) in mdadm.files(program)? {
                self.file(&to, &from, 0o755);
            }
        }
        Ok(())
    }

    /// A program from a Debian package with the libraries it needs, to be found in PATH: `iproute2:sbin/tc`.
    pub(crate) fn tool(&mut self, spec: &str) -> Result<()> {
        let (package, program) = spec
            .split_once(':')
            .with_context(|| format!("a tool is PACKAGE:PATH, not {spec}"))?;
        let tree = setup::unpacked(self.suite, &[package])?;
        let files = setup::elf::with_libraries(&tree, program)?;
        for (n, (to, from)) in files.iter().enumerate() {
            let name = to.rsplit('/').next().unwrap_or_default();
            let to = if n == 0 {
                format!("case/bin/{name}")
            } else {
                to.clone()
            };
            self.file(&to, from, 0o755);
        }
        Ok(())
    }

    fn put(&mut self, path: &str, entry: Entry) {
        self.entries
            .insert(path.trim_start_matches('/').to_owned(), entry);
    }

    /// What a boot of `kernel` needs, with `script` to run after the modules `load` are in.
    pub(crate) fn boot(&mut self, kernel: &Kernel, load: &[String], script: &str) -> Result<()> {
        self.file("bin/busybox", &setup::busybox()?, 0o755);
        self.link("bin/sh", "busybox");
        self.text("init", INIT, 0o755);
        self.text("case/prelude", PRELUDE, 0o644);
        self.text("case/script", script, 0o644);
        self.text(
            "case/modules",
            &load.iter().map(|m| format!("{m}\n")).collect::<String>(),
            0o644,
        );
        self.file("case/slow_nvme.ko", &kernel.slow_nvme, 0o644);
        let tree = module_tree(kernel, load)?;
        self.add_tree(&tree, "")
    }

    fn add_tree(&mut self, dir: &Path, at: &str) -> Result<()> {
        for entry in fs::read_dir(dir).with_context(|| format!("cannot read {}", dir.display()))? {
            let entry = entry?;
            let path = format!("{at}{}", entry.file_name().to_string_lossy());
            if entry.file_type()?.is_dir() {
                self.add_tree(&entry.path(), &format!("{path}/"))?;
            } else {
                self.file(&path, &entry.path(), 0o644);
            }
        }
        Ok(())
    }

    /// Writes the archive.
    pub(crate) fn write(&self, to: &Path) -> Result<()> {
        let mut archive = Archive {
            out: std::io::BufWriter::new(fs::File::create(to)?),
            dirs: BTreeSet::new(),
            ino: 1,
        };
        archive.add(Builder::new("dev").mode(0o040_755), &[])?;
        archive.dirs.insert("dev".to_owned());
        // The kernel gives PID 1 its console before anything can be mounted.
        archive.add(
            Builder::new("dev/console")
                .mode(0o020_600)
                .rdev_major(5)
                .rdev_minor(1),
            &[],
        )?;
        for (path, entry) in &self.entries {
            archive.parents(path)?;
            let builder = Builder::new(path);
            match entry {
                Entry::Bytes(bytes, mode) => archive.add(builder.mode(0o100_000 | mode), bytes)?,
                Entry::File(from, mode) => {
                    let bytes = fs::read(from)
                        .with_context(|| format!("cannot read {}", from.display()))?;
                    archive.add(builder.mode(0o100_000 | mode), &bytes)?;
                }
                Entry::Link(target) => archive.add(builder.mode(0o120_777), target.as_bytes())?,
            }
        }
        cpio::newc::trailer(&mut archive.out)?.flush()?;
        Ok(())
    }
}

struct Archive {
    out: std::io::BufWriter<fs::File>,
    dirs: BTreeSet<String>,
    ino: u32,
}

impl Archive {
    fn add(&mut self, builder: Builder, bytes: &[u8]) -> Result<()> {
        self.ino += 1;
        let size = u32::try_from(bytes.len()).context("a file of 4 GiB in an initramfs")?;
        let mut file = builder.ino(self.ino).nlink(1).write(&mut self.out, size);
        file.write_all(bytes)?;
        file.finish()?;
        Ok(())
    }

    fn parents(&mut self, path: &str) -> Result<()> {
        let ends: Vec<usize> = path.match_indices('/').map(|(at, _)| at).collect();
        for end in ends {
            let dir = path.get(..end).unwrap_or_default();
            if self.dirs.insert(dir.to_owned()) {
                self.add(Builder::new(dir).mode(0o040_755), &[])?;
            }
        }
        Ok(())
    }
}

/// A `lib/modules` tree with the default modules and `extra`, plain and with what modprobe needs, kept in the cache.
pub(crate) fn module_tree(kernel: &Kernel, extra: &[String]) -> Result<PathBuf> {
    let dep = fs::read_to_string(kernel.modules.join("modules.dep"))?;
    let builtin = fs::read_to_string(kernel.modules.join("modules.builtin"))?;
    let by_name: BTreeMap<String, (&str, Vec<&str>)> = dep
        .lines()
        .filter_map(|line| line.split_once(':'))
        .map(|(file, needs)| {
            (
                module_name(file),
                (file, needs.split_whitespace().collect()),
            )
        })
        .collect();
    let builtin: BTreeSet<String> = builtin.lines().map(module_name).collect();
    let mut files = BTreeSet::new();
    for name in MODULES
        .iter()
        .copied()
        .chain(extra.iter().map(String::as_str))
    {
        match by_name.get(&module_name(name)) {
            Some((file, needs)) => {
                files.insert(*file);
                files.extend(needs);
            }
            None if builtin.contains(&module_name(name)) || MODULES.contains(&name) => {}
            None => bail!("kernel {} has no module {name}", kernel.version),
        }
    }
    let list: Vec<&str> = files.into_iter().collect();
    let id = setup::digest(list.join("\n").as_bytes());
    setup::cached(&format!("initramfs/{}-{id:016x}", kernel.version), |part| {
        let to = part.join("lib/modules").join(&kernel.version);
        for file in &list {
            let target = to.join(file);
            fs::create_dir_all(target.parent().unwrap_or(&to))?;
            fs::copy(kernel.modules.join(file), &target)?;
            if target.extension().is_some_and(|ext| ext == "xz") {
                setup::checked(Command::new("xz").arg("-d").arg(&target))?;
            }
        }
        for file in [
            "modules.order",
            "modules.builtin",
            "modules.builtin.modinfo",
        ] {
            fs::copy(kernel.modules.join(file), to.join(file))?;
        }
        setup::checked(
            Command::new("/sbin/depmod")
                .arg("-b")
                .arg(part)
                .arg(&kernel.version),
        )
    })
}

/// `kernel/drivers/nvme/host/nvme-core.ko.xz` -> `nvme_core`.
fn module_name(file: &str) -> String {
    let name = file.rsplit('/').next().unwrap_or(file);
    name.split(".ko").next().unwrap_or(name).replace('-', "_")
}
