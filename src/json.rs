//! One JSON object (RFC 8259) on standard output, written as it goes: nothing is collected.

use core::fmt;

use crate::sys::out;
use crate::text::Text;

/// How deep objects and arrays may stand in each other.
const DEPTH: usize = 8;

/// The object of a command that did nothing, and why.
pub fn nothing(command: &str, why: fmt::Arguments<'_>) {
    let mut json = Json::object();
    json.number("schema", 1);
    json.text("command", format_args!("{command}"));
    // What it would have been about.
    json.array(match command {
        "assemble" => "containers",
        _ => "controllers",
    });
    json.close();
    json.text("nothing_done", why);
    json.close();
    json.finish();
}

/// A JSON object being written.
pub struct Json {
    buf: Text<1024>,
    /// By depth: `}` or `]`, and whether something stands there already.
    open: heapless::Vec<(char, bool), DEPTH>,
}

impl Json {
    /// `{`
    pub fn object() -> Self {
        let mut json = Self {
            buf: Text::new(),
            open: heapless::Vec::new(),
        };
        json.begin('{', '}');
        json
    }

    /// `"key": number`
    pub fn number(&mut self, key: &str, value: u64) {
        self.key(key);
        self.put(format_args!("{value}"));
    }

    /// `"key": true`
    pub fn flag(&mut self, key: &str, value: bool) {
        self.key(key);
        self.put(format_args!("{value}"));
    }

    /// `"key": "text"`
    pub fn text(&mut self, key: &str, value: fmt::Arguments<'_>) {
        self.key(key);
        self.string(value);
    }

    /// `"text"`, in an array.
    pub fn item(&mut self, value: fmt::Arguments<'_>) {
        self.comma();
        self.string(value);
    }

    /// `"key": [`
    pub fn array(&mut self, key: &str) {
        self.key(key);
        self.begin('[', ']');
    }

    /// `{`, in an array.
    pub fn open_object(&mut self) {
        self.comma();
        self.begin('{', '}');
    }

    /// The end of the innermost object or array.
    pub fn close(&mut self) {
        if let Some((end, _)) = self.open.pop() {
            self.put(format_args!("{end}"));
        }
    }

    /// Writes out what is not yet.
    pub fn finish(&mut self) {
        self.put(format_args!("\n"));
        self.flush();
    }

    fn begin(&mut self, start: char, end: char) {
        self.put(format_args!("{start}"));
        let _ = self.open.push((end, false));
    }

    fn comma(&mut self) {
        if let Some((_, some)) = self.open.last_mut()
            && core::mem::replace(some, true)
        {
            self.put(format_args!(","));
        }
    }

    fn key(&mut self, key: &str) {
        self.comma();
        self.put(format_args!("\"{key}\":"));
    }

    fn string(&mut self, value: fmt::Arguments<'_>) {
        self.put(format_args!("\""));
        // Escaped names a character each; a Display that fails has said all it can.
        let _ = fmt::Write::write_fmt(&mut Escaped(self), value);
        self.put(format_args!("\""));
    }

    fn put(&mut self, piece: fmt::Arguments<'_>) {
        // No piece is longer than a few dozen bytes.
        if self.buf.as_str().len() > 896 {
            self.flush();
        }
        self.buf.add(piece);
    }

    fn flush(&mut self) {
        out::write(rustix::stdio::stdout(), self.buf.as_str().as_bytes());
        self.buf.clear();
    }
}

struct Escaped<'a>(&'a mut Json);

impl fmt::Write for Escaped<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for c in text.chars() {
            match c {
                '"' | '\\' => self.0.put(format_args!("\\{c}")),
                c if u32::from(c) < 0x20 => self.0.put(format_args!("\\u{:04x}", u32::from(c))),
                c => self.0.put(format_args!("{c}")),
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_is_what_programs_read() {
        let mut json = Json::object();
        json.number("schema", 1);
        json.array("list");
        json.open_object();
        json.text("a", format_args!("x\"\\\n{}", "ä"));
        json.close();
        json.item(format_args!("b"));
        json.close();
        json.flag("yes", true);
        json.close();
        assert_eq!(
            json.buf.as_str(),
            r#"{"schema":1,"list":[{"a":"x\"\\\u000aä"},"b"],"yes":true}"#
        );
    }
}
