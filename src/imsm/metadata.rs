//! Bytes → metadata that can be believed: a view of it, with every number in sectors of 512 bytes.

use zerocopy::FromBytes;

use super::fault::{Allowed, Fault, Place, Unread};
use super::ondisk::{self, join};
use super::volume::{Scale, Volume, until_nul};
use super::words::{Attributes, Migration, SectorSize};
use super::{Serial, check};

/// The most volumes a container may have here. The format can count to 255; firmware and mdadm make two.
pub const VOLUMES_MAX: usize = 16;

/// The most bytes of metadata. 255 disks, [`VOLUMES_MAX`] volumes over all of them in the midst of a migration and a full
/// bad-block log take less.
pub const MPB_MAX: usize = 64 * 1024;

/// The least: one disk, no volume.
pub const MPB_MIN: usize = size_of::<ondisk::Super>() + size_of::<ondisk::Disk>();

/// How many bytes of a disk's end hold all the metadata of nearly every disk. [`read`] says where it needs more.
pub const TAIL_USUAL: usize = 16 * 1024;

/// The metadata at the end of a disk. `tail` is the disk's last bytes (a multiple of the sector size, or what there is),
/// `disk_bytes` the size of all of it where that is known.
///
/// The metadata lies on disk with its anchor last; it is put in order within `tail`, which is of no use for a second read.
pub fn read(
    tail: &mut [u8],
    sector: SectorSize,
    disk_bytes: Option<u64>,
) -> Result<Metadata<'_>, Unread> {
    let ss = sector.bytes();
    let len = tail.len();
    let whole = disk_bytes.unwrap_or(u64::MAX);
    let Some(front) = len.checked_sub(2 * ss) else {
        let short = whole != u64::MAX && whole >= 2 * ss as u64;
        return Err(if short {
            Unread::Short(2 * ss)
        } else {
            Unread::None
        });
    };
    let size = mpb_size(tail.get(front..).unwrap_or_default())?;
    let blocks = size.div_ceil(ss);
    let need = ss * (blocks + 1);
    if need as u64 > whole {
        let room = whole.saturating_sub(ss as u64);
        let found = size as u64;
        return Err(Fault::number(Place::Super, "mpb_size", found, Allowed::AtMost(room)).into());
    }
    let Some(start) = len.checked_sub(need) else {
        return Err(Unread::Short(need));
    };
    let (front, record) = tail.split_at_mut(len - ss);
    let mpb = front.get_mut(start..).unwrap_or_default();
    mpb.rotate_right(ss);
    Metadata::parse(
        mpb.get(..size).unwrap_or_default(),
        sector,
        record.get(..size_of::<ondisk::MigrationRecord>()),
    )
}

/// The size that an anchor tells, if it is one.
fn mpb_size(anchor: &[u8]) -> Result<usize, Unread> {
    let (head, _) = ondisk::Super::ref_from_prefix(anchor).map_err(|_| Unread::None)?;
    check::signature(&head.signature)?;
    let size = head.mpb_size.get();
    let range = MPB_MIN as u64..=MPB_MAX as u64;
    if !range.contains(&u64::from(size)) {
        let allowed = Allowed::Between(*range.start(), *range.end());
        return Err(Fault::number(Place::Super, "mpb_size", size, allowed).into());
    }
    Ok(size as usize)
}

/// One disk's metadata, checked. It borrows the bytes.
#[derive(Clone, Debug)]
pub struct Metadata<'a> {
    head: &'a ondisk::Super,
    disks: &'a [ondisk::Disk],
    volumes: heapless::Vec<Volume<'a>, VOLUMES_MAX>,
    bad_blocks: &'a [ondisk::BadBlock],
    record: Option<&'a ondisk::MigrationRecord>,
    sector: SectorSize,
}

impl<'a> Metadata<'a> {
    /// From the metadata in its logical order, and the last sector's first 128 bytes.
    pub fn parse(
        mpb: &'a [u8],
        sector: SectorSize,
        record: Option<&'a [u8]>,
    ) -> Result<Self, Unread> {
        let size = mpb_size(mpb)?;
        let mpb = mpb.get(..size).ok_or(Unread::Short(size))?;
        let (head, rest) = ondisk::Super::ref_from_prefix(mpb).map_err(|_| Unread::None)?;
        check::checksum(head, mpb)?;
        let count = head.num_disks;
        let room = rest.len() / size_of::<ondisk::Disk>();
        let (disks, rest) = <[ondisk::Disk]>::ref_from_prefix_with_elems(rest, usize::from(count))
            .map_err(|_| {
                Fault::number(
                    Place::Super,
                    "num_disks",
                    count,
                    Allowed::Between(1, room as u64),
                )
            })?;
        let log = head.bbm_log_size.get();
        let space = rest.len().checked_sub(log as usize).ok_or_else(|| {
            let allowed = Allowed::AtMost(rest.len() as u64);
            Fault::number(Place::Super, "bbm_log_size", log, allowed)
        })?;
        let (space, log) = rest.split_at_checked(space).unwrap_or((rest, &[]));
        let scale = Scale {
            sector,
            large: head.attributes.get() & Attributes::DISK_OVER_2TB != 0,
        };
        let metadata = Self {
            head,
            disks,
            volumes: volumes(head, space, scale)?,
            bad_blocks: bad_blocks(log)?,
            record: record
                .and_then(|bytes| ondisk::MigrationRecord::ref_from_prefix(bytes).ok())
                .map(|(record, _)| record),
            sector,
        };
        check::all(&metadata)?;
        Ok(metadata)
    }

    /// The head, as it lies on disk.
    #[must_use]
    pub fn head(&self) -> &'a ondisk::Super {
        self.head
    }

    /// Sector size of the disk it was read from.
    #[must_use]
    pub fn sector(&self) -> SectorSize {
        self.sector
    }

    /// Bytes of the metadata.
    #[must_use]
    pub fn size(&self) -> usize {
        self.head.mpb_size.get() as usize
    }

    /// Sectors of the *disk's* size that the metadata takes.
    #[must_use]
    pub fn blocks(&self) -> usize {
        self.size().div_ceil(self.sector.bytes())
    }

    /// Changes when a spare is taken in.
    #[must_use]
    pub fn family(&self) -> u32 {
        self.head.family_num.get()
    }

    /// The container's identity: the family it was born with.
    #[must_use]
    pub fn orig_family(&self) -> u32 {
        match self.head.orig_family_num.get() {
            0 => self.family(),
            family => family,
        }
    }

    /// Counts the writes.
    #[must_use]
    pub fn generation(&self) -> u32 {
        self.head.generation_num.get()
    }

    /// The checksum, which is right.
    #[must_use]
    pub fn checksum(&self) -> u32 {
        self.head.check_sum.get()
    }

    /// What the writer used.
    #[must_use]
    pub fn attributes(&self) -> Attributes {
        Attributes(self.head.attributes.get())
    }

    /// Version text, without padding.
    #[must_use]
    pub fn version(&self) -> &'a [u8] {
        until_nul(&self.head.version)
    }

    /// The disk table.
    pub fn disks(&self) -> impl ExactSizeIterator<Item = Disk> + use<'a> {
        let scale = self.scale();
        self.disks
            .iter()
            .enumerate()
            // There are 255 at most.
            .map(move |(i, raw)| Disk::of(i as u8, raw, scale))
    }

    /// An entry of the disk table.
    #[must_use]
    pub fn disk(&self, index: u8) -> Option<Disk> {
        let raw = self.disks.get(usize::from(index))?;
        Some(Disk::of(index, raw, self.scale()))
    }

    /// The first entry with this serial.
    #[must_use]
    pub fn find(&self, serial: Serial) -> Option<Disk> {
        self.disks().find(|disk| disk.serial == serial)
    }

    /// The volumes, in their order.
    #[must_use]
    pub fn volumes(&self) -> &[Volume<'a>] {
        &self.volumes
    }

    /// A free spare, or a member of a container that has no volumes yet, which is the same.
    #[must_use]
    pub fn is_spare(&self) -> bool {
        self.volumes.is_empty()
    }

    /// The bad-block log.
    pub fn bad_blocks(&self) -> impl ExactSizeIterator<Item = BadBlocks> + use<'a> {
        let sector = self.sector;
        self.bad_blocks
            .iter()
            .map(move |raw| BadBlocks::of(raw, sector))
    }

    /// The migration record, where a reshape makes it mean something and this disk has one.
    #[must_use]
    pub fn record(&self) -> Option<Record> {
        let raw = self.record.filter(|_| self.reshapes())?;
        Some(Record::of(raw, self.sector)).filter(|record| record.units > 0)
    }

    /// A volume is being reshaped.
    #[must_use]
    pub fn reshapes(&self) -> bool {
        self.volumes
            .iter()
            .any(|volume| volume.migration() == Some(Migration::General))
    }

    /// Sectors at the end of the disk in `index` that no volume of it may use, as mdadm counts them: what Linux reserves,
    /// less where a volume reaches further, never less than the metadata.
    #[must_use]
    pub fn reserved_sectors(&self, index: u8) -> u64 {
        let Some(disk) = self.disk(index) else {
            return ondisk::MPB_SECTORS;
        };
        if disk.is_spare() || self.is_spare() {
            return ondisk::MPB_SECTORS;
        }
        let usual = ondisk::MPB_SECTORS + ondisk::RESERVED_SECTORS;
        let end = |volume: &Volume<'_>| {
            let map = volume.map();
            let here = map.slots().any(|slot| slot.disk == index);
            here.then(|| map.start().saturating_add(volume.length()))
        };
        match self.volumes.iter().filter_map(end).max() {
            None => usual,
            Some(end) => {
                let remainder = disk.sectors.saturating_sub(end) & !1;
                let least = self.size().div_ceil(512) as u64;
                usual.min(remainder.max(least))
            }
        }
    }

    fn scale(&self) -> Scale {
        Scale {
            sector: self.sector,
            large: self.attributes().0 & Attributes::DISK_OVER_2TB != 0,
        }
    }
}

/// An entry of the disk table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Disk {
    /// Its place in the table.
    pub index: u8,
    /// Its serial; of a failed disk, what is left of it.
    pub serial: Serial,
    /// Sectors in all.
    pub sectors: u64,
    /// [`ondisk::Disk::scsi_id`].
    pub scsi_id: u32,
    /// [`ondisk::Disk::status`].
    pub status: u32,
}

impl Disk {
    /// `status`: a spare.
    pub const SPARE: u32 = 0x1;
    /// `status`: part of a volume.
    pub const CONFIGURED: u32 = 0x2;
    /// `status`: failed.
    pub const FAILED: u32 = 0x4;
    /// `status`: a journaling drive.
    pub const JOURNAL: u32 = 0x0200_0000;

    fn of(index: u8, raw: &ondisk::Disk, scale: Scale) -> Self {
        Self {
            index,
            serial: Serial::on_disk(raw.serial),
            sectors: scale.blocks(raw.total_blocks_lo, raw.total_blocks_hi),
            scsi_id: raw.scsi_id.get(),
            status: raw.status.get(),
        }
    }

    /// A spare.
    #[must_use]
    pub const fn is_spare(&self) -> bool {
        self.status & Self::SPARE != 0
    }

    /// Part of a volume.
    #[must_use]
    pub const fn is_configured(&self) -> bool {
        self.status & Self::CONFIGURED != 0
    }

    /// Failed.
    #[must_use]
    pub const fn is_failed(&self) -> bool {
        self.status & Self::FAILED != 0
    }

    /// A journaling drive.
    #[must_use]
    pub const fn is_journal(&self) -> bool {
        self.status & Self::JOURNAL != 0
    }

    /// Stands for a disk that was missing.
    #[must_use]
    pub const fn is_placeholder(&self) -> bool {
        self.scsi_id == u32::MAX
    }

    /// In mdadm's words.
    #[must_use]
    pub const fn state(&self) -> &'static str {
        if self.is_failed() {
            "failed"
        } else if self.is_journal() {
            "journal"
        } else if self.is_spare() {
            "spare"
        } else if self.is_configured() {
            "active"
        } else {
            "unused"
        }
    }
}

/// A run of sectors that cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadBlocks {
    /// Index into the disk table.
    pub disk: u8,
    /// First sector of the disk.
    pub start: u64,
    /// Sectors.
    pub count: u64,
}

impl BadBlocks {
    fn of(raw: &ondisk::BadBlock, sector: SectorSize) -> Self {
        let start = u64::from(raw.start_hi.get()) << 16 | u64::from(raw.start_lo.get());
        Self {
            disk: raw.disk,
            start: sector.scale(start),
            count: sector.scale(u64::from(raw.marked_count) + 1),
        }
    }
}

/// The migration record, in sectors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// 0: normal; 1: the unit's source is in the checkpoint area.
    pub status: u32,
    /// The unit that is next.
    pub unit: u64,
    /// Whose it is.
    pub family: u32,
    /// Towards higher addresses.
    pub ascending: u32,
    /// Sectors of a unit.
    pub sectors_per_unit: u64,
    /// Sectors of every member that a unit takes at its destination.
    pub depth_per_unit: u64,
    /// Where the checkpoint area is.
    pub checkpoint_area: u64,
    /// Where the destination starts on every member.
    pub first_member_sector: u64,
    /// Units in all.
    pub units: u64,
    /// The volume's size afterwards.
    pub sectors_after: u64,
    /// Which disk the checkpoint is to be read from.
    pub read_from: u32,
}

impl Record {
    fn of(raw: &ondisk::MigrationRecord, sector: SectorSize) -> Self {
        let scaled = |lo, hi| sector.scale(join(lo, hi));
        Self {
            status: raw.rec_status.get(),
            unit: join(raw.curr_migr_unit_lo, raw.curr_migr_unit_hi),
            family: raw.family_num.get(),
            ascending: raw.ascending_migr.get(),
            sectors_per_unit: sector.scale(u64::from(raw.blocks_per_unit.get())),
            depth_per_unit: sector.scale(u64::from(raw.dest_depth_per_unit.get())),
            checkpoint_area: scaled(raw.ckpt_area_pba_lo, raw.ckpt_area_pba_hi),
            first_member_sector: scaled(raw.dest_1st_member_lba_lo, raw.dest_1st_member_lba_hi),
            units: join(raw.num_migr_units_lo, raw.num_migr_units_hi),
            sectors_after: scaled(raw.post_migr_vol_cap_lo, raw.post_migr_vol_cap_hi),
            read_from: raw.ckpt_read_disk_num.get(),
        }
    }
}

fn volumes<'a>(
    head: &ondisk::Super,
    mut space: &'a [u8],
    scale: Scale,
) -> Result<heapless::Vec<Volume<'a>, VOLUMES_MAX>, Fault> {
    let count = head.num_raid_devs;
    let mut volumes = heapless::Vec::new();
    for index in 0..count {
        let (volume, rest) = Volume::take(index, space, scale)?;
        volumes.push(volume).map_err(|_| {
            let allowed = Allowed::AtMost(VOLUMES_MAX as u64);
            Fault::number(Place::Super, "num_raid_devs", count, allowed)
        })?;
        space = rest;
    }
    Ok(volumes)
}

fn bad_blocks(log: &[u8]) -> Result<&[ondisk::BadBlock], Fault> {
    if log.is_empty() {
        return Ok(&[]);
    }
    let size = log.len() as u64;
    let (head, entries) = ondisk::BadBlockLog::ref_from_prefix(log).map_err(|_| {
        let least = size_of::<ondisk::BadBlockLog>() as u64;
        Fault::number(Place::Super, "bbm_log_size", size, Allowed::AtLeast(least))
    })?;
    check::bad_block_log(head, size)?;
    let count = head.entry_count.get() as usize;
    Ok(
        <[ondisk::BadBlock]>::ref_from_prefix_with_elems(entries, count)
            .map(|(entries, _)| entries)
            .unwrap_or_default(),
    )
}
