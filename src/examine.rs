//! What IMSM metadata says: of disks, image files, or the ends of either. Reads, decodes, decides, and touches nothing.
//!
//! Each DEV is shown by itself; then all of them are put into containers, and it is said what an assembly of these disks
//! would do. A disk says its own serial and size. A file does not: `--serial` names it, its end is taken as the end of the
//! disk, and sectors of 512 and then of 4096 bytes are tried.

mod json;
mod show;

use log::error;

use crate::context::Exit;
use crate::errno::Cause;
use crate::imsm::{Found, Member, Metadata, SectorSize, Serial, Unread, Verdict, read};
use crate::mpb::{self, Nothing};
use crate::sys::{Root, disks, tail};

/// A DEV: its path, and its serial if it was given.
#[derive(Clone, Debug)]
pub struct Subject {
    /// As it was given.
    pub path: String,
    /// `--serial`
    pub serial: Option<Serial>,
}

/// What was read of a DEV.
struct Loaded {
    bytes: Vec<u8>,
    sector: SectorSize,
    /// Of a disk.
    disk_bytes: Option<u64>,
    serial: Option<Serial>,
}

/// A DEV with its metadata.
struct Disk<'a> {
    name: &'a str,
    serial: Option<Serial>,
    metadata: Metadata<'a>,
}

/// One DEV, whatever came of it.
struct Looked<'a> {
    name: &'a str,
    disk: Result<Disk<'a>, Nothing>,
}

/// Looks at each DEV and shows what is there.
pub fn run(root: &Root, subjects: &[Subject], as_json: bool) -> Exit {
    let mut loaded: Vec<_> = subjects.iter().map(|subject| load(root, subject)).collect();
    let mut exit = Exit::Done;
    let mut members = Vec::new();
    let mut all = Vec::new();
    for (subject, loaded) in subjects.iter().zip(&mut loaded) {
        let name = subject.path.as_str();
        let disk = match loaded {
            Ok(loaded) => decode(name, loaded),
            Err(nothing) => Err(core::mem::replace(nothing, Nothing::Partition)),
        };
        match &disk {
            Ok(disk) => members.extend(disk.serial.map(|serial| Member {
                name,
                serial,
                metadata: disk.metadata.clone(),
            })),
            Err(Nothing::Unreadable(errno)) => {
                error!("{name}: cannot be read: {}", Cause(*errno));
                exit = exit.and(Exit::Missing);
            }
            Err(_) => exit = exit.and(Exit::Undone),
        }
        all.push(Looked { name, disk });
    }
    let found = Found::new(&mut members);
    let refused = found
        .containers()
        .any(|container| container.plans().any(|plan| is_refused(&plan.verdict)));
    if refused {
        exit = exit.and(Exit::Undone);
    }
    if as_json {
        json::write(&all, found);
    } else {
        show::write(&all, found);
    }
    exit
}

fn is_refused(verdict: &Verdict<'_>) -> bool {
    matches!(verdict, Verdict::Refused(_))
}

/// Reads as much of the end as there is metadata.
fn load(root: &Root, subject: &Subject) -> Result<Loaded, Nothing> {
    let tail = tail::open(root, &subject.path).map_err(Nothing::Unreadable)?;
    let Some(disk) = tail.disk() else {
        let small = load_as(&tail, SectorSize::B512, None);
        let loaded = match small {
            Err(Nothing::Unread(Unread::None)) => load_as(&tail, SectorSize::B4096, None),
            other => other,
        };
        return loaded.map(|loaded| Loaded {
            serial: subject.serial,
            ..loaded
        });
    };
    if disk.is_partition {
        return Err(Nothing::Partition);
    }
    let sector = SectorSize::of(disk.sector).ok_or(Nothing::Sectors(disk.sector))?;
    let loaded = load_as(&tail, sector, Some(tail.bytes()))?;
    let own = || Serial::of_device(disks::serial(root, disk.dev, &mut [0; 256])?);
    Ok(Loaded {
        serial: subject.serial.or_else(own),
        ..loaded
    })
}

fn load_as(
    tail: &tail::Tail,
    sector: SectorSize,
    disk_bytes: Option<u64>,
) -> Result<Loaded, Nothing> {
    Ok(Loaded {
        bytes: mpb::load(tail, sector, disk_bytes)?,
        sector,
        disk_bytes,
        serial: None,
    })
}

fn decode<'a>(name: &'a str, loaded: &'a mut Loaded) -> Result<Disk<'a>, Nothing> {
    let unread = |unread| Nothing::Unread(unread);
    let metadata = read(&mut loaded.bytes, loaded.sector, loaded.disk_bytes).map_err(unread)?;
    // A free spare's table has one disk.
    let only = || {
        let mut disks = metadata.disks();
        let first = disks.next().filter(|_| metadata.is_spare())?;
        disks.next().is_none().then_some(first.serial)
    };
    let serial = loaded.serial.or_else(only);
    if let Some(serial) = serial {
        let sectors = loaded.disk_bytes.map(|bytes| bytes / 512);
        Member::new(name, serial, metadata.clone(), sectors)
            .map_err(|fault| unread(Unread::Corrupt(fault)))?;
    }
    Ok(Disk {
        name,
        serial,
        metadata,
    })
}
