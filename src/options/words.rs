//! A kernel command line, cut into words.

/// The kernel's `isspace`: ASCII white space, and 0xa0, which its table (`lib/ctype.c`) counts as Latin-1's blank.
const fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t'..=b'\r' | 0xa0)
}

/// The words of a kernel command line as `(parameter, value)`, cut as `next_arg` in `lib/cmdline.c` does it; ends at a
/// bare `--` (what follows is init's) and, as a C string does, at a NUL.
pub(super) struct Words<'a> {
    rest: &'a [u8],
    /// A bare `--` is a word like any other.
    to_the_end: bool,
}

impl<'a> Words<'a> {
    pub(super) fn new(line: &'a [u8]) -> Self {
        Self {
            rest: line.split(|b| *b == 0).next().unwrap_or_default(),
            to_the_end: false,
        }
    }

    /// The same to the end of the line, as user space reads it: dracut, mdadm and udev know no `--`.
    pub(super) fn all(line: &'a [u8]) -> Self {
        Self {
            to_the_end: true,
            ..Self::new(line)
        }
    }
}

impl<'a> Iterator for Words<'a> {
    type Item = (&'a [u8], Option<&'a [u8]>);

    fn next(&mut self) -> Option<Self::Item> {
        let start = self.rest.iter().position(|b| !is_space(*b))?;
        let (_, args) = self.rest.split_at_checked(start)?;
        let (quoted, args) = match args.strip_prefix(b"\"") {
            Some(args) => (true, args),
            None => (false, args),
        };
        let mut in_quote = quoted;
        let mut equals = None;
        let mut end = args.len();
        for (i, byte) in args.iter().enumerate() {
            match byte {
                b if is_space(*b) && !in_quote => {
                    end = i;
                    break;
                }
                // The kernel keeps the position in an int that starts at 0: a first byte '=' does not count.
                b'=' if equals.is_none() && i > 0 => equals = Some(i),
                b'"' => in_quote = !in_quote,
                _ => {}
            }
        }
        let (word, rest) = args.split_at_checked(end)?;
        self.rest = rest;
        let (param, value) = match equals.and_then(|at| word.split_at_checked(at)) {
            Some((param, value)) => (param, Some(value.strip_prefix(b"=").unwrap_or(value))),
            None => (word, None),
        };
        let unquote = |text: &'a [u8]| text.strip_suffix(b"\"").unwrap_or(text);
        let (param, value) = match value {
            Some(value) => match value.strip_prefix(b"\"") {
                Some(inner) => (param, Some(unquote(inner))),
                None if quoted => (param, Some(unquote(value))),
                None => (param, Some(value)),
            },
            None if quoted => (unquote(param), None),
            None => (param, None),
        };
        if value.is_none() && param == b"--" && !self.to_the_end {
            self.rest = &[];
            return None;
        }
        Some((param, value))
    }
}
