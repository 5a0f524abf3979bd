//! Which disks have metadata, and what it says: every candidate's end is read, many at once, each in a worker.
//!
//! A disk whose read does not come back costs nothing but itself. It is waited for a little, and not at all once all other
//! disks make whole containers. Its worker is left behind and holds a lock, so that the next call of the initrd's loop
//! knows and does not read there as well.

use super::read::{Order, Wanted, said};
use crate::deadline::{Deadline, now_ms};
use crate::imsm::{Found, Member, Metadata, SectorSize, Serial};
use crate::pool::{Bounds, Foreman, MESSAGE, Pool};
use crate::sys::disks::Disk;
use crate::sys::proc::Signals;

/// Reads under way at once.
const WIDTH: usize = 64;
/// As many are begun at first: workers that come back at once do all the rest, and each costs a fork, which takes longer
/// than a sound disk does to answer.
const WIDTH_FIRST: usize = 2;
/// A disk that has not answered by then, in milliseconds, lets all others begin.
const PROMPT_MS: u64 = 100;
/// A read that has not come back by then is not waited for where all else is complete.
const SETTLED_MS: u64 = 1_000;
/// Nor is it anywhere by then.
const READ_MS: u64 = 5_000;

/// A disk, and what was read of it.
#[derive(Debug)]
pub(super) struct Probed {
    /// The disk.
    pub(super) disk: Disk,
    /// What is there.
    pub(super) end: End,
}

/// What is at the end of a disk.
#[derive(Debug, Default)]
pub(super) enum End {
    /// It was not read yet, or the read did not come back.
    #[default]
    Hangs,
    /// No metadata of this kind.
    Nothing,
    /// Metadata, in its logical order.
    Metadata {
        /// Its bytes.
        mpb: Vec<u8>,
        /// The disk's own serial.
        serial: Serial,
        /// The disk's sector size.
        sector: SectorSize,
    },
    /// Metadata that cannot be believed, or none of a disk that cannot be asked: in words.
    Bad(String),
}

impl Probed {
    /// The disk with its metadata, if it has some.
    pub(super) fn member(&self) -> Option<Result<Member<'_>, String>> {
        let End::Metadata {
            mpb,
            serial,
            sector,
        } = &self.end
        else {
            return None;
        };
        let member = Metadata::parse(mpb, *sector, None)
            .map_err(|unread| unread.to_string())
            .and_then(|metadata| {
                Member::new(
                    self.disk.name.as_str(),
                    *serial,
                    metadata,
                    Some(self.disk.sectors),
                )
                .map_err(|fault| fault.to_string())
            });
        Some(member)
    }
}

/// What a worker has said of one order.
#[derive(Default)]
struct Answer {
    since_ms: Option<u64>,
    done: bool,
    data: Vec<u8>,
    serial: Option<Serial>,
    /// How it came out, and in which words.
    came: Option<(u8, String)>,
}

/// Hands out orders.
struct Asking<'a> {
    disks: &'a [Disk],
    orders: Vec<Order>,
    answers: Vec<Answer>,
    next: usize,
    /// Not every answer came at once: all are asked.
    wide: bool,
    /// What is still under way is not needed.
    settled: bool,
}

impl<'a> Asking<'a> {
    fn new(disks: &'a [Disk], orders: Vec<Order>) -> Self {
        Self {
            disks,
            answers: orders.iter().map(|_| Answer::default()).collect(),
            orders,
            next: 0,
            wide: false,
            settled: false,
        }
    }

    fn running(&self) -> impl Iterator<Item = u64> {
        self.answers
            .iter()
            .filter(|answer| !answer.done)
            .filter_map(|answer| answer.since_ms)
    }

    /// The disks that have answered make whole containers, and at least one.
    fn is_whole(&self) -> bool {
        let probed: Vec<Probed> = self.probed();
        let mut members: Vec<Member<'_>> = members(&probed).collect();
        let found = Found::new(&mut members);
        let mut any = false;
        found.containers().all(|container| {
            any = true;
            container.refusal().is_none() && container.missing().next().is_none()
        }) && any
    }

    /// What came of reading the ends.
    fn probed(&self) -> Vec<Probed> {
        self.disks
            .iter()
            .zip(&self.answers)
            .zip(&self.orders)
            .map(|((disk, answer), order)| Probed {
                end: answer.end(disk, order),
                disk: disk.clone(),
            })
            .collect()
    }
}

impl Answer {
    fn end(&self, disk: &Disk, order: &Order) -> End {
        if !self.done || !matches!(order, Order::End { .. }) {
            return End::Hangs;
        }
        match (&self.came, self.serial, SectorSize::of(disk.sector)) {
            (Some((said::BAD, why)), ..) => End::Bad(why.clone()),
            (None, Some(serial), Some(sector)) => End::Metadata {
                mpb: self.data.clone(),
                serial,
                sector,
            },
            (Some(_), ..) => End::Nothing,
            // Another call's read is under way there.
            _ => End::Hangs,
        }
    }
}

impl Foreman for Asking<'_> {
    fn next(&mut self) -> Option<u32> {
        if !self.wide && self.running().count() >= WIDTH_FIRST {
            return None;
        }
        let answer = self.answers.get_mut(self.next)?;
        answer.since_ms = Some(now_ms());
        self.next += 1;
        u32::try_from(self.next - 1).ok()
    }

    fn order(&self, job: u32, order: &mut [u8; MESSAGE]) -> usize {
        self.orders.get(job as usize).map_or(0, |o| o.encode(order))
    }

    fn more(&self) -> bool {
        self.next < self.orders.len()
    }

    fn blocks_others(&self, _job: u32) -> bool {
        false
    }

    fn bounds(&self, job: u32) -> Bounds {
        let since = self
            .answers
            .get(job as usize)
            .and_then(|answer| answer.since_ms);
        let held = now_ms().saturating_sub(since.unwrap_or(0));
        Bounds {
            // Nobody's place is given away; this is only when to look at the clock.
            hold_ms: if held < PROMPT_MS {
                PROMPT_MS
            } else {
                SETTLED_MS
            },
            job_ms: if self.settled { SETTLED_MS } else { READ_MS },
        }
    }

    fn message(&mut self, job: u32, message: &[u8]) {
        let (Some(answer), Some((tag, rest))) =
            (self.answers.get_mut(job as usize), message.split_first())
        else {
            return;
        };
        match *tag {
            said::DATA => answer.data.extend_from_slice(rest),
            said::SERIAL => answer.serial = Serial::of_device(rest),
            tag => answer.came = Some((tag, String::from_utf8_lossy(rest).into_owned())),
        }
    }

    fn done(&mut self, job: u32, died: bool) {
        if let Some(answer) = self.answers.get_mut(job as usize) {
            answer.done = true;
            if died {
                answer.came = Some((said::BAD, "its reader died".into()));
            }
        }
    }

    fn abandon(&mut self, _job: u32) {}

    fn tick(&mut self) {
        let now = now_ms();
        let all = |ms: u64| self.running().all(|since| now.saturating_sub(since) >= ms);
        let any = self.running().next().is_some();
        let slow = self
            .running()
            .any(|since| now.saturating_sub(since) >= PROMPT_MS);
        let settled = !self.settled && any && !self.more() && all(SETTLED_MS) && self.is_whole();
        self.wide |= slow;
        self.settled |= settled;
    }
}

/// The disks of `probed` that have metadata that can be believed.
pub(super) fn members(probed: &[Probed]) -> impl Iterator<Item = Member<'_>> {
    probed.iter().filter_map(|probed| probed.member()?.ok())
}

/// Reads the end of every disk.
pub(super) fn ends(
    pool: &mut Pool<'_>,
    disks: &[Disk],
    deadline: Deadline,
    signals: Option<&Signals>,
) -> (Vec<Probed>, crate::pool::Ended) {
    let orders = (0..disks.len())
        .filter_map(|at| {
            Some(Order::End {
                at: u16::try_from(at).ok()?,
            })
        })
        .collect();
    let mut asking = Asking::new(disks, orders);
    pool.next_phase(WIDTH);
    let ended = pool.run(&mut asking, deadline, signals);
    (asking.probed(), ended)
}

/// A header that is to be looked at.
#[derive(Clone, Copy, Debug)]
pub(super) struct Header {
    /// The disk, by its place among those that were read.
    pub(super) at: usize,
    /// The volume, by its place in its container.
    pub(super) volume: u8,
    /// Where it is.
    pub(super) sector: u64,
    /// What it must be.
    pub(super) wanted: Wanted,
}

/// Looks at headers, and returns those that must not be trusted: which, and why.
pub(super) fn bad_headers(
    pool: &mut Pool<'_>,
    disks: &[Disk],
    wanted: &[Header],
    deadline: Deadline,
    signals: Option<&Signals>,
) -> Vec<(Header, String)> {
    let orders = wanted
        .iter()
        .filter_map(|header| {
            let at = u16::try_from(header.at).ok()?;
            Some(Order::Header {
                at,
                sector: header.sector,
                wanted: header.wanted,
            })
        })
        .collect();
    let mut asking = Asking::new(disks, orders);
    asking.wide = true;
    pool.next_phase(WIDTH);
    let _ = pool.run(&mut asking, deadline, signals);
    wanted
        .iter()
        .zip(&asking.answers)
        .filter_map(|(header, answer)| {
            let name = disks.get(header.at).map_or("", |disk| disk.name.as_str());
            match &answer.came {
                Some((said::GOOD, _)) => None,
                Some((_, why)) => Some((*header, format!("{name}: {why}"))),
                None => Some((
                    *header,
                    format!("{name}: its header could not be read in time"),
                )),
            }
        })
        .collect()
}
