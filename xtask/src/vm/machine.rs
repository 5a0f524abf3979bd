//! What a VM is made of. `Machine::boot` runs a script in it.

use super::console::Line;
use super::initramfs::Contents;
use super::qemu::{self, Boot};
use crate::setup::{self, Kernel};
use anyhow::{Context, Result};
use serde::Deserialize;
use std::fs;
use std::path::Path;
use std::time::Duration;

/// One NVMe subsystem of a VM.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Drive {
    /// How many such drives.
    pub(crate) count: u32,
    /// Controllers, each on a PCI address of its own, that share the namespaces.
    pub(crate) controllers: u32,
    /// Namespaces; 0 is a drive without any.
    pub(crate) namespaces: u32,
    /// Logical block size.
    pub(crate) block: u32,
    /// SR-IOV virtual functions that can be enabled.
    pub(crate) vfs: u32,
    /// Size of each namespace, in MiB. The files are sparse.
    pub(crate) mib: u64,
}

impl Default for Drive {
    fn default() -> Self {
        Self {
            count: 1,
            controllers: 1,
            namespaces: 1,
            block: 512,
            vfs: 0,
            mib: 64,
        }
    }
}

/// A VM, ready to be booted any number of times.
#[derive(Clone, Debug)]
pub(crate) struct Machine {
    kernel: Kernel,
    memory_mib: u32,
    cpus: u32,
    append: String,
    drives: Vec<Drive>,
    modules: Vec<String>,
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
            modules: vec!["nvme".to_owned()],
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

    /// The modules loaded before the script runs (`nvme` unless set).
    pub(crate) fn modules(mut self, modules: &[String]) -> Self {
        self.modules = modules.to_vec();
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
        contents.boot(&self.kernel, &self.modules, script)?;
        contents.write(&initramfs)?;
        let mut arguments = self.base(&initramfs);
        arguments.extend(self.drive_arguments(disks)?);
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
        let cmdline = format!(
            "console=ttyS0 loglevel=7 printk.time=1{devkmsg} panic=-1 oops=panic mitigations=off nokaslr \
             random.trust_cpu=on tsc=nowatchdog nvme_core.multipath=Y{}",
            self.append
        );
        [
            // TCG even where /dev/kvm is there: it is the same everywhere, and nested KVM does not serve stock kernels.
            "-accel",
            "tcg,thread=multi",
            "-machine",
            "q35",
            "-cpu",
            "max",
            "-smp",
            &self.cpus.to_string(),
            "-m",
            &format!("{}M", self.memory_mib),
            "-nodefaults",
            "-no-user-config",
            "-display",
            "none",
            "-kernel",
            &self.kernel.image.display().to_string(),
            "-initrd",
            &initramfs.display().to_string(),
            "-append",
            &cmdline,
        ]
        .map(str::to_owned)
        .to_vec()
    }

    /// Each controller behind a root port of its own: buses 1, 2, ... in order.
    fn drive_arguments(&self, disks: &Path) -> Result<Vec<String>> {
        let mut out = Vec::new();
        let mut add = |option: &str, value: String| out.extend([option.to_owned(), value]);
        let mut port = 0_u32;
        let each = self
            .drives
            .iter()
            .flat_map(|drive| (0..drive.count).map(move |_| drive));
        for (number, drive) in each.enumerate() {
            let mut backends = Vec::new();
            for namespace in 1..=drive.namespaces {
                let id = format!("d{number}n{namespace}");
                let file = disks.join(format!("{id}.raw"));
                if !file.exists() {
                    fs::File::create(&file)?.set_len(drive.mib << 20)?;
                }
                add(
                    "-drive",
                    format!(
                        "if=none,id={id},file={},format=raw,cache=unsafe",
                        file.display()
                    ),
                );
                backends.push(id);
            }
            let plain = drive.controllers == 1 && drive.namespaces == 1 && drive.vfs == 0;
            if !plain {
                add(
                    "-device",
                    format!("nvme-subsys,id=s{number},nqn=quell-{number}"),
                );
            }
            let first = port;
            for _ in 0..drive.controllers {
                let multifunction = if port.is_multiple_of(8) {
                    ",multifunction=on"
                } else {
                    ""
                };
                add(
                    "-device",
                    format!(
                        "pcie-root-port,id=rp{port},bus=pcie.0,chassis={},slot={port},addr={:x}.{}{multifunction},io-reserve=0",
                        port + 1,
                        4 + port / 8,
                        port % 8
                    ),
                );
                let mut device = format!("nvme,id=c{port},bus=rp{port},serial=QUELL{number:04}");
                if plain {
                    device += &format!(
                        ",drive=d{number}n1,logical_block_size={0},physical_block_size={0}",
                        drive.block
                    );
                } else {
                    device += &format!(",subsys=s{number}");
                }
                if drive.vfs > 0 {
                    // Two queue pairs and one vector for each function; the rest stays with the physical one.
                    device += &format!(
                        ",sriov_max_vfs={0},sriov_vq_flexible={1},sriov_vi_flexible={0},max_ioqpairs={2},msix_qsize={3}",
                        drive.vfs,
                        drive.vfs * 2,
                        drive.vfs * 2 + 4,
                        drive.vfs + 5
                    );
                }
                add("-device", device);
                port += 1;
            }
            if !plain {
                for (n, id) in backends.iter().enumerate() {
                    add(
                        "-device",
                        format!(
                            "nvme-ns,bus=c{first},drive={id},nsid={},shared=on,logical_block_size={1},physical_block_size={1}",
                            n + 1,
                            drive.block
                        ),
                    );
                }
            }
        }
        Ok(out)
    }
}
