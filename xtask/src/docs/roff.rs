//! Markdown → roff, as much of it as the manual pages use: headings, paragraphs, tables of two columns, lists, indented
//! text; and in a line `code`, **strong**, *emphasis* and `[links](to)`.

use anyhow::{Result, bail};

/// Renders the pages' Markdown. A heading of the first level is a section, others are subsections.
pub(super) fn of(markdown: &str) -> Result<String> {
    let mut page = String::new();
    let mut paragraph = String::new();
    // A table's head is dropped: what stands in its columns shows.
    let mut lines = markdown.lines().peekable();
    while let Some(line) = lines.next() {
        let under = lines.peek().copied().unwrap_or_default();
        if !is_text(line) {
            flush(&mut paragraph, &mut page)?;
        }
        if let Some(heading) = line.strip_prefix("# ") {
            page += &format!(".SH \"{}\"\n", inline(heading)?);
        } else if let Some(heading) = line.trim_start_matches('#').strip_prefix(' ')
            && line.starts_with('#')
        {
            page += &format!(".SS \"{}\"\n", inline(heading)?);
        } else if let Some(row) = line.strip_prefix("| ") {
            if !row.starts_with("---") && !under.starts_with("| ---") {
                page += &entry(row)?;
            }
        } else if let Some(item) = line.strip_prefix("- ") {
            page += &format!(".IP \\(bu 2\n{}\n", inline(item)?);
        } else if let Some(example) = line.strip_prefix("    ") {
            page += &format!(".EX\n    {}\n.EE\n", escaped(example));
        } else {
            paragraph += line;
            paragraph += "\n";
        }
    }
    flush(&mut paragraph, &mut page)?;
    Ok(page)
}

fn is_text(line: &str) -> bool {
    !(line.is_empty() || line.starts_with(['#', '|', '-']) || line.starts_with("    "))
}

fn flush(paragraph: &mut String, page: &mut String) -> Result<()> {
    let text = std::mem::take(paragraph);
    if !text.trim().is_empty() {
        let heading = page
            .lines()
            .last()
            .is_some_and(|line| line.starts_with(".S"));
        *page += if heading { "" } else { ".PP\n" };
        *page += &format!("{}\n", inline(text.trim())?);
    }
    Ok(())
}

/// A row of a table: its first column is the tag.
fn entry(row: &str) -> Result<String> {
    let Some((tag, text)) = row.trim_end_matches(['|', ' ']).split_once(" |") else {
        return Ok(format!(
            ".TP\n{}\n\\&\n",
            inline(row.trim_matches(['|', ' ']))?
        ));
    };
    Ok(format!(".TP\n{}\n{}\n", inline(tag)?, inline(text.trim())?))
}

/// What stands in a line, or in several.
fn inline(text: &str) -> Result<String> {
    let mut out = String::new();
    for (i, piece) in text.split('`').enumerate() {
        if i % 2 == 1 {
            out += &format!("\\fB{}\\fR", escaped(piece));
            continue;
        }
        out += &emphasis(&unlinked(piece))?;
    }
    if text.matches('`').count() % 2 == 1 {
        bail!("an open ` in {text:?}");
    }
    // A full stop or quote at a line's start would be a request.
    let lines: Vec<String> = out
        .lines()
        .map(|line| match line.starts_with(['.', '\'']) {
            true => format!("\\&{line}"),
            false => line.to_owned(),
        })
        .collect();
    Ok(lines.join("\n"))
}

/// `**strong**` and `*emphasis*`, outside of code.
fn emphasis(text: &str) -> Result<String> {
    let mut out = String::new();
    for (i, strong) in text.split("**").enumerate() {
        if i % 2 == 1 {
            out += &format!("\\fB{}\\fR", escaped(strong));
            continue;
        }
        for (i, piece) in strong.split('*').enumerate() {
            out += &match i % 2 {
                1 => format!("\\fI{}\\fR", escaped(piece)),
                _ => escaped(piece),
            };
        }
    }
    if text.matches('*').count() % 2 == 1 {
        bail!("an open * in {text:?}");
    }
    Ok(out)
}

/// The words of links, without where they lead.
fn unlinked(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("](") {
        let (ahead, words) = before.rsplit_once('[').unwrap_or((before, ""));
        out += ahead;
        out += words;
        rest = after.split_once(')').map_or("", |(_, after)| after);
    }
    out + rest
}

/// Text in which nothing is special: a dash is the one that can be typed.
fn escaped(text: &str) -> String {
    text.replace('\\', "\\e").replace('-', "\\-")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_form_has_its_request() {
        let page = of("# ONE `two`\n\nText *a* **b**\n`--c` [d](e.md)\n.f\n\n## Sub\n| key | value |\n| --- | --- |\n\
                       | `x` | y-z |\n| `u` | |\n- item\n\n    code \\ here\n")
        .unwrap();
        assert_eq!(
            page,
            ".SH \"ONE \\fBtwo\\fR\"\nText \\fIa\\fR \\fBb\\fR\n\\fB\\-\\-c\\fR d\n\\&.f\n.SS \"Sub\"\n\
             .TP\n\\fBx\\fR\ny\\-z\n.TP\n\\fBu\\fR\n\\&\n.IP \\(bu 2\nitem\n.EX\n    code \\e here\n.EE\n"
        );
    }

    #[test]
    fn what_is_open_is_refused() {
        for bad in ["a ` b", "a * b", "# a `"] {
            assert!(of(bad).is_err(), "{bad}");
        }
    }
}
