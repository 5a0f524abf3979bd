//! Who counts, who is left out, and what becomes of each volume: section by section what people's disks do.

use crate::order::{decided, permutations};
use crate::sample::{Image, found, set};
use core::mem::offset_of;
use quell::imsm::ondisk::{Disk, Map, Super, Volume};
use quell::imsm::{Kind, Lack, Plan, SectorSize, SlotState, Standing, Verdict, Why};

/// Every order of the disks is decided on alike, and the first volume looked at.
pub(crate) fn plan<T>(images: &[Image], look: impl Fn(&Plan<'_>) -> T) -> T {
    let mut copy = images.to_vec();
    let n = copy.len();
    let want = found(images, decided);
    permutations(&mut copy, n, &mut |images| {
        assert_eq!(found(images, decided), want)
    });
    found(images, |found| {
        let container = found.containers().next().unwrap();
        look(&container.plan(0).unwrap())
    })
}

pub(crate) fn verdict(images: &[Image]) -> String {
    plan(images, |plan| match plan.verdict {
        Verdict::Refused(why) => format!("{} {}", why.kind().name(), why.name()),
        Verdict::Incomplete(lack) => format!("incomplete {lack:?}"),
        other => other.name().to_owned(),
    })
}

pub(crate) fn edited(name: &str, edit: impl Fn(&mut Image)) -> Vec<Image> {
    let mut images = set(name);
    for image in &mut images {
        edit(image);
        image.seal();
    }
    images
}

pub(crate) fn without(mut images: Vec<Image>, serials: &[&str]) -> Vec<Image> {
    images.retain(|image| !serials.contains(&image.serial.as_str()));
    images
}

/// Marks a disk failed in an image, as mdmon does: serial spoilt, slot out of sync, volume degraded.
pub(crate) fn fail(image: &mut Image, serial: &str, volume: usize) {
    let at = image.disk_of(serial);
    let spoilt = format!("{serial}:0");
    image.put(at, spoilt.as_bytes());
    image.put_u32(at + offset_of!(Disk, status), 0x6);
    let index = ((at - image.disk(0)) / size_of::<Disk>()) as u32;
    let map = image.map(volume, 0);
    image.put(map + offset_of!(Map, map_state), &[2]);
    let members = usize::from(image.mpb[map + offset_of!(Map, num_members)]);
    for slot in 0..members {
        let at = image.slot(volume, 0, slot);
        if image.get_u32(at) == index {
            image.put_u32(at, index | 0x0100_0000);
            image.put(map + offset_of!(Map, failed_disk_num), &[slot as u8]);
        }
    }
}

pub(crate) fn dirty(image: &mut Image) {
    image.put(image.volume(0) + offset_of!(Volume, dirty), &[1]);
}

#[test]
fn missing_members() {
    let cases: &[(&str, &[&str], &str)] = &[
        ("r0", &["D1"], "incomplete Members"),
        ("r1", &["D1"], "degraded"),
        ("r5", &["D0"], "degraded"),
        ("r5", &["D0", "D1"], "incomplete Members"),
        ("r10", &["D3"], "degraded"),
        ("r10", &["D0", "D1", "D2"], "incomplete Members"),
        ("states-dirty", &["D0"], "incomplete AllWhileDirty"),
        ("states-clean", &["D0"], "degraded"),
        ("r5ppl", &["D0"], "degraded"),
        // An initial resync that is cut short by a missing disk is none.
        ("states-init-resync", &["D0"], "degraded"),
    ];
    for (name, missing, want) in cases {
        assert_eq!(
            verdict(&without(set(name), missing)),
            *want,
            "{name} without {missing:?}"
        );
    }
}

#[test]
fn raid10_can_lose_one_of_each_pair() {
    let images = set("r10");
    let pairs = plan(&images, |plan| {
        plan.slots
            .iter()
            .map(|s| s.serial.to_string())
            .collect::<Vec<_>>()
    });
    let [a, b, c, d] = pairs.as_slice() else {
        panic!("four slots")
    };
    assert_eq!(verdict(&without(images.clone(), &[a, c])), "degraded");
    assert_eq!(verdict(&without(images.clone(), &[b, d])), "degraded");
    assert_eq!(
        verdict(&without(images.clone(), &[a, b])),
        "incomplete Members"
    );
    assert_eq!(verdict(&without(images, &[c, d])), "incomplete Members");
}

#[test]
fn a_recorded_loss_is_no_reason_to_wait() {
    for (name, lost) in [("r1", "D1"), ("r5", "D2"), ("r10", "D0")] {
        let images = without(edited(name, |i| fail(i, lost, 0)), &[lost]);
        assert_eq!(verdict(&images), "start", "{name}");
        let state = plan(&images, |plan| {
            plan.slots_that(|s| s == SlotState::Failed).count()
        });
        assert_eq!(state, 1);
    }
    let images = without(edited("r0", |i| fail(i, "D1", 0)), &["D1"]);
    assert_eq!(verdict(&images), "unsafe failed");
    let images = edited("r5", |i| {
        fail(i, "D2", 0);
        fail(i, "D1", 0);
    });
    assert_eq!(verdict(&images), "unsafe failed");
    // The state alone says so as well.
    let images = edited("r5", |i| {
        i.put(i.map(0, 0) + offset_of!(Map, map_state), &[3]);
    });
    assert_eq!(verdict(&images), "unsafe failed");
}

/// A disk that was failed out and comes back: its serial is not in the table any more.
#[test]
fn a_stale_disk_is_left_out() {
    let mut images = set("r1");
    let (newer, older) = images.split_at_mut(1);
    fail(&mut newer[0], "D1", 0);
    newer[0].generation(0x25).seal();
    older[0].seal();
    found(&images, |found| {
        let container = found.containers().next().unwrap();
        let [d0, d1] = container.members() else {
            panic!("two")
        };
        assert!(matches!(container.standing(d0), Standing::Active(_)));
        assert_eq!(container.standing(d1), Standing::Stale);
        assert_eq!(container.bound().count(), 1);
    });
    assert_eq!(verdict(&images), "start");
    // Alone it is a mirror that lacks a disk, and nobody can know better.
    assert_eq!(verdict(&images[1..]), "degraded");
}

/// Both halves of a mirror were written alone, one after the other.
#[test]
fn the_newer_of_two_halves_counts() {
    let mut images = set("r1");
    fail(&mut images[0], "D1", 0);
    images[0].generation(0x1f).seal();
    fail(&mut images[1], "D0", 0);
    images[1].generation(0x1b).seal();
    found(&images, |found| {
        let container = found.containers().next().unwrap();
        assert_eq!(container.winner().name, "/dev/D0");
        assert_eq!(container.plan(0).unwrap().verdict, Verdict::Start);
    });
    // As often as each other: B8.
    images[1].generation(0x1f).seal();
    plan(&images, |plan| {
        let Verdict::Refused(why) = plan.verdict else {
            panic!("{:?}", plan.verdict)
        };
        assert_eq!(why.kind(), Kind::Unsafe);
        let text = why.to_string();
        assert!(
            text.starts_with("/dev/D0 and /dev/D1 are both of family 640e068a and generation 31"),
            "{text}"
        );
    });
}

/// A rebuild changes the family; a disk of the old one comes back.
#[test]
fn a_disk_of_an_older_family_is_stale() {
    let mut images = set("r5");
    let spare = {
        // D2 was replaced by D7.
        let rebuilt = |image: &mut Image| {
            let at = image.disk_of("D2");
            image.put(at, b"D7");
            image.put_u32(offset_of!(Super, family_num), 0x0BAD_CAFE);
            image.generation(5).seal();
        };
        images.iter_mut().take(2).for_each(rebuilt);
        let mut spare = images[0].clone();
        (spare.serial, spare.name) = ("D7".into(), "/dev/D7".into());
        spare
    };
    images.push(spare);
    found(&images, |found| {
        let container = found.containers().next().unwrap();
        // The old one has the higher generation, which does not count across families.
        let stale: Vec<_> = container
            .members()
            .iter()
            .filter(|m| container.standing(m) == Standing::Stale)
            .map(|m| m.name)
            .collect();
        assert_eq!(stale, ["/dev/D2"]);
    });
    assert_eq!(verdict(&images), "start");
    // Without the new disk, the old one still does not fill its place.
    assert_eq!(verdict(&images[..3]), "degraded");
}

/// B8: two families that could both be right.
#[test]
fn several_valid_families_are_refused_both_named() {
    let mut images = set("r1");
    for (image, family, other) in [(0, 0x1111_1111, "D1"), (1, 0x2222_2222, "D0")] {
        fail(&mut images[image], other, 0);
        images[image]
            .put_u32(offset_of!(Super, family_num), family)
            .seal();
    }
    plan(&images, |plan| {
        let Verdict::Refused(why) = plan.verdict else {
            panic!("{:?}", plan.verdict)
        };
        assert_eq!((why.kind(), why.name()), (Kind::Unsafe, "several-families"));
        assert_eq!(
            why.to_string(),
            "family 11111111 on /dev/D0 and family 22222222 on /dev/D1 could both be the right one"
        );
    });
    // Where each counts on the other's disk, none can be.
    let mut images = set("r1");
    for (image, family) in images.iter_mut().zip([0x1111_1111, 0x2222_2222]) {
        image.put_u32(offset_of!(Super, family_num), family).seal();
    }
    assert_eq!(verdict(&images), "unsafe no-valid-family");
}

/// B10
#[test]
fn two_devices_with_one_serial_are_refused_both_named() {
    let mut images = set("r1");
    let mut twin = images[1].clone();
    twin.name = "/dev/twin".into();
    images.push(twin);
    plan(&images, |plan| {
        let Verdict::Refused(why) = plan.verdict else {
            panic!("{:?}", plan.verdict)
        };
        assert_eq!(why.kind(), Kind::Unsafe);
        assert_eq!(
            why.to_string(),
            "/dev/D1 and /dev/twin have the same serial D1"
        );
    });
    // A twin without volumes as well.
    let mut images = set("r1");
    let mut twin = set("matrix").remove(3);
    (twin.serial, twin.name) = ("D1".into(), "/dev/twin".into());
    images.push(twin);
    assert_eq!(verdict(&images), "unsafe duplicate-serial");
}

#[test]
fn mixed_sector_sizes_are_refused() {
    // The same metadata, one write older, as a disk with large sectors has it.
    let mut images = set("r1");
    let other = &mut images[1];
    other.sector = SectorSize::B4096;
    other.record = vec![0; 4096];
    let (map, volume) = (other.map(0, 0), other.volume(0));
    for at in [
        other.disk(0) + offset_of!(Disk, total_blocks_lo),
        other.disk(1) + offset_of!(Disk, total_blocks_lo),
        volume + offset_of!(Volume, size_lo),
        map + offset_of!(Map, blocks_per_member_lo),
    ] {
        other.put_u32(at, other.get_u32(at) / 8);
    }
    other.put(map + offset_of!(Map, blocks_per_strip), &[16, 0]);
    let generation = other.get_u32(offset_of!(Super, generation_num));
    other.generation(generation - 1).seal();
    assert_eq!(verdict(&images), "unsafe sector-sizes");
}

/// A member that lags by two generations or more while the table counts on it.
#[test]
fn a_member_that_lags_is_not_trusted() {
    let lag = |name: &str, serial: &str, by: u32, missing: &[&str]| {
        let mut images = set(name);
        for image in &mut images {
            let newest = image.get_u32(offset_of!(Super, generation_num));
            if image.serial == serial {
                image.generation(newest - by).seal();
            }
        }
        verdict(&without(images, missing))
    };
    // A power cut in the midst of a write to all members.
    assert_eq!(lag("r1", "D1", 1, &[]), "start");
    // The rest is enough.
    assert_eq!(lag("r1", "D1", 2, &[]), "degraded");
    assert_eq!(lag("r5", "D1", 2, &[]), "degraded");
    assert_eq!(lag("r10", "D1", 9, &[]), "degraded");
    // It is not.
    assert_eq!(lag("r0", "D1", 2, &[]), "unsafe lagging");
    assert_eq!(lag("states-dirty", "D1", 2, &[]), "unsafe lagging");
    assert_eq!(lag("r5", "D1", 2, &["D0"]), "incomplete Members");
    let mut images = set("r5");
    for image in &mut images {
        if image.serial != "D0" {
            image.generation(3).seal();
        }
    }
    plan(&images, |plan| {
        let Verdict::Refused(why @ Why::Lagging { .. }) = plan.verdict else {
            panic!("{:?}", plan.verdict)
        };
        assert!(
            why.to_string()
                .contains("generation 3 where the newest is 23"),
            "{why}"
        );
    });
    // What is bound to the container is what is trusted.
    let mut images = set("r1");
    images[1].generation(3).seal();
    found(&images, |found| {
        let container = found.containers().next().unwrap();
        assert_eq!(container.bound().count(), 1);
    });
}

/// B14: a free spare is in no container.
#[test]
fn a_spare_is_nobodys() {
    found(&set("matrix"), |found| {
        let container = found.containers().next().unwrap();
        assert_eq!(container.members().len(), 3);
        assert_eq!(found.spares().len(), 1);
        assert_eq!(found.containers().count(), 1);
    });
    let mut images = set("r0");
    images.iter_mut().for_each(|image| {
        // No volumes: only spares.
        let end = image.disk(2);
        image.mpb.truncate(end);
        image.put(offset_of!(Super, num_raid_devs), &[0]).seal();
    });
    found(&images, |found| {
        assert_eq!((found.containers().count(), found.spares().len()), (0, 2))
    });
}

/// B3: a container with volumes that cannot start is one, each volume with its reason.
#[test]
fn each_volume_has_its_own_reason() {
    let images = without(set("matrix"), &["D1", "D3"]);
    found(&images, |found| {
        let container = found.containers().next().unwrap();
        assert_eq!(container.refusal(), None);
        assert_eq!(container.bound().count(), 2);
        let verdicts: Vec<_> = container.plans().map(|plan| plan.verdict).collect();
        assert_eq!(
            verdicts,
            [Verdict::Degraded, Verdict::Incomplete(Lack::Members)]
        );
        let missing: Vec<_> = container.missing().map(|d| d.serial.to_string()).collect();
        assert_eq!(missing, ["D1"]);
    });
}

/// A failure that any copy of the family tells counts.
#[test]
fn a_failure_is_carried_forward() {
    let mut images = set("r5");
    let at = images[1].disk_of("D2") + offset_of!(Disk, status);
    let generation = images[1].get_u32(offset_of!(Super, generation_num));
    images[1].put_u32(at, 0x6).generation(generation - 1).seal();
    found(&images, |found| {
        let container = found.containers().next().unwrap();
        let d2 = container
            .members()
            .iter()
            .find(|m| m.name == "/dev/D2")
            .unwrap();
        assert!(matches!(container.standing(d2), Standing::Failed(_)));
    });
    assert_eq!(verdict(&images), "start");
}

/// As mdadm 4.2 left them: a mirror that has lost a disk, which is back with its old copy.
#[test]
fn a_disk_that_came_back_is_stale() {
    let images = set("r1deg");
    found(&images, |found| {
        let container = found.containers().next().unwrap();
        let standings: Vec<_> = container
            .members()
            .iter()
            .map(|m| container.standing(m))
            .collect();
        assert_eq!(standings, [Standing::Active(0), Standing::Stale]);
        assert_eq!(container.missing().count(), 0);
    });
    let states = plan(&images, |plan| {
        plan.slots.iter().map(|s| s.state).collect::<Vec<_>>()
    });
    assert_eq!(states, [SlotState::InSync, SlotState::Failed]);
    assert_eq!(verdict(&images), "start");
}

/// As mdadm 4.2 left them: a spare is being rebuilt, in a new family, and the disk that it replaces is there too.
#[test]
fn a_replaced_disk_is_stale() {
    let images = set("r5reb");
    found(&images, |found| {
        let container = found.containers().next().unwrap();
        let replaced = container
            .members()
            .iter()
            .find(|m| m.name.ends_with("0001"))
            .unwrap();
        assert_ne!(replaced.metadata.family(), container.metadata().family());
        assert_eq!(container.standing(replaced), Standing::Stale);
        assert_eq!(container.bound().count(), 3);
    });
    let states = plan(&images, |plan| {
        plan.slots.iter().map(|s| s.state).collect::<Vec<_>>()
    });
    assert_eq!(
        states,
        [SlotState::Rebuild(0), SlotState::InSync, SlotState::InSync]
    );
    assert_eq!(verdict(&images), "start");
}
