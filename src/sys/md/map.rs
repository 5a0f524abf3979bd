//! /run/mdadm/map, by which mdadm's tools know arrays by UUID and name, and the lock under which it is changed.
//!
//! A line an array: `md126 /md127/0 f2f6dfc9:1c9e3e0f:0b2d7b1c:6f0f3c11 /dev/md/sys`. Its readers take no lock: it is always
//! replaced whole. The lock also keeps mdadm from making arrays meanwhile.
//!
//! Source: mdadm's `mapfile.c`.

use rustix::event::poll;
use rustix::fd::OwnedFd;
use rustix::fs::{AtFlags, FlockOperation, Mode, OFlags, flock, fstat, openat, renameat, unlinkat};
use rustix::io::Errno;

use super::{Name, links};
use crate::deadline::Deadline;
use crate::sys::Root;
use crate::sys::program::timespec;
use crate::text::Text;

const DIR: &str = "/run/mdadm";
const MAP: &str = "/run/mdadm/map";
const LOCK_NAME: &str = "map.lock";
const NEW_NAME: &str = "map.new";
/// Between two tries to get the lock.
const PAUSE_MS: u64 = 10;

/// One array as the map has it.
#[derive(Clone, Debug)]
pub struct Entry {
    /// The kernel's name of it.
    pub name: Name,
    /// `imsm` for a container, `/md127/0` for a volume, `1.2`.
    pub metadata: Text<40>,
    /// Four numbers in hexadecimal with colons between.
    pub uuid: Text<40>,
    /// The link by which people find it.
    pub path: links::Link,
}

impl Entry {
    /// What mdadm could not read is no entry.
    fn parse(line: &[u8]) -> Option<Self> {
        let line = core::str::from_utf8(line).ok()?;
        let mut words = line.split_ascii_whitespace();
        Some(Self {
            name: text(words.next())?,
            metadata: text(words.next())?,
            uuid: text(words.next()).filter(|uuid| uuid.as_str().split(':').count() == 4)?,
            path: text(words.next())?,
        })
    }
}

fn text<const N: usize>(word: Option<&str>) -> Option<Text<N>> {
    word.map(|word| Text::of(format_args!("{word}")))
}

/// Calls `each` with every array in the map. No map: none.
pub fn read(root: &Root, each: &mut dyn FnMut(Entry)) -> Result<(), Errno> {
    lines(root, &mut |_, entry| each(entry))
}

fn lines(root: &Root, each: &mut dyn FnMut(&[u8], Entry)) -> Result<(), Errno> {
    let read = root.lines::<512>(MAP, |line| {
        if let Some(entry) = Entry::parse(line) {
            each(line, entry);
        }
    });
    match read {
        Err(Errno::NOENT) => Ok(()),
        other => other,
    }
}

/// As long as this lives, nobody else changes the map.
#[derive(Debug)]
pub struct Lock {
    dir: OwnedFd,
    file: OwnedFd,
}

/// Takes the lock as mdadm does. ETIMEDOUT: somebody else has it.
pub fn lock(root: &Root, deadline: Deadline) -> Result<Lock, Errno> {
    links::make_dir(root, DIR)?;
    let dir = root.open(DIR, OFlags::PATH | OFlags::DIRECTORY)?;
    loop {
        let file = open(&dir, LOCK_NAME, OFlags::RDWR)?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            // Whoever had it took the file away: what was got is the lock of nothing.
            Ok(()) if fstat(&file)?.st_nlink == 0 => continue,
            Ok(()) => return Ok(Lock { dir, file }),
            Err(Errno::WOULDBLOCK | Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
        if deadline.is_over() {
            return Err(Errno::TIMEDOUT);
        }
        let _ = poll(&mut [], Some(&timespec(PAUSE_MS)));
    }
}

fn open(dir: &OwnedFd, name: &str, flags: OFlags) -> Result<OwnedFd, Errno> {
    let flags = flags | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    openat(dir, name, flags, Mode::from_raw_mode(0o600))
}

impl Drop for Lock {
    fn drop(&mut self) {
        // In this order: only who has the lock may take the file away. A forked process may have it open too, so that
        // closing it would not be enough.
        let _ = unlinkat(&self.dir, LOCK_NAME, AtFlags::empty());
        let _ = flock(&self.file, FlockOperation::Unlock);
    }
}

impl Lock {
    /// Replaces the map by those of its entries that are to be kept, and `add`.
    pub fn replace(
        &self,
        root: &Root,
        keep: &mut dyn FnMut(&Entry) -> bool,
        add: &[Entry],
    ) -> Result<(), Errno> {
        let result = self.write(root, keep, add);
        match result {
            Ok(()) => renameat(&self.dir, NEW_NAME, &self.dir, "map"),
            Err(_) => {
                let _ = unlinkat(&self.dir, NEW_NAME, AtFlags::empty());
                result
            }
        }
    }

    fn write(
        &self,
        root: &Root,
        keep: &mut dyn FnMut(&Entry) -> bool,
        add: &[Entry],
    ) -> Result<(), Errno> {
        let file = open(&self.dir, NEW_NAME, OFlags::WRONLY | OFlags::TRUNC)?;
        let mut result = Ok(());
        lines(root, &mut |line, entry| {
            if result.is_ok() && keep(&entry) {
                result = put(&file, line).and_then(|()| put(&file, b"\n"));
            }
        })?;
        result?;
        for entry in add {
            let Entry {
                name,
                metadata,
                uuid,
                path,
            } = entry;
            let line: Text<400> = Text::of(format_args!("{name} {metadata} {uuid} {path}\n"));
            put(&file, line.as_str().as_bytes())?;
        }
        Ok(())
    }
}

/// Onto a tmpfs: whole, or there is no room.
fn put(file: &OwnedFd, bytes: &[u8]) -> Result<(), Errno> {
    match rustix::io::retry_on_intr(|| rustix::io::write(file, bytes))? {
        n if n == bytes.len() => Ok(()),
        _ => Err(Errno::NOSPC),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use tempfile::TempDir;

    fn fixture() -> (TempDir, Root) {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("run")).unwrap();
        let root = Root::below(dir.path().as_os_str()).unwrap();
        (dir, root)
    }

    fn soon() -> Deadline {
        Deadline::in_seconds(60).within_ms(50)
    }

    fn entry(name: &str, path: &str) -> Entry {
        Entry {
            name: Text::of(format_args!("{name}")),
            metadata: Text::of(format_args!("imsm")),
            uuid: Text::of(format_args!("1:2:3:4")),
            path: Text::of(format_args!("{path}")),
        }
    }

    #[test]
    fn one_at_a_time_has_the_lock() {
        let (dir, root) = fixture();
        let at = dir.path().join("run/mdadm/map.lock");
        let first = lock(&root, soon()).unwrap();
        assert!(at.exists());
        assert_eq!(lock(&root, soon()).err(), Some(Errno::TIMEDOUT));
        // A process that was forked meanwhile keeps it no longer than its maker does.
        let inherited = first.file.try_clone().unwrap();
        drop(first);
        assert!(!at.exists());
        let second = lock(&root, soon()).unwrap();
        drop((second, inherited));
        assert!(!at.exists());
    }

    #[test]
    fn who_waited_for_the_lock_gets_one_that_holds() {
        let (dir, root) = fixture();
        let first = lock(&root, soon()).unwrap();
        let (got, at) = (std::sync::Mutex::new(0), dir.path());
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    let root = Root::below(at.as_os_str()).unwrap();
                    let _lock = lock(&root, Deadline::in_seconds(60)).unwrap();
                    let mut got = got.try_lock().unwrap();
                    std::thread::sleep(core::time::Duration::from_millis(3));
                    *got += 1;
                });
            }
            std::thread::sleep(core::time::Duration::from_millis(30));
            drop(first);
        });
        assert_eq!(got.into_inner().unwrap(), 4);
    }

    #[test]
    fn the_map_is_replaced_whole() {
        let (dir, root) = fixture();
        let at = dir.path().join("run/mdadm/map");
        read(&root, &mut |_| panic!("there is no map")).unwrap();
        let lock = lock(&root, soon()).unwrap();
        lock.replace(&root, &mut |_| true, &[entry("md127", "/dev/md/imsm0")])
            .unwrap();
        let old = std::fs::read_to_string(&at).unwrap();
        assert_eq!(old, "md127 imsm 1:2:3:4 /dev/md/imsm0\n");
        let others = "md5  1.2 a:b:c:d /dev/md/with-some-name\nmd6 0.90 1:2:3 /dev/md6\nmd7 0.90 1:2:3:4\nx\n";
        std::fs::write(&at, format!("{old}{others}")).unwrap();
        lock.replace(
            &root,
            &mut |entry| entry.name.as_str() != "md127",
            &[entry("md126", "/dev/md/a"), entry("md125", "/dev/md/b")],
        )
        .unwrap();
        assert_eq!(
            std::fs::read_to_string(&at).unwrap(),
            "md5  1.2 a:b:c:d /dev/md/with-some-name\nmd126 imsm 1:2:3:4 /dev/md/a\nmd125 imsm 1:2:3:4 /dev/md/b\n"
        );
        let mut seen = Vec::new();
        read(&root, &mut |entry| seen.push(entry.path.to_string())).unwrap();
        assert_eq!(seen, ["/dev/md/with-some-name", "/dev/md/a", "/dev/md/b"]);
        assert!(!dir.path().join("run/mdadm/map.new").exists());
    }
}
