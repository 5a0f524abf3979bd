//! Where a volume is resynchronised or rebuilt from, and how much of a disk it takes.

use crate::decide::{dirty, edited, fail, plan, verdict, without};
use crate::sample::Image;
use core::mem::offset_of;
use quell::imsm::SlotState;
use quell::imsm::ondisk::{Map, Volume};

#[test]
fn a_dirty_volume_is_resynced_where_it_can_be() {
    let resync = |images: &[Image]| plan(images, |plan| plan.resync_start);
    for name in ["r1", "r5", "r10"] {
        let images = edited(name, dirty);
        assert_eq!(resync(&images), Some(0), "{name}");
        assert_eq!(verdict(&images), "start");
    }
    // RAID 1 has nothing to resync with one disk, which md knows itself; RAID 10 has another pair.
    assert_eq!(verdict(&without(edited("r1", dirty), &["D1"])), "degraded");
    assert_eq!(resync(&without(edited("r10", dirty), &["D1"])), Some(0));
    // RAID 5 that was degraded before.
    let images = edited("r5", |i| {
        fail(i, "D2", 0);
        dirty(i);
    });
    assert_eq!(verdict(&without(images, &["D2"])), "unsafe dirty-degraded");
    // A clean stop in the midst of the resync that follows: parity is no better.
    let repair = || {
        edited("r5", |i| {
            i.migrate(0, 5, 3);
        })
    };
    assert_eq!(verdict(&repair()), "start");
    assert_eq!(
        verdict(&without(repair(), &["D2"])),
        "incomplete AllWhileDirty"
    );
    // PPL closes the write hole.
    let images = edited("r5ppl", |i| {
        fail(i, "D2", 0);
        dirty(i);
    });
    assert_eq!(verdict(&without(images, &["D2"])), "start");
    // Only bit 0 is dirty; bit 1 says that there is a PPL.
    let images = edited("r5", |i| {
        i.put(i.volume(0) + offset_of!(Volume, dirty), &[2]);
    });
    assert_eq!(resync(&images), None);
    // Never synchronised.
    let images = edited("r1", |i| {
        i.put(i.map(0, 0) + offset_of!(Map, map_state), &[1]);
    });
    assert_eq!(resync(&images), Some(0));
}

/// A rebuild goes on where it stopped.
#[test]
fn a_rebuild_has_its_checkpoint() {
    let rebuilding = |name: &str, slots: &[usize], unit| {
        edited(name, |image| {
            image.migrate(0, 1, unit);
            image.put(image.map(0, 1) + offset_of!(Map, map_state), &[2]);
            for slot in slots {
                let at = image.slot(0, 1, *slot);
                image.put_u32(at, image.get_u32(at) | 0x0100_0000);
            }
        })
    };
    let starts = |images: &[Image]| {
        plan(images, |plan| {
            let of = |slot: &quell::imsm::Slot<'_>| match slot.state {
                SlotState::Rebuild(from) => Some(from),
                _ => None,
            };
            (
                plan.slots.iter().filter_map(of).collect::<Vec<_>>(),
                plan.resync_start,
            )
        })
    };
    // As seen in a virtual machine: RAID 5 of three with 64 KiB, unit 200 of 128 sectors.
    assert_eq!(starts(&rebuilding("r5", &[1], 200)), (vec![25600], None));
    assert_eq!(starts(&rebuilding("r1", &[1], 3)), (vec![3 * 512], None));
    assert_eq!(starts(&rebuilding("r10", &[0], 3)), (vec![3 * 512], None));
    // Of two nobody knows whose it is.
    assert_eq!(starts(&rebuilding("r10", &[0, 2], 3)), (vec![0, 0], None));
    assert_eq!(verdict(&rebuilding("r5", &[1], 200)), "start");
    // Dirty as well: the rebuild goes first.
    let mut images = rebuilding("r5", &[1], 200);
    for image in &mut images {
        dirty(image);
        image.seal();
    }
    assert_eq!(starts(&images), (vec![25600], None));
    assert_eq!(verdict(&images), "start");
    // Another disk gone: what is rebuilt is no copy yet.
    let other = plan(&rebuilding("r5", &[1], 200), |plan| {
        plan.slots[0].serial.to_string()
    });
    assert_eq!(
        verdict(&without(rebuilding("r5", &[1], 200), &[&other])),
        "incomplete Members"
    );
    // PPL resyncs what it replays.
    let (from, resync) = starts(&rebuilding("r5ppl", &[1], 0));
    assert_eq!((from, resync), (vec![0], Some(0)));
}

#[test]
fn units_of_every_migration() {
    let unit = |name: &str, migr_type: u8, verify: bool| {
        let images = edited(name, |image| {
            image.migrate(0, migr_type, 1);
            if verify {
                image.put(image.volume(0) + offset_of!(Volume, status), &[0x80]);
            }
        });
        plan(&images, |plan| plan.resync_start)
    };
    assert_eq!(unit("r5", 0, false), Some(384));
    assert_eq!(unit("r1", 0, false), Some(512));
    assert_eq!(unit("r10", 0, false), Some(256));
    assert_eq!(unit("r5", 2, true), Some(384));
    assert_eq!(unit("r5", 5, false), Some(384));
    // A check is dropped.
    assert_eq!(unit("r5", 2, false), None);
}

#[test]
fn a_bitmap_is_behind_the_data() {
    let images = edited("r5", |i| {
        i.put(i.volume(0) + offset_of!(Volume, rwh_policy), &[6]);
    });
    let bitmap = plan(&images, |plan| plan.geometry.bitmap.unwrap());
    assert_eq!((bitmap.header, bitmap.location), (409_616, 409_624));
}

#[test]
fn a_size_that_stripes_do_not_tell_is_shared_out() {
    // Expanded by something that left the stripes alone.
    let images = edited("r5", |i| {
        i.put_u32(i.volume(0) + offset_of!(Volume, size_lo), 1_638_400);
    });
    plan(&images, |plan| {
        assert_eq!(plan.geometry.component_kib, 409_600);
        assert_eq!(plan.geometry.device_kib, 409_600);
        assert_eq!(plan.geometry.array_kib, 819_200);
    });
}
