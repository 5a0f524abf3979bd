//! A folder in which a script finds all that it names: its paths are changed to lie there, and what it calls are stubs that
//! write down how they were called.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::{Mutex, PoisonError};

/// The interpreters that `#!/bin/sh` may stand for in an initramfs.
pub(crate) const SHELLS: [&str; 2] = ["/bin/dash", "/usr/bin/busybox sh"];

/// The beginnings of paths that lie in the sandbox. `/dev/null` is nobody's.
const MOVED: [&str; 10] = [
    "/usr/lib/quell/",
    "/usr/share/initramfs-tools/",
    "/run/quell",
    "/run/udev/",
    "/etc/udev/",
    "/etc/mdadm/mdadm.conf",
    "/sys/",
    "/dev/kmsg",
    "/dev/$",
    "/sbin/",
];

/// A program cannot be started while it is open for writing, and a child of another test's has all files open until it is
/// another program: so nobody writes one meanwhile.
static FORKS: Mutex<()> = Mutex::new(());

/// One of them.
pub(crate) struct Sandbox {
    dir: tempfile::TempDir,
    shell: &'static str,
}

/// Does the same under each shell.
pub(crate) fn under_each_shell(test: impl Fn(&Sandbox)) {
    for shell in SHELLS {
        let program = shell.split(' ').next().unwrap();
        assert!(Path::new(program).exists(), "{program} is missing");
        let sandbox = Sandbox {
            dir: tempfile::tempdir().unwrap(),
            shell,
        };
        sandbox.write("log", "");
        sandbox.write("dev/kmsg", "");
        // Nothing but the stubs, and what the smallest images have.
        sandbox.write("bin/", "");
        for tool in ["cat", "mkdir", "mv", "rm", "sleep"] {
            std::os::unix::fs::symlink(format!("/bin/{tool}"), sandbox.at("bin").join(tool))
                .unwrap();
        }
        println!("under {shell}:");
        test(&sandbox);
    }
}

impl Sandbox {
    /// The place of a path.
    pub(crate) fn at(&self, path: &str) -> PathBuf {
        self.dir.path().join(path)
    }

    /// Writes a file; a path that ends in `/` is a folder.
    pub(crate) fn write(&self, path: &str, text: &str) {
        let at = self.at(path);
        assert!(!at.is_symlink(), "{path} is the machine's own");
        if path.ends_with('/') {
            fs::create_dir_all(at).unwrap();
        } else {
            fs::create_dir_all(at.parent().unwrap()).unwrap();
            let _alone = FORKS.lock().unwrap_or_else(PoisonError::into_inner);
            fs::write(at, text).unwrap();
        }
    }

    pub(crate) fn remove(&self, path: &str) {
        fs::remove_file(self.at(path)).unwrap();
    }

    pub(crate) fn exists(&self, path: &str) -> bool {
        self.at(path).exists()
    }

    pub(crate) fn read(&self, path: &str) -> String {
        let text = fs::read_to_string(self.at(path)).unwrap();
        text.replace(&self.dir.path().display().to_string(), "")
    }

    /// Puts a script of the project there. What it calls is never what may be installed here.
    pub(crate) fn script(&self, from: &str, to: &str) {
        let at = Path::new(env!("CARGO_MANIFEST_DIR")).join(from);
        let text = fs::read_to_string(&at).unwrap_or_else(|error| panic!("{from}: {error}"));
        let text = self.moved(&text);
        let dir = self.dir.path().display();
        assert!(
            !text
                .replace(&format!("{dir}/usr/lib/quell"), "")
                .contains("/usr/lib/quell"),
            "{from}: quell itself"
        );
        self.write(to, &text);
        self.executable(to);
    }

    /// Puts other words into a script that is there.
    pub(crate) fn change(&self, path: &str, from: &str, to: &str) {
        let text = fs::read_to_string(self.at(path)).unwrap();
        assert!(text.contains(from), "{path} has no {from}");
        self.write(path, &text.replace(from, to));
    }

    /// A program that writes down its name and arguments, and then does this. `$S` is the sandbox.
    pub(crate) fn stub(&self, path: &str, body: &str) {
        let dir = self.dir.path().display();
        let name = path.rsplit('/').next().unwrap();
        let text = format!("#!/bin/sh\nS={dir}\necho \"{name} $*\" >> $S/log\n{body}\n");
        self.write(path, &text);
        self.executable(path);
    }

    /// quell, called once for each of these; then it says 0.
    pub(crate) fn quell(&self, exits: &[&str]) {
        let mut cases = String::new();
        for (at, exit) in exits.iter().enumerate() {
            cases += &format!("{}) {exit};;\n", at + 1);
        }
        let body = format!("case $(/usr/bin/grep -c '^quell ' $S/log) in\n{cases}esac");
        self.stub("usr/lib/quell/quell", &body);
    }

    fn executable(&self, path: &str) {
        fs::set_permissions(self.at(path), fs::Permissions::from_mode(0o755)).unwrap();
    }

    /// Every path that begins in this way and stands for itself: `$DESTDIR/etc/...` is another.
    fn moved(&self, text: &str) -> String {
        let dir = self.dir.path().display().to_string();
        let mut left = text.replacen("#!/bin/sh", &format!("#!{}", self.shell), 1);
        let mut moved = String::new();
        while let Some(at) = MOVED.iter().filter_map(|path| left.find(path)).min() {
            let rest = left.split_off(at);
            moved += &left;
            if !moved.ends_with(|c: char| c.is_alphanumeric()) {
                moved += &dir;
            }
            moved.push('/');
            left = rest[1..].to_owned();
        }
        moved + &left
    }

    /// A program of the sandbox. It has the stubs, and dracut's own variables.
    pub(crate) fn command(&self, path: &str) -> Command {
        let mut command = Command::new(self.at(path));
        command
            .env_clear()
            .env("PATH", self.at("bin"))
            .env("S", self.dir.path())
            .env("hookdir", self.at("hooks"));
        command
    }

    /// Runs it and gives its exit status.
    pub(crate) fn run(&self, path: &str, args: &[&str]) -> i32 {
        let out = output(self.command(path).args(args));
        print!("{}", String::from_utf8_lossy(&out.stderr));
        out.status.code().expect("a script is not killed")
    }

    /// Has the shell read this, which may source scripts.
    pub(crate) fn shell(&self, text: &str) -> i32 {
        self.write("text", &self.moved(&format!("#!/bin/sh\n{text}")));
        self.executable("text");
        self.run("text", &[])
    }

    /// Has bash, with all of the machine's programs behind the stubs, read this: dracut's own language.
    pub(crate) fn bash(&self, text: &str) -> i32 {
        let path = "PATH=$PATH:/usr/bin:/bin";
        self.write("text", &self.moved(&format!("#!/bin/bash\n{path}\n{text}")));
        self.executable("text");
        self.run("text", &[])
    }

    /// How the stubs were called since the last time it was asked.
    pub(crate) fn calls(&self) -> Vec<String> {
        let calls = self.read("log").lines().map(str::to_owned).collect();
        self.write("log", "");
        calls
    }

    /// Those of one of them.
    pub(crate) fn calls_of(&self, name: &str) -> Vec<String> {
        let mut calls = self.calls();
        calls.retain(|call| call.split(' ').next() == Some(name));
        calls
    }
}

/// Runs it to its end.
pub(crate) fn output(command: &mut Command) -> Output {
    let command = command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let alone = FORKS.lock().unwrap_or_else(PoisonError::into_inner);
    let child = command.spawn().unwrap();
    drop(alone);
    child.wait_with_output().unwrap()
}
