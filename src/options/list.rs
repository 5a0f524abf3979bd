//! A list of arrays as people write it: UUIDs and names, by commas.

use core::fmt;

use crate::imsm::names::LinkName;
use crate::text::Text;

/// How many bytes of a list are kept: 28 UUIDs with their commas.
pub const LIST_MAX: usize = 1_024;

/// UUIDs and names, kept as they were given: the kernel command line's buffer is gone when they are needed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct List(heapless::String<LIST_MAX>);

impl List {
    /// Nothing is listed.
    pub const EMPTY: Self = Self(heapless::String::new());

    /// Reads `UUID-or-name[,UUID-or-name...]`: no empty piece, nothing but visible characters, and all of it or nothing.
    pub(super) fn parse(word: &str) -> Option<Self> {
        let visible = |piece: &str| !piece.contains(|c: char| c.is_control() || c.is_whitespace());
        let good = |piece: &str| !piece.is_empty() && visible(piece);
        if !word.split(',').all(good) {
            return None;
        }
        heapless::String::try_from(word).ok().map(Self)
    }

    /// Appends another piece; one that has no room any more is left out.
    pub(super) fn push(&mut self, piece: &str) {
        let comma = usize::from(!self.0.is_empty());
        if self.0.capacity() - self.0.len() >= comma + piece.len() {
            // There is room for both.
            let _ = if comma > 0 { self.0.push(',') } else { Ok(()) };
            let _ = self.0.push_str(piece);
        }
    }

    /// Whether nothing is listed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether a volume is listed: by its own UUID, by its name, or because its whole container is.
    #[must_use]
    pub fn has(
        &self,
        container: impl fmt::Display,
        volume: impl fmt::Display,
        name: &[u8],
    ) -> bool {
        self.has_uuid(container) || self.has_uuid(volume) || self.has_name(name)
    }

    /// Whether a UUID is listed. Both may have their 32 digits in either case, with colons or dashes anywhere or without:
    /// mdadm writes four groups, blkid five, and dracut takes all of them.
    #[must_use]
    pub fn has_uuid(&self, uuid: impl fmt::Display) -> bool {
        let uuid = Text::<64>::of(format_args!("{uuid}"));
        self.pieces().any(|piece| same_uuid(piece, uuid.as_str()))
    }

    /// Whether a volume's name is listed: as it stands in the metadata, or as its link in /dev/md is called, since no
    /// blank can be given on the kernel command line.
    #[must_use]
    pub fn has_name(&self, name: &[u8]) -> bool {
        let link = Text::<64>::of(format_args!("{}", LinkName(name)));
        self.pieces()
            .any(|piece| piece.as_bytes() == name || piece == link.as_str())
    }

    fn pieces(&self) -> impl Iterator<Item = &str> {
        self.0.split(',').filter(|piece| !piece.is_empty())
    }
}

impl fmt::Display for List {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Whether both are the same 128 bits, however they are written.
fn same_uuid(a: &str, b: &str) -> bool {
    let digits = |text: &str| -> Option<heapless::Vec<u8, 32>> {
        let mut digits = heapless::Vec::new();
        for byte in text.bytes().filter(|b| !matches!(b, b':' | b'-')) {
            let digit = byte.is_ascii_hexdigit().then(|| byte.to_ascii_lowercase());
            digits.push(digit?).ok()?;
        }
        digits.is_full().then_some(digits)
    };
    digits(a).is_some_and(|a| digits(b) == Some(a))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    const CONTAINER: &str = "1af9c5c2:d5a5c7a5:6b0ec1a7:c2ab5a3d";
    const VOLUME: &str = "00000000:11111111:22222222:33333333";

    fn list(text: &str) -> List {
        List::parse(text).unwrap()
    }

    #[test]
    fn uuids_are_the_same_however_they_are_written() {
        for written in [
            CONTAINER,
            "1AF9C5C2:D5A5C7A5:6B0EC1A7:C2AB5A3D",
            "1af9c5c2d5a5c7a56b0ec1a7c2ab5a3d",
            "1af9c5c2-d5a5-c7a5-6b0e-c1a7c2ab5a3d",
            "x,1af9c5c2:d5a5c7a5:6b0ec1a7:c2ab5a3d,y",
        ] {
            assert!(list(written).has_uuid(CONTAINER), "{written}");
            assert!(!list(written).has_uuid(VOLUME), "{written}");
        }
        for other in [
            "1af9c5c2:d5a5c7a5:6b0ec1a7:c2ab5a3",
            "1af9c5c2:d5a5c7a5:6b0ec1a7:c2ab5a3d0",
            "1af9c5c2.d5a5c7a5.6b0ec1a7.c2ab5a3d",
            "gaf9c5c2:d5a5c7a5:6b0ec1a7:c2ab5a3d",
        ] {
            assert!(!list(other).has_uuid(CONTAINER), "{other}");
        }
        // Two that are none are not the same.
        assert!(!list("x").has_uuid("x"));
    }

    #[test]
    fn names_are_those_of_the_metadata_or_of_the_links() {
        let names = list("sys,my_volume,a-b");
        for name in ["sys", "my volume", "my_volume", "a/b", "a-b"] {
            assert!(names.has_name(name.as_bytes()), "{name}");
        }
        for name in ["Sys", "sy", "sys0", "my volume ", ""] {
            assert!(!names.has_name(name.as_bytes()), "{name}");
        }
        assert!(!List::EMPTY.has_name(b""));
    }

    #[test]
    fn a_volume_is_listed_by_itself_or_by_its_container() {
        for one in [CONTAINER, VOLUME, "vol"] {
            assert!(list(one).has(CONTAINER, VOLUME, b"vol"), "{one}");
        }
        assert!(!list("other").has(CONTAINER, VOLUME, b"vol"));
    }

    #[test]
    fn a_list_has_its_bound() {
        let full = "x".repeat(LIST_MAX);
        assert_eq!(list(&full).to_string(), full);
        assert_eq!(List::parse(&(full + "x")), None);
        let mut pushed = List::EMPTY;
        for _ in 0..100 {
            pushed.push(CONTAINER);
        }
        assert_eq!(pushed.pieces().count(), 28);
        assert!(pushed.pieces().all(|piece| piece == CONTAINER));
    }
}
