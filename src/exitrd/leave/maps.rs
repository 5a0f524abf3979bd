//! Ends loop devices and device-mapper maps, so that LUKS and LVM let go of the disks.

use log::warn;

use super::{Chore, LINGER_MS, Leaving, PAUSE, What};
use crate::errno::Cause;
use crate::path;
use crate::sys::{Root, disks, unmap};
use crate::teardown;
use crate::text::{Printable, Text};

/// A block device in words: `dm-0 (vg-root)`.
pub(super) type Called = Text<160>;

impl Leaving<'_> {
    /// Ends those that nothing stands on first. Where no more goes arrays may be between them: if they may, these are stopped
    /// then, and it goes on.
    pub(super) fn unmap(&mut self, may_stop_arrays: bool) {
        let mut end = self.context.deadline.within_ms(LINGER_MS);
        let mut may_stop_arrays = may_stop_arrays;
        loop {
            self.list_loops();
            let mut any = self.some_went();
            let maps = self.list_maps();
            any |= self.some_went();
            match () {
                () if !maps => return,
                () if self.context.deadline.is_over() => break,
                () if any => {}
                () if !end.is_over() => std::thread::sleep(PAUSE),
                () if !may_stop_arrays => break,
                () => {
                    may_stop_arrays = false;
                    let _ = teardown::step(self.context);
                    end = self.context.deadline.within_ms(LINGER_MS);
                }
            }
        }
        self.say_left();
    }

    pub(super) fn list_loops(&mut self) {
        let (root, chores) = (self.context.root, &mut self.chores);
        chores.clear();
        let _ = root.entries("/sys/block", |entry| {
            let name = Printable(entry).to_text();
            if entry.starts_with(b"loop") && unmap::has_file(root, name.as_str()) {
                let _ = chores.push(Chore::new(What::ClearLoop, name));
            }
            true
        });
    }

    /// Lists the maps that nothing stands on. True: there is one, that or another.
    fn list_maps(&mut self) -> bool {
        let (root, chores) = (self.context.root, &mut self.chores);
        chores.clear();
        let mut any = false;
        each(root, &mut |name| {
            any = true;
            if !disks::is_held(root, name.as_str()) {
                let _ = chores.push(Chore::new(What::RemoveMap, path!("{name}")));
            }
        });
        any
    }

    /// Names the maps that are left, and what keeps each.
    fn say_left(&self) {
        let root = self.context.root;
        each(root, &mut |name| {
            let map = called(root, name.as_str());
            let tried = self.chores.iter().find(|c| c.of.as_str() == name.as_str());
            match (first_holder(root, name.as_str()), tried) {
                (Some(holder), _) => warn!(
                    "{map} stays: {} stands on it",
                    called(root, holder.as_str())
                ),
                (
                    None,
                    Some(Chore {
                        result: Err(errno), ..
                    }),
                ) => {
                    warn!("{map} cannot be removed: {}", Cause(*errno));
                }
                (None, _) => warn!("{map} stays: there is no time left for it"),
            }
        });
    }
}

fn each(root: &Root, each: &mut dyn FnMut(&disks::Name)) {
    let _ = root.entries("/sys/block", |entry| {
        if entry.starts_with(b"dm-") {
            each(&Printable(entry).to_text());
        }
        true
    });
}

fn first_holder(root: &Root, name: &str) -> Option<disks::Name> {
    let mut first = None;
    let _ = disks::holders(root, name, &mut |holder| {
        first.get_or_insert_with(|| holder.clone());
    });
    first
}

/// What the kernel calls a block device, and what people call it if it is a map.
pub(super) fn called(root: &Root, name: &str) -> Called {
    let mut buf = [0; 128];
    match root.read(path!("/sys/class/block/{name}/dm/name").as_str(), &mut buf) {
        Ok(map) => Text::of(format_args!("{name} ({})", Printable(map))),
        Err(_) => Text::of(format_args!("{name}")),
    }
}
