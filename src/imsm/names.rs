//! Names as mdadm gives them: links in /dev/md.

use core::fmt;

use crate::text::Printable;

/// A volume's name as the name of a link: `/` becomes `-`, a blank becomes `_`. (mdadm puts `_0` behind names of
/// containers that are not this machine's.) Source: mdadm's `create_mddev`.
pub struct LinkName<'a>(pub &'a [u8]);

impl fmt::Display for LinkName<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for piece in self.0.chunks(1) {
            match piece {
                b"/" => f.write_str("-")?,
                b" " => f.write_str("_")?,
                other => Printable(other).fmt(f)?,
            }
        }
        Ok(())
    }
}

/// The name of a partition of it: `p` stands between where the name ends in a digit.
pub struct PartitionName<'a>(pub &'a [u8], pub u32);

impl fmt::Display for PartitionName<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digit = self.0.last().is_some_and(u8::is_ascii_digit);
        let between = if digit { "p" } else { "" };
        write!(f, "{}{between}{}", LinkName(self.0), self.1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_named_as_mdadm_names_them() {
        assert_eq!(LinkName(b"RAID Volume/1").to_string(), "RAID_Volume-1");
        assert_eq!(PartitionName(b"vol5", 1).to_string(), "vol5p1");
        assert_eq!(PartitionName(b"sys", 2).to_string(), "sys2");
    }
}
