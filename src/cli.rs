//! Command line → what is to be done. What can be given, and the help, stands in [`table`].

pub mod table;

pub use table::help;

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

use lexopt::{Arg, Parser};

use crate::assemble::Ask;
use crate::examine::Subject;
use crate::exitrd;
use crate::imsm::Serial;
use crate::options::{OptionError, Options, Stage, TABLE};
use crate::quiesce::Name;
use crate::remove;
use crate::shutdown::Part;
use crate::text::{Printable, Text};

/// The most controllers that can be named; more are `--all`.
pub const NAMES: usize = 1024;

/// A command.
// Read once; boxing names would save nothing.
#[allow(clippy::large_enum_variant)]
#[derive(Debug)]
pub enum Command {
    /// `--help`
    Help,
    /// `--version`
    Version,
    /// `quiesce`
    Quiesce {
        /// The controllers; none with `all`.
        names: heapless::Vec<Name, NAMES>,
        /// `--all`
        all: bool,
    },
    /// `shutdown VERB`; the verb as it was given, perhaps empty.
    Shutdown {
        /// As given: what it means is the stage's affair.
        verb: Text<32>,
        /// `--step` and `--final`
        part: Part,
    },
    /// `exitrd --install`, `exitrd --wanted`
    Exitrd(exitrd::Ask),
    /// `assemble`
    Assemble(Ask),
    /// `teardown`
    Teardown {
        /// The arrays; none with `all`.
        names: Vec<String>,
        /// `--all`
        all: bool,
    },
    /// `remove CONTAINER DISK...`
    Remove(remove::Ask),
    /// `status`
    Status,
    /// `examine DEV...`
    Examine(Vec<Subject>),
}

/// What stands on a command line.
#[derive(Debug)]
pub struct Invocation {
    /// What is to be done.
    pub command: Command,
    /// `--root DIR`
    pub root: Option<OsString>,
    /// `--stage=S`, or what argv\[0\] says.
    pub stage: Option<Stage>,
    /// The stage is what argv\[0\] says: whoever runs the hook's file may be a person all the same.
    pub by_name: bool,
    /// `--dry-run`
    pub dry_run: bool,
    /// `--json`
    pub json: bool,
    /// `--<option>=VALUE`, to be put over the kernel command line's.
    flags: Vec<(String, Option<String>)>,
}

/// Why a command line is refused, in one line.
#[derive(Debug)]
pub struct Usage(pub String);

impl From<lexopt::Error> for Usage {
    fn from(error: lexopt::Error) -> Self {
        Self(error.to_string())
    }
}

impl Invocation {
    /// Puts the flags over `options`, which come from the kernel command line.
    pub fn over(&self, mut options: Options) -> Options {
        for (name, value) in &self.flags {
            // Each was tried when it was read.
            let _ = options.set(name, value.as_deref());
        }
        options
    }
}

/// Whether argv\[0\] is a hook's name in systemd's folder: `/usr/lib/systemd/system-shutdown/quell.shutdown`.
fn is_drop_in(argv0: &OsStr) -> bool {
    let path = argv0.as_bytes();
    path.ends_with(b"/quell.shutdown") || path.windows(17).any(|part| part == b"/system-shutdown/")
}

/// The verb, where argv is what systemd-shutdown gives its exitrd (its src/shutdown/shutdown.c): its own, but for the name.
pub fn of_exitrd(argv: &[OsString]) -> Option<String> {
    let (name, rest) = argv.split_first()?;
    let verb = rest.first().map(|verb| verb_of(verb));
    (name == "/shutdown").then(|| verb.unwrap_or_default().as_str().to_owned())
}

/// Reads argv.
pub fn parse(argv: impl IntoIterator<Item = OsString>) -> Result<Invocation, Usage> {
    let mut argv = argv.into_iter();
    let argv0 = argv.next().unwrap_or_default();
    if is_drop_in(&argv0) {
        // systemd gives the verb and nothing else; 262 gives an empty one.
        let verb = argv.next().unwrap_or_default();
        if verb.as_bytes().starts_with(b"-") {
            return Err(Usage(format!(
                "{}: a hook takes a verb and no options",
                Printable(verb.as_bytes())
            )));
        }
        return Ok(Invocation {
            command: Command::Shutdown {
                verb: verb_of(&verb),
                part: Part::All,
            },
            root: None,
            stage: Some(Stage::SystemdShutdown),
            by_name: true,
            dry_run: false,
            json: false,
            flags: Vec::new(),
        });
    }
    let mut parser = Parser::from_args(argv);
    let mut words: Vec<OsString> = Vec::new();
    let mut own = Own::default();
    let (mut root, mut stage, mut dry_run, mut json) = (None, None, false, false);
    let (mut help, mut version) = (false, false);
    let mut flags: Vec<(String, Option<String>)> = Vec::new();
    while let Some(arg) = parser.next()? {
        match arg {
            Arg::Long("help") | Arg::Short('h') => help = true,
            Arg::Long("version") | Arg::Short('V') => version = true,
            Arg::Long("root") => root = Some(parser.value()?),
            Arg::Long("stage") => {
                let value = parser.value()?;
                let found = value.to_str().and_then(Stage::parse);
                stage = Some(found.ok_or_else(|| {
                    Usage(format!(
                        "--stage={}: no such stage (initrd, systemd-shutdown, exitrd, person)",
                        Printable(value.as_bytes())
                    ))
                })?);
            }
            Arg::Long("serial") => {
                let value = parser.value()?;
                let serial = Serial::of_device(value.as_bytes());
                let serial = serial.ok_or_else(|| Usage("--serial=: no serial".into()))?;
                own.serials.push(serial);
            }
            Arg::Long("step") => own.step = Some(parser.value()?),
            Arg::Long("all") => own.all = true,
            Arg::Long("readonly") => own.readonly = true,
            Arg::Long("wanted") => own.wanted = true,
            Arg::Long("final") => own.last = true,
            Arg::Long("install") => own.install = true,
            Arg::Long("force") => own.force = true,
            Arg::Long("dry-run") => dry_run = true,
            Arg::Long("json") => json = true,
            Arg::Long(name) => {
                let name = name.to_owned();
                let value = parser.optional_value();
                flags.push(flag(&name, value.as_deref())?);
            }
            Arg::Short(c) => return Err(Usage(format!("-{c}: no such option (see --help)"))),
            Arg::Value(word) => words.push(word),
        }
    }
    let command = if help {
        Command::Help
    } else if version {
        Command::Version
    } else {
        command(&words, &own)?
    };
    Ok(Invocation {
        command,
        root,
        stage,
        by_name: false,
        dry_run,
        json,
        flags,
    })
}

/// A `--<option>=VALUE`, tried on a copy: what is wrong is said before anything is touched.
fn flag(name: &str, value: Option<&OsStr>) -> Result<(String, Option<String>), Usage> {
    let works = TABLE
        .iter()
        .any(|row| row.works && row.name == name.replace('_', "-"));
    if !works {
        return Err(Usage(format!(
            "--{}: no such option (see --help)",
            Printable(name.as_bytes())
        )));
    }
    let value = match value {
        None => None,
        Some(text) => Some(text.to_str().ok_or_else(|| {
            Usage(format!(
                "--{name}={}: not UTF-8",
                Printable(text.as_bytes())
            ))
        })?),
    };
    let mut tried = Options::DEFAULT;
    let refused = |error: OptionError| Usage(format!("--{error}"));
    tried.set(name, value).map_err(refused)?;
    Ok((name.to_owned(), value.map(str::to_owned)))
}

/// Flags that belong to some commands and not to others.
#[derive(Default)]
struct Own {
    all: bool,
    readonly: bool,
    wanted: bool,
    last: bool,
    install: bool,
    force: bool,
    step: Option<OsString>,
    serials: Vec<Serial>,
}

impl Own {
    /// Refuses those that are not this command's.
    fn check(&self, command: &OsStr) -> Result<(), Usage> {
        for (flag, given) in [
            ("all", self.all),
            ("readonly", self.readonly),
            ("wanted", self.wanted),
            ("final", self.last),
            ("install", self.install),
            ("force", self.force),
            ("step", self.step.is_some()),
            ("serial", !self.serials.is_empty()),
        ] {
            owned(command, flag, given)?;
        }
        Ok(())
    }

    /// What `exitrd` is asked for.
    fn exitrd(&self) -> Result<exitrd::Ask, Usage> {
        match (self.install, self.wanted) {
            (true, false) => Ok(exitrd::Ask::Install {
                force: self.force,
                last: self.last,
            }),
            (false, true) if !self.force && !self.last => Ok(exitrd::Ask::Wanted),
            _ => Err(Usage("exitrd: either --install or --wanted".into())),
        }
    }

    /// Which half of a shutdown.
    fn part(&self) -> Result<Part, Usage> {
        let last = self.last;
        match self.step.as_deref().map(OsStr::as_bytes) {
            None if last => Err(Usage("--final goes with --step".into())),
            None => Ok(Part::All),
            Some(b"arrays") => Ok(Part::Arrays { last }),
            Some(b"controllers") => Ok(Part::Controllers { last }),
            Some(other) => Err(Usage(format!(
                "--step={}: no such step (arrays, controllers)",
                Printable(other)
            ))),
        }
    }
}

fn command(words: &[OsString], own: &Own) -> Result<Command, Usage> {
    let Some((first, rest)) = words.split_first() else {
        return Err(Usage("no command given (see --help)".into()));
    };
    own.check(first)?;
    let all = own.all;
    match first.as_bytes() {
        b"quiesce" => {
            let mut names = heapless::Vec::new();
            for word in rest {
                let name = Name::parse(word.as_bytes()).ok_or_else(|| {
                    Usage(format!(
                        "{}: not a controller (nvme3, /dev/nvme3 or a PCI address such as 0000:05:00.0)",
                        Printable(word.as_bytes())
                    ))
                })?;
                names.push(name).map_err(|_| {
                    Usage(format!(
                        "more than {NAMES} controllers are named: --all is meant"
                    ))
                })?;
            }
            if all && !names.is_empty() {
                return Err(Usage(
                    "either controllers are named or --all is given".into(),
                ));
            }
            Ok(Command::Quiesce { names, all })
        }
        b"shutdown" => match rest {
            [verb] => Ok(Command::Shutdown {
                verb: verb_of(verb),
                part: own.part()?,
            }),
            [] => Err(Usage(
                "shutdown: no verb given (reboot, poweroff, halt, kexec)".into(),
            )),
            [_, more, ..] => Err(Usage(format!(
                "shutdown: one verb, and not {}",
                Printable(more.as_bytes())
            ))),
        },
        b"status" => match rest.first() {
            None => Ok(Command::Status),
            Some(word) => Err(Usage(format!(
                "status: {} is one word too many",
                Printable(word.as_bytes())
            ))),
        },
        b"assemble" => Ok(Command::Assemble(Ask {
            devices: paths("assemble", rest)?,
            readonly: own.readonly,
            wanted: own.wanted,
        })),
        b"teardown" if all && !rest.is_empty() => {
            Err(Usage("either arrays are named or --all is given".into()))
        }
        b"teardown" => Ok(Command::Teardown {
            names: paths("teardown", rest)?,
            all,
        }),
        b"remove" => match rest {
            [container, disks @ ..] if !disks.is_empty() => Ok(Command::Remove(remove::Ask {
                container: paths("remove", core::slice::from_ref(container))?.remove(0),
                disks: paths("remove", disks)?,
            })),
            _ => Err(Usage("remove: which disks of which container?".into())),
        },
        b"examine" => Ok(Command::Examine(subjects(rest, &own.serials)?)),
        b"exitrd" => match rest.first() {
            Some(word) => Err(Usage(format!(
                "exitrd: {} is one word too many",
                Printable(word.as_bytes())
            ))),
            None => Ok(Command::Exitrd(own.exitrd()?)),
        },
        other => Err(Usage(format!(
            "{}: no such command (see --help)",
            Printable(other)
        ))),
    }
}

/// Refuses a flag that was given with somebody else's command.
fn owned(command: &OsStr, flag: &str, given: bool) -> Result<(), Usage> {
    let mut owners = String::new();
    for row in table::commands().filter(|row| given && row.takes(flag)) {
        if row.name.as_bytes() == command.as_bytes() {
            return Ok(());
        }
        owners += if owners.is_empty() { "" } else { " and " };
        owners += row.name;
    }
    match given {
        true => Err(Usage(format!("--{flag} belongs to {owners}"))),
        false => Ok(()),
    }
}

/// What `examine` is to look at: the first serial is the first DEV's, and so on.
fn subjects(words: &[OsString], serials: &[Serial]) -> Result<Vec<Subject>, Usage> {
    if words.is_empty() {
        return Err(Usage("examine: which disks or files? Name them".into()));
    }
    if serials.len() > words.len() {
        return Err(Usage("examine: more serials than disks or files".into()));
    }
    let serials = serials.iter().copied().map(Some);
    let paths = paths("examine", words)?.into_iter();
    Ok(paths
        .zip(serials.chain(core::iter::repeat(None)))
        .map(|(path, serial)| Subject { path, serial })
        .collect())
}

/// The disks or files that a command is given, each once, and fit to be shown in a line.
fn paths(command: &str, words: &[OsString]) -> Result<Vec<String>, Usage> {
    let mut paths: Vec<String> = Vec::new();
    for word in words {
        let shown = Printable(word.as_bytes());
        let path = word
            .to_str()
            .ok_or_else(|| Usage(format!("{command}: {shown} is not UTF-8")))?;
        if path.contains(char::is_control) {
            return Err(Usage(format!(
                "{command}: {shown} has control characters in it"
            )));
        }
        if paths.iter().any(|other| other == path) {
            return Err(Usage(format!("{command}: {shown} is named twice")));
        }
        paths.push(path.to_owned());
    }
    Ok(paths)
}

fn verb_of(word: &OsStr) -> Text<32> {
    Text::of(format_args!("{}", Printable(word.as_bytes())))
}
