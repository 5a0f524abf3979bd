//! What is fuzzed: plain functions that take bytes. The cargo-fuzz targets wrap them, and the tests run them over the corpus
//! and over mutations of it on any toolchain.
//!
//! The first byte of an input is flags, the rest the ends of disks: bit 0, sectors of 4096 bytes instead of 512; bit 1, make
//! the checksums right first, without which hardly an input comes further than that.

use core::fmt::Write as _;
use core::mem::offset_of;

use quell::imsm::names::{LinkName, PartitionName};
use quell::imsm::{
    Found, Member, Metadata, SectorSize, Serial, Unread, headers, ondisk, read, sum,
};

/// One disk: parse, and look at everything there is.
pub(crate) fn parse(input: &[u8]) {
    let Some((flags, tail)) = input.split_first() else {
        return;
    };
    let sector = sector(*flags);
    let mut tail = prepared(*flags, tail);
    let mut sink = Sink;
    match read(&mut tail, sector, None) {
        Err(Unread::Corrupt(fault)) => drop(write!(sink, "{fault} {fault:?}")),
        Err(other) => drop(write!(sink, "{other}")),
        Ok(metadata) => look(&metadata, &mut sink),
    }
    if let Some(page) = input.first_chunk::<{ headers::HEADER_BYTES }>() {
        let _ = headers::ppl(page, 1).map_err(|bad| write!(sink, "{bad}"));
    }
}

/// Several disks of 2048 bytes (or, with large sectors, 8192) each: parse → containers → geometry.
pub(crate) fn assemble(input: &[u8]) {
    let Some((flags, rest)) = input.split_first() else {
        return;
    };
    let sector = sector(*flags);
    let size = match sector {
        SectorSize::B512 => 2048,
        SectorSize::B4096 => 8192,
    };
    let mut tails: Vec<Vec<u8>> = rest
        .chunks(size)
        .take(NAMES.len())
        .map(|tail| prepared(*flags, tail))
        .collect();
    let mut members: Vec<Member<'_>> = Vec::new();
    for (tail, name) in tails.iter_mut().zip(NAMES) {
        let Ok(metadata) = read(tail, sector, None) else {
            continue;
        };
        let taken = |serial: &Serial| members.iter().any(|m| m.serial == *serial);
        let mut serials = metadata.disks().map(|disk| disk.serial);
        let serial = serials.find(|serial| !taken(serial)).unwrap_or_default();
        if let Ok(member) = Member::new(name, serial, metadata, None) {
            members.push(member);
        }
    }
    let mut sink = Sink;
    let found = Found::new(&mut members);
    for container in found.containers() {
        let _ = write!(sink, "{} {:?}", container.uuid(), container.refusal());
        for member in container.members() {
            let _ = write!(sink, "{:?}", container.standing(member));
        }
        for (index, _) in container.bound() {
            let _ = write!(sink, "{:?}", container.reserved(index));
        }
        let _ = write!(sink, "{}", container.missing().count());
        for plan in container.plans() {
            let _ = write!(sink, "{plan:?} {}", plan.verdict.name());
            for slot in &plan.slots {
                let _ = write!(sink, "{}", container.bad_blocks(&plan, slot.disk).count());
            }
        }
    }
    let _ = write!(sink, "{}", found.spares().len());
}

/// As many disks at most, each called by the first serial of its table that no other has: what a disk would say.
const NAMES: [&str; 8] = ["D0", "D1", "D2", "D3", "D4", "D5", "D6", "D7"];

fn sector(flags: u8) -> SectorSize {
    if flags & 1 == 0 {
        SectorSize::B512
    } else {
        SectorSize::B4096
    }
}

/// A copy of the tail, its checksum made right if the flags want it.
fn prepared(flags: u8, tail: &[u8]) -> Vec<u8> {
    let mut tail = tail.to_vec();
    if flags & 2 != 0 {
        let _ = seal(&mut tail, sector(flags).bytes());
    }
    tail
}

fn seal(tail: &mut [u8], ss: usize) -> Option<()> {
    let anchor = tail.len().checked_sub(2 * ss)?;
    let at = anchor + offset_of!(ondisk::Super, mpb_size);
    let size = u32::from_le_bytes(tail.get(at..at + 4)?.try_into().ok()?) as usize;
    let more = size.div_ceil(ss).saturating_sub(1) * ss;
    let mut mpb = tail.get(anchor..anchor + ss)?.to_vec();
    mpb.extend_from_slice(tail.get(anchor.checked_sub(more)?..anchor)?);
    let right = sum(mpb.get(..size)?);
    let at = anchor + offset_of!(ondisk::Super, check_sum);
    tail.get_mut(at..at + 4)?
        .copy_from_slice(&right.to_le_bytes());
    Some(())
}

fn look(metadata: &Metadata<'_>, sink: &mut Sink) {
    let _ = write!(sink, "{metadata:?} {}", metadata.attributes());
    let _ = write!(sink, "{:?}", metadata.record());
    for disk in metadata.disks() {
        let reserved = metadata.reserved_sectors(disk.index);
        let _ = write!(sink, "{disk:?} {} {reserved}", disk.state());
    }
    for volume in metadata.volumes() {
        let name = volume.name();
        let _ = write!(sink, "{} {}", LinkName(name), PartitionName(name, 1));
        let _ = write!(sink, "{} {}", volume.length(), volume.migrated());
        for map in [Some(volume.map()), volume.second()].into_iter().flatten() {
            let _ = write!(sink, "{} {:?}", map.level(), map.failed_slot());
            let _ = write!(sink, "{}", map.slots().len());
        }
    }
    for bad in metadata.bad_blocks() {
        let _ = write!(sink, "{bad:?}");
    }
}

/// Everything is formatted, nothing is kept.
struct Sink;

impl core::fmt::Write for Sink {
    fn write_str(&mut self, text: &str) -> core::fmt::Result {
        core::hint::black_box(text);
        Ok(())
    }
}
