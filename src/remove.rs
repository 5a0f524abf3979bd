//! Takes disks out of a container, at once.
//!
//! By the state file of the disk in the container, and never by the HOT_REMOVE_DISK ioctl: kernels from 6.7 to 6.10 wait in
//! that for five seconds, for a flag that nobody clears on an array without a personality. The kernel would take out a disk
//! under a running volume; so all that is asked for is checked before any of it is done.

mod crew;

use log::{Level, error, info, warn};
use rustix::io::Errno;

use crate::context::{Context, Exit};
use crate::deadline::now_ms;
use crate::errno::Cause;
use crate::json::Json;
use crate::pool::{Bounds, Ended, Foreman, MESSAGE, Pool};
use crate::sys::md::{self, Version, map};
use crate::sys::{Root, disks, proc};
use crate::text::{Millis, Text};

use crew::{Done, Order, Worker};

/// So long a removal is waited for, in milliseconds; it takes a few.
const BOUNDS: Bounds = Bounds {
    hold_ms: 10_000,
    job_ms: 20_000,
};

/// What is to be taken out of what.
#[derive(Debug)]
pub struct Ask {
    /// The container, as the person calls it.
    pub container: String,
    /// The disks, as the person calls them.
    pub disks: Vec<String>,
}

/// Why a disk cannot be taken out.
#[derive(Clone, Debug)]
enum Refusal {
    /// There is no such disk.
    NoDisk(Errno),
    /// It is a partition.
    Partition,
    /// It is not in the container.
    NotInside,
    /// A volume uses it.
    UsedBy(Text<64>),
    /// Something else than the container has it.
    HeldBy(disks::Name),
}

impl core::fmt::Display for Refusal {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::NoDisk(errno) => write!(f, "no such disk: {}", Cause(*errno)),
            Self::Partition => f.write_str("a partition, and members are whole disks"),
            Self::NotInside => f.write_str("not in the container"),
            Self::UsedBy(volume) => write!(f, "{volume} uses it"),
            Self::HeldBy(holder) => write!(f, "{holder} uses it"),
        }
    }
}

/// One disk and what came of it.
struct Disk {
    name: disks::Name,
    done: Option<Done>,
    ms: u64,
}

/// Takes the disks out, or says what that would be.
pub fn run(context: &Context, ask: &Ask) -> Exit {
    let root = context.root;
    let Some(container) = container(root, &ask.container) else {
        error!("{} is not a container; nothing is done", ask.container);
        return Exit::Usage;
    };
    let mut disks: Vec<Disk> = Vec::new();
    let mut refused = false;
    for word in &ask.disks {
        match removable(root, &container, word) {
            Ok(name) => disks.push(Disk {
                name,
                done: None,
                ms: 0,
            }),
            Err(why) => {
                warn!("{word} stays in {container}: {why}");
                refused = true;
            }
        }
    }
    if refused {
        context.nothing(
            Level::Error,
            format_args!("not every disk can be taken out of {container}; nothing is done"),
        );
        return Exit::Undone;
    }
    if context.dry_run {
        for disk in &disks {
            info!("{} would be taken out of {container}", disk.name);
        }
        write(context, &container, &disks);
        return Exit::Done;
    }
    act(context, &container, disks)
}

/// For programs: one object, see doc/json.md.
fn write(context: &Context, container: &md::Name, disks: &[Disk]) {
    if !context.json {
        return;
    }
    let mut json = Json::object();
    json.number("schema", 1);
    json.text("command", format_args!("remove"));
    json.flag("dry_run", context.dry_run);
    json.text("container", format_args!("{container}"));
    json.array("disks");
    for disk in disks {
        json.open_object();
        json.text("name", format_args!("{}", disk.name));
        let outcome = match disk.done {
            None if context.dry_run => "planned",
            None => "not-started",
            Some(Done::Removed) => "removed",
            Some(Done::UsedBy(_)) => "busy",
            Some(Done::StillThere | Done::Failed(_)) => "failed",
        };
        json.text("outcome", format_args!("{outcome}"));
        if disk.done.is_some() {
            json.number("ms", disk.ms);
        }
        json.close();
    }
    json.close();
    json.close();
    json.finish();
}

/// The container a person means: `md127`, `/dev/md127`, `/dev/md/imsm0`, or `imsm0` as mdadm's map has it.
fn container(root: &Root, word: &str) -> Option<md::Name> {
    let bare = word.strip_prefix("/dev/").unwrap_or(word);
    let mut found = is_container(root, bare).then(|| Text::of(format_args!("{bare}")));
    if found.is_none() {
        let label = bare.strip_prefix("md/").unwrap_or(bare);
        let _ = map::read(root, &mut |entry| {
            let last = entry.path.as_str().rsplit('/').next();
            if last == Some(label) && is_container(root, entry.name.as_str()) {
                found = Some(entry.name.clone());
            }
        });
    }
    found.or_else(|| {
        let name = disks::kernel_name(root, word).ok()?;
        is_container(root, name.as_str()).then_some(name)
    })
}

fn is_container(root: &Root, name: &str) -> bool {
    // Only what can be the name of a folder in /sys/block.
    name.starts_with("md")
        && !name.contains('/')
        && md::array(root, name).is_some_and(|a| matches!(a.version, Version::Container(_)))
}

/// The kernel's name of a disk that nothing but the container has.
fn removable(root: &Root, container: &md::Name, word: &str) -> Result<disks::Name, Refusal> {
    let disk = disks::named(root, word).map_err(|errno| match errno {
        Errno::INVAL => Refusal::Partition,
        errno => Refusal::NoDisk(errno),
    })?;
    if !crew::is_inside(root, container.as_str(), disk.name.as_str()) {
        return Err(Refusal::NotInside);
    }
    if let Some(volume) = crew::user(root, container.as_str(), disk.name.as_str()) {
        return Err(Refusal::UsedBy(called(root, &volume)));
    }
    let mut holder = None;
    let _ = disks::holders(root, disk.name.as_str(), &mut |name| {
        if name.as_str() != container.as_str() {
            holder = Some(name.clone());
        }
    });
    match holder {
        Some(holder) => Err(Refusal::HeldBy(holder)),
        None => Ok(disk.name),
    }
}

/// `md126 (Volume0)`, where mdadm's map says what people call it.
fn called(root: &Root, array: &md::Name) -> Text<64> {
    let mut text = Text::of(format_args!("{array}"));
    let _ = map::read(root, &mut |entry| {
        if entry.name.as_str() == array.as_str() {
            let last = entry.path.as_str().rsplit('/').next().unwrap_or_default();
            text = Text::of(format_args!("{array} ({last})"));
        }
    });
    text
}

fn act(context: &Context, container: &md::Name, disks: Vec<Disk>) -> Exit {
    let crew = Worker { root: context.root };
    // One container changes one disk at a time, whoever asks.
    let mut pool = Pool::new(context.root, &crew, 1);
    let mut foreman = Removing {
        container,
        end_ms: context.deadline.end_ms(),
        disks,
        next: 0,
        since_ms: now_ms(),
    };
    // The kernel waits for a grace period, and its own pace is a tenth of a second.
    let expedited = proc::Expedited::raise(context.root);
    let ended = pool.run(&mut foreman, context.deadline, context.signals.as_ref());
    drop(expedited);
    if let Ended::NoWorkers(errno) = ended {
        error!(
            "no worker process can be made: {}; nothing is done",
            Cause(errno)
        );
        return Exit::Missing;
    }
    let mut exit = Exit::Done;
    for disk in &foreman.disks {
        let came = match &disk.done {
            Some(Done::Removed) => Exit::Done,
            Some(Done::Failed(Errno::ACCESS | Errno::PERM | Errno::ROFS)) => Exit::Missing,
            Some(_) => Exit::Undone,
            None => {
                warn!("{} stays in {container}: the time is up", disk.name);
                Exit::Undone
            }
        };
        exit = exit.and(came);
    }
    write(context, container, &foreman.disks);
    exit
}

/// The main process's side.
struct Removing<'a> {
    container: &'a md::Name,
    end_ms: u64,
    disks: Vec<Disk>,
    next: usize,
    since_ms: u64,
}

impl Removing<'_> {
    fn disk(&mut self, job: u32) -> Option<&mut Disk> {
        self.disks.get_mut(usize::try_from(job).ok()?)
    }
}

impl Foreman for Removing<'_> {
    fn next(&mut self) -> Option<u32> {
        let job = self.next;
        self.disks.get(job)?;
        self.next += 1;
        self.since_ms = now_ms();
        u32::try_from(job).ok()
    }

    fn order(&self, job: u32, order: &mut [u8; MESSAGE]) -> usize {
        let at = usize::try_from(job).unwrap_or(usize::MAX);
        let Some(disk) = self.disks.get(at) else {
            return 0;
        };
        Order {
            end_ms: self.end_ms,
            container: self.container.as_str(),
            disk: disk.name.as_str(),
        }
        .encode(order)
    }

    fn more(&self) -> bool {
        self.next < self.disks.len()
    }

    fn blocks_others(&self, _job: u32) -> bool {
        false
    }

    fn bounds(&self, _job: u32) -> Bounds {
        BOUNDS
    }

    fn message(&mut self, job: u32, message: &[u8]) {
        let ms = now_ms().saturating_sub(self.since_ms);
        let container = self.container.clone();
        let Some((disk, done)) = self.disk(job).zip(Done::decode(message)) else {
            return;
        };
        disk.ms = ms;
        let name = &disk.name;
        match &done {
            Done::Removed => info!("{name} taken out of {container} in {}", Millis(ms)),
            Done::UsedBy(volume) => warn!("{name} stays in {container}: {volume} uses it"),
            Done::StillThere => warn!("{name} was taken out of {container} and is still in it"),
            Done::Failed(errno) => warn!(
                "{name} stays in {container}: it could not be taken out: {}",
                Cause(*errno)
            ),
        }
        disk.done = Some(done);
    }

    fn done(&mut self, job: u32, died: bool) {
        if let Some(disk) = self.disk(job).filter(|disk| died && disk.done.is_none()) {
            warn!("{}: its worker died", disk.name);
        }
    }

    fn abandon(&mut self, _job: u32) {}
}
