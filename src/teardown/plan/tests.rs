#![allow(clippy::unwrap_used)]

use super::super::graph::tests::graph;
use super::*;

const ALL: Ask = Ask {
    native: true,
    clean: false,
    stop: true,
    mend_clean: true,
};

fn plan(nodes: &[&str]) -> Plan {
    let mut plan = Plan::new();
    plan.graph = graph(nodes);
    plan
}

/// Does all that can be done, everything succeeding; tells what in which order.
fn run(plan: &mut Plan) -> Vec<String> {
    let mut jobs = Vec::new();
    while let Some(job) = plan.next(0) {
        let name = |at: usize| plan.graph.nodes()[at].array.name.to_string();
        jobs.push(match job {
            Job::Mend(at) => format!("mend {}", name(at)),
            Job::Do(at, Action::Stop) => format!("stop {}", name(at)),
            Job::Do(at, Action::Clean) => format!("clean {}", name(at)),
            Job::Tidy => "tidy".to_owned(),
        });
        assert_eq!(Job::of(job.number()), job);
        match job {
            Job::Mend(at) => plan.mended(at),
            Job::Do(at, Action::Stop) => plan.settle(at, Fate::Stopped(Stopped::Clean, 1)),
            Job::Do(at, Action::Clean) => plan.settle(at, Fate::Clean(1)),
            Job::Tidy => {}
        }
    }
    jobs
}

const MATRIX: [&str; 4] = [
    "md127 external:imsm  inactive",
    "md126 external:/md127/0 raid5 active",
    "md125 external:/md127/1 raid0 clean",
    "md0 1.2 raid1 clean",
];

#[test]
fn volumes_go_before_their_container_and_stacked_arrays_from_the_top() {
    let mut p = plan(&MATRIX);
    p.graph.node_mut(0).unwrap().mdmon = true;
    p.graph.stand_on(3, 2);
    p.decide(ALL, &|_| true);
    assert_eq!(
        run(&mut p),
        ["stop md126", "stop md0", "stop md125", "stop md127", "tidy"]
    );
    assert!(!p.has_more());
}

#[test]
fn mdmon_comes_back_before_a_volume_that_needs_it() {
    let mut p = plan(&MATRIX);
    p.decide(ALL, &|_| true);
    assert_eq!(p.next(0), Some(Job::Mend(0)));
    // The volumes wait for it, what is not in the container does not.
    assert_eq!(p.next(0), Some(Job::Do(3, Action::Stop)));
    assert_eq!(p.next(0), None);
    p.mended(0);
    p.mend_over(0);
    assert!(p.is_fresh(1) && !p.is_fresh(3));
    assert_eq!(p.next(0), Some(Job::Do(1, Action::Stop)));
    let mut p = plan(&MATRIX);
    p.graph.node_mut(1).unwrap().array.state = State::ReadAuto;
    p.decide(ALL, &|_| true);
    assert_eq!(p.next(0), Some(Job::Do(1, Action::Stop)));
}

#[test]
fn what_is_in_use_holds_up_only_what_it_stands_on_b29() {
    let mut p = plan(&[
        MATRIX[0],
        MATRIX[1],
        MATRIX[2],
        "md123 external:imsm  inactive",
        "md122 external:/md123/0 raid0 clean",
    ]);
    p.graph.node_mut(0).unwrap().mdmon = true;
    p.graph.hold(1, format_args!("md126 mounted on /mnt"));
    p.decide(ALL, &|_| true);
    assert_eq!(
        run(&mut p),
        ["stop md125", "stop md122", "stop md123", "tidy"]
    );
    assert_eq!(p.fates[..2], [Fate::HeldUp(1), Fate::Busy]);
    // At shutdown it is at least made clean.
    let ask = Ask { clean: true, ..ALL };
    p.decide(ask, &|_| true);
    assert!(run(&mut p).contains(&"clean md126".to_owned()));
    assert_eq!(p.fates[..2], [Fate::HeldUp(1), Fate::Clean(1)]);
}

#[test]
fn a_container_means_its_volumes_and_a_volume_only_itself() {
    let mut p = plan(&MATRIX);
    p.graph.node_mut(0).unwrap().mdmon = true;
    p.decide(ALL, &|at| at == 0);
    assert_eq!(
        run(&mut p),
        ["stop md126", "stop md125", "stop md127", "tidy"]
    );
    p.decide(ALL, &|at| at == 2);
    assert_eq!(run(&mut p), ["stop md125", "tidy"]);
    assert_eq!(p.fates[0], Fate::Ignored);
}

#[test]
fn what_is_only_made_clean_is_not_stopped() {
    let mut p = plan(&MATRIX);
    let ask = Ask {
        native: false,
        clean: true,
        stop: false,
        mend_clean: false,
    };
    p.decide(ask, &|_| true);
    let clean = Fate::Todo(Action::Clean);
    let rest = [Fate::Ignored, clean, Fate::Ignored, Fate::Native];
    assert_eq!(p.fates[..], rest);
}

#[test]
fn native_arrays_and_reshapes_are_left() {
    let mut p = plan(&MATRIX);
    p.graph.node_mut(1).unwrap().reshaped = true;
    let ask = Ask {
        native: false,
        clean: true,
        stop: true,
        mend_clean: true,
    };
    p.decide(ask, &|_| true);
    assert_eq!(run(&mut p), ["stop md125", "tidy"]);
    assert_eq!(
        p.fates[..],
        [
            Fate::HeldUp(1),
            Fate::Reshaped,
            Fate::Stopped(Stopped::Clean, 1),
            Fate::Native
        ]
    );
}

#[test]
fn when_the_time_is_up_everything_has_a_fate() {
    let mut p = plan(&MATRIX);
    p.decide(ALL, &|_| true);
    assert_eq!(p.next(100), Some(Job::Mend(0)));
    p.mended(0);
    assert_eq!(p.next(100), Some(Job::Do(1, Action::Stop)));
    p.settle(1, Fate::Running(Step::Stop, 100));
    assert!(p.has_more());
    p.close(8100);
    assert_eq!(
        p.fates[..],
        [
            Fate::HeldUp(1),
            Fate::Abandoned(Step::Stop, 8000),
            Fate::NotStarted,
            Fate::NotStarted
        ]
    );
}
