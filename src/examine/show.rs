//! For people.

use core::fmt;

use super::{Disk, Looked, Nothing};
use crate::imsm::volume::Map;
use crate::imsm::{
    Container, Found, Lack, Metadata, Migration, Plan, Serial, SlotState, Standing, Uuid, Verdict,
    Volume,
};
use crate::sys::out;
use crate::text::{Printable, Text};

/// Standard output, a line at a time.
pub(super) fn write(all: &[Looked<'_>], found: Found<'_, '_>) {
    for looked in all {
        match &looked.disk {
            Ok(disk) => self::disk(disk),
            // Said already, as an error.
            Err(Nothing::Unreadable(_)) => {}
            Err(nothing) => line(format_args!("{}: {nothing}", looked.name)),
        }
    }
    for container in found.containers() {
        self::container(&container);
    }
}

fn line(text: fmt::Arguments<'_>) {
    let text = Text::<1024>::of(format_args!("{text}\n"));
    out::write(rustix::stdio::stdout(), text.as_str().as_bytes());
}

/// Sectors as people read them: `400.0 MiB`.
struct Size(u64);

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (unit, name) = match self.0 {
            0..2_097_152 => (2048, "MiB"),
            2_097_152..2_147_483_648 => (2_097_152, "GiB"),
            _ => (2_147_483_648, "TiB"),
        };
        let tenths = (u128::from(self.0) * 10 + unit / 2) / unit;
        write!(f, "{}.{} {name}", tenths / 10, tenths % 10)
    }
}

/// A serial that takes the width it is given.
struct Wide(Serial);

impl fmt::Display for Wide {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(Text::<64>::of(format_args!("{}", self.0)).as_str())
    }
}

/// Seconds since 1970 as a date: `2026-11-30 12:03:30 UTC`.
pub(super) struct Utc(pub(super) u64);

impl fmt::Display for Utc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Days since 0000-03-01, in eras of 400 years: leap days come last in each of their periods.
        let days = self.0 / 86400 + 719_468;
        let (era, day) = (days / 146_097, days % 146_097);
        let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
        let day = day - (365 * year + year / 4 - year / 100);
        let month = (5 * day + 2) / 153;
        let day = day - (153 * month + 2) / 5 + 1;
        let (month, next) = if month < 10 {
            (month + 3, 0)
        } else {
            (month - 9, 1)
        };
        let (hour, minute, second) = (self.0 / 3600 % 24, self.0 / 60 % 60, self.0 % 60);
        let year = era * 400 + year + next;
        write!(
            f,
            "{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02} UTC"
        )
    }
}

fn disk(disk: &Disk<'_>) {
    let m = &disk.metadata;
    let what = if m.is_spare() { "free spare" } else { "member" };
    match disk.serial {
        Some(serial) => line(format_args!("{}: IMSM {what}, serial {serial}", disk.name)),
        None => line(format_args!(
            "{}: IMSM {what}, which of its disks is not known (--serial=S tells)",
            disk.name
        )),
    }
    if !m.is_spare() {
        line(format_args!("    container   {}", Uuid::container(m)));
    }
    line(format_args!(
        "    family      {:08x}, first {:08x}; generation {}",
        m.family(),
        m.orig_family(),
        m.generation()
    ));
    match m.head().creation_time.get() {
        0 => {}
        seconds => line(format_args!("    created     {}", Utc(seconds))),
    }
    line(format_args!(
        "    format      {}, attributes {}",
        Printable(m.version()),
        m.attributes()
    ));
    line(format_args!(
        "    metadata    {} bytes ({} x {}), checksum {:08x} is right",
        m.size(),
        m.blocks(),
        m.sector().bytes(),
        m.checksum()
    ));
    for entry in m.disks() {
        let this = Some(entry.serial) == disk.serial;
        line(format_args!(
            "    disk {:<7}{:<16} {}, {} sectors ({}), {} kept free{}",
            entry.index,
            Wide(entry.serial),
            entry.state(),
            entry.sectors,
            Size(entry.sectors),
            m.reserved_sectors(entry.index),
            if this { "; this disk" } else { "" }
        ));
    }
    for volume in m.volumes() {
        self::volume(disk, volume);
    }
    for bad in m.bad_blocks() {
        line(format_args!(
            "    bad blocks  disk {}: {} sectors from {}",
            bad.disk, bad.count, bad.start
        ));
    }
    if let Some(record) = m.record() {
        line(format_args!(
            "    migration   record: unit {} of {}, each {} sectors ({} of each disk); {}; to {} sectors; checkpoint area at {}",
            record.unit,
            record.units,
            record.sectors_per_unit,
            record.depth_per_unit,
            if record.ascending == 0 {
                "descending"
            } else {
                "ascending"
            },
            record.sectors_after,
            record.checkpoint_area
        ));
    }
}

/// Both maps, where they differ: `raid5 from raid0`.
struct Both<'v, 'a, T>(&'v Volume<'a>, fn(&Map<'a>) -> T);

impl<T: fmt::Display + PartialEq> fmt::Display for Both<'_, '_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let now = (self.1)(&self.0.map());
        match self.0.second().map(|map| (self.1)(&map)) {
            Some(before) if before != now => write!(f, "{now} from {before}"),
            _ => write!(f, "{now}"),
        }
    }
}

fn volume(disk: &Disk<'_>, volume: &Volume<'_>) {
    let m = &disk.metadata;
    line(format_args!(
        "    volume {:<5}{} {}",
        volume.index,
        Printable(volume.name()),
        Uuid::volume(m, volume)
    ));
    line(format_args!(
        "        {}, {} disks, chunk {} KiB, {} sectors ({})",
        Both(volume, |map| map.level()),
        Both(volume, |map| map.members()),
        Both(volume, |map| map.chunk() / 2),
        volume.sectors(),
        Size(volume.sectors())
    ));
    line(format_args!(
        "        on each disk {} sectors from {}, {} set aside; {} stripes",
        volume.length(),
        volume.map().start(),
        volume.map().sectors_per_member(),
        volume.map().stripes()
    ));
    for (i, map) in [Some(volume.map()), volume.second()]
        .into_iter()
        .flatten()
        .enumerate()
    {
        let mut seats = Text::<900>::new();
        for seat in map.slots() {
            let serial = m
                .disk(seat.disk)
                .map(|disk| disk.serial)
                .unwrap_or_default();
            let note = if seat.out_of_sync {
                " (out of sync)"
            } else {
                ""
            };
            seats.add(format_args!(" {serial}{note}"));
        }
        let which = if i == 0 { "slots" } else { "before" };
        line(format_args!("        {which}{seats}"));
    }
    let mut state = Text::<200>::of(format_args!(
        "{}, {}",
        Both(volume, |map| map.state()),
        if volume.is_dirty() { "dirty" } else { "clean" }
    ));
    if let Some(slot) = volume.map().failed_slot() {
        state.add(format_args!(", slot {slot} failed"));
    }
    match volume.migration() {
        None => state.add(format_args!(", idle")),
        Some(migration) => migrating(&mut state, m, volume, migration),
    }
    line(format_args!(
        "        {state}; RWH policy {}; volume ID {}",
        volume.write_hole().name(),
        volume.raw().my_vol_raid_dev_num.get()
    ));
}

fn migrating(state: &mut Text<200>, m: &Metadata<'_>, volume: &Volume<'_>, what: Migration) {
    state.add(format_args!(
        ", {} at unit {}",
        what.name(),
        volume.migration_unit()
    ));
    match (what, m.record()) {
        (Migration::General, None) => {}
        (Migration::General, Some(record)) => {
            state.add(format_args!(" of {} sectors", record.sectors_per_unit));
        }
        _ => state.add(format_args!(" of {} sectors", volume.unit())),
    }
}

fn container(container: &Container<'_, '_>) {
    let (here, missing) = (container.bound().count(), container.missing().count());
    line(format_args!(
        "container {}: {here} of {} disks, generation {} as on {}",
        container.uuid(),
        here + missing,
        container.metadata().generation(),
        container.winner().name
    ));
    for member in container.members() {
        let standing = match container.standing(member) {
            Standing::Active(_) => "active",
            Standing::Spare(_) => "spare",
            Standing::Journal(_) => "journaling drive",
            Standing::Failed(_) => "failed",
            Standing::Lagging(_) => "not trusted: its copy is of another generation",
            Standing::Stale => "stale: not in the table",
        };
        let (serial, name) = (Wide(member.serial), member.name);
        line(format_args!("    {serial:<16} {standing} ({name})"));
    }
    for disk in container.missing() {
        line(format_args!("    {:<16} missing", Wide(disk.serial)));
    }
    for plan in container.plans() {
        self::plan(&plan);
    }
}

fn plan(plan: &Plan<'_>) {
    let mut missing = Text::<400>::new();
    for slot in plan.slots_that(|state| state == SlotState::Missing) {
        missing.add(format_args!(" {}", slot.serial));
    }
    let name = Printable(plan.name);
    let (index, level) = (plan.index, plan.geometry.level);
    let dirty = if plan.dirty { ", dirty" } else { "" };
    match &plan.verdict {
        Verdict::Start => line(format_args!(
            "    volume {index} ({name}) {level}{dirty}: would be started"
        )),
        Verdict::Degraded => {
            let mut lacks = missing;
            for slot in plan.slots_that(|state| matches!(state, SlotState::Lagging { .. })) {
                lacks.add(format_args!(" {} (not trusted)", slot.serial));
            }
            line(format_args!(
                "    volume {index} ({name}) {level}{dirty}: would be started degraded at the deadline, without{lacks}"
            ));
        }
        Verdict::Incomplete(lack) => {
            let all = match lack {
                Lack::Members => "",
                Lack::AllWhileDirty => ", all of which it needs since it was being written",
            };
            line(format_args!(
                "    volume {index} ({name}) {level}{dirty}: waits for{missing}{all}"
            ));
        }
        Verdict::Refused(why) => line(format_args!(
            "    volume {index} ({name}) {level}{dirty}: refused, {}: {why}",
            why.kind().name()
        )),
    }
    for (slot, n) in plan.slots.iter().zip(0..) {
        let from = match slot.state {
            SlotState::Rebuild(from) => Text::<40>::of(format_args!(" from sector {from}")),
            SlotState::Lagging { generation, newest } => {
                Text::of(format_args!(" (generation {generation} of {newest})"))
            }
            _ => Text::new(),
        };
        line(format_args!(
            "        slot {n:<3} {:<16} {}{from}{}{}",
            Wide(slot.serial),
            slot.state.name(),
            if slot.name.is_some() { "  " } else { "" },
            slot.name.unwrap_or_default()
        ));
    }
    if let Some(from) = plan.resync_start.filter(|_| level.is_redundant()) {
        line(format_args!(
            "        resync from sector {from} of each disk"
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_and_sizes() {
        let dates =
            [0, 951_782_399, 951_782_400, 1_796_040_210, 4_107_542_399].map(|s| Utc(s).to_string());
        assert_eq!(
            dates,
            [
                "1970-01-01 00:00:00 UTC",
                "2000-02-28 23:59:59 UTC",
                "2000-02-29 00:00:00 UTC",
                "2026-11-30 12:03:30 UTC",
                "2100-02-28 23:59:59 UTC"
            ]
        );
        let sizes = [0, 819_200, 4_194_304, 7_814_037_168].map(|s| Size(s).to_string());
        assert_eq!(sizes, ["0.0 MiB", "400.0 MiB", "2.0 GiB", "3.6 TiB"]);
        // No number is too large.
        let _ = (Utc(u64::MAX).to_string(), Size(u64::MAX).to_string());
    }
}
