//! `cargo xtask differential`: mdadm is the judge of what quell assembles.
//!
//! For each configuration of `differential/table.rs` mdadm makes an array in a VM and leaves it in some state. Then, from
//! copies of the same disks, once mdadm assembles it as a boot would, and once quell. What md was told (every file below
//! /sys/block/md*/md, the members' too), what mdadm says of it, the map file, the links and the content of each volume have
//! to be the same; and a read-only assembly by quell may not change a byte of any member.
//!
//! Several configurations share a VM, so its four boots (make, mdadm, quell read only, quell) are paid once for all of them.
//! What a boot finds it writes to a disk of its own: a console would take minutes for it.

mod batch;
mod compare;
mod disks;
mod dump;
mod scripts;
mod table;

use crate::setup::KERNELS;
use anyhow::{Context, Result, bail, ensure};
use batch::Batch;
use scripts::Numbered;
use std::fs;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::Instant;
use table::TABLE;

/// At most so many disks are in one VM: mdadm looks at each of them for every container.
const DISKS: usize = 30;
/// So many VMs run at once.
const AT_ONCE: usize = 2;

/// What to run.
#[derive(Clone, Debug)]
pub(crate) struct Job {
    pub(crate) kernel: String,
    pub(crate) mdadm: String,
    /// mdadm assembles on both sides: what differs then is no fault of quell's.
    with_itself: bool,
    configs: Vec<Numbered>,
}

/// What one configuration came to.
#[derive(Debug)]
pub(crate) struct Verdict {
    pub(crate) name: &'static str,
    /// What was wrong; empty is a pass.
    pub(crate) failures: Vec<String>,
}

impl Job {
    /// All configurations that `wanted` takes and this mdadm can make.
    pub(crate) fn new(kernel: &str, mdadm: &str, wanted: impl Fn(&str, bool) -> bool) -> Self {
        let configs = TABLE
            .iter()
            .enumerate()
            .map(|(number, config)| Numbered { number, config })
            .filter(|each| wanted(each.config.name, each.config.quick))
            .filter(|each| !each.config.beyond.contains(&mdadm))
            .collect();
        Self {
            kernel: kernel.to_owned(),
            mdadm: mdadm.to_owned(),
            with_itself: false,
            configs,
        }
    }

    /// Runs it, some VMs at a time, and tells each verdict as it is known.
    pub(crate) fn run(&self, each: &mut dyn FnMut(Verdict)) -> Result<()> {
        let dir = tempfile::tempdir().context("no temporary folder for disks")?;
        let batches = batches(&self.configs);
        let one = |number: usize, configs| {
            let batch = Batch {
                job: self,
                number,
                configs,
                alone: batches.len() == 1,
                dir: disks::folder(dir.path().join(number.to_string()))?,
            };
            let verdicts = batch.run();
            // The disks of a batch that is done only take room.
            let _ = fs::remove_dir_all(&batch.dir);
            verdicts
        };
        let next = AtomicUsize::new(0);
        let (tell, told) = mpsc::channel();
        let worker = |tell: mpsc::Sender<_>| {
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                let Some(configs) = batches.get(number) else {
                    return;
                };
                let _ = tell.send(one(number, configs));
            }
        };
        thread::scope(|scope| {
            for _ in 0..AT_ONCE {
                let tell = tell.clone();
                scope.spawn(|| worker(tell));
            }
            drop(tell);
            let mut failed = Ok(());
            for done in told {
                match done {
                    Ok(verdicts) => verdicts.into_iter().for_each(&mut *each),
                    // The other VMs' verdicts are still worth having.
                    Err(error) => failed = Err(error),
                }
            }
            failed
        })
    }
}

/// The configurations of each VM.
fn batches(configs: &[Numbered]) -> Vec<Vec<Numbered>> {
    let mut batches: Vec<Vec<Numbered>> = Vec::new();
    let mut disks = DISKS;
    for each in configs {
        disks += each.config.disks.len();
        if disks > DISKS {
            disks = each.config.disks.len();
            batches.push(Vec::new());
        }
        if let Some(batch) = batches.last_mut() {
            batch.push(*each);
        }
    }
    batches
}

/// Runs the command.
pub(crate) fn run(args: &[String]) -> Result<()> {
    let usage = "usage: cargo xtask differential [--kernel 6.1|6.12] [--mdadm 4.2|4.4|4.6] [--with-itself] [NAME...] | --list";
    let (mut kernel, mut mdadm, mut with_itself) = ("6.12", "4.6", false);
    let mut patterns: Vec<&str> = Vec::new();
    let mut args = args.iter().map(String::as_str);
    while let Some(arg) = args.next() {
        match arg {
            "--list" => {
                for config in TABLE {
                    println!("{}", config.name);
                }
                return Ok(());
            }
            "--kernel" => kernel = args.next().context(usage)?,
            "--mdadm" => mdadm = args.next().context(usage)?,
            "--with-itself" => with_itself = true,
            option if option.starts_with('-') => bail!("{usage}"),
            pattern => patterns.push(pattern),
        }
    }
    ensure!(KERNELS.contains(&kernel), "{usage}");
    let takes = |name: &str, _| patterns.is_empty() || patterns.iter().any(|p| name.contains(p));
    let mut job = Job::new(kernel, mdadm, takes);
    job.with_itself = with_itself;
    ensure!(
        !job.configs.is_empty(),
        "no configuration is named {}",
        patterns.join(" or ")
    );
    for config in TABLE {
        if takes(config.name, false) && config.beyond.contains(&mdadm) {
            println!("{}: mdadm {mdadm} cannot make it", config.name);
        }
    }
    let start = Instant::now();
    let mut failed = 0;
    job.run(&mut |verdict| {
        if verdict.failures.is_empty() {
            println!("{}: the same", verdict.name);
        } else {
            failed += 1;
            println!("{}: FAILED", verdict.name);
            for failure in &verdict.failures {
                println!("    {failure}");
            }
        }
    })?;
    println!(
        "{} configurations on {kernel} with mdadm {mdadm}: {failed} failed, {:.0} s",
        job.configs.len(),
        start.elapsed().as_secs_f64()
    );
    ensure!(failed == 0, "{failed} failed");
    Ok(())
}
