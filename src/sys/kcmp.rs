//! Whether two threads share their table of open files (kcmp(2)).
#![allow(unsafe_code)]

use super::Root;

/// `KCMP_FILES` of linux/kcmp.h.
const KCMP_FILES: i32 = 2;

/// True if `pid` and `tid` are known to have the same table. A kernel without kcmp(2) does not say, and then each is
/// looked at.
pub(super) fn same_files(root: &Root, pid: u32, tid: u32) -> bool {
    if root.is_fixture() {
        return false;
    }
    // SAFETY: kcmp(2) takes numbers and touches no memory of ours.
    unsafe { nix::libc::syscall(nix::libc::SYS_kcmp, pid, tid, KCMP_FILES, 0, 0) == 0 }
}
