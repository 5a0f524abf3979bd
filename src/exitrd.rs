//! quell as its own exitrd: put in place while the machine still runs (`install`), entered by systemd-shutdown as pid 1 when all
//! else has ended (`init`), to leave the old root (`leave`) and end the machine.
//!
//! systemd enters any executable /run/initramfs/shutdown (its src/shutdown/shutdown.c). One static file is enough: what dracut
//! unpacks a whole image for, and initramfs-tools has nothing for.

mod chores;
mod image;
mod init;
mod install;
mod leave;
mod wanted;

use crate::context::{Context, Exit};

pub use image::is_newer as image_is_new;
pub(crate) use init::run as init;
pub use install::{Expected, expected};
pub use wanted::{Image, VERSION, image};

/// What `quell exitrd` is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ask {
    /// `--install`
    Install {
        /// `--force`: in place of any other exitrd.
        force: bool,
        /// `--final`: none that is not there by now will come.
        last: bool,
    },
    /// `--wanted`: whether there is to be one.
    Wanted,
}

/// Does it.
pub fn run(context: &Context, ask: Ask) -> Exit {
    match ask {
        Ask::Install { force, last } => install::run(context, force, last),
        Ask::Wanted => wanted::run(context),
    }
}
