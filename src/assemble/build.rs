//! What workers do to bring one container up: everything that may block.
//!
//! The container with all its disks, and every volume with its own, side by side: each write that binds a disk costs a grace
//! period of the kernel's. When all of that is done, and not before, one worker starts the volumes, redundant ones
//! `readonly`, then mdmon, which has to answer before any of them may be written, and then sees to what udev and people find
//! them by. A worker stops at the next step when nobody listens any more: the next call goes on from there.

use core::fmt;
use core::time::Duration;

use rustix::io::Errno;

use super::order::{Part, Said};
use super::recorded::Loss;
use super::steps::{Mode, SAFE_MODE_DELAY, Step};
use crate::deadline::{Deadline, now_ms};
use crate::errno::Cause;
use crate::pool::{Crew, Reply, side_by_side};
use crate::sys::disks::{self, Disk};
use crate::sys::md::{self, State, links, mdmon};
use crate::sys::{Root, lock, partitions};
use crate::text::{Printable, Text};

/// Held by every worker while it brings something up: the next call waits for one that was left behind.
pub(super) const LOCK: &str = "/run/quell/building";
/// So long a step that finds something busy is tried again, in milliseconds: udev looks at every device that comes.
pub(super) const BUSY_MS: u64 = 2_000;
/// What is written to start an array.
const STATE: &str = "/array_state";
/// mdmon answers within half a second; a slow machine is given this, in milliseconds.
const WATCH_MS: u64 = 15_000;
/// So long udev is waited for, in milliseconds.
const UDEV_MS: u64 = 1_000;
pub(super) const PAUSE: Duration = Duration::from_millis(10);

/// A container that is to be brought up.
#[derive(Debug)]
pub(super) struct Work {
    /// The array that is it.
    pub(super) array: String,
    /// This call made it: what fails is taken away again.
    pub(super) fresh: bool,
    /// What makes it a container.
    pub(super) steps: Vec<Step>,
    /// What binds each disk that it has not.
    pub(super) binds: Vec<(Disk, Vec<Step>)>,
    /// Its volumes.
    pub(super) volumes: Vec<Volume>,
    /// How it is started.
    pub(super) mode: Mode,
    /// Names by which it is found.
    pub(super) names: links::Names,
}

/// A volume that is to be started or finished.
#[derive(Debug)]
pub(super) struct Volume {
    /// Its place in the container.
    pub(super) index: u8,
    /// The array that is it.
    pub(super) array: String,
    /// It runs already; the steps only make it usable.
    pub(super) runs: bool,
    /// mdmon must watch it.
    pub(super) redundant: bool,
    /// What makes it a volume, in order.
    pub(super) steps: Vec<Step>,
    /// What starts it.
    pub(super) start: Vec<Step>,
    /// It runs without a disk that its metadata counts on.
    pub(super) loss: Option<Loss>,
    /// Names by which it is found.
    pub(super) names: links::Names,
}

/// Brings containers up below a root.
pub(super) struct Builder<'a> {
    /// Where.
    pub(super) root: &'a Root,
    /// What.
    pub(super) works: &'a [Work],
    /// Until when.
    pub(super) deadline: Deadline,
    /// Since when.
    pub(super) start_ms: u64,
}

impl Crew for Builder<'_> {
    fn work(&self, order: &[u8], reply: &Reply) {
        let Some((at, part)) = Part::decode(order) else {
            return;
        };
        let Some(work) = self.works.get(at as usize) else {
            return;
        };
        // Where no lock can be had, nobody looks for one either.
        let _lock = lock::shared(self.root, LOCK, self.deadline);
        let building = Building {
            root: self.root,
            work,
            reply,
            deadline: self.deadline,
            start_ms: self.start_ms,
        };
        match part {
            Part::Container => building.make_container(),
            Part::Volume(at) => building.make_volume(usize::from(at)),
            Part::Start(volumes) => building.start(volumes),
            Part::TakeBack => building.take_back(),
        }
    }
}

/// Why a step failed.
pub(super) struct Failure(pub(super) String);

impl Failure {
    pub(super) fn of(args: fmt::Arguments<'_>) -> Self {
        Self(args.to_string())
    }
}

struct Building<'a> {
    root: &'a Root,
    work: &'a Work,
    reply: &'a Reply,
    deadline: Deadline,
    start_ms: u64,
}

impl Building<'_> {
    fn say(&self, what: Said, volume: Option<u8>, why: fmt::Arguments<'_>) {
        let ms = u32::try_from(now_ms().saturating_sub(self.start_ms)).unwrap_or(u32::MAX);
        self.reply.say(&what.encode(volume, ms, why));
    }

    fn make_container(&self) {
        if let Err(Failure(why)) = self.container() {
            self.say(Said::Failed, None, format_args!("{why}"));
        }
    }

    fn make_volume(&self, at: usize) {
        if let Some(volume) = self.work.volumes.get(at)
            && let Err(why) = self.run(&volume.steps)
        {
            self.failed(volume, &why);
        }
    }

    fn failed(&self, volume: &Volume, Failure(why): &Failure) {
        self.say(Said::Failed, Some(volume.index), format_args!("{why}"));
        if !volume.runs && !self.reply.is_alone() {
            self.clear(&volume.array);
        }
    }

    /// Starts the volumes that are whole, in a container that is.
    fn start(&self, volumes: u32) {
        let whole = |(at, volume)| (volumes >> at & 1 == 1).then_some(volume);
        let mut running: Vec<&Volume> = Vec::new();
        for volume in (0..u32::BITS).zip(&self.work.volumes).filter_map(whole) {
            match self.run(&volume.start) {
                Ok(()) => running.push(volume),
                Err(why) => self.failed(volume, &why),
            }
        }
        let watched = self.watch(&running);
        self.show(&running);
        for volume in running {
            match &watched {
                Err(Failure(why)) if volume.redundant => {
                    let state = md::state(self.root, &volume.array).unwrap_or(State::Unknown);
                    let text = format_args!("{}: {why}", state.word());
                    self.say(Said::Readonly, Some(volume.index), text);
                }
                _ => self.usable(volume),
            }
        }
    }

    /// The container, and all its disks.
    fn container(&self) -> Result<(), Failure> {
        self.run(&self.work.steps)?;
        let binds = &self.work.binds;
        for (disk, _) in binds {
            self.forget_partitions(disk);
        }
        let added: Vec<&Step> = binds
            .iter()
            .filter_map(|(_, steps)| steps.first())
            .collect();
        let results = self.at_once(&added);
        for ((disk, steps), added) in binds.iter().zip(results) {
            let rest = steps.get(1..).unwrap_or_default();
            added
                .and_then(|()| self.run(rest))
                .map_err(|Failure(why)| {
                    let holders = self.holders(disk);
                    Failure::of(format_args!("{why}{holders}"))
                })?;
        }
        Ok(())
    }

    /// Who else has a disk, where the kernel says so.
    fn holders(&self, disk: &Disk) -> Text<60> {
        let mut text = Text::new();
        let _ = disks::holders(self.root, disk.name.as_str(), &mut |holder| {
            let before = if text.is_empty() {
                "; it is held by"
            } else {
                ","
            };
            text.add(format_args!(
                "{before} {}",
                Printable(holder.as_str().as_bytes())
            ));
        });
        text
    }

    fn forget_partitions(&self, disk: &Disk) {
        let end = self.deadline.within_ms(BUSY_MS);
        while let Err(errno) = partitions::forget(self.root, disk) {
            if errno != Errno::BUSY || end.is_over() {
                // Who has one open makes the binding fail, or does no harm.
                let name = &disk.name;
                self.say(
                    Said::Warning,
                    None,
                    format_args!("{name}: its partitions stay visible: {}", Cause(errno)),
                );
                return;
            }
            std::thread::sleep(PAUSE);
        }
    }

    fn run(&self, steps: &[Step]) -> Result<(), Failure> {
        let together = |a: &Step, b: &Step| a.adds_disk() && b.adds_disk();
        for group in steps.chunk_by(together) {
            match group {
                [one] => self.step(one)?,
                several => {
                    let several: Vec<&Step> = several.iter().collect();
                    self.at_once(&several)
                        .into_iter()
                        .collect::<Result<(), _>>()?;
                }
            }
        }
        Ok(())
    }

    /// Adds disks. Each waits until nobody uses the array any more, which takes the kernel a grace period; while one has it
    /// so the others find it so.
    fn at_once(&self, steps: &[&Step]) -> Vec<Result<(), Failure>> {
        let write = |at: usize| steps.get(at).map_or(Ok(()), |step| self.write(step));
        side_by_side(steps.len(), &write)
            .into_iter()
            .zip(steps)
            .map(|(result, step)| result.map_err(|errno| of_step(step, errno)))
            .collect()
    }

    fn step(&self, step: &Step) -> Result<(), Failure> {
        self.write(step).map_err(|errno| of_step(step, errno))
    }

    /// ECANCELED: whoever asked for it has gone.
    fn write(&self, step: &Step) -> Result<(), Errno> {
        if self.reply.is_alone() {
            return Err(Errno::CANCELED);
        }
        let end = self.deadline.within_ms(BUSY_MS);
        loop {
            let pause = match self
                .root
                .write(step.path.as_str(), step.value.as_str().as_bytes())
            {
                Err(Errno::BUSY) if !end.is_over() && may_be_busy(step) => PAUSE,
                // The module of its level is only just being loaded, for another array. The kernel says so each time.
                Err(Errno::INVAL) if !end.is_over() && step.path.as_str().ends_with(STATE) => {
                    PAUSE * 10
                }
                other => return other,
            };
            std::thread::sleep(pause);
        }
    }

    /// mdmon runs and answers, and lets the volumes be written. With `--readonly` nobody may.
    fn watch(&self, running: &[&Volume]) -> Result<(), Failure> {
        let mut redundant = running.iter().filter(|volume| volume.redundant).peekable();
        if redundant.peek().is_none() || self.work.mode == Mode::Readonly {
            return Ok(());
        }
        let (root, container) = (self.root, self.work.array.as_str());
        let end = self.deadline.within_ms(WATCH_MS);
        if mdmon::ping(root, container, end.within_ms(BUSY_MS)).is_err() {
            mdmon::start(root, container, end)
                .map_err(|error| Failure::of(format_args!("nobody watches it: mdmon: {error}")))?;
            mdmon::ping(root, container, end).map_err(|errno| {
                Failure::of(format_args!(
                    "mdmon was started and does not answer: {}",
                    Cause(errno)
                ))
            })?;
        }
        for volume in redundant {
            let readonly =
                || md::state(root, &volume.array).is_ok_and(|state| state == State::Readonly);
            if !end.wait_for(PAUSE, || !readonly()) {
                return Err(Failure::of(format_args!(
                    "mdmon answers, but leaves {} readonly",
                    volume.array
                )));
            }
            if let Some(loss) = &volume.loss {
                self.record(volume, loss, end)?;
            }
            // mdmon wrote back what it found when it came.
            let delay = md::attr(&volume.array, "safe_mode_delay");
            let _ = root.write(delay.as_str(), SAFE_MODE_DELAY.as_bytes());
        }
        Ok(())
    }

    /// Waits until mdmon has recorded that the volume runs without a disk. Where it does not the volume is held readonly
    /// again, in the way that mdmon leaves alone.
    fn record(&self, volume: &Volume, loss: &Loss, end: Deadline) -> Result<(), Failure> {
        if end.wait_for(PAUSE, || loss.is_recorded(self.root)) {
            return Ok(());
        }
        let (root, array) = (self.root, volume.array.as_str());
        let blocked = format!("external:-{}/{}", self.work.array, volume.index);
        let _ = root.write(
            md::attr(array, "metadata_version").as_str(),
            blocked.as_bytes(),
        );
        let _ = root.write(md::attr(array, "array_state").as_str(), b"readonly");
        Err(Failure::of(format_args!(
            "mdmon answers and has not recorded that {array} runs without a disk"
        )))
    }

    /// Tells udev, or does what udev would; the partitions first, which the kernel reads when it is opened.
    fn show(&self, running: &[&Volume]) {
        let root = self.root;
        let tell = |names: &links::Names, partitions: bool| {
            let array = names.array.as_str();
            if partitions && let Err(errno) = links::scan_partitions(root, array) {
                self.say(
                    Said::Warning,
                    None,
                    format_args!("{array}: its partitions cannot be read: {}", Cause(errno)),
                );
            }
            if let Err(errno) = links::change(root, array) {
                self.say(
                    Said::Warning,
                    None,
                    format_args!("{array}: udev cannot be told: {}", Cause(errno)),
                );
            }
        };
        tell(&self.work.names, false);
        for volume in running {
            tell(&volume.names, true);
        }
        let all = || running.iter().map(|v| &v.names).chain([&self.work.names]);
        if !links::udev_runs(root) {
            for names in all() {
                if let Err(errno) = links::make(root, names) {
                    self.say(
                        Said::Warning,
                        None,
                        format_args!(
                            "{}: no link can be made to it: {}",
                            names.array,
                            Cause(errno)
                        ),
                    );
                }
            }
            return;
        }
        let end = self.deadline.within_ms(UDEV_MS);
        let missing = || all().find(|names| !root.exists(names.path.as_str()));
        if !end.wait_for(PAUSE, || missing().is_none())
            && let Some(names) = missing()
        {
            self.say(
                Said::Warning,
                None,
                format_args!("udev has not made {} yet", names.path),
            );
        }
    }

    fn usable(&self, volume: &Volume) {
        match md::state(self.root, &volume.array) {
            Ok(State::Clear | State::Inactive) => self.say(
                Said::Failed,
                Some(volume.index),
                format_args!("it stopped again"),
            ),
            Ok(_) => self.say(Said::Usable, Some(volume.index), format_args!("")),
            Err(errno) => self.say(
                Said::Failed,
                Some(volume.index),
                format_args!("it went away: {}", Cause(errno)),
            ),
        }
    }

    /// Takes away what this call made and could not finish. If it is over the next one may be at work there.
    fn take_back(&self) {
        if self.reply.is_alone() {
            return;
        }
        for volume in self.work.volumes.iter().filter(|volume| !volume.runs) {
            self.clear(&volume.array);
        }
        if self.work.fresh {
            self.clear(&self.work.array);
        }
    }

    /// Only an array that does not run: `clear` would stop one that does.
    fn clear(&self, array: &str) {
        if matches!(
            md::state(self.root, array),
            Ok(State::Clear | State::Inactive)
        ) {
            let _ = self
                .root
                .write(md::attr(array, "array_state").as_str(), b"clear");
        }
    }
}

fn of_step(step: &Step, errno: Errno) -> Failure {
    Failure::of(format_args!(
        "{} into {}: {}",
        Printable(step.value.as_str().as_bytes()),
        step.path.as_str().trim_start_matches("/sys/block/"),
        Cause(errno)
    ))
}

fn may_be_busy(step: &Step) -> bool {
    let path = step.path.as_str();
    path.ends_with("/new_dev") || path.ends_with(STATE)
}
