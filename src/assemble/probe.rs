//! Which disks have metadata, and what it says: every candidate's end is read, many at once, each in a worker.
//!
//! A disk whose read does not come back costs nothing but itself. It is waited for a little, and not at all once all other
//! disks make whole containers. Its worker is left behind and holds a lock, so that the next call of the initrd's loop
//! knows and does not read there as well.

use rustix::io::Errno;

use crate::deadline::{Deadline, now_ms};
use crate::errno::Cause;
use crate::imsm::headers::{self, BadHeader, HEADER_BYTES};
use crate::imsm::{Found, Member, Metadata, SectorSize, Serial, Unread, Uuid};
use crate::mpb::{self, Nothing};
use crate::path;
use crate::pool::{Bounds, Crew, Foreman, MESSAGE, Pool, Reply};
use crate::sys::disks::{self, Disk};
use crate::sys::proc::Signals;
use crate::sys::{Root, lock, tail};
use crate::text::Text;

/// Reads under way at once.
const WIDTH: usize = 64;
/// As many are begun at first: workers that come back at once do all the rest, and each costs a fork.
const WIDTH_FIRST: usize = 4;
/// A disk that has not answered by then, in milliseconds, lets all others begin.
const PROMPT_MS: u64 = 20;
/// A read that has not come back by then is not waited for where all else is complete.
const SETTLED_MS: u64 = 250;
/// Nor is it anywhere by then.
const READ_MS: u64 = 3_000;

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

/// What a worker can be asked.
enum Order {
    /// The end of the disk.
    End { at: u16 },
    /// A header that is to be checked.
    Header {
        at: u16,
        sector: u64,
        wanted: Wanted,
    },
}

/// What a header must be.
#[derive(Clone, Copy, Debug)]
pub(super) enum Wanted {
    /// A partial parity log's, of this original family.
    Ppl(u32),
    /// A bitmap's, of this volume.
    Bitmap(Uuid),
}

impl Order {
    fn encode(&self, order: &mut [u8; MESSAGE]) -> usize {
        let mut bytes: heapless::Vec<u8, 32> = heapless::Vec::new();
        // 28 bytes at most.
        let mut put = |piece: &[u8]| drop(bytes.extend_from_slice(piece));
        match self {
            Self::End { at } => {
                put(&at.to_le_bytes());
                put(b"e");
            }
            Self::Header { at, sector, wanted } => {
                put(&at.to_le_bytes());
                match wanted {
                    Wanted::Ppl(family) => {
                        put(b"p");
                        put(&sector.to_le_bytes());
                        put(&family.to_le_bytes());
                    }
                    Wanted::Bitmap(uuid) => {
                        put(b"b");
                        put(&sector.to_le_bytes());
                        put(&uuid.0);
                    }
                }
            }
        }
        for (to, from) in order.iter_mut().zip(&bytes) {
            *to = *from;
        }
        bytes.len()
    }

    fn decode(order: &[u8]) -> Option<Self> {
        let (at, rest) = order.split_first_chunk()?;
        let at = u16::from_le_bytes(*at);
        let (kind, rest) = rest.split_first()?;
        if *kind == b'e' {
            return Some(Self::End { at });
        }
        let (sector, rest) = rest.split_first_chunk()?;
        let sector = u64::from_le_bytes(*sector);
        let wanted = match kind {
            b'p' => Wanted::Ppl(u32::from_le_bytes(rest.try_into().ok()?)),
            _ => Wanted::Bitmap(Uuid(rest.try_into().ok()?)),
        };
        Some(Self::Header { at, sector, wanted })
    }
}

/// First bytes of what a worker says.
mod said {
    pub(super) const DATA: u8 = b'd';
    pub(super) const SERIAL: u8 = b's';
    pub(super) const NOTHING: u8 = b'-';
    pub(super) const BAD: u8 = b'!';
    pub(super) const GOOD: u8 = b'+';
}

/// Reads below a root.
pub(super) struct Reader<'a> {
    /// Where.
    pub(super) root: &'a Root,
    /// What there is to read.
    pub(super) disks: &'a [Disk],
}

impl Crew for Reader<'_> {
    fn work(&self, order: &[u8], reply: &Reply) {
        let Some(order) = Order::decode(order) else {
            return;
        };
        let (Order::End { at } | Order::Header { at, .. }) = order;
        let Some(disk) = self.disks.get(usize::from(at)) else {
            return;
        };
        // Who finds it taken says nothing, which is what the first one says.
        let Some(_lock) = self.lock(disk) else {
            return;
        };
        match order {
            Order::End { .. } => self.end(disk, reply),
            Order::Header { sector, wanted, .. } => self.header(disk, sector, wanted, reply),
        }
    }
}

impl Reader<'_> {
    /// Held while the disk is read, by whoever reads it: `None` if a read is under way. Where no lock can be made there is
    /// none.
    fn lock(&self, disk: &Disk) -> Option<Option<rustix::fd::OwnedFd>> {
        let file = path!("/run/quell/reading.{}", disk.name);
        match lock::exclusive(self.root, file.as_str(), Deadline::at_ms(0)) {
            Err(Errno::WOULDBLOCK) => None,
            other => Some(other.ok()),
        }
    }

    fn end(&self, disk: &Disk, reply: &Reply) {
        let bad = |text: core::fmt::Arguments<'_>| {
            say(reply, said::BAD, Text::<250>::of(text).as_str().as_bytes());
        };
        let Some(sector) = SectorSize::of(disk.sector) else {
            return say(reply, said::NOTHING, b"");
        };
        let bytes = disk.sectors.saturating_mul(512);
        let loaded = tail::open_disk(self.root, disk)
            .map_err(Nothing::Unreadable)
            .and_then(|tail| mpb::load(&tail, sector, Some(bytes)));
        let mut tail = match loaded {
            Ok(tail) => tail,
            Err(Nothing::Unread(Unread::None)) => return say(reply, said::NOTHING, b""),
            Err(nothing) => return bad(format_args!("{nothing}")),
        };
        let Some(mpb) = mpb::logical(&mut tail, sector) else {
            return say(reply, said::NOTHING, b"");
        };
        let mut buf = [0; 256];
        let Some(serial) = disks::serial(self.root, disk.dev, &mut buf).and_then(Serial::of_device)
        else {
            return bad(format_args!("has IMSM metadata, but tells no serial"));
        };
        say(reply, said::SERIAL, serial.as_bytes());
        for piece in mpb.chunks(MESSAGE - 2) {
            say(reply, said::DATA, piece);
        }
    }

    fn header(&self, disk: &Disk, sector: u64, wanted: Wanted, reply: &Reply) {
        let mut page = [0; HEADER_BYTES];
        let read =
            tail::open_disk(self.root, disk).and_then(|tail| tail.read_at(sector, &mut page));
        let checked: Result<(), BadHeader> = match (read, wanted) {
            (Err(errno), _) => {
                let text =
                    Text::<120>::of(format_args!("its header cannot be read: {}", Cause(errno)));
                return say(reply, said::BAD, text.as_str().as_bytes());
            }
            (Ok(()), Wanted::Ppl(family)) => headers::ppl(&page, family),
            (Ok(()), Wanted::Bitmap(uuid)) => headers::bitmap(&page, uuid),
        };
        match checked {
            Ok(()) => say(reply, said::GOOD, b""),
            Err(bad) => {
                let text = Text::<200>::of(format_args!("{bad}"));
                say(reply, said::BAD, text.as_str().as_bytes());
            }
        }
    }
}

fn say(reply: &Reply, tag: u8, bytes: &[u8]) {
    let mut message: heapless::Vec<u8, MESSAGE> = heapless::Vec::new();
    let _ = message.push(tag);
    let _ = message.extend_from_slice(
        bytes
            .get(..bytes.len().min(MESSAGE - 2))
            .unwrap_or_default(),
    );
    reply.say(&message);
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
