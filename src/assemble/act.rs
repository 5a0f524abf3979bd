//! Carries out what was decided: arrays are made, mdadm's map is written, containers are brought up side by side.

use log::{error, warn};

use super::build::{self, Builder, Work};
use super::create::{Creator, Wanted};
use super::decide::{Fate, Outcome};
use super::look::Arrays;
use super::naming::{self, Christened, Namer};
use super::recorded::Loss;
use super::steps::{self, Mode, is_redundant};
use super::tell::{FOREVER, Telling};
use super::{Case, report};
use crate::context::{Context, Exit};
use crate::deadline::now_ms;
use crate::errno::Cause;
use crate::imsm::{Plan, SlotState};
use crate::pool::{Bounds, Ended, Foreman, MESSAGE, Pool};
use crate::sys::disks::Disk;
use crate::sys::md::map;

/// What came of a volume.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum Came {
    /// There was nothing to do with it.
    #[default]
    Untouched,
    /// It is being brought up.
    UnderWay,
    /// It can be used, after so many milliseconds.
    Usable(u32),
    /// It runs and must not be written.
    Readonly(String),
    /// It was not started.
    Failed(String),
}

impl Came {
    /// What it makes of the exit status. What quell could not do mdadm may.
    pub(super) fn exit(&self) -> Exit {
        match self {
            Self::Untouched | Self::Usable(_) => Exit::Done,
            Self::Readonly(_) => Exit::Undone,
            Self::Failed(_) | Self::UnderWay => Exit::Mdadm,
        }
    }
}

/// What arrays a case's container and volumes are to be, by name.
pub(super) struct Called {
    /// The container's.
    pub(super) container: String,
    /// It is not there yet.
    pub(super) fresh: bool,
    /// The volumes', by index; none where one is not brought up.
    pub(super) volumes: Vec<Option<String>>,
}

impl Called {
    /// Takes numbers in mdadm's order, containers before volumes; `next` gives one that is free.
    pub(super) fn all<'c>(
        going: impl Iterator<Item = (&'c Case<'c, 'c>, &'c Christened)> + Clone,
        next: &mut dyn FnMut(Wanted) -> Option<String>,
    ) -> Option<Vec<Self>> {
        let containers: Vec<String> = going
            .clone()
            .map(|(case, names)| match case.existing {
                Some(existing) => Some(existing.name.clone()),
                None => next(Wanted {
                    number: names.container.number,
                    ..Wanted::default()
                }),
            })
            .collect::<Option<_>>()?;
        going
            .zip(containers)
            .map(|((case, names), container)| {
                Some(Self {
                    container,
                    fresh: case.existing.is_none(),
                    volumes: Self::volumes(case, names, next)?,
                })
            })
            .collect()
    }

    /// mdadm makes the last volume first. One that cannot run gets an array of its own all the same there, so that the others
    /// are called what they are called otherwise; here it only keeps the number.
    fn volumes(
        case: &Case<'_, '_>,
        names: &Christened,
        next: &mut dyn FnMut(Wanted) -> Option<String>,
    ) -> Option<Vec<Option<String>>> {
        let mut volumes = Vec::new();
        for ((plan, fate), name) in case
            .plans
            .iter()
            .zip(&case.decision.fates)
            .zip(&names.volumes)
            .rev()
        {
            let existing = case.existing;
            let known = existing.and_then(|existing| existing.volume(plan.index));
            let known = known.map(|volume| volume.name.clone());
            let number = name.as_ref().and_then(|name| name.number);
            volumes.push(match fate {
                Fate::Start => Some(next(Wanted {
                    in_the_way: known,
                    number,
                    only_kept: false,
                })?),
                Fate::Finish => known,
                Fate::Not(_) if known.is_none() && name.is_some() => {
                    next(Wanted {
                        in_the_way: None,
                        number,
                        only_kept: true,
                    })?;
                    None
                }
                _ => None,
            });
        }
        volumes.reverse();
        Some(volumes)
    }
}

/// Brings up every container that is to be.
pub(super) fn carry_out(
    context: &Context,
    cases: &mut [Case<'_, '_>],
    mode: Mode,
    disks: &[Disk],
    arrays: &Arrays,
    map: Option<&map::Lock>,
) {
    let going: Vec<usize> = (0..cases.len())
        .filter(|at| {
            cases
                .get(*at)
                .is_some_and(|c| c.decision.outcome == Outcome::Goes)
        })
        .collect();
    let namer = Namer::new(context.root);
    let named: Vec<(usize, Christened)> = going
        .iter()
        .filter_map(|at| Some((*at, namer.christen(cases.get(*at)?))))
        .collect();
    let called = match make_arrays(context, cases, &named, arrays) {
        Ok(called) => called,
        Err(why) => {
            error!("{why}; nothing is started");
            for at in going {
                if let Some(case) = cases.get_mut(at) {
                    case.fail(&why);
                }
            }
            return;
        }
    };
    let mut works: Vec<(usize, Work)> = Vec::new();
    for ((at, names), called) in named.iter().zip(&called) {
        if let Some(case) = cases.get_mut(*at) {
            works.push((*at, work(case, called, names, mode, disks)));
            case.begin(called);
        }
    }
    if let Some(map) = map {
        enter(context, map, cases, &works);
    }
    let (places, works): (Vec<usize>, Vec<Work>) = works.into_iter().unzip();
    let builder = Builder {
        root: context.root,
        works: &works,
        deadline: context.deadline,
        start_ms: now_ms(),
    };
    let mut telling = Telling::new(cases, &places, &works);
    let mut pool = Pool::new(context.root, &builder, telling.width());
    let ended = pool.run(&mut telling, context.deadline, context.signals.as_ref());
    let why = match ended {
        Ended::All => "its worker died",
        Ended::Deadline => "the time is up",
        Ended::Signal(_) => "a signal came",
        Ended::NoWorkers(_) => "no worker process can be made",
    };
    telling.close(why);
    if let Some(map) = map {
        leave(context, map, cases, &places, &works);
    }
}

/// Makes the arrays, and says what each is called.
fn make_arrays(
    context: &Context,
    cases: &[Case<'_, '_>],
    named: &[(usize, Christened)],
    arrays: &Arrays,
) -> Result<Vec<Called>, String> {
    let going = || {
        named
            .iter()
            .filter_map(|(at, names)| Some((cases.get(*at)?, names)))
    };
    // Once to know what is wanted.
    let mut wanted: Vec<Wanted> = Vec::new();
    let _ = Called::all(going(), &mut |one| {
        wanted.push(one);
        Some(String::new())
    });
    let creator = Creator {
        root: context.root,
        wanted: &wanted,
        litter: &arrays.litter,
        empty: &arrays.empty,
        deadline: context.deadline,
    };
    let mut pool = Pool::new(context.root, &creator, 1);
    let mut making = Making::default();
    if wanted.is_empty() {
        making.asked = true;
    }
    let ended = pool.run(&mut making, context.deadline, context.signals.as_ref());
    if let Some(why) = making.trouble {
        return Err(why);
    }
    if making.names.len() < wanted.len() {
        return Err(match ended {
            Ended::NoWorkers(errno) => format!("no worker process can be made: {}", Cause(errno)),
            _ => "the arrays could not be made in time".to_owned(),
        });
    }
    let mut names = making.names.into_iter();
    Called::all(going(), &mut |_| names.next()).ok_or_else(String::new)
}

/// The one job of making arrays.
#[derive(Default)]
struct Making {
    asked: bool,
    names: Vec<String>,
    trouble: Option<String>,
}

impl Foreman for Making {
    fn next(&mut self) -> Option<u32> {
        (!core::mem::replace(&mut self.asked, true)).then_some(0)
    }
    fn order(&self, _job: u32, _order: &mut [u8; MESSAGE]) -> usize {
        1
    }
    fn more(&self) -> bool {
        false
    }
    fn blocks_others(&self, _job: u32) -> bool {
        false
    }
    fn bounds(&self, _job: u32) -> Bounds {
        FOREVER
    }
    fn message(&mut self, _job: u32, message: &[u8]) {
        let text = String::from_utf8_lossy(message);
        match text.strip_prefix('!') {
            Some(why) => self.trouble = Some(why.to_owned()),
            None => self.names.push(text.into_owned()),
        }
    }
    fn done(&mut self, _job: u32, _died: bool) {}
    fn abandon(&mut self, _job: u32) {}
}

/// What a worker is to do for a container.
fn work(
    case: &Case<'_, '_>,
    called: &Called,
    named: &Christened,
    mode: Mode,
    disks: &[Disk],
) -> Work {
    let container = &case.container;
    let uuid = container.uuid();
    let disk = |name: &str| disks.iter().find(|disk| disk.name.as_str() == name);
    let mut volumes = Vec::new();
    let fates = case.plans.iter().zip(&case.decision.fates);
    for (((plan, fate), array), choice) in fates.zip(&called.volumes).zip(&named.volumes) {
        let (Some(array), Some(choice)) = (array, choice) else {
            continue;
        };
        let runs = *fate == Fate::Finish;
        let (steps, start) = if runs {
            (Vec::new(), steps::finish(plan, &called.container, array))
        } else {
            let dev = |name: &str| disk(name).map(|disk| disk.dev);
            let steps = steps::volume(container, plan, &called.container, array, mode, &dev);
            (steps, steps::start(plan, array, mode))
        };
        volumes.push(build::Volume {
            index: plan.index,
            array: array.clone(),
            runs,
            redundant: is_redundant(plan),
            steps,
            start,
            loss: loss(plan, &disk),
            names: naming::names(array, choice, plan.uuid),
        });
    }
    Work {
        array: called.container.clone(),
        fresh: called.fresh,
        steps: if called.fresh {
            steps::container(&called.container)
        } else {
            Vec::new()
        },
        binds: binds(case)
            .filter_map(|(index, name)| {
                let disk = disk(name)?;
                Some((
                    disk.clone(),
                    steps::bind(container, &called.container, index, name, disk.dev),
                ))
            })
            .collect(),
        volumes,
        mode,
        names: naming::names(&called.container, &named.container, uuid),
    }
}

/// What must be recorded before the volume may be written.
fn loss<'d>(plan: &Plan<'_>, disk: &dyn Fn(&str) -> Option<&'d Disk>) -> Option<Loss> {
    let lost = |state| matches!(state, SlotState::Missing | SlotState::Lagging { .. });
    let slots: Vec<u8> = (0..)
        .zip(&plan.slots)
        .filter(|(_, slot)| lost(slot.state))
        .map(|(number, _)| number)
        .collect();
    let mut there = plan.slots_that(|state| state == SlotState::InSync);
    let witness = there.find_map(|slot| disk(slot.name?))?.clone();
    (!slots.is_empty() && is_redundant(plan)).then_some(Loss {
        volume: plan.index,
        slots,
        witness,
    })
}

/// The disks that the container has not got and is to get, each with its place in the table. None once mdmon runs it or
/// has been about to.
pub(super) fn binds<'a>(case: &'a Case<'_, '_>) -> impl Iterator<Item = (u8, &'a str)> {
    let closed = case
        .existing
        .is_some_and(|existing| existing.is_closed(&case.plans));
    let bound = case
        .container
        .bound()
        .map(|(index, member)| (index, member.name));
    // A disk that is to be rebuilt may be too old to be counted among them.
    let rebuilt = case.plans.iter().flat_map(|plan| {
        let bound = plan.slots.iter().filter(|slot| slot.state.is_bound());
        bound.filter_map(|slot| Some((slot.disk, slot.name?)))
    });
    let mut all: Vec<(u8, &str)> = bound.chain(rebuilt).collect();
    all.sort_unstable();
    all.dedup();
    let has = |name: &str| case.existing.is_some_and(|existing| existing.has(name));
    all.into_iter()
        .filter(move |(_, name)| !closed && !has(name))
}

/// Writes the arrays into mdadm's map, so that whoever asks it, udev first of all, finds their names.
fn enter(context: &Context, map: &map::Lock, cases: &[Case<'_, '_>], works: &[(usize, Work)]) {
    let mut entries = Vec::new();
    for (at, work) in works {
        let Some(case) = cases.get(*at) else {
            continue;
        };
        entries.push(naming::entry(&work.names, format_args!("imsm")));
        for volume in &work.volumes {
            let of = format_args!("/{}/{}", work.array, volume.index);
            entries.push(naming::entry(&volume.names, of));
        }
        for (plan, _) in case.plans.iter().zip(&case.decision.fates) {
            let volume = work
                .volumes
                .iter()
                .find(|volume| volume.index == plan.index);
            if let Some(volume) = volume {
                report::before(plan, &volume.array);
            }
        }
    }
    let keep = &mut |entry: &map::Entry| {
        !entries
            .iter()
            .any(|new| new.name.as_str() == entry.name.as_str())
    };
    if let Err(errno) = map.replace(context.root, keep, &entries) {
        warn!(
            "/run/mdadm/map cannot be written: {}; mdadm will give the arrays other names",
            Cause(errno)
        );
    }
}

/// Takes out of it again what did not come up.
fn leave(
    context: &Context,
    map: &map::Lock,
    cases: &[Case<'_, '_>],
    places: &[usize],
    works: &[Work],
) {
    let mut gone: Vec<&str> = Vec::new();
    for (at, work) in places.iter().zip(works) {
        let Some(case) = cases.get(*at) else {
            continue;
        };
        let failed = |index: u8| matches!(case.came.get(usize::from(index)), Some(Came::Failed(_)));
        gone.extend(
            work.volumes
                .iter()
                .filter(|v| failed(v.index))
                .map(|v| v.array.as_str()),
        );
        if work.fresh && !crate::sys::md::exists(context.root, &work.array) {
            gone.push(&work.array);
        }
    }
    if !gone.is_empty() {
        let keep = &mut |entry: &map::Entry| !gone.contains(&entry.name.as_str());
        let _ = map.replace(context.root, keep, &[]);
    }
}

impl Case<'_, '_> {
    /// Its volumes are being brought up.
    fn begin(&mut self, called: &Called) {
        for (came, array) in self.came.iter_mut().zip(&called.volumes) {
            if array.is_some() {
                *came = Came::UnderWay;
            }
        }
    }

    /// Nothing came of it.
    pub(super) fn fail(&mut self, why: &str) {
        for (came, fate) in self.came.iter_mut().zip(&self.decision.fates) {
            if matches!(fate, Fate::Start | Fate::Finish) {
                *came = Came::Failed(why.to_owned());
            }
        }
    }
}
