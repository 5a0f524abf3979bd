//! quell as its own exitrd: put in place while the machine still runs (`install`), entered by systemd-shutdown as pid 1 when all
//! else has ended (`init`), to leave the old root (`leave`) and end the machine.
//!
//! systemd enters any executable /run/initramfs/shutdown (its src/shutdown/shutdown.c). One static file is enough: what dracut
//! unpacks a whole image for, and initramfs-tools has nothing for.

mod chores;
mod init;
mod install;
mod leave;

pub(crate) use init::run as init;
pub use install::{Ask, run};
