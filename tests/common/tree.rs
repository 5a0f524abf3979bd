//! A little /sys, /proc, /dev, /run and /etc: made in memory, unpacked into a folder, and compared with what a run has
//! made of it.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Read as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// What stands at a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Node {
    Dir,
    File(Vec<u8>),
    /// One that may be executed.
    Program(String),
    Link(String),
    /// A driver's `unbind`: everything that is written to it is kept, in order, where a file would keep the last alone.
    Pipe,
}

/// The tree: paths without a slash in front. Folders above a path come with it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tree {
    nodes: BTreeMap<String, Node>,
    /// Device numbers given so far.
    pub(crate) minors: u32,
    /// Mount ids given so far.
    pub(crate) mounts: u32,
}

impl Tree {
    /// What every machine has, and nothing of NVMe's.
    pub(crate) fn machine() -> Self {
        let mut tree = Self::default();
        for dir in [
            "sys/class",
            "sys/block",
            "sys/bus/pci/devices",
            "sys/dev/block",
            "run",
            "etc",
        ] {
            tree.put(dir, Node::Dir);
        }
        for (path, text) in [
            (
                "proc/cmdline",
                "BOOT_IMAGE=/vmlinuz root=/dev/vda1 ro quiet\n",
            ),
            ("proc/1/cmdline", "/sbin/init\0"),
            ("proc/1/environ", "HOME=/\0TERM=linux\0"),
            ("proc/1/comm", "systemd\n"),
            ("proc/self/uid_map", "         0          0 4294967295\n"),
            (
                "proc/self/mountinfo",
                "22 1 254:1 / / rw,relatime shared:1 - ext4 /dev/vda1 rw\n",
            ),
            (
                "proc/swaps",
                "Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n",
            ),
            (
                "proc/sys/kernel/random/boot_id",
                "5f0c3a64-7c3f-4f5e-9a51-0d7c0a6d8a11\n",
            ),
            ("dev/kmsg", ""),
        ] {
            tree.put(path, Node::File(text.into()));
        }
        tree.put(
            "proc/self/ns/mnt",
            Node::Link("mnt:[4026531841]".to_owned()),
        );
        tree.put("proc/1/ns/mnt", Node::Link("mnt:[4026531841]".to_owned()));
        tree.put("proc/1/fd", Node::Dir);
        tree
    }

    /// Puts a node at a path whose links are followed, but for the last component's.
    pub(crate) fn put(&mut self, path: &str, node: Node) {
        let path = self.resolve(path.trim_end_matches('/'));
        let mut end = 0;
        while let Some(at) = path[end..].find('/') {
            end += at;
            self.nodes
                .entry(path[..end].to_owned())
                .or_insert(Node::Dir);
            end += 1;
        }
        self.nodes.insert(path, node);
    }

    /// Puts a file.
    pub(crate) fn file(&mut self, path: &str, text: impl Into<Vec<u8>>) {
        self.put(path, Node::File(text.into()));
    }

    /// Puts a link from one path to another, written as the kernel writes them: relative.
    pub(crate) fn link(&mut self, path: &str, to: &str) {
        let up = path.matches('/').count();
        let shared = path
            .split('/')
            .zip(to.split('/'))
            .take(up)
            .take_while(|(a, b)| a == b)
            .count();
        let rest = to.split('/').skip(shared).collect::<Vec<_>>().join("/");
        self.put(
            path,
            Node::Link(format!("{}{rest}", "../".repeat(up - shared))),
        );
    }

    /// Appends to a file.
    pub(crate) fn append(&mut self, path: &str, text: &[u8]) {
        let path = self.resolve(path);
        match self
            .nodes
            .entry(path.clone())
            .or_insert(Node::File(Vec::new()))
        {
            Node::File(bytes) => bytes.extend_from_slice(text),
            other => panic!("{path} is no file but {other:?}"),
        }
    }

    /// Takes a path away, with all that is below it.
    pub(crate) fn remove(&mut self, path: &str) {
        let path = self.resolve(path.trim_end_matches('/'));
        let before = self.nodes.len();
        let below = format!("{path}/");
        self.nodes
            .retain(|p, _| *p != path && !p.starts_with(&below));
        assert!(
            self.nodes.len() < before,
            "there is no {path} to be taken away"
        );
    }

    pub(crate) fn has(&self, path: &str) -> bool {
        self.nodes.contains_key(&self.resolve(path))
    }

    /// The text of a file, without white space at its end.
    pub(crate) fn text(&self, path: &str) -> Option<String> {
        match self.nodes.get(&self.resolve(path))? {
            Node::File(bytes) => Some(String::from_utf8_lossy(bytes).trim_end().to_owned()),
            _ => None,
        }
    }

    /// The path with every link on the way replaced by what it leads to.
    fn resolve(&self, path: &str) -> String {
        let mut done: Vec<String> = Vec::new();
        let mut todo: Vec<String> = path.rsplit('/').map(str::to_owned).collect();
        let mut links = 0;
        while let Some(part) = todo.pop() {
            match part.as_str() {
                "" | "." => {}
                ".." => drop(done.pop()),
                _ => {
                    done.push(part);
                    if todo.is_empty() {
                        break;
                    }
                    if let Some(Node::Link(to)) = self.nodes.get(&done.join("/")) {
                        links += 1;
                        assert!(links < 40, "{path}: links in a circle");
                        if to.starts_with('/') {
                            done.clear();
                        } else {
                            done.pop();
                        }
                        todo.extend(to.rsplit('/').map(str::to_owned));
                    }
                }
            }
        }
        done.join("/")
    }

    /// Makes the folder hold this tree and nothing else. What is as it should be is left alone.
    pub(crate) fn unpack(&self, dir: &Path) {
        let there = if self.nodes.len() < 50_000 {
            look(dir)
        } else {
            // A large one is only ever unpacked into an empty folder.
            BTreeMap::new()
        };
        for (path, _) in there.iter().rev() {
            let text = path.to_str().unwrap_or("");
            if !self.nodes.contains_key(text) {
                take_away(&dir.join(path));
            }
        }
        let same = |path: &str, node: &Node| match (there.get(Path::new(path)), node) {
            (Some(Seen { node: seen, .. }), Node::Program(text)) => {
                *seen == Node::File(program(text).into_bytes())
            }
            (Some(Seen { node: seen, .. }), node) => seen == node,
            (None, _) => false,
        };
        for (path, node) in &self.nodes {
            if same(path, node) {
                continue;
            }
            let at = dir.join(path);
            if there.contains_key(Path::new(path)) {
                take_away(&at);
            }
            match node {
                Node::Dir => fs::create_dir(&at),
                Node::File(bytes) => fs::write(&at, bytes),
                Node::Program(text) => fs::write(&at, program(text))
                    .and_then(|()| fs::set_permissions(&at, fs::Permissions::from_mode(0o755))),
                Node::Link(to) => symlink(OsStr::from_bytes(to.as_bytes()), &at),
                Node::Pipe => {
                    let mode = rustix::fs::Mode::from_raw_mode(0o600);
                    rustix::fs::mknodat(rustix::fs::CWD, &at, rustix::fs::FileType::Fifo, mode, 0)
                        .map_err(Into::into)
                }
            }
            .unwrap_or_else(|error| panic!("{path}: {error}"));
        }
    }
}

fn program(text: &str) -> String {
    format!("#!\n{text}")
}

/// Takes away a file, or a folder with nothing in it.
fn take_away(at: &Path) {
    if fs::symlink_metadata(at).unwrap().is_dir() {
        fs::remove_dir(at).unwrap();
    } else {
        fs::remove_file(at).unwrap();
    }
}

/// A node as it was found in a folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) node: Node,
    /// When it was last written to.
    pub(crate) written: Duration,
}

/// All that is in a folder. Everything in it is made old first, so that whatever is written later is seen even where it
/// is the same text.
pub(crate) fn look_and_age(dir: &Path) -> BTreeMap<PathBuf, Seen> {
    let mut all = look(dir);
    for (path, seen) in &mut all {
        if let Node::File(_) = seen.node {
            let old = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
            let file = OpenOptions::new()
                .append(true)
                .open(dir.join(path))
                .unwrap();
            file.set_modified(old).unwrap();
            seen.written = Duration::from_secs(1_000_000_000);
        }
    }
    all
}

/// All that is in a folder, links not followed and pipes not read.
pub(crate) fn look(dir: &Path) -> BTreeMap<PathBuf, Seen> {
    let mut all = BTreeMap::new();
    let mut todo = vec![PathBuf::new()];
    while let Some(below) = todo.pop() {
        for entry in fs::read_dir(dir.join(&below)).unwrap() {
            let name = entry.unwrap().file_name();
            let path = below.join(name);
            let at = dir.join(&path);
            let meta = fs::symlink_metadata(&at).unwrap();
            let node = if meta.is_dir() {
                todo.push(path.clone());
                Node::Dir
            } else if meta.is_symlink() {
                let to = fs::read_link(&at).unwrap();
                Node::Link(to.to_string_lossy().into_owned())
            } else if meta.is_file() {
                Node::File(fs::read(&at).unwrap())
            } else {
                Node::Pipe
            };
            let written = Duration::new(
                u64::try_from(meta.mtime()).unwrap(),
                u32::try_from(meta.mtime_nsec()).unwrap(),
            );
            all.insert(path, Seen { node, written });
        }
    }
    all
}

/// The reader's end of every pipe of a folder: as long as it is there, writing does not wait.
pub(crate) struct Pipes(BTreeMap<PathBuf, File>);

impl Pipes {
    pub(crate) fn open(dir: &Path, seen: &BTreeMap<PathBuf, Seen>) -> Self {
        let pipes = seen.iter().filter(|(_, seen)| seen.node == Node::Pipe);
        Self(
            pipes
                .map(|(path, _)| (path.clone(), Self::one(&dir.join(path))))
                .collect(),
        )
    }

    pub(crate) fn one(path: &Path) -> File {
        let flags = i32::try_from(rustix::fs::OFlags::NONBLOCK.bits()).unwrap();
        OpenOptions::new()
            .read(true)
            .write(true)
            .custom_flags(flags)
            .open(path)
            .unwrap()
    }

    /// What has been written to each that anything was written to.
    pub(crate) fn written(&mut self) -> BTreeMap<PathBuf, Vec<u8>> {
        let mut all = BTreeMap::new();
        for (path, file) in &mut self.0 {
            let text = drain(file);
            if !text.is_empty() {
                all.insert(path.clone(), text);
            }
        }
        all
    }
}

/// Reads what is in a pipe.
pub(crate) fn drain(file: &mut File) -> Vec<u8> {
    let mut text = Vec::new();
    match file.read_to_end(&mut text) {
        Ok(_) => {}
        Err(error) if error.kind() == ErrorKind::WouldBlock => {}
        Err(error) => panic!("{error}"),
    }
    text
}

/// PCI addresses that were written one after the other, without anything between.
pub(crate) fn addresses(written: &[u8]) -> Vec<String> {
    let text = String::from_utf8_lossy(written);
    let mut found = Vec::new();
    let mut rest = text.as_ref();
    while let Some(dot) = rest.find('.') {
        let (one, after) = rest.split_at((dot + 2).min(rest.len()));
        found.push(one.to_owned());
        rest = after;
    }
    if !rest.is_empty() {
        found.push(rest.to_owned());
    }
    found
}
