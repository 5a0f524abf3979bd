//! What the main process and the workers that bring something up say to each other.

use core::fmt;

use crate::pool::MESSAGE;
use crate::text::Text;

/// What a worker is to do, of the work at that place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// The container and its disks.
    Container,
    /// The volume at that place among the work's.
    Volume(u8),
    /// Start those volumes, by bit, and finish.
    Start(u32),
    /// Take away what was made, since the container could not be.
    TakeBack,
}

impl Part {
    /// An order is the work's place, which part, and its number.
    pub(super) fn encode(self, work: u32, order: &mut [u8; MESSAGE]) -> usize {
        let (tag, number) = match self {
            Self::Container => (0, 0),
            Self::Volume(at) => (1, u32::from(at)),
            Self::Start(volumes) => (2, volumes),
            Self::TakeBack => (3, 0),
        };
        let bytes = work
            .to_le_bytes()
            .into_iter()
            .chain([tag])
            .chain(number.to_le_bytes());
        for (to, from) in order.iter_mut().zip(bytes) {
            *to = from;
        }
        9
    }

    pub(super) fn decode(order: &[u8]) -> Option<(u32, Self)> {
        let (work, rest) = order.split_first_chunk()?;
        let (tag, number) = rest.split_first()?;
        let number = u32::from_le_bytes(number.try_into().ok()?);
        let part = match tag {
            0 => Self::Container,
            1 => Self::Volume(u8::try_from(number).ok()?),
            2 => Self::Start(number),
            _ => Self::TakeBack,
        };
        Some((u32::from_le_bytes(*work), part))
    }
}

/// What a worker says: of which volume (none: the container), and what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Said {
    /// It can be used.
    Usable,
    /// It runs, but must not be written, and why.
    Readonly,
    /// It was not started, and why.
    Failed,
    /// Something beside it went wrong.
    Warning,
}

impl Said {
    const ALL: [Self; 4] = [Self::Usable, Self::Readonly, Self::Failed, Self::Warning];

    /// A message: what, of which volume, after how many milliseconds, in which words.
    pub(super) fn encode(
        self,
        volume: Option<u8>,
        ms: u32,
        why: fmt::Arguments<'_>,
    ) -> heapless::Vec<u8, { MESSAGE - 1 }> {
        let mut message = heapless::Vec::new();
        let tag = Self::ALL.iter().position(|said| *said == self).unwrap_or(0);
        let [a, b, c, d] = ms.to_le_bytes();
        let has = u8::from(volume.is_some());
        // There is room for all of it.
        let _ = message.extend_from_slice(&[tag as u8, has, volume.unwrap_or(0), a, b, c, d]);
        let _ = message.extend_from_slice(Text::<240>::of(why).as_str().as_bytes());
        message
    }

    /// Takes a message apart: what, of which volume, after how many milliseconds, in which words.
    pub(super) fn decode(message: &[u8]) -> Option<(Self, Option<u8>, u32, &str)> {
        let (head, text) = message.split_first_chunk::<7>()?;
        let [tag, has, volume, ms @ ..] = head;
        Some((
            *Self::ALL.get(usize::from(*tag))?,
            (*has == 1).then_some(*volume),
            u32::from_le_bytes(*ms),
            core::str::from_utf8(text).unwrap_or_default(),
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_says_which_part_of_which_work() {
        for part in [
            Part::Container,
            Part::Volume(15),
            Part::Start(0xFFFF_FFFE),
            Part::TakeBack,
        ] {
            let mut order = [0; MESSAGE];
            let len = part.encode(300, &mut order);
            assert_eq!(Part::decode(&order[..len]), Some((300, part)));
        }
        assert_eq!(Part::decode(b"short"), None);
    }

    #[test]
    fn what_is_said_is_heard() {
        let message = Said::Readonly.encode(Some(1), 84, format_args!("no mdmon"));
        let heard = Said::decode(&message);
        assert_eq!(heard, Some((Said::Readonly, Some(1), 84, "no mdmon")));
        let message = Said::Failed.encode(None, 0, format_args!(""));
        assert_eq!(Said::decode(&message), Some((Said::Failed, None, 0, "")));
        assert_eq!(Said::decode(&[9, 0, 0, 0, 0, 0, 0]), None);
        assert_eq!(Said::decode(b"short"), None);
    }
}
