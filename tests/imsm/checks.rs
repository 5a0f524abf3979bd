//! Every check of the metadata names the place and the field that is wrong.

use crate::sample::{Image, set, with};
use core::mem::offset_of;
use quell::imsm::Unread;
use quell::imsm::fault::Place;
use quell::imsm::ondisk::{Disk, Map, Super, Volume};

pub(crate) type Edit = fn(&mut Image);

/// An edit of `matrix` (disks D0 to D2, volume 0 RAID 5, volume 1 RAID 0) and what it is called.
const CHECKS: &[(&str, Edit, Place, &str)] = &[
    (
        "no disks",
        |i| {
            i.put(offset_of!(Super, num_disks), &[0]);
        },
        Place::Super,
        "num_disks",
    ),
    (
        "more disks than fit",
        |i| {
            i.put(offset_of!(Super, num_disks), &[200]);
        },
        Place::Super,
        "num_disks",
    ),
    (
        "more volumes than fit",
        |i| {
            i.put(offset_of!(Super, num_raid_devs), &[3]);
        },
        Place::Volume(2),
        "bytes left for it",
    ),
    (
        "a log larger than there is room",
        |i| {
            i.put_u32(offset_of!(Super, bbm_log_size), 100_000);
        },
        Place::Super,
        "bbm_log_size",
    ),
    (
        "a log over the volumes",
        |i| {
            i.put_u32(offset_of!(Super, bbm_log_size), 16);
        },
        Place::Volume(1),
        "bytes left for it",
    ),
    (
        "migration 2",
        |i| {
            i.put(i.volume(0) + offset_of!(Volume, migr_state), &[2]);
        },
        Place::Volume(0),
        "migr_state",
    ),
    (
        "size 0",
        |i| {
            i.put(i.volume(1) + offset_of!(Volume, size_lo), &[0; 8]);
        },
        Place::Volume(1),
        "size",
    ),
    (
        "no name",
        |i| {
            i.put(i.volume(1), &[0; 16]);
        },
        Place::Volume(1),
        "name",
    ),
    (
        "a dot first",
        |i| {
            i.put(i.volume(1), b".fast");
        },
        Place::Volume(1),
        "name",
    ),
    (
        "a name for no console",
        |i| {
            i.put(i.volume(1), b"a\x1b[2J");
        },
        Place::Volume(1),
        "name",
    ),
    (
        "one name twice",
        |i| {
            i.put(i.volume(1), b"sys\0");
        },
        Place::Volume(1),
        "name",
    ),
    (
        "level 6",
        |i| {
            i.put(i.map(0, 0) + offset_of!(Map, raid_level), &[6]);
        },
        Place::Map(0, 0),
        "raid_level",
    ),
    (
        "level unknown",
        |i| {
            i.put(i.map(0, 0) + offset_of!(Map, raid_level), &[255]);
        },
        Place::Map(0, 0),
        "raid_level",
    ),
    (
        "RAID 10 of three",
        |i| {
            i.put(i.map(0, 0) + offset_of!(Map, raid_level), &[1]);
        },
        Place::Map(0, 0),
        "num_members",
    ),
    (
        "a state unknown",
        |i| {
            i.put(i.map(1, 0) + offset_of!(Map, map_state), &[4]);
        },
        Place::Map(1, 0),
        "map_state",
    ),
    (
        "two domains of RAID 5",
        |i| {
            i.put(i.map(0, 0) + offset_of!(Map, num_domains), &[2]);
        },
        Place::Map(0, 0),
        "num_domains",
    ),
    (
        "no chunk",
        |i| {
            i.put(i.map(0, 0) + offset_of!(Map, blocks_per_strip), &[0, 0]);
        },
        Place::Map(0, 0),
        "blocks_per_strip",
    ),
    (
        "a chunk of 2 KiB",
        |i| {
            i.put(i.map(0, 0) + offset_of!(Map, blocks_per_strip), &[4, 0]);
        },
        Place::Map(0, 0),
        "blocks_per_strip",
    ),
    (
        "a chunk of 96 sectors",
        |i| {
            i.put(i.map(0, 0) + offset_of!(Map, blocks_per_strip), &[96, 0]);
        },
        Place::Map(0, 0),
        "blocks_per_strip",
    ),
    (
        "a slot of no disk",
        |i| {
            i.put_u32(i.slot(0, 0, 2), 3);
        },
        Place::Slot(0, 0, 2),
        "disk",
    ),
    (
        "a slot far off",
        |i| {
            i.put_u32(i.slot(0, 0, 2), 0x00FF_FFFF);
        },
        Place::Slot(0, 0, 2),
        "disk",
    ),
    (
        "a disk twice",
        |i| {
            i.put_u32(i.slot(1, 0, 2), 0);
        },
        Place::Slot(1, 0, 2),
        "disk",
    ),
    (
        "a flag unknown",
        |i| {
            i.put_u32(i.slot(1, 0, 1), 0x0200_0001);
        },
        Place::Slot(1, 0, 1),
        "flags",
    ),
    (
        "no serial",
        |i| {
            i.put(i.disk(1), &[0; 16]);
        },
        Place::Disk(1),
        "serial",
    ),
    (
        "a serial twice",
        |i| {
            i.put(i.disk(1), b"D0");
        },
        Place::Disk(1),
        "serial",
    ),
    (
        "over the end of a disk",
        |i| {
            i.put_u32(i.disk(1) + offset_of!(Disk, total_blocks_lo), 400_000);
        },
        Place::Volume(0),
        "last sector",
    ),
    (
        "into the metadata",
        |i| {
            i.put_u32(
                i.map(1, 0) + offset_of!(Map, pba_of_lba0_lo),
                4_194_304 - 614_400 - 1,
            );
        },
        Place::Volume(1),
        "last sector",
    ),
    (
        "into another volume",
        |i| {
            i.put_u32(i.map(1, 0) + offset_of!(Map, pba_of_lba0_lo), 409_599);
        },
        Place::Volume(1),
        "pba_of_lba0",
    ),
    (
        "a size that is none",
        |i| {
            let at = i.map(0, 0);
            i.put(at + offset_of!(Map, num_data_stripes_hi), &[0xFF; 4]);
            i.put(at + offset_of!(Map, num_data_stripes_lo), &[0xFF; 4]);
            i.put_u32(offset_of!(Super, attributes), 0x8400_0011);
        },
        Place::Map(0, 0),
        "num_data_stripes",
    ),
];

#[test]
fn every_check_names_place_and_field() {
    for (what, edit, place, field) in CHECKS {
        let mut image = set("matrix").remove(0);
        edit(&mut image);
        image.seal();
        with(&image, |metadata| match metadata {
            Err(Unread::Corrupt(fault)) => {
                assert_eq!(
                    (fault.place, fault.field),
                    (*place, *field),
                    "{what}: {fault}"
                );
            }
            other => panic!("{what}: {:?}", other.map(|m| m.size())),
        });
    }
}
