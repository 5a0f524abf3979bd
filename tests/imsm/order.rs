//! B4: what is decided does not depend on the order in which disks are found.

use crate::sample::{Image, SETS, found, set};
use quell::imsm::Found;
use std::fmt::Write as _;

/// All that was decided, as text.
pub(crate) fn decided(found: Found<'_, '_>) -> String {
    let mut text = String::new();
    for container in found.containers() {
        let _ = writeln!(
            text,
            "container {} by {} refused {:?}",
            container.uuid(),
            container.winner().serial,
            container.refusal().map(|why| why.to_string())
        );
        for member in container.members() {
            let _ = writeln!(
                text,
                " {} {} {:?}",
                member.name,
                member.serial,
                container.standing(member)
            );
        }
        for disk in container.missing() {
            let _ = writeln!(text, " missing {}", disk.serial);
        }
        for plan in container.plans() {
            let _ = writeln!(text, " {plan:?}");
        }
    }
    for spare in found.spares() {
        let _ = writeln!(text, "spare {}", spare.name);
    }
    text
}

/// Every order of `items` (Heap's algorithm).
pub(crate) fn permutations(items: &mut Vec<Image>, n: usize, each: &mut impl FnMut(&[Image])) {
    if n <= 1 {
        return each(items);
    }
    for i in 0..n {
        permutations(items, n - 1, each);
        items.swap(if n.is_multiple_of(2) { i } else { 0 }, n - 1);
    }
}

#[test]
fn every_order_of_every_set_gives_the_same() {
    for (name, ..) in SETS {
        let mut images = set(name);
        let want = found(&images, decided);
        let n = images.len();
        let mut seen = 0;
        permutations(&mut images, n, &mut |images| {
            seen += 1;
            assert_eq!(found(images, decided), want, "{name}");
        });
        let orders: usize = (1..=n).product();
        assert_eq!(seen, orders);
    }
}

/// Disks of several containers at once, one of them missing.
#[test]
fn every_order_of_a_mixture_gives_the_same() {
    let mut images: Vec<Image> = ["r1", "r0", "matrix"]
        .iter()
        .flat_map(|name| {
            let tag = move |mut image: Image| {
                image.name = format!("/dev/{name}-{}", image.serial);
                image
            };
            set(name).into_iter().map(tag)
        })
        .collect();
    images.remove(0);
    images.truncate(6);
    let want = found(&images, decided);
    let n = images.len();
    permutations(&mut images, n, &mut |images| {
        assert_eq!(found(images, decided), want);
    });
}
