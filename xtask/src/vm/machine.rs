//! What a VM is made of. `Machine::boot` runs a script in it.

use super::console::Line;
use super::drives::{self, Drive};
use super::initramfs::Contents;
use super::qemu::{self, Boot};
use crate::setup::{self, Kernel};
use anyhow::{Context, Result};
use std::path::Path;
use std::time::Duration;

/// A VM, ready to be booted any number of times.
#[derive(Clone, Debug)]
pub(crate) struct Machine {
    kernel: Kernel,
    memory_mib: u32,
    cpus: u32,
    append: String,
    drives: Vec<Drive>,
    boot: usize,
    modules: Option<Vec<String>>,
    qemu: Vec<String>,
    timeout: Duration,
    contents: Contents,
}

#[allow(dead_code, reason = "demo and bench use what cases do not")]
impl Machine {
    /// A VM with the kernel `6.1` or `6.12`, 2 cpus, 512 MiB and no drive.
    pub(crate) fn new(kernel: &str) -> Result<Self> {
        Ok(Self {
            kernel: setup::kernel(kernel)?,
            memory_mib: 512,
            cpus: 2,
            append: String::new(),
            drives: Vec::new(),
            boot: 1,
            modules: None,
            qemu: Vec::new(),
            timeout: Duration::from_secs(300),
            contents: Contents::default(),
        })
    }

    /// Memory in MiB.
    pub(crate) fn memory(mut self, mib: u32) -> Self {
        self.memory_mib = mib;
        self
    }

    /// Processors.
    pub(crate) fn cpus(mut self, cpus: u32) -> Self {
        self.cpus = cpus;
        self
    }

    /// More words for the kernel command line.
    pub(crate) fn append(mut self, words: &str) -> Self {
        self.append.push(' ');
        self.append += words;
        self
    }

    /// `count` plain NVMe drives more.
    pub(crate) fn nvme(self, count: u32) -> Self {
        self.drive(Drive {
            count,
            ..Drive::default()
        })
    }

    /// Drives of another kind, after those there are.
    pub(crate) fn drive(mut self, drive: Drive) -> Self {
        self.drives.push(drive);
        self
    }

    /// The same machine in its `number`-th boot, from 1: some drives may be there in others only.
    pub(crate) fn nth(&self, number: usize) -> Self {
        Self {
            boot: number,
            ..self.clone()
        }
    }

    /// The modules loaded before the script runs (unless set, what the drives need).
    pub(crate) fn modules(mut self, modules: &[String]) -> Self {
        self.modules = Some(modules.to_vec());
        self
    }

    /// More arguments for QEMU; `{disks}` stands for the folder of the disks.
    pub(crate) fn qemu(mut self, arguments: &[String]) -> Self {
        self.qemu.extend_from_slice(arguments);
        self
    }

    /// After this long the VM is ended, whatever it does.
    pub(crate) fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// mdadm and mdmon of this version, at /sbin. Tools that are asked for later come from the same release.
    pub(crate) fn mdadm(mut self, version: &str) -> Result<Self> {
        self.contents.mdadm(version)?;
        Ok(self)
    }

    /// A program from a Debian package, found in the VM's PATH: `iproute2:sbin/tc`.
    pub(crate) fn tool(mut self, spec: &str) -> Result<Self> {
        self.contents.tool(spec)?;
        Ok(self)
    }

    /// A copy of a file of the host at `to` in the VM.
    pub(crate) fn file(mut self, to: &str, from: &Path, mode: u32) -> Self {
        self.contents.file(to, from, mode);
        self
    }

    /// A file with this text at `to` in the VM.
    pub(crate) fn text(mut self, to: &str, text: &str, mode: u32) -> Self {
        self.contents.text(to, text, mode);
        self
    }

    /// The quell binary, in the VM's PATH. This is the only way in which xtask runs it.
    pub(crate) fn quell(self, binary: &Path) -> Self {
        self.file("case/bin/quell", binary, 0o755)
    }

    /// Boots once, runs `script`, hands each console line to `on_line` as it comes. Where the emulator goes wrong, once more.
    pub(crate) fn boot_once(&self, script: &str, on_line: &mut dyn FnMut(&Line)) -> Result<Boot> {
        let mut attempt = 1;
        loop {
            let disks = tempfile::tempdir().context("no temporary folder for disks")?;
            let boot = self.boot(disks.path(), script, on_line)?;
            if attempt == qemu::ATTEMPTS || !boot.is_emulators_fault() {
                return Ok(boot);
            }
            attempt += 1;
        }
    }

    /// As `boot_once`, with the disks in `disks`: made where they are not there, kept for the next boot.
    pub(crate) fn boot(
        &self,
        disks: &Path,
        script: &str,
        on_line: &mut dyn FnMut(&Line),
    ) -> Result<Boot> {
        let run = tempfile::tempdir().context("no temporary folder for a VM")?;
        let initramfs = run.path().join("initramfs");
        let mut contents = self.contents.clone();
        let needed = || drives::modules(&self.drives);
        let modules = self.modules.clone().unwrap_or_else(needed);
        contents.boot(&self.kernel, &modules, script)?;
        contents.write(&initramfs)?;
        let mut arguments = self.base(&initramfs);
        arguments.extend(drives::arguments(&self.drives, disks, self.boot)?);
        let place = disks.display().to_string();
        arguments.extend(self.qemu.iter().map(|word| word.replace("{disks}", &place)));
        qemu::run(&arguments, run.path(), self.timeout, on_line)
    }

    fn base(&self, initramfs: &Path) -> Vec<String> {
        // A case may say it itself, and then only the case does.
        let devkmsg = if self.append.contains("printk.devkmsg=") {
            ""
        } else {
            " printk.devkmsg=on"
        };
        let words = format!("{devkmsg}{}", self.append);
        qemu::arguments(
            self.cpus,
            self.memory_mib,
            &self.kernel.image,
            initramfs,
            &words,
        )
    }
}
