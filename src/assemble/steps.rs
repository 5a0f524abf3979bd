//! A container and its plans → every write to md's files that brings it up, in order. Pure.
//!
//! The order is the kernel's demand, not taste (drivers/md/md.c, Documentation/admin-guide/md.rst):
//!
//! * `offset` goes before `size`, since a size reserves room from the offset on;
//! * `insync` goes before `slot`, which puts the disk into the array and, on a stopped one, calls it in sync whatever was
//!   said; so what is to be rebuilt says its `recovery_start` once before and once more behind it;
//! * `external_bbl` tells md that somebody acknowledges bad blocks: without it a disk with one is failed;
//! * `safe_mode_delay` goes last: starting sets it to what md thinks is right.
//!
//! A redundant volume starts `readonly`: it is mdmon, once it watches, that lets it be written. That way a disk that is
//! not there is recorded as failed before the first write, and never called in sync again.

use crate::imsm::{Container, Level, Plan, Slot, SlotState};
use crate::path;
use crate::sys::{Dev, Path};
use crate::text::Text;

/// Sectors whose state one bit of a write-intent bitmap holds, in bytes, as mdadm has it: 64 MiB.
const BITMAP_CHUNK: u32 = 64 << 20;
/// Bytes of room for the bitmap behind its header.
const BITMAP_SPACE: u32 = (1 << 20) - 12 * 1024;
/// How long after the last write a volume is marked clean, in seconds; mdmon's own is longer, and mdadm's this.
pub const SAFE_MODE_DELAY: &str = "4.000";

/// One write(2) to one file.
#[derive(Clone, Debug)]
pub struct Step {
    /// The file.
    pub path: Path,
    /// All that is written.
    pub value: Text<48>,
}

/// How volumes are to be started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// To be used.
    Write,
    /// `--readonly`: nothing is written to any member, by nobody.
    Readonly,
}

/// The file of an array.
fn md(array: &str, file: &str) -> Path {
    path!("/sys/block/{array}/md/{file}")
}

/// The file of an array's member.
fn of_member(array: &str, disk: &str, file: &str) -> Path {
    path!("/sys/block/{array}/md/dev-{disk}/{file}")
}

/// Collects steps.
#[derive(Default)]
struct Steps(Vec<Step>);

impl Steps {
    fn put(&mut self, path: Path, value: core::fmt::Arguments<'_>) {
        self.0.push(Step {
            path,
            value: Text::of(value),
        });
    }
}

/// What makes `array` the container, once it exists.
pub fn container(array: &str) -> Vec<Step> {
    let mut steps = Steps::default();
    steps.put(md(array, "metadata_version"), format_args!("external:imsm"));
    steps.0
}

/// What adds a disk to an array.
fn new_dev(array: &str, dev: Dev) -> Step {
    Step {
        path: md(array, "new_dev"),
        value: Text::of(format_args!("{}:{}", dev.major(), dev.minor())),
    }
}

impl Step {
    /// It adds a disk: several of these may be written to one array at once.
    pub fn adds_disk(&self) -> bool {
        self.path.as_str().ends_with("/new_dev")
    }
}

/// What binds a disk of the table to the container. Place and size only serve the kernel's check that nothing else claims
/// where the metadata lies.
pub fn bind(
    container: &Container<'_, '_>,
    array: &str,
    index: u8,
    disk: &str,
    dev: Dev,
) -> Vec<Step> {
    let mut steps = Steps(vec![new_dev(array, dev)]);
    if let Some((offset, kib)) = container.reserved(index) {
        steps.put(of_member(array, disk, "offset"), format_args!("{offset}"));
        steps.put(of_member(array, disk, "size"), format_args!("{kib}"));
    }
    steps.put(
        of_member(array, disk, "state"),
        format_args!("external_bbl"),
    );
    steps.0
}

/// What makes `array` the volume, once it exists, and does not start it. `dev` knows the members' device numbers.
pub fn volume(
    container: &Container<'_, '_>,
    plan: &Plan<'_>,
    of: &str,
    array: &str,
    mode: Mode,
    dev: &dyn Fn(&str) -> Option<Dev>,
) -> Vec<Step> {
    let geometry = &plan.geometry;
    let redundant = is_redundant(plan);
    let mut steps = Steps::default();
    let mut put = |file: &str, value: core::fmt::Arguments<'_>| steps.put(md(array, file), value);
    // mdmon leaves alone what has the `-`, and mdadm too.
    let blocked = if mode == Mode::Readonly && redundant {
        '-'
    } else {
        '/'
    };
    put(
        "metadata_version",
        format_args!("external:{blocked}{of}/{}", plan.index),
    );
    put("level", format_args!("{}", level_word(geometry.level)));
    put("raid_disks", format_args!("{}", geometry.raid_disks));
    put("chunk_size", format_args!("{}", geometry.chunk_bytes));
    put("layout", format_args!("{}", geometry.layout));
    put("component_size", format_args!("{}", geometry.component_kib));
    put("array_size", format_args!("{}", geometry.array_kib));
    if redundant {
        match plan.resync_start {
            Some(sector) => put("resync_start", format_args!("{sector}")),
            None => put("resync_start", format_args!("none")),
        }
    }
    if geometry.ppl.is_some() {
        put("consistency_policy", format_args!("ppl"));
    }
    let bound = || {
        let numbered = plan.slots.iter().zip(0..);
        numbered.filter_map(|(slot, number)| {
            let disk = slot.name.filter(|_| slot.state.is_bound())?;
            let dev = dev(disk)?;
            Some(Seat {
                slot,
                number,
                disk,
                dev,
            })
        })
    };
    for seat in bound() {
        steps.0.push(new_dev(array, seat.dev));
    }
    for seat in bound() {
        member(&mut steps, container, plan, array, &seat);
    }
    if let Some(bitmap) = geometry.bitmap {
        for (file, value) in [
            ("bitmap/metadata", Text::<24>::of(format_args!("external"))),
            ("bitmap/chunksize", Text::of(format_args!("{BITMAP_CHUNK}"))),
            ("bitmap/space", Text::of(format_args!("{BITMAP_SPACE}"))),
            ("bitmap/time_base", Text::of(format_args!("5"))),
            (
                "bitmap/location",
                Text::of(format_args!("+{}", bitmap.location)),
            ),
        ] {
            steps.put(md(array, file), format_args!("{value}"));
        }
    }
    steps.0
}

/// What starts it, once it and its container are whole.
pub fn start(plan: &Plan<'_>, array: &str, mode: Mode) -> Vec<Step> {
    let state = match mode {
        Mode::Write if !is_redundant(plan) => "active",
        _ => "readonly",
    };
    let mut steps = Steps::default();
    steps.put(md(array, "array_state"), format_args!("{state}"));
    let delay = md(array, "safe_mode_delay");
    steps.put(delay, format_args!("{SAFE_MODE_DELAY}"));
    steps.0
}

/// What makes a volume usable that runs as `--readonly` left it, or whose mdmon was never started.
pub fn finish(plan: &Plan<'_>, of: &str, array: &str) -> Vec<Step> {
    let mut steps = Steps::default();
    if is_redundant(plan) {
        let version = md(array, "metadata_version");
        steps.put(version, format_args!("external:/{of}/{}", plan.index));
    } else {
        steps.put(md(array, "array_state"), format_args!("active"));
        steps.put(
            md(array, "safe_mode_delay"),
            format_args!("{SAFE_MODE_DELAY}"),
        );
    }
    steps.0
}

/// A disk and the slot it takes.
struct Seat<'p> {
    slot: &'p Slot<'p>,
    number: u32,
    disk: &'p str,
    dev: Dev,
}

fn member(
    steps: &mut Steps,
    container: &Container<'_, '_>,
    plan: &Plan<'_>,
    array: &str,
    seat: &Seat<'_>,
) {
    let geometry = &plan.geometry;
    let Seat {
        slot, number, disk, ..
    } = seat;
    let mut put = |file: &str, value: core::fmt::Arguments<'_>| {
        steps.put(of_member(array, disk, file), value);
    };
    let rebuild = match slot.state {
        SlotState::Rebuild(from) => Some(from),
        _ => None,
    };
    if rebuild.is_some() {
        put("recovery_start", format_args!("0"));
    }
    put("offset", format_args!("{}", geometry.offset));
    put("size", format_args!("{}", geometry.device_kib));
    if let Some(ppl) = geometry.ppl {
        put("ppl_sector", format_args!("{}", ppl.sector));
        put("ppl_size", format_args!("{}", ppl.sectors));
    }
    if rebuild.is_none() {
        put("state", format_args!("insync"));
    }
    put("slot", format_args!("{number}"));
    match rebuild {
        Some(from) => put("recovery_start", format_args!("{from}")),
        None => put("recovery_start", format_args!("none")),
    }
    put("state", format_args!("external_bbl"));
    for bad in container.bad_blocks(plan, slot.disk) {
        put("bad_blocks", format_args!("{} {}\n", bad.start, bad.count));
    }
}

/// Somebody must watch it: it has more than one copy of what it holds.
pub fn is_redundant(plan: &Plan<'_>) -> bool {
    plan.geometry.level != Level::Raid0
}

/// md's `level`.
pub const fn level_word(level: Level) -> &'static str {
    match level {
        Level::Raid0 => "raid0",
        Level::Raid1 => "raid1",
        Level::Raid5 => "raid5",
        Level::Raid10 => "raid10",
    }
}
