//! What the main process and its workers say to each other, as bytes of one datagram. Pure.

use rustix::io::Errno;

use crate::capability::{Action, State};
use crate::name::Key;
use crate::pool::MESSAGE;
use crate::sys::nvme::Subsystem;
use crate::sys::pci::PciAddress;

/// Controllers one order names; a subsystem with more is done by several orders, one after the other.
pub(super) const CONTROLLERS: usize = 16;

/// A controller as the plan knew it: another one may have its name by now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Target {
    pub(super) instance: u32,
    pub(super) pci: Option<PciAddress>,
}

/// What a worker is to do.
// One at a time, on the stack: boxing the targets would allocate.
#[allow(clippy::large_enum_variant)]
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Order {
    /// Find the processes that have a node open, but for the main process.
    Users { main: u32 },
    /// Ask a controller for RTD3E.
    Identify { instance: u32 },
    /// Claim and flush the subsystem's namespaces, then do these controllers.
    Quiesce {
        action: Action,
        subsystem: Subsystem,
        /// The namespaces that the plan saw behind these: if there are others now, nobody has looked at who uses them.
        fingerprint: Fingerprint,
        targets: heapless::Vec<Target, CONTROLLERS>,
    },
}

/// A set of namespaces as one number, whatever their order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Fingerprint(pub(super) u64);

impl Fingerprint {
    /// Adds a namespace.
    pub(super) fn add(&mut self, key: Key) {
        // The finaliser of splitmix64: one that goes and one that comes do not cancel out.
        let mut x = u64::from(key.instance) << 32 | u64::from(key.head);
        x = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
        x = (x ^ x >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ x >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        self.0 = self.0.wrapping_add(x ^ x >> 31);
    }
}

/// Where a worker is in its order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Step {
    Claim,
    Flush,
    Prepare,
    Act,
}

impl Step {
    const ALL: [Self; 4] = [Self::Claim, Self::Flush, Self::Prepare, Self::Act];

    /// What it is called where it hangs or fails.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Claim => "opening its namespaces",
            Self::Flush => "flushing",
            Self::Prepare => "preparing",
            Self::Act => "removal",
        }
    }
}

/// What a worker says of one controller when it is through with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// The driver has let go of it.
    Gone,
    /// The same, but the function did not answer when it was to: nobody told the drive.
    GoneUntold,
    /// Quell had gone before this one's turn came.
    NotStarted,
    /// A namespace is claimed by somebody.
    Busy(Key),
    /// What was written to this namespace could not be committed, so it keeps its controller.
    Unflushed(Key, Errno),
    /// A namespace cannot be opened, so whether it is in use is not known.
    Unopened(Key, Errno),
    /// There are namespaces the plan did not see.
    Changed,
    /// It is in this state now.
    NotLive(State),
    /// It had gone by itself, or another has its name.
    Vanished,
    /// The write that was to remove it failed.
    Failed(Step, Errno),
    /// The write succeeded and it is still there.
    StillThere,
}

/// A worker's message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Said {
    /// It is at this step of the controller at this place of its order.
    At(u8, Step),
    /// It is through with the controller at this place, after so many milliseconds.
    End(u8, End, u32),
}

const KIND_USERS: u8 = 1;
const KIND_IDENTIFY: u8 = 2;
const KIND_UNBIND: u8 = 3;
const KIND_DELETE: u8 = 4;

/// Writes bytes one after the other; what does not fit is a defect that the sizes above rule out.
struct Pen<'a> {
    buf: &'a mut [u8; MESSAGE],
    at: usize,
}

impl Pen<'_> {
    fn put(&mut self, bytes: &[u8]) {
        if let Some(room) = self.buf.get_mut(self.at..self.at + bytes.len()) {
            room.copy_from_slice(bytes);
            self.at += bytes.len();
        }
    }
}

/// Reads them again.
struct Eye<'a>(&'a [u8]);

impl Eye<'_> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (head, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*head)
    }
    fn byte(&mut self) -> Option<u8> {
        self.take::<1>().map(|[b]| b)
    }
    fn number(&mut self) -> Option<u32> {
        self.take().map(u32::from_le_bytes)
    }
}

impl Order {
    /// As bytes; returns how many.
    pub(super) fn encode(&self, buf: &mut [u8; MESSAGE]) -> usize {
        let mut pen = Pen { buf, at: 0 };
        match self {
            Self::Users { main } => {
                pen.put(&[KIND_USERS]);
                pen.put(&main.to_le_bytes());
            }
            Self::Identify { instance } => {
                pen.put(&[KIND_IDENTIFY]);
                pen.put(&instance.to_le_bytes());
            }
            Self::Quiesce {
                action,
                subsystem,
                fingerprint,
                targets,
            } => {
                pen.put(&[match action {
                    Action::Unbind => KIND_UNBIND,
                    Action::Delete => KIND_DELETE,
                }]);
                let (shared, number) = match subsystem {
                    Subsystem::Shared(n) => (1, n),
                    Subsystem::Alone(n) => (0, n),
                };
                pen.put(&[shared]);
                pen.put(&number.to_le_bytes());
                pen.put(&fingerprint.0.to_le_bytes());
                for target in targets {
                    pen.put(&target.instance.to_le_bytes());
                    pen.put(&[u8::from(target.pci.is_some())]);
                    pen.put(&target.pci.map_or([0; 8], PciAddress::to_bytes));
                }
            }
        }
        pen.at
    }

    /// From bytes.
    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        let mut eye = Eye(bytes);
        let kind = eye.byte()?;
        let action = match kind {
            KIND_USERS => {
                return Some(Self::Users {
                    main: eye.number()?,
                });
            }
            KIND_IDENTIFY => {
                return Some(Self::Identify {
                    instance: eye.number()?,
                });
            }
            KIND_UNBIND => Action::Unbind,
            KIND_DELETE => Action::Delete,
            _ => return None,
        };
        let shared = eye.byte()? == 1;
        let number = eye.number()?;
        let subsystem = if shared {
            Subsystem::Shared(number)
        } else {
            Subsystem::Alone(number)
        };
        let fingerprint = Fingerprint(u64::from_le_bytes(eye.take()?));
        let mut targets = heapless::Vec::new();
        while let Some(instance) = eye.number() {
            let has_pci = eye.byte()? == 1;
            let pci = PciAddress::from_bytes(eye.take()?);
            targets
                .push(Target {
                    instance,
                    pci: has_pci.then_some(pci),
                })
                .ok()?;
        }
        Some(Self::Quiesce {
            action,
            subsystem,
            fingerprint,
            targets,
        })
    }
}

impl Said {
    /// As bytes.
    pub(super) fn encode(self) -> [u8; 24] {
        let mut bytes = [0; 24];
        let none = Key::default();
        let (at, tag, step, errno, key, ms) = match self {
            Self::At(at, step) => (at, 0, step as u8, 0, none, 0),
            Self::End(at, end, ms) => {
                let (tag, step, errno, key) = match end {
                    End::Gone => (1, 0, 0, none),
                    End::Busy(key) => (2, 0, 0, key),
                    End::Unflushed(key, errno) => (3, 0, errno.raw_os_error(), key),
                    End::Unopened(key, errno) => (4, 0, errno.raw_os_error(), key),
                    End::Changed => (5, 0, 0, none),
                    End::NotLive(state) => (6, state as u8, 0, none),
                    End::Vanished => (7, 0, 0, none),
                    End::Failed(step, errno) => (8, step as u8, errno.raw_os_error(), none),
                    End::StillThere => (9, 0, 0, none),
                    End::GoneUntold => (10, 0, 0, none),
                    End::NotStarted => (11, 0, 0, none),
                };
                (at, tag, step, errno, key, ms)
            }
        };
        let numbers = [errno.cast_unsigned(), key.instance, key.head, ms];
        for (place, byte) in bytes.iter_mut().zip(
            [at, tag, step, 0]
                .into_iter()
                .chain(numbers.iter().flat_map(|n| n.to_le_bytes())),
        ) {
            *place = byte;
        }
        bytes
    }

    /// From bytes.
    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        let mut eye = Eye(bytes);
        let [at, tag, step, _] = eye.take()?;
        let number = eye.number()?.cast_signed();
        // Not every number is an error's.
        let errno = || {
            (1..4096)
                .contains(&number)
                .then(|| Errno::from_raw_os_error(number))
        };
        let key = Key {
            instance: eye.number()?,
            head: eye.number()?,
        };
        let ms = eye.number()?;
        let a_step = || Step::ALL.get(usize::from(step)).copied();
        let end = match tag {
            0 => return Some(Self::At(at, a_step()?)),
            1 => End::Gone,
            2 => End::Busy(key),
            3 => End::Unflushed(key, errno()?),
            4 => End::Unopened(key, errno()?),
            5 => End::Changed,
            6 => End::NotLive(State::ALL.into_iter().find(|s| *s as u8 == step)?),
            7 => End::Vanished,
            8 => End::Failed(a_step()?, errno()?),
            9 => End::StillThere,
            10 => End::GoneUntold,
            11 => End::NotStarted,
            _ => return None,
        };
        Some(Self::End(at, end, ms))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn orders_arrive_as_they_were_sent() {
        let pci = PciAddress::parse(b"10000:e1:00.3");
        let mut full = heapless::Vec::new();
        while !full.is_full() {
            full.push(Target {
                instance: full.len() as u32,
                pci,
            })
            .unwrap();
        }
        let mut one = heapless::Vec::new();
        one.push(Target {
            instance: 9,
            pci: None,
        })
        .unwrap();
        for order in [
            Order::Users { main: 812 },
            Order::Identify { instance: u32::MAX },
            Order::Quiesce {
                action: Action::Unbind,
                subsystem: Subsystem::Shared(7),
                fingerprint: Fingerprint(u64::MAX - 3),
                targets: full,
            },
            Order::Quiesce {
                action: Action::Delete,
                subsystem: Subsystem::Alone(9),
                fingerprint: Fingerprint::default(),
                targets: one,
            },
        ] {
            let mut buf = [0; MESSAGE];
            let len = order.encode(&mut buf);
            assert_eq!(Order::decode(&buf[..len]), Some(order));
        }
        assert_eq!(Order::decode(&[]), None);
        assert_eq!(Order::decode(&[KIND_UNBIND, 1]), None);
    }

    #[test]
    fn messages_arrive_as_they_were_sent() {
        let key = Key {
            instance: 3,
            head: 1,
        };
        let mut all = vec![
            Said::At(15, Step::Flush),
            Said::End(0, End::Gone, 2012),
            Said::End(1, End::Busy(key), 1),
            Said::End(2, End::Unflushed(key, Errno::IO), 5),
            Said::End(3, End::Unopened(key, Errno::NODEV), 5),
            Said::End(4, End::Changed, 0),
            Said::End(5, End::Vanished, 0),
            Said::End(6, End::StillThere, u32::MAX),
            Said::End(7, End::GoneUntold, 1),
            Said::End(8, End::NotStarted, 1),
        ];
        all.extend(State::ALL.map(|s| Said::End(7, End::NotLive(s), 0)));
        all.extend(Step::ALL.map(|s| Said::End(7, End::Failed(s, Errno::ACCESS), 0)));
        for said in all {
            assert_eq!(Said::decode(&said.encode()), Some(said));
        }
        assert_eq!(Said::decode(&[0; 3]), None);
    }
}
