//! `/usr/lib/quell/initrd/imsm`: who assembles, quell or mdadm.

use crate::sandbox::{Sandbox, output, under_each_shell};
use std::path::Path;
use std::thread::sleep;
use std::time::Duration;

const RULE: &str = "etc/udev/rules.d/62-quell-imsm.rules";
const IMSM: &str = "usr/lib/quell/initrd/imsm";
const A: &str = "aaaaaaaa:aaaaaaaa:aaaaaaaa:aaaaaaaa";
const B: &str = "bbbbbbbb:bbbbbbbb:bbbbbbbb:bbbbbbbb";

/// The scripts, and four disks that udev's rules keep for quell: `sda` and `sdb` of the container A, `sdc` and `sdd` of B.
/// mdadm takes what it gets.
pub(crate) fn image(sandbox: &Sandbox) {
    sandbox.script("initrd/usr/lib/quell/initrd/imsm", IMSM);
    sandbox.write(RULE, "");
    for disk in ["sda", "sdb", "sdc", "sdd"] {
        sandbox.write(&format!("sys/class/block/{disk}/holders/"), "");
    }
    let listed = "for disk in $S/sys/class/block/sd*; do echo $disk; done";
    sandbox.stub("bin/udevadm", listed);
    sandbox.stub("bin/partx", "");
    sandbox.stub(
        "bin/mdadm",
        &format!(
            "for disk; do :; done\ndisk=${{disk##*/}}\ncase $1:$disk in\n\
             --examine:sd[ab]) echo MD_LEVEL=container; echo MD_UUID={A};;\n\
             --examine:*) echo MD_LEVEL=container; echo MD_UUID={B};;\n\
             --incremental:*) : > $S/sys/class/block/$disk/holders/md127;;\nesac"
        ),
    );
}

fn taken(sandbox: &Sandbox) -> Vec<String> {
    let mut calls = sandbox.calls_of("mdadm");
    calls.retain(|call| call.contains("--incremental"));
    calls
}

fn incremental(disk: &str) -> String {
    format!("mdadm --incremental --offroot /dev/{disk}")
}

/// Where the image's configuration leaves IMSM out: as mdadm takes it on the host.
fn as_on_the_host(disk: &str) -> String {
    format!("mdadm --incremental --offroot --config=/etc/mdadm/mdadm.conf.kept /dev/{disk}")
}

#[test]
fn b18_where_quell_is_not_to_assemble_nothing_is_in_mdadms_way() {
    under_each_shell(|sandbox| {
        image(sandbox);
        sandbox.write("etc/mdadm/mdadm.conf", "AUTO -imsm\n");
        sandbox.write("etc/mdadm/mdadm.conf.kept", "as on the host\n");
        sandbox.quell(&["exit 0", "exit 1"]);
        sandbox.run(IMSM, &["wanted"]);
        assert!(sandbox.exists(RULE));
        assert_eq!(sandbox.read("etc/mdadm/mdadm.conf"), "AUTO -imsm\n");

        sandbox.run(IMSM, &["wanted"]);
        assert!(!sandbox.exists(RULE));
        assert_eq!(sandbox.read("etc/mdadm/mdadm.conf"), "as on the host\n");
        let asked = "quell assemble --wanted --stage=initrd";
        assert_eq!(sandbox.calls(), [asked, asked]);
    });
}

#[test]
fn b46_a_quell_that_cannot_say_whether_it_is_wanted_is_not() {
    for exit in ["kill -SEGV $$", "exit 2", "exit 3"] {
        under_each_shell(|sandbox| {
            image(sandbox);
            sandbox.quell(&[exit]);
            sandbox.run(IMSM, &["wanted"]);
            assert!(!sandbox.exists(RULE), "{exit}");
        });
    }
    under_each_shell(|sandbox| {
        image(sandbox);
        sandbox.run(IMSM, &["wanted"]);
        assert!(!sandbox.exists(RULE), "no quell at all");
        // And once more, with nothing left to do.
        assert_eq!(sandbox.run(IMSM, &["wanted"]), 0);
    });
}

#[test]
fn what_is_decided_is_done_and_what_is_not_is_asked_again() {
    under_each_shell(|sandbox| {
        image(sandbox);
        sandbox.quell(&["exit 4", "exit 1", "exit 0"]);
        for status in [4, 0, 0] {
            assert_eq!(sandbox.run(IMSM, &["assemble"]), status);
        }
        assert_eq!(
            sandbox.calls_of("quell"),
            ["quell assemble --stage=initrd"; 3]
        );
    });
}

#[test]
fn quell_is_not_called_on_a_machine_without_a_disk_for_it() {
    under_each_shell(|sandbox| {
        image(sandbox);
        sandbox.stub("bin/udevadm", "");
        sandbox.quell(&["exit 4"]);
        assert_eq!(sandbox.run(IMSM, &["assemble"]), 0);
        assert!(sandbox.calls_of("quell").is_empty());
    });
}

#[test]
fn where_mdadm_leaves_imsm_alone_it_gets_the_disks_that_quell_has_declined_too() {
    under_each_shell(|sandbox| {
        image(sandbox);
        // None of them is a member to udev's rule.
        sandbox.stub(
            "bin/udevadm",
            "case $* in *match=ID_FS_TYPE=isw_raid_member) echo $S/sys/class/block/sda;; esac",
        );
        sandbox.write("run/quell/for-mdadm", &format!("{A}\n"));
        sandbox.quell(&["exit 5"]);
        // dracut's image: they have been mdadm's from the first.
        assert_eq!(sandbox.run(IMSM, &["assemble"]), 0);
        assert_eq!(
            sandbox.calls().len(),
            1,
            "udevadm is asked, and that is all"
        );

        sandbox.write("etc/mdadm/mdadm.conf", "AUTO -imsm\n");
        sandbox.write("etc/mdadm/mdadm.conf.kept", "");
        assert_eq!(sandbox.run(IMSM, &["assemble"]), 5);
        assert_eq!(taken(sandbox), [as_on_the_host("sda")]);
        assert!(sandbox.read("etc/mdadm/mdadm.conf").contains(A));
    });
}

#[test]
fn b46_a_quell_that_dies_leaves_mdadm_the_disks_that_it_has_declined_too() {
    under_each_shell(|sandbox| {
        image(sandbox);
        sandbox.stub(
            "bin/udevadm",
            "case $* in *match=ID_FS_TYPE=isw_raid_member) echo $S/sys/class/block/sda;; esac",
        );
        sandbox.write("etc/mdadm/mdadm.conf", "AUTO -imsm\n");
        sandbox.write("etc/mdadm/mdadm.conf.kept", "as on the host\n");
        sandbox.quell(&["kill -SEGV $$"]);
        assert_eq!(sandbox.run(IMSM, &["assemble"]), 5);
        assert_eq!(taken(sandbox), [incremental("sda")]);
        assert_eq!(sandbox.read("etc/mdadm/mdadm.conf"), "as on the host\n");
    });
}

#[test]
fn b11_mdadm_gets_the_disks_of_the_containers_named_and_no_others() {
    under_each_shell(|sandbox| {
        image(sandbox);
        sandbox.write("run/quell/for-mdadm", &format!("{B}\n"));
        sandbox.quell(&["exit 5", "exit 5"]);
        assert_eq!(sandbox.run(IMSM, &["assemble"]), 5);
        assert_eq!(taken(sandbox), [incremental("sdc"), incremental("sdd")]);
        // Those that it has are not given to it again.
        assert_eq!(sandbox.run(IMSM, &["assemble"]), 5);
        assert!(taken(sandbox).is_empty());
    });
}

#[test]
fn b11_what_is_mdadms_does_not_wait_for_what_quell_waits_for() {
    under_each_shell(|sandbox| {
        image(sandbox);
        sandbox.write("etc/mdadm/mdadm.conf", "AUTO -imsm\n");
        sandbox.write("etc/mdadm/mdadm.conf.kept", "");
        sandbox.write("run/quell/for-mdadm", &format!("{B}\n"));
        sandbox.quell(&["exit 4", "exit 4"]);
        assert_eq!(sandbox.run(IMSM, &["assemble"]), 4);
        assert_eq!(
            taken(sandbox),
            [as_on_the_host("sdc"), as_on_the_host("sdd")]
        );
        assert!(sandbox.read("etc/mdadm/mdadm.conf").contains(B));
        assert_eq!(sandbox.run(IMSM, &["assemble"]), 4);
        assert!(taken(sandbox).is_empty());
    });
}

#[test]
fn b11_what_mdadm_gets_too_late_for_its_own_script_is_started_without_its_missing_disks() {
    for (start, late) in [("0", true), ("4000000000", false), ("", false)] {
        under_each_shell(|sandbox| {
            image(sandbox);
            for (array, version, state) in [
                ("md124", "external:/md127/1", "clean"),
                ("md125", "1.2", "inactive"),
                ("md126", "external:/md127/0", "inactive"),
                ("md127", "external:imsm", "inactive"),
            ] {
                let md = format!("sys/block/{array}/md");
                sandbox.write(&format!("{md}/metadata_version"), &format!("{version}\n"));
                sandbox.write(&format!("{md}/array_state"), &format!("{state}\n"));
            }
            sandbox.write("run/quell/for-mdadm", &format!("{A}\n"));
            sandbox.quell(&["exit 5"]);
            let mut call = sandbox.command(IMSM);
            call.arg("assemble").env("starttime", start);
            assert_eq!(output(&mut call).status.code(), Some(5));
            let mut calls = sandbox.calls_of("mdadm");
            calls.retain(|call| call.contains("--run"));
            let expected: &[&str] = if late {
                &["mdadm --run /dev/md126"]
            } else {
                &[]
            };
            assert_eq!(calls, expected, "{start}");
        });
    }
}

#[test]
fn mdadm_may_have_what_is_left_to_it_whenever_its_disks_come() {
    under_each_shell(|sandbox| {
        image(sandbox);
        let lines = format!(
            "ARRAY /dev/md/imsm0 metadata=imsm UUID={A}\nARRAY /dev/md/v container={A} member=0\n"
        );
        let rest = "HOMEHOST <system>\n";
        sandbox.write("etc/mdadm/mdadm.conf", &format!("AUTO -imsm\n{rest}"));
        sandbox.write("etc/mdadm/mdadm.conf.kept", &format!("{rest}{lines}"));
        sandbox.write("run/quell/for-mdadm", &format!("{A}\n{B}\n"));
        sandbox.quell(&["exit 5", "exit 5"]);
        for _ in 0..2 {
            sandbox.run(IMSM, &["assemble"]);
        }
        assert_eq!(taken(sandbox).len(), 4);
        assert_eq!(
            sandbox.read("etc/mdadm/mdadm.conf"),
            format!(
                "AUTO -imsm\n{rest}# left to mdadm: {A}\n{lines}# left to mdadm: {B}\nARRAY metadata=imsm UUID={B}\n"
            )
        );
        assert!(
            sandbox.exists("etc/mdadm/mdadm.conf.kept"),
            "quell goes on with the others"
        );
    });
}

#[test]
fn b46_where_quell_dies_or_lacks_something_all_is_mdadms() {
    for exit in ["kill -SEGV $$", "kill -ABRT $$", "exit 3", "exit 2"] {
        under_each_shell(|sandbox| {
            image(sandbox);
            sandbox.write("etc/mdadm/mdadm.conf", "AUTO -imsm\n");
            sandbox.write("etc/mdadm/mdadm.conf.kept", "as on the host\n");
            sandbox.quell(&[exit]);
            assert_eq!(sandbox.run(IMSM, &["assemble"]), 5);
            assert_eq!(taken(sandbox).len(), 4, "{exit}");
            assert_eq!(sandbox.read("etc/mdadm/mdadm.conf"), "as on the host\n");
            let said = sandbox.read("dev/kmsg");
            assert!(
                said.starts_with("<28>quell: it ended with status"),
                "{said}"
            );

            // It is not tried again in this boot, and a disk that comes later is mdadm's too.
            sandbox.write("sys/class/block/sde/holders/", "");
            assert_eq!(sandbox.run(IMSM, &["assemble"]), 5);
            let calls = sandbox.calls();
            assert!(calls.contains(&incremental("sde")), "{calls:?}");
            assert!(!calls.iter().any(|call| call.starts_with("quell")));
        });
    }
}

#[test]
fn b46_a_quell_that_hangs_is_not_waited_for() {
    under_each_shell(|sandbox| {
        image(sandbox);
        // More than quell's own deadline, which is no time for a test.
        sandbox.change(IMSM, "patience=150", "patience=1");
        let hangs = "echo $$ > $S/pid; exec /bin/sleep 600";
        sandbox.quell(&[hangs, hangs]);
        sandbox.run(IMSM, &["wanted"]);
        assert!(!sandbox.exists(RULE));

        assert_eq!(sandbox.run(IMSM, &["assemble"]), 5);
        assert_eq!(taken(sandbox).len(), 4);
        assert_eq!(sandbox.read("run/quell/died"), "124\n");
        // It cannot come back and write, either.
        let quell = format!("/proc/{}", sandbox.read("pid").trim());
        for _ in 0..100 {
            if Path::new(&quell).exists() {
                sleep(Duration::from_millis(100));
            }
        }
        assert!(!Path::new(&quell).exists(), "{quell}");
    });
}

#[test]
fn b46_no_quell_in_the_image_is_as_if_it_died() {
    under_each_shell(|sandbox| {
        image(sandbox);
        assert_eq!(sandbox.run(IMSM, &["assemble"]), 5);
        assert_eq!(taken(sandbox).len(), 4);
    });
}

#[test]
fn b46_what_a_dead_quell_left_half_made_is_made_anew() {
    under_each_shell(|sandbox| {
        image(sandbox);
        for (array, version) in [
            ("md124", "external:/md125/0"),
            ("md125", "external:ddf"),
            ("md126", "external:-md127/0"),
            ("md127", "external:imsm"),
            ("md0", "1.2"),
        ] {
            let file = format!("sys/block/{array}/md/metadata_version");
            sandbox.write(&file, &format!("{version}\n"));
        }
        sandbox.quell(&["kill -KILL $$"]);
        sandbox.run(IMSM, &["assemble"]);
        let calls = sandbox.calls_of("mdadm");
        let stops = ["mdadm --stop /dev/md126", "mdadm --stop /dev/md127"];
        assert_eq!(calls[..2], stops);
        assert!(calls[2..].iter().all(|call| !call.contains("--stop")));
    });
}

#[test]
fn b45_a_disk_that_mdadm_refuses_gets_its_partitions_back() {
    under_each_shell(|sandbox| {
        image(sandbox);
        sandbox.write("run/quell/for-mdadm", &format!("{A}\n"));
        sandbox.quell(&["exit 5"]);
        sandbox.stub(
            "bin/mdadm",
            &format!("case $1 in --examine) echo MD_UUID={A};; *) exit 1;; esac"),
        );
        sandbox.write("sys/class/block/sdd/holders/md127", "");
        sandbox.run(IMSM, &["assemble"]);
        let back = ["sda", "sdb", "sdc"].map(|disk| format!("partx -a /dev/{disk}"));
        assert_eq!(sandbox.calls_of("partx"), back);
    });
}

#[test]
fn an_image_without_mdadm_says_so() {
    under_each_shell(|sandbox| {
        image(sandbox);
        sandbox.remove("bin/mdadm");
        sandbox.quell(&["exit 5"; 2]);
        assert_eq!(sandbox.run(IMSM, &["assemble"]), 5);
        assert_eq!(
            sandbox.read("dev/kmsg"),
            "<28>quell: this image has no mdadm: what is left to it is not assembled\n"
        );
        sandbox.write("dev/kmsg", "");
        assert_eq!(sandbox.run(IMSM, &["assemble"]), 5);
        assert_eq!(sandbox.read("dev/kmsg"), "", "it is said once");
    });
}
