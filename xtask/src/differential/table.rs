//! The configurations: what mdadm makes, and the state it is left in.

use crate::vm::Kind;

/// One configuration.
#[derive(Clone, Copy, Debug)]
pub(super) struct Config {
    pub(super) name: &'static str,
    /// The quick run takes it.
    pub(super) quick: bool,
    pub(super) disks: &'static [Disk],
    pub(super) volumes: &'static [Volume],
    pub(super) state: State,
    /// The versions of mdadm that cannot make it.
    pub(super) beyond: &'static [&'static str],
}

/// A disk, by what it hangs on and its block size.
#[derive(Clone, Copy, Debug)]
pub(super) struct Disk(pub(super) Kind, pub(super) u32);

/// A volume on the first disks of its container; the disks after these are spares.
#[derive(Clone, Copy, Debug)]
pub(super) struct Volume {
    pub(super) level: u32,
    pub(super) members: usize,
    /// In KiB. A mirror has none of its own.
    pub(super) chunk: u32,
    /// More options for mdadm.
    pub(super) options: &'static str,
}

/// What has become of a configuration when it is to be assembled. What is done is done to all its volumes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// Synced, written to, stopped.
    Clean,
    /// Stopped as above, but assembled disk by disk as udev's rule does it.
    Incremental,
    /// One disk failed, taken out and blank since.
    Degraded,
    /// One disk failed, and is still there with what it last knew.
    Stale,
    /// Stopped in the middle of the first resync.
    Resync,
    /// One disk failed, a spare has taken its place; stopped in the middle of the rebuild. The failed one is blank.
    Rebuild,
    /// The power went while it was written to.
    Dirty,
}

const NVME: Disk = Disk(Kind::Nvme, 512);
const NVME_4K: Disk = Disk(Kind::Nvme, 4096);
const SATA: Disk = Disk(Kind::Ahci, 512);
const SCSI: Disk = Disk(Kind::VirtioScsi, 512);
const SCSI_4K: Disk = Disk(Kind::VirtioScsi, 4096);

const fn raid0(members: usize, chunk: u32) -> Volume {
    volume(0, members, chunk)
}

const fn raid1() -> Volume {
    volume(1, 2, 0)
}

const fn raid5(members: usize, chunk: u32) -> Volume {
    volume(5, members, chunk)
}

const fn raid10(members: usize, chunk: u32) -> Volume {
    volume(10, members, chunk)
}

const fn volume(level: u32, members: usize, chunk: u32) -> Volume {
    Volume {
        level,
        members,
        chunk,
        options: "",
    }
}

impl Volume {
    const fn with(self, options: &'static str) -> Self {
        Self { options, ..self }
    }
}

impl Config {
    const fn new(name: &'static str, disks: &'static [Disk], volumes: &'static [Volume]) -> Self {
        Self {
            name,
            quick: false,
            disks,
            volumes,
            state: State::Clean,
            beyond: &[],
        }
    }

    const fn quick(self) -> Self {
        Self {
            quick: true,
            ..self
        }
    }

    const fn state(self, state: State) -> Self {
        Self { state, ..self }
    }

    const fn beyond(self, versions: &'static [&'static str]) -> Self {
        Self {
            beyond: versions,
            ..self
        }
    }

    /// Whether a volume keeps a partial parity log.
    pub(super) fn has_ppl(&self) -> bool {
        self.volumes
            .iter()
            .any(|volume| volume.options.ends_with("=ppl"))
    }
}

const PPL: &str = "--consistency-policy=ppl";
const BITMAP: &str = "--bitmap=internal";

/// All of them.
pub(super) const TABLE: &[Config] = &[
    Config::new("raid0-nvme", &[NVME; 2], &[raid0(2, 4)]),
    Config::new("raid0-sata", &[SATA; 3], &[raid0(3, 64)]).state(State::Incremental),
    Config::new("raid0-six-scsi", &[SCSI; 6], &[raid0(6, 128)]),
    Config::new("raid0-4k", &[NVME_4K; 2], &[raid0(2, 16)]),
    Config::new("raid1-nvme", &[NVME; 2], &[raid1()]).state(State::Incremental),
    Config::new("raid1-sata", &[SATA; 2], &[raid1()]),
    Config::new("raid1-4k-scsi", &[SCSI_4K; 2], &[raid1()]),
    Config::new("raid5-nvme", &[NVME; 3], &[raid5(3, 64)]),
    Config::new("raid5-sata", &[SATA; 4], &[raid5(4, 4)]).state(State::Incremental),
    Config::new(
        "raid5-six-mixed",
        &[NVME, SATA, SCSI, SCSI, SATA, NVME],
        &[raid5(6, 128)],
    ),
    Config::new("raid5-4k", &[NVME_4K; 3], &[raid5(3, 32)]),
    Config::new("raid10-nvme", &[NVME; 4], &[raid10(4, 64)]),
    Config::new("raid10-mixed", &[NVME, SCSI, SATA, NVME], &[raid10(4, 8)]),
    Config::new("raid10-six-scsi", &[SCSI; 6], &[raid10(6, 16)]).beyond(&["4.2"]),
    Config::new("matrix-5-0", &[NVME; 3], &[raid5(3, 64), raid0(3, 16)]),
    Config::new("matrix-1-0", &[NVME, SATA], &[raid1(), raid0(2, 32)]).quick(),
    Config::new("matrix-10-0", &[SCSI; 4], &[raid10(4, 64), raid0(4, 128)]),
    Config::new("matrix-1-1", &[SATA, SCSI], &[raid1(), raid1()]).state(State::Incremental),
    Config::new("spare-raid1", &[SCSI; 3], &[raid1()]),
    Config::new("spare-raid5", &[NVME, SATA, NVME, SCSI], &[raid5(3, 16)]),
    Config::new("degraded-raid1", &[NVME; 2], &[raid1()]).state(State::Degraded),
    Config::new("degraded-raid5", &[SATA; 4], &[raid5(4, 64)]).state(State::Degraded),
    Config::new("degraded-raid10", &[SCSI; 4], &[raid10(4, 32)]).state(State::Degraded),
    Config::new("stale-raid1", &[NVME; 2], &[raid1()]).state(State::Stale),
    Config::new("resync-raid1", &[NVME; 2], &[raid1()]).state(State::Resync),
    Config::new("resync-raid5", &[NVME_4K; 3], &[raid5(3, 64)]).state(State::Resync),
    Config::new("resync-raid10", &[SCSI; 4], &[raid10(4, 64)]).state(State::Resync),
    Config::new("rebuild-raid1", &[SCSI; 3], &[raid1()])
        .state(State::Rebuild)
        .quick(),
    Config::new("rebuild-raid5", &[NVME; 4], &[raid5(3, 64)]).state(State::Rebuild),
    Config::new("rebuild-raid10", &[NVME; 5], &[raid10(4, 16)]).state(State::Rebuild),
    Config::new("dirty-raid1", &[NVME; 2], &[raid1()]).state(State::Dirty),
    Config::new("dirty-raid5", &[NVME, SCSI, SATA], &[raid5(3, 64)])
        .state(State::Dirty)
        .quick(),
    Config::new("dirty-raid10", &[SATA; 4], &[raid10(4, 64)]).state(State::Dirty),
    Config::new("ppl", &[NVME; 3], &[raid5(3, 64).with(PPL)]).quick(),
    Config::new("ppl-dirty", &[SCSI; 3], &[raid5(3, 16).with(PPL)]).state(State::Dirty),
    Config::new("bitmap-raid1", &[NVME; 2], &[raid1().with(BITMAP)]),
    Config::new("bitmap-raid5", &[SCSI; 4], &[raid5(4, 64).with(BITMAP)]),
];

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn the_table_covers_what_it_has_to() {
        let levels: BTreeSet<u32> = TABLE
            .iter()
            .flat_map(|config| config.volumes.iter().map(|volume| volume.level))
            .collect();
        assert_eq!(levels.into_iter().collect::<Vec<_>>(), [0, 1, 5, 10]);
        let names: BTreeSet<&str> = TABLE.iter().map(|config| config.name).collect();
        assert_eq!(names.len(), TABLE.len());
        assert!(TABLE.len() >= 20);
        assert_eq!(TABLE.iter().filter(|config| config.quick).count(), 4);
    }

    #[test]
    fn every_volume_has_its_disks() {
        for config in TABLE {
            let spares = usize::from(config.state == State::Rebuild);
            for volume in config.volumes {
                assert!(volume.members + spares <= config.disks.len());
            }
        }
    }
}
