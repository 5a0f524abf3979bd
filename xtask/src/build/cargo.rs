//! Cargo, called from xtask, and what it says about where things are.

use anyhow::{Context, Result, bail};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The folder that holds the whole tree.
pub(crate) fn root() -> PathBuf {
    // `cargo run` says where the package is now; the compiled-in path is for a binary that was started by hand.
    let xtask = std::env::var_os("CARGO_MANIFEST_DIR")
        .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
    xtask.parent().map(Path::to_path_buf).unwrap_or(xtask)
}

/// The cargo that runs xtask, in the tree's root.
pub(crate) fn cargo() -> Command {
    with(std::env::var_os("CARGO").map_or_else(|| PathBuf::from("cargo"), PathBuf::from))
}

/// A cargo by path. Always `--locked`: a test run must not change the tree it tests.
pub(super) fn with(program: PathBuf) -> Command {
    let mut command = Command::new(program);
    command.current_dir(root()).env("CARGO_TERM_COLOR", "never");
    // What `cargo run` tells xtask about itself is not for the crates that are built.
    for (name, _) in std::env::vars_os() {
        let name = name.to_string_lossy();
        if name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_") {
            command.env_remove(&*name);
        }
    }
    command
}

/// Where cargo puts what it builds, whatever the environment and the user's configuration say.
pub(crate) fn target_dir() -> Result<PathBuf> {
    let out = cargo()
        .args(["metadata", "--no-deps", "--format-version", "1"])
        .stderr(Stdio::inherit())
        .output()
        .context("cannot start cargo")?;
    let value: serde_json::Value =
        serde_json::from_slice(&out.stdout).context("cargo metadata gave no JSON")?;
    value
        .get("target_directory")
        .and_then(|dir| dir.as_str())
        .map(PathBuf::from)
        .context("cargo metadata names no target_directory")
}

/// Runs a `cargo build` and gives back the executable that it says it made.
pub(super) fn executable(command: &mut Command) -> Result<PathBuf> {
    let out = command
        .arg("--message-format=json-render-diagnostics")
        .stderr(Stdio::inherit())
        .output()
        .with_context(|| format!("cannot start {}", command.get_program().to_string_lossy()))?;
    if !out.status.success() {
        bail!("cargo build failed ({})", out.status);
    }
    let text = String::from_utf8_lossy(&out.stdout);
    named(&text, "quell").context("cargo build made no executable called quell")
}

fn named(messages: &str, name: &str) -> Option<PathBuf> {
    messages
        .lines()
        .filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok())
        .filter(|message| message.pointer("/target/name").and_then(|n| n.as_str()) == Some(name))
        .find_map(|message| {
            message
                .get("executable")
                .and_then(|path| path.as_str())
                .map(PathBuf::from)
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_executable_is_read_from_cargos_messages() {
        let text = concat!(
            "{\"reason\":\"compiler-artifact\",\"target\":{\"name\":\"quell\"},\"executable\":null}\n",
            "not json\n",
            "{\"reason\":\"compiler-artifact\",\"target\":{\"name\":\"other\"},\"executable\":\"/t/other\"}\n",
            "{\"reason\":\"compiler-artifact\",\"target\":{\"name\":\"quell\"},\"executable\":\"/t/a \\\"b\\\"/quell\"}\n",
        );
        assert_eq!(
            named(text, "quell"),
            Some(PathBuf::from("/t/a \"b\"/quell"))
        );
        assert_eq!(named(text, "nothing"), None);
    }
}
