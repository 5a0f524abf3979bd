//! The commands, flags and exit statuses, as they are shown to a person. `--help`, the manual page and the shells'
//! completions are all made of these tables and of [`TABLE`], which has the options.
//!
//! The tables are text, as it is printed: in the binary, every string of its own would cost forty bytes more. An entry's meaning
//! stands beside its head, after two blanks at least, or in the line below: [`entries`].

use core::iter;

use crate::options::TABLE;

/// Every command, in the order in which they are shown. Words in capitals are explained in [`WORDS`].
pub const COMMANDS: &str = "    \
    quell assemble [DEV...] [--readonly] [--degraded[=S]] [--stage=S] [--wanted] [--dry-run] [--json]
              brings up Intel RAID arrays: those that each DEV is a disk of, else all
    quell teardown [ARRAY...|--all] [--dry-run] [--json]
              stops arrays, clean; a container means its volumes
    quell remove CONTAINER DISK... [--dry-run] [--json]
              takes disks that no volume uses out of a container
    quell quiesce [CTRL...|--all] [--dry-run] [--json]
              shuts down NVMe controllers that nobody uses
    quell shutdown VERB [--stage=S] [--step=STEP [--final]] [--dry-run] [--json]
              what the hooks call: teardown, then quiesce, under one deadline
    quell exitrd --install|--wanted [--force] [--final] [--dry-run] [--json]
              puts quell where systemd-shutdown runs it as its last program, unless another is to be there
    quell status [--json]
              says what the next shutdown will do
    quell examine DEV... [--serial=S]... [--json]
              shows Intel RAID metadata; DEV: a disk, or a file with the end of one
";

/// The words in capitals.
pub const WORDS: &str = "\
ARRAY         md126, /dev/md/Volume0
CONTAINER     md127, /dev/md/imsm0
CTRL          nvme3, /dev/nvme3, 0000:05:00.0
DEV, DISK     /dev/sda, /dev/nvme3n1
STEP          arrays, controllers
VERB          reboot, poweroff, halt, kexec
";

/// What begins with two dashes and is no option of [`TABLE`].
pub const FLAGS: &str = "\
--all         all there are
--dry-run     print the plan and do nothing
--final       there is no next call: what a step would wait for is not waited for any more
--final       exitrd: others have had their turn, and what they have not made will not come any more
--force       in place of any other exitrd
--install     what exitrd is asked for
--json        one JSON object on standard output, its first key \"schema\": 1
--readonly    nothing is written to a member, not even by the kernel, and no mdmon is started
--step=STEP   this half of it, in hooks that are called again and again: exit status 1 means once more, 0 done or given up
--serial=S    the serial of the first DEV (again: of the second, ...), which files do not tell
--stage=initrd, systemd-shutdown, exitrd, person
              who calls; found out where it is not given
--wanted      only say by the exit status: assemble: 0, quell assembles in this boot, or takes each DEV; 1, it leaves that to mdadm
--wanted      exitrd: 0, quell wants one at the next shutdown; 1, there is nothing to do in it
--root=DIR    use DIR/sys, DIR/proc, DIR/dev, DIR/run and DIR/etc instead of this machine's
";

/// What an exit status means.
pub const EXITS: &str = "\
0             all done, or nothing to do
1             something was left undone, the lines say what
1             status: the next shutdown will not be helped
1             examine: a DEV has no IMSM metadata, or corrupt, or a volume would be refused
2             not understood, nothing was touched
3             a mechanism or privilege is missing
3             examine: a DEV cannot be read
4             assemble: not decided yet, call again
5             assemble: decided; the containers whose UUIDs stand in /run/quell/for-mdadm are mdadm's to assemble
";

/// The entries of one of these tables: head and meaning.
pub fn entries(table: &'static str) -> impl Iterator<Item = (&'static str, &'static str)> {
    let mut lines = table.lines();
    iter::from_fn(move || {
        let line = lines.next()?.trim();
        let (head, meaning) = line
            .split_once("  ")
            .or_else(|| Some((line, lines.next()?)))?;
        Some((head, meaning.trim()))
    })
}

/// One command.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// Its name.
    pub name: &'static str,
    /// What follows it.
    pub usage: &'static str,
    /// What it does, in one line.
    pub meaning: &'static str,
}

impl Row {
    /// Whether `flag` stands in its usage line.
    #[must_use]
    pub fn takes(&self, flag: &str) -> bool {
        self.flags().any(|own| own == flag)
    }

    /// The flags of its usage line, without dashes.
    pub fn flags(&self) -> impl Iterator<Item = &'static str> + use<> {
        self.usage
            .split(|c: char| c != '-' && !c.is_ascii_lowercase())
            .filter_map(|word| word.strip_prefix("--"))
    }
}

/// The rows of [`COMMANDS`].
pub fn commands() -> impl Iterator<Item = Row> {
    entries(COMMANDS).filter_map(|(head, meaning)| {
        let (name, usage) = head.strip_prefix("quell ")?.split_once(' ')?;
        Some(Row {
            name,
            usage,
            meaning,
        })
    })
}

/// The text of `--help`.
#[must_use]
pub fn help() -> String {
    let mut text = format!(
        "quell: assembles Intel RAID (IMSM) arrays, and shuts NVMe controllers down, many at once, where nothing else can

{COMMANDS}    quell --help | --version

{WORDS}
{FLAGS}
Options, each also quell.NAME= on the kernel command line (and rd.quell.NAME= there for the initrd and exitrd):
"
    );
    for row in TABLE.iter().filter(|row| row.works) {
        text += &format!(
            "--{}={}\n              {} (default: {})\n",
            row.name, row.values, row.meaning, row.default
        );
    }
    text + "\nExit status:\n" + EXITS
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_flag(name: &str) -> bool {
        entries(FLAGS).any(|(head, _)| head.split('=').next() == Some(&format!("--{name}")))
            || TABLE.iter().any(|row| row.name == name)
    }

    #[test]
    fn every_entry_has_a_head_and_a_meaning() {
        for table in [COMMANDS, WORDS, FLAGS, EXITS] {
            for (head, meaning) in entries(table) {
                assert!(!head.is_empty() && !head.contains("  "), "{head}");
                assert!(
                    !meaning.is_empty() && !meaning.contains("  "),
                    "{head}: {meaning}"
                );
            }
            let long = table.lines().find(|line| line.len() > 132);
            assert_eq!(long, None);
        }
        assert_eq!(commands().count(), entries(COMMANDS).count());
    }

    #[test]
    fn every_flag_and_word_of_a_usage_line_is_explained() {
        for row in commands() {
            for flag in row.flags() {
                assert!(is_flag(flag), "{}: --{flag}", row.name);
            }
            // One letter is the value of a flag.
            let words = row.usage.split(|c: char| !c.is_ascii_uppercase());
            for word in words.filter(|word| word.len() > 1) {
                let mut known = entries(WORDS).flat_map(|(head, _)| head.split(", "));
                assert!(known.any(|name| name == word), "{}: {word}", row.name);
            }
        }
    }

    #[test]
    fn every_flag_is_somebodys_or_everybodys() {
        for (head, _) in entries(FLAGS).filter(|(head, _)| *head != "--root=DIR") {
            let name = head.trim_start_matches('-').split('=').next().unwrap_or("");
            assert!(commands().any(|row| row.takes(name)), "{head}");
        }
    }
}
