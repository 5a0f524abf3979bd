//! The VMs that figures come from, and what runs in them.

use super::timing::{Shutdown, range};
use crate::build;
use crate::vm::{Boot, Machine, raw, target_dir};
use anyhow::{Context, Result};
use std::fs;
use std::time::Duration;

/// Controllers in every VM here.
pub(crate) const CONTROLLERS: u32 = 24;

/// What becomes of the controllers before the reboot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum How {
    /// Nothing: the kernel's own shutdown does them, one after the other.
    Kernel,
    /// quell does them, with these further arguments.
    Quell(&'static str),
    /// A shell process for each writes its address to `unbind`: what parallelism alone gives, with nothing checked.
    Shells,
    /// The same, and it cannot make grace periods short: its write goes to a file of no effect.
    QuellWithoutExpedited,
}

/// The script: `before` sets the scene, then the call, then the reboot. The same lines in every case but for the call.
pub(crate) fn script(controllers: u32, before: &str, how: How) -> String {
    let (prepare, call) = match how {
        How::Kernel => ("", String::new()),
        How::Quell(more) => ("", call(more)),
        How::Shells => (
            "list=$(addrs)\n",
            format!(
                "for addr in $list; do unbind \"$addr\" & done\nwait\nmark {}\n",
                super::timing::DONE
            ),
        ),
        How::QuellWithoutExpedited => (
            "echo 0 >/tmp/held\nmount --bind /tmp/held /sys/kernel/rcu_expedited\n",
            call(""),
        ),
    };
    format!(
        "wait_nvme {controllers}\n{before}\n{prepare}mark {}\n{call}finish reboot\n",
        super::timing::START
    )
}

fn call(more: &str) -> String {
    format!(
        "quell shutdown reboot --stage=exitrd {more} || die \"quell: exit $?\"\nmark {}\n",
        super::timing::DONE
    )
}

/// A VM with so many plain drives, and quell in it.
pub(crate) fn machine(kernel: &str, controllers: u32) -> Result<Machine> {
    Ok(Machine::new(kernel)?
        .nvme(controllers)
        .quell(&build::quell()?)
        .timeout(Duration::from_secs(600)))
}

/// Boots `machine` once, keeps its console, and reads what its shutdown took.
fn shutdown(machine: &Machine, before: &str, how: How, console: &str) -> Result<Shutdown> {
    let script = script(CONTROLLERS, before, how);
    let boot = machine.boot_once(&script, &mut |_| {})?;
    keep(&boot, console)?;
    Shutdown::of(&boot).with_context(|| format!("{how:?}, console target/bench/{console}.log"))
}

/// Keeps a boot's console in target/bench.
pub(crate) fn keep(boot: &Boot, name: &str) -> Result<()> {
    let dir = target_dir().join("bench");
    fs::create_dir_all(&dir)?;
    let lines: Vec<String> = boot.lines.iter().map(raw).collect();
    fs::write(dir.join(format!("{name}.log")), lines.join("\n") + "\n")?;
    Ok(())
}

/// Takes each of `variants` once a round, so that whatever else the host does falls on all of them alike; another one
/// goes first in each round, since a host that has just booted a VM is another host. `take` is told the round, from 1,
/// and the variant with its number, from 0.
pub(crate) fn in_turn<V, T>(
    rounds: usize,
    variants: &[V],
    mut take: impl FnMut(usize, usize, &V) -> Result<T>,
) -> Result<Vec<Vec<T>>> {
    let mut all: Vec<Vec<T>> = variants.iter().map(|_| Vec::new()).collect();
    for round in 1..=rounds {
        let mut turns: Vec<_> = variants.iter().zip(&mut all).enumerate().collect();
        let first = (round - 1) % turns.len().max(1);
        turns.rotate_left(first);
        for (n, (variant, taken)) in turns {
            taken.push(take(round, n, variant)?);
        }
    }
    Ok(all)
}

/// Shuts `machine` down in each of `variants`, in turn.
pub(crate) fn rounds(
    name: &str,
    rounds: usize,
    machine: &Machine,
    before: &str,
    variants: &[How],
) -> Result<Vec<Vec<Shutdown>>> {
    in_turn(rounds, variants, |round, n, how| {
        let console = format!("{name}-{round}-{}", n + 1);
        let one = shutdown(machine, before, *how, &console)?;
        eprintln!("    round {round} of {rounds}, {how:?}: {}", course(&one));
        Ok(one)
    })
}

/// Where the time went.
pub(crate) fn course(shutdown: &Shutdown) -> String {
    let mut text = String::new();
    let begins: Vec<f64> = shutdown.spans.iter().map(|span| span.begin).collect();
    let ends: Vec<f64> = shutdown.spans.iter().map(|span| span.end).collect();
    if !begins.is_empty() {
        let ((first, last), (early, late)) = (range(&begins), range(&ends));
        text += &format!("begins {first:.2} to {last:.2} s, ends {early:.2} to {late:.2} s, ");
        text += &format!("at most {} at once, ", shutdown.inflight);
    }
    if let Some(done) = shutdown.done {
        text += &format!("the call's end {done:.2} s, ");
    }
    text + &format!("reset {:.2} s", shutdown.reset)
}

/// From the call to the reset, of each.
pub(crate) fn resets(shutdowns: &[Shutdown]) -> Vec<f64> {
    shutdowns.iter().map(|one| one.reset).collect()
}
