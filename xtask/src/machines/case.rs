//! A case: one TOML file below `tests/machines/` with the userlands it runs on, what runs in each boot and what must be seen.

use super::disks;
use super::image::Package;
use super::root::Root;
use crate::setup;
use crate::vm::{self, Boot, Drive, End, See};
use anyhow::{Context, Result, bail, ensure};
use serde::{Deserialize, Deserializer};
use std::collections::BTreeMap;
use std::fs;
use std::time::Duration;

/// One case.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Case {
    /// The file's name without `.case`.
    #[serde(skip)]
    pub(crate) name: String,
    /// What it shows.
    pub(crate) title: String,
    /// The name of another case that it is like: how its boots end, what runs in them and what must be seen is that one's,
    /// unless it says so itself, and what it wants seen comes on top.
    #[serde(default)]
    like: Option<String>,
    /// The userlands on which the quick run takes it.
    #[serde(default)]
    pub(crate) quick: Vec<String>,
    /// The userlands it runs on; all of them where it says nothing.
    #[serde(default)]
    userlands: Vec<String>,
    /// Debian packages that its userlands have beside what all have.
    #[serde(default)]
    pub(crate) packages: Vec<String>,
    /// What has become of quell's package: `installed`, `none`, `carried` or `removed`.
    #[serde(default)]
    pub(crate) package: Package,
    /// What the root file system lies on: `volume`, `partition`, `lvm` or `luks`.
    #[serde(default)]
    pub(crate) root: Root,
    /// More words for the kernel command line.
    #[serde(default)]
    pub(crate) append: String,
    /// Words of the machine's own that its kernel command line does without, by what stands before their `=`.
    #[serde(default)]
    pub(super) without: Vec<String>,
    /// Seconds for each boot.
    #[serde(default = "default_timeout")]
    timeout: u64,
    /// Further drives, empty ones, behind those that every machine has.
    #[serde(default)]
    pub(super) drive: Vec<Drive>,
    /// How a boot must end that does not say it itself.
    end: Option<End>,
    /// Each boot.
    #[serde(default, deserialize_with = "starts")]
    pub(super) boot: Vec<Start>,
    /// What is usually a failure and is wanted here: `aborted`, `panic`, `trace`.
    #[serde(default)]
    allow: Vec<String>,
    /// What must be seen. Empty is a failure.
    #[serde(default)]
    see: Vec<See>,
}

fn default_timeout() -> u64 {
    600
}

/// One boot of a case.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Start {
    /// What runs in it when all else is up.
    pub(super) script: String,
    /// More words for its kernel command line.
    pub(super) append: String,
    /// How it must end, where not as the case says.
    end: Option<End>,
    /// The drives that are not there, counted from 1.
    pub(super) away: Vec<usize>,
    /// Files put over those of the initramfs, programs or rules, by their path in it.
    pub(super) over: BTreeMap<String, String>,
    /// What it writes is thrown away: the next boot has the drives as this one found them.
    pub(super) forget: bool,
}

/// A boot as it stands in a file: a script alone where nothing else is to be said.
#[derive(Deserialize)]
#[serde(
    untagged,
    expecting = "a boot is a script, or a table with `script` and perhaps append, end, away, over, forget"
)]
enum Written {
    Script(String),
    Table(Start),
}

fn starts<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<Start>, D::Error> {
    let boots = Vec::<Written>::deserialize(from)?;
    Ok(boots
        .into_iter()
        .map(|boot| match boot {
            Written::Table(start) => start,
            Written::Script(script) => Start {
                script,
                ..Start::default()
            },
        })
        .collect())
}

impl Case {
    /// Takes what it does not say itself from the case that it is like.
    fn take_after(&mut self) -> Result<()> {
        let Some(other) = &self.like else {
            return Ok(());
        };
        let file = vm::root().join(format!("tests/machines/{other}.case"));
        let text = fs::read_to_string(&file).with_context(|| format!("no case {other}"))?;
        let base: Self = toml::from_str(&text)?;
        ensure!(base.like.is_none(), "{other} is like yet another case");
        self.end = self.end.or(base.end);
        if self.boot.is_empty() {
            self.boot = base.boot;
        }
        self.allow.extend(base.allow);
        self.see.splice(0..0, base.see);
        Ok(())
    }

    fn parse(name: &str, text: &str) -> Result<Self> {
        let mut case: Self = toml::from_str(text)?;
        name.clone_into(&mut case.name);
        case.take_after()?;
        if case.boot.is_empty() {
            bail!("it needs a `boot`");
        }
        ensure!(case.end.is_some(), "it needs an `end`");
        let drives = case.drives().len();
        for boot in &case.boot {
            ensure!(!boot.script.is_empty(), "a boot needs a `script`");
            ensure!(
                boot.away.iter().all(|nth| (1..=drives).contains(nth)),
                "`away` counts the drives from 1 to {drives}"
            );
        }
        vm::validate(&case.see, &case.allow)?;
        let known: Vec<String> = setup::userlands().collect();
        for name in case.userlands.iter().chain(&case.quick) {
            if !known.contains(name) {
                bail!("no userland {name}; there are {}", known.join(", "));
            }
        }
        Ok(case)
    }

    /// One boot with this script and nothing to see: what a figure is read from. All else is as in a file that says nothing.
    pub(super) fn once(package: Package, script: &str) -> Result<Self> {
        let bare: Self = toml::from_str("title = \"a figure\"\nend = \"reset\"\nboot = []")?;
        Ok(Self {
            package,
            boot: vec![Start {
                script: script.to_owned(),
                ..Start::default()
            }],
            ..bare
        })
    }

    /// The userlands it runs on.
    pub(crate) fn userlands(&self) -> Vec<String> {
        if self.userlands.is_empty() {
            setup::userlands().collect()
        } else {
            self.userlands.clone()
        }
    }

    /// Each drive, with the boots that it is there in.
    pub(super) fn drives(&self) -> Vec<Drive> {
        let kinds = disks::drives().into_iter().chain(self.drive.clone());
        let each = kinds.flat_map(|drive| {
            let count = drive.count as usize;
            std::iter::repeat_n(Drive { count: 1, ..drive }, count)
        });
        each.zip(1..)
            .map(|(drive, nth)| Drive {
                boots: (1..)
                    .zip(&self.boot)
                    .filter(|(_, start)| !start.away.contains(&nth))
                    .map(|(boot, _)| boot)
                    .collect(),
                ..drive
            })
            .collect()
    }

    /// How long one boot may take.
    pub(crate) fn timeout(&self) -> Duration {
        Duration::from_secs(self.timeout)
    }

    fn end_of(&self, start: &Start) -> End {
        start.end.or(self.end).unwrap_or_default()
    }

    /// Whether what `start` began came to the end that it is to have.
    pub(super) fn ended(&self, start: &Start, boot: &Boot) -> bool {
        let boot = std::slice::from_ref(boot);
        vm::failures(&[self.end_of(start)], &self.allow, &[], boot).is_empty()
    }

    /// Everything that is wrong with what its boots gave.
    pub(crate) fn failures(&self, boots: &[Boot]) -> Vec<String> {
        let ends: Vec<End> = self.boot.iter().map(|start| self.end_of(start)).collect();
        vm::failures(&ends, &self.allow, &self.see, boots)
    }
}

/// Every case, by name.
pub(crate) fn all() -> Result<Vec<Case>> {
    vm::read("tests/machines", Case::parse)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_case_that_checks_nothing_or_runs_nowhere_is_refused() {
        let text = "title = \"x\"\nend = \"reset\"\nboot = [\"true\"]\n";
        let see = "[[see]]\nre = \"y\"\n";
        assert!(Case::parse("x", text).is_err());
        assert!(Case::parse("x", &format!("{text}{see}")).is_ok());
        assert!(Case::parse("x", &format!("{text}quick = [\"hurd\"]\n{see}")).is_err());
        let away = |nth| {
            format!(
                "title = \"x\"\nend = \"reset\"\n{see}[[boot]]\nscript = \"true\"\naway = [{nth}]\n"
            )
        };
        assert!(Case::parse("x", &away(6)).is_ok());
        assert!(Case::parse("x", &away(7)).is_err());
    }

    #[test]
    fn what_a_case_does_not_say_comes_from_the_one_that_it_is_like() -> Result<()> {
        let text = "title = \"x\"\nlike = \"off\"\nroot = \"lvm\"\n[[see]]\nre = \"y\"\n";
        let case = Case::parse("x", text)?;
        let base = all()?.into_iter().find(|case| case.name == "off");
        let base = base.context("off")?;
        assert_eq!((case.end, &case.boot), (base.end, &base.boot));
        assert_eq!(case.see.len(), base.see.len() + 1);
        assert!(case.append.is_empty() && case.root == Root::Lvm);
        assert!(Case::parse("x", "title = \"x\"\nlike = \"nobody\"\n").is_err());
        Ok(())
    }

    #[test]
    fn every_case_can_be_read() -> Result<()> {
        assert!(!all()?.is_empty());
        Ok(())
    }
}
