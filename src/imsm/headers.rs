//! The two things beside the metadata that must be right before md may use them: the header of a member's partial parity
//! log, and that of its write-intent bitmap. Each is a page of 4096 bytes; [`Geometry`](super::Geometry) says where.
//!
//! The kernel believes a PPL header that it is given, and writes one of its own at start; whoever starts a volume must have
//! looked at it. mdadm makes a new one where that is safe; quell writes nothing and leaves such a volume to mdadm.
//! Sources: linux/raid/md_p.h (`struct ppl_header`, `struct bitmap_super_s`), mdadm's `validate_ppl_imsm` and
//! `validate_internal_bitmap_imsm`.

use super::Uuid;

/// What is wrong with a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadHeader {
    /// PPL: the CRC-32C over the page.
    Checksum {
        /// What stands there.
        found: u32,
        /// What should.
        right: u32,
    },
    /// PPL: the original family.
    Signature {
        /// What stands there.
        found: u32,
        /// What should.
        right: u32,
    },
    /// Bitmap: the magic.
    Magic(u32),
    /// Bitmap: the version.
    Version(u32),
    /// Bitmap: the volume's UUID.
    Uuid(Uuid),
}

impl core::fmt::Display for BadHeader {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Checksum { found, right } => {
                write!(
                    f,
                    "PPL header: checksum is {found:08x}, allowed: {right:08x}"
                )
            }
            Self::Signature { found, right } => {
                write!(
                    f,
                    "PPL header: signature is {found:08x}, allowed: {right:08x}"
                )
            }
            Self::Magic(found) => write!(
                f,
                "bitmap header: magic is {found:08x}, allowed: {BITMAP_MAGIC:08x}"
            ),
            Self::Version(found) => write!(
                f,
                "bitmap header: version is {found}, allowed: {BITMAP_VERSION}"
            ),
            Self::Uuid(found) => write!(
                f,
                "bitmap header: UUID is {found}, which is not the volume's"
            ),
        }
    }
}

/// Bytes of either header.
pub const HEADER_BYTES: usize = 4096;

/// `bitm`
const BITMAP_MAGIC: u32 = 0x6D74_6962;
const BITMAP_VERSION: u32 = 4;

/// Offsets in a PPL header: 512 bytes reserved, signature, padding, generation (8), entries, checksum.
const PPL_SIGNATURE: usize = 512;
const PPL_CHECKSUM: usize = 532;

/// Checks a PPL header of a container of this original family.
pub fn ppl(page: &[u8; HEADER_BYTES], orig_family: u32) -> Result<(), BadHeader> {
    let bytes = page.iter().enumerate().map(|(at, &byte)| {
        // The checksum is made with itself as zeros.
        let in_checksum = (PPL_CHECKSUM..PPL_CHECKSUM + 4).contains(&at);
        if in_checksum { 0 } else { byte }
    });
    let (found, right) = (word(page, PPL_CHECKSUM), crc32c(bytes));
    if found != right {
        return Err(BadHeader::Checksum { found, right });
    }
    let found = word(page, PPL_SIGNATURE);
    if found != orig_family {
        return Err(BadHeader::Signature {
            found,
            right: orig_family,
        });
    }
    Ok(())
}

/// Checks the header of a bitmap of this volume.
pub fn bitmap(page: &[u8; HEADER_BYTES], volume: Uuid) -> Result<(), BadHeader> {
    let magic = word(page, 0);
    if magic != BITMAP_MAGIC {
        return Err(BadHeader::Magic(magic));
    }
    let version = word(page, 4);
    if version != BITMAP_VERSION {
        return Err(BadHeader::Version(version));
    }
    let mut uuid = Uuid::default();
    for (to, from) in uuid.0.iter_mut().zip(page.iter().skip(8)) {
        *to = *from;
    }
    if uuid != volume {
        return Err(BadHeader::Uuid(uuid));
    }
    Ok(())
}

fn word(page: &[u8; HEADER_BYTES], at: usize) -> u32 {
    page.get(at..at + 4)
        .and_then(|bytes| bytes.try_into().ok())
        .map_or(0, u32::from_le_bytes)
}

/// CRC-32C (RFC 3720, appendix B.4), a bit at a time: it is for single pages.
fn crc32c(bytes: impl Iterator<Item = u8>) -> u32 {
    !bytes.fold(!0u32, |crc, byte| {
        (0..8).fold(crc ^ u32::from(byte), |crc, _| {
            (crc >> 1) ^ (0x82F6_3B78 & (crc & 1).wrapping_neg())
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(parts: &[(usize, &[u8])]) -> [u8; HEADER_BYTES] {
        let mut page = [0; HEADER_BYTES];
        for (at, bytes) in parts {
            page[*at..at + bytes.len()].copy_from_slice(bytes);
        }
        page
    }

    #[test]
    fn crc32c_of_the_rfcs_examples() {
        assert_eq!(crc32c(b"123456789".iter().copied()), 0xE306_9283);
        assert_eq!(crc32c([0; 32].into_iter()), 0x8A91_36AA);
        assert_eq!(crc32c([0xFF; 32].into_iter()), 0x62A8_AB43);
    }

    #[test]
    fn a_ppl_header_is_of_this_container_and_whole() {
        let signed = page(&[(0, &[0xFF; 512]), (512, &0x1234_5678_u32.to_le_bytes())]);
        let sum = crc32c(signed.iter().copied());
        let mut good = signed;
        good[532..536].copy_from_slice(&sum.to_le_bytes());
        assert_eq!(ppl(&good, 0x1234_5678), Ok(()));
        let other = BadHeader::Signature {
            found: 0x1234_5678,
            right: 1,
        };
        assert_eq!(ppl(&good, 1), Err(other));
        for at in [0, 511, 512, 532, 536, 4095] {
            let mut bad = good;
            bad[at] ^= 1;
            assert!(
                matches!(ppl(&bad, 0x1234_5678), Err(BadHeader::Checksum { .. })),
                "{at}"
            );
        }
    }

    #[test]
    fn a_bitmap_header_is_of_this_volume() {
        let uuid = Uuid(*b"0123456789abcdef");
        let good = page(&[(0, b"bitm"), (4, &[4]), (8, &uuid.0)]);
        assert_eq!(bitmap(&good, uuid), Ok(()));
        assert_eq!(bitmap(&good, Uuid::default()), Err(BadHeader::Uuid(uuid)));
        let bad = page(&[(0, b"bitm"), (4, &[5])]);
        assert_eq!(bitmap(&bad, uuid), Err(BadHeader::Version(5)));
        assert_eq!(bitmap(&page(&[]), uuid), Err(BadHeader::Magic(0)));
    }
}
