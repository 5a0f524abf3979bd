//! The configurations that share a VM: its four boots, and what they come to.

use super::compare;
use super::disks::{self, Out};
use super::dump::{Dump, Values};
use super::scripts::{self, Numbered};
use super::{Job, Verdict};
use crate::vm::{Boot, Drive, Exit, Machine, raw, target_dir};
use anyhow::{Context, Result, anyhow, ensure};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

/// What is wrong, by the number of the configuration.
type Failures = BTreeMap<usize, Vec<String>>;

/// The configurations that share a VM.
pub(super) struct Batch<'a> {
    pub(super) job: &'a Job,
    /// Which of the job's VMs it is.
    pub(super) number: usize,
    pub(super) configs: &'a [Numbered],
    /// No other batch runs beside it.
    pub(super) alone: bool,
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

/// What quell made of the disks.
struct Other {
    /// Read only; not where mdadm is on both sides.
    held: Option<Assembled>,
    found: Assembled,
    /// What is wrong with the disks' own bytes after the first.
    failures: Failures,
}

impl Batch<'_> {
    /// All four boots.
    pub(super) fn run(&self) -> Result<Vec<Verdict>> {
        let made = disks::folder(self.dir.join("made"))?;
        let pattern = self.boot("make", &made, &scripts::make(self.configs))?;
        let (judge, other) = self.both(&made)?;
        let mut failures = other.failures;
        self.as_meant(&judge, &pattern, &mut failures)?;
        if let Some(held) = other.held {
            self.held(&judge, &held, &mut failures)?;
        }
        self.compared(&judge, &other.found, &mut failures)?;
        let verdict = |each: &Numbered| Verdict {
            name: each.config.name,
            failures: failures.remove(&each.number).unwrap_or_default(),
        };
        Ok(self.configs.iter().map(verdict).collect())
    }

    /// mdadm's assembly and quell's, at the same time where no other batch runs beside this one.
    fn both(&self, made: &Path) -> Result<(Assembled, Other)> {
        let judge = || {
            let disks = self.dir.join("judge");
            disks::copy(made, &disks)?;
            self.assembled("mdadm", &disks, &scripts::mdadm(self.configs))
        };
        let other = || self.other(made);
        if !self.alone {
            return Ok((judge()?, other()?));
        }
        thread::scope(|scope| {
            let judge = scope.spawn(judge);
            let other = other();
            let judge = judge
                .join()
                .map_err(|_| anyhow!("mdadm's thread has panicked"))?;
            Ok((judge?, other?))
        })
    }

    /// quell's assemblies, read only and then in earnest, on the same copy: the first may not have changed it.
    fn other(&self, made: &Path) -> Result<Other> {
        let disks = self.dir.join("other");
        disks::copy(made, &disks)?;
        let mut failures = Failures::new();
        let mut held = None;
        let mut script = scripts::mdadm(self.configs);
        if !self.job.with_itself {
            held = Some(self.assembled("readonly", &disks, &scripts::readonly(self.configs))?);
            self.unchanged(made, &disks, &mut failures)?;
            script = scripts::quell(self.configs);
        }
        Ok(Other {
            held,
            found: self.assembled("quell", &disks, &script)?,
            failures,
        })
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
        fs::write(log.with_extension("txt"), out.text()?)?;
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
            let values = held.values(each.number);
            let wanted = if each.config.has_ppl() {
                "not there"
            } else {
                "readonly"
            };
            let mut wrong = Vec::new();
            for volume in 0..each.config.volumes.len() {
                let label = format!("volume {volume}");
                let state = values.get(&format!("{label}/md/array_state"));
                let state = state.map_or("not there", String::as_str);
                if state != wanted {
                    wrong.push(format!("{label} is {state}, and should be {wanted}"));
                }
                wrong.extend(content(*each, &label, judge, held)?);
            }
            if !each.config.has_ppl() {
                wrong.extend(compare::geometry(
                    each.config.state,
                    judge.values(each.number),
                    values,
                ));
            }
            for what in wrong {
                fail(failures, *each, format!("--readonly: {what}"));
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
            for what in compare::differences(
                each.config.state,
                judge.values(number),
                found.values(number),
            ) {
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
