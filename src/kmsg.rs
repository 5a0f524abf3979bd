//! The `log` backend: /dev/kmsg with priorities in the hooks, standard error where a person runs quell.
//!
//! Format and limits: Documentation/ABI/testing/dev-kmsg. One write is one record of at most 1,024 bytes, its prefix
//! included; `<30>` is facility daemon, level info. A console with `printk.devkmsg=ratelimit`, the kernel's default
//! where systemd has not changed it, swallows what is over 10 records in 5 seconds of one open file without a word, so
//! the file is opened anew before that.

use std::sync::Mutex;

use log::{Level, LevelFilter, Log, Metadata, Record};
use rustix::fd::OwnedFd;
use rustix::fs::OFlags;

use crate::sys::{Root, out};
use crate::text::Text;

/// Bytes of one record without its prefix: the kernel's limit is 1,024 with it, older kernels' about 976.
const LINE: usize = 900;
/// Records through one open file: two below the limit of 10, so that a boundary miscounted loses nothing.
const BURST: u8 = 8;

/// Where lines go.
enum Sink {
    /// Nowhere yet.
    Closed,
    /// Standard error.
    Stderr,
    /// /dev/kmsg: the file, and how many more records it may take.
    Kmsg(Option<(OwnedFd, u8)>),
}

struct Logger {
    sink: Mutex<(Sink, Option<&'static Root>)>,
}

static LOGGER: Logger = Logger {
    sink: Mutex::new((Sink::Closed, None)),
};

/// Logs to standard error, as a person wants it.
pub fn to_stderr(level: LevelFilter) {
    start(Sink::Stderr, None, level);
}

/// Logs to /dev/kmsg below `root`. Returns false, and logs to standard error, where it cannot be opened.
pub fn to_kmsg(root: &'static Root, level: LevelFilter) -> bool {
    let file = open(root);
    let opened = file.is_some();
    let sink = if opened {
        Sink::Kmsg(file)
    } else {
        Sink::Stderr
    };
    start(sink, Some(root), level);
    opened
}

/// To be called in a process that was forked off and has closed all its files: the open one is forgotten, not closed, since
/// its number may be another file's by now. The next line opens it anew.
pub fn after_fork() {
    if let Ok(mut state) = LOGGER.sink.lock()
        && let Sink::Kmsg(file) = &mut state.0
    {
        core::mem::forget(file.take());
    }
}

/// Changes how much is logged.
pub fn set_level(level: LevelFilter) {
    log::set_max_level(level);
}

fn start(sink: Sink, root: Option<&'static Root>, level: LevelFilter) {
    if let Ok(mut state) = LOGGER.sink.lock() {
        *state = (sink, root);
    }
    // An error means it is set already, to the same logger.
    let _ = log::set_logger(&LOGGER);
    log::set_max_level(level);
}

fn open(root: &Root) -> Option<(OwnedFd, u8)> {
    let fd = root
        .open("/dev/kmsg", OFlags::WRONLY | OFlags::APPEND)
        .ok()?;
    Some((fd, BURST))
}

/// Facility daemon (3), as systemd and dracut use it, and the level.
fn priority(level: Level) -> u8 {
    3 * 8
        + match level {
            Level::Error => 3,
            Level::Warn => 4,
            Level::Info => 6,
            Level::Debug | Level::Trace => 7,
        }
}

impl Log for Logger {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.level() <= log::max_level()
    }

    fn log(&self, record: &Record<'_>) {
        if !self.enabled(record.metadata()) {
            return;
        }
        let Ok(mut state) = self.sink.lock() else {
            return;
        };
        let (sink, root) = &mut *state;
        match sink {
            Sink::Closed => {}
            Sink::Stderr => {
                let mut line = Text::<{ LINE + 16 }>::of(format_args!("quell: {}", record.args()));
                line.add(format_args!("\n"));
                out::write(rustix::stdio::stderr(), line.as_str().as_bytes());
            }
            Sink::Kmsg(file) => {
                let prefix = priority(record.level());
                let line =
                    Text::<{ LINE + 16 }>::of(format_args!("<{prefix}>quell: {}", record.args()));
                if file.as_ref().is_none_or(|(_, left)| *left == 0) {
                    // Closed first: two open files would not help, but cost one.
                    *file = None;
                    *file = root.and_then(open);
                }
                if let Some((fd, left)) = file {
                    *left -= 1;
                    // There is no one left to tell that the log cannot be written.
                    let _ = rustix::io::write(fd, line.as_str().as_bytes());
                }
            }
        }
    }

    fn flush(&self) {}
}
