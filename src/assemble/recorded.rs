//! Whether a loss is recorded: a volume that is written without one of its disks must say so in its metadata, or the disk
//! that comes back would be taken for one in sync, with other contents.

use crate::imsm::{SectorSize, read};
use crate::mpb;
use crate::sys::disks::Disk;
use crate::sys::{Root, tail};

/// A volume's slots that are started without a disk, and one of its disks, which can tell.
#[derive(Clone, Debug)]
pub(super) struct Loss {
    /// Which volume of its container.
    pub(super) volume: u8,
    /// The slots.
    pub(super) slots: Vec<u8>,
    /// A disk that is there.
    pub(super) witness: Disk,
}

impl Loss {
    /// The metadata on the disk calls none of the slots in sync. Reads, so only a worker may call it.
    pub(super) fn is_recorded(&self, root: &Root) -> bool {
        self.ask(root).unwrap_or(false)
    }

    fn ask(&self, root: &Root) -> Option<bool> {
        let bytes = self.witness.sectors.saturating_mul(512);
        let sector = SectorSize::of(self.witness.sector)?;
        let tail = tail::open_disk(root, &self.witness).ok()?;
        let mut end = mpb::load(&tail, sector, Some(bytes)).ok()?;
        let metadata = read(&mut end, sector, Some(bytes)).ok()?;
        let volume = metadata.volumes().get(usize::from(self.volume))?;
        let seats: Vec<_> = volume.current().slots().collect();
        let lost = |slot: &u8| {
            seats
                .get(usize::from(*slot))
                .is_some_and(|seat| seat.out_of_sync)
        };
        Some(self.slots.iter().all(lost))
    }
}
