//! quell: assembles Intel RAID arrays at boot, and shuts NVMe controllers down, many at once, in the last second of shutdown.
//!
//! The rooms, in reading order:
//!
//! * [`cli`] and [`command`]: from argv to a command that runs; [`context`] is what it is given.
//! * [`options`], [`capability`] and [`schedule`] are pure: the kernel command line, what may be done to a controller and
//!   how many at once, and which is next.
//! * [`stage`]: where quell runs, for what, and until when ([`deadline`]).
//! * [`quiesce`], [`teardown`], [`remove`], [`shutdown`] and [`status`]: one command each, which looks, plans, acts and
//!   reports; [`exitrd`] is all of it at the very end, as pid 1.
//! * [`imsm`]: Intel RAID metadata, from bytes to what md must be told, pure; [`examine`] shows it, [`assemble`] does it.
//! * [`pool`]: forked workers, for all that may block.
//! * [`sys`]: the only room with kernel files; [`name`] takes the kernel's names apart.
//! * [`kmsg`], [`json`], [`text`] and [`errno`]: how what was found and done is told.
//!
//! Nothing on the shutdown path allocates: tables are statics, lines are [`text::Text`].

pub mod assemble;
pub mod capability;
pub mod cli;
pub mod command;
pub mod context;
pub mod deadline;
pub mod errno;
pub mod examine;
pub mod exitrd;
pub mod imsm;
pub mod json;
pub mod kmsg;
pub mod mpb;
pub mod name;
pub mod options;
pub mod pool;
pub mod quiesce;
pub mod remove;
pub mod schedule;
pub mod shutdown;
pub mod stage;
pub mod status;
pub mod sys;
pub mod teardown;
pub mod text;
