//! What others' words on the kernel command line say about IMSM arrays: dracut's, mdadm's and anaconda's.
//!
//! | word | whose | what it does |
//! | --- | --- | --- |
//! | `rd.md=0`, `rd_NO_MD` | dracut | no md array is assembled in the initramfs |
//! | `rd.md.imsm=0`, `rd_NO_MDIMSM` | dracut | no IMSM array is |
//! | `noiswmd`, `nodmraid` | anaconda; dracut and mdadm's udev rules | the same, also after the initramfs |
//! | `rd.md.uuid=`, `rd_MD_UUID=` | dracut | these are and no others; each word adds one |
//! | `mdadm.imsm.test=1` | mdadm | a disk need not be below a controller of Intel's |
//!
//! They mean here what they mean there. dracut's booleans are false for `0`, `no` and `off`, and true for anything else,
//! also for nothing at all; the last word of a name wins. `rd_NO_MD` is looked at only where there is no `rd.md`;
//! `rd_NO_MDIMSM`, `noiswmd` and `nodmraid` only where there is no `rd.md.imsm`, and then they need no value and none makes
//! them false. Names are compared byte by byte: `-` is not `_` here. Unlike the kernel's, these words also count behind a
//! bare `--`. In a dracut image `/etc/cmdline.d` and others count too: their lines are put before the kernel's, as if they
//! were one.
//!
//! Sources: dracut's `parse-md.sh` (module mdraid), `getargbool` (`dracut-lib.sh`) and `src/util/util.c`; mdadm's
//! `check_no_platform` and `udev-md-raid-assembly.rules`.

use super::{List, Stage, Words};

/// What others' words come to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Foreign {
    /// The word that turns the assembly of IMSM arrays off. It is about what comes up by itself, not about what a person
    /// names.
    pub off: Option<&'static str>,
    /// `rd.md.uuid=`: where this is not empty, what does not stand here is not assembled. dracut compares it with the
    /// container's UUID.
    pub uuids: List,
    /// `mdadm.imsm.test=1`
    pub no_platform: bool,
}

impl Foreign {
    /// Reads a kernel command line, any bytes at all. dracut's words count where dracut would read them.
    #[must_use]
    pub fn from_cmdline(line: &[u8], stage: Stage) -> Self {
        let line = Line(line);
        let dracut = stage.prefers_rd();
        let mut uuids = List::EMPTY;
        if dracut {
            for name in ["rd.md.uuid", "rd_MD_UUID"] {
                line.list(name, &mut uuids);
            }
        }
        Self {
            off: if dracut { line.off_in_dracut() } else { None }.or_else(|| line.off(dracut)),
            uuids,
            no_platform: line
                .values("mdadm.imsm.test")
                .any(|value| value == Some(b"1")),
        }
    }
}

/// A kernel command line.
struct Line<'a>(&'a [u8]);

impl<'a> Line<'a> {
    /// The values of all words of this name; `None` where there is no `=`.
    fn values(&self, name: &str) -> impl Iterator<Item = Option<&'a [u8]>> {
        Words::all(self.0)
            .filter(move |(param, _)| *param == name.as_bytes())
            .map(|(_, value)| value)
    }

    fn has(&self, name: &str) -> bool {
        self.values(name).next().is_some()
    }

    /// dracut's `getargbool`; `None` where the word is not there.
    fn boolean(&self, name: &str) -> Option<bool> {
        let last = self.values(name).last()?;
        Some(!matches!(last, Some(b"0" | b"no" | b"off")))
    }

    fn off_in_dracut(&self) -> Option<&'static str> {
        match self.boolean("rd.md") {
            Some(false) => return Some("rd.md=0"),
            None if self.has("rd_NO_MD") => return Some("rd_NO_MD"),
            _ => {}
        }
        match self.boolean("rd.md.imsm") {
            Some(false) => Some("rd.md.imsm=0"),
            None if self.has("rd_NO_MDIMSM") => Some("rd_NO_MDIMSM"),
            _ => None,
        }
    }

    fn off(&self, dracut: bool) -> Option<&'static str> {
        if dracut && self.has("rd.md.imsm") {
            return None;
        }
        ["noiswmd", "nodmraid"]
            .into_iter()
            .find(|name| self.has(name))
    }

    /// Puts the values of a list's words into `uuids`. One without a value names nothing, but it is there: as with dracut,
    /// only what it names would be assembled. One with an empty value is as if it were not there.
    fn list(&self, name: &'static str, uuids: &mut List) {
        for value in self.values(name) {
            let value = value.map_or(Ok(name), core::str::from_utf8).unwrap_or(name);
            for piece in value.split_whitespace() {
                uuids.push(piece);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const UUID: &str = "1af9c5c2:d5a5c7a5:6b0ec1a7:c2ab5a3d";
    const OTHER: &str = "00000000:11111111:22222222:33333333";

    fn initrd(line: &str) -> Foreign {
        Foreign::from_cmdline(line.as_bytes(), Stage::Initrd)
    }

    #[test]
    fn nothing_said_is_nothing_wanted() {
        for line in [
            "",
            "root=/dev/md126p2 quiet",
            "rd.md",
            "rd.md=1",
            "rd.md=",
            "rd.md=true",
            "rd.md.imsm",
            "rd.md.imsm=1",
            "rd.md_imsm=0",
            "rd.MD=0",
            "rd.md.ddf=0 noddfmd",
            "xnoiswmd noiswmdx no-iswmd",
            "rd.md.uuid=",
            "mdadm.imsm.test mdadm.imsm.test=0 mdadm.imsm.test=11 mdadm.imsm.test=",
        ] {
            assert_eq!(initrd(line), Foreign::default(), "{line}");
        }
    }

    #[test]
    fn words_that_turn_it_off() {
        for (line, word) in [
            ("rd.md=0", "rd.md=0"),
            ("rd.md=no", "rd.md=0"),
            ("rd.md=off", "rd.md=0"),
            ("rd.md rd.md=0", "rd.md=0"),
            ("rd_NO_MD", "rd_NO_MD"),
            ("rd_NO_MD=0", "rd_NO_MD"),
            ("rd.md.imsm=0", "rd.md.imsm=0"),
            ("\"rd.md.imsm=off\"", "rd.md.imsm=0"),
            ("rd_NO_MDIMSM", "rd_NO_MDIMSM"),
            ("noiswmd", "noiswmd"),
            ("noiswmd=0", "noiswmd"),
            ("nodmraid", "nodmraid"),
            ("nodmraid noiswmd", "noiswmd"),
            // Behind the kernel's end of words, too.
            ("quiet -- noiswmd", "noiswmd"),
            // Of md as a whole before what is said of IMSM.
            ("rd.md.imsm=1 rd.md=0", "rd.md=0"),
            ("noiswmd rd.md=0", "rd.md=0"),
        ] {
            assert_eq!(initrd(line).off, Some(word), "{line}");
        }
    }

    #[test]
    fn the_last_word_of_a_name_wins_and_the_new_name_over_the_old() {
        for line in [
            "rd.md=0 rd.md=1",
            "rd.md=0 rd.md",
            "rd_NO_MD rd.md=1",
            "rd.md.imsm=0 rd.md.imsm=1",
            "rd.md.imsm=1 rd_NO_MDIMSM",
            "rd.md.imsm noiswmd nodmraid",
        ] {
            assert_eq!(initrd(line).off, None, "{line}");
        }
    }

    #[test]
    fn dracuts_words_are_for_the_initramfs_and_the_others_for_everywhere() {
        let line = format!("rd.md=0 rd.md.imsm=0 rd.md.uuid={UUID} mdadm.imsm.test=1");
        let person = Foreign::from_cmdline(line.as_bytes(), Stage::Person);
        let expected = Foreign {
            no_platform: true,
            ..Foreign::default()
        };
        assert_eq!(person, expected);
        // As mdadm's udev rules have it, which know no rd.md.imsm.
        let person = Foreign::from_cmdline(b"rd.md.imsm=1 nodmraid", Stage::Person);
        assert_eq!(person.off, Some("nodmraid"));
    }

    #[test]
    fn every_uuid_counts() {
        let found = initrd(&format!("rd.md.uuid={UUID} quiet rd_MD_UUID={OTHER}")).uuids;
        assert!(found.has_uuid(UUID) && found.has_uuid(OTHER));
        let one = initrd(&format!(
            "rd.md.uuid={} rd.md.uuid=",
            UUID.replace(':', "-")
        ))
        .uuids;
        assert!(one.has_uuid(UUID) && !one.has_uuid(OTHER));
        let two = initrd(&format!("rd.md.uuid=\"{UUID} {OTHER}\"")).uuids;
        assert!(two.has_uuid(UUID) && two.has_uuid(OTHER));
        // What names nothing still keeps all others out.
        let none = Foreign::from_cmdline(b"rd.md.uuid=\xff rd.md.uuid", Stage::Initrd).uuids;
        assert!(!none.is_empty() && !none.has_uuid(UUID));
    }

    #[test]
    fn the_platform_is_not_asked_for_where_mdadm_would_not_ask() {
        for line in ["mdadm.imsm.test=1", "mdadm.imsm.test=1 mdadm.imsm.test=0"] {
            for stage in Stage::ALL {
                assert!(Foreign::from_cmdline(line.as_bytes(), stage).no_platform);
            }
        }
    }
}
