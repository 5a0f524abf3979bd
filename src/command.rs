//! From a command line to a command that runs: which machine, which stage, which options, who may do what.

use std::ffi::OsString;
use std::sync::OnceLock;

use log::{Level, error, warn};

use crate::cli::{self, Command, Invocation};
use crate::context::{Context, Exit};
use crate::deadline::Deadline;
use crate::options::{Options, Stage};
use crate::quiesce::{self, Which};
use crate::shutdown::Part;
use crate::sys::proc::{self, Signals};
use crate::sys::{Root, out};
use crate::{assemble, examine, exitrd, kmsg, remove, shutdown, stage, status, teardown};

/// The root lives as long as the process: the log writes through it.
static ROOT: OnceLock<Root> = OnceLock::new();

/// Runs the command that `argv` names.
pub fn main(argv: impl IntoIterator<Item = OsString>) -> Exit {
    let argv: Vec<OsString> = argv.into_iter().collect();
    if let Some(verb) = cli::of_exitrd(&argv).filter(|_| std::process::id() == 1) {
        exitrd::init(&verb);
    }
    kmsg::to_stderr(log::LevelFilter::Info);
    let invocation = match cli::parse(argv) {
        Ok(invocation) => invocation,
        Err(cli::Usage(why)) => {
            error!("{why}");
            return Exit::Usage;
        }
    };
    match invocation.command {
        Command::Help => print(&cli::help()),
        Command::Version => print(concat!("quell ", env!("CARGO_PKG_VERSION"), "\n")),
        _ => match root(&invocation) {
            Ok(root) => command(&invocation, root),
            Err(exit) => exit,
        },
    }
}

fn print(text: &str) -> Exit {
    out::patient(true);
    out::write(rustix::stdio::stdout(), text.as_bytes());
    Exit::Done
}

/// The machine, or what `--root` or, for a person, QUELL_ROOT says.
fn root(invocation: &Invocation) -> Result<&'static Root, Exit> {
    let person = invocation.stage.is_none_or(|stage| stage == Stage::Person);
    let below = invocation
        .root
        .clone()
        .or_else(|| std::env::var_os("QUELL_ROOT").filter(|dir| person && !dir.is_empty()));
    let root = match below {
        None => Root::Machine,
        Some(dir) => Root::below(&dir).map_err(|why| {
            error!("--root {}: {why}; nothing is done", dir.display());
            Exit::Usage
        })?,
    };
    Ok(ROOT.get_or_init(|| root))
}

fn command(invocation: &Invocation, root: &'static Root) -> Exit {
    // Who runs the hook's file on a machine that is not going down is a person, whatever its name.
    let given = invocation
        .stage
        .filter(|_| !invocation.by_name || stage::shutting_down(root));
    let stage = stage::find(root, given);
    let mut warnings: heapless::Vec<crate::options::Warning, 16> = heapless::Vec::new();
    let options = stage::options(root, stage, &mut |warning| drop(warnings.push(warning)));
    let options = invocation.over(options);
    let status = matches!(invocation.command, Command::Status);
    let may = status || invocation.dry_run || root.is_fixture() || proc::is_root();
    if may {
        start_log(root, stage, &options);
    }
    for warning in &warnings {
        warn!("{warning}");
    }
    // Files and disks that are named are read everywhere, with or without /sys.
    if let Command::Examine(subjects) = &invocation.command {
        return examine::run(root, subjects, invocation.json);
    }
    let status = matches!(invocation.command, Command::Status);
    // Who only wants to know something has time to read it.
    out::patient(!stage.is_hook() && (status || invocation.dry_run));
    let mut context = Context {
        command: match invocation.command {
            Command::Quiesce { .. } => "quiesce",
            Command::Shutdown { .. } => "shutdown",
            Command::Assemble(_) => "assemble",
            Command::Teardown { .. } => "teardown",
            Command::Remove(_) => "remove",
            Command::Exitrd(_) => "exitrd",
            _ => "status",
        },
        root,
        stage,
        deadline: Deadline::in_seconds(options.timeout_s(stage)),
        options,
        signals: Signals::block().ok(),
        dry_run: invocation.dry_run,
        json: invocation.json,
        fit: false,
        still: false,
    };
    let wanted = match &invocation.command {
        Command::Assemble(ask) => ask.wanted,
        Command::Exitrd(ask) => *ask == exitrd::Ask::Wanted,
        _ => false,
    };
    if let Some(exit) = not_now(&context, status) {
        // What does nothing here wants nothing.
        return if wanted { Exit::Undone } else { exit };
    }
    if !may {
        context.nothing(
            Level::Error,
            format_args!("only root may do this; nothing is done (--dry-run shows the plan)"),
        );
        return Exit::Missing;
    }
    match &invocation.command {
        Command::Quiesce { names, all } => quiesce(&context, names, *all),
        Command::Shutdown { verb, part } => {
            shut_down(&mut context, verb.as_str(), *part, given.is_some())
        }
        Command::Assemble(ask) => assemble::run(&context, ask),
        Command::Teardown { names, all } => tear_down(&context, names, *all),
        Command::Remove(ask) => remove::run(&context, ask),
        Command::Exitrd(ask) => exitrd::run(&context, *ask),
        Command::Status => status::run(&context),
        // Done before there was a machine to look at.
        Command::Examine(_) | Command::Help | Command::Version => Exit::Done,
    }
}

fn start_log(root: &'static Root, stage: Stage, options: &Options) {
    if !stage.is_hook() {
        kmsg::set_level(options.log);
    } else if !kmsg::to_kmsg(root, options.log) {
        warn!("/dev/kmsg cannot be written: these lines go to standard error");
    }
}

/// What to exit with where nothing is to be done here, and why, said. `status` works everywhere but without /sys.
fn not_now(context: &Context, status: bool) -> Option<Exit> {
    let root = context.root;
    if !status && !context.options.enable {
        context.nothing(Level::Info, format_args!("quell.enable=0: nothing is done"));
        return Some(Exit::Done);
    }
    if !status && let Some(why) = proc::not_ours(root) {
        context.nothing(Level::Info, format_args!("{why}: nothing is done"));
        return Some(Exit::Done);
    }
    if !root.exists("/sys") || (!root.is_fixture() && !root.exists("/sys/class")) {
        context.nothing(
            Level::Error,
            format_args!("/sys is not there: nothing can be done"),
        );
        return Some(Exit::Missing);
    }
    None
}

fn quiesce(context: &Context, names: &[quiesce::Name], all: bool) -> Exit {
    if names.is_empty() && !all && context.stage == Stage::Person {
        error!(
            "quiesce: which controllers? Name them, or give --all (with --dry-run to see the plan first)"
        );
        return Exit::Usage;
    }
    quiesce::run(
        context,
        if names.is_empty() {
            Which::All
        } else {
            Which::Named(names)
        },
    )
}

fn tear_down(context: &Context, names: &[String], all: bool) -> Exit {
    if names.is_empty() && !all && context.stage == Stage::Person {
        error!(
            "teardown: which arrays? Name them, or give --all (with --dry-run to see the plan first)"
        );
        return Exit::Usage;
    }
    teardown::run(
        context,
        match names {
            [] => teardown::Which::All,
            names => teardown::Which::Named(names),
        },
    )
}

fn shut_down(context: &mut Context, given: &str, part: Part, stage_given: bool) -> Exit {
    let Some(verb) = shutdown::verb(context, given) else {
        return Exit::Usage;
    };
    if context.stage == Stage::Person && !stage_given && !context.dry_run {
        error!(
            "shutdown is called by hooks, with --stage: nothing is done. This is what it would do:"
        );
        context.dry_run = true;
        shutdown::run(context, verb, part);
        return Exit::Usage;
    }
    shutdown::run(context, verb, part)
}
