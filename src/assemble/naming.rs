//! What arrays are called in /dev/md: as mdadm would call them, by mdadm.conf and by what is in use.

use core::cell::RefCell;
use core::fmt;

use super::Case;
use super::decide::Fate;
use crate::imsm::names::{Choice, Trust};
use crate::imsm::{Container, Plan, Uuid};
use crate::path;
use crate::sys::Root;
use crate::sys::md::conf::{self, InContainer, Wanted};
use crate::sys::md::links::Names;
use crate::sys::md::map;
use crate::text::Text;

/// Names of a container and of its volumes: those that are brought up, and those that cannot be.
pub(super) struct Christened {
    pub(super) container: Choice,
    /// By index.
    pub(super) volumes: Vec<Option<Choice>>,
}

/// Gives names, each once.
pub(super) struct Namer<'a> {
    root: &'a Root,
    given: RefCell<Vec<String>>,
}

impl<'a> Namer<'a> {
    pub(super) fn new(root: &'a Root) -> Self {
        Self {
            root,
            given: RefCell::default(),
        }
    }

    /// Names for what is to be brought up of a case.
    pub(super) fn christen(&self, case: &Case<'_, '_>) -> Christened {
        let uuid = case.container.uuid();
        let array = case.existing.map_or("", |existing| existing.name.as_str());
        let container = known(self.root, array)
            .or_else(|| self.name(&container(uuid.to_string().as_str()), array))
            .unwrap_or_else(|| Choice::linked("imsm", Trust::Format));
        // Who comes first has the plain name, where two come to the same: mdadm begins with the last volume.
        let mut volumes: Vec<_> = case
            .plans
            .iter()
            .zip(&case.decision.fates)
            .rev()
            .map(|(plan, fate)| {
                let existing = case
                    .existing
                    .and_then(|existing| existing.volume(plan.index));
                let array = existing.map_or("", |volume| volume.name.as_str());
                match fate {
                    Fate::Finish => {
                        known(self.root, array).or_else(|| self.volume(plan, uuid, &container))
                    }
                    Fate::Start | Fate::Not(_) => self.volume(plan, uuid, &container),
                    _ => None,
                }
            })
            .collect();
        volumes.reverse();
        Christened { volumes, container }
    }

    fn volume(&self, plan: &Plan<'_>, of: Uuid, container: &Choice) -> Option<Choice> {
        let (uuid, of) = (plan.uuid.to_string(), of.to_string());
        self.name(&volume(plan, &uuid, &of, container.path.as_str()), "")
    }

    fn name(&self, wanted: &Wanted<'_>, array: &str) -> Option<Choice> {
        let choice = conf::name_for(self.root, wanted, &|name| self.is_taken(name, array))?;
        self.given
            .borrow_mut()
            .push(choice.path.as_str().to_owned());
        Some(choice)
    }

    /// Given already, or another array's that is there and still called so. What mdadm's map calls by another name has only
    /// left the link behind.
    fn is_taken(&self, name: &str, array: &str) -> bool {
        let link = path!("/dev/md/{name}");
        let mut buf = [0; 256];
        let leads_to = self.root.link_name(link.as_str(), &mut buf);
        let other = leads_to.ok().and_then(|to| core::str::from_utf8(to).ok());
        let is_used = other.is_some_and(|other| {
            let called = known(self.root, other).map(|choice| choice.path);
            other != array
                && self.root.exists(link.as_str())
                && called.is_none_or(|path| path.as_str() == link.as_str())
        });
        is_used || self.given.borrow().iter().any(|path| path == link.as_str())
    }
}

/// What mdadm's map calls an array.
fn known(root: &Root, array: &str) -> Option<Choice> {
    let mut known = None;
    let read = map::read(root, &mut |entry| {
        if entry.name.as_str() == array {
            known = Some(Choice {
                path: entry.path,
                number: None,
            });
        }
    });
    read.ok().and(known)
}

fn container(uuid: &str) -> Wanted<'_> {
    Wanted {
        name: b"imsm",
        uuid,
        volume: None,
    }
}

fn volume<'a>(plan: &Plan<'a>, uuid: &'a str, of: &'a str, path: &'a str) -> Wanted<'a> {
    Wanted {
        name: plan.name,
        uuid,
        volume: Some(InContainer {
            uuid: of,
            // A number that is only now given is in nobody's configuration.
            array: "",
            path,
            index: plan.index,
        }),
    }
}

/// `ARRAY <ignore>` stands in mdadm.conf for the container.
pub(super) fn is_ignored(root: &Root, of: &Container<'_, '_>) -> bool {
    let uuid = of.uuid().to_string();
    conf::name_for(root, &container(&uuid), &|_| false).is_none()
}

/// It is taken unasked, or an ARRAY line is about it or one of its volumes.
pub(super) fn is_automatic(root: &Root, of: &Container<'_, '_>, plans: &[Plan<'_>]) -> bool {
    let uuid = of.uuid().to_string();
    let is_listed = |plan: &Plan<'_>| {
        let own = plan.uuid.to_string();
        conf::is_listed(root, &volume(plan, &own, &uuid, ""))
    };
    conf::is_automatic(root)
        || conf::is_listed(root, &container(&uuid))
        || plans.iter().any(is_listed)
}

/// `ARRAY <ignore>` for a volume.
pub(super) fn is_volume_ignored(root: &Root, of: &Container<'_, '_>, plan: &Plan<'_>) -> bool {
    let (uuid, of) = (plan.uuid.to_string(), of.uuid().to_string());
    conf::name_for(root, &volume(plan, &uuid, &of, ""), &|_| false).is_none()
}

/// By what an array is found.
pub(super) fn names(array: &str, choice: &Choice, uuid: impl fmt::Display) -> Names {
    Names {
        array: Text::of(format_args!("{array}")),
        path: choice.path.clone(),
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
