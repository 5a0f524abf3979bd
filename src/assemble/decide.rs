//! What is to become of a container and of each of its volumes. Pure: what was found, what there is already, what was
//! asked for and what time it is come in, a decision goes out.
//!
//! All of a container waits for all of its disks. mdmon takes a disk that is bound to a container it runs for a blank
//! spare, whatever is on it, so everything that will ever be bound must be there before mdmon starts.

use core::fmt;

use super::steps::{Mode, is_redundant};
use crate::imsm::{Container, Kind, Lack, Plan, SlotState, Verdict, Why};
use crate::sys::md::State;

/// An array of md that is a container of disks of this group.
#[derive(Clone, Debug, Default)]
pub struct Existing {
    /// `md127`
    pub name: String,
    /// Its disks.
    pub members: Vec<String>,
    /// mdmon answers for it.
    pub watched: bool,
    /// Its volumes.
    pub volumes: Vec<ExistingVolume>,
}

/// An array of md that is a volume of such a container.
#[derive(Clone, Debug)]
pub struct ExistingVolume {
    /// `md126`
    pub name: String,
    /// Its place among the container's volumes.
    pub index: u8,
    /// `array_state`
    pub state: State,
    /// Its `metadata_version` begins with `external:-`.
    pub blocked: bool,
}

impl Existing {
    /// It has this disk.
    pub fn has(&self, disk: &str) -> bool {
        self.members.iter().any(|member| member == disk)
    }

    /// No disk may be bound to it any more: mdmon runs it, or has been about to since a redundant volume of it runs. It
    /// would take for a blank spare what comes then, whatever is on it.
    pub fn is_closed(&self, plans: &[Plan<'_>]) -> bool {
        let runs = |plan: &Plan<'_>| {
            let volume = self.volume(plan.index).map(|volume| volume.state);
            is_redundant(plan) && !matches!(volume, None | Some(State::Clear | State::Inactive))
        };
        self.watched || plans.iter().any(runs)
    }

    /// The array that is this volume.
    pub fn volume(&self, index: u8) -> Option<&ExistingVolume> {
        self.volumes.iter().find(|volume| volume.index == index)
    }
}

/// Whether the container is quell's to assemble.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Claim {
    /// It was asked for by name, or all are.
    Ours,
    /// Only others were asked for.
    NotListed,
    /// `rd.md.uuid=` lists others: nobody assembles it.
    NotInUuids,
    /// `ARRAY <ignore>` in mdadm.conf: nobody assembles it.
    Ignored,
    /// `AUTO -imsm` or `-all` in mdadm.conf, and no ARRAY line for it: nobody assembles it.
    NotAutomatic,
    /// Not every disk of it is where mdadm is known to take it: mdadm's rules decide.
    NoPlatform,
}

/// How long a container waits for disks that are not there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Patience {
    /// For ever.
    Never,
    /// Until then, in milliseconds since boot.
    Until(u64),
}

/// What is known beside the metadata.
pub struct Scene<'s> {
    /// What there is of it already.
    pub existing: Option<&'s Existing>,
    /// Whose it is.
    pub claim: Claim,
    /// A header that must not be trusted: of which volume, on which disk and why.
    pub bad_headers: &'s [(u8, String)],
    /// Volumes that mdadm.conf says are to be ignored.
    pub ignored: &'s [u8],
    /// How it is to be started.
    pub mode: Mode,
    /// For how long it waits.
    pub patience: Patience,
    /// Now.
    pub now_ms: u64,
}

/// What is to become of a container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It runs, whoever started it.
    Runs,
    /// It is left alone; nobody is asked to do more.
    Left(&'static str),
    /// mdadm may do it.
    Mdadm(String),
    /// Nobody may, before a person has looked.
    Unsafe(String),
    /// Disks are waited for.
    Waits(Patience),
    /// It is brought up.
    Goes,
}

/// What is to become of a volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It runs already.
    Runs,
    /// It runs, and something is still to be done before it can be used: mdmon, or what `--readonly` left out.
    Finish,
    /// It is started.
    Start,
    /// It waits with its container.
    Waits,
    /// Its container is left, and it with it.
    LeftToo,
    /// It is not started, since it is not to be.
    Left(&'static str),
    /// It is not started, and this is why.
    Not(String),
}

/// Both.
#[derive(Clone, Debug)]
pub struct Decision {
    /// Of the container.
    pub outcome: Outcome,
    /// Of its volumes, by index.
    pub fates: Vec<Fate>,
}

/// Why something is left that mdadm would leave.
const IGNORED: &str = "mdadm.conf says <ignore>";

impl Decision {
    /// The container is not touched, for a reason that is not in its metadata.
    pub fn refused(plans: &[Plan<'_>], why: String) -> Self {
        Self {
            fates: plans.iter().map(|_| Fate::Not(why.clone())).collect(),
            outcome: Outcome::Unsafe(why),
        }
    }

    /// All of it, or a volume of it, nobody may start, and mdadm might.
    pub fn is_unsafe(&self, plans: &[Plan<'_>]) -> bool {
        let refused = |(plan, fate): (&Plan<'_>, &Fate)| match plan.verdict {
            Verdict::Refused(why) => why.kind() == Kind::Unsafe && matches!(fate, Fate::Not(_)),
            _ => false,
        };
        matches!(self.outcome, Outcome::Unsafe(_)) || plans.iter().zip(&self.fates).any(refused)
    }
}

/// Decides.
pub fn decide(container: &Container<'_, '_>, plans: &[Plan<'_>], scene: &Scene<'_>) -> Decision {
    let mut fates: Vec<Fate> = plans.iter().map(|plan| already(plan, scene)).collect();
    if !fates
        .iter()
        .any(|fate| matches!(fate, Fate::Waits | Fate::Finish))
    {
        let outcome = Outcome::Runs;
        return Decision { outcome, fates };
    }
    let outcome = match scene.claim {
        Claim::Ours => None,
        Claim::Ignored => Some(Outcome::Left(IGNORED)),
        Claim::NotAutomatic => Some(Outcome::Left(
            "mdadm.conf has no ARRAY line for it, and its AUTO line forbids IMSM",
        )),
        Claim::NotInUuids => Some(Outcome::Left("rd.md.uuid= does not list it")),
        Claim::NotListed => Some(Outcome::Mdadm("quell.assemble= does not list it".into())),
        Claim::NoPlatform => Some(Outcome::Mdadm(
            "not all of its disks are below an Intel controller in RAID mode or a VMD domain"
                .into(),
        )),
    };
    let outcome = outcome.or_else(|| refused(container, plans, scene, &mut fates));
    let outcome = outcome.unwrap_or_else(|| {
        if waits(container, plans, &fates, scene) {
            return Outcome::Waits(scene.patience);
        }
        let closed = scene.existing.filter(|existing| existing.is_closed(plans));
        for (fate, plan) in fates.iter_mut().zip(plans) {
            if *fate == Fate::Waits {
                *fate = start(plan, scene.mode, closed);
            }
        }
        let any = |wanted: &Fate| fates.contains(wanted);
        if any(&Fate::Start) || any(&Fate::Finish) {
            Outcome::Goes
        } else if any(&Fate::Runs) {
            Outcome::Runs
        } else {
            Outcome::Left("none of its volumes can be started")
        }
    });
    if matches!(
        outcome,
        Outcome::Left(_) | Outcome::Mdadm(_) | Outcome::Unsafe(_)
    ) {
        for fate in fates
            .iter_mut()
            .filter(|fate| matches!(fate, Fate::Waits | Fate::Finish))
        {
            *fate = Fate::LeftToo;
        }
    }
    Decision { outcome, fates }
}

/// What is known of a volume by what md has of it.
fn already(plan: &Plan<'_>, scene: &Scene<'_>) -> Fate {
    let volume = scene
        .existing
        .and_then(|existing| existing.volume(plan.index));
    let (Some(existing), Some(volume)) = (scene.existing, volume) else {
        return match scene.ignored.contains(&plan.index) {
            true => Fate::Left(IGNORED),
            false => Fate::Waits,
        };
    };
    match volume.state {
        State::Clear | State::Inactive | State::Unknown => Fate::Waits,
        _ if scene.mode == Mode::Readonly => Fate::Runs,
        // mdadm blocks what it reshapes, but does not stop it.
        State::Readonly if volume.blocked || !is_redundant(plan) => Fate::Finish,
        _ if is_redundant(plan) && !existing.watched => Fate::Finish,
        _ => Fate::Runs,
    }
}

/// Why the container as a whole is not quell's to start. A volume that is unsafe keeps all that is not started of its
/// container from mdadm, which would start it.
fn refused(
    container: &Container<'_, '_>,
    plans: &[Plan<'_>],
    scene: &Scene<'_>,
    fates: &mut [Fate],
) -> Option<Outcome> {
    if let Some(why) = container.refusal() {
        let text = why.to_string();
        fates.fill(Fate::Not(text.clone()));
        return Some(match why.kind() {
            Kind::Unsafe => Outcome::Unsafe(text),
            Kind::Unsupported => Outcome::Mdadm(text),
        });
    }
    let mut unsupported = None;
    let mut dangerous = false;
    for (plan, fate) in plans.iter().zip(fates.iter_mut()) {
        if matches!(fate, Fate::Runs | Fate::Left(_)) {
            continue;
        }
        let bad = scene
            .bad_headers
            .iter()
            .find(|(volume, _)| *volume == plan.index);
        let why = match (plan.verdict, bad) {
            (Verdict::Refused(why), _) if why.kind() == Kind::Unsafe => {
                dangerous = true;
                *fate = Fate::Not(why.to_string());
                continue;
            }
            (Verdict::Refused(why), _) => why.to_string(),
            (_, Some((_, bad))) => bad.clone(),
            (_, None) => continue,
        };
        let text = match plan.verdict {
            // The container's affair, and it says of which volume.
            Verdict::Refused(Why::Reshape(_)) => why.clone(),
            _ => format!("volume {}: {why}", crate::text::Printable(plan.name)),
        };
        *fate = Fate::Not(why);
        unsupported.get_or_insert(text);
    }
    match unsupported {
        Some(text) if dangerous => {
            fates
                .iter_mut()
                .filter(|fate| **fate == Fate::Waits)
                .for_each(|fate| *fate = Fate::Not(text.clone()));
            Some(Outcome::Unsafe(format!(
                "{text}; it is not left to mdadm, which would start the volume that is unsafe"
            )))
        }
        Some(text) => Some(Outcome::Mdadm(text)),
        None => None,
    }
}

/// Disks are still to come, and there is time.
fn waits(
    container: &Container<'_, '_>,
    plans: &[Plan<'_>],
    fates: &[Fate],
    scene: &Scene<'_>,
) -> bool {
    let lacks = |(plan, fate): (&Plan<'_>, &Fate)| {
        !matches!(fate, Fate::Runs | Fate::Left(_))
            && plan
                .slots_that(|s| s == SlotState::Missing)
                .next()
                .is_some()
    };
    let missing = container.missing().next().is_some() || plans.iter().zip(fates).any(lacks);
    let time = match scene.patience {
        Patience::Never => true,
        Patience::Until(end) => scene.now_ms < end,
    };
    missing && time
}

/// A volume that is not waited for any more; `closed` is its container, if nothing can be bound to that.
fn start(plan: &Plan<'_>, mode: Mode, closed: Option<&Existing>) -> Fate {
    if plan.geometry.ppl.is_some() && mode == Mode::Readonly {
        return Fate::Not(
            "it has PPL, whose headers the kernel writes even where it is readonly".into(),
        );
    }
    match plan.verdict {
        Verdict::Start | Verdict::Degraded => {
            let mut disks = plan
                .slots_that(SlotState::is_bound)
                .filter_map(|slot| slot.name);
            match disks.find(|disk| closed.is_some_and(|existing| !existing.has(disk))) {
                Some(late) => Fate::Not(format!(
                    "its container runs without {late}, which mdmon would take for a spare if it came to it now"
                )),
                None => Fate::Start,
            }
        }
        Verdict::Incomplete(lack) => Fate::Not(format!("{}: {}", lack_words(lack), Absent(plan))),
        Verdict::Refused(why) => Fate::Not(why.to_string()),
    }
}

fn lack_words(lack: Lack) -> &'static str {
    match lack {
        Lack::Members => "too few of its disks are here",
        Lack::AllWhileDirty => {
            "it was being written when it stopped, so all of its disks are needed"
        }
    }
}

/// The serials that a volume's slots lack.
pub struct Absent<'a>(pub &'a Plan<'a>);

impl fmt::Display for Absent<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut first = true;
        for slot in self.0.slots_that(|state| !state.is_bound()) {
            let before = if core::mem::take(&mut first) {
                "no disk"
            } else {
                ","
            };
            write!(f, "{before} {} ({})", slot.serial, slot.state.name())?;
        }
        Ok(())
    }
}
