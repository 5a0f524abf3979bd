//! The main process's side of bringing containers up: hears the workers, and tells what they say.

use log::{error, warn};

use super::act::Came;
use super::build::{Said, Work};
use super::{Case, report};
use crate::pool::{Bounds, Foreman, MESSAGE};

/// The one deadline is the only bound.
pub(super) const FOREVER: Bounds = Bounds {
    hold_ms: u64::MAX,
    job_ms: u64::MAX,
};

/// Hears the workers, and tells what they say.
pub(super) struct Telling<'a, 's, 'm> {
    pub(super) cases: &'a mut [Case<'s, 'm>],
    /// By job, which case it is.
    pub(super) places: &'a [usize],
    pub(super) works: &'a [Work],
    pub(super) next: u32,
}

impl Telling<'_, '_, '_> {
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
        let job = self.next;
        ((job as usize) < self.works.len()).then(|| {
            self.next += 1;
            job
        })
    }
    fn order(&self, job: u32, order: &mut [u8; MESSAGE]) -> usize {
        for (to, from) in order.iter_mut().zip(job.to_le_bytes()) {
            *to = from;
        }
        size_of::<u32>()
    }
    fn more(&self) -> bool {
        (self.next as usize) < self.works.len()
    }
    fn blocks_others(&self, _job: u32) -> bool {
        false
    }
    fn bounds(&self, _job: u32) -> Bounds {
        FOREVER
    }
    fn message(&mut self, job: u32, message: &[u8]) {
        let (Some(at), Some(work)) = (self.places.get(job as usize), self.works.get(job as usize))
        else {
            return;
        };
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
    fn done(&mut self, _job: u32, _died: bool) {}
    fn abandon(&mut self, _job: u32) {}
}
