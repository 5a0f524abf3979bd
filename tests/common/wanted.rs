//! What must come of a run, and whether it has.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::text::{bytes, is, unescape};
use super::tree::{Node, Pipes, Seen, addresses};

/// What is wanted of one stream.
#[derive(Default)]
pub(super) struct Stream {
    whole: Vec<String>,
    has: Vec<String>,
    lacks: Vec<String>,
    empty: bool,
}

#[derive(Default)]
pub(super) struct Wanted {
    pub(super) exit: Option<i32>,
    pub(super) streams: BTreeMap<&'static str, Stream>,
    pub(super) unordered: bool,
    json: Vec<(String, String)>,
    lengths: Vec<(String, usize)>,
    pipes: BTreeMap<PathBuf, String>,
    unbinds: Vec<String>,
    writes: BTreeMap<PathBuf, String>,
    touches: Vec<PathBuf>,
    replaces: BTreeMap<PathBuf, String>,
    makes: BTreeMap<PathBuf, String>,
}

impl Wanted {
    /// Takes a line; false if it is none of these.
    pub(super) fn add(&mut self, line: &str) -> Result<bool, String> {
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        let pair = || {
            rest.split_once(" = ")
                .or_else(|| Some((rest.strip_suffix(" =")?, "")))
                .ok_or("there is no =")
        };
        match word {
            "exit" => self.exit = Some(rest.parse().map_err(|_| "no number")?),
            "unordered" => self.unordered = true,
            "stdout" | "stderr" | "kmsg" => {
                let name = ["stdout", "stderr", "kmsg"]
                    .into_iter()
                    .find(|name| *name == word)
                    .unwrap();
                let stream = self.streams.entry(name).or_default();
                let (how, text) = rest.split_once(' ').unwrap_or((rest, ""));
                let text = text.to_owned();
                unescape(&text)?;
                match how {
                    "=" => stream.whole.push(text),
                    "has" => stream.has.push(text),
                    "lacks" => stream.lacks.push(text),
                    "empty" => stream.empty = true,
                    _ => return Err("=, has, lacks or empty".to_owned()),
                }
            }
            "json" => match rest.split_once(" # ") {
                Some((pointer, n)) => self
                    .lengths
                    .push((pointer.to_owned(), n.parse().map_err(|_| "no number")?)),
                None => {
                    let (pointer, value) = pair()?;
                    self.json.push((pointer.to_owned(), value.to_owned()));
                }
            },
            "unbinds" => self
                .unbinds
                .extend(rest.split_whitespace().map(str::to_owned)),
            "pipe" if rest.contains(" = ") => {
                let (path, text) = pair()?;
                self.pipes.insert(path.into(), text.to_owned());
            }
            "writes" => {
                let (path, text) = pair()?;
                self.writes.insert(path.into(), text.to_owned());
            }
            "touches" => self.touches.push(rest.into()),
            "replaces" => {
                let (path, text) = pair().unwrap_or((rest, "*"));
                self.replaces.insert(path.into(), text.to_owned());
            }
            "makes" => {
                let (path, text) = pair()?;
                self.makes.insert(path.into(), text.to_owned());
            }
            _ => return Ok(false),
        }
        Ok(true)
    }
}

pub(super) fn compare(
    name: &str,
    wanted: &Stream,
    lines: &[Vec<u8>],
    unordered: bool,
    faults: &mut Vec<String>,
) {
    for line in &wanted.has {
        if !lines.iter().any(|found| is(line, found)) {
            faults.push(format!("{name} lacks: {line}"));
        }
    }
    for line in &wanted.lacks {
        if lines.iter().any(|found| is(line, found)) {
            faults.push(format!("{name} has: {line}"));
        }
    }
    if wanted.empty && !lines.is_empty() {
        faults.push(format!("{name} is not empty"));
    }
    if wanted.whole.is_empty() {
        return;
    }
    let mut left: Vec<&Vec<u8>> = lines.iter().collect();
    for line in &wanted.whole {
        let at = if unordered {
            left.iter().position(|found| is(line, found))
        } else {
            left.first().filter(|found| is(line, found)).map(|_| 0)
        };
        match at {
            Some(at) => drop(left.remove(at)),
            None => {
                faults.push(format!("{name} is not, where it should be: {line}"));
                return;
            }
        }
    }
    for line in left {
        faults.push(format!(
            "{name} has more: {}",
            String::from_utf8_lossy(line)
        ));
    }
}

pub(super) fn json(stdout: &[u8], wanted: &Wanted, faults: &mut Vec<String>) {
    let start: String = String::from_utf8_lossy(stdout)
        .chars()
        .filter(|c| !c.is_whitespace())
        .take(12)
        .collect();
    if !start.starts_with("{\"schema\":1,") && !start.starts_with("{\"schema\":1}") {
        faults.push(format!("stdout: schema is not the first key: {start}"));
    }
    let value: serde_json::Value = match serde_json::from_slice(stdout) {
        Ok(value) => value,
        Err(error) => return faults.push(format!("stdout is no JSON: {error}")),
    };
    for (pointer, wanted) in &wanted.json {
        let wanted: serde_json::Value = match serde_json::from_str(wanted) {
            Ok(wanted) => wanted,
            Err(error) => {
                faults.push(format!("json {pointer}: {wanted} is no JSON: {error}"));
                continue;
            }
        };
        let same = match (value.pointer(pointer), &wanted) {
            (Some(serde_json::Value::String(found)), serde_json::Value::String(wanted)) => {
                is(&wanted.replace('\\', "\\\\"), found.as_bytes())
            }
            (Some(found), wanted) => found == wanted,
            (None, wanted) => wanted.is_null(),
        };
        if !same {
            faults.push(format!(
                "json {pointer}: {:?}, and not {wanted}",
                value.pointer(pointer)
            ));
        }
    }
    for (pointer, n) in &wanted.lengths {
        let found = value
            .pointer(pointer)
            .and_then(|v| v.as_array())
            .map(Vec::len);
        if found != Some(*n) {
            faults.push(format!("json {pointer}: {found:?} entries, and not {n}"));
        }
    }
}

/// What has changed in the tree, which must be what is wanted.
pub(super) fn effects(
    before: &BTreeMap<PathBuf, Seen>,
    after: &BTreeMap<PathBuf, Seen>,
    wanted: &Wanted,
    faults: &mut Vec<String>,
) {
    let mut writes = wanted.writes.clone();
    let mut touches = wanted.touches.clone();
    let mut replaces = wanted.replaces.clone();
    let mut makes = wanted.makes.clone();
    for (path, old) in before {
        let Some(new) = after.get(path) else {
            faults.push(format!("{} has gone", path.display()));
            continue;
        };
        let (Node::File(was), Node::File(now)) = (&old.node, &new.node) else {
            if old.node != new.node {
                faults.push(format!("{} is another: {:?}", path.display(), new.node));
            }
            continue;
        };
        if path == Path::new("dev/kmsg") || old.written == new.written {
            continue;
        }
        if let Some(text) = writes.remove(path) {
            let written = bytes(&text).unwrap();
            let rest = was.get(written.len()..).unwrap_or_default();
            if *now != [written.as_slice(), rest].concat() {
                faults.push(format!(
                    "{}: not {text} was written over {}: {}",
                    path.display(),
                    was.escape_ascii(),
                    now.escape_ascii()
                ));
            }
        } else if was != now && replaces.get(path).is_some_and(|text| is(text, now)) {
            replaces.remove(path);
        } else if touches.contains(path) && was == now {
            touches.retain(|touched| touched != path);
        } else {
            faults.push(format!(
                "{} was written to: {}",
                path.display(),
                now.escape_ascii()
            ));
        }
    }
    for (path, new) in after.iter().filter(|(path, _)| !before.contains_key(*path)) {
        match (&new.node, makes.remove(path)) {
            (Node::File(bytes), Some(text)) if is(&text, bytes) => {}
            (Node::Dir, _) if makes.keys().any(|made| made.starts_with(path)) => {}
            // A lock, or a folder for one: what counts is who holds it.
            (Node::File(bytes), None) if bytes.is_empty() && path.starts_with("run") => {}
            (Node::Dir, None) if path.starts_with("run") => {}
            (node, _) => faults.push(format!("{} was made: {node:?}", path.display())),
        }
    }
    for path in writes
        .keys()
        .chain(&touches)
        .chain(replaces.keys())
        .chain(makes.keys())
    {
        faults.push(format!("{} was not written to", path.display()));
    }
}

pub(super) fn written(pipes: &mut Pipes, wanted: &Wanted, faults: &mut Vec<String>) {
    let mut written = pipes.written();
    let unbind = Path::new("sys/bus/pci/drivers/nvme/unbind");
    let mut unbound = addresses(&written.remove(unbind).unwrap_or_default());
    let mut wished = wanted.unbinds.clone();
    if wanted.unordered {
        unbound.sort();
        wished.sort();
    }
    if unbound != wished {
        faults.push(format!("unbound: {unbound:?}, and not {wished:?}"));
    }
    for (path, text) in &wanted.pipes {
        let found = written.remove(path).unwrap_or_default();
        if !is(text, &found) {
            faults.push(format!(
                "{}: {}, and not {text}",
                path.display(),
                found.escape_ascii()
            ));
        }
    }
    for (path, text) in written {
        faults.push(format!(
            "{} was written to: {}",
            path.display(),
            text.escape_ascii()
        ));
    }
}
