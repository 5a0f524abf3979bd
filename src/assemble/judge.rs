//! What is known of a container beside its metadata, put together for the decision.

use super::decide::{Claim, Decision, Patience, Scene, decide};
use super::patience::Initramfs;
use super::probe::{self, Header};
use super::read::Wanted;
use super::{Assembly, Case, act, look, naming};
use crate::deadline::now_ms;
use crate::imsm::{Container, Member, Plan, SlotState, Verdict};
use crate::options::{Assemble, Degraded, Stage};
use crate::pool::Pool;
use crate::sys::disks::{self, Disk};

impl Assembly<'_> {
    /// Decides about a container.
    pub(super) fn case<'s, 'm>(
        &mut self,
        container: Container<'s, 'm>,
        arrays: &'s look::Arrays,
        disks: &[Disk],
        pool: &mut Pool<'_>,
    ) -> Case<'s, 'm> {
        let plans: Vec<Plan<'s>> = container.plans().collect();
        let existing = arrays.of(&container);
        let bad_headers = self.headers(&container, &plans, disks, pool);
        let scene = Scene {
            existing: existing.as_ref().ok().copied().flatten(),
            claim: self.claim(&container, &plans, disks),
            bad_headers: &bad_headers,
            ignored: &self.ignored(&container, &plans),
            mode: self.mode(),
            patience: self.patience(&container),
            now_ms: now_ms(),
        };
        let mut decision = decide(&container, &plans, &scene);
        if let Err(why) = &existing {
            decision = Decision::refused(&plans, why.clone());
        }
        Case {
            came: plans.iter().map(|_| act::Came::Untouched).collect(),
            container,
            plans,
            existing: existing.ok().flatten(),
            decision,
        }
    }

    /// The volumes that mdadm.conf says are to be ignored. Who names a disk means them all the same.
    fn ignored(&self, container: &Container<'_, '_>, plans: &[Plan<'_>]) -> Vec<u8> {
        let ignored =
            |plan: &&Plan<'_>| naming::is_volume_ignored(self.context.root, container, plan);
        match self.ask.devices.is_empty() {
            true => plans
                .iter()
                .filter(ignored)
                .map(|plan| plan.index)
                .collect(),
            false => Vec::new(),
        }
    }

    /// Whose a container is to assemble.
    pub(super) fn claim(
        &self,
        container: &Container<'_, '_>,
        plans: &[Plan<'_>],
        disks: &[Disk],
    ) -> Claim {
        // Who only asks does not ask for it by name.
        if !self.ask.devices.is_empty() && !self.ask.wanted {
            return Claim::Ours;
        }
        if naming::is_ignored(self.context.root, container) {
            return Claim::Ignored;
        }
        let uuid = container.uuid();
        if !self.foreign.uuids.is_empty()
            && !self.foreign.uuids.has_uuid(uuid)
            && !plans
                .iter()
                .any(|plan| self.foreign.uuids.has_uuid(plan.uuid))
        {
            return Claim::NotInUuids;
        }
        if let Assemble::Listed(list) = &self.context.options.assemble {
            let listed =
                list.has_uuid(uuid) || plans.iter().any(|p| list.has(uuid, p.uuid, p.name));
            return if listed {
                Claim::Ours
            } else {
                Claim::NotListed
            };
        }
        if !naming::is_automatic(self.context.root, container, plans) {
            return Claim::NotAutomatic;
        }
        match container.members().iter().all(|m| self.may_have(m, disks)) {
            true => Claim::Ours,
            false => Claim::NoPlatform,
        }
    }

    /// Whether mdadm would take the disk, by where it is.
    pub(super) fn may_have(&self, member: &Member<'_>, disks: &[Disk]) -> bool {
        let anywhere = self.foreign.no_platform
            || std::env::var_os("IMSM_NO_PLATFORM").is_some_and(|v| v == "1");
        let disk = disks.iter().find(|disk| disk.name.as_str() == member.name);
        anywhere || disk.is_some_and(|disk| disks::platform(self.context.root, disk).is_some())
    }

    fn patience(&mut self, container: &Container<'_, '_>) -> Patience {
        let seen_ms = self.state.seen_ms(container.uuid());
        match self.context.options.degraded {
            Degraded::Never => Patience::Never,
            Degraded::After(seconds) => Patience::Until(seen_ms + u64::from(seconds) * 1000),
            Degraded::Default if self.context.stage == Stage::Initrd => {
                let says = |name: &str| std::env::var(name).ok();
                let (rootdelay, start) = (says("ROOTDELAY"), says("starttime"));
                let retry = says("RDRETRY");
                let initramfs = Initramfs {
                    rootdelay: rootdelay.as_deref(),
                    start: start.as_deref(),
                    retry: retry.as_deref(),
                };
                Patience::Until(initramfs.until_ms(seen_ms))
            }
            Degraded::Default => Patience::Never,
        }
    }

    /// The headers that md would believe, looked at before it does.
    fn headers(
        &self,
        container: &Container<'_, '_>,
        plans: &[Plan<'_>],
        disks: &[Disk],
        pool: &mut Pool<'_>,
    ) -> Vec<(u8, String)> {
        let mut wanted = Vec::new();
        for plan in plans
            .iter()
            .filter(|plan| !matches!(plan.verdict, Verdict::Refused(_)))
        {
            let family = container.metadata().orig_family();
            let ppl = plan
                .geometry
                .ppl
                .map(|ppl| (ppl.sector, Wanted::Ppl(family)));
            let bitmap = plan
                .geometry
                .bitmap
                .map(|bitmap| (bitmap.header, Wanted::Bitmap(plan.uuid)));
            for (sector, what) in ppl.into_iter().chain(bitmap) {
                let in_sync = plan.slots_that(|state| state == SlotState::InSync);
                wanted.extend(in_sync.filter_map(|slot| {
                    let name = slot.name?;
                    Some(Header {
                        at: disks.iter().position(|disk| disk.name.as_str() == name)?,
                        volume: plan.index,
                        sector,
                        wanted: what,
                    })
                }));
            }
        }
        if wanted.is_empty() {
            return Vec::new();
        }
        probe::bad_headers(
            pool,
            disks,
            &wanted,
            self.context.deadline,
            self.context.signals.as_ref(),
        )
        .into_iter()
        .map(|(header, why)| (header.volume, why))
        .collect()
    }
}
