//! For programs: one object, see doc/json.md.

use super::{Disk, Looked, Nothing};
use crate::imsm::{
    Container, Found, Migration, Plan, SlotState, Standing, Unread, Uuid, Verdict, Volume,
};
use crate::json::Json;
use crate::text::Printable;

/// Standard output.
pub(super) fn write(all: &[Looked<'_>], found: Found<'_, '_>) {
    let mut json = Json::object();
    json.number("schema", 1);
    json.text("command", format_args!("examine"));
    json.array("disks");
    for looked in all {
        json.open_object();
        json.text("name", format_args!("{}", looked.name));
        match &looked.disk {
            Ok(disk) => self::disk(&mut json, disk),
            Err(nothing) => self::nothing(&mut json, nothing),
        }
        json.close();
    }
    json.close();
    json.array("containers");
    for container in found.containers() {
        json.open_object();
        self::container(&mut json, &container);
        json.close();
    }
    json.close();
    json.array("spares");
    for spare in found.spares() {
        json.item(format_args!("{}", spare.name));
    }
    json.close();
    json.close();
    json.finish();
}

fn nothing(json: &mut Json, nothing: &Nothing) {
    let outcome = match nothing {
        Nothing::Unreadable(_) => "unreadable",
        Nothing::Partition => "partition",
        Nothing::Sectors(_) | Nothing::Unread(Unread::None) => "none",
        Nothing::Unread(_) => "corrupt",
    };
    json.text("outcome", format_args!("{outcome}"));
    json.text("text", format_args!("{nothing}"));
    if let Nothing::Unread(Unread::Corrupt(fault)) = nothing {
        json.text("place", format_args!("{}", fault.place));
        json.text("field", format_args!("{}", fault.field));
        json.text("found", format_args!("{}", fault.found));
        json.text("allowed", format_args!("{}", fault.allowed));
    }
}

fn disk(json: &mut Json, disk: &Disk<'_>) {
    let m = &disk.metadata;
    let outcome = if m.is_spare() { "spare" } else { "member" };
    json.text("outcome", format_args!("{outcome}"));
    if let Some(serial) = disk.serial {
        json.text("serial", format_args!("{serial}"));
    }
    json.text("container", format_args!("{}", Uuid::container(m)));
    json.text("family", format_args!("{:08x}", m.family()));
    json.text("orig_family", format_args!("{:08x}", m.orig_family()));
    json.number("generation", m.generation().into());
    json.number("created", m.head().creation_time.get());
    json.text("version", format_args!("{}", Printable(m.version())));
    json.text("attributes", format_args!("{:08x}", m.attributes().0));
    json.text("checksum", format_args!("{:08x}", m.checksum()));
    json.number("metadata_bytes", m.size() as u64);
    json.number("sector_bytes", m.sector().bytes() as u64);
    json.array("table");
    for entry in m.disks() {
        json.open_object();
        json.number("index", entry.index.into());
        json.text("serial", format_args!("{}", entry.serial));
        json.text("state", format_args!("{}", entry.state()));
        json.text("status", format_args!("{:08x}", entry.status));
        json.number("sectors", entry.sectors);
        json.number("kept_free_sectors", m.reserved_sectors(entry.index));
        json.close();
    }
    json.close();
    json.array("volumes");
    for volume in m.volumes() {
        json.open_object();
        self::volume(json, disk, volume);
        json.close();
    }
    json.close();
    json.array("bad_blocks");
    for bad in m.bad_blocks() {
        json.open_object();
        json.number("disk", bad.disk.into());
        json.number("sector", bad.start);
        json.number("sectors", bad.count);
        json.close();
    }
    json.close();
    if let Some(record) = m.record() {
        json.number("record_status", record.status.into());
        json.number("record_unit", record.unit);
        json.number("record_units", record.units);
        json.number("record_unit_sectors", record.sectors_per_unit);
        json.flag("record_ascending", record.ascending != 0);
    }
}

fn volume(json: &mut Json, disk: &Disk<'_>, volume: &Volume<'_>) {
    let map = volume.map();
    json.number("index", volume.index.into());
    json.text("name", format_args!("{}", Printable(volume.name())));
    json.text(
        "uuid",
        format_args!("{}", Uuid::volume(&disk.metadata, volume)),
    );
    json.number("level", map.level().number().into());
    json.number("chunk_bytes", map.chunk().saturating_mul(512));
    json.number("sectors", volume.sectors());
    json.number("member_start", map.start());
    json.number("member_sectors", volume.length());
    json.number("member_sectors_set_aside", map.sectors_per_member());
    json.number("stripes", map.stripes());
    json.text("state", format_args!("{}", map.state()));
    json.flag("dirty", volume.is_dirty());
    json.text("rwh_policy", format_args!("{}", volume.write_hole().name()));
    json.number("volume_id", volume.raw().my_vol_raid_dev_num.get().into());
    if let Some(slot) = map.failed_slot() {
        json.number("failed_slot", slot.into());
    }
    slots(json, "slots", &map);
    if let (Some(migration), Some(before)) = (volume.migration(), volume.second()) {
        json.text("migration", format_args!("{}", migration.name()));
        json.number("migration_unit", volume.migration_unit());
        if migration != Migration::General {
            json.number("migration_unit_sectors", volume.unit());
        }
        json.number("level_before", before.level().number().into());
        json.number("chunk_bytes_before", before.chunk().saturating_mul(512));
        json.text("state_before", format_args!("{}", before.state()));
        slots(json, "slots_before", &before);
    }
}

fn slots(json: &mut Json, key: &str, map: &crate::imsm::Map<'_>) {
    json.array(key);
    for seat in map.slots() {
        json.open_object();
        json.number("disk", seat.disk.into());
        json.flag("out_of_sync", seat.out_of_sync);
        json.close();
    }
    json.close();
}

fn container(json: &mut Json, container: &Container<'_, '_>) {
    json.text("uuid", format_args!("{}", container.uuid()));
    json.number("generation", container.metadata().generation().into());
    json.text("decided_by", format_args!("{}", container.winner().name));
    if let Some(why) = container.refusal() {
        json.text("refused", format_args!("{}", why.name()));
        json.text("text", format_args!("{why}"));
    }
    json.array("members");
    for member in container.members() {
        let standing = match container.standing(member) {
            Standing::Active(_) => "active",
            Standing::Spare(_) => "spare",
            Standing::Journal(_) => "journal",
            Standing::Failed(_) => "failed",
            Standing::Lagging(_) => "lagging",
            Standing::Stale => "stale",
        };
        json.open_object();
        json.text("name", format_args!("{}", member.name));
        json.text("serial", format_args!("{}", member.serial));
        json.number("generation", member.metadata.generation().into());
        json.text("standing", format_args!("{standing}"));
        json.close();
    }
    json.close();
    json.array("missing");
    for disk in container.missing() {
        json.item(format_args!("{}", disk.serial));
    }
    json.close();
    json.array("volumes");
    for plan in container.plans() {
        json.open_object();
        self::plan(json, &plan);
        json.close();
    }
    json.close();
}

fn plan(json: &mut Json, plan: &Plan<'_>) {
    let g = &plan.geometry;
    json.number("index", plan.index.into());
    json.text("name", format_args!("{}", Printable(plan.name)));
    json.text("uuid", format_args!("{}", plan.uuid));
    json.text("verdict", format_args!("{}", plan.verdict.name()));
    if let Verdict::Refused(why) = &plan.verdict {
        json.text("why", format_args!("{}", why.name()));
        json.text("text", format_args!("{why}"));
    }
    json.flag("dirty", plan.dirty);
    json.text("level", format_args!("{}", g.level));
    json.number("raid_disks", g.raid_disks.into());
    json.number("layout", g.layout.into());
    json.number("chunk_bytes", g.chunk_bytes);
    json.number("component_kib", g.component_kib);
    json.number("array_kib", g.array_kib);
    json.number("offset_sectors", g.offset);
    json.number("device_kib", g.device_kib);
    if let Some(from) = plan.resync_start.filter(|_| g.level.is_redundant()) {
        json.number("resync_start", from);
    }
    if let Some(ppl) = g.ppl {
        json.number("ppl_sector", ppl.sector);
        json.number("ppl_sectors", ppl.sectors);
    }
    if let Some(bitmap) = g.bitmap {
        json.number("bitmap_sector", bitmap.location);
    }
    json.array("slots");
    for slot in &plan.slots {
        json.open_object();
        json.text("serial", format_args!("{}", slot.serial));
        if let Some(name) = slot.name {
            json.text("name", format_args!("{name}"));
        }
        json.text("state", format_args!("{}", slot.state.name()));
        if let SlotState::Rebuild(from) = slot.state {
            json.number("recovery_start", from);
        }
        json.close();
    }
    json.close();
}
