//! Arrays of a fixture, and every word the kernel has for what they do.
#![allow(clippy::unwrap_used)]

use super::*;

#[test]
fn versions() {
    let cases = [
        ("none", "None"),
        ("1.2", "Native(\"1.2\")"),
        ("0.90", "Native(\"0.90\")"),
        ("external:imsm", "Container(\"imsm\")"),
        ("external:ddf", "Container(\"ddf\")"),
        (
            "external:/md127/0",
            "Volume { container: \"md127\", index: 0, blocked: false }",
        ),
        (
            "external:-md_imsm/1",
            "Volume { container: \"md_imsm\", index: 1, blocked: true }",
        ),
        ("external:/md127", "Other"),
        ("external:/md127/x", "Other"),
        ("external:/md127/300", "Other"),
        ("external:", "Other"),
        ("", "Other"),
        ("\u{e9}", "Other"),
    ];
    for (text, want) in cases {
        assert_eq!(
            format!("{:?}", Version::parse(text.as_bytes())),
            want,
            "{text}"
        );
    }
    assert!(matches!(Version::parse(b"\xff"), Version::Other));
}

#[test]
fn states() {
    for (state, word) in State::WORDS {
        assert_eq!(State::parse(word.as_bytes()), *state);
        assert_eq!(state.to_string(), *word);
    }
    assert_eq!(State::parse(b"clean\n"), State::Unknown);
    assert_eq!(State::Unknown.word(), "unknown");
}

#[test]
fn arrays_and_their_members() {
    let dir = tempfile::tempdir().unwrap();
    let files = [
        ("block/md127/dev", "9:127\n"),
        ("block/md127/md/metadata_version", "external:imsm\n"),
        ("block/md127/md/array_state", "inactive\n"),
        ("block/md127/md/level", "\n"),
        ("block/md127/md/raid_disks", "\n"),
        ("block/md127/md/dev-nvme0n1/slot", "none\n"),
        ("block/md127/md/dev-nvme0n1/state", "external_bbl\n"),
        ("block/md127/md/dev-sdz/gone", ""),
        ("block/md126/dev", "9:126\n"),
        ("block/md126/md/metadata_version", "external:/md127/0\n"),
        ("block/md126/md/array_state", "read-auto\n"),
        ("block/md126/md/level", "raid5\n"),
        ("block/md126/md/raid_disks", "4 (3)\n"),
        ("block/md126/md/degraded", "1\n"),
        ("block/md126/md/sync_action", "recover\n"),
        ("block/md126/md/dev-nvme0n1/slot", "2\n"),
        ("block/md126/md/dev-nvme0n1/state", "in_sync,external_bbl\n"),
        ("block/md125/dev", "9:125\n"),
        ("block/sda/dev", "8:0\n"),
        ("module/md_mod/parameters/new_array", ""),
    ];
    for (path, text) in files {
        let path = dir.path().join("sys").join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    let root = Root::below(dir.path().as_os_str()).unwrap();
    let mut seen = Vec::new();
    arrays(&root, &mut |array| {
        seen.push((
            array.name.to_string(),
            array.state,
            array.raid_disks,
            array.degraded,
        ));
        true
    })
    .unwrap();
    seen.sort_by(|a, b| a.0.cmp(&b.0));
    assert_eq!(
        seen,
        [
            ("md126".into(), State::ReadAuto, 4, 1),
            ("md127".into(), State::Inactive, 0, 0)
        ]
    );
    let mut seen = Vec::new();
    for array in ["md127", "md126"] {
        members(&root, array, &mut |m| {
            seen.push(format!("{} {:?} {}", m.name, m.slot, m.state))
        })
        .unwrap();
    }
    assert_eq!(
        seen,
        [
            "nvme0n1 None external_bbl",
            "nvme0n1 Some(2) in_sync,external_bbl"
        ]
    );
    assert_eq!(sync_action(&root, "md126").as_str(), "recover");
    assert!(exists(&root, "md126") && !exists(&root, "md125") && is_present(&root));
    assert_eq!(numbers().nth(1), Some(126));
    assert_eq!(numbers().skip(127).take(2).collect::<Vec<_>>(), [0, 511]);
    create(&root, "md124").unwrap();
    let asked = std::fs::read(dir.path().join("sys/module/md_mod/parameters/new_array"));
    assert_eq!(asked.unwrap(), b"md124");
}
