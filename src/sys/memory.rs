//! Memory that stays, since the disk the binary lies on, or the swap, may be the next to go; and memory that is still to be
//! written to disks.
#![allow(unsafe_code)]

use rustix::mm::{MlockAllFlags, mlock, mlockall};

use super::Root;

/// Keeps every page of this process in memory: its code and constants now, all else from the moment it is first used.
///
/// The tables are megabytes of which most machines use little. Locking all of that at once (mlockall(2) without
/// MCL_ONFAULT) would make every fork copy its page tables. Not being allowed to lock is no reason to stop.
pub fn lock() {
    let _ = mlockall(MlockAllFlags::CURRENT | MlockAllFlags::FUTURE | MlockAllFlags::ONFAULT);
    let _ = Root::Machine.lines::<512>("/proc/self/maps", |line| {
        if let Some((start, end)) = file_range(line) {
            // SAFETY: mlock(2) reads nothing and changes no content; a range that is not mapped is refused.
            let _ = unsafe { mlock(core::ptr::without_provenance_mut(start), end - start) };
        }
    });
}

/// The range of a mapping that comes from a file and is not written to (proc(5), maps):
/// `55d0c8a00000-55d0c8a2c000 r-xp 00004000 fe:00 1311 /usr/lib/quell/quell`.
fn file_range(line: &[u8]) -> Option<(usize, usize)> {
    let line = core::str::from_utf8(line).ok()?;
    let mut fields = line.split_ascii_whitespace();
    let (start, end) = fields.next()?.split_once('-')?;
    let may = fields.next()?;
    let inode = fields.nth(2)?;
    if inode == "0" || may.contains('w') {
        return None;
    }
    let hex = |text| usize::from_str_radix(text, 16).ok();
    let (start, end) = (hex(start)?, hex(end)?);
    (start < end).then_some((start, end))
}

/// What is to be written to disks, or just is, in KiB (proc(5), meminfo: `Dirty`, `Writeback`).
pub fn unwritten_kib(root: &Root) -> Option<u64> {
    let mut sum: Option<u64> = None;
    let _ = root.lines::<256>("/proc/meminfo", |line| {
        let value = line
            .strip_prefix(b"Dirty:")
            .or_else(|| line.strip_prefix(b"Writeback:"));
        let number = value.and_then(|value| core::str::from_utf8(value).ok());
        let kib = number.and_then(|text| text.trim().strip_suffix(" kB")?.parse::<u64>().ok());
        if let Some(kib) = kib {
            sum = Some(sum.unwrap_or(0).saturating_add(kib));
        }
    });
    sum
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn what_is_under_way_counts_as_unwritten() {
        let dir = tempfile::tempdir().unwrap();
        let root = Root::below(dir.path().as_os_str()).unwrap();
        assert_eq!(unwritten_kib(&root), None);
        std::fs::create_dir(dir.path().join("proc")).unwrap();
        let text =
            "MemTotal:  900 kB\nDirty:     12 kB\nWriteback:      30 kB\nWritebackTmp:   7 kB\n";
        std::fs::write(dir.path().join("proc/meminfo"), text).unwrap();
        assert_eq!(unwritten_kib(&root), Some(42));
    }

    #[test]
    fn only_what_comes_from_the_file_is_read_in() {
        let range = |line: &str| file_range(line.as_bytes());
        assert_eq!(
            range("1000-3000 r-xp 00004000 fe:00 1311    /usr/lib/quell/quell"),
            Some((0x1000, 0x3000))
        );
        assert_eq!(
            range("1000-3000 rw-p 00004000 fe:00 1311 /usr/lib/quell/quell"),
            None
        );
        assert_eq!(range("1000-3000 r-xp 00000000 00:00 0    [vdso]"), None);
        assert_eq!(range("1000 r-xp"), None);
        assert_eq!(range("3000-1000 r-xp 0 fe:00 5 /x"), None);
    }
}
