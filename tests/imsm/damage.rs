//! B5: damaged metadata is corrupt, by name, and never read as something else.

use crate::sample::{Image, SECTORS, SETS, found, set, with};
use proptest::prelude::*;
use quell::imsm::fault::{Found as Value, Place};
use quell::imsm::{Fault, Member, Metadata, SectorSize, Serial, Unread, Verdict, read};

/// The damaged image's metadata is corrupt, and says where.
fn corrupt(image: &Image) -> Fault {
    with(image, |metadata| match metadata {
        Err(Unread::Corrupt(fault)) => fault,
        other => panic!("{:?}", other.map(|m| m.generation())),
    })
}

#[test]
fn every_flipped_byte_makes_a_copy_corrupt() {
    for (name, ..) in SETS {
        let image = set(name).remove(0);
        for at in 0..image.mpb.len() {
            for flip in [0x01, 0x80, 0xFF] {
                // The tail is made of the damaged bytes, the sizes of the right ones.
                let mut tail = image.tail();
                let ss = image.sector.bytes();
                let anchor = tail.len() - 2 * ss;
                let place = if at < ss { anchor + at } else { at - ss };
                tail[place] ^= flip;
                let fault = match read(&mut tail, image.sector, Some(image.sectors * 512)) {
                    Err(Unread::Corrupt(fault)) => fault,
                    // The size says that there is more; that is read, and found to be wrong.
                    Err(Unread::Short(need)) => {
                        let mut longer = vec![0; need.next_multiple_of(ss)];
                        let mut tail = image.tail();
                        tail[place] ^= flip;
                        let start = longer.len() - tail.len();
                        longer[start..].copy_from_slice(&tail);
                        match read(&mut longer, image.sector, Some(image.sectors * 512)) {
                            Err(Unread::Corrupt(fault)) => fault,
                            other => panic!("{name}, byte {at}: {:?}", other.is_ok()),
                        }
                    }
                    other => panic!("{name}, byte {at}: {:?}", other.is_ok()),
                };
                assert_eq!(fault.place, Place::Super, "{name}, byte {at}: {fault}");
                let field = match at {
                    0..24 => "signature",
                    _ => "check_sum",
                };
                let is_size = (0x24..0x28).contains(&at) && fault.field == "mpb_size";
                assert!(
                    fault.field == field || is_size,
                    "{name}, byte {at}: {fault}"
                );
            }
        }
    }
}

#[test]
fn the_others_assemble_what_they_can() {
    for (name, want) in [
        ("r0", "incomplete"),
        ("r1", "degraded"),
        ("r5", "degraded"),
        ("r10", "degraded"),
        ("states-dirty", "incomplete"),
    ] {
        let mut images = set(name);
        images.remove(1);
        found(&images, |found| {
            let container = found.containers().next().unwrap();
            assert_eq!(container.missing().count(), 1);
            let plan = container.plan(0).unwrap();
            assert_eq!(plan.verdict.name(), want, "{name}");
        });
    }
}

#[test]
fn every_truncation_is_noticed() {
    for (name, ..) in SETS {
        let image = set(name).remove(0);
        let whole = image.tail();
        let ss = image.sector.bytes();
        let need = ss * (image.mpb.len().div_ceil(ss) + 1);
        for keep in 0..whole.len() {
            // The front is missing.
            let mut tail = whole[whole.len() - keep..].to_vec();
            let got = read(&mut tail, image.sector, Some(image.sectors * 512)).err();
            if keep < 2 * ss {
                assert_eq!(got, Some(Unread::Short(2 * ss)), "{name}, {keep}");
            } else if keep < need {
                assert_eq!(got, Some(Unread::Short(need)), "{name}, {keep}");
            } else {
                assert_eq!(got, None, "{name}, {keep}");
            }
            // The end is missing: nothing is where it should be.
            let mut tail = whole[..keep].to_vec();
            assert!(
                read(&mut tail, image.sector, None).is_err(),
                "{name}, {keep}"
            );
        }
        // Metadata that ends early, with a size that says so and a right checksum.
        for size in 0..image.mpb.len() {
            let mut short = image.clone();
            short.mpb.truncate(size);
            if size >= 0x40 {
                short.seal();
                let fault = corrupt(&short);
                assert!(
                    matches!(fault.place, Place::Super | Place::Volume(_)),
                    "{name}, {size}: {fault}"
                );
            } else {
                with(&short, |metadata| assert!(metadata.is_err()));
            }
        }
    }
}

#[test]
fn a_disk_that_has_shrunk_is_corrupt() {
    let image = set("r1").remove(0);
    let mut tail = image.tail();
    let metadata = read(&mut tail, image.sector, None).unwrap();
    let serial = Serial::of_device(b"D0").unwrap();
    let member = |sectors| Member::new("sda", serial, metadata.clone(), sectors);
    assert!(member(Some(SECTORS)).is_ok() && member(None).is_ok());
    let fault = member(Some(SECTORS - 1)).unwrap_err();
    assert_eq!(fault.field, "total_blocks");
    assert_eq!(fault.found, Value::Number(SECTORS));
    assert_eq!(
        fault.to_string(),
        "disk 1: total_blocks is 4194304, allowed: at most 4194303"
    );
    // Nor may metadata be larger than its disk.
    let image = set("r5").remove(0);
    let mut tail = image.tail();
    let got = read(&mut tail, image.sector, Some(1024));
    assert!(matches!(
        got,
        Err(Unread::Corrupt(Fault {
            field: "mpb_size",
            ..
        }))
    ));
}

#[test]
fn the_wrong_sector_size_finds_nothing() {
    for (name, sector, _) in SETS {
        let image = set(name).remove(0);
        let other = match sector {
            SectorSize::B512 => SectorSize::B4096,
            SectorSize::B4096 => SectorSize::B512,
        };
        let mut tail = vec![0; 65536];
        let end = image.tail();
        let start = tail.len() - end.len();
        tail[start..].copy_from_slice(&end);
        assert_eq!(
            read(&mut tail, other, None).err(),
            Some(Unread::None),
            "{name}"
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

    /// Bytes that were never metadata, with its signature or without.
    #[test]
    fn anything_is_read_or_refused(mut bytes in proptest::collection::vec(any::<u8>(), 0..4096), signed: bool) {
        let len = bytes.len();
        if signed && len >= 1024 {
            bytes[len - 1024..len - 1000].copy_from_slice(&quell::imsm::ondisk::SIGNATURE);
        }
        let _ = read(&mut bytes, SectorSize::B512, None);
    }

    /// Any byte, any value, with a right checksum: it is read or refused, and what is read can be decided on.
    #[test]
    fn what_is_wrong_behind_a_right_checksum_is_no_trap(
        which in 0..SETS.len(),
        changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
    ) {
        let mut images = set(SETS[which].0);
        let image = &mut images[0];
        for (at, value) in changes {
            let at = at.index(image.mpb.len());
            image.mpb[at] = value;
        }
        image.seal();
        let serial = Serial::of_device(image.serial.as_bytes()).unwrap();
        let sectors = image.sectors;
        let good = with(image, |metadata| {
            metadata.is_ok_and(|m| Member::new("sda", serial, m, Some(sectors)).is_ok())
        });
        if good {
            found(&images, |found| {
                for container in found.containers() {
                    for plan in container.plans() {
                        // What is started has every slot that it needs.
                        if plan.verdict == Verdict::Start {
                            prop_assert!(plan.slots.iter().any(|slot| slot.state.is_bound()));
                        }
                    }
                }
                Ok(())
            })?;
        }
    }
}

/// The same metadata can be given in its logical order.
#[test]
fn logical_order_is_taken_too() {
    let image = set("r5").remove(0);
    let metadata = Metadata::parse(&image.mpb, image.sector, None).unwrap();
    assert_eq!(metadata.generation(), 0x17);
    let cut = &image.mpb[..image.mpb.len() - 1];
    let got = Metadata::parse(cut, image.sector, None).err();
    assert_eq!(got, Some(Unread::Short(image.mpb.len())));
}
