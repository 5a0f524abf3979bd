//! What the main process and its workers say to each other, as bytes of one datagram. Pure.

use rustix::io::Errno;

use super::graph::{Kind, Node, Words};
use crate::pool::MESSAGE;
use crate::sys::Dev;
use crate::sys::md::{Name, Version};
use crate::text::Text;

/// What a worker is to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum What {
    /// Start the container's mdmon.
    Mend,
    /// Stop the array.
    Stop,
    /// Make the volume clean, whoever uses it.
    Clean,
    /// Take away what named these arrays.
    Tidy,
}

/// An order: everything a worker needs to know.
#[derive(Clone, Debug)]
pub(super) struct Order {
    pub(super) what: What,
    pub(super) kind: Kind,
    /// mdmon is told to leave the volume alone.
    pub(super) blocked: bool,
    /// The container's mdmon was started just now, and may not have found the volume yet.
    pub(super) fresh: bool,
    /// When it must be over, in milliseconds since boot.
    pub(super) end_ms: u64,
    pub(super) dev: Dev,
    /// The array.
    pub(super) name: Name,
    /// Its container, where it is a volume.
    pub(super) container: Name,
}

/// Bytes of an order before its names.
const HEAD: usize = 19;

impl Order {
    /// For one array.
    pub(super) fn of(what: What, node: &Node, fresh: bool, end_ms: u64) -> Self {
        let volume = match &node.array.version {
            Version::Volume {
                container, blocked, ..
            } => Some((container.clone(), *blocked)),
            _ => None,
        };
        let (container, blocked) = volume.unwrap_or_default();
        Self {
            what,
            kind: node.kind,
            blocked,
            fresh,
            end_ms,
            dev: node.array.dev,
            name: node.array.name.clone(),
            container,
        }
    }

    /// As bytes; returns how many.
    pub(super) fn encode(&self, buf: &mut [u8; MESSAGE]) -> usize {
        let flags = u8::from(self.blocked) | u8::from(self.fresh) << 1;
        let head = [self.what as u8, self.kind as u8, flags];
        let names = Text::<80>::of(format_args!("{}\0{}", self.name, self.container));
        let bytes = head
            .into_iter()
            .chain(self.end_ms.to_le_bytes())
            .chain(self.dev.0.to_le_bytes())
            .chain(names.as_str().bytes());
        buf.iter_mut()
            .zip(bytes)
            .map(|(place, b)| *place = b)
            .count()
    }

    /// From bytes.
    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        let (head, names) = bytes.split_at_checked(HEAD)?;
        let (start, numbers) = head.split_first_chunk::<3>()?;
        let (end_ms, dev) = numbers.split_first_chunk::<8>()?;
        let what = [What::Mend, What::Stop, What::Clean];
        let kinds = [Kind::Container, Kind::Redundant, Kind::Plain, Kind::Native];
        let (name, container) = core::str::from_utf8(names).ok()?.split_once('\0')?;
        Some(Self {
            what: what.into_iter().find(|w| *w as u8 == start[0])?,
            kind: kinds.into_iter().find(|k| *k as u8 == start[1])?,
            blocked: start[2] & 1 != 0,
            fresh: start[2] & 2 != 0,
            end_ms: u64::from_le_bytes(*end_ms),
            dev: Dev(u64::from_le_bytes(dev.try_into().ok()?)),
            name: Text::of(format_args!("{name}")),
            container: Text::of(format_args!("{container}")),
        })
    }
}

/// The order that takes away what named arrays that are gone: as many names as fit, which is dozens.
pub(super) fn tidy<'a>(
    buf: &mut [u8; MESSAGE],
    end_ms: u64,
    names: impl Iterator<Item = &'a Name>,
) -> usize {
    let mut len = 9;
    let head = core::iter::once(What::Tidy as u8).chain(end_ms.to_le_bytes());
    buf.iter_mut().zip(head).for_each(|(place, b)| *place = b);
    for name in names {
        let bytes = name.as_str().as_bytes();
        let end = len + bytes.len() + 1;
        let Some(place) = buf.get_mut(len..end) else {
            break;
        };
        place
            .iter_mut()
            .zip(bytes.iter().chain(b"\0"))
            .for_each(|(place, b)| *place = *b);
        len = end;
    }
    len
}

/// The end and the names of such an order, each name ended by NUL.
pub(super) fn tidy_names(order: &[u8]) -> Option<(u64, impl Iterator<Item = &str>)> {
    let (what, rest) = order.split_first()?;
    let (end_ms, names) = rest.split_first_chunk::<8>()?;
    let names = core::str::from_utf8(names).ok()?;
    (*what == What::Tidy as u8).then(|| (u64::from_le_bytes(*end_ms), names.split_terminator('\0')))
}

/// Where a worker is in its order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    Claim,
    Freeze,
    Clean,
    Stop,
    Mdmon,
    Clear,
    Gone,
}

impl Step {
    const ALL: [Self; 7] = [
        Self::Claim,
        Self::Freeze,
        Self::Clean,
        Self::Stop,
        Self::Mdmon,
        Self::Clear,
        Self::Gone,
    ];

    /// What it is called where it hangs or fails.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Claim => "opening it",
            Self::Freeze => "freezing its resync",
            Self::Clean => "making it clean",
            Self::Stop => "making it inactive",
            Self::Mdmon => "waiting for mdmon",
            Self::Clear => "clearing it",
            Self::Gone => "waiting for it to go",
        }
    }
}

/// In what state an array was left that was stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stopped {
    /// mdmon has recorded that it is clean, or it was clean before.
    Clean,
    /// Nobody was there to record it: its next start resyncs.
    Dirty,
    /// There was nothing to record.
    Plain,
}

/// What a worker says of its array when it is through with it. Some come with words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// It is stopped.
    Stopped(Stopped),
    /// It had gone by itself.
    Gone,
    /// It is clean, and runs on.
    Clean,
    /// It is not clean; the words say what it does and whether mdmon lives.
    NotClean,
    /// Somebody uses it; the words say who.
    Busy,
    /// mdadm reshapes it.
    Reshaped,
    /// A volume lies in it; the words say which.
    HeldUp,
    /// A step failed.
    Failed(Step, Errno),
    /// It is still there; the words say in which state.
    StillThere,
    /// mdmon runs again.
    Mended,
    /// It does not; the words say why.
    NotMended,
}

/// A worker's message.
#[derive(Clone, Debug)]
pub(super) enum Said {
    /// It is at this step.
    At(Step),
    /// It is through, after so many milliseconds.
    End(End, u32, Words),
}

impl Said {
    /// As bytes.
    pub(super) fn encode(&self) -> heapless::Vec<u8, 192> {
        let (tag, detail, errno, ms, words) = match self {
            Self::At(step) => (0, *step as u8, 0, 0, ""),
            Self::End(end, ms, words) => {
                let (tag, detail, errno) = match *end {
                    End::Stopped(how) => (1, how as u8, 0),
                    End::Gone => (2, 0, 0),
                    End::Clean => (3, 0, 0),
                    End::NotClean => (4, 0, 0),
                    End::Busy => (5, 0, 0),
                    End::Reshaped => (6, 0, 0),
                    End::HeldUp => (7, 0, 0),
                    End::Failed(step, errno) => (8, step as u8, errno.raw_os_error()),
                    End::StillThere => (9, 0, 0),
                    End::Mended => (10, 0, 0),
                    End::NotMended => (11, 0, 0),
                };
                (tag, detail, errno, *ms, words.as_str())
            }
        };
        let head = [tag, detail].into_iter();
        let numbers = [errno.cast_unsigned(), ms];
        head.chain(numbers.into_iter().flat_map(u32::to_le_bytes))
            .chain(words.bytes())
            .collect()
    }

    /// From bytes.
    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        let ([tag, detail], rest) = bytes.split_first_chunk::<2>()?;
        let (errno, rest) = rest.split_first_chunk::<4>()?;
        let (ms, words) = rest.split_first_chunk::<4>()?;
        let step = || Step::ALL.get(usize::from(*detail)).copied();
        // Not every number is an error's.
        let errno = || {
            let number = i32::from_le_bytes(*errno);
            (1..4096)
                .contains(&number)
                .then(|| Errno::from_raw_os_error(number))
        };
        let end = match tag {
            0 => return Some(Self::At(step()?)),
            1 => End::Stopped(
                *[Stopped::Clean, Stopped::Dirty, Stopped::Plain].get(usize::from(*detail))?,
            ),
            2 => End::Gone,
            3 => End::Clean,
            4 => End::NotClean,
            5 => End::Busy,
            6 => End::Reshaped,
            7 => End::HeldUp,
            8 => End::Failed(step()?, errno()?),
            9 => End::StillThere,
            10 => End::Mended,
            11 => End::NotMended,
            _ => return None,
        };
        let words = Text::of(format_args!("{}", core::str::from_utf8(words).ok()?));
        Some(Self::End(end, u32::from_le_bytes(*ms), words))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::super::graph::tests::node;
    use super::*;

    #[test]
    fn orders_arrive_as_they_were_sent() {
        let long = "md_a_name_of_thirty-one_letters";
        for text in [
            "md126 external:/md127/0 raid1 active",
            "md126 external:-md127/0 raid1 readonly",
            &format!("{long} external:/{long}/0 raid0 clean"),
            "md127 external:imsm  inactive",
            "md0 1.2 raid1 clean",
        ] {
            for what in [What::Mend, What::Stop, What::Clean] {
                let order = Order::of(what, &node(text), what == What::Stop, u64::MAX - 5);
                let mut buf = [0; MESSAGE];
                let len = order.encode(&mut buf);
                let back = Order::decode(&buf[..len]).unwrap();
                assert_eq!(format!("{back:?}"), format!("{order:?}"));
                assert!(tidy_names(&buf[..len]).is_none());
            }
        }
        assert!(Order::decode(&[1, 1, 1]).is_none());
    }

    #[test]
    fn an_order_to_tidy_up_holds_many_names() {
        let names: Vec<Name> = (0..99).map(|n| Text::of(format_args!("md{n}"))).collect();
        let mut buf = [0; MESSAGE];
        let len = tidy(&mut buf, 77, names.iter());
        let (end, got) = tidy_names(&buf[..len]).unwrap();
        let got: Vec<&str> = got.collect();
        assert_eq!((end, got.len()), (77, 51));
        assert_eq!((got[0], got[50]), ("md0", "md50"));
        assert!(Order::decode(&buf[..len]).is_none());
    }

    #[test]
    fn messages_arrive_as_they_were_sent() {
        let ends = [
            End::Stopped(Stopped::Dirty),
            End::Stopped(Stopped::Plain),
            End::Gone,
            End::Clean,
            End::NotClean,
            End::Busy,
            End::Reshaped,
            End::HeldUp,
            End::Failed(Step::Gone, Errno::BUSY),
            End::StillThere,
            End::Mended,
            End::NotMended,
        ];
        let words = Text::of(format_args!("md126p1 mounted on /"));
        let ends = ends.map(|end| Said::End(end, 31, words.clone()));
        for said in ends.into_iter().chain(Step::ALL.map(Said::At)) {
            let back = Said::decode(&said.encode()).unwrap();
            assert_eq!(format!("{back:?}"), format!("{said:?}"));
        }
        assert!(Said::decode(&[8, 99, 0, 0, 0, 0, 0, 0, 0, 0]).is_none());
    }
}
