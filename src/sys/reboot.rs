//! reboot(2), and what it needs to know.
#![allow(unsafe_code)]

use nix::libc;
use rustix::io::Errno;

use super::Root;

/// Where systemd keeps what the firmware or boot loader is to be told (src/shared/reboot-util.c).
const PARAMETER: &str = "/run/systemd/reboot-param";
/// What LINUX_REBOOT_CMD_RESTART2 takes (kernel/reboot.c), its NUL included.
const PARAMETER_MAX: usize = 256;

/// Whether a kernel is loaded that kexec would enter (Documentation/ABI/testing/sysfs-kernel-kexec-kdump).
pub fn kexec_is_loaded(root: &Root) -> bool {
    root.read_u32("/sys/kernel/kexec_loaded") == Some(1)
}

/// How a machine ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// It starts again.
    Restart,
    /// It is turned off.
    PowerOff,
    /// It stands still.
    Halt,
    /// The kernel that is loaded takes its place.
    Kexec,
}

/// Ends the machine. What stands in memory only is lost, and every driver's own shutdown is waited for without bound, so a
/// process of its own must do this. Returns only if it cannot be done.
pub fn now(root: &Root, way: Way) -> Errno {
    if root.is_fixture() {
        return Errno::OPNOTSUPP;
    }
    let parameter = parameter(root);
    let command = match way {
        Way::PowerOff => libc::LINUX_REBOOT_CMD_POWER_OFF,
        Way::Halt => libc::LINUX_REBOOT_CMD_HALT,
        Way::Kexec => libc::LINUX_REBOOT_CMD_KEXEC,
        Way::Restart if parameter.is_some() => libc::LINUX_REBOOT_CMD_RESTART2,
        Way::Restart => libc::LINUX_REBOOT_CMD_RESTART,
    };
    let argument = parameter.unwrap_or([0; PARAMETER_MAX]);
    // SAFETY: the argument is read by RESTART2 only, as text that ends with NUL: its last byte always is.
    unsafe {
        libc::syscall(
            libc::SYS_reboot,
            libc::LINUX_REBOOT_MAGIC1,
            libc::LINUX_REBOOT_MAGIC2,
            command,
            argument.as_ptr(),
        )
    };
    Errno::from_raw_os_error(nix::errno::Errno::last_raw())
}

/// What is to be passed on, if anything is.
fn parameter(root: &Root) -> Option<[u8; PARAMETER_MAX]> {
    let mut text = [0; PARAMETER_MAX];
    let len = root
        .read(PARAMETER, text.get_mut(..PARAMETER_MAX - 1)?)
        .ok()?
        .len();
    text.get_mut(len..)?.fill(0);
    (len > 0).then_some(text)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn what_systemd_was_told_is_passed_on() {
        let dir = tempfile::tempdir().unwrap();
        let root = Root::below(dir.path().as_os_str()).unwrap();
        assert_eq!(parameter(&root), None);
        std::fs::create_dir_all(dir.path().join("run/systemd")).unwrap();
        let put = |text: &str| std::fs::write(dir.path().join(&PARAMETER[1..]), text).unwrap();
        put("\n");
        assert_eq!(parameter(&root), None);
        put("firmware\n");
        let text = parameter(&root).unwrap();
        assert!(text.starts_with(b"firmware\0") && text[8..].iter().all(|&b| b == 0));
        put(&"x".repeat(300));
        assert_eq!(parameter(&root).unwrap()[PARAMETER_MAX - 1], 0);
    }

    #[test]
    fn a_fixture_does_not_end_the_machine() {
        let dir = tempfile::tempdir().unwrap();
        let root = Root::below(dir.path().as_os_str()).unwrap();
        assert_eq!(now(&root, Way::Restart), Errno::OPNOTSUPP);
        assert!(!kexec_is_loaded(&root));
    }
}
