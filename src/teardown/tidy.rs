//! Takes away what named arrays that are gone: lines of mdadm's map, and links where no udev does it.

use crate::deadline::Deadline;
use crate::sys::md::{self, map};
use crate::sys::{Root, md::links};

/// So long the map may be somebody else's, in milliseconds.
const LOCK_MS: u64 = 2000;
/// Names of one order.
const NAMES: usize = 64;

/// Tidies up after the arrays called `names`. What cannot be done is left: a stale line misleads nobody, since mdadm looks
/// whether the array is there.
pub(super) fn tidy<'a>(root: &Root, names: impl Iterator<Item = &'a str>, deadline: Deadline) {
    let mut gone: heapless::Vec<&str, NAMES> = heapless::Vec::new();
    // Another array may have the name by now.
    for name in names.filter(|name| !md::exists(root, name)) {
        let _ = gone.push(name);
    }
    if !links::udev_runs(root) {
        for name in &gone {
            let _ = links::remove(root, name);
        }
    }
    let mut listed = false;
    let _ = map::read(root, &mut |entry| {
        listed |= gone.contains(&entry.name.as_str());
    });
    if listed && let Ok(lock) = map::lock(root, deadline.within_ms(LOCK_MS)) {
        let _ = lock.replace(root, &mut |entry| !gone.contains(&entry.name.as_str()), &[]);
    }
}
