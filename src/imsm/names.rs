//! Names as mdadm gives them: links in /dev/md.
//!
//! Source: mdadm's `mdopen.c` (`create_mddev`).

use core::fmt;

use crate::text::{Printable, Text};

/// A volume's name as the name of a link: `/` becomes `-`, a blank becomes `_`.
pub struct LinkName<'a>(pub &'a [u8]);

impl fmt::Display for LinkName<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for piece in self
            .0
            .chunk_by(|a, b| ![a, b].iter().any(|c| b"/ \t".contains(c)))
        {
            match piece {
                b"/" => f.write_str("-")?,
                b" " | b"\t" => f.write_str("_")?,
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

/// How far the name in metadata is believed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trust {
    /// It is this machine's: used as it is, if nobody else has it.
    Local,
    /// IMSM does not say whose it is, so that it might be another machine's: `_0` is put behind.
    Foreign,
    /// It is the metadata's, for a container: `imsm0`.
    Format,
}

/// The name of the link, given by that name in the metadata; numbers are counted up until it is not taken.
pub fn link_name(name: &[u8], trust: Trust, is_taken: &mut dyn FnMut(&str) -> bool) -> Text<200> {
    let base: Text<190> = Text::of(format_args!("{}", LinkName(name)));
    let base = base.as_str();
    // A name with a colon says whose it is.
    if trust == Trust::Local || trust == Trust::Foreign && base.contains(':') {
        let name = Text::of(format_args!("{base}"));
        if !is_taken(base) {
            return name;
        }
    }
    let counts_at_once = trust == Trust::Format && !base.ends_with(|c: char| c.is_ascii_digit());
    let between = if counts_at_once { "" } else { "_" };
    let mut number: u32 = 0;
    loop {
        let name: Text<200> = Text::of(format_args!("{base}{between}{number}"));
        // There are never as many arrays.
        if number == u32::MAX || !is_taken(name.as_str()) {
            return name;
        }
        number += 1;
    }
}

/// What an array is to be called.
#[derive(Clone, Debug)]
pub struct Choice {
    /// The link by which it is found, or the node where it is to have none: `/dev/md/sys`, `/dev/md5`.
    pub path: Text<200>,
    /// The N of `mdN`, if it is free.
    pub number: Option<u32>,
}

impl Choice {
    /// A link of that name. One that is a number by itself (or `md5`) asks for that array.
    #[must_use]
    pub fn linked(name: &str, trust: Trust) -> Self {
        let number = name.strip_prefix("md").unwrap_or(name);
        Self {
            path: Text::of(format_args!("/dev/md/{name}")),
            number: number.parse().ok().filter(|_| trust == Trust::Local),
        }
    }

    /// The device that an ARRAY line names: `/dev/md/NAME`, `NAME`, `/dev/md5`. Others are none to mdadm.
    #[must_use]
    pub fn listed(device: &str) -> Option<Self> {
        let name = device.strip_prefix("/dev/md/").unwrap_or(device);
        let kernel = name.strip_prefix("/dev/md");
        let number = kernel.unwrap_or(name);
        let number = number
            .strip_prefix(if kernel.is_some() { "_d" } else { "d" })
            .unwrap_or(number);
        let number = number.parse().ok();
        match kernel {
            Some(_) if number.is_none() => return None,
            None if name.is_empty() || name.contains('/') => return None,
            _ => {}
        }
        let path = match device.starts_with('/') {
            true => Text::of(format_args!("{device}")),
            false => Text::of(format_args!("/dev/md/{name}")),
        };
        Some(Self { path, number })
    }
}

/// True if two names mean one array: `/dev/md/5`, `/dev/md5`, `md5` and `5` do.
#[must_use]
pub fn mean_the_same(one: &str, other: &str) -> bool {
    fn bare(name: &str) -> &str {
        let name = name
            .strip_prefix("/dev/md/")
            .or_else(|| name.strip_prefix("/dev/"))
            .unwrap_or(name);
        name.strip_prefix("md")
            .filter(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
            .unwrap_or(name)
    }
    bare(one) == bare(other)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn links_are_named_as_mdadm_names_them() {
        assert_eq!(LinkName(b"RAID Volume/1").to_string(), "RAID_Volume-1");
        assert_eq!(LinkName(b"/ a\xc3\xa9\t\x1b").to_string(), "-_a\u{e9}_?");
        assert_eq!(LinkName(b"").to_string(), "");
        assert_eq!(PartitionName(b"vol5", 1).to_string(), "vol5p1");
        assert_eq!(PartitionName(b"sys", 2).to_string(), "sys2");
    }

    #[test]
    fn a_name_is_never_given_twice() {
        let cases: [(&str, Trust, &[&str], &str); 9] = [
            ("sys", Trust::Local, &[], "sys"),
            ("sys", Trust::Local, &["sys"], "sys_0"),
            ("sys", Trust::Local, &["sys", "sys_0", "sys_1"], "sys_2"),
            ("sys", Trust::Foreign, &[], "sys_0"),
            ("a b", Trust::Foreign, &["a_b_0"], "a_b_1"),
            ("host:a", Trust::Foreign, &[], "host:a"),
            ("imsm", Trust::Format, &[], "imsm0"),
            ("imsm", Trust::Format, &["imsm0"], "imsm1"),
            ("raid5", Trust::Format, &[], "raid5_0"),
        ];
        for (name, trust, taken, want) in cases {
            let got = link_name(name.as_bytes(), trust, &mut |name| taken.contains(&name));
            assert_eq!(got.as_str(), want);
        }
    }

    #[test]
    fn devices_of_array_lines() {
        type Want = Option<(&'static str, Option<u32>)>;
        let cases: [(&str, Want); 11] = [
            ("/dev/md/sys", Some(("/dev/md/sys", None))),
            ("sys", Some(("/dev/md/sys", None))),
            ("/dev/md5", Some(("/dev/md5", Some(5)))),
            ("/dev/md_d5", Some(("/dev/md_d5", Some(5)))),
            ("/dev/md/5", Some(("/dev/md/5", Some(5)))),
            ("/dev/md/d5", Some(("/dev/md/d5", Some(5)))),
            ("/dev/md_home", None),
            ("/dev/sda", None),
            ("/dev/md/", None),
            ("/dev/md/a/b", None),
            ("", None),
        ];
        for (device, want) in cases {
            let got = Choice::listed(device);
            let got = got.as_ref().map(|got| (got.path.as_str(), got.number));
            assert_eq!(got, want, "{device}");
        }
        assert_eq!(Choice::linked("md7", Trust::Local).number, Some(7));
        assert_eq!(Choice::linked("7", Trust::Foreign).number, None);
        assert!(mean_the_same("/dev/md/5", "md5") && mean_the_same("5", "/dev/md5"));
        assert!(mean_the_same("sys", "/dev/md/sys") && !mean_the_same("mdx", "x"));
    }
}
