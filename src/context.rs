//! What every command is given, and what it gives back.

use crate::deadline::Deadline;
use crate::options::{Options, Stage};
use crate::sys::Root;
use crate::sys::proc::Signals;

/// What a command came to, as an exit status. Of several the one that matters most to a caller counts: see [`Exit::and`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Exit {
    /// All done, or nothing to do.
    #[default]
    Done = 0,
    /// Something was left undone or refused; the lines say what.
    Undone = 1,
    /// The command was not understood; nothing was touched.
    Usage = 2,
    /// A mechanism or privilege is missing.
    Missing = 3,
    /// `assemble`: not decided yet, call again.
    Waiting = 4,
    /// `assemble`: decided; the containers whose UUIDs stand in /run/quell/for-mdadm are mdadm's.
    Mdadm = 5,
}

impl Exit {
    /// Both, as one: 3 beats 1, 5 beats both (there is something for mdadm to do), 4 beats 5 (call again; what is
    /// mdadm's stands in /run/quell/for-mdadm even so), and 2 beats all, as nothing was touched.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        if other.weight() > self.weight() {
            other
        } else {
            self
        }
    }

    const fn weight(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::Undone => 1,
            Self::Missing => 2,
            Self::Mdadm => 3,
            Self::Waiting => 4,
            Self::Usage => 5,
        }
    }
}

/// Where and how a command runs.
pub struct Context {
    /// What it is called.
    pub command: &'static str,
    /// Where the kernel's files are.
    pub root: &'static Root,
    /// Kernel command line and flags.
    pub options: Options,
    /// Who called.
    pub stage: Stage,
    /// When it is over.
    pub deadline: Deadline,
    /// Signals that end it, where they can be had.
    pub signals: Option<Signals>,
    /// Only say what would be done.
    pub dry_run: bool,
    /// One object on standard output.
    pub json: bool,
    /// What is not through by the deadline is killed: nothing is started that would not be.
    pub fit: bool,
    /// Everything that could write to a volume has ended: one that is clean stays so, with or without its mdmon.
    pub still: bool,
}

impl Context {
    /// Nothing is done, and why: in the log, and on standard output where an object is asked for.
    pub fn nothing(&self, level: log::Level, why: core::fmt::Arguments<'_>) {
        log::log!(level, "{why}");
        if self.json {
            crate::json::nothing(self.command, why);
        }
    }

    /// Whether the stage ends in reboot(2).
    pub fn reboots(&self) -> bool {
        matches!(self.stage, Stage::SystemdShutdown | Stage::Exitrd)
    }

    /// The last resort's time, where there is one: the stage ends in reboot(2), it was not turned off, and this is the
    /// machine itself.
    pub fn guard_s(&self) -> Option<u32> {
        let wanted = self.reboots() && self.options.lastresort_s > 0 && !self.root.is_fixture();
        wanted.then_some(self.options.lastresort_s)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_two_exits_the_one_that_matters_more_counts() {
        use Exit::{Done, Mdadm, Missing, Undone, Usage, Waiting};
        let rising = [Done, Undone, Missing, Mdadm, Waiting, Usage];
        for (i, low) in rising.into_iter().enumerate() {
            for high in rising.into_iter().skip(i) {
                assert_eq!((low.and(high), high.and(low)), (high, high));
            }
        }
        assert_eq!(rising.map(|exit| exit as u8), [0, 1, 3, 5, 4, 2]);
    }
}
