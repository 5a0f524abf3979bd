//! A volume of a container → whether it is to be started, with whom, and what md must be told.

use super::container::{Container, Member, Standing};
use super::geometry::Geometry;
use super::metadata::BadBlocks;
use super::refusal::Why;
use super::volume::Volume;
use super::words::{Level, MapState, Migration, SectorSize, WriteHole, status};
use super::{Serial, Uuid};

/// Slots of a volume at most: `num_members` is a byte.
pub const SLOTS_MAX: usize = 255;

/// What is to become of a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict<'s> {
    /// All that the metadata counts on is here.
    Start,
    /// It can run, but a disk that the metadata counts on is not here: wait for it, and start degraded at the deadline,
    /// in the way that has the loss recorded.
    Degraded,
    /// It cannot run without disks that are not here yet. Nothing is started at the deadline either.
    Incomplete(Lack),
    /// It is not to be started by quell.
    Refused(Why<'s>),
}

impl Verdict<'_> {
    /// A word that programs may compare.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Start => "start",
            Self::Degraded => "degraded",
            Self::Incomplete(_) => "incomplete",
            Self::Refused(why) => why.kind().name(),
        }
    }
}

/// What cannot be done without.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lack {
    /// Too few members.
    Members,
    /// RAID 5 that was being written needs all of them.
    AllWhileDirty,
}

/// One slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot<'s> {
    /// Index into the container's disk table.
    pub disk: u8,
    /// The disk's serial, as the table has it.
    pub serial: Serial,
    /// What its reader calls it, if it is here.
    pub name: Option<&'s str>,
    /// Whether and how it takes part.
    pub state: SlotState,
}

/// Whether and how the disk of a slot takes part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SlotState {
    /// It holds the volume's data.
    InSync,
    /// Here, and to be rebuilt from this sector of it on: `recovery_start`.
    Rebuild(u64),
    /// Not here, though the metadata counts on it.
    Missing,
    /// Not here, or out of order, as the metadata says.
    Failed,
    /// Here, but its copy of the metadata is too old: what it holds may be too.
    Lagging {
        /// Its generation.
        generation: u32,
        /// The container's.
        newest: u32,
    },
}

impl SlotState {
    /// A word that programs may compare.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::InSync => "in-sync",
            Self::Rebuild(_) => "rebuild",
            Self::Missing => "missing",
            Self::Failed => "failed",
            Self::Lagging { .. } => "lagging",
        }
    }

    /// Its disk is to be bound to the volume.
    #[must_use]
    pub const fn is_bound(self) -> bool {
        matches!(self, Self::InSync | Self::Rebuild(_))
    }
}

/// What is to become of one volume, and how.
#[derive(Clone, Debug)]
pub struct Plan<'s> {
    /// Its place among the container's volumes.
    pub index: u8,
    /// Its name.
    pub name: &'s [u8],
    /// Its UUID.
    pub uuid: Uuid,
    /// What md must be told.
    pub geometry: Geometry,
    /// Its slots, in order.
    pub slots: heapless::Vec<Slot<'s>, SLOTS_MAX>,
    /// md's `resync_start` with these slots, in sectors of each member; `None`: `none`. Not for RAID 0.
    pub resync_start: Option<u64>,
    /// It was being written when it stopped.
    pub dirty: bool,
    /// What it is in the middle of.
    pub migration: Option<Migration>,
    /// Whether it is to be started.
    pub verdict: Verdict<'s>,
}

impl<'s> Plan<'s> {
    pub(super) fn of(container: &Container<'s, '_>, volume: &Volume<'s>) -> Self {
        let geometry = Geometry::of(volume);
        let slots = slots(container, volume);
        let mut plan = Self {
            index: volume.index,
            name: volume.name(),
            uuid: Uuid::volume(container.metadata(), volume),
            resync_start: resync_start(volume, &geometry, &slots),
            geometry,
            slots,
            dirty: volume.is_dirty(),
            migration: volume.migration(),
            verdict: Verdict::Start,
        };
        plan.verdict = match refusal(container, volume) {
            Some(why) => Verdict::Refused(why),
            None => plan.judge(volume),
        };
        plan
    }

    /// Slots in one of these states.
    pub fn slots_that(
        &self,
        wanted: impl Fn(SlotState) -> bool,
    ) -> impl Iterator<Item = &Slot<'s>> {
        self.slots.iter().filter(move |slot| wanted(slot.state))
    }

    /// What the members hold, with nothing more against it than what is missing.
    fn judge(&self, volume: &Volume<'_>) -> Verdict<'s> {
        let here = |state| state == SlotState::InSync;
        let awaited = |state| here(state) || state == SlotState::Missing;
        let trusted = |state| awaited(state) || matches!(state, SlotState::Lagging { .. });
        let lagging = self.slots.iter().find_map(|slot| match slot.state {
            SlotState::Lagging { generation, newest } => Some(Why::Lagging {
                serial: slot.serial,
                generation,
                newest,
            }),
            _ => None,
        });
        if volume.current().state() == MapState::Failed || !self.enough(trusted) {
            return Verdict::Refused(Why::Failed);
        }
        if !self.enough(here) {
            return match lagging {
                // Without the one that lags it never will be enough.
                Some(why) if !self.enough(awaited) => Verdict::Refused(why),
                _ => Verdict::Incomplete(Lack::Members),
            };
        }
        let short =
            |wanted: &dyn Fn(SlotState) -> bool| self.slots_that(wanted).count() < self.slots.len();
        let unsure = self.resync_start.is_some() || self.migration == Some(Migration::Repair);
        let hole = self.geometry.ppl.is_none() && self.geometry.level == Level::Raid5;
        if hole && unsure && short(&here) {
            // A disk that is awaited may make it whole.
            return if !short(&awaited) {
                Verdict::Incomplete(Lack::AllWhileDirty)
            } else {
                Verdict::Refused(match lagging {
                    Some(why) if !short(&trusted) => why,
                    _ => Why::DirtyDegraded,
                })
            };
        }
        let counted_on = |state| matches!(state, SlotState::Missing | SlotState::Lagging { .. });
        if self.slots_that(counted_on).next().is_some() {
            Verdict::Degraded
        } else {
            Verdict::Start
        }
    }

    /// Whether the slots that `there` picks hold all data.
    fn enough(&self, there: impl Fn(SlotState) -> bool) -> bool {
        let lost = self.slots.iter().filter(|slot| !there(slot.state)).count();
        match self.geometry.level {
            Level::Raid0 => lost == 0,
            Level::Raid1 => lost < self.slots.len(),
            Level::Raid5 => lost <= 1,
            Level::Raid10 => self
                .slots
                .chunks(2)
                .all(|pair| pair.iter().any(|slot| there(slot.state))),
        }
    }
}

impl<'s, 'a> Container<'s, 'a> {
    /// The bad blocks of a disk that lie in a volume, in sectors of the disk: md's `bad_blocks`.
    pub fn bad_blocks(
        &self,
        plan: &Plan<'_>,
        disk: u8,
    ) -> impl Iterator<Item = BadBlocks> + use<'s, 'a> {
        let start = plan.geometry.offset;
        let end = start.saturating_add(plan.geometry.device_kib.saturating_mul(2));
        self.metadata().bad_blocks().filter(move |bad| {
            bad.disk == disk && bad.start < end && bad.start.saturating_add(bad.count) > start
        })
    }

    /// What md is told of a member's place in the container: `offset` in sectors and `size` in KiB of what is kept free
    /// at its end. Only the kernel's check that nothing overlaps looks at it.
    #[must_use]
    pub fn reserved(&self, index: u8) -> Option<(u64, u64)> {
        let disk = self.metadata().disk(index)?;
        let reserved = self.metadata().reserved_sectors(index);
        Some((disk.sectors.saturating_sub(reserved), reserved.div_ceil(2)))
    }
}

fn slots<'s>(
    container: &Container<'s, '_>,
    volume: &Volume<'_>,
) -> heapless::Vec<Slot<'s>, SLOTS_MAX> {
    let newest = container.metadata().generation();
    let flags = volume.current();
    let mut slots: heapless::Vec<_, SLOTS_MAX> = volume
        .map()
        .slots()
        // In a reshape the second map may have fewer.
        .zip(flags.slots().map(Some).chain(core::iter::repeat(None)))
        .filter_map(|(seat, flag)| {
            let out_of_sync = flag.is_some_and(|seat| seat.out_of_sync);
            let disk = container.metadata().disk(seat.disk)?;
            let member = container.present(seat.disk);
            Some(Slot {
                disk: seat.disk,
                serial: disk.serial,
                name: member.map(|member| member.name),
                state: state(
                    container,
                    member,
                    out_of_sync,
                    container.has_failed(&disk),
                    newest,
                ),
            })
        })
        .collect();
    let rebuilt = |slot: &Slot<'_>| matches!(slot.state, SlotState::Rebuild(_));
    let checkpoint = volume.migration() == Some(Migration::Rebuild)
        && flags.state() == MapState::Degraded
        && slots.iter().filter(|slot| rebuilt(slot)).count() == 1;
    if checkpoint && let Some(slot) = slots.iter_mut().find(|slot| rebuilt(slot)) {
        slot.state = SlotState::Rebuild(volume.migrated());
    }
    slots
}

fn state(
    container: &Container<'_, '_>,
    member: Option<&Member<'_>>,
    out_of_sync: bool,
    failed: bool,
    newest: u32,
) -> SlotState {
    let Some(member) = member.filter(|_| !failed) else {
        return if failed || out_of_sync {
            SlotState::Failed
        } else {
            SlotState::Missing
        };
    };
    match container.standing(member) {
        // What it holds is overwritten anyway.
        Standing::Active(_) | Standing::Lagging(_) if out_of_sync => SlotState::Rebuild(0),
        Standing::Active(_) => SlotState::InSync,
        Standing::Lagging(_) => SlotState::Lagging {
            generation: member.metadata.generation(),
            newest,
        },
        _ => SlotState::Failed,
    }
}

/// md's `resync_start` for the members that are here.
fn resync_start(volume: &Volume<'_>, geometry: &Geometry, slots: &[Slot<'_>]) -> Option<u64> {
    let any = |wanted: &dyn Fn(SlotState) -> bool| slots.iter().any(|slot| wanted(slot.state));
    let from_start = |state| state == SlotState::Rebuild(0);
    if geometry.ppl.is_some() && any(&from_start) {
        return Some(0);
    }
    let position = geometry.resync_start?;
    // With a copy missing there is nothing to resync from or to; RAID 10 has other pairs.
    let empty = |state: SlotState| !state.is_bound() && geometry.level != Level::Raid10;
    let rebuilt = |state| matches!(state, SlotState::Rebuild(_));
    let cut_short = !volume.is_dirty() && (any(&empty) || any(&rebuilt));
    (!cut_short).then_some(position)
}

/// Why the volume is not to be started, whoever is here.
fn refusal<'s>(container: &Container<'s, '_>, volume: &Volume<'_>) -> Option<Why<'s>> {
    if let Some(why) = container.refusal() {
        return Some(why);
    }
    let metadata = container.metadata();
    let bits = metadata.attributes().unsupported();
    if bits.0 != 0 {
        return Some(Why::Attributes(bits));
    }
    let reshape = |v: &&Volume<'_>| v.migration() == Some(Migration::General);
    if let Some(reshaped) = metadata.volumes().iter().find(reshape) {
        return Some(Why::Reshape(reshaped.index));
    }
    if let Some(disk) = metadata.disks().find(|disk| disk.is_journal()) {
        return Some(Why::JournalDisk(disk.serial));
    }
    let migration = match volume.migration() {
        Some(Migration::StateChange) => Some(Why::StateChange),
        Some(Migration::Unknown(n)) => Some(Why::UnknownMigration(n)),
        Some(_) => moves(volume).then_some(Why::MovingMigration),
        None => None,
    };
    migration
        .or_else(|| write_hole(volume, metadata.sector()))
        .or_else(|| special(volume))
}

/// Anything but a reshape stays where it is.
fn moves(volume: &Volume<'_>) -> bool {
    let (target, source) = (volume.map(), volume.current());
    let differs = target
        .slots()
        .zip(source.slots())
        .any(|(a, b)| a.disk != b.disk);
    differs
        || target.start() != source.start()
        || target.members() != source.members()
        || target.level() != source.level()
        || target.chunk() != source.chunk()
}

fn write_hole<'s>(volume: &Volume<'_>, sector: SectorSize) -> Option<Why<'s>> {
    match volume.write_hole() {
        WriteHole::Off | WriteHole::MultiplePpl => None,
        // Only RAID 5 has one.
        WriteHole::SinglePpl => {
            (volume.current().level() == Level::Raid5).then_some(Why::SinglePpl)
        }
        WriteHole::Journal(n) => Some(Why::JournalPolicy(n)),
        WriteHole::Bitmap => (sector == SectorSize::B4096).then_some(Why::Bitmap4Kn),
        WriteHole::Unknown(n) => Some(Why::UnknownPolicy(n)),
    }
}

/// What firmware and Windows can do with a volume, and Linux cannot.
fn special<'s>(volume: &Volume<'_>) -> Option<Why<'s>> {
    let (raw, flags) = (volume.raw(), volume.status());
    if raw.nv_cache_mode != 0 {
        Some(Why::Cache(raw.nv_cache_mode))
    } else if raw.cng_state != 0 || flags & status::ANY_CNG != 0 {
        Some(Why::Clone(raw.cng_state, flags))
    } else if flags & status::ANY_HIDDEN != 0 {
        Some(Why::Hidden(flags))
    } else {
        None
    }
}
