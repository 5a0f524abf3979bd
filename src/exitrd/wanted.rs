//! Asked by dracut's last hook in the initramfs: whether its image is to come back as the exitrd, for quell's sake.

use log::debug;

use crate::context::{Context, Exit};
use crate::options::Quiesce;
use crate::path;
use crate::sys::md::{self, Version, mdmon};
use crate::sys::proc::boot_id;
use crate::sys::{Root, nvme};
use crate::text::{Printable, Text};

/// The image that this boot came from holds quell, of this version.
const IMAGE: &str = "/run/quell/image";

/// What this version calls itself.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// By exit status: arrays whose state mdmon keeps must be stopped clean, and controllers are shut down together.
pub(super) fn run(context: &Context) -> Exit {
    remember(context);
    match has_volumes(context.root) || has_controllers(context) {
        true => Exit::Done,
        false => Exit::Undone,
    }
}

fn remember(context: &Context) {
    let root = context.root;
    let mut boot = [0; 64];
    let text = Text::<128>::of(format_args!(
        "boot_id={}\nversion={VERSION}\nmdmon={}\n",
        Printable(boot_id(root, &mut boot)),
        u8::from(mdmon::program(root).is_some())
    ));
    let kept = root
        .make_dir("/run/quell")
        .and_then(|()| root.replace(IMAGE, text.as_str().as_bytes()));
    if let Err(errno) = kept {
        debug!("{IMAGE} cannot be written: {}", crate::errno::Cause(errno));
    }
}

/// What is known of the image of this boot.
#[derive(Clone, Debug)]
pub struct Image {
    /// The version of the quell in it.
    pub version: Text<32>,
    /// It holds an mdmon.
    pub mdmon: bool,
}

/// The image of this boot; none: it holds no quell, or one that did not say so.
pub fn image(root: &Root) -> Option<Image> {
    let (mut buf, mut boot) = ([0; 256], [0; 64]);
    let text = root.read(IMAGE, &mut buf).ok()?;
    let line = |key: &str| {
        text.split(|&b| b == b'\n')
            .find_map(|line| line.strip_prefix(key.as_bytes()))
    };
    let ours = line("boot_id=")? == boot_id(root, &mut boot);
    let image = Image {
        version: Printable(line("version=")?).to_text(),
        mdmon: line("mdmon=") == Some(b"1"),
    };
    ours.then_some(image)
}

fn has_volumes(root: &Root) -> bool {
    let mut any = false;
    // Without arrays there is no folder of them.
    let _ = md::arrays(root, &mut |array| {
        any = matches!(
            array.version,
            Version::Container(_) | Version::Volume { .. }
        );
        !any
    });
    any
}

fn has_controllers(context: &Context) -> bool {
    let root = context.root;
    let mut count = 0;
    let _ = nvme::instances(root, |instance| {
        let mut buf = [0; 16];
        let file = path!("/sys/class/nvme/nvme{instance}/transport");
        let pcie = root.read(file.as_str(), &mut buf) == Ok(b"pcie");
        count += usize::from(pcie);
    });
    match context.options.quiesce {
        Quiesce::Off => false,
        Quiesce::Always => count > 0,
        // One alone is the kernel's, and so are all where it does them together itself.
        Quiesce::Auto => count > 1 && !nvme::kernel_is_async(root),
    }
}
