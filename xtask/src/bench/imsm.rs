//! Figures of Intel RAID, each against mdadm, which is called in turn with quell in one VM.
//!
//! The VM's own clock is read by the shell that makes both calls (`imsm.sh`), to the microsecond and without a process more.

use super::Options;
use super::machines::{How, keep, machine, script};
use super::row::{Row, millis, seconds};
use super::shutdowns::{SLOW, SLOW_S};
use super::timing::{Shutdown, median};
use crate::setup;
use crate::vm::{Boot, Line, Machine};
use anyhow::{Context, Result, ensure};

/// What the scripts here call.
const LIBRARY: &str = include_str!("imsm.sh");
/// The mdadm and mdmon that are in the VMs.
const MDADM: &str = "4.6";
/// The kernel that the md module with the wait is for.
const WAIT_KERNEL: &str = "6.12";
const ROUNDS: usize = 9;
/// Disks in a container.
const MEMBERS: u32 = 4;

/// Two redundant volumes over all members.
const REDUNDANT: &str = "create 4 'five --level=5 --raid-devices=4 /dev/md/imsm0' 'ten --level=10 --raid-devices=4 /dev/md/imsm0'\nstop\n";
/// One that needs no mdmon.
const STRIPE: &str = "create 4 'zero --level=0 --raid-devices=4 /dev/md/imsm0'\nstop\n";

/// From the call until it has ended and every volume can be used.
pub(super) fn assemble(options: &Options) -> Result<Vec<Row>> {
    const MANY: u32 = 24;
    let rounds = options.rounds(ROUNDS);
    let few = run(
        &imsm_machine(&options.kernel, MEMBERS)?,
        "assemble",
        &format!(
            "ready {MEMBERS}\n{REDUNDANT}rounds {rounds} assembly redundant 2\n\
             mdadm --zero-superblock $(members {MEMBERS})\n{STRIPE}rounds {rounds} assembly stripe 1\n"
        ),
    )?;
    let many = run(
        &imsm_machine(&options.kernel, MANY)?,
        "assemble-many",
        &format!("ready {MANY}\n{STRIPE}rounds {rounds} assembly many 1\n"),
    )?;
    let peer = "mdadm --assemble --scan";
    Ok(vec![
        Took::of(&few, "redundant", rounds)?.row(
            &format!(
                "assemble 2 redundant volumes on {MEMBERS} drives, mdmon's start included: {peer}"
            ),
            0.6,
        ),
        Took::of(&few, "stripe", rounds)?.row(
            &format!("assemble one RAID0 volume on {MEMBERS} drives: {peer}"),
            0.45,
        ),
        Took::of(&many, "many", rounds)?.row(
            &format!(
                "the same among {MANY} drives, {} of them no members: {peer}",
                MANY - MEMBERS
            ),
            0.5,
        ),
    ])
}

/// From the call until it has ended and neither an array nor an mdmon is left.
pub(super) fn teardown(options: &Options) -> Result<Vec<Row>> {
    let rounds = options.rounds(ROUNDS);
    let boot = run(
        &imsm_machine(&options.kernel, MEMBERS)?,
        "teardown",
        &format!("ready {MEMBERS}\n{REDUNDANT}rounds {rounds} teardown 2\n"),
    )?;
    Ok(vec![Took::of(&boot, "teardown", rounds)?.row(
        "tear down 2 redundant volumes just written to: mdadm --wait-clean --scan, then --stop --scan",
        0.6,
    )])
}

/// From the call until a disk is out of its container, on an md that makes the ioctl for it wait.
pub(super) fn remove(options: &Options) -> Result<Vec<Row>> {
    let rounds = options.rounds(ROUNDS);
    // Its own md comes before all that would bring in the kernel's.
    let machine = imsm_machine(WAIT_KERNEL, MEMBERS)?
        .modules(&["nvme".to_owned()])
        .file("case/md-mod.ko", &setup::md_with_wait(WAIT_KERNEL)?, 0o644);
    let boot = run(
        &machine,
        "remove",
        &format!(
            "insmod /case/md-mod.ko\nmodprobe raid1\nready {MEMBERS}\n\
             create {MEMBERS} \"mirror --level=1 --raid-devices=2 $(dev QUELL0000) $(dev QUELL0001)\"\n\
             rounds {rounds} removal \"$(disk_of QUELL0003)\"\n"
        ),
    )?;
    Ok(vec![Took::of(&boot, "removal", rounds)?.row(
        "remove a disk from a container, the wait of kernels 6.7 to 6.10 in md: mdadm --remove",
        0.05,
    )])
}

/// A whole shutdown: RAID first, then every drive.
pub(super) fn container(options: &Options) -> Result<Vec<Row>> {
    const CONTROLLERS: u32 = 12;
    let machine = imsm_machine(&options.kernel, CONTROLLERS)?;
    let before = format!(
        ". /case/imsm\nready {CONTROLLERS}\n\
         create {MEMBERS} 'five --level=5 --raid-devices=4 /dev/md/imsm0' 'zero --level=0 --raid-devices=4 /dev/md/imsm0'\n\
         dirty\n{SLOW}\n"
    );
    let rounds = options.rounds(ROUNDS);
    let mut took = Vec::new();
    for round in 1..=rounds {
        let script = script(CONTROLLERS, &before, How::Quell(""));
        let boot = machine.boot_once(&script, &mut |_| {})?;
        keep(&boot, &format!("container-{round}"))?;
        let one = Shutdown::of(&boot)?;
        let shut = one.spans.len();
        ensure!(
            u32::try_from(shut) == Ok(CONTROLLERS),
            "only {shut} of {CONTROLLERS} controllers were shut down, those of the container among the others"
        );
        let done = one.done.context("quell's end was not marked")?;
        eprintln!(
            "    round {round} of {rounds}: {done:.2} s, slowest {:.2} s",
            one.slowest()
        );
        took.push(done);
    }
    let ratio = median(&took) / SLOW_S;
    Ok(vec![
        Row::new(format!(
            "RAID5 and RAID0 on {MEMBERS} of {CONTROLLERS} controllers x {SLOW_S} s, teardown and quiesce: one controller's time"
        ))
        .measured(seconds(&took))
        .peer(format!("{SLOW_S:.2} s"))
        .ratio(format!("{ratio:.2}"))
        .gate("at most 1.50", ratio <= 1.5),
    ])
}

/// A VM with so many drives, mdadm, and what md needs loaded beforehand: neither side waits for modules.
fn imsm_machine(kernel: &str, drives: u32) -> Result<Machine> {
    let modules = ["nvme", "raid0", "raid1", "raid10", "raid456"].map(str::to_owned);
    Ok(machine(kernel, drives)?
        .mdadm(MDADM)?
        .modules(&modules)
        .text("case/imsm", LIBRARY, 0o644))
}

/// Runs a script with the library, shows each round as it ends, and keeps its console.
fn run(machine: &Machine, name: &str, script: &str) -> Result<Boot> {
    let mut show = |line: &Line| {
        if let Some((figure, who, took)) = round(line) {
            eprintln!("    {figure}, {who}: {:.0} ms", took * 1e3);
        }
    };
    let boot = machine.boot_once(&format!(". /case/imsm\n{script}"), &mut show)?;
    keep(&boot, name)?;
    Ok(boot)
}

/// What one figure took each of the two, in seconds, round by round.
#[derive(Debug)]
struct Took {
    quell: Vec<f64>,
    mdadm: Vec<f64>,
}

impl Took {
    /// All rounds of a figure, or an error: a round that is missing is no figure.
    fn of(boot: &Boot, figure: &str, rounds: usize) -> Result<Self> {
        let took = Self::read(&boot.lines, figure);
        ensure!(
            took.quell.len() == rounds && took.mdadm.len() == rounds,
            "{} rounds of quell and {} of mdadm came to their end, not {rounds}: {}",
            took.quell.len(),
            took.mdadm.len(),
            last_words(&boot.lines)
        );
        Ok(took)
    }

    fn read(lines: &[Line], figure: &str) -> Self {
        let of = |who: &str| -> Vec<f64> {
            let rounds = lines.iter().filter_map(round);
            rounds
                .filter(|(of, by, _)| *of == figure && *by == who)
                .map(|(_, _, took)| took)
                .collect()
        };
        Self {
            quell: of("quell"),
            mdadm: of("mdadm"),
        }
    }

    fn row(&self, figure: &str, limit: f64) -> Row {
        let ratio = median(&self.quell) / median(&self.mdadm);
        Row::new(figure)
            .measured(millis(&self.quell))
            .peer(millis(&self.mdadm))
            .ratio(format!("{ratio:.3}"))
            .gate(format!("at most {limit:.2}"), ratio <= limit)
    }
}

/// The mark of one round: of which figure, whose, and how long in seconds.
fn round(line: &Line) -> Option<(&str, &str, f64)> {
    let mut words = line.text.strip_prefix("quell-mark: took ")?.split(' ');
    let (figure, who) = (words.next()?, words.next()?);
    let from: f64 = words.next()?.parse().ok()?;
    let to: f64 = words.next()?.parse().ok()?;
    Some((figure, who, to - from))
}

/// Why a script ended, where it says so.
fn last_words(lines: &[Line]) -> &str {
    let said = lines
        .iter()
        .find(|line| line.text.starts_with("quell-case: FAIL"));
    said.or(lines.last()).map_or("", |line| &line.text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn rounds_are_read() {
        let lines: Vec<Line> = "\
[    9.000000] quell-mark: took stripe quell 1796060726.870188 1796060726.923542
[    9.500000] quell-mark: took stripe mdadm 1796060727.000000 1796060727.500000
[   10.000000] quell-mark: took many quell 1796060727.000000 1796060727.500000"
            .lines()
            .map(|line| Line::parse(Duration::ZERO, line))
            .collect();
        let took = Took::read(&lines, "stripe");
        assert_eq!((took.quell.len(), took.mdadm.len()), (1, 1));
        assert!((took.quell[0] - 0.053_354).abs() < 1e-5);
        let row = took.row("x", 0.45);
        assert_eq!((row.ratio.as_str(), row.reached), ("0.107", Some(true)));
    }
}
