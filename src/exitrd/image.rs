//! The file that dracut would unpack as its exitrd. A unified kernel image, ostree or bootc leaves none where it looks: then it
//! makes none, however much its image is wanted.
//!
//! Source: dracut's `dracut-initramfs-restore`.

use crate::path;
use crate::sys::Root;
use crate::text::Printable;

/// Where boot loaders' partitions are mounted.
const PLACES: [&str; 3] = ["/efi", "/boot", "/boot/efi"];

/// Whether it finds one for the kernel that runs. Where that cannot be told it is believed to.
pub(super) fn is_there(root: &Root) -> bool {
    let mut buf = [0; 128];
    let Ok(kernel) = root.read("/proc/sys/kernel/osrelease", &mut buf) else {
        return true;
    };
    let kernel = Printable(kernel);
    let mut id = [0; 64];
    let machine = Printable(root.read("/etc/machine-id", &mut id).unwrap_or_default());
    let exact = PLACES.iter().any(|place| {
        root.exists(path!("{place}/{machine}/{kernel}/initrd").as_str())
            || root.exists(path!("{place}/Default/{kernel}/initrd").as_str())
    });
    exact
        || root.exists(path!("/lib/modules/{kernel}/initrd").as_str())
        || root.exists("/boot/initrd.img")
        || is_in_boot(root, path!("{kernel}").as_str())
}

/// `/boot/initramfs-6.12.0.img`, `/boot/initrd.img-6.12.0`, `/boot/initrd-6.12.0`. One that cannot be listed may be
/// somewhere else until the shutdown mounts it.
fn is_in_boot(root: &Root, kernel: &str) -> bool {
    let mut found = false;
    let mut empty = true;
    let listed = root.entries("/boot", |entry| {
        empty = false;
        let name = core::str::from_utf8(entry).unwrap_or_default();
        found = name.starts_with("initr") && name.contains(kernel);
        !found
    });
    found || empty || listed.is_err()
}
