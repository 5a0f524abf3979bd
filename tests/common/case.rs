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
//! | `program PATH [TEXT]` | a file that may be executed, with a line of text in it |
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
//! | `replaces PATH`, `replaces PATH = TEXT` | it was replaced by another text, which is TEXT |
//!
//! What is written, made or taken away and does not stand there is a failure (but for locks: folders and empty files in
//! /run), and so is a `--json` that is none.
//! In LINE and TEXT `*` is any text, `\n`, `\t`, `\0`, `\\`, `\*` and `\xNN` are characters. `for I in A..B: LINE` stands
//! for many, with `{I}`, `{I+N}`, `{I:02x}` replaced in each.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::text::{bytes, lines_of, records, words};
use super::tree::{Node, Pipes, Seen, Tree, look, look_and_age};
use super::wanted::{Wanted, compare, effects, json, written};
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
        ["program", path, text @ ..] => {
            tree.put(path, Node::Program(text.join(" ")));
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
    let log = |all: &BTreeMap<PathBuf, Seen>| match all.get(Path::new("dev/kmsg")) {
        Some(Seen {
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
        if path.starts_with("run") && before.get(path).map(|old| &old.node) != Some(&seen.node) {
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
