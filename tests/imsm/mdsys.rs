//! What is decided is what md ran with when mdadm had assembled the same disks: each value of its sysfs files.

use crate::sample::{SECTORS, SETS, found, path, set, text};
use quell::imsm::{Container, Plan, SlotState, Verdict};
use std::collections::BTreeMap;

/// Lines `./attribute=value|`, without dot, slash and bar.
fn attributes(set: &str, file: &str) -> BTreeMap<String, String> {
    text(set, file)
        .lines()
        .filter_map(|line| {
            let (key, value) = line.strip_prefix("./")?.split_once('=')?;
            Some((key.to_owned(), value.trim_end_matches('|').to_owned()))
        })
        .collect()
}

/// Disk to kernel name.
fn kernel_names(set: &str) -> BTreeMap<String, String> {
    let of = |line: &str| {
        let (kernel, serial) = line.split_once(' ').unwrap();
        (serial.to_owned(), kernel.to_owned())
    };
    text(set, "serials.txt").lines().map(of).collect()
}

#[test]
fn md_is_told_what_mdadm_told_it() {
    let mut volumes = 0;
    for (name, ..) in SETS
        .iter()
        .filter(|(name, ..)| path(name, "serials.txt").exists())
    {
        let names = kernel_names(name);
        found(&set(name), |found| {
            for container in found.containers() {
                for plan in container.plans() {
                    volumes += 1;
                    // md127 is the container, md126 its first volume.
                    let file = (0..128)
                        .map(|n| format!("md{n}.txt"))
                        .filter(|file| path(name, file).exists())
                        .find(|file| {
                            let member = format!("external:/md127/{}", plan.index);
                            attributes(name, file)["metadata_version"] == member
                        })
                        .unwrap();
                    compare(name, &attributes(name, &file), &plan, &names);
                }
            }
        });
    }
    assert_eq!(volumes, 15);
}

fn compare(
    set: &str,
    md: &BTreeMap<String, String>,
    plan: &Plan<'_>,
    names: &BTreeMap<String, String>,
) {
    let g = &plan.geometry;
    assert_eq!(plan.verdict, Verdict::Start, "{set}");
    let mut want = vec![
        ("level".to_owned(), g.level.to_string()),
        ("raid_disks".to_owned(), g.raid_disks.to_string()),
        ("layout".to_owned(), g.layout.to_string()),
        ("chunk_size".to_owned(), g.chunk_bytes.to_string()),
        ("component_size".to_owned(), g.component_kib.to_string()),
        ("array_size".to_owned(), g.array_kib.to_string()),
    ];
    let ppl = g.ppl.map_or("resync", |_| "ppl");
    if g.level.is_redundant() {
        want.push(("consistency_policy".to_owned(), ppl.to_owned()));
        let position = plan
            .resync_start
            .map_or("none".to_owned(), |n| n.to_string());
        want.push(("resync_start".to_owned(), position));
    }
    for (slot, n) in plan.slots.iter().zip(0..) {
        let Some(name) = names.get(&slot.serial.to_string()) else {
            assert!(!slot.state.is_bound());
            continue;
        };
        let dev = format!("dev-{name}");
        let recovery = match slot.state {
            SlotState::Rebuild(from) => from.to_string(),
            SlotState::InSync => "none".to_owned(),
            // md had no disk there.
            _ => continue,
        };
        want.push((format!("{dev}/recovery_start"), recovery));
        let mut of = |key: &str, value: u64| want.push((format!("{dev}/{key}"), value.to_string()));
        of("slot", n);
        of("offset", g.offset);
        of("size", g.device_kib);
        of("ppl_sector", g.ppl.map_or(0, |ppl| ppl.sector));
        of("ppl_size", g.ppl.map_or(0, |ppl| ppl.sectors));
    }
    for (key, value) in want {
        assert_eq!(
            Some(&value),
            md.get(&key),
            "{set}, volume {}: {key}",
            plan.index
        );
    }
}

#[test]
fn the_containers_members_keep_free_what_mdadm_kept() {
    // Containers that were running before their volumes were made, or grew spares, were told of before; this one was
    // assembled whole.
    let names = kernel_names("matrix");
    let md = attributes("matrix", "md127.txt");
    found(&set("matrix"), |found| {
        let container: Container<'_, '_> = found.containers().next().unwrap();
        assert_eq!(container.bound().count(), 3);
        for (index, member) in container.bound() {
            let (offset, kib) = container.reserved(index).unwrap();
            let dev = format!("dev-{}", names[&member.serial.to_string()]);
            assert_eq!(offset.to_string(), md[&format!("{dev}/offset")]);
            assert_eq!(kib.to_string(), md[&format!("{dev}/size")]);
        }
        let [spare] = found.spares() else {
            panic!("one spare")
        };
        let kept = spare.metadata.reserved_sectors(0);
        let md = attributes("matrix", "md125.txt");
        let dev = format!("dev-{}", names[&spare.serial.to_string()]);
        if let Some(offset) = md.get(&format!("{dev}/offset")) {
            assert_eq!(*offset, (SECTORS - kept).to_string());
        }
    });
}

/// A volume in the midst of its first resync went on where its metadata said.
#[test]
fn a_checkpoint_is_where_md_was() {
    found(&set("states-init-resync"), |found| {
        let plan = found.containers().next().unwrap().plan(0).unwrap();
        // sync_completed was 25608 then; mdmon keeps whole units.
        assert_eq!(plan.resync_start, Some(66 * 384));
        assert_eq!(plan.verdict, Verdict::Start);
    });
    found(&set("states-dirty"), |found| {
        let plan = found.containers().next().unwrap().plan(0).unwrap();
        assert_eq!((plan.dirty, plan.resync_start), (true, Some(0)));
    });
}
