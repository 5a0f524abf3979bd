//! fish's completion.

use super::given::{self, Flag, Value};
use quell::cli::table;

/// The whole file.
pub(super) fn script() -> String {
    let flags = given::flags();
    let mut text = String::from(
        "# fish completion for quell. Made by cargo xtask, of the tables that quell --help is made of.\n\n\
         complete -c quell -f\n\
         complete -c quell -s h -l help -d 'show what can be given'\n\
         complete -c quell -s V -l version -d 'show the version'\n",
    );
    for flag in flags.iter().filter(|flag| flag.common) {
        text += &format!("complete -c quell {}\n", option(flag));
    }
    for row in table::commands() {
        text += &format!(
            "\ncomplete -c quell -n __fish_use_subcommand -a {} -d {}\n",
            row.name,
            quoted(row.meaning)
        );
        let there = format!(
            "complete -c quell -n '__fish_seen_subcommand_from {}'",
            row.name
        );
        for flag in flags.iter().filter(|flag| row.takes(flag.name)) {
            text += &format!("{there} {}\n", option(flag));
        }
        if let Some(value) = given::arguments(&row).first() {
            text += &format!("{there} {}\n", action(value));
        }
    }
    text
}

fn option(flag: &Flag) -> String {
    let meaning = quoted(flag.meaning);
    match &flag.value {
        None => format!("-l {} -d {meaning}", flag.name),
        Some(value) => format!("-l {} -d {meaning} -r {}", flag.name, action(value)),
    }
}

/// Where a value is found.
fn action(value: &Value) -> String {
    match value {
        Value::Words(words) if words.is_empty() => "-f".to_owned(),
        Value::Words(words) => format!("-f -a {}", quoted(&words.join(" "))),
        Value::Folder => "-f -a '(__fish_complete_directories)'".to_owned(),
        Value::Disk => "-F".to_owned(),
        Value::Array => "-f -a '(path basename /sys/block/md*)'".to_owned(),
        Value::Controller => "-f -a '(path basename /sys/class/nvme/nvme*)'".to_owned(),
    }
}

fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\\', "\\\\").replace('\'', "\\'"))
}
