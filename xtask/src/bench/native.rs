//! Figures of quell run on this machine, always against a folder of their own.

use super::Options;
use super::fixture;
use super::row::{Row, millis};
use super::timing::median;
use crate::build::{self, TARGET};
use crate::native;
use crate::setup::checked;
use anyhow::{Context, Result, bail, ensure};
use rustix::pipe::{PipeFlags, fcntl_setpipe_size, pipe_with};
use std::fs;
use std::io::Read;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Nothing to do: against a program that does nothing at all.
pub(super) fn nothing(options: &Options) -> Result<Vec<Row>> {
    let quell = build::quell()?;
    let dir = tempfile::tempdir()?;
    empty_program(dir.path())?;
    let root = dir.path().join("root");
    fixture::empty(&root)?;
    let args = ["shutdown", "reboot", "--stage=exitrd"];
    let rounds = options.rounds(200);
    let (mut ours, mut others) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        let mut empty = Command::new("./empty");
        others.push(timed(empty.current_dir(dir.path()))?.as_secs_f64());
        let mut command = native::quell(&quell, &root, args)?;
        ours.push(timed(command.current_dir(dir.path()))?.as_secs_f64());
    }
    let more = (median(&ours) - median(&others)) * 1e3;
    Ok(vec![
        Row::new(format!(
            "nothing to do: an empty static program (medians of {rounds})"
        ))
        .measured(format!("{:.2} ms", median(&ours) * 1e3))
        .peer(format!("{:.2} ms", median(&others) * 1e3))
        .ratio(format!("{more:+.2} ms"))
        .gate("at most 2 ms more", more <= 2.0),
    ])
}

/// `fn main() {}`, as static as quell is.
fn empty_program(dir: &Path) -> Result<()> {
    if !build::rustup_target(TARGET)? {
        bail!("the toolchain has no std for {TARGET}");
    }
    fs::write(dir.join("empty.rs"), "fn main() {}\n")?;
    checked(
        Command::new("rustc")
            .args(["-O", "-Cpanic=abort", "-Cstrip=symbols", "-Clinker=cc"])
            .args(["-Ctarget-feature=+crt-static", "--target", TARGET])
            .args(["empty.rs", "-o", "empty"])
            .current_dir(dir),
    )
}

/// From the start to the end of a program that must succeed and whose words nobody wants.
fn timed(command: &mut Command) -> Result<Duration> {
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let start = Instant::now();
    let status = command.status()?;
    let took = start.elapsed();
    ensure!(status.success(), "{command:?} ended with {status}");
    Ok(took)
}

/// So many more controllers cost so much more time, and a fixed amount of memory.
const MANY: u32 = 5_000;
const FEW: u32 = 50;
/// Between the two, so that what a further controller costs is told apart from what is paid once.
const SOME: u32 = 500;
/// The same small number of workers for both, so that making them does not hide what a controller costs.
const DRY_RUN: [&str; 5] = [
    "shutdown",
    "reboot",
    "--stage=exitrd",
    "--dry-run",
    "--jobs=8",
];

pub(super) fn many(options: &Options) -> Result<Vec<Row>> {
    let quell = build::quell()?;
    let dir = tempfile::tempdir()?;
    let root = |n: u32| dir.path().join(format!("root{n}"));
    let time = |n: u32| -> Result<f64> {
        Ok(timed(&mut native::quell(&quell, &root(n), DRY_RUN)?)?.as_secs_f64())
    };
    for n in [FEW, SOME, MANY] {
        fixture::machine(&root(n), n)?;
        // Every tree is read once before anything counts, and what is wrong with it is told.
        let out = native::quell(&quell, &root(n), DRY_RUN)?.output()?;
        ensure!(
            out.status.success(),
            "the dry run over {n} controllers ended with {}: {}",
            out.status,
            String::from_utf8_lossy(&out.stderr).trim()
        );
    }
    let (mut few, mut some, mut many) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..options.rounds(9) {
        // One run over few takes some milliseconds: more of them for a median as steady as the others'.
        for _ in 0..5 {
            few.push(time(FEW)?);
            some.push(time(SOME)?);
        }
        many.push(time(MANY)?);
    }
    let [t_few, t_some, t_many] = [&few, &some, &many].map(|times| median(times));
    let each = |time: f64, n: u32| time / f64::from(n);
    let ratio = each(t_many, MANY) / each(t_few, FEW);
    let further = [
        each(t_many - t_some, MANY - SOME),
        each(t_some - t_few, SOME - FEW),
    ];
    let [late, early] = further;
    let micros = |seconds: f64| format!("{:.1} us a controller", seconds * 1e6);
    let (named, peak_kib) = watched(&quell, &root(MANY))?;
    Ok(vec![
        Row::new(format!(
            "{MANY} controllers, {} block devices, --dry-run ({}): {FEW} and {}",
            MANY * 4,
            millis(&many),
            FEW * 4
        ))
        .measured(micros(each(t_many, MANY)))
        .peer(micros(each(t_few, FEW)))
        .ratio(format!("{ratio:.2}"))
        .gate("at most 1.30", ratio <= 1.3),
        Row::new(format!(
            "the same, each further one from {SOME} to {MANY}: from {FEW} to {SOME}"
        ))
        .measured(micros(late))
        .peer(micros(early))
        .ratio(format!("{:.2}", late / early))
        .gate("at most 1.30", late / early <= 1.3),
        Row::new(format!("{MANY} controllers: peak resident memory"))
            .measured(format!("{:.2} MiB", f64::from(peak_kib) / 1024.0))
            .gate("at most 4 MiB", peak_kib <= 4096),
        Row::new(format!("{MANY} controllers: nothing dropped"))
            .measured(format!("{named} planned"))
            .peer(MANY.to_string())
            .gate("each once", named == MANY),
    ])
}

/// Runs it once more and looks at it while it runs: the controllers it names, and its peak memory in KiB.
///
/// The peak is the kernel's VmHWM, read from /proc while quell waits for us to take its output. What wait4(2) tells is of
/// no use: a child's ru_maxrss starts with the peak of the process that started it, which is larger than quell.
fn watched(quell: &Path, root: &Path) -> Result<(u32, u32)> {
    let (mut from, to) =
        pipe_with(PipeFlags::CLOEXEC).map(|(from, to)| (fs::File::from(from), to))?;
    // As small as it gets, so that quell is still there until the end of its output has almost come.
    fcntl_setpipe_size(&to, 4096)?;
    let mut child = {
        let mut command = native::quell(quell, root, DRY_RUN)?;
        command.stdin(Stdio::null()).stdout(to).spawn()?
        // The command goes here, and its end of the pipe with it.
    };
    let status = format!("/proc/{}/status", child.id());
    let (mut text, mut block, mut peak) = (Vec::new(), vec![0; 2048], 0);
    loop {
        let n = from.read(&mut block)?;
        if n == 0 {
            break;
        }
        text.extend_from_slice(block.get(..n).unwrap_or_default());
        // An error or no such line: it has ended, and was seen before.
        let seen = fs::read_to_string(&status).unwrap_or_default();
        peak = peak.max(field(&seen, "VmHWM:").unwrap_or(0));
    }
    ensure!(child.wait()?.success(), "the dry run failed");
    ensure!(peak > 0, "quell's memory was never seen");
    let text = String::from_utf8(text).context("not text")?;
    let mut names: Vec<&str> = text
        .lines()
        .filter(|line| line.starts_with("nvme") && line.contains(" unbind "))
        .filter_map(|line| line.split(' ').next())
        .collect();
    names.sort_unstable();
    names.dedup();
    Ok((u32::try_from(names.len())?, peak))
}

fn field(text: &str, name: &str) -> Option<u32> {
    let rest = text.lines().find_map(|line| line.strip_prefix(name))?;
    rest.split_whitespace().next()?.parse().ok()
}

/// The whole plan of 5,000 drives of 1 to 13 s on 64 workers, as the binary itself makes it, and the schedule's own tests.
pub(super) fn schedule(_options: &Options) -> Result<Vec<Row>> {
    const WORKERS: u32 = 64;
    let tests = build::cargo()
        .args(["test", "--release", "--quiet", "-p", "quell", "--lib"])
        .arg("schedule")
        .output()
        .context("cannot start cargo")?;
    let text = String::from_utf8_lossy(&tests.stdout);
    let result = text
        .lines()
        .find_map(|line| line.strip_prefix("test result: "))
        .unwrap_or("no result");
    let passed = result
        .split(['.', ';'])
        .find_map(|part| part.trim().strip_suffix(" passed")?.parse::<u32>().ok())
        .unwrap_or(0);

    let dir = tempfile::tempdir()?;
    fixture::machine(dir.path(), MANY)?;
    let args = ["quiesce", "--all", "--dry-run", "--json", "--jobs=64"];
    let out = native::quell(&build::quell()?, dir.path(), args)?
        .stderr(Stdio::null())
        .output()?;
    let json: serde_json::Value =
        serde_json::from_slice(&out.stdout).context("the dry run gave no JSON")?;
    let planned = json
        .get("planned_ms")
        .and_then(serde_json::Value::as_u64)
        .context("the dry run gave no planned_ms")?;
    let times: Vec<u32> = (0..MANY).map(fixture::time_ms).collect();
    let bound = lower_bound(&times, WORKERS);
    let ratio = planned as f64 / bound as f64;
    let m = f64::from(WORKERS);
    let allowed = 4.0 / 3.0 - 1.0 / (3.0 * m);
    Ok(vec![
        Row::new(
            "5,000 drives on a simulated clock, any width from 1 to 5,000: the schedule's tests",
        )
        .measured(format!("{passed} passed"))
        .gate("all pass", tests.status.success() && passed > 0),
        Row::new(format!(
            "{MANY} drives of 1 to 13 s, {WORKERS} workers, makespan: the least there can be"
        ))
        .measured(format!("{:.1} s", planned as f64 / 1e3))
        .peer(format!("{:.1} s", bound as f64 / 1e3))
        .ratio(format!("{ratio:.4}"))
        .gate(
            format!("LPT bound, {allowed:.3}"),
            (1.0..=allowed).contains(&ratio),
        ),
    ])
}

/// No schedule on so many workers ends before this: the work shared evenly, and the longest.
fn lower_bound(times: &[u32], workers: u32) -> u64 {
    let sum: u64 = times.iter().map(|ms| u64::from(*ms)).sum();
    let longest = times.iter().copied().max().unwrap_or(0);
    sum.div_ceil(u64::from(workers)).max(u64::from(longest))
}

/// The shipped binary's size.
pub(super) fn size(_options: &Options) -> Result<Vec<Row>> {
    let bytes = fs::metadata(build::quell()?)?.len();
    Ok(vec![
        Row::new("size of the static binary")
            .measured(format!("{:.0} KiB", bytes as f64 / 1024.0))
            .gate("at most 512 KiB (aim 256)", bytes <= 512 * 1024),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_and_fields() {
        assert_eq!(lower_bound(&[5, 4, 3], 2), 6);
        assert_eq!(lower_bound(&[50, 4, 3], 2), 50);
        let status = "Name:\tquell\nVmHWM:\t    1234 kB\n";
        assert_eq!(field(status, "VmHWM:"), Some(1234));
        assert_eq!(field(status, "VmPeak:"), None);
    }
}
