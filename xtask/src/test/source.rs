//! Just enough of Rust's lexical rules to look for calls in source text without being fooled by comments and strings.

/// Source with comments and whitespace gone, and each string literal replaced by `"N"`, its index in `literals`.
#[derive(Debug, Default)]
pub(super) struct Source {
    pub(super) code: String,
    pub(super) literals: Vec<String>,
}

impl Source {
    pub(super) fn of(text: &str) -> Self {
        let mut source = Self::default();
        let mut rest = text;
        while let Some(first) = rest.chars().next() {
            rest = source.token(first, rest);
        }
        source
    }

    /// Takes one token off the front.
    fn token<'a>(&mut self, first: char, rest: &'a str) -> &'a str {
        if let Some(comment) = rest.strip_prefix("//") {
            return comment.split_once('\n').map_or("", |(_, after)| after);
        }
        if let Some(comment) = rest.strip_prefix("/*") {
            return after_block_comment(comment);
        }
        if let Some((literal, after)) = raw_string(rest).filter(|_| !self.in_word()) {
            return self.literal(literal, after);
        }
        if let Some(inside) = rest.strip_prefix('"') {
            let end = closing_quote(inside);
            let (literal, after) = inside.split_at_checked(end).unwrap_or((inside, ""));
            return self.literal(literal, after.strip_prefix('"').unwrap_or(after));
        }
        if let Some(after) = char_literal(rest) {
            self.code.push('\'');
            return after;
        }
        if first.is_whitespace() {
            // Two words must not grow together, and one blank is enough to keep them apart.
            if self.in_word() && rest.trim_start().starts_with(is_word) {
                self.code.push(' ');
            }
            return rest.trim_start();
        }
        self.code.push(first);
        rest.get(first.len_utf8()..).unwrap_or("")
    }

    fn in_word(&self) -> bool {
        self.code.ends_with(is_word)
    }

    fn literal<'a>(&mut self, literal: &str, after: &'a str) -> &'a str {
        self.code += &format!("\"{}\"", self.literals.len());
        self.literals.push(literal.to_owned());
        after
    }

    /// Whether `word` stands in the code, and not as the end of a longer one.
    pub(super) fn has_word(&self, word: &str) -> bool {
        self.code.match_indices(word).any(|(at, _)| {
            let before = self.code.get(..at).unwrap_or("");
            !before.ends_with(is_word)
        })
    }

    /// The literal that an expression is, where it is nothing else.
    pub(super) fn as_literal(&self, expression: &str) -> Option<&str> {
        let index = expression.strip_prefix('"')?.strip_suffix('"')?;
        self.literals
            .get(index.parse::<usize>().ok()?)
            .map(String::as_str)
    }

    /// What stands between the parentheses after each occurrence of `call`, which ends in `(`.
    pub(super) fn arguments<'a>(&'a self, call: &'a str) -> impl Iterator<Item = &'a str> {
        self.code.match_indices(call).map(move |(at, _)| {
            let inside = self.code.get(at + call.len()..).unwrap_or("");
            let mut depth = 1_usize;
            let end = inside.find(|c| {
                depth = match c {
                    '(' => depth + 1,
                    ')' => depth - 1,
                    _ => depth,
                };
                depth == 0
            });
            end.and_then(|end| inside.get(..end)).unwrap_or(inside)
        })
    }
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

fn after_block_comment(mut rest: &str) -> &str {
    let mut depth = 1;
    while depth > 0 {
        let Some(at) = rest.find(['/', '*']) else {
            return "";
        };
        let here = rest.get(at..).unwrap_or("");
        let (change, length) = match here.get(..2) {
            Some("/*") => (1, 2),
            Some("*/") => (-1, 2),
            _ => (0, 1),
        };
        depth += change;
        rest = here.get(length..).unwrap_or("");
    }
    rest
}

/// `r"..."`, `r#"..."#` and their byte and C forms.
fn raw_string(text: &str) -> Option<(&str, &str)> {
    let rest = text
        .strip_prefix("br")
        .or_else(|| text.strip_prefix("cr"))
        .or_else(|| text.strip_prefix('r'))?;
    let opened = rest.trim_start_matches('#');
    let hashes = rest.len() - opened.len();
    let inside = opened.strip_prefix('"')?;
    inside.split_once(&format!("\"{}", "#".repeat(hashes)))
}

fn closing_quote(inside: &str) -> usize {
    let mut escaped = false;
    inside
        .find(|c| {
            let ends = c == '"' && !escaped;
            escaped = c == '\\' && !escaped;
            ends
        })
        .unwrap_or(inside.len())
}

/// The rest after a character literal; a lifetime is none.
fn char_literal(text: &str) -> Option<&str> {
    let inside = text.strip_prefix('\'')?;
    if let Some(escape) = inside.strip_prefix('\\') {
        let skip = escape.chars().next()?.len_utf8();
        return escape.get(skip..)?.split_once('\'').map(|(_, after)| after);
    }
    inside
        .get(inside.chars().next()?.len_utf8()..)?
        .strip_prefix('\'')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_blanks_go_and_literals_are_set_apart() {
        let source = Source::of(
            "let x = f(\"a \\\" b\", 'c', '\"'); // \"not this\"\n/* nor /* this */ one */ g::<'a>( r#\"raw \"x\" \"# );",
        );
        assert_eq!(source.literals, ["a \\\" b", "raw \"x\" "]);
        assert_eq!(source.code, "let x=f(\"0\",',');g::<'a>(\"1\");");
    }

    #[test]
    fn arguments_are_found_across_lines_and_nesting() {
        let source = Source::of("Command :: new (\n path(a, (b)) ) ; Command::new(\"git\").arg(x)");
        let found: Vec<&str> = source.arguments("Command::new(").collect();
        assert_eq!(found, ["path(a,(b))", "\"0\""]);
        assert_eq!(found.get(1).and_then(|f| source.as_literal(f)), Some("git"));
    }

    #[test]
    fn unfinished_text_ends() {
        for text in ["\"open", "/* open", "r#\"open", "'", "f(", "'\\"] {
            let _ = Source::of(text).arguments("f(").count();
        }
    }
}
