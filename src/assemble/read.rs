//! What a worker does to find out about a disk: reads its end, or a header, and says what is there.

use rustix::io::Errno;

use crate::deadline::Deadline;
use crate::errno::Cause;
use crate::imsm::headers::{self, BadHeader, HEADER_BYTES};
use crate::imsm::{SectorSize, Serial, Unread, Uuid};
use crate::mpb::{self, Nothing};
use crate::path;
use crate::pool::{Crew, MESSAGE, Reply};
use crate::sys::disks::{self, Disk};
use crate::sys::{Root, lock, tail};
use crate::text::Text;

/// What a worker can be asked.
pub(super) enum Order {
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
    pub(super) fn encode(&self, order: &mut [u8; MESSAGE]) -> usize {
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
pub(super) mod said {
    pub(in crate::assemble) const DATA: u8 = b'd';
    pub(in crate::assemble) const SERIAL: u8 = b's';
    pub(in crate::assemble) const NOTHING: u8 = b'-';
    pub(in crate::assemble) const BAD: u8 = b'!';
    pub(in crate::assemble) const GOOD: u8 = b'+';
}

/// Reads below a root.
pub(super) struct Reader<'a> {
    /// Where.
    pub(super) root: &'a Root,
    /// What there is to read.
    pub(super) disks: &'a [Disk],
    /// Nothing is left in /run.
    pub(super) dry_run: bool,
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
        if self.dry_run {
            return Some(None);
        }
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
