//! The file that dracut would unpack as its exitrd. A unified kernel image, ostree or bootc leaves none where it looks: then it
//! makes none, however much its image is wanted.
//!
//! Source: dracut's `dracut-initramfs-restore`.

use crate::path;
use crate::sys::Root;
use crate::text::Printable;

/// Where boot loaders' partitions are mounted.
const PLACES: [&str; 3] = ["/efi", "/boot", "/boot/efi"];

/// Written when quell is installed, and when it is made a newer one.
const MODULE: &str = "/usr/lib/dracut/modules.d/55quell/module-setup.sh";

/// What unpacks it.
pub(super) const RESTORE: &str = "/usr/lib/dracut/dracut-initramfs-restore";

/// Whether it gets unpacked. Where there is a 3cpio dracut 112 calls it, and it refuses to unpack into a folder that is not empty:
/// the one where it was asked for by a file.
pub(super) fn is_unpacked(root: &Root) -> bool {
    let mut buf = [0; 8192];
    let script = root.read(RESTORE, &mut buf).unwrap_or_default();
    let says = |word: &[u8]| script.windows(word.len()).any(|part| part == word);
    !root.executable("/usr/bin/3cpio") || !says(b"3cpio --extract") || says(b"--force")
}

/// Whether it finds one for the kernel that runs. Where that cannot be told it is believed to.
pub(super) fn is_there(root: &Root) -> bool {
    let mut kernel = false;
    any(root, |path| {
        kernel = true;
        root.exists(path)
    }) || !kernel
        || boot_is_away(root)
}

/// Whether it has been made since this quell was installed, from which it then should hold it. Nothing of this boot tells that.
pub fn is_newer(root: &Root) -> bool {
    let Ok(module) = root.stat(MODULE) else {
        return false;
    };
    any(root, |path| {
        root.stat(path).is_ok_and(|image| {
            (image.st_mtime, image.st_mtime_nsec) >= (module.st_ctime, module.st_ctime_nsec)
        })
    })
}

/// Whether `fits` is true of one of the files it may be: none where the kernel's version cannot be read.
fn any(root: &Root, mut fits: impl FnMut(&str) -> bool) -> bool {
    let mut buf = [0; 128];
    let Ok(kernel) = root.read("/proc/sys/kernel/osrelease", &mut buf) else {
        return false;
    };
    let kernel = Printable(kernel);
    let mut id = [0; 64];
    let machine = Printable(root.read("/etc/machine-id", &mut id).unwrap_or_default());
    let exact = PLACES.iter().any(|place| {
        fits(path!("{place}/{machine}/{kernel}/initrd").as_str())
            || fits(path!("{place}/Default/{kernel}/initrd").as_str())
    });
    if exact || fits(path!("/lib/modules/{kernel}/initrd").as_str()) || fits("/boot/initrd.img") {
        return true;
    }
    // `/boot/initramfs-6.12.0.img`, `/boot/initrd.img-6.12.0`, `/boot/initrd-6.12.0`.
    let kernel = path!("{kernel}");
    let mut found = false;
    let _ = root.entries("/boot", |entry| {
        let name = core::str::from_utf8(entry).unwrap_or_default();
        found = name.starts_with("initr")
            && name.contains(kernel.as_str())
            && fits(path!("/boot/{name}").as_str());
        !found
    });
    found
}

/// A /boot that is empty, or cannot be listed, may be somewhere else until the shutdown mounts it.
fn boot_is_away(root: &Root) -> bool {
    let mut empty = true;
    let listed = root.entries("/boot", |_| {
        empty = false;
        false
    });
    empty || listed.is_err()
}
