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

use core::fmt::{self, Write as _};

use crate::capability::{Class, same_name};

pub use crate::capability::Quiesce;

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

/// `quell.assemble`. Which arrays are listed is read where they are assembled; here the value is only checked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Assemble {
    /// What mdadm would take.
    #[default]
    Auto,
    /// Nothing.
    Off,
    /// UUIDs or names, by commas.
    Listed,
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
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
            let (rd, name) = match (strip(param, b"rd.quell."), strip(param, b"quell.")) {
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
            let mut scratch = options;
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
                    _ if listed(word) => Assemble::Listed,
                    _ => return Err(bad()),
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

/// Which field a row sets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Key {
    Enable,
    Jobs,
    Width,
    Timeout,
    LastResort,
    Quiesce,
    Fabrics,
    Assemble,
    Degraded,
    Teardown,
    Log,
}

/// One option, as `--help`, the README and the manual page show it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    key: Key,
    /// The name after `quell.` or `--`, with dashes.
    pub name: &'static str,
    /// What may be given.
    pub values: &'static str,
    /// What holds where nothing is given.
    pub default: &'static str,
    /// What it does, in one line.
    pub meaning: &'static str,
    /// Whether a command of this version acts on it. The others are read and checked, so that one command line fits
    /// several versions, but not shown.
    pub works: bool,
}

/// Every option, in the order in which they are shown.
pub const TABLE: &[Row] = &[
    Row {
        key: Key::Enable,
        name: "enable",
        values: "1, 0",
        default: "1",
        meaning: "0: do nothing at all, and succeed",
        works: true,
    },
    Row {
        key: Key::Jobs,
        name: "jobs",
        values: "auto, 1 to 1024",
        default: "auto",
        meaning: "workers in all; auto: one for each controller, at most 64",
        works: true,
    },
    Row {
        key: Key::Width,
        name: "width",
        values: "CLASS:N[,CLASS:N...], CLASS nvme, nvme-tcp, nvme-rdma, nvme-fc or nvme-loop, N 1 to 1024",
        default: "nvme:64, all others 16",
        meaning: "how many controllers of one class are done at once",
        works: true,
    },
    Row {
        key: Key::Timeout,
        name: "timeout",
        values: "seconds, 1 to 86400",
        default: "40 in systemd-shutdown, 60 in the exitrd, 130 else",
        meaning: "the one deadline of every acting command",
        works: true,
    },
    Row {
        key: Key::LastResort,
        name: "lastresort",
        values: "seconds, 0 to 86400",
        default: "180",
        meaning: "reset the machine this long after a controller had to be abandoned and the reboot still stands; 0: never",
        works: true,
    },
    Row {
        key: Key::Quiesce,
        name: "quiesce",
        values: "auto, always, off",
        default: "auto",
        meaning: "shut controllers down: where it wins time, always, never",
        works: true,
    },
    Row {
        key: Key::Fabrics,
        name: "fabrics",
        values: "leave, delete",
        default: "leave",
        meaning: "what to do with controllers over tcp, rdma, fc and loop",
        works: true,
    },
    Row {
        key: Key::Assemble,
        name: "assemble",
        values: "auto, off, or UUIDs or names by commas",
        default: "auto",
        meaning: "which IMSM containers are assembled",
        works: false,
    },
    Row {
        key: Key::Degraded,
        name: "degraded",
        values: "seconds, 0 to 86400, never",
        default: "set by the initramfs",
        meaning: "from the first member seen until a degraded volume is started",
        works: false,
    },
    Row {
        key: Key::Teardown,
        name: "teardown",
        values: "1, 0",
        default: "1",
        meaning: "stop arrays before the controllers are shut down",
        works: false,
    },
    Row {
        key: Key::Log,
        name: "log",
        values: "error, warn, info, debug, trace",
        default: "info",
        meaning: "the least important messages that are still written",
        works: true,
    },
];

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

/// UUIDs or names by commas: no empty piece, nothing but visible characters.
fn listed(word: &str) -> bool {
    word.split(',').all(|piece| {
        !piece.is_empty() && piece.chars().all(|c| !c.is_control() && !c.is_whitespace())
    })
}

fn strip<'a>(param: &'a [u8], prefix: &[u8]) -> Option<&'a [u8]> {
    param.strip_prefix(prefix)
}

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

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
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
    fn new(row: Option<&'static Row>, fault: Fault, found: &[u8]) -> Self {
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
    rd: bool,
    error: OptionError,
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

/// The kernel's `isspace`: ASCII white space, and 0xa0, which its table (`lib/ctype.c`) counts as Latin-1's blank.
const fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t'..=b'\r' | 0xa0)
}

/// The words of a kernel command line as `(parameter, value)`, cut as `next_arg` in `lib/cmdline.c` does it; ends at a
/// bare `--` and, as a C string does, at a NUL.
struct Words<'a> {
    rest: &'a [u8],
}

impl<'a> Words<'a> {
    fn new(line: &'a [u8]) -> Self {
        Self {
            rest: line.split(|b| *b == 0).next().unwrap_or_default(),
        }
    }
}

impl<'a> Iterator for Words<'a> {
    type Item = (&'a [u8], Option<&'a [u8]>);

    fn next(&mut self) -> Option<Self::Item> {
        let start = self.rest.iter().position(|b| !is_space(*b))?;
        let (_, args) = self.rest.split_at_checked(start)?;
        let (quoted, args) = match args.strip_prefix(b"\"") {
            Some(args) => (true, args),
            None => (false, args),
        };
        let mut in_quote = quoted;
        let mut equals = None;
        let mut end = args.len();
        for (i, byte) in args.iter().enumerate() {
            match byte {
                b if is_space(*b) && !in_quote => {
                    end = i;
                    break;
                }
                // The kernel keeps the position in an int that starts at 0: a first byte '=' does not count.
                b'=' if equals.is_none() && i > 0 => equals = Some(i),
                b'"' => in_quote = !in_quote,
                _ => {}
            }
        }
        let (word, rest) = args.split_at_checked(end)?;
        self.rest = rest;
        let (param, value) = match equals.and_then(|at| word.split_at_checked(at)) {
            Some((param, value)) => (param, Some(value.strip_prefix(b"=").unwrap_or(value))),
            None => (word, None),
        };
        let unquote = |text: &'a [u8]| text.strip_suffix(b"\"").unwrap_or(text);
        let (param, value) = match value {
            Some(value) => match value.strip_prefix(b"\"") {
                Some(inner) => (param, Some(unquote(inner))),
                None if quoted => (param, Some(unquote(value))),
                None => (param, Some(value)),
            },
            None if quoted => (unquote(param), None),
            None => (param, None),
        };
        if value.is_none() && param == b"--" {
            self.rest = &[];
            return None;
        }
        Some((param, value))
    }
}
