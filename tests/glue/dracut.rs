//! dracut's module at boot: the initqueue's job and the question whether it may end, and whether an exitrd is wanted.

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

/// Runs the cleanup hook with these words on the kernel command line and says whether an exitrd is wanted.
fn wants_exitrd(sandbox: &Sandbox, line: &str) -> bool {
    sandbox.script(
        &format!("{FOLDER}/quell-need-shutdown.sh"),
        "hooks/cleanup/98-quell-need-shutdown.sh",
    );
    sandbox.write("need", "");
    // getarg, as dracut's: the value of the last word of this name.
    let text = format!(
        "getarg() {{
            found=1
            for word in {line}; do case $word in \"$1\"*) found=0; value=${{word#*=}};; esac; done
            [ $found -ne 0 ] || echo \"$value\"
            return $found
        }}
        need_shutdown() {{ echo wanted > $S/need; }}
        . $S/hooks/cleanup/98-quell-need-shutdown.sh"
    );
    assert_eq!(sandbox.shell(&text), 0);
    sandbox.read("need") == "wanted\n"
}

#[test]
fn an_exitrd_is_wanted_for_mdmons_arrays_and_for_controllers_to_shut_down_together() {
    under_each_shell(|sandbox| {
        assert!(!wants_exitrd(sandbox, ""));
        sandbox.write("sys/block/md0/md/metadata_version", "1.2\n");
        sandbox.write("sys/class/nvme/nvme0/transport", "pcie\n");
        sandbox.write("sys/class/nvme/nvme1/transport", "tcp\n");
        assert!(!wants_exitrd(sandbox, ""));
        assert!(wants_exitrd(sandbox, "quell.quiesce=always"));

        sandbox.write("sys/class/nvme/nvme2/transport", "pcie\n");
        assert!(wants_exitrd(sandbox, "quiet"));
        assert!(!wants_exitrd(sandbox, "quell.quiesce=off"));
        assert!(wants_exitrd(
            sandbox,
            "quell.quiesce=off rd.quell.quiesce=auto"
        ));
        assert!(wants_exitrd(
            sandbox,
            "quell.quiesce=off quell.quiesce=auto"
        ));

        sandbox.write("sys/block/md127/md/metadata_version", "external:imsm\n");
        assert!(wants_exitrd(sandbox, "quell.quiesce=off"));
    });
}

#[test]
fn b18_no_exitrd_is_wanted_where_quell_is_off() {
    under_each_shell(|sandbox| {
        sandbox.write("sys/block/md127/md/metadata_version", "external:imsm\n");
        assert!(wants_exitrd(sandbox, ""));
        assert!(!wants_exitrd(sandbox, "quell.enable=0"));
        assert!(!wants_exitrd(sandbox, "rd.quell.enable=0 quell.enable=1"));
    });
}
