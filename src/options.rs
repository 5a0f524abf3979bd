//! Kernel command line and flags → [`Options`]. Pure: bytes in, a value out.
//!
//! `quell.<name>=` is read in every stage; `rd.quell.<name>=` means the same, but is read in the stages initrd and
//! exitrd only, and goes before `quell.<name>=` there, whatever the order. Among equals the last one wins. `-` and `_`
//! are the same in names. A word that is not understood costs one warning; a bad value is the default, also where an
//! earlier word was good (the last one wins). As a flag, `--<name>=VALUE`, the same word is an error.
//!
//! Words are cut as the kernel cuts them (`next_arg` in `lib/cmdline.c`), so quell and the kernel agree about what
//! stands there: white space separates except within double quotes, quotes around a whole value or a whole word go
//! away, and what follows a bare `--` is init's.
//!
//! What dracut's and mdadm's words on the same line say about assembly is [`Foreign`].

mod error;
mod foreign;
mod list;
mod table;
#[cfg(test)]
mod tests;
mod words;

use core::fmt;

use crate::capability::{Class, same_name};
use error::Fault;
use table::Key;
use words::Words;

pub use crate::capability::Quiesce;
pub use error::{OptionError, SHOWN_MAX, Warning};
pub use foreign::Foreign;
pub use list::{LIST_MAX, List};
pub use table::{Row, TABLE};

/// Where quell runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// In the initramfs, before root is mounted.
    Initrd,
    /// As a hook of systemd-shutdown, root still mounted.
    SystemdShutdown,
    /// In the exitrd, after the old root is gone.
    Exitrd,
    /// In a person's shell.
    Person,
}

impl Stage {
    /// Every stage.
    pub const ALL: [Self; 4] = [
        Self::Initrd,
        Self::SystemdShutdown,
        Self::Exitrd,
        Self::Person,
    ];

    /// The word of `--stage=`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Initrd => "initrd",
            Self::SystemdShutdown => "systemd-shutdown",
            Self::Exitrd => "exitrd",
            Self::Person => "person",
        }
    }

    /// Reads the word of `--stage=`; `None` if there is no such stage.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|stage| stage.name() == name)
    }

    /// The one deadline of an acting command, in seconds, where `quell.timeout` is not given. systemd-shutdown: 40,
    /// as Fedora cuts its hooks off at 45 s.
    #[must_use]
    pub const fn default_timeout_s(self) -> u32 {
        match self {
            Self::SystemdShutdown => 40,
            Self::Exitrd => 60,
            Self::Initrd | Self::Person => 130,
        }
    }

    /// Whether a script calls, not a person.
    #[must_use]
    pub const fn is_hook(self) -> bool {
        !matches!(self, Self::Person)
    }

    /// Whether `rd.quell.` is read, and goes first.
    const fn prefers_rd(self) -> bool {
        matches!(self, Self::Initrd | Self::Exitrd)
    }
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// `quell.jobs`: workers in all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Jobs {
    /// One for each piece of work, at most [`JOBS_AUTO_MAX`].
    #[default]
    Auto,
    /// So many, 1..=1024, and no more than there is work.
    N(u16),
}

/// `quell.assemble`.
// Options are read once and handed down by reference; a box would be the only thing that allocates.
#[allow(clippy::large_enum_variant)]
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Assemble {
    /// What mdadm would take.
    #[default]
    Auto,
    /// Nothing.
    Off,
    /// These and no others.
    Listed(List),
}

/// `quell.degraded`: how long a volume with missing members is waited for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Degraded {
    /// Not given: the caller's own default.
    #[default]
    Default,
    /// It is never started.
    Never,
    /// So many seconds after its first member was seen; 0 is at once.
    After(u32),
}

/// `quell.jobs=auto` never goes above this.
pub const JOBS_AUTO_MAX: usize = 64;

/// The greatest `quell.jobs` and the greatest width of a class.
pub const JOBS_MAX: u16 = 1_024;

/// The greatest number of seconds anywhere: a day.
pub const SECONDS_MAX: u32 = 86_400;

/// Everything that can be set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// `quell.enable`: false is do nothing at all.
    pub enable: bool,
    /// `quell.jobs`: see [`Options::jobs_total`].
    pub jobs: Jobs,
    /// `quell.width`, by [`Class::index`], 1..=1024 each: see [`Options::width_of`].
    pub width: [Option<u16>; Class::COUNT],
    /// `quell.timeout` in seconds, 1..=86400: see [`Options::timeout_s`].
    pub timeout_s: Option<u32>,
    /// `quell.lastresort` in seconds, 0..=86400; 0 is never.
    pub lastresort_s: u32,
    /// `quell.quiesce`
    pub quiesce: Quiesce,
    /// `quell.fabrics=delete`
    pub fabrics_delete: bool,
    /// `quell.assemble`
    pub assemble: Assemble,
    /// `quell.degraded`
    pub degraded: Degraded,
    /// `quell.teardown`
    pub teardown: bool,
    /// `quell.log`, error to trace.
    pub log: log::LevelFilter,
}

impl Default for Options {
    fn default() -> Self {
        Self::DEFAULT
    }
}

impl Options {
    /// What holds where nothing is said.
    pub const DEFAULT: Self = Self {
        enable: true,
        jobs: Jobs::Auto,
        width: [None; Class::COUNT],
        timeout_s: None,
        lastresort_s: 180,
        quiesce: Quiesce::Auto,
        fabrics_delete: false,
        assemble: Assemble::Auto,
        degraded: Degraded::Default,
        teardown: true,
        log: log::LevelFilter::Info,
    };

    /// Reads the kernel command line (the bytes of `/proc/cmdline`, any bytes at all). Each word of quell's that is not
    /// understood is given to `warn` once.
    pub fn from_cmdline(line: &[u8], stage: Stage, warn: &mut dyn FnMut(Warning)) -> Self {
        let mut options = Self::DEFAULT;
        let mut rd_seen = [false; TABLE.len()];
        for (param, value) in Words::new(line) {
            let (rd, name) = match (
                param.strip_prefix(b"rd.quell."),
                param.strip_prefix(b"quell."),
            ) {
                // rd. is not for this stage: the stage it is for will read it, and warn.
                (Some(_), _) if !stage.prefers_rd() => continue,
                (Some(name), _) => (true, name),
                (None, Some(name)) => (false, name),
                (None, None) => continue,
            };
            let Some(at) = TABLE
                .iter()
                .position(|row| same_name(row.name.as_bytes(), name))
            else {
                warn(Warning {
                    rd,
                    error: OptionError::new(None, Fault::Unknown, name),
                });
                continue;
            };
            let Some((row, rd_seen)) = TABLE.get(at).zip(rd_seen.get_mut(at)) else {
                continue;
            };
            let shadowed = *rd_seen && !rd;
            *rd_seen |= rd;
            // A word that does not count is still read: a typo is worth a line wherever it stands.
            let mut scratch = options.clone();
            let target = if shadowed { &mut scratch } else { &mut options };
            if let Err(error) = target.apply(row, value) {
                target.reset(row.key);
                warn(Warning { rd, error });
            }
        }
        options
    }

    /// Sets one option as a flag does: `--name=value`, or `--name` alone (`None`), which is true for a boolean and 0
    /// for `degraded`.
    ///
    /// # Errors
    /// An unknown name or a value that is not allowed. Nothing is changed then.
    pub fn set(&mut self, name: &str, value: Option<&str>) -> Result<(), OptionError> {
        match TABLE
            .iter()
            .find(|row| same_name(row.name.as_bytes(), name.as_bytes()))
        {
            Some(row) => self.apply(row, value.map(str::as_bytes)),
            None => Err(OptionError::new(None, Fault::Unknown, name.as_bytes())),
        }
    }

    /// Workers in all for so many pieces of work. 0 only for no work.
    #[must_use]
    pub fn jobs_total(&self, work: usize) -> usize {
        match self.jobs {
            Jobs::Auto => work.min(JOBS_AUTO_MAX),
            Jobs::N(n) => work.min(usize::from(n)),
        }
    }

    /// How many controllers of a class are done at once.
    #[must_use]
    pub fn width_of(&self, class: Class) -> usize {
        match self.width.get(class.index()) {
            Some(Some(n)) => usize::from(*n),
            _ => class.width(),
        }
    }

    /// The one deadline of an acting command, in seconds.
    #[must_use]
    pub fn timeout_s(&self, stage: Stage) -> u32 {
        self.timeout_s.unwrap_or(stage.default_timeout_s())
    }

    /// Reads one value; changes nothing where it is not allowed.
    fn apply(&mut self, row: &'static Row, value: Option<&[u8]>) -> Result<(), OptionError> {
        let bad = || OptionError::new(Some(row), Fault::Value, value.unwrap_or_default());
        let text = match value {
            Some(bytes) => Some(core::str::from_utf8(bytes).map_err(|_| bad())?),
            None => None,
        };
        let word = match (row.key, text) {
            (Key::Enable | Key::Teardown, None) => "1",
            (Key::Degraded, None) => "0",
            (_, None) => return Err(OptionError::new(Some(row), Fault::Missing, b"")),
            (_, Some(word)) => word,
        };
        match row.key {
            Key::Enable => self.enable = boolean(word).ok_or_else(bad)?,
            Key::Jobs => {
                self.jobs = match word {
                    "auto" => Jobs::Auto,
                    _ => Jobs::N(width(word).ok_or_else(bad)?),
                }
            }
            Key::Width => self.width = widths(word).ok_or_else(bad)?,
            Key::Timeout => {
                self.timeout_s = Some(seconds(word).filter(|s| *s > 0).ok_or_else(bad)?)
            }
            Key::LastResort => self.lastresort_s = seconds(word).ok_or_else(bad)?,
            Key::Quiesce => {
                self.quiesce = match word {
                    "auto" => Quiesce::Auto,
                    "always" => Quiesce::Always,
                    "off" => Quiesce::Off,
                    _ => return Err(bad()),
                }
            }
            Key::Fabrics => {
                self.fabrics_delete = match word {
                    "leave" => false,
                    "delete" => true,
                    _ => return Err(bad()),
                }
            }
            Key::Assemble => {
                self.assemble = match word {
                    "auto" => Assemble::Auto,
                    "off" => Assemble::Off,
                    _ => Assemble::Listed(List::parse(word).ok_or_else(bad)?),
                }
            }
            Key::Degraded => {
                self.degraded = match word {
                    "never" => Degraded::Never,
                    _ => Degraded::After(seconds(word).ok_or_else(bad)?),
                }
            }
            Key::Teardown => self.teardown = boolean(word).ok_or_else(bad)?,
            Key::Log => {
                self.log = match word {
                    "error" => log::LevelFilter::Error,
                    "warn" => log::LevelFilter::Warn,
                    "info" => log::LevelFilter::Info,
                    "debug" => log::LevelFilter::Debug,
                    "trace" => log::LevelFilter::Trace,
                    _ => return Err(bad()),
                }
            }
        }
        Ok(())
    }

    /// Puts one option back to its default.
    fn reset(&mut self, key: Key) {
        let default = Self::DEFAULT;
        match key {
            Key::Enable => self.enable = default.enable,
            Key::Jobs => self.jobs = default.jobs,
            Key::Width => self.width = default.width,
            Key::Timeout => self.timeout_s = default.timeout_s,
            Key::LastResort => self.lastresort_s = default.lastresort_s,
            Key::Quiesce => self.quiesce = default.quiesce,
            Key::Fabrics => self.fabrics_delete = default.fabrics_delete,
            Key::Assemble => self.assemble = default.assemble,
            Key::Degraded => self.degraded = default.degraded,
            Key::Teardown => self.teardown = default.teardown,
            Key::Log => self.log = default.log,
        }
    }
}

/// `0/1/no/yes/off/on/false/true`.
fn boolean(word: &str) -> Option<bool> {
    match word {
        "1" | "yes" | "on" | "true" => Some(true),
        "0" | "no" | "off" | "false" => Some(false),
        _ => None,
    }
}

/// A plain decimal number: no sign, no blanks, no overflow.
fn number(word: &str) -> Option<u32> {
    // u32::from_str takes a leading plus.
    if word.bytes().all(|b| b.is_ascii_digit()) {
        word.parse().ok()
    } else {
        None
    }
}

fn seconds(word: &str) -> Option<u32> {
    number(word).filter(|n| *n <= SECONDS_MAX)
}

fn width(word: &str) -> Option<u16> {
    number(word)
        .and_then(|n| u16::try_from(n).ok())
        .filter(|n| (1..=JOBS_MAX).contains(n))
}

/// `class:n[,class:n...]`: all of it or nothing. A class named twice has its last width.
fn widths(word: &str) -> Option<[Option<u16>; Class::COUNT]> {
    let mut widths = [None; Class::COUNT];
    for piece in word.split(',') {
        let (class, n) = piece.split_once(':')?;
        *widths.get_mut(Class::parse(class)?.index())? = Some(width(n)?);
    }
    Some(widths)
}
