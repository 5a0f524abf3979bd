//! Makes md arrays, empty: what they are called must be known before anything is written into them.

use rustix::io::Errno;

use super::build::{BUSY_MS, Failure, PAUSE};
use crate::deadline::Deadline;
use crate::errno::Cause;
use crate::pool::{Crew, MESSAGE, Reply};
use crate::sys::md::{self, State, conf};
use crate::sys::{Root, program};
use crate::text::Text;

/// An array that is to be made.
#[derive(Clone, Debug, Default)]
pub(super) struct Wanted {
    /// One that is in its way, stopped and to be cleared first.
    pub(super) in_the_way: Option<String>,
    /// The number that mdadm.conf asks for.
    pub(super) number: Option<u32>,
    /// It is not made: its number is only not given to others.
    pub(super) only_kept: bool,
}

/// Makes the arrays that are wanted, before it is known what they are called. One worker does it.
pub(super) struct Creator<'a> {
    /// Where.
    pub(super) root: &'a Root,
    /// The arrays, in order.
    pub(super) wanted: &'a [Wanted],
    /// Arrays that are in nobody's use, and are cleared first.
    pub(super) litter: &'a [String],
    /// Arrays that are there and empty.
    pub(super) empty: &'a [String],
    /// Until when.
    pub(super) deadline: Deadline,
}

/// The numbers that can be had. mdadm takes an array that is there and empty for none.
pub(super) struct Numbers<'a> {
    root: &'a Root,
    empty: &'a [String],
    litter: &'a [String],
    given: Vec<u32>,
}

impl<'a> Numbers<'a> {
    /// `litter` is there and will not be.
    pub(super) fn new(root: &'a Root, empty: &'a [String], litter: &'a [String]) -> Self {
        Self {
            root,
            empty,
            litter,
            given: Vec::new(),
        }
    }

    /// The one that is asked for, else the first in mdadm's order that mdadm.conf gives to no other. `make` makes what is not
    /// there; false: somebody else has.
    pub(super) fn take(
        &mut self,
        wanted: &Wanted,
        make: &mut dyn FnMut(&str) -> Result<bool, Failure>,
    ) -> Result<md::Name, Failure> {
        for number in wanted.number.into_iter().chain(md::numbers()) {
            let name: md::Name = Text::of(format_args!("md{number}"));
            let is_asked_for = wanted.number == Some(number);
            if self.given.contains(&number)
                || !is_asked_for && !conf::is_free(self.root, name.as_str())
            {
                continue;
            }
            let is = |other: &String| other == name.as_str();
            let goes = self.litter.iter().chain(&wanted.in_the_way).any(is);
            let had = if !goes && !md::is_gone(self.root, name.as_str()) {
                self.empty.iter().any(is)
            } else {
                wanted.only_kept
                    || make(name.as_str()).or_else(|why| match is_asked_for {
                        // A number that the kernel does not take.
                        true => Ok(false),
                        false => Err(why),
                    })?
            };
            if had {
                self.given.push(number);
                return Ok(name);
            }
        }
        Err(Failure::of(format_args!("there are 512 arrays already")))
    }
}

impl Crew for Creator<'_> {
    fn work(&self, _: &[u8], reply: &Reply) {
        let tidied = self
            .load()
            .and_then(|()| self.litter.iter().try_for_each(|array| self.clear(array)));
        let made = tidied.and_then(|()| {
            let mut numbers = Numbers::new(self.root, self.empty, &[]);
            self.wanted.iter().try_for_each(|wanted| {
                if let Some(array) = &wanted.in_the_way {
                    self.clear(array)?;
                }
                let name = numbers.take(wanted, &mut |name| match md::create(self.root, name) {
                    Ok(()) => Ok(true),
                    // Somebody else was first, or the last one of that name is not gone yet.
                    Err(Errno::EXIST | Errno::BUSY) => Ok(false),
                    Err(errno) => Err(Failure::of(format_args!(
                        "{name} cannot be made: {}",
                        Cause(errno)
                    ))),
                })?;
                reply.say(name.as_str().as_bytes());
                Ok(())
            })
        });
        if let Err(Failure(why)) = made {
            let mut message = Text::<{ MESSAGE - 1 }>::of(format_args!("!"));
            message.add(format_args!("{why}"));
            reply.say(message.as_str().as_bytes());
        }
    }
}

impl Creator<'_> {
    fn load(&self) -> Result<(), Failure> {
        if md::is_present(self.root) {
            return Ok(());
        }
        let loaded = program::load_module(self.root, "md_mod", self.deadline);
        match loaded {
            Ok(()) if md::is_present(self.root) => Ok(()),
            Ok(()) => Err(Failure::of(format_args!(
                "md_mod was loaded and is not there"
            ))),
            Err(error) => Err(Failure::of(format_args!(
                "the kernel has no md, and md_mod cannot be loaded: modprobe: {error}"
            ))),
        }
    }

    /// Half of what somebody began: stopped, with nothing in it that would be lost.
    fn clear(&self, array: &str) -> Result<(), Failure> {
        let end = self.deadline.within_ms(BUSY_MS);
        loop {
            match md::state(self.root, array) {
                Err(_) => return Ok(()),
                Ok(State::Clear | State::Inactive) => {}
                Ok(state) => {
                    return Err(Failure::of(format_args!("{array} is {} now", state.word())));
                }
            }
            let cleared = self
                .root
                .write(md::attr(array, "array_state").as_str(), b"clear");
            if cleared.is_ok() && !md::exists(self.root, array) {
                return Ok(());
            }
            if end.is_over() {
                return match cleared {
                    // It goes when its last user does; its number is not used.
                    Ok(()) => Ok(()),
                    Err(errno) => Err(Failure::of(format_args!(
                        "{array} is stopped and cannot be cleared: {}",
                        Cause(errno)
                    ))),
                };
            }
            std::thread::sleep(PAUSE);
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    /// What is given, one after the other; `md9` cannot be made.
    fn given(conf: &str, there: &[&str], empty: &[&str], wanted: &[Wanted]) -> Vec<String> {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(dir.path().join("etc")).unwrap();
        std::fs::write(dir.path().join("etc/mdadm.conf"), conf).unwrap();
        for array in there.iter().chain(empty) {
            std::fs::create_dir_all(dir.path().join(format!("sys/block/{array}/md"))).unwrap();
        }
        let root = Root::below(dir.path().as_os_str()).unwrap();
        let empty: Vec<String> = empty.iter().map(|name| (*name).to_owned()).collect();
        let mut numbers = Numbers::new(&root, &empty, &[]);
        let take = |wanted| numbers.take(wanted, &mut |name| Ok(name != "md9"));
        let names = wanted.iter().map(take);
        names
            .map(|name| name.ok().unwrap().as_str().to_owned())
            .collect()
    }

    #[test]
    fn an_empty_array_has_its_place_in_the_order() {
        let wanted = [Wanted::default(), Wanted::default(), Wanted::default()];
        let order = given("", &[], &["md126"], &wanted);
        assert_eq!(order, ["md127", "md126", "md125"]);
        let order = given("", &["md127"], &["md5"], &wanted);
        assert_eq!(order, ["md126", "md125", "md124"]);
    }

    #[test]
    fn a_number_that_is_kept_is_given_to_nobody() {
        let kept = Wanted {
            only_kept: true,
            ..Wanted::default()
        };
        let order = given(
            "",
            &[],
            &["md126"],
            &[kept.clone(), kept, Wanted::default()],
        );
        assert_eq!(order, ["md127", "md126", "md125"]);
    }

    #[test]
    fn a_number_that_is_asked_for_is_had_if_it_can_be() {
        let five = Wanted {
            number: Some(5),
            ..Wanted::default()
        };
        let nine = Wanted {
            number: Some(9),
            ..Wanted::default()
        };
        let wanted = [five.clone(), five, nine];
        let conf = "ARRAY /dev/md5 UUID=1:2:3:4\nARRAY /dev/md127 UUID=1:2:3:5\n";
        assert_eq!(given(conf, &[], &[], &wanted), ["md5", "md126", "md125"]);
        assert_eq!(given(conf, &["md5"], &[], &wanted[..1]), ["md126"]);
        assert_eq!(given(conf, &[], &["md5"], &wanted[..1]), ["md5"]);
        let own = Wanted {
            in_the_way: Some("md127".to_owned()),
            ..Wanted::default()
        };
        assert_eq!(given("", &["md127"], &[], &[own]), ["md127"]);
    }
}
