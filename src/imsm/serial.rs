//! Serial numbers: how the table of a container knows a disk.

use core::fmt;

use crate::text::Printable;

/// The serial of a disk in the form of the disk table: 16 bytes, NUL padded, all of them used where it is as long.
///
/// When a disk fails its entry's serial is changed on purpose (`D0` becomes `D0:0`, a missing one's `0:0`), so that the
/// disk does not fit when it comes back.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Serial([u8; 16]);

impl Serial {
    /// From the disk table. What follows a NUL does not count.
    #[must_use]
    pub fn on_disk(raw: [u8; 16]) -> Self {
        let mut serial = raw;
        let end = raw.iter().position(|&b| b == 0).unwrap_or(raw.len());
        serial.iter_mut().skip(end).for_each(|b| *b = 0);
        Self(serial)
    }

    /// From what the device says of itself: sysfs `serial` of an NVMe controller, or the payload of SCSI's VPD page 0x80
    /// (the bytes after its 4-byte head). Blanks, control characters and bytes from 0x80 on are dropped wherever they
    /// stand, `:` becomes `;`, and of more than 16 the *last* 16 stay. `None` if nothing stays.
    ///
    /// Source: mdadm's `imsm_read_serial`, on a machine where `char` is signed.
    #[must_use]
    pub fn of_device(text: &[u8]) -> Option<Self> {
        let kept = |b: &u8| (0x21..0x80).contains(b);
        let len = text.iter().copied().filter(kept).count();
        let mut serial = [0; 16];
        let kept = text
            .iter()
            .copied()
            .filter(kept)
            .skip(len.saturating_sub(16));
        for (to, from) in serial.iter_mut().zip(kept) {
            *to = if from == b':' { b';' } else { from };
        }
        (len > 0).then_some(Self(serial))
    }

    /// Without the padding.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        let end = self.0.iter().position(|&b| b == 0).unwrap_or(self.0.len());
        self.0.get(..end).unwrap_or_default()
    }

    /// Nothing but padding.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.as_bytes().is_empty()
    }
}

impl fmt::Display for Serial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Printable(self.as_bytes()).fmt(f)
    }
}

impl fmt::Debug for Serial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Serial({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_devices_serial_as_the_table_has_it() {
        let cases: &[(&[u8], Option<&str>)] = &[
            (b"D0\n", Some("D0")),
            (b"   WD-WCC4E1234567  ", Some("WD-WCC4E1234567")),
            (b"S4EV NX0M 123:456", Some("S4EVNX0M123;456")),
            (b"12345678901234567890", Some("5678901234567890")),
            (b"a\xffb\x80c\x7f", Some("abc\x7f")),
            (b" \0\n", None),
            (b"", None),
        ];
        for (text, want) in cases {
            let got = Serial::of_device(text);
            assert_eq!(
                got.as_ref().map(Serial::as_bytes),
                want.map(str::as_bytes),
                "{text:?}"
            );
        }
    }

    #[test]
    fn what_follows_a_nul_in_the_table_does_not_count() {
        let dirty = Serial::on_disk(*b"D0\0leftovers....");
        assert_eq!(Some(dirty), Serial::of_device(b"D0"));
        assert_eq!(Serial::on_disk(*b"0123456789abcdef").as_bytes().len(), 16);
        assert!(Serial::on_disk([0; 16]).is_empty());
    }
}
