//! Stops md arrays, volumes clean and containers after them: look, plan, act, report.
//!
//! The graph of arrays and of who uses them is read once (`look`) and walked from the leaves (`plan`): what is in use is left
//! and named, and holds up only what it stands on. Everything that may block is a worker's (`crew`).
//!
//! Of Intel RAID (IMSM) and other external metadata the kernel knows little. It marks nothing clean by itself: mdmon does, a
//! process that must live until its last volume has gone. And it would stop a container under running volumes. The order
//! and the checks here make up for that.

mod crew;
mod foreman;
mod graph;
mod look;
mod order;
mod plan;
mod report;
mod show;
mod tidy;

use core::ops::ControlFlow;
use std::sync::Mutex;

use log::{Level, error, info, warn};

use crate::context::{Context, Exit};
use crate::deadline::{Deadline, now_ms};
use crate::errno::Cause;
use crate::options::Stage;
use crate::pool::{Ended, Pool};
use crate::sys::{disks, proc};
use crate::text::Text;

use crew::Worker;
use foreman::Carrying;
use graph::{ARRAYS, Graph, Kind};
use plan::{Action, Ask, Fate, Job, Plan};
use report::Tally;
use show::Output;

/// So often the arrays are looked at again: more of them than the table holds, or one that came back.
const PASSES: usize = 3;
/// Arrays that are worked on at once, at most.
const WIDTH: usize = 32;
/// The most a shutdown spends on arrays, in milliseconds: the controllers come after them.
const STEP_MS: u64 = 20_000;

/// Too large for a stack, and nothing may be allocated.
static PLAN: Mutex<Plan> = Mutex::new(Plan::new());

/// Which arrays a command is about.
#[derive(Clone, Copy)]
pub enum Which<'a> {
    /// All there are.
    All,
    /// These, every one of which must exist.
    Named(&'a [String]),
}

/// Stops arrays, or says what that would be.
pub fn run(context: &Context, which: Which<'_>) -> Exit {
    let ask = Ask {
        // Who names an array means it, whoever keeps its metadata.
        native: matches!(which, Which::Named(_)) || context.stage == Stage::Exitrd,
        clean: false,
        stop: true,
        mend_clean: !context.still,
    };
    match whole(context, which, ask, context.deadline) {
        ControlFlow::Continue(exit) | ControlFlow::Break(exit) => exit,
    }
}

/// The teardown step of a shutdown. Where the stage ends all, every array is stopped; before that only Intel RAID is, which
/// nobody else sees to. Break: a signal has ended it, and all that was to follow.
pub fn step(context: &Context) -> ControlFlow<Exit, Exit> {
    let ask = Ask {
        native: context.stage == Stage::Exitrd,
        clean: true,
        stop: true,
        mend_clean: !context.still,
    };
    whole(context, Which::All, ask, share(context))
}

/// Makes every Intel RAID volume clean, an mdmon that is missing brought back for it, and stops nothing: what is on them is
/// still mounted.
pub fn clean(context: &Context) -> Exit {
    let ask = Ask {
        native: false,
        clean: true,
        stop: false,
        mend_clean: false,
    };
    match whole(context, Which::All, ask, share(context)) {
        ControlFlow::Continue(exit) | ControlFlow::Break(exit) => exit,
    }
}

/// What arrays may take of the time there is.
fn share(context: &Context) -> Deadline {
    let share = (context.deadline.rest_ms() / 2).min(STEP_MS);
    context.deadline.within_ms(share)
}

fn whole(
    context: &Context,
    which: Which<'_>,
    ask: Ask,
    deadline: Deadline,
) -> ControlFlow<Exit, Exit> {
    let Ok(mut plan) = PLAN.lock() else {
        return ControlFlow::Continue(Exit::Missing);
    };
    let crew = Worker { root: context.root };
    let mut run = Run {
        context,
        plan: &mut plan,
        pool: Pool::new(context.root, &crew, WIDTH),
        ask,
        deadline,
        tally: Tally::default(),
        cut: None,
        start_ms: now_ms(),
    };
    let exit = run.all(which);
    match run.cut {
        Some(Ended::Signal(_)) => ControlFlow::Break(exit),
        _ => ControlFlow::Continue(exit),
    }
}

/// One run over the machine.
struct Run<'a> {
    context: &'a Context,
    plan: &'a mut Plan,
    pool: Pool<'a>,
    ask: Ask,
    deadline: Deadline,
    tally: Tally,
    /// Why the run was over before its end.
    cut: Option<Ended>,
    start_ms: u64,
}

impl Run<'_> {
    fn all(&mut self, which: Which<'_>) -> Exit {
        let mut output = None;
        for pass in 1..=PASSES {
            let more = match look::look(self.context.root, &mut self.plan.graph) {
                Ok(more) => more,
                Err(errno) => return self.blind(errno),
            };
            let Ok(wanted) = self.wanted(which, pass == 1) else {
                return Exit::Usage;
            };
            let output = output.get_or_insert_with(|| Output::start(self.context));
            self.plan
                .decide(self.ask, &|at| wanted.get(at).copied().unwrap_or(false));
            let again = self.pass(output);
            if self.cut.is_some() || self.context.dry_run || !(more || again) {
                break;
            }
        }
        self.finish(output)
    }

    /// The arrays that are asked for, by place. Every name must be an array's, before anything is touched.
    fn wanted(&self, which: Which<'_>, first: bool) -> Result<[bool; ARRAYS], ()> {
        let mut wanted = [matches!(which, Which::All); ARRAYS];
        let Which::Named(words) = which else {
            if self.context.stage.is_hook() && !self.ask.native {
                // Nobody is there to hear that these are not asked for.
                for (place, node) in wanted.iter_mut().zip(self.plan.graph.nodes()) {
                    *place = node.kind != Kind::Native;
                }
            }
            return Ok(wanted);
        };
        for word in words {
            let found = find(self.context, &self.plan.graph, word);
            match found.and_then(|at| wanted.get_mut(at)) {
                Some(place) => *place = true,
                // It has gone since, as it should.
                None if !first => {}
                None => {
                    error!("there is no md array {word}; nothing is done");
                    return Err(());
                }
            }
        }
        Ok(wanted)
    }

    /// Does what the plan holds. True: something was stopped and is there again.
    fn pass(&mut self, output: &mut Output<'_>) -> bool {
        if self.context.dry_run {
            self.show(output);
            return false;
        }
        let mut carrying = Carrying {
            plan: &mut *self.plan,
            deadline: self.deadline,
            clean: self.ask.clean,
            said: [false; ARRAYS],
        };
        let mut ended = Ended::All;
        if carrying.plan.has_more() {
            self.pool.next_phase(WIDTH);
            // Each array that goes costs the kernel a few grace periods.
            let expedited = proc::Expedited::raise(self.context.root);
            let signals = self.context.signals.as_ref();
            ended = self.pool.run(&mut carrying, self.deadline, signals);
            drop(expedited);
        }
        carrying.close();
        match ended {
            Ended::All => {}
            Ended::NoWorkers(errno) => {
                error!(
                    "no worker process can be made: {}; the arrays stay",
                    Cause(errno)
                );
                self.cut = Some(ended);
            }
            Ended::Deadline | Ended::Signal(_) => self.cut = Some(ended),
        }
        self.tally.add(self.plan);
        for at in 0..self.plan.fates.len() {
            output.array(self.plan, at);
        }
        self.plan.fates.contains(&Fate::StillThere)
    }

    /// Shows the plan in the order in which it would be carried out, then what is left.
    fn show(&mut self, output: &mut Output<'_>) {
        while let Some(job) = self.plan.next(0) {
            match job {
                Job::Do(at, action) => {
                    self.plan.settle(at, Fate::Todo(action));
                    output.array(self.plan, at);
                    self.tally.planned += 1;
                    let done = match action {
                        Action::Stop => {
                            self.tally.asked += 1;
                            Fate::Gone
                        }
                        Action::Clean => Fate::Clean(0),
                    };
                    self.plan.settle(at, done);
                }
                Job::Mend(at) => self.plan.mended(at),
                Job::Tidy => {}
            }
        }
        self.tally.add(self.plan);
        for at in 0..self.plan.fates.len() {
            if !matches!(self.plan.fates.get(at), Some(Fate::Gone | Fate::Clean(_))) {
                output.array(self.plan, at);
            }
        }
    }

    fn blind(&self, errno: rustix::io::Errno) -> Exit {
        let why = Text::<120>::of(format_args!(
            "/sys/block cannot be read: {}; no array is stopped",
            Cause(errno)
        ));
        match self.context.command {
            "teardown" => self.context.nothing(Level::Error, format_args!("{why}")),
            // The object is that of the command this is a step of.
            _ => error!("{why}"),
        }
        Exit::Missing
    }

    /// The last line, and the exit status.
    fn finish(&mut self, output: Option<Output<'_>>) -> Exit {
        let took = now_ms().saturating_sub(self.start_ms);
        if let Some(mut output) = output {
            output.end(&self.tally, took);
        }
        if self.context.dry_run {
            return Exit::Done;
        }
        let line = self.tally.line(took);
        match self.cut {
            Some(Ended::Signal(name)) => warn!("{line}; ended by {name}"),
            Some(Ended::Deadline) => warn!("{line}; the time is up"),
            // A machine without arrays has nothing to hear of.
            _ if self.tally.asked == 0 && self.context.stage.is_hook() => {}
            // Nor anybody of arrays that are to be stopped later.
            _ if !self.ask.stop => {}
            _ => info!("{line}"),
        }
        self.exit()
    }

    fn exit(&self) -> Exit {
        let Tally {
            dirty,
            busy,
            not_clean,
            left,
            failed,
            mechanism,
            ..
        } = self.tally;
        // A hook has done its part when only what is in use is left; a person wanted it stopped.
        let minded = if self.context.stage.is_hook() {
            0
        } else {
            busy
        };
        match () {
            () if mechanism > 0 || matches!(self.cut, Some(Ended::NoWorkers(_))) => Exit::Missing,
            () if minded + dirty + not_clean + left + failed > 0 || self.cut.is_some() => {
                Exit::Undone
            }
            () => Exit::Done,
        }
    }
}

/// The array a person means: `md126`, `/dev/md126`, `/dev/md/Volume0`, or `Volume0` as mdadm or quell has written it down.
fn find(context: &Context, graph: &Graph, word: &str) -> Option<usize> {
    let by_label = || {
        let label = word.strip_prefix("/dev/md/").unwrap_or(word);
        graph
            .nodes()
            .iter()
            .position(|node| node.label.as_str() == label)
    };
    graph
        .find(word.strip_prefix("/dev/").unwrap_or(word))
        .or_else(by_label)
        .or_else(|| graph.find(disks::kernel_name(context.root, word).ok()?.as_str()))
}
