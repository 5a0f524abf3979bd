//! Whether a disk is quell's to take: asked by udev, for each disk that has IMSM metadata, before anything is done with it.
//!
//! A member of a mirror that begins with a partition table shows that table's partitions, with the same names and UUIDs as the
//! volume's own. Who mounts one of these writes to half of a mirror. So the partitions of a disk that will be a member are
//! taken away; but those of a disk that nobody will assemble may be what the machine boots from.
//!
//! Where there is no mdmon nothing is quell's to take: who made the image meant these disks for somebody else, such as dmraid,
//! or for nobody.
//!
//! Nothing is touched and nothing kept. One disk says only what it says itself: what comes of its container is decided later.

use log::warn;

use super::decide::Claim;
use super::read::Reader;
use super::{Assembly, look, probe, state};
use crate::context::Exit;
use crate::imsm::{Container, Found, Member};
use crate::pool::Pool;
use crate::sys::disks::Disk;
use crate::sys::md::mdmon;

/// So long the disks have to answer, in milliseconds: an event of udev waits.
const ANSWER_MS: u64 = 5000;

impl Assembly<'_> {
    /// Whether every disk that is named is quell's to take.
    pub(super) fn wants(&self, disks: &look::Disks) -> Exit {
        let named: Vec<Disk> = disks
            .named
            .iter()
            .filter_map(|at| disks.all.get(*at).cloned())
            .collect();
        let reader = Reader {
            root: self.context.root,
            disks: &named,
            dry_run: true,
        };
        let mut pool = Pool::new(self.context.root, &reader, 1);
        let deadline = self.context.deadline.within_ms(ANSWER_MS);
        let (probed, _) = probe::ends(&mut pool, &named, deadline, None);
        let mut members: Vec<Member<'_>> = probe::members(&probed).collect();
        let all = members.len() == named.len();
        let found = Found::new(&mut members);
        let ours = all
            && found
                .containers()
                .all(|container| self.is_ours(&container, &named))
            && found
                .spares()
                .iter()
                .all(|spare| self.may_have(spare, &named));
        if !ours {
            return Exit::Undone;
        }
        if mdmon::program(self.context.root).is_none() {
            for disk in &named {
                let name = &disk.name;
                warn!("{name}: left alone: this image has no mdmon to watch its volumes");
            }
            return Exit::Undone;
        }
        Exit::Done
    }

    fn is_ours(&self, container: &Container<'_, '_>, disks: &[Disk]) -> bool {
        let plans: Vec<_> = container.plans().collect();
        self.claim(container, &plans, disks) == Claim::Ours
            && !state::is_for_mdadm(self.context.root, container.uuid())
    }
}
