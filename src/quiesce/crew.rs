//! What a worker does: everything that may block.

use rustix::io::Errno;

use super::order::{End, Fingerprint, Order, Said, Step, Target};
use crate::capability::{Action, State};
use crate::deadline::now_ms;
use crate::name::{Device, Key};
use crate::path;
use crate::pool::{Crew, Reply};
use crate::sys::claims::{Lasts, Unknown};
use crate::sys::nvme::Subsystem;
use crate::sys::pci::PciAddress;
use crate::sys::{Root, block, identify, nvme, pci, targets, users};
use crate::text::Text;

/// Namespaces of one subsystem that a worker holds at once.
const HELD: usize = 1024;

/// So long after they were claimed the namespaces need not be listed again, in milliseconds.
const FRESH_MS: u64 = 200;

/// First byte of the message that ends a look at the processes: it was complete.
pub(super) const COMPLETE: u8 = b'.';
/// First byte of the message that says why it cannot be complete.
pub(super) const UNKNOWN: u8 = b'!';
/// First byte of a message that names a user of a controller, and one that names a user of a namespace.
pub(super) const USES_CONTROLLER: u8 = b'c';
pub(super) const USES_NAMESPACE: u8 = b'n';

/// Does orders below a root.
pub(super) struct Worker<'a> {
    pub(super) root: &'a Root,
}

impl Crew for Worker<'_> {
    fn work(&self, order: &[u8], reply: &Reply) {
        match Order::decode(order) {
            Some(Order::Users { main }) => self.users(main, reply),
            Some(Order::Identify { instance }) => {
                if let Ok(us) = identify::rtd3e_us(self.root, instance) {
                    reply.say(&us.to_le_bytes());
                }
            }
            Some(Order::Quiesce {
                action,
                subsystem,
                fingerprint,
                targets,
            }) => {
                Quiesce {
                    root: self.root,
                    reply,
                    action,
                }
                .subsystem(subsystem, fingerprint, &targets);
            }
            // Only we write orders.
            None => {}
        }
    }
}

impl Worker<'_> {
    /// Says who uses what without having claimed it, that this was all, and, if it gets so far, who has something mapped.
    fn users(&self, main: u32, reply: &Reply) {
        let except = [main, std::process::id()];
        let mut each = |device: Device, lasts: Lasts, who: core::fmt::Arguments<'_>| {
            say_user(reply, device, lasts, who);
        };
        let unknown = |file| move |errno| Unknown { file, errno };
        let looked = targets::scan(self.root, &mut each).and_then(|()| {
            users::scan(self.root, &except, &mut each).map_err(unknown("/proc/*/fd"))
        });
        if let Err(unknown) = looked {
            let mut message: heapless::Vec<u8, 160> = heapless::Vec::new();
            let _ = message.push(UNKNOWN);
            let text = Text::<150>::of(format_args!("{unknown}"));
            let _ = message.extend_from_slice(text.as_str().as_bytes());
            return reply.say(&message);
        }
        reply.say(&[COMPLETE]);
        // Who cannot be looked into for this either was said above.
        let _ = users::scan_maps(self.root, &except, &mut each);
    }
}

fn say_user(reply: &Reply, device: Device, lasts: Lasts, who: core::fmt::Arguments<'_>) {
    let mut message: heapless::Vec<u8, 120> = heapless::Vec::new();
    let (tag, key) = match device {
        Device::Controller(instance) => (USES_CONTROLLER, Key { instance, head: 0 }),
        Device::Namespace(key) => (USES_NAMESPACE, key),
    };
    let _ = message.push(tag);
    let _ = message.push(lasts as u8);
    let _ = message.extend_from_slice(&key.instance.to_le_bytes());
    let _ = message.extend_from_slice(&key.head.to_le_bytes());
    let text = Text::<96>::of(who);
    let _ = message.extend_from_slice(text.as_str().as_bytes());
    reply.say(&message);
}

struct Quiesce<'a> {
    root: &'a Root,
    reply: &'a Reply,
    action: Action,
}

impl Quiesce<'_> {
    /// Claims and flushes what the subsystem's controllers give access to, and does them while it is held.
    fn subsystem(&self, subsystem: Subsystem, seen: Fingerprint, targets: &[Target]) {
        let start = now_ms();
        match self.claim(subsystem, seen, targets) {
            Err(end) => {
                for at in 0..targets.len() {
                    self.end(at, end, start);
                }
            }
            Ok(held) => {
                let mut start = start;
                for (at, target) in targets.iter().enumerate() {
                    let end = self
                        .controller(at, subsystem, target, &held, start)
                        .unwrap_or_else(|end| end);
                    self.end(at, end, start);
                    start = now_ms();
                }
                // Nobody could claim a namespace until here.
                drop(held);
            }
        }
    }

    fn at(&self, at: usize, step: Step) {
        self.reply
            .say(&Said::At(u8::try_from(at).unwrap_or(u8::MAX), step).encode());
    }

    fn end(&self, at: usize, end: End, start_ms: u64) {
        let ms = u32::try_from(now_ms().saturating_sub(start_ms)).unwrap_or(u32::MAX);
        self.reply
            .say(&Said::End(u8::try_from(at).unwrap_or(u8::MAX), end, ms).encode());
    }

    /// Opens every namespace exclusively, and flushes each. All or nothing.
    fn claim(
        &self,
        subsystem: Subsystem,
        seen: Fingerprint,
        targets: &[Target],
    ) -> Result<heapless::Vec<block::Held, HELD>, End> {
        let mut held = heapless::Vec::new();
        let mut found = Fingerprint::default();
        let mut refused = Ok(());
        let listed = nvme::namespaces(
            self.root,
            subsystem,
            targets.iter().map(|t| t.instance),
            |ns| {
                found.add(ns.key);
                if refused.is_ok() {
                    refused = match block::hold(self.root, &ns) {
                        Ok(one) => held.push(one).map_err(|_| End::Changed),
                        Err(Errno::BUSY) => Err(End::Busy(ns.key)),
                        // It has gone since it was listed, and takes its users with it.
                        Err(Errno::NXIO | Errno::NOENT)
                            if !self
                                .root
                                .exists(path!("/sys/class/block/{}", ns.key).as_str()) =>
                        {
                            Ok(())
                        }
                        Err(errno) => Err(End::Unopened(ns.key, errno)),
                    };
                }
            },
        );
        refused?;
        listed.map_err(|errno| End::Failed(Step::Claim, errno))?;
        if found != seen {
            return Err(End::Changed);
        }
        self.at(0, Step::Flush);
        for one in &held {
            one.flush(self.root)
                .map_err(|errno| End::Unflushed(one.key(), errno))?;
        }
        for one in held.iter().map(block::Held::key) {
            self.keep_no_head(one);
        }
        Ok(held)
    }

    /// A multipath head may outlive its last path by `delayed_removal_secs` (since 6.15) and queue I/O meanwhile.
    fn keep_no_head(&self, key: Key) {
        let file = path!("/sys/class/block/{key}/delayed_removal_secs");
        if self
            .root
            .read_u32(file.as_str())
            .is_some_and(|secs| secs > 0)
        {
            // If it stays, the head goes later: nothing is lost.
            let _ = self.root.write(file.as_str(), b"0");
        }
    }

    /// Does one controller.
    fn controller(
        &self,
        at: usize,
        subsystem: Subsystem,
        target: &Target,
        held: &[block::Held],
        since_ms: u64,
    ) -> Result<End, End> {
        let Target { instance, pci } = *target;
        let known = pci.is_none() || nvme::address(self.root, instance) == pci;
        if !known || (pci.is_none() && !nvme::is_there(self.root, instance)) {
            return Err(End::Vanished);
        }
        match (nvme::state(self.root, instance), self.action) {
            (State::Live, _) | (State::Connecting, Action::Delete) => {}
            (state, _) => return Err(End::NotLive(state)),
        }
        if now_ms().saturating_sub(since_ms) > FRESH_MS {
            self.still_all_held(subsystem, instance, held)?;
        }
        if self.reply.is_alone() {
            return Err(End::NotStarted);
        }
        match self.action {
            Action::Unbind => self.unbind(at, instance, pci.ok_or(End::Vanished)?),
            Action::Delete => self.delete(at, instance),
        }
    }

    /// A flush, or the removal before this one, may have taken minutes: what came meanwhile is not held, and nobody knows
    /// who uses it.
    fn still_all_held(
        &self,
        subsystem: Subsystem,
        instance: u32,
        held: &[block::Held],
    ) -> Result<(), End> {
        let mut all_held = true;
        let one = core::iter::once(instance);
        nvme::namespaces(self.root, subsystem, one, |ns| {
            all_held &= held.iter().any(|h| h.key() == ns.key);
        })
        .map_err(|errno| End::Failed(Step::Prepare, errno))?;
        if all_held { Ok(()) } else { Err(End::Changed) }
    }

    fn unbind(&self, at: usize, instance: u32, pci: PciAddress) -> Result<End, End> {
        let power = path!("/sys/bus/pci/devices/{pci}/power/control");
        let mut buf = [0; 16];
        if self
            .root
            .read(power.as_str(), &mut buf)
            .is_ok_and(|mode| mode == b"auto")
        {
            self.at(at, Step::Prepare);
            // Else it goes to D3cold once its driver has let go, and the kernel's shutdown wakes it again, one by one.
            let _ = self.root.write(power.as_str(), b"on");
        }
        // A function that does not answer is let go of without a word to the drive, and without one of the driver's.
        let answers = pci::answers(self.root, pci);
        self.at(at, Step::Act);
        let file = path!("/sys/class/nvme/nvme{instance}/device/driver/unbind");
        let address = Text::<16>::of(format_args!("{pci}"));
        let written = self.root.write(file.as_str(), address.as_str().as_bytes());
        match self.removed(instance, written) {
            Ok(End::Gone) if !answers => Ok(End::GoneUntold),
            other => other,
        }
    }

    fn delete(&self, at: usize, instance: u32) -> Result<End, End> {
        let dir = path!("/sys/class/nvme/nvme{instance}");
        for (knob, value) in [("ctrl_loss_tmo", b"1"), ("fast_io_fail_tmo", b"1")] {
            // Each came with some kernel; without it the wait is longer, and bounded all the same.
            let _ = self.root.write(path!("{dir}/{knob}").as_str(), value);
        }
        self.at(at, Step::Act);
        self.removed(
            instance,
            self.root
                .write(path!("{dir}/delete_controller").as_str(), b"1"),
        )
    }

    /// What the write came to: judged by what is there, not by what it returned.
    fn removed(&self, instance: u32, written: Result<(), Errno>) -> Result<End, End> {
        let there = nvme::is_there(self.root, instance);
        match written {
            Ok(()) if !there => Ok(End::Gone),
            Ok(()) => Err(End::StillThere),
            // It was unbound by somebody else in the same moment.
            Err(Errno::NODEV | Errno::NOENT) if !there => Err(End::Vanished),
            Err(errno) => Err(End::Failed(Step::Act, errno)),
        }
    }
}
