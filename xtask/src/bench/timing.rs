//! What a shutdown took, by the kernel's own clock: read from a boot's console.

use crate::vm::{Boot, Event, Exit, Line};
use anyhow::{Context, Result, ensure};

/// Before the call: what every script here marks.
pub(crate) const START: &str = "start";
/// When quell has returned.
pub(crate) const DONE: &str = "done";

/// One controller's time in the driver's callback, in seconds since the call.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Span {
    /// Its PCI address.
    pub(crate) address: String,
    /// When the callback began.
    pub(crate) begin: f64,
    /// When it returned.
    pub(crate) end: f64,
}

/// One shutdown.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Shutdown {
    /// From the call to the reset: the kernel's last line but one.
    pub(crate) reset: f64,
    /// From the call to quell's return, where it was called.
    pub(crate) done: Option<f64>,
    /// Controllers, in the order in which they began.
    pub(crate) spans: Vec<Span>,
    /// The most that were ever in flight.
    pub(crate) inflight: u32,
    /// What quell counted as given up.
    pub(crate) given_up: u32,
}

impl Shutdown {
    /// Reads a boot that ended with a reset, from where its script marks the start.
    pub(crate) fn of(boot: &Boot) -> Result<Self> {
        Self::from(boot, |lines| marked(lines, START))
    }

    /// Reads a whole machine's boot, from systemd-shutdown's first line.
    pub(crate) fn of_machine(boot: &Boot) -> Result<Self> {
        Self::from(boot, systemd_shutdown)
    }

    fn from(boot: &Boot, start: fn(&[Line]) -> Option<f64>) -> Result<Self> {
        let tail = || {
            let from = boot.lines.len().saturating_sub(15);
            let last = boot.lines.iter().skip(from);
            last.map(|line| format!("    {}\n", line.text))
                .collect::<String>()
        };
        ensure!(
            boot.exit == Exit::Reset,
            "the machine was not reset ({:?}); its last lines:\n{}",
            boot.exit,
            tail()
        );
        start(&boot.lines)
            .context("no line says that the shutdown began")
            .and_then(|start| Self::read(&boot.lines, start))
            .with_context(tail)
    }

    fn read(lines: &[Line], start: f64) -> Result<Self> {
        let reset = at(lines, "reboot: Restarting system")
            .or_else(|| at(lines, "reboot: machine restart"))
            .context("no line says that the machine restarts")?;
        let events: Vec<Event> = lines.iter().filter_map(Event::parse).collect();
        Ok(Self {
            reset: reset - start,
            done: marked(lines, DONE).map(|done| done - start),
            spans: spans(&events, start),
            inflight: events.iter().map(|event| event.inflight).max().unwrap_or(0),
            given_up: lines
                .iter()
                .find_map(|line| given_up(&line.text))
                .unwrap_or(0),
        })
    }

    /// The longest that one controller took.
    pub(crate) fn slowest(&self) -> f64 {
        let each = self.spans.iter().map(|span| span.end - span.begin);
        each.fold(0.0, f64::max)
    }
}

/// When a script's mark was logged.
pub(crate) fn marked(lines: &[Line], mark: &str) -> Option<f64> {
    at(lines, &format!("quell-mark: {mark}"))
}

/// When systemd-shutdown began. It syncs once more where there is no exitrd.
fn systemd_shutdown(lines: &[Line]) -> Option<f64> {
    let mut all = lines.iter();
    all.find(|line| line.text.starts_with("systemd-shutdown[1]: Syncing "))?
        .time
}

fn at(lines: &[Line], text: &str) -> Option<f64> {
    lines.iter().find(|line| line.text == text)?.time
}

fn spans(events: &[Event], start: f64) -> Vec<Span> {
    let begins = events.iter().filter(|event| !event.end);
    begins
        .filter_map(|begin| {
            let ended = |event: &&Event| event.end && event.address == begin.address;
            Some(Span {
                address: begin.address.clone(),
                begin: begin.time - start,
                end: events.iter().find(ended)?.time - start,
            })
        })
        .collect()
}

/// `..., 9 workers (1 given up), ...`
pub(crate) fn given_up(line: &str) -> Option<u32> {
    let (_, rest) = line.strip_prefix("quell: ")?.split_once(" workers (")?;
    rest.strip_suffix(" given up)")
        .or_else(|| Some(rest.split_once(" given up)")?.0))?
        .parse()
        .ok()
}

/// The middle of some values; of an even number the mean of the two in the middle.
pub(crate) fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    let at = |n: usize| sorted.get(n).copied().unwrap_or(f64::NAN);
    if sorted.len() % 2 == 1 {
        at(middle)
    } else if sorted.is_empty() {
        f64::NAN
    } else {
        f64::midpoint(at(middle - 1), at(middle))
    }
}

/// The least and the greatest.
pub(crate) fn range(values: &[f64]) -> (f64, f64) {
    values
        .iter()
        .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| {
            (low.min(*value), high.max(*value))
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn lines(text: &str) -> Vec<Line> {
        text.lines()
            .map(|line| Line::parse(Duration::ZERO, line))
            .collect()
    }

    #[test]
    fn a_console_is_read() {
        let console = lines(
            "[   10.000000] quell-mark: start\n\
             [   10.200000] slow_nvme: 0000:02:00.0 remove begin inflight=1 pid=77 comm=quell\n\
             [   10.300000] slow_nvme: 0000:01:00.0 remove begin inflight=2 pid=78 comm=quell\n\
             [   13.300000] slow_nvme: 0000:02:00.0 remove end inflight=1 ms=3100 pid=77\n\
             [   13.500000] slow_nvme: 0000:01:00.0 remove end inflight=0 ms=3200 pid=78\n\
             [   13.550000] quell: quiesced 2 of 2 controllers in 3.5 s, 2 workers (1 given up), slowest nvme1 3.2 s\n\
             [   13.600000] quell-mark: done\n\
             [   13.750000] reboot: Restarting system\n\
             [   13.760000] reboot: machine restart\n",
        );
        let shutdown = Shutdown::read(&console, marked(&console, START).unwrap()).unwrap();
        assert!((shutdown.reset - 3.75).abs() < 1e-9);
        assert!((shutdown.done.unwrap() - 3.6).abs() < 1e-9);
        assert!((shutdown.slowest() - 3.2).abs() < 1e-9);
        assert_eq!((shutdown.inflight, shutdown.given_up), (2, 1));
        let first = shutdown.spans.first().unwrap();
        assert_eq!(first.address, "0000:02:00.0");
        assert!(Shutdown::read(&lines("[ 1.000000] quell-mark: start\n"), 1.0).is_err());
    }

    #[test]
    fn a_whole_machine_begins_with_systemds_first_line() {
        let console = lines(
            "[   70.000000] systemd[1]: Shutting down.\n\
             [   71.500000] systemd-shutdown[1]: Syncing filesystems and block devices.\n\
             [   72.000000] systemd-shutdown[1]: Syncing filesystems and block devices.\n",
        );
        assert_eq!(systemd_shutdown(&console), Some(71.5));
        assert_eq!(systemd_shutdown(&console[..1]), None);
    }

    #[test]
    fn medians_and_ranges() {
        assert!((median(&[3.0, 1.0, 2.0]) - 2.0).abs() < 1e-9);
        assert!((median(&[4.0, 1.0, 2.0, 3.0]) - 2.5).abs() < 1e-9);
        assert!(median(&[]).is_nan());
        let (low, high) = range(&[2.0, -1.0, 5.0]);
        assert!((low + 1.0).abs() < 1e-9 && (high - 5.0).abs() < 1e-9);
    }

    #[test]
    fn nobody_given_up_says_nothing() {
        let line =
            "quell: quiesced 24 of 24 controllers in 3.9 s, 24 workers, slowest nvme13 3.5 s";
        assert_eq!(given_up(line), None);
    }
}
