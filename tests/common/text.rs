//! The texts of fixtures: how they are cut into words, what characters they stand for, and which bytes they fit.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt as _;

/// The bytes a text stands for, and whether each is a `*` that stands for any text.
pub(super) fn unescape(text: &str) -> Result<Vec<(u8, bool)>, String> {
    let mut bytes = Vec::new();
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'\\' {
            bytes.push((byte, byte == b'*'));
            continue;
        }
        let plain = match rest.next() {
            Some(b'n') => b'\n',
            Some(b't') => b'\t',
            Some(b'0') => 0,
            Some(b'e') => 0x1b,
            Some(b'x') => {
                let digits: Vec<u8> = rest.by_ref().take(2).collect();
                let digits = String::from_utf8_lossy(&digits).into_owned();
                u8::from_str_radix(&digits, 16).map_err(|_| format!("\\x{digits}: no number"))?
            }
            Some(other @ (b'\\' | b'*' | b' ' | b'"')) => other,
            other => return Err(format!("\\{:?}: no such character", other.map(char::from))),
        };
        bytes.push((plain, false));
    }
    Ok(bytes)
}

pub(super) fn bytes(text: &str) -> Result<Vec<u8>, String> {
    Ok(unescape(text)?.into_iter().map(|(byte, _)| byte).collect())
}

/// Words as a shell would cut them: blanks, but not in double quotes.
pub(super) fn words(line: &str) -> Result<Vec<OsString>, String> {
    let mut words: Vec<Vec<u8>> = Vec::new();
    let (mut quoted, mut open) = (false, false);
    let mut escaped = false;
    let mut raw: Vec<String> = Vec::new();
    for c in line.chars() {
        match c {
            '"' if !escaped => {
                quoted = !quoted;
                if !open {
                    raw.push(String::new());
                    open = true;
                }
            }
            ' ' if !quoted && !escaped => open = false,
            c => {
                if !open {
                    raw.push(String::new());
                    open = true;
                }
                raw.last_mut().unwrap().push(c);
            }
        }
        escaped = c == '\\' && !escaped;
    }
    for word in raw {
        words.push(bytes(&word)?);
    }
    Ok(words.into_iter().map(OsString::from_vec).collect())
}

/// Whether bytes are what a pattern says.
pub(super) fn is(pattern: &str, text: &[u8]) -> bool {
    fn matches(pattern: &[(u8, bool)], text: &[u8]) -> bool {
        match pattern.split_first() {
            None => text.is_empty(),
            Some(((_, true), rest)) => (0..=text.len()).any(|at| matches(rest, &text[at..])),
            Some(((byte, false), rest)) => text.first() == Some(byte) && matches(rest, &text[1..]),
        }
    }
    unescape(pattern).is_ok_and(|pattern| matches(&pattern, text))
}

/// Records of the kernel's log: each write is one, without a newline.
pub(super) fn records(text: &[u8]) -> Vec<Vec<u8>> {
    let mut starts: Vec<usize> = (0..text.len())
        .filter(|at| {
            let rest = &text[*at..];
            let digits = rest
                .iter()
                .skip(1)
                .take_while(|b| b.is_ascii_digit())
                .count();
            rest.first() == Some(&b'<') && digits > 0 && rest[1 + digits..].starts_with(b">quell: ")
        })
        .collect();
    if !text.is_empty() && starts.first() != Some(&0) {
        starts.insert(0, 0);
    }
    let ends = starts.iter().skip(1).copied().chain([text.len()]);
    starts
        .iter()
        .zip(ends)
        .map(|(from, to)| text[*from..to].to_vec())
        .collect()
}

pub(super) fn lines_of(text: &[u8]) -> Vec<Vec<u8>> {
    let mut lines: Vec<Vec<u8>> = text.split(|b| *b == b'\n').map(<[u8]>::to_vec).collect();
    if lines.last().is_some_and(Vec::is_empty) {
        lines.pop();
    }
    lines
}
