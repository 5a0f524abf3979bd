//! The configurations that share a VM: its four boots, and what they come to.

use super::compare;
use super::disks::{self, Out};
use super::dump::{Dump, Values};
use super::scripts::{self, Numbered};
use super::{Job, Verdict};
use crate::vm::{Boot, Drive, Exit, Machine, raw, target_dir};
use anyhow::{Context, Result, ensure};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// What is wrong, by the number of the configuration.
type Failures = BTreeMap<usize, Vec<String>>;

/// The configurations that share a VM.
pub(super) struct Batch<'a> {
    pub(super) job: &'a Job,
    /// Which of the job's VMs it is.
    pub(super) number: usize,
    pub(super) configs: &'a [Numbered],
    pub(super) dir: PathBuf,
}

/// What an assembly came to.
struct Assembled {
    dump: Dump,
    out: Out,
}

impl Assembled {
    fn values(&self, number: usize) -> &Values {
        static NONE: Values = Values::new();
        self.dump.configs.get(&number).unwrap_or(&NONE)
    }
}

impl Batch<'_> {
    /// All four boots.
    pub(super) fn run(&self) -> Result<Vec<Verdict>> {
        let made = disks::folder(self.dir.join("made"))?;
        let pattern = self.boot("make", &made, &scripts::make(self.configs))?;
        let (judge, other) = (self.dir.join("judge"), self.dir.join("other"));
        disks::copy(&made, &judge)?;
        disks::copy(&made, &other)?;
        let judge = self.assembled("mdadm", &judge, &scripts::mdadm(self.configs))?;
        let mut failures = Failures::new();
        self.as_meant(&judge, &pattern, &mut failures)?;
        let script = if self.job.with_itself {
            scripts::mdadm(self.configs)
        } else {
            let script = scripts::readonly(self.configs);
            let held = self.assembled("readonly", &other, &script)?;
            self.held(&judge, &held, &mut failures)?;
            self.unchanged(&made, &other, &mut failures)?;
            scripts::quell(self.configs)
        };
        let found = self.assembled("quell", &other, &script)?;
        self.compared(&judge, &found, &mut failures)?;
        let verdict = |each: &Numbered| Verdict {
            name: each.config.name,
            failures: failures.remove(&each.number).unwrap_or_default(),
        };
        Ok(self.configs.iter().map(verdict).collect())
    }

    /// The machine with the disks of all configurations, and one processor: two of these run at once.
    fn machine(&self, out: &Out) -> Result<Machine> {
        let mut machine = Machine::new(&self.job.kernel)?
            .mdadm(&self.job.mdadm)?
            .memory(1024)
            .cpus(1)
            .timeout(Duration::from_secs(400))
            .text("case/differential", scripts::LIBRARY, 0o644)
            .qemu(&out.arguments());
        if !self.job.with_itself {
            machine = machine.quell(&crate::build::quell()?);
        }
        for each in self.configs {
            for (number, disk) in each.config.disks.iter().enumerate() {
                machine = machine.drive(Drive {
                    kind: disk.0,
                    block: disk.1,
                    serial: each.serial(number),
                    mib: 48,
                    ..Drive::default()
                });
            }
        }
        Ok(machine)
    }

    /// Boots once and gives what was written to the out disk. Console and text are kept: a person wants them after a failure.
    fn boot(&self, name: &str, disks: &Path, script: &str) -> Result<Out> {
        let out = Out::new(self.dir.join(format!("{name}.out")))?;
        let boot = self.machine(&out)?.boot(disks, script, &mut |_| ())?;
        let dir = target_dir().join("differential");
        fs::create_dir_all(&dir)?;
        let Job { kernel, mdadm, .. } = self.job;
        let log = dir.join(format!("{kernel}-{mdadm}-{}-{name}.log", self.number));
        let lines: Vec<String> = boot.lines.iter().map(raw).collect();
        fs::write(&log, lines.join("\n"))?;
        let last = lines.len().saturating_sub(20);
        ensure!(
            ended_well(&boot),
            "the boot `{name}` ended as {:?} after {:.0} s\n{}\nits console is in {}",
            boot.exit,
            boot.wall.as_secs_f64(),
            lines.get(last..).unwrap_or_default().join("\n"),
            log.display()
        );
        Ok(out)
    }

    fn assembled(&self, name: &str, disks: &Path, script: &str) -> Result<Assembled> {
        let out = self.boot(name, disks, script)?;
        let dump = Dump::parse(&out.text()?).with_context(|| format!("the boot `{name}`"))?;
        Ok(Assembled { dump, out })
    }

    /// Whether what mdadm assembled is what it was meant to be. Otherwise nothing would be proven.
    fn as_meant(&self, judge: &Assembled, pattern: &Out, failures: &mut Failures) -> Result<()> {
        let pattern = pattern.head(0, 2)?;
        for each in self.configs {
            for volume in 0..each.config.volumes.len() {
                let label = format!("volume {volume}");
                let holds = match judge.dump.contents.get(&(each.number, label)) {
                    Some(content) => judge.out.head(content.at, 2)? == pattern,
                    None => false,
                };
                if !holds {
                    fail(
                        failures,
                        *each,
                        format!("mdadm's volume {volume} does not hold what was written"),
                    );
                }
            }
        }
        Ok(())
    }

    /// What is wrong with a read-only assembly: every volume is there, held and whole; one with a PPL is not, since md writes
    /// into the log when it starts, whatever it is told.
    fn held(&self, judge: &Assembled, held: &Assembled, failures: &mut Failures) -> Result<()> {
        for each in self.configs {
            for volume in 0..each.config.volumes.len() {
                let label = format!("volume {volume}");
                let state = held
                    .values(each.number)
                    .get(&format!("{label}/md/array_state"))
                    .map_or("not there", String::as_str);
                let wanted = if each.config.has_ppl() {
                    "not there"
                } else {
                    "readonly"
                };
                if state != wanted {
                    fail(
                        failures,
                        *each,
                        format!("--readonly: {label} is {state}, and should be {wanted}"),
                    );
                } else if state == "readonly"
                    && let Some(what) = content(*each, &label, judge, held)?
                {
                    fail(failures, *each, format!("--readonly: {what}"));
                }
            }
        }
        Ok(())
    }

    /// Whether every byte of every disk is as it was.
    fn unchanged(&self, before: &Path, after: &Path, failures: &mut Failures) -> Result<()> {
        let disks = self
            .configs
            .iter()
            .flat_map(|each| (0..each.config.disks.len()).map(move |disk| (*each, disk)));
        for (place, (each, disk)) in disks.enumerate() {
            let file = format!("d{place}n1.raw");
            if let Some(at) = disks::first_difference(&before.join(&file), &after.join(&file))? {
                fail(
                    failures,
                    each,
                    format!("--readonly: disk D{disk} has changed, in the 64 KiB at byte {at}"),
                );
            }
        }
        Ok(())
    }

    fn compared(
        &self,
        judge: &Assembled,
        found: &Assembled,
        failures: &mut Failures,
    ) -> Result<()> {
        for each in self.configs {
            let number = each.number;
            for what in compare::differences(judge.values(number), found.values(number)) {
                fail(failures, *each, what);
            }
            for volume in 0..each.config.volumes.len() {
                if let Some(what) = content(*each, &format!("volume {volume}"), judge, found)? {
                    fail(failures, *each, what);
                }
            }
            for stray in &found.dump.strays {
                fail(
                    failures,
                    *each,
                    format!("{stray} has no member of any configuration"),
                );
            }
        }
        Ok(())
    }
}

fn fail(failures: &mut Failures, each: Numbered, what: String) {
    failures.entry(each.number).or_default().push(what);
}

/// What is wrong with a volume's content. One that is there on one side only is found elsewhere.
fn content(
    each: Numbered,
    label: &str,
    judge: &Assembled,
    found: &Assembled,
) -> Result<Option<String>> {
    let place = |of: &Assembled| {
        of.dump
            .contents
            .get(&(each.number, label.to_owned()))
            .copied()
    };
    let (Some(here), Some(there)) = (place(judge), place(found)) else {
        return Ok(None);
    };
    let differs = judge.out.differs(here, &found.out, there)?;
    Ok(differs.map(|mib| format!("{label} holds something else, first in MiB {mib}")))
}

fn ended_well(boot: &Boot) -> bool {
    boot.exit == Exit::Script
        && boot
            .lines
            .iter()
            .any(|line| line.text == "quell-case: script rc=0")
}
