//! Lines of mdadm.conf, and the names that come of them.
#![allow(clippy::unwrap_used)]

use super::*;

const VOLUME: &str = "0a1b2c3d:00000000:11111111:22222222";
const CONTAINER: &str = "33333333:44444444:55555555:66666666";

fn fixture(files: &[(&str, &str)]) -> (tempfile::TempDir, Root) {
    let dir = tempfile::tempdir().unwrap();
    for (path, text) in files {
        let path = dir.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    let root = Root::below(dir.path().as_os_str()).unwrap();
    (dir, root)
}

fn volume(root: &Root) -> Option<String> {
    let container = InContainer {
        uuid: CONTAINER,
        array: "md127",
        path: "/dev/md/imsm0",
        index: 1,
    };
    let wanted = Wanted {
        name: b"sys",
        uuid: VOLUME,
        volume: Some(container),
    };
    name_for(root, &wanted, &|_| false).map(|choice| choice.path.to_string())
}

fn container(root: &Root) -> Option<String> {
    let wanted = Wanted {
        name: b"imsm",
        uuid: CONTAINER,
        volume: None,
    };
    name_for(root, &wanted, &|_| false).map(|choice| choice.path.to_string())
}

#[test]
fn what_lines_say_of_a_volume() {
    let by_uuid = "UUID=0A1B2C3D.00000000.11111111.22222222";
    let inside = "container=33333333:44444444:55555555:66666666";
    let cases = [
        ("".into(), Some("sys_0")),
        (format!("ARRAY /dev/md/a {by_uuid}\n"), Some("a")),
        (format!("array a {by_uuid} # b\n"), Some("a")),
        (format!("ARR\n# c\n\n  \"a b\"\n\t{by_uuid}\n"), Some("a b")),
        (format!("ARRAY a {inside} member=1\n"), Some("a")),
        ("ARRAY a container=/dev/md127 member=1\n".into(), Some("a")),
        ("ARRAY a container=/dev/md/imsm0 member=1".into(), Some("a")),
        (format!("ARRAY a {inside} member=0\n"), Some("sys_0")),
        (format!("ARRAY a {inside}\n"), Some("sys_0")),
        (format!("ARRAY a {by_uuid} member=0\n"), Some("sys_0")),
        (format!("ARRAY <ignore> {by_uuid}\n"), None),
        (format!("ARRAY {by_uuid}\n"), Some("sys")),
        (format!("ARRAY /dev/sda {by_uuid}\n"), Some("sys")),
        (format!("ARRAY UUID={CONTAINER}\n"), Some("sys")),
        (format!("#ARRAY a {by_uuid}\n"), Some("sys_0")),
        (format!("PROGRAM a {by_uuid}\n"), Some("sys_0")),
        (format!("AR a {by_uuid}\n"), Some("sys_0")),
        ("HOMEHOST <ignore>\n".into(), Some("sys")),
        ("HOMEHOST box <IGNORE>\n".into(), Some("sys")),
        ("HOMEHOST <none>\n".into(), Some("sys_0")),
        (
            "HOMEHOST <ignore>\nARRAY sys UUID=1:2:3:4\n".into(),
            Some("sys_0"),
        ),
    ];
    for (text, want) in &cases {
        let (_dir, root) = fixture(&[("etc/mdadm.conf", text.as_str())]);
        let want = want.map(|name| format!("/dev/md/{name}"));
        assert_eq!(volume(&root), want, "{text}");
    }
    let text = format!("ARRAY /dev/md5 {by_uuid}\n");
    let (_dir, root) = fixture(&[("etc/mdadm.conf", text.as_str())]);
    assert_eq!(volume(&root).as_deref(), Some("/dev/md5"));
    assert!(!is_free(&root, "md5") && is_free(&root, "md6"));
}

#[test]
fn containers_are_numbered() {
    let of = |text: &str| container(&fixture(&[("etc/mdadm.conf", text)]).1);
    let listed = format!("ARRAY metadata=imsm UUID={CONTAINER}\n");
    assert_eq!(of("").as_deref(), Some("/dev/md/imsm0"));
    assert_eq!(of(&listed).as_deref(), Some("/dev/md/imsm0"));
    assert_eq!(of("HOMEHOST <ignore>").as_deref(), Some("/dev/md/imsm"));
    assert_eq!(
        of(&listed.replace("ARRAY", "ARRAY raid")).as_deref(),
        Some("/dev/md/raid")
    );
    assert_eq!(of(&listed.replace("ARRAY", "ARRAY <ignore>")), None);
}

#[test]
fn files_are_looked_for_where_distributions_have_them() {
    let line = format!("ARRAY a UUID={VOLUME}\n");
    let line = line.as_str();
    let found = |files: &[(&str, &str)]| volume(&fixture(files).1).unwrap() == "/dev/md/a";
    assert!(!found(&[("etc/x", line)]));
    assert!(found(&[("etc/mdadm/mdadm.conf", line)]));
    assert!(!found(&[
        ("etc/mdadm/mdadm.conf", ""),
        ("etc/mdadm.conf", line)
    ]));
    assert!(found(&[("etc/mdadm.conf.d/a.conf", line)]));
    assert!(found(&[
        ("etc/mdadm.conf", ""),
        ("etc/mdadm.conf.d/a.conf", line)
    ]));
    assert!(!found(&[("etc/mdadm.conf.d/a", line)]));
    assert!(!found(&[("etc/mdadm.conf.d/.a.conf", line)]));
}

#[test]
fn names_of_others_are_not_given_again() {
    let map = format!(
        "md127 imsm 1:2:3:4 /dev/md/imsm0\nmd126 1.2 1:2:3:5 /dev/md/sys_0\nmd125 /md127/1 {VOLUME} /dev/md/sys_1\nmd124 1.2 1:2:3:6 /dev/md/sys_2\n"
    );
    let (_dir, root) = fixture(&[
        ("run/mdadm/map", map.as_str()),
        ("sys/block/md127/md/x", ""),
        ("sys/block/md126/md/x", ""),
        ("sys/block/md125/md/x", ""),
    ]);
    assert_eq!(container(&root).as_deref(), Some("/dev/md/imsm1"));
    // The second is its own; the third's array is no more.
    assert_eq!(volume(&root).as_deref(), Some("/dev/md/sys_1"));
    let wanted = Wanted {
        name: b"sys",
        uuid: "5:5:5:5",
        volume: None,
    };
    let taken = |name: &str| name == "sys2";
    let choice = name_for(&root, &wanted, &taken).unwrap();
    assert_eq!(
        (choice.path.as_str(), choice.number),
        ("/dev/md/sys0", None)
    );
}

#[test]
fn what_is_to_be_taken_unasked() {
    let cases = [
        ("", true),
        ("ARRAY a UUID=1:2:3:4\n", true),
        ("AUTO -all\n", false),
        ("auto -IMSM\n", false),
        ("AUTO +1.x -all\n", false),
        ("AUTO +imsm -all\n", true),
        ("AUTO no\n", false),
        ("AUTO NO\n", false),
        ("AUTO yes -imsm\n", true),
        ("AUTO -imsm yes\n", false),
        ("AUTO no +imsm\n", false),
        ("AUTO nothing\n", true),
        // IMSM does not say whose an array is, so mdadm's `homehost` keeps none away.
        ("AUTO homehost -all\n", true),
        ("AUTO homehost no\n", true),
        ("AUTO HomeHost -imsm\n", true),
        ("AUTO -imsm homehost -all\n", false),
        ("AUTO -all homehost\n", false),
        ("AUTO homehost\nAUTO -all\n", true),
        ("AUTO -ddf\n", true),
        ("AUTO +1.x\n  -all\n", false),
        ("AUTO +1.x\nAUTO -all\n", true),
        ("AUTO imsm\n", true),
    ];
    for (text, automatic) in cases {
        let (_dir, root) = fixture(&[("etc/mdadm/mdadm.conf", text)]);
        assert_eq!(is_automatic(&root), automatic, "{text}");
    }
    // What initramfs-tools' image adds for mdadm is not the administrator's word.
    let (_dir, root) = fixture(&[
        ("etc/mdadm/mdadm.conf", "AUTO -imsm\n"),
        ("etc/mdadm/mdadm.conf.kept", ""),
    ]);
    assert!(is_automatic(&root));
}
