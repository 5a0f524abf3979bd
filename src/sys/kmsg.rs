//! The kernel's log as the witness: what the nvme driver says of a shutdown is the only word there is on it.
//!
//! Format: Documentation/ABI/testing/dev-kmsg in the kernel tree.

use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{OFlags, SeekFrom};
use rustix::io::Errno;

use super::Root;
use crate::name;

/// The longest record there is (CONSOLE_EXT_LOG_MAX, PRINTKRB_RECORD_MAX).
const RECORD: usize = 8192;

/// The most that are read at once: more than a whole log of the usual 256 KiB holds.
const RECORDS: usize = 16_384;

/// What the driver says, through dev_err on the controller, when the wait for CSTS.SHST ran out
/// (drivers/nvme/host/core.c: nvme_wait_ready since 6.2, nvme_shutdown_ctrl before).
const COMPLAINTS: [&str; 2] = [
    "Device not ready; aborting shutdown",
    "Device shutdown incomplete; abort shutdown",
];

/// Reads what the kernel logs from now on.
pub struct Reader {
    fd: OwnedFd,
    lost: bool,
}

impl Reader {
    /// Opens /dev/kmsg, non-blocking, at its end.
    pub fn at_end(root: &Root) -> Result<Self, Errno> {
        let fd = root.open("/dev/kmsg", OFlags::RDONLY | OFlags::NONBLOCK)?;
        rustix::fs::seek(&fd, SeekFrom::End(0))?;
        Ok(Self { fd, lost: false })
    }

    /// Reads all that is there, calling `each` with the instance of every controller whose shutdown was given up.
    pub fn drain(&mut self, mut each: impl FnMut(u32)) {
        let mut record = [0; RECORD];
        // Bounded, so that a kernel that never stops talking does not keep us here; the rest is there the next time, and
        // what is lost meanwhile is known to be lost.
        for _ in 0..RECORDS {
            match rustix::io::read(&self.fd, &mut record) {
                Ok(0) | Err(Errno::AGAIN) => return,
                Ok(n) => {
                    if let Some(instance) = complaint(record.get(..n).unwrap_or_default()) {
                        each(instance);
                    }
                }
                Err(Errno::INTR) => {}
                // EPIPE: the log was overwritten before it was read. The next read goes on with what is left.
                Err(Errno::PIPE) => self.lost = true,
                Err(_) => {
                    self.lost = true;
                    return;
                }
            }
        }
        self.lost = true;
    }

    /// True if something was said that nobody heard.
    pub fn lost(&self) -> bool {
        self.lost
    }
}

impl AsFd for Reader {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// The controller whose shutdown a record says was given up. Only the kernel's own records count.
fn complaint(record: &[u8]) -> Option<u32> {
    let end = record
        .iter()
        .position(|&b| b == b'\n')
        .unwrap_or(record.len());
    let line = core::str::from_utf8(record.get(..end)?).ok()?;
    let (prefix, message) = line.split_once(';')?;
    let priority: u32 = prefix.split(',').next()?.parse().ok()?;
    if priority >> 3 != 0 {
        return None;
    }
    let at = COMPLAINTS.iter().find_map(|c| message.find(c))?;
    let device = message.get(..at)?.strip_suffix(": ")?.rsplit(' ').next()?;
    name::controller(device.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_drivers_words_on_every_kernel() {
        let cases: &[(&str, Option<u32>)] = &[
            (
                "3,812,5203914,-;nvme nvme3: Device not ready; aborting shutdown, CSTS=0x5\n SUBSYSTEM=nvme\n DEVICE=c240:3\n",
                Some(3),
            ),
            (
                "3,812,5203914,-;nvme nvme13: Device shutdown incomplete; abort shutdown\n",
                Some(13),
            ),
            (
                "3,812,5203914,-,caller=T12;nvme nvme3: Device not ready; aborting shutdown, CSTS=0x5",
                Some(3),
            ),
            (
                "3,812,5203914,-;nvme nvme3: Device not ready; aborting reset, CSTS=0x1\n",
                None,
            ),
            (
                "11,812,5203914,-;nvme nvme3: Device not ready; aborting shutdown, CSTS=0x5\n",
                None,
            ),
            (
                "3,812,5203914,-;Device not ready; aborting shutdown, CSTS=0x5\n",
                None,
            ),
            ("6,1,0,-;Linux version", None),
            ("", None),
            ("x;nvme nvme3: Device not ready; aborting shutdown", None),
        ];
        for (record, want) in cases {
            assert_eq!(complaint(record.as_bytes()), *want, "{record}");
        }
        assert_eq!(complaint(b"\xff\xfe;\n"), None);
    }
}
