//! Pieces of work that may block, done one after the other, each in a worker that can be given up.

use rustix::io::Errno;

use crate::deadline::Deadline;
use crate::path;
use crate::pool::{Bounds, Crew, Foreman, MESSAGE, Pool, Reply};
use crate::sys::{Dev, Path, Root, block, dm, leftovers, mounts, occupied, unmap};
use crate::text::{Printable, Text};

/// The most in one list; what is over comes with the next.
pub(super) const CHORES: usize = 128;
/// So long one may take, in milliseconds, before the next is begun beside it.
const HOLD_MS: u64 = 10_000;
/// So long a list may take, in milliseconds, and never more than half of what there is: what hangs leaves time for the rest.
const LIST_MS: u64 = 20_000;
/// Where systemd puts the old root.
pub(super) const OLD: &str = "/oldroot";

/// What a worker is to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum What {
    /// End who uses the old root, until nobody does.
    EndUsers,
    /// Unmount.
    Unmount,
    /// The same, where the server or program behind it answers nothing.
    Force,
    /// Take a window into the kernel out of sight.
    Detach,
    /// Make a file system read-only.
    MakeReadonly,
    /// End the use of a device or file as swap.
    SwapOff,
    /// Take a loop device off its file.
    ClearLoop,
    /// See that a device-mapper map only passes on what it is given.
    MapPasses,
    /// See that nobody has claimed a block device.
    Claim,
    /// Have the kernel call a block device read-only.
    SetReadonly,
    /// Remove a device-mapper map.
    RemoveMap,
}

impl What {
    const ALL: [Self; 11] = [
        Self::EndUsers,
        Self::Unmount,
        Self::Force,
        Self::Detach,
        Self::MakeReadonly,
        Self::SwapOff,
        Self::ClearLoop,
        Self::MapPasses,
        Self::Claim,
        Self::SetReadonly,
        Self::RemoveMap,
    ];
}

/// One piece of work.
#[derive(Clone, Debug)]
pub(super) struct Chore {
    pub(super) what: What,
    /// Path, or the kernel's name of a block device.
    pub(super) of: Path,
    /// What came of it. TIMEDOUT: it has not returned; CHILD: its worker died; CANCELED: it was not begun.
    pub(super) result: Result<(), Errno>,
    /// What its worker had to say of it.
    pub(super) words: Words,
}

impl Chore {
    pub(super) fn new(what: What, of: Path) -> Self {
        Self {
            what,
            of,
            result: Err(Errno::CANCELED),
            words: Words::new(),
        }
    }
}

/// A list of chores.
pub(super) type Chores = heapless::Vec<Chore, CHORES>;

/// Does them in order. One that is slow is waited for beside the others, as long as the list may take.
pub(super) fn carry_out(pool: &mut Pool<'_>, chores: &mut Chores, deadline: Deadline) {
    if chores.is_empty() {
        return;
    }
    pool.next_phase(1);
    let mut list = List { chores, next: 0 };
    let end = deadline.within_ms((deadline.rest_ms() / 2).min(LIST_MS));
    pool.run(&mut list, end, None);
    for chore in chores {
        if chore.result == Err(RUNNING) {
            chore.result = Err(Errno::TIMEDOUT);
        }
    }
}

/// Stands for a chore that was begun.
const RUNNING: Errno = Errno::INPROGRESS;

struct List<'a> {
    chores: &'a mut Chores,
    next: usize,
}

impl List<'_> {
    fn settle(&mut self, job: u32, result: Result<(), Errno>) {
        let at = usize::try_from(job).unwrap_or(usize::MAX);
        if let Some(chore) = self.chores.get_mut(at)
            && matches!(chore.result, Err(RUNNING | Errno::TIMEDOUT))
        {
            chore.result = result;
        }
    }
}

impl Foreman for List<'_> {
    fn next(&mut self) -> Option<u32> {
        let chore = self.chores.get_mut(self.next)?;
        chore.result = Err(RUNNING);
        self.next += 1;
        u32::try_from(self.next - 1).ok()
    }

    fn order(&self, job: u32, order: &mut [u8; MESSAGE]) -> usize {
        let at = usize::try_from(job).unwrap_or(usize::MAX);
        let Some(chore) = self.chores.get(at) else {
            return 0;
        };
        let bytes = core::iter::once(chore.what as u8).chain(chore.of.as_str().bytes());
        order
            .iter_mut()
            .zip(bytes)
            .map(|(place, byte)| *place = byte)
            .count()
    }

    fn more(&self) -> bool {
        self.next < self.chores.len()
    }

    fn blocks_others(&self, _job: u32) -> bool {
        self.more()
    }

    fn bounds(&self, _job: u32) -> Bounds {
        Bounds {
            hold_ms: HOLD_MS,
            job_ms: LIST_MS,
        }
    }

    fn message(&mut self, job: u32, message: &[u8]) {
        let Some((number, words)) = message.split_first_chunk::<4>() else {
            return;
        };
        let at = usize::try_from(job).unwrap_or(usize::MAX);
        if let Some(chore) = self.chores.get_mut(at) {
            chore.words = Printable(words).to_text();
        }
        self.settle(
            job,
            match i32::from_ne_bytes(*number) {
                number @ 1..4096 => Err(Errno::from_raw_os_error(number)),
                _ => Ok(()),
            },
        );
    }

    fn done(&mut self, job: u32, _died: bool) {
        // One that said what came of it is settled already.
        self.settle(job, Err(Errno::CHILD));
    }

    fn abandon(&mut self, job: u32) {
        self.settle(job, Err(Errno::TIMEDOUT));
    }
}

/// Who was ended, or of what kind a map is.
pub(super) type Words = Text<160>;

/// Does chores.
pub(super) struct Worker<'a> {
    pub(super) root: &'a Root,
}

impl Crew for Worker<'_> {
    fn work(&self, order: &[u8], reply: &Reply) {
        let Some((what, of)) = decode(order) else {
            return;
        };
        let mut words = Text::new();
        let number = match self.done(what, of, &mut words) {
            Ok(()) => 0,
            Err(errno) => errno.raw_os_error(),
        };
        let answer: heapless::Vec<u8, MESSAGE> = number
            .to_ne_bytes()
            .into_iter()
            .chain(words.as_str().bytes())
            .collect();
        reply.say(&answer);
    }
}

/// Only we write orders.
fn decode(order: &[u8]) -> Option<(What, &str)> {
    let (what, of) = order.split_first()?;
    let what = What::ALL.into_iter().find(|w| *w as u8 == *what)?;
    Some((what, core::str::from_utf8(of).ok()?))
}

impl Worker<'_> {
    fn done(&self, what: What, of: &str, words: &mut Words) -> Result<(), Errno> {
        match what {
            What::EndUsers => end_users(self.root, words),
            _ if self.root.is_fixture() => Err(Errno::OPNOTSUPP),
            What::Unmount => mounts::end(of),
            What::Force => mounts::force(of),
            What::Detach => mounts::detach(of),
            What::MakeReadonly => mounts::make_readonly(of),
            What::SwapOff => unmap::swap_off(self.root, of),
            What::ClearLoop => unmap::clear_loop(self.root, of),
            What::MapPasses => passes(self.root, of, words),
            What::Claim => claim(self.root, of),
            What::SetReadonly => block::set_readonly(self.root, of, dev(self.root, of)?),
            What::RemoveMap => dm::remove(self.root, dev(self.root, of)?),
        }
    }
}

/// The number of the block device of that name.
fn dev(root: &Root, name: &str) -> Result<Dev, Errno> {
    let mut buf = [0; 32];
    let text = root.read(path!("/sys/class/block/{name}/dev").as_str(), &mut buf)?;
    Dev::parse(text).ok_or(Errno::INVAL)
}

/// Kinds of maps that have nothing of their own to write (Documentation/admin-guide/device-mapper).
const PASSING: [&[u8]; 6] = [
    b"linear",
    b"striped",
    b"crypt",
    b"multipath",
    b"error",
    b"zero",
];

/// BUSY: the map has a target that may write of itself; `words` is its kind.
fn passes(root: &Root, name: &str, words: &mut Words) -> Result<(), Errno> {
    dm::kinds(root, dev(root, name)?, &mut |kind| {
        if words.is_empty() && !PASSING.contains(&kind) {
            *words = Printable(kind).to_text();
        }
    })?;
    match words.is_empty() {
        true => Ok(()),
        false => Err(Errno::BUSY),
    }
}

/// BUSY: somebody has it, and does not let go: what has just been unmounted is held for a moment. What has gone nobody has.
fn claim(root: &Root, name: &str) -> Result<(), Errno> {
    let dev = match dev(root, name) {
        Err(Errno::NOENT) => return Ok(()),
        other => other?,
    };
    let mut claimed = Ok(());
    Deadline::in_seconds(LINGER_S).wait_for(PAUSE, || {
        claimed = occupied::claim(root, name, dev);
        claimed != Err(Errno::BUSY)
    });
    claimed
}

/// So long processes that were ended may take to go: one that waits for a drive goes when the drive has answered.
const GO_MS: u64 = 3000;
/// So long the kernel may take to let go of a device, in seconds.
const LINGER_S: u32 = 1;
/// Between two looks.
const PAUSE: core::time::Duration = core::time::Duration::from_millis(10);

/// Ends who uses the old root, again and again, since one that is being ended may have started another. Those who run quell
/// are spared: this worker and the one it works for.
fn end_users(root: &Root, ended: &mut Words) -> Result<(), Errno> {
    let parent = rustix::process::getppid().map_or(1, |pid| pid.as_raw_nonzero().get());
    let spared = [std::process::id(), u32::try_from(parent).unwrap_or(1)];
    let end = Deadline::in_seconds(60).within_ms(GO_MS);
    loop {
        let mut any = false;
        leftovers::end(root, OLD, &spared, &mut |called| {
            any = true;
            if !ended.as_str().contains(called.as_str()) {
                ended.add(format_args!(" {called}"));
            }
        });
        match any {
            false => return Ok(()),
            true if end.is_over() => return Err(Errno::TIMEDOUT),
            true => std::thread::sleep(PAUSE),
        }
    }
}
