//! Driver → what quell may do to a controller, and how many of its kind at once. One table.
//!
//! | the controller | what is done | how many at once | why |
//! | --- | --- | --- | --- |
//! | PCIe, live, its driver has an `unbind` file | [`Action::Unbind`] | 64 | the driver's removal sends the shutdown notification (CC.SHN) and waits for CSTS.SHST; only the device's own lock is held, so removals run side by side |
//! | PCIe, kernel shuts down asynchronously itself | left, in hook stages without `quell.quiesce=always` | - | the kernel does the same thing at the same width |
//! | PCIe, a physical function with VFs enabled | left | - | removing it takes the VFs from whoever uses them |
//! | PCIe, in any state but `live` | left | - | somebody else's reset or removal is under way: never two actions on one controller |
//! | PCIe without a driver, or a driver without `unbind` | left | - | nothing to write to |
//! | TCP, RDMA, FC, loop, live or connecting | left; with `quell.fabrics=delete` [`Action::Delete`] | 16 | these drivers have no shutdown callback, so the kernel loses no time on them; each deletion opens and closes connections |
//! | the same in another state | left | - | as above |
//! | any other driver (apple-nvme) | left | - | one controller on a system-on-chip: nothing to win |
//! | fewer than two controllers to do | left, in hook stages without `quell.quiesce=always` | - | nothing to win; see [`too_few`] |
//!
//! `quell.quiesce=off` leaves all of them, named or not: it is a prohibition, the others are guesses about what is
//! worth doing, and what a person names is worth doing.
//!
//! The rooms that read sysfs fill in [`Facts`]; the options and the stage make the [`Policy`]; [`judge`] is the table.
//! What needs more than these facts (who uses a namespace, which VF belongs to which PF) is decided elsewhere.

use core::fmt;

/// How the controller is reached: sysfs `/sys/class/nvme/nvmeN/transport` (`nvme_sysfs_show_transport` in
/// `drivers/nvme/host/sysfs.c`, which prints the driver's `nvme_ctrl_ops.name`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// `pcie`
    Pcie,
    /// `tcp`
    Tcp,
    /// `rdma`
    Rdma,
    /// `fc`
    Fc,
    /// `loop`
    Loop,
    /// Anything else: `apple-nvme` and what is yet to come.
    Other,
}

impl Transport {
    /// Reads the text of the sysfs file, with or without its newline.
    #[must_use]
    pub fn parse(text: &[u8]) -> Self {
        match text.trim_ascii() {
            b"pcie" => Self::Pcie,
            b"tcp" => Self::Tcp,
            b"rdma" => Self::Rdma,
            b"fc" => Self::Fc,
            b"loop" => Self::Loop,
            _ => Self::Other,
        }
    }

    /// The class whose width such a controller counts against; `None` where quell never acts.
    #[must_use]
    pub const fn class(self) -> Option<Class> {
        match self {
            Self::Pcie => Some(Class::Nvme),
            Self::Tcp => Some(Class::NvmeTcp),
            Self::Rdma => Some(Class::NvmeRdma),
            Self::Fc => Some(Class::NvmeFc),
            Self::Loop => Some(Class::NvmeLoop),
            Self::Other => None,
        }
    }
}

/// The controller's state: sysfs `/sys/class/nvme/nvmeN/state` (`nvme_sysfs_show_state` in
/// `drivers/nvme/host/sysfs.c`, `enum nvme_ctrl_state`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// `live`: takes I/O
    Live,
    /// `new`: allocated, not yet started
    New,
    /// `resetting`
    Resetting,
    /// `connecting`: a fabrics controller that has lost its connection, or any controller inside a reset
    Connecting,
    /// `deleting`
    Deleting,
    /// `deleting (no IO)`: being deleted after its namespaces are gone
    DeletingNoIo,
    /// `dead`: given up by the driver
    Dead,
    /// A text this version does not know, or a file that could not be read.
    Unknown,
}

impl State {
    /// Every state.
    pub const ALL: [Self; 8] = [
        Self::Live,
        Self::New,
        Self::Resetting,
        Self::Connecting,
        Self::Deleting,
        Self::DeletingNoIo,
        Self::Dead,
        Self::Unknown,
    ];

    /// Reads the text of the sysfs file, with or without its newline.
    #[must_use]
    pub fn parse(text: &[u8]) -> Self {
        match text.trim_ascii() {
            b"live" => Self::Live,
            b"new" => Self::New,
            b"resetting" => Self::Resetting,
            b"connecting" => Self::Connecting,
            b"deleting" => Self::Deleting,
            b"deleting (no IO)" => Self::DeletingNoIo,
            b"dead" => Self::Dead,
            _ => Self::Unknown,
        }
    }

    /// The kernel's own word for it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Live => "live",
            Self::New => "new",
            Self::Resetting => "resetting",
            Self::Connecting => "connecting",
            Self::Deleting => "deleting",
            Self::DeletingNoIo => "deleting (no IO)",
            Self::Dead => "dead",
            Self::Unknown => "unknown",
        }
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A capability class: controllers that are done in the same way and share one width (`quell.width=CLASS:N`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// PCIe controllers of the `nvme` driver
    Nvme,
    /// NVMe over TCP
    NvmeTcp,
    /// NVMe over RDMA
    NvmeRdma,
    /// NVMe over Fibre Channel
    NvmeFc,
    /// NVMe target loopback
    NvmeLoop,
}

impl Class {
    /// Number of classes: the length of arrays indexed by [`Class::index`].
    pub const COUNT: usize = 5;

    /// Every class, in the order of [`Class::index`].
    pub const ALL: [Self; Self::COUNT] = [
        Self::Nvme,
        Self::NvmeTcp,
        Self::NvmeRdma,
        Self::NvmeFc,
        Self::NvmeLoop,
    ];

    /// Position in [`Class::ALL`], always below [`Class::COUNT`].
    #[must_use]
    pub const fn index(self) -> usize {
        self as usize
    }

    /// The name a person writes: the kernel module's, with dashes.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Nvme => "nvme",
            Self::NvmeTcp => "nvme-tcp",
            Self::NvmeRdma => "nvme-rdma",
            Self::NvmeFc => "nvme-fc",
            Self::NvmeLoop => "nvme-loop",
        }
    }

    /// Reads a name; `-` and `_` are the same. `None` if there is no such class.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|class| same_name(class.name().as_bytes(), name.as_bytes()))
    }

    /// How many are done at once unless told otherwise: wide (64) for PCIe, where a job only waits for its own drive;
    /// medium (16) for fabrics, where jobs share a network and a target.
    #[must_use]
    pub const fn width(self) -> usize {
        match self {
            Self::Nvme => 64,
            Self::NvmeTcp | Self::NvmeRdma | Self::NvmeFc | Self::NvmeLoop => 16,
        }
    }
}

impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Whether two names are equal where `-` and `_` are the same, as the kernel compares parameter names
/// (`parameq` in `kernel/params.c`).
pub(crate) fn same_name(a: &[u8], b: &[u8]) -> bool {
    fn dash(byte: &u8) -> u8 {
        if *byte == b'_' { b'-' } else { *byte }
    }
    a.iter().map(dash).eq(b.iter().map(dash))
}

/// What is done to a controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Write the PCI address to the driver's `unbind` file.
    Unbind,
    /// Write `1` to the controller's `delete_controller` file.
    Delete,
}

/// The facts about one controller that the table asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Facts {
    /// sysfs `transport`
    pub transport: Transport,
    /// sysfs `state`
    pub state: State,
    /// The bound driver has an `unbind` file (drivers may set `suppress_bind_attrs`). Only asked of PCIe controllers.
    pub has_unbind: bool,
    /// A driver is bound to the PCI function. Only asked of PCIe controllers.
    pub driver_bound: bool,
    /// SR-IOV virtual functions enabled on this physical function: sysfs `sriov_numvfs`, 0 where there is no such file.
    pub vfs: u32,
}

/// `quell.quiesce`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Quiesce {
    /// Act where there is something to win.
    #[default]
    Auto,
    /// Act also where the kernel would do as well.
    Always,
    /// Never act.
    Off,
}

/// What was asked for, where, and by whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policy {
    /// `quell.fabrics=delete`
    pub fabrics_delete: bool,
    /// `quell.quiesce`
    pub quiesce: Quiesce,
    /// A hook calls, not a person.
    pub hook_stage: bool,
    /// This kernel shuts devices down asynchronously itself (the core module parameter `async_shutdown` is on).
    pub kernel_async: bool,
    /// A person named this very controller, or said `--all`.
    pub named: bool,
}

impl Policy {
    /// Whether controllers that gain nothing are left to the kernel.
    const fn thrifty(&self) -> bool {
        self.hook_stage && !self.named && matches!(self.quiesce, Quiesce::Auto)
    }
}

/// Why a controller is left to the kernel. Its `Display` is the end of a log line: `left: state resetting`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Left {
    /// The kernel's own shutdown is parallel.
    KernelAsync,
    /// It would be the only one.
    TooFew,
    /// A physical function with virtual functions enabled.
    HasVfs {
        /// How many
        n: u32,
    },
    /// A fabrics controller, and nobody asked for its deletion.
    Fabrics,
    /// A driver quell does not know.
    Platform,
    /// Not in a state in which it may be touched.
    NotLive(State),
    /// No driver is bound to the PCI function.
    NoDriver,
    /// The driver cannot be unbound from user space.
    NoUnbind,
    /// `quell.quiesce=off`
    Off,
}

impl fmt::Display for Left {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("left: ")?;
        match self {
            Self::KernelAsync => f.write_str("the kernel shuts down asynchronously itself"),
            Self::TooFew => f.write_str("the only one to do (quell.quiesce=always does it)"),
            Self::HasVfs { n: 1 } => f.write_str("1 VF is enabled on it"),
            Self::HasVfs { n } => write!(f, "{n} VFs are enabled on it"),
            Self::Fabrics => f.write_str("fabrics (quell.fabrics=delete takes it)"),
            Self::Platform => f.write_str("not a driver quell knows"),
            Self::NotLive(state) => write!(f, "state {state}"),
            Self::NoDriver => {
                f.write_str("no driver is bound to it, or the driver is just letting go")
            }
            Self::NoUnbind => f.write_str("its driver has no unbind file"),
            Self::Off => f.write_str("quell.quiesce=off"),
        }
    }
}

/// The table: what may be done to this controller, and in which class it counts.
///
/// # Errors
/// The reason why it is left to the kernel. Never [`Left::TooFew`], which is a matter of the whole plan: [`too_few`].
pub const fn judge(facts: &Facts, policy: &Policy) -> Result<(Class, Action), Left> {
    if matches!(policy.quiesce, Quiesce::Off) {
        return Err(Left::Off);
    }
    let Some(class) = facts.transport.class() else {
        return Err(Left::Platform);
    };
    match class {
        Class::Nvme => match () {
            _ if !facts.driver_bound => Err(Left::NoDriver),
            _ if facts.vfs > 0 => Err(Left::HasVfs { n: facts.vfs }),
            _ if !matches!(facts.state, State::Live) => Err(Left::NotLive(facts.state)),
            _ if !facts.has_unbind => Err(Left::NoUnbind),
            _ if policy.kernel_async && policy.thrifty() => Err(Left::KernelAsync),
            _ => Ok((class, Action::Unbind)),
        },
        Class::NvmeTcp | Class::NvmeRdma | Class::NvmeFc | Class::NvmeLoop => match facts.state {
            _ if !policy.fabrics_delete => Err(Left::Fabrics),
            State::Live | State::Connecting => Ok((class, Action::Delete)),
            state => Err(Left::NotLive(state)),
        },
    }
}

/// Whether a plan of `todo` controllers is too small to be worth it: fewer than two, in a hook stage, unless
/// `quell.quiesce=always`. The reason to report is [`Left::TooFew`].
#[must_use]
pub const fn too_few(todo: usize, policy: &Policy) -> bool {
    todo < 2 && policy.thrifty()
}

/// The longest shutdown wait a drive can ask of the driver by its RTD3E, in seconds (`nvme_init_identify`).
pub const SHUTDOWN_WAIT_MAX_S: u32 = 60;

/// What the deletion of a fabrics controller is expected to take, in milliseconds: a few round trips, no flush.
pub const FABRICS_PREDICTED_MS: u32 = 1_000;

/// The bound of a job that deletes a fabrics controller in `connecting`, in milliseconds: with `ctrl_loss_tmo` made
/// small it ends at once or it never will.
pub const CONNECTING_BOUND_MS: u32 = 4_000;

/// The driver's own wait for CSTS.SHST, in milliseconds.
///
/// `rtd3e_us` is RTD3 Entry Latency, Identify Controller bytes 88..=91, microseconds; `shutdown_timeout_s` is
/// `nvme_core.shutdown_timeout`. The driver rounds RTD3E down to whole seconds and clamps it to the parameter and
/// 60 s (`nvme_init_identify` in `drivers/nvme/host/core.c`); unknown or zero means the parameter alone. A parameter
/// above 60 s is taken as it is: kernels differ in what their clamp makes of it, and this is the longer of the two.
#[must_use]
pub const fn shutdown_bound_ms(rtd3e_us: Option<u32>, shutdown_timeout_s: u32) -> u32 {
    let asked_s = match rtd3e_us {
        Some(us) => us / 1_000_000,
        None => 0,
    };
    let asked_s = if asked_s > SHUTDOWN_WAIT_MAX_S {
        SHUTDOWN_WAIT_MAX_S
    } else {
        asked_s
    };
    let wait_s = if asked_s > shutdown_timeout_s {
        asked_s
    } else {
        shutdown_timeout_s
    };
    wait_s.saturating_mul(1_000)
}

/// The bound of one job in milliseconds: the admin command that nobody answers (`nvme_core.admin_timeout`, seconds),
/// the shutdown wait `bound_ms` of [`shutdown_bound_ms`], and 5 s for the rest of a removal.
#[must_use]
pub const fn job_bound_ms(admin_timeout_s: u32, bound_ms: u32) -> u32 {
    admin_timeout_s
        .saturating_mul(1_000)
        .saturating_add(bound_ms)
        .saturating_add(5_000)
}

/// How long a worker may hold its place while jobs wait, in milliseconds: the shutdown wait of [`shutdown_bound_ms`]
/// and 2 s. After that it is counted abandoned and replaced, though its job runs on.
#[must_use]
pub const fn hold_bound_ms(bound_ms: u32) -> u32 {
    bound_ms.saturating_add(2_000)
}

#[cfg(test)]
mod tests;
