#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap};

use super::*;

mod properties;

/// One class, no precedence.
fn plain(times: &[u32]) -> Vec<Item> {
    times
        .iter()
        .map(|ms| Item {
            predicted_ms: *ms,
            class: Class::Nvme,
            before: None,
        })
        .collect()
}

/// `width` workers, and no class narrower than that.
fn wide(width: usize) -> Limits {
    Limits {
        total: width,
        width: [width; Class::COUNT],
    }
}

/// Carries a plan out on a simulated clock; checks on the way that no limit is passed, that predecessors end first, and
/// at the end that every item was handed out once. Returns the time it took and the order of starts.
fn simulate<const N: usize>(
    schedule: &mut Schedule<N>,
    items: &[Item],
    limits: Limits,
) -> (u64, Vec<u32>) {
    assert_eq!(schedule.load(items, limits), items.len());
    let mut running = BinaryHeap::new();
    let mut running_of = [0; Class::COUNT];
    let (mut started, mut done) = (vec![false; items.len()], vec![false; items.len()]);
    let mut starts = Vec::new();
    let mut pending = vec![0; items.len()];
    for item in items {
        if let Some(pending) = item.before.and_then(|to| pending.get_mut(to as usize)) {
            *pending += 1;
        }
    }
    let mut now = 0;
    loop {
        while let Some(i) = schedule.next() {
            let at = i as usize;
            let class = items[at].class.index();
            assert!(!started[at], "{i} is started twice");
            assert_eq!(
                pending[at], 0,
                "{i} is started before its predecessors have ended"
            );
            started[at] = true;
            starts.push(i);
            running_of[class] += 1;
            running.push(Reverse((now + u64::from(items[at].predicted_ms), i)));
            assert!(running.len() <= limits.total.max(1));
            assert!(running_of[class] <= limits.width[class].max(1));
            assert_eq!(schedule.running(), running.len());
        }
        assert_eq!(schedule.waiting(), items.len() - starts.len());
        let Some(Reverse((end, i))) = running.pop() else {
            break;
        };
        now = end;
        let at = i as usize;
        running_of[items[at].class.index()] -= 1;
        done[at] = true;
        if let Some(pending) = items[at].before.and_then(|to| pending.get_mut(to as usize)) {
            *pending -= 1;
        }
        schedule.finish(i);
    }
    assert!(done.iter().all(|done| *done), "something was dropped");
    assert_eq!(
        (schedule.waiting(), schedule.running(), schedule.abandoned()),
        (0, 0, 0)
    );
    (now, starts)
}

/// The best makespan there is, by trying: each job on each worker, equal loads once.
fn optimum(times: &[u32], loads: &mut [u64], best: u64) -> u64 {
    let Some((first, rest)) = times.split_first() else {
        return loads.iter().copied().max().unwrap_or(0).min(best);
    };
    let mut best = best;
    let mut tried = BTreeSet::new();
    for at in 0..loads.len() {
        if tried.insert(loads[at]) && loads[at] + u64::from(*first) < best {
            loads[at] += u64::from(*first);
            best = optimum(rest, loads, best);
            loads[at] -= u64::from(*first);
        }
    }
    best
}

/// Below this no schedule of these times (longest first) on `m` workers can end: of the first km + 1 jobs, some worker
/// has k + 1, no shorter than the last k + 1 of them together.
fn lower_bound(sorted: &[u32], m: usize) -> u64 {
    let sum: u64 = sorted.iter().map(|ms| u64::from(*ms)).sum();
    let packed = (0..)
        .map_while(|k| sorted.get(k * m - k..=k * m))
        .map(|last| last.iter().map(|ms| u64::from(*ms)).sum());
    packed.max().unwrap_or(0).max(sum.div_ceil(m as u64))
}

/// Whether `took` is within 4/3 - 1/(3m) of `best`.
fn within_lpt(took: u64, best: u64, m: usize) -> bool {
    let m = m as u64;
    3 * m * took <= (4 * m - 1) * best
}

/// Times of 1 to 13 s that look like nothing in particular.
fn slow_drives(n: usize) -> Vec<u32> {
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let mut times = Vec::new();
    for _ in 0..n {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        times.push(1_000 + u32::try_from(state % 12_001).unwrap());
    }
    times
}

#[test]
fn the_longest_goes_first_and_ties_go_by_index() {
    let mut schedule = Schedule::<8>::new();
    let items = plain(&[3, 5, 1, 5, 4, 3]);
    let (_, starts) = simulate(&mut schedule, &items, wide(1));
    assert_eq!(starts, [1, 3, 4, 0, 5, 2]);
}

#[test]
fn an_empty_plan_is_at_its_end() {
    let mut schedule = Schedule::<4>::default();
    assert_eq!(schedule.next(), None);
    assert_eq!(schedule.load(&[], wide(4)), 0);
    assert_eq!(
        (schedule.next(), schedule.waiting(), schedule.running()),
        (None, 0, 0)
    );
    assert_eq!(schedule.predict(&[], wide(4)), Predicted::default());
}

#[test]
fn a_full_class_lets_the_others_by() {
    let item = |predicted_ms, class| Item {
        predicted_ms,
        class,
        before: None,
    };
    let items = [
        item(9, Class::NvmeTcp),
        item(8, Class::NvmeTcp),
        item(1, Class::Nvme),
        item(2, Class::Nvme),
    ];
    let mut schedule = Schedule::<4>::new();
    let mut limits = wide(3);
    limits.width[Class::NvmeTcp.index()] = 1;
    schedule.load(&items, limits);
    assert_eq!(
        [(); 4].map(|()| schedule.next()),
        [Some(0), Some(3), Some(2), None]
    );
    // The total is reached and the class is full: only another of its class, or nothing, would gain by 0's place.
    assert!(schedule.blocks_others(0));
    assert!(!schedule.blocks_others(3));
    schedule.finish(3);
    assert_eq!(schedule.next(), None);
    schedule.finish(0);
    assert_eq!(schedule.next(), Some(1));
    assert!(!schedule.blocks_others(1));
}

#[test]
fn no_limit_at_all_counts_as_one() {
    let mut schedule = Schedule::<4>::new();
    let limits = Limits {
        total: 0,
        width: [0; Class::COUNT],
    };
    assert_eq!(simulate(&mut schedule, &plain(&[1, 2, 3]), limits).0, 6);
}

#[test]
fn more_than_fit_are_told_and_predicted_as_further_passes() {
    let mut schedule = Schedule::<2>::new();
    let items = plain(&[5, 4, 3, 2, 1]);
    assert_eq!(schedule.load(&items, wide(8)), 2);
    let predicted = schedule.predict(&items, wide(8));
    assert_eq!(
        predicted,
        Predicted {
            serial_ms: 15,
            planned_ms: 5 + 3 + 1
        }
    );
    assert_eq!(Schedule::<0>::new().load(&items, wide(8)), 0);
}

#[test]
fn a_pf_waits_for_all_of_its_vfs() {
    let mut items = plain(&[9, 1, 2, 3]);
    for vf in &mut items[1..] {
        vf.before = Some(0);
    }
    let mut schedule = Schedule::<4>::new();
    let (took, starts) = simulate(&mut schedule, &items, wide(4));
    assert_eq!((took, starts), (12, vec![3, 2, 1, 0]));
}

#[test]
fn cycles_are_cut_and_what_leads_into_them_is_not() {
    let mut items = plain(&[1, 2, 3, 4, 5, 6]);
    // 0 -> 1 -> 2 -> 0 is a cycle, 3 -> 0 leads into it, 4 is its own successor, 5's is not loaded.
    for (item, before) in items.iter_mut().zip([1, 2, 0, 0, 4, 6]) {
        item.before = Some(before);
    }
    let mut schedule = Schedule::<6>::new();
    schedule.load(&items, wide(6));
    let mut first: Vec<_> = std::iter::from_fn(|| schedule.next()).collect();
    first.sort_unstable();
    assert_eq!(first, [1, 2, 3, 4, 5]);
    schedule.finish(3);
    assert_eq!(schedule.next(), Some(0));
}

#[test]
fn a_stuck_job_does_not_hold_up_the_others() {
    let mut schedule = Schedule::<8>::new();
    // jobs=1, and the first one never ends.
    schedule.load(&plain(&[9, 3, 2, 1]), wide(1));
    assert_eq!((schedule.next(), schedule.next()), (Some(0), None));
    assert!(schedule.blocks_others(0));
    schedule.abandon(0);
    schedule.abandon(0);
    for i in 1..4 {
        assert_eq!((schedule.next(), schedule.next()), (Some(i), None));
        schedule.finish(i);
    }
    assert_eq!(
        (schedule.waiting(), schedule.running(), schedule.abandoned()),
        (0, 0, 1)
    );
    assert_eq!(schedule.stranded().count(), 0);
    // It ends after all: no place comes free twice.
    schedule.finish(0);
    schedule.finish(0);
    assert_eq!(
        (schedule.waiting(), schedule.running(), schedule.abandoned()),
        (0, 0, 0)
    );
}

#[test]
fn what_waits_for_an_abandoned_one_is_stranded_until_it_ends() {
    let mut schedule = Schedule::<8>::new();
    let mut items = plain(&[9, 3, 2, 1]);
    items[0].before = Some(2);
    items[1].before = Some(2);
    items[2].before = Some(3);
    schedule.load(&items, wide(2));
    assert_eq!((schedule.next(), schedule.next()), (Some(0), Some(1)));
    // Nothing could start in its place.
    assert!(!schedule.blocks_others(0));
    assert_eq!(schedule.waiting(), 2);
    schedule.abandon(0);
    schedule.finish(1);
    assert_eq!(schedule.next(), None);
    assert_eq!((schedule.waiting(), schedule.running()), (0, 0));
    assert_eq!(schedule.stranded().collect::<Vec<_>>(), [2, 3]);
    schedule.finish(0);
    assert_eq!(schedule.stranded().count(), 0);
    assert_eq!((schedule.waiting(), schedule.next()), (2, Some(2)));
    schedule.finish(2);
    assert_eq!(schedule.next(), Some(3));
}

#[test]
fn what_is_skipped_is_not_started_and_holds_nothing_up() {
    let mut schedule = Schedule::<8>::new();
    let mut items = plain(&[5, 4, 3, 2, 1]);
    items[0].before = Some(4);
    items[4].before = Some(3);
    schedule.load(&items, wide(1));
    schedule.skip(1);
    assert_eq!((schedule.waiting(), schedule.next()), (4, Some(0)));
    // A running one cannot be skipped any more.
    schedule.skip(0);
    schedule.abandon(0);
    assert_eq!(schedule.stranded().collect::<Vec<_>>(), [3, 4]);
    // Without the one between them 3 waits for nobody.
    schedule.skip(4);
    assert_eq!((schedule.stranded().count(), schedule.waiting()), (0, 2));
    assert_eq!(schedule.next(), Some(2));
    schedule.finish(2);
    assert_eq!((schedule.next(), schedule.waiting()), (Some(3), 0));
    schedule.finish(99);
    schedule.skip(u32::MAX);
}

/// B30: the whole takes the time of the slowest, where no more are to be done than may be at once.
#[test]
fn drives_of_13_seconds_end_together() {
    let mut schedule = Schedule::<64>::new();
    let items = plain(&[13_000; 24]);
    assert_eq!(simulate(&mut schedule, &items, wide(64)).0, 13_000);
    let predicted = schedule.predict(&items, wide(64));
    assert_eq!(
        predicted,
        Predicted {
            serial_ms: 24 * 13_000,
            planned_ms: 13_000
        }
    );
}

#[test]
fn fabrics_cost_the_kernel_nothing() {
    let mut items = plain(&[3_000, 1_000]);
    items[1].class = Class::NvmeTcp;
    let predicted = Schedule::<4>::new().predict(&items, wide(1));
    assert_eq!(
        predicted,
        Predicted {
            serial_ms: 3_000,
            planned_ms: 4_000
        }
    );
}

/// Any width from 1 to 5,000 works: all of them where the code is optimised, else those around which something changes.
#[test]
fn five_thousand_drives_are_done_at_any_width() {
    let times = slow_drives(5_000);
    let items = plain(&times);
    let mut sorted = times;
    sorted.sort_unstable_by_key(|ms| Reverse(*ms));
    let step = if cfg!(debug_assertions) { 97 } else { 1 };
    let edges = (0..13)
        .flat_map(|k| [(1 << k) - 1, 1 << k, (1 << k) + 1])
        .chain([24, 40, 2_499, 2_500, 4_999, 5_000]);
    let widths: BTreeSet<usize> = (1..=5_000)
        .step_by(step)
        .chain(edges)
        .filter(|width| (1..=5_000).contains(width))
        .collect();
    let mut schedule = Box::new(Schedule::<8_192>::new());
    let mut shortest = u64::MAX;
    for width in widths {
        let (took, _) = simulate(&mut *schedule, &items, wide(width));
        let best = lower_bound(&sorted, width);
        assert!(
            took >= best && within_lpt(took, best, width),
            "width {width}: {took} ms, bound {best} ms"
        );
        if width <= PREDICT_WIDTH_MAX && width % 64 == 0 {
            assert_eq!(schedule.predict(&items, wide(width)).planned_ms, took);
        }
        shortest = shortest.min(took);
    }
    assert_eq!(shortest, u64::from(sorted[0]));
}
