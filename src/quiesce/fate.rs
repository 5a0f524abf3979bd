//! What becomes of a controller, and which controllers a run is about.

use rustix::io::Errno;

use super::order::Step;
use crate::capability::{Action, Left, State};
use crate::name::Key;
use crate::sys::nvme::{Controller, Holder};
use crate::sys::pci::PciAddress;

/// What becomes of a controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// Not asked for.
    Ignored,
    /// Left to the kernel by the table.
    Left(Left),
    /// In use.
    Busy(Holder),
    /// In use; by whom was seen only by the claim that failed.
    Claimed(Key),
    /// Whether it is in use is not known.
    Unknown,
    /// Its PCI address cannot be read.
    NoAddress,
    /// It has namespaces that quell has not read.
    Unread,
    /// It would not be through in the time that is left.
    NoTime,
    /// To be done.
    Todo(Action),
    /// A worker has it, and is at this step since then (milliseconds since boot).
    Running(Step, u64),
    /// The driver let go, and did not complain.
    Quiesced(u32),
    /// Fabrics: it is deleted.
    Deleted(u32),
    /// The driver let go, and gave up the drive's shutdown or could not be heard.
    Unconfirmed(u32),
    /// What was written could not be committed.
    Unflushed(Key, Errno),
    /// A namespace could not be opened.
    Unopened(Key, Errno),
    /// Namespaces came after the plan was made.
    Changed,
    /// It was in no state to be touched when its turn came.
    NotLive(State),
    /// It had gone by itself.
    Vanished,
    /// It could not be removed.
    Failed(Step, Errno),
    /// The removal succeeded and it is still there.
    StillThere,
    /// Its worker died.
    Died(Step),
    /// Its worker has not returned; so long was waited, in milliseconds.
    Abandoned(Step, u32),
    /// Its turn never came.
    NotStarted,
}

/// Which controllers a run is about.
#[derive(Clone, Copy)]
pub(super) enum Selection<'a> {
    /// All of them.
    All,
    /// These.
    Named(&'a [Name]),
    /// Those that were not there before.
    Unseen,
}

/// A controller as a person names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Name {
    /// `nvme3`
    Instance(u32),
    /// `0000:05:00.0`
    Pci(PciAddress),
}

impl Name {
    /// `nvme3`, `/dev/nvme3`, a PCI address; nothing else is a controller.
    pub fn parse(text: &[u8]) -> Option<Self> {
        let name = text.strip_prefix(b"/dev/").unwrap_or(text);
        crate::name::controller(name)
            .map(Self::Instance)
            .or_else(|| PciAddress::parse(text).map(Self::Pci))
    }

    pub(super) fn is(&self, c: &Controller) -> bool {
        match self {
            Self::Instance(n) => c.instance == *n,
            Self::Pci(address) => c.pci == Some(*address),
        }
    }
}
