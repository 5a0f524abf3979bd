//! What is said about a word that was not understood.

use core::fmt::{self, Write as _};

use super::table::{Row, TABLE};

/// How many bytes of a name or value found are shown in a message.
pub const SHOWN_MAX: usize = 48;

/// A piece of the world's text, made fit for a log line: bounded, one line, printable.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Shown(heapless::String<{ SHOWN_MAX + 3 }>);

impl Shown {
    fn new(bytes: &[u8]) -> Self {
        let mut shown = heapless::String::new();
        for chunk in bytes.utf8_chunks() {
            let broken = if chunk.invalid().is_empty() {
                None
            } else {
                Some('?')
            };
            for c in chunk.valid().chars().chain(broken) {
                let c = if c.is_control() { '?' } else { c };
                let cut = shown.len() + c.len_utf8() > SHOWN_MAX;
                // The string has room for one more "...": neither write can fail.
                let _ = if cut {
                    shown.push_str("...")
                } else {
                    shown.push(c)
                };
                if cut {
                    return Self(shown);
                }
            }
        }
        Self(shown)
    }
}

/// What is wrong with a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    Unknown,
    Value,
    Missing,
}

/// An option that was not understood. Its `Display` starts with the option's name, so that `--` or `quell.` goes before
/// it: `jobs: bad value "x" (allowed: auto, 1 to 1024)`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OptionError {
    row: Option<&'static Row>,
    fault: Fault,
    found: Shown,
}

impl OptionError {
    pub(super) fn new(row: Option<&'static Row>, fault: Fault, found: &[u8]) -> Self {
        Self {
            row,
            fault,
            found: Shown::new(found),
        }
    }

    /// Whether there is no such option (else its value is at fault).
    #[must_use]
    pub const fn is_unknown(&self) -> bool {
        self.row.is_none()
    }
}

impl fmt::Display for OptionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(row) = self.row else {
            write!(f, "{}: unknown option (known:", self.found.0)?;
            for (i, row) in TABLE.iter().filter(|row| row.works).enumerate() {
                write!(f, "{} {}", if i == 0 { "" } else { "," }, row.name)?;
            }
            return f.write_char(')');
        };
        write!(f, "{}: ", row.name)?;
        match self.fault {
            Fault::Missing => f.write_str("needs a value")?,
            Fault::Unknown | Fault::Value => write!(f, "bad value \"{}\"", self.found.0)?,
        }
        write!(f, " (allowed: {})", row.values)
    }
}

impl core::error::Error for OptionError {}

/// A word of the kernel command line that was not understood. Its `Display` is one whole line:
/// `quell.jobs: bad value "x" (allowed: auto, 1 to 1024); taking the default, auto`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Warning {
    pub(super) rd: bool,
    pub(super) error: OptionError,
}

impl Warning {
    /// What was wrong with it.
    #[must_use]
    pub const fn error(&self) -> &OptionError {
        &self.error
    }
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}quell.{}; ",
            if self.rd { "rd." } else { "" },
            self.error
        )?;
        match self.error.row {
            None => f.write_str("ignored"),
            Some(row) => write!(f, "taking the default, {}", row.default),
        }
    }
}
