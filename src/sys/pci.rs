//! PCI functions as sysfs shows them (Documentation/PCI/sysfs-pci.rst).

use core::fmt;

use rustix::fs::OFlags;

use super::Root;
use crate::path;
use crate::text::Printable;

/// Address of a PCI function, `domain:bus:device.function` in hexadecimal (Documentation/PCI/sysfs-pci.rst).
///
/// Domains below an Intel VMD have five digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PciAddress {
    domain: u32,
    bus: u8,
    /// Device (5 bits) and function (3 bits).
    devfn: u8,
}

impl PciAddress {
    /// `0000:05:00.0`.
    pub fn parse(text: &[u8]) -> Option<Self> {
        let text = core::str::from_utf8(text).ok()?.trim();
        let (domain, rest) = text.split_once(':')?;
        let (bus, rest) = rest.split_once(':')?;
        let (device, function) = rest.split_once('.')?;
        let hex = |s: &str| {
            u32::from_str_radix(s, 16)
                .ok()
                .filter(|_| s.bytes().all(|b| b.is_ascii_hexdigit()))
        };
        let (device, function) = (hex(device)?, hex(function)?);
        if device > 31 || function > 7 {
            return None;
        }
        Some(Self {
            domain: hex(domain)?,
            bus: u8::try_from(hex(bus)?).ok()?,
            devfn: u8::try_from(device << 3 | function).ok()?,
        })
    }
}

impl PciAddress {
    /// As eight bytes, for a worker's order.
    #[must_use]
    pub fn to_bytes(self) -> [u8; 8] {
        let [a, b, c, d] = self.domain.to_le_bytes();
        [a, b, c, d, self.bus, self.devfn, 0, 0]
    }

    /// What [`to_bytes`](Self::to_bytes) made.
    #[must_use]
    pub fn from_bytes(bytes: [u8; 8]) -> Self {
        let [a, b, c, d, bus, devfn, _, _] = bytes;
        Self {
            domain: u32::from_le_bytes([a, b, c, d]),
            bus,
            devfn,
        }
    }
}

impl fmt::Display for PciAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { domain, bus, devfn } = self;
        write!(f, "{domain:04x}:{bus:02x}:{:02x}.{}", devfn >> 3, devfn & 7)
    }
}

/// False if the function certainly does not answer: it has been pulled (all ones), or its memory is switched off, so that
/// no driver reaches its registers. PCI Local Bus Specification, configuration space, vendor ID and command.
pub fn answers(root: &Root, address: PciAddress) -> bool {
    const MEMORY_SPACE: u8 = 1 << 1;
    // A virtual function has neither of its own (PCI Express Base Specification, SR-IOV: both registers are reserved
    // there), so its physical one is asked.
    let fd = ["physfn/config", "config"].into_iter().find_map(|file| {
        let path = path!("/sys/bus/pci/devices/{address}/{file}");
        root.open(path.as_str(), OFlags::RDONLY).ok()
    });
    let Some(fd) = fd else {
        return true;
    };
    let mut header = [0; 6];
    match rustix::io::read(&fd, &mut header) {
        Ok(6) => {
            let [vendor_low, vendor_high, _, _, command, _] = header;
            (vendor_low, vendor_high) != (0xff, 0xff) && command & MEMORY_SPACE != 0
        }
        _ => true,
    }
}

/// PCI functions of class 0108 (NVM, any interface) that no NVMe driver has: vfio-pci, uio or nothing.
pub fn foreign_functions(root: &Root, mut each: impl FnMut(PciAddress, &[u8])) {
    let mut buf = [0; 16];
    let mut link = [0; 256];
    // A machine without PCI has none.
    let _ = root.entries("/sys/bus/pci/devices", |entry| {
        let dir = path!("/sys/bus/pci/devices/{}", Printable(entry));
        let is_nvm = root
            .read(path!("{dir}/class").as_str(), &mut buf)
            .is_ok_and(|class| class.starts_with(b"0x0108"));
        if is_nvm && let Some(address) = PciAddress::parse(entry) {
            let driver = root
                .link_name(path!("{dir}/driver").as_str(), &mut link)
                .unwrap_or_default();
            if driver != b"nvme" {
                each(address, driver);
            }
        }
        true
    });
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn pci_addresses_round_trip() {
        for text in ["0000:05:00.0", "10000:e1:1f.7", "0000:ff:00.0"] {
            assert_eq!(
                PciAddress::parse(text.as_bytes()).unwrap().to_string(),
                text
            );
        }
        for text in [
            "",
            "0000:05:00",
            "0000:05:20.0",
            "0000:05:00.8",
            "0000:105:00.0",
            "x:05:00.0",
            "0000:+5:00.0",
            "traddr=1.2.3.4,trsvcid=4420",
        ] {
            assert_eq!(PciAddress::parse(text.as_bytes()), None, "{text}");
        }
    }
}
