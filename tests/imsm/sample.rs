//! Samples, and changes to them that are right in all but what is changed.

use core::mem::offset_of;
use quell::imsm::metadata::VOLUMES_MAX;
use quell::imsm::ondisk;
use quell::imsm::{Found, Member, Metadata, SectorSize, Serial, Unread, read, sum};
use std::fs;
use std::path::PathBuf;

/// Every set: what its disks' sectors are, and how many of 512 bytes they have.
pub(crate) const SETS: [(&str, SectorSize, u64); 17] = [
    ("r0", SectorSize::B512, SECTORS),
    ("r1", SectorSize::B512, SECTORS),
    ("r5", SectorSize::B512, SECTORS),
    ("r10", SectorSize::B512, SECTORS),
    ("matrix", SectorSize::B512, SECTORS),
    ("r5ppl", SectorSize::B512, SECTORS),
    ("r5_4k", SectorSize::B4096, SECTORS),
    ("states-init-resync", SectorSize::B512, SECTORS),
    ("states-clean", SectorSize::B512, SECTORS),
    ("states-dirty", SectorSize::B512, SECTORS),
    ("gen-migration", SectorSize::B512, SECTORS),
    ("ten6", SectorSize::B512, SMALL),
    ("two", SectorSize::B512, SMALL),
    ("r1deg", SectorSize::B512, SMALL),
    ("r5reb", SectorSize::B512, SMALL),
    ("k10init", SectorSize::B4096, SMALL),
    ("ktwo", SectorSize::B4096, SMALL),
];

/// The size of the disks that mdadm 4.6 wrote.
pub(crate) const SECTORS: u64 = 4_194_304;

/// Of those that mdadm 4.2 wrote.
const SMALL: u64 = 131_072;

pub(crate) fn path(set: &str, file: &str) -> PathBuf {
    let samples = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/imsm-samples");
    samples.join(set).join(file)
}

pub(crate) fn text(set: &str, file: &str) -> String {
    fs::read_to_string(path(set, file)).unwrap()
}

/// One disk: its metadata in logical order.
#[derive(Clone)]
pub(crate) struct Image {
    pub(crate) serial: String,
    pub(crate) name: String,
    pub(crate) sector: SectorSize,
    pub(crate) sectors: u64,
    pub(crate) mpb: Vec<u8>,
    pub(crate) record: Vec<u8>,
}

/// The disks of a set.
pub(crate) fn set(name: &str) -> Vec<Image> {
    let (_, sector, sectors) = SETS.into_iter().find(|(set, ..)| *set == name).unwrap();
    let folder = fs::read_dir(path(name, "")).unwrap();
    let mut files: Vec<_> = folder.map(|entry| entry.unwrap().path()).collect();
    files.retain(|file| file.extension().is_some_and(|e| e == "tail"));
    files.sort();
    assert!(!files.is_empty(), "{name}");
    files
        .iter()
        .map(|file| {
            let serial = file.file_stem().unwrap().to_str().unwrap();
            Image::of_tail(serial, &fs::read(file).unwrap(), sector, sectors)
        })
        .collect()
}

impl Image {
    fn of_tail(serial: &str, tail: &[u8], sector: SectorSize, sectors: u64) -> Self {
        let ss = sector.bytes();
        let anchor = tail.len() - 2 * ss;
        let mut mpb = tail[anchor..tail.len() - ss].to_vec();
        let size = u32_at(&mpb, offset_of!(ondisk::Super, mpb_size)) as usize;
        let more = size.div_ceil(ss) - 1;
        mpb.extend_from_slice(&tail[anchor - more * ss..anchor]);
        mpb.truncate(size);
        Self {
            serial: serial.to_owned(),
            name: format!("/dev/{serial}"),
            sector,
            sectors,
            mpb,
            record: tail[tail.len() - ss..].to_vec(),
        }
    }

    /// The end of the disk, as it lies there.
    pub(crate) fn tail(&self) -> Vec<u8> {
        let ss = self.sector.bytes();
        let mut mpb = self.mpb.clone();
        mpb.resize(mpb.len().max(1).div_ceil(ss) * ss, 0);
        let mut tail = mpb[ss..].to_vec();
        tail.extend_from_slice(&mpb[..ss]);
        tail.extend_from_slice(&self.record);
        tail
    }

    /// Makes the checksum right again.
    pub(crate) fn seal(&mut self) -> &mut Self {
        let at = offset_of!(ondisk::Super, mpb_size);
        let size = (self.mpb.len() as u32).to_le_bytes();
        self.mpb[at..at + 4].copy_from_slice(&size);
        let right = sum(&self.mpb).to_le_bytes();
        let at = offset_of!(ondisk::Super, check_sum);
        self.mpb[at..at + 4].copy_from_slice(&right);
        self
    }

    pub(crate) fn put(&mut self, at: usize, bytes: &[u8]) -> &mut Self {
        self.mpb[at..at + bytes.len()].copy_from_slice(bytes);
        self
    }

    pub(crate) fn put_u32(&mut self, at: usize, value: u32) -> &mut Self {
        self.put(at, &value.to_le_bytes())
    }

    pub(crate) fn get_u32(&self, at: usize) -> u32 {
        u32_at(&self.mpb, at)
    }

    /// Where an entry of the disk table is.
    pub(crate) fn disk(&self, index: usize) -> usize {
        size_of::<ondisk::Super>() + index * size_of::<ondisk::Disk>()
    }

    /// Where the entry of this serial is.
    pub(crate) fn disk_of(&self, serial: &str) -> usize {
        let disks = usize::from(self.mpb[offset_of!(ondisk::Super, num_disks)]);
        let mut padded = [0; 16];
        padded[..serial.len()].copy_from_slice(serial.as_bytes());
        (0..disks)
            .map(|i| self.disk(i))
            .find(|&at| self.mpb[at..at + 16] == padded)
            .unwrap()
    }

    /// Where a volume is.
    pub(crate) fn volume(&self, index: usize) -> usize {
        assert!(index < VOLUMES_MAX);
        let disks = usize::from(self.mpb[offset_of!(ondisk::Super, num_disks)]);
        let mut at = self.disk(disks);
        for _ in 0..index {
            let maps = 1 + usize::from(self.mpb[at + offset_of!(ondisk::Volume, migr_state)]);
            at += size_of::<ondisk::Volume>();
            for _ in 0..maps {
                at += self.map_size(at);
            }
        }
        at
    }

    /// Where one of a volume's maps is.
    pub(crate) fn map(&self, volume: usize, map: usize) -> usize {
        let mut at = self.volume(volume) + size_of::<ondisk::Volume>();
        for _ in 0..map {
            at += self.map_size(at);
        }
        at
    }

    fn map_size(&self, at: usize) -> usize {
        let members = usize::from(self.mpb[at + offset_of!(ondisk::Map, num_members)]);
        size_of::<ondisk::Map>() + 4 * members
    }

    /// Where a slot is.
    pub(crate) fn slot(&self, volume: usize, map: usize, slot: usize) -> usize {
        self.map(volume, map) + size_of::<ondisk::Map>() + 4 * slot
    }

    /// Adds a second map to a volume, a copy of the first, in a migration of this type.
    pub(crate) fn migrate(&mut self, volume: usize, migr_type: u8, unit: u32) -> &mut Self {
        let at = self.map(volume, 0);
        let copy = self.mpb[at..at + self.map_size(at)].to_vec();
        let end = at + copy.len();
        self.mpb.splice(end..end, copy);
        let at = self.volume(volume);
        self.put(at + offset_of!(ondisk::Volume, migr_state), &[1, migr_type]);
        self.put_u32(at + offset_of!(ondisk::Volume, curr_migr_unit_lo), unit)
    }

    pub(crate) fn generation(&mut self, generation: u32) -> &mut Self {
        self.put_u32(offset_of!(ondisk::Super, generation_num), generation)
    }
}

pub(crate) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap())
}

/// Reads one image.
pub(crate) fn with<T>(image: &Image, look: impl FnOnce(Result<Metadata<'_>, Unread>) -> T) -> T {
    let mut tail = image.tail();
    look(read(&mut tail, image.sector, Some(image.sectors * 512)))
}

/// Reads all images, groups them, and looks.
pub(crate) fn found<T>(images: &[Image], look: impl FnOnce(Found<'_, '_>) -> T) -> T {
    let mut tails: Vec<Vec<u8>> = images.iter().map(Image::tail).collect();
    let mut members: Vec<Member<'_>> = tails
        .iter_mut()
        .zip(images)
        .map(|(tail, image)| {
            let metadata = read(tail, image.sector, Some(image.sectors * 512)).unwrap();
            let serial = Serial::of_device(image.serial.as_bytes()).unwrap();
            Member::new(&image.name, serial, metadata, Some(image.sectors)).unwrap()
        })
        .collect();
    look(Found::new(&mut members))
}
