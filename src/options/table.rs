//! The options, as they are shown to a person.

/// Which field a row sets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Key {
    Enable,
    Jobs,
    Width,
    Timeout,
    LastResort,
    Quiesce,
    Fabrics,
    Assemble,
    Degraded,
    Teardown,
    Log,
}

/// One option, as `--help`, the README and the manual page show it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    pub(super) key: Key,
    /// The name after `quell.` or `--`, with dashes.
    pub name: &'static str,
    /// What may be given.
    pub values: &'static str,
    /// What holds where nothing is given.
    pub default: &'static str,
    /// What it does, in one line.
    pub meaning: &'static str,
    /// Whether a command of this version acts on it. The others are read and checked, so that one command line fits
    /// several versions, but not shown.
    pub works: bool,
}

/// Every option, in the order in which they are shown.
pub const TABLE: &[Row] = &[
    Row {
        key: Key::Enable,
        name: "enable",
        values: "1, 0",
        default: "1",
        meaning: "0: do nothing at all, and succeed",
        works: true,
    },
    Row {
        key: Key::Jobs,
        name: "jobs",
        values: "auto, 1 to 1024",
        default: "auto",
        meaning: "workers in all; auto: one for each controller, at most 64",
        works: true,
    },
    Row {
        key: Key::Width,
        name: "width",
        values: "CLASS:N[,CLASS:N...], CLASS nvme, nvme-tcp, nvme-rdma, nvme-fc or nvme-loop, N 1 to 1024",
        default: "nvme:64, all others 16",
        meaning: "how many controllers of one class are done at once",
        works: true,
    },
    Row {
        key: Key::Timeout,
        name: "timeout",
        values: "seconds, 1 to 86400",
        default: "40 in systemd-shutdown, 60 in the exitrd, 130 else",
        meaning: "the one deadline of every acting command",
        works: true,
    },
    Row {
        key: Key::LastResort,
        name: "lastresort",
        values: "seconds, 0 to 86400",
        default: "180",
        meaning: "reset the machine this long after a controller had to be abandoned and the reboot still stands; 0: never",
        works: true,
    },
    Row {
        key: Key::Quiesce,
        name: "quiesce",
        values: "auto, always, off",
        default: "auto",
        meaning: "shut controllers down: where it wins time, always, never",
        works: true,
    },
    Row {
        key: Key::Fabrics,
        name: "fabrics",
        values: "leave, delete",
        default: "leave",
        meaning: "what to do with controllers over tcp, rdma, fc and loop",
        works: true,
    },
    Row {
        key: Key::Assemble,
        name: "assemble",
        values: "auto, off, or UUIDs or names by commas, 1024 bytes at most",
        default: "auto",
        meaning: "which Intel RAID arrays are assembled: those mdadm would take, none, those listed",
        works: true,
    },
    Row {
        key: Key::Degraded,
        name: "degraded",
        values: "seconds, 0 to 86400, never",
        default: "in the initramfs two thirds of its wait for root: 120 in dracut's, 20 in initramfs-tools', never for a person",
        meaning: "from the first member seen until a volume with missing members is started; without a value: at once",
        works: true,
    },
    Row {
        key: Key::Teardown,
        name: "teardown",
        values: "1, 0",
        default: "1",
        meaning: "stop arrays before the controllers are shut down",
        works: true,
    },
    Row {
        key: Key::Log,
        name: "log",
        values: "error, warn, info, debug, trace",
        default: "info",
        meaning: "the least important messages that are still written",
        works: true,
    },
];
