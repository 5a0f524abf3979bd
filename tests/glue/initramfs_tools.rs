//! initramfs-tools: what its hook makes of mdadm's configuration, and what its scripts do at boot.

use crate::imsm::image;
use crate::sandbox::{Sandbox, output, under_each_shell};

const FOLDER: &str = "initramfs-tools/usr/share/initramfs-tools";
const CONF: &str = "image/etc/mdadm/mdadm.conf";
const A: &str = "aaaaaaaa:aaaaaaaa:aaaaaaaa:aaaaaaaa";
const B: &str = "bbbbbbbb:bbbbbbbb:bbbbbbbb:bbbbbbbb";
const C: &str = "cccccccc:cccccccc:cccccccc:cccccccc";
const D: &str = "dddddddd:dddddddd:dddddddd:dddddddd";

fn script(sandbox: &Sandbox, name: &str) -> &'static str {
    sandbox.script(&format!("{FOLDER}/{name}"), "script");
    "script"
}

/// Builds an image, with what mdadm says of the disks that are there and the configuration that its own hook has left.
fn build(sandbox: &Sandbox, scan: &str, conf: Option<&str>) {
    sandbox.script(&format!("{FOLDER}/hooks/quell"), "hook");
    sandbox.write(
        "usr/share/initramfs-tools/hook-functions",
        "copy_exec() { echo copy_exec \"$@\" >> $S/log; }\nmanual_add_modules() { echo modules \"$@\" >> $S/log; }\n",
    );
    sandbox.write("usr/lib/quell/initrd/imsm", "");
    sandbox.write("usr/lib/quell/initrd/62-quell-imsm.rules", "");
    sandbox.write("scan", scan);
    sandbox.stub("bin/mdadm", "cat $S/scan");
    sandbox.write("image/etc/mdadm/", "");
    if let Some(conf) = conf {
        sandbox.write(CONF, conf);
    }
    let path = format!("{}:/usr/bin:/bin", sandbox.at("bin").display());
    let mut hook = sandbox.command("hook");
    hook.env("DESTDIR", sandbox.at("image")).env("PATH", path);
    assert!(output(&mut hook).status.success());
}

fn check(scan: &str, before: &str, after: &str) {
    under_each_shell(|sandbox| {
        build(sandbox, scan, Some(before));
        assert_eq!(sandbox.read(CONF), after, "of {before:?}");
        assert_eq!(sandbox.read("image/etc/mdadm/mdadm.conf.kept"), before);
    });
}

#[test]
fn imsm_is_left_alone_and_the_rest_stays() {
    check("", "", "AUTO -imsm\n");
    let rest = "# of the host\nHOMEHOST <system>\n  continued\n\nMAILADDR root\n";
    check("", rest, &format!("AUTO -imsm\n{rest}"));
    let native = format!("ARRAY /dev/md/0 metadata=1.2 UUID={A}\n");
    check("", &native, &format!("AUTO -imsm\n{native}"));
}

#[test]
fn the_first_word_of_an_auto_line_wins() {
    check(
        "",
        "AUTO +1.x -all\nAUTO +imsm\n",
        "AUTO -imsm +1.x -all\nAUTO +imsm\n",
    );
    check("", "auto +imsm\n  +all\n", "AUTO -imsm +imsm\n  +all\n");
}

#[test]
fn array_lines_of_imsm_are_dropped() {
    // As `mdadm --detail --scan` and `mdadm --examine --scan` print them.
    let imsm = format!(
        "ARRAY /dev/md/imsm0 metadata=imsm UUID={A}\n\
         ARRAY /dev/md/Volume0 container=/dev/md/imsm0 member=0 UUID={B}\n\
         ARRAY metadata=imsm UUID={B}\n\
         array /dev/md/Volume1\n    Container={A} member=1 UUID={C}\n"
    );
    let ddf = format!(
        "ARRAY /dev/md/ddf0 metadata=ddf UUID={D}\nARRAY /dev/md/d container={D} member=0\n"
    );
    check("", &format!("{imsm}{ddf}"), &format!("AUTO -imsm\n{ddf}"));
}

#[test]
fn what_an_array_line_does_not_say_the_disks_do() {
    let scan = format!(
        "ARRAY metadata=imsm UUID={A}\nARRAY /dev/md/Volume0 container={A} member=0 UUID={B}\n"
    );
    let native = format!("ARRAY /dev/md/Volume0 UUID={C}\n");
    let upper = A.to_uppercase();
    let before = format!("ARRAY /dev/md127 uuid={upper}\nARRAY /dev/md/data UUID={B}\n{native}");
    check(&scan, &before, &format!("AUTO -imsm\n{native}"));
}

#[test]
fn the_image_gets_all_that_the_scripts_call() {
    under_each_shell(|sandbox| {
        build(sandbox, "", None);
        assert!(
            !sandbox.exists(CONF),
            "no mdadm, no configuration to change"
        );
        for path in [
            "usr/lib/quell/initrd/imsm",
            "etc/udev/rules.d/62-quell-imsm.rules",
        ] {
            assert!(sandbox.exists(&format!("image/{path}")), "{path}");
        }
        let calls = sandbox.calls();
        for call in [
            "copy_exec /usr/lib/quell/quell",
            "copy_exec /usr/bin/partx /sbin/partx",
        ] {
            assert!(calls.contains(&call.to_owned()), "{calls:?}");
        }
    });
}

#[test]
fn every_script_says_what_it_comes_after() {
    for (name, after) in [
        ("hooks/quell", "mdadm\n"),
        ("scripts/init-top/quell", "\n"),
        ("scripts/init-premount/quell", "\n"),
        ("scripts/local-block/quell", "\n"),
        ("scripts/init-bottom/quell", "\n"),
    ] {
        under_each_shell(|sandbox| {
            let script = script(sandbox, name);
            let out = output(sandbox.command(script).arg("prereqs"));
            assert!(out.status.success());
            assert_eq!(String::from_utf8_lossy(&out.stdout), after, "{name}");
            assert!(sandbox.calls().is_empty());
        });
    }
}

#[test]
fn quell_is_called_before_root_is_looked_for_and_while_it_is_not_there() {
    for name in ["scripts/init-premount/quell", "scripts/local-block/quell"] {
        under_each_shell(|sandbox| {
            image(sandbox);
            sandbox.quell(&["exit 4", "exit 0"]);
            let script = script(sandbox, name);
            for _ in 0..3 {
                assert_eq!(sandbox.run(script, &["UUID=1"]), 0);
            }
            let calls = sandbox.calls_of("quell");
            assert_eq!(calls, ["quell assemble --stage=initrd"; 3], "{name}");
        });
    }
}

#[test]
fn b18_quell_is_not_called_where_it_is_not_to_assemble() {
    for name in ["scripts/init-premount/quell", "scripts/local-block/quell"] {
        under_each_shell(|sandbox| {
            image(sandbox);
            sandbox.quell(&["exit 1"]);
            let top = script(sandbox, "scripts/init-top/quell");
            assert_eq!(sandbox.run(top, &[]), 0);
            sandbox.calls();
            let block = script(sandbox, name);
            assert_eq!(sandbox.run(block, &["UUID=1"]), 0);
            assert!(sandbox.calls().is_empty(), "{name}");
        });
    }
}

#[test]
fn what_root_does_not_need_is_left_to_the_running_system() {
    under_each_shell(|sandbox| {
        let script = script(sandbox, "scripts/init-bottom/quell");
        assert_eq!(sandbox.run(script, &[]), 0);
        sandbox.write("run/quell/assembly", "boot_id=x\ndecided=1\n");
        assert_eq!(sandbox.run(script, &[]), 0);
        assert_eq!(sandbox.read("dev/kmsg"), "");
        sandbox.write("run/quell/assembly", "decided=0\nuntil_ms=9\n");
        assert_eq!(sandbox.run(script, &[]), 0);
        assert!(sandbox.read("dev/kmsg").starts_with("<30>quell: root"));
    });
}
