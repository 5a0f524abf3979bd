//! Where quell runs and what it is called for: found, not guessed.

use log::warn;
use rustix::io::Errno;

use crate::deadline::Deadline;
use crate::options::{Foreign, Options, Stage};
use crate::path;
use crate::sys::Root;
use crate::sys::proc::{CommandLine, boot_id};
use crate::text::{Printable, Text};

/// What a shutdown is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    /// The machine starts again.
    Reboot,
    /// It is turned off.
    Poweroff,
    /// It stops.
    Halt,
    /// Another kernel is entered.
    Kexec,
    /// Only user space starts again: the devices live on.
    SoftReboot,
    /// A container's manager ends.
    Exit,
}

impl Verb {
    /// The word systemd uses.
    pub fn parse(word: &[u8]) -> Option<Self> {
        Some(match word {
            b"reboot" => Self::Reboot,
            b"poweroff" => Self::Poweroff,
            b"halt" => Self::Halt,
            b"kexec" => Self::Kexec,
            b"soft-reboot" => Self::SoftReboot,
            b"exit" => Self::Exit,
            _ => return None,
        })
    }

    /// Whether the devices are shut down after it.
    pub const fn ends_devices(self) -> bool {
        !matches!(self, Self::SoftReboot)
    }
}

/// The verb that pid 1 was given: `/usr/lib/systemd/systemd-shutdown poweroff ...`, `/bin/sh /shutdown reboot ...`.
fn verb_of_init(line: &CommandLine) -> Option<Verb> {
    line.words().skip(1).find_map(Verb::parse)
}

/// The verb of a hook: what it was given, else what pid 1 was given (systemd 262 gives its hooks an empty one), else a
/// reboot, since the machine goes down in any case.
pub fn hook_verb(root: &Root, given: &str) -> Verb {
    Verb::parse(given.as_bytes())
        .or_else(|| verb_of_init(&CommandLine::of_init(root).ok()?))
        .unwrap_or(Verb::Reboot)
}

/// Whether pid 1 is a shutdown program, known verb or not: systemd-shutdown, dracut's or anybody's `/shutdown`.
pub fn shutting_down(root: &Root) -> bool {
    let Ok(line) = CommandLine::of_init(root) else {
        return false;
    };
    verb_of_init(&line).is_some() || line.words().take(2).any(|word| word.ends_with(b"shutdown"))
}

/// The stage: as given, else as the image looks, else a person.
pub fn find(root: &Root, given: Option<Stage>) -> Stage {
    let in_image = || root.exists("/etc/initrd-release");
    match given {
        // finalrd runs the same folder a second time, in its own image, when the old root is gone.
        Some(Stage::SystemdShutdown) if in_image() => Stage::Exitrd,
        Some(stage) => stage,
        None if in_image() && (root.exists("/oldroot") || root.exists("/shutdown")) => {
            Stage::Exitrd
        }
        None if in_image() => Stage::Initrd,
        None => Stage::Person,
    }
}

/// What comes after systemd-shutdown's hooks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exitrd {
    /// Nothing: the machine goes down.
    None,
    /// There is a /run/initramfs/shutdown, but systemd will not enter it: it may not be executed (noexec).
    NotExecutable,
    /// One without quell: an image older than the package, or somebody else's.
    Foreign,
    /// One that holds quell, and does all controllers in one batch.
    Quell,
}

/// Looks for the exitrd as systemd does (src/shutdown/shutdown.c: access(2) with X_OK).
pub fn exitrd(root: &Root) -> Exitrd {
    const SHUTDOWN: &str = "/run/initramfs/shutdown";
    match (
        root.executable(SHUTDOWN),
        root.executable("/run/initramfs/usr/lib/quell/quell"),
    ) {
        (true, true) => Exitrd::Quell,
        (true, false) => Exitrd::Foreign,
        (false, _) if root.exists(SHUTDOWN) => Exitrd::NotExecutable,
        (false, _) => Exitrd::None,
    }
}

/// Reads the kernel command line's options. A machine without one has the defaults.
pub fn options(
    root: &Root,
    stage: Stage,
    warnings: &mut dyn FnMut(crate::options::Warning),
) -> Options {
    let mut buf = [0; 8192];
    let line = root.read("/proc/cmdline", &mut buf).unwrap_or_default();
    let mut options = Options::from_cmdline(line, stage, warnings);
    let going_down = matches!(stage, Stage::SystemdShutdown | Stage::Exitrd);
    let var = |name: &str| std::env::var(name).ok();
    if let Some(most) = watchdog_s(&var).filter(|_| going_down) {
        options.timeout_s = Some(options.timeout_s(stage).min(most));
    }
    options
}

/// What the watchdog that systemd has armed for the shutdown leaves, with a third of it kept for what comes after: nobody feeds it any
/// more (RebootWatchdogSec= in systemd-system.conf(5); sd_watchdog_enabled(3)).
fn watchdog_s(var: &dyn Fn(&str) -> Option<String>) -> Option<u32> {
    // Else it is a service's.
    var("WATCHDOG_PID").filter(|pid| pid == "1")?;
    let usec: u64 = var("WATCHDOG_USEC")?.parse().ok()?;
    let seconds = u32::try_from(usec / 3_000_000 * 2).unwrap_or(u32::MAX);
    (usec > 0).then_some(seconds.max(1))
}

/// The most bytes of all command lines together.
const LINES_MAX: usize = 32 * 1024;

/// Reads what others' words say about Intel RAID. In a dracut image the kernel command line goes on in files of the image
/// and of /run, and dracut reads all of them as one line (`getcmdline` in dracut-lib.sh); a later word wins.
pub fn foreign(root: &Root, stage: Stage) -> Foreign {
    let mut line = Vec::new();
    if stage == Stage::Initrd {
        append_all(root, "/etc/cmdline.d", &mut line);
        append(root, "/etc/cmdline", &mut line);
    }
    append(root, "/proc/cmdline", &mut line);
    if stage == Stage::Initrd {
        append_all(root, "/run/initramfs/cmdline.d", &mut line);
    }
    Foreign::from_cmdline(&line, stage)
}

/// Appends every `*.conf` of a folder, in the order of their names.
fn append_all(root: &Root, dir: &str, line: &mut Vec<u8>) {
    let mut names: Vec<String> = Vec::new();
    // A folder that is not there has nothing to say.
    let _ = root.entries(dir, |name| {
        let name = core::str::from_utf8(name).ok();
        names.extend(
            name.filter(|name| name.ends_with(".conf"))
                .map(str::to_owned),
        );
        true
    });
    names.sort();
    for name in names {
        append(root, path!("{dir}/{name}").as_str(), line);
    }
}

/// Appends a file's words, where there is room for them.
fn append(root: &Root, path: &str, line: &mut Vec<u8>) {
    let mut buf = vec![0; LINES_MAX.saturating_sub(line.len())];
    if let Ok(text) = root.read(path, &mut buf) {
        line.extend_from_slice(text);
        line.push(b' ');
    }
}

const FILE: &str = "/run/quell/deadline";

/// The one deadline of this shutdown's stage: an earlier call's, if it was made by the same shutdown program in the same
/// boot, else one that starts now and is kept for the next call.
pub fn shared_deadline(root: &Root, stage: Stage, seconds: u32) -> Deadline {
    let fresh = Deadline::in_seconds(seconds);
    let Ok(init) = CommandLine::of_init(root) else {
        return fresh;
    };
    if verb_of_init(&init).is_none() {
        // Pid 1 is no shutdown program: nobody shares a budget.
        return fresh;
    }
    let mut boot = [0; 64];
    let owner = Text::<1400>::of(format_args!(
        "boot_id={}\nstage={stage}\ninit={}\n",
        Printable(boot_id(root, &mut boot)),
        Printable(init.bytes())
    ));
    let mut buf = [0; 1500];
    if let Some(end_ms) = root
        .read(FILE, &mut buf)
        .ok()
        .and_then(|text| end_of(text, owner.as_str()))
    {
        return fresh.min(Deadline::at_ms(end_ms));
    }
    let state = Text::<1500>::of(format_args!("{owner}deadline_ms={}", fresh.end_ms()));
    let kept = root
        .make_dir("/run/quell")
        .and_then(|()| root.replace(FILE, state.as_str().as_bytes()));
    match kept {
        // Without /run there is nothing to share it in.
        Ok(()) | Err(Errno::NOENT) => {}
        Err(errno) => warn!(
            "{FILE} cannot be written: {}; a later call has its own deadline",
            crate::errno::Cause(errno)
        ),
    }
    fresh
}

/// The deadline in a state file, if `owner` wrote it.
fn end_of(text: &[u8], owner: &str) -> Option<u64> {
    let rest = text
        .strip_prefix(owner.as_bytes())?
        .strip_prefix(b"deadline_ms=")?;
    core::str::from_utf8(rest).ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::fs;
    use std::path::Path;

    fn root(dir: &Path, init: &str) -> Root {
        for sub in ["proc/1", "proc/sys/kernel/random", "run", "etc"] {
            fs::create_dir_all(dir.join(sub)).unwrap();
        }
        fs::write(dir.join("proc/1/cmdline"), init).unwrap();
        fs::write(dir.join("proc/sys/kernel/random/boot_id"), "aaaa\n").unwrap();
        Root::below(dir.as_os_str()).unwrap()
    }

    #[test]
    fn a_watchdog_that_nobody_feeds_bounds_the_time() {
        let of = |pid: &str, usec: &str| {
            watchdog_s(&|name| {
                let value = match name {
                    "WATCHDOG_PID" => pid,
                    _ => usec,
                };
                (!value.is_empty()).then(|| value.to_owned())
            })
        };
        assert_eq!(of("1", "30000000"), Some(20));
        assert_eq!(of("1", "1"), Some(1));
        assert_eq!(of("1", "99999999999999999"), Some(u32::MAX));
        for (pid, usec) in [
            ("1", ""),
            ("1", "0"),
            ("1", "x"),
            ("", "30000000"),
            ("77", "30000000"),
        ] {
            assert_eq!(of(pid, usec), None);
        }
    }

    #[test]
    fn an_empty_or_unknown_verb_is_pid_1s_b40() {
        let dir = tempfile::tempdir().unwrap();
        let kept = root(
            dir.path(),
            "/usr/lib/systemd/systemd-shutdown\0poweroff\0--timeout=90000000us\0",
        );
        assert_eq!(hook_verb(&kept, ""), Verb::Poweroff);
        assert_eq!(hook_verb(&kept, "frobnicate"), Verb::Poweroff);
        assert_eq!(hook_verb(&kept, "halt"), Verb::Halt);
        let dracut = root(dir.path(), "/bin/sh\0/shutdown\0kexec\0--log-level\0info\0");
        assert_eq!(hook_verb(&dracut, ""), Verb::Kexec);
        let odd = root(dir.path(), "/sbin/init\0splash\0");
        assert_eq!(hook_verb(&odd, ""), Verb::Reboot);
        assert!(!Verb::parse(b"soft-reboot").unwrap().ends_devices());
    }

    #[test]
    fn a_running_system_is_not_shutting_down() {
        let dir = tempfile::tempdir().unwrap();
        for (init, want) in [
            ("/sbin/init\0splash\0", false),
            ("/usr/lib/systemd/systemd\0--system\0", false),
            ("/usr/lib/systemd/systemd-shutdown\0new-verb\0", true),
            ("/bin/sh\0/shutdown\0poweroff\0", true),
            ("/shutdown\0reboot\0", true),
        ] {
            assert_eq!(shutting_down(&root(dir.path(), init)), want, "{init}");
        }
    }

    #[test]
    fn all_of_dracuts_command_lines_are_one() {
        let dir = tempfile::tempdir().unwrap();
        let r = root(dir.path(), "/init\0");
        let put = |path: &str, text: &str| {
            let path = dir.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        assert_eq!(foreign(&r, Stage::Initrd), Foreign::default());
        put("etc/cmdline.d/20-md.conf", "rd.md.imsm=0\n");
        put("etc/cmdline.d/10-md.conf", "rd.md.imsm=1\n");
        put("etc/cmdline.d/30-md.conf.bak", "rd.md=0\n");
        assert_eq!(foreign(&r, Stage::Initrd).off, Some("rd.md.imsm=0"));
        assert_eq!(foreign(&r, Stage::Person).off, None);
        put("proc/cmdline", "quiet rd.md.imsm=1\n");
        assert_eq!(foreign(&r, Stage::Initrd).off, None);
        put("run/initramfs/cmdline.d/x.conf", "noiswmd rd.md=no");
        assert_eq!(foreign(&r, Stage::Initrd).off, Some("rd.md=0"));
        put("proc/cmdline", &"x".repeat(LINES_MAX));
        put("run/initramfs/cmdline.d/x.conf", "");
        assert_eq!(foreign(&r, Stage::Initrd).off, Some("rd.md.imsm=0"));
    }

    #[test]
    fn a_deadline_is_shared_by_calls_of_one_shutdown_only() {
        let dir = tempfile::tempdir().unwrap();
        let line = "/bin/sh\0/shutdown\0reboot\0";
        let first = root(dir.path(), line);
        let kept = shared_deadline(&first, Stage::Exitrd, 60);
        assert_eq!(shared_deadline(&first, Stage::Exitrd, 600), kept);
        assert_ne!(
            shared_deadline(&first, Stage::SystemdShutdown, 600),
            kept,
            "another stage"
        );
        let kept = shared_deadline(&first, Stage::Exitrd, 600);
        let other = root(dir.path(), "/shutdown\0reboot\0");
        assert_ne!(
            shared_deadline(&other, Stage::Exitrd, 700),
            kept,
            "another program"
        );
        fs::write(dir.path().join("proc/sys/kernel/random/boot_id"), "bbbb\n").unwrap();
        let kept = shared_deadline(&other, Stage::Exitrd, 700);
        assert_eq!(shared_deadline(&other, Stage::Exitrd, 800), kept);
        let running = root(dir.path(), "/sbin/init\0");
        assert_ne!(
            shared_deadline(&running, Stage::Exitrd, 900),
            kept,
            "no shutdown"
        );
    }

    #[test]
    fn the_stage_is_found() {
        let dir = tempfile::tempdir().unwrap();
        let r = root(dir.path(), "/sbin/init\0");
        assert_eq!(find(&r, None), Stage::Person);
        assert_eq!(
            find(&r, Some(Stage::SystemdShutdown)),
            Stage::SystemdShutdown
        );
        fs::write(dir.path().join("etc/initrd-release"), "").unwrap();
        assert_eq!(find(&r, None), Stage::Initrd);
        assert_eq!(find(&r, Some(Stage::SystemdShutdown)), Stage::Exitrd);
        assert_eq!(find(&r, Some(Stage::Person)), Stage::Person);
        fs::create_dir(dir.path().join("oldroot")).unwrap();
        assert_eq!(find(&r, None), Stage::Exitrd);
    }
}
