//! `cargo xtask demo [--save]`: the main job where people can watch it.
//!
//! One VM with slow drives is shut down twice: left to the kernel, which does one controller after the other, and with
//! quell, which does them all at once. What is shown comes from the test module's lines on the VM's console, not from
//! quell.

mod board;
mod live;
mod svg;

use crate::bench::machines::{self, How};
use crate::bench::timing::Shutdown;
use crate::build::root;
use crate::vm::{Machine, target_dir};
use anyhow::{Context, Result, bail, ensure};
use board::{Board, Drive};
use std::fs;
use std::io::IsTerminal;

const KERNEL: &str = "6.12";

/// What each drive takes, in milliseconds: 12 drives of 1.5 to 6 s in no order.
const TIMES_MS: [u32; 12] = [
    3000, 1500, 4500, 2000, 6000, 2500, 3500, 1800, 5000, 4000, 2200, 3200,
];

/// One of the two shutdowns.
#[derive(Clone, Debug)]
struct Run {
    title: &'static str,
    how: How,
}

const RUNS: [Run; 2] = [
    Run {
        title: "left to the kernel",
        how: How::Kernel,
    },
    Run {
        title: "with quell",
        how: How::Quell(""),
    },
];

fn drives() -> Vec<Drive> {
    (1..)
        .zip(TIMES_MS)
        .map(|(bus, ms)| Drive {
            // The bench puts each controller behind a root port of its own.
            address: format!("0000:{bus:02x}:00.0"),
            ms,
        })
        .collect()
}

/// The module's list of times.
fn slow(drives: &[Drive]) -> String {
    let each: Vec<String> = drives
        .iter()
        .map(|drive| format!("{}={}", drive.address, drive.ms))
        .collect();
    format!("slow slow={}", each.join(","))
}

/// Runs the command.
pub(crate) fn run(args: &[String]) -> Result<()> {
    let save = match args {
        [] => false,
        [flag] if flag == "--save" => true,
        _ => bail!("usage: cargo xtask demo [--save] (--save puts the picture into doc/, too)"),
    };
    let drives = drives();
    let machine = machines::machine(KERNEL, u32::try_from(drives.len())?)?;
    let serial: u32 = TIMES_MS.iter().sum();
    println!(
        "{} NVMe controllers that take {:.1} to {:.1} s each to shut down, {:.1} s together",
        drives.len(),
        seconds(TIMES_MS.iter().min()),
        seconds(TIMES_MS.iter().max()),
        f64::from(serial) / 1e3
    );
    // A little more than they take one after the other: both runs are shown on this one axis.
    let axis = f64::from(serial) / 1e3 * 1.12;
    let colour = std::io::stdout().is_terminal();
    let mut boards = Vec::new();
    for run in &RUNS {
        boards.push(watch(&machine, run, &drives, axis, colour)?);
    }
    let [kernel, quell] = boards.as_slice() else {
        bail!("two runs are compared");
    };
    // The first thing on screen was live, by the host's clock; this is by the VM kernel's own.
    println!();
    let longest = kernel.end().max(quell.end()) * 1.02;
    for board in [kernel, quell] {
        for line in board.chart(longest, colour) {
            println!("{line}");
        }
        println!();
    }
    println!(
        "{:.1} s with the kernel alone, {:.1} s with quell: {:.1} s saved",
        kernel.end(),
        quell.end(),
        kernel.end() - quell.end()
    );
    let picture = svg::draw(kernel, quell);
    let dir = target_dir().join("demo");
    fs::create_dir_all(&dir)?;
    let path = dir.join("timeline.svg");
    fs::write(&path, &picture).with_context(|| format!("cannot write {}", path.display()))?;
    println!("{}", path.display());
    if save {
        let path = root().join("doc/timeline.svg");
        fs::create_dir_all(root().join("doc"))?;
        fs::write(&path, &picture).with_context(|| format!("cannot write {}", path.display()))?;
        println!("{}", path.display());
    }
    Ok(())
}

fn seconds(ms: Option<&u32>) -> f64 {
    f64::from(ms.copied().unwrap_or(0)) / 1e3
}

/// Boots the VM once, shows it live, and gives back what the kernel's clock said of it.
fn watch(machine: &Machine, run: &Run, drives: &[Drive], axis: f64, colour: bool) -> Result<Board> {
    let board = Board::new(run.title, drives);
    let script = machines::script(u32::try_from(drives.len())?, &slow(drives), run.how);
    let live = live::Live::start(board.clone(), axis, colour);
    let boot = machine.boot_once(&script, &mut |line| live.line(line));
    live.end();
    let shutdown = Shutdown::of(&boot?)?;
    ensure!(
        shutdown.spans.len() == drives.len(),
        "only {} of {} controllers were shut down",
        shutdown.spans.len(),
        drives.len()
    );
    Ok(board.filled(&shutdown))
}
