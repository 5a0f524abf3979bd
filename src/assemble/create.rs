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
    /// Arrays that are there and empty: they are taken first.
    pub(super) empty: &'a [String],
    /// Until when.
    pub(super) deadline: Deadline,
}

impl Crew for Creator<'_> {
    fn work(&self, _: &[u8], reply: &Reply) {
        let tidied = self
            .load()
            .and_then(|()| self.litter.iter().try_for_each(|array| self.clear(array)));
        let made = tidied.and_then(|()| {
            let mut empty = self.empty.iter();
            let mut kept = Vec::new();
            self.wanted.iter().try_for_each(|wanted| {
                if let Some(array) = &wanted.in_the_way {
                    self.clear(array)?;
                }
                let name = self.make(wanted, &mut empty, &mut kept)?;
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

    /// Under the number that is asked for, else one that is there and empty, else the first that is free, not kept, and that
    /// mdadm.conf gives to no other.
    fn make(
        &self,
        wanted: &Wanted,
        empty: &mut dyn Iterator<Item = &String>,
        kept: &mut Vec<u32>,
    ) -> Result<md::Name, Failure> {
        if let Some(number) = wanted.number {
            let name: md::Name = Text::of(format_args!("md{number}"));
            if wanted.only_kept || md::create(self.root, name.as_str()).is_ok() {
                return Ok(name);
            }
        }
        if let Some(name) = empty.next() {
            return Ok(Text::of(format_args!("{name}")));
        }
        for number in md::free_numbers(self.root) {
            let name: md::Name = Text::of(format_args!("md{number}"));
            if kept.contains(&number) || !conf::is_free(self.root, name.as_str()) {
                continue;
            }
            if wanted.only_kept {
                kept.push(number);
                return Ok(name);
            }
            match md::create(self.root, name.as_str()) {
                Ok(()) => return Ok(name),
                // Somebody else was first, or the last one of that name is not gone yet.
                Err(Errno::EXIST | Errno::BUSY) => {}
                Err(errno) => {
                    return Err(Failure::of(format_args!(
                        "{name} cannot be made: {}",
                        Cause(errno)
                    )));
                }
            }
        }
        Err(Failure::of(format_args!("there are 512 arrays already")))
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
