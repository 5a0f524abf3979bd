//! One admin command: what a controller says of its own shutdown.
#![allow(unsafe_code)]

use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::ioctl::{Updater, ioctl, opcode};

use super::Root;
use crate::path;

/// Asks the controller for RTD3E, in microseconds; 0 means it says nothing. Blocks as long as the controller does, so
/// only a worker may call it. Below a fixture root it is the number in `fixture/rtd3e/nvmeN`.
pub fn rtd3e_us(root: &Root, instance: u32) -> Result<u32, Errno> {
    if root.is_fixture() {
        return root
            .read_u32(path!("/fixture/rtd3e/nvme{instance}").as_str())
            .ok_or(Errno::NOENT);
    }
    let fd = root.open(
        path!("/dev/nvme{instance}").as_str(),
        rustix::fs::OFlags::RDONLY,
    )?;
    let mut page = Page([0; 4096]);
    identify_controller(&fd, &mut page.0)?;
    let field = page
        .0
        .get(88..92)
        .and_then(|b| b.try_into().ok())
        .unwrap_or([0; 4]);
    Ok(u32::from_le_bytes(field))
}

/// Identify data is DMAed by the page.
#[repr(align(4096))]
struct Page([u8; 4096]);

/// `struct nvme_passthru_cmd` of linux/nvme_ioctl.h.
#[repr(C)]
#[derive(Default)]
struct AdminCommand {
    opcode: u8,
    flags: u8,
    rsvd1: u16,
    nsid: u32,
    cdw2: u32,
    cdw3: u32,
    metadata: u64,
    addr: u64,
    metadata_len: u32,
    data_len: u32,
    cdw10: u32,
    cdw11: u32,
    cdw12: u32,
    cdw13: u32,
    cdw14: u32,
    cdw15: u32,
    timeout_ms: u32,
    result: u32,
}

/// Identify (06h) with CNS 01h, the controller's own data structure. `timeout_ms` stays 0, the kernel's own
/// timeout: a shorter one makes the driver reset the controller.
fn identify_controller(fd: &OwnedFd, data: &mut [u8; 4096]) -> Result<(), Errno> {
    const OPCODE: rustix::ioctl::Opcode = opcode::read_write::<AdminCommand>(b'N', 0x41);
    let mut command = AdminCommand {
        opcode: 0x06,
        addr: data.as_mut_ptr() as u64,
        data_len: 4096,
        cdw10: 1,
        ..AdminCommand::default()
    };
    // SAFETY: NVME_IOCTL_ADMIN_CMD reads and writes a struct nvme_passthru_cmd, which AdminCommand is to the
    // letter, and stores at most data_len bytes at addr, which `data`, borrowed for the whole call, has.
    unsafe { ioctl(fd, Updater::<OPCODE, AdminCommand>::new(&mut command)) }
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_command_has_the_size_the_kernel_checks() {
        assert_eq!(size_of::<super::AdminCommand>(), 72);
    }
}
