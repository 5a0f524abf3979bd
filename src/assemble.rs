//! `quell assemble`: Intel RAID containers and their volumes, brought up through md's sysfs files.

use log::error;

use crate::context::{Context, Exit};

/// What is asked for.
#[derive(Debug)]
pub struct Ask {
    /// The disks that are named; none is all there are.
    pub devices: Vec<String>,
    /// `--readonly`: nothing is written to a member.
    pub readonly: bool,
}

/// Assembles what is asked for.
pub fn run(_: &Context, _: &Ask) -> Exit {
    error!("assemble: this version cannot");
    Exit::Missing
}
