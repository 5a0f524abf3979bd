//! The samples decode to exactly what `mdadm -E` said of them: each of its lines is compared.

use crate::sample::{Image, SETS, set, text, with};
use core::mem::offset_of;
use quell::imsm::{
    Disk, Level, Metadata, Migration, SectorSize, Serial, Uuid, Volume, WriteHole, ondisk, sum,
};

#[test]
fn the_samples_are_what_mdadm_says_they_are() {
    let mut lines = 0;
    for (name, ..) in SETS {
        for image in set(name) {
            let said = text(name, &format!("{}.E.txt", image.serial));
            with(&image, |metadata| {
                let metadata = metadata.unwrap();
                let mut reader = Reader::new(&metadata, &image.serial);
                reader.checksum = shown_checksum(&image);
                for line in said.lines().skip(1) {
                    lines += usize::from(reader.line(line, name));
                }
                assert_eq!(reader.disks, metadata.disks().len(), "{name}: disks shown");
                assert_eq!(
                    reader.volumes,
                    metadata.volumes().len(),
                    "{name}: volumes shown"
                );
            });
        }
    }
    assert!(lines > 1000, "only {lines} lines compared");
}

/// The checksum that mdadm shows: of a disk with large sectors not the one that lies on it, but one that it made of its copy
/// in memory, where blocks have become sectors of 512 bytes.
fn shown_checksum(image: &Image) -> u32 {
    let mut image = image.clone();
    if image.sector == SectorSize::B4096 {
        let count = |image: &Image, at: usize| usize::from(image.mpb[at]);
        let disks = count(&image, offset_of!(ondisk::Super, num_disks));
        let mut words: Vec<usize> = (0..disks)
            .map(|i| image.disk(i) + offset_of!(ondisk::Disk, total_blocks_lo))
            .collect();
        let mut chunks = Vec::new();
        for i in 0..count(&image, offset_of!(ondisk::Super, num_raid_devs)) {
            let at = image.volume(i);
            words.push(at + offset_of!(ondisk::Volume, size_lo));
            words.push(at + offset_of!(ondisk::Volume, curr_migr_unit_lo));
            for m in 0..=count(&image, at + offset_of!(ondisk::Volume, migr_state)) {
                let map = image.map(i, m);
                words.push(map + offset_of!(ondisk::Map, pba_of_lba0_lo));
                words.push(map + offset_of!(ondisk::Map, blocks_per_member_lo));
                chunks.push(map + offset_of!(ondisk::Map, blocks_per_strip));
            }
        }
        for at in words {
            image.put_u32(at, image.get_u32(at) * 8);
        }
        for at in chunks {
            let chunk = u16::from_le_bytes([image.mpb[at], image.mpb[at + 1]]) * 8;
            image.put(at, &chunk.to_le_bytes());
        }
    }
    sum(&image.mpb)
}

/// What part of the text it is in.
struct Reader<'m, 'a> {
    metadata: &'m Metadata<'a>,
    serial: Serial,
    disk: Option<Disk>,
    volume: Option<&'m Volume<'a>>,
    record: bool,
    checksum: u32,
    disks: usize,
    volumes: usize,
}

impl<'m, 'a> Reader<'m, 'a> {
    fn new(metadata: &'m Metadata<'a>, serial: &str) -> Self {
        Self {
            metadata,
            serial: Serial::of_device(serial.as_bytes()).unwrap(),
            disk: None,
            volume: None,
            record: false,
            checksum: 0,
            disks: 0,
            volumes: 0,
        }
    }

    /// Compares one line; false if there is nothing in it.
    fn line(&mut self, line: &str, set: &str) -> bool {
        let line = line.trim();
        if line.is_empty() || line == "Examine one of first two disks in array" {
            return false;
        }
        if let Some(name) = line.strip_prefix('[') {
            let name = name.strip_suffix("]:").unwrap().as_bytes();
            self.volume = Some(&self.metadata.volumes()[self.volumes]);
            assert_eq!(self.volume.unwrap().name(), name, "{set}");
            self.volumes += 1;
            return true;
        }
        if let Some(rest) = line.strip_prefix("Migration Record Information:") {
            self.record = true;
            assert_eq!(rest.trim() == "Empty", self.metadata.record().is_none());
            return true;
        }
        let (key, said) = line.split_once(':').unwrap();
        let (key, said) = (key.trim(), said.trim());
        let ours = self.value(key, said);
        assert_eq!(ours, said, "{set}, disk {}: {key}", self.serial);
        true
    }

    fn value(&mut self, key: &str, said: &str) -> String {
        if self.record {
            return self.record_value(key);
        }
        if let Some(index) = key
            .strip_prefix("Disk")
            .and_then(|k| k.strip_suffix("Serial"))
        {
            self.volume = None;
            let mut raw = [0; 16];
            raw[..said.len()].copy_from_slice(said.as_bytes());
            let serial = Serial::on_disk(raw);
            let disk = self.metadata.find(serial).unwrap();
            if index.trim().is_empty() {
                // A spare is shown twice.
                assert_eq!(serial, self.serial);
            } else {
                assert_eq!(index.trim().parse::<u8>().unwrap(), disk.index);
                self.disks += 1;
            }
            self.disk = Some(disk);
            return disk.serial.to_string();
        }
        match (self.volume, self.disk) {
            (Some(volume), _) => self.volume_value(volume, key),
            (None, Some(disk)) => self.disk_value(&disk, key, said),
            (None, None) => self.head_value(key, said),
        }
    }

    fn head_value(&self, key: &str, said: &str) -> String {
        let (m, head) = (self.metadata, self.metadata.head());
        match key {
            "Magic" => String::from_utf8_lossy(&head.signature)
                .trim_end()
                .to_owned(),
            "Version" => String::from_utf8_lossy(m.version()).into_owned(),
            "Orig Family" => format!("{:08x}", head.orig_family_num.get()),
            "Family" => format!("{:08x}", m.family()),
            "Generation" => format!("{:08x}", m.generation()),
            "Creation Time" => match head.creation_time.get() {
                0 => "Unknown".to_owned(),
                seconds => date(seconds),
            },
            "Attributes" => {
                assert_eq!(m.attributes().unsupported().0, 0);
                match said {
                    // mdadm 4.2 said no more.
                    "All supported" => said.to_owned(),
                    _ => format!("{:08x} (supported)", m.attributes().0),
                }
            }
            "UUID" => Uuid::container(m).to_string(),
            "Checksum" => format!("{:08x} correct", self.checksum),
            "MPB Sectors" => m.blocks().to_string(),
            "Disks" => m.disks().len().to_string(),
            "RAID Devices" => m.volumes().len().to_string(),
            _ => panic!("mdadm says {key}"),
        }
    }

    fn disk_value(&self, disk: &Disk, key: &str, said: &str) -> String {
        match key {
            "State" => {
                let flags = [
                    (disk.is_spare(), "spare"),
                    (disk.is_configured(), "active"),
                    (disk.is_failed(), "failed"),
                    (disk.is_journal(), "journal"),
                ];
                let set = flags.iter().filter(|(is, _)| *is).map(|(_, word)| *word);
                set.collect::<Vec<_>>().join(" ")
            }
            "Id" => format!("{:08x}", disk.scsi_id),
            "Usable Size" => {
                let usable = disk.sectors - self.metadata.reserved_sectors(disk.index);
                self.size(usable, said)
            }
            _ => panic!("mdadm says {key} of a disk"),
        }
    }

    /// mdadm shows blocks; the sizes behind them are the same in other words.
    fn size(&self, sectors: u64, said: &str) -> String {
        let blocks = sectors * 512 / self.metadata.sector().bytes() as u64;
        let words = said.split_once(" (").map_or("", |(_, words)| words);
        format!("{blocks} ({words}")
    }

    fn volume_value(&self, volume: &Volume<'_>, key: &str) -> String {
        let (map, second) = (volume.map(), volume.second());
        let scale = self.metadata.sector().bytes() as u64 / 512;
        let both = |of: &dyn Fn(quell::imsm::volume::Map<'_>) -> String| match second {
            None => of(map),
            Some(second) => format!("{} <-- {}", of(map), of(second)),
        };
        let blocks = |sectors: u64| (sectors / scale).to_string();
        match key {
            "Subarray" => volume.index.to_string(),
            "UUID" => Uuid::volume(self.metadata, volume).to_string(),
            "RAID Level" => both(&|map| map.level().number().to_string()),
            "Members" => both(&|map| map.members().to_string()),
            "Slots" => both(&|map| {
                let of = |seat: quell::imsm::volume::Seat| if seat.out_of_sync { '_' } else { 'U' };
                format!("[{}]", map.slots().map(of).collect::<String>())
            }),
            "Failed disk" => map
                .failed_slot()
                .map_or("none".to_owned(), |s| s.to_string()),
            "This Slot" => {
                let own = self.metadata.find(self.serial).unwrap().index;
                let slot = map.slots().position(|seat| seat.disk == own).unwrap();
                // In a reshape what is has fewer slots.
                let current = volume.current().slots().nth(slot);
                let note = if current.is_some_and(|seat| seat.out_of_sync) {
                    " (out-of-sync)"
                } else {
                    ""
                };
                format!("{slot}{note}")
            }
            "Sector Size" => self.metadata.sector().bytes().to_string(),
            "Array Size" => with_words(volume.sectors(), scale),
            "Per Dev Size" => with_words(map.sectors_per_member(), scale),
            "Sector Offset" => blocks(map.start()),
            "Num Stripes" => map.stripes().to_string(),
            "Chunk Size" => both(&|map| format!("{} KiB", map.chunk() / 2)),
            "Reserved" => volume.raw().reserved_blocks.get().to_string(),
            "Migrate State" => volume
                .migration()
                .map_or("idle", Migration::name)
                .to_owned(),
            "Map State" => both(&|map| map.state().to_string()),
            "Checkpoint" => {
                let unit = match (volume.migration(), self.metadata.record()) {
                    (Some(Migration::General), None) => "N/A".to_owned(),
                    (Some(Migration::General), Some(record)) => record.sectors_per_unit.to_string(),
                    _ => volume.unit().to_string(),
                };
                format!("{} ({unit})", volume.migration_unit())
            }
            "Dirty State" => if volume.is_dirty() { "dirty" } else { "clean" }.to_owned(),
            "RWH Policy" => WriteHole::name(volume.write_hole()).to_owned(),
            "Volume ID" => volume.raw().my_vol_raid_dev_num.get().to_string(),
            _ => panic!("mdadm says {key} of a volume"),
        }
    }

    fn record_value(&self, key: &str) -> String {
        let record = self.metadata.record().unwrap();
        match key {
            "Status" => ["Normal", "Contains Data"][record.status as usize].to_owned(),
            "Current Unit" => record.unit.to_string(),
            "Family" => record.family.to_string(),
            "Ascending" => record.ascending.to_string(),
            "Blocks Per Unit" => record.sectors_per_unit.to_string(),
            "Dest. Depth Per Unit" => record.depth_per_unit.to_string(),
            "Checkpoint Area pba" => record.checkpoint_area.to_string(),
            "First member lba" => record.first_member_sector.to_string(),
            "Total Number of Units" => record.units.to_string(),
            "Size of volume" => record.sectors_after.to_string(),
            "Record was read from" => record.read_from.to_string(),
            _ => panic!("mdadm says {key} of a migration record"),
        }
    }
}

/// Blocks, MiB and MB, as mdadm writes them.
fn with_words(sectors: u64, scale: u64) -> String {
    let bytes = sectors * 512;
    let (mib, mb) = (
        (bytes * 200 / 1_048_576).div_ceil(2),
        (bytes / 5000).div_ceil(2),
    );
    let parts = |n: u64| format!("{}.{:02}", n / 100, n % 100);
    format!("{} ({} MiB {} MB)", sectors / scale, parts(mib), parts(mb))
}

/// As ctime(3) has it, in UTC.
fn date(seconds: u64) -> String {
    let (days, clock) = (seconds / 86400, seconds % 86400);
    let mut year = 1970;
    let mut left = days;
    let leap = |y: u64| y.is_multiple_of(4) && (!y.is_multiple_of(100) || y.is_multiple_of(400));
    while left >= 365 + u64::from(leap(year)) {
        left -= 365 + u64::from(leap(year));
        year += 1;
    }
    let february = 28 + u64::from(leap(year));
    let months = [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let mut month = 0;
    while left >= months[month] {
        left -= months[month];
        month += 1;
    }
    let name = [
        "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
    ][month];
    let day = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"][(days % 7) as usize];
    let (h, m, s) = (clock / 3600, clock / 60 % 60, clock % 60);
    format!("{day} {name} {:2} {h:02}:{m:02}:{s:02} {year}", left + 1)
}

#[test]
fn levels_are_read_as_mdadm_reads_them() {
    for (raw, members, want) in [
        (0, 1, Some(Level::Raid0)),
        (1, 2, Some(Level::Raid1)),
        (1, 4, Some(Level::Raid10)),
        (10, 4, Some(Level::Raid10)),
        (10, 6, Some(Level::Raid10)),
        (5, 3, Some(Level::Raid5)),
        (255, 2, None),
        (6, 4, None),
    ] {
        assert_eq!(Level::of(raw, members), want, "{raw} with {members}");
    }
}
