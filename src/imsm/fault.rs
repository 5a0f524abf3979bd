//! Why metadata cannot be believed: where, which field, what was found and what may stand there.

use core::fmt;

use crate::text::Printable;

/// Where in a disk's metadata something is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// The head.
    Super,
    /// An entry of the disk table.
    Disk(u8),
    /// A volume.
    Volume(u8),
    /// One of a volume's maps, 0 or 1.
    Map(u8, u8),
    /// A slot of a map: volume, map, slot.
    Slot(u8, u8, u8),
    /// The bad-block log.
    BadBlocks,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Super => f.write_str("head"),
            Self::Disk(i) => write!(f, "disk {i}"),
            Self::Volume(v) => write!(f, "volume {v}"),
            Self::Map(v, m) => write!(f, "volume {v}, map {m}"),
            Self::Slot(v, m, s) => write!(f, "volume {v}, map {m}, slot {s}"),
            Self::BadBlocks => f.write_str("bad-block log"),
        }
    }
}

/// What was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// A number.
    Number(u64),
    /// A word of flags or a checksum.
    Hex(u32),
    /// Text, perhaps not printable.
    Text([u8; 24]),
}

impl Found {
    /// Text of at most 24 bytes.
    #[must_use]
    pub fn text(bytes: &[u8]) -> Self {
        let mut text = [0; 24];
        for (to, from) in text.iter_mut().zip(bytes) {
            *to = *from;
        }
        Self::Text(text)
    }
}

impl fmt::Display for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(n) => write!(f, "{n}"),
            Self::Hex(n) => write!(f, "{n:#010x}"),
            Self::Text(text) => {
                let end = text
                    .iter()
                    .rposition(|&b| b != 0)
                    .map_or(0, |last| last + 1);
                write!(f, "\"{}\"", Printable(text.get(..end).unwrap_or_default()))
            }
        }
    }
}

/// What may stand there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Allowed {
    /// This number.
    Is(u64),
    /// This word.
    Hex(u32),
    /// This or more.
    AtLeast(u64),
    /// This or less.
    AtMost(u64),
    /// From the first to the second, both included.
    Between(u64, u64),
    /// One of these.
    OneOf(&'static [u64]),
    /// In words.
    Words(&'static str),
    /// This text.
    Text(&'static str),
}

impl fmt::Display for Allowed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Is(n) => write!(f, "{n}"),
            Self::Hex(n) => write!(f, "{n:#010x}"),
            Self::AtLeast(n) => write!(f, "at least {n}"),
            Self::AtMost(n) => write!(f, "at most {n}"),
            Self::Between(a, b) => write!(f, "{a} to {b}"),
            Self::OneOf(all) => {
                for (i, n) in all.iter().enumerate() {
                    write!(f, "{}{n}", if i == 0 { "" } else { ", " })?;
                }
                Ok(())
            }
            Self::Words(words) => f.write_str(words),
            Self::Text(text) => write!(f, "\"{text}\""),
        }
    }
}

/// One reason why a disk's metadata is corrupt. Which disk it is its reader knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Where.
    pub place: Place,
    /// The field, by its name in [`ondisk`](super::ondisk).
    pub field: &'static str,
    /// What stands there.
    pub found: Found,
    /// What may.
    pub allowed: Allowed,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}: {} is {}, allowed: {}",
            self.place, self.field, self.found, self.allowed
        )
    }
}

impl Fault {
    /// A number that is not allowed.
    #[must_use]
    pub(super) fn number(
        place: Place,
        field: &'static str,
        found: impl Into<u64>,
        allowed: Allowed,
    ) -> Self {
        Self {
            place,
            field,
            found: Found::Number(found.into()),
            allowed,
        }
    }

    /// Text that is not allowed.
    #[must_use]
    pub(super) fn text(place: Place, field: &'static str, found: &[u8], allowed: Allowed) -> Self {
        Self {
            place,
            field,
            found: Found::text(found),
            allowed,
        }
    }
}

/// Why a disk gives no metadata.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unread {
    /// There is none: no signature where it would be.
    None,
    /// It reaches further to the front than what was read: this many bytes of the disk's end are needed.
    Short(usize),
    /// It is there and cannot be believed.
    Corrupt(Fault),
}

impl From<Fault> for Unread {
    fn from(fault: Fault) -> Self {
        Self::Corrupt(fault)
    }
}

impl fmt::Display for Unread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str("no IMSM metadata"),
            Self::Short(need) => write!(f, "its last {need} bytes are needed"),
            Self::Corrupt(fault) => write!(f, "corrupt IMSM metadata: {fault}"),
        }
    }
}
