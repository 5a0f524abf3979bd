//! What is to become of containers, given what there is of them already, whose they are, and what time it is.

use crate::sample::{Image, found, set};
use core::mem::offset_of;
use quell::assemble::decide::{
    Claim, Decision, Existing, ExistingVolume, Fate, Outcome, Patience, Scene, decide,
};
use quell::assemble::steps::Mode;
use quell::imsm::{Plan, ondisk};
use quell::sys::md::State;

const NOW: u64 = 10_000;

/// All is here, nothing is there yet, it is ours, and there is a second left to wait.
fn usual() -> Scene<'static> {
    Scene {
        existing: None,
        claim: Claim::Ours,
        bad_headers: &[],
        ignored: &[],
        mode: Mode::Write,
        patience: Patience::Until(NOW + 1000),
        now_ms: NOW,
    }
}

fn decided(images: &[Image], scene: &Scene<'_>) -> Decision {
    found(images, |found| {
        let container = found.containers().next().unwrap();
        let plans: Vec<Plan<'_>> = container.plans().collect();
        let decision = decide(&container, &plans, scene);
        assert_eq!(decision.fates.len(), plans.len());
        decision
    })
}

fn outcome(images: &[Image], scene: &Scene<'_>) -> Outcome {
    decided(images, scene).outcome
}

fn without(name: &str, serial: &str) -> Vec<Image> {
    let mut images = set(name);
    images.retain(|image| image.serial != serial);
    images
}

/// A container of these disks, with volumes in these states.
fn existing(images: &[Image], watched: bool, states: &[(u8, State)]) -> Existing {
    Existing {
        name: "md127".into(),
        members: images.iter().map(|image| image.name.clone()).collect(),
        watched,
        volumes: states
            .iter()
            .map(|&(index, state)| ExistingVolume {
                name: format!("md{}", 126 - index),
                index,
                state,
                blocked: false,
            })
            .collect(),
    }
}

fn is_not(fate: &Fate, part: &str) -> bool {
    matches!(fate, Fate::Not(why) if why.contains(part))
}

#[test]
fn what_is_whole_goes_at_once() {
    for name in ["r0", "r1", "r5", "r10", "r5_4k", "states-dirty"] {
        let decision = decided(&set(name), &usual());
        assert_eq!(decision.outcome, Outcome::Goes, "{name}");
        assert_eq!(decision.fates, [Fate::Start], "{name}");
    }
}

#[test]
fn b06_a_missing_disk_is_waited_for_until_the_deadline_and_not_longer() {
    let half = without("r1", "D1");
    let at = |patience| Scene {
        patience,
        ..usual()
    };
    let waits = |patience| outcome(&half, &at(patience)) == Outcome::Waits(patience);
    assert!(waits(Patience::Until(NOW + 1)));
    assert!(waits(Patience::Never));
    assert!(!waits(Patience::Until(NOW)));
    let decision = decided(&half, &at(Patience::Until(NOW)));
    assert_eq!(decision.fates, [Fate::Start]);
    assert_eq!(decision.outcome, Outcome::Goes);
}

#[test]
fn b03_what_cannot_run_without_the_missing_disk_says_so_and_the_rest_is_started() {
    let late = Scene {
        patience: Patience::Until(0),
        ..usual()
    };
    let decision = decided(&without("r0", "D1"), &late);
    assert!(is_not(&decision.fates[0], "D1 (missing)"), "{decision:?}");
    assert!(matches!(decision.outcome, Outcome::Left(_)));
    // RAID 5 and RAID 0 on the same three disks.
    let decision = decided(&without("matrix", "D1"), &late);
    assert_eq!(decision.outcome, Outcome::Goes);
    let started = decision.fates.iter().filter(|fate| **fate == Fate::Start);
    assert_eq!(started.count(), 1, "{decision:?}");
    assert!(
        decision
            .fates
            .iter()
            .any(|fate| is_not(fate, "D1 (missing)"))
    );
}

#[test]
fn b45_and_b18_what_is_not_ours_is_left_by_name() {
    let of = |claim| outcome(&set("r1"), &Scene { claim, ..usual() });
    assert!(matches!(of(Claim::NoPlatform), Outcome::Mdadm(why) if why.contains("VMD")));
    assert!(matches!(of(Claim::NotListed), Outcome::Mdadm(_)));
    assert!(matches!(of(Claim::NotInUuids), Outcome::Left(_)));
    assert!(matches!(of(Claim::Ignored), Outcome::Left(_)));
}

#[test]
fn what_runs_is_left_alone_whoever_started_it() {
    let images = set("r1");
    for state in [
        State::Active,
        State::Clean,
        State::ReadAuto,
        State::WritePending,
    ] {
        let existing = existing(&images, true, &[(0, state)]);
        for claim in [Claim::Ours, Claim::NoPlatform, Claim::NotInUuids] {
            let scene = Scene {
                existing: Some(&existing),
                claim,
                ..usual()
            };
            let decision = decided(&images, &scene);
            assert_eq!(decision.outcome, Outcome::Runs, "{state:?} {claim:?}");
            assert_eq!(decision.fates, [Fate::Runs]);
        }
    }
}

#[test]
fn b01_what_runs_and_nobody_watches_is_finished() {
    let images = set("r1");
    let fate = |state, watched, blocked, mode| {
        let mut existing = existing(&images, watched, &[(0, state)]);
        existing.volumes[0].blocked = blocked;
        let scene = Scene {
            existing: Some(&existing),
            mode,
            ..usual()
        };
        decided(&images, &scene).fates[0].clone()
    };
    assert_eq!(
        fate(State::Readonly, false, false, Mode::Write),
        Fate::Finish
    );
    assert_eq!(
        fate(State::Readonly, false, true, Mode::Write),
        Fate::Finish
    );
    assert_eq!(fate(State::Active, false, false, Mode::Write), Fate::Finish);
    assert_eq!(fate(State::Readonly, true, true, Mode::Write), Fate::Finish);
    // mdadm blocks what it reshapes, and goes on with it.
    assert_eq!(fate(State::Active, true, true, Mode::Write), Fate::Runs);
    // mdmon is about to let it be written.
    assert_eq!(fate(State::Readonly, true, false, Mode::Write), Fate::Runs);
    assert_eq!(
        fate(State::Readonly, false, true, Mode::Readonly),
        Fate::Runs
    );
    assert_eq!(
        fate(State::Inactive, false, false, Mode::Write),
        Fate::Start
    );
    assert_eq!(fate(State::Clear, false, false, Mode::Write), Fate::Start);
}

#[test]
fn a_stripe_that_was_left_readonly_is_finished_without_anybody_to_watch() {
    let images = set("r0");
    let fate = |state, mode| {
        let existing = existing(&images, false, &[(0, state)]);
        let scene = Scene {
            existing: Some(&existing),
            mode,
            ..usual()
        };
        decided(&images, &scene).fates[0].clone()
    };
    assert_eq!(fate(State::Readonly, Mode::Write), Fate::Finish);
    assert_eq!(fate(State::Readonly, Mode::Readonly), Fate::Runs);
    assert_eq!(fate(State::Active, Mode::Write), Fate::Runs);
}

#[test]
fn a_half_started_volume_still_waits_for_its_disk() {
    let half = without("r1", "D1");
    let existing = existing(&half, false, &[(0, State::Inactive)]);
    let scene = Scene {
        existing: Some(&existing),
        ..usual()
    };
    assert!(matches!(outcome(&half, &scene), Outcome::Waits(_)));
}

#[test]
fn b14_a_late_disk_is_not_put_into_a_container_that_mdmon_runs() {
    let images = set("r5");
    let there = existing(&without("r5", "D2"), true, &[]);
    let scene = Scene {
        existing: Some(&there),
        ..usual()
    };
    let decision = decided(&images, &scene);
    assert!(is_not(&decision.fates[0], "/dev/D2"), "{decision:?}");
    assert!(matches!(decision.outcome, Outcome::Left(_)));
    // Nobody runs this one: there it can be bound.
    let unwatched = existing(&without("r5", "D2"), false, &[]);
    let scene = Scene {
        existing: Some(&unwatched),
        ..usual()
    };
    assert_eq!(decided(&images, &scene).fates, [Fate::Start]);
}

#[test]
fn b14_nor_where_mdmon_is_about_to() {
    let mut images = set("matrix");
    images.retain(|image| image.serial != "D3");
    let redundant = found(&images, |found| {
        let plans: Vec<Plan<'_>> = found.containers().next().unwrap().plans().collect();
        let index = |plan: &Plan<'_>| plan.geometry.level.number() == 5;
        plans.into_iter().find(index).unwrap().index
    });
    let two = without("matrix", "D2");
    let two: Vec<Image> = two
        .into_iter()
        .filter(|image| image.serial != "D3")
        .collect();
    let there = existing(&two, false, &[(redundant, State::Readonly)]);
    let scene = Scene {
        existing: Some(&there),
        ..usual()
    };
    let decision = decided(&images, &scene);
    assert_eq!(decision.fates[usize::from(redundant)], Fate::Finish);
    assert!(
        decision.fates.iter().any(|fate| is_not(fate, "/dev/D2")),
        "{decision:?}"
    );
}

#[test]
fn b11_what_is_unsupported_is_mdadms_by_name() {
    let decision = decided(&set("gen-migration"), &usual());
    assert!(matches!(&decision.outcome, Outcome::Mdadm(why) if why.contains("reshape")));
    assert!(is_not(&decision.fates[0], "reshape"));
}

#[test]
fn a_header_that_is_wrong_makes_the_container_mdadms() {
    let bad = [(0, "nvme0n1: PPL header: checksum is 0".to_owned())];
    let scene = Scene {
        bad_headers: &bad,
        ..usual()
    };
    let decision = decided(&set("r5ppl"), &scene);
    assert!(matches!(&decision.outcome, Outcome::Mdadm(why) if why.contains("PPL header")));
    assert_eq!(outcome(&set("r5ppl"), &usual()), Outcome::Goes);
}

#[test]
fn b19_a_volume_with_ppl_is_not_started_readonly() {
    let scene = Scene {
        mode: Mode::Readonly,
        ..usual()
    };
    let decision = decided(&set("r5ppl"), &scene);
    assert!(is_not(&decision.fates[0], "PPL"));
    assert_eq!(decided(&set("r5"), &scene).fates, [Fate::Start]);
}

/// Two volumes; of the first something is changed on every disk.
fn matrix(edit: impl Fn(&mut Image)) -> Vec<Image> {
    let mut images = set("matrix");
    images.retain(|image| image.serial != "D3");
    for image in &mut images {
        edit(image);
        image.seal();
    }
    images
}

#[test]
fn what_is_unsafe_keeps_the_rest_of_its_container_from_mdadm() {
    let cached = |image: &mut Image| {
        let at = image.volume(0) + offset_of!(ondisk::Volume, nv_cache_mode);
        image.put(at, &[1]);
    };
    let failed = |image: &mut Image| {
        let at = image.map(1, 0) + offset_of!(ondisk::Map, map_state);
        image.put(at, &[3]);
    };
    let decision = decided(&matrix(cached), &usual());
    assert!(matches!(decision.outcome, Outcome::Mdadm(_)));
    assert_eq!(decision.fates[1], Fate::LeftToo);
    let decision = decided(&matrix(failed), &usual());
    assert_eq!(decision.outcome, Outcome::Goes);
    assert_eq!(decision.fates[0], Fate::Start);
    assert!(is_not(&decision.fates[1], "failed"));
    let both = |image: &mut Image| {
        cached(image);
        failed(image);
    };
    let decision = decided(&matrix(both), &usual());
    assert!(matches!(&decision.outcome, Outcome::Unsafe(why) if why.contains("not left to mdadm")));
    assert!(
        decision
            .fates
            .iter()
            .all(|fate| matches!(fate, Fate::Not(_)))
    );
}

#[test]
fn b08_copies_that_contradict_each_other_are_nobodys() {
    let mut images = set("r1");
    images[0]
        .put(offset_of!(ondisk::Super, pwr_cycle_count), &[9])
        .seal();
    let decision = decided(&images, &usual());
    let Outcome::Unsafe(why) = &decision.outcome else {
        panic!("{decision:?}");
    };
    assert!(why.contains("/dev/D0") && why.contains("/dev/D1"), "{why}");
    assert!(matches!(decision.fates[0], Fate::Not(_)));
}

#[test]
fn an_ignored_volume_is_left_and_the_other_started() {
    let scene = Scene {
        ignored: &[1],
        ..usual()
    };
    let decision = decided(&matrix(|_| ()), &scene);
    assert_eq!(decision.fates[0], Fate::Start);
    assert!(matches!(decision.fates[1], Fate::Left(_)));
    assert_eq!(decision.outcome, Outcome::Goes);
}
