//! Sees to it that nothing is written to a redundant volume once its mdmon has gone.
//!
//! What is read-only may write all the same. XFS writes to its log once more when it is unmounted, unless the kernel calls the
//! device read-only; a thin pool, a cache and their like write when they are removed; and a file system that is mounted
//! in another mount namespace only, which something keeps, is not among our mounts. So everything that stands on such a
//! volume is gone through, from the volume up.

use log::warn;
use rustix::io::Errno;

use super::super::chores::CHORES;
use super::maps::called;
use super::{Chore, Leaving, OLD, What};
use crate::errno::Cause;
use crate::path;
use crate::sys::disks::{self, Name};
use crate::sys::md::{self, State, Version, mdmon};
use crate::sys::{Root, leftovers, mounts};
use crate::text::Text;

/// Devices that may stand on volumes. With more nobody can say.
const DEVICES: usize = 256;

/// What is said of a device that cannot be claimed, and whose user is not among the mounts.
const UNSEEN: &str = "is used by something that cannot be seen, as in another mount namespace";

/// What there is to be done about a device that is, or stands on, a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Need {
    /// It is a map, of a kind that is not known yet.
    Kind,
    /// A read-only file system is on it, which is to be told that it cannot write.
    Readonly,
    /// Nothing is known to use it, which is to be seen.
    Claim,
    /// It may write, for this reason.
    Never(&'static str),
}

/// Devices and needs, a map with two of them.
type Needs = heapless::Vec<(Name, Need), { 2 * DEVICES }>;

impl Leaving<'_> {
    /// True: all that stands on a volume whose mdmon is to go is still, and stays so.
    pub(super) fn hold_still(&mut self) -> bool {
        let mut walk = Walk {
            root: self.context.root,
            devices: heapless::Vec::new(),
            needs: heapless::Vec::new(),
        };
        walk.all();
        let mut still = true;
        for (name, need) in &walk.needs {
            if let Need::Never(why) = need {
                self.say(name.as_str(), why, "", None);
                still = false;
            }
        }
        still &= self.well(&walk.needs, Need::Kind, What::MapPasses);
        still &= self.well(&walk.needs, Need::Claim, What::Claim);
        // Last, for nothing but this hangs on it.
        still && self.well(&walk.needs, Need::Readonly, What::SetReadonly)
    }

    /// Does `what` for all with this need. True: it came out well for each.
    fn well(&mut self, needs: &Needs, need: Need, what: What) -> bool {
        let mut well = true;
        let mut rest = needs.as_slice();
        while !rest.is_empty() {
            self.chores.clear();
            let (now, later) = rest.split_at(rest.len().min(CHORES));
            rest = later;
            for (name, _) in now.iter().filter(|(_, n)| *n == need) {
                let _ = self.chores.push(Chore::new(what, path!("{name}")));
            }
            self.carry_out();
            for chore in &self.chores {
                if let Err(errno) = chore.result {
                    let (why, cause) = match (what, errno) {
                        (What::MapPasses, Errno::BUSY) => {
                            ("may write when it is removed: it is of kind", None)
                        }
                        (What::Claim, Errno::BUSY) => (UNSEEN, None),
                        (What::SetReadonly, _) => ("cannot be set read-only", Some(errno)),
                        _ => ("cannot be looked into", Some(errno)),
                    };
                    self.say(chore.of.as_str(), why, chore.words.as_str(), cause);
                    well = false;
                }
            }
        }
        well
    }

    fn say(&self, name: &str, why: &str, words: &str, cause: Option<Errno>) {
        let name = called(self.context.root, name);
        let mut line = Text::<300>::of(format_args!("{name} {why}"));
        if !words.is_empty() {
            line.add(format_args!(" {words}"));
        }
        if let Some(errno) = cause {
            line.add(format_args!(": {}", Cause(errno)));
        }
        warn!("{line}: what it is on stays, and its mdmon");
    }
}

/// What is mounted from a device.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Mounted {
    No,
    Readonly,
    Writable,
}

/// Goes through what stands on the volumes.
struct Walk<'a> {
    root: &'a Root,
    devices: heapless::Vec<Name, DEVICES>,
    needs: Needs,
}

impl Walk<'_> {
    fn all(&mut self) {
        let root = self.root;
        let _ = md::arrays(root, &mut |array| {
            let waits = array.is_redundant() && may_be_written(array.state);
            if waits && !keeps_mdmon(root, &array.version) {
                self.add(&array.name);
            }
            true
        });
        let volumes = self.devices.len();
        let mut at = 0;
        while let Some(name) = self.devices.get(at).cloned() {
            self.one(&name, at < volumes);
            at += 1;
        }
    }

    fn add(&mut self, name: &Name) {
        if !self.devices.contains(name) && self.devices.push(name.clone()).is_err() {
            self.needs.clear();
            self.need(name, Need::Never("is one device too many to look at"));
        }
    }

    fn need(&mut self, name: &Name, need: Need) {
        let _ = self.needs.push((name.clone(), need));
    }

    fn one(&mut self, name: &Name, is_volume: bool) {
        let root = self.root;
        let mounted = mounted(root, name);
        let mut is_leaf = true;
        let mut above = |name: &Name| {
            is_leaf = false;
            self.add(name);
        };
        let dir = path!("/sys/class/block/{name}/holders");
        let _ = disks::names_in(root, &dir, &mut above);
        // Nobody can claim a partition of a whole that is mounted itself.
        if mounted == Mounted::No {
            let _ = disks::partitions(root, name.as_str(), &mut |part, _| above(part));
        }
        let suspended = root.read_u32(path!("/sys/class/block/{name}/dm/suspended").as_str());
        // Opening it could wait for ever, and it may have writes to pass on.
        let is_suspended = suspended == Some(1);
        if is_suspended {
            self.need(name, Need::Never("is suspended"));
        } else if name.as_str().starts_with("dm-") {
            self.need(name, Need::Kind);
        } else if !is_volume && !is_partition(root, name) {
            self.need(name, Need::Never("may write when it is stopped"));
        }
        match mounted {
            Mounted::Writable => {
                self.need(name, Need::Never("is mounted, and can be written to"));
            }
            Mounted::Readonly => self.need(name, Need::Readonly),
            Mounted::No if is_leaf && !is_suspended => self.need(name, Need::Claim),
            Mounted::No => {}
        }
    }
}

/// Others refuse a write at once, and wait for nobody.
fn may_be_written(state: State) -> bool {
    !matches!(state, State::Clear | State::Inactive | State::Readonly)
}

/// Whether its mdmon is none of the old root's, and stays.
fn keeps_mdmon(root: &Root, version: &Version) -> bool {
    let Version::Volume { container, .. } = version else {
        return false;
    };
    mdmon::pid(root, container.as_str()).is_some_and(|pid| !leftovers::is_user(root, OLD, pid))
}

fn is_partition(root: &Root, name: &Name) -> bool {
    root.exists(path!("/sys/class/block/{name}/partition").as_str())
}

fn mounted(root: &Root, name: &Name) -> Mounted {
    let mut mounted = Mounted::No;
    let _ = mounts::devices(root, &mut |on, mount| {
        if on == name && mounted != Mounted::Writable {
            mounted = match mount.readonly {
                true => Mounted::Readonly,
                false => Mounted::Writable,
            };
        }
    });
    mounted
}

#[cfg(test)]
mod tests;
