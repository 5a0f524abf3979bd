#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use super::*;

mod lines;

fn read(line: &[u8], stage: Stage) -> (Options, Vec<String>) {
    let mut warnings = Vec::new();
    let options = Options::from_cmdline(line, stage, &mut |w| warnings.push(w.to_string()));
    (options, warnings)
}

/// Reads a line that must be understood.
fn clean(line: &str, stage: Stage) -> Options {
    let (options, warnings) = read(line.as_bytes(), stage);
    assert_eq!(warnings, Vec::<String>::new(), "{line}");
    options
}

fn words(line: &str) -> Vec<(String, Option<String>)> {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Words::new(line.as_bytes())
        .map(|(param, value)| (text(param), value.map(text)))
        .collect()
}

#[test]
fn an_empty_line_is_the_default() {
    for line in [
        "",
        " \n",
        "root=/dev/sda quiet",
        "quell=0",
        "xquell.jobs=4",
        "Quell.jobs=4",
    ] {
        for stage in Stage::ALL {
            assert_eq!(clean(line, stage), Options::DEFAULT);
        }
    }
}

#[test]
fn every_option_is_read() {
    let line = "quiet quell.enable=no quell.jobs=8 quell.width=nvme:32,nvme-tcp:8 quell.timeout=20 \
        quell.lastresort=0 quell.quiesce=always quell.fabrics=delete quell.assemble=off \
        quell.degraded=never quell.teardown=0 quell.log=debug\n";
    let options = clean(line, Stage::SystemdShutdown);
    let expected = Options {
        enable: false,
        jobs: Jobs::N(8),
        width: [Some(32), Some(8), None, None, None],
        timeout_s: Some(20),
        lastresort_s: 0,
        quiesce: Quiesce::Always,
        fabrics_delete: true,
        assemble: Assemble::Off,
        degraded: Degraded::Never,
        teardown: false,
        log: log::LevelFilter::Debug,
    };
    assert_eq!(options, expected);
    // And each of them goes back when a bad word follows.
    let bad: String = TABLE
        .iter()
        .map(|row| format!(" quell.{}=%", row.name))
        .collect();
    let (options, warnings) = read((line.to_owned() + &bad).as_bytes(), Stage::Person);
    // Any visible text may be an array's name.
    assert_eq!(
        options,
        Options {
            assemble: Assemble::Listed(List::parse("%").unwrap()),
            ..Options::DEFAULT
        }
    );
    assert_eq!(warnings.len(), TABLE.len() - 1);
}

#[test]
fn values() {
    let person = Stage::Person;
    for word in ["1", "yes", "on", "true"] {
        assert!(clean(&format!("quell.enable=0 quell.enable={word}"), person).enable);
    }
    for word in ["0", "no", "off", "false"] {
        assert!(!clean(&format!("quell.teardown={word}"), person).teardown);
    }
    assert!(clean("quell.enable=0 quell.enable", person).enable);
    assert_eq!(clean("quell.jobs=1", person).jobs, Jobs::N(1));
    assert_eq!(clean("quell.jobs=1024", person).jobs, Jobs::N(1024));
    assert_eq!(clean("quell.jobs=007", person).jobs, Jobs::N(7));
    assert_eq!(
        clean("quell.jobs=4 quell.jobs=auto", person).jobs,
        Jobs::Auto
    );
    assert_eq!(clean("quell.timeout=86400", person).timeout_s, Some(86_400));
    assert_eq!(clean("quell.degraded", person).degraded, Degraded::After(0));
    assert_eq!(
        clean("quell.degraded=30", person).degraded,
        Degraded::After(30)
    );
    assert_eq!(
        clean("quell.width=nvme:1,nvme:2", person).width_of(Class::Nvme),
        2
    );
    assert_eq!(
        clean("quell.width=nvme_fc:1024", person).width_of(Class::NvmeFc),
        1_024
    );
    let listed = "quell.assemble=Volume0,1af9c5c2:d5a5c7a5:6b0ec1a7:c2ab5a3d";
    let Assemble::Listed(list) = clean(listed, person).assemble else {
        panic!("it is a list");
    };
    assert_eq!(Some(list.to_string().as_str()), listed.split('=').nth(1));
}

#[test]
fn bad_values_are_one_warning_and_the_default() {
    for word in [
        "enable=2",
        "enable=",
        "enable=YES",
        "jobs=0",
        "jobs=1025",
        "jobs=-1",
        "jobs=+1",
        "jobs=4.5",
        "jobs=0x4",
        "jobs=99999999999999999999",
        "jobs=65537",
        "jobs=",
        "jobs",
        "jobs=all",
        "width=",
        "width",
        "width=nvme",
        "width=nvme:",
        "width=nvme:0",
        "width=nvme:1025",
        "width=scsi:4",
        "width=nvme:4,",
        "width=,nvme:4",
        "width=nvme:4:4",
        "width=4",
        "timeout=0",
        "timeout=86401",
        "timeout=1m",
        "timeout",
        "lastresort=never",
        "lastresort=86401",
        "quiesce=1",
        "quiesce",
        "fabrics=yes",
        "assemble=",
        "assemble=a,,b",
        "assemble",
        "degraded=",
        "degraded=-1",
        "teardown=maybe",
        "log=off",
        "log=7",
        "log=INFO",
        "log",
    ] {
        let line = format!("quell.jobs=4 quell.{word}");
        let (options, warnings) = read(line.as_bytes(), Stage::Person);
        let jobs = if word.starts_with("jobs") {
            Jobs::Auto
        } else {
            Jobs::N(4)
        };
        assert_eq!(
            options,
            Options {
                jobs,
                ..Options::DEFAULT
            },
            "{word}"
        );
        assert_eq!(warnings.len(), 1, "{word}: {warnings:?}");
    }
}

#[test]
fn the_last_word_wins_good_or_bad() {
    assert_eq!(
        clean("quell.jobs=4 quell.jobs=5", Stage::Person).jobs,
        Jobs::N(5)
    );
    let (options, warnings) = read(b"quell.jobs=x quell.jobs=5", Stage::Person);
    assert_eq!((options.jobs, warnings.len()), (Jobs::N(5), 1));
    // All of the value: a width of the first is not kept.
    let options = clean("quell.width=nvme:8 quell.width=nvme-tcp:4", Stage::Person);
    assert_eq!(
        (
            options.width_of(Class::Nvme),
            options.width_of(Class::NvmeTcp)
        ),
        (64, 4)
    );
}

#[test]
fn rd_goes_first_in_its_stages_and_is_not_read_in_others() {
    for line in [
        "rd.quell.jobs=4 quell.jobs=5",
        "quell.jobs=5 rd.quell.jobs=4",
    ] {
        for (stage, jobs) in [
            (Stage::Initrd, 4),
            (Stage::Exitrd, 4),
            (Stage::SystemdShutdown, 5),
            (Stage::Person, 5),
        ] {
            assert_eq!(clean(line, stage).jobs, Jobs::N(jobs), "{line} {stage}");
        }
    }
    assert_eq!(
        clean(
            "rd.quell.jobs=4 rd.quell.jobs=6 quell.jobs=5",
            Stage::Exitrd
        )
        .jobs,
        Jobs::N(6)
    );
    assert_eq!(
        clean("rd.quell.log=warn quell.jobs=5", Stage::Exitrd).jobs,
        Jobs::N(5)
    );
    // A bad word of rd. still goes first: the default, with its warning.
    let (options, warnings) = read(b"rd.quell.jobs=x quell.jobs=5", Stage::Exitrd);
    assert_eq!(options.jobs, Jobs::Auto);
    assert_eq!(
        warnings,
        ["rd.quell.jobs: bad value \"x\" (allowed: auto, 1 to 1024); taking the default, auto"]
    );
    assert_eq!(
        clean(
            "rd.quell.jobs=x quell.jobs=5 rd.quell.nonsense",
            Stage::Person
        )
        .jobs,
        Jobs::N(5)
    );
    // A bad word of quell. that does not count takes nothing away, but is told.
    let (options, warnings) = read(b"rd.quell.jobs=4 quell.jobs=x", Stage::Exitrd);
    assert_eq!((options.jobs, warnings.len()), (Jobs::N(4), 1));
}

#[test]
fn messages_are_one_clear_line() {
    let (options, warnings) = read(
        b"quell.nonsense=4 quell.jbos quell. quell.jobs.x=1",
        Stage::Person,
    );
    assert_eq!(options, Options::DEFAULT);
    assert_eq!(
        warnings[0],
        "quell.nonsense: unknown option (known: enable, jobs, width, timeout, lastresort, quiesce, fabrics, assemble, degraded, teardown, log); ignored"
    );
    assert_eq!(warnings.len(), 4);
    let mut options = Options::DEFAULT;
    assert_eq!(
        options.set("jobs", None).unwrap_err().to_string(),
        "jobs: needs a value (allowed: auto, 1 to 1024)"
    );
    let long = "x".repeat(5_000);
    let message = options.set("log", Some(&long)).unwrap_err().to_string();
    assert!(
        message.starts_with("log: bad value \"xxx") && message.contains("xxx...\""),
        "{message}"
    );
    let control = options
        .set("log", Some("a\nb\u{7f}\u{1b}[2J"))
        .unwrap_err()
        .to_string();
    assert!(control.contains("\"a?b??[2J\""), "{control}");
    let (_, warnings) = read(b"quell.log=\xffab\xf0\x9f", Stage::Person);
    assert!(warnings[0].contains("\"?ab?\""), "{warnings:?}");
    assert!(
        options
            .set("stage", Some("exitrd"))
            .unwrap_err()
            .is_unknown()
    );
    assert_eq!(options, Options::DEFAULT);
}

#[test]
fn flags_set_the_same_options() {
    let mut options = clean("quell.jobs=8 quell.width=nvme:3", Stage::Person);
    options.set("jobs", Some("2")).unwrap();
    options.set("last_resort", Some("2")).unwrap_err();
    options.set("lastresort", Some("2")).unwrap();
    options.set("degraded", None).unwrap();
    // A bad flag changes nothing.
    assert!(!options.set("jobs", Some("0")).unwrap_err().is_unknown());
    assert_eq!(
        (options.jobs, options.lastresort_s, options.degraded),
        (Jobs::N(2), 2, Degraded::After(0))
    );
    assert_eq!(options.width_of(Class::Nvme), 3);
}

#[test]
fn dashes_and_underlines_are_the_same_in_names() {
    // No option has either today: the comparison itself is what is tested.
    assert!(same_name(b"a-b_c", b"a_b-c"));
    assert!(!same_name(b"a-b", b"ab"));
    assert!(!same_name(b"a", b"a-"));
}

#[test]
fn totals_and_widths() {
    let auto = Options::DEFAULT;
    assert_eq!(
        [0, 1, 64, 65, 5_000].map(|work| auto.jobs_total(work)),
        [0, 1, 64, 64, 64]
    );
    let many = clean("quell.jobs=1024", Stage::Person);
    assert_eq!(
        [0, 1, 1_024, 5_000].map(|work| many.jobs_total(work)),
        [0, 1, 1_024, 1_024]
    );
    assert_eq!(
        Class::ALL.map(|class| auto.width_of(class)),
        [64, 16, 16, 16, 16]
    );
    assert_eq!(
        Stage::ALL.map(|stage| auto.timeout_s(stage)),
        [130, 40, 60, 130]
    );
    assert_eq!(
        Stage::ALL.map(|stage| clean("quell.timeout=7", stage).timeout_s(stage)),
        [7; 4]
    );
    assert_eq!(Stage::ALL.map(Stage::is_hook), [true, true, true, false]);
    assert_eq!(
        Stage::ALL.map(|stage| Stage::parse(stage.name())),
        Stage::ALL.map(Some)
    );
    assert_eq!(Stage::parse("root"), None);
}
