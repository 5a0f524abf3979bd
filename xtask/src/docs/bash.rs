//! bash's completion.

use super::given::{self, Flag, Value};
use quell::cli::table;

const ABOVE: &str = r#"# bash completion for quell. Made by cargo xtask, of the tables that quell --help is made of.

_quell()
{
    local cur=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} flag='' command='' word words=''
    local common='@COMMON@'
    # bash takes --flag=value apart at the equals sign.
    if [[ $cur == = ]]; then
        flag=$before cur=''
    elif [[ $before == = ]]; then
        flag=${COMP_WORDS[COMP_CWORD-2]}
    fi
    for word in "${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
        case $word in
            @COMMANDS@) command=$word; break ;;
        esac
    done
    case $flag,$command,$cur in
"#;

const BELOW: &str = r#"    esac
    mapfile -t COMPREPLY < <(compgen -W "$words" -- "$cur")
    [[ ${COMPREPLY[0]-} != *= ]] || compopt -o nospace
}
complete -F _quell quell
"#;

/// The whole file.
pub(super) fn script() -> String {
    let flags = given::flags();
    let names: Vec<&str> = table::commands().map(|row| row.name).collect();
    let common = typed(flags.iter().filter(|flag| flag.common));
    let mut text = ABOVE
        .replace("@COMMANDS@", &names.join("|"))
        .replace("@COMMON@", &common);
    for flag in &flags {
        if let Some(value) = &flag.value {
            case(&mut text, &format!("--{},*", flag.name), &offer(value));
        }
    }
    case(&mut text, "--*", "return");
    for row in table::commands() {
        let own = typed(flags.iter().filter(|flag| row.takes(flag.name)));
        case(
            &mut text,
            &format!(",{},-*", row.name),
            &format!("words=\"{own} $common\""),
        );
        if let Some(value) = given::arguments(&row).first() {
            case(&mut text, &format!(",{},*", row.name), &offer(value));
        }
    }
    case(&mut text, ",,-*", "words=\"--help --version $common\"");
    case(&mut text, ",,*", &format!("words='{}'", names.join(" ")));
    text + BELOW
}

fn case(text: &mut String, pattern: &str, then: &str) {
    *text += &format!("        {pattern}) {then} ;;\n");
}

/// Flags, as one begins to type them.
fn typed<'a>(flags: impl Iterator<Item = &'a Flag>) -> String {
    let words: Vec<String> = flags
        .map(|flag| match flag.value {
            Some(_) => format!("--{}=", flag.name),
            None => format!("--{}", flag.name),
        })
        .collect();
    words.join(" ")
}

/// How what may stand in a place is found.
fn offer(value: &Value) -> String {
    let files = |kind| {
        format!(
            "compopt -o filenames; mapfile -t COMPREPLY < <(compgen {kind} -- \"$cur\"); return"
        )
    };
    match value {
        Value::Words(words) => format!("words='{}'", words.join(" ")),
        Value::Folder => files("-d"),
        Value::Disk => files("-f"),
        Value::Array => "words=$(cd /sys/block && compgen -G 'md*')".to_owned(),
        Value::Controller => "words=$(cd /sys/class/nvme && compgen -G 'nvme*')".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    /// What bash would offer after these words; the last is being typed.
    fn offered(words: &[&str]) -> Vec<String> {
        let quoted: Vec<String> = words.iter().map(|word| format!("'{word}'")).collect();
        // Where nothing is being completed there is no compopt.
        let script = format!(
            "{}\ncompopt() {{ :; }}\nCOMP_WORDS=({}) COMP_CWORD={}\n_quell\nprintf '%s\\n' \"${{COMPREPLY[@]}}\"",
            script(),
            quoted.join(" "),
            words.len() - 1
        );
        let out = Command::new("bash").args(["-c", &script]).output().unwrap();
        assert_eq!(String::from_utf8_lossy(&out.stderr), "");
        let text = String::from_utf8(out.stdout).unwrap();
        text.lines()
            .filter(|line| !line.is_empty())
            .map(str::to_owned)
            .collect()
    }

    #[test]
    fn what_fits_is_offered() {
        assert_eq!(offered(&["quell", "st"]), ["status"]);
        assert_eq!(offered(&["quell", "--vers"]), ["--version"]);
        assert_eq!(offered(&["quell", "assemble", "--re"]), ["--readonly"]);
        assert_eq!(offered(&["quell", "status", "--re"]), [""; 0]);
        assert_eq!(offered(&["quell", "shutdown", "k"]), ["kexec"]);
        assert_eq!(
            offered(&["quell", "shutdown", "--stage", "=", "e"]),
            ["exitrd"]
        );
        assert_eq!(
            offered(&["quell", "quiesce", "--quiesce", "="]),
            ["auto", "always", "off"]
        );
        assert_eq!(offered(&["quell", "quiesce", "--width", "=", "n"]), [""; 0]);
        assert_eq!(
            offered(&["quell", "examine", "/etc/os-rel"]),
            ["/etc/os-release"]
        );
    }
}
