//! What nobody can start without guessing is kept from mdadm beyond the initramfs: its rules would have it guess as soon as the
//! running system's udev looks at the disks.

use rustix::io::Errno;

use crate::sys::Root;

/// Read by udev before mdadm's rules (64), and gone with the next boot.
const RULES: &str = "/run/udev/rules.d/62-quell-refused.rules";

/// Has udev keep mdadm's rules away from these disks (`noiswmd`, as mdadm's rules have it), and from no others.
pub(super) fn keep(root: &Root, disks: &[&str]) -> Result<(), Errno> {
    if disks.is_empty() && !root.exists(RULES) {
        return Ok(());
    }
    root.make_dir("/run/udev")?;
    root.make_dir("/run/udev/rules.d")?;
    root.replace(RULES, rules(disks).as_bytes())
}

fn rules(disks: &[&str]) -> String {
    if disks.is_empty() {
        return String::new();
    }
    let names = disks.join("|");
    format!(
        "# Which of these disks is right nobody knows; the kernel's log says why. Without this file mdadm may have them.\n\
         SUBSYSTEM==\"block\", KERNEL==\"{names}\", ENV{{ID_FS_TYPE}}==\"isw_raid_member\", ENV{{noiswmd}}=\"1\"\n"
    )
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn only_what_is_refused_is_kept_from_mdadm() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("run")).unwrap();
        let root = Root::below(dir.path().as_os_str()).unwrap();
        let file = dir.path().join(RULES.trim_start_matches('/'));
        keep(&root, &[]).unwrap();
        assert!(!file.exists());
        keep(&root, &["sda", "nvme0n1"]).unwrap();
        let text = std::fs::read_to_string(&file).unwrap();
        assert!(text.contains(r#"KERNEL=="sda|nvme0n1""#) && text.ends_with("=\"1\"\n"));
        keep(&root, &[]).unwrap();
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "");
    }
}
