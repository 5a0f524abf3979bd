//! What arrays are called in /dev/md: as mdadm would call them.

use core::fmt;

use crate::imsm::Uuid;
use crate::imsm::names::LinkName;
use crate::sys::Root;
use crate::sys::md::links::Names;
use crate::sys::md::map;
use crate::text::Text;

/// Gives names, each once.
pub(super) struct Namer {
    taken: Vec<String>,
}

impl Namer {
    /// Knows the names that are taken.
    pub(super) fn new(root: &Root) -> Self {
        let mut taken = Vec::new();
        // No map: none is taken.
        let _ = map::read(root, &mut |entry| {
            taken.push(entry.path.as_str().to_owned())
        });
        Self { taken }
    }

    /// The container's: `imsm0`, `imsm1`...
    pub(super) fn container(&mut self, array: &str, uuid: Uuid) -> Names {
        let path = self.free(&|n| format!("/dev/md/imsm{n}"));
        names(array, path, uuid)
    }

    /// A volume's: its own, with a number since this machine was not told that the array is its own.
    pub(super) fn volume(&mut self, array: &str, uuid: Uuid, name: &[u8]) -> Names {
        let path = self.free(&|n| format!("/dev/md/{}_{n}", LinkName(name)));
        names(array, path, uuid)
    }

    fn free(&mut self, path: &dyn Fn(u32) -> String) -> String {
        // There are at most 512 arrays.
        let free = (0..=512).map(path).find(|path| !self.taken.contains(path));
        let path = free.unwrap_or_default();
        self.taken.push(path.clone());
        path
    }
}

fn names(array: &str, path: String, uuid: impl fmt::Display) -> Names {
    Names {
        array: Text::of(format_args!("{array}")),
        path: Text::of(format_args!("{path}")),
        uuid: Text::of(format_args!("{uuid}")),
    }
}

/// The line of mdadm's map.
pub(super) fn entry(names: &Names, metadata: fmt::Arguments<'_>) -> map::Entry {
    map::Entry {
        name: names.array.clone(),
        metadata: Text::of(metadata),
        uuid: names.uuid.clone(),
        path: names.path.clone(),
    }
}
