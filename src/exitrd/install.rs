//! `quell exitrd --install`: look, decide, copy, check.
//!
//! The file must be whole before it has its name, since whatever is there is run as pid 1; it must be a copy, since the root it
//! came from is gone then; and it must be executable where it lies, which it is not where /run is mounted noexec: systemd then
//! passes it over without a word. So it gets a small tmpfs of its own. systemd leaves mounts at and below /run/initramfs alone.

use log::{error, info};
use rustix::io::Errno;

use super::image;
use crate::context::{Context, Exit};
use crate::errno::Cause;
use crate::json::Json;
use crate::path;
use crate::sys::{Root, copy, mounts};
use crate::text::Text;

const DIR: &str = "/run/initramfs";
const SHUTDOWN: &str = "/run/initramfs/shutdown";
/// By this the drop-in knows an exitrd that holds quell.
const QUELL: &str = "/run/initramfs/usr/lib/quell/quell";
const TO_SHUTDOWN: &str = "../../../shutdown";
/// Room for the copy, a second one while it is replaced, and what systemd makes when it pivots.
const SIZE: &str = "8M";

/// The unit that calls this at the end of a shutdown.
const UNIT: &str = "quell-exitrd.service";

/// An exitrd that is made when the shutdown begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expected {
    /// quell itself: its unit is enabled.
    Quell,
    /// dracut's, from the image of this boot.
    Dracut,
    /// finalrd's.
    Finalrd,
}

/// The one that will be made, if nobody is before it.
pub fn expected(root: &Root) -> Option<Expected> {
    let found = Found::look(root, false);
    match found {
        Found { dracut: true, .. } => Some(Expected::Dracut),
        Found { finalrd: true, .. } => Some(Expected::Finalrd),
        _ if is_wanted(root, "reboot.target", UNIT) => Some(Expected::Quell),
        _ => None,
    }
}

/// Whether a unit is enabled: systemd keeps a link for it below what wants it (systemd.unit(5), `.wants/`).
fn is_wanted(root: &Root, by: &str, unit: &str) -> bool {
    ["/etc", "/usr/lib"].iter().any(|dir| {
        let link = path!("{dir}/systemd/system/{by}.wants/{unit}");
        root.read_link(link.as_str(), &mut [0; 256]).is_ok()
    })
}

/// Whether the administrator keeps a unit from ever being started, by a link to nowhere in its place (systemctl(1), `mask`).
fn is_masked(root: &Root, unit: &str) -> bool {
    let link = path!("/etc/systemd/system/{unit}");
    root.read_link(link.as_str(), &mut [0; 256]) == Ok(b"/dev/null".as_slice())
}

/// Whose exitrd it will be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Decision {
    /// Ours, from new on.
    Install,
    /// Ours already: the file is made anew, as the package may be newer.
    Refresh,
    /// Somebody else's.
    GiveWay(&'static str),
}

/// What decides it.
#[derive(Clone, Copy, Debug, Default)]
struct Found {
    /// quell lies in the exitrd that is there, as its /shutdown.
    ours: bool,
    /// Another /shutdown that systemd would enter.
    foreign: bool,
    /// dracut unpacks its image at shutdown.
    dracut: bool,
    /// finalrd makes one at shutdown.
    finalrd: bool,
}

impl Found {
    /// `last`: dracut's and finalrd's units have been stopped, which is when they make theirs.
    fn look(root: &Root, last: bool) -> Self {
        let mut buf = [0; 64];
        let ours = root
            .read_link(QUELL, &mut buf)
            .is_ok_and(|target| target == TO_SHUTDOWN.as_bytes());
        // Both make none where one of their own kind is there.
        let over = last || root.exists("/run/initramfs/bin/sh");
        Self {
            ours,
            foreign: !ours && root.executable(SHUTDOWN),
            dracut: !over
                && root.exists("/run/initramfs/.need_shutdown")
                && root.executable(image::RESTORE)
                && !is_masked(root, "dracut-shutdown.service")
                && image::is_there(root)
                && image::is_unpacked(root),
            finalrd: !over
                && root.executable("/usr/bin/finalrd")
                && is_wanted(root, "sysinit.target", "finalrd.service")
                && !is_masked(root, "finalrd.service"),
        }
    }

    fn decide(self, force: bool) -> Decision {
        match self {
            Self { ours: true, .. } => Decision::Refresh,
            _ if force => Decision::Install,
            Self { foreign: true, .. } => {
                Decision::GiveWay("there is one already, /run/initramfs/shutdown")
            }
            Self { dracut: true, .. } => {
                Decision::GiveWay("dracut unpacks its image (/run/initramfs/.need_shutdown)")
            }
            Self { finalrd: true, .. } => Decision::GiveWay("finalrd is enabled"),
            _ => Decision::Install,
        }
    }
}

/// Puts quell in place, or says who has it.
pub(super) fn run(context: &Context, force: bool, last: bool) -> Exit {
    let decision = Found::look(context.root, last).decide(force);
    if let Decision::GiveWay(to) = decision {
        let why = format_args!("the exitrd is left to another: {to} (--force takes its place)");
        return tell(context, Exit::Done, "left", why);
    }
    if context.dry_run {
        let plan = format_args!("quell would be the exitrd: {SHUTDOWN}, in its own tmpfs");
        return tell(context, Exit::Done, "planned", plan);
    }
    match install(context.root, decision) {
        Ok(()) => {
            let done = format_args!("quell is the exitrd: {SHUTDOWN}");
            tell(context, Exit::Done, "installed", done)
        }
        Err(Failed(what, errno)) => {
            let cause = Cause(errno);
            let why = format_args!(
                "quell cannot be the exitrd: {what}: {cause}; systemd-shutdown ends the machine itself"
            );
            tell(context, Exit::Missing, "failed", why)
        }
    }
}

fn tell(context: &Context, exit: Exit, outcome: &str, line: core::fmt::Arguments<'_>) -> Exit {
    match exit {
        Exit::Done => info!("{line}"),
        _ => error!("{line}"),
    }
    if context.json {
        let mut json = Json::object();
        json.number("schema", 1);
        json.text("command", format_args!("exitrd"));
        json.text("outcome", format_args!("{outcome}"));
        json.text("text", line);
        json.close();
        json.finish();
    }
    exit
}

/// A step that failed.
struct Failed(Text<80>, Errno);

fn at(what: &'static str) -> impl Fn(Errno) -> Failed {
    move |errno| Failed(Text::of(format_args!("{what}")), errno)
}

fn install(root: &Root, decision: Decision) -> Result<(), Failed> {
    if root.is_fixture() {
        return Err(at("nothing is mounted for --root")(Errno::OPNOTSUPP));
    }
    if !copy::is_init_namespace(root) {
        return Err(at("what is mounted here systemd does not see")(Errno::XDEV));
    }
    root.make_dir(DIR).map_err(at("making /run/initramfs"))?;
    let fresh = decision == Decision::Install;
    if fresh {
        mounts::memory(DIR, SIZE).map_err(at("mounting a tmpfs on /run/initramfs"))?;
    }
    let done = fill(root);
    if done.is_err() && fresh {
        // What was there before is what systemd finds.
        let _ = mounts::detach(DIR);
    }
    done
}

fn fill(root: &Root) -> Result<(), Failed> {
    copy::program(root, SHUTDOWN).map_err(at("copying /proc/self/exe"))?;
    for dir in [
        "/run/initramfs/usr",
        "/run/initramfs/usr/lib",
        "/run/initramfs/usr/lib/quell",
    ] {
        root.make_dir(dir).map_err(at("making its folders"))?;
    }
    copy::link(root, TO_SHUTDOWN, QUELL).map_err(at("linking usr/lib/quell/quell"))?;
    match root.executable(SHUTDOWN) {
        true => Ok(()),
        false => Err(at("/run/initramfs/shutdown may not be executed (noexec?)")(
            Errno::ACCESS,
        )),
    }
}
