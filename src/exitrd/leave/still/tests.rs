#![allow(clippy::unwrap_used)]

use std::os::unix::fs::symlink;
use std::path::Path;

use super::*;

/// A machine with these files, and a link for each that has an arrow.
fn machine(files: &[(&str, &str)]) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let parents = |path: &Path| std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    for (path, text) in files {
        let path = dir.path().join(path);
        parents(&path);
        match text.strip_prefix("-> ") {
            Some(to) => symlink(to, path).unwrap(),
            None => std::fs::write(path, text).unwrap(),
        }
    }
    dir
}

/// A volume `md126` in `md127`, in that state.
fn volume(state: &str) -> Vec<(&'static str, &str)> {
    vec![
        ("sys/block/md126/md/metadata_version", "external:/md127/0\n"),
        ("sys/block/md126/md/level", "raid1\n"),
        ("sys/block/md126/md/array_state", state),
        ("sys/block/md126/dev", "9:126\n"),
        ("sys/class/block/md126", "-> ../../block/md126"),
        ("sys/dev/block/9:126", "-> ../../block/md126"),
    ]
}

fn found(files: &[(&str, &str)]) -> Vec<String> {
    let dir = machine(files);
    let root = Root::below(dir.path().as_os_str()).unwrap();
    let mut walk = Walk {
        root: &root,
        devices: heapless::Vec::new(),
        needs: heapless::Vec::new(),
    };
    walk.all();
    let mut found: Vec<String> = walk
        .needs
        .iter()
        .map(|(name, need)| format!("{name}: {need:?}"))
        .collect();
    found.sort();
    found
}

#[test]
fn a_mounted_volume_is_to_be_set_readonly_and_one_that_is_free_to_be_claimed_b48() {
    let mut files = volume("clean\n");
    assert_eq!(found(&files), ["md126: Claim"]);
    files.push((
        "proc/self/mountinfo",
        "1 0 9:126 / /oldroot ro - xfs /dev/md126 ro\n",
    ));
    assert_eq!(found(&files), ["md126: Readonly"]);
    // One at another place that can be written to still was not among the old root's.
    let elsewhere =
        "1 0 9:126 / /oldroot ro - xfs /dev/md126 ro\n2 0 9:126 / /run/x rw - ext4 /dev/md126 rw\n";
    files.pop();
    files.push(("proc/self/mountinfo", elsewhere));
    assert_eq!(
        found(&files),
        ["md126: Never(\"is mounted, and can be written to\")"]
    );
}

#[test]
fn only_volumes_that_wait_for_an_mdmon_of_the_old_roots_matter_b48() {
    for state in ["readonly\n", "inactive\n", "clear\n"] {
        assert!(found(&volume(state)).is_empty());
    }
    let mut plain = volume("clean\n");
    plain[1] = ("sys/block/md126/md/level", "raid0\n");
    assert!(found(&plain).is_empty());
    let mut with_mdmon = volume("clean\n");
    with_mdmon.extend([
        ("run/mdadm/md127.pid", "30\n"),
        ("proc/30/cmdline", "@sbin/mdmon\0--offroot\0"),
        ("proc/30/fd/3", "-> /dev/sda"),
    ]);
    assert!(found(&with_mdmon).is_empty(), "that one stays");
    with_mdmon.push(("proc/30/exe", "-> /oldroot/sbin/mdmon"));
    assert_eq!(found(&with_mdmon), ["md126: Claim"]);
}

#[test]
fn all_that_stands_on_a_volume_is_gone_through_b48() {
    let mut files = volume("clean\n");
    files.extend([
        ("sys/block/md126/md126p1/partition", "1\n"),
        ("sys/class/block/md126p1", "-> ../../block/md126/md126p1"),
        ("sys/block/md126/md126p2/partition", "2\n"),
        ("sys/block/md126/md126p2/holders/dm-0", ""),
        ("sys/class/block/md126p2", "-> ../../block/md126/md126p2"),
        ("sys/block/dm-0/holders/dm-1", ""),
        ("sys/class/block/dm-0", "-> ../../block/dm-0"),
        ("sys/block/dm-1/dm/name", "root\n"),
        ("sys/class/block/dm-1", "-> ../../block/dm-1"),
        ("sys/dev/block/253:1", "-> ../../block/dm-1"),
        (
            "proc/self/mountinfo",
            "1 0 253:1 / /oldroot ro - ext4 /dev/dm-1 ro\n",
        ),
    ]);
    let plain = [
        "dm-0: Kind",
        "dm-1: Kind",
        "dm-1: Readonly",
        "md126p1: Claim",
    ];
    assert_eq!(found(&files), plain);
    files.extend([
        ("sys/block/md126/md126p1/holders/bcache0", ""),
        ("sys/class/block/bcache0", "-> ../../block/bcache0"),
        ("sys/block/dm-1/dm/suspended", "1\n"),
    ]);
    assert_eq!(
        found(&files),
        [
            "bcache0: Claim",
            "bcache0: Never(\"may write when it is stopped\")",
            "dm-0: Kind",
            "dm-1: Never(\"is suspended\")",
            "dm-1: Readonly",
        ]
    );
}
