//! What a teardown prints on standard output: the plan of a dry run for people, and one JSON object for programs.

use super::graph::{Called, Kind};
use super::plan::{Fate, Plan};
use super::report::{Tally, Told, name_of, took, word};
use crate::context::Context;
use crate::json::Json;
use crate::sys::out;
use crate::text::Text;

/// Standard output of one run; a step of another command prints none of its own.
pub(super) struct Output<'a> {
    context: &'a Context,
    json: Option<Json>,
    heading: bool,
}

impl<'a> Output<'a> {
    pub(super) fn start(context: &'a Context) -> Self {
        let json = (context.json && context.command == "teardown").then(|| {
            let mut json = Json::object();
            json.number("schema", 1);
            json.text("command", format_args!("{}", context.command));
            json.text("stage", format_args!("{}", context.stage));
            json.flag("dry_run", context.dry_run);
            json.array("arrays");
            json
        });
        Self {
            context,
            json,
            heading: false,
        }
    }

    /// Shows the array at `at`: what is planned for it, or what became of it.
    pub(super) fn array(&mut self, plan: &Plan, at: usize) {
        let (Some(node), Some(&fate)) = (plan.graph.node(at), plan.fates.get(at)) else {
            return;
        };
        if matches!(fate, Fate::Ignored) {
            return;
        }
        let told = Told {
            fate,
            node,
            graph: &plan.graph,
        };
        let Some(json) = &mut self.json else {
            if self.context.dry_run && !self.context.json {
                self.line(format_args!("{}", Called(node)), fate, &told);
            }
            return;
        };
        json.open_object();
        json.text("name", format_args!("{}", node.array.name));
        if !node.label.is_empty() {
            json.text("label", format_args!("{}", node.label));
        }
        json.text("kind", format_args!("{}", kind(node.kind)));
        if let Some(container) = node.container() {
            json.text("container", format_args!("{container}"));
        }
        json.text("state", format_args!("{}", node.array.state));
        if let Fate::Todo(action) = fate {
            json.text("action", format_args!("{}", name_of(action)));
        }
        json.text("outcome", format_args!("{}", word(fate)));
        if let Some(ms) = took(fate) {
            json.number("ms", ms.into());
        }
        json.text("text", format_args!("{told}"));
        json.close();
    }

    fn line(&mut self, who: core::fmt::Arguments<'_>, fate: Fate, told: &Told<'_>) {
        if !core::mem::replace(&mut self.heading, true) {
            print(format_args!("{:<28} action\n", "array"));
        }
        let who = Text::<80>::of(who);
        let who = who.as_str();
        match fate {
            Fate::Todo(action) => print(format_args!("{who:<28} {}\n", name_of(action))),
            _ => print(format_args!("{who:<28} {told}\n")),
        }
    }

    /// The end: what it came to.
    pub(super) fn end(&mut self, tally: &Tally, took_ms: u64) {
        let Some(json) = &mut self.json else {
            return;
        };
        json.close();
        if !self.context.dry_run {
            json.number("took_ms", took_ms);
        }
        for (key, count) in [
            ("asked", tally.asked),
            ("planned", tally.planned),
            ("stopped", tally.stopped),
            ("dirty", tally.dirty + tally.not_clean),
            ("busy", tally.busy),
            ("left", tally.left),
            ("failed", tally.failed + tally.mechanism),
        ] {
            json.number(key, u64::try_from(count).unwrap_or(u64::MAX));
        }
        json.close();
        json.finish();
    }
}

fn print(line: core::fmt::Arguments<'_>) {
    let line = Text::<512>::of(line);
    out::write(rustix::stdio::stdout(), line.as_str().as_bytes());
}

const fn kind(kind: Kind) -> &'static str {
    match kind {
        Kind::Container => "container",
        Kind::Redundant | Kind::Plain => "volume",
        Kind::Native => "native",
    }
}
