//! As much of ELF as tells a static executable from one that needs a loader.

use anyhow::{Context, Result, bail};

const ET_EXEC: u16 = 2;
const ET_DYN: u16 = 3;
const EM_X86_64: u16 = 62;
const PT_DYNAMIC: u32 = 2;
const PT_INTERP: u32 = 3;
const DT_NEEDED: u64 = 1;

/// What kind of executable a file is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Shape {
    /// It can be loaded at any address.
    pub(super) pie: bool,
    /// It asks for a loader.
    interpreter: bool,
    /// It names libraries.
    libraries: bool,
}

impl Shape {
    /// Nothing but the kernel is needed to run it.
    pub(super) fn is_static(self) -> bool {
        !self.interpreter && !self.libraries
    }

    /// Reads the headers of a 64-bit little-endian x86 executable.
    pub(super) fn of(file: &[u8]) -> Result<Self> {
        if file.get(..6) != Some(b"\x7fELF\x02\x01") {
            bail!("not a 64-bit little-endian ELF file");
        }
        if half(file, 18)? != EM_X86_64 {
            bail!("not an x86-64 file");
        }
        let mut shape = Self {
            pie: match half(file, 16)? {
                ET_DYN => true,
                ET_EXEC => false,
                other => bail!("ELF type {other} is no executable"),
            },
            ..Self::default()
        };
        let (table, size, count) = (xword(file, 32)?, half(file, 54)?, half(file, 56)?);
        for n in 0..u64::from(count) {
            let header = at(table.wrapping_add(n * u64::from(size)))?;
            match word(file, header)? {
                PT_INTERP => shape.interpreter = true,
                PT_DYNAMIC => {
                    let start = at(xword(file, header + 8)?)?;
                    let length = at(xword(file, header + 32)?)?;
                    // Entries are pairs of tag and value.
                    for offset in (start..start.saturating_add(length)).step_by(16) {
                        shape.libraries |= xword(file, offset)? == DT_NEEDED;
                    }
                }
                _ => {}
            }
        }
        Ok(shape)
    }
}

fn at(offset: u64) -> Result<usize> {
    usize::try_from(offset).context("an offset beyond this machine's memory")
}

fn bytes<const N: usize>(file: &[u8], offset: usize) -> Result<[u8; N]> {
    file.get(offset..)
        .and_then(|rest| rest.first_chunk::<N>())
        .copied()
        .context("the file ends inside its headers")
}

fn half(file: &[u8], offset: usize) -> Result<u16> {
    Ok(u16::from_le_bytes(bytes(file, offset)?))
}

fn word(file: &[u8], offset: usize) -> Result<u32> {
    Ok(u32::from_le_bytes(bytes(file, offset)?))
}

fn xword(file: &[u8], offset: usize) -> Result<u64> {
    Ok(u64::from_le_bytes(bytes(file, offset)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An ELF file of one program header and, after it, one dynamic entry.
    fn sample(kind: u16, header: u32, tag: u64) -> Vec<u8> {
        let mut file = vec![0; 64 + 56 + 16];
        file[..6].copy_from_slice(b"\x7fELF\x02\x01");
        file[16..18].copy_from_slice(&kind.to_le_bytes());
        file[18..20].copy_from_slice(&EM_X86_64.to_le_bytes());
        file[32..40].copy_from_slice(&64_u64.to_le_bytes());
        file[54..56].copy_from_slice(&56_u16.to_le_bytes());
        file[56..58].copy_from_slice(&1_u16.to_le_bytes());
        file[64..68].copy_from_slice(&header.to_le_bytes());
        file[72..80].copy_from_slice(&120_u64.to_le_bytes());
        file[96..104].copy_from_slice(&16_u64.to_le_bytes());
        file[120..128].copy_from_slice(&tag.to_le_bytes());
        file
    }

    #[test]
    fn a_dynamic_section_without_libraries_is_static_pie() {
        let shape = Shape::of(&sample(ET_DYN, PT_DYNAMIC, 0)).unwrap();
        assert!(shape.pie && shape.is_static());
        assert!(!Shape::of(&sample(ET_EXEC, 1, 0)).unwrap().pie);
    }

    #[test]
    fn an_interpreter_or_a_library_is_not_static() {
        assert!(
            !Shape::of(&sample(ET_DYN, PT_INTERP, 0))
                .unwrap()
                .is_static()
        );
        let shape = Shape::of(&sample(ET_EXEC, PT_DYNAMIC, DT_NEEDED)).unwrap();
        assert!(!shape.is_static());
    }

    #[test]
    fn the_test_binary_itself_needs_a_loader() {
        let own = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        if cfg!(target_env = "gnu") {
            assert!(!Shape::of(&own).unwrap().is_static());
        }
    }

    #[test]
    fn cut_off_or_foreign_files_are_refused() {
        let whole = sample(ET_DYN, PT_DYNAMIC, 0);
        assert!(Shape::of(&whole[..100]).is_err());
        assert!(Shape::of(b"#!/bin/sh").is_err());
        assert!(Shape::of(&sample(1, PT_DYNAMIC, 0)).is_err());
    }
}
