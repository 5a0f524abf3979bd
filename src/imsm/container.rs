//! Disks → containers: which belong together, which of their copies counts, and which disks are in it.
//!
//! 1. Disks with volumes and the same original family are one container. (mdadm wants the same version text as well; here
//!    a difference in it is a difference between copies, which the next steps judge.) A disk without volumes is a free
//!    spare: it knows no container, and is never put into one.
//! 2. Within one family (it changes when a spare is taken in) the newest generation counts; a copy whose disk is no part of
//!    a volume does not count where another's is. Two copies of that generation that differ: each was written without the
//!    other, and nobody can say which is right.
//! 3. A present disk belongs to the family it carries. A family that lists a disk which carries another is out of date. If
//!    exactly one family is left it is the container's; mdadm takes the first of several.
//! 4. Every disk is looked up by serial in the winner's table. One that is not there is stale: it was failed out, or it
//!    carries another family. A failure that any copy of the family tells counts.
//!
//! Nothing depends on the order in which disks were found: they are put in order first. Source: mdadm's
//! `compare_super_imsm` and `imsm_thunderdome`.

use super::fault::{Allowed, Fault, Place};
use super::metadata::{Disk, Metadata};
use super::plan::Plan;
use super::refusal::{Carried, Why};
use super::{Serial, Uuid};

/// A copy may be this many generations behind after a power cut in the midst of a write to all members.
pub const LAG_MAX: u32 = 1;

/// A disk with IMSM metadata.
#[derive(Clone, Debug)]
pub struct Member<'a> {
    /// What its reader calls it; different for every disk.
    pub name: &'a str,
    /// What it says of itself.
    pub serial: Serial,
    /// Its copy of the metadata.
    pub metadata: Metadata<'a>,
}

impl<'a> Member<'a> {
    /// A disk of `sectors`, if that is known. Its own entry must fit it: a disk that is smaller than it was is corrupt.
    pub fn new(
        name: &'a str,
        serial: Serial,
        metadata: Metadata<'a>,
        sectors: Option<u64>,
    ) -> Result<Self, Fault> {
        if let Some(sectors) = sectors
            && let Some(own) = metadata.find(serial)
            && own.sectors > sectors
        {
            return Err(Fault::number(
                Place::Disk(own.index),
                "total_blocks",
                own.sectors,
                Allowed::AtMost(sectors),
            ));
        }
        Ok(Self {
            name,
            serial,
            metadata,
        })
    }

    /// Its own copy says that it is part of a volume.
    fn is_configured(&self) -> bool {
        self.metadata
            .find(self.serial)
            .is_some_and(|disk| disk.is_configured() && !disk.is_failed())
    }

    fn carried(&self) -> Carried<'_> {
        Carried {
            family: self.metadata.family(),
            name: self.name,
        }
    }

    /// The greatest is the copy that counts; the first in order of several.
    fn rank(&self) -> (bool, u32, u32) {
        (
            self.is_configured(),
            self.metadata.generation(),
            self.metadata.checksum(),
        )
    }
}

/// All disks that were found, put in order.
#[derive(Clone, Copy, Debug)]
pub struct Found<'s, 'a> {
    members: &'s [Member<'a>],
}

impl<'s, 'a> Found<'s, 'a> {
    /// Puts them in order: with volumes first, by original family, serial and name.
    #[must_use]
    pub fn new(members: &'s mut [Member<'a>]) -> Self {
        members.sort_unstable_by(|a, b| {
            let key = |m: &Member<'a>| (m.metadata.is_spare(), group(m), m.serial, m.name);
            key(a).cmp(&key(b))
        });
        Self { members }
    }

    /// The containers with volumes.
    pub fn containers(self) -> impl Iterator<Item = Container<'s, 'a>> {
        let with_volumes = self.split().0;
        with_volumes
            .chunk_by(|a, b| group(a) == group(b))
            .filter_map(move |members| Container::of(members, self.members))
    }

    /// Disks without volumes.
    #[must_use]
    pub fn spares(self) -> &'s [Member<'a>] {
        self.split().1
    }

    fn split(self) -> (&'s [Member<'a>], &'s [Member<'a>]) {
        let at = self.members.partition_point(|m| !m.metadata.is_spare());
        self.members.split_at(at)
    }
}

fn group(member: &Member<'_>) -> u32 {
    if member.metadata.is_spare() {
        0
    } else {
        member.metadata.orig_family()
    }
}

/// What a disk of the group is to its container.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// In the table at this index, and to be used.
    Active(u8),
    /// In the table as a spare.
    Spare(u8),
    /// In the table as a journaling drive.
    Journal(u8),
    /// In the table as failed, or called so by another copy.
    Failed(u8),
    /// In the table, but its copy is too old, or newer than the one that counts: what it holds is not to be trusted.
    Lagging(u8),
    /// Not in the table: it was failed out, or it carries another family.
    Stale,
}

/// Disks that belong together.
#[derive(Clone, Copy, Debug)]
pub struct Container<'s, 'a> {
    members: &'s [Member<'a>],
    /// The member whose copy counts; where the container is refused, the one that is likeliest to tell what it was.
    winner: &'s Member<'a>,
    refusal: Option<Why<'s>>,
    /// By index into the winner's table: who is there, as an index into the members and one more; 0 = nobody.
    seats: [u16; 256],
}

impl<'s, 'a> Container<'s, 'a> {
    /// `members` are all of one original family, and among `all`.
    fn of(members: &'s [Member<'a>], all: &'s [Member<'a>]) -> Option<Self> {
        let mut container = Self {
            members,
            winner: members.iter().rev().max_by_key(|m| m.rank())?,
            refusal: None,
            seats: [0; 256],
        };
        let checked = duplicate(members, all).and_then(|()| winner(members));
        match checked {
            Ok(winner) => container.winner = winner,
            Err(why) => container.refusal = Some(why),
        }
        for (member, at) in members.iter().zip(1..) {
            if let Some(disk) = container.own(member)
                && let Some(seat) = container.seats.get_mut(usize::from(disk.index))
                && *seat == 0
            {
                *seat = at;
            }
        }
        if container.refusal.is_none() {
            container.refusal = container.sector_sizes();
        }
        Some(container)
    }

    /// Its UUID.
    #[must_use]
    pub fn uuid(&self) -> Uuid {
        Uuid::container(self.metadata())
    }

    /// The copy of the metadata that counts.
    #[must_use]
    pub fn metadata(&self) -> &'s Metadata<'a> {
        &self.winner.metadata
    }

    /// The disk that carries that copy.
    #[must_use]
    pub fn winner(&self) -> &'s Member<'a> {
        self.winner
    }

    /// Why none of its volumes may be started, if so.
    #[must_use]
    pub fn refusal(&self) -> Option<Why<'s>> {
        self.refusal
    }

    /// All disks of the group, by serial.
    #[must_use]
    pub fn members(&self) -> &'s [Member<'a>] {
        self.members
    }

    /// What a member is to the container.
    #[must_use]
    pub fn standing(&self, member: &Member<'_>) -> Standing {
        let Some(disk) = self.own(member) else {
            return Standing::Stale;
        };
        let index = disk.index;
        if self.has_failed(&disk) {
            Standing::Failed(index)
        } else if disk.is_journal() {
            Standing::Journal(index)
        } else if disk.is_spare() {
            Standing::Spare(index)
        } else if self.lags(member) {
            Standing::Lagging(index)
        } else {
            Standing::Active(index)
        }
    }

    /// The members that are to be bound to the container, in the order of the table, each with its index there.
    pub fn bound(&self) -> impl Iterator<Item = (u8, &'s Member<'a>)> + '_ {
        self.metadata().disks().filter_map(|disk| {
            let member = self.present(disk.index)?;
            (self.standing(member) == Standing::Active(disk.index)).then_some((disk.index, member))
        })
    }

    /// The disk of the table at `index`, if it is present: usable or not.
    #[must_use]
    pub fn present(&self, index: u8) -> Option<&'s Member<'a>> {
        let at = self.seats.get(usize::from(index))?;
        self.members.get(usize::from(*at).checked_sub(1)?)
    }

    /// The disks of the table that should be there and are not.
    pub fn missing(&self) -> impl Iterator<Item = Disk> + '_ {
        self.metadata().disks().filter(|disk| {
            disk.is_configured() && !self.has_failed(disk) && self.present(disk.index).is_none()
        })
    }

    /// What is to become of each volume.
    pub fn plans(&self) -> impl Iterator<Item = Plan<'s>> + '_ {
        self.metadata()
            .volumes()
            .iter()
            .map(|volume| Plan::of(self, volume))
    }

    /// What is to become of one volume.
    #[must_use]
    pub fn plan(&self, index: usize) -> Option<Plan<'s>> {
        let volume = self.metadata().volumes().get(index)?;
        Some(Plan::of(self, volume))
    }

    /// The table says that it failed, or any copy of the same family does.
    #[must_use]
    pub fn has_failed(&self, disk: &Disk) -> bool {
        let family = self.metadata().family();
        disk.is_failed()
            || self
                .members
                .iter()
                .filter(|m| m.metadata.family() == family)
                .filter_map(|m| m.metadata.find(disk.serial))
                .any(|other| other.is_failed())
    }

    /// A member's entry in the table that counts.
    fn own(&self, member: &Member<'_>) -> Option<Disk> {
        if member.metadata.family() != self.metadata().family() {
            return None;
        }
        self.metadata().find(member.serial)
    }

    fn lags(&self, member: &Member<'_>) -> bool {
        let (own, newest) = (member.metadata.generation(), self.metadata().generation());
        own > newest || newest - own > LAG_MAX
    }

    fn sector_sizes(&self) -> Option<Why<'s>> {
        let first = self.winner;
        let other = self
            .members
            .iter()
            .find(|m| self.own(m).is_some() && m.metadata.sector() != first.metadata.sector())?;
        let (a, b) = (first.name.min(other.name), first.name.max(other.name));
        Some(Why::SectorSizes(a, b))
    }
}

/// No serial of the group may be any other disk's too.
fn duplicate<'s>(group: &'s [Member<'_>], all: &'s [Member<'_>]) -> Result<(), Why<'s>> {
    for member in group {
        let twin = all
            .iter()
            .find(|other| other.serial == member.serial && other.name != member.name);
        if let Some(twin) = twin {
            return Err(Why::DuplicateSerial {
                serial: member.serial,
                first: member.name.min(twin.name),
                second: member.name.max(twin.name),
            });
        }
    }
    Ok(())
}

/// The member whose copy counts.
fn winner<'s, 'a>(members: &'s [Member<'a>]) -> Result<&'s Member<'a>, Why<'s>> {
    let mut valid: Option<&Member<'a>> = None;
    let mut invalid: Option<&Member<'a>> = None;
    for (member, before) in members.iter().zip(0..) {
        let family = member.metadata.family();
        let seen = members
            .iter()
            .take(before)
            .any(|m| m.metadata.family() == family);
        if seen {
            continue;
        }
        let best = newest(members, family)?;
        let carries_another = |disk: Disk| {
            members
                .iter()
                .any(|m| m.serial == disk.serial && m.metadata.family() != family)
        };
        if best.metadata.disks().any(carries_another) {
            invalid = invalid.or(Some(best));
        } else if let Some(other) = valid {
            return Err(Why::SeveralFamilies(other.carried(), best.carried()));
        } else {
            valid = Some(best);
        }
    }
    if let Some(winner) = valid {
        return Ok(winner);
    }
    // Each is invalid by another, so that there are two; an empty group there is not.
    let first = invalid.or(members.first()).map(Member::carried);
    let other = members
        .iter()
        .map(Member::carried)
        .find(|c| Some(c.family) != first.map(|f| f.family));
    let none = Carried {
        family: 0,
        name: "",
    };
    Err(Why::NoFamily(first.unwrap_or(none), other.unwrap_or(none)))
}

/// The copy that counts within a family.
fn newest<'s, 'a>(members: &'s [Member<'a>], family: u32) -> Result<&'s Member<'a>, Why<'s>> {
    let of_family = || {
        members
            .iter()
            .rev()
            .filter(|m| m.metadata.family() == family)
    };
    let none = Carried { family, name: "" };
    let best = of_family()
        .max_by_key(|m| m.rank())
        .ok_or(Why::NoFamily(none, none))?;
    let generation = best.metadata.generation();
    let other = of_family().find(|m| {
        m.metadata.generation() == generation && m.metadata.checksum() != best.metadata.checksum()
    });
    match other {
        None => Ok(best),
        Some(other) => Err(Why::Split {
            family,
            generation,
            first: best.name.min(other.name),
            second: best.name.max(other.name),
        }),
    }
}
