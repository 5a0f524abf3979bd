//! What can be given on a command line, and what may stand there, taken from quell's own tables.

use quell::cli::table::{self, FLAGS, WORDS};
use quell::options::TABLE;

/// What may stand in a place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Value {
    /// One of these words, or something else.
    Words(Vec<&'static str>),
    /// A folder.
    Folder,
    /// A disk, or a file.
    Disk,
    /// An md array.
    Array,
    /// An NVMe controller.
    Controller,
}

/// What starts with two dashes.
#[derive(Clone, Debug)]
pub(super) struct Flag {
    /// Without them.
    pub(super) name: &'static str,
    /// What follows it, after `=`.
    pub(super) value: Option<Value>,
    pub(super) meaning: &'static str,
    /// It belongs to no command, but to all of them.
    pub(super) common: bool,
}

/// Every flag and option that works.
pub(super) fn flags() -> Vec<Flag> {
    let flags = table::entries(FLAGS).map(|(head, meaning)| {
        let (name, values) = head
            .split_once('=')
            .map_or((head, None), |(a, b)| (a, Some(b)));
        (name.trim_start_matches('-'), values, meaning)
    });
    let options = TABLE.iter().filter(|row| row.works);
    let options = options.map(|row| (row.name, Some(row.values), row.meaning));
    flags
        .chain(options)
        .map(|(name, values, meaning)| Flag {
            name,
            value: values.map(|values| match values {
                "DIR" => Value::Folder,
                values => Value::Words(words(explained(values))),
            }),
            meaning,
            common: !table::commands().any(|row| row.takes(name)),
        })
        .collect()
}

/// What the words after a command's name may be, in order; the last may come again.
pub(super) fn arguments(command: &table::Row) -> Vec<Value> {
    command
        .usage
        .split(['[', ']', '|', ' ', '.'])
        .filter(|word| word.starts_with(|c: char| c.is_ascii_uppercase()))
        .map(|word| match word {
            "ARRAY" | "CONTAINER" => Value::Array,
            "CTRL" => Value::Controller,
            "DEV" | "DISK" => Value::Disk,
            word => Value::Words(words(explained(word))),
        })
        .collect()
}

/// What a word in capitals stands for, where it is one that is explained.
fn explained(word: &'static str) -> &'static str {
    table::entries(WORDS)
        .find(|(head, _)| *head == word)
        .map_or(word, |(_, meaning)| meaning)
}

/// The words of a list of values that can be typed as they are: `auto, 1 to 1024` has one.
fn words(values: &'static str) -> Vec<&'static str> {
    let typed = |word: &&str| {
        let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        !word.is_empty() && word.chars().all(plain) && *word != "seconds"
    };
    match values.starts_with(|c: char| c.is_ascii_uppercase()) {
        // A form, and not a list.
        true => Vec::new(),
        false => values.split(", ").filter(typed).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_the_words_that_can_be_typed() {
        let of = |name: &str| {
            let flag = flags().into_iter().find(|flag| flag.name == name);
            flag.unwrap().value
        };
        let words = |words: &[&'static str]| Some(Value::Words(words.to_vec()));
        assert_eq!(of("json"), None);
        assert_eq!(of("root"), Some(Value::Folder));
        assert_eq!(of("jobs"), words(&["auto"]));
        assert_eq!(of("width"), words(&[]));
        assert_eq!(of("timeout"), words(&[]));
        assert_eq!(of("degraded"), words(&["never"]));
        assert_eq!(of("assemble"), words(&["auto", "off"]));
        assert_eq!(of("teardown"), words(&["1", "0"]));
        let stages = ["initrd", "systemd-shutdown", "exitrd", "person"];
        assert_eq!(of("stage"), words(&stages));
        assert_eq!(of("step"), words(&["arrays", "controllers"]));
    }

    #[test]
    fn every_word_in_capitals_has_something_to_offer() {
        for command in table::commands() {
            for value in arguments(&command) {
                assert_ne!(value, Value::Words(Vec::new()), "{}", command.name);
            }
        }
    }
}
