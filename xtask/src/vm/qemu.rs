//! Runs QEMU to the end of a boot: the console read line by line, the way it ended told by QMP.

use super::console::{Event, Line};
use super::stale::PidFile;
use anyhow::{Context, Result};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread;
use std::time::{Duration, Instant};

/// How a boot ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// The machine was reset (not left hanging, not powered off).
    Reset,
    /// The machine was powered off.
    PowerOff,
    /// The script came to its end and the VM was ended by us.
    Script,
    /// The time was up.
    Timeout,
    /// QEMU itself ended.
    Died(String),
}

/// What one boot gave.
#[derive(Clone, Debug)]
pub(crate) struct Boot {
    /// The whole console.
    pub(crate) lines: Vec<Line>,
    /// How it ended.
    pub(crate) exit: Exit,
    /// From QEMU's start to the end.
    pub(crate) wall: Duration,
}

impl Boot {
    /// True where the emulator and not the kernel went wrong: with a thread for each CPU, TCG now and then has one run into
    /// a breakpoint of the kernel's own text patching that the kernel has taken away already. Seen about once in a hundred
    /// boots, mostly before /init; nothing that runs in the VM can bring it about.
    pub(crate) fn is_emulators_fault(&self) -> bool {
        self.lines.iter().any(|line| {
            let text = line.text.strip_prefix("Oops: ").unwrap_or(&line.text);
            text.starts_with("int3: 0000 [#1]")
        })
    }

    /// What the test module logged, in order.
    pub(crate) fn events(&self) -> Vec<Event> {
        self.lines.iter().filter_map(Event::parse).collect()
    }
}

/// How often a machine is started anew where the emulator went wrong.
pub(super) const ATTEMPTS: usize = 3;

/// What /init logs when the script has ended, and the prelude's `finish` before it ends the machine itself.
pub(crate) const SCRIPT_END: &str = "quell-case: script rc=";

enum Heard {
    Line(Line),
    Shutdown(String),
    Eof,
}

/// Ends QEMU when it goes out of scope, however that comes.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// What every VM is started with: a kernel with its initramfs, and `words` for its command line.
pub(crate) fn arguments(
    cpus: u32,
    memory_mib: u32,
    kernel: &Path,
    initramfs: &Path,
    words: &str,
) -> Vec<String> {
    let cmdline = format!(
        "console=ttyS0 loglevel=7 printk.time=1 panic=-1 oops=panic mitigations=off nokaslr random.trust_cpu=on \
         tsc=nowatchdog nvme_core.multipath=Y {words}"
    );
    [
        // TCG even where /dev/kvm is there: it is the same everywhere, and nested KVM does not serve stock kernels.
        "-accel",
        "tcg,thread=multi",
        "-machine",
        "q35",
        "-cpu",
        "max",
        "-smp",
        &cpus.to_string(),
        "-m",
        &format!("{memory_mib}M"),
        "-nodefaults",
        "-no-user-config",
        "-display",
        "none",
        "-kernel",
        &kernel.display().to_string(),
        "-initrd",
        &initramfs.display().to_string(),
        "-append",
        &cmdline,
    ]
    .map(str::to_owned)
    .to_vec()
}

/// Starts QEMU with `arguments` and waits for the end of the boot, at most `timeout`.
pub(crate) fn run(
    arguments: &[String],
    dir: &Path,
    timeout: Duration,
    on_line: &mut dyn FnMut(&Line),
) -> Result<Boot> {
    let start = Instant::now();
    let socket = dir.join("qmp");
    let pid = PidFile::new()?;
    let listener = UnixListener::bind(&socket).context("cannot make QEMU's control socket")?;
    let child = Command::new("qemu-system-x86_64")
        .args(arguments)
        // A reset and a power-off both stop the VM and say so over QMP, so that neither can be taken for the other.
        .args(["-action", "reboot=shutdown,shutdown=pause,panic=none"])
        .args([
            "-chardev",
            "stdio,id=console,signal=off",
            "-serial",
            "chardev:console",
        ])
        .args(["-qmp", &format!("unix:{}", socket.display())])
        .args(["-pidfile", &pid.path().display().to_string()])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(fs_err(dir)?)
        .spawn()
        .context("cannot start qemu-system-x86_64")?;
    let mut child = Running(child);
    let console = child.0.stdout.take().context("QEMU has no console")?;
    let (tell, heard) = mpsc::channel();
    let lines = tell.clone();
    let reader = thread::spawn(move || read_console(console, start, &lines));
    // QEMU connects before it does anything else; where it cannot start there is only the end of its console.
    let control = thread::spawn(move || {
        listener
            .accept()
            .ok()
            .map(|(stream, _)| read_events(stream, &tell))
    });

    let mut boot = Boot {
        lines: Vec::new(),
        exit: Exit::Timeout,
        wall: Duration::ZERO,
    };
    let mut take = |boot: &mut Boot, line: Line| {
        on_line(&line);
        boot.lines.push(line);
    };
    loop {
        match heard.recv_timeout(timeout.saturating_sub(start.elapsed())) {
            Ok(Heard::Line(line)) => {
                // `rc=0, then reboot` is not the end yet.
                let ended = line
                    .text
                    .strip_prefix(SCRIPT_END)
                    .is_some_and(|rest| !rest.contains("then"));
                take(&mut boot, line);
                if ended {
                    boot.exit = Exit::Script;
                    break;
                }
            }
            Ok(Heard::Shutdown(reason)) => {
                boot.exit = match reason.as_str() {
                    "guest-reset" => Exit::Reset,
                    "guest-shutdown" => Exit::PowerOff,
                    other => Exit::Died(other.to_owned()),
                };
                break;
            }
            Ok(Heard::Eof) | Err(RecvTimeoutError::Disconnected) => {
                let said = std::fs::read_to_string(dir.join("stderr")).unwrap_or_default();
                boot.exit = Exit::Died(format!("QEMU ended: {}", said.trim()));
                break;
            }
            Err(RecvTimeoutError::Timeout) => break,
        }
    }
    boot.wall = start.elapsed();
    drop(child);
    // Wakes the control thread where QEMU never came.
    let _ = UnixStream::connect(&socket);
    let _ = reader.join();
    let _ = control.join();
    for rest in heard.try_iter() {
        if let Heard::Line(line) = rest {
            take(&mut boot, line);
        }
    }
    Ok(boot)
}

fn fs_err(dir: &Path) -> Result<Stdio> {
    Ok(std::fs::File::create(dir.join("stderr"))?.into())
}

fn read_console(console: impl std::io::Read, start: Instant, tell: &Sender<Heard>) {
    let mut console = BufReader::new(console);
    let mut raw = Vec::new();
    loop {
        raw.clear();
        match console.read_until(b'\n', &mut raw) {
            Ok(0) | Err(_) => break,
            Ok(_) => {
                let line = Line::parse(start.elapsed(), &String::from_utf8_lossy(&raw));
                if tell.send(Heard::Line(line)).is_err() {
                    break;
                }
            }
        }
    }
    let _ = tell.send(Heard::Eof);
}

/// QMP: one JSON object a line. Only one event matters, so it is looked for as text.
fn read_events(mut stream: UnixStream, tell: &Sender<Heard>) {
    let _ = stream.write_all(b"{\"execute\":\"qmp_capabilities\"}\n");
    for line in BufReader::new(stream).lines().map_while(Result::ok) {
        if line.contains("\"event\": \"SHUTDOWN\"") {
            let reason = line
                .split("\"reason\": \"")
                .nth(1)
                .and_then(|rest| rest.split('"').next());
            let _ = tell.send(Heard::Shutdown(reason.unwrap_or_default().to_owned()));
            // The console's last bytes are written before the VM stops; the main loop drains them.
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn says(line: &str) -> bool {
        Boot {
            lines: vec![Line::parse(Duration::ZERO, line)],
            exit: Exit::Reset,
            wall: Duration::ZERO,
        }
        .is_emulators_fault()
    }

    #[test]
    fn only_the_emulators_own_fault_is_forgiven() {
        assert!(says(
            "[    1.746503] Oops: int3: 0000 [#1] PREEMPT SMP NOPTI"
        ));
        assert!(says("[    1.746503] int3: 0000 [#1] PREEMPT SMP NOPTI"));
        assert!(!says("[    1.746503] Oops: 0002 [#1] PREEMPT SMP NOPTI"));
        assert!(!says("[    1.746503] quell: int3: 0000 [#1]"));
    }
}
