//! What each boot runs.

use super::table::{Config, State};
use std::fmt::Write;

/// What the boots call besides the prelude.
pub(super) const LIBRARY: &str = include_str!("vm.sh");
/// A configuration with its number in the table, which its disks and volumes are named after.
#[derive(Clone, Copy, Debug)]
pub(super) struct Numbered {
    pub(super) number: usize,
    pub(super) config: &'static Config,
}

impl Numbered {
    /// The serial number of a disk: `C07D2`.
    pub(super) fn serial(self, disk: usize) -> String {
        format!("C{:02}D{disk}", self.number)
    }

    fn serials(self, disks: usize) -> String {
        let all: Vec<String> = (0..disks).map(|disk| self.serial(disk)).collect();
        all.join(" ")
    }

    fn container(self) -> String {
        format!("c{:02}", self.number)
    }

    /// `v07a`, `v07b`
    fn volumes(self) -> Vec<String> {
        let letters = ["a", "b"];
        letters
            .iter()
            .take(self.config.volumes.len())
            .map(|letter| format!("v{:02}{letter}", self.number))
            .collect()
    }

    fn create(self) -> String {
        let config = self.config;
        let mut script = format!(
            "make_container {} {}\n",
            self.container(),
            self.serials(config.disks.len())
        );
        // What is stopped midway has to last a while.
        let mib = match config.state {
            State::Resync | State::Rebuild => 24,
            _ => 4,
        };
        for (volume, name) in config.volumes.iter().zip(self.volumes()) {
            let chunk = match volume.chunk {
                0 => String::new(),
                kib => format!(" --chunk={kib}"),
            };
            let _ = writeln!(
                script,
                "make_volume {name} '--level={}{chunk} --size={mib}M {}' {}",
                volume.level,
                volume.options,
                self.serials(volume.members)
            );
        }
        script
    }

    /// A line for each volume.
    fn each(self, line: impl Fn(&str) -> String) -> String {
        self.volumes().iter().map(|name| line(name)).collect()
    }

    fn stop(self) -> String {
        format!("stop {} {}\n", self.volumes().join(" "), self.container())
    }

    /// Takes a member away, not the first one.
    fn lose(self) -> String {
        let lost = self.serial(1);
        let mut script = self.each(|name| format!("lose {name} {lost}\n"));
        if self.config.state != State::Stale {
            let _ = writeln!(script, "blank {} {lost}", self.container());
        }
        script
    }
}

fn head(configs: &[Numbered]) -> String {
    let disks: usize = configs.iter().map(|each| each.config.disks.len()).sum();
    format!(". /case/differential\nready {disks}\n")
}

/// Makes all of them and leaves each in its state. The last ones are still written to when the machine is ended.
pub(super) fn make(configs: &[Numbered]) -> String {
    let of = |states: &[State]| -> Vec<Numbered> {
        configs
            .iter()
            .filter(|each| states.contains(&each.config.state))
            .copied()
            .collect()
    };
    let midway = of(&[State::Resync, State::Rebuild]);
    let mut script = head(configs);
    script += "dd if=/dev/urandom of=/tmp/pattern bs=1M count=64 2>/dev/null\n";
    for each in configs.iter().filter(|c| c.config.state != State::Resync) {
        script += &each.create();
    }
    for each in configs.iter().filter(|c| c.config.state != State::Resync) {
        script += &each.each(|name| format!("until_true 120 idle {name}\nfill {name}\n"));
    }
    script += "mark synced\nstill\n";
    for each in of(&[State::Resync]) {
        script += &each.create();
        script += &each.each(|name| format!("fill {name}\n"));
    }
    for each in of(&[State::Rebuild, State::Degraded, State::Stale]) {
        script += &each.lose();
    }
    for each in &midway {
        script += &each.each(|name| format!("midway {name}\n"));
    }
    for each in configs.iter().filter(|c| c.config.state != State::Dirty) {
        script += &each.stop();
    }
    script += "mark stopped\n";
    for each in of(&[State::Dirty]) {
        script += &each.each(|name| format!("stay_dirty {name}\nwrite_on {name}\n"));
    }
    for each in of(&[State::Dirty]) {
        script += &each.each(|name| format!("until_true 30 is_active {name}\n"));
    }
    script += "dd if=/tmp/pattern of=/dev/vda bs=1M count=2 conv=fsync
";
    script
}

/// Assembles them with mdadm, as a boot would: the rule for each disk as it comes, or once all of them are there.
pub(super) fn mdadm(configs: &[Numbered]) -> String {
    let mut script = head(configs);
    script += "still\n";
    for each in configs {
        if each.config.state == State::Incremental {
            let serials = each.serials(each.config.disks.len());
            let _ = writeln!(
                script,
                "for disk in $(devs {serials}); do quietly mdadm --incremental \"$disk\"; done"
            );
        }
    }
    script += "run mdadm --assemble --scan\nuntil_true 30 settled\nmark assembled\ndump\n";
    script
}

/// Assembles them with quell.
pub(super) fn quell(configs: &[Numbered]) -> String {
    format!(
        "{}still\nrun quell assemble --stage=person\nsay \"quell ended with $RC\"\nuntil_true 30 settled\nmark assembled\ndump\n",
        head(configs)
    )
}

/// Assembles them with quell to be read only, and stops them by mdadm.
pub(super) fn readonly(configs: &[Numbered]) -> String {
    format!(
        "{}run quell assemble --stage=person --readonly\nsay \"quell ended with $RC\"\nmark assembled\ndump\nrun mdadm --stop --scan\n",
        head(configs)
    )
}
