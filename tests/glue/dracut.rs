//! dracut's module: when it comes into an image; at boot the initqueue's job, whether the queue may end, and whether an exitrd
//! is wanted.

use crate::imsm::image;
use crate::sandbox::{Sandbox, under_each_shell};

const FOLDER: &str = "dracut/usr/lib/dracut/modules.d/55quell";
const JOB: &str = "usr/lib/quell/initrd/job";
const FINISHED: &str = "usr/lib/quell/initrd/finished";

/// The image, as udev's rule leaves it when a disk has come.
fn queued(sandbox: &Sandbox) {
    image(sandbox);
    sandbox.script(&format!("{FOLDER}/quell-job.sh"), JOB);
    sandbox.script(&format!("{FOLDER}/quell-finished.sh"), FINISHED);
    for queue in ["settled", "finished", "timeout"] {
        sandbox.write(&format!("hooks/initqueue/{queue}/"), "");
    }
    // As dracut's, as far as it is used: a job is a file that names what is run.
    sandbox.stub(
        "sbin/initqueue",
        "while :; do case $1 in --name) name=$2; shift;; --onetime | --unique) ;; --*) queue=${1#--};; *) break;; esac; shift; done\n\
         echo \"$@\" > $hookdir/initqueue/$queue/$name.sh",
    );
    queue(sandbox);
}

/// What the rule does.
fn queue(sandbox: &Sandbox) {
    let rule = std::fs::read_to_string(format!("{FOLDER}/65-quell-imsm.rules")).unwrap();
    let calls: Vec<&str> = rule.split("RUN+=\"").skip(1).collect();
    assert_eq!(calls.len(), 2);
    for call in calls {
        let mut words = call.split('"').next().unwrap().split(' ');
        assert_eq!(words.next(), Some("/sbin/initqueue"));
        let mut words: Vec<String> = words.map(str::to_owned).collect();
        let job = words.pop().unwrap();
        words.push(
            sandbox
                .at(job.trim_start_matches('/'))
                .display()
                .to_string(),
        );
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        sandbox.run("sbin/initqueue", &words);
    }
    sandbox.calls();
}

/// dracut's loop until it may end, `most` passes of it. A `finished` file that has said yes goes away, as it does since dracut
/// 106, or stays, as before. Gives the passes that were needed.
fn passes(sandbox: &Sandbox, most: u32, stays: bool) -> u32 {
    let finished = sandbox.at("hooks/initqueue/finished/quell.sh");
    let job = sandbox.at("hooks/initqueue/settled/quell.sh");
    let mut pass = 0;
    loop {
        let text = format!(
            "export main_loop={pass} RDRETRY=30; [ ! -e {0} ] || . {0}",
            finished.display()
        );
        if sandbox.shell(&text) == 0 {
            if finished.exists() && !stays {
                std::fs::remove_file(&finished).unwrap();
            }
            return pass;
        }
        if pass == most {
            return pass;
        }
        if let Ok(command) = std::fs::read_to_string(&job) {
            std::fs::remove_file(&job).unwrap();
            sandbox.shell(&command);
        }
        pass += 1;
    }
}

/// The hook before udev looks at disks.
fn wanted(sandbox: &Sandbox) {
    for queue in ["settled", "finished"] {
        let job = format!("hooks/initqueue/{queue}/quell.sh");
        if sandbox.exists(&job) {
            sandbox.remove(&job);
        }
    }
    let hook = "hooks/pre-trigger/29-quell-wanted.sh";
    sandbox.script(&format!("{FOLDER}/quell-wanted.sh"), hook);
    assert_eq!(sandbox.shell(&format!(". $S/{hook}")), 0);
    sandbox.calls();
}

fn state(sandbox: &Sandbox, text: &str) {
    sandbox.write("run/quell/assembly", text);
}

#[test]
fn the_initqueue_waits_for_quell_until_all_is_decided() {
    for stays in [false, true] {
        under_each_shell(|sandbox| {
            queued(sandbox);
            state(sandbox, "boot_id=x\nuntil_ms=34000\ndecided=0\n");
            sandbox.quell(&["exit 4", "exit 4", "exit 0"]);
            assert_eq!(passes(sandbox, 10, stays), 3);
            assert_eq!(sandbox.calls_of("quell").len(), 3);

            // A disk that comes later is looked at again, once.
            sandbox.quell(&[]);
            queue(sandbox);
            assert_eq!(passes(sandbox, 10, stays), 1);
            assert_eq!(sandbox.calls_of("quell").len(), 1);
        });
    }
}

#[test]
fn a_job_that_has_not_run_yet_is_waited_for() {
    under_each_shell(|sandbox| {
        queued(sandbox);
        sandbox.quell(&[]);
        assert_ne!(sandbox.run(FINISHED, &[]), 0, "nothing is known yet");
        state(sandbox, "decided=1\n");
        assert_ne!(sandbox.run(FINISHED, &[]), 0, "another disk has come");
        assert_eq!(passes(sandbox, 10, false), 1);
    });
}

#[test]
fn a_wait_without_end_does_not_hold_up_a_boot_that_needs_something_else() {
    under_each_shell(|sandbox| {
        queued(sandbox);
        state(sandbox, "boot_id=x\nfirst_seen_ms=4000\ndecided=0\n");
        sandbox.quell(&["exit 4"; 20]);
        assert_eq!(passes(sandbox, 10, false), 0);
        // While something else does, quell is called as ever.
        sandbox.run(JOB, &[]);
        assert!(sandbox.exists("hooks/initqueue/settled/quell.sh"));
    });
}

#[test]
fn the_initqueue_does_not_lose_patience_before_dracut_does_but_then() {
    under_each_shell(|sandbox| {
        queued(sandbox);
        sandbox.stub("usr/lib/quell/quell", "exit 4");
        assert_eq!(passes(sandbox, 30, false), 21);
    });
}

#[test]
fn quell_looks_once_however_little_dracut_waits_for() {
    under_each_shell(|sandbox| {
        queued(sandbox);
        sandbox.quell(&[]);
        wanted(sandbox);
        assert_eq!(passes(sandbox, 10, false), 1);
        assert_eq!(sandbox.calls_of("quell").len(), 1);

        sandbox.quell(&["exit 1"]);
        wanted(sandbox);
        assert_eq!(passes(sandbox, 10, false), 0, "it is not to assemble");
    });
}

#[test]
fn where_dracut_waits_for_nothing_a_degraded_root_comes_up_after_30_seconds_all_the_same() {
    for other in [false, true] {
        under_each_shell(|sandbox| {
            queued(sandbox);
            if other {
                sandbox.write("hooks/initqueue/finished/devexists-root.sh", "false\n");
            }
            sandbox.quell(&[]);
            wanted(sandbox);
            state(sandbox, "boot_id=x\nuntil_ms=34000\ndecided=0\n");
            let asked = format!("main_loop=61 RDRETRY=360 $S/{FINISHED}");
            assert_eq!(sandbox.shell(&asked) == 0, other);
            sandbox.stub("usr/lib/quell/quell", "echo ${RDRETRY:-none} > $S/patience");
            sandbox.shell(&format!("export RDRETRY=360; . $S/{JOB}"));
            let patience = if other { "360\n" } else { "none\n" };
            assert_eq!(sandbox.read("patience"), patience);
        });
    }
}

#[test]
fn an_array_that_root_does_not_need_holds_the_boot_up_for_30_seconds_and_no_longer() {
    under_each_shell(|sandbox| {
        queued(sandbox);
        state(sandbox, "boot_id=x\nuntil_ms=124000\ndecided=0\n");
        for (pass, holds) in [(60, true), (61, false)] {
            let asked = format!("main_loop={pass} RDRETRY=360 $S/{FINISHED}");
            assert_eq!(sandbox.shell(&asked) != 0, holds, "pass {pass}");
        }
    });
}

#[test]
fn b11_what_mdadm_got_is_started_as_late_as_with_mdraid_alone() {
    under_each_shell(|sandbox| {
        queued(sandbox);
        sandbox.quell(&["kill -SEGV $$", "kill -SEGV $$"]);
        assert_eq!(passes(sandbox, 10, false), 1);
        assert!(!sandbox.exists("hooks/initqueue/timeout/50-mdraid_start.sh"));
        assert_eq!(
            sandbox.calls_of("mdadm").len(),
            4,
            "without the module as well"
        );

        sandbox.stub("sbin/mdraid_start", "");
        queue(sandbox);
        assert_eq!(passes(sandbox, 10, false), 1);
        assert!(sandbox.exists("hooks/initqueue/timeout/50-mdraid_start.sh"));
    });
}

#[test]
fn b11_what_mdadm_got_while_quell_still_waits_is_started_too() {
    under_each_shell(|sandbox| {
        queued(sandbox);
        sandbox.stub("sbin/mdraid_start", "");
        sandbox.write("run/quell/for-mdadm", "x\n");
        sandbox.quell(&["exit 4"]);
        sandbox.run(JOB, &[]);
        assert!(sandbox.exists("hooks/initqueue/settled/quell.sh"));
        assert!(sandbox.exists("hooks/initqueue/timeout/50-mdraid_start.sh"));
    });
}

#[test]
fn an_exitrd_is_wanted_where_quell_says_so() {
    under_each_shell(|sandbox| {
        let hook = "hooks/cleanup/98-quell-need-shutdown.sh";
        sandbox.script(&format!("{FOLDER}/quell-need-shutdown.sh"), hook);
        image(sandbox);
        sandbox.quell(&["exit 0", "exit 1", "kill -SEGV $$"]);
        let text =
            "need_shutdown() { echo wanted >> $S/need; }; for _ in 1 2 3; do . $S/HOOK; done";
        assert_eq!(sandbox.shell(&text.replace("HOOK", hook)), 0);
        assert_eq!(sandbox.read("need"), "wanted\n");
        assert_eq!(sandbox.calls(), ["quell exitrd --wanted --stage=initrd"; 3]);
    });
}

/// Whether the module comes into a host-only image of this machine: dracut's 0, 255 and 1.
fn check(sandbox: &Sandbox, before: &str) -> i32 {
    sandbox.script(&format!("{FOLDER}/module-setup.sh"), "module-setup.sh");
    sandbox.bash(&format!(
        "hostonly=yes
        require_binaries() {{ :; }}
        for_each_host_dev_and_slaves() {{ return 1; }}
        {before}
        . $S/module-setup.sh
        check"
    ))
}

#[test]
fn the_module_comes_into_a_host_only_image_where_it_may_be_needed() {
    type Files = &'static [(&'static str, &'static str)];
    let cases: [(&str, Files, i32); 10] = [
        (
            "IN_KDUMP=1",
            &[("sys/class/nvme/nvme0/transport", "pcie\n")],
            255,
        ),
        ("", &[], 255),
        ("", &[("sys/class/nvme/nvme0/transport", "tcp\n")], 255),
        ("", &[("sys/class/nvme/nvme0/transport", "pcie\n")], 0),
        (
            "",
            &[("run/udev/data/b8:0", "E:ID_FS_TYPE=linux_raid_member\n")],
            255,
        ),
        (
            "",
            &[(
                "run/udev/data/b8:0",
                "E:X=1\nE:ID_FS_TYPE=isw_raid_member\n",
            )],
            0,
        ),
        // A RAID controller whose disks are away, and a VMD domain.
        (
            "",
            &[
                ("sys/bus/pci/devices/0000:00:17.0/vendor", "0x8086\n"),
                ("sys/bus/pci/devices/0000:00:17.0/class", "0x010400\n"),
            ],
            0,
        ),
        (
            "",
            &[
                ("sys/bus/pci/devices/0000:00:17.0/vendor", "0x8086\n"),
                ("sys/bus/pci/devices/0000:00:17.0/class", "0x010601\n"),
            ],
            255,
        ),
        ("hostonly=", &[], 0),
        (
            "require_binaries() { return 1; }",
            &[("sys/class/nvme/nvme0/transport", "pcie\n")],
            1,
        ),
    ];
    for (before, files, expected) in cases {
        under_each_shell(|sandbox| {
            for (path, text) in files {
                sandbox.write(path, text);
            }
            assert_eq!(check(sandbox, before), expected, "{before} {files:?}");
        });
    }
}

#[test]
fn the_module_comes_into_the_image_of_a_system_that_lies_on_such_an_array() {
    under_each_shell(|sandbox| {
        let version = "sys/dev/block/9:126/md/metadata_version";
        let walks = "for_each_host_dev_and_slaves() { \"$1\" 9:126; }";
        sandbox.write(version, "1.2\n");
        assert_eq!(check(sandbox, walks), 255);
        sandbox.write(version, "external:/md127/0\n");
        assert_eq!(check(sandbox, walks), 0);
        sandbox.write("sys/bus/pci/drivers/vmd/0000:00:0e.0/", "");
        sandbox.write("sys/bus/pci/devices/0000:00:0e.0/", "");
        assert_eq!(check(sandbox, ""), 0);
    });
}

#[test]
fn every_image_has_the_names_that_mdadm_conf_gives() {
    let all = "/etc/mdadm.conf /etc/mdadm.conf.d/*.conf /etc/mdadm/mdadm.conf /etc/mdadm/mdadm.conf.d/*.conf\n";
    for (before, expected) in [
        ("hostonly=yes", all),
        // mdraid's own module leaves it out of a generic one, from which it assembles nothing that it is not told of.
        ("hostonly=", all),
        ("hostonly=; dracut_module_included() { return 1; }", all),
        ("hostonly=yes; mdadmconf=no", ""),
    ] {
        under_each_shell(|sandbox| {
            sandbox.script(&format!("{FOLDER}/module-setup.sh"), "module-setup.sh");
            let status = sandbox.bash(&format!(
                "moddir=/m
                for does in inst_binary inst_simple inst inst_rules inst_script inst_hook dracut_need_initqueue; do
                    eval \"$does() {{ :; }}\"
                done
                find_binary() {{ echo /sbin/$1; }}
                dracut_module_included() {{ :; }}
                inst_multiple() {{ case $* in -o*conf*) shift; echo \"$*\" >> $S/conf ;; esac; }}
                {before}
                set -f
                . $S/module-setup.sh
                install"
            ));
            assert_eq!(status, 0, "{before}");
            let found = if sandbox.exists("conf") {
                sandbox.read("conf")
            } else {
                String::new()
            };
            assert_eq!(found, expected, "{before}");
        });
    }
}
