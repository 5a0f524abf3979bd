//! What a worker does: looks once more, writes, and looks whether it came to anything.

use core::time::Duration;

use rustix::io::Errno;

use crate::deadline::Deadline;
use crate::pool::{Crew, MESSAGE, Reply};
use crate::sys::Root;
use crate::sys::md::{self, Version, mdmon};
use crate::text::Text;

/// So long a busy container is asked again, in milliseconds.
const BUSY_MS: u64 = 2000;
/// So long mdmon has to take note.
const ANSWER_MS: u64 = 2000;
/// Between two looks.
const PAUSE: Duration = Duration::from_millis(5);

/// An order: all that a worker needs to know.
pub(super) struct Order<'a> {
    pub(super) end_ms: u64,
    pub(super) container: &'a str,
    pub(super) disk: &'a str,
}

impl<'a> Order<'a> {
    pub(super) fn encode(&self, buf: &mut [u8; MESSAGE]) -> usize {
        let names = Text::<80>::of(format_args!("{}\0{}", self.container, self.disk));
        let bytes = self.end_ms.to_le_bytes().into_iter();
        buf.iter_mut()
            .zip(bytes.chain(names.as_str().bytes()))
            .map(|(place, b)| *place = b)
            .count()
    }

    fn decode(bytes: &'a [u8]) -> Option<Self> {
        let (end_ms, names) = bytes.split_first_chunk::<8>()?;
        let (container, disk) = core::str::from_utf8(names).ok()?.split_once('\0')?;
        Some(Self {
            end_ms: u64::from_le_bytes(*end_ms),
            container,
            disk,
        })
    }
}

/// What came of it.
#[derive(Clone, Debug)]
pub(super) enum Done {
    Removed,
    /// A volume has come to use it meanwhile.
    UsedBy(md::Name),
    /// The kernel took the write, and has it still.
    StillThere,
    Failed(Errno),
}

impl Done {
    fn encode(&self) -> heapless::Vec<u8, 48> {
        let (tag, errno, volume) = match self {
            Self::Removed => (0, 0, ""),
            Self::UsedBy(volume) => (1, 0, volume.as_str()),
            Self::StillThere => (2, 0, ""),
            Self::Failed(errno) => (3, errno.raw_os_error(), ""),
        };
        let head = core::iter::once(tag).chain(errno.to_le_bytes());
        head.chain(volume.bytes()).collect()
    }

    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        let (tag, rest) = bytes.split_first()?;
        let (errno, volume) = rest.split_first_chunk::<4>()?;
        let volume = core::str::from_utf8(volume).ok()?;
        let number = i32::from_le_bytes(*errno);
        match tag {
            0 => Some(Self::Removed),
            1 => Some(Self::UsedBy(Text::of(format_args!("{volume}")))),
            2 => Some(Self::StillThere),
            3 if (1..4096).contains(&number) => {
                Some(Self::Failed(Errno::from_raw_os_error(number)))
            }
            _ => None,
        }
    }
}

/// Takes disks out below a root.
pub(super) struct Worker<'a> {
    pub(super) root: &'a Root,
}

impl Crew for Worker<'_> {
    fn work(&self, order: &[u8], reply: &Reply) {
        // Only we write orders.
        if let Some(order) = Order::decode(order) {
            reply.say(&remove(self.root, &order).encode());
        }
    }
}

fn remove(root: &Root, order: &Order<'_>) -> Done {
    let deadline = Deadline::at_ms(order.end_ms);
    if let Some(volume) = user(root, order.container, order.disk) {
        return Done::UsedBy(volume);
    }
    let state = md::member_attr(order.container, order.disk, "state");
    let end = deadline.within_ms(BUSY_MS);
    let written = loop {
        match root.write(state.as_str(), b"remove") {
            Err(Errno::BUSY) if !end.is_over() => std::thread::sleep(PAUSE),
            other => break other,
        }
    };
    match written {
        Ok(()) if is_inside(root, order.container, order.disk) => return Done::StillThere,
        // It went by itself in the same moment.
        Ok(()) | Err(Errno::NOENT | Errno::NODEV) => {}
        Err(errno) => return Done::Failed(errno),
    }
    // A manager that answers has looked at the container's disks again. One that does not will do so some day.
    if mdmon::pid(root, order.container).is_some() {
        let _ = mdmon::ping_manager(root, order.container, deadline.within_ms(ANSWER_MS));
    }
    Done::Removed
}

/// Whether the container has the disk.
pub(super) fn is_inside(root: &Root, container: &str, disk: &str) -> bool {
    root.exists(md::member_attr(container, disk, "state").as_str())
}

/// A volume of the container that has the disk. What cannot be read might be one.
pub(super) fn user(root: &Root, container: &str, disk: &str) -> Option<md::Name> {
    let mut found = None;
    let listed = md::arrays(root, &mut |array| {
        let ours = matches!(&array.version,
            Version::Volume { container: of, .. } if of.as_str() == container);
        if ours && is_inside(root, array.name.as_str(), disk) {
            found = Some(array.name);
        }
        found.is_none()
    });
    match listed {
        Ok(()) => found,
        Err(_) => Some(Text::of(format_args!("a volume"))),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn orders_and_answers_arrive_as_they_were_sent() {
        let order = Order {
            end_ms: 7,
            container: "md127",
            disk: "nvme0n1",
        };
        let mut buf = [0; MESSAGE];
        let len = order.encode(&mut buf);
        let back = Order::decode(&buf[..len]).unwrap();
        assert_eq!(
            (back.end_ms, back.container, back.disk),
            (7, "md127", "nvme0n1")
        );
        for done in [
            Done::Removed,
            Done::UsedBy(Text::of(format_args!("md126"))),
            Done::StillThere,
            Done::Failed(Errno::BUSY),
        ] {
            let back = Done::decode(&done.encode()).unwrap();
            assert_eq!(format!("{back:?}"), format!("{done:?}"));
        }
        assert!(Done::decode(&[3, 0, 0, 0, 0]).is_none());
    }
}
