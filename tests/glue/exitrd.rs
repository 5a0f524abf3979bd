//! What is called at shutdown: dracut's shutdown hooks and finalrd's.

use crate::sandbox::under_each_shell;

const FOLDER: &str = "dracut/usr/lib/dracut/modules.d/55quell";

/// dracut's passes: each hook that is left, in a subshell of pid 1's shell, until all have succeeded; 41 at most, and one
/// more in which `final` is set.
const PASSES: &str = r#"
pass() {
    left=0
    for hook in $S/hooks/shutdown/*.sh; do
        [ -e "$hook" ] || continue
        if (final="$1" . "$hook"); then mv "$hook" "$hook.done"; else left=1; fi
    done
    return $left
}
ACTION=VERB
passes=0
while [ $passes -le 40 ]; do
    pass "" && exit 0
    passes=$((passes + 1))
done
pass final
"#;

fn hooks(exits: &[&str], verb: &str, test: impl Fn(&[String])) {
    under_each_shell(|sandbox| {
        for (name, at) in [("arrays", 28), ("controllers", 98)] {
            let to = format!("hooks/shutdown/{at}-quell-{name}.sh");
            sandbox.script(&format!("{FOLDER}/quell-{name}.sh"), &to);
        }
        sandbox.quell(exits);
        sandbox.shell(&PASSES.replace("VERB", verb));
        test(&sandbox.calls());
    });
}

#[test]
fn arrays_come_before_controllers_and_each_once() {
    hooks(&[], "poweroff", |calls| {
        assert_eq!(
            calls,
            [
                "quell shutdown poweroff --stage=exitrd --step=arrays",
                "quell shutdown poweroff --stage=exitrd --step=controllers"
            ]
        );
    });
}

#[test]
fn b40_an_empty_verb_is_still_an_argument() {
    under_each_shell(|sandbox| {
        sandbox.script(
            &format!("{FOLDER}/quell-arrays.sh"),
            "hooks/shutdown/28-quell-arrays.sh",
        );
        sandbox.stub("usr/lib/quell/quell", "echo $# >> $S/log");
        sandbox.shell(&PASSES.replace("VERB", "''"));
        assert_eq!(sandbox.calls()[1], "4");
    });
}

#[test]
fn one_hook_waits_for_the_next_pass_while_the_other_is_done() {
    hooks(
        &["exit 1", "exit 1", "exit 0", "exit 1"],
        "reboot",
        |calls| {
            let steps: Vec<_> = calls
                .iter()
                .map(|call| call.rsplit('=').next().unwrap())
                .collect();
            assert_eq!(
                steps,
                [
                    "arrays",
                    "controllers",
                    "arrays",
                    "controllers",
                    "controllers"
                ]
            );
        },
    );
}

#[test]
fn after_41_passes_the_last_one_is_final() {
    let body = ["case $* in *controllers*) exit 1;; esac"];
    let bodies = body.repeat(50);
    hooks(&bodies, "reboot", |calls| {
        let (last, others) = calls.split_last().unwrap();
        assert_eq!(others.len(), 1 + 41);
        assert!(others.iter().all(|call| !call.contains("--final")));
        assert_eq!(
            last,
            "quell shutdown reboot --stage=exitrd --step=controllers --final"
        );
    });
}

#[test]
fn b46_a_hook_whose_quell_dies_is_not_called_again() {
    for exit in ["kill -SEGV $$", "exit 3", "exit 2"] {
        hooks(&[exit, exit], "reboot", |calls| assert_eq!(calls.len(), 2));
    }
}

#[test]
fn finalrd_takes_the_binary_along_and_calls_it_with_whatever_verb() {
    under_each_shell(|sandbox| {
        sandbox.script(
            "initramfs-tools/usr/share/finalrd/quell.finalrd",
            "quell.finalrd",
        );
        sandbox.write(
            "usr/share/initramfs-tools/hook-functions",
            "copy_exec() { echo copy_exec \"$@\" >> $S/log; }\n",
        );
        sandbox.quell(&[]);
        for args in [vec!["setup"], vec!["poweroff"], vec![""], vec![]] {
            assert_eq!(sandbox.run("quell.finalrd", &args), 0);
        }
        assert_eq!(
            sandbox.calls(),
            [
                "copy_exec /usr/lib/quell/quell",
                "quell shutdown poweroff --stage=exitrd",
                "quell shutdown  --stage=exitrd",
                "quell shutdown  --stage=exitrd"
            ]
        );
    });
}

#[test]
fn quells_exitrd_is_made_when_others_have_made_or_thrown_away_theirs() -> std::io::Result<()> {
    let unit = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/systemd-shutdown/usr/lib/systemd/system/quell-exitrd.service"
    );
    let text = std::fs::read_to_string(unit)?;
    let after = text.lines().find_map(|line| line.strip_prefix("After="));
    let after: Vec<&str> = after.unwrap_or_default().split(' ').collect();
    // dracut's own has failed: what it made is removed, by the name that quell's has too.
    for other in [
        "dracut-shutdown.service",
        "dracut-shutdown-onfailure.service",
        "finalrd.service",
    ] {
        assert!(after.contains(&other), "{other}");
    }
    Ok(())
}
