//! Which stage will act at the next shutdown, and what stands in its way.

use crate::context::Context;
use crate::exitrd::{self, Expected};
use crate::options::{Quiesce, Stage};
use crate::stage::{self, Exitrd};
use crate::sys::md::{self, State, Version, mdmon};
use crate::sys::{Root, nvme, proc};
use crate::text::Text;

/// The drop-in that systemd-shutdown runs.
const DROP_IN: &str = "/usr/lib/systemd/system-shutdown/quell.shutdown";
/// mdadm's own, as Debian has it: it waits until volumes are clean.
const MDADMS: &str = "/usr/lib/systemd/system-shutdown/mdadm.shutdown";
/// Has finalrd take quell along.
const FINALRD_HOOK: &str = "/usr/share/finalrd/quell.finalrd";
/// Without these finalrd calls no hook at all.
const HOOK_FUNCTIONS: &str = "/usr/share/initramfs-tools/hook-functions";

/// Who will act at the next shutdown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Actor {
    /// quell, in this stage.
    Stage(Stage),
    /// The kernel, in parallel.
    Kernel,
    /// Not this machine: its devices are the host's, or the crashed kernel's.
    Host,
    /// Nobody: the kernel does it one by one.
    Nobody,
}

/// One thing that stands in the way, or is worth knowing.
type Note = Text<200>;

/// What was found out about the shutdown as a whole.
pub(super) struct Outlook {
    /// Who.
    pub(super) actor: Actor,
    /// What stands in the way.
    pub(super) notes: heapless::Vec<Note, 16>,
    /// Intel RAID volumes go down as they are, and a resync may follow.
    pub(super) dirty: bool,
}

impl Outlook {
    /// Finds it out.
    pub(super) fn find(context: &Context) -> Self {
        let mut outlook = Self {
            actor: Actor::Nobody,
            notes: heapless::Vec::new(),
            dirty: false,
        };
        outlook.look(context);
        outlook
    }

    fn look(&mut self, context: &Context) {
        let (root, options) = (context.root, &context.options);
        if let Some(why) = proc::not_ours(root) {
            self.actor = Actor::Host;
            return self.note(format_args!("{why}"));
        }
        let off = options.quiesce == Quiesce::Off;
        match () {
            () if !options.enable => self.note(format_args!("quell.enable=0")),
            () if off => self.note(format_args!("quell.quiesce=off")),
            () => {}
        }
        if options.enable {
            self.actor = self.stage(root);
        }
        self.volumes(context);
        if off {
            self.actor = Actor::Nobody;
        }
        if self.actor != Actor::Nobody
            && options.quiesce == Quiesce::Auto
            && nvme::kernel_is_async(root)
        {
            self.note(format_args!(
                "the kernel shuts devices down asynchronously itself"
            ));
            self.actor = Actor::Kernel;
        }
    }

    /// The stage that quell will run in: an exitrd that holds it, else systemd-shutdown's hooks.
    fn stage(&mut self, root: &Root) -> Actor {
        let exitrd = stage::exitrd(root);
        match exitrd {
            Exitrd::Quell => return Actor::Stage(Stage::Exitrd),
            Exitrd::NotExecutable => self.note(format_args!(
                "/run/initramfs/shutdown cannot be executed (is /run mounted noexec?): there will be no exitrd"
            )),
            Exitrd::Foreign => self.note(format_args!(
                "the exitrd in /run/initramfs does not hold quell (is the image older than the package?)"
            )),
            Exitrd::None => match exitrd::expected(root) {
                Some(Expected::Quell) => return Actor::Stage(Stage::Exitrd),
                Some(Expected::Dracut) if self.dracut(root) => return Actor::Stage(Stage::Exitrd),
                Some(Expected::Dracut) => {}
                Some(Expected::Finalrd) => match () {
                    () if !root.executable(FINALRD_HOOK) => self.note(format_args!(
                        "finalrd's exitrd will not hold quell: {FINALRD_HOOK} is not installed"
                    )),
                    () if !root.exists(HOOK_FUNCTIONS) => self.note(format_args!(
                        "finalrd's exitrd will not hold quell: it calls no hooks without initramfs-tools-core"
                    )),
                    () => {
                        if self.has_redundant(root) {
                            self.note(format_args!(
                                "finalrd's exitrd does not end mdmon: root's controllers, if root is on Intel RAID, are left to the kernel"
                            ));
                        }
                        return Actor::Stage(Stage::Exitrd);
                    }
                },
                None => self.note(format_args!(
                    "there is no exitrd: controllers that root or another volume uses are left to the kernel (systemctl enable quell-exitrd.service)"
                )),
            },
        }
        match root.executable(DROP_IN) {
            true => Actor::Stage(Stage::SystemdShutdown),
            false => {
                self.note(format_args!(
                    "{DROP_IN} is not installed: no stage will run quell"
                ));
                Actor::Nobody
            }
        }
    }

    /// Whether the image that dracut unpacks holds quell.
    fn dracut(&mut self, root: &Root) -> bool {
        let known = exitrd::image(root);
        let current = |image: &exitrd::Image| image.version.as_str() == exitrd::VERSION;
        if !known.as_ref().is_some_and(current) && exitrd::image_is_new(root) {
            self.note(format_args!(
                "dracut's image, which will be the exitrd, is newer than quell and should hold it"
            ));
            return true;
        }
        let Some(image) = known else {
            self.note(format_args!(
                "dracut's image, which will be the exitrd, does not hold quell (older than the package? dracut --force)"
            ));
            return false;
        };
        if !current(&image) {
            self.note(format_args!(
                "dracut's image holds quell {}, installed is {} (dracut --force)",
                image.version,
                exitrd::VERSION
            ));
        }
        if !image.mdmon && self.has_redundant(root) {
            self.note(format_args!(
                "dracut's image holds no mdmon: root's volume may go down dirty"
            ));
        }
        true
    }

    /// What will become of Intel RAID volumes that can be dirty.
    fn volumes(&mut self, context: &Context) {
        let root = context.root;
        if !self.has_redundant(root) {
            return;
        }
        let ours = matches!(self.actor, Actor::Stage(_)) && context.options.teardown;
        if !ours && !root.executable(MDADMS) {
            self.dirty = true;
            self.note(format_args!(
                "nobody makes Intel RAID volumes clean: they may resync after the next boot"
            ));
        }
    }

    /// Whether there is such a volume; one that nobody watches is noted.
    fn has_redundant(&mut self, root: &Root) -> bool {
        let mut any = false;
        let mut unwatched: Option<md::Name> = None;
        // Without arrays there is no folder of them.
        let _ = md::arrays(root, &mut |array| {
            if let Version::Volume { container, .. } = &array.version
                && array.is_redundant()
                && !matches!(array.state, State::Clear | State::Inactive)
            {
                any = true;
                let writable = !matches!(array.state, State::Readonly | State::ReadAuto);
                if writable && mdmon::pid(root, container.as_str()).is_none() {
                    unwatched = Some(array.name.clone());
                }
            }
            true
        });
        if let Some(name) = unwatched {
            self.note(format_args!(
                "{name}: its mdmon is not running (quell assemble brings it back)"
            ));
        }
        any
    }

    /// Each thing once.
    fn note(&mut self, what: core::fmt::Arguments<'_>) {
        let note = Note::of(what);
        if !self.notes.iter().any(|n| n.as_str() == note.as_str()) {
            let _ = self.notes.push(note);
        }
    }
}
