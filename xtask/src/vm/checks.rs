//! What a case says must be seen, against what the boots gave.

use super::case::End;
use super::console::Line;
use super::qemu::{Boot, Exit, SCRIPT_END};
use anyhow::{Result, bail, ensure};
use regex_lite::Regex;
use serde::Deserialize;

/// One `[[see]]`. Exactly one of `re`, `absent`, `alike`, `order`, `inflight`, `removes`, `shutdowns` and `between` is given.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct See {
    /// A line that is there: `count` times, or at least `min` and at most `max` times.
    re: Option<String>,
    count: Option<usize>,
    min: Option<usize>,
    max: Option<usize>,
    /// A line that is not there.
    absent: Option<String>,
    /// Lines that are the same ones in each boot that has any, and two boots at least have.
    alike: Option<String>,
    /// Lines that are there, one after the other.
    order: Vec<String>,
    /// The most controllers that were ever in flight, by the module's log; with `true` in `inflight`, `count`, `min` and
    /// `max` bound it.
    inflight: bool,
    /// How many removals ended.
    removes: Option<usize>,
    /// How many of the kernel's own shutdowns ended.
    shutdowns: Option<usize>,
    /// The kernel's time from the first line to the next second line.
    between: Vec<String>,
    /// Seconds that time is under, and over.
    under: Option<f64>,
    over: Option<f64>,
    /// Or: under `times` the time between these two.
    than: Vec<String>,
    times: Option<f64>,
    /// Looks at this boot only, from 1.
    boot: Option<usize>,
}

impl See {
    /// Finds what can never be meant.
    fn validate(&self) -> Result<()> {
        let kinds = [
            self.re.is_some(),
            self.absent.is_some(),
            self.alike.is_some(),
            !self.order.is_empty(),
            self.inflight,
            self.removes.is_some(),
            self.shutdowns.is_some(),
            !self.between.is_empty(),
        ];
        ensure!(
            kinds.iter().filter(|given| **given).count() == 1,
            "a `[[see]]` has exactly one kind of check: {self:?}"
        );
        let counted = self.count.is_some() || self.min.is_some() || self.max.is_some();
        ensure!(
            !self.inflight || counted,
            "`inflight` needs count, min or max"
        );
        ensure!(
            !counted || self.inflight || self.re.is_some(),
            "count, min and max go with `re` and `inflight`"
        );
        if !self.between.is_empty() {
            ensure!(self.between.len() == 2, "`between` names two lines");
            ensure!(
                self.under.is_some() || self.over.is_some() || self.times.is_some(),
                "`between` needs under, over or times"
            );
            ensure!(
                self.times.is_some() == (self.than.len() == 2),
                "`times` and `than` go together"
            );
        }
        let all = self
            .re
            .iter()
            .chain(&self.absent)
            .chain(&self.alike)
            .chain(&self.order)
            .chain(&self.between)
            .chain(&self.than);
        for pattern in all {
            Regex::new(pattern)?;
        }
        Ok(())
    }

    /// Why it was not seen.
    fn check(&self, boots: &[Boot]) -> Result<()> {
        let boots: Vec<&Boot> = boots
            .iter()
            .enumerate()
            .filter(|(n, _)| self.boot.is_none_or(|boot| boot == n + 1))
            .map(|(_, boot)| boot)
            .collect();
        let lines = || boots.iter().flat_map(|boot| &boot.lines);
        let matches = |pattern: &str| -> Result<usize> {
            let pattern = Regex::new(pattern)?;
            Ok(lines().filter(|line| pattern.is_match(&line.text)).count())
        };
        if let Some(pattern) = &self.re {
            self.bounds(&format!("lines match /{pattern}/"), matches(pattern)?)?;
        }
        if let Some(pattern) = &self.absent {
            let found = matches(pattern)?;
            ensure!(found == 0, "{found} lines match /{pattern}/, none should");
        }
        if let Some(pattern) = &self.alike {
            alike(&boots, &Regex::new(pattern)?)?;
        }
        let mut rest = lines();
        for pattern in &self.order {
            let regex = Regex::new(pattern)?;
            ensure!(
                rest.any(|line| regex.is_match(&line.text)),
                "no line matches /{pattern}/ where it should, in {:?}",
                self.order
            );
        }
        let events: Vec<_> = boots.iter().flat_map(|boot| boot.events()).collect();
        if self.inflight {
            let most = events
                .iter()
                .filter(|event| !event.end)
                .map(|event| event.inflight)
                .max();
            self.bounds("controllers in flight at once", most.unwrap_or(0) as usize)?;
        }
        for (wanted, shutdown, what) in [
            (self.removes, false, "removals"),
            (self.shutdowns, true, "kernel shutdowns"),
        ] {
            let ended = events
                .iter()
                .filter(|event| event.end && event.shutdown == shutdown)
                .count();
            if let Some(wanted) = wanted {
                ensure!(ended == wanted, "{ended} {what} ended, not {wanted}");
            }
        }
        if let [from, to] = self.between.as_slice() {
            self.span(&boots, from, to)?;
        }
        Ok(())
    }

    fn bounds(&self, what: &str, found: usize) -> Result<()> {
        if let Some(count) = self.count {
            ensure!(found == count, "{found} {what}, not {count}");
            return Ok(());
        }
        let min = self.min.unwrap_or(usize::from(self.max.is_none()));
        ensure!(found >= min, "{found} {what}, at least {min} should");
        if let Some(max) = self.max {
            ensure!(found <= max, "{found} {what}, at most {max} should");
        }
        Ok(())
    }

    fn span(&self, boots: &[&Boot], from: &str, to: &str) -> Result<()> {
        let took = seconds(boots, from, to)?;
        let what = format!("from /{from}/ to /{to}/ took {took:.3} s");
        if let Some(under) = self.under {
            ensure!(took < under, "{what}, not under {under}");
        }
        if let Some(over) = self.over {
            ensure!(took > over, "{what}, not over {over}");
        }
        if let (Some(times), [from, to]) = (self.times, self.than.as_slice()) {
            let other = seconds(boots, from, to)?;
            ensure!(
                took < other * times,
                "{what}, not under {times} times the {other:.3} s from /{from}/ to /{to}/"
            );
        }
        Ok(())
    }
}

/// Finds lines that match and are not in every boot that has such lines.
fn alike(boots: &[&Boot], pattern: &Regex) -> Result<()> {
    let of = |boot: &&Boot| -> Vec<String> {
        let texts = boot.lines.iter().map(|line| &line.text);
        texts
            .filter(|text| pattern.is_match(text))
            .cloned()
            .collect()
    };
    let mut said: Vec<_> = boots.iter().map(of).filter(|has| !has.is_empty()).collect();
    ensure!(
        said.len() > 1,
        "{} boots have lines that match /{pattern}/, two at least should",
        said.len()
    );
    said.dedup();
    ensure!(said.len() == 1, "boots differ: {said:#?}");
    Ok(())
}

/// The kernel's time from the first line that matches `from` to the next that matches `to`, in one boot.
fn seconds(boots: &[&Boot], from: &str, to: &str) -> Result<f64> {
    let (start, end) = (Regex::new(from)?, Regex::new(to)?);
    for boot in boots {
        let mut lines = boot
            .lines
            .iter()
            .filter_map(|line| Some((line.time?, &line.text)));
        if let Some((begin, _)) = lines.find(|(_, text)| start.is_match(text))
            && let Some((done, _)) = lines.find(|(_, text)| end.is_match(text))
        {
            return Ok(done - begin);
        }
    }
    bail!("no line matches /{from}/ with one that matches /{to}/ after it")
}

/// Finds checks that can never be meant, or none at all, and words of `allow` that are not known.
pub(crate) fn validate(see: &[See], allow: &[String]) -> Result<()> {
    ensure!(!see.is_empty(), "it checks nothing: a `[[see]]` is wanted");
    for see in see {
        see.validate()?;
    }
    for word in allow {
        ensure!(
            ["aborted", "panic", "trace"].contains(&word.as_str()),
            "`allow` knows aborted, panic and trace, not {word}"
        );
    }
    Ok(())
}

/// Everything that is wrong with what a case's boots gave: each ends as `ends` says of it, says nothing that `allow` does not
/// allow, and all of `see` is seen.
pub(crate) fn failures(ends: &[End], allow: &[String], see: &[See], boots: &[Boot]) -> Vec<String> {
    let mut failures = Vec::new();
    for (n, (boot, end)) in boots.iter().zip(ends).enumerate() {
        let mut fail = |text: String| {
            failures.push(if boots.len() > 1 {
                format!("boot {}: {text}", n + 1)
            } else {
                text
            })
        };
        let wanted = match end {
            End::Script => Exit::Script,
            End::Reset => Exit::Reset,
            End::Poweroff => Exit::PowerOff,
        };
        if boot.exit != wanted {
            fail(format!(
                "ended as {:?} after {:.0} s, not as {wanted:?}",
                boot.exit,
                boot.wall.as_secs_f64()
            ));
        }
        if !boot.lines.iter().any(ended_well) {
            fail("the script did not come to its end with exit code 0".to_owned());
        }
        for (word, pattern) in [
            ("aborted", r"^slow_nvme: .* aborted"),
            ("panic", r"^Kernel panic"),
            (
                "trace",
                r"^(BUG:|Oops|Call Trace|WARNING:|INFO: task .* blocked|watchdog: BUG|rcu: INFO: .*stall)|general protection fault",
            ),
            ("never", r"^quell-case: (FAIL|cannot)"),
        ] {
            if allow.iter().any(|allowed| allowed == word) {
                continue;
            }
            let Ok(pattern) = Regex::new(pattern) else {
                continue;
            };
            if let Some(line) = boot.lines.iter().find(|line| pattern.is_match(&line.text)) {
                fail(format!("the console says: {}", line.text));
            }
        }
    }
    failures.extend(
        see.iter()
            .filter_map(|see| see.check(boots).err())
            .map(|error| format!("{error:#}")),
    );
    failures
}

fn ended_well(line: &Line) -> bool {
    line.text
        .strip_prefix(SCRIPT_END)
        .is_some_and(|rest| rest == "0" || rest.starts_with("0,"))
}
