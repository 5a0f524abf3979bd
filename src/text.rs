//! Bounded text: what a line is built in where nothing may allocate.

use core::fmt;

/// UTF-8 text of at most `N` bytes that is cut, never refused, when it grows over.
///
/// Writing always succeeds: a report that lost its tail is worth more at 3 a.m. than none.
#[derive(Clone, Default)]
pub struct Text<const N: usize> {
    inner: heapless::String<N>,
    cut: bool,
}

impl<const N: usize> PartialEq for Text<N> {
    fn eq(&self, other: &Self) -> bool {
        self.as_str() == other.as_str() && self.is_cut() == other.is_cut()
    }
}

impl<const N: usize> Text<N> {
    /// Nothing written yet.
    pub const fn new() -> Self {
        Self {
            inner: heapless::String::new(),
            cut: false,
        }
    }

    /// The text of `args`, cut at `N` bytes.
    pub fn of(args: fmt::Arguments<'_>) -> Self {
        let mut text = Self::new();
        text.add(args);
        text
    }

    /// Appends `args`, cut at `N` bytes in all.
    pub fn add(&mut self, args: fmt::Arguments<'_>) {
        // Our own write_str never fails, and a Display that does has nothing more to say.
        let _ = fmt::Write::write_fmt(self, args);
    }

    /// What has been written.
    pub fn as_str(&self) -> &str {
        &self.inner
    }

    /// True if something did not fit.
    pub fn is_cut(&self) -> bool {
        self.cut
    }

    /// True if nothing has been written.
    pub fn is_empty(&self) -> bool {
        self.inner.is_empty()
    }

    /// Starts again.
    pub fn clear(&mut self) {
        self.inner.clear();
        self.cut = false;
    }
}

impl<const N: usize> fmt::Write for Text<N> {
    fn write_str(&mut self, piece: &str) -> fmt::Result {
        let room = N - self.inner.len();
        let mut fits = piece.len().min(room);
        while !piece.is_char_boundary(fits) {
            fits -= 1;
        }
        if fits < piece.len() {
            self.cut = true;
        }
        // `fits` bytes have room by construction.
        let _ = self.inner.push_str(piece.get(..fits).unwrap_or_default());
        Ok(())
    }
}

impl<const N: usize> fmt::Display for Text<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.inner)
    }
}

impl<const N: usize> fmt::Debug for Text<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}

/// Shows bytes from the world as one printable line: control characters and what is not UTF-8 become `?`.
///
/// A model name, a mount point or a process name must not be able to move the cursor of a serial console.
pub struct Printable<'a>(pub &'a [u8]);

impl Printable<'_> {
    /// As bounded text.
    #[must_use]
    pub fn to_text<const N: usize>(&self) -> Text<N> {
        Text::of(format_args!("{self}"))
    }
}

impl fmt::Display for Printable<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for chunk in self.0.utf8_chunks() {
            for c in chunk.valid().chars() {
                fmt::Write::write_char(f, if c.is_control() { '?' } else { c })?;
            }
            if !chunk.invalid().is_empty() {
                f.write_str("?")?;
            }
        }
        Ok(())
    }
}

/// A duration in milliseconds as people read it: `84 ms`, `3.4 s`, `75 s`.
pub struct Millis(pub u64);

impl fmt::Display for Millis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            ms @ 0..=999 => write!(f, "{ms} ms"),
            ms @ 1_000..=99_949 => {
                let tenths = (ms + 50) / 100;
                write!(f, "{}.{} s", tenths / 10, tenths % 10)
            }
            ms => write!(f, "{} s", (ms + 500) / 1000),
        }
    }
}

/// The same, always in seconds with one decimal: `0.6 s`.
pub struct Seconds(pub u64);

impl fmt::Display for Seconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tenths = self.0.saturating_add(50) / 100;
        write!(f, "{}.{} s", tenths / 10, tenths % 10)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn text_is_cut_at_a_character_not_refused() {
        let text = Text::<5>::of(format_args!("ab{}", "cäx"));
        assert_eq!(text.as_str(), "abcä");
        assert!(!Text::<5>::of(format_args!("abcde")).is_cut());
        let text = Text::<4>::of(format_args!("abcä"));
        assert_eq!(text.as_str(), "abc");
        assert!(text.is_cut());
    }

    #[test]
    fn printable_keeps_a_console_safe() {
        let shown = Printable(b"a\x1b[2Jb\xff\nc").to_string();
        assert_eq!(shown, "a?[2Jb??c");
    }

    #[test]
    fn durations_read_like_durations() {
        let shown: Vec<String> = [0, 999, 1000, 3449, 3450, 99_949, 99_950, 184_500]
            .map(|ms| Millis(ms).to_string())
            .into();
        assert_eq!(
            shown,
            [
                "0 ms", "999 ms", "1.0 s", "3.4 s", "3.5 s", "99.9 s", "100 s", "185 s"
            ]
        );
    }
}
