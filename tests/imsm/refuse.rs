//! What is refused, and in whose words: every attribute bit, every state that quell leaves to others.

use crate::checks::Edit;
use crate::sample::{Image, found, set, with};
use core::mem::offset_of;
use quell::imsm::ondisk::{BadBlockLog, Disk, Map, Super, Volume};
use quell::imsm::{Attributes, Kind, Unread, Verdict};

#[test]
fn what_is_odd_but_right_is_read() {
    let edits: &[(&str, Edit)] = &[
        ("a blank in a name", |i| {
            i.put(i.volume(1), b"RAID Volume 1");
        }),
        ("all 16 bytes of a name", |i| {
            i.put(i.volume(1), b"0123456789abcdef");
        }),
        ("side by side", |i| {
            i.put_u32(i.map(1, 0) + offset_of!(Map, pba_of_lba0_lo), 409_600);
        }),
        ("last sector before the metadata", |i| {
            i.put_u32(
                i.map(1, 0) + offset_of!(Map, pba_of_lba0_lo),
                4_194_304 - 614_400 - 3,
            );
        }),
        // The high halves of what is no disk over 2 TiB do not count.
        ("a high half", |i| {
            i.put(i.map(1, 0) + offset_of!(Map, pba_of_lba0_hi), &[1]);
        }),
        ("an odd size", |i| {
            i.mpb.extend_from_slice(&[1, 2, 3]);
        }),
    ];
    for (what, edit) in edits {
        let mut image = set("matrix").remove(0);
        edit(&mut image);
        image.seal();
        with(&image, |metadata| {
            assert_eq!(metadata.err(), None, "{what}")
        });
    }
}

/// The edits on every disk of a set, and the verdict on its first volume.
fn verdict(name: &str, edit: impl Fn(&mut Image)) -> (String, String, Option<Kind>) {
    let mut images = set(name);
    for image in &mut images {
        edit(image);
        image.seal();
    }
    found(&images, |found| {
        let container = found.containers().next().unwrap();
        let plan = container.plan(0).unwrap();
        match plan.verdict {
            Verdict::Refused(why) => (why.name().to_owned(), why.to_string(), Some(why.kind())),
            other => (other.name().to_owned(), String::new(), None),
        }
    })
}

/// B9: each bit.
#[test]
fn every_attribute_bit_is_accepted_or_refused_by_name() {
    let accepted = [0, 1, 2, 4, 6, 7, 26, 27, 29, 30, 31];
    for bit in 0..32 {
        let value = 1_u32 << bit;
        let (name, text, kind) = verdict("r5", |image| {
            let at = offset_of!(Super, attributes);
            image.put_u32(at, image.get_u32(at) | value);
        });
        if accepted.contains(&bit) {
            assert_eq!((name.as_str(), kind), ("start", None), "bit {bit}");
            assert_ne!(Attributes::name(value), "unknown");
        } else {
            assert_eq!(
                (name.as_str(), kind),
                ("attributes", Some(Kind::Unsupported)),
                "bit {bit}"
            );
            let named = format!(
                "{value:#010x} ({}",
                match Attributes::name(value) {
                    "unknown" => format!("{value:#010x} unknown)"),
                    name => format!("{name})"),
                }
            );
            assert!(text.contains(&named), "bit {bit}: {text}");
        }
    }
}

/// B11 and section 9: everything that is left to mdadm, by its name.
#[test]
fn what_quell_cannot_do_is_unsupported_by_name() {
    let volume = |at: usize, bytes: &'static [u8]| {
        move |image: &mut Image| {
            image.put(image.volume(0) + at, bytes);
        }
    };
    let rwh = offset_of!(Volume, rwh_policy);
    type Case = (&'static str, &'static str, Box<dyn Fn(&mut Image)>);
    let cases: &[Case] = &[
        ("gen-migration", "reshape", Box::new(|_| ())),
        (
            "r5",
            "reshape",
            Box::new(|i| {
                i.migrate(0, 3, 5);
            }),
        ),
        (
            "r5",
            "state-change",
            Box::new(|i| {
                i.migrate(0, 4, 5);
            }),
        ),
        (
            "r5",
            "unknown-migration",
            Box::new(|i| {
                i.migrate(0, 6, 5);
            }),
        ),
        (
            "r5",
            "moving-migration",
            Box::new(|i| {
                i.migrate(0, 0, 5);
                i.put(i.map(0, 1) + offset_of!(Map, pba_of_lba0_lo), &[8]);
            }),
        ),
        (
            "r5",
            "moving-migration",
            Box::new(|i| {
                i.migrate(0, 1, 5);
                let (a, b) = (i.get_u32(i.slot(0, 1, 0)), i.get_u32(i.slot(0, 1, 1)));
                i.put_u32(i.slot(0, 1, 0), b);
                i.put_u32(i.slot(0, 1, 1), a);
            }),
        ),
        ("r5", "journal-policy", Box::new(volume(rwh, &[2]))),
        ("r5", "journal-policy", Box::new(volume(rwh, &[4]))),
        ("r5", "single-ppl", Box::new(volume(rwh, &[1]))),
        ("r1", "start", Box::new(volume(rwh, &[1]))),
        ("r5", "unknown-policy", Box::new(volume(rwh, &[7]))),
        ("r5", "start", Box::new(volume(rwh, &[6]))),
        ("r5_4k", "bitmap-4kn", Box::new(volume(rwh, &[6]))),
        (
            "r5",
            "cache",
            Box::new(volume(offset_of!(Volume, nv_cache_mode), &[1])),
        ),
        (
            "r5",
            "clone",
            Box::new(volume(offset_of!(Volume, cng_state), &[1])),
        ),
        ("r5", "clone", Box::new(volume(25, &[0x04]))),
        ("r5", "clone", Box::new(volume(25, &[0x08]))),
        ("r5", "clone", Box::new(volume(25, &[0x10]))),
        ("r5", "hidden", Box::new(volume(24, &[0x20]))),
        ("r5", "hidden", Box::new(volume(24, &[0x40]))),
        ("r5", "start", Box::new(volume(24, &[0x9F]))),
        (
            "r5",
            "journal-disk",
            Box::new(|i| {
                let at = i.disk_of("D1") + offset_of!(Disk, status);
                i.put_u32(at, 0x0200_0000);
            }),
        ),
    ];
    for (name, want, edit) in cases {
        let (got, text, kind) = verdict(name, edit);
        assert_eq!(got, *want, "{name}: {text}");
        let refused = *want != "start";
        assert_eq!(kind, refused.then_some(Kind::Unsupported), "{name}: {want}");
    }
}

/// One volume in a reshape holds up the others of its container.
#[test]
fn a_reshape_is_the_whole_containers() {
    let mut images = set("matrix");
    for image in images.iter_mut().take(3) {
        image.migrate(1, 3, 0).seal();
    }
    found(&images, |found| {
        let container = found.containers().next().unwrap();
        for plan in container.plans() {
            let Verdict::Refused(why) = plan.verdict else {
                panic!("{:?}", plan.verdict)
            };
            assert_eq!(why.to_string(), "volume 1 is in a reshape");
        }
    });
}

#[test]
fn the_bad_block_log_is_read_and_checked() {
    let log = |signature: u32, count: u32, entries: &[[u8; 8]]| {
        let mut bytes = signature.to_le_bytes().to_vec();
        bytes.extend_from_slice(&count.to_le_bytes());
        entries
            .iter()
            .for_each(|entry| bytes.extend_from_slice(entry));
        bytes
    };
    let with_log = |name: &str, log: &[u8]| {
        let mut image = set(name).remove(0);
        image.mpb.extend_from_slice(log);
        image.put_u32(offset_of!(Super, bbm_log_size), log.len() as u32);
        image.seal();
        image
    };
    // 8 sectors of disk 1 from 0x0001_0002_0003 on; one of disk 2.
    let entries = [[7, 1, 3, 0, 2, 0, 1, 0], [0, 2, 100, 0, 0, 0, 0, 0]];
    let good = log(BadBlockLog::SIGNATURE, 2, &entries);
    with(&with_log("r5", &good), |metadata| {
        let metadata = metadata.unwrap();
        let runs: Vec<_> = metadata
            .bad_blocks()
            .map(|b| (b.disk, b.start, b.count))
            .collect();
        assert_eq!(runs, [(1, 0x0001_0002_0003, 8), (2, 100, 1)]);
    });
    with(&with_log("r5_4k", &good), |metadata| {
        let metadata = metadata.unwrap();
        let runs: Vec<_> = metadata
            .bad_blocks()
            .map(|b| (b.disk, b.start, b.count))
            .collect();
        assert_eq!(runs, [(1, 0x0001_0002_0003 * 8, 64), (2, 800, 8)]);
    });
    let most = vec![[0; 8]; 254];
    with(
        &with_log("r5", &log(BadBlockLog::SIGNATURE, 254, &most)),
        |metadata| {
            assert_eq!(metadata.unwrap().bad_blocks().len(), 254);
        },
    );
    let bad: &[(&str, Vec<u8>, &str)] = &[
        ("too short", vec![0; 4], "bbm_log_size"),
        ("another's", log(0xABAD_B10D, 0, &[]), "signature"),
        (
            "more than there are",
            log(BadBlockLog::SIGNATURE, 3, &entries),
            "bbm_log_size",
        ),
        (
            "fewer than there are",
            log(BadBlockLog::SIGNATURE, 1, &entries),
            "bbm_log_size",
        ),
        (
            "too many",
            log(BadBlockLog::SIGNATURE, 255, &[[0; 8]; 255]),
            "entry_count",
        ),
        (
            "far too many",
            log(BadBlockLog::SIGNATURE, u32::MAX, &[]),
            "entry_count",
        ),
    ];
    for (what, log, field) in bad {
        with(&with_log("r5", log), |metadata| match metadata {
            Err(Unread::Corrupt(fault)) => assert_eq!(fault.field, *field, "{what}"),
            other => panic!("{what}: {}", other.is_ok()),
        });
    }
    // The part of a disk's bad blocks that is the volume's: it has sectors 0 to 409,599.
    let mut images = set("r5");
    let runs = [
        [0, 1, 100, 0, 0, 0, 0, 0],
        [0, 1, 0, 0, 7, 0, 0, 0],
        [0, 2, 5, 0, 0, 0, 0, 0],
    ];
    for image in &mut images {
        let log = log(BadBlockLog::SIGNATURE, 3, &runs);
        image.mpb.extend_from_slice(&log);
        image.put_u32(offset_of!(Super, bbm_log_size), log.len() as u32);
        image.seal();
    }
    found(&images, |found| {
        let container = found.containers().next().unwrap();
        let plan = container.plan(0).unwrap();
        let of_1: Vec<_> = container
            .bad_blocks(&plan, 1)
            .map(|b| (b.start, b.count))
            .collect();
        assert_eq!(of_1, [(100, 1)]);
    });
}
