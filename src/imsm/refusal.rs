//! Why a volume is not started.

use core::fmt;

use super::Serial;
use super::words::{Attributes, status};

/// What becomes of a refused volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// quell cannot do it; mdadm may. The container is handed to mdadm.
    Unsupported,
    /// Nobody can do it without guessing. It is left to a person.
    Unsafe,
}

impl Kind {
    /// In a word.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Unsupported => "unsupported",
            Self::Unsafe => "unsafe",
        }
    }
}

/// A family of metadata and the disk that carries it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Carried<'s> {
    /// `family_num`
    pub family: u32,
    /// A disk that carries it.
    pub name: &'s str,
}

impl fmt::Display for Carried<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "family {:08x} on {}", self.family, self.name)
    }
}

/// A reason, with all that is needed to act on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why<'s> {
    /// Two devices have one serial. NVMe namespaces of one controller have, and two paths to one disk.
    DuplicateSerial {
        /// The serial.
        serial: Serial,
        /// One device.
        first: &'s str,
        /// The other.
        second: &'s str,
    },
    /// Two members are of one family and generation and differ: each was written without the other.
    Split {
        /// `family_num`
        family: u32,
        /// `generation_num`
        generation: u32,
        /// One member.
        first: &'s str,
        /// The other.
        second: &'s str,
    },
    /// The members carry more than one family, and each could be the right one.
    SeveralFamilies(Carried<'s>, Carried<'s>),
    /// The members carry more than one family, and each says that the other's disks are its own.
    NoFamily(Carried<'s>, Carried<'s>),
    /// Members have different sector sizes.
    SectorSizes(&'s str, &'s str),
    /// The writer used something that must not be ignored.
    Attributes(Attributes),
    /// A volume of the container (this one, or another) is in a reshape.
    Reshape(u8),
    /// `migr_type` 4.
    StateChange,
    /// A `migr_type` with no meaning.
    UnknownMigration(u8),
    /// A migration that moves the volume, without being a reshape.
    MovingMigration,
    /// A disk of the container is a journaling drive.
    JournalDisk(Serial),
    /// The write hole is closed by a journaling drive.
    JournalPolicy(u8),
    /// PPL in its first form: mdadm rewrites the metadata when it assembles.
    SinglePpl,
    /// An `rwh_policy` with no meaning.
    UnknownPolicy(u8),
    /// A bitmap on disks with sectors of 4096 bytes, whose place is not certain.
    Bitmap4Kn,
    /// RST caching.
    Cache(u8),
    /// Clone'n'Go: `cng_state` and the flags in `status`.
    Clone(u8, u32),
    /// Hidden from the system.
    Hidden(u32),
    /// More disks have failed than the level can lose.
    Failed,
    /// RAID 5 that is degraded and was being written, or was in the resync after that: parity may be wrong where a disk is
    /// missing. (After a clean stop in the midst of that resync mdadm would start it all the same.)
    DirtyDegraded,
    /// The table counts on a member that was not written for two generations or more.
    Lagging {
        /// Its serial.
        serial: Serial,
        /// Its generation.
        generation: u32,
        /// The container's.
        newest: u32,
    },
}

impl Why<'_> {
    /// Which kind it is.
    #[must_use]
    pub const fn kind(&self) -> Kind {
        match self {
            Self::DuplicateSerial { .. }
            | Self::Split { .. }
            | Self::SeveralFamilies(..)
            | Self::NoFamily(..)
            | Self::SectorSizes(..)
            | Self::Failed
            | Self::DirtyDegraded
            | Self::Lagging { .. } => Kind::Unsafe,
            Self::Attributes(_)
            | Self::Reshape(_)
            | Self::StateChange
            | Self::UnknownMigration(_)
            | Self::MovingMigration
            | Self::JournalDisk(_)
            | Self::JournalPolicy(_)
            | Self::SinglePpl
            | Self::UnknownPolicy(_)
            | Self::Bitmap4Kn
            | Self::Cache(_)
            | Self::Clone(..)
            | Self::Hidden(_) => Kind::Unsupported,
        }
    }

    /// A word that programs may compare.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::DuplicateSerial { .. } => "duplicate-serial",
            Self::Split { .. } => "split",
            Self::SeveralFamilies(..) => "several-families",
            Self::NoFamily(..) => "no-valid-family",
            Self::SectorSizes(..) => "sector-sizes",
            Self::Attributes(_) => "attributes",
            Self::Reshape(_) => "reshape",
            Self::StateChange => "state-change",
            Self::UnknownMigration(_) => "unknown-migration",
            Self::MovingMigration => "moving-migration",
            Self::JournalDisk(_) => "journal-disk",
            Self::JournalPolicy(_) => "journal-policy",
            Self::SinglePpl => "single-ppl",
            Self::UnknownPolicy(_) => "unknown-policy",
            Self::Bitmap4Kn => "bitmap-4kn",
            Self::Cache(_) => "cache",
            Self::Clone(..) => "clone",
            Self::Hidden(_) => "hidden",
            Self::Failed => "failed",
            Self::DirtyDegraded => "dirty-degraded",
            Self::Lagging { .. } => "lagging",
        }
    }
}

impl fmt::Display for Why<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::DuplicateSerial {
                serial,
                first,
                second,
            } => write!(f, "{first} and {second} have the same serial {serial}"),
            Self::Split {
                family,
                generation,
                first,
                second,
            } => write!(
                f,
                "{first} and {second} are both of family {family:08x} and generation {generation} and differ: each was written without the other"
            ),
            Self::SeveralFamilies(a, b) => write!(f, "{a} and {b} could both be the right one"),
            Self::NoFamily(a, b) => {
                write!(f, "{a} and {b} each count on disks that carry the other")
            }
            Self::SectorSizes(a, b) => write!(f, "{a} and {b} have different sector sizes"),
            Self::Attributes(bits) => write!(f, "attributes {bits} are not supported"),
            Self::Reshape(volume) => write!(f, "volume {volume} is in a reshape"),
            Self::StateChange => f.write_str("it is in a state change (migration type 4)"),
            Self::UnknownMigration(n) => {
                write!(f, "it is in a migration of an unknown type ({n})")
            }
            Self::MovingMigration => {
                f.write_str("it is in a migration that moves it or changes its shape")
            }
            Self::JournalDisk(serial) => write!(f, "disk {serial} is a journaling drive"),
            Self::JournalPolicy(n) => {
                write!(f, "its write hole is closed by a journaling drive (RWH policy {n})")
            }
            Self::SinglePpl => f.write_str(
                "its PPL is of the first kind (RWH policy 1), which only mdadm can turn into the other",
            ),
            Self::UnknownPolicy(n) => write!(f, "its RWH policy {n} is not known"),
            Self::Bitmap4Kn => f.write_str("it has a bitmap on disks with 4096-byte sectors"),
            Self::Cache(mode) => write!(f, "it is cached by RST (mode {mode})"),
            Self::Clone(state, flags) => write!(
                f,
                "it belongs to Clone'n'Go (state {state}, status {:#x})",
                flags & status::ANY_CNG
            ),
            Self::Hidden(flags) => write!(
                f,
                "it is hidden from the system (status {:#x})",
                flags & status::ANY_HIDDEN
            ),
            Self::Failed => f.write_str("more disks have failed than its level can lose"),
            Self::DirtyDegraded => f.write_str(
                "it was being written when it stopped and a disk is missing: what parity would give back may be wrong",
            ),
            Self::Lagging {
                serial,
                generation,
                newest,
            } => write!(
                f,
                "the metadata counts on disk {serial}, whose own copy is of generation {generation} where the newest is {newest}"
            ),
        }
    }
}
