//! What the hooks call: everything that is to be done before the machine goes down, under one deadline.

use core::ops::ControlFlow;

use log::{Level, debug, error, warn};

use crate::context::{Context, Exit};
use crate::options::Stage;
use crate::quiesce::{self, Which};
use crate::stage::{self, Exitrd, Verb};
use crate::sys::disks;
use crate::teardown;

/// Which part of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Part {
    /// Arrays, then controllers.
    #[default]
    All,
    /// The arrays, from a hook that is called again and again: dracut's, where others take device-mapper maps away between.
    Arrays {
        /// There is no next call.
        last: bool,
    },
    /// The controllers, likewise.
    Controllers {
        /// There is no next call.
        last: bool,
    },
}

/// The verb of a call: a hook's is found out, a person must know his.
pub fn verb(context: &Context, given: &str) -> Option<Verb> {
    let known = Verb::parse(given.as_bytes());
    if known.is_none() && context.stage == Stage::Person {
        error!(
            "shutdown: no such verb as '{given}' (reboot, poweroff, halt, kexec); nothing is done"
        );
        return None;
    }
    if known.is_none() {
        debug!("verb '{given}' is none: pid 1's command line is asked");
    }
    Some(known.unwrap_or_else(|| stage::hook_verb(context.root, given)))
}

/// Shuts down what this stage is for.
pub fn run(context: &mut Context, verb: Verb, part: Part) -> Exit {
    if !verb.ends_devices() {
        context.nothing(
            Level::Info,
            format_args!("the devices live on over a soft-reboot: nothing is done"),
        );
        return Exit::Done;
    }
    if context.stage == Stage::SystemdShutdown {
        match stage::exitrd(context.root) {
            Exitrd::Quell => {
                context.nothing(
                    Level::Info,
                    format_args!("left to the exitrd, which holds quell: it does all controllers in one batch"),
                );
                return Exit::Done;
            }
            // It kills what it finds running below the old root.
            Exitrd::Foreign => context.fit = true,
            Exitrd::NotExecutable => warn!(
                "/run/initramfs/shutdown cannot be executed (noexec?): there will be no exitrd"
            ),
            Exitrd::None => {}
        }
    }
    if !context.dry_run && context.stage != Stage::Person {
        // From here on the time counts, for this call and for those that share its budget.
        let seconds = context.options.timeout_s(context.stage);
        let shared = stage::shared_deadline(context.root, context.stage, seconds);
        context.deadline = context.deadline.min(shared);
    }
    match part {
        Part::All => all(context),
        Part::Arrays { last } => {
            let _ = arrays(context);
            // What stands on them may be gone the next time.
            again(context, last, disks::any_held(context.root, "md"))
        }
        Part::Controllers { last } => {
            let again = again(context, last, disks::any_held(context.root, "nvme"));
            if again == Exit::Done {
                quiesce::run(context, Which::All);
            }
            again
        }
    }
}

fn all(context: &Context) -> Exit {
    match arrays(context) {
        ControlFlow::Continue(exit) => exit.and(quiesce::run(context, Which::All)),
        ControlFlow::Break(exit) => exit,
    }
}

fn arrays(context: &Context) -> ControlFlow<Exit, Exit> {
    match context.options.teardown {
        true => teardown::step(context),
        false => ControlFlow::Continue(Exit::Done),
    }
}

/// Whether the hook is to call once more: something may yet change, and there is time.
fn again(context: &Context, last: bool, wanted: bool) -> Exit {
    match wanted && !last && !context.dry_run && !context.deadline.is_over() {
        true => Exit::Undone,
        false => Exit::Done,
    }
}
