//! The drives of a VM: what a case says of them, and the arguments that make QEMU have them.

use anyhow::{Result, ensure};
use serde::Deserialize;
use std::fs;
use std::path::Path;

/// What a drive hangs on.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Kind {
    /// An NVMe subsystem.
    #[default]
    Nvme,
    /// A SATA disk, six of them on each controller.
    Ahci,
    /// A SCSI disk, all of them on one controller.
    VirtioScsi,
}

/// One drive of a VM, or several that are alike.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Drive {
    /// What it hangs on.
    pub(crate) kind: Kind,
    /// How many such drives.
    pub(crate) count: u32,
    /// Their serial number, the same for all of them; QUELL0000, QUELL0001, ... by their place in the machine where empty.
    pub(crate) serial: String,
    /// The boots they are there in, from 1; all where empty. A drive that is away keeps its content, serial and place.
    pub(crate) boots: Vec<usize>,
    /// Logical block size.
    pub(crate) block: u32,
    /// Size of the disk, or of each namespace, in MiB. The files are sparse.
    pub(crate) mib: u64,
    /// NVMe: controllers, each on a PCI address of its own, that share the namespaces.
    pub(crate) controllers: u32,
    /// NVMe: namespaces; 0 is a drive without any.
    pub(crate) namespaces: u32,
    /// NVMe: SR-IOV virtual functions that can be enabled.
    pub(crate) vfs: u32,
}

impl Default for Drive {
    fn default() -> Self {
        Self {
            kind: Kind::Nvme,
            count: 1,
            serial: String::new(),
            boots: Vec::new(),
            block: 512,
            mib: 64,
            controllers: 1,
            namespaces: 1,
            vfs: 0,
        }
    }
}

impl Drive {
    /// Finds what QEMU cannot make.
    pub(crate) fn validate(&self) -> Result<()> {
        ensure!(
            self.kind == Kind::Nvme || self.is_plain(),
            "controllers, namespaces and vfs are for NVMe drives: {self:?}"
        );
        ensure!(
            self.kind != Kind::Ahci || self.block == 512,
            "a SATA disk of QEMU has blocks of 512 bytes: {self:?}"
        );
        Ok(())
    }

    fn is_plain(&self) -> bool {
        self.controllers == 1 && self.namespaces == 1 && self.vfs == 0
    }

    fn serial(&self, number: usize) -> String {
        if self.serial.is_empty() {
            format!("QUELL{number:04}")
        } else {
            self.serial.clone()
        }
    }

    /// How QEMU is told both block sizes.
    fn blocks(&self) -> String {
        format!("logical_block_size={0},physical_block_size={0}", self.block)
    }
}

/// The modules that `drives` need, `nvme` always among them.
pub(super) fn modules(drives: &[Drive]) -> Vec<String> {
    let mut modules = vec!["nvme"];
    for (kind, needs) in [
        (Kind::Ahci, ["ahci", "sd_mod"].as_slice()),
        (Kind::VirtioScsi, &["virtio_pci", "virtio_scsi", "sd_mod"]),
    ] {
        if drives.iter().any(|drive| drive.kind == kind) {
            modules.extend(needs);
        }
    }
    modules.into_iter().map(str::to_owned).collect()
}

/// QEMU's arguments for the drives that are there in the `boot`-th boot, their files in `disks` made where there are none.
pub(crate) fn arguments(drives: &[Drive], disks: &Path, boot: usize) -> Result<Vec<String>> {
    let mut bus = Bus::default();
    let each = drives
        .iter()
        .flat_map(|drive| (0..drive.count).map(move |_| drive));
    for (number, drive) in each.enumerate() {
        if drive.boots.is_empty() || drive.boots.contains(&boot) {
            bus.backends(disks, number, drive)?;
            match drive.kind {
                Kind::Nvme => bus.nvme(number, drive),
                Kind::Ahci => bus.ahci(number, drive),
                Kind::VirtioScsi => bus.virtio_scsi(number, drive),
            }
        }
    }
    Ok(bus.arguments)
}

/// What hangs on the root complex so far. Functions of slot 2 are virtio-scsi, of 3 AHCI, from 4 on root ports.
#[derive(Default)]
struct Bus {
    arguments: Vec<String>,
    /// Root ports, one for each NVMe controller: buses 1, 2, ... in order.
    ports: u32,
    ahci: u32,
    scsi: u32,
}

impl Bus {
    fn add(&mut self, option: &str, value: String) {
        self.arguments.extend([option.to_owned(), value]);
    }

    /// A file for each namespace: a copy on write where there is one, else an empty disk.
    fn backends(&mut self, disks: &Path, number: usize, drive: &Drive) -> Result<()> {
        for namespace in 1..=drive.namespaces {
            let id = format!("d{number}n{namespace}");
            let copy = disks.join(format!("{id}.qcow2"));
            let (file, format) = if copy.exists() {
                (copy, "qcow2")
            } else {
                (disks.join(format!("{id}.raw")), "raw")
            };
            if !file.exists() {
                fs::File::create(&file)?.set_len(drive.mib << 20)?;
            }
            let place = file.display();
            self.add(
                "-drive",
                format!("if=none,id={id},file={place},format={format},cache=unsafe"),
            );
        }
        Ok(())
    }

    fn ahci(&mut self, number: usize, drive: &Drive) {
        let (controller, port) = (self.ahci / 6, self.ahci % 6);
        if port == 0 {
            self.add(
                "-device",
                format!(
                    "ich9-ahci,id=ahci{controller},bus=pcie.0,addr=3.{controller},multifunction=on"
                ),
            );
        }
        let serial = drive.serial(number);
        self.add(
            "-device",
            format!("ide-hd,bus=ahci{controller}.{port},drive=d{number}n1,serial={serial}"),
        );
        self.ahci += 1;
    }

    fn virtio_scsi(&mut self, number: usize, drive: &Drive) {
        if self.scsi == 0 {
            self.add(
                "-device",
                "virtio-scsi-pci,id=vscsi,bus=pcie.0,addr=2.0".to_owned(),
            );
        }
        let (serial, blocks, target) = (drive.serial(number), drive.blocks(), self.scsi);
        self.add(
            "-device",
            format!(
                "scsi-hd,bus=vscsi.0,scsi-id={target},drive=d{number}n1,serial={serial},{blocks}"
            ),
        );
        self.scsi += 1;
    }

    fn nvme(&mut self, number: usize, drive: &Drive) {
        if !drive.is_plain() {
            self.add(
                "-device",
                format!("nvme-subsys,id=s{number},nqn=quell-{number}"),
            );
        }
        let first = self.ports;
        for _ in 0..drive.controllers {
            let port = self.root_port();
            let serial = drive.serial(number);
            let mut device = format!("nvme,id=c{port},bus=rp{port},serial={serial}");
            if drive.is_plain() {
                device += &format!(",drive=d{number}n1,{}", drive.blocks());
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
            self.add("-device", device);
        }
        if !drive.is_plain() {
            for namespace in 1..=drive.namespaces {
                self.add(
                    "-device",
                    format!(
                        "nvme-ns,bus=c{first},drive=d{number}n{namespace},nsid={namespace},shared=on,{}",
                        drive.blocks()
                    ),
                );
            }
        }
    }

    /// A root port for one controller.
    fn root_port(&mut self) -> u32 {
        let port = self.ports;
        let multifunction = if port.is_multiple_of(8) {
            ",multifunction=on"
        } else {
            ""
        };
        self.add(
            "-device",
            format!(
                "pcie-root-port,id=rp{port},bus=pcie.0,chassis={},slot={port},addr={:x}.{}{multifunction},io-reserve=0",
                port + 1,
                4 + port / 8,
                port % 8
            ),
        );
        self.ports += 1;
        port
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drive(kind: Kind) -> Drive {
        Drive {
            kind,
            ..Drive::default()
        }
    }

    #[test]
    fn a_drive_that_is_away_keeps_the_others_serials() -> Result<()> {
        let dir = tempfile::tempdir()?;
        let away = Drive {
            boots: vec![2],
            ..drive(Kind::Nvme)
        };
        let all = [away, drive(Kind::Ahci), drive(Kind::VirtioScsi)];
        let has = |boot, serial: &str| -> Result<bool> {
            let arguments = arguments(&all, dir.path(), boot)?;
            Ok(arguments.iter().any(|word| word.contains(serial)))
        };
        assert!(!has(1, "serial=QUELL0000")? && has(2, "serial=QUELL0000")?);
        assert!(has(1, "serial=QUELL0001")? && has(1, "serial=QUELL0002")?);
        Ok(())
    }

    #[test]
    fn what_qemu_cannot_make_is_refused() {
        let big = |kind| Drive {
            block: 4096,
            ..drive(kind)
        };
        assert!(big(Kind::Ahci).validate().is_err());
        assert!(big(Kind::VirtioScsi).validate().is_ok());
        let shared = Drive {
            controllers: 2,
            ..drive(Kind::VirtioScsi)
        };
        assert!(shared.validate().is_err());
    }

    #[test]
    fn the_modules_are_those_of_the_drives() {
        assert_eq!(modules(&[]), ["nvme"]);
        assert_eq!(
            modules(&[drive(Kind::VirtioScsi)]),
            ["nvme", "virtio_pci", "virtio_scsi", "sd_mod"]
        );
    }
}
