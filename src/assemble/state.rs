//! What one call of `assemble` leaves for the next, in /run/quell/assembly: `key=value` lines.
//!
//! | key | |
//! | --- | --- |
//! | `boot_id` | another boot's file says nothing |
//! | `first_seen_ms` | when the first member of any container was seen, in milliseconds since boot (CLOCK_BOOTTIME) |
//! | `decided` | 1: there is nothing to wait for, no call is needed; 0: call again |
//! | `seen.UUID` | when the first member of that container was seen |
//! | `disks` | which disks there were, as a number: while it stays the same nothing needs to be read |
//! | `until_ms` | when there is something to do even so; none: never |
//! | `said` | what was said last, as a number: the initrd's loop need not hear it twice a second |
//!
//! The initrd's loop reads `decided`; the rest is quell's own.

use crate::deadline::now_ms;
use crate::imsm::Uuid;
use crate::sys::Root;
use crate::sys::proc::boot_id;

const DIR: &str = "/run/quell";
const FILE: &str = "/run/quell/assembly";
/// Containers whose UUIDs stand here, one a line, are mdadm's.
pub(super) const FOR_MDADM: &str = "/run/quell/for-mdadm";
/// More than any machine's.
const BYTES: usize = 16 * 1024;

/// The file's content.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct State {
    /// `first_seen_ms`
    pub(super) first_seen_ms: Option<u64>,
    /// `decided`
    pub(super) decided: bool,
    /// `seen.UUID`
    pub(super) seen: Vec<(String, u64)>,
    /// `disks`
    pub(super) disks: Option<u64>,
    /// `until_ms`
    pub(super) until_ms: Option<u64>,
    /// `said`
    pub(super) said: Option<u64>,
}

impl State {
    /// What an earlier call of this boot left.
    pub(super) fn load(root: &Root) -> Self {
        let mut buf = vec![0; BYTES];
        let text = root.read(FILE, &mut buf).unwrap_or_default();
        let mut id = [0; 64];
        Self::parse(text, boot_id(root, &mut id))
    }

    fn parse(text: &[u8], boot_id: &[u8]) -> Self {
        let mut state = Self::default();
        let mut ours = false;
        for line in text.split(|&b| b == b'\n') {
            let Some((key, value)) = core::str::from_utf8(line)
                .ok()
                .and_then(|l| l.split_once('='))
            else {
                continue;
            };
            let number = value.parse().ok();
            match (key, key.strip_prefix("seen.")) {
                ("boot_id", _) => ours = value.as_bytes() == boot_id,
                ("first_seen_ms", _) => state.first_seen_ms = number,
                ("decided", _) => state.decided = value == "1",
                ("disks", _) => state.disks = number,
                ("until_ms", _) => state.until_ms = number,
                ("said", _) => state.said = number,
                (_, Some(uuid)) => state.seen.extend(number.map(|ms| (uuid.to_owned(), ms))),
                _ => {}
            }
        }
        if ours { state } else { Self::default() }
    }

    fn text(&self, boot_id: &[u8]) -> String {
        use core::fmt::Write as _;
        let mut text = format!("boot_id={}\n", crate::text::Printable(boot_id));
        let number = |text: &mut String, key: &str, value: Option<u64>| {
            if let Some(value) = value {
                let _ = writeln!(text, "{key}={value}");
            }
        };
        number(&mut text, "first_seen_ms", self.first_seen_ms);
        number(&mut text, "decided", Some(u64::from(self.decided)));
        number(&mut text, "disks", self.disks);
        number(&mut text, "until_ms", self.until_ms);
        number(&mut text, "said", self.said);
        for (uuid, ms) in &self.seen {
            let _ = writeln!(text, "seen.{uuid}={ms}");
        }
        text
    }

    /// When the first member of a container was seen: now, if this is it.
    pub(super) fn seen_ms(&mut self, uuid: Uuid) -> u64 {
        let uuid = uuid.to_string();
        if let Some((_, ms)) = self.seen.iter().find(|(known, _)| *known == uuid) {
            return *ms;
        }
        let now = now_ms();
        self.seen.push((uuid, now));
        self.first_seen_ms.get_or_insert(now);
        now
    }

    /// Leaves it for the next call, with the UUIDs of what is mdadm's.
    pub(super) fn store(&self, root: &Root, for_mdadm: &[String]) -> Result<(), rustix::io::Errno> {
        let mut id = [0; 64];
        root.make_dir(DIR)?;
        // Read by whoever learns that it is decided, so it comes first.
        let uuids: String = for_mdadm.iter().map(|uuid| format!("{uuid}\n")).collect();
        if !uuids.is_empty() || root.exists(FOR_MDADM) {
            root.replace(FOR_MDADM, uuids.as_bytes())?;
        }
        root.replace(FILE, self.text(boot_id(root, &mut id)).as_bytes())
    }
}

/// Whether a container was left to mdadm.
pub(super) fn is_for_mdadm(root: &Root, uuid: Uuid) -> bool {
    let mut buf = vec![0; BYTES];
    let text = root.read(FOR_MDADM, &mut buf).unwrap_or_default();
    let uuid = uuid.to_string();
    text.split(|&b| b == b'\n')
        .any(|line| line == uuid.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_one_call_leaves_the_next_finds() {
        let state = State {
            first_seen_ms: Some(4_000),
            decided: true,
            seen: vec![("0d9dd856:5f019b3d:8ff3c97d:733f2f8a".into(), 4_000)],
            disks: Some(u64::MAX),
            until_ms: Some(34_000),
            said: Some(0),
        };
        let text = state.text(b"0b1c");
        assert_eq!(State::parse(text.as_bytes(), b"0b1c"), state);
        assert_eq!(State::parse(text.as_bytes(), b"another"), State::default());
    }

    #[test]
    fn what_is_not_understood_says_nothing() {
        let text = b"boot_id=x\nfirst_seen_ms=many\nnonsense\n\xff=1\ndecided=2\nseen.u=-1\n";
        assert_eq!(State::parse(text, b"x"), State::default());
    }
}
