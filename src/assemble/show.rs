//! What would be done, step by step; and what was, for programs.

use core::fmt::Write as _;

use super::Case;
use super::act::{self, Called, Came};
use super::create::Numbers;
use super::decide::{Fate, Outcome, Patience};
use super::look::Arrays;
use super::naming::Namer;
use super::report::Name;
use super::steps::{self, Mode, is_redundant};
use crate::context::{Context, Exit};
use crate::imsm::Plan;
use crate::json::Json;
use crate::sys::disks::Disk;
use crate::sys::{md, out};
use crate::text::Printable;

/// Prints the whole plan: containers, volumes, slots, and every write in order.
pub(super) fn plan(
    context: &Context,
    cases: &[Case<'_, '_>],
    mode: Mode,
    disks: &[Disk],
    arrays: &Arrays,
) -> Exit {
    if context.json {
        json(cases, Exit::Done);
        return Exit::Done;
    }
    let mut text = String::new();
    let any = cases.iter().any(goes);
    for array in arrays.litter.iter().filter(|_| any) {
        text += &format!("clear > {}\n", md::attr(array, "array_state"));
    }
    let mut called = called(context, cases, arrays).into_iter();
    for case in cases {
        let called = goes(case).then(|| called.next()).flatten();
        // A String takes all that is written to it.
        let _ = container(&mut text, case, called.as_ref(), mode, disks);
    }
    if cases.is_empty() {
        text.push_str("no IMSM container\n");
    }
    out::write(rustix::stdio::stdout(), text.as_bytes());
    Exit::Done
}

/// What the arrays of those that are brought up would be called.
fn called(context: &Context, cases: &[Case<'_, '_>], arrays: &Arrays) -> Vec<Called> {
    let root = context.root;
    let namer = Namer::new(root);
    let named: Vec<_> = cases
        .iter()
        .filter(|case| goes(case))
        .map(|case| (case, namer.christen(case)))
        .collect();
    let mut numbers = Numbers::new(root, &arrays.empty, &arrays.litter);
    let going = named.iter().map(|(case, names)| (*case, names));
    let called = Called::all(going, &mut |wanted| {
        let name = numbers.take(&wanted, &mut |_| Ok(true));
        Some(name.ok()?.as_str().to_owned())
    });
    called.unwrap_or_default()
}

fn goes(case: &Case<'_, '_>) -> bool {
    case.decision.outcome == Outcome::Goes
}

fn container(
    text: &mut String,
    case: &Case<'_, '_>,
    called: Option<&Called>,
    mode: Mode,
    disks: &[Disk],
) -> core::fmt::Result {
    let uuid = case.container.uuid();
    writeln!(
        text,
        "container {uuid}: {}",
        outcome(&case.decision.outcome)
    )?;
    for (plan, fate) in case.plans.iter().zip(&case.decision.fates) {
        volume(text, plan, fate)?;
    }
    let Some(called) = called else {
        return Ok(());
    };
    let disk = |name: &str| disks.iter().find(|disk| disk.name.as_str() == name);
    let write = |text: &mut String, step: &steps::Step| {
        writeln!(
            text,
            "    {} > {}",
            Printable(step.value.as_str().trim_end().as_bytes()),
            step.path
        )
    };
    if called.fresh {
        create(text, &called.container)?;
        for step in steps::container(&called.container) {
            write(text, &step)?;
        }
    }
    let binds: Vec<_> = act::binds(case)
        .filter_map(|(index, name)| Some((index, name, disk(name)?.dev)))
        .map(|(index, name, dev)| steps::bind(&case.container, &called.container, index, name, dev))
        .collect();
    // The disks are added all at once.
    let added = binds.iter().filter_map(|steps| steps.first());
    let rest = binds.iter().flat_map(|steps| steps.iter().skip(1));
    for step in added.chain(rest) {
        write(text, step)?;
    }
    let fates = || case.plans.iter().zip(&case.decision.fates);
    let all = || {
        fates()
            .zip(&called.volumes)
            .filter_map(|(one, array)| Some((one, array.as_ref()?)))
    };
    for ((plan, _), array) in all().filter(|((_, fate), _)| **fate == Fate::Start) {
        if let Some(old) = case
            .existing
            .and_then(|existing| existing.volume(plan.index))
        {
            writeln!(text, "    clear > {}", md::attr(&old.name, "array_state"))?;
        }
        create(text, array)?;
        let dev = |name: &str| disk(name).map(|disk| disk.dev);
        for step in &steps::volume(&case.container, plan, &called.container, array, mode, &dev) {
            write(text, step)?;
        }
    }
    let mut watch = false;
    for ((plan, fate), array) in all() {
        watch |= is_redundant(plan) && mode == Mode::Write;
        let steps = match fate {
            Fate::Finish => steps::finish(plan, &called.container, array),
            _ => steps::start(plan, array, mode),
        };
        for step in &steps {
            write(text, step)?;
        }
    }
    if watch {
        writeln!(text, "    mdmon {}", called.container)?;
    }
    Ok(())
}

fn create(text: &mut String, array: &str) -> core::fmt::Result {
    writeln!(
        text,
        "    {array} > /sys/module/md_mod/parameters/new_array"
    )
}

fn volume(text: &mut String, plan: &Plan<'_>, fate: &Fate) -> core::fmt::Result {
    writeln!(
        text,
        "  volume {} {} raid{} {}: {}",
        plan.index,
        Name(plan),
        plan.geometry.level.number(),
        plan.uuid,
        said(fate)
    )?;
    for (slot, number) in plan.slots.iter().zip(0..) {
        writeln!(
            text,
            "    slot {number}: {} {} {}",
            slot.serial,
            slot.name.unwrap_or("-"),
            slot.state.name()
        )?;
    }
    Ok(())
}

fn outcome(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Runs => "runs already".into(),
        Outcome::Left(why) => format!("left alone: {why}"),
        Outcome::Mdadm(why) => format!("left to mdadm: {why}"),
        Outcome::Unsafe(why) => format!("nobody starts it: {why}"),
        Outcome::Waits(Patience::Never) => "waits for its disks".into(),
        Outcome::Waits(Patience::Until(_)) => "waits for its disks, for a while".into(),
        Outcome::Goes => "is started".into(),
    }
}

fn said(fate: &Fate) -> String {
    match fate {
        Fate::Runs => "runs already".into(),
        Fate::Finish => "runs, and is made usable".into(),
        Fate::Start => "is started".into(),
        Fate::Waits => "waits".into(),
        Fate::LeftToo => "left, as its container is".into(),
        Fate::Left(why) => format!("left alone: {why}"),
        Fate::Not(why) => format!("not started: {why}"),
    }
}

/// One object on standard output: doc/json.md.
pub(super) fn json(cases: &[Case<'_, '_>], exit: Exit) {
    let mut json = Json::object();
    json.number("schema", 1);
    json.text("command", format_args!("assemble"));
    json.array("containers");
    for case in cases {
        json.open_object();
        json.text("uuid", format_args!("{}", case.container.uuid()));
        let (word, why) = words(&case.decision.outcome);
        json.text("outcome", format_args!("{word}"));
        if !why.is_empty() {
            json.text("reason", format_args!("{why}"));
        }
        json.array("missing");
        for disk in case.container.missing() {
            json.item(format_args!("{}", disk.serial));
        }
        json.close();
        json.array("volumes");
        for ((plan, fate), came) in case.plans.iter().zip(&case.decision.fates).zip(&case.came) {
            json.open_object();
            json.text("name", format_args!("{}", Name(plan)));
            json.text("uuid", format_args!("{}", plan.uuid));
            json.number("level", u64::from(plan.geometry.level.number()));
            volume_json(&mut json, fate, came);
            json.array("slots");
            for slot in &plan.slots {
                json.open_object();
                json.text("serial", format_args!("{}", slot.serial));
                if let Some(name) = slot.name {
                    json.text("disk", format_args!("{name}"));
                }
                json.text("state", format_args!("{}", slot.state.name()));
                json.close();
            }
            json.close();
            json.close();
        }
        json.close();
        json.close();
    }
    json.close();
    json.number("exit", exit as u64);
    json.close();
    json.finish();
}

fn words(outcome: &Outcome) -> (&'static str, &str) {
    match outcome {
        Outcome::Runs => ("runs", ""),
        Outcome::Goes => ("started", ""),
        Outcome::Waits(_) => ("waits", ""),
        Outcome::Left(why) => ("left", why),
        Outcome::Mdadm(why) => ("mdadm", why),
        Outcome::Unsafe(why) => ("unsafe", why),
    }
}

fn volume_json(json: &mut Json, fate: &Fate, came: &Came) {
    let (word, why) = match (came, fate) {
        (Came::Usable(ms), _) => {
            json.number("ms", u64::from(*ms));
            ("usable", "")
        }
        (Came::Readonly(why), _) => ("readonly", why.as_str()),
        (Came::Failed(why), _) => ("failed", why.as_str()),
        (Came::UnderWay, _) => ("unfinished", ""),
        (Came::Untouched, Fate::Runs) => ("runs", ""),
        (Came::Untouched, Fate::Waits) => ("waits", ""),
        (Came::Untouched, Fate::LeftToo) => ("left", ""),
        (Came::Untouched, Fate::Start | Fate::Finish) => ("to-be-started", ""),
        (Came::Untouched, Fate::Left(why)) => ("left", *why),
        (Came::Untouched, Fate::Not(why)) => ("not-started", why.as_str()),
    };
    json.text("state", format_args!("{word}"));
    if !why.is_empty() {
        json.text("reason", format_args!("{why}"));
    }
}
