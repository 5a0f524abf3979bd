//! B44: nothing here runs quell against the machine's own /sys, /proc and /dev.
//!
//! Two files may start the binary, `xtask/src/native.rs` and, for integration tests, `tests/common/mod.rs`, and both always
//! pass `--root`. This looks through the source of all that runs on the machine for any other way. Every program that is
//! started must be a plain string that is no quell and runs no other program, or stand in the table of exceptions here.

use super::shell::tracked;
use super::source::Source;
use crate::build::root;
use anyhow::{Context, Result, bail};
use std::fs;
use std::path::Path;

/// The two files that start quell.
const STARTERS: &[&str] = &["xtask/src/native.rs", "tests/common/mod.rs"];

/// Expressions that are programs, and programs that run others, each in its file, and what they are. None of them can be quell.
const EXCEPTIONS: &[(&str, &str)] = &[
    ("xtask/src/build/cargo.rs", "program"), // a cargo
    ("xtask/src/build/toolchain.rs", "rustc()"),
    ("tests/glue/sandbox.rs", "self.at(path)"), // a script or a stub
    ("xtask/src/docs/pages.rs", "program"),     // man or mandoc
    // It reads the completions, which run nothing.
    ("xtask/src/docs/bash.rs", "bash"),
    // It makes an initramfs in a folder that has no /sys of this machine's, where nothing runs quell either.
    ("xtask/src/machines/image.rs", "unshare"),
];

/// Programs that run others: what they are given is not seen here, so they are not used at all.
const RUNNERS: &[&str] = &[
    "sh",
    "bash",
    "dash",
    "env",
    "sudo",
    "chroot",
    "unshare",
    "nsenter",
    "strace",
    "ltrace",
    "gdb",
    "perf",
    "valgrind",
    "time",
    "timeout",
    "nice",
    "ionice",
    "taskset",
    "setsid",
    "nohup",
    "xargs",
    "script",
    "stdbuf",
    "systemd-run",
    "busybox",
    "prlimit",
    "setpriv",
    "su",
    "runuser",
    "flock",
];

/// Other ways to start a program.
const OTHER_WAYS: &[&str] = &[
    "execv",
    "execl",
    "fexecve",
    "posix_spawn",
    "libc::system(",
    "Command as",
    "Command::from(",
    "unistd::exec",
    "Exec::cmd(",
    "cmd!(",
    "duct::",
    "xshell",
];

/// Looks through the tree.
pub(super) fn check() -> Result<String> {
    let mut found = Vec::new();
    let mut files = 0;
    for path in tracked()?.iter().filter(|path| runs_here(path)) {
        let text = fs::read_to_string(root().join(path))
            .with_context(|| format!("cannot read {}", path.display()))?;
        let text = part_that_runs_here(path, &text);
        files += 1;
        let name = path.to_string_lossy();
        found.extend(
            faults(&name, text)
                .into_iter()
                .map(|fault| format!("{name}: {fault}")),
        );
    }
    if files == 0 {
        bail!("no source found");
    }
    if !found.is_empty() {
        bail!(
            "quell is started by {} alone; else:\n{}",
            STARTERS.join(" and "),
            found.join("\n")
        );
    }
    Ok(format!("{files} files"))
}

/// Rust source that runs on this machine: xtask, integration tests, benches, examples, build scripts, and the library's own
/// tests.
fn runs_here(path: &Path) -> bool {
    let here = ["xtask", "tests", "benches", "examples", "build.rs", "src"];
    path.extension().is_some_and(|ext| ext == "rs") && here.iter().any(|dir| path.starts_with(dir))
}

/// The library itself runs elsewhere, its tests run here.
fn part_that_runs_here<'a>(path: &Path, text: &'a str) -> &'a str {
    // `#[cfg(test)]` of a file of tests stands where the file is named.
    if !path.starts_with("src") || path.ends_with("tests.rs") {
        return text;
    }
    text.find("#[cfg(test)]")
        .and_then(|at| text.get(at..))
        .unwrap_or("")
}

/// What is wrong with one file.
fn faults(name: &str, text: &str) -> Vec<String> {
    let source = Source::of(text);
    if STARTERS.contains(&name) {
        return if source.literals.iter().any(|literal| literal == "--root") {
            Vec::new()
        } else {
            vec!["starts quell without --root".to_owned()]
        };
    }
    let mut found = Vec::new();
    for program in source.arguments("Command::new(") {
        match source.as_literal(program) {
            Some(literal) => {
                let base = literal.rsplit('/').next().unwrap_or(literal);
                if base.contains("quell") {
                    found.push(format!("starts {literal}"));
                } else if RUNNERS.contains(&base) && !EXCEPTIONS.contains(&(name, literal)) {
                    found.push(format!("starts {literal}, which runs other programs"));
                }
            }
            None if EXCEPTIONS.contains(&(name, program)) => {}
            None => found.push(format!(
                "starts the program `{program}`, which may be quell: use a plain string, or add it to the table of exceptions"
            )),
        }
    }
    // `map(Command::new)` and the like name no program that could be looked at.
    let named = source.code.matches("Command::new").count();
    if named != source.code.matches("Command::new(").count() {
        found.push("passes Command::new on".to_owned());
    }
    for way in OTHER_WAYS.iter().filter(|way| source.code.contains(*way)) {
        found.push(format!("uses {way}"));
    }
    // The library's own word for the real thing.
    if source.has_word("Root::Machine") {
        found.push("looks at the machine itself, through Root::Machine".to_owned());
    }
    for literal in &source.literals {
        // In two parts, so that this line is not taken for what it looks for.
        if literal
            .strip_prefix("CARGO_BIN")
            .is_some_and(|rest| rest.starts_with("_EXE"))
        {
            found.push(format!("takes the binary from {literal}"));
        }
        if ["release", "debug"]
            .iter()
            .any(|kind| literal.ends_with(&format!("{kind}/quell")))
        {
            found.push(format!("names the binary, {literal}"));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bad(name: &str, text: &str) -> bool {
        !faults(name, text).is_empty()
    }

    #[test]
    fn every_other_way_is_found() {
        for text in [
            "fn f() { Command::new(\"quell\").arg(\"status\"); }",
            "std::process::Command :: new (\"/usr/lib/quell/quell\")",
            "Command::new(env!(\"CARGO_BIN_EXE_quell\"))",
            "let p = option_env!(\"CARGO_BIN_EXE_quell\");",
            "Command::new(build::quell()?)",
            "Command::new(&path)",
            "Command::new(\"sh\").arg(\"-c\").arg(\"quell status\")",
            "Command::new(\"sudo\").arg(build::quell()?)",
            "Command::new(root().join(\"target/release/quell\"))",
            "let p = \"target/x86_64-unknown-linux-musl/release/quell\";",
            "paths.map(Command::new)",
            "use std::process::Command as Other;",
            "nix::unistd::execve(path, args, env)",
            "quiesce::run(&Root::Machine, &options)",
        ] {
            assert!(bad("xtask/src/bench.rs", text), "{text}");
            assert!(bad("tests/cli.rs", text), "{text}");
        }
    }

    #[test]
    fn what_cannot_start_it_is_left_alone() {
        for text in [
            "Command::new(\"git\").arg(\"ls-files\")",
            "Command::new(\"/usr/bin/qemu-system-x86_64\")",
            "// Command::new(\"quell\")\nfn f() {}",
            "let text = \"Command::new(path)\";",
            "native::quell(&binary, root, [\"status\"])",
            "assert_eq!(refused, Some(BadRoot::Machine));",
            "setup(\"usr/lib/quell/quell\")",
        ] {
            assert!(!bad("xtask/src/bench.rs", text), "{text}");
        }
    }

    #[test]
    fn the_starters_must_pass_a_root() {
        for name in STARTERS {
            assert!(bad(name, "Command::new(binary).arg(\"status\")"));
            assert!(!bad(name, "Command::new(binary).arg(\"--root\").arg(root)"));
        }
    }

    #[test]
    fn an_exception_holds_in_its_own_file_only() {
        assert!(!bad("xtask/src/build/cargo.rs", "Command::new(program)"));
        assert!(bad("xtask/src/bench.rs", "Command::new(program)"));
    }

    #[test]
    fn all_that_runs_here_is_looked_at() {
        for path in [
            "xtask/src/vm/mod.rs",
            "tests/common/mod.rs",
            "benches/x.rs",
            "build.rs",
        ] {
            assert!(runs_here(Path::new(path)), "{path}");
        }
        assert!(!runs_here(Path::new("xtask/Cargo.toml")));
        let text = "fn main() { run(Root::Machine) }\n#[cfg(test)]\nmod tests { }";
        let tests = part_that_runs_here(Path::new("src/main.rs"), text);
        assert!(tests.starts_with("#[cfg(test)]") && !bad("src/main.rs", tests));
    }
}
