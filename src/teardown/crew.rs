//! What a worker does: everything that may block.
//!
//! The order of writes is the one in which mdmon learns all it must: `inactive` first, upon which it records that the volume
//! is clean and how far a resync has come, and writes `clear` itself. It does that once, and the kernel may refuse
//! (EBUSY: files of the array are still being taken away), so what it leaves is finished here.

use core::time::Duration;

use rustix::io::Errno;

use super::graph::{Kind, Words};
use super::order::{self, End, Order, Said, Step, Stopped, What};
use super::tidy;
use crate::deadline::{Deadline, now_ms};
use crate::path;
use crate::pool::{Crew, Reply};
use crate::sys::md::{self, State, Version, mdmon};
use crate::sys::{Root, disks, occupied};
use crate::text::Text;

/// So long a busy array is asked again and again, in milliseconds: udev and blkid open one for a moment whenever it changes.
const BUSY_MS: u64 = 5000;
/// So long a volume in use may take to become clean.
const CLEAN_MS: u64 = 5000;
/// So long mdmon has for a volume that became inactive before it is asked whether it is through with it.
const RECORD_MS: u64 = 250;
/// So long mdmon has to answer.
const ANSWER_MS: u64 = 2000;
/// So long mdmon has to go once its last volume has gone, and again once it was told to.
const LEAVE_MS: u64 = 2000;
/// So long the kernel has to take a stopped array's files away.
const VANISH_MS: u64 = 1000;
/// How often is looked whether something has come about.
const LOOK: Duration = Duration::from_millis(5);
/// How often the safe mode's delay is written again: an mdmon that attaches writes back what it found.
const DELAY_MS: u64 = 250;

/// Why an array was not stopped, or not made clean.
struct Refused(End, Words);

impl From<End> for Refused {
    fn from(end: End) -> Self {
        Self(end, Words::new())
    }
}

/// Does orders below a root.
pub(super) struct Worker<'a> {
    pub(super) root: &'a Root,
}

impl Crew for Worker<'_> {
    fn work(&self, order: &[u8], reply: &Reply) {
        if let Some((end_ms, names)) = order::tidy_names(order) {
            return tidy::tidy(self.root, names, Deadline::at_ms(end_ms));
        }
        // Only we write orders.
        let Some(order) = Order::decode(order) else {
            return;
        };
        let start = now_ms();
        let task = Task {
            root: self.root,
            reply,
            order: &order,
            name: order.name.as_str(),
            deadline: Deadline::at_ms(order.end_ms),
        };
        let done = match order.what {
            What::Mend => task.mend(),
            What::Clean => task.clean(),
            What::Stop => task.stop().map(End::Stopped),
            What::Tidy => return,
        };
        let Refused(end, words) = done.map_or_else(|refused| refused, Refused::from);
        let ms = u32::try_from(now_ms().saturating_sub(start)).unwrap_or(u32::MAX);
        reply.say(&Said::End(end, ms, words).encode());
    }
}

/// One array, and what is to be done with it.
struct Task<'a> {
    root: &'a Root,
    reply: &'a Reply,
    order: &'a Order,
    name: &'a str,
    deadline: Deadline,
}

impl Task<'_> {
    fn at(&self, step: Step) {
        self.reply.say(&Said::At(step).encode());
    }

    fn stop(&self) -> Result<Stopped, Refused> {
        match self.order.kind {
            Kind::Container => self.container(),
            Kind::Redundant => self.redundant(),
            Kind::Plain | Kind::Native => self.plain(),
        }
    }

    /// An array whose state nobody but the kernel keeps.
    fn plain(&self) -> Result<Stopped, Refused> {
        let state = self.state()?;
        self.unused(state)?;
        let frozen = self.freeze()?;
        self.clear().inspect_err(|_| self.thaw(frozen))?;
        Ok(Stopped::Plain)
    }

    /// A volume whose clean state mdmon keeps.
    fn redundant(&self) -> Result<Stopped, Refused> {
        // Asked before the state: as long as that is a running one mdmon does not go by itself, whoever stops the volume.
        let watched = !self.order.blocked && self.mdmon().is_some();
        let state = self.state()?;
        self.unused(state)?;
        let was_dirty = is_dirty(state);
        // An mdmon that came just now adopts running volumes only; once one has become clean it has been adopted.
        let adopted = !was_dirty || !self.order.fresh || self.becomes_clean(CLEAN_MS);
        let frozen = self.freeze()?;
        if state != State::Inactive {
            self.at(Step::Stop);
            self.insist("inactive", Step::Stop)
                .inspect_err(|_| self.thaw(frozen))?;
        }
        let recorded = watched && adopted && self.recorded() || !was_dirty;
        self.clear()?;
        Ok(if recorded {
            Stopped::Clean
        } else {
            Stopped::Dirty
        })
    }

    /// Waits for mdmon to record that the volume has stopped: it then makes it vanish, or is at least through with it. One
    /// that has gone as it should, with its pid file, was through with all.
    fn recorded(&self) -> bool {
        self.at(Step::Mdmon);
        let file = path!("/run/mdadm/{}.pid", self.order.container);
        let over = || !md::exists(self.root, self.name) || !self.root.exists(file.as_str());
        self.wait(RECORD_MS, over) || self.answers() || over()
    }

    /// A container: its volumes have gone, and mdmon goes by itself. The kernel would stop it under running volumes.
    fn container(&self) -> Result<Stopped, Refused> {
        self.state()?;
        if let Some(volume) = self.volume() {
            return Err(Refused(End::HeldUp, Text::of(format_args!("{volume}"))));
        }
        self.at(Step::Mdmon);
        let gone = || mdmon::pid(self.root, self.name).is_none();
        if !self.wait(LEAVE_MS, gone) && mdmon::terminate(self.root, self.name).is_ok() {
            // One that stays all the same serves nothing any more.
            let _ = self.wait(LEAVE_MS, gone);
        }
        self.clear()?;
        Ok(Stopped::Plain)
    }

    /// A volume that lies in this container and runs.
    fn volume(&self) -> Option<md::Name> {
        let mut found = None;
        let listed = md::arrays(self.root, &mut |array| {
            let inside = matches!(&array.version,
                Version::Volume { container, .. } if container.as_str() == self.name);
            if inside && array.state != State::Clear {
                found = Some(array.name);
            }
            found.is_none()
        });
        match listed {
            Ok(()) => found,
            // What cannot be seen may be there.
            Err(_) => Some(Text::of(format_args!("a volume"))),
        }
    }

    /// Brings back the container's mdmon.
    fn mend(&self) -> Result<End, Refused> {
        self.at(Step::Mdmon);
        let started = mdmon::start(self.root, self.name, self.deadline.within_ms(BUSY_MS));
        let why = match started {
            Ok(()) => return Ok(End::Mended),
            // Somebody else has started it meanwhile.
            Err(_) if mdmon::pid(self.root, self.name).is_some() => return Ok(End::Mended),
            Err(why) => why,
        };
        Err(Refused(End::NotMended, Text::of(format_args!("{why}"))))
    }

    /// Makes a volume clean that stays in use.
    fn clean(&self) -> Result<End, Refused> {
        self.state()?;
        self.at(Step::Clean);
        let end = self.deadline.within_ms(CLEAN_MS);
        let container = self.order.container.as_str();
        let (pid, answers) = loop {
            let clean = self.becomes_clean(end.rest_ms());
            let pid = mdmon::pid(self.root, container);
            // It shows as clean before that is on the disks: an mdmon that answers has written it.
            let answers = pid.is_some() && self.answers();
            let settled = clean && (answers || pid.is_none());
            if settled && !self.state().is_ok_and(is_dirty) {
                return Ok(End::Clean);
            }
            if end.is_over() || !answers {
                break (pid, answers);
            }
        };
        let state = self.state()?;
        let words = match pid {
            None => Text::of(format_args!("{state}, its mdmon is not running")),
            Some(pid) if answers => Text::of(format_args!("{state}, mdmon[{pid}] lives")),
            Some(pid) => Text::of(format_args!("{state}, mdmon[{pid}] does not answer")),
        };
        Err(Refused(End::NotClean, words))
    }

    /// Has the kernel call the volume clean as soon as nothing is written to it.
    fn becomes_clean(&self, ms: u64) -> bool {
        let delay = md::attr(self.name, "safe_mode_delay");
        let end = self.deadline.within_ms(ms);
        loop {
            // Without the file the kernel's own delay must do.
            let _ = self.root.write(delay.as_str(), b"0.001");
            let within = DELAY_MS.min(end.rest_ms());
            if self.wait(within, || !self.state().is_ok_and(is_dirty)) {
                return true;
            }
            if end.is_over() {
                return false;
            }
        }
    }

    /// Refuses what somebody uses. The kernel itself refuses only where the array is writable. Who only looks at the array,
    /// as udev and mdadm do, is waited for.
    fn unused(&self, state: State) -> Result<(), Refused> {
        self.at(Step::Claim);
        let mut claimed = Ok(());
        self.wait(BUSY_MS, || {
            claimed = occupied::claim(self.root, self.name, self.order.dev);
            claimed != Err(Errno::BUSY) || self.holder().is_some()
        });
        match claimed {
            Err(Errno::BUSY) => return Err(self.busy()),
            Err(Errno::NXIO | Errno::NODEV | Errno::NOENT) if !md::exists(self.root, self.name) => {
                return Err(End::Gone.into());
            }
            // Without a node nobody has it open, or only the kernel knows.
            Ok(()) | Err(Errno::NXIO | Errno::NODEV | Errno::NOENT) => {}
            Err(errno) => return Err(End::Failed(Step::Claim, errno).into()),
        }
        let mut opener = None;
        let blind = matches!(state, State::Readonly | State::ReadAuto);
        if blind
            && !self.wait(BUSY_MS, || {
                opener = self.opener();
                opener.is_none()
            })
        {
            return Err(Refused(End::Busy, opener.unwrap_or_default()));
        }
        Ok(())
    }

    /// Stops a resync, check or rebuild where it is, and keeps it from starting again.
    fn freeze(&self) -> Result<bool, Refused> {
        match md::sync_action(self.root, self.name).as_str() {
            "" | "idle" | "frozen" | "none" => Ok(false),
            "reshape" => Err(End::Reshaped.into()),
            _ => {
                self.at(Step::Freeze);
                let file = md::attr(self.name, "sync_action");
                // If it does not freeze, stopping the array ends it all the same.
                Ok(self.root.write(file.as_str(), b"frozen").is_ok())
            }
        }
    }

    /// Lets a resync that was frozen go on, since the array stays.
    fn thaw(&self, frozen: bool) {
        if frozen {
            let file = md::attr(self.name, "sync_action");
            let _ = self.root.write(file.as_str(), b"idle");
        }
    }

    /// The last write, and the look whether it came to anything.
    fn clear(&self) -> Result<(), Refused> {
        self.at(Step::Clear);
        if let Err(Refused(end, words)) = self.insist("clear", Step::Clear)
            && end != End::Gone
        {
            return Err(Refused(end, words));
        }
        self.at(Step::Gone);
        let gone = self.wait(VANISH_MS, || md::is_gone(self.root, self.name));
        match md::state(self.root, self.name) {
            _ if gone => Ok(()),
            Err(_) | Ok(State::Clear) => Ok(()),
            Ok(state) => Err(Refused(End::StillThere, Text::of(format_args!("{state}")))),
        }
    }

    /// Writes to `array_state`, again and again where the array is busy.
    fn insist(&self, value: &str, step: Step) -> Result<(), Refused> {
        let file = md::attr(self.name, "array_state");
        let mut written = Ok(());
        let tried = self.wait(BUSY_MS, || {
            written = self.root.write(file.as_str(), value.as_bytes());
            written != Err(Errno::BUSY)
        });
        match written {
            Ok(()) => Ok(()),
            Err(_) if !tried => Err(self.busy()),
            Err(Errno::NOENT | Errno::NODEV | Errno::NXIO) => Err(End::Gone.into()),
            Err(errno) => Err(End::Failed(step, errno).into()),
        }
    }

    fn state(&self) -> Result<State, Refused> {
        match md::state(self.root, self.name) {
            Ok(state) => Ok(state),
            Err(Errno::NOENT | Errno::NODEV) => Err(End::Gone.into()),
            Err(errno) => Err(End::Failed(Step::Claim, errno).into()),
        }
    }

    /// The mdmon of the volume's container.
    fn mdmon(&self) -> Option<u32> {
        mdmon::pid(self.root, self.order.container.as_str())
    }

    fn answers(&self) -> bool {
        let within = self.deadline.within_ms(ANSWER_MS);
        mdmon::ping(self.root, self.order.container.as_str(), within).is_ok()
    }

    /// Who keeps the array busy, in words.
    fn busy(&self) -> Refused {
        let words = self.holder().or_else(|| self.opener());
        Refused(End::Busy, words.unwrap_or_default())
    }

    /// Who has claimed it, and will not let go by himself.
    fn holder(&self) -> Option<Words> {
        let mut words = None;
        let _ = occupied::claims(self.root, &mut |array, user| {
            if array.as_str() == self.name && words.is_none() {
                words = Some(Text::of(user));
            }
        });
        let _ = disks::holders(self.root, self.name, &mut |holder| {
            words.get_or_insert_with(|| Text::of(format_args!("{holder} stands on it")));
        });
        words
    }

    /// A process that has it open.
    fn opener(&self) -> Option<Words> {
        let mut found = None;
        let _ = occupied::openers(self.root, &mut |array, user| {
            if array.as_str() == self.name && found.is_none() {
                found = Some(Text::of(user));
            }
        });
        found
    }

    /// Waits until `done`, at most `ms` milliseconds; asks at least once.
    fn wait(&self, ms: u64, done: impl FnMut() -> bool) -> bool {
        self.deadline.within_ms(ms).wait_for(LOOK, done)
    }
}

/// A volume in this state has writes that nobody has recorded the end of.
fn is_dirty(state: State) -> bool {
    matches!(
        state,
        State::Active | State::WritePending | State::ActiveIdle
    )
}
