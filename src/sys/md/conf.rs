//! mdadm.conf, as far as it decides what arrays are called and which are taken unasked: its ARRAY lines, `HOMEHOST <ignore>` and
//! its AUTO line. DEVICE and POLICY lines are not followed.
//!
//! mdadm has two ways that differ here. What `--incremental` or `--assemble` would call by its plain name, quell does. Of
//! files in a conf.d folder, the first that has something to say of an array counts, in no order; `CREATE names=yes` (kernel
//! names like `md_home`) is not followed.
//!
//! Source: mdadm.conf(5), mdadm's `config.c`, `Incremental.c`, `Assemble.c`.

use rustix::io::Errno;

use super::map;
use crate::imsm::names::{Choice, Trust, link_name, mean_the_same};
use crate::path;
use crate::sys::{Path, Root};
use crate::text::{Printable, Text};

/// An array that is to be called something.
#[derive(Clone, Debug)]
pub struct Wanted<'a> {
    /// The volume's name in the metadata; of a container its format, `imsm`.
    pub name: &'a [u8],
    /// Its UUID.
    pub uuid: &'a str,
    /// Where it is a volume.
    pub volume: Option<InContainer<'a>>,
}

/// Where a volume is.
#[derive(Clone, Copy, Debug)]
pub struct InContainer<'a> {
    /// The container's UUID.
    pub uuid: &'a str,
    /// The kernel's name of the container.
    pub array: &'a str,
    /// The link to it.
    pub path: &'a str,
    /// Which of its volumes.
    pub index: u8,
}

/// What an array is to be called, given that what `is_taken` says is not free; `None`: mdadm.conf says `<ignore>`, mdadm
/// would not start it.
pub fn name_for(
    root: &Root,
    wanted: &Wanted<'_>,
    is_taken: &dyn Fn(&str) -> bool,
) -> Option<Choice> {
    let said = Said::of(root, wanted);
    if let Some(device) = &said.device {
        if device.as_str().eq_ignore_ascii_case("<ignore>") {
            return None;
        }
        if let Some(choice) = Choice::listed(device.as_str()) {
            return Some(choice);
        }
    }
    let trust = match wanted.volume {
        _ if said.ignores_host && !said.names_other => Trust::Local,
        None => Trust::Format,
        Some(_) if said.is_listed => Trust::Local,
        Some(_) => Trust::Foreign,
    };
    let name = link_name(wanted.name, trust, &mut |name| {
        is_taken(name) || is_in_map(root, name, wanted.uuid)
    });
    Some(Choice::linked(name.as_str(), trust))
}

/// Whether IMSM arrays that no ARRAY line is about are to be taken: the first AUTO line counts, and its first word that fits.
pub fn is_automatic(root: &Root) -> bool {
    let mut first: Option<Option<bool>> = None;
    read(root, &mut |line| {
        if is_keyword(line.keyword.as_str(), "auto") {
            first.get_or_insert(line.automatic);
        }
    });
    first.flatten().unwrap_or(true)
}

/// Whether an ARRAY line is about it, or about its container.
pub fn is_listed(root: &Root, wanted: &Wanted<'_>) -> bool {
    Said::of(root, wanted).is_listed
}

/// True if no ARRAY line has that name: numbers that one names are not given to others.
pub fn is_free(root: &Root, name: &str) -> bool {
    let mut free = true;
    read(root, &mut |line| {
        free &= !line
            .device()
            .is_some_and(|device| mean_the_same(device, name));
    });
    free
}

fn is_in_map(root: &Root, name: &str, uuid: &str) -> bool {
    let mut found = false;
    // A map that cannot be read is none.
    let _ = map::read(root, &mut |entry| {
        found |= entry.path.as_str().strip_prefix("/dev/md/") == Some(name)
            && !same_uuid(entry.uuid.as_str(), uuid)
            && super::exists(root, entry.name.as_str());
    });
    found
}

/// What the files say of one array.
#[derive(Debug, Default)]
struct Said {
    /// The device of the first line that is about it.
    device: Option<Text<100>>,
    /// There is a line about it, or about its container.
    is_listed: bool,
    /// A line gives its name, perhaps to another.
    names_other: bool,
    /// `HOMEHOST <ignore>`: names are believed.
    ignores_host: bool,
}

impl Said {
    fn of(root: &Root, wanted: &Wanted<'_>) -> Self {
        let mut said = Self::default();
        let name: Text<40> = Printable(wanted.name).to_text();
        read(root, &mut |line| {
            said.ignores_host |= line.ignores_host;
            let device = line.device();
            said.names_other |= device.is_some_and(|device| mean_the_same(device, name.as_str()));
            if line.is_about(wanted) {
                said.is_listed = true;
                if let (None, Some(_)) = (&said.device, device) {
                    said.device.clone_from(&line.device);
                }
            }
            said.is_listed |= wanted
                .volume
                .is_some_and(|volume| line.has_uuid(volume.uuid));
        });
        said
    }
}

/// What a line has said so far: it goes on in every line that begins with a blank.
#[derive(Debug, Default)]
struct Line {
    keyword: Text<8>,
    device: Option<Text<100>>,
    uuid: Option<Text<100>>,
    container: Option<Text<100>>,
    member: Option<Text<100>>,
    ignores_host: bool,
    /// What the first word of an AUTO line that fits says.
    automatic: Option<bool>,
    /// `homehost` stood in it.
    after_homehost: bool,
}

impl Line {
    fn device(&self) -> Option<&str> {
        self.device.as_ref().map(Text::as_str)
    }

    fn has_uuid(&self, uuid: &str) -> bool {
        let own = self.uuid.as_ref();
        own.is_some_and(|own| same_uuid(own.as_str(), uuid))
    }

    /// All that it says of an array is true, and enough to know it by.
    fn is_about(&self, wanted: &Wanted<'_>) -> bool {
        let Some(volume) = wanted.volume else {
            return self.has_uuid(wanted.uuid);
        };
        let container = self.container.as_ref().map(Text::as_str);
        let right_container = container.map(|container| match container.strip_prefix("/dev/") {
            Some(name) => name == volume.array || container == volume.path,
            None => same_uuid(container, volume.uuid),
        });
        let member = self.member.as_ref().map(Text::as_str);
        let right_member = member.map(|member| member.parse() == Ok(volume.index));
        match (&self.uuid, right_container, right_member) {
            (None, Some(container), Some(member)) => container && member,
            (None, _, _) => false,
            (Some(_), container, member) => {
                self.has_uuid(wanted.uuid) && container != Some(false) && member != Some(false)
            }
        }
    }

    fn take(&mut self, word: &Text<100>) {
        let text = word.as_str();
        if self.keyword.is_empty() {
            self.keyword = Text::of(format_args!("{text}"));
        } else if is_keyword(self.keyword.as_str(), "homehost") {
            self.ignores_host |= text.eq_ignore_ascii_case("<ignore>");
        } else if is_keyword(self.keyword.as_str(), "auto") {
            let says = automatic(text, self.after_homehost);
            self.after_homehost |= text.eq_ignore_ascii_case("homehost");
            self.automatic = self.automatic.or(says);
        } else if is_keyword(self.keyword.as_str(), "array") {
            let (place, value) = match text.split_once('=') {
                Some((key, value)) if !text.starts_with('/') => match () {
                    () if key.eq_ignore_ascii_case("uuid") => (&mut self.uuid, value),
                    () if key.eq_ignore_ascii_case("container") => (&mut self.container, value),
                    () if key.eq_ignore_ascii_case("member") => (&mut self.member, value),
                    () => return,
                },
                _ => (&mut self.device, text),
            };
            place.get_or_insert_with(|| Text::of(format_args!("{value}")));
        }
    }
}

/// What a word of an AUTO line says of IMSM arrays. After `homehost` no word forbids them: whether an array is this host's
/// IMSM does not say, and mdadm takes what it cannot tell.
fn automatic(word: &str, after_homehost: bool) -> Option<bool> {
    let is = |other: &str| word.eq_ignore_ascii_case(other);
    if ["yes", "+all", "+imsm"].into_iter().any(is) {
        return Some(true);
    }
    let forbids = ["no", "-all", "-imsm"].into_iter().any(is);
    forbids.then_some(after_homehost)
}

/// Its first three letters are enough.
fn is_keyword(word: &str, keyword: &str) -> bool {
    let start = keyword.get(..word.len());
    word.len() >= 3 && start.is_some_and(|start| start.eq_ignore_ascii_case(word))
}

/// However they are divided.
fn same_uuid(one: &str, other: &str) -> bool {
    fn digits(text: &str) -> impl Iterator<Item = u8> {
        let digits = text.bytes().filter(u8::is_ascii_alphanumeric);
        digits.map(|digit| digit.to_ascii_lowercase())
    }
    digits(one).eq(digits(other))
}

/// Where distributions have it; mdadm reads the first it finds.
const FILES: [&str; 3] = [
    // In an image of initramfs-tools this is the machine's own; of the other one IMSM arrays were taken out, for mdadm.
    "/etc/mdadm/mdadm.conf.kept",
    "/etc/mdadm/mdadm.conf",
    "/etc/mdadm.conf",
];

/// Calls `each` with every line of the configuration. What cannot be read says nothing.
fn read(root: &Root, each: &mut dyn FnMut(&Line)) {
    let found = FILES.into_iter().find(|file| root.exists(file));
    for file in FILES
        .into_iter()
        .filter(|file| found.is_none_or(|found| found == *file))
    {
        let _ = read_file(root, &path!("{file}"), each);
        let dir = path!("{}.d", file.trim_end_matches(".kept"));
        let _ = root.entries(dir.as_str(), |entry| {
            if entry.ends_with(b".conf") && !entry.starts_with(b".") {
                let _ = read_file(root, &path!("{dir}/{}", Printable(entry)), each);
            }
            true
        });
    }
}

fn read_file(root: &Root, file: &Path, each: &mut dyn FnMut(&Line)) -> Result<(), Errno> {
    let mut line = Line::default();
    root.lines::<1024>(file.as_str(), |text| {
        // Only a comment or a person's name is not UTF-8.
        let text = core::str::from_utf8(text).unwrap_or_default();
        if text.starts_with(|c: char| !matches!(c, ' ' | '\t' | '#')) {
            each(&core::mem::take(&mut line));
        }
        words(text, &mut |word| line.take(word));
    })?;
    each(&line);
    Ok(())
}

/// Words end at blanks that no quotes protect; one that begins with `#` begins a comment.
fn words(text: &str, each: &mut dyn FnMut(&Text<100>)) {
    let mut word = Text::new();
    let mut quote = None;
    let mut is_word = false;
    for c in text.chars() {
        match c {
            ' ' | '\t' if quote.is_none() => {
                if core::mem::take(&mut is_word) {
                    each(&core::mem::take(&mut word));
                }
                continue;
            }
            '#' if !is_word => return,
            '"' | '\'' if quote.is_none() => quote = Some(c),
            c if quote == Some(c) => quote = None,
            c => word.add(format_args!("{c}")),
        }
        is_word = true;
    }
    if is_word {
        each(&word);
    }
}

#[cfg(test)]
mod tests;
