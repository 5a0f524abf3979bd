//! The table as it is shown, and BENCHMARKS.md.

use super::Options;
use super::row::Row;
use crate::build::root;
use crate::setup;
use anyhow::{Context, Result};
use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

const HEAD: [&str; 6] = [
    "figure: its peer",
    "measured",
    "peer",
    "ratio",
    "must reach",
    "",
];

/// One row while the run goes on.
pub(super) fn line(row: &Row) -> String {
    let [figure, measured, peer, ratio, gate, verdict] = row.cells();
    let mut line = format!("  {verdict:6} {figure}: {measured}");
    for (before, text) in [(", peer ", peer), (", ratio ", ratio), (" (", gate)] {
        if !text.is_empty() {
            line += &format!("{before}{text}");
        }
    }
    if gate.is_empty() { line } else { line + ")" }
}

/// All of them as a table in Markdown that can be read as it is.
pub(super) fn aligned(rows: &[Row]) -> String {
    let cells: Vec<[&str; 6]> = rows.iter().map(Row::cells).collect();
    let widths: Vec<usize> = (0..HEAD.len())
        .map(|column| {
            let all = cells.iter().chain([&HEAD]);
            all.filter_map(|row| row.get(column))
                .map(|text| text.chars().count())
                .max()
                .unwrap_or(0)
                .max(3)
        })
        .collect();
    let mut out = String::new();
    let mut put = |row: &[&str]| {
        for (text, width) in row.iter().zip(&widths) {
            let _ = write!(out, "| {text:width$} ");
        }
        out.push_str("|\n");
    };
    put(&HEAD);
    put(&["---"; 6]);
    for row in &cells {
        put(row);
    }
    out
}

/// Writes BENCHMARKS.md.
pub(super) fn write(rows: &[Row], options: &Options, minutes: f64) -> Result<PathBuf> {
    let path = root().join("BENCHMARKS.md");
    let kernel = setup::kernel(&options.kernel)?.version;
    let missed = rows.iter().filter(|row| row.reached == Some(false)).count();
    let outcome = if missed == 0 {
        "Every gate is reached.".to_owned()
    } else {
        format!("{missed} gates are MISSED.")
    };
    let text = format!(
        "# Benchmarks

Written by `cargo xtask bench`{}; do not edit. {outcome}

- date: {}
- source: {}
- machine: {}
- {}, TCG (every instruction of the VM is translated), 2 virtual processors
- kernel in the VMs: {kernel}, Debian's own image
- the whole run took {minutes:.0} minutes

{}
Times of whole shutdowns are the VM kernel's own, from the line logged just before the call to its `reboot: Restarting
system`, unless something else is said; medians, with the least and the greatest. A figure and its peer (what stands
behind the colon) are measured in alternating rounds of one run. Forks are counted by the kernel's own trace.
Assembly, teardown and removal are told by the VM's clock too, read by the shell that calls both sides, all rounds in
one boot: from the call until it has ended and what was asked for is true. Debian's machines are whole ones, root on
Intel RAID 1, booted by their own initramfs; their shutdowns are told from systemd-shutdown's first line. What
preparing an exitrd takes is told by the control group that it runs in; memory at the peak is all that is charged to
that, files that it reads and writes among it.
",
        options
            .rounds
            .map_or_else(String::new, |n| format!(" --rounds {n}")),
        said("date", &["-u", "+%Y-%m-%d %H:%M UTC"])?,
        commit()?,
        processor(),
        said("qemu-system-x86_64", &["--version"])?,
        aligned(rows),
    );
    fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
    Ok(path)
}

/// The first line of what a program says.
fn said(program: &str, args: &[&str]) -> Result<String> {
    let mut command = match program {
        "date" => Command::new("date"),
        "git" => Command::new("git"),
        _ => Command::new("qemu-system-x86_64"),
    };
    let out = command
        .args(args)
        .current_dir(root())
        .output()
        .with_context(|| format!("cannot start {program}"))?;
    let text = String::from_utf8_lossy(&out.stdout);
    Ok(text.lines().next().unwrap_or_default().trim().to_owned())
}

fn commit() -> Result<String> {
    let commit = said("git", &["rev-parse", "--short", "HEAD"])?;
    let changed = said("git", &["status", "--porcelain", "--", "src", "Cargo.lock"])?;
    let with = if changed.is_empty() {
        ""
    } else {
        ", with changes"
    };
    Ok(format!("{commit}{with}"))
}

/// What the host is.
fn processor() -> String {
    let info = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = info
        .lines()
        .find_map(|line| line.strip_prefix("model name")?.split_once(':'))
        .map_or("unknown processor", |(_, model)| model.trim());
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    format!("{model}, {cores} cores")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_markdown() {
        let rows = [
            Row::new("a")
                .measured("1 s")
                .peer("2 s")
                .gate("at most 1", true),
            Row::new("a longer one").measured("3 s"),
        ];
        let text = aligned(&rows);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 4);
        assert!(lines.iter().all(|line| line.len() == lines[0].len()));
        assert!(lines[1].starts_with("| ---"));
        assert!(lines[2].ends_with("| ok  |"), "{}", lines[2]);
        assert!(line(&rows[0]).contains("peer 2 s"));
    }
}
