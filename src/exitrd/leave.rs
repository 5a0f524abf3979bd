//! What the exitrd does before the machine ends: leaves the old root, takes apart what it stands on, quiesces the controllers.
//!
//! The order matters. Nothing may write to a volume once its mdmon has gone: such a write would wait for ever for somebody to
//! record that the volume is dirty. But mdmon itself runs from the old root and keeps it mounted. So the old root is made
//! read-only first, and what stands on a volume is seen to be `still`; only then, with every volume clean, may mdmon go, and
//! only then the old root. Where anything stays writable mdmon lives on, its disks are in use, and the rest is the kernel's.

mod maps;
mod still;

use core::time::Duration;

use log::{info, warn};
use rustix::io::Errno;

use super::chores::{self, Chore, Chores, OLD, What, Worker};
use crate::context::{Context, Exit};
use crate::deadline::now_ms;
use crate::errno::Cause;
use crate::pool::Pool;
use crate::shutdown::{self, Part};
use crate::stage::{self, Verb};
use crate::sys::leftovers::{self, WINDOWS};
use crate::sys::{Path, Root, mounts};
use crate::teardown;
use crate::text::{Printable, Text};

/// The old root's mounts are gone through so often: what another one was in the way of goes with the next round.
const ROUNDS: usize = 8;
/// So long mdmon has to go once it was told to, in milliseconds.
const MDMON_MS: u64 = 5000;
/// So long the kernel may take to let go of what ended processes had open.
const LINGER_MS: u64 = 1000;
/// Between two looks whether it has.
const PAUSE: Duration = Duration::from_millis(5);
/// Leaves everything, under one deadline.
pub(super) fn all(context: &mut Context, verb: Verb) -> Exit {
    let seconds = context.options.timeout_s(context.stage);
    context.deadline = stage::shared_deadline(context.root, context.stage, seconds);
    let root = context.root;
    let crew = Worker { root };
    let mut leaving = Leaving {
        context: &mut *context,
        pool: Pool::new(root, &crew, 1),
        chores: Chores::new(),
        unreturned: heapless::Vec::new(),
    };
    leaving.root();
    shutdown::run(context, verb, Part::All)
}

struct Leaving<'a> {
    context: &'a mut Context,
    pool: Pool<'a>,
    chores: Chores,
    /// What is being unmounted or made read-only still. It may be mounted nowhere any more and be written to all the same.
    unreturned: heapless::Vec<Path, 32>,
}

impl Leaving<'_> {
    fn root(&mut self) {
        let arrays = self.context.options.teardown;
        self.end_users();
        if arrays {
            // An mdmon that is missing is brought back from the old root while that has its /sys and /dev.
            teardown::clean(self.context);
        }
        // While the path that the kernel names it by still leads there.
        self.end_swap();
        self.unmount();
        // One on a file of the old root keeps that writable.
        self.list_loops();
        if self.some_went() {
            self.unmount();
        }
        self.make_readonly();
        let writable = self.writable();
        for point in &writable {
            warn!("{point} can still be written to: what it is on stays, and its mdmon");
        }
        if arrays && writable.is_empty() && self.hold_still() {
            // An mdmon that goes while a volume is dirty leaves it so.
            if teardown::clean(self.context) != Exit::Done || !self.end_mdmons() {
                return;
            }
            self.context.still = true;
            self.unmount_at_last();
        }
        // The kernel refuses what is in use, and an mdmon that a map could want when it goes is there.
        self.unmap(self.context.still);
    }

    fn end_users(&mut self) {
        self.chores.clear();
        let _ = self.chores.push(Chore::new(What::EndUsers, Text::new()));
        self.carry_out();
        for ended in self.chores.iter().filter(|c| !c.words.is_empty()) {
            info!("ended what still used the old root:{}", ended.words);
        }
        if self.chores.iter().any(|chore| chore.result.is_err()) {
            warn!("not everything that uses the old root could be ended in time");
        }
    }

    fn carry_out(&mut self) {
        chores::carry_out(&mut self.pool, &mut self.chores, self.context.deadline);
        for chore in &self.chores {
            let writes = matches!(chore.what, What::Unmount | What::MakeReadonly);
            if writes && chore.result == Err(Errno::TIMEDOUT) {
                warn!("{} takes long: it has not all been written yet", chore.of);
                let _ = self.unreturned.push(chore.of.clone());
            }
        }
    }

    /// Unmounts all that is at or below the old root, what came last first, until nothing more goes.
    fn unmount(&mut self) {
        for _ in 0..ROUNDS {
            self.list_mounts(What::Unmount, &|mount| is_old(mount.point.as_str()));
            let any = self.some_went();
            let forced = self.force();
            if !(self.detach_windows() || any || forced) {
                return;
            }
        }
    }

    /// Has those go that wait for a server or program, and for ever. What is written to a disk has left its place at once.
    /// True: one went.
    fn force(&mut self) -> bool {
        let waiting = core::mem::take(&mut self.unreturned);
        self.list_mounts(What::Force, &|mount| waiting.contains(&mount.point));
        let any = self.some_went();
        self.unreturned = waiting;
        for chore in &self.chores {
            if chore.result != Err(Errno::TIMEDOUT) {
                self.unreturned.retain(|point| *point != chore.of);
            }
        }
        any
    }

    /// The same, when nobody is left: what has just ended holds on to its files for a moment.
    fn unmount_at_last(&mut self) {
        let end = self.context.deadline.within_ms(LINGER_MS);
        let gone = end.wait_for(PAUSE, || {
            self.unmount();
            !mounts::any(self.context.root, &|mount| is_old(mount.point.as_str()))
        });
        if !gone {
            self.list_mounts(What::Unmount, &|mount| is_old(mount.point.as_str()));
            self.carry_out();
            self.say_failed("it stays mounted");
        }
    }

    /// Fills the list with mounts, the latest first, but for those that are under way. More than fit are done with the next list.
    fn list_mounts(&mut self, what: What, wanted: &dyn Fn(&mounts::Mount) -> bool) {
        let (chores, unreturned) = (&mut self.chores, &self.unreturned);
        chores.clear();
        let read = mounts::each(self.context.root, &mut |mount| {
            if wanted(&mount) && !unreturned.contains(&mount.point) {
                if chores.is_full() {
                    chores.remove(0);
                }
                let _ = chores.push(Chore::new(what, mount.point));
            }
        });
        if let Err(errno) = read {
            warn!("what is mounted cannot be read: {}", Cause(errno));
        }
        chores.reverse();
    }

    /// Takes the windows into the kernel that are left out of sight. None that something else is mounted below: that would be
    /// out of sight too, and still be written to. True: there was one.
    fn detach_windows(&mut self) -> bool {
        let (mut there, mut holds) = ([false; WINDOWS.len()], [false; WINDOWS.len()]);
        let read = mounts::each(self.context.root, &mut |mount| {
            for (at, window) in WINDOWS.iter().enumerate() {
                let place = match mount.point.as_str() == *window {
                    true => there.get_mut(at),
                    false => holds.get_mut(at),
                };
                if let Some(place) = place {
                    *place |= mount.point.as_str() == *window
                        || is_below(mount.point.as_str(), window) && !mount.is_virtual;
                }
            }
        });
        if read.is_err() {
            // What cannot be seen may be below them.
            return false;
        }
        self.chores.clear();
        for (at, window) in WINDOWS.iter().enumerate() {
            if there.get(at) == Some(&true) && holds.get(at) == Some(&false) {
                let _ = self
                    .chores
                    .push(Chore::new(What::Detach, Text::of(format_args!("{window}"))));
            }
        }
        self.some_went()
    }

    /// Makes read-only what could not be unmounted.
    fn make_readonly(&mut self) {
        self.list_mounts(What::MakeReadonly, &is_writable);
        self.carry_out();
        for chore in &self.chores {
            if let Err(errno) = chore.result {
                warn!("{} cannot be made read-only: {}", chore.of, Cause(errno));
            }
        }
    }

    /// What is still mounted at or below the old root and can be written to, or is written to at this moment, or is swap.
    fn writable(&self) -> heapless::Vec<Path, 40> {
        let mut writable: heapless::Vec<Path, 40> = self.unreturned.iter().cloned().collect();
        swaps(self.context.root, &mut |swap| {
            // That is memory.
            if !swap.as_str().contains("/zram") {
                let _ = writable.push(swap);
            }
        });
        let read = mounts::each(self.context.root, &mut |mount| {
            if is_writable(&mount) {
                let _ = writable.push(mount.point);
            }
        });
        if read.is_err() {
            // What cannot be seen may be there.
            let _ = writable.push(Text::of(format_args!("{OLD}")));
        }
        writable
    }

    fn end_swap(&mut self) {
        let chores = &mut self.chores;
        chores.clear();
        swaps(self.context.root, &mut |swap| {
            let _ = chores.push(Chore::new(What::SwapOff, swap));
        });
        self.carry_out();
        self.say_failed("swap cannot be ended");
    }

    /// Tells every mdmon that runs from the old root to go. True: none is left.
    fn end_mdmons(&self) -> bool {
        let root = self.context.root;
        let told = leftovers::end_mdmons(root, OLD);
        if told == 0 {
            return true;
        }
        let start = now_ms();
        let end = self.context.deadline.within_ms(MDMON_MS);
        if !end.wait_for(PAUSE, || leftovers::mdmons(root, OLD) == 0) {
            warn!("mdmon was told to go and has not in time: the old root and what it is on stay");
            return false;
        }
        info!("mdmon has gone in {} ms", now_ms().saturating_sub(start));
        true
    }

    fn some_went(&mut self) -> bool {
        self.carry_out();
        self.chores.iter().any(|chore| chore.result.is_ok())
    }

    fn say_failed(&self, what: &str) {
        for chore in &self.chores {
            if let Err(errno) = chore.result {
                warn!("{}: {what}: {}", chore.of, Cause(errno));
            }
        }
    }
}

/// What is used as swap. A kernel without swap has no such file.
fn swaps(root: &Root, each: &mut dyn FnMut(Path)) {
    let _ = root.lines::<4096>("/proc/swaps", |line| {
        let file = line.split(u8::is_ascii_whitespace).next();
        if let Some(file) = file.filter(|file| file.starts_with(b"/")) {
            each(Printable(file).to_text());
        }
    });
}

fn is_old(point: &str) -> bool {
    point == OLD || is_below(point, OLD)
}

fn is_below(point: &str, dir: &str) -> bool {
    point
        .strip_prefix(dir)
        .is_some_and(|rest| rest.starts_with('/'))
}

fn is_writable(mount: &mounts::Mount) -> bool {
    is_old(mount.point.as_str()) && !mount.is_virtual && !mount.readonly
}
