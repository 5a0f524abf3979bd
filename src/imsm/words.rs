//! The small vocabularies of the format: levels, states, migrations, policies, flags.

use core::fmt;

/// Bytes of a logical sector of a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SectorSize {
    /// 512, emulated or not.
    B512,
    /// 4096: a 4Kn disk.
    B4096,
}

impl SectorSize {
    /// From what BLKSSZGET says; no other size can hold IMSM metadata.
    #[must_use]
    pub const fn of(bytes: u32) -> Option<Self> {
        match bytes {
            512 => Some(Self::B512),
            4096 => Some(Self::B4096),
            _ => None,
        }
    }

    /// In bytes.
    #[must_use]
    pub const fn bytes(self) -> usize {
        match self {
            Self::B512 => 512,
            Self::B4096 => 4096,
        }
    }

    /// Blocks as they stand on disk → sectors of 512 bytes. What does not fit is so large that every check refuses it.
    #[must_use]
    pub const fn scale(self, blocks: u64) -> u64 {
        blocks.saturating_mul(self.bytes() as u64 / 512)
    }
}

/// RAID level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// Striped, not redundant; even with one disk.
    Raid0,
    /// Two mirrors.
    Raid1,
    /// Rotating parity.
    Raid5,
    /// Striped over pairs of mirrors.
    Raid10,
}

impl Level {
    /// From a map's `raid_level` and `num_members`. mdadm writes RAID 10 of four disks as level 1, which firmware expects,
    /// and of more as level 10; mdadm 4.5 wrote 10 for four as well.
    #[must_use]
    pub const fn of(raid_level: u8, num_members: u8) -> Option<Self> {
        match (raid_level, num_members) {
            (0, _) => Some(Self::Raid0),
            (1, 2) => Some(Self::Raid1),
            (1 | 10, _) => Some(Self::Raid10),
            (5, _) => Some(Self::Raid5),
            _ => None,
        }
    }

    /// The number people know.
    #[must_use]
    pub const fn number(self) -> u8 {
        match self {
            Self::Raid0 => 0,
            Self::Raid1 => 1,
            Self::Raid5 => 5,
            Self::Raid10 => 10,
        }
    }

    /// md's name: what its `level` file takes.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Raid0 => "raid0",
            Self::Raid1 => "raid1",
            Self::Raid5 => "raid5",
            Self::Raid10 => "raid10",
        }
    }

    /// Copies of each block.
    #[must_use]
    pub const fn domains(self) -> u8 {
        match self {
            Self::Raid1 | Self::Raid10 => 2,
            Self::Raid0 | Self::Raid5 => 1,
        }
    }

    /// How many of `members` hold data that no other does; at least one.
    #[must_use]
    pub const fn data_members(self, members: u8) -> u8 {
        let data = match self {
            Self::Raid0 => members,
            Self::Raid1 | Self::Raid10 => members / 2,
            Self::Raid5 => members.saturating_sub(1),
        };
        if data == 0 { 1 } else { data }
    }

    /// Whether it can lose a member.
    #[must_use]
    pub const fn is_redundant(self) -> bool {
        !matches!(self, Self::Raid0)
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A map's `map_state`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MapState {
    /// 0
    Normal,
    /// 1: never synchronised.
    Uninitialized,
    /// 2: one failure more and data is lost.
    Degraded,
    /// 3: data is lost.
    Failed,
}

impl MapState {
    /// From the byte.
    #[must_use]
    pub const fn of(byte: u8) -> Option<Self> {
        match byte {
            0 => Some(Self::Normal),
            1 => Some(Self::Uninitialized),
            2 => Some(Self::Degraded),
            3 => Some(Self::Failed),
            _ => None,
        }
    }

    /// In a word.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Normal => "normal",
            Self::Uninitialized => "uninitialized",
            Self::Degraded => "degraded",
            Self::Failed => "failed",
        }
    }
}

impl fmt::Display for MapState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What a volume is in the middle of: `migr_type`, which counts only with `migr_state` 1.
///
/// | here | first map | second map | what an assembly does |
/// | --- | --- | --- | --- |
/// | [`Init`](Self::Init) | normal | uninitialized | goes on with the initial resync |
/// | [`Rebuild`](Self::Rebuild) | normal | degraded | goes on with the rebuild |
/// | [`Verify`](Self::Verify) | normal | normal | starts it clean; mdmon drops the check |
/// | [`Repair`](Self::Repair) | normal | normal | goes on with the resync |
/// | [`General`](Self::General) | - | - | nothing: mdadm must drive a reshape |
/// | [`StateChange`](Self::StateChange), [`Unknown`](Self::Unknown) | - | - | nothing |
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Migration {
    /// 0: initial resync.
    Init,
    /// 1: a disk is being rebuilt.
    Rebuild,
    /// 2: a check.
    Verify,
    /// 3: a reshape: more disks, another level, another chunk.
    General,
    /// 4
    StateChange,
    /// Resync after a crash: on disk it is 2 with [`status::VERIFY_AND_FIX`], or 5.
    Repair,
    /// Not known.
    Unknown(u8),
}

impl Migration {
    /// From `migr_type` and the volume's `status`.
    #[must_use]
    pub const fn of(migr_type: u8, flags: u32) -> Self {
        match migr_type {
            0 => Self::Init,
            1 => Self::Rebuild,
            2 if flags & status::VERIFY_AND_FIX != 0 => Self::Repair,
            2 => Self::Verify,
            3 => Self::General,
            4 => Self::StateChange,
            5 => Self::Repair,
            other => Self::Unknown(other),
        }
    }

    /// In mdadm's words.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Init => "initialize",
            Self::Rebuild => "rebuild",
            Self::Verify => "check",
            Self::General => "general migration",
            Self::StateChange => "state change",
            Self::Repair => "repair",
            Self::Unknown(_) => "unknown migration",
        }
    }
}

/// Flags of a volume's `status`.
pub mod status {
    /// Not shown to the system at the next boot.
    pub const HIDDEN_AT_BOOT: u32 = 0x20;
    /// Not shown to the system now.
    pub const HIDDEN: u32 = 0x40;
    /// The verification that runs repairs.
    pub const VERIFY_AND_FIX: u32 = 0x80;
    /// Clone'n'Go.
    pub const CLONE_N_GO: u32 = 0x400;
    /// Clone'n'Go, synchronised by hand.
    pub const CLONE_MAN_SYNC: u32 = 0x800;
    /// Clone'n'Go: the volume of the master disk.
    pub const CNG_MASTER_DISK: u32 = 0x1000;
    /// Any of Clone'n'Go.
    pub const ANY_CNG: u32 = CLONE_N_GO | CLONE_MAN_SYNC | CNG_MASTER_DISK;
    /// Any of hiding.
    pub const ANY_HIDDEN: u32 = HIDDEN_AT_BOOT | HIDDEN;
}

/// How the RAID 5 write hole is closed: `rwh_policy`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteHole {
    /// 0 and 5: not at all.
    Off,
    /// 1: one partial parity log on each member. mdadm turns it into 3 when it assembles, which is a write.
    SinglePpl,
    /// 2 and 4: partial parity logs on a journaling drive; md has nothing like it.
    Journal(u8),
    /// 3: several partial parity logs on each member, used in turn.
    MultiplePpl,
    /// 6: a write-intent bitmap.
    Bitmap,
    /// Not known.
    Unknown(u8),
}

impl WriteHole {
    /// From the byte.
    #[must_use]
    pub const fn of(byte: u8) -> Self {
        match byte {
            0 | 5 => Self::Off,
            1 => Self::SinglePpl,
            2 | 4 => Self::Journal(byte),
            3 => Self::MultiplePpl,
            6 => Self::Bitmap,
            other => Self::Unknown(other),
        }
    }

    /// In mdadm's words.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::SinglePpl => "PPL distributed",
            Self::Journal(2) => "PPL journaling drive",
            Self::Journal(_) => "Multiple PPLs on journaling drive",
            Self::MultiplePpl => "Multiple distributed PPLs",
            Self::Bitmap => "Write-intent bitmap",
            Self::Unknown(_) => "unknown",
        }
    }
}

/// `attributes`: what the writer used, and what a reader must understand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attributes(pub u32);

impl Attributes {
    /// A disk is over 2 TiB: the high halves of its size and of the maps count.
    pub const DISK_OVER_2TB: u32 = 0x0400_0000;

    /// The bits that mdadm can do, or does well to ignore; with any other no volume of the container may be started.
    pub const ACCEPTED: u32 = 0xEC00_00D7;

    /// Every bit with a name.
    pub const NAMES: [(u32, &'static str); 15] = [
        (0x1, "RAID0"),
        (0x2, "RAID1"),
        (0x4, "RAID10"),
        (0x8, "RAID1E"),
        (0x10, "RAID5"),
        (0x20, "Clone'n'Go"),
        (0x40, "expanded strip sizes"),
        (0x80, "RAID10 with more than 4 disks"),
        (0x0200_0000, "NVM cache"),
        (Self::DISK_OVER_2TB, "disk over 2 TiB"),
        (0x0800_0000, "bad-block log"),
        (0x1000_0000, "NVM cache of volumes"),
        (0x2000_0000, "volume over 2 TiB"),
        (0x4000_0000, "never use"),
        (0x8000_0000, "checksum"),
    ];

    /// The name of one bit.
    #[must_use]
    pub fn name(bit: u32) -> &'static str {
        Self::NAMES
            .iter()
            .find(|(known, _)| *known == bit)
            .map_or("unknown", |(_, name)| name)
    }

    /// The bits that forbid a start.
    #[must_use]
    pub const fn unsupported(self) -> Self {
        Self(self.0 & !Self::ACCEPTED)
    }

    /// Each bit that is set, lowest first.
    pub fn bits(self) -> impl Iterator<Item = u32> {
        (0..32).map(|n| 1 << n).filter(move |bit| self.0 & bit != 0)
    }
}

impl fmt::Display for Attributes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#010x}", self.0)?;
        for (i, bit) in self.bits().enumerate() {
            f.write_str(if i == 0 { " (" } else { ", " })?;
            match Self::name(bit) {
                "unknown" => write!(f, "{bit:#010x} unknown")?,
                name => f.write_str(name)?,
            }
        }
        if self.0 == 0 {
            Ok(())
        } else {
            f.write_str(")")
        }
    }
}
