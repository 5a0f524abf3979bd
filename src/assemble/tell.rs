//! The main process's side of bringing containers up: hears the workers, and tells what they say.

use log::{error, warn};

use super::act::Came;
use super::build::Work;
use super::order::{Part, Said};
use super::{Case, report};
use crate::pool::{Bounds, Foreman, MESSAGE};

/// The one deadline is the only bound.
pub(super) const FOREVER: Bounds = Bounds {
    hold_ms: u64::MAX,
    job_ms: u64::MAX,
};

/// How far the bringing up of a container is.
#[derive(Clone, Debug, Default)]
struct Progress {
    /// Parts that were handed out: the container, then its volumes.
    given: usize,
    /// Those of them that are through.
    through: usize,
    /// The container could not be made.
    is_broken: bool,
    /// Volumes that could not be made, by bit.
    broken: u32,
    /// The last part was handed out.
    is_last: bool,
}

/// Hears the workers, and tells what they say.
pub(super) struct Telling<'a, 's, 'm> {
    cases: &'a mut [Case<'s, 'm>],
    /// By work, which case it is.
    places: &'a [usize],
    works: &'a [Work],
    progress: Vec<Progress>,
}

/// A job is a work's place and which part of it: the container, a volume, or the last.
const PARTS: u32 = 64;

impl<'a, 's, 'm> Telling<'a, 's, 'm> {
    pub(super) fn new(
        cases: &'a mut [Case<'s, 'm>],
        places: &'a [usize],
        works: &'a [Work],
    ) -> Self {
        Self {
            cases,
            places,
            works,
            progress: works.iter().map(|_| Progress::default()).collect(),
        }
    }

    /// Parts that can be done at once.
    pub(super) fn width(&self) -> usize {
        self.works.iter().map(|work| 1 + work.volumes.len()).sum()
    }

    fn part(&self, job: u32) -> Part {
        let at = (job / PARTS) as usize;
        let volumes = self.works.get(at).map_or(0, |work| work.volumes.len());
        match (job % PARTS, self.progress.get(at)) {
            (0, _) => Part::Container,
            (n, _) if (n as usize) <= volumes => Part::Volume((n - 1) as u8),
            (_, Some(progress)) if !progress.is_broken => Part::Start(!progress.broken),
            _ => Part::TakeBack,
        }
    }

    /// That part of a work could not be done.
    fn break_part(&mut self, job: u32) {
        let part = self.part(job);
        if let Some(progress) = self.progress.get_mut((job / PARTS) as usize) {
            match part {
                Part::Container => progress.is_broken = true,
                Part::Volume(at) => progress.broken |= 1 << (at % 32),
                Part::Start(_) | Part::TakeBack => {}
            }
        }
    }

    pub(super) fn close(&mut self, why: &str) {
        for (at, work) in self.places.iter().zip(self.works) {
            for volume in &work.volumes {
                let Some(case) = self.cases.get_mut(*at) else {
                    continue;
                };
                let Some(plan) = case.plans.get(usize::from(volume.index)) else {
                    continue;
                };
                if let Some(came) = case.came.get_mut(usize::from(volume.index))
                    && *came == Came::UnderWay
                {
                    *came = Came::Failed(why.to_owned());
                    report::failed(plan, &volume.array, why);
                }
            }
        }
    }
}

impl Foreman for Telling<'_, '_, '_> {
    fn next(&mut self) -> Option<u32> {
        for ((progress, work), at) in self.progress.iter_mut().zip(self.works).zip(0..) {
            let parts = 1 + work.volumes.len();
            if progress.given < parts {
                progress.given += 1;
                return Some(at * PARTS + (progress.given - 1) as u32);
            }
            if progress.through == parts && !progress.is_last {
                progress.is_last = true;
                return Some(at * PARTS + parts as u32);
            }
        }
        None
    }
    fn order(&self, job: u32, order: &mut [u8; MESSAGE]) -> usize {
        self.part(job).encode(job / PARTS, order)
    }
    fn more(&self) -> bool {
        self.progress.iter().any(|progress| !progress.is_last)
    }
    fn blocks_others(&self, _job: u32) -> bool {
        false
    }
    fn bounds(&self, _job: u32) -> Bounds {
        FOREVER
    }
    fn message(&mut self, job: u32, message: &[u8]) {
        let place = (job / PARTS) as usize;
        let (Some(at), Some(work)) = (self.places.get(place), self.works.get(place)) else {
            return;
        };
        if Said::decode(message).is_some_and(|(said, ..)| said == Said::Failed) {
            self.break_part(job);
        }
        let (Some(case), Some((said, volume, ms, text))) =
            (self.cases.get_mut(*at), Said::decode(message))
        else {
            return;
        };
        let Some(index) = volume else {
            match said {
                Said::Failed => {
                    error!(
                        "{} (container {}): {text}",
                        work.array,
                        case.container.uuid()
                    );
                    case.fail(text);
                }
                _ => warn!("{text}"),
            }
            return;
        };
        let array = work.volumes.iter().find(|volume| volume.index == index);
        let array = array.map_or("", |volume| volume.array.as_str());
        let place = usize::from(index);
        let (Some(plan), Some(came)) = (case.plans.get(place), case.came.get_mut(place)) else {
            return;
        };
        match said {
            Said::Usable => {
                report::started(plan, array, ms);
                *came = Came::Usable(ms);
            }
            Said::Readonly => {
                report::readonly(plan, array, text);
                *came = Came::Readonly(text.to_owned());
            }
            Said::Failed => {
                report::failed(plan, array, text);
                *came = Came::Failed(text.to_owned());
            }
            Said::Warning => warn!("{array}: {text}"),
        }
    }
    fn done(&mut self, job: u32, died: bool) {
        if died {
            self.break_part(job);
        }
        if let Some(progress) = self.progress.get_mut((job / PARTS) as usize) {
            progress.through += 1;
        }
    }
    fn abandon(&mut self, _job: u32) {}
}
