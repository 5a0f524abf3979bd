//! Users of a namespace that take no claim, so that an exclusive open does not see them: loop devices and storage targets.
//!
//! A configfs folder whose target is being taken down, and a loop device that is being set up, can make a look wait: only
//! a worker may look.

use core::fmt;

use rustix::io::Errno;

use super::claims::{Lasts, Unknown, device_at, optional};
use super::{Root, claims, loopback};
use crate::name::{self, Device};
use crate::path;
use crate::text::Printable;

/// Is told of a device, and until when and how it is used.
pub type Each<'a> = dyn FnMut(Device, Lasts, fmt::Arguments<'_>) + 'a;

/// Calls `each` with every device that a loop device or a target uses.
///
/// An error means that who uses what cannot be known.
pub fn scan(root: &Root, each: &mut Each<'_>) -> Result<(), Unknown> {
    let of = |file, result| optional(result).map_err(|errno| Unknown { file, errno });
    of("/sys/block/loop*", loops(root, each))?;
    of("/sys/kernel/config/nvmet", nvmet(root, each))?;
    of("/sys/kernel/config/target", lio(root, each))?;
    of("/sys/class/rnbd-server", rnbd(root, each))
}

/// Documentation/ABI/testing/sysfs-block-loop: loop/backing_file. Where that is a name of another mount namespace, or of
/// a node that is gone, the loop device itself says which device it uses.
fn loops(root: &Root, each: &mut Each<'_>) -> Result<(), Errno> {
    root.entries("/sys/block", |entry| {
        if entry.starts_with(b"loop") {
            let mut buf = [0; 512];
            let entry = Printable(entry);
            let file = path!("/sys/block/{entry}/loop/backing_file");
            if let Ok(path) = root.read(file.as_str(), &mut buf) {
                let found = device_at(root, path).or_else(|| {
                    let dev = loopback::backing_device(root, path!("/dev/{entry}").as_str())?;
                    claims::device_of(root, "block", dev)
                });
                if let Some((device, part)) = found {
                    each(device, Lasts::Root, format_args!("{entry} on {part}"));
                }
            }
        }
        true
    })
}

/// The NVMe target's configfs (drivers/nvme/target/configfs.c): enabled namespaces, and passthru to a controller.
fn nvmet(root: &Root, each: &mut Each<'_>) -> Result<(), Errno> {
    const TOP: &str = "/sys/kernel/config/nvmet/subsystems";
    root.entries(TOP, |subsystem| {
        let nqn = Printable(subsystem);
        let dir = path!("{TOP}/{nqn}/namespaces");
        let _ = root.entries(dir.as_str(), |ns| {
            target(root, path!("{dir}/{}", Printable(ns)).as_str(), &nqn, each);
            true
        });
        target(root, path!("{TOP}/{nqn}/passthru").as_str(), &nqn, each);
        true
    })
}

fn target(root: &Root, dir: &str, nqn: &Printable<'_>, each: &mut Each<'_>) {
    if root.read_u32(path!("{dir}/enable").as_str()) != Some(1) {
        return;
    }
    let mut buf = [0; 512];
    let path = root.read(path!("{dir}/device_path").as_str(), &mut buf);
    match path.ok().and_then(|path| device_at(root, path)) {
        Some((device @ Device::Namespace(_), part)) => {
            each(
                device,
                Lasts::Machine,
                format_args!("{part} exported by nvmet as {nqn}"),
            );
        }
        Some((device @ Device::Controller(_), _)) => {
            each(
                device,
                Lasts::Machine,
                format_args!("passed through by nvmet as {nqn}"),
            );
        }
        None => {}
    }
}

/// LIO's configfs (drivers/target): a backstore names the node it uses in udev_path, where whoever set it up wrote it
/// there, and in its info: `File: /dev/nvme3n1  Size: ...`.
fn lio(root: &Root, each: &mut Each<'_>) -> Result<(), Errno> {
    const TOP: &str = "/sys/kernel/config/target/core";
    root.entries(TOP, |hba| {
        let dir = path!("{TOP}/{}", Printable(hba));
        let _ = root.entries(dir.as_str(), |backstore| {
            let shown = Printable(backstore);
            let mut buf = [0; 1024];
            let mut find = |file: &str| {
                let text = root
                    .read(path!("{dir}/{shown}/{file}").as_str(), &mut buf)
                    .ok()?;
                let at = text.windows(5).position(|part| part == b"/dev/")?;
                let path = text.get(at..)?.split(u8::is_ascii_whitespace).next()?;
                device_at(root, path)
            };
            if let Some((device, part)) = find("udev_path").or_else(|| find("info")) {
                each(
                    device,
                    Lasts::Machine,
                    format_args!("{part} exported by LIO as {shown}"),
                );
            }
            true
        });
        true
    })
}

/// Documentation/ABI/testing/sysfs-class-rnbd-server: devices/*/block_dev.
fn rnbd(root: &Root, each: &mut Each<'_>) -> Result<(), Errno> {
    const TOP: &str = "/sys/class/rnbd-server/ctl/devices";
    root.entries(TOP, |entry| {
        let link = path!("{TOP}/{}/block_dev", Printable(entry));
        let mut buf = [0; 512];
        if let Ok(name) = root.link_name(link.as_str(), &mut buf)
            && let Some(device) = name::device(name)
        {
            each(
                device,
                Lasts::Machine,
                format_args!("{} exported by rnbd", Printable(name)),
            );
        }
        true
    })
}
