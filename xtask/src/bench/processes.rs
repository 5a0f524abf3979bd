//! How many processes quell makes: as it counts itself, and as the kernel's own trace of every fork does.

use super::Options;
use super::machines::{CONTROLLERS, keep, machine};
use super::row::Row;
use super::timing::given_up;
use crate::vm::{Boot, Line};
use anyhow::{Context, Result};

/// One call of quell.
struct Case {
    name: &'static str,
    controllers: u32,
    jobs: Option<u32>,
    /// What each of them takes.
    ms: u32,
    /// The first controller's removal never returns.
    stuck: bool,
}

const CASES: &[Case] = &[
    Case {
        name: "all at once",
        controllers: CONTROLLERS,
        jobs: None,
        ms: 500,
        stuck: false,
    },
    Case {
        name: "jobs=8",
        controllers: CONTROLLERS,
        jobs: Some(8),
        ms: 500,
        stuck: false,
    },
    Case {
        name: "jobs=4, 12 controllers, one stuck",
        controllers: 12,
        jobs: Some(4),
        // So long that others still wait when the stuck one's place is given away.
        ms: 2000,
        stuck: true,
    },
];

/// Each of the cases, once.
pub(super) fn processes(options: &Options) -> Result<Vec<Row>> {
    CASES.iter().map(|case| one(options, case)).collect()
}

fn one(options: &Options, case: &Case) -> Result<Row> {
    let machine = machine(&options.kernel, case.controllers)?
        // A stuck controller's place is given away after this and two seconds more.
        .append("nvme_core.shutdown_timeout=2");
    let boot = machine.boot_once(&script(case), &mut |_| {})?;
    keep(&boot, &format!("processes-{}", case.name))?;
    let seen = Seen::of(&boot)?;
    let width = case.jobs.unwrap_or(64).min(case.controllers);
    let guard = u32::from(seen.abandoned > 0);
    let most = width + seen.abandoned + guard;
    Ok(Row::new(format!("processes: {}", case.name))
        .measured(format!(
            "{} forks traced; quell says {} workers, {} abandoned",
            seen.forks, seen.workers, seen.abandoned
        ))
        .peer(format!(
            "{width} + {} abandoned + {guard} guard",
            seen.abandoned
        ))
        .gate(
            "no more, as quell says",
            seen.forks <= most
                && seen.forks == seen.workers + guard
                && case.stuck == (seen.abandoned > 0),
        ))
}

/// The kernel tells of each fork of a process called quell. Nothing has to be traced for it, and no time is measured.
fn script(case: &Case) -> String {
    let stuck = if case.stuck {
        "\"stuck=$(drive 1)\""
    } else {
        ""
    };
    let jobs = case
        .jobs
        .map_or_else(String::new, |jobs| format!("--jobs={jobs}"));
    format!(
        "wait_nvme {}
slow default_ms={} {stuck}
mount -t tracefs tracefs /sys/kernel/tracing
fork=/sys/kernel/tracing/events/sched/sched_process_fork
echo 'parent_comm == \"quell\"' >$fork/filter
echo 1 >$fork/enable
quell shutdown reboot --stage=exitrd --timeout=15 --lastresort=100 {jobs} || true
echo 0 >$fork/enable
mark \"forks $(grep -c 'sched_process_fork: comm=quell' /sys/kernel/tracing/trace)\"
",
        case.controllers, case.ms
    )
}

struct Seen {
    forks: u32,
    workers: u32,
    /// Given up while others waited, or still under way at the end.
    abandoned: u32,
}

impl Seen {
    fn of(boot: &Boot) -> Result<Self> {
        let first = |read: &dyn Fn(&str) -> Option<u32>| {
            boot.lines.iter().find_map(|line: &Line| read(&line.text))
        };
        Ok(Self {
            forks: first(&|text| text.strip_prefix("quell-mark: forks ")?.parse().ok())
                .context("the kernel's trace was not read")?,
            workers: first(&workers).context("quell named no number of workers")?,
            abandoned: first(&given_up)
                .unwrap_or(0)
                .max(first(&abandoned).unwrap_or(0)),
        })
    }
}

/// `quell: [...: ]quiesced 24 of 24 controllers in 3.9 s, 24 workers, ...`
fn workers(line: &str) -> Option<u32> {
    let (_, said) = line.strip_prefix("quell: ")?.split_once("quiesced ")?;
    let (before, _) = said.split_once(" workers")?;
    before.rsplit(' ').next()?.parse().ok()
}

/// `..., slowest nvme0 15.0 s, 1 abandoned`
fn abandoned(line: &str) -> Option<u32> {
    workers(line)?;
    let (before, _) = line.split_once(" abandoned")?;
    before.rsplit(' ').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quells_own_count_is_read() {
        let line = "quell: the time is up: quiesced 11 of 12 controllers in 15.0 s, 5 workers (1 given up), 1 abandoned";
        let read = (workers(line), given_up(line), abandoned(line));
        assert_eq!(read, (Some(5), Some(1), Some(1)));
        assert_eq!(
            workers("quell: nvme1 0000:02:00.0 quiesced in 3098 ms"),
            None
        );
    }
}
