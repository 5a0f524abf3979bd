//! How a command line falls into words: as the kernel's own parser has it, whatever stands there.

use proptest::prelude::*;

use super::*;

#[test]
fn words_are_cut_as_the_kernel_cuts_them() {
    let pair = |param: &str, value: &str| (param.to_owned(), Some(value.to_owned()));
    let bare = |param: &str| (param.to_owned(), None);
    for (line, expected) in [
        (
            "a b=c\td=\n e",
            vec![bare("a"), pair("b", "c"), pair("d", ""), bare("e")],
        ),
        ("a=\"b c\" d", vec![pair("a", "b c"), bare("d")]),
        ("\"a=b c\" d", vec![pair("a", "b c"), bare("d")]),
        ("\"a b\"", vec![bare("a b")]),
        ("a=b\"c d\"e f", vec![pair("a", "b\"c d\"e"), bare("f")]),
        ("a=b=c", vec![pair("a", "b=c")]),
        ("=a=b", vec![pair("=a", "b")]),
        ("a=\"", vec![pair("a", "")]),
        ("a=\"b c", vec![pair("a", "b c")]),
        ("\"", vec![bare("")]),
        ("\"a=\"b\"", vec![pair("a", "b")]),
        ("a -- b", vec![bare("a")]),
        ("a \"--\" b", vec![bare("a")]),
        ("a --b --=c", vec![bare("a"), bare("--b"), pair("--", "c")]),
        ("a\0b", vec![bare("a")]),
        ("a\x0bb\x0cc", vec![bare("a"), bare("b"), bare("c")]),
    ] {
        assert_eq!(words(line), expected, "{line:?}");
    }
    assert_eq!(Words::new(b"a\xa0b").count(), 2);
    assert_eq!(
        clean("\"quell.jobs=4\" quell.log=\"warn\"", Stage::Person).jobs,
        Jobs::N(4)
    );
    assert_eq!(
        clean("quell.jobs=4 -- quell.jobs=5 quell.nonsense", Stage::Person).jobs,
        Jobs::N(4)
    );
}

#[test]
fn long_lines_are_read_to_the_end() {
    let line = "quell.jobs=3 ".repeat(20_000) + &"x".repeat(100_000) + " quell.jobs=9";
    assert_eq!(clean(&line, Stage::Person).jobs, Jobs::N(9));
}

/// `next_arg` of `lib/cmdline.c`, carried over to bytes as literally as can be, to compare with.
fn next_arg(args: &mut [u8]) -> Option<(Vec<u8>, Option<Vec<u8>>, usize)> {
    let at = |args: &[u8], i: usize| args.get(i).copied().unwrap_or(0);
    let skipped = args.iter().take_while(|b| is_space(**b)).count();
    let (mut base, mut i, mut equals) = (skipped, 0, 0);
    let (mut in_quote, mut quoted) = (false, false);
    if at(args, base) == 0 {
        return None;
    }
    if at(args, base) == b'"' {
        base += 1;
        in_quote = true;
        quoted = true;
    }
    while at(args, base + i) != 0 {
        let b = at(args, base + i);
        if is_space(b) && !in_quote {
            break;
        }
        if equals == 0 && b == b'=' {
            equals = i;
        }
        if b == b'"' {
            in_quote = !in_quote;
        }
        i += 1;
    }
    let next = (base + i + usize::from(at(args, base + i) != 0)).min(args.len());
    if base + i < args.len() {
        args[base + i] = 0;
    }
    let mut val = None;
    if equals != 0 {
        args[base + equals] = 0;
        let mut v = base + equals + 1;
        if at(args, v) == b'"' {
            v += 1;
            if at(args, base + i - 1) == b'"' {
                args[base + i - 1] = 0;
            }
        }
        val = Some(v);
    }
    if quoted && i > 0 && at(args, base + i - 1) == b'"' {
        args[base + i - 1] = 0;
    }
    let text = |from: usize| {
        args.iter()
            .skip(from)
            .take_while(|b| **b != 0)
            .copied()
            .collect::<Vec<u8>>()
    };
    Some((text(base), val.map(text), next))
}

fn is_space(b: u8) -> bool {
    matches!(b, 9..=13 | 32 | 160)
}

proptest! {
    #[test]
    fn no_bytes_make_it_panic(line: Vec<u8>) {
        for stage in Stage::ALL {
            let _ = read(&line, stage);
            let _ = Foreign::from_cmdline(&line, stage);
        }
    }

    #[test]
    fn no_line_of_quells_own_words_makes_it_panic(line in "((rd\\.)?quell\\.(jobs|width|log|degraded|.{0,9})=?\\PC{0,9}[ \"=,:-]{0,3}){0,9}") {
        for stage in Stage::ALL {
            let (options, warnings) = read(line.as_bytes(), stage);
            prop_assert!(warnings.iter().all(|w| w.len() < 400 && !w.contains('\n')));
            prop_assert!(Class::ALL.into_iter().all(|class| (1..=1_024).contains(&options.width_of(class))));
            prop_assert!((1..=SECONDS_MAX).contains(&options.timeout_s(stage)));
            prop_assert!((1..=1_024).contains(&options.jobs_total(5_000)));
        }
    }

    #[test]
    fn words_are_the_kernels(line in "[ab=\" \\-\u{b}\u{a0}]{0,24}") {
        let mut rest = line.clone().into_bytes();
        let mut expected = Vec::new();
        while let Some((param, value, next)) = next_arg(&mut rest) {
            if value.is_none() && param == b"--" {
                break;
            }
            expected.push((param, value));
            rest.drain(..next);
        }
        let found: Vec<_> =
            Words::new(line.as_bytes()).map(|(p, v)| (p.to_vec(), v.map(<[u8]>::to_vec))).collect();
        prop_assert_eq!(found, expected, "{:?}", line);
    }

    #[test]
    fn the_last_of_the_preferred_wins(
        words in prop::collection::vec((any::<bool>(), prop::option::of(1..=1_024_u16)), 0..12)
    ) {
        let line: String = words
            .iter()
            .map(|(rd, n)| {
                format!(" {}quell.jobs={}", if *rd { "rd." } else { "" }, n.map_or("x".into(), |n| n.to_string()))
            })
            .collect();
        for stage in Stage::ALL {
            let rd = matches!(stage, Stage::Initrd | Stage::Exitrd);
            let last = |which: bool| words.iter().rev().find(|(rd, _)| *rd == which);
            let winner = if rd { last(true).or(last(false)) } else { last(false) };
            let expected = winner.and_then(|(_, n)| *n).map_or(Jobs::Auto, Jobs::N);
            let (options, warnings) = read(line.as_bytes(), stage);
            prop_assert_eq!(options.jobs, expected);
            prop_assert_eq!(warnings.len(), words.iter().filter(|(r, n)| n.is_none() && (rd || !r)).count());
        }
    }
}
