//! NVMe controllers, and who uses them, with all the files that a real kernel shows of them (drivers/nvme/host/sysfs.c,
//! core.c, multipath.c; the class folders hold links into /sys/devices, as everywhere in sysfs).

use super::tree::{Node, Tree};

/// `key=value` words.
pub(crate) struct Words<'a>(pub(crate) Vec<(&'a str, &'a str)>);

impl<'a> Words<'a> {
    pub(crate) fn parse(words: &[&'a str], allowed: &[&str]) -> Result<Self, String> {
        let mut pairs = Vec::new();
        for word in words {
            let (key, value) = word
                .split_once('=')
                .ok_or(format!("{word}: no KEY=VALUE"))?;
            if !allowed.contains(&key) {
                return Err(format!("{key}: no such key ({})", allowed.join(", ")));
            }
            pairs.push((key, value));
        }
        Ok(Self(pairs))
    }

    pub(crate) fn get(&self, key: &str) -> Option<&'a str> {
        self.0
            .iter()
            .find(|(k, _)| *k == key)
            .map(|(_, value)| *value)
    }

    pub(crate) fn or(&self, key: &str, default: &'a str) -> &'a str {
        self.get(key).unwrap_or(default)
    }

    pub(crate) fn number(&self, key: &str, default: u32) -> Result<u32, String> {
        self.get(key).map_or(Ok(default), |value| {
            value
                .parse()
                .map_err(|_| format!("{key}={value}: no number"))
        })
    }
}

/// What may be said of a controller, beside its name and what it is attached to (a PCI address, `tcp`, `rdma`, `fc`,
/// `loop` or `apple-nvme`).
///
/// | key | default | |
/// | --- | --- | --- |
/// | `state` | `live` | |
/// | `driver` | `nvme` | `none`: no driver is bound |
/// | `unbind` | `pipe` | `none`: the driver cannot be unbound |
/// | `power` | `on` | `power/control` of the PCI function; `none`: no such file |
/// | `vfs` | | `sriov_numvfs`; without it there is no such file |
/// | `physfn` | | the physical function this is a virtual one of |
/// | `subsys` | its own instance | its subsystem |
/// | `ns` | 1 | how many namespaces |
/// | `first` | 1 | number of the first one |
/// | `parts` | 0 | partitions of the first one |
/// | `heads` | `no` | `yes`: its namespaces are multipath heads of the subsystem |
/// | `delayed` | | `delayed_removal_secs` of the heads |
/// | `rtd3e` | | microseconds |
/// | `model`, `serial`, `nqn` | made up | |
const KEYS: &[&str] = &[
    "state", "driver", "unbind", "power", "vfs", "physfn", "subsys", "ns", "first", "parts",
    "heads", "delayed", "rtd3e", "model", "serial", "nqn",
];

/// The folder of a PCI function, behind a root port of its own; that of a domain of five digits is below the VMD that made
/// the domain (drivers/pci/controller/vmd.c).
fn pci_folder(address: &str) -> Result<String, String> {
    let bad = || format!("{address}: no PCI address");
    let (domain, rest) = address.split_once(':').ok_or_else(bad)?;
    let (bus, _) = rest.split_once(':').ok_or_else(bad)?;
    let bus = u8::from_str_radix(bus, 16).map_err(|_| bad())?;
    let above = match domain.len() {
        4 => String::new(),
        _ => format!("pci0000:00/{VMD}/"),
    };
    Ok(format!(
        "sys/devices/{above}pci{domain}:00/{domain}:00:{:02x}.{}/{address}",
        bus >> 3,
        bus & 7
    ))
}

/// The one VMD.
const VMD: &str = "0000:00:0e.0";

/// Makes a PCI function that is part of the processor or its chipset.
pub(crate) fn root_function(tree: &mut Tree, address: &str, vendor: &str, class: &str) {
    let dir = format!("sys/devices/pci0000:00/{address}");
    for (file, text) in [("class", class), ("vendor", vendor)] {
        tree.file(&format!("{dir}/{file}"), format!("{text}\n"));
    }
    tree.link(&format!("{dir}/subsystem"), "sys/bus/pci");
    tree.link(&format!("sys/bus/pci/devices/{address}"), &dir);
}

/// Makes a PCI function of NVMe's class: `pci ADDRESS DRIVER`.
pub(crate) fn function(tree: &mut Tree, address: &str, driver: &str) -> Result<String, String> {
    let dir = pci_folder(address)?;
    if dir.contains(VMD) {
        root_function(tree, VMD, "0x8086", "0x010400");
    }
    for (file, text) in [
        ("class", "0x010802\n"),
        ("vendor", "0x1b36\n"),
        ("device", "0x0010\n"),
        ("enable", "1\n"),
        ("power/control", "on\n"),
        ("power/runtime_status", "active\n"),
    ] {
        tree.file(&format!("{dir}/{file}"), text);
    }
    tree.link(&format!("{dir}/subsystem"), "sys/bus/pci");
    tree.link(&format!("sys/bus/pci/devices/{address}"), &dir);
    if driver != "none" {
        let home = format!("sys/bus/pci/drivers/{driver}");
        tree.link(&format!("{dir}/driver"), &home);
        tree.link(&format!("{home}/{address}"), &dir);
        tree.put(&format!("{home}/bind"), Node::Pipe);
        tree.put(&format!("{home}/unbind"), Node::Pipe);
    }
    Ok(dir)
}

/// Makes a controller: `controller NAME WHERE [KEY=VALUE...]`.
pub(crate) fn controller(
    tree: &mut Tree,
    name: &str,
    place: &str,
    words: &[&str],
) -> Result<(), String> {
    let words = Words::parse(words, KEYS)?;
    let instance: u32 = name
        .strip_prefix("nvme")
        .and_then(|n| n.parse().ok())
        .ok_or(format!("{name}: no controller's name"))?;
    let subsystem = words.number("subsys", instance)?;
    let serial = format!("QUELL{instance:04}");
    let nqn = format!("nqn.2019-08.org.example:{}", words.or("serial", &serial));
    let nqn = words.or("nqn", &nqn);
    let pcie = place.contains(':');
    let dir = match place {
        _ if pcie => {
            let function = function(tree, place, words.or("driver", "nvme"))?;
            on_pci(tree, &function, &words)?;
            let dir = format!("{function}/nvme/{name}");
            tree.link(&format!("{dir}/device"), &function);
            dir
        }
        "apple-nvme" => {
            let device = format!("sys/devices/platform/soc/3930c0000.nvme{instance}");
            tree.link(
                &format!("{device}/driver"),
                "sys/bus/platform/drivers/nvme-apple",
            );
            tree.put("sys/bus/platform/drivers/nvme-apple/unbind", Node::Pipe);
            let dir = format!("{device}/nvme/{name}");
            tree.link(&format!("{dir}/device"), &device);
            dir
        }
        "tcp" | "rdma" | "fc" | "loop" => {
            let ctl = "sys/devices/virtual/nvme-fabrics/ctl";
            let dir = format!("{ctl}/{name}");
            tree.link(&format!("{dir}/device"), ctl);
            on_fabrics(tree, &dir, instance);
            dir
        }
        other => return Err(format!("{other}: neither a PCI address nor a transport")),
    };
    let address = match place {
        "loop" => String::new(),
        _ if pcie => place.to_owned(),
        "apple-nvme" => format!("3930c0000.nvme{instance}"),
        "fc" => "traddr=nn-0x10000090fa942779:pn-0x10000090fa942779,host_traddr=nn-0x20:pn-0x10"
            .to_owned(),
        _ => format!("traddr=10.0.0.{instance},trsvcid=4420"),
    };
    for (file, text) in [
        ("transport", if pcie { "pcie" } else { place }),
        ("address", &address),
        ("state", words.or("state", "live")),
        ("model", words.or("model", "QEMU NVMe Ctrl")),
        ("serial", words.or("serial", &serial)),
        ("firmware_rev", "9.2.0"),
        ("cntlid", "0"),
        ("numa_node", "-1"),
        ("queue_count", "3"),
        ("subsysnqn", nqn),
        ("dev", &format!("240:{instance}")),
        (
            "uevent",
            &format!("MAJOR=240\nMINOR={instance}\nDEVNAME={name}"),
        ),
        ("power/control", "auto"),
    ] {
        tree.file(&format!("{dir}/{file}"), format!("{text}\n"));
    }
    for file in ["reset_controller", "rescan_controller"] {
        tree.file(&format!("{dir}/{file}"), "");
    }
    tree.link(&format!("{dir}/subsystem"), "sys/class/nvme");
    tree.link(&format!("sys/class/nvme/{name}"), &dir);
    tree.link(&format!("sys/dev/char/240:{instance}"), &dir);
    tree.file(&format!("dev/{name}"), "");
    if let Some(us) = words.get("rtd3e") {
        tree.file(&format!("fixture/rtd3e/{name}"), format!("{us}\n"));
    }
    in_subsystem(tree, subsystem, name, &dir, nqn);
    let first = words.number("first", 1)?;
    for head in first..first + words.number("ns", 1)? {
        let parts = if head == first {
            words.number("parts", 0)?
        } else {
            0
        };
        if words.or("heads", "no") == "yes" {
            path_of_head(tree, &dir, (subsystem, instance, head), parts);
            if let Some(secs) = words.get("delayed") {
                tree.file(
                    &format!("sys/class/block/nvme{subsystem}n{head}/delayed_removal_secs"),
                    format!("{secs}\n"),
                );
            }
        } else {
            // Where the kernel can do multipath, a namespace that has no head is still named after the subsystem.
            disk(tree, &dir, &format!("{subsystem}n{head}"), parts);
        }
    }
    Ok(())
}

fn on_pci(tree: &mut Tree, function: &str, words: &Words<'_>) -> Result<(), String> {
    match words.or("power", "on") {
        "none" => tree.remove(&format!("{function}/power/control")),
        mode => tree.file(&format!("{function}/power/control"), format!("{mode}\n")),
    }
    if words.or("unbind", "pipe") == "none" {
        tree.remove(&format!("{function}/driver/unbind"));
    }
    if let Some(vfs) = words.get("vfs") {
        tree.file(&format!("{function}/sriov_numvfs"), format!("{vfs}\n"));
        tree.file(&format!("{function}/sriov_totalvfs"), "7\n");
        let count: u32 = vfs.parse().map_err(|_| format!("vfs={vfs} is no number"))?;
        for n in 0..count {
            // A link to the virtual function; that it is there is what counts.
            tree.file(&format!("{function}/virtfn{n}"), "");
        }
    }
    if let Some(physfn) = words.get("physfn") {
        tree.link(&format!("{function}/physfn"), &pci_folder(physfn)?);
    }
    Ok(())
}

/// What nvme_sysfs_attrs_are_visible shows of a fabrics controller alone.
fn on_fabrics(tree: &mut Tree, dir: &str, instance: u32) {
    for (file, text) in [
        ("delete_controller", ""),
        ("ctrl_loss_tmo", "600\n"),
        ("fast_io_fail_tmo", "off\n"),
        ("reconnect_delay", "10\n"),
        ("kato", "5\n"),
        (
            "hostnqn",
            "nqn.2014-08.org.nvmexpress:uuid:5f0c3a64-7c3f-4f5e-9a51-0d7c0a6d8a11\n",
        ),
    ] {
        tree.file(&format!("{dir}/{file}"), text);
    }
    tree.file(&format!("{dir}/hostid"), format!("host{instance}\n"));
}

fn in_subsystem(tree: &mut Tree, number: u32, name: &str, controller: &str, nqn: &str) {
    let dir = format!("sys/devices/virtual/nvme-subsystem/nvme-subsys{number}");
    for (file, text) in [
        ("subsysnqn", nqn),
        ("model", "QEMU NVMe Ctrl"),
        ("serial", "QUELL"),
        ("firmware_rev", "9.2.0"),
        ("subsystype", "nvm"),
        ("iopolicy", "numa"),
    ] {
        tree.file(&format!("{dir}/{file}"), format!("{text}\n"));
    }
    tree.link(&format!("{dir}/{name}"), controller);
    tree.link(&format!("{dir}/subsystem"), "sys/class/nvme-subsystem");
    tree.link(
        &format!("sys/class/nvme-subsystem/nvme-subsys{number}"),
        &dir,
    );
}

/// A path to a multipath head: hidden, without a number of its own. The head comes with its first path.
fn path_of_head(tree: &mut Tree, controller: &str, of: (u32, u32, u32), parts: u32) {
    let (subsystem, instance, head) = of;
    let path = format!("nvme{subsystem}c{instance}n{head}");
    let dir = format!("{controller}/{path}");
    for (file, text) in [
        ("hidden", "1\n"),
        ("ana_state", "optimized\n"),
        ("size", "2097152\n"),
    ] {
        tree.file(&format!("{dir}/{file}"), text);
    }
    tree.link(&format!("{dir}/device"), controller);
    tree.link(&format!("sys/class/block/{path}"), &dir);
    tree.link(&format!("sys/block/{path}"), &dir);
    let subsys = format!("sys/devices/virtual/nvme-subsystem/nvme-subsys{subsystem}");
    if !tree.has(&format!("{subsys}/nvme{subsystem}n{head}")) {
        disk(tree, &subsys, &format!("{subsystem}n{head}"), parts);
    }
}

/// The next device number.
fn number(tree: &mut Tree) -> String {
    let dev = format!("259:{}", tree.minors);
    tree.minors += 1;
    dev
}

/// A namespace `nvme{numbers}` below `parent`, its partitions, and its generic character device.
fn disk(tree: &mut Tree, parent: &str, numbers: &str, parts: u32) {
    let name = format!("nvme{numbers}");
    let dir = format!("{parent}/{name}");
    let dev = number(tree);
    block(tree, &dir, &name, &dev);
    tree.file(&format!("{dir}/queue/logical_block_size"), "512\n");
    tree.file(&format!("{dir}/nsid"), "1\n");
    tree.link(&format!("{dir}/device"), parent);
    tree.link(&format!("sys/block/{name}"), &dir);
    for part in 1..=parts {
        let name = format!("{name}p{part}");
        let dir = format!("{dir}/{name}");
        let dev = number(tree);
        block(tree, &dir, &name, &dev);
        tree.file(&format!("{dir}/partition"), format!("{part}\n"));
    }
    let generic = format!("ng{numbers}");
    let minor = tree.minors;
    let dir = format!("{parent}/{generic}");
    tree.file(&format!("{dir}/dev"), format!("241:{minor}\n"));
    tree.link(&format!("sys/dev/char/241:{minor}"), &dir);
    tree.file(&format!("dev/{generic}"), "");
}

/// A block device, whole or partition.
pub(crate) fn block(tree: &mut Tree, dir: &str, name: &str, dev: &str) {
    tree.file(&format!("{dir}/dev"), format!("{dev}\n"));
    tree.file(&format!("{dir}/size"), "2097152\n");
    tree.file(&format!("{dir}/ro"), "0\n");
    tree.put(&format!("{dir}/holders"), Node::Dir);
    tree.put(&format!("{dir}/slaves"), Node::Dir);
    tree.link(&format!("{dir}/subsystem"), "sys/class/block");
    tree.link(&format!("sys/class/block/{name}"), dir);
    tree.link(&format!("sys/dev/block/{dev}"), dir);
    tree.file(&format!("dev/{name}"), "");
}

/// Mounts: `mount DEVICE POINT TYPE`, DEVICE a disk or partition made before, or `MAJOR:MINOR=SOURCE`.
pub(crate) fn mount(tree: &mut Tree, device: &str, point: &str, kind: &str) -> Result<(), String> {
    let (dev, source) = match device.split_once('=') {
        Some((dev, source)) => (dev.to_owned(), source.to_owned()),
        None => (
            tree.text(&format!("sys/class/block/{device}/dev"))
                .ok_or(format!("{device}: no such device"))?,
            format!("/dev/{device}"),
        ),
    };
    tree.mounts += 1;
    let id = 100 + tree.mounts;
    let line = format!("{id} 22 {dev} / {point} rw,relatime shared:{id} - {kind} {source} rw\n");
    tree.append("proc/self/mountinfo", line.as_bytes());
    Ok(())
}

/// Makes a device that stands on another: `holder BELOW NAME [DM-NAME]`, NAME `md127`, `dm-0`, `bcache0`.
pub(crate) fn holder(
    tree: &mut Tree,
    below: &str,
    name: &str,
    dm: Option<&str>,
) -> Result<(), String> {
    let below = format!("sys/class/block/{below}");
    if !tree.has(&below) {
        return Err(format!("there is no {below}"));
    }
    let dir = format!("sys/devices/virtual/block/{name}");
    if !tree.has(&dir) {
        let dev = format!("253:{}", tree.minors);
        tree.minors += 1;
        block(tree, &dir, name, &dev);
        tree.link(&format!("sys/block/{name}"), &dir);
    }
    if let Some(dm) = dm {
        tree.file(&format!("{dir}/dm/name"), format!("{dm}\n"));
        tree.file(&format!("{dir}/dm/suspended"), "0\n");
    }
    // The kernel's link is relative to where the folder really is; how many steps up is of no interest here.
    tree.put(
        &format!("{below}/holders/{name}"),
        Node::Link(format!("/{dir}")),
    );
    Ok(())
}

/// A process: `process PID COMM [FILE...]`, each FILE open.
pub(crate) fn process(tree: &mut Tree, pid: &str, comm: &[u8], files: &[&str]) {
    let mut text = comm.to_vec();
    text.push(b'\n');
    tree.file(&format!("proc/{pid}/comm"), text);
    tree.put(
        &format!("proc/{pid}/ns/mnt"),
        Node::Link("mnt:[4026531841]".to_owned()),
    );
    tree.put(
        &format!("proc/{pid}/fd/0"),
        Node::Link("/dev/null".to_owned()),
    );
    tree.put(
        &format!("proc/{pid}/fd/1"),
        Node::Link("socket:[8812]".to_owned()),
    );
    for (fd, file) in (3..).zip(files) {
        tree.put(
            &format!("proc/{pid}/fd/{fd}"),
            Node::Link((*file).to_owned()),
        );
    }
}
