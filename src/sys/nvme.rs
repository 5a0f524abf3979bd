//! NVMe controllers and namespaces as sysfs shows them, read once into plain tables.
//!
//! Sources: Documentation/ABI in the kernel tree has no file for the class, so drivers/nvme/host/{sysfs,core,multipath}.c are.

use core::fmt;

use rustix::io::Errno;

use super::claims::Lasts;
use super::pci::PciAddress;
use super::{Dev, Root};
use crate::capability::{State, Transport};
use crate::name::{self, Key};
use crate::path;
use crate::text::Text;

/// Controllers one pass holds; a machine with more is done in further passes, by windows of the instance number.
pub const CONTROLLERS: usize = 8192;
/// Namespaces one pass holds; a controller whose namespaces find no room is left, by name.
pub const NAMESPACES: usize = 32_768;
/// Holders that are kept by name; beyond that "busy" is all that is said.
pub const HOLDERS: usize = 4096;

/// Which NVMe subsystem a controller belongs to: its controllers share namespaces, so it is the unit of all work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Subsystem {
    /// `nvme-subsysN`.
    Shared(u32),
    /// A kernel without the nvme-subsystem class (before 4.15): every controller, by its instance, stands alone.
    Alone(u32),
}

/// What holds a controller or namespace: an index into [`Inventory`]'s names of holders.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Holder {
    /// Named in the table.
    Named(u16),
    /// There is one, but the table was full.
    Unnamed,
}

/// One controller, `nvme{instance}`.
#[derive(Clone, Copy, Debug)]
pub struct Controller {
    /// The N of `nvmeN`.
    pub instance: u32,
    /// Where it belongs.
    pub subsystem: Subsystem,
    /// Its PCI function; none for fabrics and platform drivers.
    pub pci: Option<PciAddress>,
    /// How it is attached.
    pub transport: Transport,
    /// The driver's state machine, when it was read.
    pub state: State,
    /// A driver is bound to its device.
    pub driver_bound: bool,
    /// That driver can be unbound.
    pub has_unbind: bool,
    /// SR-IOV virtual functions that are enabled on it.
    pub vfs: u32,
    /// The physical function, where this is a virtual one.
    pub physfn: Option<PciAddress>,
    /// RTD3 Entry Latency in microseconds (NVMe Base Specification, Identify Controller, bytes 88 to 91), where asked for.
    pub rtd3e_us: Option<u32>,
    /// Who has its character device open.
    pub holder: Option<Holder>,
    /// Until when the last of those does.
    pub lasts: Lasts,
    /// Its namespaces did not fit into the table, or could not be read.
    pub unread: bool,
}

/// Below what a namespace stands in sysfs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Owner {
    /// A multipath head: below `nvme-subsysN`, for all of its controllers.
    Subsystem(u32),
    /// Below `nvmeN`.
    Controller(u32),
}

/// One namespace as a block device, `nvme{instance}n{head}`.
#[derive(Clone, Copy, Debug)]
pub struct Namespace {
    /// Its name's numbers.
    pub key: Key,
    /// Its device number.
    pub dev: Dev,
    /// Below what it stands. Its name does not tell: where the kernel can do multipath, a namespace of one controller is
    /// named after the subsystem too (drivers/nvme/host/multipath.c, nvme_mpath_set_disk_name).
    pub owner: Owner,
    /// Who uses it or a partition of it.
    pub holder: Option<Holder>,
    /// Until when the last of those does.
    pub lasts: Lasts,
}

/// The NVMe half of the machine, as it was when [`Inventory::scan`] read it.
pub struct Inventory {
    controllers: heapless::Vec<Controller, CONTROLLERS>,
    /// Sorted by owner and name.
    namespaces: heapless::Vec<Namespace, NAMESPACES>,
    /// Places in `namespaces`, sorted by name.
    by_name: heapless::Vec<u16, NAMESPACES>,
    holders: heapless::Vec<Text<96>, HOLDERS>,
}

impl Inventory {
    /// Empty; lives in a static, since it is far too large for a stack.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            controllers: heapless::Vec::new(),
            namespaces: heapless::Vec::new(),
            by_name: heapless::Vec::new(),
            holders: heapless::Vec::new(),
        }
    }

    /// Reads the controllers with instance `from` and up, as many as one pass holds, and their namespaces.
    ///
    /// Returns the instance the next pass starts with, or none when this was the last. A kernel without the nvme
    /// module has no class folder and so no controllers: that is no error.
    pub fn scan(&mut self, root: &Root, from: u32) -> Result<Option<u32>, Errno> {
        self.controllers.clear();
        self.namespaces.clear();
        self.holders.clear();
        let end = from.saturating_add(u32::try_from(CONTROLLERS).unwrap_or(u32::MAX));
        let mut next: Option<u32> = None;
        let listed = root.entries("/sys/class/nvme", |entry| {
            match name::controller(entry) {
                Some(n) if n >= end => next = Some(next.map_or(n, |m| m.min(n))),
                // One instance is listed once, so a window never holds more than the table.
                Some(n) if n >= from => drop(self.controllers.push(controller(root, n))),
                _ => {}
            }
            true
        });
        match listed {
            Err(Errno::NOENT) => return Ok(None),
            other => other?,
        }
        self.controllers.sort_unstable_by_key(|c| c.instance);
        self.subsystems(root)?;
        self.private_namespaces(root);
        self.sort_namespaces();
        self.controllers
            .sort_unstable_by_key(|c| (c.subsystem, c.instance));
        Ok(next)
    }

    /// Controllers, sorted by subsystem and instance.
    pub fn controllers(&self) -> &[Controller] {
        &self.controllers
    }

    /// The same, to be marked.
    pub fn controllers_mut(&mut self) -> &mut [Controller] {
        &mut self.controllers
    }

    /// Namespaces, sorted by owner and name.
    pub fn namespaces(&self) -> &[Namespace] {
        &self.namespaces
    }

    /// The namespace of that name.
    pub fn namespace_mut(&mut self, key: Key) -> Option<&mut Namespace> {
        let named = |at: &u16| self.namespaces.get(usize::from(*at)).map(|n| n.key);
        let at = self.by_name.partition_point(|at| named(at) < Some(key));
        let at = usize::from(*self.by_name.get(at)?);
        self.namespaces.get_mut(at).filter(|n| n.key == key)
    }

    /// The namespaces that `group`, the controllers of one subsystem, give access to.
    pub fn namespaces_of<'a>(
        &'a self,
        group: &'a [Controller],
    ) -> impl Iterator<Item = &'a Namespace> {
        let heads = group
            .first()
            .map_or(&[][..], |c| self.heads_of(c.subsystem));
        let private = group.iter().flat_map(|c| self.private_of(c.instance));
        heads.iter().chain(private)
    }

    /// The multipath heads of a subsystem.
    pub fn heads_of(&self, subsystem: Subsystem) -> &[Namespace] {
        match subsystem {
            Subsystem::Shared(number) => self.of(Owner::Subsystem(number)),
            Subsystem::Alone(_) => &[],
        }
    }

    /// The namespaces that only this controller has.
    pub fn private_of(&self, instance: u32) -> &[Namespace] {
        self.of(Owner::Controller(instance))
    }

    fn of(&self, owner: Owner) -> &[Namespace] {
        let start = self.namespaces.partition_point(|n| n.owner < owner);
        let end = self.namespaces.partition_point(|n| n.owner <= owner);
        self.namespaces.get(start..end).unwrap_or_default()
    }

    fn sort_namespaces(&mut self) {
        self.namespaces.sort_unstable_by_key(|n| (n.owner, n.key));
        self.by_name.clear();
        let all = 0..u16::try_from(self.namespaces.len()).unwrap_or(u16::MAX);
        // As many places as namespaces, and the tables are of one size.
        self.by_name.extend(all);
        let namespaces = &self.namespaces;
        self.by_name
            .sort_unstable_by_key(|at| namespaces.get(usize::from(*at)).map(|n| n.key));
    }

    /// Puts a holder's name into the table.
    pub fn name_holder(&mut self, holder: fmt::Arguments<'_>) -> Holder {
        match u16::try_from(self.holders.len()) {
            Ok(id) if self.holders.push(Text::of(holder)).is_ok() => Holder::Named(id),
            _ => Holder::Unnamed,
        }
    }

    /// What a holder is called: `nvme0n1p2 mounted on /`.
    pub fn holder_name(&self, holder: Holder) -> &str {
        match holder {
            Holder::Named(id) => self.holders.get(usize::from(id)).map_or("", Text::as_str),
            Holder::Unnamed => "by one of more holders than quell can name",
        }
    }

    /// Marks the namespace `key` as used by `who`. The first holder found stays.
    ///
    /// A namespace may have no block device, only a generic one (`ng`), and so not be in the table: then every
    /// controller that its name may stand for counts as used.
    pub fn hold(&mut self, key: Key, lasts: Lasts, who: fmt::Arguments<'_>) {
        let Some(first) = self.namespace_mut(key).map(|ns| ns.holder.is_none()) else {
            return self.hold_where(lasts, who, |c| {
                c.instance == key.instance || c.subsystem == Subsystem::Shared(key.instance)
            });
        };
        let holder = first.then(|| self.name_holder(who));
        if let Some(ns) = self.namespace_mut(key) {
            ns.holder = ns.holder.or(holder);
            ns.lasts = ns.lasts.max(lasts);
        }
    }

    /// Marks the controller `instance` as used by `who`.
    pub fn hold_controller(&mut self, instance: u32, lasts: Lasts, who: fmt::Arguments<'_>) {
        self.hold_where(lasts, who, |c| c.instance == instance);
    }

    fn hold_where(
        &mut self,
        lasts: Lasts,
        who: fmt::Arguments<'_>,
        is: impl Fn(&Controller) -> bool,
    ) {
        if self.controllers.iter().any(&is) {
            let holder = self.name_holder(who);
            for c in self.controllers.iter_mut().filter(|c| is(c)) {
                c.holder.get_or_insert(holder);
                c.lasts = c.lasts.max(lasts);
            }
        }
    }

    /// Reads the subsystem class: which controller belongs where, and the multipath heads.
    fn subsystems(&mut self, root: &Root) -> Result<(), Errno> {
        let listed = root.entries("/sys/class/nvme-subsystem", |entry| {
            let Some(number) = name::subsystem(entry) else {
                return true;
            };
            let dir = path!("/sys/class/nvme-subsystem/nvme-subsys{number}");
            let (mut ours, mut full) = (false, false);
            let before = self.namespaces.len();
            let read = root.entries(dir.as_str(), |entry| {
                if let Some(key) = name::namespace(entry) {
                    let head = namespace(root, dir.as_str(), key, Owner::Subsystem(number));
                    full |= self.namespaces.push(head).is_err();
                } else if let Some(c) = name::controller(entry).and_then(|n| self.by_instance(n)) {
                    c.subsystem = Subsystem::Shared(number);
                    ours = true;
                }
                true
            });
            if !ours {
                // Another pass's: its heads make room.
                self.namespaces.truncate(before);
            } else if full || read.is_err() {
                for c in &mut self.controllers {
                    c.unread |= c.subsystem == Subsystem::Shared(number);
                }
            }
            true
        });
        match listed {
            Err(Errno::NOENT) => Ok(()),
            other => other,
        }
    }

    /// While the controllers are sorted by instance: the one that has it.
    fn by_instance(&mut self, instance: u32) -> Option<&mut Controller> {
        let at = self
            .controllers
            .binary_search_by_key(&instance, |c| c.instance);
        self.controllers.get_mut(at.ok()?)
    }

    /// Reads the namespaces that stand below their one controller.
    fn private_namespaces(&mut self, root: &Root) {
        for at in 0..self.controllers.len() {
            let Some(instance) = self.controllers.get(at).map(|c| c.instance) else {
                continue;
            };
            let mut full = false;
            let read = private(root, instance, |ns| {
                full |= self.namespaces.push(ns).is_err()
            });
            if let Some(c) = self.controllers.get_mut(at) {
                c.unread |= full || read.is_err();
            }
        }
    }
}

impl Default for Inventory {
    fn default() -> Self {
        Self::new()
    }
}

/// Reads one controller. A file that is missing is normal: each was new once, and each driver leaves some out.
fn controller(root: &Root, instance: u32) -> Controller {
    let dir = path!("/sys/class/nvme/nvme{instance}");
    let mut buf = [0; 256];
    let transport = root
        .read(path!("{dir}/transport").as_str(), &mut buf)
        .map_or(Transport::Other, Transport::parse);
    let pci = if transport == Transport::Pcie {
        root.read(path!("{dir}/address").as_str(), &mut buf)
            .ok()
            .and_then(PciAddress::parse)
    } else {
        None
    };
    let physfn = root
        .link_name(path!("{dir}/device/physfn").as_str(), &mut buf)
        .ok()
        .and_then(PciAddress::parse);
    let has_unbind = root.exists(path!("{dir}/device/driver/unbind").as_str());
    Controller {
        instance,
        subsystem: Subsystem::Alone(instance),
        pci,
        transport,
        state: state(root, instance),
        driver_bound: has_unbind || root.exists(path!("{dir}/device/driver").as_str()),
        has_unbind,
        vfs: virtual_functions(root, dir.as_str()),
        physfn,
        rtd3e_us: None,
        holder: None,
        lasts: Lasts::default(),
        unread: false,
    }
}

/// The multipath heads of a subsystem.
fn heads(root: &Root, subsystem: u32, each: impl FnMut(Namespace)) -> Result<(), Errno> {
    let dir = path!("/sys/class/nvme-subsystem/nvme-subsys{subsystem}");
    namespaces_in(root, dir.as_str(), Owner::Subsystem(subsystem), each)
}

/// The namespaces that only one controller has.
fn private(root: &Root, instance: u32, each: impl FnMut(Namespace)) -> Result<(), Errno> {
    namespaces_in(
        root,
        path!("/sys/class/nvme/nvme{instance}").as_str(),
        Owner::Controller(instance),
        each,
    )
}

/// The namespaces that these controllers of one subsystem give access to, right now. One that has gone has none.
pub fn namespaces(
    root: &Root,
    subsystem: Subsystem,
    instances: impl Iterator<Item = u32>,
    mut each: impl FnMut(Namespace),
) -> Result<(), Errno> {
    let gone_is_none = |result| match result {
        Err(Errno::NOENT) => Ok(()),
        other => other,
    };
    if let Subsystem::Shared(number) = subsystem {
        gone_is_none(heads(root, number, &mut each))?;
    }
    for instance in instances {
        gone_is_none(private(root, instance, &mut each))?;
    }
    Ok(())
}

fn namespaces_in(
    root: &Root,
    dir: &str,
    owner: Owner,
    mut each: impl FnMut(Namespace),
) -> Result<(), Errno> {
    root.entries(dir, |entry| {
        if let Some(key) = name::namespace(entry) {
            each(namespace(root, dir, key, owner));
        }
        true
    })
}

/// Reads one namespace. One that goes meanwhile has no number: the open will say so, if it is still asked for.
fn namespace(root: &Root, dir: &str, key: Key, owner: Owner) -> Namespace {
    let mut buf = [0; 32];
    let dev = root.read(path!("{dir}/{key}/dev").as_str(), &mut buf);
    Namespace {
        key,
        dev: dev.ok().and_then(Dev::parse).unwrap_or_default(),
        owner,
        holder: None,
        lasts: Lasts::default(),
    }
}

/// Calls `each` with the instance of every controller there is.
pub fn instances(root: &Root, mut each: impl FnMut(u32)) -> Result<(), Errno> {
    root.entries("/sys/class/nvme", |entry| {
        if let Some(instance) = name::controller(entry) {
            each(instance);
        }
        true
    })
}

/// The PCI address of a controller right now.
pub fn address(root: &Root, instance: u32) -> Option<PciAddress> {
    let mut buf = [0; 64];
    let text = root.read(
        path!("/sys/class/nvme/nvme{instance}/address").as_str(),
        &mut buf,
    );
    PciAddress::parse(text.ok()?)
}

/// How many virtual functions are enabled on a controller's function: they are linked from it, `virtfn0` and so on.
///
/// Not from `sriov_numvfs`: since 5.5 whoever reads that waits for the device's lock, and so for a removal under way.
fn virtual_functions(root: &Root, dir: &str) -> u32 {
    (0..u32::from(u16::MAX))
        .take_while(|n| root.exists(path!("{dir}/device/virtfn{n}").as_str()))
        .count()
        .try_into()
        .unwrap_or(u32::MAX)
}

/// The controller's state right now.
pub fn state(root: &Root, instance: u32) -> State {
    let mut buf = [0; 32];
    root.read(
        path!("/sys/class/nvme/nvme{instance}/state").as_str(),
        &mut buf,
    )
    .map_or(State::Unknown, State::parse)
}

/// True while the driver has the controller.
pub fn is_there(root: &Root, instance: u32) -> bool {
    root.exists(path!("/sys/class/nvme/nvme{instance}").as_str())
}

/// `nvme_core.shutdown_timeout` in seconds: what a drive without RTD3E gets (5 where it cannot be read).
pub fn shutdown_timeout_s(root: &Root) -> u32 {
    root.read_u32("/sys/module/nvme_core/parameters/shutdown_timeout")
        .unwrap_or(5)
}

/// `nvme_core.admin_timeout` in seconds: what a controller that answers no admin command costs (60 where it cannot be read).
pub fn admin_timeout_s(root: &Root) -> u32 {
    root.read_u32("/sys/module/nvme_core/parameters/admin_timeout")
        .unwrap_or(60)
}

/// True where the kernel itself shuts devices down in parallel (`core.async_shutdown`, a series that is not merged).
pub fn kernel_is_async(root: &Root) -> bool {
    let mut buf = [0; 16];
    root.read("/sys/module/core/parameters/async_shutdown", &mut buf)
        .is_ok_and(|text| matches!(text, b"Y" | b"y" | b"1"))
}
