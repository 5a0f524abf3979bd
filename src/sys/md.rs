//! md arrays as the kernel shows them, and how one is made. What the values mean to quell is for others to say.
//!
//! What mdadm keeps beside them has rooms of its own: [`mdmon`] (its daemon), [`map`] (/run/mdadm/map), [`links`] (/dev/md,
//! udev) and [`conf`] (mdadm.conf).
//!
//! Source: Documentation/admin-guide/md.rst, and drivers/md/md.c where that is silent.

pub mod conf;
pub mod links;
pub mod map;
pub mod mdmon;

use rustix::io::Errno;

use super::{Dev, Path, Root};
use crate::path;
use crate::text::{Printable, Text};

/// The kernel's name of an array as it stands in /sys/block: `md127`, `md_d0`, `/` as `!`.
pub type Name = Text<32>;

/// Whose metadata an array has (`metadata_version`).
#[derive(Clone, Debug)]
pub enum Version {
    /// None.
    None,
    /// The kernel's own: `1.2`, `0.90`.
    Native(Text<16>),
    /// It is a container of external metadata: `imsm`, `ddf`.
    Container(Text<16>),
    /// It is a volume in one: `external:/md127/0`.
    Volume {
        /// The container.
        container: Name,
        /// Which volume of it.
        index: u8,
        /// mdmon is to leave it as it is: `external:-md127/0`.
        blocked: bool,
    },
    /// Something else.
    Other,
}

impl Version {
    /// What `metadata_version` says.
    #[must_use]
    pub fn parse(text: &[u8]) -> Self {
        let Ok(text) = core::str::from_utf8(text) else {
            return Self::Other;
        };
        let Some(external) = text.strip_prefix("external:") else {
            return match text.as_bytes().first() {
                _ if text == "none" => Self::None,
                Some(b'0'..=b'9') => Self::Native(Text::of(format_args!("{text}"))),
                _ => Self::Other,
            };
        };
        match external.as_bytes().first() {
            Some(sign @ (b'/' | b'-')) => external
                .get(1..)
                .and_then(|rest| rest.split_once('/'))
                .and_then(|(container, index)| {
                    Some(Self::Volume {
                        container: Text::of(format_args!("{container}")),
                        index: index.parse().ok()?,
                        blocked: *sign == b'-',
                    })
                })
                .unwrap_or(Self::Other),
            Some(_) => Self::Container(Text::of(format_args!("{external}"))),
            None => Self::Other,
        }
    }
}

/// What an array does (`array_state`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// No devices, no size.
    Clear,
    /// Configured perhaps, and not running: what a container always is.
    Inactive,
    /// All I/O waits.
    Suspended,
    /// Running; writes fail, nothing is resynced.
    Readonly,
    /// Running; the first write makes it writable.
    ReadAuto,
    /// Running, no write pending.
    Clean,
    /// Running, writes may be under way.
    Active,
    /// A write waits for the metadata to be marked dirty.
    WritePending,
    /// Like active, but nothing was written for a while.
    ActiveIdle,
    /// Has lost more members than it can.
    Broken,
    /// What this quell does not know.
    Unknown,
}

impl State {
    const WORDS: &[(Self, &str)] = &[
        (Self::Clear, "clear"),
        (Self::Inactive, "inactive"),
        (Self::Suspended, "suspended"),
        (Self::Readonly, "readonly"),
        (Self::ReadAuto, "read-auto"),
        (Self::Clean, "clean"),
        (Self::Active, "active"),
        (Self::WritePending, "write-pending"),
        (Self::ActiveIdle, "active-idle"),
        (Self::Broken, "broken"),
    ];

    /// What `array_state` says.
    #[must_use]
    pub fn parse(text: &[u8]) -> Self {
        let found = Self::WORDS.iter().find(|(_, word)| word.as_bytes() == text);
        found.map_or(Self::Unknown, |(state, _)| *state)
    }

    /// The kernel's word for it.
    #[must_use]
    pub fn word(self) -> &'static str {
        let found = Self::WORDS.iter().find(|(state, _)| *state == self);
        found.map_or("unknown", |(_, word)| word)
    }
}

impl core::fmt::Display for State {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(self.word())
    }
}

/// One array.
#[derive(Clone, Debug)]
pub struct Array {
    /// What the kernel calls it.
    pub name: Name,
    /// Its device number.
    pub dev: Dev,
    /// Whose metadata it has.
    pub version: Version,
    /// What it does.
    pub state: State,
    /// `raid1`, ...; empty for a container.
    pub level: Text<16>,
    /// Slots; 0 for a container.
    pub raid_disks: u32,
    /// How many members short it is; 0 where that does not apply.
    pub degraded: u32,
}

impl Array {
    /// A volume whose metadata mdmon keeps: it has a clean and a dirty state. RAID0 and linear have none.
    pub fn is_redundant(&self) -> bool {
        matches!(self.version, Version::Volume { .. })
            && !matches!(self.level.as_str(), "raid0" | "linear")
    }
}

/// A disk in an array.
#[derive(Clone, Debug)]
pub struct Member {
    /// The disk's name as it stands in sysfs.
    pub name: super::disks::Name,
    /// Its place, if it has one.
    pub slot: Option<u32>,
    /// Words separated by commas: `in_sync`, `faulty`, `spare`, `external_bbl`...
    pub state: Text<64>,
}

/// Calls `each` with every array until it returns false. Without md there is none.
pub fn arrays(root: &Root, each: &mut dyn FnMut(Array) -> bool) -> Result<(), Errno> {
    root.entries("/sys/block", |entry| match core::str::from_utf8(entry) {
        Ok(name) if name.starts_with("md") => array(root, name).is_none_or(&mut *each),
        _ => true,
    })
}

/// The array the kernel calls `name`.
pub fn array(root: &Root, name: &str) -> Option<Array> {
    let mut buf = [0; 64];
    let version = Version::parse(
        root.read(attr(name, "metadata_version").as_str(), &mut buf)
            .ok()?,
    );
    let dev = path!("/sys/block/{name}/dev");
    Some(Array {
        name: Text::of(format_args!("{name}")),
        dev: Dev::parse(root.read(dev.as_str(), &mut buf).ok()?)?,
        version,
        state: state(root, name).ok()?,
        level: word(root, &attr(name, "level")),
        raid_disks: number(root, &attr(name, "raid_disks")).unwrap_or(0),
        degraded: number(root, &attr(name, "degraded")).unwrap_or(0),
    })
}

/// Calls `each` with every member of an array, in the kernel's order.
pub fn members(root: &Root, array: &str, each: &mut dyn FnMut(Member)) -> Result<(), Errno> {
    root.entries(path!("/sys/block/{array}/md").as_str(), |entry| {
        if let Some(name) = entry.strip_prefix(b"dev-") {
            let name: super::disks::Name = Printable(name).to_text();
            let state = member_attr(array, name.as_str(), "state");
            // One that goes while we look is none.
            if let Ok(state) = root.read(state.as_str(), &mut [0; 64]) {
                each(Member {
                    slot: number(root, &member_attr(array, name.as_str(), "slot")),
                    state: Printable(state).to_text(),
                    name,
                });
            }
        }
        true
    })
}

/// What an array does now. ENODEV: it is being taken away, which the kernel calls EBUSY (drivers/md/md.c, md_attr_show).
pub fn state(root: &Root, array: &str) -> Result<State, Errno> {
    let mut buf = [0; 32];
    match root.read(attr(array, "array_state").as_str(), &mut buf) {
        Ok(text) => Ok(State::parse(text)),
        Err(Errno::BUSY) => Err(Errno::NODEV),
        Err(errno) => Err(errno),
    }
}

/// What its sync thread does: `idle`, `resync`, `recover`, `frozen`...; empty where there is none.
pub fn sync_action(root: &Root, array: &str) -> Text<16> {
    word(root, &attr(array, "sync_action"))
}

/// A file of an array.
pub fn attr(array: &str, file: &str) -> Path {
    path!("/sys/block/{array}/md/{file}")
}

/// A file of a member of an array.
pub fn member_attr(array: &str, member: &str, file: &str) -> Path {
    path!("/sys/block/{array}/md/dev-{member}/{file}")
}

/// True if there is such an array.
pub fn exists(root: &Root, array: &str) -> bool {
    root.exists(path!("/sys/block/{array}/md").as_str())
}

/// True once nothing of it is left: its disk goes a little later than what md knows of it.
pub fn is_gone(root: &Root, array: &str) -> bool {
    !root.exists(path!("/sys/block/{array}").as_str())
}

/// True if the kernel has md, built in or loaded.
pub fn is_present(root: &Root) -> bool {
    root.exists("/sys/module/md_mod")
}

/// Makes an array of that name, empty. It lasts until it is first stopped. EEXIST: there is one.
pub fn create(root: &Root, array: &str) -> Result<(), Errno> {
    root.write("/sys/module/md_mod/parameters/new_array", array.as_bytes())
}

/// The N of `mdN`, in the order in which mdadm looks for one that is free.
pub fn numbers() -> impl Iterator<Item = u32> {
    (0..=127).rev().chain((128..=511).rev())
}

/// The text of a small file; empty where it is not.
fn word<const N: usize>(root: &Root, path: &Path) -> Text<N> {
    let mut buf = [0; 64];
    let text = root.read(path.as_str(), &mut buf).unwrap_or_default();
    Printable(text).to_text()
}

/// The number a file begins with: `raid_disks` says `4 (3)` while an array is reshaped.
fn number(root: &Root, path: &Path) -> Option<u32> {
    let text: Text<64> = word(root, path);
    text.as_str().split(' ').next()?.parse().ok()
}

#[cfg(test)]
mod tests;
