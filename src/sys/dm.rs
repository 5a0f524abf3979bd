//! Device-mapper maps: of what kinds they are, and their end.
//!
//! Sources: linux/dm-ioctl.h, Documentation/admin-guide/device-mapper. All of it may block, so only workers may do it.
#![allow(unsafe_code)]

use nix::libc;
use rustix::fd::AsRawFd;
use rustix::fs::OFlags;
use rustix::io::Errno;

use super::{Dev, Root};

/// `struct dm_ioctl` of linux/dm-ioctl.h.
#[repr(C)]
struct DmIoctl {
    version: [u32; 3],
    data_size: u32,
    data_start: u32,
    target_count: u32,
    open_count: i32,
    flags: u32,
    event_nr: u32,
    padding: u32,
    dev: u64,
    name: [u8; 128],
    uuid: [u8; 129],
    data: [u8; 7],
}

impl DmIoctl {
    /// About the map of that number, with room for an answer of `data` bytes behind it.
    fn about(dev: Dev, data: usize, flags: u32) -> Result<Self, Errno> {
        let size = |size: usize| u32::try_from(size).map_err(|_| Errno::INVAL);
        Ok(Self {
            // Any kernel takes what asks for this interface's first version.
            version: [4, 0, 0],
            data_size: size(size_of::<Self>() + data)?,
            data_start: size(size_of::<Self>())?,
            target_count: 0,
            open_count: 0,
            flags,
            event_nr: 0,
            padding: 0,
            dev: dev.0,
            name: [0; 128],
            uuid: [0; 129],
            data: [0; 7],
        })
    }
}

/// `DM_DEV_REMOVE`: `_IOWR(0xfd, 4, struct dm_ioctl)`
const DM_DEV_REMOVE: libc::c_ulong = 0xc138_fd04;
/// `DM_TABLE_STATUS`: `_IOWR(0xfd, 12, struct dm_ioctl)`
const DM_TABLE_STATUS: libc::c_ulong = 0xc138_fd0c;
/// The answer did not fit.
const DM_BUFFER_FULL_FLAG: u32 = 1 << 8;
/// A thin pool, or a cache, is not to write its metadata only because it is asked.
const DM_NOFLUSH_FLAG: u32 = 1 << 11;
/// More than the targets of most maps need. One with more is of kinds that cannot be told.
const ANSWER: usize = 32 * 1024;
/// `struct dm_target_spec`: start, length, status, where the next one is, kind.
const SPEC: usize = 40;

#[repr(C)]
struct Status {
    head: DmIoctl,
    answer: [u8; ANSWER],
}

/// Removes the map of that number, which must be used by nobody (EBUSY).
pub fn remove(root: &Root, dev: Dev) -> Result<(), Errno> {
    let mut order = DmIoctl::about(dev, 0, 0)?;
    // SAFETY: it is a DmIoctl, and says so.
    unsafe { control(root, DM_DEV_REMOVE, &raw mut order) }
}

/// Calls `each` with the kind of every target of the map of that number: `linear`, `crypt`, `thin-pool`. OVERFLOW: it has too many.
pub fn kinds(root: &Root, dev: Dev, each: &mut dyn FnMut(&[u8])) -> Result<(), Errno> {
    let mut status = Status {
        head: DmIoctl::about(dev, ANSWER, DM_NOFLUSH_FLAG)?,
        answer: [0; ANSWER],
    };
    // SAFETY: it is a DmIoctl with `answer` behind it, and says so.
    unsafe { control(root, DM_TABLE_STATUS, (&raw mut status).cast()) }?;
    let start = usize::try_from(status.head.data_start).map_err(|_| Errno::INVAL)?;
    let answer = start.checked_sub(size_of::<DmIoctl>());
    let answer = answer.and_then(|start| status.answer.get(start..));
    match status.head.flags & DM_BUFFER_FULL_FLAG {
        0 => targets(answer.unwrap_or_default(), status.head.target_count, each),
        _ => Err(Errno::OVERFLOW),
    }
}

/// # Safety
///
/// `order` must be followed by as many bytes as its `data_size` says that there are.
unsafe fn control(root: &Root, command: libc::c_ulong, order: *mut DmIoctl) -> Result<(), Errno> {
    if root.is_fixture() {
        return Err(Errno::OPNOTSUPP);
    }
    let control = root.open("/dev/mapper/control", OFlags::RDWR)?;
    // SAFETY: the command reads and writes `data_size` bytes, which the caller has.
    match unsafe { libc::ioctl(control.as_raw_fd(), command as _, order) } {
        0.. => Ok(()),
        _ => Err(Errno::from_raw_os_error(nix::errno::Errno::last_raw())),
    }
}

/// What DM_TABLE_STATUS has written: `count` times a [`SPEC`] and text, each where the one before says, from the first on.
fn targets(answer: &[u8], count: u32, each: &mut dyn FnMut(&[u8])) -> Result<(), Errno> {
    let mut at = 0;
    for _ in 0..count {
        let spec = answer.get(at..).and_then(<[u8]>::first_chunk::<SPEC>);
        let (head, kind) = spec
            .and_then(|spec| spec.split_first_chunk::<24>())
            .ok_or(Errno::INVAL)?;
        let end = kind.iter().position(|&b| b == 0).unwrap_or(kind.len());
        each(kind.get(..end).unwrap_or_default());
        let next = head
            .last_chunk::<4>()
            .map_or(0, |next| u32::from_ne_bytes(*next));
        at = usize::try_from(next).map_err(|_| Errno::INVAL)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn the_order_has_the_size_the_kernel_copies() {
        assert_eq!(size_of::<DmIoctl>(), 312);
        assert_eq!(size_of::<Status>(), 312 + ANSWER);
        // _IOWR: direction 3, size, type, number.
        assert_eq!(DM_DEV_REMOVE, 3 << 30 | 312 << 16 | 0xfd << 8 | 4);
        assert_eq!(DM_TABLE_STATUS, 3 << 30 | 312 << 16 | 0xfd << 8 | 12);
    }

    #[test]
    fn a_fixtures_maps_are_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        let root = Root::below(dir.path().as_os_str()).unwrap();
        assert_eq!(remove(&root, Dev(0)), Err(Errno::OPNOTSUPP));
        assert_eq!(kinds(&root, Dev(0), &mut |_| ()), Err(Errno::OPNOTSUPP));
    }

    #[test]
    fn the_kind_of_every_target_is_told() {
        let mut answer = [0_u8; 128];
        answer[20..24].copy_from_slice(&48_u32.to_ne_bytes());
        answer[24..31].copy_from_slice(b"striped");
        answer[72..88].copy_from_slice(b"a-kind-of-16-let");
        let kinds = |answer: &[u8], count| {
            let mut kinds = Vec::new();
            let told = targets(answer, count, &mut |kind| {
                kinds.push(String::from_utf8_lossy(kind).into_owned());
            });
            told.map(|()| kinds)
        };
        let both = ["striped", "a-kind-of-16-let"].map(str::to_owned).to_vec();
        assert_eq!(kinds(&answer, 2), Ok(both));
        assert_eq!(kinds(&answer, 0), Ok(Vec::new()));
        assert_eq!(kinds(&answer[..87], 2), Err(Errno::INVAL));
        answer[20..24].copy_from_slice(&u32::MAX.to_ne_bytes());
        assert_eq!(kinds(&answer, 2), Err(Errno::INVAL));
    }
}
