//! What a boot wrote to its out disk, with every name that may differ from boot to boot replaced: disks and arrays are named
//! by what they are. The kernel's own names of the arrays are one value more.

use anyhow::{Context, Result, ensure};
use std::collections::{BTreeMap, BTreeSet};

/// What a container is called that has only free spares.
const SPARES: &str = "spares";

/// What one configuration came to: `volume 0/md/level` and the like, with the values.
pub(super) type Values = BTreeMap<String, String>;

/// All that a boot wrote.
#[derive(Debug, Default)]
pub(super) struct Dump {
    /// By the number of the configuration.
    pub(super) configs: BTreeMap<usize, Values>,
    /// Where the content of each volume is, by the configuration's number and the volume's label.
    pub(super) contents: BTreeMap<(usize, String), Content>,
    /// Arrays that belong to none.
    pub(super) strays: Vec<String>,
}

/// A volume's content on the out disk, in MiB.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Content {
    pub(super) at: u64,
    pub(super) length: u64,
}

impl Content {
    /// `16 4`
    fn parse(text: &str) -> Result<Self> {
        let (at, length) = text.split_once(' ').context("a place is two numbers")?;
        Ok(Self {
            at: at.parse()?,
            length: length.parse()?,
        })
    }
}

/// The text on an out disk, cut at the first NUL.
pub(super) fn text(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|byte| *byte == 0);
    String::from_utf8_lossy(bytes.get(..end.unwrap_or(bytes.len())).unwrap_or_default())
        .into_owned()
}

/// The lines of each section, by its heading.
fn sections(text: &str) -> BTreeMap<&str, Vec<&str>> {
    let mut sections: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    let mut heading = "";
    for line in text.lines() {
        match line.strip_prefix("== ") {
            Some(name) => heading = name,
            None => sections.entry(heading).or_default().push(line),
        }
        sections.entry(heading).or_default();
    }
    sections
}

/// The rest of each line that begins with an array's name.
fn about<'a>(name: &str, lines: &[&'a str]) -> impl Iterator<Item = &'a str> {
    lines
        .iter()
        .filter_map(move |line| line.strip_prefix(name)?.strip_prefix(' '))
}

/// `C07D2` is disk 2 of configuration 7.
fn disk(serial: &str) -> Option<(usize, usize)> {
    let (config, disk) = serial.strip_prefix('C')?.split_once('D')?;
    Some((config.parse().ok()?, disk.parse().ok()?))
}

/// One array as it is in sysfs.
#[derive(Debug, Default)]
struct Array {
    files: Values,
    config: Option<usize>,
    members: BTreeSet<String>,
}

impl Array {
    fn version(&self) -> &str {
        self.files
            .get("md/metadata_version")
            .map_or("", String::as_str)
    }

    /// The container and the index, for a volume.
    fn volume(&self) -> Option<(&str, &str)> {
        self.version()
            .strip_prefix("external:")?
            .strip_prefix(['/', '-'])?
            .split_once('/')
    }
}

impl Dump {
    /// Reads the text of an out disk.
    pub(super) fn parse(text: &str) -> Result<Self> {
        let sections = sections(text);
        ensure!(sections.contains_key("end"), "the dump is cut off");
        let lines = |heading: &str| sections.get(heading).map_or(&[][..], Vec::as_slice);
        let disks: BTreeMap<&str, (usize, usize)> = lines("disks")
            .iter()
            .filter_map(|line| {
                let (name, serial) = line.split_once(' ')?;
                Some((name, disk(serial)?))
            })
            .collect();
        let arrays = arrays(lines("sys"), &disks)?;
        let mut names = labels(&arrays);
        for (name, (_, number)) in &disks {
            names.insert((*name).to_owned(), format!("D{number}"));
        }
        let mut dump = Self::default();
        // Of several configurations mdadm's numbers depend on which disk comes when, and free spares take one.
        let configs: BTreeSet<Option<usize>> = arrays.values().map(|array| array.config).collect();
        let alone = configs.len() == 1 && !names.values().any(|label| label == SPARES);
        for (config, order) in order(&arrays, &names) {
            let values = dump.configs.entry(config).or_default();
            let labels: Vec<&str> = order.iter().map(|(_, label)| *label).collect();
            values.insert("order".to_owned(), labels.join(", "));
            if alone {
                let numbers: Vec<String> = order.iter().map(|(n, l)| format!("{n} {l}")).collect();
                values.insert("numbers".to_owned(), numbers.join(", "));
            }
        }
        for (name, array) in &arrays {
            let Some(config) = array.config else {
                dump.strays.push(format!("{name} ({})", array.version()));
                continue;
            };
            let label = names.get(name).context("every array has a label")?;
            let mut put = |key: &str, value: &str| {
                let key = format!("{label}/{}", renamed(key, &names));
                let value = renamed(value, &names);
                let values = dump.configs.entry(config).or_default();
                values
                    .entry(key)
                    .and_modify(|all| *all = format!("{all} | {value}"))
                    .or_insert(value);
            };
            for (key, value) in &array.files {
                put(key, value);
            }
            for line in lines(&format!("export {name}")) {
                let (key, value) = line.split_once('=').unwrap_or((line, ""));
                put(&format!("export/{key}"), value);
            }
            for (heading, key) in [("map", "map"), ("links", "link")] {
                for rest in about(name, lines(heading)) {
                    put(key, rest);
                }
            }
            for place in about(name, lines("content")) {
                let content = Content::parse(place)?;
                dump.contents.insert((config, label.clone()), content);
            }
        }
        Ok(dump)
    }
}

/// Every array, from lines such as `/sys/block/md127/md/level:raid5`.
fn arrays(
    lines: &[&str],
    disks: &BTreeMap<&str, (usize, usize)>,
) -> Result<BTreeMap<String, Array>> {
    let mut arrays: BTreeMap<String, Array> = BTreeMap::new();
    for line in lines {
        let (path, value) = line
            .strip_prefix("/sys/block/")
            .and_then(|line| line.split_once(':'))
            .with_context(|| format!("no sysfs file: {line}"))?;
        let (name, file) = path.split_once('/').context("a file of an array")?;
        let array = arrays.entry(name.to_owned()).or_default();
        let member = file
            .strip_prefix("md/dev-")
            .and_then(|rest| rest.split('/').next());
        if let Some(member) = member
            && let Some((config, _)) = disks.get(member)
        {
            array.config = Some(*config);
            array.members.insert(member.to_owned());
        }
        array
            .files
            .entry(file.to_owned())
            .and_modify(|all| *all = format!("{all} | {value}"))
            .or_insert_with(|| value.to_owned());
    }
    Ok(arrays)
}

/// What each array is. The container of a configuration is the one that volumes name, or the one with the most members.
fn labels(arrays: &BTreeMap<String, Array>) -> BTreeMap<String, String> {
    let named: BTreeSet<&str> = arrays
        .values()
        .filter_map(|array| array.volume())
        .map(|(container, _)| container)
        .collect();
    let mut order: Vec<(&String, &Array)> = arrays.iter().collect();
    order.sort_by_key(|(name, array)| {
        (
            !named.contains(name.as_str()),
            usize::MAX - array.members.len(),
        )
    });
    let mut seen = BTreeSet::new();
    order
        .into_iter()
        .map(|(name, array)| {
            let label = match array.volume() {
                Some((_, index)) => format!("volume {index}"),
                None if seen.insert(array.config) => "container".to_owned(),
                None => SPARES.to_owned(),
            };
            (name.clone(), label)
        })
        .collect()
}

/// The arrays of each configuration as they were numbered, from md127 downwards, each with its label; but for free spares, for
/// which quell makes none.
fn order<'a>(
    arrays: &'a BTreeMap<String, Array>,
    labels: &'a BTreeMap<String, String>,
) -> BTreeMap<usize, Vec<(&'a str, &'a str)>> {
    let mut all: Vec<(&str, usize)> = arrays
        .iter()
        .filter_map(|(name, array)| Some((name.as_str(), array.config?)))
        .collect();
    all.sort_by_key(|(name, _)| {
        let number = name.strip_prefix("md").and_then(|n| n.parse::<u32>().ok());
        core::cmp::Reverse(number)
    });
    let mut order: BTreeMap<usize, Vec<_>> = BTreeMap::new();
    for (name, config) in all {
        if let Some(label) = labels.get(name).filter(|label| *label != SPARES) {
            order
                .entry(config)
                .or_default()
                .push((name, label.as_str()));
        }
    }
    order
}

/// `text` with kernel names replaced, and the numbers that mdadm gives containers in the order they come.
fn renamed(text: &str, names: &BTreeMap<String, String>) -> String {
    let mut out = String::new();
    let mut rest = text;
    while !rest.is_empty() {
        let end = rest.find(|c: char| !c.is_ascii_alphanumeric());
        let (word, after) = rest.split_at(end.unwrap_or(rest.len()));
        let numbered = word
            .strip_prefix("imsm")
            .is_some_and(|n| !n.is_empty() && n.chars().all(|c| c.is_ascii_digit()));
        match names.get(word) {
            Some(name) => out += name,
            None if numbered => out += "imsmN",
            None => out += word,
        }
        let mut chars = after.chars();
        out.extend(chars.next());
        rest = chars.as_str();
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A dump in which the disks and arrays have the given names.
    fn sample(disk: &str, container: &str, volume: &str) -> String {
        format!(
            "== disks\n{disk} C03D1\n== map\n{container} imsm 1:2:3:4 /dev/md/imsm0\n{volume} /{container}/0 5:6:7:8 /dev/md/v03a_0\n\
             == links\n{container} /dev/md/imsm0\n{volume} /dev/md/v03a_0\n== sys\n\
             /sys/block/{container}/md/metadata_version:external:imsm\n/sys/block/{container}/md/dev-{disk}/slot:none\n\
             /sys/block/{volume}/md/metadata_version:external:/{container}/0\n/sys/block/{volume}/md/dev-{disk}/slot:0\n\
             /sys/block/{volume}/size:16384\n== export {volume}\nMD_CONTAINER=/dev/md/imsm0\nMD_DEVICE_dev_{disk}_DEV=/dev/{disk}\n\
             == content\n{volume} 16 4\n== end\n"
        )
    }

    #[test]
    fn names_of_a_boot_are_gone() -> Result<()> {
        let mut one = Dump::parse(&sample("nvme0n1", "md127", "md126"))?;
        let mut other = Dump::parse(&sample("sdb", "md125", "md9"))?;
        let numbers = |dump: &mut Dump| dump.configs.get_mut(&3)?.remove("numbers");
        assert_eq!(
            numbers(&mut other).as_deref(),
            Some("md125 container, md9 volume 0")
        );
        assert_eq!(
            numbers(&mut one).as_deref(),
            Some("md127 container, md126 volume 0")
        );
        assert_eq!(one.configs, other.configs);
        let values = one.configs.get(&3).context("configuration 3")?;
        let is =
            |key: &str, value: &str| assert_eq!(values.get(key).map(String::as_str), Some(value));
        is("volume 0/md/metadata_version", "external:/container/0");
        is("volume 0/md/dev-D1/slot", "0");
        is("volume 0/link", "/dev/md/v03a_0");
        is("volume 0/export/MD_DEVICE_dev_D1_DEV", "/dev/D1");
        is("container/map", "imsm 1:2:3:4 /dev/md/imsmN");
        let content = one.contents.get(&(3, "volume 0".to_owned()));
        assert_eq!(content, Some(&Content { at: 16, length: 4 }));
        Ok(())
    }

    #[test]
    fn of_several_configurations_only_the_order_counts() -> Result<()> {
        let text = "== disks\nsda C03D0\nsdb C04D0\n== sys\n\
                    /sys/block/md100/md/metadata_version:external:imsm\n/sys/block/md100/md/dev-sda/slot:none\n\
                    /sys/block/md99/md/metadata_version:external:/md100/1\n/sys/block/md99/md/dev-sda/slot:0\n\
                    /sys/block/md98/md/metadata_version:external:/md100/0\n/sys/block/md98/md/dev-sda/slot:0\n\
                    /sys/block/md97/md/metadata_version:external:imsm\n/sys/block/md97/md/dev-sdb/slot:none\n== end\n";
        let dump = Dump::parse(text)?;
        let of = |config, key| {
            let value = dump.configs.get(&config)?.get(key);
            value.map(String::as_str)
        };
        assert_eq!(of(3, "order"), Some("container, volume 1, volume 0"));
        assert_eq!(of(4, "order"), Some("container"));
        assert_eq!((of(3, "numbers"), of(4, "numbers")), (None, None));
        Ok(())
    }

    #[test]
    fn a_dump_that_is_cut_off_is_none() {
        let whole = sample("sda", "md127", "md126");
        assert!(Dump::parse(whole.trim_end_matches("== end\n")).is_err());
        assert_eq!(text(b"abc\0\0"), "abc");
    }
}
