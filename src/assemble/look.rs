//! What there is: the disks that were asked for, and the arrays that md has already.

use rustix::io::Errno;

use super::Ask;
use super::decide::{Existing, ExistingVolume};
use crate::errno::Cause;
use crate::imsm::Container;
use crate::sys::Root;
use crate::sys::disks::{self, Disk};
use crate::sys::md::{self, State, Version};

/// Every disk that can be a member, and which of them were named.
pub(super) struct Disks {
    /// In the order of their names.
    pub(super) all: Vec<Disk>,
    /// Places in `all`.
    pub(super) named: Vec<usize>,
}

impl Disks {
    /// When the first of its disks came, by the kernel's count; kernels before 5.15 do not say.
    pub(super) fn first_of(&self, container: &Container<'_, '_>) -> Option<u64> {
        let is_of = |disk: &&Disk| {
            let mut members = container.members().iter();
            members.any(|member| member.name == disk.name.as_str())
        };
        let disks = self.all.iter().filter(is_of);
        disks.map(|disk| disk.diskseq).min()
    }
}

/// Finds the disks. Who names one means the container it belongs to: the others are read as well, so that a half of a
/// mirror that happens not to be named is not taken for missing.
pub(super) fn disks(root: &Root, ask: &Ask) -> Result<Disks, String> {
    let mut all = Vec::new();
    disks::candidates(root, &mut |disk| all.push(disk))
        .map_err(|errno| format!("/sys/block cannot be read: {}", Cause(errno)))?;
    let mut named = Vec::new();
    for word in &ask.devices {
        named.push(disks::named(root, word).map_err(|errno| match errno {
            Errno::INVAL => format!("{word} is a partition; IMSM metadata is on whole disks"),
            Errno::NOTBLK => format!("{word} is no block device"),
            other => format!("{word}: {}", Cause(other)),
        })?);
    }
    for disk in &named {
        if !all.iter().any(|other| other.dev == disk.dev) {
            all.push(disk.clone());
        }
    }
    all.sort_by(|a, b| a.name.as_str().cmp(b.name.as_str()));
    let named = all
        .iter()
        .enumerate()
        .filter(|(_, disk)| named.iter().any(|other| other.dev == disk.dev))
        .map(|(at, _)| at)
        .collect();
    Ok(Disks { all, named })
}

/// A number that changes when a disk comes, goes, or is replaced by another one.
pub(super) fn fingerprint(disks: &[Disk]) -> u64 {
    let mut hash = Hash::default();
    for disk in disks {
        hash.add(disk.name.as_str().as_bytes());
        hash.add(&disk.dev.0.to_le_bytes());
        hash.add(&disk.diskseq.to_le_bytes());
        hash.add(&disk.sectors.to_le_bytes());
    }
    hash.0
}

/// FNV-1a of 64 bits: it only has to tell one thing from another, and nobody attacks it.
pub(super) struct Hash(pub(super) u64);

impl Default for Hash {
    fn default() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }
}

impl Hash {
    pub(super) fn add(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
}

/// What md has already.
#[derive(Debug, Default)]
pub(super) struct Arrays {
    /// IMSM containers with disks, and their volumes.
    pub(super) containers: Vec<Existing>,
    /// Empty ones that nothing is in: a call that was killed left them, or somebody opened a node.
    pub(super) empty: Vec<String>,
    /// What else a call that was killed leaves: containers without a disk, and volumes that do not run, in such ones or in
    /// none. They are cleared before anything is made; whoever else makes arrays has mdadm's lock, as we have.
    pub(super) litter: Vec<String>,
    /// All else, with the disks it is made of: native arrays, and volumes that run though their container was stopped.
    others: Vec<(String, Vec<String>)>,
}

/// Reads what md has.
pub(super) fn arrays(root: &Root) -> Result<Arrays, Errno> {
    let mut arrays = Arrays::default();
    let mut volumes = Vec::new();
    let listed = md::arrays(root, &mut |array| {
        let name = array.name.as_str().to_owned();
        match array.version {
            Version::Container(kind) if kind.as_str() == "imsm" => {
                arrays.containers.push(Existing {
                    name,
                    ..Existing::default()
                });
            }
            Version::Volume {
                container,
                index,
                blocked,
            } => {
                let volume = ExistingVolume {
                    name,
                    index,
                    state: array.state,
                    blocked,
                };
                volumes.push((container.as_str().to_owned(), volume));
            }
            Version::None if array.state == State::Clear => arrays.empty.push(name),
            _ => arrays.others.push((name, Vec::new())),
        }
        true
    });
    match listed {
        Ok(()) | Err(Errno::NOENT) => {}
        Err(errno) => return Err(errno),
    }
    for container in &mut arrays.containers {
        container.members = members(root, &container.name)?;
        container.watched = md::mdmon::pid(root, &container.name).is_some();
    }
    for (of, volume) in volumes {
        arrays.place(&of, volume);
    }
    let hollow = |container: &mut Existing| container.members.is_empty() && !container.watched;
    let hollow = arrays.containers.extract_if(.., hollow);
    arrays.litter.extend(hollow.map(|container| container.name));
    for (name, of) in &mut arrays.others {
        *of = members(root, name)?;
    }
    Ok(arrays)
}

fn members(root: &Root, array: &str) -> Result<Vec<String>, Errno> {
    let mut names = Vec::new();
    let listed = md::members(root, array, &mut |member| {
        names.push(member.name.as_str().to_owned())
    });
    match listed {
        // It went meanwhile.
        Ok(()) | Err(Errno::NOENT | Errno::NODEV) => Ok(names),
        Err(errno) => Err(errno),
    }
}

impl Arrays {
    /// Puts a volume where it belongs, given what it says its container is.
    fn place(&mut self, of: &str, volume: ExistingVolume) {
        let stopped = matches!(volume.state, State::Clear | State::Inactive);
        let foreign = self.others.iter().any(|(name, _)| name == of);
        let container = self.containers.iter_mut().find(|c| c.name == of);
        match container.filter(|container| !container.members.is_empty()) {
            Some(container) => container.volumes.push(volume),
            None if stopped && !foreign => self.litter.push(volume.name),
            None => self.others.push((volume.name, Vec::new())),
        }
    }

    /// The array that is this container: it has disks of it. An error if disks of it are somewhere else.
    pub(super) fn of(&self, container: &Container<'_, '_>) -> Result<Option<&Existing>, String> {
        let held = |names: &[String]| {
            let mut members = container.members().iter().map(|member| member.name);
            members.find(|member| names.iter().any(|name| name == member))
        };
        for (array, names) in &self.others {
            if let Some(disk) = held(names) {
                return Err(format!("{array} has its disk {disk}"));
            }
        }
        let mut ours = self
            .containers
            .iter()
            .filter(|c| held(&c.members).is_some());
        match (ours.next(), ours.next()) {
            (Some(first), Some(second)) => Err(format!(
                "{} and {} both have disks of it",
                first.name, second.name
            )),
            (first, _) => Ok(first),
        }
    }
}
