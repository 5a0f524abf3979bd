//! A fixture root with thousands of controllers: what `--dry-run` reads of a machine, and nothing else.

use anyhow::{Context, Result};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

/// The empty machine: the folders that must be there, with nothing in them.
pub(super) fn empty(root: &Path) -> Result<()> {
    for dir in ["sys", "proc", "dev", "run", "etc"] {
        fs::create_dir_all(root.join(dir))?;
    }
    Ok(())
}

/// A machine with so many controllers, each with one namespace, four times as many block devices, and a drive time for
/// each (RTD3E). Nothing is in use.
pub(super) fn machine(root: &Path, controllers: u32) -> Result<()> {
    empty(root)?;
    let put = |path: String, text: &str| -> Result<()> {
        let path = root.join(path);
        fs::create_dir_all(path.parent().context("a file lies in a folder")?)?;
        fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))
    };
    let link = |path: String, to: String| -> Result<()> {
        let path = root.join(path);
        fs::create_dir_all(path.parent().context("a link lies in a folder")?)?;
        symlink(to, &path).with_context(|| format!("cannot make {}", path.display()))
    };
    // A machine without any mount is none that can be believed.
    put(
        "proc/self/mountinfo".to_owned(),
        "22 1 0:21 / / rw - rootfs rootfs rw\n",
    )?;
    put("dev/kmsg".to_owned(), "")?;
    put(
        "proc/swaps".to_owned(),
        "Filename Type Size Used Priority\n",
    )?;
    put(
        "sys/module/nvme_core/parameters/shutdown_timeout".to_owned(),
        "1\n",
    )?;
    put("sys/bus/pci/drivers/nvme/unbind".to_owned(), "")?;
    for n in 0..controllers {
        let address = address(n);
        let pci = format!("sys/bus/pci/devices/{address}");
        put(format!("{pci}/power/control"), "on\n")?;
        put(format!("{pci}/class"), "0x010802\n")?;
        link(format!("{pci}/driver"), "../../drivers/nvme".to_owned())?;
        let class = format!("sys/class/nvme/nvme{n}");
        put(format!("{class}/transport"), "pcie\n")?;
        put(format!("{class}/address"), &format!("{address}\n"))?;
        put(format!("{class}/state"), "live\n")?;
        link(
            format!("{class}/device"),
            format!("../../../bus/pci/devices/{address}"),
        )?;
        let subsystem = format!("sys/class/nvme-subsystem/nvme-subsys{n}");
        put(format!("{subsystem}/nvme{n}n1/dev"), &dev(n))?;
        link(
            format!("{subsystem}/nvme{n}"),
            format!("../../nvme/nvme{n}"),
        )?;
        put(
            format!("fixture/rtd3e/nvme{n}"),
            &format!("{}\n", time_ms(n) * 1000),
        )?;
    }
    // Drives among block devices of every other kind.
    for n in 0..controllers * 4 {
        let name = match n % 4 {
            0 => format!("nvme{}n1", n / 4),
            1 => format!("dm-{n}"),
            2 => format!("loop{n}"),
            _ => format!("sdx{n}"),
        };
        put(format!("sys/block/{name}/dev"), &dev(n))?;
        link(
            format!("sys/class/block/{name}"),
            format!("../../block/{name}"),
        )?;
        fs::create_dir(root.join(format!("sys/block/{name}/holders")))?;
    }
    Ok(())
}

fn dev(n: u32) -> String {
    format!("259:{n}\n")
}

/// Addresses as on a machine with many PCI domains.
fn address(n: u32) -> String {
    format!("{:04x}:{:02x}:00.0", n / 256, n % 256)
}

/// 1 to 13 s in whole seconds, as nothing in particular orders them: the driver rounds down to seconds.
pub(super) fn time_ms(n: u32) -> u32 {
    let mixed = n.wrapping_add(1).wrapping_mul(0x9e37_79b1);
    1_000 * (1 + (mixed >> 16) % 13)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_and_addresses() {
        let times: std::collections::BTreeSet<u32> = (0..5_000).map(time_ms).collect();
        assert_eq!(times.first(), Some(&1_000));
        assert_eq!(times.last(), Some(&13_000));
        assert_eq!(times.len(), 13);
        assert_eq!(address(0), "0000:00:00.0");
        assert_eq!(address(4_999), "0013:87:00.0");
    }
}
