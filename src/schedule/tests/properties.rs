//! What holds for every list of jobs.

use proptest::prelude::*;

use super::*;

fn class() -> impl Strategy<Value = Class> {
    prop::sample::select(&Class::ALL[..])
}

fn limits() -> impl Strategy<Value = Limits> {
    (0..12_usize, prop::array::uniform5(0..6_usize))
        .prop_map(|(total, width)| Limits { total, width })
}

/// Items whose successors come after them: no cycles.
fn acyclic(max: usize) -> impl Strategy<Value = Vec<Item>> {
    prop::collection::vec((0..20_u32, class(), prop::option::of(1..9_u32)), 0..max).prop_map(
        |items| {
            (0..)
                .zip(items)
                .map(|(i, (predicted_ms, class, ahead))| Item {
                    predicted_ms,
                    class,
                    before: ahead.map(|n| i + n),
                })
                .collect()
        },
    )
}

/// Items with any successors at all: cycles, themselves, strangers.
fn tangled(max: u32) -> impl Strategy<Value = Vec<Item>> {
    let item = (0..20_u32, class(), prop::option::of(0..max + 2)).prop_map(
        |(predicted_ms, class, before)| Item {
            predicted_ms,
            class,
            before,
        },
    );
    prop::collection::vec(item, 0..max as usize)
}

/// Whether following `before` from this item comes back to it.
fn on_a_cycle(items: &[Item], start: usize) -> bool {
    let mut at = start;
    for _ in 0..items.len() {
        match items[at]
            .before
            .map(|to| to as usize)
            .filter(|to| *to < items.len())
        {
            Some(to) if to == start => return true,
            Some(to) => at = to,
            None => return false,
        }
    }
    false
}

proptest! {
    #[test]
    fn no_limit_is_passed_and_nothing_is_dropped(items in acyclic(60), limits in limits()) {
        simulate(&mut Schedule::<64>::new(), &items, limits);
    }

    #[test]
    fn only_the_edges_of_cycles_are_cut(mut items in tangled(24), limits in limits()) {
        let mut schedule = Schedule::<64>::new();
        schedule.load(&items, limits);
        let cut: Vec<_> = (0..items.len()).filter(|i| on_a_cycle(&items, *i)).collect();
        for i in cut {
            items[i].before = None;
        }
        for (i, item) in items.iter().enumerate() {
            let kept = item.before.filter(|to| (*to as usize) < items.len());
            prop_assert_eq!(kept.map_or(NONE, |to| u16::try_from(to).unwrap()), schedule.slots[i].before);
        }
        simulate(&mut schedule, &items, limits);
    }

    #[test]
    fn at_every_start_nothing_longer_could_have_been_started(items in acyclic(40), limits in limits()) {
        let mut schedule = Schedule::<64>::new();
        let total = limits.total.max(1);
        schedule.load(&items, limits);
        let (mut started, mut done) = (vec![false; items.len()], vec![false; items.len()]);
        let mut running = Vec::new();
        loop {
            // The same rule, found by looking at everything.
            let best = (0..items.len())
                .filter(|i| {
                    let class = items[*i].class;
                    let taken = running.iter().filter(|r: &&u32| items[**r as usize].class == class).count();
                    let free = (0..items.len()).all(|p| done[p] || items[p].before != Some(u32::try_from(*i).unwrap()));
                    !started[*i] && free && taken < limits.width[class.index()].max(1) && running.len() < total
                })
                .min_by_key(|i| (Reverse(items[*i].predicted_ms), *i));
            let next = schedule.next();
            prop_assert_eq!(next, best.map(|i| u32::try_from(i).unwrap()));
            match next {
                Some(i) => {
                    started[i as usize] = true;
                    running.push(i);
                }
                None if running.is_empty() => break,
                None => {
                    let i = running.swap_remove(running.len() / 2);
                    done[i as usize] = true;
                    schedule.finish(i);
                }
            }
        }
        prop_assert!(done.iter().all(|done| *done));
    }

    #[test]
    fn any_calls_in_any_order_keep_the_counts_right(
        items in tangled(16), limits in limits(), calls in prop::collection::vec((0..6, 0..20_u32), 0..80)
    ) {
        let mut schedule = Schedule::<16>::new();
        schedule.load(&items, limits);
        let mut handed_out = BTreeSet::new();
        for (call, i) in calls {
            match call {
                0 => schedule.finish(i),
                1 => schedule.abandon(i),
                2 => schedule.skip(i),
                _ => if let Some(i) = schedule.next() {
                    prop_assert!(handed_out.insert(i));
                }
            }
            let slots = &schedule.slots[..items.len()];
            let count = |status| slots.iter().filter(|slot| slot.status == status).count();
            let stranded: Vec<u32> = schedule.stranded().collect();
            prop_assert_eq!(schedule.running(), count(Status::Running));
            prop_assert_eq!(schedule.abandoned(), count(Status::Abandoned));
            prop_assert_eq!(schedule.waiting(), count(Status::Waiting) - stranded.len());
            prop_assert!(schedule.running() <= limits.total.max(1));
            // Stranded is what can be reached from an abandoned one over items that wait.
            let mut expected = BTreeSet::new();
            for slot in slots.iter().filter(|slot| slot.status == Status::Abandoned) {
                let mut at = usize::from(slot.before);
                while let Some(slot) = slots.get(at).filter(|slot| slot.is_waiting()) {
                    expected.insert(u32::try_from(at).unwrap());
                    at = usize::from(slot.before);
                }
            }
            prop_assert_eq!(stranded, expected.into_iter().collect::<Vec<_>>());
            for i in 0..20 {
                // What it says about giving a place away, when nothing else can start, is what happens.
                if schedule.find(i).is_some_and(|(_, slot)| slot.status == Status::Running) {
                    let mut copy = schedule.clone();
                    while copy.next().is_some() {}
                    let says = copy.blocks_others(i);
                    copy.abandon(i);
                    prop_assert_eq!(copy.next().is_some(), says);
                } else {
                    prop_assert!(!schedule.blocks_others(i));
                }
            }
        }
        // Whatever was done, the rest can be done.
        loop {
            while let Some(i) = schedule.next() {
                prop_assert!(handed_out.insert(i));
            }
            match (0..items.len()).find(|i| matches!(schedule.slots[*i].status, Status::Running | Status::Abandoned)) {
                Some(i) => schedule.finish(u32::try_from(i).unwrap()),
                None => break,
            }
        }
        prop_assert_eq!((schedule.waiting(), schedule.running(), schedule.abandoned()), (0, 0, 0));
        prop_assert_eq!(schedule.stranded().count(), 0);
    }

    #[test]
    fn small_plans_end_within_the_lpt_bound_of_the_best(
        times in prop::collection::vec(1..30_u32, 0..=8), m in 1..=4_usize
    ) {
        let items = plain(&times);
        let mut schedule = Schedule::<8>::new();
        let (took, _) = simulate(&mut schedule, &items, wide(m));
        let best = optimum(&times, &mut vec![0; m], u64::MAX);
        prop_assert!(took >= best && within_lpt(took, best, m), "{} against {}", took, best);
        let mut sorted = times;
        sorted.sort_unstable_by_key(|ms| Reverse(*ms));
        prop_assert!(lower_bound(&sorted, m) <= best);
        prop_assert_eq!(schedule.predict(&items, wide(m)).planned_ms, took);
    }
}
