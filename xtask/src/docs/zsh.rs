//! zsh's completion.

use super::given::{self, Flag, Value};
use quell::cli::table;

const ABOVE: &str = "#compdef quell
# zsh completion for quell. Made by cargo xtask, of the tables that quell --help is made of.

_quell() {
  local curcontext=$curcontext state line
  typeset -A opt_args
  local -a commands common
";

const BELOW: &str = "  esac
}

_quell \"$@\"
";

/// The whole file.
pub(super) fn script() -> String {
    let flags = given::flags();
    let mut text = ABOVE.to_owned();
    text += "  commands=(\n";
    for row in table::commands() {
        text += &format!("    {}\n", quoted(&format!("{}:{}", row.name, row.meaning)));
    }
    text += "  )\n  common=(\n";
    for flag in flags.iter().filter(|flag| flag.common) {
        text += &format!("    {}\n", option(flag));
    }
    text += "  )
  _arguments -C $common '(- *)'{-h,--help}'[show what can be given]' '(- *)'{-V,--version}'[show the version]' \\
    '1:command:->command' '*::argument:->argument' && return
  case $state,$words[1] in
    command,*) _describe command commands ;;
";
    for row in table::commands() {
        text += &format!("    argument,{}) _arguments $common", row.name);
        for flag in flags.iter().filter(|flag| row.takes(flag.name)) {
            text += &format!(" \\\n      {}", option(flag));
        }
        if let Some(value) = given::arguments(&row).first() {
            text += &format!(" \\\n      {}", quoted(&format!("*:{}", action(value))));
        }
        text += " ;;\n";
    }
    text + BELOW
}

/// One flag, as `_arguments` wants it.
fn option(flag: &Flag) -> String {
    let meaning = flag.meaning.replace('[', "\\[").replace(']', "\\]");
    quoted(&match &flag.value {
        None => format!("--{}[{meaning}]", flag.name),
        Some(value) => format!("--{}=-[{meaning}]:{}", flag.name, action(value)),
    })
}

/// What a value is called, and where it is found.
fn action(value: &Value) -> String {
    match value {
        Value::Words(words) if words.is_empty() => "value: ".to_owned(),
        Value::Words(words) => format!("value:({})", words.join(" ")),
        Value::Folder => "folder:_directories".to_owned(),
        Value::Disk => "disk or file:_files".to_owned(),
        Value::Array => "array:(/sys/block/md*(N:t))".to_owned(),
        Value::Controller => "controller:(/sys/class/nvme/nvme*(N:t))".to_owned(),
    }
}

fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "'\\''"))
}
