//! The manual pages: the prose of `doc/NAME.md`, in which `<!-- marker -->` is replaced by what a table says, as roff.

use anyhow::{Context, Result, bail};
use quell::cli::table::{self, EXITS, FLAGS, WORDS};
use quell::options::TABLE;
use std::fs;
use std::path::Path;

use super::roff;

/// A page by its name and section, `quell.8`.
pub(super) fn page(tree: &Path, name: &str) -> Result<String> {
    let (title, section) = name.rsplit_once('.').context("a page has a section")?;
    let source = tree.join(format!("doc/{name}.md"));
    let prose =
        fs::read_to_string(&source).with_context(|| format!("cannot read {}", source.display()))?;
    let json = fs::read_to_string(tree.join("doc/json.md")).context("cannot read doc/json.md")?;
    let text = expanded(&prose, &json).with_context(|| source.display().to_string())?;
    Ok(format!(
        ".\\\" Made by cargo xtask, of quell's own tables and doc/{name}.md.\n\
         .TH {title} {section} \"\" \"quell {}\" \"\"\n.nh\n.ad l\n{}",
        env!("CARGO_PKG_VERSION"),
        roff::of(&text)?
    ))
}

/// Replaces the markers.
fn expanded(prose: &str, json: &str) -> Result<String> {
    let mut text = String::new();
    for line in prose.lines() {
        match line.strip_prefix("<!-- ") {
            None => text += line,
            Some(marker) => text += &table(marker.trim_end_matches(" -->"), json)?,
        }
        text += "\n";
    }
    Ok(text)
}

/// What a marker stands for, as Markdown.
fn table(marker: &str, json: &str) -> Result<String> {
    let rows = |rows: &mut dyn Iterator<Item = (String, String)>| -> String {
        rows.map(|(head, meaning)| format!("| {head} | {meaning} |\n"))
            .collect()
    };
    let code = |(head, meaning): (&str, &str)| (format!("`{head}`"), meaning.to_owned());
    let options = |prefix: &str| {
        rows(&mut TABLE.iter().filter(|row| row.works).map(|row| {
            let meaning = format!("{} (default: {})", row.meaning, row.default);
            (format!("`{prefix}{}=`{}", row.name, row.values), meaning)
        }))
    };
    Ok(match marker {
        "flags" => rows(&mut table::entries(FLAGS).map(code)),
        "words" => rows(&mut table::entries(WORDS).map(code)),
        "exits" => rows(&mut table::entries(EXITS).map(code)),
        "options" => options("--"),
        "cmdline" => options("quell."),
        // All but its title.
        "json.md" => json
            .split_once('\n')
            .map_or("", |(_, rest)| rest)
            .to_owned(),
        name => match table::commands().find(|row| row.name == name) {
            Some(row) => format!(
                "## {name}\n\n{}\n\n{}.\n",
                usage(&row),
                sentence(row.meaning)
            ),
            None => bail!("there is no table for <!-- {name} -->"),
        },
    })
}

/// A usage line: flags as they are typed, words in capitals as what they stand for.
fn usage(row: &table::Row) -> String {
    let mut line = format!("`quell {}` ", row.name);
    let mut rest = row.usage;
    while let Some(first) = rest.chars().next() {
        let inside = |c: char| match first {
            '-' => c == '-' || c.is_ascii_lowercase(),
            _ => c.is_ascii_uppercase(),
        };
        let end = rest.find(|c| !inside(c)).unwrap_or(rest.len());
        let (word, after) = rest.split_at(end.max(1));
        line += &match first {
            '-' => format!("`{word}`"),
            'A'..='Z' => format!("*{word}*"),
            _ => word.to_owned(),
        };
        rest = after;
    }
    line
}

fn sentence(meaning: &str) -> String {
    let mut chars = meaning.chars();
    let first = chars.next().map(|c| c.to_ascii_uppercase());
    first.into_iter().chain(chars).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::build::root;
    use std::io::Write as _;
    use std::process::{Command, Stdio};

    const PAGES: [&str; 2] = ["quell.8", "quell.cmdline.7"];

    /// What a reader sees, in one line.
    fn read(page: &str) -> String {
        let plain = page
            .replace("\\fB", "")
            .replace("\\fI", "")
            .replace("\\fR", "");
        plain
            .replace("\\-", "-")
            .split_whitespace()
            .collect::<Vec<_>>()
            .join(" ")
    }

    #[test]
    fn every_command_flag_option_word_and_exit_status_is_there() {
        let page = read(&page(&root(), "quell.8").unwrap());
        for row in table::commands() {
            let line = format!(
                "quell {} {} .PP {}",
                row.name,
                row.usage,
                sentence(row.meaning)
            );
            assert_eq!(page.matches(&line).count(), 1, "{line}");
        }
        for (head, meaning) in [FLAGS, WORDS, EXITS].into_iter().flat_map(table::entries) {
            let entry = format!(".TP {head} {meaning}");
            assert!(page.contains(&entry), "{entry}");
        }
        for row in TABLE.iter().filter(|row| row.works) {
            let entry = format!(".TP --{}={} {}", row.name, row.values, row.meaning);
            assert!(page.contains(&entry), "{entry}");
        }
    }

    #[test]
    fn every_word_of_the_kernel_command_line_is_there() {
        let page = read(&page(&root(), "quell.cmdline.7").unwrap());
        for row in TABLE.iter().filter(|row| row.works) {
            let entry = format!(".TP quell.{}={} {}", row.name, row.values, row.meaning);
            assert!(page.contains(&entry), "{entry}");
        }
    }

    #[test]
    fn every_key_of_json_is_there() {
        let json = fs::read_to_string(root().join("doc/json.md")).unwrap();
        let page = read(&page(&root(), "quell.8").unwrap());
        for key in json.split('`').skip(1).step_by(2) {
            assert!(page.contains(key), "{key}");
        }
    }

    #[test]
    fn a_marker_without_a_table_is_refused() {
        assert!(expanded("<!-- frobnicate -->", "").is_err());
    }

    /// With what this machine has of them: groff's warnings, and mandoc's.
    #[test]
    fn readers_of_manual_pages_have_nothing_to_say() {
        for name in PAGES {
            let text = page(&root(), name).unwrap();
            for tool in [
                &["man", "--warnings=w", "-l", "-"][..],
                &["mandoc", "-T", "lint", "-W", "warning"],
            ] {
                let Some((program, args)) = tool.split_first() else {
                    continue;
                };
                let Ok(mut child) = Command::new(program)
                    .args(args)
                    .stdin(Stdio::piped())
                    .stdout(Stdio::piped())
                    .stderr(Stdio::piped())
                    .env("MANPAGER", "cat")
                    .spawn()
                else {
                    continue;
                };
                child
                    .stdin
                    .take()
                    .unwrap()
                    .write_all(text.as_bytes())
                    .unwrap();
                let out = child.wait_with_output().unwrap();
                // mandoc says it on its standard output; a page is of a version, not of a day.
                let said = if *program == "man" {
                    out.stderr
                } else {
                    out.stdout
                };
                let said = String::from_utf8(said).unwrap();
                let said: Vec<&str> = said
                    .lines()
                    .filter(|line| !line.contains("missing date"))
                    .collect();
                assert_eq!(said, [""; 0], "{tool:?} {name}");
            }
        }
    }
}
