//! What two assemblies of the same disks came to, side by side.

use super::dump::Values;
use super::table::State;
use regex_lite::Regex;

/// What may differ: the keys as an expression, the one state it is for if it is for one, and why.
const MAY_DIFFER: &[(&str, Option<State>, &str)] = &[
    ("/md/sync_speed$", None, "a measurement, not a setting"),
    (
        "^spares/",
        None,
        "mdadm puts free spares of whatever origin into a container of their own; quell leaves them alone",
    ),
    (
        "^container/(md/dev-D1/|export/MD_DEVICE)",
        Some(State::Stale),
        "mdadm binds a disk that has failed to its old container, where nothing uses it; quell leaves it out",
    ),
];

/// Where a resync or rebuild is. It cannot be held at its very start: what md asks for before it looks at the limit depends on
/// how quick the disks are.
const POSITIONS: &str = "/md/(sync_completed|resync_start|dev-[^/]+/recovery_start)$";
/// The sectors a position may be further on: more than is ever under way, less than the quarter that each is past.
const WINDOW: u64 = 6144;

/// What a read-only assembly sets just as any other.
const GEOMETRY: &str = "/md/(level|layout|raid_disks|chunk_size|component_size|array_size|degraded|dev-[^/]+/(offset|size|slot|recovery_start))$";

/// Each difference of a read-only assembly in what it sets.
pub(super) fn geometry(state: State, judge: &Values, held: &Values) -> Vec<String> {
    let only = |values: &Values| -> Values {
        let mut values = values.clone();
        values.retain(|key, _| key.starts_with("volume") && is(GEOMETRY, key));
        values
    };
    differences(state, &only(judge), &only(held))
}

/// Each difference as one line, with both values.
pub(super) fn differences(state: State, judge: &Values, found: &Values) -> Vec<String> {
    let mut keys: Vec<&String> = judge.keys().chain(found.keys()).collect();
    keys.sort();
    keys.dedup();
    // Where only one side has spares only one knows numbers that can be compared.
    let numbers = |key: &str| key != "numbers" || judge.get(key).and(found.get(key)).is_some();
    let show = |value: Option<&String>| value.map_or("not there".to_owned(), |v| format!("{v:?}"));
    keys.into_iter()
        .filter(|key| judge.get(*key) != found.get(*key) && !may_differ(state, key))
        .filter(|key| numbers(key))
        .filter(|key| {
            !(is(POSITIONS, key) && judge.get(*key).zip(found.get(*key)).is_some_and(is_near))
        })
        .map(|key| {
            format!(
                "{key}: mdadm {}, quell {}",
                show(judge.get(key)),
                show(found.get(key))
            )
        })
        .collect()
}

fn may_differ(state: State, key: &str) -> bool {
    MAY_DIFFER
        .iter()
        .any(|(pattern, only, _)| only.is_none_or(|only| only == state) && is(pattern, key))
}

fn is(pattern: &str, key: &str) -> bool {
    Regex::new(pattern).is_ok_and(|regex| regex.is_match(key))
}

/// Whether two positions, such as `28672 / 49152`, differ only by what went on since.
fn is_near((one, other): (&String, &String)) -> bool {
    let parts = |text: &str| {
        let (at, of) = text.split_once(' ').unwrap_or((text, ""));
        Some((at.parse::<u64>().ok()?, of.to_owned()))
    };
    match (parts(one), parts(other)) {
        (Some((one, all)), Some((other, same))) => one.abs_diff(other) <= WINDOW && all == same,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::Result;

    fn values(pairs: &[(&str, &str)]) -> Values {
        pairs
            .iter()
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
            .collect()
    }

    #[test]
    fn a_planted_difference_is_found_with_both_values() {
        let judge = values(&[
            ("volume 0/md/level", "raid5"),
            ("volume 0/md/chunk_size", "65536"),
        ]);
        assert!(differences(State::Clean, &judge, &judge).is_empty());
        let mut found = judge.clone();
        found.insert("volume 0/md/level".to_owned(), "raid4".to_owned());
        assert_eq!(
            differences(State::Clean, &judge, &found),
            ["volume 0/md/level: mdadm \"raid5\", quell \"raid4\""]
        );
        found.remove("volume 0/md/level");
        assert_eq!(
            differences(State::Clean, &judge, &found),
            ["volume 0/md/level: mdadm \"raid5\", quell not there"]
        );
    }

    #[test]
    fn numbers_count_where_both_sides_have_them() {
        let one = values(&[("numbers", "md127 container, md126 volume 1")]);
        let other = values(&[("numbers", "md127 container, md125 volume 1")]);
        assert_eq!(differences(State::Clean, &one, &other).len(), 1);
        assert!(differences(State::Clean, &Values::new(), &one).is_empty());
    }

    #[test]
    fn a_position_may_have_moved_on_but_not_be_lost() {
        let at = |position: &str| values(&[("volume 0/md/sync_completed", position)]);
        let none = |one, other| differences(State::Clean, &at(one), &at(other)).is_empty();
        assert!(none("28672 / 49152", "31872 / 49152"));
        assert!(!none("28672 / 49152", "31872 / 98304"));
        assert!(!none("12288 / 49152", "0 / 49152"));
        assert!(!none("28672 / 49152", "none"));
    }

    #[test]
    fn what_may_differ_is_left_out() -> Result<()> {
        let judge = values(&[("volume 0/md/sync_speed", "1")]);
        let found = values(&[("volume 0/md/sync_speed", "2")]);
        assert!(differences(State::Clean, &judge, &found).is_empty());
        let away = values(&[("container/md/dev-D1/size", "5201")]);
        assert!(differences(State::Stale, &away, &Values::new()).is_empty());
        assert!(!differences(State::Clean, &away, &Values::new()).is_empty());
        for (pattern, ..) in MAY_DIFFER {
            Regex::new(pattern)?;
        }
        Ok(())
    }
}
