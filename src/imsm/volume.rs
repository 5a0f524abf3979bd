//! A volume and how it lies on its members: a view of the bytes, in sectors of 512 bytes.

use zerocopy::FromBytes;
use zerocopy::little_endian::U32;

use super::fault::{Allowed, Fault, Place};
use super::ondisk::{self, join};
use super::words::{Level, MapState, Migration, SectorSize, WriteHole};

/// A volume.
#[derive(Clone, Copy, Debug)]
pub struct Volume<'a> {
    /// Its place among the container's volumes: md knows it by that.
    pub index: u8,
    raw: &'a ondisk::Volume,
    map: Map<'a>,
    second: Option<Map<'a>>,
}

impl<'a> Volume<'a> {
    /// Takes a volume off the front of `bytes`.
    pub(super) fn take(
        index: u8,
        bytes: &'a [u8],
        scale: Scale,
    ) -> Result<(Self, &'a [u8]), Fault> {
        let short = |field| {
            let allowed = Allowed::Words("an end before the bad-block log and the metadata's");
            Fault::number(Place::Volume(index), field, bytes.len() as u64, allowed)
        };
        let (raw, rest) =
            ondisk::Volume::ref_from_prefix(bytes).map_err(|_| short("bytes left for it"))?;
        let (map, rest) = Map::take(rest, scale).ok_or_else(|| short("bytes left for it"))?;
        let (second, rest) = match raw.migr_state {
            0 => (None, rest),
            1 => {
                let (second, rest) =
                    Map::take(rest, scale).ok_or_else(|| short("bytes left for it"))?;
                (Some(second), rest)
            }
            other => {
                let allowed = Allowed::Between(0, 1);
                return Err(Fault::number(
                    Place::Volume(index),
                    "migr_state",
                    other,
                    allowed,
                ));
            }
        };
        let volume = Self {
            index,
            raw,
            map,
            second,
        };
        Ok((volume, rest))
    }

    /// As it lies on disk.
    #[must_use]
    pub fn raw(&self) -> &'a ondisk::Volume {
        self.raw
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &'a [u8] {
        until_nul(&self.raw.name)
    }

    /// Its size.
    #[must_use]
    pub fn sectors(&self) -> u64 {
        self.map
            .scale
            .sector
            .scale(join(self.raw.size_lo, self.raw.size_hi))
    }

    /// The first map: where it is going, if it migrates, else what is.
    #[must_use]
    pub fn map(&self) -> Map<'a> {
        self.map
    }

    /// The second map, while it migrates.
    #[must_use]
    pub fn second(&self) -> Option<Map<'a>> {
        self.second
    }

    /// The map of what is: the second while it migrates, else the first.
    #[must_use]
    pub fn current(&self) -> Map<'a> {
        self.second.unwrap_or(self.map)
    }

    /// What it is in the middle of.
    #[must_use]
    pub fn migration(&self) -> Option<Migration> {
        let of = |_| Migration::of(self.raw.migr_type, self.status());
        self.second.map(of)
    }

    /// How far the migration is, in units of [`Volume::unit`].
    #[must_use]
    pub fn migration_unit(&self) -> u64 {
        let sector = self.map.scale.sector;
        sector.scale(join(self.raw.curr_migr_unit_lo, self.raw.curr_migr_unit_hi))
    }

    /// It was being written when it stopped.
    #[must_use]
    pub fn is_dirty(&self) -> bool {
        self.raw.dirty & 1 != 0
    }

    /// Its flags: [`status`](super::status).
    #[must_use]
    pub fn status(&self) -> u32 {
        self.raw.status.get()
    }

    /// How the write hole is closed.
    #[must_use]
    pub fn write_hole(&self) -> WriteHole {
        WriteHole::of(self.raw.rwh_policy)
    }

    /// Sectors of every member that hold the volume: stripes times chunk times domains; where that does not fit the
    /// volume's size (after an expansion by something that left the stripes alone), the size shared out. It is at most
    /// 2048 sectors of slack a member off.
    ///
    /// Source: mdadm's `calc_component_size`.
    #[must_use]
    pub fn length(&self) -> u64 {
        let map = self.map;
        let data = u64::from(map.level().data_members(map.members()));
        let length = map.striped().unwrap_or(u64::MAX);
        let size = self.sectors();
        if length.saturating_mul(data).abs_diff(size) > 2048 * data {
            size / data
        } else {
            length
        }
    }
}

/// A map: how a volume lies on its members.
#[derive(Clone, Copy, Debug)]
pub struct Map<'a> {
    raw: &'a ondisk::Map,
    slots: &'a [U32],
    scale: Scale,
}

impl<'a> Map<'a> {
    fn take(bytes: &'a [u8], scale: Scale) -> Option<(Self, &'a [u8])> {
        let (raw, rest) = ondisk::Map::ref_from_prefix(bytes).ok()?;
        let count = usize::from(raw.num_members);
        let (slots, rest) = <[U32]>::ref_from_prefix_with_elems(rest, count).ok()?;
        Some((Self { raw, slots, scale }, rest))
    }

    /// As it lies on disk.
    #[must_use]
    pub fn raw(&self) -> &'a ondisk::Map {
        self.raw
    }

    /// The sector of every member where the volume starts.
    #[must_use]
    pub fn start(&self) -> u64 {
        self.scale
            .blocks(self.raw.pba_of_lba0_lo, self.raw.pba_of_lba0_hi)
    }

    /// Sectors of every member that are set aside for the volume: more than it uses.
    #[must_use]
    pub fn sectors_per_member(&self) -> u64 {
        let raw = self.raw;
        self.scale
            .blocks(raw.blocks_per_member_lo, raw.blocks_per_member_hi)
    }

    /// `num_data_stripes`.
    #[must_use]
    pub fn stripes(&self) -> u64 {
        let raw = self.raw;
        self.scale
            .clear(join(raw.num_data_stripes_lo, raw.num_data_stripes_hi))
    }

    /// The chunk, in sectors.
    #[must_use]
    pub fn chunk(&self) -> u64 {
        self.scale
            .sector
            .scale(u64::from(self.raw.blocks_per_strip.get()))
    }

    /// The level.
    #[must_use]
    pub fn level(&self) -> Level {
        // Others were refused when this was read.
        Level::of(self.raw.raid_level, self.raw.num_members).unwrap_or(Level::Raid0)
    }

    /// Slots.
    #[must_use]
    pub fn members(&self) -> u8 {
        self.raw.num_members
    }

    /// The state.
    #[must_use]
    pub fn state(&self) -> MapState {
        // Others were refused when this was read.
        MapState::of(self.raw.map_state).unwrap_or(MapState::Failed)
    }

    /// The slot that failed.
    #[must_use]
    pub fn failed_slot(&self) -> Option<u8> {
        Some(self.raw.failed_disk_num).filter(|&slot| slot != 0xFF)
    }

    /// The slots in order.
    pub fn slots(&self) -> impl ExactSizeIterator<Item = Seat> + use<'a> {
        self.slots.iter().map(|ord| Seat::of(ord.get()))
    }

    /// Sectors of a member that its stripes take; `None` if that is no number.
    pub(super) fn striped(&self) -> Option<u64> {
        self.stripes()
            .checked_mul(self.chunk())?
            .checked_mul(u64::from(self.level().domains()))
    }

    /// The slots as they lie on disk.
    pub(super) fn raw_slots(&self) -> impl Iterator<Item = u32> + use<'a> {
        self.slots.iter().map(|ord| ord.get())
    }
}

/// Who has a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seat {
    /// Index into the disk table.
    pub disk: u8,
    /// What it holds is not the volume's data: it needs a rebuild.
    pub out_of_sync: bool,
}

impl Seat {
    /// Bit 24.
    pub const OUT_OF_SYNC: u32 = 0x0100_0000;

    const fn of(ord: u32) -> Self {
        Self {
            // More was refused when this was read.
            disk: (ord & 0xFF) as u8,
            out_of_sync: ord & Self::OUT_OF_SYNC != 0,
        }
    }
}

/// How numbers of this disk are to be read.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scale {
    pub(super) sector: SectorSize,
    /// High halves count.
    pub(super) large: bool,
}

impl Scale {
    pub(super) fn blocks(self, lo: U32, hi: U32) -> u64 {
        self.clear(self.sector.scale(join(lo, hi)))
    }

    /// Without the attribute mdadm clears the high halves, after scaling.
    fn clear(self, n: u64) -> u64 {
        if self.large {
            n
        } else {
            n & u64::from(u32::MAX)
        }
    }
}

pub(super) fn until_nul(bytes: &[u8]) -> &[u8] {
    let end = bytes.iter().position(|&b| b == 0).unwrap_or(bytes.len());
    bytes.get(..end).unwrap_or_default()
}
