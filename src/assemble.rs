//! `quell assemble`: Intel RAID containers and their volumes, brought up through md's sysfs files.
//!
//! Look (`look`: the disks and what md has; `probe`: the metadata), decide ([`decide`], pure), plan ([`steps`], pure: every
//! write in order), act (`build`, in workers), report (`report`, `show`). It is called once for every disk that comes and
//! then again and again; what one call knows and the next needs is in /run/quell (`state`).
//!
//! Not a byte is written to a disk here. What must be recorded in the metadata (that a disk is missing, that a volume is
//! being written) mdmon records, before the volume may be written.

mod act;
mod build;
mod create;
pub mod decide;
mod judge;
mod look;
mod naming;
mod order;
mod patience;
mod probe;
mod read;
mod recorded;
mod refused;
mod report;
mod show;
mod state;
pub mod steps;
mod tell;
mod wanted;

use log::{Level, error, warn};
use rustix::io::Errno;

use crate::context::{Context, Exit};
use crate::deadline::now_ms;
use crate::errno::Cause;
use crate::imsm::{Container, Found, Member, Plan};
use crate::options::{Assemble, Foreign, Stage};
use crate::pool::{Ended, Pool};
use crate::stage;
use crate::sys::lock;
use crate::sys::md::map;

use decide::{Decision, Existing, Fate, Outcome, Patience};
use probe::Probed;
use read::Reader;
use report::Lines;
use state::State;
use steps::Mode;

/// Another quell, or mdadm, is waited for so long, in milliseconds.
const LOCK_MS: u64 = 10_000;

/// mdadm's lock holds up the initrd so long after the first member was seen, in seconds.
const HELD_S: u32 = 60;

/// What is asked for.
#[derive(Debug)]
pub struct Ask {
    /// The disks that are named; none is all there are.
    pub devices: Vec<String>,
    /// `--readonly`: nothing is written to a member.
    pub readonly: bool,
    /// `--wanted`: only whether IMSM arrays are assembled here, or these disks taken, as an exit status.
    pub wanted: bool,
}

/// A container, what there is of it, and what is to become of it.
struct Case<'s, 'm> {
    /// The container.
    container: Container<'s, 'm>,
    /// Its volumes.
    plans: Vec<Plan<'s>>,
    /// What md has of it.
    existing: Option<&'s Existing>,
    /// What is to become of it.
    decision: Decision,
    /// What came of it, by volume.
    came: Vec<act::Came>,
}

/// Assembles what is asked for.
pub fn run(context: &Context, ask: &Ask) -> Exit {
    let foreign = stage::foreign(context.root, context.stage);
    if ask.devices.is_empty() || ask.wanted {
        if let Some(word) = foreign.off.filter(|_| context.stage.is_hook()) {
            let why = format_args!("{word}: IMSM arrays are left alone");
            return off(context, ask, why);
        }
        if context.options.assemble == Assemble::Off {
            let why = format_args!("quell.assemble=off: IMSM arrays are left to mdadm");
            return off(context, ask, why);
        }
    }
    if ask.wanted && ask.devices.is_empty() {
        return Exit::Done;
    }
    let disks = match look::disks(context.root, ask) {
        Ok(disks) => disks,
        Err(why) => {
            context.nothing(Level::Error, format_args!("{why}; nothing is done"));
            return if ask.devices.is_empty() {
                Exit::Missing
            } else {
                Exit::Usage
            };
        }
    };
    let assembly = Assembly {
        context,
        ask,
        foreign,
        state: State::load(context.root),
        hangs: false,
    };
    match ask.wanted {
        true => assembly.wants(&disks),
        false => assembly.run(&disks),
    }
}

/// Nothing is assembled here, and that is decided.
fn off(context: &Context, ask: &Ask, why: core::fmt::Arguments<'_>) -> Exit {
    // Who asks for each of many disks does not want to hear it each time.
    if ask.devices.is_empty() {
        context.nothing(Level::Info, why);
    }
    if ask.wanted {
        return Exit::Undone;
    }
    let mut state = State::load(context.root);
    state.decided = true;
    if !context.dry_run {
        keep(context, &state, &[]);
    }
    Exit::Done
}

fn keep(context: &Context, state: &State, for_mdadm: &[String]) {
    if let Err(errno) = state.store(context.root, for_mdadm) {
        warn!(
            "/run/quell cannot be written: {}; the next call starts anew",
            Cause(errno)
        );
    }
}

fn keep_from_mdadm(context: &Context, cases: &[Case<'_, '_>]) {
    let disks: Vec<&str> = cases
        .iter()
        .filter(|case| case.decision.is_unsafe(&case.plans))
        .flat_map(|case| case.container.members().iter().map(|member| member.name))
        .collect();
    if let Err(errno) = refused::keep(context.root, &disks) {
        warn!(
            "/run/udev cannot be written: {}; mdadm will be asked about what nobody can start",
            Cause(errno)
        );
    }
}

/// One call.
struct Assembly<'a> {
    context: &'a Context,
    ask: &'a Ask,
    foreign: Foreign,
    state: State,
    /// A disk did not answer: the next call has to look again, whatever else is the same.
    hangs: bool,
}

impl Assembly<'_> {
    fn run(mut self, disks: &look::Disks) -> Exit {
        let context = self.context;
        let disks_now = look::fingerprint(&disks.all);
        if self.nothing_new(disks_now) {
            return Exit::Waiting;
        }
        let _lock = match self.lock() {
            Ok(lock) => lock,
            Err(exit) => return exit,
        };
        if let Err(exit) = self.left_behind() {
            return exit;
        }
        let reader = Reader {
            root: context.root,
            disks: &disks.all,
            dry_run: context.dry_run,
        };
        let mut pool = Pool::new(context.root, &reader, 1);
        let (probed, ended) = probe::ends(
            &mut pool,
            &disks.all,
            context.deadline,
            context.signals.as_ref(),
        );
        if let Some(exit) = cut(context, ended) {
            return exit;
        }
        let mut lines = Lines::default();
        self.add_bad(&probed, &mut lines);
        let mut members: Vec<Member<'_>> = probe::members(&probed).collect();
        let found = Found::new(&mut members);
        for spare in found.spares() {
            lines.add(
                Level::Info,
                format!("{}: a free spare, left alone", spare.name),
            );
        }
        let map = match self.map_lock(found) {
            Ok(map) => map,
            Err(exit) => return exit,
        };
        let arrays = match look::arrays(context.root) {
            Ok(arrays) => arrays,
            Err(errno) => {
                context.nothing(
                    Level::Error,
                    format_args!(
                        "/sys/block cannot be read: {}; nothing is done",
                        Cause(errno)
                    ),
                );
                return Exit::Missing;
            }
        };
        let named = |container: &Container<'_, '_>| {
            let is_named = |name: &str| {
                disks
                    .named
                    .iter()
                    .filter_map(|at| disks.all.get(*at))
                    .any(|disk| disk.name.as_str() == name)
            };
            disks.named.is_empty()
                || container
                    .members()
                    .iter()
                    .any(|member| is_named(member.name))
        };
        let mut cases: Vec<Case<'_, '_>> = Vec::new();
        for container in found.containers().filter(named) {
            cases.push(self.case(container, &arrays, &disks.all, &mut pool));
        }
        // As mdadm takes them.
        cases.sort_by_key(|case| disks.first_of(&case.container));
        drop(pool);
        let strangers = self.say_strangers(disks, &cases);
        for case in &cases {
            lines.decided(case);
        }
        self.state.said = Some(lines.say(self.state.said.filter(|_| context.stage.is_hook())));
        if context.dry_run {
            return show::plan(context, &cases, self.mode(), &disks.all, &arrays).and(strangers);
        }
        if cases
            .iter()
            .any(|case| case.decision.outcome == Outcome::Goes)
        {
            act::carry_out(
                context,
                &mut cases,
                self.mode(),
                &disks.all,
                &arrays,
                map.as_ref(),
            );
        }
        drop(map);
        self.finish(&cases, disks_now).and(strangers)
    }

    /// The last call left all that can be done waiting, and neither a disk nor the end of the wait has come since.
    fn nothing_new(&self, disks_now: u64) -> bool {
        let context = self.context;
        let waits = self.state.until_ms.is_none_or(|until| now_ms() < until);
        context.stage.is_hook()
            && !context.dry_run
            && !context.json
            && self.ask.devices.is_empty()
            && !self.state.decided
            && self.state.first_seen_ms.is_some()
            && self.state.disks == Some(disks_now)
            && waits
    }

    fn mode(&self) -> Mode {
        if self.ask.readonly {
            Mode::Readonly
        } else {
            Mode::Write
        }
    }

    /// One call acts at a time. Another one is waited for.
    fn lock(&self) -> Result<Option<rustix::fd::OwnedFd>, Exit> {
        if self.context.dry_run {
            return Ok(None);
        }
        let end = self.context.deadline.within_ms(LOCK_MS);
        match lock::exclusive(self.context.root, "/run/quell/assemble.lock", end) {
            Ok(lock) => Ok(Some(lock)),
            Err(Errno::WOULDBLOCK) => {
                self.context.nothing(
                    Level::Warn,
                    format_args!("another quell assembles; nothing is done"),
                );
                Err(Exit::Waiting)
            }
            Err(errno) => {
                warn!(
                    "/run/quell/assemble.lock cannot be taken: {}; two calls at once would not know of each other",
                    Cause(errno)
                );
                Ok(None)
            }
        }
    }

    /// A worker of a call that was ended or killed may still be in the midst of a step: it is waited for.
    fn left_behind(&self) -> Result<(), Exit> {
        if self.context.dry_run {
            return Ok(());
        }
        let end = self.context.deadline.within_ms(LOCK_MS);
        match lock::exclusive(self.context.root, build::LOCK, end) {
            Err(Errno::WOULDBLOCK) => {
                let why = format_args!("an earlier call's worker still hangs; nothing is done");
                self.context.nothing(Level::Warn, why);
                Err(Exit::Waiting)
            }
            // Nobody has it, and where there is no lock there is nobody to wait for.
            _ => Ok(()),
        }
    }

    /// mdadm's own lock: nobody else makes arrays while this is held. Not taken where there is nothing to make. Where
    /// mdadm itself hangs, with the lock, the initrd's loop is held up for a while and not for ever.
    fn map_lock(&mut self, found: Found<'_, '_>) -> Result<Option<map::Lock>, Exit> {
        if self.context.dry_run || found.containers().next().is_none() {
            return Ok(None);
        }
        let end = self.context.deadline.within_ms(LOCK_MS);
        let errno = match map::lock(self.context.root, end) {
            Ok(lock) => return Ok(Some(lock)),
            Err(errno) => errno,
        };
        for container in found.containers() {
            self.state.seen_ms(container.uuid());
        }
        let seen = self.state.first_seen_ms.unwrap_or(0);
        let hook = self.context.stage.is_hook();
        if errno == Errno::TIMEDOUT && (!hook || now_ms() < seen + u64::from(HELD_S) * 1000) {
            let why = format_args!("mdadm has /run/mdadm/map.lock; nothing is done");
            self.context.nothing(Level::Warn, why);
            keep(self.context, &self.state, &[]);
            return Err(if hook { Exit::Waiting } else { Exit::Undone });
        }
        warn!(
            "/run/mdadm/map.lock cannot be taken: {}; the arrays are made without it and are not in mdadm's map",
            Cause(errno)
        );
        Ok(None)
    }

    /// Which copies cannot be believed: their disks count as missing.
    fn add_bad(&mut self, probed: &[Probed], lines: &mut Lines) {
        for probed in probed {
            let why = match (&probed.end, probed.member()) {
                (probe::End::Hangs, _) => {
                    self.hangs = true;
                    "a read does not come back".to_owned()
                }
                (probe::End::Bad(why), _) => why.clone(),
                (_, Some(Err(why))) => why,
                _ => continue,
            };
            let line = format!("{}: {why}; it is left out", probed.disk.name);
            lines.add(Level::Warn, line);
        }
    }

    /// Named disks that are in no container.
    fn say_strangers(&self, disks: &look::Disks, cases: &[Case<'_, '_>]) -> Exit {
        let mut exit = Exit::Done;
        for disk in disks.named.iter().filter_map(|at| disks.all.get(*at)) {
            let name = disk.name.as_str();
            let known =
                |case: &Case<'_, '_>| case.container.members().iter().any(|m| m.name == name);
            if !cases.iter().any(known) {
                error!("{name} is in no IMSM container");
                exit = Exit::Undone;
            }
        }
        exit
    }

    /// What all of it came to, kept for the next call.
    fn finish(&mut self, cases: &[Case<'_, '_>], disks_now: u64) -> Exit {
        let mut exit = Exit::Done;
        let mut for_mdadm = Vec::new();
        let mut until = None::<u64>;
        let mut waits = false;
        for case in cases {
            let one = case.exit();
            match (&case.decision.outcome, one) {
                (_, Exit::Mdadm) => for_mdadm.push(case.container.uuid().to_string()),
                (Outcome::Waits(patience), _) => {
                    waits = true;
                    if let Patience::Until(end) = patience {
                        until = Some(until.map_or(*end, |until| until.min(*end)));
                    }
                }
                _ => {}
            }
            exit = exit.and(one);
        }
        self.state.decided = !waits;
        self.state.disks = (!self.hangs).then_some(disks_now);
        self.state.until_ms = until;
        if self.ask.devices.is_empty() {
            keep(self.context, &self.state, &for_mdadm);
            if self.context.stage == Stage::Initrd {
                keep_from_mdadm(self.context, cases);
            }
        }
        if self.context.json {
            show::json(cases, exit);
        }
        exit
    }
}

/// The reading came to an end before it was done.
fn cut(context: &Context, ended: Ended) -> Option<Exit> {
    let (level, why, exit) = match ended {
        Ended::All => return None,
        Ended::Deadline => (Level::Error, "the time is up".to_owned(), Exit::Undone),
        Ended::Signal(name) => (Level::Warn, format!("ended by {name}"), Exit::Undone),
        Ended::NoWorkers(errno) => (
            Level::Error,
            format!("no worker process can be made: {}", Cause(errno)),
            Exit::Missing,
        ),
    };
    context.nothing(level, format_args!("{why}; nothing is done"));
    Some(exit)
}

impl Case<'_, '_> {
    /// What this container came to.
    fn exit(&self) -> Exit {
        let refused = self
            .decision
            .fates
            .iter()
            .any(|fate| matches!(fate, Fate::Not(_)));
        let exit = match &self.decision.outcome {
            Outcome::Runs => Exit::Done,
            Outcome::Goes | Outcome::Left(_) if refused => Exit::Undone,
            Outcome::Goes | Outcome::Left(_) => Exit::Done,
            Outcome::Unsafe(_) => Exit::Undone,
            Outcome::Mdadm(_) => Exit::Mdadm,
            Outcome::Waits(_) => Exit::Waiting,
        };
        self.came
            .iter()
            .fold(exit, |exit, came| exit.and(came.exit()))
    }
}
