//! What a command prints on standard output: the plan of a dry run for people, and one JSON object for programs.

use super::fate::Fate;
use super::plan::{Plan, Timeouts, predicted};
use super::report::{Named, Tally, Told};
use crate::capability::Action;
use crate::context::Context;
use crate::json::Json;
use crate::schedule::Predicted;
use crate::sys::out;
use crate::text::{Millis, Text};

/// Standard output of one run.
pub(super) struct Output<'a> {
    context: &'a Context,
    json: Option<Json>,
    sum: Predicted,
    width: usize,
    heading: bool,
}

impl<'a> Output<'a> {
    pub(super) fn start(context: &'a Context) -> Self {
        let json = context.json.then(|| {
            let mut json = Json::object();
            json.number("schema", 1);
            json.text("command", format_args!("{}", context.command));
            json.text("stage", format_args!("{}", context.stage));
            json.flag("dry_run", context.dry_run);
            json.array("controllers");
            json
        });
        Self {
            context,
            json,
            sum: Predicted::default(),
            width: 0,
            heading: false,
        }
    }

    /// Adds a pass's times: passes follow each other.
    pub(super) fn predicted(&mut self, times: Predicted, width: usize) {
        self.sum.serial_ms += times.serial_ms;
        self.sum.planned_ms += times.planned_ms;
        self.width = self.width.max(width);
    }

    pub(super) fn sum(&self) -> Predicted {
        self.sum
    }

    /// Shows each controller: what is planned for it, or what became of it.
    pub(super) fn controllers(&mut self, plan: &Plan, timeouts: Timeouts) {
        if self.json.is_none() && !self.context.dry_run {
            return;
        }
        for (c, &fate) in plan.inventory.controllers().iter().zip(&plan.fates) {
            if fate == Fate::Ignored {
                continue;
            }
            let told = Told {
                fate,
                inventory: &plan.inventory,
                guard_s: None,
            };
            let takes = match fate {
                Fate::Todo(action) => Some((action, predicted(c, action, timeouts))),
                _ => None,
            };
            if let Some(json) = &mut self.json {
                json.open_object();
                json.text("name", format_args!("nvme{}", c.instance));
                if let Some(address) = c.pci {
                    json.text("address", format_args!("{address}"));
                }
                json.text("state", format_args!("{}", c.state));
                if let Some((action, ms)) = takes {
                    json.text("action", format_args!("{}", name_of(action)));
                    json.number("predicted_ms", ms.into());
                }
                json.text("outcome", format_args!("{}", word(fate)));
                if let Some(ms) = took(fate) {
                    json.number("ms", ms.into());
                }
                json.text("text", format_args!("{told}"));
                json.close();
            } else {
                self.line(
                    format_args!(
                        "{:<24} ",
                        Text::<40>::of(format_args!("{}", Named(c))).as_str()
                    ),
                    takes,
                    &told,
                );
            }
        }
    }

    fn line(
        &mut self,
        who: core::fmt::Arguments<'_>,
        takes: Option<(Action, u32)>,
        told: &Told<'_>,
    ) {
        if !core::mem::replace(&mut self.heading, true) {
            print(format_args!(
                "{:<24}  {:<8} {:>8}\n",
                "controller", "action", "at most"
            ));
        }
        match takes {
            Some((action, ms)) => {
                let at_most = Text::<16>::of(format_args!("{}", Millis(ms.into())));
                print(format_args!(
                    "{who} {:<8} {:>8}\n",
                    name_of(action),
                    at_most.as_str()
                ));
            }
            None => print(format_args!("{who} {told}\n")),
        }
    }

    /// The end: the times, and what it came to.
    pub(super) fn end(&mut self, tally: &Tally, times: Predicted, took_ms: u64, workers: usize) {
        if let Some(json) = &mut self.json {
            json.close();
            if self.context.dry_run {
                json.number("workers", u64::try_from(self.width).unwrap_or(u64::MAX));
                json.number("planned_ms", times.planned_ms);
                json.number("serial_ms", times.serial_ms);
            } else {
                json.number("workers", u64::try_from(workers).unwrap_or(u64::MAX));
                json.number("took_ms", took_ms);
            }
            for (key, count) in [
                ("asked", tally.asked),
                ("planned", tally.planned),
                ("quiesced", tally.quiesced),
                ("unconfirmed", tally.unconfirmed),
                ("busy", tally.busy),
                ("left", tally.policy + tally.refused),
                ("abandoned", tally.abandoned),
                ("failed", tally.failed + tally.mechanism),
            ] {
                json.number(key, u64::try_from(count).unwrap_or(u64::MAX));
            }
            json.close();
            json.finish();
        } else if self.context.dry_run {
            print(format_args!(
                "planned: {} at most, {} at once; one by one: {} at most\n",
                Millis(times.planned_ms),
                self.width,
                Millis(times.serial_ms)
            ));
        }
    }
}

fn print(line: core::fmt::Arguments<'_>) {
    out::write(
        rustix::stdio::stdout(),
        Text::<1024>::of(line).as_str().as_bytes(),
    );
}

const fn name_of(action: Action) -> &'static str {
    match action {
        Action::Unbind => "unbind",
        Action::Delete => "delete",
    }
}

/// A fate as one word for programs.
pub(super) const fn word(fate: Fate) -> &'static str {
    match fate {
        Fate::Ignored => "ignored",
        Fate::Todo(_) => "planned",
        Fate::Running(..) => "running",
        Fate::Quiesced(_) => "quiesced",
        Fate::Deleted(_) => "deleted",
        Fate::Unconfirmed(_) => "unconfirmed",
        Fate::Busy(_) | Fate::Claimed(_) => "busy",
        Fate::Unflushed(..) => "unwritten",
        Fate::Abandoned(..) => "abandoned",
        Fate::Vanished => "vanished",
        Fate::Failed(..) | Fate::StillThere | Fate::Died(_) => "failed",
        Fate::NotStarted => "not-started",
        Fate::Left(_)
        | Fate::Unknown
        | Fate::Unread
        | Fate::NoAddress
        | Fate::NoTime
        | Fate::Unopened(..)
        | Fate::Changed
        | Fate::NotLive(_) => "left",
    }
}

const fn took(fate: Fate) -> Option<u32> {
    match fate {
        Fate::Quiesced(ms) | Fate::Deleted(ms) | Fate::Unconfirmed(ms) | Fate::Abandoned(_, ms) => {
            Some(ms)
        }
        _ => None,
    }
}
