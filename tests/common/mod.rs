//! What the tests that run quell share: the one way to start it, little roots to start it on, and a list of tests.

// Each test binary takes what it needs.
#![allow(dead_code)]
// Not all of this stands in functions that are marked as tests.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

pub(crate) mod case;
mod controller;
mod disk;
#[allow(unreachable_pub)]
#[path = "../imsm/sample.rs"]
pub(crate) mod sample;
mod text;
pub(crate) mod tree;
pub(crate) mod trials;
mod wanted;

use std::ffi::OsStr;
use std::fs::{self, File};
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// What came of a run.
pub(crate) struct Ran {
    pub(crate) exit: i32,
    pub(crate) stdout: Vec<u8>,
    pub(crate) stderr: Vec<u8>,
    pub(crate) took: Duration,
}

/// No run may take longer: it would hang.
const PATIENCE: Duration = Duration::from_secs(60);

/// Runs quell with `args` on the folder `root`: the one place in all tests that starts it (B44).
///
/// A folder that is not one that [`folder`] made, or in one, is refused, so quell never sees the machine's own /sys.
pub(crate) fn quell<S: AsRef<OsStr>>(root: &Path, args: impl IntoIterator<Item = S>) -> Ran {
    let root = harmless(root);
    let out = folder();
    let [stdout, stderr] = ["stdout", "stderr"].map(|name| out.path().join(name));
    let start = Instant::now();
    let mut child = Command::new(env!("CARGO_BIN_EXE_quell"))
        // A name that no folder this is built in can turn into a hook's, which would take no --root.
        .arg0("quell")
        .arg("--root")
        .arg(&root)
        .args(args)
        .env_clear()
        .stdin(Stdio::null())
        .stdout(File::create(&stdout).unwrap())
        .stderr(File::create(&stderr).unwrap())
        .spawn()
        .unwrap();
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        if start.elapsed() > PATIENCE {
            // Only this very process; its workers go when it has gone.
            child.kill().unwrap();
            child.wait().unwrap();
            panic!("quell had not ended after {} s", PATIENCE.as_secs());
        }
        std::thread::sleep(Duration::from_millis(2));
    };
    let took = start.elapsed();
    Ran {
        exit: status.code().unwrap_or_else(|| {
            panic!("quell was ended by signal {:?}", status.signal());
        }),
        stdout: fs::read(stdout).unwrap(),
        stderr: fs::read(stderr).unwrap(),
        took,
    }
}

/// A new folder, in memory where there is such a place: quell flushes every namespace it claims, and a disk takes its time.
pub(crate) fn folder() -> tempfile::TempDir {
    tempfile::tempdir_in(scratch()).unwrap()
}

/// Where folders are made: /dev/shm where that is a file system of its own, else where everybody makes them.
fn scratch() -> PathBuf {
    let shm = Path::new("/dev/shm");
    let number = |path: &str| fs::metadata(path).map(|meta| meta.dev()).ok();
    let own = number("/dev/shm").is_some_and(|shm| Some(shm) != number("/dev"));
    if own && tempfile::tempdir_in(shm).is_ok() {
        return shm.to_owned();
    }
    fs::canonicalize(std::env::temp_dir()).unwrap()
}

/// The folder, resolved, or a panic where quell could reach the machine through it. One that is not there is harmless too.
pub(crate) fn harmless(root: &Path) -> PathBuf {
    let scratch = scratch();
    let (real, rest) = match fs::canonicalize(root) {
        Ok(real) => (real, None),
        Err(_) => {
            let parent = fs::canonicalize(root.parent().unwrap()).unwrap();
            (parent, Some(root.file_name().unwrap()))
        }
    };
    assert!(
        scratch != Path::new("/") && real.starts_with(&scratch) && real != scratch,
        "quell is not run on {}",
        root.display()
    );
    // Nor on one with something mounted in it.
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
    let inside = mounts.lines().find(|line| {
        line.split(' ')
            .nth(4)
            .is_none_or(|point| Path::new(point).starts_with(&real))
    });
    assert!(inside.is_none(), "something is mounted there: {inside:?}");
    match rest {
        Some(name) => real.join(name),
        None => real,
    }
}
