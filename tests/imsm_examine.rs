//! `quell examine` on the ends of disks that mdadm wrote: what it says, to people and to programs, and how it exits.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use common::sample::{Image, SECTORS, SETS, set};
use common::tree::{Node, Tree};
use common::{Ran, folder, quell};
use quell::imsm::SectorSize;
use serde_json::Value;
use std::fs::{self, File};
use std::io::{Seek as _, SeekFrom, Write as _};
use std::path::Path;
use std::time::Duration;

/// The tails of a set in a root, and the words that examine takes for them.
fn unpack(root: &Path, images: &[Image]) -> Vec<String> {
    let mut args = vec!["examine".to_owned()];
    for image in images {
        fs::write(root.join(&image.serial), image.tail()).unwrap();
        args.push(image.serial.clone());
    }
    for image in images {
        args.push(format!("--serial={}", image.serial));
    }
    args
}

fn json(ran: &Ran) -> Value {
    assert!(
        ran.stdout
            .starts_with(b"{\"schema\":1,\"command\":\"examine\","),
        "{}",
        String::from_utf8_lossy(&ran.stdout)
    );
    serde_json::from_slice(&ran.stdout).unwrap()
}

fn stdout(ran: &Ran) -> String {
    String::from_utf8(ran.stdout.clone()).unwrap()
}

fn stderr(ran: &Ran) -> String {
    String::from_utf8(ran.stderr.clone()).unwrap()
}

#[test]
fn every_set_is_examined() {
    for (name, ..) in SETS {
        let root = folder();
        let images = set(name);
        let mut args = unpack(root.path(), &images);
        let people = quell(root.path(), &args);
        args.push("--json".into());
        let programs = quell(root.path(), &args);
        let refused = name == "gen-migration";
        assert_eq!(
            people.exit,
            i32::from(refused),
            "{name}: {}",
            stderr(&people)
        );
        assert_eq!(programs.exit, i32::from(refused), "{name}");
        let object = json(&programs);
        assert_eq!(object["disks"].as_array().unwrap().len(), images.len());
        let containers = object["containers"].as_array().unwrap();
        assert_eq!(containers.len(), 1, "{name}");
        let text = stdout(&people);
        let uuid = containers[0]["uuid"].as_str().unwrap();
        assert!(
            text.contains(&format!("\ncontainer {uuid}: ")),
            "{name}: {text}"
        );
        for volume in containers[0]["volumes"].as_array().unwrap() {
            let want = if refused { "unsupported" } else { "start" };
            assert_eq!(volume["verdict"], want, "{name}");
            assert!(text.contains(volume["uuid"].as_str().unwrap()), "{name}");
        }
        let spares = object["spares"].as_array().unwrap().len();
        assert_eq!(spares, usize::from(name == "matrix"), "{name}");
    }
}

#[test]
fn what_it_tells_people() {
    let root = folder();
    let mut args = unpack(root.path(), &set("matrix"));
    args.retain(|arg| arg != "D1" && arg != "--serial=D1");
    let text = stdout(&quell(root.path(), &args));
    for line in [
        "D0: IMSM member, serial D0",
        "    created     2026-11-30 12:18:49 UTC",
        "    format      1.3.00, attributes 0x80000011 (RAID0, RAID5, checksum)",
        "    metadata    704 bytes (2 x 512), checksum c09cf7eb is right",
        "    volume 1    fast e95f86a4:d1799d33:1217579b:e4d68feb",
        "        raid0, 3 disks, chunk 128 KiB, 1843200 sectors (900.0 MiB)",
        "        on each disk 614400 sectors from 417792, 616448 set aside; 2400 stripes",
        "D3: IMSM free spare, serial D3",
        "container 0d9dd856:5f019b3d:8ff3c97d:733f2f8a: 2 of 3 disks, generation 25 as on D0",
        "    D1               missing",
        "    volume 0 (sys) raid5: would be started degraded at the deadline, without D1",
        "        slot 0   D0               in-sync  D0",
        "    volume 1 (fast) raid0: waits for D1",
    ] {
        assert!(text.lines().any(|l| l == line), "{line}\nis not in\n{text}");
    }
}

/// B4
#[test]
fn the_order_of_disks_does_not_matter() {
    let root = folder();
    let mut images = set("r10");
    let decided = |images: &[Image]| {
        let mut args = unpack(root.path(), images);
        args.push("--json".into());
        json(&quell(root.path(), &args))["containers"].clone()
    };
    let want = decided(&images);
    images.reverse();
    assert_eq!(decided(&images), want);
    images.swap(0, 2);
    assert_eq!(decided(&images), want);
}

/// B5, B3
#[test]
fn a_corrupt_copy_is_named_and_the_rest_goes_on() {
    let root = folder();
    let mut images = set("r5");
    images[1].mpb[300] ^= 0x10;
    let mut args = unpack(root.path(), &images);
    let people = quell(root.path(), &args);
    assert_eq!(people.exit, 1);
    let text = stdout(&people);
    assert!(
        text.contains("D1: corrupt IMSM metadata: head: check_sum is 0xd51fa3e2, allowed: 0x"),
        "{text}"
    );
    assert!(
        text.contains("(vol5) raid5: would be started degraded at the deadline, without D1"),
        "{text}"
    );
    args.push("--json".into());
    let object = json(&quell(root.path(), &args));
    let disk = &object["disks"][1];
    assert_eq!(
        (&disk["outcome"], &disk["field"]),
        (&"corrupt".into(), &"check_sum".into())
    );
    assert_eq!(object["containers"][0]["volumes"][0]["verdict"], "degraded");
}

#[test]
fn a_refusal_is_told_with_its_kind() {
    let root = folder();
    let mut images = set("r1");
    let mut twin = images[1].clone();
    twin.serial = "twin".into();
    images.push(twin);
    let mut args = unpack(root.path(), &images);
    *args.last_mut().unwrap() = "--serial=D1".into();
    let people = quell(root.path(), &args);
    assert_eq!(people.exit, 1);
    let text = stdout(&people);
    assert!(
        text.contains("refused, unsafe: D1 and twin have the same serial D1"),
        "{text}"
    );
    args.push("--json".into());
    let object = json(&quell(root.path(), &args));
    let volume = &object["containers"][0]["volumes"][0];
    assert_eq!(
        (&volume["verdict"], &volume["why"]),
        (&"unsafe".into(), &"duplicate-serial".into())
    );
}

/// Whole images, ends of them, ends that are longer than what is read at first: all the same.
#[test]
fn images_and_tails_are_alike() {
    let root = folder();
    let path = root.path();
    let containers = |args: &[&str]| {
        let ran = quell(path, args);
        assert_eq!(ran.exit, 0, "{}", stderr(&ran));
        json(&ran)["disks"][0]["checksum"].clone()
    };
    let image = &set("r5")[0];
    let tail = image.tail();
    fs::write(path.join("tail"), &tail).unwrap();
    let mut whole = File::create(path.join("whole")).unwrap();
    whole.set_len(SECTORS * 512).unwrap();
    whole.seek(SeekFrom::End(-(tail.len() as i64))).unwrap();
    whole.write_all(&tail).unwrap();
    let want = containers(&["examine", "tail", "--json"]);
    assert_eq!(want, "d51fa3e2");
    assert_eq!(
        containers(&["examine", "whole", "--json", "--serial=D0"]),
        want
    );
    // Four sectors of 4096 bytes and more.
    let mut large = set("r5_4k").remove(0);
    assert_eq!(large.sector, SectorSize::B4096);
    large.mpb.resize(14_000, 0);
    large.seal();
    fs::write(path.join("large"), large.tail()).unwrap();
    let object = json(&quell(path, ["examine", "large", "--json"]));
    assert_eq!(object["disks"][0]["metadata_bytes"], 14_000);
    assert_eq!(object["disks"][0]["sector_bytes"], 4096);
    // Cut off where it begins.
    fs::write(path.join("short"), &large.tail()[4096..]).unwrap();
    let ran = quell(path, ["examine", "short"]);
    assert_eq!(ran.exit, 1);
    assert_eq!(stdout(&ran), "short: its last 20480 bytes are needed\n");
}

#[test]
fn without_a_serial_nothing_is_guessed() {
    let root = folder();
    unpack(root.path(), &set("r1"));
    let ran = quell(root.path(), ["examine", "D0", "D1"]);
    assert_eq!(ran.exit, 0);
    let text = stdout(&ran);
    assert!(
        text.starts_with("D0: IMSM member, which of its disks is not known (--serial=S tells)\n")
    );
    assert!(!text.contains("\ncontainer "), "{text}");
    // One that is not in the table is stale.
    let ran = quell(
        root.path(),
        ["examine", "D0", "D1", "--serial=D0", "--serial=D9"],
    );
    assert!(stdout(&ran).contains("    D9               stale: not in the table (D1)\n"));
}

#[test]
fn exit_statuses() {
    let root = folder();
    let mut tree = Tree::machine();
    tree.put("pipe", Node::Pipe);
    tree.unpack(root.path());
    unpack(root.path(), &set("r1"));
    fs::write(root.path().join("zeros"), vec![0; 65536]).unwrap();
    fs::write(root.path().join("tiny"), b"x").unwrap();
    fs::write(root.path().join("empty"), b"").unwrap();
    let cases: &[(&[&str], i32, &str)] = &[
        (&["examine", "zeros"], 1, "zeros: no IMSM metadata\n"),
        (&["examine", "tiny"], 1, "tiny: no IMSM metadata\n"),
        (&["examine", "empty"], 1, "empty: no IMSM metadata\n"),
        (
            &["examine", "none"],
            3,
            "none: cannot be read: no such file or directory (ENOENT)",
        ),
        (&["examine", "none", "zeros"], 3, "cannot be read"),
        // Neither waited for nor read.
        (
            &["examine", "pipe"],
            3,
            "pipe: cannot be read: not supported (EOPNOTSUPP)",
        ),
        (
            &["examine", "sys"],
            3,
            "sys: cannot be read: not supported (EOPNOTSUPP)",
        ),
        (&["examine"], 2, "examine: which disks or files? Name them"),
        (&["examine", "D0", "D0"], 2, "examine: D0 is named twice"),
        (&["examine", "D0\x1b"], 2, "has control characters in it"),
        (
            &["examine", "D0", "--serial=a", "--serial=b"],
            2,
            "more serials than",
        ),
        (&["examine", "D0", "--serial= "], 2, "no serial"),
        (
            &["examine", "D0", "--all"],
            2,
            "--all belongs to teardown and quiesce",
        ),
        (&["status", "--serial=a"], 2, "--serial belongs to examine"),
    ];
    for (args, exit, said) in cases {
        let ran = quell(root.path(), *args);
        let text = stdout(&ran) + &stderr(&ran);
        assert_eq!(ran.exit, *exit, "{args:?}: {text}");
        assert!(text.contains(said), "{args:?}: {text}");
        assert!(ran.took < Duration::from_secs(10));
    }
    // A program gets an object all the same.
    let object = json(&quell(root.path(), ["examine", "none", "zeros", "--json"]));
    assert_eq!(object["disks"][0]["outcome"], "unreadable");
    assert_eq!(object["disks"][1]["outcome"], "none");
}
