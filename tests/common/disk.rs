//! Disks with the metadata of Intel RAID at their ends, the controllers they hang on, and the arrays md has made of them.
//!
//! A disk's node is a file with the last of it: all that is ever read below a root that is not the machine's.

use super::controller::{self, Words, block};
use super::sample::{self, Image};
use super::tree::Tree;
use quell::imsm::SectorSize;

/// What may be said of a disk, beside its name (`nvme0n1`, `sda`).
///
/// | key | default | |
/// | --- | --- | --- |
/// | `tail` | | `SET/SERIAL`: the end of it, one of `tests/imsm-samples`; without it there is no metadata |
/// | `put`, `flip` | | of that metadata: `OFFSET:BYTE,...` and the checksum made right again, `OFFSET`: and not |
/// | `generation` | | of that metadata, with the checksum |
/// | `serial` | that of `tail` | what the disk says of itself |
/// | `sectors`, `sector` | those of `tail`, else 2097152 and 512 | how many of 512 bytes, and how large they are |
/// | `below` | `vmd` or `ahci-raid` | what is above it: these (Intel's RAID), or `ahci` or `none` |
/// | `slot` | 1 more than the letter or number in its name | where it is there |
const KEYS: &[&str] = &[
    "tail",
    "put",
    "flip",
    "generation",
    "serial",
    "sectors",
    "sector",
    "below",
    "slot",
];

/// At least so much of a disk is in its file; what is before the metadata is zeros.
const ROOM: usize = 64 << 10;

/// Makes a whole disk: `disk NAME [KEY=VALUE...]`.
pub(crate) fn disk(tree: &mut Tree, name: &str, words: &[&str]) -> Result<(), String> {
    let words = Words::parse(words, KEYS)?;
    let image = words
        .get("tail")
        .map(|tail| image(tail, &words))
        .transpose()?;
    let serial = image.as_ref().map_or("QUELL", |image| &image.serial);
    let serial = words.or("serial", serial);
    let at = match name.strip_prefix("nvme").and_then(|n| n.split_once('n')) {
        Some((instance, _)) => {
            let instance = instance.parse().map_err(|_| format!("{name}: no number"))?;
            let slot = words.number("slot", instance + 1)?;
            nvme(tree, instance, words.or("below", "vmd"), slot, serial)?;
            format!("sys/class/nvme/nvme{instance}/{name}")
        }
        None => {
            let letter = name.strip_prefix("sd").and_then(|n| n.bytes().next());
            let letter = letter.ok_or(format!("{name}: neither nvme*n* nor sd*"))?;
            let slot = words.number("slot", u32::from(letter - b'a') + 1)?;
            scsi(tree, name, words.or("below", "ahci-raid"), slot, serial)?
        }
    };
    let (bytes, sectors, sector) = match &image {
        None => (vec![0; ROOM], 2_097_152, 512),
        Some(image) => {
            let tail = image.tail();
            let zeros = vec![0; ROOM.saturating_sub(tail.len())];
            let sector = match image.sector {
                SectorSize::B512 => 512,
                SectorSize::B4096 => 4096,
            };
            (
                [zeros, tail].concat(),
                u32::try_from(image.sectors).unwrap(),
                sector,
            )
        }
    };
    let sectors = words.number("sectors", sectors)?;
    let sector = words.number("sector", sector)?;
    tree.file(&format!("{at}/size"), format!("{sectors}\n"));
    tree.file(
        &format!("{at}/queue/logical_block_size"),
        format!("{sector}\n"),
    );
    tree.minors += 1;
    tree.file(&format!("{at}/diskseq"), format!("{}\n", tree.minors));
    tree.file(&format!("dev/{name}"), bytes);
    Ok(())
}

/// The end of a disk that mdadm wrote, and what is to be different.
fn image(tail: &str, words: &Words<'_>) -> Result<Image, String> {
    let bad = |what: &str| format!("tail={tail}: no such {what}");
    let (set, serial) = tail.split_once('/').ok_or_else(|| bad("SET/SERIAL"))?;
    if !sample::SETS.iter().any(|(name, ..)| *name == set) {
        return Err(bad("set"));
    }
    let mut disks = sample::set(set).into_iter();
    let mut image = disks
        .find(|disk| disk.serial == serial)
        .ok_or_else(|| bad("disk"))?;
    let number = |text: &str| text.parse().map_err(|_| format!("{text}: no number"));
    if let Some(generation) = words.get("generation") {
        let generation = generation
            .parse()
            .map_err(|_| format!("{generation}: no number"))?;
        image.generation(generation).seal();
    }
    for pair in words.get("put").into_iter().flat_map(|put| put.split(',')) {
        let (at, byte) = pair
            .split_once(':')
            .ok_or(format!("{pair}: no OFFSET:BYTE"))?;
        let byte = u8::try_from(number(byte)?).map_err(|_| format!("{byte}: no byte"))?;
        image.put(number(at)?, &[byte]).seal();
    }
    if let Some(at) = words.get("flip") {
        let at: usize = number(at)?;
        image.mpb[at] ^= 1;
    }
    Ok(image)
}

/// An NVMe controller with one namespace: below a VMD, whose functions have a domain of their own, or below no RAID.
fn nvme(
    tree: &mut Tree,
    instance: u32,
    below: &str,
    slot: u32,
    serial: &str,
) -> Result<(), String> {
    let domain = match below {
        "vmd" => "10000",
        "none" => "0000",
        other => return Err(format!("below={other}: an NVMe disk is below vmd or none")),
    };
    let place = format!("{domain}:{slot:02x}:00.0");
    let serial = format!("serial={serial}");
    controller::controller(tree, &format!("nvme{instance}"), &place, &[&serial])
}

/// A SCSI disk, which every SATA disk is to Linux; its serial is in a VPD page that the kernel keeps.
fn scsi(
    tree: &mut Tree,
    name: &str,
    below: &str,
    slot: u32,
    serial: &str,
) -> Result<String, String> {
    let (address, vendor, class, port) = match below {
        "ahci-raid" => ("0000:00:17.0", "0x8086", "0x010400", format!("ata{slot}")),
        "ahci" => ("0000:00:1f.2", "0x8086", "0x010601", format!("ata{slot}")),
        // virtio-scsi
        "none" => ("0000:00:05.0", "0x1af4", "0x010000", "virtio1".to_owned()),
        other => {
            return Err(format!(
                "below={other}: a SCSI disk is below ahci-raid, ahci or none"
            ));
        }
    };
    let function = format!("sys/devices/pci0000:00/{address}");
    controller::root_function(tree, address, vendor, class);
    let device = format!("{function}/{port}/host{slot}/target{slot}:0:0/{slot}:0:0:0");
    let mut page = vec![0, 0x80, 0, u8::try_from(serial.len()).unwrap()];
    page.extend_from_slice(serial.as_bytes());
    tree.file(&format!("{device}/vpd_pg80"), page);
    tree.file(&format!("{device}/type"), "0\n");
    let dir = format!("{device}/block/{name}");
    block(tree, &dir, name, &format!("8:{}", 16 * (slot - 1)));
    tree.link(&format!("{dir}/device"), &device);
    tree.link(&format!("sys/block/{name}"), &dir);
    Ok(dir)
}

/// What may be said of an array: `md NAME KEY=VALUE...`.
///
/// | key | |
/// | --- | --- |
/// | `container` | its metadata: `imsm`, `ddf` |
/// | `volume` | `md127/0`: the container it is in, and which one of it |
/// | `members` | disks by commas; a volume's with their slots, `nvme0n1:0` |
/// | `level`, `state` | of a volume: `raid1`, `clean` |
/// | `blocked` | `yes`: mdmon is to leave it alone |
const MD_KEYS: &[&str] = &[
    "container",
    "volume",
    "members",
    "level",
    "state",
    "blocked",
];

/// Makes an array of disks made before.
pub(crate) fn md(tree: &mut Tree, name: &str, words: &[&str]) -> Result<(), String> {
    let words = Words::parse(words, MD_KEYS)?;
    let minor = name.strip_prefix("md").ok_or(format!("{name}: no md*"))?;
    let sign = if words.or("blocked", "no") == "yes" {
        '-'
    } else {
        '/'
    };
    let (version, state) = match (words.get("container"), words.get("volume")) {
        (Some(metadata), None) => (metadata.to_owned(), "inactive"),
        (None, Some(place)) => (format!("{sign}{place}"), words.or("state", "clean")),
        _ => return Err("either container= or volume=".to_owned()),
    };
    let dir = format!("sys/devices/virtual/block/{name}");
    block(tree, &dir, name, &format!("9:{minor}"));
    tree.link(&format!("sys/block/{name}"), &dir);
    let members: Vec<&str> = words
        .get("members")
        .into_iter()
        .flat_map(|m| m.split(','))
        .collect();
    let slots = members.iter().filter(|member| member.contains(':')).count();
    for (file, text) in [
        ("metadata_version", format!("external:{version}")),
        ("array_state", state.to_owned()),
        ("level", words.or("level", "").to_owned()),
        ("raid_disks", slots.to_string()),
        ("degraded", "0".to_owned()),
        ("new_dev", String::new()),
    ] {
        tree.file(&format!("{dir}/md/{file}"), format!("{text}\n"));
    }
    for member in members {
        let (disk, slot, state) = match member.split_once(':') {
            Some((disk, slot)) => (disk, slot, "in_sync,external_bbl"),
            None => (member, "none", "external_bbl"),
        };
        controller::holder(tree, disk, name, None)?;
        let member = format!("{dir}/md/dev-{disk}");
        tree.file(&format!("{member}/slot"), format!("{slot}\n"));
        tree.file(&format!("{member}/state"), format!("{state}\n"));
        tree.link(
            &format!("{member}/block"),
            &format!("sys/class/block/{disk}"),
        );
    }
    Ok(())
}
