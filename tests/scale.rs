//! B33: machines far larger than any: nothing is dropped, at any width, and it takes no time worth speaking of.

// A test that cannot go on has failed.
#![allow(clippy::unwrap_used)]

mod common;

use common::tree::{Node, Pipes, Tree, addresses, drain};
use common::{folder, harmless, quell};
use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

/// `n` controllers with as little of each as quell looks at, each with `namespaces` of them, and `others` more block
/// devices.
fn machine(n: u32, namespaces: u32, others: u32) -> tempfile::TempDir {
    let mut tree = Tree::machine();
    let driver = "sys/bus/pci/drivers/nvme";
    tree.put(&format!("{driver}/unbind"), Node::Pipe);
    for i in 0..n {
        let address = address(i);
        let function = format!("sys/devices/pci0000:00/{address}");
        let dir = format!("{function}/nvme/nvme{i}");
        tree.file(&format!("{dir}/transport"), "pcie\n");
        tree.file(&format!("{dir}/address"), format!("{address}\n"));
        tree.file(&format!("{dir}/state"), "live\n");
        tree.link(&format!("{dir}/device"), &function);
        tree.link(&format!("{function}/driver"), driver);
        tree.link(&format!("sys/class/nvme/nvme{i}"), &dir);
        for head in 1..=namespaces {
            let name = format!("nvme{i}n{head}");
            tree.file(
                &format!("{dir}/{name}/dev"),
                format!("259:{}\n", i * namespaces + head),
            );
            tree.put(&format!("{dir}/{name}/holders"), Node::Dir);
            tree.link(&format!("sys/class/block/{name}"), &format!("{dir}/{name}"));
            tree.link(&format!("sys/block/{name}"), &format!("{dir}/{name}"));
            tree.file(&format!("dev/{name}"), "");
        }
        tree.file(
            &format!("fixture/rtd3e/nvme{i}"),
            format!("{}\n", (i % 13 + 1) * 1_000_000),
        );
    }
    for i in 0..others {
        // Every tenth is a loop device, which is looked at more closely.
        let name = if i % 10 == 0 {
            format!("loop{i}")
        } else {
            format!("sd{i}")
        };
        tree.link(
            &format!("sys/block/{name}"),
            &format!("sys/devices/virtual/block/{name}"),
        );
    }
    let dir = folder();
    tree.unpack(dir.path());
    dir
}

fn address(i: u32) -> String {
    format!("{:04x}:{:02x}:00.0", i >> 8, i & 0xff)
}

fn json(stdout: &[u8]) -> serde_json::Value {
    serde_json::from_slice(stdout).unwrap()
}

/// What a plan of the fixture's times must take at least: the area over the width, and the longest.
fn bound_ms(n: u64, width: u64) -> u64 {
    // No drive takes less than nvme_core.shutdown_timeout, 5 s where nothing is said.
    let sum: u64 = (0..n).map(|i| (i % 13 + 1).max(5) * 1000).sum();
    sum.div_ceil(width).max(13_000)
}

#[test]
fn b33_five_thousand_are_planned_at_every_width() {
    let dir = machine(5_000, 1, 20_000 - 5_000);
    for width in [1, 7, 64, 1024] {
        let (jobs, class) = (format!("--jobs={width}"), format!("--width=nvme:{width}"));
        let ran = quell(
            dir.path(),
            ["quiesce", "--all", "--dry-run", "--json", &jobs, &class],
        );
        assert_eq!(ran.exit, 0, "{}", String::from_utf8_lossy(&ran.stderr));
        let plan = json(&ran.stdout);
        let all = plan["controllers"].as_array().unwrap();
        let planned = all.iter().filter(|c| c["outcome"] == "planned");
        assert_eq!((all.len(), planned.count()), (5_000, 5_000));
        let names: BTreeSet<&str> = all.iter().map(|c| c["name"].as_str().unwrap()).collect();
        assert_eq!(names.len(), 5_000);
        assert_eq!(plan["workers"], width);
        // One worker may not get through asking 5,000 drives for RTD3E in the time there is for it.
        if width == 1 {
            continue;
        }
        let least = bound_ms(5_000, width);
        let planned = plan["planned_ms"].as_u64().unwrap();
        assert!(
            (least..=least + 13_000).contains(&planned),
            "{planned} ms at width {width}, and not about {least}"
        );
        assert_eq!(plan["serial_ms"], bound_ms(5_000, 1));
        assert!(ran.took < Duration::from_secs(20), "{:?}", ran.took);
        println!("width {width}: {:?}", ran.took);
    }
}

#[test]
fn b33_more_than_the_table_holds_are_done_in_further_passes() {
    // One more than a table of 8,192, so that the last pass has but one: that is no reason to leave it.
    let n = 8_193;
    let dir = machine(n, 0, 0);
    let ran = quell(
        dir.path(),
        [
            "shutdown",
            "reboot",
            "--stage=exitrd",
            "--dry-run",
            "--json",
        ],
    );
    assert_eq!(ran.exit, 0);
    let plan = json(&ran.stdout);
    let all = plan["controllers"].as_array().unwrap();
    let planned: BTreeSet<&str> = all
        .iter()
        .filter(|c| c["outcome"] == "planned")
        .map(|c| c["name"].as_str().unwrap())
        .collect();
    let left = all.iter().find(|c| c["outcome"] != "planned");
    assert_eq!(planned.len(), n as usize, "{left:?}");
    assert_eq!(plan["asked"], n);
}

#[test]
fn b33_every_one_of_them_is_told() {
    let n = 8_200;
    let dir = machine(n, 0, 0);
    let unbind = dir.path().join("sys/bus/pci/drivers/nvme/unbind");
    let mut pipe = Pipes::one(&unbind);
    // More than a pipe holds.
    rustix::pipe::fcntl_setpipe_size(&pipe, 1 << 20).unwrap();
    let ran = quell(
        dir.path(),
        ["shutdown", "reboot", "--stage=exitrd", "--jobs=7"],
    );
    assert_eq!(ran.exit, 1);
    let told: Vec<String> = addresses(&drain(&mut pipe));
    let wanted: BTreeSet<String> = (0..n).map(address).collect();
    assert_eq!(told.len(), n as usize, "each once");
    assert_eq!(told.into_iter().collect::<BTreeSet<_>>(), wanted);
    let log = std::fs::read_to_string(dir.path().join("dev/kmsg")).unwrap();
    assert!(
        log.contains("quell: quiesced 0 of 8200 controllers in "),
        "{:?}",
        log.lines().last()
    );
    assert!(log.contains(", 7 workers, 8200 left"));
    println!("{:?}", ran.took);
}

#[test]
fn many_namespaces_of_one_controller() {
    // As many as a worker holds at once are flushed and held; more are left, not half held.
    for (namespaces, outcome) in [(1_024, "failed"), (1_025, "left")] {
        let dir = machine(1, namespaces, 0);
        let pipe = Pipes::one(&dir.path().join("sys/bus/pci/drivers/nvme/unbind"));
        let ran = quell(dir.path(), ["quiesce", "nvme0", "--json"]);
        let plan = json(&ran.stdout);
        assert_eq!(
            plan["controllers"][0]["outcome"], outcome,
            "{namespaces}: {plan}"
        );
        drop(pipe);
    }
}

#[test]
fn the_helper_refuses_the_machine() {
    for path in [
        "/", "/sys", "/proc", "/dev", "/dev/shm", "/tmp", "/home", "/tmp/..",
    ] {
        let refused = std::panic::catch_unwind(|| harmless(Path::new(path)));
        assert!(refused.is_err(), "{path}");
    }
}

#[test]
fn a_root_that_is_none_is_refused() {
    let dir = folder();
    std::fs::write(dir.path().join("file"), "").unwrap();
    for name in ["missing", "file"] {
        let ran = quell(&dir.path().join(name), ["quiesce", "--all"]);
        let line = String::from_utf8_lossy(&ran.stderr);
        assert_eq!(ran.exit, 2, "{line}");
        assert!(
            line.starts_with("quell: --root ") && line.ends_with("; nothing is done\n"),
            "{line}"
        );
        assert_eq!(line.lines().count(), 1, "{line}");
    }
}
