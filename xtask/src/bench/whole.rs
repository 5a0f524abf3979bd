//! Figures of whole machines: Debian with its root on Intel RAID, from systemd-shutdown's first line to the reset, and what it
//! takes to prepare an exitrd.
//!
//! Each machine has six controllers: two are the root's, four have a file system each. A figure counts only where the test
//! module saw as many of them shut down at once as there should be.

use super::Options;
use super::machines::{course, in_turn, keep, resets};
use super::row::{Row, millis, seconds};
use super::shutdowns::SLOW_S;
use super::timing::{Shutdown, marked, median, range};
use crate::machines::{self, Package};
use crate::vm::{Boot, Line};
use anyhow::{Context, Result, ensure};

/// What the scripts here call.
const LIBRARY: &str = include_str!("whole.sh");
const ROUNDS: usize = 3;
const CONTROLLERS: u32 = 6;
/// What the whole shutdown may take where quell is the exitrd, in times of one controller.
const MOST: f64 = 1.7;

/// One way in which a machine goes down.
struct Way {
    name: &'static str,
    package: Package,
    /// What is done before its end.
    before: &'static str,
    /// systemd-shutdown goes on to an exitrd.
    exitrd: bool,
    /// The most controllers that are in their callbacks at the same time.
    at_once: u32,
}

/// Where nothing makes an exitrd: the root's two controllers are in use until the kernel does them.
const INITRAMFS_TOOLS: [Way; 3] = [
    Way {
        name: "nothing installed",
        package: Package::None,
        before: "",
        exitrd: false,
        at_once: 1,
    },
    Way {
        name: "the drop-in alone",
        package: Package::Installed,
        before: "",
        exitrd: false,
        at_once: CONTROLLERS - 2,
    },
    Way {
        name: "quell-exitrd",
        package: Package::Installed,
        before: "expect_rc 0 systemctl enable quell-exitrd.service\n",
        exitrd: true,
        at_once: CONTROLLERS,
    },
];

/// Where dracut makes one. The two that are compared in what preparing takes are prepared by the script, when nothing else runs.
const DRACUT: [Way; 3] = [
    Way {
        name: "dracut's exitrd",
        package: Package::None,
        before: "",
        exitrd: true,
        at_once: 1,
    },
    Way {
        name: "dracut's exitrd with quell's hooks",
        package: Package::Installed,
        before: "prepared /usr/lib/dracut/dracut-initramfs-restore\n",
        exitrd: true,
        at_once: CONTROLLERS,
    },
    Way {
        name: "quell in its place",
        package: Package::Installed,
        before: "expect_rc 0 systemctl mask dracut-shutdown.service\nprepared /usr/lib/quell/quell exitrd --install\n",
        exitrd: true,
        at_once: CONTROLLERS,
    },
];

/// Debian 12 with initramfs-tools.
pub(super) fn initramfs_tools(options: &Options) -> Result<Vec<Row>> {
    let taken = rounds(options, "bookworm-initramfs-tools", &INITRAMFS_TOOLS)?;
    let [without, drop_in, exitrd] = taken.as_slice() else {
        return Ok(Vec::new());
    };
    let without = resets(&shutdowns(without));
    let drop_in = resets(&shutdowns(drop_in));
    let part = median(&drop_in) / median(&without);
    let mut rows = as_exitrd(
        "Debian 12 with initramfs-tools",
        "quell-exitrd",
        &shutdowns(exitrd),
        ("nothing installed", &without),
    );
    rows.push(
        Row::new("the same machine, the drop-in alone: nothing installed")
            .measured(seconds(&drop_in))
            .peer(seconds(&without))
            .ratio(format!("{part:.2}"))
            .gate("at most 0.65", part <= 0.65),
    );
    Ok(rows)
}

/// Debian 13 with dracut.
pub(super) fn dracut(options: &Options) -> Result<Vec<Row>> {
    let taken = rounds(options, "trixie-dracut", &DRACUT)?;
    let [without, hooks, exitrd] = taken.as_slice() else {
        return Ok(Vec::new());
    };
    let without = resets(&shutdowns(without));
    let with = resets(&shutdowns(hooks));
    let part = median(&with) / median(&without);
    let mut rows = as_exitrd(
        "Debian 13 with dracut",
        "quell-exitrd in dracut's place",
        &shutdowns(exitrd),
        ("dracut's exitrd without quell", &without),
    );
    rows.push(
        Row::new("the same machine, dracut's exitrd with quell's hooks: without quell")
            .measured(seconds(&with))
            .peer(seconds(&without))
            .ratio(format!("{part:.2}"))
            .gate("at most 0.50", part <= 0.5),
    );
    rows.extend(preparing(&costs(exitrd)?, &costs(hooks)?));
    Ok(rows)
}

/// A machine that ends in quell, against the time of one controller and against what it takes otherwise.
fn as_exitrd(
    machine: &str,
    exitrd: &str,
    ours: &[Shutdown],
    (name, peer): (&str, &[f64]),
) -> Vec<Row> {
    let longest: Vec<f64> = ours.iter().map(Shutdown::slowest).collect();
    let ours = resets(ours);
    let ratio = median(&ours) / SLOW_S;
    vec![
        Row::new(format!(
            "{machine}, {CONTROLLERS} controllers x {SLOW_S} s, {exitrd}: one controller's time (longest removal measured: {:.2} s)",
            median(&longest)
        ))
        .measured(seconds(&ours))
        .peer(format!("{SLOW_S:.2} s"))
        .ratio(format!("{ratio:.2}"))
        .gate(format!("at most {MOST:.2}"), ratio <= MOST),
        Row::new(format!("the same: {name}"))
            .measured(seconds(&ours))
            .peer(seconds(peer))
            .ratio(format!("{:.1} times faster", median(peer) / median(&ours))),
    ]
}

/// What went into an exitrd, ours against dracut's.
fn preparing(ours: &[Cost], dracuts: &[Cost]) -> Vec<Row> {
    let row = |what: &str, of: fn(&Cost) -> f64, shown: fn(&[f64]) -> String| {
        let values = |costs: &[Cost]| costs.iter().map(of).collect::<Vec<_>>();
        let (ours, dracuts) = (values(ours), values(dracuts));
        let part = median(&ours) / median(&dracuts);
        Row::new(what)
            .measured(shown(&ours))
            .peer(shown(&dracuts))
            .ratio(format!("{part:.3}"))
            .gate("at most 0.10", part <= 0.1)
    };
    vec![
        row(
            "preparing the exitrd there, quell exitrd --install: dracut-initramfs-restore",
            |cost| cost.wall,
            millis,
        ),
        row("the same, processor time", |cost| cost.cpu, millis),
        row("the same, memory at the peak", |cost| cost.peak, mebibytes),
        row("the same, memory that is kept", |cost| cost.kept, mebibytes),
    ]
}

/// One shutdown, and what its script said of the preparations.
struct Taken {
    shutdown: Shutdown,
    cost: Option<Cost>,
}

fn shutdowns(taken: &[Taken]) -> Vec<Shutdown> {
    taken.iter().map(|one| one.shutdown.clone()).collect()
}

fn costs(taken: &[Taken]) -> Result<Vec<Cost>> {
    let each = taken.iter().map(|one| one.cost);
    each.collect::<Option<_>>()
        .context("what the preparations took was not marked")
}

/// Every way that a userland's machine goes down, in turn.
fn rounds(options: &Options, userland: &str, ways: &[Way]) -> Result<Vec<Vec<Taken>>> {
    let rounds = options.rounds(ROUNDS);
    in_turn(rounds, ways, |round, n, way| {
        let script = format!("{LIBRARY}{}down\n", way.before);
        let boot = machines::boot_once(userland, way.package, &script)?;
        let console = format!("{userland}-{round}-{}", n + 1);
        keep(&boot, &console)?;
        let taken = way
            .taken(&boot)
            .with_context(|| format!("{}, console target/bench/{console}.log", way.name))?;
        let course = course(&taken.shutdown);
        eprintln!("    round {round} of {rounds}, {}: {course}", way.name);
        Ok(taken)
    })
}

impl Way {
    /// A figure is worth nothing where the machine went down in another way.
    fn taken(&self, boot: &Boot) -> Result<Taken> {
        let shutdown = Shutdown::of_machine(boot)?;
        let (shut, most) = (shutdown.spans.len(), shutdown.inflight);
        ensure!(
            u32::try_from(shut) == Ok(CONTROLLERS) && most == self.at_once,
            "{shut} controllers were shut down, not {CONTROLLERS}, and at most {most} at once, not {}",
            self.at_once
        );
        let pivoted = boot
            .lines
            .iter()
            .any(|line| line.text.contains("into root pivot"));
        ensure!(
            pivoted == self.exitrd,
            "an exitrd was entered: {pivoted}; it should be: {}",
            self.exitrd
        );
        Ok(Taken {
            shutdown,
            cost: Cost::read(&boot.lines),
        })
    }
}

/// What preparing an exitrd took.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Cost {
    /// Seconds.
    wall: f64,
    /// Seconds of all processors.
    cpu: f64,
    /// MiB at the peak: its processes, and what they read and wrote of files, /run's among them.
    peak: f64,
    /// MiB in /run afterwards.
    kept: f64,
}

impl Cost {
    fn read(lines: &[Line]) -> Option<Self> {
        let mut said = lines.iter();
        let took = said.find_map(|line| line.text.strip_prefix("quell-mark: took "))?;
        let mut numbers = took.split(' ').map(|number| number.parse::<f64>().ok());
        let mut next = || numbers.next().flatten();
        Some(Self {
            wall: marked(lines, "prepared")? - marked(lines, "prepare")?,
            cpu: next()? / 1e6,
            peak: next()? / 1048576.0,
            kept: next()? / 1024.0,
        })
    }
}

/// `37.4 MiB (37.4 to 37.5)`
fn mebibytes(values: &[f64]) -> String {
    let (low, high) = range(values);
    format!("{:.1} MiB ({low:.1} to {high:.1})", median(values))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vm::Exit;
    use std::time::Duration;

    fn lines(text: &str) -> Vec<Line> {
        text.lines()
            .map(|line| Line::parse(Duration::ZERO, line))
            .collect()
    }

    /// A machine that goes down with so many controllers, all at once.
    fn boot(controllers: u32, pivot: &str) -> Boot {
        let mut text = format!(
            "[ 10.0] systemd-shutdown[1]: Syncing filesystems and block devices.\n{pivot}\n"
        );
        for event in ["begin", "end"] {
            for n in 0..controllers {
                let inflight = if event == "begin" { n + 1 } else { 0 };
                text += &format!(
                    "[ 11.{n}] slow_nvme: 0000:0{n}:00.0 remove {event} inflight={inflight}\n"
                );
            }
        }
        Boot {
            lines: lines(&(text + "[ 14.5] reboot: Restarting system\n")),
            exit: Exit::Reset,
            wall: Duration::ZERO,
        }
    }

    #[test]
    fn a_machine_that_went_down_in_another_way_is_no_figure() {
        let [without, drop_in, exitrd] = &INITRAMFS_TOOLS;
        let pivot = "systemd-shutdown[1]: Successfully changed into root pivot.";
        let taken = exitrd.taken(&boot(CONTROLLERS, pivot)).unwrap();
        assert!((taken.shutdown.reset - 4.5).abs() < 1e-9);
        for (way, boot) in [
            (exitrd, boot(CONTROLLERS, "")),
            (exitrd, boot(CONTROLLERS - 1, pivot)),
            (drop_in, boot(CONTROLLERS - 2, "")),
            (without, boot(CONTROLLERS, "")),
        ] {
            assert!(way.taken(&boot).is_err(), "{}", way.name);
        }
    }

    #[test]
    fn what_preparing_took_is_read() {
        let lines = lines(
            "[   40.250000] quell-mark: prepare\n\
             [   40.300000] quell: quell is the exitrd: /run/initramfs/shutdown, in its own tmpfs\n\
             [   40.500000] quell-mark: prepared\n\
             [   40.600000] quell-mark: took 31000 2097152 512\n",
        );
        let cost = Cost {
            wall: 0.25,
            cpu: 0.031,
            peak: 2.0,
            kept: 0.5,
        };
        assert_eq!(Cost::read(&lines), Some(cost));
        assert_eq!(Cost::read(&lines[..3]), None);
    }
}
