//! What must be true of metadata before a byte of it is believed. mdadm looks at the signature, the checksum and the
//! bad-block log and trusts the rest; here each number that another is read by, or that decides where data goes, is checked
//! against what the format can mean.

use super::Serial;
use super::fault::{Allowed, Fault, Found, Place, Unread};
use super::metadata::{Disk, Metadata};
use super::ondisk::{self, SIGNATURE};
use super::volume::{Map, Seat, Volume};
use super::words::Level;

/// The chunk in sectors: 4 KiB at least.
const CHUNK_MIN: u64 = 8;

/// The signature. With up to two wrong bytes it was one: that disk is corrupt, not foreign.
pub(super) fn signature(found: &[u8; 24]) -> Result<(), Unread> {
    match found.iter().zip(&SIGNATURE).filter(|(a, b)| a != b).count() {
        0 => Ok(()),
        1 | 2 => Err(Unread::Corrupt(Fault::text(
            Place::Super,
            "signature",
            found,
            Allowed::Text("Intel Raid ISM Cfg Sig. "),
        ))),
        _ => Err(Unread::None),
    }
}

/// The sum of the words of `mpb`, without the one that holds the sum.
#[must_use]
pub fn sum(mpb: &[u8]) -> u32 {
    let at = core::mem::offset_of!(ondisk::Super, check_sum) / 4;
    mpb.chunks_exact(4)
        .enumerate()
        .filter(|(i, _)| *i != at)
        .filter_map(|(_, word)| word.try_into().ok())
        .fold(0u32, |sum, word| sum.wrapping_add(u32::from_le_bytes(word)))
}

pub(super) fn checksum(head: &ondisk::Super, mpb: &[u8]) -> Result<(), Fault> {
    let (found, right) = (head.check_sum.get(), sum(mpb));
    if found == right {
        return Ok(());
    }
    Err(Fault {
        place: Place::Super,
        field: "check_sum",
        found: Found::Hex(found),
        allowed: Allowed::Hex(right),
    })
}

pub(super) fn bad_block_log(head: &ondisk::BadBlockLog, size: u64) -> Result<(), Fault> {
    let signature = head.signature.get();
    if signature != ondisk::BadBlockLog::SIGNATURE {
        return Err(Fault {
            place: Place::BadBlocks,
            field: "signature",
            found: Found::Hex(signature),
            allowed: Allowed::Hex(ondisk::BadBlockLog::SIGNATURE),
        });
    }
    let count = head.entry_count.get();
    let most = ondisk::BadBlockLog::ENTRIES_MAX;
    number(
        Place::BadBlocks,
        "entry_count",
        count,
        Allowed::AtMost(most.into()),
    )?;
    let want = size_of::<ondisk::BadBlockLog>() + size_of::<ondisk::BadBlock>() * count as usize;
    number(Place::Super, "bbm_log_size", size, Allowed::Is(want as u64))
}

/// A number against what is allowed.
fn number(
    place: Place,
    field: &'static str,
    found: impl Into<u64>,
    allowed: Allowed,
) -> Result<(), Fault> {
    let n = found.into();
    let fits = match allowed {
        Allowed::Is(want) => n == want,
        Allowed::AtLeast(least) => n >= least,
        Allowed::AtMost(most) => n <= most,
        Allowed::Between(least, most) => (least..=most).contains(&n),
        Allowed::OneOf(all) => all.contains(&n),
        Allowed::Hex(_) | Allowed::Words(_) | Allowed::Text(_) => false,
    };
    if fits {
        Ok(())
    } else {
        Err(Fault::number(place, field, n, allowed))
    }
}

/// Everything that can be said of one disk's metadata alone.
pub(super) fn all(metadata: &Metadata<'_>) -> Result<(), Fault> {
    number(
        Place::Super,
        "num_disks",
        metadata.disks().len() as u64,
        Allowed::AtLeast(1),
    )?;
    serials(metadata)?;
    names(metadata)?;
    for volume in metadata.volumes() {
        let place = Place::Volume(volume.index);
        number(place, "size", volume.sectors(), Allowed::AtLeast(1))?;
        for (map, at) in [Some(volume.map()), volume.second()]
            .into_iter()
            .flatten()
            .zip(0..)
        {
            self::map(metadata, volume, &map, at)?;
        }
    }
    // A reshape moves volumes, and is refused anyway: what fits where is mdadm's affair then.
    if metadata.reshapes() {
        return Ok(());
    }
    room(metadata)?;
    overlaps(metadata)
}

/// A disk that has not failed can be told from all others.
fn serials(metadata: &Metadata<'_>) -> Result<(), Fault> {
    // Of a failed disk only part of its serial is left.
    let counts = |disk: &Disk| !disk.is_failed();
    for disk in metadata.disks().filter(counts) {
        let fault = |allowed| {
            let place = Place::Disk(disk.index);
            Err(Fault::text(
                place,
                "serial",
                disk.serial.as_bytes(),
                allowed,
            ))
        };
        if disk.serial == Serial::default() {
            return fault(Allowed::Words("a serial"));
        }
        let before = usize::from(disk.index);
        if metadata
            .disks()
            .take(before)
            .filter(counts)
            .any(|other| other.serial == disk.serial)
        {
            return fault(Allowed::Words("a serial that no other disk has"));
        }
    }
    Ok(())
}

/// Volumes have names, and different ones. Blanks are Windows's way; what could be no file's name is nobody's.
fn names(metadata: &Metadata<'_>) -> Result<(), Fault> {
    for (volume, before) in metadata.volumes().iter().zip(0..) {
        let name = volume.name();
        let fault = |allowed| {
            let place = Place::Volume(volume.index);
            Err(Fault::text(place, "name", name, allowed))
        };
        let printable = |b: &u8| (0x20..0x7F).contains(b);
        if name.is_empty() || name.starts_with(b".") || !name.iter().all(printable) {
            return fault(Allowed::Words(
                "1 to 16 printable ASCII characters, no dot first",
            ));
        }
        let mut others = metadata.volumes().iter().take(before);
        if others.any(|other| other.name() == name) {
            return fault(Allowed::Words("a name that no other volume has"));
        }
    }
    Ok(())
}

fn map(metadata: &Metadata<'_>, volume: &Volume<'_>, map: &Map<'_>, at: u8) -> Result<(), Fault> {
    let raw = map.raw();
    let place = Place::Map(volume.index, at);
    number(
        place,
        "raid_level",
        raw.raid_level,
        Allowed::OneOf(&[0, 1, 5, 10]),
    )?;
    number(place, "map_state", raw.map_state, Allowed::AtMost(3))?;
    let level = map.level();
    // RAID1E and what else is not known may have other rules; it is refused by its attribute.
    if metadata.attributes().unsupported().0 == 0 {
        members(place, level, raw.num_members)?;
        number(
            place,
            "num_domains",
            raw.num_domains,
            Allowed::Is(level.domains().into()),
        )?;
    }
    number(place, "num_members", raw.num_members, Allowed::AtLeast(1))?;
    let chunk = map.chunk();
    if chunk < CHUNK_MIN || !chunk.is_power_of_two() {
        return Err(Fault::number(
            place,
            "blocks_per_strip",
            chunk,
            Allowed::Words("a power of two from 8 sectors on"),
        ));
    }
    if map.striped().is_none() {
        return Err(Fault::number(
            place,
            "num_data_stripes",
            map.stripes(),
            Allowed::AtMost(u64::MAX / chunk / u64::from(level.domains())),
        ));
    }
    slots(metadata, volume, map, at)
}

fn members(place: Place, level: Level, found: u8) -> Result<(), Fault> {
    let (fits, allowed) = match level {
        Level::Raid0 => (found >= 1, Allowed::AtLeast(1)),
        Level::Raid1 => (found == 2, Allowed::Is(2)),
        Level::Raid5 => (found >= 3, Allowed::AtLeast(3)),
        Level::Raid10 => (
            found >= 4 && found.is_multiple_of(2),
            Allowed::Words("2 for RAID 1, an even number from 4 on for RAID 10"),
        ),
    };
    if fits {
        Ok(())
    } else {
        Err(Fault::number(place, "num_members", found, allowed))
    }
}

/// Slots name disks of the table, each once.
fn slots(metadata: &Metadata<'_>, volume: &Volume<'_>, map: &Map<'_>, at: u8) -> Result<(), Fault> {
    let mut taken = [false; 256];
    for (ord, slot) in map.raw_slots().zip(0..) {
        let place = Place::Slot(volume.index, at, slot);
        let flags = ord & 0xFF00_0000 & !Seat::OUT_OF_SYNC;
        if flags != 0 {
            return Err(Fault {
                place,
                field: "flags",
                found: Found::Hex(flags),
                allowed: Allowed::Words("0x01000000, out of sync, or none"),
            });
        }
        let disk = ord & 0x00FF_FFFF;
        let last = (metadata.disks().len() as u64).saturating_sub(1);
        number(place, "disk", disk, Allowed::AtMost(last))?;
        let seat = taken.get_mut(disk as usize);
        if seat.is_some_and(|taken| core::mem::replace(taken, true)) {
            let allowed = Allowed::Words("a disk that has no other slot");
            return Err(Fault::number(place, "disk", disk, allowed));
        }
    }
    Ok(())
}

/// Every volume ends before the metadata on each of its disks.
fn room(metadata: &Metadata<'_>) -> Result<(), Fault> {
    // The metadata's own sectors and the migration record's.
    let tail = metadata.sector().scale(metadata.blocks() as u64 + 1);
    for volume in metadata.volumes() {
        let map = volume.map();
        let end = map.start().saturating_add(volume.length());
        for seat in map.slots() {
            let Some(disk) = metadata.disk(seat.disk) else {
                continue;
            };
            // What stands for a missing disk need not tell its size.
            if disk.is_failed() || disk.is_placeholder() {
                continue;
            }
            let most = disk.sectors.saturating_sub(tail);
            let place = Place::Volume(volume.index);
            number(place, "last sector", end, Allowed::AtMost(most))?;
        }
    }
    Ok(())
}

/// No two volumes share sectors of a disk.
fn overlaps(metadata: &Metadata<'_>) -> Result<(), Fault> {
    let volumes = metadata.volumes();
    for (volume, before) in volumes.iter().zip(0..) {
        let (start, end) = extent(volume);
        for other in volumes.iter().take(before) {
            let (other_start, other_end) = extent(other);
            let apart = end <= other_start || other_end <= start;
            if !apart && share(volume, other) {
                return Err(Fault::number(
                    Place::Volume(volume.index),
                    "pba_of_lba0",
                    start,
                    Allowed::Words("a place where no other volume of the same disk is"),
                ));
            }
        }
    }
    Ok(())
}

fn extent(volume: &Volume<'_>) -> (u64, u64) {
    let start = volume.map().start();
    (start, start.saturating_add(volume.length()))
}

fn share(a: &Volume<'_>, b: &Volume<'_>) -> bool {
    let mut of_a = [false; 256];
    for seat in a.map().slots() {
        if let Some(disk) = of_a.get_mut(usize::from(seat.disk)) {
            *disk = true;
        }
    }
    b.map()
        .slots()
        .any(|seat| of_a.get(usize::from(seat.disk)) == Some(&true))
}
