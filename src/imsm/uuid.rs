//! UUIDs as mdadm makes them, and the SHA-1 they are made of (FIPS 180-4).
//!
//! | of | first 16 bytes of SHA-1 over |
//! | --- | --- |
//! | a container | the 24 bytes of the signature, original family (4 bytes, little endian) |
//! | a volume | the same, index of the volume (4 bytes, little endian), 16 bytes of its name |
//! | a free spare | nothing: all zeros |
//!
//! Neither version nor family are hashed: a UUID survives rebuilds. Renaming or re-numbering a volume changes its own.
//! Source: mdadm's `uuid_from_super_imsm` and `__fname_from_uuid`.

use core::fmt;

use super::metadata::Metadata;
use super::volume::Volume;

/// A UUID in mdadm's notation: four little-endian words in hexadecimal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Uuid(pub [u8; 16]);

impl Uuid {
    /// Of the container that this is metadata of.
    #[must_use]
    pub fn container(metadata: &Metadata<'_>) -> Self {
        if metadata.is_spare() {
            return Self::default();
        }
        let mut sha = Sha1::new();
        sha.add(&metadata.head().signature);
        sha.add(&metadata.orig_family().to_le_bytes());
        Self(sha.first_16())
    }

    /// Of a volume.
    #[must_use]
    pub fn volume(metadata: &Metadata<'_>, volume: &Volume<'_>) -> Self {
        let mut sha = Sha1::new();
        sha.add(&metadata.head().signature);
        sha.add(&metadata.orig_family().to_le_bytes());
        sha.add(&u32::from(volume.index).to_le_bytes());
        sha.add(&volume.raw().name);
        Self(sha.first_16())
    }
}

impl fmt::Display for Uuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, word) in self.0.chunks_exact(4).enumerate() {
            let word = word.try_into().map_or(0, u32::from_le_bytes);
            write!(f, "{}{word:08x}", if i == 0 { "" } else { ":" })?;
        }
        Ok(())
    }
}

/// SHA-1 of a few dozen bytes: one that is meant to be small.
struct Sha1 {
    state: [u32; 5],
    block: heapless::Vec<u8, 64>,
    bits: u64,
}

impl Sha1 {
    const fn new() -> Self {
        Self {
            state: [
                0x6745_2301,
                0xEFCD_AB89,
                0x98BA_DCFE,
                0x1032_5476,
                0xC3D2_E1F0,
            ],
            block: heapless::Vec::new(),
            bits: 0,
        }
    }

    fn add(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.push(byte);
            self.bits += 8;
        }
    }

    fn push(&mut self, byte: u8) {
        // It is emptied whenever it is full.
        let _ = self.block.push(byte);
        if self.block.is_full() {
            self.compress();
            self.block.clear();
        }
    }

    fn first_16(mut self) -> [u8; 16] {
        let bits = self.bits;
        self.push(0x80);
        while self.block.len() != 56 {
            self.push(0);
        }
        for byte in bits.to_be_bytes() {
            self.push(byte);
        }
        let mut digest = [0; 16];
        for (to, word) in digest.chunks_exact_mut(4).zip(self.state) {
            to.copy_from_slice(&word.to_be_bytes());
        }
        digest
    }

    fn compress(&mut self) {
        let mut window = [0u32; 16];
        for (to, from) in window.iter_mut().zip(self.block.chunks_exact(4)) {
            *to = from.try_into().map_or(0, u32::from_be_bytes);
        }
        let [mut a, mut b, mut c, mut d, mut e] = self.state;
        for round in 0..80 {
            let at = |back: usize| window[(round + 16 - back) % 16];
            let word = if round < 16 {
                at(16)
            } else {
                (at(3) ^ at(8) ^ at(14) ^ at(16)).rotate_left(1)
            };
            window[round % 16] = word;
            let (f, k) = match round {
                0..20 => ((b & c) | (!b & d), 0x5A82_7999),
                20..40 => (b ^ c ^ d, 0x6ED9_EBA1),
                40..60 => ((b & c) | (b & d) | (c & d), 0x8F1B_BCDC),
                _ => (b ^ c ^ d, 0xCA62_C1D6_u32),
            };
            let next = a
                .rotate_left(5)
                .wrapping_add(f)
                .wrapping_add(e)
                .wrapping_add(k)
                .wrapping_add(word);
            (e, d, c, b, a) = (d, c, b.rotate_left(30), a, next);
        }
        for (to, from) in self.state.iter_mut().zip([a, b, c, d, e]) {
            *to = to.wrapping_add(from);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hex(text: &[u8]) -> String {
        let mut sha = Sha1::new();
        sha.add(text);
        sha.first_16().iter().map(|b| format!("{b:02x}")).collect()
    }

    /// The examples of FIPS 180-4 and RFC 3174, first 16 bytes of each.
    #[test]
    fn sha1_of_the_standards_examples() {
        assert_eq!(hex(b"abc"), "a9993e364706816aba3e25717850c26c");
        assert_eq!(hex(b""), "da39a3ee5e6b4b0d3255bfef95601890");
        let long = b"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq";
        assert_eq!(hex(long), "84983e441c3bd26ebaae4aa1f95129e5");
        assert_eq!(hex(&[b'a'; 1_000_000]), "34aa973cd4c4daa4f61eeb2bdbad2731");
    }
}
