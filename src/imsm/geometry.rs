//! A volume's place on its members → what md must be told.
//!
//! | md attribute | from |
//! | --- | --- |
//! | `level`, `chunk_size` | the current map; the chunk is told for RAID 1 too |
//! | `raid_disks`, `dev-*/offset` | the first map |
//! | `layout` | 0; RAID 5 is left-asymmetric; RAID 10 is 0x102, two near copies |
//! | `component_size`, `dev-*/size` | [`Volume::length`]: the first in whole chunks where there are stripes, the second not |
//! | `array_size` | the volume's size |
//! | `resync_start` | [`Geometry::resync_start`] |
//! | `ppl_sector`, `ppl_size` | behind the stripes |
//! | `bitmap/location` | 24 sectors behind them |
//!
//! Sources: mdadm's `getinfo_super_imsm_volume`, `container_content_imsm`, `blocks_per_migr_unit`, `sysfs_set_array`.

use super::volume::Volume;
use super::words::{Level, MapState, Migration, WriteHole};

/// md's `layout` of RAID 10: two near copies, one far.
pub const RAID10_NEAR_2: u32 = 0x102;

/// Sectors of a member's partial parity logs (`rwh_policy` 3).
pub const PPL_SECTORS: u64 = 2048;

/// How a volume lies on its members, in md's terms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// `level`
    pub level: Level,
    /// `raid_disks`
    pub raid_disks: u8,
    /// `layout`
    pub layout: u32,
    /// `chunk_size`, bytes.
    pub chunk_bytes: u64,
    /// `component_size`, KiB.
    pub component_kib: u64,
    /// `array_size`, KiB.
    pub array_kib: u64,
    /// `dev-*/offset`, sectors: where the volume starts on each member.
    pub offset: u64,
    /// `dev-*/size`, KiB.
    pub device_kib: u64,
    /// Partial parity logs: md's `consistency_policy` is `ppl`.
    pub ppl: Option<Ppl>,
    /// A write-intent bitmap.
    pub bitmap: Option<Bitmap>,
    /// The metadata says it is not synchronised: `resync_start` in sectors of each member, before it is known which
    /// members there are. `None`: `none`.
    pub resync_start: Option<u64>,
}

/// Where the partial parity logs are on each member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ppl {
    /// `dev-*/ppl_sector`: from the disk's start; the header's 4 KiB are there.
    pub sector: u64,
    /// `dev-*/ppl_size`, sectors.
    pub sectors: u64,
}

/// Where the bitmap is on each member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bitmap {
    /// Its header's 4 KiB, in sectors from the disk's start.
    pub header: u64,
    /// `bitmap/location`, in sectors from the disk's start, since the metadata is external.
    pub location: u64,
}

impl Geometry {
    /// Of a volume that is in no reshape.
    #[must_use]
    pub fn of(volume: &Volume<'_>) -> Self {
        let (target, current) = (volume.map(), volume.current());
        let level = current.level();
        let length = volume.length();
        let chunk = current.chunk();
        let component = match level {
            Level::Raid1 => length,
            _ => length - length.checked_rem(chunk).unwrap_or(0),
        };
        let behind = |sectors| {
            target
                .start()
                .saturating_add(length)
                .saturating_add(sectors)
        };
        Self {
            level,
            raid_disks: target.members(),
            layout: match level {
                Level::Raid10 => RAID10_NEAR_2,
                _ => 0,
            },
            chunk_bytes: chunk.saturating_mul(512),
            component_kib: component / 2,
            array_kib: volume.sectors() / 2,
            offset: target.start(),
            device_kib: length.div_ceil(2),
            ppl: (uses_ppl(volume)).then(|| Ppl {
                sector: target
                    .start()
                    .saturating_add(target.stripes().saturating_mul(target.chunk())),
                sectors: PPL_SECTORS,
            }),
            bitmap: (volume.write_hole() == WriteHole::Bitmap).then(|| Bitmap {
                header: behind(16),
                location: behind(24),
            }),
            resync_start: resync_start(volume),
        }
    }
}

/// Only RAID 5 has a write hole, whatever the field says.
fn uses_ppl(volume: &Volume<'_>) -> bool {
    volume.current().level() == Level::Raid5 && volume.write_hole() == WriteHole::MultiplePpl
}

/// What the metadata says of the resync, before it is known who is there.
fn resync_start(volume: &Volume<'_>) -> Option<u64> {
    let unsynced = volume.current().state() == MapState::Uninitialized || volume.is_dirty();
    match volume.migration() {
        None => unsynced.then_some(0),
        Some(Migration::Init | Migration::Repair) => Some(volume.migrated()),
        // A rebuild goes before a resync, even where the volume is dirty.
        Some(_) => None,
    }
}

impl Volume<'_> {
    /// Sectors of each member that its migration has done.
    #[must_use]
    pub fn migrated(&self) -> u64 {
        self.migration_unit().saturating_mul(self.unit())
    }

    /// Sectors of each member in a unit of its migration; 0 if it has none, or one that counts in other units (a reshape
    /// counts in its migration record's).
    ///
    /// Source: mdadm's `blocks_per_migr_unit` and what it calls.
    #[must_use]
    pub fn unit(&self) -> u64 {
        let Some(second) = self.second() else {
            return 0;
        };
        let map = self.map();
        let level = map.level();
        let (target, source) = (map.chunk().max(1), second.chunk().max(1));
        let members = u64::from(map.members());
        let domains = u64::from(level.domains());
        let mirrored = domains > 1;
        match self.migration() {
            Some(Migration::Init | Migration::Verify | Migration::Repair) => {
                let data = u64::from(level.data_members(map.members()));
                let strips = (source / target).max(1);
                let chunk = match level {
                    Level::Raid5 | Level::Raid10 => target,
                    Level::Raid0 | Level::Raid1 => 256,
                };
                let sectors = strips * chunk * data;
                let stripe = target * data;
                let depth = match level {
                    Level::Raid1 | Level::Raid10 => target * 2,
                    Level::Raid5 => target * members,
                    Level::Raid0 => target,
                };
                let whole = sectors / stripe;
                depth * whole + rest(sectors - whole * stripe, level, source, members)
            }
            Some(Migration::Rebuild) => {
                let strip = match level {
                    Level::Raid1 | Level::Raid10 if !members.is_multiple_of(domains) => source,
                    Level::Raid5 => source.max(128),
                    _ => 256,
                };
                strip
                    * if mirrored {
                        domains
                    } else {
                        (source / target).max(1)
                    }
            }
            _ => 0,
        }
    }
}

/// Sectors of a member for what is left of a unit after its whole stripes.
fn rest(sectors: u64, level: Level, chunk: u64, members: u64) -> u64 {
    let strip = sectors / chunk;
    let domains = u64::from(level.domains());
    match level {
        Level::Raid1 | Level::Raid10 => {
            (strip * domains + 1) / members.max(1) * chunk + sectors % chunk
        }
        Level::Raid5 => strip / members.saturating_sub(1).max(1) * chunk + sectors % chunk,
        Level::Raid0 => 0,
    }
}
