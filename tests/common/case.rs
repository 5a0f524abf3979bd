//! A fixture: one text file with a little machine, what quell is asked to do on it, and what must come of it.
//!
//! ```text
//! # What it shows.
//! controller nvme0 0000:02:00.0 parts=2 rtd3e=3000000
//! mount nvme0n1p2 / ext4
//! for i in 1..4: controller nvme{i} 0000:{i+2:02x}:00.0
//!
//! $ shutdown reboot --stage=exitrd --jobs=1
//! exit 1
//! kmsg = <30>quell: nvme0 0000:02:00.0 left: busy (nvme0n1p2 mounted on /)
//! kmsg has quiesced 0 of 4 controllers in *, 1 workers
//! unbinds 0000:03:00.0 0000:04:00.0 0000:05:00.0
//! ```
//!
//! **The machine**, before the first `$` and again between two runs:
//!
//! | line | |
//! | --- | --- |
//! | `PATH = TEXT` | a file with TEXT and a newline; `PATH =` alone is an empty one |
//! | `PATH += TEXT` | TEXT and a newline are appended |
//! | `PATH := TEXT` | a file with TEXT and no newline |
//! | `PATH/` | a folder |
//! | `PATH -> TARGET` | a link |
//! | `program PATH` | a file that may be executed |
//! | `pipe PATH` | a pipe: what is written to it is kept, in order |
//! | `no PATH` | not there, nor anything below it |
//! | `controller NAME WHERE [KEY=VALUE...]` | all that a kernel shows of it: see `controller.rs` |
//! | `function ADDRESS DRIVER` | a PCI function of NVMe's class |
//! | `disk NAME [KEY=VALUE...]` | a whole disk, perhaps a member of an Intel RAID container: see `disk.rs` |
//! | `md NAME KEY=VALUE...` | an array of such disks |
//! | `mount DISK POINT TYPE`, `mount MAJOR:MINOR=SOURCE POINT TYPE` | |
//! | `holder DISK NAME [DM-NAME]` | an md, dm or bcache on it |
//! | `process PID COMM [FILE...]` | with these open |
//! | `bare` | not even what every machine has; the first line |
//!
//! **A run** is `$` and quell's arguments (`--root` comes by itself). After it stands what must come of it:
//!
//! | line | |
//! | --- | --- |
//! | `exit N` | always |
//! | `STREAM = LINE` | STREAM (`stdout`, `stderr`, `kmsg`) is these lines and no other |
//! | `STREAM has LINE`, `STREAM lacks LINE` | one line of it is this, none is |
//! | `STREAM empty` | |
//! | `unordered` | `=` lines and `unbinds` in any order |
//! | `json POINTER = VALUE` | what stands in the JSON on stdout there (RFC 6901); `json POINTER # N` is a length |
//! | `unbinds ADDRESS...` | what was written to the nvme driver's `unbind`, in this order |
//! | `pipe PATH = TEXT` | the same for another pipe |
//! | `writes PATH = TEXT` | TEXT was written over the start of this file |
//! | `touches PATH` | it was written to, and holds in the end what it held before |
//! | `makes PATH = TEXT` | a new file |
//! | `replaces PATH` | it was replaced by another text |
//!
//! What is written, made or taken away and does not stand there is a failure, and so is a `--json` that is none.
//! In LINE and TEXT `*` is any text, `\n`, `\t`, `\0`, `\\`, `\*` and `\xNN` are characters. `for I in A..B: LINE` stands
//! for many, with `{I}`, `{I+N}`, `{I:02x}` replaced in each.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};

use super::tree::{Node, Pipes, Tree, addresses, look, look_and_age};
use super::{controller, disk, folder, quell};

/// Runs a fixture; the error says what was expected and what came.
pub(crate) fn run(text: &str) -> Result<(), String> {
    let lines = expand(text)?;
    let mut tree = match lines.first() {
        Some((_, first)) if first == "bare" => Tree::default(),
        _ => Tree::machine(),
    };
    let dir = folder();
    let mut runs = 0;
    let mut at = 0;
    while at < lines.len() {
        while let Some((number, line)) = lines.get(at).filter(|(_, line)| !line.starts_with('$')) {
            edit(&mut tree, line).map_err(|why| format!("line {number}: {line}\n{why}"))?;
            at += 1;
        }
        let Some((number, command)) = lines.get(at) else {
            break;
        };
        at += 1;
        let mut wanted = Wanted::default();
        while let Some((number, line)) = lines.get(at) {
            match wanted.add(line) {
                Ok(true) => at += 1,
                Ok(false) => break,
                Err(why) => return Err(format!("line {number}: {line}\n{why}")),
            }
        }
        runs += 1;
        step(&mut tree, dir.path(), command, &wanted)
            .map_err(|why| format!("line {number}: {command}\n{why}"))?;
    }
    if runs == 0 {
        return Err("nothing is run".to_owned());
    }
    Ok(())
}

/// The machine that these lines make.
pub(crate) fn machine_of(text: &str) -> Result<Tree, String> {
    let mut tree = Tree::machine();
    for (number, line) in expand(text)? {
        edit(&mut tree, &line).map_err(|why| format!("line {number}: {line}\n{why}"))?;
    }
    Ok(tree)
}

/// The lines that say something, with their numbers, loops written out.
fn expand(text: &str) -> Result<Vec<(usize, String)>, String> {
    let mut lines = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let bad = || format!("line {number}: {line}\nno loop: for I in A..B: LINE");
        let Some(rest) = line.strip_prefix("for ") else {
            lines.push((number, line.to_owned()));
            continue;
        };
        let (name, rest) = rest.split_once(" in ").ok_or_else(bad)?;
        let (range, body) = rest.split_once(": ").ok_or_else(bad)?;
        let (from, to) = range.split_once("..").ok_or_else(bad)?;
        let (from, to): (u32, u32) = (
            from.parse().map_err(|_| bad())?,
            to.parse().map_err(|_| bad())?,
        );
        for value in from..to {
            lines.push((number, fill(body, name, value).ok_or_else(bad)?));
        }
    }
    Ok(lines)
}

/// Replaces `{name}`, `{name+N}`, `{name*N}`, each perhaps with `:02x`.
fn fill(body: &str, name: &str, value: u32) -> Option<String> {
    let mut done = String::new();
    let mut rest = body;
    while let Some(at) = rest.find(&format!("{{{name}")) {
        done += &rest[..at];
        let end = rest[at..].find('}')? + at;
        let inside = &rest[at + 1 + name.len()..end];
        let (sum, form) = inside.split_once(':').unwrap_or((inside, ""));
        let value = match sum.split_at_checked(1) {
            None | Some(("", _)) => value,
            Some(("+", n)) => value + n.parse::<u32>().ok()?,
            Some(("*", n)) => value * n.parse::<u32>().ok()?,
            _ => return None,
        };
        done += &match form {
            "" => value.to_string(),
            "02x" => format!("{value:02x}"),
            _ => return None,
        };
        rest = &rest[end + 1..];
    }
    Some(done + rest)
}

/// The bytes a text stands for, and whether each is a `*` that stands for any text.
fn unescape(text: &str) -> Result<Vec<(u8, bool)>, String> {
    let mut bytes = Vec::new();
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'\\' {
            bytes.push((byte, byte == b'*'));
            continue;
        }
        let plain = match rest.next() {
            Some(b'n') => b'\n',
            Some(b't') => b'\t',
            Some(b'0') => 0,
            Some(b'e') => 0x1b,
            Some(b'x') => {
                let digits: Vec<u8> = rest.by_ref().take(2).collect();
                let digits = String::from_utf8_lossy(&digits).into_owned();
                u8::from_str_radix(&digits, 16).map_err(|_| format!("\\x{digits}: no number"))?
            }
            Some(other @ (b'\\' | b'*' | b' ' | b'"')) => other,
            other => return Err(format!("\\{:?}: no such character", other.map(char::from))),
        };
        bytes.push((plain, false));
    }
    Ok(bytes)
}

fn bytes(text: &str) -> Result<Vec<u8>, String> {
    Ok(unescape(text)?.into_iter().map(|(byte, _)| byte).collect())
}

/// Words as a shell would cut them: blanks, but not in double quotes.
fn words(line: &str) -> Result<Vec<OsString>, String> {
    let mut words: Vec<Vec<u8>> = Vec::new();
    let (mut quoted, mut open) = (false, false);
    let mut escaped = false;
    let mut raw: Vec<String> = Vec::new();
    for c in line.chars() {
        match c {
            '"' if !escaped => {
                quoted = !quoted;
                if !open {
                    raw.push(String::new());
                    open = true;
                }
            }
            ' ' if !quoted && !escaped => open = false,
            c => {
                if !open {
                    raw.push(String::new());
                    open = true;
                }
                raw.last_mut().unwrap().push(c);
            }
        }
        escaped = c == '\\' && !escaped;
    }
    for word in raw {
        words.push(bytes(&word)?);
    }
    Ok(words.into_iter().map(OsString::from_vec).collect())
}

/// One line of the machine.
fn edit(tree: &mut Tree, line: &str) -> Result<(), String> {
    let plain: Vec<&str> = line.split_whitespace().collect();
    match plain.as_slice() {
        ["bare"] => return Ok(()),
        ["controller", name, place, rest @ ..] => {
            return controller::controller(tree, name, place, rest);
        }
        ["function", address, driver] => {
            return controller::function(tree, address, driver).map(drop);
        }
        ["disk", name, rest @ ..] => return disk::disk(tree, name, rest),
        ["md", name, rest @ ..] => return disk::md(tree, name, rest),
        ["mount", device, point, kind] => return controller::mount(tree, device, point, kind),
        ["holder", below, name] => return controller::holder(tree, below, name, None),
        ["holder", below, name, dm] => return controller::holder(tree, below, name, Some(dm)),
        ["process", pid, comm, files @ ..] => {
            controller::process(tree, pid, &bytes(comm)?, files);
            return Ok(());
        }
        ["program", path] => {
            tree.put(path, Node::Program);
            return Ok(());
        }
        ["pipe", path] => {
            tree.put(path, Node::Pipe);
            return Ok(());
        }
        ["no", path] => {
            tree.remove(path);
            return Ok(());
        }
        [path] if path.ends_with('/') => {
            tree.put(path, Node::Dir);
            return Ok(());
        }
        [path, "->", target] => {
            tree.put(path, Node::Link((*target).to_owned()));
            return Ok(());
        }
        _ => {}
    }
    let (path, rest) = line.split_once(' ').ok_or("not understood")?;
    let (how, text) = rest.split_once(' ').unwrap_or((rest, ""));
    let text = bytes(text.trim_start())?;
    match how {
        "=" if text.is_empty() => tree.file(path, ""),
        "=" => tree.file(path, [text, b"\n".to_vec()].concat()),
        ":=" => tree.file(path, text),
        "+=" => tree.append(path, &[text, b"\n".to_vec()].concat()),
        _ => return Err("not understood".to_owned()),
    }
    Ok(())
}

/// What is wanted of one stream.
#[derive(Default)]
struct Stream {
    whole: Vec<String>,
    has: Vec<String>,
    lacks: Vec<String>,
    empty: bool,
}

#[derive(Default)]
struct Wanted {
    exit: Option<i32>,
    streams: BTreeMap<&'static str, Stream>,
    unordered: bool,
    json: Vec<(String, String)>,
    lengths: Vec<(String, usize)>,
    pipes: BTreeMap<PathBuf, String>,
    unbinds: Vec<String>,
    writes: BTreeMap<PathBuf, String>,
    touches: Vec<PathBuf>,
    replaces: Vec<PathBuf>,
    makes: BTreeMap<PathBuf, String>,
}

impl Wanted {
    /// Takes a line; false if it is none of these.
    fn add(&mut self, line: &str) -> Result<bool, String> {
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
            "replaces" => self.replaces.push(rest.into()),
            "makes" => {
                let (path, text) = pair()?;
                self.makes.insert(path.into(), text.to_owned());
            }
            _ => return Ok(false),
        }
        Ok(true)
    }
}

/// Whether bytes are what a pattern says.
fn is(pattern: &str, text: &[u8]) -> bool {
    fn matches(pattern: &[(u8, bool)], text: &[u8]) -> bool {
        match pattern.split_first() {
            None => text.is_empty(),
            Some(((_, true), rest)) => (0..=text.len()).any(|at| matches(rest, &text[at..])),
            Some(((byte, false), rest)) => text.first() == Some(byte) && matches(rest, &text[1..]),
        }
    }
    unescape(pattern).is_ok_and(|pattern| matches(&pattern, text))
}

/// Records of the kernel's log: each write is one, without a newline.
fn records(text: &[u8]) -> Vec<Vec<u8>> {
    let mut starts: Vec<usize> = (0..text.len())
        .filter(|at| {
            let rest = &text[*at..];
            let digits = rest
                .iter()
                .skip(1)
                .take_while(|b| b.is_ascii_digit())
                .count();
            rest.first() == Some(&b'<') && digits > 0 && rest[1 + digits..].starts_with(b">quell: ")
        })
        .collect();
    if !text.is_empty() && starts.first() != Some(&0) {
        starts.insert(0, 0);
    }
    let ends = starts.iter().skip(1).copied().chain([text.len()]);
    starts
        .iter()
        .zip(ends)
        .map(|(from, to)| text[*from..to].to_vec())
        .collect()
}

fn lines_of(text: &[u8]) -> Vec<Vec<u8>> {
    let mut lines: Vec<Vec<u8>> = text.split(|b| *b == b'\n').map(<[u8]>::to_vec).collect();
    if lines.last().is_some_and(Vec::is_empty) {
        lines.pop();
    }
    lines
}

/// Runs one command and compares.
fn step(tree: &mut Tree, dir: &Path, command: &str, wanted: &Wanted) -> Result<(), String> {
    tree.unpack(dir);
    let before = look_and_age(dir);
    let mut pipes = Pipes::open(dir, &before);
    let args = words(command.trim_start_matches('$'))?;
    let is_json = args.iter().any(|arg| arg == "--json");
    let ran = quell(dir, args);
    let after = look(dir);
    let mut faults = Vec::new();

    // Streams.
    let log = |all: &BTreeMap<PathBuf, super::tree::Seen>| match all.get(Path::new("dev/kmsg")) {
        Some(super::tree::Seen {
            node: Node::File(bytes),
            ..
        }) => bytes.clone(),
        _ => Vec::new(),
    };
    let logged = log(&after).split_off(log(&before).len());
    let streams = BTreeMap::from([
        ("stdout", lines_of(&ran.stdout)),
        ("stderr", lines_of(&ran.stderr)),
        ("kmsg", records(&logged)),
    ]);
    for (name, stream) in &wanted.streams {
        compare(name, stream, &streams[name], wanted.unordered, &mut faults);
    }
    for (name, lines) in &streams {
        // One JSON object is one line, however long.
        let most = if *name == "stdout" { usize::MAX } else { 1024 };
        if let Some(line) = lines.iter().find(|line| {
            String::from_utf8_lossy(line).chars().any(char::is_control) || line.len() > most
        }) {
            faults.push(format!(
                "{name}: no line for a console: {}",
                line.escape_ascii()
            ));
        }
    }

    match wanted.exit {
        None => faults.push("there is no `exit N` for this run".to_owned()),
        Some(exit) if exit != ran.exit => {
            faults.push(format!("exit: {}, and not {exit}", ran.exit));
        }
        Some(_) => {}
    }
    // A command line that was not understood has no answer.
    if is_json && !(ran.exit == 2 && ran.stdout.is_empty()) {
        json(&ran.stdout, wanted, &mut faults);
    }
    effects(&before, &after, wanted, &mut faults);
    written(&mut pipes, wanted, &mut faults);

    // What is kept in /run is there for the next run.
    for (path, seen) in after.range(PathBuf::from("run")..) {
        if path.starts_with("run") && !before.contains_key(path) {
            tree.put(path.to_str().unwrap(), seen.node.clone());
        }
    }
    if faults.is_empty() {
        return Ok(());
    }
    for (name, lines) in &streams {
        for line in lines {
            faults.push(format!("    {name}: {}", String::from_utf8_lossy(line)));
        }
    }
    Err(faults.join("\n"))
}

fn compare(
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

fn json(stdout: &[u8], wanted: &Wanted, faults: &mut Vec<String>) {
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
fn effects(
    before: &BTreeMap<PathBuf, super::tree::Seen>,
    after: &BTreeMap<PathBuf, super::tree::Seen>,
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
        } else if replaces.contains(path) && was != now {
            replaces.retain(|replaced| replaced != path);
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
            (node, _) => faults.push(format!("{} was made: {node:?}", path.display())),
        }
    }
    for path in writes
        .keys()
        .chain(&touches)
        .chain(&replaces)
        .chain(makes.keys())
    {
        faults.push(format!("{} was not written to", path.display()));
    }
}

fn written(pipes: &mut Pipes, wanted: &Wanted, faults: &mut Vec<String>) {
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
